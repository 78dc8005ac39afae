//! The backend of a run. If its ways of computing layers are to be measured (`tune`), they are, once for a network, a processor and a program: the
//! choice stays in a folder of the user.
//!
//! Sessions are timed on made-up numbers. A way that lets a sample's gradient depend on its row or on other samples is not taken, for a run's
//! sensitivity rests on that; other ways change its bits.

use crate::engine::rehearsal::{Independence, Made, independence_of, made_up};
use crate::engine::step_loop::graph_of;
use crate::engine::worker::plan;
use crate::state::checkpoint::Environment;
use crate::state::files::{self, Access};
use crate::{Run, TrainError};
use damper_onnx::SettingError;
use damper_runtime::{Backend, BackendError, Session, Ways, open};
use std::collections::BTreeMap;
use std::path::Path;

/// The backend of `run`, in the ways that were measured if they are.
pub(crate) fn backend_of(run: &Run) -> Result<Box<dyn Backend>, TrainError> {
    let mut backend = open(run.config.backend)?;
    if let Some(folder) = &run.config.tune {
        let ways = remembered(run, backend.as_ref(), folder)?;
        backend.set_ways(ways);
    }
    Ok(backend)
}

/// The ways in `folder`, else those that are measured now and left there.
fn remembered(run: &Run, backend: &dyn Backend, folder: &Path) -> Result<Ways, TrainError> {
    let (grad, prefixes) = graph_of(run);
    let (model, plan) = plan(grad, prefixes, run.model.physical_batch);
    let environment = Environment::of(run, backend, run.threads());
    let what = serde_json::to_vec(&(&environment, files::sha256(&model), plan.batch)).expect("texts are JSON");
    let file = folder.join(format!("{}.json", files::sha256(&what)));
    // Ways of an unknown program may let samples see each other here.
    let is_known = environment.is_known();
    if let Some(ways) = std::fs::read(&file).ok().and_then(|bytes| read(&bytes)).filter(|_| is_known) {
        return Ok(ways);
    }
    let made = made_up(grad, &plan, &run.model.params);
    let inputs: Vec<_> = made.iter().map(Made::input).collect();
    let mut keeps = |session: &mut dyn Session| -> Result<bool, BackendError> {
        Ok(independence_of(session, grad, &plan, &run.model.params)? != Independence::Refuted)
    };
    let Some(ways) = backend.tune(&model, &plan, &inputs, &mut keeps)? else {
        let problem =
            "this backend computes each layer in one way; use backend ort with its own operators, or leave it out";
        return Err(SettingError::new("tune", "", problem).into());
    };
    std::fs::create_dir_all(folder).map_err(|error| files::failed(folder, "tune", &error))?;
    let names: BTreeMap<_, _> = ways.iter().map(|(layer, way)| (layer, way.name())).collect();
    files::write(&file, &serde_json::to_vec_pretty(&names).expect("texts are JSON"), Access::Public)?;
    Ok(ways)
}

/// The ways that a file has; none if it is damaged.
fn read(bytes: &[u8]) -> Option<Ways> {
    let names: BTreeMap<String, String> = serde_json::from_slice(bytes).ok()?;
    names.iter().try_fold(Ways::default(), |ways, (layer, way)| Some(ways.with(layer, way.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_runtime::Way;

    #[test]
    fn damaged_file_has_no_ways() {
        assert_eq!(read(b"{}"), Some(Ways::default()));
        assert_eq!(read(br#"{"MatMul 3 to 4": "runtime"}"#), Some(Ways::default().with("MatMul 3 to 4", Way::Runtime)));
        for damaged in [&b""[..], b"{", b"[]", br#"{"MatMul 3 to 4": "fast"}"#] {
            assert_eq!(read(damaged), None);
        }
    }
}
