//! The parameters of a run, and their mean.

use crate::Run;
use damper_core::average::Average;
use damper_core::state::SaveState;

/// The state that a checkpoint saves.
pub(crate) type Kept<'a, S> = (&'a mut [f32], (&'a mut Average<Vec<f32>>, S));

/// The parameters, and their mean if requested.
pub(crate) struct Iterates {
    pub(crate) params: Vec<f32>,
    pub(crate) average: Average<Vec<f32>>,
}

impl Iterates {
    /// Returns the parameters before the first step.
    pub(crate) fn new(run: &Run) -> Self {
        let params = run.model.params.clone();
        let average = Average::new(vec![0.0; if run.config.average.is_some() { params.len() } else { 0 }]);
        Self { params, average }
    }

    /// Returns the parameters that are evaluated and written: the mean, if there is a mean.
    pub(crate) fn result(&self) -> &[f32] {
        self.average.mean().unwrap_or(&self.params)
    }

    /// Returns the state that a checkpoint saves, with the `state` of a step.
    pub(crate) fn with<S: SaveState>(&mut self, state: S) -> Kept<'_, S> {
        (&mut self.params[..], (&mut self.average, state))
    }
}
