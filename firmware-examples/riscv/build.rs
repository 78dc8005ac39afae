//! Linker scripts: the board's memory and riscv-rt's layout.

use std::{env, fs, path::PathBuf};

/// Bytes of static variables. The rest of the RAM is the stack's, which is below them.
const STATICS: u32 = 1024;

const PROGRAMS: [&str; 13] = [
    "replay",
    "replay-further",
    "replay-wide",
    "replay-recorded",
    "train",
    "correlated",
    "federated",
    "personalise",
    "methods",
    "nn-vectors",
    "step",
    "journal",
    "costs",
];
/// Programs that must fit the smallest parts.
const SMALL: [&str; 2] = ["replay", "replay-further"];

fn main() {
    // A host only runs `cargo check` and clippy.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let small = env::var("OPT_LEVEL").is_ok_and(|level| level == "s");
    for program in PROGRAMS {
        // QEMU's virt has megabytes of RAM and starts in it. These are the sizes of a small part. The base set and the
        // further set, compiled for size, get those of the smallest part. So the linker refuses a program that would
        // not fit.
        let (flash_kb, ram_kb) = if SMALL.contains(&program) && small { (128, 8) } else { (512, 64) };
        let stack = ram_kb * 1024 - STATICS;
        let mut memory = format!(
            "MEMORY {{\n  FLASH : ORIGIN = 0x80000000, LENGTH = {flash_kb}K\n  STACK : ORIGIN = 0x80100000, LENGTH = {stack}\n  \
             RAM : ORIGIN = 0x80100000 + {stack}, LENGTH = {STATICS}\n}}\n"
        );
        for (region, at) in [
            ("TEXT", "FLASH"),
            ("RODATA", "FLASH"),
            ("DATA", "RAM"),
            ("BSS", "RAM"),
            ("HEAP", "RAM"),
            ("STACK", "STACK"),
        ] {
            memory += &format!("REGION_ALIAS(\"REGION_{region}\", {at});\n");
        }
        let folder = out.join(program);
        fs::create_dir_all(&folder).expect("the build folder can be written");
        fs::write(folder.join("memory.x"), memory).expect("the build folder can be written");
        println!("cargo:rustc-link-arg-bin={program}=-L{}", folder.display());
    }
    println!("cargo:rustc-link-arg-bins=-Tmemory.x");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
}
