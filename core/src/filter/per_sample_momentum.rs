//! DP-PMLF: per-sample momentum over the last `k` iterates before clipping, followed by another filter on the released
//! gradient.
//!
//! ```text
//! u_i = Σ_{j<k} w_j·∇f(x_{t−j}; i),   w_j = β^j / Σ_{l<k} β^l      mixed per sample, then clipped once
//! ```
//!
//! Source: Xu, Ranbaduge, Wang, Rakotoarivelo, Smith, "Enhancing DPSGD via Per-Sample Momentum and Low-Pass Filtering",
//! Algorithm 1, with the inner filter [`super::Iir`]. Gradients at past iterates are computed again, for the samples of
//! this step's batch. Iterates before the first count as the first (`x_{−j} = x_0`), so the oldest iterate gets their
//! weights.
//!
//! Without normalisation (`w_j = β^j`) and with momentum in the optimizer, it has inner and outer momentum. Source:
//! Xiao, Xiang, Wang, Devadas, "A Theory to Instruct Differentially-Private Learning via Clipping Bias Reduction",
//! S&P 2023.
//!
//! # Memory
//!
//! `(k−1)·D` floats of past iterates, the inner filter's state, and one vector for the combined gradient. Nothing is
//! stored per sample.
//!
//! # Numerics
//!
//! In f64, `β^j` by repeated multiplication and `Σ = 1 + β + β² + …` in this order (1 without normalisation). The
//! weight of `x_{t−j}` is `F(β^j/Σ)`, and that of the oldest iterate `F((β^{k−1} + β^{k−2} + … + β^j)/Σ)`, in this
//! order. Evaluation point `j` is `x_{t−j}`. With `k = 1` the only weight is exactly 1.
//!
//! # Privacy
//!
//! Past iterates are released, so `u_i` is a function of the sample and of releases. One clip after the combination
//! keeps the sensitivity at `C`. Clipping each gradient separately would let one sample add `Σ w_j·C`, or `k·C` without
//! weights.

use super::base::Filter;
use super::identity::Identity;
use super::iir::{Iir, IirState};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::order::is_at_most;
use crate::optimizer::piece;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Per-sample momentum over at most `K` iterates, and the filter on the released gradient.
///
/// ```
/// use damper_core::filter::{Filter as _, Identity, PerSampleMomentum, PerSampleMomentumState};
///
/// // Each sample's gradient at the parameters and at those of the step before.
/// let filter = PerSampleMomentum::<_, 8>::new(2, 0.5, Identity)?;
/// assert_eq!(filter.iterates_len(3), 3);
/// let state = PerSampleMomentumState::new([0.0; 3], ());
/// assert_eq!((filter.eval_points(&state), filter.check(&state, 3)), (1, Ok(())));
/// assert!(PerSampleMomentum::<_, 8>::unnormalised(2, 0.5, Identity).is_ok());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerSampleMomentum<F, const K: usize = 8> {
    weights: [f32; K],
    /// `Σ_{l≥j} w_l`: the weight of the oldest iterate while there are only `j + 1`.
    tails: [f32; K],
    iterates: usize,
    beta: f64,
    normalised: bool,
    inner: F,
}

impl<F, const K: usize> PerSampleMomentum<F, K> {
    /// Creates momentum over `iterates` (`k`, including the current iterate) with factor `β`, normalised to a sum of 1,
    /// then `inner`.
    ///
    /// # Errors
    ///
    /// Fails if `iterates` is outside `1..=K` or `β` outside `[−0.9, 1]`. At `k = 2`, `β = −(1−κ)` combines as DiSK
    /// with `γ = −1`.
    pub fn new(iterates: usize, beta: f64, inner: F) -> Result<Self, ConfigError> {
        Self::with(iterates, beta, true, inner)
    }

    /// Creates momentum with weights `β^j` that are not normalised: the inner momentum of Xiao et al.
    ///
    /// # Errors
    ///
    /// Fails as [`PerSampleMomentum::new`] does.
    pub fn unnormalised(iterates: usize, beta: f64, inner: F) -> Result<Self, ConfigError> {
        Self::with(iterates, beta, false, inner)
    }

    fn with(iterates: usize, beta: f64, normalised: bool, inner: F) -> Result<Self, ConfigError> {
        if iterates == 0 || iterates > K {
            return Err(ConfigError::new("number of iterates", "at least 1 and within the filter's capacity"));
        }
        if !is_at_most(beta, if beta.is_sign_negative() { 0.9 } else { 1.0 }) {
            return Err(ConfigError::new("per-sample momentum", "from -0.9 to 1"));
        }
        let (mut powers, mut weights, mut tails) = ([0.0; K], [0.0; K], [0.0; K]);
        weigh(beta, normalised, powers.get_mut(..iterates).unwrap_or_default(), &mut weights, &mut tails);
        Ok(Self { weights, tails, iterates, beta, normalised, inner })
    }

    /// Returns the length of [`PerSampleMomentumState`]'s iterates for `dim` parameters: `(k−1)·D`.
    #[must_use]
    pub fn iterates_len(&self, dim: usize) -> usize {
        self.past().saturating_mul(dim)
    }

    /// Returns `k−1`.
    fn past(&self) -> usize {
        self.iterates.saturating_sub(1)
    }
}

/// Computes the weights of all iterates, and their sums from each to the oldest. `powers` has one element for each
/// iterate.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
fn weigh(beta: f64, normalised: bool, powers: &mut [f64], weights: &mut [f32], tails: &mut [f32]) {
    let (mut power, mut total) = (1.0, 0.0);
    for slot in &mut *powers {
        *slot = power;
        total += power;
        power *= beta;
    }
    // Signs may alternate, and the sum is at least 1 − 0.9.
    let scale = if normalised { total } else { 1.0 };
    let mut tail = 0.0;
    for ((power, weight), slot) in powers.iter().zip(weights).zip(tails).rev() {
        tail += power;
        *weight = (power / scale) as f32;
        *slot = (tail / scale) as f32;
    }
}

/// State of per-sample momentum, and of the inner filter.
#[derive(Debug)]
pub struct PerSampleMomentumState<B, S> {
    /// Past iterates `[k−1, D]`, in a ring buffer.
    iterates: B,
    /// Index of the latest past iterate.
    slot: usize,
    /// Number of past iterates.
    seen: usize,
    inner: S,
}

impl<B, S> PerSampleMomentumState<B, S> {
    /// Creates the state before the first step. `iterates` is `[k−1, D]`, with any content.
    pub fn new(iterates: B, inner: S) -> Self {
        Self { iterates, slot: 0, seen: 0, inner }
    }
}

impl<B: AsRef<[f32]>, S> PerSampleMomentumState<B, S> {
    /// Returns the past iterate `age` steps before the latest. `past` is `k−1`.
    fn iterate(&self, age: usize, past: usize, dim: usize) -> &[f32] {
        let slot = self.slot.wrapping_add(past).wrapping_sub(age).checked_rem(past).unwrap_or_default();
        let start = slot.saturating_mul(dim);
        self.iterates.as_ref().get(start..).and_then(|rest| rest.get(..dim)).unwrap_or_default()
    }
}

impl<B: AsMut<[f32]>, S: SaveState> SaveState for PerSampleMomentumState<B, S> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("per-sample momentum"));
        take(StateField::Floats(self.iterates.as_mut()));
        for place in [&mut self.slot, &mut self.seen] {
            let mut count = u32::try_from(*place).unwrap_or(u32::MAX);
            take(StateField::Count(&mut count));
            *place = count as usize;
        }
        self.inner.each(take);
    }
}

/// Writes the settings of the momentum, then those of the inner filter, without its kind.
impl<B, F: ToRecord<S>, S, const K: usize> ToRecord<PerSampleMomentumState<B, S>> for PerSampleMomentum<F, K> {
    fn kind(&self, state: &PerSampleMomentumState<B, S>) -> Option<u8> {
        self.inner.kind(&state.inner).map(|_| if self.normalised { 2 } else { 3 })
    }

    fn write(&self, state: &PerSampleMomentumState<B, S>, sink: &mut dyn RecordSink) {
        sink.u8(self.iterates as u8);
        sink.f64(self.beta);
        self.inner.write(&state.inner, sink);
    }
}

impl<const ORDER: usize, const K: usize> FromRecord for PerSampleMomentum<Iir<ORDER>, K> {
    type State<B: StateVector> = PerSampleMomentumState<B, IirState<B, ORDER>>;

    const KINDS: &'static [u8] = &[2, 3];

    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, Self::State<R::Vector>), R::Error> {
        let (iterates, beta) = (usize::from(source.u8()), source.f64());
        let (inner, state) = Iir::read(1, source)?;
        let momentum = Self::with(iterates, beta, kind == 2, inner)?;
        let past = source.zeros(momentum.iterates_len(source.dim()))?;
        Ok((momentum, PerSampleMomentumState::new(past, state)))
    }
}

/// Adds the past iterates, latest first, then the inner filter's state.
impl<B: AsRef<[f32]>, S, F: Digested<S>, const K: usize> Digested<PerSampleMomentumState<B, S>>
    for PerSampleMomentum<F, K>
{
    fn add_to(&self, state: &PerSampleMomentumState<B, S>, digest: &mut Digest) {
        let past = self.past();
        let dim = state.iterates.as_ref().len().checked_div(past).unwrap_or_default();
        for age in 0..state.seen.min(past) {
            digest.add_f32s(state.iterate(age, past, dim));
        }
        self.inner.add_to(&state.inner, digest);
    }
}

impl<B: AsMut<[f32]> + AsRef<[f32]>, S, F: Filter<S>, const K: usize> Filter<PerSampleMomentumState<B, S>>
    for PerSampleMomentum<F, K>
{
    type Step = F::Step;

    fn eval_points(&self, state: &PerSampleMomentumState<B, S>) -> usize {
        state.seen.min(self.past()) + 1
    }

    fn evaluates_at_params(&self) -> bool {
        false
    }

    fn eval_point(
        &self,
        state: &PerSampleMomentumState<B, S>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        if index >= self.eval_points(state) {
            return Err(CallError::Order("points of per-sample momentum"));
        }
        let from = match index.checked_sub(1) {
            None => params,
            Some(age) => state.iterate(age, self.past(), params.len()),
        };
        check_len("the past iterate", params.len(), from.len())?;
        Identity.eval_point(&(), 0, from, out)?;
        Ok(self.weight(state, index))
    }

    fn weight(&self, state: &PerSampleMomentumState<B, S>, index: usize) -> f32 {
        let oldest = index.saturating_add(1) == self.eval_points(state);
        let of = if oldest { &self.tails } else { &self.weights };
        of.get(index).copied().unwrap_or_default()
    }

    fn check(&self, state: &PerSampleMomentumState<B, S>, dim: usize) -> Result<(), CallError> {
        check_len("the past iterates", self.iterates_len(dim), state.iterates.as_ref().len())?;
        if !self.inner.evaluates_at_params() {
            return Err(CallError::Order("a filter with points of its own inside per-sample momentum"));
        }
        self.inner.check(&state.inner, dim)
    }

    fn begin(&self, state: &mut PerSampleMomentumState<B, S>) -> F::Step {
        state.slot = state.slot.wrapping_add(1).checked_rem(self.past()).unwrap_or_default();
        state.seen = state.seen.saturating_add(1).min(self.past());
        self.inner.begin(&mut state.inner)
    }

    fn apply(
        &self,
        step: F::Step,
        state: &mut PerSampleMomentumState<B, S>,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        self.inner.apply(step, &mut state.inner, at, released, filtered);
    }

    fn before_update(&self, step: F::Step, state: &mut PerSampleMomentumState<B, S>, at: usize, params: &[f32]) {
        let words = state.iterates.as_mut();
        let dim = words.len().checked_div(self.past()).unwrap_or_default();
        let start = state.slot.saturating_mul(dim).saturating_add(at);
        for (slot, param) in piece(words, start, params.len()).iter_mut().zip(params) {
            *slot = *param;
        }
        self.inner.before_update(step, &mut state.inner, at, params);
    }

    fn after_update(&self, step: F::Step, state: &mut PerSampleMomentumState<B, S>, at: usize, params: &[f32]) {
        self.inner.after_update(step, &mut state.inner, at, params);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Identity;
    use proptest::prelude::*;

    extern crate std;
    use std::vec;
    use std::vec::Vec;

    fn momentum(iterates: usize, beta: f64) -> PerSampleMomentum<Identity> {
        PerSampleMomentum::new(iterates, beta, Identity).unwrap()
    }

    /// Returns the evaluation points and weights of each of `steps` steps. The parameters are `[t, −t]` at step `t`.
    fn asked(filter: &PerSampleMomentum<Identity>, steps: u32) -> Vec<Vec<(f32, [f32; 2])>> {
        let mut state = PerSampleMomentumState::new(vec![f32::NAN; filter.iterates_len(2)], ());
        (0..steps)
            .map(|t| {
                filter.check(&state, 2).unwrap();
                let params = [t as f32, -(t as f32)];
                let points = (0..filter.eval_points(&state))
                    .map(|index| {
                        let mut point = [0.0; 2];
                        (filter.eval_point(&state, index, &params, &mut point).unwrap(), point)
                    })
                    .collect();
                let mut past_the_end = [0.0; 2];
                assert!(filter.eval_point(&state, filter.eval_points(&state), &params, &mut past_the_end).is_err());
                filter.begin(&mut state);
                filter.before_update((), &mut state, 0, &params[..1]);
                filter.before_update((), &mut state, 1, &params[1..]);
                points
            })
            .collect()
    }

    proptest! {
        /// Iterates before the first count as the first, so the weights sum to 1 at every step, including the first.
        #[test]
        fn eval_points_are_last_iterates(iterates in 1usize..8, beta in -0.9f64..=1.0) {
            let filter = momentum(iterates, beta);
            for (t, points) in asked(&filter, 20).iter().enumerate() {
                let mut clamped = vec![0.0; t + 1];
                let total: f64 = (0..iterates).map(|j| beta.powi(j as i32)).sum();
                for j in 0..iterates {
                    clamped[t - j.min(t)] += beta.powi(j as i32) / total;
                }
                for (age, (weight, point)) in points.iter().enumerate() {
                    prop_assert_eq!(*point, [(t - age) as f32, -((t - age) as f32)]);
                    prop_assert!((f64::from(*weight) - clamped[t - age]).abs() < 1e-6);
                }
                let sum: f64 = points.iter().map(|(weight, _)| f64::from(*weight)).sum();
                prop_assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            }
        }

        /// The closed form of the paper's ρ²: `1/Σw² = (1+β)(1−β^k)/((1−β)(1+β^k))`.
        #[test]
        fn squared_weights_have_closed_form(iterates in 1usize..8, beta in 0.01f64..0.99) {
            let power = beta.powi(iterates as i32);
            let rho = (1.0 + beta) * (1.0 - power) / ((1.0 - beta) * (1.0 + power));
            let square: f64 = momentum(iterates, beta).weights.iter().map(|w| f64::from(*w).powi(2)).sum();
            prop_assert!((square * rho - 1.0).abs() < 1e-6);
        }
    }

    // With one iterate or a factor of zero, only the current gradient counts.
    #[test]
    fn one_iterate_or_zero_factor_is_current() {
        for points in asked(&momentum(1, 0.7), 3) {
            assert!(points.len() == 1 && points[0].0 == 1.0);
        }
        for (t, points) in asked(&momentum(3, 0.0), 5).iter().enumerate() {
            assert!(t == 0 || (points[0].0 == 1.0 && points[1..].iter().all(|(weight, _)| *weight == 0.0)));
        }
    }

    #[test]
    fn unnormalised_weights_are_powers() {
        let filter = PerSampleMomentum::<_, 4>::unnormalised(3, 0.5, Identity).unwrap();
        assert_eq!(filter.weights, [1.0, 0.5, 0.25, 0.0]);
    }

    // An inner filter with evaluation points of its own is an error.
    #[test]
    fn rejects_inner_filter_with_eval_points() {
        use crate::filter::{Gain, Kalman, KalmanState, LookAhead};
        for look_ahead in [LookAhead::One, LookAhead::Two { gamma: 0.5 }] {
            let kalman = Kalman::new(Gain::Constant(0.7), look_ahead).unwrap();
            let inner = KalmanState::new(&kalman, [0f32], [0f32]);
            let filter = PerSampleMomentum::<_, 2>::new(2, 0.1, kalman).unwrap();
            let state = PerSampleMomentumState::new([0f32], inner);
            assert!(matches!(filter.check(&state, 1), Err(CallError::Order(_))));
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (iterates, beta) in [(0, 0.1), (9, 0.1), (2, 1.1), (2, -0.95), (2, f64::NAN)] {
            assert!(PerSampleMomentum::<_, 8>::new(iterates, beta, Identity).is_err());
        }
    }
}
