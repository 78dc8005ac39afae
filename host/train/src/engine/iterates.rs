//! The parameters of a run, and their mean.

use crate::Run;
use damper_core::average::Average;
use damper_core::state::SaveState;

/// The memory that a checkpoint keeps.
pub(crate) type Kept<'a, S> = (&'a mut [f32], (&'a mut Average<Vec<f32>>, S));

/// Parameters, and their mean if the run asks for one.
pub(crate) struct Iterates {
    pub(crate) params: Vec<f32>,
    pub(crate) average: Average<Vec<f32>>,
}

impl Iterates {
    /// Those before the first step.
    pub(crate) fn new(run: &Run) -> Self {
        let params = run.model.params.clone();
        let average = Average::new(vec![0.0; if run.config.average.is_some() { params.len() } else { 0 }]);
        Self { params, average }
    }

    /// The parameters that are evaluated and written: the mean, if there is one.
    pub(crate) fn result(&self) -> &[f32] {
        self.average.mean().unwrap_or(&self.params)
    }

    /// The memory that a checkpoint keeps, with the `state` of a step.
    pub(crate) fn with<S: SaveState>(&mut self, state: S) -> Kept<'_, S> {
        (&mut self.params[..], (&mut self.average, state))
    }
}
