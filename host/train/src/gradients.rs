//! The gradient and loss of every training sample in an `.npz` file. **Not private**: these are exact functions of
//! single samples.

mod archive;

use crate::engine::frozen;
use crate::engine::rehearsal::self_test;
use crate::engine::worker::{ChunkRows, ExactGradients, OUTPUTS, Sessions, threads};
use crate::plan::graphs::{initial, physical_batch};
use crate::state::files::{Access, AtomicFile, FileError};
use crate::{ModelAndData, Progress, TrainError};
use archive::Archive;
use damper_data::chunks;
use damper_onnx::{Dim, TensorSpec};
use damper_runtime::{Backend, BackendError};
use std::num::NonZeroUsize;
use std::path::Path;

/// Name of the array of losses, of shape `[N]`.
const LOSS: &str = "loss";

/// Options for computing gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GradientOptions {
    /// Rows of the physical batch. If not given, as many as fit in `memory`.
    pub physical_batch: Option<NonZeroUsize>,
    /// Maximum bytes for the tensors of one worker.
    pub memory: u64,
    /// Number of threads. The number of processors if not given.
    pub workers: Option<NonZeroUsize>,
}

/// Writes the gradients and losses of the N training samples of `read`, in their order, at the model file's parameters.
///
/// The arrays are `grad/NAME` (`[N, *shape]`, float32) for each trained parameter, and `loss` (`[N]`). A bad row that
/// was dropped has gradient 0 and loss NaN.
///
/// The gradients are bit-identical to those that training passes to the private step, on the same backend with the same
/// physical batch. The file is as secret as the data, so only its owner may read it. Memory: a physical batch of
/// gradients for each worker.
///
/// Calls `is_stopped` after each batch. Returns false if it stopped the work. No file is written then.
///
/// # Errors
///
/// The graph does not fit the memory, the backend cannot run it, or the file cannot be written. An existing file then
/// stays as it was.
pub fn write(
    path: &Path,
    read: &ModelAndData,
    backend: &dyn Backend,
    options: &GradientOptions,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<bool, TrainError> {
    let ModelAndData { graph, grad, data, .. } = read;
    let computed = match frozen::of_opaque(read, backend, options.workers, &mut StopsIf(is_stopped)) {
        Err(TrainError::Stopped) => return Ok(false),
        computed => computed?,
    };
    let split = computed.as_ref().unwrap_or(&data.train);
    let params = initial(graph, grad);
    let mut sessions = Sessions { split, ..sessions(read, backend, options, &params)? };
    let count = u32::try_from(split.len()).map_err(|_| TrainError::Run("more samples than 2^32; give fewer".into()))?;
    let samples: Vec<u32> = (0..count).collect();
    let chunks: Vec<_> = chunks(&samples, sessions.rows).collect();
    sessions.threads = sessions.threads.min(chunks.len());
    let mut gradients = ExactGradients::new(&sessions)?;

    let arrays: Vec<_> = arrays(&grad.parameters, split.len()).collect();
    let mut archive = Archive::create(AtomicFile::create(path, Access::Private)?, &arrays)?;
    let ended = gradients.each_chunk(split, &chunks, &params, &mut |rows: &ChunkRows| {
        for (index, values) in rows.grads.iter().chain([&rows.losses]).enumerate() {
            archive.append(index, values)?;
        }
        if is_stopped() { Err(End::Stopped) } else { Ok(()) }
    });
    match ended {
        Ok(()) => {}
        Err(End::Stopped) => return Ok(false),
        Err(End::Backend(error)) => return Err(error.into()),
        Err(End::File(error)) => return Err(error.into()),
    }
    archive.commit()?;
    Ok(true)
}

/// Opens the sessions that compute exact gradients of the training rows of `read`, and tests the backend at `params`.
///
/// # Errors
///
/// The graph does not fit the memory, or the backend cannot run it.
pub fn sessions<'a>(
    read: &'a ModelAndData,
    backend: &'a dyn Backend,
    options: &GradientOptions,
    params: &[f32],
) -> Result<Sessions<'a>, TrainError> {
    let ModelAndData { grad, data, .. } = read;
    let rows = physical_batch(options.physical_batch, options.memory, grad.cost)?;
    self_test(backend, grad, &OUTPUTS, rows, params)?;
    Ok(Sessions { backend, grad, split: &data.train, rows, threads: threads(options.workers), normalize: None })
}

/// Returns the size of the file's values in bytes.
pub fn size(read: &ModelAndData) -> u64 {
    let numbers =
        |(_, shape): (String, Vec<usize>)| shape.iter().fold(1u64, |n, extent| n.saturating_mul(*extent as u64));
    let numbers = arrays(&read.grad.parameters, read.data.train.len()).map(numbers);
    numbers.fold(0u64, u64::saturating_add).saturating_mul(4)
}

/// Returns the names and shapes of the arrays for `samples` samples.
fn arrays(parameters: &[TensorSpec], samples: usize) -> impl Iterator<Item = (String, Vec<usize>)> {
    let fixed = |dim: &Dim| if let Dim::Fixed(extent) = dim { Some(*extent) } else { None };
    let of_parameter = move |spec: &TensorSpec| {
        let shape = [samples].into_iter().chain(spec.shape.iter().filter_map(fixed));
        (format!("grad/{}", spec.name), shape.collect())
    };
    parameters.iter().map(of_parameter).chain([(LOSS.to_owned(), vec![samples])])
}

/// Asks only whether the work must stop.
struct StopsIf<'a>(&'a (dyn Fn() -> bool + Sync));

impl Progress for StopsIf<'_> {
    fn stop(&mut self) -> bool {
        (self.0)()
    }
}

/// The reason why the chunks end early.
enum End {
    Stopped,
    Backend(BackendError),
    File(FileError),
}

impl From<BackendError> for End {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl From<FileError> for End {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}
