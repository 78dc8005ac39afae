//! onnxruntime, loaded at run time. Nothing is linked or downloaded.
//!
//! A process has one library and one environment. The first successful [`Ort::open`] decides. Sessions use
//! onnxruntime's deterministic mode and send no telemetry. They run operators sequentially, on `plan.threads` threads
//! that do not spin.
//!
//! A session runs in one of two ways. On the processor it has damper's custom operators and reads the caller's slices
//! (`session.rs`). On a device it has only standard operators, and inputs, outputs and sums are bound (`bound.rs`,
//! `summing.rs`). The processor can run this form, too.

mod around;
mod assignment;
mod binding;
mod bound;
mod clipped_sum;
mod convolution;
mod elements;
mod errors;
mod frozen;
mod gelu;
mod kernel_grad;
mod max_pool_grad;
mod normalize;
mod normalize_grad;
mod operator;
mod operators;
mod order;
mod param_product;
mod pool;
mod resident;
mod row_sums;
mod session;
mod softmax;
mod softmax_grad;
mod summing;
mod tanh_grad;
mod tensors;
#[cfg(test)]
mod testing;
mod written;

use super::bind::bind;
use super::{
    Backend, BackendError, HostNode, Operators, ResidentSession, Session, SessionSpec, SummingSession, TF32_OVERRIDE,
    WrittenSession, library,
};
use bound::BoundSession;
use damper_onnx::{AGAIN, TensorSpec, lower_custom, make_pads_symmetric, pb};
use errors::one_line;
use ort::ep::CUDA;
use ort::memory::AllocationDevice;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use prost::Message as _;
use resident::Resident;
use session::OrtSession;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use summing::Summing;
use written::OrtWritten;

/// Library in use and its environment.
#[derive(Clone)]
struct Runtime {
    environment: ort::environment::Environment,
    version: String,
    path: PathBuf,
    /// Address of a function in the library.
    code: usize,
}

/// Fusions that onnxruntime skips if the backward pass also reads the node. With recomputed activations the forward
/// node has no such reader. It would be fused, so the forward pass would have other bits.
const FUSED_APART: &str = "GeluFusionL1;GeluFusionL2;BiasGeluFusion;FastGeluFusion;QuickGeluFusion";

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// onnxruntime as a backend.
pub struct Ort {
    runtime: Runtime,
    device: Device,
    operators: Operators,
    /// Nodes that sessions on a device run on the processor.
    host_nodes: Mutex<BTreeSet<HostNode>>,
}

/// Device that runs the graphs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    Processor,
    Cuda,
}

impl Device {
    /// Python package that contains onnxruntime for the device.
    fn package(self) -> &'static str {
        match self {
            Self::Processor => "onnxruntime",
            Self::Cuda => "onnxruntime-gpu",
        }
    }

    /// Memory of the device.
    fn allocation(self) -> AllocationDevice<'static> {
        match self {
            Self::Processor => AllocationDevice::CPU,
            Self::Cuda => AllocationDevice::CUDA,
        }
    }

    /// Execution provider of the device. The processor's provider is the default.
    fn provider(self) -> Option<&'static str> {
        match self {
            Self::Processor => None,
            Self::Cuda => Some("CUDAExecutionProvider"),
        }
    }
}

impl Ort {
    /// Opens onnxruntime on the processor.
    ///
    /// # Errors
    ///
    /// Fails without a usable library. The message lists the searched locations, the faults of the libraries
    /// found, and what to install.
    pub fn open() -> Result<Self, BackendError> {
        Self::open_on(Device::Processor)
    }

    /// Opens onnxruntime on the processor in the form for devices: graphs of standard operators, with bound inputs and
    /// outputs.
    ///
    /// # Errors
    ///
    /// See [`Ort::open`].
    pub fn open_standard() -> Result<Self, BackendError> {
        Ok(Self { operators: Operators::Standard, ..Self::open()? })
    }

    /// Opens onnxruntime with its CUDA provider. Operators that the provider lacks run on the processor. onnxruntime
    /// assigns them when it loads a model.
    ///
    /// # Errors
    ///
    /// Fails like [`Ort::open`], or if the CUDA provider cannot be registered, or if the environment allows TF32.
    pub fn open_cuda() -> Result<Self, BackendError> {
        let backend = Self { operators: Operators::Standard, ..Self::open_on(Device::Cuda)? };
        backend.builder(1)?;
        check_tf32(std::env::var_os(TF32_OVERRIDE).as_deref())?;
        Ok(backend)
    }

    fn open_on(device: Device) -> Result<Self, BackendError> {
        Ok(Self { runtime: runtime(device)?, device, operators: Operators::Own, host_nodes: Mutex::default() })
    }

    fn builder(&self, threads: usize) -> Result<SessionBuilder, BackendError> {
        let configure = || -> ort::Result<SessionBuilder> {
            Ok(ort::session::Session::builder(&self.runtime.environment)?
                .with_no_environment_execution_providers()?
                .with_optimization_level(GraphOptimizationLevel::All)?
                .with_deterministic_compute(true)?
                .with_parallel_execution(false)?
                .with_inter_threads(1)?
                .with_intra_threads(threads)?
                .with_intra_op_spinning(false)?
                .with_inter_op_spinning(false)?
                // With memory patterns, the allocations of the first run stay next to the block that later runs use.
                .with_memory_pattern(false)?)
        };
        let builder = configure().map_err(|error| self.failed("cannot make session options", &error))?;
        if self.device == Device::Processor {
            return Ok(builder);
        }
        builder
            .with_execution_providers([CUDA::default().with_tf32(false).build().error_on_failure()])
            .map_err(|error| {
                BackendError(format!(
                    "the CUDA provider of {} cannot be registered ({}): `pip install onnxruntime-gpu`, an NVIDIA driver and \
                     the CUDA and cuDNN libraries it asks for (on LD_LIBRARY_PATH), or use `backend` ort",
                    self.runtime.path.display(),
                    one_line(&error)
                ))
            })
    }

    /// Session options for `model`.
    fn builder_of(&self, model: &pb::ModelProto, threads: usize) -> Result<SessionBuilder, BackendError> {
        let builder = self.builder(threads)?;
        if !model.graph.iter().flat_map(|graph| &graph.node).any(|node| node.name.starts_with(AGAIN)) {
            return Ok(builder);
        }
        let builder = builder.with_disabled_optimizers(FUSED_APART);
        builder.map_err(|error| self.failed("cannot make session options", &error))
    }

    /// Creates a session of standard operators, in forms for which a device has kernels.
    fn standard(&self, mut model: pb::ModelProto, threads: usize) -> Result<ort::session::Session, BackendError> {
        make_pads_symmetric(&mut model);
        order::release_early(&mut model);
        let explain = |error: &dyn std::fmt::Display| self.failed("cannot run the model", error);
        let builder = self.builder_of(&model, threads)?.with_config_entry(assignment::RECORD, "1");
        let mut builder = builder.map_err(|error| explain(&error))?;
        let session = builder.commit_from_memory(&model.encode_to_vec()).map_err(|error| explain(&error))?;
        if let Some(provider) = self.device.provider() {
            let nodes = assignment::assigned_elsewhere(&session, provider).map_err(|error| explain(&error))?;
            self.host_nodes.lock().unwrap_or_else(PoisonError::into_inner).extend(nodes);
        }
        Ok(session)
    }

    /// Creates a session with the custom operators. The process creates its first session alone. This is because
    /// onnxruntime checks and registers the operators' domain in separate steps, and rejects one of two sessions that
    /// do so at once.
    fn session(&self, mut model: pb::ModelProto, threads: usize) -> Result<ort::session::Session, BackendError> {
        static IS_DOMAIN_KNOWN: Mutex<bool> = Mutex::new(false);
        let is_known = IS_DOMAIN_KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = (!*is_known).then_some(is_known);
        order::release_early(&mut model);
        let session = self
            .builder_of(&model, threads)?
            .with_operators(operators::domain().map_err(|error| self.failed("cannot make operators", &error))?)
            .map_err(|error| self.failed("cannot take operators", &error))?
            .commit_from_memory(&model.encode_to_vec())
            .map_err(|error| self.failed("cannot run the model", &error))?;
        if let Some(mut is_known) = alone {
            *is_known = true;
        }
        Ok(session)
    }

    /// Creates a session with the custom operators for a bound model.
    fn with_own(&self, mut model: pb::ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
        let (specs, frozen): (Vec<_>, Vec<_>) = frozen::take(&mut model).into_iter().unzip();
        let inputs = plan.inputs.iter().cloned().chain(specs).collect();
        let whole = SessionSpec { inputs, ..plan.clone() };
        operators::put(&mut model, &whole);
        let session = self.session(model, plan.threads)?;
        let declared: Vec<&str> = session.inputs().iter().map(|input| input.name()).collect();
        let planned: Vec<&str> = whole.inputs.iter().map(|spec| spec.name.as_str()).collect();
        if declared != planned {
            return Err(self.failed("cannot run the model", &format!("its inputs are {declared:?}, not {planned:?}")));
        }
        let session = OrtSession::new(session, plan, whole, frozen);
        Ok(Box::new(session.map_err(|error| self.failed("cannot run the model", &error))?))
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> BackendError {
        BackendError(format!("onnxruntime {}: {what}: {}", self.runtime.version, one_line(error)))
    }
}

impl Backend for Ort {
    fn code(&self) -> Option<usize> {
        Some(self.runtime.code)
    }

    fn name(&self) -> &'static str {
        match self.device {
            Device::Processor => "ort",
            Device::Cuda => "cuda",
        }
    }

    fn operators(&self) -> Operators {
        self.operators
    }

    fn host_nodes(&self) -> Option<Vec<HostNode>> {
        self.device.provider()?;
        let nodes = self.host_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        Some(nodes.iter().cloned().collect())
    }

    fn version(&self) -> String {
        self.runtime.version.clone()
    }

    fn note(&self) -> String {
        let operators = match self.operators {
            Operators::Own => "",
            Operators::Standard => ", standard operators",
        };
        format!("onnxruntime {} at {}{operators}", self.runtime.version, self.runtime.path.display())
    }

    fn load(&self, model: &pb::ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
        let mut model = bind(model, plan)?;
        if self.operators == Operators::Standard {
            lower_custom(&mut model, |_| false);
            let session = BoundSession::new(self.standard(model, plan.threads)?, plan);
            return Ok(Box::new(session.map_err(|error| self.failed("cannot run the model", &error))?));
        }
        self.with_own(model, plan)
    }

    fn load_written(
        &self,
        model: &pb::ModelProto,
        inputs: &[TensorSpec],
        threads: usize,
    ) -> Result<Box<dyn WrittenSession>, BackendError> {
        let session = self.builder(threads)?.commit_from_memory(&model.encode_to_vec());
        let session = session.map_err(|error| self.failed("cannot run the frozen part", &error))?;
        Ok(Box::new(OrtWritten::new(session, inputs)))
    }

    fn load_summing(
        &self,
        model: &pb::ModelProto,
        plan: &SessionSpec,
        first: usize,
    ) -> Result<Option<Box<dyn SummingSession>>, BackendError> {
        if self.operators == Operators::Own {
            return Ok(None);
        }
        let mut model = bind(model, plan)?;
        lower_custom(&mut model, |_| false);
        let totals = summing::add_totals(&mut model, plan, first);
        let session = Summing::new(self.standard(model, plan.threads)?, self.device.allocation(), plan, totals);
        Ok(Some(Box::new(session.map_err(|error| self.failed("cannot run the model", &error))?)))
    }

    fn load_resident(
        &self,
        model: &pb::ModelProto,
        plan: &SessionSpec,
    ) -> Result<Option<Box<dyn ResidentSession>>, BackendError> {
        if self.operators == Operators::Own {
            return Ok(None);
        }
        let mut model = bind(model, plan)?;
        lower_custom(&mut model, |_| false);
        let session = Resident::new(self.standard(model, plan.threads)?, self.device.allocation(), plan);
        Ok(Some(Box::new(session.map_err(|error| self.failed("cannot run the model", &error))?)))
    }
}

/// Fails if `value`, that of [`TF32_OVERRIDE`], allows TF32. A program cannot set the variable safely while other
/// threads run.
fn check_tf32(value: Option<&OsStr>) -> Result<(), BackendError> {
    let found = match value.map(OsStr::to_string_lossy) {
        Some(value) if value == "0" => return Ok(()),
        Some(value) => format!("is {value}"),
        None => "is not set".into(),
    };
    let reason = "CUDA may round floats to TF32, 11 bits instead of 24";
    Err(BackendError(format!("{TF32_OVERRIDE} {found}: {reason}; set {TF32_OVERRIDE}=0 before the program starts")))
}

/// The process's only runtime, loaded at the first successful call.
fn runtime(device: Device) -> Result<Runtime, BackendError> {
    let mut current = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*current {
        return Ok(runtime.clone());
    }
    let runtime = match library::explicit() {
        Some((path, by)) => load(&path).map_err(|reason| {
            let remedy = match by {
                library::VARIABLE => "correct the variable or unset it".to_owned(),
                _ => format!("`pip install -U {}`, or set {}=FILE", device.package(), library::VARIABLE),
            };
            BackendError(format!("{by} names {}, which cannot be used: {reason}; {remedy}", path.display()))
        })?,
        None => find(device)?,
    };
    *current = Some(runtime.clone());
    Ok(runtime)
}

fn find(device: Device) -> Result<Runtime, BackendError> {
    let found = library::search();
    let mut reasons = Vec::new();
    for path in &found.libraries {
        match load(path) {
            Ok(runtime) => return Ok(runtime),
            Err(reason) => reasons.push(format!("{}: {reason}", path.display())),
        }
    }
    Err(absent(device, &found.looked, &reasons))
}

/// Error if no library was found in the locations `looked`, or if none is usable, for these `reasons`.
fn absent(device: Device, looked: &[String], reasons: &[String]) -> BackendError {
    let (package, variable) = (device.package(), library::VARIABLE);
    BackendError(if reasons.is_empty() {
        let looked = looked.join(", ");
        format!(
            "onnxruntime was not found (looked in {looked}): `pip install {package}`, or set {variable}=FILE, or use `backend` tract"
        )
    } else {
        let reasons = reasons.join("; ");
        format!(
            "no onnxruntime that was found can be used ({reasons}): `pip install -U {package}`, or set {variable}=FILE, or use \
             `backend` tract"
        )
    })
}

/// Loads the library at `path`. The error is the reason alone.
fn load(path: &Path) -> Result<Runtime, String> {
    if !path.is_file() {
        return Err("there is no such file".into());
    }
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    let environment = ort::init_from(&path)
        .map_err(|error| refusal(&error))?
        .with_name("damper")
        .with_telemetry(false)
        .build()
        .map_err(|error| one_line(&error))?;
    let (version, code) = version(&path).map_err(|error| one_line(&error))?;
    Ok(Runtime { environment, version, path, code })
}

/// Reason why a library cannot be used.
fn refusal(error: &ort::LoadDynamicError) -> String {
    match error {
        ort::LoadDynamicError::Dlopen { error, .. } => one_line(error),
        ort::LoadDynamicError::MissingApi { .. } => "it is not an onnxruntime library".into(),
        ort::LoadDynamicError::InvalidVersionString => "it does not say its version".into(),
        ort::LoadDynamicError::BadVersion { version_str, .. } => {
            format!("it is version {version_str}, and 1.{}.0 or newer is needed", ort::MINOR_VERSION)
        }
    }
}

/// Version of the library at `path`, which is already loaded, and the address of a function in it.
fn version(path: &Path) -> Result<(String, usize), libloading::Error> {
    // SAFETY: `ort` has loaded this file and run its initializers. This only adds a reference to it.
    let library = unsafe { libloading::Library::new(path)? };
    // SAFETY: the type of `OrtGetApiBase` in onnxruntime's C interface, which `ort` uses for the same symbol.
    let base = unsafe { library.get::<unsafe extern "C" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase")? };
    // SAFETY: no arguments. The call returns a static of the library, and `ort` has checked that it is not null ...
    let version = unsafe { ((*base()).GetVersionString)() };
    // SAFETY: ... and so is the zero-terminated string, which is copied while the library is loaded.
    let version = unsafe { std::ffi::CStr::from_ptr(version) }.to_string_lossy().into_owned();
    Ok((version, *base as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The error for an old library shows its version and the required version.
    #[test]
    fn old_library_error_shows_both_versions() {
        let error = ort::LoadDynamicError::BadVersion { version_str: "1.5.2".into(), path: "lib".into() };
        assert_eq!(refusal(&error), "it is version 1.5.2, and 1.24.0 or newer is needed");
    }

    // Each device has its own package, and the error names it.
    #[test]
    fn error_names_the_package_of_the_device() {
        for (device, package) in [(Device::Processor, "onnxruntime`"), (Device::Cuda, "onnxruntime-gpu`")] {
            let absent = [absent(device, &["lib".into()], &[]), absent(device, &[], &["lib: old".into()])];
            for error in absent.map(|error| error.to_string()) {
                assert!(error.contains("`pip install ") && error.contains(package), "{error}");
            }
        }
    }

    #[test]
    fn tf32_is_refused_unless_forbidden() {
        assert!(check_tf32(Some(OsStr::new("0"))).is_ok());
        for (value, found) in [(None, "is not set"), (Some("1"), "is 1"), (Some(""), "is :")] {
            let error = check_tf32(value.map(OsStr::new)).unwrap_err().to_string();
            assert!(error.contains(found) && error.contains("set NVIDIA_TF32_OVERRIDE=0"), "{error}");
        }
    }

    // The error for a file that is not a library has a reason.
    #[test]
    fn invalid_library_error_has_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reason = load(file.path()).err().unwrap();
        assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
        assert_eq!(load(Path::new("/nonexistent")).err().unwrap(), "there is no such file");
    }
}
