//! Per-sample gradients that stay in the memory of the backend's device. The device clips them, adds them and draws the
//! noise. Once per step, it returns the released mean, and the norms of the samples for the threshold to count.
//!
//! One session runs the chunks in order. The sum is bit-identical to the core's sum of the same gradients. While a
//! chunk runs, the next is read.

use super::read_ahead::read_ahead;
use super::{Accumulate, GradientObserver, GradsAt, OUTPUTS, Opened, ParamLayout, Point, Sessions, fill, plan};
use crate::engine::generator::RunGenerator;
use crate::engine::rehearsal::{Independence, Made, Rehearsed, edit_samples, made_up};
use crate::{Run, TrainError};
use damper_access::Unreleased;
use damper_core::clip::{AnyRule, Layers};
use damper_core::error::ConfigError;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::optimizer::Optimizer;
use damper_core::step::Elsewhere;
use damper_cuda::{CudaDevice, DeviceError, DeviceTensor, ExactSum, StepNoise, SumShape};
use damper_data::{Batch, Chunk, Split};
use damper_onnx::TensorRef;
use damper_runtime::{Backend, BackendError, Inputs, KeptInputs, ResidentSession, SessionSpec};
use std::convert::Infallible;
use std::sync::Arc;

/// The mechanism of a sum on the device.
type Exact = DiscreteGaussian<i64>;

/// Returns the mechanism of a run with its sum on a grid.
pub(crate) fn exact(run: &Run) -> Result<Exact, ConfigError> {
    let sigma = run.price.terms.sigma_grid.expect("the noise of an exact sum is on a grid");
    Exact::new(Grid::new(run.config.grid_bits)?, sigma)
}

/// The session and the sum, before a row is read.
pub(crate) struct DeviceSession {
    session: Box<dyn ResidentSession>,
    /// The specification of the session.
    plan: SessionSpec,
    sum: ExactSum,
}

impl DeviceSession {
    /// Loads the graph of whole gradients, and allocates all memory of `device` that the steps of `run` need. The
    /// caller must ensure that the outputs of the backend's resident sessions are in the memory of that device.
    ///
    /// # Errors
    ///
    /// The backend cannot run the graph or does not support resident sessions, or the device has too little memory.
    pub(crate) fn new(run: &Run, backend: &dyn Backend, device: &Arc<dyn CudaDevice>) -> Result<Self, TrainError> {
        let (model, grad) = (&run.model, &run.model.grad);
        let layout = ParamLayout::new(grad);
        let (of_grads, mut plan) = plan(grad, &OUTPUTS, model.physical_batch);
        plan.threads = run.threads();
        let session = backend.load_resident(&of_grads, &plan)?;
        let session = session.ok_or_else(|| BackendError("the backend has no memory of a device".into()))?;
        let layers = run.config.method.clipping.layers(layout.lengths());
        let layers = (!layers.is_empty()).then(|| Layers::new(&layers)).transpose()?;
        let grid = Grid::new(run.config.grid_bits)?;
        let shape = SumShape { parts: layout.lengths(), rows: model.physical_batch.get(), layers, grid };
        Ok(Self { session, plan, sum: ExactSum::new(device, &shape).map_err(failed)? })
    }

    /// Tests, in the session that trains, that a sample's gradient depends only on that sample and the parameters.
    /// Synthetic samples must have the same bits when they are recomputed, in every row, and next to zeros, large
    /// values, infinities and NaN.
    ///
    /// # Errors
    ///
    /// A row has other bits, or the backend failed.
    pub(crate) fn rehearse(&mut self, run: &Run) -> Result<Rehearsed, BackendError> {
        let grad = &run.model.grad;
        let plan = self.plan.clone();
        let made = || made_up(grad, &plan, &run.model.params);
        let edited = |change: &dyn Fn(&mut Made, usize)| {
            let mut made = made();
            edit_samples(&plan, &mut made, change);
            made
        };
        let first = self.prints(&made())?;
        let rows = first.len();
        let mut compare = |test: &str, made: &[Made], of: &dyn Fn(usize) -> Option<usize>| {
            let prints = self.prints(made)?;
            let differs = (0..rows).find(|row| of(*row).is_some_and(|was| prints[*row] != first[was]));
            differs.map_or(Ok(()), |row| Err(depends(test, row)))
        };
        compare("computed again", &made(), &|row| Some(row))?;
        let moved = edited(&|made, width| made.rotate(width));
        compare("in the next row", &moved, &|row| Some((row + rows - 1) % rows))?;
        let same = edited(&|made, width| made.repeat_first(width));
        compare("in all rows", &same, &|_| Some(0))?;
        let others = edited(&|made, width| made.replace_odd(width));
        compare("beside other samples", &others, &|row| row.is_multiple_of(2).then_some(row))?;
        for (value, filled) in
            [0.0, 1e30, f32::INFINITY, f32::NAN].into_iter().flat_map(|value| [(value, 1), (value, 0)])
        {
            let beside = edited(&|made, width| made.fill_each_second(filled, width, value));
            compare(&format!("beside samples of {value}"), &beside, &|row| (row % 2 != filled).then_some(row))?;
        }
        self.sum.begin(1.0, AnyRule::Flat).map_err(failed)?;
        self.run(&made())?;
        let norms = self.sum.add_chunk(&tensors(self.session.as_ref()), &vec![true; rows], Unreleased::claim());
        let none_is_finite = norms.map_err(failed)?.iter().all(Option::is_none);
        // Allocates all memory of a release before the first charge.
        let mechanism = exact(run).map_err(|error| BackendError(error.to_string()))?;
        self.sum.rehearse_release(mechanism, Unreleased::claim()).map_err(failed)?;
        Ok(Rehearsed { independence: Independence::Tested, difference: None, none_is_finite })
    }

    fn run(&mut self, made: &[Made]) -> Result<(), BackendError> {
        let all: Vec<_> = made.iter().map(Made::input).collect();
        self.session.run(Inputs { before: &all, kept: &KeptInputs::new(vec![]), after: &[] })
    }

    /// Adds the samples of `chunks`, which `read` reads into `batches`, and calls `each` with the norm of each sample.
    fn add(
        &mut self,
        batches: &mut [Batch; 2],
        chunks: &[Chunk<'_>],
        kept: &KeptInputs<'_>,
        read: &(dyn Fn(&mut Batch, Chunk<'_>) -> Result<(), BackendError> + Sync),
        each: &mut dyn FnMut(Option<f32>),
    ) -> Result<(), BackendError> {
        let Self { session, sum, .. } = self;
        read_ahead(batches, chunks, read, &mut |batch, _| {
            let before: Vec<TensorRef<'_>> = batch.inputs().collect();
            let present: Vec<bool> = batch.weights().iter().map(|weight| *weight != 0.0).collect();
            session.run(Inputs { before: &before, kept, after: &[] })?;
            let norms = sum.add_chunk(&tensors(session.as_ref()), &present, Unreleased::claim()).map_err(failed)?;
            norms.into_iter().zip(present).filter(|(_, present)| *present).for_each(|(norm, _)| each(norm));
            Ok(())
        })
    }

    /// Returns a fingerprint of each row's gradients.
    fn prints(&mut self, made: &[Made]) -> Result<Vec<u64>, BackendError> {
        self.run(made)?;
        self.sum.fingerprints(&tensors(self.session.as_ref()), Unreleased::claim()).map_err(failed)
    }
}

/// Returns the error for a sample whose gradient depends on other samples.
fn depends(test: &str, row: usize) -> BackendError {
    BackendError(format!(
        "on this device the gradient of a made-up sample has other bits {test} (row {row} of the physical batch), so the clip would not bound \
         what a sample changes; use `backend` ort, or `readout` clipped-sum"
    ))
}

/// Returns the gradients of the session's last run.
fn tensors(session: &dyn ResidentSession) -> Vec<DeviceTensor<'_>> {
    let outputs = session.outputs().iter();
    // SAFETY: the session is borrowed, so it lives and does not run while these are used. A run waits for their end.
    outputs.map(|output| unsafe { DeviceTensor::from_raw(output.address as u64, output.len as u64) }).collect()
}

/// The session, with the current and the next physical batch.
pub(crate) struct DeviceGradients {
    device: DeviceSession,
    batches: [Batch; 2],
    layout: ParamLayout,
    /// `[D]`.
    released: Vec<f32>,
}

impl DeviceGradients {
    /// Creates the workers for the samples of `sessions`.
    pub(crate) fn new(device: DeviceSession, sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        let layout = ParamLayout::new(sessions.grad);
        let batches = [sessions.batch()?, sessions.batch()?];
        Ok(Self { device, batches, released: vec![0.0; layout.dim()], layout })
    }
}

impl Accumulate<Exact> for DeviceGradients {
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, Exact, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError> {
        let ([Point { params, weight: 1.0 }], None) = (at.points, grad_observer) else {
            return Err(BackendError("a step that takes several gradients of a sample has no sum on a device".into()));
        };
        let Elsewhere { threshold, clip, .. } = opened.elsewhere(Unreleased::claim());
        let Self { device, batches, layout, .. } = self;
        device.sum.begin(threshold, clip.rule()).map_err(failed)?;
        let read = |batch: &mut Batch, chunk: Chunk<'_>| {
            fill(batch, split, chunk)?;
            if let Some(views) = &at.views {
                views.apply(batch, split, chunk, 0);
            }
            Ok(())
        };
        let kept = layout.kept(params);
        device.add(batches, chunks, &kept, &read, &mut |norm| opened.count_elsewhere(norm, Unreleased::claim()))
    }

    fn count_non_finite(&mut self, split: &Split, chunks: &[Chunk<'_>], params: &[f32]) -> Result<u64, BackendError> {
        // This sum is never released.
        let Self { device, batches, layout, .. } = self;
        device.sum.begin(1.0, AnyRule::Flat).map_err(failed)?;
        let mut count = 0;
        let each = &mut |norm: Option<f32>| count += u64::from(norm.is_none());
        let read = |batch: &mut Batch, chunk: Chunk<'_>| fill(batch, split, chunk);
        let added = device.add(batches, chunks, &layout.kept(params), &read, each);
        device.sum.discard().map_err(failed)?;
        added.map(|()| count)
    }

    fn count(&self) -> usize {
        1
    }

    /// The device draws the noise, and the core updates the parameters.
    fn finish<O: Optimizer<OS>, OS>(
        &mut self,
        opened: Opened<'_, '_, Exact, O, OS>,
        params: &mut [f32],
        generator: &RunGenerator,
    ) -> Result<(), BackendError> {
        let Self { device: DeviceSession { sum, .. }, released, .. } = self;
        let Elsewhere { step, mechanism, expected_batch, .. } = opened.elsewhere(Unreleased::claim());
        sum.release(&StepNoise { mechanism, generator, step, expected_batch }, Unreleased::claim()).map_err(failed)?;
        sum.read_released(released).map_err(failed)?;
        let finished = opened.finish_exchanged(params, generator, 1, |parts| {
            for part in parts {
                let coordinates = part.coordinates();
                assert!(part.take_released(&released[coordinates], Unreleased::claim()), "{PARTS}");
            }
            Ok::<(), Infallible>(())
        });
        finished.expect(PARTS);
        Ok(())
    }
}

const PARTS: &str = "the parts of the step's noise have the parameters' length";

fn failed(error: DeviceError) -> BackendError {
    BackendError(error.to_string())
}
