//! A program for boards that compares the gradient of each network with the recorded gradient.

use damper_compile::{Compiled, CompiledFile};
use std::path::Path;
use std::process::Command;

/// Generates the program's crate for the networks from number `first`. It has 4 MB of flash and 4 MB of RAM, as on
/// QEMU's boards.
pub fn program(root: &Path, networks: &[Compiled], first: usize, dependencies: &str) -> Vec<CompiledFile> {
    let (mut functions, mut calls) = (String::new(), String::new());
    for (at, network) in (first..).zip(networks) {
        let text = |path: &str| {
            let file = network.files.iter().find(|file| file.path == path).unwrap();
            String::from_utf8_lossy(&file.bytes).into_owned()
        };
        // The inputs in the signature of `gradient`, such as `x: &[f32; 64], labels: &[i64; 1]`.
        let lib = text("src/lib.rs");
        let signature = lib.split("pub fn gradient(params: &[f32; PARAMS], ").nth(1).unwrap();
        let inputs = signature.split("memory: &mut Memory").next().unwrap();
        let (mut made, mut given) = (String::new(), String::new());
        for input in inputs.split("], ").filter(|input| !input.is_empty()) {
            let (name, of) = input.split_once(": &[").unwrap();
            let value = if of.starts_with("f32") { "|at| (at * 37 % 101) as f32 / 101.0" } else { "|_| 0" };
            made += &format!("    let {name}: [{of}] = core::array::from_fn({value});\n");
            given += &format!("&{name}, ");
        }
        functions += &format!(
            "#[inline(never)]\nfn n{at}() -> bool {{\n{made}    let (mut memory, mut grad) = (n{at}::Memory::new(), [0.0; n{at}::PARAMS]);\n    \
             n{at}::gradient(&n{at}::INITIAL, {given}black_box(&mut memory), &mut grad).is_ok()\n        && same(&grad, \
             include_bytes!(\"../../networks/n{at}/tests/gradient.f32\"))\n}}\n\n"
        );
        calls += &format!(", n{at}");
    }
    let main = format!("{MAIN}{functions}static NETWORKS: [fn() -> bool; {}] = [{}];\n", networks.len(), &calls[2..]);
    let firmware = root.join("firmware-examples");
    let manifest = format!(
        r#"[workspace]

[package]
name = "board"
version = "0.1.0"
edition = "2024"

[profile.release]
opt-level = "s"
lto = true
codegen-units = 1
panic = "abort"

[target.'cfg(target_arch = "arm")'.dependencies]
cortex-m-rt = "0.7.5"
damper-firmware-cortex-m = {{ path = {:?}, default-features = false }}

[target.'cfg(target_arch = "riscv32")'.dependencies]
damper-firmware-riscv = {{ path = {:?} }}
riscv-rt = "0.18.0"

[dependencies]
{dependencies}"#,
        firmware.join("cortex-m"),
        firmware.join("riscv"),
    );
    let file = |path: &str, text: &str| CompiledFile { path: path.into(), bytes: text.into() };
    vec![file("Cargo.toml", &manifest), file("build.rs", BUILD), file("src/main.rs", &main)]
}

/// Runs the program under QEMU. Fails on a non-zero exit status and shows the program's output.
pub fn run(root: &Path, target: &str, image: &Path) {
    let firmware = root.join("firmware-examples");
    let mut command = if target.starts_with("riscv") {
        Command::new(firmware.join("riscv/qemu"))
    } else {
        let mut command = Command::new(firmware.join("cortex-m/qemu"));
        command.arg(target);
        command
    };
    let output = command.arg(image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{target}: {said}");
    assert!(output.status.success(), "{target}: the count is of the networks that agree before one differs: {said}");
}

const MAIN: &str = r#"//! Gradients of networks have the host's bits on a board.
#![no_std]
#![no_main]

use core::hint::black_box;
#[cfg(target_arch = "arm")]
use damper_firmware_cortex_m::run;
#[cfg(target_arch = "riscv32")]
use damper_firmware_riscv::run;

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    run(|_| NETWORKS.iter().all(|network| network()))
}

fn same(grad: &[f32], recorded: &[u8]) -> bool {
    let recorded = recorded.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap_or_default()));
    grad.len() == recorded.len() && grad.iter().zip(recorded).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

"#;

const BUILD: &str = r#"use std::{env, fs, path::PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let target = env::var("TARGET").unwrap();
    let (flash, ram) = match target.as_str() {
        target if target.starts_with("riscv32") => ("0x80000000", "0x80400000"),
        _ => ("0", "0x20000000"),
    };
    let mut memory = format!("MEMORY {{\n  FLASH : ORIGIN = {flash}, LENGTH = 4M\n  STACK : ORIGIN = {ram}, LENGTH = 3M\n  RAM : ORIGIN = {ram} + 3M, LENGTH = 1M\n}}\n");
    if target.starts_with("riscv32") {
        for (region, at) in [("TEXT", "FLASH"), ("RODATA", "FLASH"), ("DATA", "RAM"), ("BSS", "RAM"), ("HEAP", "RAM")] {
            memory += &format!("REGION_ALIAS(\"REGION_{region}\", {at});\n");
        }
        memory += "REGION_ALIAS(\"REGION_STACK\", STACK);\n";
        println!("cargo:rustc-link-arg-bins=-Tmemory.x");
    } else {
        memory += &format!("_stack_start = ORIGIN(RAM);\n_stack_end = {ram};\n");
        println!("cargo:rustc-link-arg-bins=--nmagic");
    }
    fs::write(out.join("memory.x"), memory).unwrap();
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
}
"#;
