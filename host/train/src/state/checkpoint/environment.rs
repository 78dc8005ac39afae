//! The environment of a run. Together with model and data, it determines the bits of its gradients.
//!
//! Code is identified by what is loaded, not by files. Files may have been replaced since. A process may also run
//! inside another program (a loader, an interpreter). An environment with unidentified code never counts as the same
//! environment, not even as itself ([`Environment::repeats_bits`]).

use crate::Run;
use damper_budget::EXACT;
use damper_runtime::{Backend, loaded};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Environment variables, or prefixes of such, by which a runtime or the system's library chooses its code.
const CHOOSING: [&str; 2] = ["GLIBC_TUNABLES", "TRACT_"];

/// The environment of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Environment {
    /// Digests of damper's own code, the system's mathematical functions, and the runtime's library if there is one.
    /// `None` if any of them cannot be read. States of earlier versions have the plain SHA-256 of a file here, which
    /// never equals these digests.
    program: Option<String>,
    backend: String,
    backend_version: String,
    /// The processor and its features, by which runtimes choose their code. Empty if unknown.
    processor: String,
    /// Number of threads, if the sums depend on it.
    workers: Option<usize>,
}

impl Environment {
    /// Returns the environment of `run` on `backend` in this process, with `workers` workers.
    pub(crate) fn of(run: &Run, backend: &dyn Backend, workers: usize) -> Self {
        Self {
            program: program(backend.code()),
            backend: format!("{}, {} operators", backend.name(), backend.operators().name()),
            backend_version: backend.version(),
            processor: processor().unwrap_or_default(),
            workers: (run.path() != EXACT).then_some(workers),
        }
    }

    /// Returns the named parts, except the workers.
    pub(super) fn parts(&self) -> Vec<(String, String)> {
        vec![
            ("another program or runtime".into(), self.program.clone().unwrap_or_default()),
            ("another backend".into(), format!("{} {}", self.backend, self.backend_version)),
            ("another processor".into(), self.processor.clone()),
        ]
    }

    /// Returns true if the same sample has the same gradient in every run in this environment.
    pub(crate) fn repeats_bits(&self) -> bool {
        self.is_known() && !self.backend.starts_with("cuda,")
    }

    /// Returns true if code and processor are known, so that another environment is not mistaken for this.
    fn is_known(&self) -> bool {
        self.program.is_some() && !self.processor.is_empty()
    }
}

/// Identifies the running code: damper's own, the mathematical functions if they are elsewhere, and the runtime's
/// `library`.
fn program(library: Option<usize>) -> Option<String> {
    static OWN: LazyLock<Option<String>> = LazyLock::new(|| own(&code));
    let mut text = OWN.clone()?;
    if let Some(library) = library {
        let _ = write!(text, "; runtime {}", kept(library)?);
    }
    Some(text)
}

/// Identifies damper's own code and the mathematical functions by the digests that `code` returns for addresses.
fn own(code: &dyn Fn(usize) -> Option<String>) -> Option<String> {
    let own = code(loaded::here())?;
    let mut text = format!("code {own}");
    let mut others = Vec::new();
    for address in loaded::math().into_iter().chain(loaded::math_libraries()) {
        let found = code(address)?;
        if found != own && !others.contains(&found) {
            let _ = write!(text, "; mathematics {found}");
            others.push(found);
        }
    }
    Some(text)
}

/// Caches [`code`] once per process, because a runtime's library stays loaded.
fn kept(address: usize) -> Option<String> {
    static KEPT: Mutex<BTreeMap<usize, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(address).or_insert_with(|| code(address)).clone()
}

/// Returns the SHA-256 of the code of the module at `address`.
fn code(address: usize) -> Option<String> {
    let mut digest = Sha256::new();
    loaded::code(address, &mut |part| digest.update(part)).then(|| crate::state::files::hex(digest.finalize()))
}

/// Returns the processor and the variables that choose its code.
fn processor() -> Option<String> {
    let mut text = loaded::processor()?;
    let mut chosen: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| CHOOSING.iter().any(|begin| name.to_string_lossy().starts_with(begin)))
        .collect();
    chosen.sort();
    for (name, value) in chosen {
        let _ = write!(text, "; {}={}", name.to_string_lossy(), value.to_string_lossy());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            program: program(None),
            backend: "portable, standard operators".into(),
            backend_version: "1".into(),
            processor: processor().unwrap_or_default(),
            workers: None,
        }
    }

    #[test]
    fn what_is_unknown_repeats_nothing() {
        let known = environment();
        assert!(known.repeats_bits() && known.is_known());
        let no_program = Environment { program: None, ..known.clone() };
        let no_processor = Environment { processor: String::new(), ..known.clone() };
        let cuda = Environment { backend: "cuda, standard operators".into(), ..known.clone() };
        for unknown in [no_program, no_processor, cuda] {
            assert!(unknown == unknown.clone() && !unknown.repeats_bits(), "{unknown:?}");
        }
    }

    // A mathematical function in another library counts. If any library's code cannot be read, the whole is unknown.
    #[test]
    fn every_library_is_named_or_none_is() {
        let here = loaded::here();
        let upgraded = |address: usize| Some(if address == here { "a".to_owned() } else { "b".to_owned() });
        assert_eq!(own(&upgraded).unwrap(), "code a; mathematics b");
        assert_eq!(own(&|_| Some("a".into())).unwrap(), "code a");
        assert_eq!(own(&|address| (address == here).then(|| "a".into())), None);
        assert_eq!(own(&|_| None), None);
        let text = program(Some(loaded::math()[0])).unwrap();
        assert!(text.starts_with("code ") && text.contains("; runtime "), "{text}");
        assert_eq!(program(Some(1)), None);
    }

    // A line written by a version that recorded the digest of the program's file.
    #[test]
    fn earlier_states_are_of_another_environment() {
        let line = format!(
            r#"{{"program":"{}","backend":"portable, standard operators","backend_version":"1","processor":"x86_64-linux","workers":null}}"#,
            "0f".repeat(32)
        );
        let earlier: Environment = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&earlier).unwrap(), line);
        assert!(earlier != environment());
        assert!(earlier != Environment { processor: earlier.processor.clone(), ..environment() });
    }
}
