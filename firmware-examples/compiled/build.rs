//! Linker scripts: the memory of each program, and the layout of its runtime.

use std::{env, fs, path::PathBuf};

/// Bytes of static variables. The rest of the RAM is the stack's. It is below them, so that an overflow leaves the RAM.
const STATICS: u32 = 1024;
/// KB of flash and of RAM for each program.
const PROGRAMS: [(&str, [u32; 2]); 5] = [
    ("sample", [64, 96]),
    ("digits-cnn", [64, 40]),
    ("mnist-cnn", [256, 192]),
    ("mnist-cnn-int8", [256, 192]),
    ("quiet", [64, 40]),
];

fn main() {
    // A host only runs `cargo check`.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("TARGET").expect("cargo sets TARGET");
    // Start of flash and RAM of QEMU's boards: mps2-an505, virt, mps2-an386.
    let (flash, ram) = match target.as_str() {
        "thumbv8m.main-none-eabihf" => (0x1000_0000, 0x3800_0000),
        target if target.starts_with("riscv32") => (0x8000_0000u32, 0x8010_0000u32),
        _ => (0, 0x2000_0000),
    };
    for (program, [flash_kb, ram_kb]) in PROGRAMS {
        let stack = ram_kb * 1024 - STATICS;
        let mut memory = format!(
            "MEMORY {{\n  FLASH : ORIGIN = {flash:#x}, LENGTH = {flash_kb}K\n  STACK : ORIGIN = {ram:#x}, LENGTH = {stack}\n  RAM : \
             ORIGIN = {ram:#x} + {stack}, LENGTH = {STATICS}\n}}\n"
        );
        if target.starts_with("riscv32") {
            for (region, at) in
                [("TEXT", "FLASH"), ("RODATA", "FLASH"), ("DATA", "RAM"), ("BSS", "RAM"), ("HEAP", "RAM")]
            {
                memory += &format!("REGION_ALIAS(\"REGION_{region}\", {at});\n");
            }
            memory += "REGION_ALIAS(\"REGION_STACK\", STACK);\n";
        } else {
            memory += &format!("_stack_start = ORIGIN(RAM);\n_stack_end = {ram:#x};\n");
        }
        let folder = out.join(program);
        fs::create_dir_all(&folder).expect("the build folder can be written");
        fs::write(folder.join("memory.x"), memory).expect("the build folder can be written");
        println!("cargo:rustc-link-arg-bin={program}=-L{}", folder.display());
    }
    if target.starts_with("riscv32") {
        println!("cargo:rustc-link-arg-bins=-Tmemory.x");
    } else {
        println!("cargo:rustc-link-arg-bins=--nmagic");
    }
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
}
