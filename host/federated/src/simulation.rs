//! A whole federation in one process, without bytes, ledgers or a network: a single 64-bit sum of all contributions and
//! noise.
//!
//! Its result is bit-identical to that of the simulated federation. Integers can be added in any order, and each
//! device's draw and noise are independent of the others.

use super::client::Device;
use super::contributions::Contributions;
use super::{DeviceData, Machine, RoundError, ServerModel};
use damper_core::clip::FlatL2;
use damper_core::grid::Grid;
use damper_core::noise::{Address, CHUNK, DiscreteGaussian, Generator, Purpose};
use damper_core::private::SumWord;
use damper_federation::FederationPlan;
use damper_train::TrainError;

/// A device that is missing from a round, because it left or its update was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Absent {
    /// The round, counted from 0.
    pub round: u32,
    /// The device, counted from 1.
    pub device: u32,
}

/// Runs all rounds of `plan`, a simulation with `seed`, on `server`. `devices` has the model and the data of each
/// device.
///
/// # Errors
///
/// A device's data or model does not fit, or a round has too few devices.
pub fn simulate(
    plan: &FederationPlan,
    server: &mut ServerModel,
    devices: &[DeviceData<'_>],
    absent: &[Absent],
    seed: u64,
    machine: Machine<'_>,
) -> Result<(), RoundError> {
    let mut members = vec![];
    for (number, data) in (1u32..).zip(devices) {
        let device = Device::new(plan, number, Some(seed))?;
        let contributions = device.contributions(*data, machine)?;
        plan.check_units(contributions.count())?;
        members.push((device, number, contributions));
    }
    for round in 0..plan.rounds {
        let mut sum = vec![0i64; plan.parameters as usize];
        let mut present = 0;
        for (device, number, contributions) in &mut members {
            if !absent.contains(&Absent { round, device: *number }) {
                contributions.move_to(server.params());
                add(plan, device, round, contributions, &mut sum)?;
                present += 1;
            }
        }
        server.apply_sum(plan, &sum, present)?;
    }
    Ok(())
}

/// Adds a device's contributions, clipped and on the grid, and its noise to `round`.
fn add(
    plan: &FederationPlan,
    device: &Device<'_>,
    round: u32,
    contributions: &mut Contributions<'_>,
    sum: &mut [i64],
) -> Result<(), RoundError> {
    let (grid, generator) = (Grid::new(plan.grid_bits)?, device.generator()?);
    let drawn = device.draw(&generator, round, contributions.count())?;
    let mut memory = vec![SumWord::<i64>::ZERO; sum.len()];
    contributions.each(&drawn, &mut |parts| {
        let mut words = sum.iter_mut();
        grid.round_sample(&FlatL2, plan.clip, parts, &mut memory, |units: i64| {
            words.next().into_iter().for_each(|word| *word += units);
        })?;
        Ok(())
    })?;
    let mechanism = DiscreteGaussian::<i64>::new(grid, plan.sigma).map_err(TrainError::from)?;
    for (chunk, sum) in (0u32..).zip(sum.chunks_mut(CHUNK)) {
        let mut words = generator.stream(Address { purpose: Purpose::GradientNoise, step: round, chunk });
        sum.iter_mut().for_each(|word| *word += mechanism.sample(&mut words));
    }
    Ok(())
}
