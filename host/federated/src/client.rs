//! A device's round: draw its units, charge, clip and sum their contributions, add its noise, and return the bytes.
//!
//! # Influence of the server
//!
//! The network is the device's own file, which the plan fixes. A request has a round and the values of the trained
//! parameters, which must be finite. Any invalid request gets the same error message. So the server cannot choose the
//! network, the loss, the classes or the shapes that rows are checked against. Faults that depend on rows are found
//! when the device reads them, before any request. If contributions fail after the charge, the update is noise alone.
//!
//! Each round has a fresh key from the operating system, which is erased. So no key is on disk, and the noise of two
//! rounds is independent, even after a loss between them.

use super::contributions::{Contributions, Take};
use super::{RoundError, Users};
use damper_accounting::RunKind;
use damper_core::accounting::{Ledger, Record, Store};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::numerics::reduce::sum_of_squares;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Sender, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_federation::{FederationError, FederationPlan, RoundLedger, Unit};
use damper_onnx::SettingError;
use damper_runtime::Backend;
use damper_train::gradients::GradientOptions;
use damper_train::inside::generator::{self, RunGenerator};
use damper_train::{ModelAndData, TrainError};
use std::convert::Infallible;
use std::fmt;

/// A device's model and samples, with their users.
#[derive(Clone, Copy, Debug)]
pub struct DeviceData<'a> {
    /// The round's model, and the device's data.
    pub read: &'a ModelAndData,
    /// The users of the samples. Not used if the unit is a sample.
    pub users: &'a Users,
}

impl DeviceData<'_> {
    /// Returns the number of units.
    #[must_use]
    pub fn units(&self, unit: Unit) -> usize {
        match unit {
            Unit::Sample => self.read.data.train.len(),
            Unit::User => self.users.len(),
        }
    }
}

/// A server's request to a device.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The round, counted from 0.
    pub round: u32,
    /// The trained parameters, `[D]`, flat, in the gradient graph's order. `None` uses the model's own, and is valid
    /// only in round 0.
    pub params: Option<&'a [f32]>,
}

impl Request<'_> {
    /// Returns an error unless this is a request of `plan`. The message is the same for any fault.
    ///
    /// # Errors
    ///
    /// It is not a request of `plan`.
    pub fn check(&self, plan: &FederationPlan) -> Result<(), FederationError> {
        let fits = match self.params {
            None => self.round == 0,
            Some(params) => params.len() == plan.parameters as usize && params.iter().all(|x| x.is_finite()),
        };
        if fits { Ok(()) } else { Err(FederationError::Request { parameters: plan.parameters }) }
    }
}

/// The backend and options that run the network.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// Physical batch, memory and threads.
    pub options: &'a GradientOptions,
}

/// Callbacks during the computation of a round.
#[derive(Default)]
pub struct Listening<'a> {
    /// Receives the number of drawn contributions that were not finite and added nothing, if any. Also receives the
    /// reason if an update is noise alone. Both depend on the device's rows, and ε does not cover them.
    pub rows: Option<&'a mut dyn FnMut(&str)>,
    /// Receives the update without any unit, after the charge of the round and before any contribution. It may be sent
    /// instead of the round's update if that is late. Both have the same noise, so only one of them may ever leave the
    /// device.
    pub noise_alone: Option<&'a mut dyn FnMut(Vec<u8>)>,
}

impl Listening<'_> {
    fn of_rows(&mut self, text: &str) {
        if let Some(rows) = &mut self.rows {
            rows(text);
        }
    }
}

/// A device of a federation.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    plan: &'a FederationPlan,
    number: u32,
    seed: Option<u64>,
}

impl<'a> Device<'a> {
    /// Creates device `number`, counted from 1. `seed` is for a simulation.
    ///
    /// # Errors
    ///
    /// The plan has no such device, it is a simulation without a seed, or it is private with a seed.
    pub fn new(plan: &'a FederationPlan, number: u32, seed: Option<u64>) -> Result<Self, RoundError> {
        if !(1..=plan.devices).contains(&number) {
            let problem = format!("the plan has devices 1 to {}; give the device's own number", plan.devices);
            return Err(SettingError::new("device", number, problem).into());
        }
        match (plan.run, seed) {
            (RunKind::Simulation, None) => {
                Err(SettingError::new("seed", "", "the plan is a simulation's; give the seed of its noise").into())
            }
            (RunKind::Private, Some(seed)) => {
                let problem =
                    "the plan is private, and with a seed nothing is; leave it out, or make a plan of a simulation";
                Err(SettingError::new("seed", seed, problem).into())
            }
            _ => Ok(Self { plan, number, seed }),
        }
    }

    /// Returns the generator of `round`. A simulation has one generator for all rounds of the device, because the noise
    /// of each round has its own address.
    pub(super) fn generator(&self) -> Result<RunGenerator, RoundError> {
        let seed = self.seed.map(|seed| (seed << 32).wrapping_add(u64::from(self.number)));
        Ok(generator::fresh(seed)?)
    }

    /// Returns the units drawn in `round`, ascending.
    pub(super) fn draw(&self, generator: &RunGenerator, round: u32, units: u32) -> Result<Vec<u32>, RoundError> {
        Ok(poisson(generator, round, self.plan.rate()?, units).collect())
    }

    /// Returns the contributions of the device, checked against the plan.
    pub(super) fn contributions<'d>(
        &self,
        data: DeviceData<'d>,
        machine: Machine<'_>,
    ) -> Result<Contributions<'d>, RoundError> {
        Contributions::new(self.plan, data.read, data.users, machine.backend, machine.options)
    }

    /// Charges the round of `request` to `ledger`, on disk, before anything is read. This is for a device that has
    /// joined, which answers for any rows, and may take any time to read them.
    ///
    /// # Errors
    ///
    /// The request is not of the plan, its round is already charged, or the disk fails.
    pub fn charge(&self, request: Request<'_>, ledger: &mut RoundLedger) -> Result<ChargedRound<'a>, RoundError> {
        request.check(self.plan)?;
        ledger.at(request.round)?;
        let (step, generator) = (step(self.plan)?, self.generator()?);
        ledger.charge(request.round)?;
        Ok(ChargedRound { device: *self, round: request.round, step, generator })
    }

    /// Returns the bytes of the update that answers `request`. The round is charged to `ledger`, on disk, before a unit
    /// is drawn. If the contributions cannot be computed after that, the update is noise alone.
    ///
    /// # Errors
    ///
    /// The request is not of the plan, its round is already charged, the data or the model does not fit, or the disk
    /// fails.
    pub fn update(
        &self,
        data: DeviceData<'_>,
        request: Request<'_>,
        machine: Machine<'_>,
        ledger: &mut RoundLedger,
    ) -> Result<Vec<u8>, RoundError> {
        self.update_telling(data, request, machine, ledger, &mut Listening::default())
    }

    /// Does the same as [`update`](Self::update), and calls `listening`.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn update_telling(
        &self,
        data: DeviceData<'_>,
        request: Request<'_>,
        machine: Machine<'_>,
        ledger: &mut RoundLedger,
        listening: &mut Listening<'_>,
    ) -> Result<Vec<u8>, RoundError> {
        ledger.at(request.round)?;
        request.check(self.plan)?;
        let contributions = self.ready(data, request, machine)?;
        let charged = self.charge(request, ledger)?;
        if let Some(take) = &mut listening.noise_alone {
            take(charged.noise_alone()?);
        }
        charged.add(contributions, listening)
    }

    /// Returns the contributions at the parameters of `request`, after a trial run.
    fn ready<'d>(
        &self,
        data: DeviceData<'d>,
        request: Request<'_>,
        machine: Machine<'_>,
    ) -> Result<Contributions<'d>, RoundError> {
        let mut contributions = self.contributions(data, machine)?;
        if let Some(params) = request.params {
            contributions.move_to(params);
        }
        contributions.rehearse()?;
        Ok(contributions)
    }
}

/// A round that a device's ledger has charged. Only one of its updates may leave the device, because all have the same
/// noise.
pub struct ChargedRound<'a> {
    device: Device<'a>,
    round: u32,
    step: PrivateStep,
    generator: RunGenerator,
}

impl ChargedRound<'_> {
    /// Returns the bytes of the update without any unit.
    ///
    /// # Errors
    ///
    /// The core rejects the step.
    pub fn noise_alone(&self) -> Result<Vec<u8>, RoundError> {
        self.emit(&mut |_| Ok(()))?
    }

    /// Returns the bytes of the update to which `fill` adds contributions, or its error.
    fn emit(&self, fill: &mut Fill<'_>) -> Result<Result<Vec<u8>, RoundError>, RoundError> {
        let plan = self.device.plan;
        let sum = vec![SumWord::<i32>::ZERO; plan.parameters as usize];
        let mut state = StepState::new(sum, (), SgdState { momentum: [0.0f32; 0] }, ());
        let mut ledger = Ledger::resume(Charged(self.round), plan.rounds, self.round);
        let mut open = self.step.open(&mut state, &mut ledger).map_err(not_released)?;
        if let Err(error) = fill(&mut |parts| open.add_combined(parts).map(|_| ())) {
            return Ok(Err(error));
        }
        let sender = Sender { run: plan.run_number(), device: u64::from(self.device.number), round: self.round };
        let mut bytes = vec![];
        open.emit(sender, &self.generator, |part| bytes.extend_from_slice(part)).map_err(not_released)?;
        Ok(Ok(bytes))
    }

    /// Returns the bytes of the update. It is noise alone if the contributions of `data` cannot be computed.
    ///
    /// # Errors
    ///
    /// The core rejects the step.
    pub fn update(
        &self,
        data: DeviceData<'_>,
        request: Request<'_>,
        machine: Machine<'_>,
        listening: &mut Listening<'_>,
    ) -> Result<Vec<u8>, RoundError> {
        match self.device.ready(data, request, machine) {
            Ok(contributions) => self.add(contributions, listening),
            Err(error) => {
                listening.of_rows(&failed(&error));
                self.noise_alone()
            }
        }
    }

    fn add(&self, mut contributions: Contributions<'_>, listening: &mut Listening<'_>) -> Result<Vec<u8>, RoundError> {
        let drawn = self.device.draw(&self.generator, self.round, contributions.count())?;
        if drawn.len() > self.device.plan.most_units as usize {
            listening.of_rows(&format!(
                "{} units are drawn, more than the plan's {}; the server may leave the update out",
                drawn.len(),
                self.device.plan.most_units
            ));
        }
        let mut non_finite = 0;
        let filled = self.emit(&mut |add| {
            contributions.each(&drawn, &mut |parts| {
                // Uses the same test as the core.
                non_finite += usize::from(!sum_of_squares(parts.iter().copied()).is_finite());
                add(parts)
            })
        })?;
        let bytes = match filled {
            Ok(bytes) => bytes,
            Err(error) => {
                // The failure may depend on rows, so the server does not learn about it.
                listening.of_rows(&failed(&error));
                return self.noise_alone();
            }
        };
        if non_finite > 0 {
            listening.of_rows(&format!(
                "{non_finite} of the {} drawn units' contributions were not finite and added nothing; scale the features (`scale`, \
                 `normalize`), or look for values that overflow",
                drawn.len()
            ));
        }
        Ok(bytes)
    }
}

/// Adds contributions by calling its argument.
type Fill<'a> = dyn FnMut(&mut Take<'_>) -> Result<(), RoundError> + 'a;

fn failed(error: &RoundError) -> String {
    format!("the update is noise alone, for the units' contributions failed: {error}")
}

/// Returns the step of a round of `plan`.
fn step(plan: &FederationPlan) -> Result<PrivateStep, RoundError> {
    Ok(PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::new(Grid::new(plan.grid_bits)?, plan.sigma)?,
        clip: FlatL2,
        threshold: Fixed(plan.clip),
        filter: Identity,
        // The server updates the parameters.
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(1.0),
        expected_batch: plan.expected_batch,
    })?)
}

/// A round that the device's ledger has charged.
struct Charged(u32);

impl Store for Charged {
    type Error = Infallible;

    fn persist(&mut self, _: Record) -> Result<(), Infallible> {
        Ok(())
    }

    fn charged_steps(&self) -> u32 {
        self.0
    }
}

fn not_released(error: impl fmt::Display) -> TrainError {
    TrainError::Run(format!("the update was not released: {error}"))
}
