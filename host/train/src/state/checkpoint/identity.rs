//! The properties that must be equal on all ranks of a run. Shares of the draw, noise and updates follow from them.

use super::environment::Environment;
use super::snapshot::{Header, Invocation};
use crate::engine::ranks::group::{Group, RankError};
use crate::state::files::sha256;
use crate::state::model_file::model_digest;
use crate::{Run, TrainConfig, TrainError};
use damper_core::numerics::digest::Digest;

/// Names and values, in the order of comparison.
pub(crate) type Identity = Vec<(String, String)>;

/// Returns the identity of `run` in `environment`.
pub(crate) fn identity(run: &Run, environment: &Environment) -> Result<Identity, TrainError> {
    let header = Header::new(Invocation::default(), run)?;
    // Settings that do not change any bits may differ.
    let config = TrainConfig {
        workers: None,
        memory: 0,
        cache_frozen: run.config.cache_frozen.map(|_| 0),
        record: None,
        ..run.config.clone()
    };
    let graph = model_digest(&run.model.grad.model);
    let (batch, samples, params) =
        (run.model.physical_batch, run.data.train.len(), Digest::of(&run.model.params).value());
    let settings =
        format!("{config:?}; {:?}; {batch}; {samples}; {}; {params}; {graph}", run.price.terms, run.is_sharded());
    let mut all: Identity = environment.parts();
    for (name, value) in [
        ("another model", header.model),
        ("settings", sha256(settings.as_bytes())),
        ("data", header.data),
        ("another plan of steps and noise", header.plan),
    ] {
        all.push((name.into(), value));
    }
    Ok(all)
}

/// Fails on all ranks if the identity of any rank differs from that of rank 0.
pub(crate) fn check_same(group: &dyn Group, own: &Identity) -> Result<(), RankError> {
    let own = serde_json::to_vec(own).expect("texts are JSON");
    let all = group.all_gather(&own)?;
    let all: Vec<Identity> = all.iter().map(|bytes| serde_json::from_slice(bytes).unwrap_or_default()).collect();
    for (rank, other) in all.iter().enumerate() {
        if let Some((what, _)) =
            all[0].iter().enumerate().find(|(at, part)| other.get(*at) != Some(part)).map(|(_, part)| part)
        {
            return Err(RankError::Differs { rank, what: what.clone() });
        }
    }
    Ok(())
}
