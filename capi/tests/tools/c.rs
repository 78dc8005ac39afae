//! Compiles C against the library, and runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn temporary() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs a command in this folder and returns its standard output.
pub fn run(command: &mut Command) -> String {
    let output = command.current_dir(folder()).stdin(Stdio::null()).output().expect("the command can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Returns a command for a program, or prints that it is absent.
pub fn tool(name: &str) -> Option<Command> {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(Command::new(name));
    }
    damper_testing::skip(name, format_args!("there is no {name}"));
    None
}

/// Returns the static library of the release profile, which does not unwind.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = temporary().join("library");
        run(Command::new(env!("CARGO")).args(["build", "--locked", "--release", "--target-dir"]).arg(&target));
        target.join("release/libdamper_capi.a")
    })
}

pub const FLAGS: [&str; 10] = [
    "-std=c11",
    "-O1",
    "-g",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Iinclude",
    "-I../firmware-examples/c",
    "-Wa,-I../firmware-examples/program/data",
];

pub const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Compiles C sources with these flags and the default flags, links them with a library, and returns the image.
pub fn image(name: &str, sources: &[&str], library: &Path, flags: &[&str]) -> Option<PathBuf> {
    let mut gcc = tool("gcc")?;
    let image = temporary().join(name);
    run(gcc.args(FLAGS).args(flags).args(sources).arg(library).args(["-lm", "-pthread", "-ldl", "-o"]).arg(&image));
    Some(image)
}

/// Writes the README's program to a file, and returns its path.
pub fn page() -> String {
    let page = std::fs::read_to_string(folder().join("README.md")).expect("the page");
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let source = temporary().join("page.c");
    std::fs::write(&source, program).expect("the program can be written");
    source.to_string_lossy().into_owned()
}
