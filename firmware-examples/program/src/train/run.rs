//! A run by one method: the step, its state and the loop.

use crate::digits::{self, TRAIN};
use crate::line::{ReportLine, RunFailure};
use crate::mark::{GRADIENT, PROGRAM};
use crate::model::DeviceModel;
use damper_core::accounting::{Ledger, Rate};
use damper_core::clip::Clip;
use damper_core::error::OpenError;
use damper_core::filter::Filter;
use damper_core::noise::{ChaCha20, DiscreteGaussian, Generator};
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::Optimizer;
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::schedule::Schedule;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Threshold;

/// Steps the ledger allows.
pub const BUDGET: u32 = 40;
/// Expected samples a step.
pub const EXPECTED_BATCH: u32 = 60;

/// A run before its start.
pub struct DeviceRun<'a, const D: usize> {
    pub(super) model: &'a DeviceModel<D>,
    pub(super) method: &'static str,
    pub(super) say: &'a mut dyn FnMut(ReportLine<'_>),
}

impl<const D: usize> DeviceRun<'_, D> {
    /// Trains until the budget is spent. `buffers` are two, for an evaluation point and a combined gradient, if the
    /// filter evaluates gradients away from the parameters. Otherwise there are none.
    pub(super) fn train<C: Clip, T: Threshold, F: Filter<FS>, FS, O: Optimizer<OS>, OS, S: Schedule>(
        self,
        slots: Slots<F, O, DiscreteGaussian<i32>, T, C, S>,
        filter: FS,
        threshold: T::State,
        optimizer: OS,
        buffers: &mut [[f32; D]],
    ) -> Result<(), RunFailure> {
        let Self { model, method, say } = self;
        if buffers.len() != 2 && !slots.filter.evaluates_at_params() {
            return Err(RunFailure::Refused("no buffers for the filter's points"));
        }
        let rate = Rate::of(u64::from(EXPECTED_BATCH), u64::from(TRAIN))?;
        let step = PrivateStep::new(slots)?;
        // A product takes its key from the chip's true random generator, and keeps its ledger in flash.
        let generator = ChaCha20::<1>::simulation(2026);
        let mut ledger = Ledger::volatile(BUDGET);
        let (mut sum, mut params) = ([SumWord::ZERO; D], [0.0; D]);
        #[cfg(not(feature = "model-streamed"))]
        let mut grad = [0.0; D];
        (model.start)(&mut params);
        let mut state = StepState::new(&mut sum[..], filter, optimizer, threshold);
        say(ReportLine::Start {
            model: model.name,
            method,
            dim: D as u32,
            samples: TRAIN,
            private: generator.is_private(),
        });

        loop {
            PROGRAM.begin();
            let mut open = match step.open(&mut state, &mut ledger) {
                Ok(open) => open,
                Err(OpenError::BudgetSpent) => break,
                Err(OpenError::Call(error)) => return Err(error.into()),
                Err(OpenError::Store(never)) => match never {},
            };
            for digit in poisson(&generator, open.number(), rate, TRAIN).filter_map(digits::train) {
                #[cfg(feature = "model-streamed")]
                {
                    let stream = model.stream.ok_or(RunFailure::Refused("the model's gradients in segments"))?;
                    let errors = GRADIENT.of(|| (stream.errors)(&params, digit));
                    open.add_streamed(|segments| (stream.rows)(&errors, digit, segments))?;
                }
                #[cfg(not(feature = "model-streamed"))]
                if let [point, mixed] = &mut *buffers {
                    let mut mixing = open.add_points(mixed)?;
                    while mixing.next_eval_point(&params, point)? {
                        GRADIENT.of(|| (model.gradient)(point, digit, &mut grad));
                        mixing.eval_point(&[&grad])?;
                    }
                    mixing.add()?;
                } else {
                    GRADIENT.of(|| (model.gradient)(&params, digit, &mut grad));
                    open.add_combined(&[&grad])?;
                }
            }
            open.finish(&mut params, &generator)?;
            PROGRAM.end();
        }

        say(ReportLine::BudgetSpent { steps: ledger.charged_steps() });
        let (mut right, mut samples) = (0, 0);
        for digit in digits::held_out() {
            right += u32::from((model.is_right)(&params, digit));
            samples += 1;
        }
        say(ReportLine::HeldOut { right, samples });
        say(ReportLine::Params(Digest::of(&params).value()));
        Ok(())
    }
}
