//! Environment of a run: the bits of its gradients depend on it, and on model and data.

use crate::{EXACT, Run};
use damper_runtime::Backend;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The environment of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Environment {
    /// SHA-256 of the program, and of the runtime's library if it has one; none if they cannot be read.
    program: Option<String>,
    backend: String,
    backend_version: String,
    /// The processor and what it can do: runtimes choose their code by it.
    processor: String,
    /// Threads, where the sums depend on them.
    workers: Option<usize>,
}

impl Environment {
    /// The environment of `run` on `backend` here, with `workers` workers.
    pub(crate) fn of(run: &Run, backend: &dyn Backend, workers: usize) -> Self {
        Self {
            program: program(backend.library()).ok(),
            backend: backend
                .ways()
                .iter()
                .fold(format!("{}, {} operators", backend.name(), backend.operators().name()), |text, (layer, way)| {
                    format!("{text}; {layer}: {}", way.name())
                }),
            backend_version: backend.version(),
            processor: processor(),
            workers: (run.path() != EXACT).then_some(workers),
        }
    }

    /// Its parts by name, but the workers.
    pub(super) fn parts(&self) -> Vec<(String, String)> {
        vec![
            ("another program or runtime".into(), self.program.clone().unwrap_or_default()),
            ("another backend".into(), format!("{} {}", self.backend, self.backend_version)),
            ("another processor".into(), self.processor.clone()),
        ]
    }

    /// Returns true if the same sample has the same gradient in every run here.
    pub(crate) fn repeats_bits(&self) -> bool {
        self.program.is_some() && !self.backend.starts_with("cuda,")
    }
}

/// SHA-256 of the program that runs, and of this library.
fn program(library: Option<&Path>) -> io::Result<String> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    for path in [std::env::current_exe()?].iter().map(PathBuf::as_path).chain(library) {
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => digest.update(&buffer[..read]),
            }
        }
    }
    Ok(digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Architecture, model, and the instruction sets that kernels are chosen by.
fn processor() -> String {
    let mut text = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    if let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") {
        for key in ["model name", "flags", "Features", "isa"] {
            let line = info.lines().find(|line| line.split(':').next().is_some_and(|found| found.trim() == key));
            text.extend(line.and_then(|line| line.split_once(':')).map(|(_, value)| format!("; {}", value.trim())));
        }
    }
    text
}
