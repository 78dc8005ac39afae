//! Mechanisms on the grid, in the form of a pack.

use super::error::PackError;
use super::pack::Reader;
use damper_core::grid::{Grid, Word};
use damper_core::noise::{AnyCorrelation, CorrelatedGaussian, DiscreteGaussian, Participation};

/// Most integers of a correlation: the coefficients of 256 bands.
const MOST_UNITS: usize = 256;

/// Independent noise.
pub(super) fn discrete<W: Word>(pack: &mut Reader<'_>) -> Result<DiscreteGaussian<W>, PackError> {
    let grid = Grid::new(u32::from(pack.u8()))?;
    Ok(DiscreteGaussian::new(grid, pack.u32())?)
}

/// Correlated noise of a run with this many steps and parameters, with buffers in `B`.
#[inline(never)]
pub(super) fn correlated<W: Word, B>(
    pack: &mut Reader<'_>,
    steps: u32,
    dim: u32,
) -> Result<CorrelatedGaussian<W, AnyCorrelation, B>, PackError> {
    let (grid, sigma) = (Grid::new(u32::from(pack.u8()))?, pack.u32());
    let participation = Participation::new(steps, pack.u32(), pack.u32())?;
    let (kind, count) = (pack.u8(), usize::from(pack.u16()));
    let mut units = [0; MOST_UNITS];
    let units = units.get_mut(..count).ok_or(PackError::Field("number of coefficients"))?;
    for unit in &mut *units {
        *unit = pack.u32();
    }
    Ok(CorrelatedGaussian::new(grid, sigma, AnyCorrelation::from_recorded(kind, units)?, participation, dim)?)
}
