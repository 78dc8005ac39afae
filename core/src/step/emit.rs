//! Updates that leave the device: releases a step's sum on the grid, as bytes. The parameters do not change here.

use super::Open;
use super::config::StepConfig;
use crate::error::CallError;
use crate::filter::Identity;
use crate::noise::{Address, CHUNK, DiscreteGaussian, Generator, Purpose};
use crate::numerics::digest::Digest;
use crate::threshold::Fixed;
use crate::update::{Header, PayloadWord};

/// Sender of an update, and its round.
///
/// ```
/// use damper_core::{prelude::*, step::Sender, update::Update};
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add(&[0.5, -0.2])?;
/// let mut bytes = vec![];
/// step.emit(Sender { run: 1, device: 7, round: 3 }, &NoiseRng::simulation(1), |part| bytes.extend(part))?;
/// assert_eq!(Update::parse(&bytes)?.header().round, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    /// Number of the federation's run.
    pub run: u64,
    /// Number of this device, unique in the run.
    pub device: u64,
    /// Round of the federation.
    pub round: u32,
}

/// Updates need the exact path with a fixed clip and no filter. Their sums can be added, because they share one grid
/// and one unit. The float path has no `emit`:
///
/// ```compile_fail,E0599
/// use damper_core::{filter::Identity, noise::*, optimizer::*, step::{Open, PrivateStep, Sender}};
/// type Floats<'a> = Open<'a, PrivateStep<Identity, Sgd, ContinuousGaussian>, (), SgdState<[f32; 1]>>;
/// fn emit(open: Floats<'_>, sender: Sender, generator: &ChaCha20) {
///     let _ = open.emit(sender, generator, |_: &[u8]| ());
/// }
/// ```
///
/// A sum is released once. Two sums released with the same noise would let their holder cancel the noise:
///
/// ```compile_fail,E0382
/// use damper_core::{noise::*, optimizer::*, step::{Open, PrivateStep, Sender}};
/// type OnGrid<'a> = Open<'a, PrivateStep, (), SgdState<[f32; 1]>>;
/// fn twice(mut open: OnGrid<'_>, sender: Sender, generator: &ChaCha20) {
///     let _ = open.emit(sender, generator, |_: &[u8]| ());
///     let _ = open.add_combined(&[&[1.0]]);
/// }
/// ```
impl<P, OS> Open<'_, P, (), OS>
where
    P: StepConfig<Mechanism = DiscreteGaussian<i32>, Threshold = Fixed, Filter = Identity>,
{
    /// Adds the noise and writes the released sum to `sink`, from the first byte to the last, in the format of
    /// [`update`](crate::update). Wipes the sum along the way.
    ///
    /// Bytes that `sink` loses cannot be recovered. The charge stays, and a step is not released twice.
    ///
    /// # Errors
    ///
    /// Fails if the sum has 2³² coordinates or more, or the step is [broken](CallError::Broken). Nothing is released.
    pub fn emit<G: Generator>(
        self,
        sender: Sender,
        generator: &G,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), CallError> {
        if self.is_broken {
            return Err(CallError::Broken);
        }
        let mechanism = self.adder.mechanism;
        let Ok(dim) = u32::try_from(self.sum.sum.len()) else {
            return Err(CallError::Order("an update of more coordinates than 32 bits count"));
        };
        let header = Header {
            run: sender.run,
            device: sender.device,
            round: sender.round,
            devices: 1,
            dim,
            grid_bits: mechanism.grid().bits(),
            expected_batch: self.expected_batch,
            sigma: mechanism.sigma(),
            clip: self.adder.threshold,
        };
        let mut digest = Digest::default();
        let mut put = |bytes: &[u8]| {
            digest.add_bytes(bytes);
            sink(bytes);
        };
        put(&header.bytes(PayloadWord::Device));
        let step = self.adder.step;
        for (chunk, sum) in self.sum.sum.chunks_mut(CHUNK).enumerate() {
            let mut words = generator.stream(Address { purpose: Purpose::GradientNoise, step, chunk: chunk as u32 });
            for word in sum {
                put(&mechanism.noised(word, &mut words).to_le_bytes());
            }
        }
        let checksum = digest.value();
        sink(&checksum.to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Ledger;
    use crate::clip::FlatL2;
    use crate::grid::Grid;
    use crate::noise::ChaCha20;
    use crate::optimizer::{Sgd, SgdState};
    use crate::private::SumWord;
    use crate::schedule::Constant;
    use crate::step::{PrivateStep, Slots, StepState};
    use crate::update::Update;

    extern crate std;
    use std::vec::Vec;

    const DIM: usize = 1500;

    fn step() -> PrivateStep {
        PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
            clip: FlatL2,
            threshold: Fixed(0.5),
            filter: Identity,
            optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
            schedule: Constant(1.0),
            expected_batch: 4,
        })
        .unwrap()
    }

    fn state() -> StepState<Vec<SumWord<i32>>, (), SgdState<[f32; 0]>> {
        StepState::new(std::vec![SumWord::ZERO; DIM], (), SgdState { momentum: [] }, ())
    }

    fn sample(seed: u64) -> Vec<f32> {
        (0..DIM as u64).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
    }

    // The emitted update equals the change of the parameters in `finish`.
    #[test]
    fn emitted_update_matches_finish() {
        let (step, generator) = (step(), ChaCha20::<20>::simulation(5));
        let (mut bytes, mut params) = (Vec::new(), std::vec![0.0; DIM]);
        for emits in [true, false] {
            let (mut state, mut ledger) = (state(), Ledger::volatile(1));
            let mut open = step.open(&mut state, &mut ledger).unwrap();
            for seed in 0..3 {
                open.add_combined(&[&sample(seed)]).unwrap();
            }
            if emits {
                let sender = Sender { run: 1, device: 2, round: 3 };
                open.emit(sender, &generator, |part| bytes.extend_from_slice(part)).unwrap();
            } else {
                open.finish(&mut params, &generator).unwrap();
            }
            assert!(state.sum.iter().all(|word| word.0 == 0));
        }
        let update = Update::parse(&bytes).unwrap();
        let header = update.header();
        assert_eq!((header.run, header.device, header.round, header.multiplier()), (1, 2, 3, 1.0));
        assert_eq!((header.dim as usize, header.grid_bits, header.expected_batch, header.clip), (DIM, 16, 4, 0.5));
        let unit = 0.5 / 65536.0 / 4.0;
        assert!(
            update.units().zip(&params).all(|(units, param)| (units as f32 * unit).to_bits() == (-param).to_bits())
        );
        // The noise continues past the first chunk.
        assert!(update.units().skip(CHUNK).any(|units| units != 0));
    }

    // The updates of several devices add up to the update of one process.
    #[test]
    fn device_updates_sum_to_one_process() {
        let mut total = std::vec![0i64; DIM];
        let mut one_process = std::vec![SumWord::<i64>::ZERO; DIM];
        for device in 0..4u64 {
            let (step, generator) = (step(), ChaCha20::<20>::simulation(device));
            let samples = [sample(2 * device), sample(2 * device + 1)];
            let (mut state, mut ledger) = (state(), Ledger::volatile(1));
            let mut open = step.open(&mut state, &mut ledger).unwrap();
            samples.iter().for_each(|sample| open.add_combined(&[sample]).unwrap());
            let mut bytes = Vec::new();
            open.emit(Sender { run: 1, device, round: 0 }, &generator, |part| bytes.extend_from_slice(part)).unwrap();
            total.iter_mut().zip(Update::parse(&bytes).unwrap().units()).for_each(|(total, units)| *total += units);
            // One sum in wider words, over all samples and all noise.
            let mechanism = DiscreteGaussian::<i64>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap();
            samples.iter().for_each(|sample| {
                mechanism.grid().add_sample(&FlatL2, 0.5, &[sample], &mut one_process);
            });
            for (chunk, sum) in one_process.chunks_mut(CHUNK).enumerate() {
                let address = Address { purpose: Purpose::GradientNoise, step: 0, chunk: chunk as u32 };
                let mut words = generator.stream(address);
                sum.iter_mut().for_each(|word| word.0 = mechanism.noised(&mut word.clone(), &mut words));
            }
        }
        assert!(total.iter().zip(&one_process).all(|(total, word)| *total == word.0));
    }
}
