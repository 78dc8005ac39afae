//! The device that takes the exact sum of a run, if its backend has one.

use crate::engine::worker::{DeviceSession, has_whole_gradients};
use crate::plan::sum_place::SumPlace;
use crate::{Progress, Run, RunEvent, TrainError};
use damper_cuda::CudaDevice;
use damper_runtime::Backend;
use std::sync::Arc;

const SCATTERED: &str = "its graph adds scattered values, such as those of a trained table of embeddings, which a device may add in another order each time";

/// Opens the device of a backend, if it has one.
pub(super) type OpenDevice<'a> =
    &'a dyn Fn(&dyn Backend, &mut dyn Progress) -> Result<Option<Arc<dyn CudaDevice>>, TrainError>;

/// Loads the session of a run that takes its sum on the device that `open` opens. Returns `None` if the sum is taken on
/// the processor. If the backend has a device, a warning gives the reason. `sees_sum` is true if an observer sees the
/// sum of a step.
pub(super) fn session(
    run: &Run,
    backend: &dyn Backend,
    sees_sum: bool,
    open: OpenDevice<'_>,
    progress: &mut dyn Progress,
) -> Result<Option<DeviceSession>, TrainError> {
    let place = match SumPlace::of(&run.config) {
        SumPlace::Device if sees_sum => SumPlace::ProcessorFor("the sum goes to other ranks or to an audit"),
        SumPlace::Device if !has_whole_gradients(&run.model.grad) => SumPlace::ProcessorFor(SCATTERED),
        place => place,
    };
    match place {
        SumPlace::Processor => Ok(None),
        SumPlace::ProcessorFor(reason) => {
            if backend.name() == "cuda" {
                on_processor(reason, progress);
            }
            Ok(None)
        }
        SumPlace::Device => {
            let device = open(backend, progress)?;
            device.map(|device| DeviceSession::new(run, backend, &device)).transpose()
        }
    }
}

/// Opens the first GPU of the CUDA provider.
#[cfg(feature = "cuda")]
pub(super) fn open(
    backend: &dyn Backend,
    progress: &mut dyn Progress,
) -> Result<Option<Arc<dyn CudaDevice>>, TrainError> {
    use damper_cuda::{Card, DeviceError};
    if backend.name() != "cuda" {
        return Ok(None);
    }
    match Card::open(0) {
        Ok(card) => {
            let note = format!("exact sums and noise on the card, by kernels compiled for {}", card.architecture());
            progress.on_event(RunEvent::Opened(&note));
            Ok(Some(Arc::new(card)))
        }
        // Without NVIDIA's libraries, or if NVRTC does not match the GPU or driver, training is slower. The guarantee
        // is the same.
        Err(error @ (DeviceError::NoLibrary(_) | DeviceError::Compile(_))) => {
            on_processor(&error.to_string(), progress);
            Ok(None)
        }
        Err(error) => Err(TrainError::Run(error.to_string())),
    }
}

/// Returns `None`, because this build has no GPU kernels.
#[cfg(not(feature = "cuda"))]
pub(super) fn open(
    backend: &dyn Backend,
    progress: &mut dyn Progress,
) -> Result<Option<Arc<dyn CudaDevice>>, TrainError> {
    if backend.name() == "cuda" {
        on_processor("this build leaves out damper's feature cuda", progress);
    }
    Ok(None)
}

fn on_processor(reason: &str, progress: &mut dyn Progress) {
    let warning = format!("the exact sum is taken on the processor, to which each sample's gradient goes: {reason}");
    progress.on_event(RunEvent::Warned(&warning));
}

#[cfg(test)]
mod tests;
