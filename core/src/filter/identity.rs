//! No filter: `m_t = g_t`, as in DP-SGD.
//!
//! # Memory
//!
//! None. The state is `()`.

use super::base::Filter;
use crate::error::{CallError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::private::Released;
use crate::record::{FromRecord, RecordSource, StateVector, ToRecord};

/// Identity filter.
///
/// ```
/// use damper_core::filter::{Filter as _, Identity};
///
/// let mut point = [0.0; 2];
/// assert_eq!(Identity.eval_point(&(), 0, &[0.5, 1.5], &mut point), Ok(1.0));
/// assert_eq!(point, [0.5, 1.5]);
/// assert!(Identity.is_identity() && Identity.evaluates_at_params());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity;

impl Filter<()> for Identity {
    type Step = ();

    fn eval_points(&self, (): &()) -> usize {
        1
    }

    fn eval_point(&self, (): &(), index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        check_len("the point's buffer", params.len(), out.len())?;
        if index != 0 {
            return Err(CallError::Order("points of the identity filter"));
        }
        for (out, param) in out.iter_mut().zip(params) {
            *out = *param;
        }
        Ok(1.0)
    }

    fn weight(&self, (): &(), _index: usize) -> f32 {
        1.0
    }

    fn check(&self, (): &(), _dim: usize) -> Result<(), CallError> {
        Ok(())
    }

    fn begin(&self, (): &mut ()) {}

    fn is_identity(&self) -> bool {
        true
    }

    fn apply(&self, (): (), (): &mut (), _at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        for (filtered, grad) in filtered.iter_mut().zip(released.grad()) {
            *filtered = *grad;
        }
    }
}

impl ToRecord<()> for Identity {
    fn kind(&self, _state: &()) -> Option<u8> {
        Some(0)
    }
}

impl FromRecord for Identity {
    type State<B: StateVector> = ();

    const KINDS: &'static [u8] = &[0];

    fn read<R: RecordSource>(_kind: u8, _source: &mut R) -> Result<(Self, ()), R::Error> {
        Ok((Self, ()))
    }
}

impl Digested<()> for Identity {
    fn add_to(&self, (): &(), _digest: &mut Digest) {}
}
