//! The parameters of the best evaluation, for a run that may end early.
//!
//! They are a release like those of any step, so ε covers them. The choice of the best step follows from the held-out
//! figures, and has the same protection as these. Memory and disk: one copy of the parameters.

use crate::state::files::{self, Access};
use crate::{Evaluation, TrainConfig, TrainError};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// The file of the best parameters in the private folder. Absent if the run cannot end early.
pub(crate) const BEST: &str = "best-params.bin";

/// Parameters after a step.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct BestParams {
    /// Number of steps before them.
    step: u32,
    /// Flat, in the order of `grad.parameters`.
    params: Vec<f32>,
    /// True if the file is not up to date.
    is_new: bool,
}

impl BestParams {
    /// Reads the parameters that an earlier process stored in `folder`, if they belong to the best of these
    /// evaluations.
    pub(crate) fn begin(folder: Option<&Path>, evaluations: &[Evaluation], dim: usize) -> Self {
        let best = Evaluation::best(evaluations).map(|best| best.step);
        folder
            .and_then(|folder| Self::of_bytes(&fs::read(folder.join(BEST)).ok()?))
            .filter(|kept| Some(kept.step) == best && kept.params.len() == dim)
            .unwrap_or_default()
    }

    /// Keeps `evaluated` if the last evaluation, which is of these parameters, is the best and if the run may end
    /// early.
    pub(crate) fn keep(&mut self, config: &TrainConfig, evaluations: &[Evaluation], evaluated: &[f32]) {
        let Some(last) = evaluations.last().filter(|_| config.stop_early.is_some()) else { return };
        if Evaluation::best(evaluations).is_some_and(|best| best.step == last.step) {
            self.step = last.step;
            self.is_new = true;
            evaluated.clone_into(&mut self.params);
        }
    }

    /// Writes the parameters into the private folder, if they are new. Call it before saving a state that has their
    /// evaluation.
    pub(crate) fn write(&mut self, folder: &Path) -> Result<(), TrainError> {
        if self.is_new {
            files::write(&folder.join(BEST), &self.to_bytes(), Access::Private)?;
            self.is_new = false;
        }
        Ok(())
    }

    /// Returns the parameters of the best evaluation of a run that ended early.
    pub(crate) fn of_early_end(self, evaluations: &[Evaluation]) -> Option<Vec<f32>> {
        let best = Evaluation::best(evaluations)?;
        (best.step == self.step && !self.params.is_empty()).then_some(self.params)
    }

    /// Returns the step and the parameters, little-endian, with their SHA-256.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.step.to_le_bytes().to_vec();
        bytes.extend(self.params.iter().flat_map(|x| x.to_le_bytes()));
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, digest) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        let (step, params) = content.split_first_chunk()?;
        let (params, rest) = params.as_chunks();
        let is_whole = Sha256::digest(content)[..] == *digest && rest.is_empty();
        let params = params.iter().copied().map(f32::from_le_bytes).collect();
        is_whole.then_some(Self { step: u32::from_le_bytes(*step), params, is_new: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Method};
    use std::num::NonZeroU32;

    fn evaluations(losses: &[f64]) -> Vec<Evaluation> {
        let at = |(step, loss): (usize, &f64)| Evaluation {
            step: step as u32 + 1,
            epoch: 0.0,
            epsilon: 1.0,
            loss: *loss,
            accuracy: None,
        };
        losses.iter().enumerate().map(at).collect()
    }

    #[test]
    fn best_parameters_follow_the_evaluations() {
        let budget = Budget::NoiseMultiplier(1.0);
        let mut config = TrainConfig::new(budget, 1e-5, 500, 1.0, Method::dp_sgd(1.0, 0.1));
        let mut best = BestParams::default();
        best.keep(&config, &evaluations(&[1.0]), &[1.0]);
        assert_eq!(best, BestParams::default(), "a run that cannot end early keeps none");
        config.stop_early = NonZeroU32::new(2);
        let losses = [3.0, 1.0, 1.0, 2.0];
        for taken in 1..=losses.len() {
            best.keep(&config, &evaluations(&losses[..taken]), &[taken as f32, -0.0]);
        }
        assert_eq!(best, BestParams { step: 2, params: vec![2.0, -0.0], is_new: true });
        assert_eq!(best.of_early_end(&evaluations(&losses)), Some(vec![2.0, -0.0]));
    }

    // A file that is damaged, or from another run or another evaluation, is ignored.
    #[test]
    fn kept_parameters_belong_to_the_best_evaluation() {
        let folder = tempfile::tempdir().unwrap();
        let mut best = BestParams { step: 2, params: vec![1.5, f32::MIN_POSITIVE], is_new: true };
        best.write(folder.path()).unwrap();
        let begin = |losses: &[f64], dim| BestParams::begin(Some(folder.path()), &evaluations(losses), dim);
        assert_eq!(begin(&[3.0, 1.0, 2.0], 2), best);
        for none in [begin(&[3.0, 1.0, 0.5], 2), begin(&[3.0, 1.0], 3), begin(&[], 2)] {
            assert_eq!(none, BestParams::default());
        }
        let whole = best.to_bytes();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(BestParams::of_bytes(&damaged), None, "byte {at}");
            assert_eq!(BestParams::of_bytes(&whole[..at]), None, "{at} bytes");
        }
    }
}
