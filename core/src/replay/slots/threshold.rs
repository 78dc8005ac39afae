//! Every rule for the clip, with 20 bins where it counts in bins.

use crate::numerics::digest::Digest;
use crate::replay::error::PackError;
use crate::replay::pack::Reader;
use crate::threshold::{
    Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState,
    Query, ReleasedCounts, Solver, StepConstants, Threshold,
};

/// A rule and its memory.
pub(in crate::replay) enum AnyThreshold {
    Fixed(Fixed),
    Percentile(Percentile, PercentileState),
    Error(ExpectedError, ExpectedErrorState),
    Quantile(Quantile, QuantileState),
}

/// A rule that is kept with its memory; what it is asked for without it.
#[derive(Clone, Copy)]
pub(in crate::replay) struct HeldThreshold(Option<CountNoise>);

fn bounds(pack: &mut Reader<'_>) -> Result<Bounds, PackError> {
    Ok(Bounds::new(pack.f32(), pack.f32())?)
}

impl AnyThreshold {
    pub(in crate::replay) fn read(pack: &mut Reader<'_>) -> Result<(HeldThreshold, Self), PackError> {
        let rule = match pack.u8() {
            0 => Self::Fixed(Fixed(pack.f32())),
            1 => {
                let rule = Percentile::new(pack.f64(), CountNoise::new(pack.f64())?)?;
                let state = PercentileState::new(pack.f32(), pack.f32())?;
                Self::Percentile(rule.within(bounds(pack)?), state)
            }
            kind @ (2 | 3) => {
                let solver = if kind == 2 { Solver::PaperGrid } else { Solver::Exact };
                let rule = ExpectedError::new(solver, CountNoise::new(pack.f64())?)?;
                let state = ExpectedErrorState::new(pack.f32(), pack.f32())?;
                Self::Error(rule.within(bounds(pack)?, bounds(pack)?), state)
            }
            4 => {
                let rule = Quantile::new(pack.f64(), pack.f64(), pack.f64())?;
                let state = QuantileState::new(pack.f32())?;
                Self::Quantile(rule.within(bounds(pack)?), state)
            }
            _ => return Err(PackError::Field("kind of threshold")),
        };
        let noise = match &rule {
            Self::Fixed(rule) => rule.count_noise(),
            Self::Percentile(rule, _) => rule.count_noise(),
            Self::Error(rule, _) => rule.count_noise(),
            Self::Quantile(rule, _) => rule.count_noise(),
        };
        Ok((HeldThreshold(noise), rule))
    }

    /// The digest of the coming step's clip and its histogram's range (0 without one); none where the clip is fixed.
    pub(in crate::replay) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Fixed(_) => None,
            _ => Some(HeldThreshold(None).digest(self)),
        }
    }

    fn clip(&self) -> f32 {
        match self {
            Self::Fixed(rule) => rule.clip(&()),
            Self::Percentile(rule, state) => rule.clip(state),
            Self::Error(rule, state) => rule.clip(state),
            Self::Quantile(rule, state) => rule.clip(state),
        }
    }

    fn query(&self) -> Query {
        match self {
            Self::Fixed(rule) => rule.query(&()),
            Self::Percentile(rule, state) => rule.query(state),
            Self::Error(rule, state) => rule.query(state),
            Self::Quantile(rule, state) => rule.query(state),
        }
    }
}

impl Threshold for HeldThreshold {
    type State = AnyThreshold;
    type Counts = [i32; 20];

    fn clip(&self, state: &AnyThreshold) -> f32 {
        state.clip()
    }

    fn query(&self, state: &AnyThreshold) -> Query {
        state.query()
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.0
    }

    fn update(&self, state: &mut AnyThreshold, released: &ReleasedCounts<'_>, constants: StepConstants) {
        match state {
            AnyThreshold::Fixed(rule) => rule.update(&mut (), released, constants),
            AnyThreshold::Percentile(rule, state) => rule.update(state, released, constants),
            AnyThreshold::Error(rule, state) => rule.update(state, released, constants),
            AnyThreshold::Quantile(rule, state) => rule.update(state, released, constants),
        }
    }
}
