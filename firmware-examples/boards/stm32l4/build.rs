//! Linker scripts: `memory.x` next to this file, cortex-m-rt's and defmt's.

fn main() {
    // A host only runs `cargo check` and clippy.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-search={}", env!("CARGO_MANIFEST_DIR"));
        println!("cargo:rerun-if-changed=memory.x");
        for arg in ["--nmagic", "-Tlink.x", "-Tdefmt.x"] {
            println!("cargo:rustc-link-arg-bins={arg}");
        }
    }
}
