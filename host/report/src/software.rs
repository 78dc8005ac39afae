//! Versions of the software, for every output folder.

use serde::Serialize;
use std::fs;

/// The program and the machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Software {
    /// Version of damper.
    pub damper: &'static str,
    /// Commit of the build, if the environment variable `DAMPER_COMMIT` gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<&'static str>,
    /// Number of the contract on bits.
    pub bits_contract: u32,
    /// Architecture and operating system.
    pub platform: String,
    /// Name of the processor, or its architecture if the system does not name it.
    pub processor: String,
}

impl Software {
    /// Returns this program on this machine.
    #[must_use]
    pub fn current() -> Self {
        Self {
            damper: env!("CARGO_PKG_VERSION"),
            commit: option_env!("DAMPER_COMMIT"),
            bits_contract: damper_core::numerics::CONTRACT,
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        }
    }
}

/// Returns the name in the text of `/proc/cpuinfo`.
fn processor(text: &str) -> String {
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_is_the_first_that_is_named() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(processor(text), "Some CPU @ 2 GHz");
        assert_eq!(processor("Features\t: fp"), std::env::consts::ARCH);
    }
}
