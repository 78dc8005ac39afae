//! The sum of a step, which has no accessor: the one place where it is read, for audits.
//!
//! A step is opened beside the run, on the run's own state with a ledger of its own; the workers gather into it; it is read
//! by the core's access for audits, and dropped instead of finished. Nothing is released, no state moves, and what is read is what the
//! mechanism would have added its noise to.

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

/// Charges, and the draws that were made for them.
pub(super) struct Account {
    ledger: Ledger<Paid>,
    /// Draws made.
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
    /// An account of so many steps.
    pub(super) fn new(steps: u32) -> Self {
        Self::at(steps, 0)
    }

    /// An account of which so many were charged and drawn.
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
    /// Its number: the address of its noise and its draw.
    pub(super) number: u32,
    /// The event that is accounted for it.
    pub(super) event: SampledGaussian,
    /// Its clip.
    pub(super) clip: f32,
    /// Digests of where each sample's gradient is taken, and with which weight.
    pub(super) points: Vec<(u64, u32)>,
    /// The samples drawn.
    pub(super) draw: Vec<u32>,
    /// The clipped sum.
    pub(super) sum: StepSum,
    /// The counts, without noise.
    pub(super) counts: Vec<i32>,
}

/// In which order the samples of a draw reach the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Ascending, as they were drawn.
    Drawn,
    /// Each in another row, most in another chunk or at another worker.
    Moved,
}

/// The trainer's parts, as an audit steps them.
pub(super) struct Driven<'a, M: Trained, O, OS, G> {
    pub(super) run: &'a Run,
    pub(super) step: &'a RunStep<'a, M, O>,
    pub(super) state: State<M, OS>,
    pub(super) workers: G,
    pub(super) params: Vec<f32>,
    pub(super) generator: &'a RunGenerator,
    pub(super) draw: Draw<'a>,
    /// Samples behind the split that are drawn and not gathered.
    pub(super) others: u32,
}

impl<M, O, OS, G> Driven<'_, M, O, OS, G>
where
    M: Trained,
    O: Optimizer<OS>,
    G: Accumulate<M>,
    StepSum: From<Vec<M::Word>>,
{
    /// The coming step on `split`, which is not released.
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

    /// The coming step on `split`, released: the parameters move. `add` adds what comes beside the split.
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
