//! DOPPLER's adaptive filter: taps from the autocorrelation of the released gradients.
//!
//! ```text
//! m̂_t = Σ_{r=0..min(n,t)} b_r·g_{t−r}          b_r = c_r / Σ_{j≤min(n,t)} c_j          c_0 = ½
//! c_r = max(E[⟨g_s, g_{s−r}⟩ − ½·max(‖g_{s−r}‖² − d·σ_{s−r}², 0)] / E[max(‖g_s‖² − d·σ_s², ε₁)], 0)          s < t
//! ```
//!
//! `g` is the released gradient, `σ` the standard deviation of its noise in each coordinate, and `d` the number of
//! coordinates. The noise of two steps is independent, so `⟨g_s, g_{s−r}⟩` needs no correction.
//!
//! Source: Zhang, Bu, Hong, Razaviyayn, "DOPPLER: Differentially Private Optimizers with Low-pass Filter for Privacy
//! Noise Reduction", §5.3, "optimal FIR filter", with its `ε₁ = 10⁻³`. The paper has no experiment with it. This code
//! fills its gaps:
//!
//! - `E` is an exponential average over the previous steps, with the weight `ρ` a step. `ρ = 0` uses only the last
//!   step.
//! - At `r = 0`, `⟨g_t, g_t⟩` in the formula includes the noise. Without the noise, the formula gives `c_0 = ½`.
//! - A negative `c_r` counts as 0. The taps are therefore a convex combination, `Σ c` is at least ½, and no gradient is
//!   amplified.
//! - A lag without data has no tap.
//!
//! In most runs, `d·σ²` is far above `‖∇F‖²`, and the noise alone gives `‖g‖²` a standard deviation of `σ²·√(2d)`. The
//! taps then follow the noise. Inspect them before relying on them.
//!
//! # Memory
//!
//! `n·D` floats for `n` past gradients, and `3·n + 3` f64.
//!
//! # Numerics
//!
//! Once a step, in f64, with every operation rounded separately. `P_r` and `Q` are the sums `Σ_i g_{s,i}·g_{s−r,i}` and
//! `Σ_i g_{s,i}²` over the coordinates in order, from 0. Products of f32s are exact. `e_s = Q − d·(σ_s·σ_s)`, and `h_s`
//! is the larger of `e_s` and 0. Before the first step `A_r = W_r = B = V = 0`. After step `s`, for each `r` from 1 to
//! `min(n, s)`:
//!
//! ```text
//! A_r ← ρ·A_r + (P_r − 0.5·h_{s−r})     W_r ← ρ·W_r + 1     B ← ρ·B + (e_s, or ε₁ where that is larger)     V ← ρ·V + 1
//! ```
//!
//! At the next step `c_r = (A_r/W_r)/(B/V)`, or 0 if that is not above 0 or `W_r = 0`. `C = ((½ + c_1) + c_2) + …` over
//! the lags with data, and `b_r = F(c_r/C)`. Each coordinate computes `y = S(b_0·g)`, then `y ← S(y + F(b_r·g_{t−r}))`
//! for `r = 1, 2, …`
//!
//! # Privacy
//!
//! The taps are functions of released gradients and declared constants, so the output is post-processing.

use super::base::Filter;
use super::identity::Identity;
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::order::is_above_zero;
use crate::numerics::round::saturate;
use crate::optimizer::piece;
use crate::private::Released;
use crate::record::ToRecord;
use crate::state::{SaveState, StateField};

/// Configuration of the adaptive filter over at most `LAGS` past gradients.
///
/// ```
/// use damper_core::filter::{AdaptiveFir, AdaptiveFirState};
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
/// let filter = AdaptiveFir::<8>::new(2, 0.9, 1e-8)?;
/// assert_eq!(filter.memory_len(2), 4);
/// let state = AdaptiveFirState::new([0.0; 4]);
/// // The first gradient passes.
/// // One step of SGD at a learning rate of 0.1, with next to no noise.
/// let sgd = (Sgd::new(0.0, false, 0.0)?, SgdState { momentum: [] as [f32; 0] });
/// let params = step_once((filter, state), sgd, [0.5, -0.5])?;
/// assert!((params[0] + 0.05).abs() < 1e-4 && (params[1] - 0.05).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdaptiveFir<const LAGS: usize = 8> {
    lags: usize,
    memory: f64,
    floor: f64,
}

impl<const LAGS: usize> AdaptiveFir<LAGS> {
    /// Creates a filter over `lags` past gradients (`n`), with averages that keep `memory` (`ρ`) from step to step and
    /// `floor` (`ε₁`).
    ///
    /// # Errors
    ///
    /// Fails unless `lags` is from 1 to `LAGS`, `memory` from 0 to below 1, and `floor` finite and at least 10⁻³⁰.
    pub fn new(lags: usize, memory: f64, floor: f64) -> Result<Self, ConfigError> {
        if lags == 0 || lags > LAGS {
            return Err(ConfigError::new("lags of the adaptive filter", "at least 1 and within the filter's capacity"));
        }
        if !(0.0..1.0).contains(&memory) {
            return Err(ConfigError::new("memory of the adaptive filter", "from 0 to below 1"));
        }
        if !(floor.is_finite() && floor >= 1e-30) {
            return Err(ConfigError::new("floor of the adaptive filter", "finite and at least 1e-30"));
        }
        Ok(Self { lags, memory, floor })
    }

    /// Returns the number of floats in the state for `dim` parameters: `n·D`.
    #[must_use]
    pub fn memory_len(&self, dim: usize) -> usize {
        self.lags.saturating_mul(dim)
    }

    /// Returns the taps of the coming step, from the averages.
    fn taps<B>(&self, state: &AdaptiveFirState<B, LAGS>) -> AdaptiveFirStep<LAGS> {
        let mean = state.energy / state.energy_weight;
        let (mut total, mut found) = (0.5, [0.0; LAGS]);
        for (found, of) in found.iter_mut().zip(&state.of).take(state.filled as usize) {
            let tap = (of.product / of.weight) / mean;
            // NaN before the lag has data.
            *found = if is_above_zero(tap) { tap } else { 0.0 };
            total += *found;
        }
        AdaptiveFirStep { direct: (0.5 / total) as f32, delayed: found.map(|tap| (tap / total) as f32) }
    }
}

/// Statistics of a lag.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Lag {
    /// `A_r` and `W_r`.
    product: f64,
    weight: f64,
    /// `h_{t−r}`, of the gradient at this lag.
    energy: f64,
    /// `P_r` of the last step so far.
    sum: f64,
}

/// State of the adaptive filter.
#[derive(Debug)]
pub struct AdaptiveFirState<B, const LAGS: usize = 8> {
    /// The last `n` released gradients, in a ring buffer.
    past: B,
    of: [Lag; LAGS],
    /// `B` and `V`.
    energy: f64,
    energy_weight: f64,
    /// Number of past gradients.
    filled: u32,
    /// Position in the ring buffer for the coming gradient.
    next: u32,
    /// `Q` so far, its number of coordinates and the standard deviation of their noise, for the last step. The averages
    /// are updated when the next step begins.
    square: f64,
    seen: u32,
    noise_std: f64,
}

impl<B, const LAGS: usize> AdaptiveFirState<B, LAGS> {
    /// Creates the state before the first step. `past` is `[n, D]` ([`AdaptiveFir::memory_len`]) with any content.
    pub fn new(past: B) -> Self {
        Self {
            past,
            of: [Lag::default(); LAGS],
            energy: 0.0,
            energy_weight: 0.0,
            filled: 0,
            next: 0,
            square: 0.0,
            seen: 0,
            noise_std: 0.0,
        }
    }

    /// Updates the averages with the completed step.
    fn learn(&mut self, filter: &AdaptiveFir<LAGS>) {
        let energy = self.square - f64::from(self.seen) * (self.noise_std * self.noise_std);
        for lag in self.of.iter_mut().take(self.filled as usize) {
            lag.product = filter.memory * lag.product + (lag.sum - 0.5 * lag.energy);
            lag.weight = filter.memory * lag.weight + 1.0;
        }
        self.energy = filter.memory * self.energy + if energy > filter.floor { energy } else { filter.floor };
        self.energy_weight = filter.memory * self.energy_weight + 1.0;
        let mut newest = if energy > 0.0 { energy } else { 0.0 };
        for lag in self.of.iter_mut().take(filter.lags) {
            core::mem::swap(&mut lag.energy, &mut newest);
            lag.sum = 0.0;
        }
        let lags = filter.lags as u32;
        self.filled = lags.min(self.filled.saturating_add(1));
        self.next = self.next.saturating_add(1).checked_rem(lags).unwrap_or_default();
        (self.square, self.seen) = (0.0, 0);
    }
}

/// Taps of a step, shared by all its segments.
///
/// ```
/// use damper_core::filter::{AdaptiveFir, AdaptiveFirState, AdaptiveFirStep, Filter as _};
///
/// let method = AdaptiveFir::<8>::new(2, 0.9, 1e-8)?;
/// let mut state = AdaptiveFirState::new([0.0f32; 4]);
/// let step: AdaptiveFirStep<8> = method.begin(&mut state);
/// // All segments of a step share it.
/// let _copies = [step; 2];
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveFirStep<const LAGS: usize = 8> {
    /// `b_0`.
    direct: f32,
    /// `b_1, …`
    delayed: [f32; LAGS],
}

impl<const LAGS: usize> AdaptiveFirStep<LAGS> {
    /// Returns `b_1, …`, which are released.
    ///
    /// ```
    /// use damper_core::filter::{AdaptiveFir, AdaptiveFirState, Filter as _};
    ///
    /// let filter = AdaptiveFir::<8>::new(2, 0.9, 1e-8)?;
    /// // Before the first step there is no earlier gradient.
    /// let step = filter.begin(&mut AdaptiveFirState::new([0.0f32; 4]));
    /// assert!(step.delayed().iter().all(|tap| *tap == 0.0));
    /// # Ok::<(), damper_core::error::ConfigError>(())
    /// ```
    #[must_use]
    pub fn delayed(&self) -> &[f32] {
        &self.delayed
    }
}

impl<B: AsMut<[f32]> + AsRef<[f32]>, const LAGS: usize> Filter<AdaptiveFirState<B, LAGS>> for AdaptiveFir<LAGS> {
    type Step = AdaptiveFirStep<LAGS>;

    fn eval_points(&self, _state: &AdaptiveFirState<B, LAGS>) -> usize {
        1
    }

    fn eval_point(
        &self,
        _state: &AdaptiveFirState<B, LAGS>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        Identity.eval_point(&(), index, params, out)
    }

    fn weight(&self, _state: &AdaptiveFirState<B, LAGS>, _index: usize) -> f32 {
        1.0
    }

    fn check(&self, state: &AdaptiveFirState<B, LAGS>, dim: usize) -> Result<(), CallError> {
        check_len("the filter's memory", self.memory_len(dim), state.past.as_ref().len())
    }

    fn begin(&self, state: &mut AdaptiveFirState<B, LAGS>) -> AdaptiveFirStep<LAGS> {
        if state.seen > 0 {
            state.learn(self);
        }
        self.taps(state)
    }

    fn apply(
        &self,
        step: AdaptiveFirStep<LAGS>,
        state: &mut AdaptiveFirState<B, LAGS>,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        let (grad, len) = (released.grad(), filtered.len());
        let AdaptiveFirState { past, of, filled, next, square, seen, noise_std, .. } = state;
        let past = past.as_mut();
        let dim = past.len().checked_div(self.lags).unwrap_or_default();
        for (y, g) in filtered.iter_mut().zip(grad) {
            *y = saturate(step.direct * g);
        }
        // The newest gradient is before `next` in the ring buffer, and the oldest of `n` at `next`.
        let mut place = *next as usize;
        for (lag, tap) in of.iter_mut().zip(step.delayed).take(*filled as usize) {
            place = place.checked_sub(1).unwrap_or(self.lags.saturating_sub(1));
            let row = piece(past, place.saturating_mul(dim).saturating_add(at), len);
            for ((y, g), s) in filtered.iter_mut().zip(grad).zip(&*row) {
                *y = saturate(*y + tap * s);
                lag.sum += f64::from(*g) * f64::from(*s);
            }
        }
        for g in grad.iter().take(len) {
            *square += f64::from(*g) * f64::from(*g);
        }
        *seen = seen.saturating_add(len.min(grad.len()) as u32);
        *noise_std = released.noise_std();
        // Overwrites the oldest gradient, after its segment was read.
        let row = piece(past, (*next as usize).saturating_mul(dim).saturating_add(at), len);
        for (s, g) in row.iter_mut().zip(grad) {
            *s = *g;
        }
    }
}

/// Saves the ring buffer, then each lag's `A_r`, `W_r`, `h_{t−r}` and `P_r`, then `B`, `V`, `Q`, the noise, and the
/// counts.
impl<B: AsMut<[f32]>, const LAGS: usize> SaveState for AdaptiveFirState<B, LAGS> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("adaptive-fir"));
        take(StateField::Floats(self.past.as_mut()));
        for Lag { product, weight, energy, sum } in &mut self.of {
            for number in [product, weight, energy, sum] {
                take(StateField::Double(number));
            }
        }
        for number in [&mut self.energy, &mut self.energy_weight, &mut self.square, &mut self.noise_std] {
            take(StateField::Double(number));
        }
        for number in [&mut self.filled, &mut self.next, &mut self.seen] {
            take(StateField::Count(number));
        }
    }
}

impl<B, const LAGS: usize> ToRecord<AdaptiveFirState<B, LAGS>> for AdaptiveFir<LAGS> {}

impl<B: AsRef<[f32]>, const LAGS: usize> Digested<AdaptiveFirState<B, LAGS>> for AdaptiveFir<LAGS> {
    fn add_to(&self, state: &AdaptiveFirState<B, LAGS>, digest: &mut Digest) {
        digest.add_f32s(state.past.as_ref());
        for Lag { product, weight, energy, sum } in state.of.iter().take(self.lags) {
            for number in [product, weight, energy, sum] {
                digest.add_f64(*number);
            }
        }
        for number in [state.energy, state.energy_weight, state.square, state.noise_std] {
            digest.add_f64(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern crate std;
    use std::vec::Vec;

    const DIM: usize = 3;

    type State = AdaptiveFirState<Vec<f32>, 4>;

    fn new(lags: usize, memory: f64) -> (AdaptiveFir<4>, State) {
        let filter = AdaptiveFir::new(lags, memory, 1e-3).unwrap();
        // Memory of any content must not be read before it is written.
        (filter, AdaptiveFirState::new(std::vec![f32::NAN; filter.memory_len(DIM)]))
    }

    /// Runs one step, with a second segment from `cut`. Returns the output and the taps from `b_0`.
    fn step(
        filter: &AdaptiveFir<4>,
        state: &mut State,
        grad: &[f32; DIM],
        noise: f64,
        cut: usize,
    ) -> ([f32; DIM], Vec<f32>) {
        let step = filter.begin(state);
        let mut out = [0.0; DIM];
        let (first, rest) = out.split_at_mut(cut);
        filter.apply(step, state, 0, &Released::new(&grad[..cut], noise), first);
        filter.apply(step, state, cut, &Released::new(&grad[cut..], noise), rest);
        (out, [&[step.direct][..], step.delayed()].concat())
    }

    fn dot(a: &[f32; DIM], b: &[f32; DIM]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    /// The definition: all sums from the first step, at each step.
    fn taps(grads: &[[f32; DIM]], noise: f64, lags: usize, memory: f64) -> Vec<f64> {
        let energy = |s: usize| dot(&grads[s], &grads[s]) - DIM as f64 * noise * noise;
        let mean = |of: &dyn Fn(usize) -> f64, from: usize| -> f64 {
            let weight = |s: usize| memory.powi((grads.len() - 1 - s) as i32);
            let steps = from..grads.len();
            steps.clone().map(|s| weight(s) * of(s)).sum::<f64>() / steps.map(weight).sum::<f64>()
        };
        let mut found = std::vec![0.5];
        for r in 1..=lags.min(grads.len()) {
            let of = |s: usize| dot(&grads[s], &grads[s - r]) - 0.5 * energy(s - r).max(0.0);
            let tap = mean(&of, r) / mean(&|s| energy(s).max(1e-3), 0);
            found.push(if tap > 0.0 { tap } else { 0.0 });
        }
        let total: f64 = found.iter().sum();
        found.iter().map(|tap| tap / total).collect()
    }

    proptest! {
        #[test]
        fn adaptive_taps_follow_the_definition(
            grads in prop::collection::vec(prop::array::uniform3(-2f32..2.0), 1..30),
            lags in 1usize..=4, memory in prop_oneof![Just(0.0), 0.1f64..0.999], noise in 0f64..1.0, cut in 0..=DIM,
        ) {
            let (filter, mut state) = new(lags, memory);
            for t in 0..grads.len() {
                let (out, found) = step(&filter, &mut state, &grads[t], noise, cut);
                let expected = if t == 0 { std::vec![1.0] } else { taps(&grads[..t], noise, lags, memory) };
                for r in 0..=4 {
                    let tap = expected.get(r).copied().unwrap_or(0.0);
                    prop_assert!((f64::from(found[r]) - tap).abs() < 1e-5, "step {t}, tap {r}: {found:?} {expected:?}");
                }
                for i in 0..DIM {
                    let y: f64 = expected.iter().enumerate().map(|(r, tap)| tap * f64::from(grads[t - r][i])).sum();
                    prop_assert!((f64::from(out[i]) - y).abs() < 1e-4, "step {t}: {} {y}", out[i]);
                }
            }
        }

        /// For any input, the taps are a convex combination and the output is finite.
        #[test]
        fn adaptive_output_stays_finite(
            grads in prop::collection::vec(prop::array::uniform3(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL), 1..20),
            lags in 1usize..=4, noise in prop_oneof![Just(0.0), 0f64..1e38],
        ) {
            let (filter, mut state) = new(lags, 0.5);
            for grad in &grads {
                let (out, taps) = step(&filter, &mut state, grad, noise, 1);
                prop_assert!(out.iter().all(|x| x.is_finite()));
                prop_assert!(taps.iter().all(|tap| (0.0..=1.0).contains(tap)));
                prop_assert!((taps.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{taps:?}");
            }
        }

        #[test]
        fn adaptive_pieces_do_not_matter(
            grads in prop::collection::vec(prop::array::uniform3(-2f32..2.0), 1..20), cut in 0..=DIM,
        ) {
            let ((filter, mut one), (_, mut other)) = (new(3, 0.9), new(3, 0.9));
            for grad in &grads {
                let (a, b) = (step(&filter, &mut one, grad, 0.3, DIM), step(&filter, &mut other, grad, 0.3, cut));
                prop_assert_eq!(a, b);
            }
        }
    }

    /// A constant gradient is correlated with itself. The taps converge to equal values, and the gradient passes
    /// unchanged.
    #[test]
    fn constant_gradient_gives_equal_taps() {
        let (filter, mut state) = new(3, 0.9);
        let grad = [1.0f32, -2.0, 0.5];
        for t in 0..40 {
            let (out, taps) = step(&filter, &mut state, &grad, 0.0, DIM);
            assert!(out.iter().zip(&grad).all(|(out, grad)| (out - grad).abs() < 1e-6), "{out:?}");
            let expected = 1.0 / (1 + t.min(3)) as f32;
            // The first product of a lag arrives a step after its first gradient.
            assert!(t < 4 || taps[..4].iter().all(|tap| (tap - expected).abs() < 1e-6), "step {t}: {taps:?}");
        }
    }

    /// Gradients of opposite sign correlate negatively, so their tap is 0 and the released gradient passes unchanged.
    #[test]
    fn opposite_gradients_give_zero_taps() {
        let (filter, mut state) = new(1, 0.5);
        for t in 0..20 {
            let sign = if t % 2 == 0 { 1.0f32 } else { -1.0 };
            let grad = [sign, 2.0 * sign, 0.0];
            let (out, _) = step(&filter, &mut state, &grad, 0.0, DIM);
            assert_eq!(out, grad);
        }
    }

    #[test]
    fn out_of_range_parameter_is_error() {
        assert!(AdaptiveFir::<4>::new(0, 0.5, 1e-3).is_err() && AdaptiveFir::<4>::new(5, 0.5, 1e-3).is_err());
        for memory in [-0.1, 1.0, f64::NAN] {
            assert!(AdaptiveFir::<4>::new(2, memory, 1e-3).is_err());
        }
        for floor in [0.0, -1.0, 1e-31, f64::NAN, f64::INFINITY] {
            assert!(AdaptiveFir::<4>::new(2, 0.5, floor).is_err());
        }
    }
}
