//! Linker scripts: esp-hal's, which have the chip's memory, and defmt's.

fn main() {
    // A host only runs `cargo check` and clippy.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        for arg in ["-Tlinkall.x", "-Tdefmt.x"] {
            println!("cargo:rustc-link-arg-bins={arg}");
        }
    }
}
