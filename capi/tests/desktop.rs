//! The library from C on this machine: the header is the code's, C and C++ compile it, every method ends with Rust's digest,
//! misuse is answered, and the page's program runs. C is compiled with AddressSanitizer and UndefinedBehaviorSanitizer.

use damper_core::accounting::renyi::RenyiCurve;
use damper_core::accounting::{Event, Rate, RenyiFilter};
use damper_firmware_program::methods::{METHODS, Method, NAMES};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn temporary() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs a command in this folder; its standard output.
fn run(command: &mut Command) -> String {
    let output = command.current_dir(folder()).stdin(Stdio::null()).output().expect("the command can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// A compiler that is there, or a line that says it is not.
fn compiler(name: &str) -> Option<Command> {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(Command::new(name));
    }
    println!("skipped: there is no {name}");
    None
}

/// The static library as it is shipped: of the release profile, which does not unwind.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = temporary().join("library");
        run(Command::new(env!("CARGO")).args(["build", "--locked", "--release", "--target-dir"]).arg(&target));
        target.join("release/libdamper_capi.a")
    })
}

const FLAGS: [&str; 12] = [
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
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];

/// Compiles C sources with sanitizers, links them with the library and runs them; what they say.
fn run_c(name: &str, sources: &[&str]) -> Option<String> {
    let mut gcc = compiler("gcc")?;
    let image = temporary().join(name);
    run(gcc.args(FLAGS).args(sources).arg(library()).args(["-lm", "-pthread", "-o"]).arg(&image));
    let symbols = run(Command::new("nm").arg("--demangle").arg(&image));
    assert!(!symbols.contains("core::panicking") && symbols.contains("damper_step_open"), "a panic in {name}");
    Some(run(&mut Command::new(&image)))
}

#[test]
fn the_header_is_made_from_the_code() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("cbindgen.toml");
    let bindings = cbindgen::Builder::new().with_crate(folder()).with_config(config).generate().expect("a header");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let path = folder().join("include/damper.h");
    if std::env::var_os("DAMPER_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("the header can be written");
    }
    let committed = fs::read(&path).expect("the header");
    assert!(made == committed, "include/damper.h is not what cbindgen makes: run with DAMPER_WRITE_HEADER=1");
}

#[test]
fn c_and_cpp_compile_the_header() {
    for (name, language, standard) in [("gcc", "c", "-std=c99"), ("gcc", "c", "-std=c11"), ("g++", "c++", "-std=c++11")]
    {
        let Some(mut compiler) = compiler(name) else { continue };
        run(compiler
            .args(["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
            .arg("include/damper.h"));
    }
    let Some(mut compiler) = compiler("g++") else { return };
    let image = temporary().join("cpp");
    run(compiler.args(["-Wall", "-Werror", "-Iinclude", "tests/c/header.cpp"]).arg(library()).arg("-o").arg(&image));
    run(&mut Command::new(image));
}

#[test]
fn every_method_ends_in_c_with_the_digest_of_rust() {
    let Some(said) = run_c("methods", &["tests/c/methods.c", "../firmware-examples/c/digits.S"]) else { return };
    let digests: Vec<(&str, &str)> = said.lines().filter_map(|line| line.rsplit_once(' ')).collect();
    for (&Method { digest, .. }, name) in METHODS.iter().zip(NAMES) {
        let of_c = digests.iter().find(|(of, _)| *of == name).map(|(_, digest)| *digest);
        assert_eq!(of_c, Some(format!("{digest:016x}").as_str()), "{name}");
    }
    // And one filter by its name.
    assert_eq!(digests.len(), METHODS.len() + 1);
}

#[test]
fn every_function_of_the_header_is_misused_or_trains() {
    let read = |path: &str| fs::read_to_string(folder().join(path)).expect("a source");
    let header = read("include/damper.h");
    let tests = [
        "tests/c/misuse.c",
        "tests/c/resume.c",
        "tests/c/methods.c",
        "tests/c/check.h",
        "../firmware-examples/c/methods.h",
    ]
    .map(read)
    .concat();
    let names: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with(' ') && line.contains('('))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("damper_"))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(tests.contains(&format!("{name}(")), "{name} is in no test");
    }
}

#[test]
fn misuse_is_answered_and_changes_nothing() {
    let Some(said) = run_c("misuse", &["tests/c/misuse.c"]) else { return };
    let event = Event::new(Rate::of(1, 100).unwrap(), 1.0).unwrap();
    let mut curve = RenyiCurve::EMPTY;
    curve.add(&event, 1000);
    let epsilon: f64 = said.trim().strip_prefix("epsilon ").and_then(|text| text.parse().ok()).unwrap();
    assert_eq!(epsilon.to_bits(), curve.epsilon(1e-5).unwrap().epsilon.to_bits());
}

/// The filter's steps are those that the core admits: the cheapest that were tried.
#[test]
fn shards_filters_and_saved_states_give_the_same_bits_and_answer_misuse() {
    let Some(said) = run_c("resume", &["tests/c/resume.c"]) else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{said}");
    let (steps, spent) = lines[0].strip_prefix("filter ").and_then(|line| line.split_once(" steps, spent ")).unwrap();
    let filter = RenyiFilter::resume(8, 3.0, 1e-5, steps.parse().unwrap(), spent.parse().unwrap()).unwrap();
    let event = |multiplier| Event::new(Rate::of(1, 50).unwrap(), multiplier).unwrap();
    assert!(filter.spent() <= filter.budget() && !filter.admits(&event(1.0)));
}

#[test]
fn the_program_of_the_page_runs() {
    let page = fs::read_to_string(folder().join("README.md")).expect("the page");
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let source = temporary().join("page.c");
    fs::write(&source, program).expect("the program can be written");
    let Some(said) = run_c("page", &[&source.to_string_lossy()]) else { return };
    let expected = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("what it says");
    assert_eq!(said, expected);
}
