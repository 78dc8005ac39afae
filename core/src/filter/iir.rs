//! Fixed linear recursive filter: DOPPLER, and the filter of DP-PMLF.
//!
//! ```text
//! m_t = −Σ_{r=1..na} a_r·m_{t−r} + Σ_{r=0..nb} b_r·g_{t−r}          m̂_t = m_t / c_t
//! c_t = −Σ_{r=1..na} a_r·c_{t−r} + Σ_{r=0..min(nb,t)} b_r           (the same filter applied to 1, 1, 1, …)
//! ```
//!
//! `g_t` is the released gradient, and all values before the first step are zero. The division is the bias correction.
//! A constant input passes unchanged at every step, and scaling `b` changes nothing.
//!
//! Sources: Zhang, Bu, Hong, Razaviyayn, "DOPPLER: Differentially Private Optimizers with Low-pass Filter for Privacy
//! Noise Reduction", and Xu, Ranbaduge, Wang, Rakotoarivelo, Smith, "Enhancing DPSGD via Per-Sample Momentum and
//! Low-Pass Filtering". DOPPLER's stability test is printed inverted: see [`Iir::new`].
//!
//! # Memory
//!
//! `K·D` floats for order `K = max(na, nb)`, and `K` f64. The transposed direct form II gives the output of the direct
//! form, which needs `(na + nb)·D`:
//!
//! ```text
//! y = b_0·g + s_1        s_i ← (b_i·g − a_i·y) + s_{i+1}   (i = 1..K, s_{K+1} absent)        m_t = y
//! ```
//!
//! # Numerics
//!
//! Each coordinate is in f32 by the transposed form. Products and sums are rounded separately in the order written, and
//! missing coefficients are zero. `c_t` is the `y` of the same form in f64, with the same f32 coefficients, for the
//! input 1. `m̂ = F(y·F(1/c_t))`, with the quotient in f64.
//!
//! Rounding errors enter when `y` and `s_i` are computed, and leave through `1/A`. Let `u = 2⁻²⁴`, and `h` the impulse
//! response of `1/(1 + Σ a_r z⁻ʳ)`. The output for a constant input `g` is then within
//!
//! ```text
//! |m̂_t − g| ≤ |g|·(2u + (1/c_t)·Σ_{τ≤t} |h_{t−τ}|·(E⁰_τ + Σ_i Eⁱ_{τ−i}))
//! E⁰ = u·(|b_0| + |y|)        Eⁱ = u·(|b_i| + |a_i·y| + |b_i − a_i·y| + |s_i|)
//! ```
//!
//! to first order in `u`: at most 316 u for f6, 115 u for d2 and 43 u for the other sets of [`SETS`], at every step.
//! The filter `a = {}, b = {1}` multiplies by one twice: DP-SGD bit for bit.
//!
//! # Privacy
//!
//! Post-processing of released gradients by constants.

mod sets;
mod stability;
#[cfg(test)]
mod tests;
mod uncorrected;

pub use sets::{SETS, Set, named};
pub use uncorrected::Uncorrected;

use super::base::Filter;
use super::identity::Identity;
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::order::{is_at_most, is_within};
use crate::numerics::round::saturate;
use crate::optimizer::piece;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};
use heapless::Vec;
use stability::peak_squared;

/// Number of steps within which a step response must be shown to stay positive.
const SETTLING_STEPS: u32 = 10_000;
/// The DC gain, and a step response relative to it, must stay within `1/RANGE..RANGE`, far inside f32.
const RANGE: f64 = 4_294_967_296.0;

/// Coefficients of one delay.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Tap {
    a: f32,
    b: f32,
}

/// Configuration of a recursive filter of order at most `ORDER`.
///
/// ```
/// use damper_core::filter::{Iir, IirState, named};
/// use damper_core::optimizer::{Sgd, SgdState};
/// # use damper_core::{clip::FlatL2, filter::*, grid::Grid, noise::*, prelude::*, private::*, schedule::*, threshold::Fixed};
/// # fn step_once<F: Filter<FS>, FS, O: damper_core::optimizer::Optimizer<OS>, OS>(
/// #     (filter, filter_state): (F, FS), (optimizer, state): (O, OS), grad: [f32; 2],
/// # ) -> Result<[f32; 2], Box<dyn std::error::Error>> {
/// #     let mechanism = DiscreteGaussian::<i32>::new(Grid::new(20)?, 1)?;
/// #     let schedule = Constant(0.1);
/// #     let clip = FlatL2;
/// #     let slots = Slots { filter, optimizer, mechanism, threshold: Fixed(1.0), clip, schedule, expected_batch: 1 };
/// #     let mut state = StepState::new([SumWord::ZERO; 2], filter_state, state, ());
/// #     let (mut ledger, mut params) = (Ledger::volatile(1), [0.0; 2]);
/// #     let config = PrivateStep::new(slots)?;
/// #     let mut step = config.open(&mut state, &mut ledger)?;
/// #     step.add(&grad)?;
/// #     step.finish(&mut params, &NoiseRng::simulation(1))?;
/// #     Ok(params)
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let momentum = named("momentum").expect("DOPPLER's Table 2 has it");
/// let filter = Iir::<8>::new(momentum.a, momentum.b)?;
/// assert_eq!(filter.order(), 1);
/// let state = IirState::new([0.0; 2]);
/// // The first output is corrected for the zeros before it.
/// // One step of SGD at a learning rate of 0.1, with next to no noise.
/// let sgd = (Sgd::new(0.0, false, 0.0)?, SgdState { momentum: [] as [f32; 0] });
/// let params = step_once((filter, state), sgd, [0.5, -0.5])?;
/// assert!((params[0] + 0.05).abs() < 1e-4 && (params[1] - 0.05).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Iir<const ORDER: usize = 8> {
    /// `b_0`.
    direct: f32,
    /// `(a_i, b_i)` for `i = 1..K`.
    taps: Vec<Tap, ORDER>,
}

impl<const ORDER: usize> Iir<ORDER> {
    /// Creates the filter with `a = {a_1, …, a_na}` (without the leading 1) and `b = {b_0, …, b_nb}`.
    ///
    /// It is stable if all its poles, the roots of `z^K + a_1·z^{K−1} + … + a_K`, are inside the unit circle. The
    /// Schur–Cohn recursion decides this from the coefficients. DOPPLER prints the condition for the roots of
    /// `1 + Σ a_r·x^r`, the reciprocals of the poles, and so accepts unstable filters.
    ///
    /// A proof, not a sample, shows that `c_t` stays positive. Once a bound on all later deviations from the limit is
    /// smaller than the limit, no later `c_t` can reach zero.
    ///
    /// # Errors
    ///
    /// Fails if a coefficient is not finite, the order exceeds `ORDER`, or a pole is on or outside the unit circle.
    /// Fails if the DC gain `Σ b / (1 + Σ a)` is not from 2⁻³² to 2³², or some `c_t` is not above 0 or not within 2³²
    /// times the gain. Also fails if poles are so near the unit circle that 10,000 steps do not prove it.
    pub fn new(a: &[f32], b: &[f32]) -> Result<Self, ConfigError> {
        if !a.iter().chain(b).all(|coefficient| coefficient.is_finite()) {
            return Err(ConfigError::new("a filter's coefficients", "finite"));
        }
        let (a, b) = (without_trailing_zeros(a), without_trailing_zeros(b));
        let Some((direct, delayed)) = b.split_first().filter(|(direct, _)| **direct != 0.0) else {
            return Err(ConfigError::new("a filter's b", "b_0, b_1, ... with b_0 other than 0"));
        };
        let mut taps = Vec::new();
        for i in 0..a.len().max(delayed.len()) {
            let coefficient = |of: &[f32]| of.get(i).copied().unwrap_or(0.0);
            taps.push(Tap { a: coefficient(a), b: coefficient(delayed) })
                .map_err(|_| ConfigError::new("a filter's order", "at most its capacity, the parameter ORDER"))?;
        }
        let iir = Self { direct: *direct, taps };
        iir.check_step_response()?;
        Ok(iir)
    }

    /// Returns the order `K`: the number of state vectors of `D` floats.
    #[must_use]
    pub fn order(&self) -> usize {
        self.taps.len()
    }

    /// Returns `Σ b / (1 + Σ a)`, the limit of `c_t`.
    fn dc_gain(&self) -> f64 {
        let (numerator, denominator) = self
            .taps
            .iter()
            .fold((f64::from(self.direct), 1.0), |(b, a), tap| (b + f64::from(tap.b), a + f64::from(tap.a)));
        numerator / denominator
    }

    /// Returns the next `c_t`.
    fn advance(&self, ones: &mut [f64; ORDER]) -> f64 {
        let y = f64::from(self.direct) + ones.first().copied().unwrap_or(0.0);
        let mut next = ones.iter_mut();
        let mut current = next.next();
        for tap in &self.taps {
            let later = next.next();
            if let Some(current) = current {
                // Beyond the order, the states stay zero.
                *current = (f64::from(tap.b) - f64::from(tap.a) * y) + later.as_deref().copied().unwrap_or(0.0);
            }
            current = later;
        }
        y
    }

    /// Returns [`peak_squared`] of the recursion of `a` after these deviations.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn peak(&self, deviations: &[f64]) -> Option<f64> {
        let mut a = [0.0; ORDER];
        for (a, tap) in a.iter_mut().zip(&self.taps) {
            *a = f64::from(tap.a);
        }
        peak_squared(a.get_mut(..self.order())?, deviations)
    }

    fn check_step_response(&self) -> Result<(), ConfigError> {
        // The last K deviations of c_t from its limit, oldest first.
        let mut deviations = [0.0; ORDER];
        let deviations = deviations.get_mut(..self.order()).unwrap_or_default();
        if self.peak(deviations).is_none() {
            return Err(ConfigError::new("a filter's a", "stable: every pole inside the unit circle"));
        }
        let limit = self.dc_gain();
        if !is_within(limit, 1.0 / RANGE, RANGE) {
            return Err(ConfigError::new("a filter's DC gain, sum b / (1 + sum a),", "from 2^-32 to 2^32"));
        }
        deviations.fill(-limit);
        let mut ones = [0.0; ORDER];
        for t in 0..SETTLING_STEPS {
            let c = self.advance(&mut ones);
            if !is_within(c, limit / RANGE, limit * RANGE) {
                return Err(ConfigError::new(
                    "a filter's step response",
                    "above 0 at every step, for the bias correction divides by it, and within 2^32 times the DC gain",
                ));
            }
            let mut newest = c - limit;
            for deviation in deviations.iter_mut().rev() {
                core::mem::swap(deviation, &mut newest);
            }
            // From here on, c_t includes all of b, and deviations follow the recursion of a alone. The margin covers
            // rounding.
            let unforced = t as usize >= self.order();
            let peak = if unforced { self.peak(deviations) } else { None };
            if peak.is_some_and(|peak| is_at_most(peak, limit * limit * (1.0 - 1e-9))) {
                return Ok(());
            }
        }
        Err(ConfigError::new(
            "a filter's step response",
            "settled within 10,000 steps, which needs poles further inside the unit circle",
        ))
    }
}

fn without_trailing_zeros(coefficients: &[f32]) -> &[f32] {
    let mut kept = coefficients;
    while let Some((0.0, rest)) = kept.split_last() {
        kept = rest;
    }
    kept
}

/// State of a recursive filter.
#[derive(Debug)]
pub struct IirState<B, const ORDER: usize = 8> {
    /// `s_1, …, s_K`, one after the other.
    memory: B,
    /// The same states for the input 1, 1, 1, …
    ones: [f64; ORDER],
}

impl<B, const ORDER: usize> IirState<B, ORDER> {
    /// Creates the state before the first step. `memory` is `[K, D]` ([`Iir::order`] vectors of parameters), zeros.
    pub fn new(memory: B) -> Self {
        Self { memory, ones: [0.0; ORDER] }
    }
}

/// Constant that the segments of one step share: `1/c_t`.
///
/// ```
/// use damper_core::filter::{Filter as _, Iir, IirState, IirStep};
///
/// let method = Iir::<8>::new(&[-0.9], &[0.1])?;
/// let mut state = IirState::new([0.0f32; 2]);
/// let step: IirStep = method.begin(&mut state);
/// // All segments of a step share it.
/// let _copies = [step; 2];
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IirStep(f32);

impl<B: AsMut<[f32]> + AsRef<[f32]>, const ORDER: usize> Filter<IirState<B, ORDER>> for Iir<ORDER> {
    type Step = IirStep;

    fn eval_points(&self, _state: &IirState<B, ORDER>) -> usize {
        1
    }

    fn eval_point(
        &self,
        _state: &IirState<B, ORDER>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        Identity.eval_point(&(), index, params, out)
    }

    fn weight(&self, _state: &IirState<B, ORDER>, _index: usize) -> f32 {
        1.0
    }

    fn check(&self, state: &IirState<B, ORDER>, dim: usize) -> Result<(), CallError> {
        check_len("the filter's memory", dim.saturating_mul(self.order()), state.memory.as_ref().len())
    }

    fn begin(&self, state: &mut IirState<B, ORDER>) -> IirStep {
        IirStep((1.0 / self.advance(&mut state.ones)) as f32)
    }

    fn filters_by_coordinate(&self) -> bool {
        true
    }

    fn apply(
        &self,
        step: IirStep,
        state: &mut IirState<B, ORDER>,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        let (grad, len) = (released.grad(), filtered.len());
        let memory = state.memory.as_mut();
        let dim = memory.len().checked_div(self.order()).unwrap_or(0).max(1);
        for (y, g) in filtered.iter_mut().zip(grad) {
            *y = self.direct * g;
        }
        add(filtered, piece(memory, at, len));
        let mut rows = memory;
        for Tap { a, b } in &self.taps {
            let (row, later) = rows.split_at_mut(dim.min(rows.len()));
            let row = piece(row, at, len);
            for ((s, g), y) in row.iter_mut().zip(grad).zip(&*filtered) {
                *s = saturate(b * g - a * y);
            }
            add(row, piece(later, at, len));
            rows = later;
        }
        for y in filtered {
            *y = saturate(*y * step.0);
        }
    }
}

/// Adds the states of a later delay, if any.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
fn add(sums: &mut [f32], later: &[f32]) {
    if later.is_empty() {
        sums.iter_mut().for_each(|sum| *sum = saturate(*sum));
    }
    for (sum, later) in sums.iter_mut().zip(later) {
        *sum = saturate(*sum + later);
    }
}

/// Largest number of coefficients of a kind in a recording.
const MOST: usize = 17;

/// Writes the filter after construction: trailing zeros do not count toward the order.
impl<B, const ORDER: usize> ToRecord<IirState<B, ORDER>> for Iir<ORDER> {
    fn kind(&self, _state: &IirState<B, ORDER>) -> Option<u8> {
        Some(1)
    }

    fn write(&self, _state: &IirState<B, ORDER>, sink: &mut dyn RecordSink) {
        let count = |of: fn(&Tap) -> f32| self.taps.iter().rposition(|tap| of(tap) != 0.0).map_or(0, |last| last + 1);
        let (na, nb) = (count(|tap| tap.a), count(|tap| tap.b));
        sink.u8(na as u8);
        sink.u8(nb.saturating_add(1) as u8);
        self.taps.iter().take(na).for_each(|tap| sink.f32(tap.a));
        sink.f32(self.direct);
        self.taps.iter().take(nb).for_each(|tap| sink.f32(tap.b));
    }
}

impl<const ORDER: usize> FromRecord for Iir<ORDER> {
    type State<B: StateVector> = IirState<B, ORDER>;

    const KINDS: &'static [u8] = &[1];

    fn read<R: RecordSource>(_kind: u8, source: &mut R) -> Result<(Self, IirState<R::Vector, ORDER>), R::Error> {
        let (mut a, mut b) = ([0.0; MOST], [0.0; MOST]);
        let (na, nb) = (usize::from(source.u8()), usize::from(source.u8()));
        let (a, b) = (a.get_mut(..ORDER).unwrap_or_default(), b.get_mut(..ORDER.saturating_add(1)).unwrap_or_default());
        let (Some(a), Some(b)) = (a.get_mut(..na), b.get_mut(..nb)) else {
            return Err(R::wrong("order of a filter"));
        };
        source.f32s(a);
        source.f32s(b);
        let iir = Self::new(a, b)?;
        let memory = source.zeros(iir.order().saturating_mul(source.dim()))?;
        Ok((iir, IirState::new(memory)))
    }
}

/// Saves `s_1, …, s_K`, then those of the input 1, 1, 1, …
impl<B: AsMut<[f32]>, const ORDER: usize> SaveState for IirState<B, ORDER> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("iir"));
        take(StateField::Floats(self.memory.as_mut()));
        self.ones.iter_mut().for_each(|one| take(StateField::Double(one)));
    }
}

impl<B: AsRef<[f32]>, const ORDER: usize> Digested<IirState<B, ORDER>> for Iir<ORDER> {
    fn add_to(&self, state: &IirState<B, ORDER>, digest: &mut Digest) {
        digest.add_f32s(state.memory.as_ref());
        for one in state.ones.iter().take(self.order()) {
            digest.add_f64(*one);
        }
    }
}
