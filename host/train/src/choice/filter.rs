//! Filters: DOPPLER, DP-PMLF, DiSK, or none.

mod stateful;

pub use stateful::FilterState;

use super::rule::Boxed;
use super::slot::FilterChoice;
use crate::replay::PackWriter;
use damper_core::error::ConfigError;
use damper_core::filter::{Builder, Filter, build};
use damper_core::numerics::digest::Digested;
use damper_core::slots::{FilterSlot, StatefulSlot};
use damper_core::state::SaveState;
use damper_design::ORDER;

impl FilterChoice {
    /// Gradients of each sample at a step, once the history is full.
    #[must_use]
    pub fn gradients_per_sample(&self) -> usize {
        let Ok((_, mut state)) = self.build(0) else { return 1 };
        (0..=ORDER).for_each(|_| state.begin());
        state.eval_points()
    }

    /// The filter and its memory for `dim` parameters.
    pub(crate) fn build(&self, dim: usize) -> Result<(FilterSlot, FilterState), ConfigError> {
        let built = build::<ORDER, _>(self.builder(dim)).map_err(|error| match error.parameter {
            "number of iterates" => ConfigError { must_be: "from 1 to 16", ..error },
            "gamma" if self.get("gamma").is_some_and(|gamma| !gamma.is_finite()) => {
                ConfigError { must_be: "finite and at least 0.01 in magnitude", ..error }
            }
            _ => error,
        });
        let state = built?.expect("the description is of the list");
        Ok((FilterSlot::of(&*state), state))
    }

    /// Writes the filter as recordings have it.
    pub(crate) fn record(&self, pack: &mut PackWriter) -> Result<(), ConfigError> {
        build::<ORDER, _>(self.recorder(pack)).map(drop)
    }
}

impl Builder<'static> for Boxed<'_> {
    type Built = FilterState;

    fn take<M, S>(self, method: M, state: S) -> Result<FilterState, ConfigError>
    where
        M: Filter<S> + Digested<S> + 'static,
        S: SaveState + 'static,
    {
        Ok(Box::new(StatefulSlot::filter(method, state)))
    }
}
