//! Every rule for the clip, with 20 bins where it counts in bins.

use super::Input;
use crate::error::PackError;
use crate::pack::Reader;
use damper_core::slots::{AnyThreshold, StatefulSlot};
use damper_core::threshold::{
    Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState,
    Solver,
};

/// What plays a run with its rule. The last argument is true if that has memory.
type Then<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn AnyThreshold, bool) -> Result<R, PackError> + 't;

/// Lends the rule that the pack has next to `then`.
#[inline(never)]
pub(crate) fn lend<'a, R>(input: Input<'_, '_, 'a>, then: &mut Then<'_, 'a, R>) -> Result<R, PackError> {
    let pack = &mut *input.pack;
    match pack.u8() {
        0 => {
            let fixed = Fixed(pack.f32());
            then(input, &mut StatefulSlot::threshold(fixed, ()), false)
        }
        1 => {
            let rule: Percentile = Percentile::new(pack.f64(), CountNoise::new(pack.f64())?)?;
            let state = PercentileState::new(pack.f32(), pack.f32())?;
            let rule = rule.within(bounds(pack)?);
            then(input, &mut StatefulSlot::threshold(rule, state), true)
        }
        kind @ (2 | 3) => {
            let solver = if kind == 2 { Solver::PaperGrid } else { Solver::Exact };
            let rule: ExpectedError = ExpectedError::new(solver, CountNoise::new(pack.f64())?)?;
            let state = ExpectedErrorState::new(pack.f32(), pack.f32())?;
            let rule = rule.within(bounds(pack)?, bounds(pack)?);
            then(input, &mut StatefulSlot::threshold(rule, state), true)
        }
        4 => {
            let rule = Quantile::new(pack.f64(), pack.f64(), pack.f64())?;
            let state = QuantileState::new(pack.f32())?;
            let rule = rule.within(bounds(pack)?);
            then(input, &mut StatefulSlot::threshold(rule, state), true)
        }
        _ => Err(PackError::Field("kind of threshold")),
    }
}

fn bounds(pack: &mut Reader<'_>) -> Result<Bounds, PackError> {
    Ok(Bounds::new(pack.f32(), pack.f32())?)
}
