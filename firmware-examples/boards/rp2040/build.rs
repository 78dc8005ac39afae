//! Linker scripts: `memory.x` beside this file, cortex-m-rt's and defmt's.

fn main() {
    // On a host only `cargo check` and clippy come here.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-search={}", env!("CARGO_MANIFEST_DIR"));
        println!("cargo:rerun-if-changed=memory.x");
        for arg in ["--nmagic", "-Tlink.x", "-Tlink-rp.x", "-Tdefmt.x"] {
            println!("cargo:rustc-link-arg-bins={arg}");
        }
    }
}
