//! The header: generated from the code, valid C89 and C++98, with the library's version.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

#[path = "tools/c.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod c;

/// Converts cbindgen's output to C89 and C++98.
///
/// Enumerations have no underlying type, and their name stands for the integer that functions take and return. The last
/// enumerator has no comma after it, and line comments are absent. All declarations of functions and their types are
/// within `extern "C"`. Each function that returns a status is marked.
fn as_c89(made: &str) -> String {
    let mut header = String::new();
    let mut lines = made.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.replace("#endif // __cplusplus", "#endif").replace("#endif  // __cplusplus", "#endif");
        let line = line.replace("}  // extern \"C\"", "}").replace("#endif  /* DAMPER_H */", "#endif /* DAMPER_H */");
        match line.as_str() {
            // The other half of this guard is at the end.
            "#ifdef __cplusplus" if lines.peek() == Some(&"extern \"C\" {") => {
                lines.nth(1);
            }
            "#include <stdint.h>" => {
                header += "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
            }
            _ if line.starts_with("enum ") => {
                let name = line.trim_start_matches("enum ").to_owned();
                let integer = lines.nth(1).expect("its type").trim().trim_start_matches(": ").to_owned();
                assert!(integer == "int32_t" || integer == "uint32_t", "{name}: {integer}");
                assert_eq!(lines.nth(1), Some(" {"));
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "};").collect();
                let body = body.join("\n");
                header += &format!("typedef {integer} {name};\nenum {{\n{}\n}};\n", body.trim_end_matches(','));
                // cbindgen declares the integer type here.
                assert_eq!(lines.next(), Some("#ifndef __cplusplus"));
                assert_eq!(lines.nth(5), Some("#endif // __cplusplus"));
            }
            _ => {
                if line.starts_with("damper_status damper_") {
                    header += "DAMPER_MUST_USE\n";
                }
                header += &line;
                header.push('\n');
            }
        }
    }
    header
}

#[test]
fn the_header_is_made_from_the_code() {
    let config = cbindgen::Config::from_file(c::folder().join("cbindgen.toml")).expect("cbindgen.toml");
    let bindings = cbindgen::Builder::new().with_crate(c::folder()).with_config(config).generate().expect("a header");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = as_c89(&String::from_utf8(made).expect("text"));
    let path = c::folder().join("include/damper.h");
    if std::env::var_os("DAMPER_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).expect("the header");
    assert!(made == committed, "include/damper.h is not what cbindgen makes: run with DAMPER_WRITE_HEADER=1");
}

/// Compiles the header alone, and a program that uses its macros, in the oldest and the newest standard.
#[test]
fn every_standard_compiles_the_header() {
    let compilers = [
        ("gcc", "c", &["c89", "gnu89", "c99", "c11", "c17", "c2x"][..], "tests/c/header.c"),
        ("clang", "c", &["c89", "gnu89", "c99", "c11", "c17", "c2x"], "tests/c/header.c"),
        ("g++", "c++", &["c++98", "c++11", "c++17", "c++20"], "tests/c/header.cpp"),
        ("clang++", "c++", &["c++98", "c++11", "c++17", "c++20"], "tests/c/header.cpp"),
    ];
    for (name, language, standards, program) in compilers {
        for standard in standards {
            for source in ["include/damper.h", program] {
                let Some(mut compiler) = c::tool(name) else { continue };
                c::run(
                    compiler
                        .args([
                            "-x",
                            language,
                            &format!("-std={standard}"),
                            "-Wall",
                            "-Wextra",
                            "-Wpedantic",
                            "-Wundef",
                        ])
                        .args(["-Werror", "-Iinclude", "-fsyntax-only", source]),
                );
            }
        }
    }
}

/// The kernels' header compiles in its standards, and `src/nn.rs` defines each function that it declares.
#[test]
fn the_kernels_header_is_whole() {
    for (name, language, standard) in [("gcc", "c", "c99"), ("g++", "c++", "c++11")] {
        let Some(mut compiler) = c::tool(name) else { return };
        let standard = format!("-std={standard}");
        c::run(
            compiler
                .args(["-x", language, &standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude"])
                .args(["-fsyntax-only", "include/damper_nn.h"]),
        );
    }
    let names = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("damper_nn_")).map(str::to_owned).collect()
    };
    let expanded = c::run(c::tool("gcc").expect("it was there").args([
        "-E",
        "-P",
        "-DDAMPER_MUST_USE=",
        "-Iinclude",
        "include/damper_nn.h",
    ]));
    let declared = expanded.split(';').filter_map(|line| line.split_once('(')).flat_map(|(before, _)| names(before));
    let declared: BTreeSet<String> = declared.collect();
    let source = fs::read_to_string(c::folder().join("src/nn.rs")).expect("the source");
    assert!(declared.len() > 70);
    assert_eq!(declared, names(&source));
}

/// On the board `long` has 32 bits, and constants of 64 bits are not C89.
#[test]
fn the_boards_compiler_takes_the_header() {
    for standard in ["c89", "c11"] {
        let Some(mut gcc) = c::tool("arm-none-eabi-gcc") else { return };
        let std = format!("-std={standard}");
        c::run(gcc.args([&std, "-ffreestanding", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude"]).args([
            "-DFREESTANDING",
            "-fsyntax-only",
            "tests/c/header.c",
        ]));
    }
}

#[test]
fn the_oldest_standards_run_a_step() {
    let programs = [
        ("gcc", "-std=c89", "tests/c/header.c"),
        ("g++", "-std=c++98", "tests/c/header.cpp"),
        ("clang", "-std=c89", "tests/c/header.c"),
    ];
    for (name, standard, source) in programs {
        let Some(mut compiler) = c::tool(name) else { continue };
        let image = c::temporary().join(format!("oldest-{name}"));
        c::run(
            compiler
                .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude", source])
                .arg(c::library())
                .args(["-lm", "-o"])
                .arg(&image),
        );
        c::run(&mut Command::new(image));
    }
}

/// A call of a function that returns a status does not compile under `-Werror` if the status is not used.
#[test]
fn an_unused_status_does_not_compile() {
    let Some(_) = c::tool("gcc") else { return };
    let header = fs::read_to_string(c::folder().join("include/damper.h")).expect("the header");
    let lines: Vec<&str> = header.lines().collect();
    let marked = lines.windows(2).filter(|pair| pair[1].starts_with("damper_status damper_"));
    let marked: Vec<bool> = marked.map(|pair| pair[0] == "DAMPER_MUST_USE").collect();
    assert!(marked.len() > 40 && marked.iter().all(|marked| *marked));
    let source = c::temporary().join("unused.c");
    for (statement, compiles) in [("damper_run_close(0);", false), ("return damper_run_close(0);", true)] {
        fs::write(&source, format!("#include \"damper.h\"\nint main(void) {{ {statement} return 0; }}\n"))
            .expect("a file");
        let mut gcc = Command::new("gcc");
        let object = c::temporary().join("unused.o");
        gcc.args(["-std=c89", "-Werror", "-c", "-Iinclude", "-o"]).arg(object).arg(&source).current_dir(c::folder());
        let output = gcc.output().expect("gcc");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), compiles, "{said}");
        assert!(compiles || said.contains("unused-result"), "{said}");
    }
}

#[test]
fn the_header_says_who_erases_the_key() {
    let header = fs::read_to_string(c::folder().join("include/damper.h")).expect("the header");
    let (before, _) = header.split_once("damper_status damper_set_key(").expect("the function");
    let comment = before.rsplit("/**").next().expect("its comment");
    assert!(comment.contains("wipes the run's copy") && comment.contains("the caller must erase them"), "{comment}");
}

#[test]
fn the_headers_version_is_the_packages() {
    let header = fs::read_to_string(c::folder().join("include/damper.h")).expect("the header");
    let number = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define DAMPER_VERSION_{name} ")));
        line.expect("a version").to_owned()
    };
    let version = ["MAJOR", "MINOR", "PATCH"].map(number).join(".");
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
}
