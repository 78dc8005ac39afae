//! The library in build systems of C: CMake, pkg-config, and the sources for Zephyr and ESP-IDF. The builds of Zephyr
//! and ESP-IDF themselves are not tested.

use std::fs;
use std::process::Command;

#[path = "tools/c.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod c;

#[test]
fn cmake_builds_and_pkg_config_finds() {
    let (Some(_), Some(_)) = (c::tool("cmake"), c::tool("pkg-config")) else { return };
    let folder = c::temporary().join("cmake");
    let _ = fs::remove_dir_all(&folder);
    let (build, prefix) = (folder.join("build"), folder.join("prefix"));
    // A separate project with a program, which adds this folder.
    let project = folder.join("project");
    fs::create_dir_all(&project).expect("a folder");
    fs::copy(c::folder().join(c::page()), project.join("page.c")).expect("the page's program");
    let lists = format!(
        "cmake_minimum_required(VERSION 3.20)\nproject(page C)\nadd_subdirectory({} damper)\nadd_executable(page page.c)\n\
         target_link_libraries(page PRIVATE damper::damper m)\n",
        c::folder().display()
    );
    fs::write(project.join("CMakeLists.txt"), lists).expect("a file");
    c::run(Command::new("cmake").arg("-S").arg(&project).arg("-B").arg(&build));
    c::run(Command::new("cmake").arg("--build").arg(&build));
    let said = c::run(&mut Command::new(build.join("page")));
    c::run(Command::new("cmake").arg("--install").arg(&build).arg("--prefix").arg(&prefix));

    let found = prefix.join("lib/pkgconfig");
    let found = if found.exists() { found } else { prefix.join("lib64/pkgconfig") };
    let flags = c::run(Command::new("pkg-config").env("PKG_CONFIG_PATH", found).args(["--cflags", "--libs", "damper"]));
    let image = folder.join("installed");
    let (flags, source) = (flags.split_whitespace(), project.join("page.c"));
    c::run(Command::new("gcc").arg("-std=c11").arg(source).args(flags).args(["-lm", "-o"]).arg(&image));
    assert_eq!(c::run(&mut Command::new(image)), said);
}

#[test]
fn zephyr_and_esp_idf_sources_charge() {
    let flags = ["-Itests/c/stubs", "-Izephyr", "-Iesp-idf"].iter().chain(&c::SANITIZERS).copied().collect::<Vec<_>>();
    let sources = ["tests/c/systems.c", "zephyr/damper_zephyr.c", "esp-idf/damper_esp.c"];
    let Some(image) = c::image("systems", &sources, c::library(), &flags) else { return };
    assert_eq!(c::run(&mut Command::new(image)), "charged\n");
}
