//! Each sample's gradient stays in the memory of the backend's device, which clips it, adds it and draws the noise there. The released mean
//! comes back once a step, and the norms of the samples, for the threshold to count.
//!
//! One session runs the chunks in their order. The sum has the bits that the core gives the same gradients. While a chunk runs, the next is
//! read.

use super::{Accumulate, GradientObserver, GradsAt, OUTPUTS, Opened, ParamLayout, Sessions, fill, plan};
use crate::engine::generator::RunGenerator;
use damper_access::Unreleased;
use damper_core::clip::{AnyRule, Layer, Layers};
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::optimizer::Optimizer;
use damper_core::step::Elsewhere;
use damper_cuda::{Device, DeviceError, DeviceTensor, ExactSum, StepNoise, SumShape};
use damper_data::{Batch, Chunk, Split};
use damper_onnx::TensorRef;
use damper_runtime::{BackendError, Inputs, KeptInputs, ResidentSession};
use std::convert::Infallible;
use std::sync::Arc;

/// The mechanism whose sum a device takes.
type Exact = DiscreteGaussian<i64>;

/// The one session, its physical batch and the next, and the sum.
pub(crate) struct DeviceGradients {
    session: Box<dyn ResidentSession>,
    sum: ExactSum,
    batches: [Batch; 2],
    layout: ParamLayout,
    /// `[D]`.
    released: Vec<f32>,
}

impl DeviceGradients {
    /// Loads the graph of whole gradients, and takes all memory of `device` that the steps need. Whoever calls has made sure that the
    /// session's outputs lie in the memory of that device. None if the backend has no memory but the processor's.
    pub(crate) fn new(
        sessions: &Sessions<'_>,
        device: &Arc<dyn Device>,
        grid: Grid,
        layers: &[Layer],
    ) -> Result<Option<Self>, BackendError> {
        let layout = ParamLayout::new(sessions.grad);
        let (model, mut plan) = plan(sessions.grad, &OUTPUTS, sessions.rows);
        plan.threads = sessions.threads;
        let are_whole = plan.outputs.iter().map(|spec| spec.elements(1)).eq(layout.lengths().iter().copied());
        if !are_whole {
            return Ok(None);
        }
        let Some(session) = sessions.backend.load_resident(&model, &plan)? else { return Ok(None) };
        let layers = (!layers.is_empty()).then(|| Layers::new(layers).expect("the clip rule has taken them"));
        let shape = SumShape { parts: layout.lengths(), rows: sessions.rows.get(), layers, grid };
        let sum = ExactSum::new(device, &shape).map_err(failed)?;
        let batches = [sessions.batch()?, sessions.batch()?];
        let released = vec![0.0; layout.dim()];
        Ok(Some(Self { session, sum, batches, layout, released }))
    }

    /// Adds the samples of `chunks`; hands the norm of each that is there to `each`.
    fn add(
        &mut self,
        chunks: &[Chunk<'_>],
        kept: &KeptInputs<'_>,
        read: &(dyn Fn(&mut Batch, Chunk<'_>) -> Result<(), BackendError> + Sync),
        each: &mut dyn FnMut(Option<f32>),
    ) -> Result<(), BackendError> {
        let Self { session, sum, batches: [batch, next], .. } = self;
        if let Some(first) = chunks.first() {
            read(batch, *first)?;
        }
        for index in 0..chunks.len() {
            let before: Vec<TensorRef<'_>> = batch.inputs().collect();
            let present: Vec<bool> = batch.weights().iter().map(|weight| *weight != 0.0).collect();
            let norms = std::thread::scope(|scope| {
                let read = chunks.get(index + 1).map(|chunk| scope.spawn(|| read(next, *chunk)));
                session.run(Inputs { before: &before, kept, after: &[] })?;
                let tensors: Vec<DeviceTensor<'_>> = session
                    .outputs()
                    .iter()
                    // SAFETY: the session lives in `self` and does not run while these are used; it has waited for the end of its run.
                    .map(|output| unsafe { DeviceTensor::from_raw(output.address as u64, output.len as u64) })
                    .collect();
                let norms = sum.add_chunk(&tensors, &present, Unreleased::claim()).map_err(failed)?;
                read.map_or(Ok(()), |read| read.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))?;
                Ok::<_, BackendError>(norms)
            })?;
            let there = norms.into_iter().zip(present).filter(|(_, present)| *present);
            there.for_each(|(norm, _)| each(norm));
            std::mem::swap(batch, next);
        }
        Ok(())
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
        let ([point], None) = (at.points, grad_observer) else { unreachable!("other steps are the processor's") };
        debug_assert!(point.weight == 1.0, "a filter's only point has weight 1");
        let Elsewhere { threshold, clip, .. } = opened.elsewhere(Unreleased::claim());
        self.sum.begin(threshold, clip.rule()).map_err(failed)?;
        let layout = self.layout.clone();
        let read = |batch: &mut Batch, chunk: Chunk<'_>| {
            fill(batch, split, chunk)?;
            if let Some(views) = &at.views {
                views.apply(batch, split, chunk, 0);
            }
            Ok(())
        };
        let kept = layout.kept(&point.params);
        self.add(chunks, &kept, &read, &mut |norm| opened.count_elsewhere(norm, Unreleased::claim()))
    }

    fn count_non_finite(&mut self, split: &Split, chunks: &[Chunk<'_>], params: &[f32]) -> Result<u64, BackendError> {
        // A sum that is never released.
        self.sum.begin(1.0, AnyRule::Flat).map_err(failed)?;
        let layout = self.layout.clone();
        let mut count = 0;
        let each = &mut |norm: Option<f32>| count += u64::from(norm.is_none());
        self.add(chunks, &layout.kept(params), &|batch, chunk| fill(batch, split, chunk), each)?;
        Ok(count)
    }

    fn count(&self) -> usize {
        1
    }

    /// The device draws the noise; the core moves the parameters.
    fn finish<O: Optimizer<OS>, OS>(
        &mut self,
        opened: Opened<'_, '_, Exact, O, OS>,
        params: &mut [f32],
        generator: &RunGenerator,
    ) -> Result<(), BackendError> {
        let Self { sum, released, .. } = self;
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
