//! Linker scripts: the board's memory, cortex-m-rt's layout, and defmt's section of strings if it is linked.

use std::{env, fs, path::PathBuf};

/// Bytes of static variables. The rest of the RAM is the stack's. It is below them, so that an overflow leaves the RAM
/// and faults instead of writing into them.
const STATICS: u32 = 1024;

const PROGRAMS: [&str; 20] = [
    "replay",
    "replay-further",
    "replay-wide",
    "replay-recorded",
    "train",
    "correlated",
    "federated",
    "personalise",
    "dp-sgd",
    "methods",
    "nn-vectors",
    "step",
    "erase",
    "self-test",
    "price",
    "timing",
    "sample",
    "journal",
    "costs",
    "background",
];
/// Programs that must fit the smallest parts.
const SMALL: [&str; 2] = ["replay", "replay-further"];
/// Programs that can log their lines with defmt.
const LOGGING: [&str; 4] = ["train", "correlated", "federated", "personalise"];

/// Start of flash and RAM of the QEMU board for a target, and KB of each. The sizes are those of a chip with the
/// board's processor, or of a small part if QEMU has megabytes. So the linker refuses a program that would not fit.
fn board(target: &str) -> (u32, u32, [u32; 2]) {
    match target {
        // microbit: a Cortex-M0.
        "thumbv6m-none-eabi" => (0, 0x2000_0000, [256, 16]),
        // lm3s6965evb: a Cortex-M3.
        "thumbv7m-none-eabi" => (0, 0x2000_0000, [256, 64]),
        // mps2-an505: a Cortex-M33.
        "thumbv8m.main-none-eabihf" => (0x1000_0000, 0x3800_0000, [256, 64]),
        // mps2-an386: a Cortex-M4F.
        _ => (0, 0x2000_0000, [256, 64]),
    }
}

fn main() {
    // A host only runs `cargo check` and clippy.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (flash, ram, size) = board(&env::var("TARGET").expect("cargo sets TARGET"));
    let small = env::var("OPT_LEVEL").is_ok_and(|level| level == "s");
    for program in PROGRAMS {
        // Compiled for size, the base set must fit the smallest parts, and so must the further set.
        let [flash_kb, ram_kb] = if SMALL.contains(&program) && small { [128, 8] } else { size };
        let stack = ram_kb * 1024 - STATICS;
        let memory = format!(
            "MEMORY {{\n  FLASH : ORIGIN = {flash:#x}, LENGTH = {flash_kb}K\n  RAM : ORIGIN = {ram:#x} + {stack}, \
             LENGTH = {STATICS}\n}}\n_stack_start = ORIGIN(RAM);\n_stack_end = {ram:#x};\n"
        );
        let folder = out.join(program);
        fs::create_dir_all(&folder).expect("the build folder can be written");
        fs::write(folder.join("memory.x"), memory).expect("the build folder can be written");
        println!("cargo:rustc-link-arg-bin={program}=-L{}", folder.display());
    }
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rustc-link-arg-bins=--nmagic");
    if env::var_os("CARGO_FEATURE_DEFMT").is_some() {
        for program in LOGGING {
            println!("cargo:rustc-link-arg-bin={program}=-Tdefmt.x");
        }
    } else {
        // Functions that compile to the same bytes (one for each type) are linked once. This is off with defmt, which
        // distinguishes lines by the addresses of equal bytes.
        println!("cargo:rustc-link-arg-bins=--icf=all");
    }
}
