//! The mechanisms of the trainer, and the memory of their noise.

use crate::engine::generator::RunGenerator;
use damper_core::accounting::SampledGaussian;
use damper_core::error::{CallError, ConfigError};
use damper_core::grid::Word;
use damper_core::noise::{
    AnyCorrelation, ContinuousGaussian, CorrelatedGaussian, CorrelatedState, DiscreteGaussian, NoiseWord,
};
use damper_core::private::{Mechanism, SumWord};

/// A mechanism with the memory of its noise.
pub trait Trained: Mechanism<Word: Send> + Send + Sync {
    /// The memory for `dim` parameters before step `first`: that of a run which never stopped.
    ///
    /// # Errors
    ///
    /// The mechanism is for another number of parameters.
    fn noise(&self, dim: usize, first: u32, generator: &RunGenerator) -> Result<Self::NoiseState, CallError>;

    /// The integers of a sum on the grid.
    type Integer: Word + Into<i64>;

    /// Words of a sum on the grid; none if they are floats, whose totals over ranks depend on the order.
    fn grid(words: &mut [Self::Word]) -> Option<&mut [SumWord<Self::Integer>]>;

    /// The event of the whole run, if its steps have no price of their own.
    fn whole(&self) -> Option<Result<SampledGaussian, ConfigError>> {
        None
    }
}

impl<W: Word + Into<i64> + Send + Sync> Trained for DiscreteGaussian<W> {
    type Integer = W;

    fn noise(&self, _: usize, _: u32, _: &RunGenerator) -> Result<(), CallError> {
        Ok(())
    }

    fn grid(words: &mut [SumWord<W>]) -> Option<&mut [SumWord<W>]> {
        Some(words)
    }
}

impl Trained for ContinuousGaussian {
    type Integer = i64;

    fn noise(&self, _: usize, _: u32, _: &RunGenerator) -> Result<(), CallError> {
        Ok(())
    }

    fn grid(_: &mut [SumWord<f32>]) -> Option<&mut [SumWord<i64>]> {
        None
    }
}

/// Correlated noise. Its buffers are as secret as the key: they are wiped with the state, and no file has them. The key has them all.
pub type CorrelatedMechanism = CorrelatedGaussian<i64, AnyCorrelation, Vec<NoiseWord>>;

impl Trained for CorrelatedMechanism {
    type Integer = i64;

    fn noise(&self, dim: usize, first: u32, generator: &RunGenerator) -> Result<Self::NoiseState, CallError> {
        let words = dim * damper_core::noise::Correlation::words(self.correlation());
        let mut state = CorrelatedState::new((0..words).map(|_| NoiseWord::ZERO).collect());
        if first > 0 {
            self.rebuild(&mut state, generator, first)?;
        }
        Ok(state)
    }

    fn grid(words: &mut [SumWord<i64>]) -> Option<&mut [SumWord<i64>]> {
        Some(words)
    }

    fn whole(&self) -> Option<Result<SampledGaussian, ConfigError>> {
        Some(self.event())
    }
}
