//! Linker scripts of both states: the halves of the board's memory, and the address of the veneers.

use std::{env, fs, path::PathBuf};

/// Memory of secure code and its veneers. In RAM the stack is below the statics, so that an overflow leaves the RAM and
/// faults.
const SECURE: &str = "MEMORY {
  FLASH : ORIGIN = 0x10000000, LENGTH = 256K - 32
  VENEERS : ORIGIN = 0x1003ffe0, LENGTH = 32
  RAM : ORIGIN = 0x38000000 + 48K, LENGTH = 16K
}
_stack_start = ORIGIN(RAM);
_stack_end = 0x38000000;
SECTIONS { .veneers : { KEEP(*(.veneers)) } > VENEERS }
";

const NON_SECURE: &str = "MEMORY {
  FLASH : ORIGIN = 0x00200000, LENGTH = 128K
  RAM : ORIGIN = 0x28200000, LENGTH = 64K
}
";

fn main() {
    // A host only runs `cargo check` and clippy.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (program, memory) in [("secure", SECURE), ("nonsecure", NON_SECURE)] {
        let folder = out.join(program);
        fs::create_dir_all(&folder).expect("the build folder can be written");
        fs::write(folder.join("memory.x"), memory).expect("the build folder can be written");
        println!("cargo:rustc-link-arg-bin={program}=-L{}", folder.display());
    }
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rustc-link-arg-bins=--nmagic");
}
