//! Loaded code of this process: of the program, an extension module or a library.
//!
//! It reads memory, not files. A file may be replaced while the program runs, and the file that the system started may
//! be a loader or an interpreter. It covers only data that never changes after loading: instructions, constants, and
//! tables of pointers, which count relative to their module. It does not cover initial values of variables.

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
#[path = "loaded/elf.rs"]
mod format;
#[cfg(target_vendor = "apple")]
#[path = "loaded/mach.rs"]
mod format;
#[cfg(windows)]
#[path = "loaded/pe.rs"]
mod format;
mod system;

use std::path::PathBuf;

/// Address in the code of this crate, and so of the program or extension module that contains it.
#[must_use]
// If inlined, it would have a different address in each codegen unit.
#[inline(never)]
pub fn here() -> usize {
    here as fn() -> usize as usize
}

/// Addresses of the mathematical functions that Rust calls, in the system's library or in a program that contains them.
#[must_use]
pub fn math() -> Vec<usize> {
    system::math()
}

/// Calls `read` with the code and constants of the module that contains `address`, in chunks. Only the module decides
/// their order and lengths. Returns false if the module is unknown or unreadable. `read` may then have received some of
/// the chunks.
pub fn code(address: usize, read: &mut dyn FnMut(&[u8])) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_vendor = "apple", windows))]
    return format::code(address, read);
    #[cfg(not(any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_vendor = "apple",
        windows
    )))]
    {
        let _ = (address, read);
        false
    }
}

/// Addresses of loaded mathematical libraries other than those of [`math`], one for each: SIMD functions, and libraries
/// of other modules.
#[must_use]
pub fn math_libraries() -> Vec<usize> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    return format::libraries(&["libm", "libmvec"]);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    Vec::new()
}

/// Description of the processor: its model, and the instruction sets by which kernels are chosen. `None` if it cannot
/// be identified.
#[must_use]
pub fn processor() -> Option<String> {
    let mut text = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let mut known = false;
    for part in [system::processor(), features(), described()].into_iter().flatten() {
        known = true;
        text += "; ";
        text += &part;
    }
    known.then_some(text)
}

/// Instruction sets that the processor and the system support, out of those that Rust kernels test for.
fn features() -> Option<String> {
    #[allow(unused_mut)]
    let mut found: Vec<&str> = Vec::new();
    macro_rules! detect {
        ($is:ident, $($name:tt)*) => {
            $(if std::arch::$is!($name) { found.push($name); })*
            return Some(found.join(" "));
        };
    }
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        detect!(is_x86_feature_detected, "sse2" "sse3" "ssse3" "sse4.1" "sse4.2" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "popcnt"
            "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512ifma" "avx512vbmi" "avx512vnni" "avx512bf16" "avx512fp16"
            "avxvnni");
    }
    #[cfg(target_arch = "aarch64")]
    {
        detect!(is_aarch64_feature_detected, "neon" "fp16" "fhm" "dotprod" "i8mm" "bf16" "fcma" "sve" "sve2");
    }
    #[allow(unreachable_code)]
    {
        let _ = &mut found;
        None
    }
}

/// The system's description of the processor: lines of `/proc/cpuinfo`, each distinct value once.
fn described() -> Option<String> {
    const KEYS: [&str; 12] = [
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "flags",
        "Features",
        "CPU implementer",
        "CPU variant",
        "CPU part",
        "isa",
        "uarch",
    ];
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut found: Vec<String> = Vec::new();
    for (key, value) in info.lines().filter_map(|line| line.split_once(':')) {
        let line = format!("{}: {}", key.trim(), value.trim());
        if KEYS.contains(&key.trim()) && !found.contains(&line) {
            found.push(line);
        }
    }
    // Cores of different kinds may be listed in any order.
    found.sort();
    (!found.is_empty()).then(|| found.join("; "))
}

/// File of the program or extension module that contains this code. If a loader or an interpreter was started, this is
/// not its file.
#[must_use]
pub fn file() -> Option<PathBuf> {
    mapped(here()).or_else(|| std::env::current_exe().ok())
}

/// File mapped at `address`, from Linux's list.
fn mapped(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        // The path follows permissions, offset, device and inode.
        let path = &rest[rest.find('/')?..];
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        (number(start)?..number(end)?).contains(&address).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(address: usize) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        code(address, &mut |part| all.extend_from_slice(part)).then_some(all)
    }

    /// Constant that occurs nowhere else in the program.
    static CONSTANT: [u64; 2] = [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b];

    fn has(all: &[u8], wanted: &[u8]) -> bool {
        all.windows(wanted.len()).any(|part| part == wanted)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_code_has_own_constants() {
        let own = bytes(here()).unwrap();
        let constant: Vec<u8> = std::hint::black_box(&CONSTANT).iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(own.len() > 100_000 && has(&own, &constant));
        assert_eq!(own, bytes(here()).unwrap());
    }

    /// Table of pointers, which the loader relocates, with a number next to each pointer.
    static TABLE: [(&str, u64); 2] = [("first", 0x3c6e_f372_fe94_f82b), ("second", 0xa54f_f53a_5f1d_36f1)];

    #[cfg(target_os = "linux")]
    #[test]
    fn constants_beside_pointers_count() {
        let own = bytes(here()).unwrap();
        for (_, number) in std::hint::black_box(&TABLE) {
            assert!(has(&own, &number.to_ne_bytes()), "{number:x}");
        }
    }

    // The same files have the same code in other processes, at other addresses.
    #[cfg(target_os = "linux")]
    #[test]
    fn code_is_the_same_at_any_address() {
        if std::env::var_os("DAMPER_TEST_CODE").is_some() {
            for address in [here()].into_iter().chain(math()).chain(math_libraries()) {
                let code = bytes(address).unwrap();
                let sum = code.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                println!("\ncode {sum} at {address}");
            }
            return;
        }
        let lines = || -> Vec<(String, String)> {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "loaded::tests::code_is_the_same_at_any_address", "--nocapture"])
                .env("DAMPER_TEST_CODE", "1")
                .output()
                .unwrap();
            let text = String::from_utf8(child.stdout).unwrap();
            let lines = text.lines().filter_map(|line| line.strip_prefix("code ")?.split_once(" at "));
            lines.map(|(code, at)| (code.to_owned(), at.to_owned())).collect()
        };
        let all: Vec<_> = (0..4).map(|_| lines()).collect();
        let codes = |lines: &[(String, String)]| lines.iter().map(|(code, _)| code.clone()).collect::<Vec<_>>();
        assert!(all[0].len() > 1 && all.iter().all(|lines| codes(lines) == codes(&all[0])), "{all:?}");
        assert!(all.iter().any(|lines| lines[0].1 != all[0][0].1), "every process has one address: {all:?}");
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn mathematics_is_in_its_own_library() {
        let own = bytes(here()).unwrap();
        let outside: Vec<_> = math().into_iter().map(|at| bytes(at).unwrap()).filter(|code| *code != own).collect();
        assert!(!outside.is_empty() && outside.iter().all(|code| code.len() > 10_000));
        assert!(!math_libraries().is_empty());
    }

    #[test]
    fn unknown_addresses_have_no_code() {
        let on_heap = Box::new(1u64);
        for address in [0, 1, usize::MAX, &raw const *on_heap as usize] {
            assert_eq!(bytes(address), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_is_that_of_the_code() {
        assert_eq!(file().unwrap(), std::env::current_exe().unwrap().canonicalize().unwrap());
        assert!(mapped(math()[0]).unwrap().is_file());
        assert_eq!(mapped(1), None);
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn processor_is_known_by_its_features() {
        let text = processor().unwrap();
        assert!(text.starts_with(std::env::consts::ARCH), "{text}");
        #[cfg(target_arch = "x86_64")]
        assert!(text.contains("sse2") && system::processor().is_some(), "{text}");
        assert_eq!(processor().unwrap(), text);
    }
}
