//! One step: charge, draw, gradients and release, followed by an evaluation if one is due.

use super::settled::Settled;
use super::state::Engine;
use super::trajectory::Trajectory;
use crate::TrainError;
use crate::engine::observe::{Given, Summed};
use crate::engine::step_loop::{self, StepSum};
use crate::engine::trained::Trained;
use crate::engine::worker::{Accumulate, GradientObserver};
use crate::outcome::evaluate::loss_unit;
use crate::state::checkpoint::Moment;
use damper_access::Unreleased;
use damper_core::threshold::Threshold;

impl<M, W> Engine<'_, '_, '_, M, W>
where
    M: Trained,
    W: Accumulate<M>,
    StepSum: From<Vec<M::Word>>,
{
    /// Charges a step, draws its batch, distributes it over the workers, and releases. Returns the number of samples
    /// that this rank added, and of those without a finite gradient. Both are as secret as the data.
    pub(super) fn one_step(&mut self) -> Result<(usize, u32), TrainError> {
        let Self { settled, workers, step, state, trajectory, draws, draw, .. } = self;
        let Settled { run, ranks, generator, written, observer, .. } = settled;
        let params = &mut trajectory.iterates.params;
        let mut taken = ranks.open(step, state, &mut written.ledger)?;
        let opened = taken.open();
        let split = &run.data.train;
        draws.draw(*generator, opened.number(), &mut draw.samples);
        if let Some(recording) = &mut written.recording {
            recording.step(draw.counted(split) as u32);
        }
        let grad_observer = written.recording.as_mut().map(|recording| recording as &mut dyn GradientObserver);
        let added = draw.accumulate(opened, split, workers, params, grad_observer);
        let without = opened.probe(Unreleased::claim()).non_finite;
        let added = ranks.total(opened, added)?;
        if let Some(observer) = observer {
            let probe = opened.probe(Unreleased::claim());
            observer.summed(Summed {
                number: opened.number(),
                event: step_loop::event(run, step, opened.number())?,
                clip: opened.clip(),
                samples: &draw.samples,
                points: draw.points(),
                sum: StepSum::from(probe.sum.to_vec()),
                query: probe.query,
                counts: probe.counts,
            });
        }
        ranks.finish(taken, workers, params, generator)?;
        self.show_release()?;
        Ok((added, without))
    }

    /// Passes what the step released to the recording and to an observer.
    fn show_release(&mut self) -> Result<(), TrainError> {
        let Self { settled: Settled { written, observer, .. }, step, state, trajectory, .. } = self;
        let params = &trajectory.iterates.params;
        let slots = step.slots();
        if let Some(recording) = &mut written.recording {
            let threshold = (&slots.threshold.0, &state.threshold.inner);
            recording.released(params, &state.filter, &state.optimizer.inner, threshold)?;
        }
        if let (Some(observer), Some(gradient), Some(threshold)) =
            (observer, &state.optimizer.watch, &state.threshold.watch)
        {
            observer.given(Given {
                grad: &gradient.released,
                noise_std: gradient.noise_std,
                counts: &threshold.counts,
                next_clip: slots.threshold.clip(&state.threshold),
                learned_clip: slots.threshold.0.clip(&threshold.shadow),
            });
        }
        Ok(())
    }

    /// Evaluates the current parameters, and decides whether the run ends early.
    pub(super) fn evaluate(&mut self) -> Result<(), TrainError> {
        let figures = self.figures();
        let Self { settled: Settled { run, ranks, progress, .. }, step, draws, trajectory, pricing, .. } = self;
        let at = figures.map(|figures| {
            figures.map(|figures| trajectory.evaluation(figures, pricing.of_first(run, step, draws, trajectory.done)))
        });
        match ranks.of_rank_0(at, Moment::one_to_bytes, Moment::one_of_bytes)? {
            Some(at) => trajectory.evaluated(at, *progress),
            None => Ok(()),
        }
    }

    /// Returns loss and accuracy, exact or with noise that is charged. Returns `None` on a rank that does not evaluate.
    fn figures(&mut self) -> Result<Option<(f64, Option<f64>)>, TrainError> {
        let Self { settled, trajectory: Trajectory { iterates, evaluations, done, .. }, pricing, .. } = self;
        let Settled { run, generator, written, observer, .. } = settled;
        let evaluated = iterates.result();
        let Some(metrics) = &run.price.private_metrics else { return evaluations.exact(evaluated) };
        if *done == written.place.first {
            // A release that a stop lost used the noise of this evaluation, or may have used it.
            return Ok(None);
        }
        let Some((sums, rows)) = evaluations.sums(evaluated, metrics.loss_bound)? else { return Ok(None) };
        let noisy = sums.release(metrics.noise, &mut written.evaluations, *generator)?;
        if let Some(observer) = observer {
            observer.evaluated(noisy);
        }
        pricing.count_evaluation();
        let (loss, accuracy) = metrics.figures(noisy, rows);
        Ok(Some((loss_unit(run) * loss, accuracy)))
    }
}
