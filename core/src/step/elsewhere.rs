//! A step with its samples added in other memory, such as that of a GPU: the constants for its kernels, and their
//! results. Every function takes [`Unreleased`].
//!
//! The code for the other memory follows [`grid`](crate::grid) and [`noise`](crate::noise), with their bits:
//!
//! 1. It clips each sample, rounds it onto the grid and adds it. It [counts](Open::count_elsewhere) the sample here.
//! 2. It adds the noise of this step's number, computes the mean, and wipes the sum.
//! 3. It passes the mean to all parts of the noise ([`NoisePart::take_released`](super::NoisePart::take_released)) in
//!    [`Open::finish_exchanged`].
//!
//! # Privacy
//!
//! Nothing here is released. The caller must ensure that a sample adds at most the clip, and that the noise is added
//! once. The token marks this responsibility. A part that receives no values draws its noise onto an empty sum, and
//! releases only noise.

use super::Open;
use super::config::StepConfig;
use damper_access::Unreleased;

/// Constants of an open step, for other memory. `M` is its mechanism and `C` its clipping rule.
///
/// ```
/// use damper_access::Unreleased;
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// // A device clips to this threshold and adds the sample's norm here.
/// let elsewhere = step.elsewhere(Unreleased::claim());
/// assert_eq!((elsewhere.step, elsewhere.threshold, elsewhere.expected_batch), (0, 1.0, 4));
/// step.count_elsewhere(Some(0.5), Unreleased::claim());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Elsewhere<M, C> {
    /// Number of the step, which addresses its noise.
    pub step: u32,
    /// Mechanism of this step, with its noise scaled by the schedule.
    pub mechanism: M,
    /// Clipping rule.
    pub clip: C,
    /// Clipping threshold of this step, `C_t`.
    pub threshold: f32,
    /// Divisor of the sum, `B`.
    pub expected_batch: u32,
}

impl<P: StepConfig, FS, OS> Open<'_, P, FS, OS> {
    /// Returns the constants of this step.
    #[must_use]
    pub fn elsewhere(&self, _: Unreleased) -> Elsewhere<P::Mechanism, P::Clip> {
        let adder = self.adder;
        Elsewhere {
            step: adder.step,
            mechanism: adder.mechanism,
            clip: adder.clip,
            threshold: adder.threshold,
            expected_batch: self.expected_batch,
        }
    }

    /// Counts a sample that was added elsewhere, by the norm of its whole gradient. The norm is `None` if its square is
    /// not a finite f32.
    pub fn count_elsewhere(&mut self, norm: Option<f32>, _: Unreleased) {
        self.adder.count(norm, &mut self.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Ledger;
    use crate::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
    use crate::filter::Identity;
    use crate::grid::Grid;
    use crate::noise::{Address, CHUNK, ChaCha20, DiscreteGaussian, Generator, Purpose};
    use crate::numerics::round::saturate;
    use crate::optimizer::{Sgd, SgdState};
    use crate::private::SumWord;
    use crate::schedule::Constant;
    use crate::step::{NoisePart, PrivateStep, Slots, StepState};
    use crate::threshold::{Fixed, Quantile, QuantileState, Threshold};
    use core::convert::Infallible;
    use std::vec;
    use std::vec::Vec;

    extern crate std;

    const DIM: usize = CHUNK + 37;

    fn samples() -> Vec<Vec<f32>> {
        let mut samples: Vec<Vec<f32>> =
            (1..6).map(|k| (0..DIM).map(|i| ((i * k % 17) as f32 - 8.0) * 0.01 * k as f32).collect()).collect();
        samples[1][5] = f32::NAN;
        // The squares underflow, so the first scales do not fit.
        samples[3].iter_mut().for_each(|x| *x *= 1e-22);
        samples
    }

    fn same<C: Clip, T: Threshold + Copy>(clip: C, threshold: T, state: impl Fn() -> T::State) {
        let step = PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::<i64>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
            clip,
            threshold,
            filter: Identity,
            optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
            schedule: Constant(0.1),
            expected_batch: 3,
        })
        .unwrap();
        let generator: ChaCha20 = ChaCha20::simulation(5);
        let new = || {
            (
                StepState::new(vec![SumWord::ZERO; DIM], (), SgdState { momentum: vec![0f32; DIM] }, state()),
                Ledger::volatile(4),
            )
        };
        let ((mut here, mut ledger_here), (mut there, mut ledger_there)) = (new(), new());
        let (mut params_here, mut params_there) = (vec![0f32; DIM], vec![0f32; DIM]);
        for _ in 0..3 {
            let mut open = step.open(&mut here, &mut ledger_here).unwrap();
            samples().iter().for_each(|grad| open.add_combined(&[grad]).unwrap());
            open.finish(&mut params_here, &generator).unwrap();

            let mut open = step.open(&mut there, &mut ledger_there).unwrap();
            let Elsewhere { step, mechanism, clip, threshold, expected_batch } = open.elsewhere(Unreleased::claim());
            let (mut sum, mut memory) = (vec![0i64; DIM], vec![SumWord::<i64>::ZERO; DIM]);
            for grad in samples() {
                let mut words = sum.iter_mut();
                let add = |q: i64| *words.next().unwrap() += q;
                let norm = mechanism.grid().round_sample(&clip, threshold, &[&grad], &mut memory, add).unwrap();
                open.count_elsewhere(norm, Unreleased::claim());
            }
            let unit = threshold / mechanism.grid().unit() as f32 / expected_batch as f32;
            let mut released = vec![];
            for (chunk, sum) in sum.chunks(CHUNK).enumerate() {
                let address = Address { purpose: Purpose::GradientNoise, step, chunk: chunk as u32 };
                let mut words = generator.stream(address);
                released.extend(sum.iter().map(|sum| saturate((sum + mechanism.sample(&mut words)) as f32 * unit)));
            }
            let take = |parts: &mut [NoisePart<'_, DiscreteGaussian<i64>, ChaCha20>]| {
                for part in parts {
                    let coordinates = part.coordinates();
                    assert!(part.take_released(&released[coordinates], Unreleased::claim()));
                }
                Ok::<(), Infallible>(())
            };
            open.finish_exchanged(&mut params_there, &generator, 2, take).unwrap();
            assert_eq!(params_here, params_there);
            assert!(params_here.iter().all(|x| *x != 0.0));
        }
    }

    #[test]
    fn other_memory_has_the_same_bits() {
        same(FlatL2, Fixed(1.0), || ());
        same(FlatL2, Quantile::new(0.5, 0.3, 2.0).unwrap(), || QuantileState::new(1.0).unwrap());
        same(Automatic::new(0.01).unwrap(), Fixed(1e-22), || ());
        let layers = [Layer::equal(DIM - 9, 2), Layer::equal(9, 2)];
        same(PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap(), Fixed(0.3), || ());
    }
}
