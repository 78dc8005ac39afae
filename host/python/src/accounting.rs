//! Bounds of mechanisms for `damper.accounting`. It has no mathematics: it reads nested tuples as a mechanism.

use crate::error::Error;
use damper::accounting::{AccountingError, Adjacency, DpEvent, calibrate_count, calibrate_event as calibrated};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// An error of a bound, or of the caller's function.
struct Failure(PyErr);

impl From<AccountingError> for Failure {
    fn from(error: AccountingError) -> Self {
        Self(wrong(&error.to_string()))
    }
}

fn wrong(message: &str) -> PyErr {
    Error::new_err(message.replace('`', ""))
}

fn adjacency(name: &str) -> PyResult<Adjacency> {
    let all = [Adjacency::AddOrRemove, Adjacency::ReplaceOne, Adjacency::ZeroOut];
    let found = all.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| wrong(&format!("neighbours {name}: give add-or-remove, replace-one or zero-out")))
}

/// Reads `(name, values...)`, in which mechanisms are tuples of this form.
fn read(value: &Bound<'_, PyAny>) -> PyResult<DpEvent> {
    let parts = value.cast::<PyTuple>()?;
    let name: String = parts.get_item(0)?.extract()?;
    let number = |at: usize| parts.get_item(at)?.extract::<f64>();
    let count = |at: usize| parts.get_item(at)?.extract::<u64>();
    let inner = |at: usize| read(&parts.get_item(at)?);
    Ok(match name.as_str() {
        "non-private" => DpEvent::NonPrivate,
        "gaussian" => DpEvent::gaussian(number(1)?),
        "laplace" => DpEvent::laplace(number(1)?),
        "discrete-laplace" => {
            DpEvent::DiscreteLaplace { parameter: number(1)?, sensitivity: parts.get_item(2)?.extract()? }
        }
        "discrete-gaussian" => {
            DpEvent::DiscreteGaussian { sigma: number(1)?, sensitivity: parts.get_item(2)?.extract()? }
        }
        "randomized-response" => {
            DpEvent::RandomizedResponse { noise: number(1)?, buckets: parts.get_item(2)?.extract()? }
        }
        "approximate" => DpEvent::Approximate { epsilon: number(1)?, delta: number(2)? },
        "concentrated" => DpEvent::Concentrated { rho: number(1)?, xi: number(2)? },
        "tree" => DpEvent::Tree { multiplier: number(1)?, steps: count(2)? },
        "toeplitz" => {
            let column: Vec<f64> = parts.get_item(2)?.extract()?;
            DpEvent::toeplitz(number(1)?, &column, parts.get_item(3)?.extract()?)
                .map_err(|error| wrong(&error.to_string()))?
        }
        "poisson" => inner(2)?.poisson(number(1)?),
        "fixed-size" => inner(3)?.fixed_size(count(1)?, count(2)?),
        "truncated-poisson" => DpEvent::TruncatedPoisson {
            population: count(1)?,
            rate: number(2)?,
            most: count(3)?,
            multiplier: number(4)?,
        },
        "compose" => {
            let all = parts.get_item(1)?.cast_into::<PyList>()?;
            let one = |pair: Bound<'_, PyAny>| {
                let (event, times): (Bound<'_, PyAny>, u64) = pair.extract()?;
                Ok((read(&event)?, times))
            };
            DpEvent::Compose(all.iter().map(one).collect::<PyResult<_>>()?)
        }
        "best-of" => {
            let candidates: String = parts.get_item(1)?.extract()?;
            inner(2)?.best_of(candidates.parse().map_err(|error: AccountingError| wrong(&error.to_string()))?)
        }
        _ => return Err(wrong(&format!("{name}: no such event"))),
    })
}

/// Returns bounds of `kind` at `value`, a δ or an ε: the lower bound, or None if it is not asked for or not known, and
/// the upper bound.
#[pyfunction]
pub(crate) fn privacy_bounds(
    py: Python<'_>,
    kind: &str,
    event: &Bound<'_, PyAny>,
    neighbours: &str,
    value: f64,
) -> PyResult<(Option<f64>, f64)> {
    let (event, adjacency) = (read(event)?, adjacency(neighbours)?);
    let found = py.detach(|| match kind {
        "epsilon" => event.epsilon(adjacency, value).map(|upper| (None, upper)),
        "epsilon-rdp" => event.epsilon_by_orders(adjacency, value).map(|bound| (None, bound.epsilon)),
        "epsilon-both" => event.epsilon_bounds(adjacency, value),
        "delta" => event.delta(adjacency, value).map(|upper| (None, upper)),
        _ => event.delta_bounds(adjacency, value),
    });
    found.map_err(|error| wrong(&error.to_string()))
}

/// Returns the value between `low` and `high` whose event, the result of `make`, costs at most ε, and nearly ε.
#[pyfunction]
pub(crate) fn calibrate_event<'py>(
    py: Python<'py>,
    make: &Bound<'py, PyAny>,
    neighbours: &str,
    budget: (f64, f64),
    ends: (f64, f64),
    is_count: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let ((epsilon, delta), (low, high)) = (budget, ends);
    let adjacency = adjacency(neighbours)?;
    let call = |value: Bound<'py, PyAny>| make.call1((value,)).and_then(|event| read(&event)).map_err(Failure);
    let to_any = |error: PyErr| Failure(error);
    let found = if is_count {
        let make = |value: u64| call(value.into_pyobject(py).map_err(|error| to_any(error.into()))?.into_any());
        calibrate_count(adjacency, epsilon, delta, low as u64, high as u64, make)
            .and_then(|value| Ok(value.into_pyobject(py).map_err(|error| to_any(error.into()))?.into_any()))
    } else {
        let make = |value: f64| call(value.into_pyobject(py).map_err(|error| to_any(error.into()))?.into_any());
        calibrated(adjacency, epsilon, delta, low, high, make)
            .and_then(|value| Ok(value.into_pyobject(py).map_err(|error| to_any(error.into()))?.into_any()))
    };
    found.map_err(|Failure(error)| error)
}
