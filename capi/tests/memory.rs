//! The library's own use of memory. Valgrind's memcheck detects reads of uninitialised memory in the release build, and
//! AddressSanitizer also checks the Rust code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

#[path = "tools/c.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod c;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Returns every C program of the tests, by name, with its sources.
fn programs() -> [(&'static str, Vec<String>); 9] {
    [
        ("fresh", vec!["tests/c/fresh.c".to_owned()]),
        ("misuse", vec!["tests/c/misuse.c".to_owned()]),
        ("key", vec!["tests/c/key.c".to_owned()]),
        ("charges", vec!["tests/c/charges.c".to_owned()]),
        ("resume", vec!["tests/c/resume.c".to_owned()]),
        ("journal", vec!["tests/c/journal.c".to_owned()]),
        ("header", vec!["tests/c/header.c".to_owned()]),
        ("methods", vec!["tests/c/methods.c".to_owned(), "../firmware-examples/c/digits.S".to_owned()]),
        ("page", vec![c::page()]),
    ]
}

fn image(prefix: &str, name: &str, sources: &[String], library: &Path, flags: &[&str]) -> Option<PathBuf> {
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    c::image(&format!("{prefix}-{name}"), &sources, library, flags)
}

/// Returns a command for valgrind that fails on any finding.
fn memcheck() -> Option<Command> {
    let mut valgrind = c::tool("valgrind")?;
    valgrind.args(["--quiet", "--error-exitcode=99", "--track-origins=yes", "--leak-check=full", "--"]);
    Some(valgrind)
}

#[test]
fn memcheck_finds_nothing() {
    for (name, sources) in programs() {
        let Some(mut valgrind) = memcheck() else { return };
        let Some(image) = image("memcheck", name, &sources, c::library(), &[]) else { return };
        c::run(valgrind.arg(image));
    }
}

/// A control: memcheck detects a read like that of a mark before `damper_run_init`.
#[test]
fn memcheck_finds_a_read_of_fresh_memory() {
    let Some(mut valgrind) = memcheck() else { return };
    let source = c::temporary().join("control.c");
    let program = "#include <stdio.h>\n\
        #include <stdlib.h>\n\
        int main(void) {\n\
          volatile size_t *mark = malloc(64);\n\
          if (mark && *mark == 7) puts(\"seven\");\n\
          free((void *)mark);\n\
          return 0;\n\
        }\n";
    std::fs::write(&source, program).expect("a file");
    let sources = [source.to_string_lossy().into_owned()];
    // The compiler detects it too.
    let flags = ["-Wno-maybe-uninitialized"];
    let Some(image) = image("memcheck", "control", &sources, c::library(), &flags) else { return };
    let output = valgrind.arg(image).output().expect("valgrind");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(99) && said.contains("depends on uninitialised value"),
        "{}: {said}",
        output.status
    );
}

/// Builds the library with AddressSanitizer and the standard library's checks of unsafe preconditions. A failed check
/// unwinds to the FFI boundary and ends the program.
fn sanitized() -> Option<&'static Path> {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        damper_testing::skip("sanitizer", format_args!("AddressSanitizer in the library, which is for {TARGET} here"));
        return None;
    }
    Some(LIBRARY.get_or_init(|| {
        let target = c::temporary().join("sanitized");
        // The sanitizer is an option of nightly. The compiler and its library stay those of the tests.
        c::run(
            Command::new(env!("CARGO"))
                .env("RUSTC_BOOTSTRAP", "1")
                .env("RUSTFLAGS", "-Zsanitizer=address -Cdebug-assertions -Coverflow-checks")
                .env_remove("CARGO_ENCODED_RUSTFLAGS")
                .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
                .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
                .args(["build", "--locked", "--release", "--target", TARGET, "--target-dir"])
                .arg(&target),
        );
        target.join(TARGET).join("release/libdamper_capi.a")
    }))
}

#[test]
fn address_sanitizer_finds_nothing() {
    let Some(library) = sanitized() else { return };
    for (name, sources) in programs() {
        let Some(image) = image("sanitized", name, &sources, library, &c::SANITIZERS) else { return };
        let symbols = c::run(Command::new("nm").arg(&image));
        assert!(
            symbols.contains("__asan_report_load") && symbols.contains("damper_run_init"),
            "{name} is not sanitized"
        );
        c::run(&mut Command::new(image));
    }
}

/// A control: AddressSanitizer detects the library's own write past the end of a buffer.
#[test]
fn address_sanitizer_sees_the_library() {
    let Some(library) = sanitized() else { return };
    let source = c::temporary().join("short.c");
    let program = "#include \"damper.h\"\n#include <stdlib.h>\n\
        int main(void) {\n\
          damper_run *run;\n\
          size_t size = damper_run_size(3, 0, 0);\n\
          return damper_run_init(malloc(size - 8), size, 3, &run) == DAMPER_STATUS_OK;\n\
        }\n";
    std::fs::write(&source, program).expect("a file");
    let sources = [source.to_string_lossy().into_owned()];
    let Some(image) = image("sanitized", "short", &sources, library, &c::SANITIZERS) else { return };
    let output = Command::new(image).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("heap-buffer-overflow"), "{}: {said}", output.status);
}
