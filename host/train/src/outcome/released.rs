//! The model that a run releases, with its trained parameters in place and adapters merged.

use crate::Run;
use damper_edit::lora::Adapted;
use damper_onnx::pb::ModelProto;
use damper_onnx::{TrainedError, write_trained};
use std::borrow::Cow;

/// Released parameters by name, flat.
pub type Named<'a> = Vec<(String, Cow<'a, [f32]>)>;

impl Run {
    /// Returns the contents of the trained model by name, in order. These are the parameters `params`, flat, in the
    /// gradient graph's order. If there are adapters to merge, they are the other parameters and then the merged
    /// weights.
    ///
    /// # Errors
    ///
    /// `params` are not of this run.
    pub fn released<'a>(&self, params: &'a [f32]) -> Result<Named<'a>, TrainedError> {
        let mut at = 0;
        let parts = self.model.grad.parameters.iter().map(|spec| {
            let from = at;
            at += spec.elements(1);
            (spec.name.as_str(), params.get(from..at).unwrap_or_default())
        });
        let parts: Vec<(&str, &[f32])> = parts.collect();
        let owned = |(name, values): &(&str, &'a [f32])| ((*name).to_owned(), Cow::Borrowed(*values));
        let Some(Adapted { adapters, .. }) = self.model.adapted.as_ref().filter(|adapted| !adapted.keep) else {
            return Ok(parts.iter().map(owned).collect());
        };
        let merged = adapters.merged(&self.model.onnx, &parts)?;
        let is_in_merged = |name: &str| {
            adapters
                .list
                .iter()
                .any(|adapter| [&adapter.weight, &adapter.down, &adapter.up].iter().any(|one| *one == name))
        };
        let others = parts.iter().filter(|(name, _)| !is_in_merged(name)).map(owned);
        Ok(others.chain(merged.into_iter().map(|(name, values)| (name, Cow::Owned(values)))).collect())
    }

    /// Returns the model with these trained parameters.
    ///
    /// # Errors
    ///
    /// `params` are not of this run.
    pub fn trained(&self, params: &[f32]) -> Result<ModelProto, TrainedError> {
        let released = self.released(params)?;
        let parts: Vec<(&str, &[f32])> = released.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
        let model = match &self.model.adapted {
            Some(Adapted { model, keep: true, .. }) => model,
            _ => &self.model.onnx,
        };
        write_trained(model, &parts)
    }
}

#[cfg(test)]
mod tests;
