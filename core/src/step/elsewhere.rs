//! A step whose samples are added in other memory, such as that of a GPU: what its kernels need, and what comes back. All of it takes
//! [`Unreleased`].
//!
//! Whoever holds the other memory does what [`grid`](crate::grid) and [`noise`](crate::noise) say, with the bits that they say:
//!
//! ```text
//! 1. the norm of each sample, of each layer    SumOfSquares
//! 2. the scales of each layer                  Elsewhere::scales
//! 3. q_i = trunc(F(g_i·s)) is added, Σ q_i² compared with the square of the bound; the next scale, while it is above
//! 4. the sample is counted                     Open::count_elsewhere
//! 5. after all samples: the noise of each chunk, the mean; the sum is wiped
//! 6. NoisePart::take_released of all parts     Open::finish_exchanged
//! ```
//!
//! # Privacy
//!
//! Nothing here is released. That a sample adds at most the clip, and that noise is added once, is up to the caller, who answers for it with the
//! token. A step that gets nothing back draws its noise onto an empty sum: it releases noise alone.

use super::Open;
use super::config::StepConfig;
use crate::clip::{Clip, Layer};
use crate::count::Counts;
use crate::grid::{Grid, Scales, Word};
use crate::noise::DiscreteGaussian;
use damper_access::Unreleased;

/// The constants of an open step, for other memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Elsewhere<C> {
    /// The number of the step: the address of its noise.
    pub step: u32,
    /// σ of the step's noise in grid units.
    pub sigma: u32,
    /// The value of a grid unit in the released mean, `F(F(C/2^bits)/B)`.
    pub mean_unit: f32,
    grid: Grid,
    threshold: f32,
    clip: C,
}

impl<C: Clip> Elsewhere<C> {
    /// The layers that are clipped each on its own; one of all `dim` coordinates if there are none.
    pub fn layers(&self, dim: usize) -> impl Iterator<Item = Layer> + '_ {
        let layers = self.clip.layers().map(|layers| layers.as_slice());
        let whole = layers.is_none().then(|| Layer::whole(dim));
        layers.unwrap_or_default().iter().copied().chain(whole)
    }

    /// The scales that are tried after one another for a layer with this norm.
    #[must_use]
    pub fn scales(&self, layer: Layer, norm: f32) -> Scales {
        self.grid.scales(&self.clip, self.threshold, layer, norm)
    }
}

impl<W: Word, P: StepConfig<Mechanism = DiscreteGaussian<W>>, FS, OS> Open<'_, P, FS, OS> {
    /// The constants of this step.
    #[must_use]
    pub fn elsewhere(&self, _: Unreleased) -> Elsewhere<P::Clip> {
        let adder = &self.adder;
        let (grid, threshold) = (adder.mechanism.grid(), adder.threshold);
        Elsewhere {
            step: adder.step,
            sigma: adder.mechanism.sigma(),
            mean_unit: grid.mean_unit(threshold, self.expected_batch),
            grid,
            threshold,
            clip: adder.clip,
        }
    }

    /// Counts a sample that was added elsewhere, by the norm of its whole gradient; one whose squared norm is not a finite f32 has none.
    pub fn count_elsewhere(&mut self, norm: Option<f32>, _: Unreleased) {
        match norm {
            Some(norm) => self.adder.query.count(norm, self.counts.as_mut()),
            None => self.counts.non_finite(&self.adder.query),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Ledger;
    use crate::clip::{Automatic, FlatL2, Layers, PerLayer};
    use crate::filter::Identity;
    use crate::noise::{Address, CHUNK, ChaCha20, Generator, Purpose};
    use crate::numerics::reduce::sum_of_squares;
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
        // The squares underflow, so that its first scales do not fit.
        samples[3].iter_mut().for_each(|x| *x *= 1e-22);
        samples
    }

    /// Adds a sample as other memory does, in plain loops.
    fn add(elsewhere: &Elsewhere<impl Clip>, grad: &[f32], sum: &mut [i64]) -> Option<f32> {
        let norm_sq = sum_of_squares([grad].into_iter());
        if !norm_sq.is_finite() {
            return None;
        }
        let mut at = 0;
        for layer in elsewhere.layers(grad.len()) {
            let grads = &grad[at..at + layer.len];
            let scales = elsewhere.scales(layer, sum_of_squares([grads].into_iter()).sqrt());
            let bound = scales.bound() as f32;
            let rounded =
                |scale: f32| -> Vec<i64> { grads.iter().map(|g| (g * scale).clamp(-bound, bound) as i64).collect() };
            let fits = |q: &Vec<i64>| q.iter().map(|q| q * q).sum::<i64>() <= i64::from(scales.bound()).pow(2);
            if let Some(q) = scales.map(rounded).find(fits) {
                sum[at..at + layer.len].iter_mut().zip(q).for_each(|(sum, q)| *sum += q);
            }
            at += layer.len;
        }
        Some(norm_sq.sqrt())
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
            let elsewhere = open.elsewhere(Unreleased::claim());
            let mut sum = vec![0i64; DIM];
            for grad in samples() {
                open.count_elsewhere(add(&elsewhere, &grad, &mut sum), Unreleased::claim());
            }
            let mut released = vec![];
            for (chunk, sum) in sum.chunks(CHUNK).enumerate() {
                let address = Address { purpose: Purpose::GradientNoise, step: elsewhere.step, chunk: chunk as u32 };
                let mut words = generator.stream(address);
                let noise = DiscreteGaussian::<i64>::new(Grid::new(16).unwrap(), elsewhere.sigma).unwrap();
                released.extend(
                    sum.iter().map(|sum| saturate((sum + noise.sample(&mut words)) as f32 * elsewhere.mean_unit)),
                );
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
    fn samples_added_elsewhere_have_the_bits_of_those_added_here() {
        same(FlatL2, Fixed(1.0), || ());
        same(FlatL2, Quantile::new(0.5, 0.3, 2.0).unwrap(), || QuantileState::new(1.0).unwrap());
        same(Automatic::new(0.01).unwrap(), Fixed(1e-22), || ());
        let layers = [Layer::equal(DIM - 9, 2), Layer::equal(9, 2)];
        same(PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap(), Fixed(0.3), || ());
    }
}
