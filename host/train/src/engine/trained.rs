//! The mechanisms of the trainer, and the state of their noise.

use crate::choice::ThresholdRule;
use crate::engine::generator::RunGenerator;
use crate::engine::worker::SHAPES;
use damper_core::accounting::SampledGaussian;
use damper_core::error::{CallError, ConfigError};
use damper_core::grid::Word;
use damper_core::noise::{
    AnyCorrelation, ContinuousGaussian, CorrelatedGaussian, CorrelatedState, DiscreteGaussian, NoiseWord,
};
use damper_core::private::{Mechanism, SumWord};
use damper_core::slots::AnyClip;
use damper_core::step::Adding;
use damper_core::threshold::Threshold;
use pulp::{Arch, Simd, WithSimd};

/// The sum of a step in the trainer, or of a worker's share of it.
pub type SampleSum<'s, 'l, M> = Adding<'s, M, AnyClip<'l>, <ThresholdRule as Threshold>::Counts>;

/// Adds the gradients of samples to a sum. Wider SIMD does not change the bits, because nothing is fused or reordered.
struct Add<'a, 's, 'l, M: Mechanism> {
    samples: &'a [&'a [&'a [f32]]],
    sum: SampleSum<'s, 'l, M>,
}

impl<M: Mechanism> WithSimd for Add<'_, '_, '_, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<V: Simd>(self, _: V) {
        self.sum.each_combined(self.samples).expect(SHAPES);
    }
}

/// A mechanism with the state of its noise.
pub trait Trained: Mechanism<Word: Send> + Send + Sync {
    /// Returns the noise state for `dim` parameters before step `first`, equal to that of a run that never stopped.
    ///
    /// # Errors
    ///
    /// The mechanism is for another number of parameters.
    fn noise(&self, dim: usize, first: u32, generator: &RunGenerator) -> Result<Self::NoiseState, CallError>;

    /// The integers of a sum on the grid.
    type Integer: Word + Into<i64>;

    /// Returns the words of a sum on the grid. Returns `None` for floats, because their totals over ranks depend on the
    /// order.
    fn grid(words: &mut [Self::Word]) -> Option<&mut [SumWord<Self::Integer>]>;

    /// Adds `samples`, each in consecutive segments, with SIMD. Each mechanism compiles this code here, so that no
    /// other crate compiles it again.
    fn add_each(sum: SampleSum<'_, '_, Self>, samples: &[&[&[f32]]]);

    /// Returns the event of the whole run, if its steps have no privacy cost of their own.
    fn whole(&self) -> Option<Result<SampledGaussian, ConfigError>> {
        None
    }
}

macro_rules! exact {
    ($word:ty) => {
        impl Trained for DiscreteGaussian<$word> {
            type Integer = $word;

            fn noise(&self, _: usize, _: u32, _: &RunGenerator) -> Result<(), CallError> {
                Ok(())
            }

            fn grid(words: &mut [SumWord<$word>]) -> Option<&mut [SumWord<$word>]> {
                Some(words)
            }

            fn add_each(sum: SampleSum<'_, '_, Self>, samples: &[&[&[f32]]]) {
                Arch::new().dispatch(Add { samples, sum });
            }
        }
    };
}

exact!(i32);
exact!(i64);

impl Trained for ContinuousGaussian {
    type Integer = i64;

    fn noise(&self, _: usize, _: u32, _: &RunGenerator) -> Result<(), CallError> {
        Ok(())
    }

    fn grid(_: &mut [SumWord<f32>]) -> Option<&mut [SumWord<i64>]> {
        None
    }

    fn add_each(sum: SampleSum<'_, '_, Self>, samples: &[&[&[f32]]]) {
        Arch::new().dispatch(Add { samples, sum });
    }
}

/// Correlated noise. Its buffers are as secret as the key. They are wiped with the state and never written to a file.
/// They can be rebuilt from the key.
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

    fn add_each(sum: SampleSum<'_, '_, Self>, samples: &[&[&[f32]]]) {
        Arch::new().dispatch(Add { samples, sum });
    }

    fn whole(&self) -> Option<Result<SampledGaussian, ConfigError>> {
        Some(self.event())
    }
}
