//! Writes the vectors as constants, because a board has no text to read, and no memory to read it into.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    const TEXT: &str = "../../nn/vectors/vectors.txt";
    println!("cargo:rerun-if-changed={TEXT}");
    println!("cargo:rustc-check-cfg=cfg(little_ram)");
    if env::var("TARGET").is_ok_and(|target| target.starts_with("thumbv6m")) {
        println!("cargo:rustc-cfg=little_ram");
    }
    let text = fs::read_to_string(TEXT).expect("the vectors are in the repository");
    let mut code = String::from("&[\n");
    for line in text.lines() {
        let mut fields = line.split(" | ");
        let mut head = fields.next().unwrap_or_default().split(' ');
        let name = head.next().unwrap_or_default();
        let sizes: Vec<&str> = head.collect();
        let floats = |field: &str| {
            let bits: Vec<String> = field.split_whitespace().map(|bits| format!("f(0x{bits})")).collect();
            format!("&[{}]", bits.join(", "))
        };
        let mut all: Vec<String> = fields.map(floats).collect();
        let output = all.pop().expect("a vector has an output");
        let (sizes, operands) = (sizes.join(", "), all.join(", "));
        writeln!(
            code,
            "KernelVector {{ name: {name:?}, sizes: &[{sizes}], operands: &[{operands}], output: {output} }},"
        )
        .expect("text can be written");
    }
    code.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("vectors.rs"), code).expect("the build folder can be written");
}
