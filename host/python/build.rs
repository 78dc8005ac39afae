//! Lets macOS's linker leave Python's symbols undefined. The interpreter that loads the module has them.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
