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
use damper_train::inside::generator::ChaCha20;
use damper_train::inside::step_loop::{Draw, State, Sum, event};
use damper_train::inside::trained::Trained;
use damper_train::inside::worker::{Accumulate, GradientObserver, Opened, Step};
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
        step: &Step<'l, M, O>,
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
    pub(super) sum: Sum,
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

/// The coming step of `run` on `split` and `others` samples behind it that are drawn and not gathered.
#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
pub(super) fn sum_probe<M, O, OS>(
    run: &Run,
    step: &Step<'_, M, O>,
    state: &mut State<M, OS>,
    account: &mut Account,
    (split, others): (&Split, u32),
    order: Order,
    draw: &mut Draw,
    workers: &mut impl Accumulate<M>,
    params: &[f32],
    generator: &ChaCha20,
    grad_observer: Option<&mut dyn GradientObserver>,
) -> Result<SumProbe, TrainError>
where
    M: Trained,
    O: Optimizer<OS>,
    Sum: From<Vec<M::Word>>,
{
    let mut opened = account.open(step, state)?;
    draw.throw(run, &opened, split, others, generator);
    if order == Order::Moved {
        draw.samples.reverse();
        let by = draw.samples.len() / 3;
        draw.samples.rotate_left(by);
    }
    account.draws += 1;
    let (number, clip) = (opened.number(), opened.clip());
    draw.accumulate(run, &mut opened, split, workers, params, generator, grad_observer)?;
    let points =
        draw.points().iter().map(|point| (Digest::of(&point.params).value(), point.weight.to_bits())).collect();
    let probe = opened.probe(Unreleased::claim());
    let (sum, counts) = (Sum::from(probe.sum.to_vec()), probe.counts[..probe.query.len()].to_vec());
    drop(opened);
    Ok(SumProbe { number, event: event(run, step, number)?, clip, points, draw: draw.samples.clone(), sum, counts })
}
