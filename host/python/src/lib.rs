//! The extension module `damper._damper`: the command for Python. It has no mathematics: it passes settings and arrays
//! to the command and returns its answer.

mod accounting;
mod error;

use damper::cli::embed::{self, Listener, python_words};
use damper_data::{MemoryArray, MemoryArrays, MemorySplit, MemoryValues};
use damper_onnx::decode_tensor;
use error::Error;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyString, PyTuple};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use toml::{Table, Value as Setting};

/// Listener that passes events to a Python function, and checks for Ctrl-C.
struct Caller {
    tell: Py<PyAny>,
    /// Receives warnings about rows of the data, which no event contains.
    tell_of_rows: Option<Py<PyAny>>,
    /// Names of the call's settings.
    given: Vec<String>,
    /// Exception from Python: from Ctrl-C, or from the function.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Caller {
    fn raise(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl Listener for Caller {
    fn event(&mut self, event: &Value) {
        let mut event = event.clone();
        if let Some(Value::String(text)) = event.get_mut("text") {
            *text = python_words(text, &self.given);
        }
        if let Err(error) = Python::attach(|py| self.tell.call1(py, (event.to_string(),))) {
            self.raise(error);
        }
    }

    fn data_warning(&mut self, text: &str) {
        let Some(tell) = &self.tell_of_rows else { return };
        if let Err(error) = Python::attach(|py| tell.call1(py, (python_words(text, &self.given),))) {
            self.raise(error);
        }
    }

    fn stop(&mut self) -> bool {
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            self.raise(error);
        }
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

fn worded(message: &str, given: &[String]) -> PyErr {
    Error::new_err(python_words(message, given))
}

/// Converts a Python value to the value of a setting. Other objects than numbers and lists become text.
fn setting(value: &Bound<'_, PyAny>) -> PyResult<Setting> {
    if let Ok(switch) = value.cast::<PyBool>() {
        return Ok(switch.is_true().into());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(Setting::Array(value.try_iter()?.map(|one| setting(&one?)).collect::<PyResult<_>>()?));
    }
    // A str stays a str, even if it looks like a number.
    if !value.is_instance_of::<PyString>() {
        // NumPy's numbers too.
        if let Ok(whole) = value.call_method0("__index__").and_then(|whole| whole.extract::<i64>()) {
            return Ok(whole.into());
        }
        if let Ok(number) = value.extract::<f64>()
            && !value.hasattr("__index__")?
        {
            return Ok(number.into());
        }
    }
    Ok(value.str()?.to_str()?.into())
}

/// Converts `(name, array)`. The array is C-contiguous, of float32, float64, int64 or uint64.
fn array(py: Python<'_>, (name, value): (String, Bound<'_, PyAny>)) -> PyResult<MemoryArray> {
    if let Ok(buffer) = PyBuffer::<f32>::get(&value) {
        return Ok(MemoryArray { name, shape: buffer.shape().to_vec(), values: MemoryValues::F32(buffer.to_vec(py)?) });
    }
    if let Ok(buffer) = PyBuffer::<f64>::get(&value) {
        return Ok(MemoryArray { name, shape: buffer.shape().to_vec(), values: MemoryValues::F64(buffer.to_vec(py)?) });
    }
    if let Ok(buffer) = PyBuffer::<u64>::get(&value) {
        return Ok(MemoryArray { name, shape: buffer.shape().to_vec(), values: MemoryValues::U64(buffer.to_vec(py)?) });
    }
    let buffer = PyBuffer::<i64>::get(&value)
        .map_err(|_| worded(&format!("{name}: give float32, float64, int64 or uint64"), &[]))?;
    Ok(MemoryArray { name, shape: buffer.shape().to_vec(), values: MemoryValues::I64(buffer.to_vec(py)?) })
}

/// Arrays of features with their names, and labels.
type Split<'py> = (Vec<(String, Bound<'py, PyAny>)>, Option<Bound<'py, PyAny>>);

fn split(py: Python<'_>, (features, labels): Split<'_>) -> PyResult<MemorySplit> {
    Ok(MemorySplit {
        features: features.into_iter().map(|one| array(py, one)).collect::<PyResult<_>>()?,
        labels: labels.map(|labels| array(py, ("labels".into(), labels))).transpose()?,
    })
}

/// Runs the subcommand `name`. `data` are the training rows and the held-out rows. `tell` receives events, and
/// `tell_of_rows` receives warnings that depend on rows of the data.
///
/// Returns its answer, and true if Ctrl-C ended it early.
#[pyfunction]
#[pyo3(signature = (name, args, settings, tell, data=None, tell_of_rows=None))]
fn call(
    py: Python<'_>,
    name: &str,
    args: Vec<String>,
    settings: &Bound<'_, PyDict>,
    tell: Py<PyAny>,
    data: Option<(Split<'_>, Option<Split<'_>>)>,
    tell_of_rows: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    let mut given = Table::new();
    for (key, value) in settings.iter().filter(|(_, value)| !value.is_none()) {
        given.insert(key.extract()?, setting(&value)?);
    }
    let memory = match data {
        Some((train, test)) => {
            Some(MemoryArrays::new(split(py, train)?, test.map(|test| split(py, test)).transpose()?))
        }
        None => None,
    };
    let raised = Arc::new(Mutex::new(None));
    let shared = raised.clone();
    let names: Vec<String> = given.keys().map(|key| key.replace('-', "_")).collect();
    let own = names.clone();
    let result = py.detach(move || {
        let listener = Box::new(Caller { tell, tell_of_rows, given: own, raised: shared });
        embed::call(name, &args, &given, memory, listener)
    });
    let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    let interrupted = match raised {
        Some(raised) if !raised.is_instance_of::<PyKeyboardInterrupt>(py) => return Err(raised),
        raised => raised.is_some(),
    };
    let answer = result.map_err(|failure| match interrupted {
        // Before its first step a run has no answer.
        true => PyKeyboardInterrupt::new_err(python_words(&failure.message, &names)),
        false => worded(&failure.message, &names),
    })?;
    Ok((answer, interrupted))
}

/// Runs the command line `args`, starting with the program's name. Returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let code = py.detach(|| damper::cli::main(args));
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

/// Sets onnxruntime's library if the user's environment does not. The first call wins.
#[pyfunction]
fn use_library(path: PathBuf) {
    damper::runtime::suggest(path);
}

/// Returns the float32 initializers of an .onnx file, `{name: (shape, bytes)}`, and its metadata.
#[pyfunction]
fn read_model<'py>(py: Python<'py>, path: PathBuf) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let failed = |problem: &dyn std::fmt::Display| worded(&format!("{}: {problem}", path.display()), &[]);
    let model = damper_onnx::load(&path).map_err(|problem| worded(&problem.to_string(), &[]))?;
    let (tensors, metadata) = (PyDict::new(py), PyDict::new(py));
    for (name, proto) in damper_onnx::stored_tensors(&model) {
        let tensor = decode_tensor(proto).map_err(|problem| failed(&problem))?;
        let Some(values) = tensor.as_f32() else { continue };
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        tensors.set_item(&name, (PyTuple::new(py, &tensor.shape)?, PyBytes::new(py, &bytes)))?;
    }
    for entry in &model.metadata_props {
        metadata.set_item(&entry.key, &entry.value)?;
    }
    Ok((tensors, metadata))
}

#[pymodule]
mod _damper {
    #[pymodule_export]
    use super::accounting::{calibrate_event, privacy_bounds};

    #[pymodule_export]
    use super::error::Error;

    #[pymodule_export]
    use super::{call, main, read_model, use_library};

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
