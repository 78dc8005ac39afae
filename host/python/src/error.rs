//! The exception `damper.Error`.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;

create_exception!(
    damper,
    Error,
    PyValueError,
    "What is wrong, and what to do: in the command's words, with arguments in the place of flags."
);
