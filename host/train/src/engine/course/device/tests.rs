//! Runs that take their exact sum on a device, here the emulation of the kernels on the processor.

use super::super::{Files, begin};
use super::*;
use crate::choice::{Clipping, FilterChoice, NoiseChoice, ThresholdChoice};
use crate::engine::ranks::group::Alone;
use crate::engine::rehearsal::Independence;
use crate::plan::graphs::whole;
use crate::state::files::LEDGER;
use crate::{Budget, InputFiles, Method, Outcome, TrainConfig, prepare};
use damper_cuda::{Allocation, CudaKernel, DeviceError, EmulatedDevice, Launch, Span, ThreadOrder};
use damper_edit::init;
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{Graph, GraphOptions};
use damper_onnx::pb::ModelProto;
use damper_runtime::{BackendError, Choice, DeviceFloats, Inputs, ResidentSession, Session, SessionSpec, open};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns a run on the digits, with the graph for a device. Returns `None` without onnxruntime or a C++ compiler.
fn digits(model: &str, method: Method) -> Option<(Run, Arc<dyn CudaDevice>)> {
    if let Err(error) = open(Choice::OrtStandard) {
        damper_testing::skip("ort", error);
        return None;
    }
    let device = match EmulatedDevice::new(ThreadOrder::Numbered, u64::MAX) {
        Err(DeviceError::NoDevice(why)) => {
            damper_testing::skip("c++", why);
            return None;
        }
        device => device.unwrap(),
    };
    let source = InputFiles::digits(model);
    let config = TrainConfig {
        backend: Choice::OrtStandard,
        seed: Some(7),
        workers: NonZeroUsize::new(1),
        physical_batch: NonZeroUsize::new(12),
        ..TrainConfig::new(Budget::NoiseMultiplier(1.0), 1e-5, 50, 0.3, method)
    };
    Some((prepare(&source, config).unwrap(), Arc::new(device)))
}

// Devices compute whole gradients. The gradient of an embedding matrix is scattered row by row, in an order that
// devices do not keep.
#[test]
fn tables_stay_in_factors() {
    let Some((run, _)) = digits("digits-cnn.onnx", Method::dp_sgd(0.7, 0.3)) else { return };
    assert!(has_whole_gradients(&run.model.grad));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/bert-tiny.onnx");
    let graph = Graph::from_model(&init::load(&path, None).unwrap().model, &GraphOptions::default()).unwrap();
    let options = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
    assert!(whole(&graph, &options, &run.config).unwrap().is_none());
    let processor = TrainConfig { backend: Choice::Ort, ..run.config.clone() };
    assert!(whole(&run.model.graph, &options, &processor).unwrap().is_none());
}

/// Trains on the given device, or on the processor.
fn train(run: &Run, device: Option<&Arc<dyn CudaDevice>>) -> Result<Outcome, TrainError> {
    let folder = tempfile::tempdir().unwrap();
    let files = Files { folder: Some(folder.path()), checkpoint: None };
    begin(run, &Alone, files, &mut (), None, &|_, _| Ok(device.cloned()))
}

// Each kind of clip, threshold and noise gives the bits of the processor's sum.
#[test]
fn device_and_processor_agree_on_bits() {
    let plain = || Method::dp_sgd(0.7, 0.3);
    let (clip, range, clip_bounds) = (0.5, 1.0, [1e-8, 1e8]);
    let threshold = ThresholdChoice::Percentile { fraction: 0.5, count_noise: Some(5.0), clip, range, clip_bounds };
    let automatic = Clipping::Automatic { gamma: 0.01 };
    let noise_schedule = NoiseChoice::Polynomial { growth: 0.1, exponent: 0.5 };
    let one_point = FilterChoice::Disk { kappa: 0.7, gain_recursion: None, gamma: None };
    for (model, method) in [
        ("digits-mlp.onnx", plain()),
        ("digits-cnn.onnx", Method { threshold, ..plain() }),
        ("digits-linear.onnx", Method { clipping: automatic, noise_schedule, ..plain() }),
        ("digits-cnn-groupnorm.onnx", Method { clipping: Clipping::PerLayer, filter: one_point, ..plain() }),
    ] {
        let Some((run, device)) = digits(model, method) else { return };
        let (here, there) = (train(&run, None).unwrap(), train(&run, Some(&device)).unwrap());
        assert!(here.params == there.params, "{model}");
        assert!(here.params != run.model.params && here.params.iter().all(|x| x.is_finite()));
        assert_eq!((here.steps, there.independence), (there.steps, Independence::Tested));
        let figures = |run: &Outcome| run.evaluations.iter().map(|at| (at.loss, at.accuracy)).collect::<Vec<_>>();
        assert_eq!(figures(&here), figures(&there));
    }
}

/// onnxruntime with a defect: the gradients of one row depend on another row.
struct Leaky {
    inner: Box<dyn Backend>,
    leak: Leak,
}

/// The kind of defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leak {
    /// The last bit of row 2 changes if row 3 has a non-finite value.
    NotANumber,
    /// Row 1 is rounded differently from the other rows.
    Row,
    /// Every second run is rounded differently.
    Run,
}

impl Backend for Leaky {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn version(&self) -> String {
        self.inner.version()
    }
    fn note(&self) -> String {
        self.inner.note()
    }
    fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
        self.inner.load(model, plan)
    }
    fn load_resident(
        &self,
        model: &ModelProto,
        plan: &SessionSpec,
    ) -> Result<Option<Box<dyn ResidentSession>>, BackendError> {
        let inner = self.inner.load_resident(model, plan)?.unwrap();
        Ok(Some(Box::new(LeakySession { inner, rows: plan.batch, leak: self.leak, runs: 0 })))
    }
}

struct LeakySession {
    inner: Box<dyn ResidentSession>,
    rows: usize,
    leak: Leak,
    runs: u32,
}

impl ResidentSession for LeakySession {
    fn run(&mut self, inputs: Inputs<'_>) -> Result<(), BackendError> {
        self.inner.run(inputs)?;
        self.runs += 1;
        for output in self.inner.outputs() {
            let first = std::ptr::with_exposed_provenance_mut::<f32>(output.address);
            // SAFETY: the device is the processor, and no other code uses the session's outputs.
            let grads = unsafe { std::slice::from_raw_parts_mut(first, output.len) };
            let width = output.len / self.rows;
            let next_up = |grad: &mut f32| *grad = f32::from_bits(grad.to_bits() + 1);
            match self.leak {
                Leak::NotANumber if grads[3 * width..4 * width].iter().any(|x| x.is_nan()) => {
                    next_up(&mut grads[2 * width])
                }
                Leak::Row => next_up(&mut grads[width]),
                Leak::Run if self.runs.is_multiple_of(2) => grads.iter_mut().step_by(width).for_each(next_up),
                _ => {}
            }
        }
        Ok(())
    }

    fn outputs(&self) -> &[DeviceFloats] {
        self.inner.outputs()
    }
}

// A session with dependent rows is rejected before a step is charged. The error names the test that found the
// dependence.
#[test]
fn dependent_rows_are_refused() {
    for (leak, found) in [
        (None, ""),
        (Some(Leak::Run), "other bits computed again (row 0"),
        (Some(Leak::Row), "other bits in the next row (row 1"),
        // Infinite pixels have no finite gradient.
        (Some(Leak::NotANumber), "other bits beside samples of inf (row 2"),
    ] {
        let Some((run, device)) = digits("digits-mlp.onnx", Method::dp_sgd(0.7, 0.3)) else { return };
        let inner = open(Choice::OrtStandard).unwrap();
        let backend: Box<dyn Backend> = match leak {
            None => inner,
            Some(leak) => Box::new(Leaky { inner, leak }),
        };
        let rehearsed = DeviceSession::new(&run, backend.as_ref(), &device).unwrap().rehearse(&run);
        match leak {
            None => assert!(!rehearsed.unwrap().none_is_finite),
            Some(leak) => {
                let error = rehearsed.unwrap_err().to_string();
                assert!(error.contains(found), "{leak:?}: {error}");
            }
        }
    }
}

/// A device that fails at a given call.
struct Failing {
    inner: EmulatedDevice,
    calls: AtomicU32,
    /// The index of the call of [`Failing::kernel`] that fails.
    at: u32,
    kernel: CudaKernel,
}

impl CudaDevice for Failing {
    fn allocate(&self, bytes: u64) -> Result<Allocation, DeviceError> {
        self.inner.allocate(bytes)
    }
    fn free(&self, allocation: Allocation) {
        self.inner.free(allocation);
    }
    fn upload(&self, to: Span<'_>, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.upload(to, bytes)
    }
    fn download(&self, from: Span<'_>, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.download(from, bytes)
    }
    fn clear(&self, span: Span<'_>) -> Result<(), DeviceError> {
        self.inner.clear(span)
    }
    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        if launch.kernel() == self.kernel && self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(DeviceError::Call { call: "launch", code: "CUDA_ERROR_TEST".into() });
        }
        self.inner.launch(launch)
    }
    fn synchronize(&self) -> Result<(), DeviceError> {
        self.inner.synchronize()
    }
}

/// Returns the ledger's number of charged steps, if `folder` has a ledger.
fn paid_steps(folder: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join(LEDGER)).ok()?;
    let (_, rest) = text.split_once("\"paid\":").unwrap();
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().unwrap())
}

// A device that fails before the first step does not charge anything. If it fails in a step, the run ends, and that
// step is charged.
#[test]
fn failing_device_ends_the_run() {
    for (kernel, at, charged) in
        [(CudaKernel::ReleaseChunks, 2, Some(3)), (CudaKernel::NormSums, 0, None), (CudaKernel::AddRows, 20, Some(1))]
    {
        let Some((run, _)) = digits("digits-linear.onnx", Method::dp_sgd(0.7, 0.3)) else { return };
        let inner = EmulatedDevice::new(ThreadOrder::Numbered, u64::MAX).unwrap();
        let device: Arc<dyn CudaDevice> = Arc::new(Failing { inner, calls: AtomicU32::new(0), at, kernel });
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder: Some(folder.path()), checkpoint: None };
        let ended = begin(&run, &Alone, files, &mut (), None, &|_, _| Ok(Some(Arc::clone(&device))));
        let error = ended.err().unwrap().to_string();
        assert!(error.contains("CUDA_ERROR_TEST"), "{error}");
        let paid = paid_steps(folder.path());
        assert_eq!(paid.is_some(), charged.is_some(), "{kernel:?}");
        assert!(paid >= charged, "{kernel:?}: {paid:?}");
    }
}
