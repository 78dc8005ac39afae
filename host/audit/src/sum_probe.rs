//! Probe of a step's sum. The sum has no accessor, and this is the only place that reads it, for audits.
//!
//! The probe opens a step next to the run, on the run's own state and with a separate ledger. The workers accumulate
//! into it. The core's access for audits reads the sum, and the step is dropped instead of finished. Nothing is
//! released and no state changes. The sum is exactly what the mechanism would have added its noise to.

use damper_access::Unreleased;
use damper_core::accounting::{Ledger, Record, SampledGaussian, Store};
use damper_core::error::OpenError;
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::Optimizer;
use damper_data::Split;
use damper_train::inside::generator::RunGenerator;
use damper_train::inside::step_loop::{Draw, State, StepSum, event};
use damper_train::inside::trained::Trained;
use damper_train::inside::worker::{Accumulate, GradientObserver, Opened, RunStep};
use damper_train::{Run, TrainError};
use std::convert::Infallible;

/// Charges, and the draws that they cover.
pub(super) struct Account {
    ledger: Ledger<Paid>,
    /// Number of draws.
    pub(super) draws: u32,
}

struct Paid(u32);

impl Store for Paid {
    type Error = Infallible;

    fn persist(&mut self, record: Record) -> Result<(), Infallible> {
        self.0 = record.paid;
        Ok(())
    }
}

impl Account {
    /// Creates an account of `steps` steps.
    pub(super) fn new(steps: u32) -> Self {
        Self::at(steps, 0)
    }

    /// Creates an account with `paid` steps charged and drawn.
    pub(super) fn at(steps: u32, paid: u32) -> Self {
        Self { ledger: Ledger::resume(Paid(paid), steps, paid), draws: paid }
    }

    /// Fails unless a charge was persisted for each draw.
    pub(super) fn settled(&self) -> Result<(), String> {
        let (Paid(paid), draws) = (self.ledger.store(), self.draws);
        if *paid == draws { Ok(()) } else { Err(format!("{draws} draws were made and {paid} paid")) }
    }

    /// Opens a step of the run.
    pub(super) fn open<'a, 'l, M: Trained, O: Optimizer<OS>, OS>(
        &mut self,
        step: &RunStep<'l, M, O>,
        state: &'a mut State<M, OS>,
    ) -> Result<Opened<'a, 'l, M, O, OS>, TrainError> {
        step.open(state, &mut self.ledger).map_err(|error| match error {
            OpenError::Store(never) => match never {},
            OpenError::BudgetSpent | OpenError::Call(_) => TrainError::Run(format!("the step did not open: {error}")),
        })
    }
}

/// Observations of a step before its release.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SumProbe {
    /// Number of the step: the address of its noise and its draw.
    pub(super) number: u32,
    /// Event that the accountant charges for it.
    pub(super) event: SampledGaussian,
    /// Clip of the step.
    pub(super) clip: f32,
    /// Digests of each evaluation point, with its weight.
    pub(super) points: Vec<(u64, u32)>,
    /// Drawn samples.
    pub(super) draw: Vec<u32>,
    /// Clipped sum.
    pub(super) sum: StepSum,
    /// Counts without noise.
    pub(super) counts: Vec<i32>,
}

/// Order in which the samples of a draw reach the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Ascending, as drawn.
    Drawn,
    /// Each sample is in another row, and most are in another chunk or at another worker.
    Moved,
}

/// Parts of the trainer that an audit steps.
pub(super) struct Driven<'a, M: Trained, O, OS, G> {
    pub(super) run: &'a Run,
    pub(super) step: &'a RunStep<'a, M, O>,
    pub(super) state: State<M, OS>,
    pub(super) workers: G,
    pub(super) params: Vec<f32>,
    pub(super) generator: &'a RunGenerator,
    pub(super) draw: Draw<'a>,
    /// Samples after the split that are drawn but not gathered.
    pub(super) others: u32,
}

impl<M, O, OS, G> Driven<'_, M, O, OS, G>
where
    M: Trained,
    O: Optimizer<OS>,
    G: Accumulate<M>,
    StepSum: From<Vec<M::Word>>,
{
    /// Takes the next step on `split` without a release.
    pub(super) fn sum_probe(
        &mut self,
        split: &Split,
        account: &mut Account,
        order: Order,
        grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<SumProbe, TrainError> {
        let Self { run, step, state, workers, params, draw, others, .. } = self;
        let mut opened = account.open(step, state)?;
        draw.throw(&opened, split, *others);
        if order == Order::Moved {
            draw.samples.reverse();
            let by = draw.samples.len() / 3;
            draw.samples.rotate_left(by);
        }
        account.draws += 1;
        let (number, clip) = (opened.number(), opened.clip());
        draw.accumulate(&mut opened, split, workers, params, grad_observer)?;
        let points =
            draw.points().iter().map(|point| (Digest::of(&point.params).value(), point.weight.to_bits())).collect();
        let probe = opened.probe(Unreleased::claim());
        let (sum, counts) = (StepSum::from(probe.sum.to_vec()), probe.counts[..probe.query.len()].to_vec());
        drop(opened);
        Ok(SumProbe { number, event: event(run, step, number)?, clip, points, draw: draw.samples.clone(), sum, counts })
    }

    /// Takes the next step on `split` and releases it, which updates the parameters. `add` adds contributions from
    /// outside the split.
    pub(super) fn advance(
        &mut self,
        split: &Split,
        account: &mut Account,
        add: impl FnOnce(&mut Opened<'_, '_, M, O, OS>, &Draw),
    ) -> Result<(), TrainError> {
        let Self { step, state, workers, params, generator, draw, others, .. } = self;
        let mut opened = account.open(step, state)?;
        draw.throw(&opened, split, *others);
        draw.accumulate(&mut opened, split, workers, params, None)?;
        add(&mut opened, draw);
        opened.finish(params, *generator).expect("the parameters have the state's length");
        Ok(())
    }
}
