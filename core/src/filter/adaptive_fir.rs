//! DOPPLER's adaptive filter: taps that follow the autocorrelation of the released gradients.
//!
//! ```text
//! m̂_t = Σ_{r=0..min(n,t)} b_r·g_{t−r}          b_r = c_r / Σ_{j≤min(n,t)} c_j          c_0 = ½
//! c_r = max(E[⟨g_s, g_{s−r}⟩ − ½·max(‖g_{s−r}‖² − d·σ_{s−r}², 0)] / E[max(‖g_s‖² − d·σ_s², ε₁)], 0)          s < t
//! ```
//!
//! with `g` the released gradient, `σ` the standard deviation of its noise in each coordinate and `d` the number of coordinates.
//! There is no delay in the noise's own correlation: noise of two steps is independent, so `⟨g_s, g_{s−r}⟩` needs no correction.
//!
//! Source: Zhang, Bu, Hong, Razaviyayn, "DOPPLER: Differentially Private Optimizers with Low-pass Filter for Privacy Noise
//! Reduction", §5.3, "optimal FIR filter", with its `ε₁ = 10⁻³`. The paper has no experiment with it. What it leaves open:
//!
//! - `E` is an exponential average over the steps before this one, with the weight `ρ` a step: `ρ = 0` takes the last step alone.
//! - At `r = 0` the formula has the noise in `⟨g_t, g_t⟩`. `c_0 = ½` is what it gives without.
//! - A negative `c_r` counts as 0. So the taps are a convex combination, `Σ c` is at least ½, and no gradient is amplified.
//! - A lag that has not been seen has no tap.
//!
//! `d·σ²` is far above `‖∇F‖²` in most runs, and `‖g‖²` has a standard deviation of `σ²·√(2d)` by its noise alone. Then the taps follow
//! noise: watch them before trusting them.
//!
//! # Memory
//!
//! `n·D` words for `n` past gradients, and `3·n + 3` f64.
//!
//! # Numerics
//!
//! Once a step, in f64, every operation rounded by itself. `P_r` and `Q` are the sums `Σ_i g_{s,i}·g_{s−r,i}` and `Σ_i g_{s,i}²` over the
//! coordinates in order, starting from 0, products of f32s being exact; `e_s = Q − d·(σ_s·σ_s)`, and `h_s` is `e_s`, or 0 where that is
//! larger. Before the first step `A_r = W_r = B = V = 0`. After step `s`, for each `r` from 1 to `min(n, s)`:
//!
//! ```text
//! A_r ← ρ·A_r + (P_r − 0.5·h_{s−r})     W_r ← ρ·W_r + 1     B ← ρ·B + (e_s, or ε₁ where that is larger)     V ← ρ·V + 1
//! ```
//!
//! and at the next step `c_r = (A_r/W_r)/(B/V)`, or 0 where that is not above 0 or `W_r = 0`; `C = ((½ + c_1) + c_2) + …` over the lags
//! there are; `b_r = F(c_r/C)`. Per coordinate `y = S(b_0·g)`, then `y ← S(y + F(b_r·g_{t−r}))` for `r = 1, 2, …`
//!
//! # Privacy
//!
//! Taps are functions of released gradients and of declared constants, so the output is post-processing.

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
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdaptiveFir<const LAGS: usize = 8> {
    lags: usize,
    memory: f64,
    floor: f64,
}

impl<const LAGS: usize> AdaptiveFir<LAGS> {
    /// A filter over `lags` past gradients (`n`), whose averages keep `memory` (`ρ`) from step to step, with `floor` (`ε₁`).
    ///
    /// # Errors
    ///
    /// `lags` must be from 1 to `LAGS`, `memory` from 0 to below 1, and `floor` finite and at least 10⁻³⁰.
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

    /// Returns the length of the state's memory in words for `dim` parameters: `n·D`.
    #[must_use]
    pub fn memory_len(&self, dim: usize) -> usize {
        self.lags.saturating_mul(dim)
    }

    /// The taps of the coming step, from the averages.
    fn taps<B>(&self, state: &AdaptiveFirState<B, LAGS>) -> AdaptiveFirStep<LAGS> {
        let mean = state.energy / state.energy_weight;
        let (mut total, mut found) = (0.5, [0.0; LAGS]);
        for (found, of) in found.iter_mut().zip(&state.of).take(state.filled as usize) {
            let tap = (of.product / of.weight) / mean;
            // No number before the lag was seen.
            *found = if is_above_zero(tap) { tap } else { 0.0 };
            total += *found;
        }
        AdaptiveFirStep { direct: (0.5 / total) as f32, delayed: found.map(|tap| (tap / total) as f32) }
    }
}

/// The statistics of a lag.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Lag {
    /// `A_r` and `W_r`.
    product: f64,
    weight: f64,
    /// `h_{t−r}`, of the gradient that many steps ago.
    energy: f64,
    /// `P_r` so far, of the last step.
    sum: f64,
}

/// Memory of the adaptive filter.
#[derive(Debug)]
pub struct AdaptiveFirState<B, const LAGS: usize = 8> {
    /// The last `n` released gradients, in a ring.
    past: B,
    of: [Lag; LAGS],
    /// `B` and `V`.
    energy: f64,
    energy_weight: f64,
    /// Past gradients that there are.
    filled: u32,
    /// The place of the ring where the coming gradient goes.
    next: u32,
    /// `Q` so far, coordinates in it and the standard deviation of their noise, of the last step: it is learned from when the next
    /// begins.
    square: f64,
    seen: u32,
    noise_std: f64,
}

impl<B, const LAGS: usize> AdaptiveFirState<B, LAGS> {
    /// The state before the first step: `past` is `[n, D]` ([`AdaptiveFir::memory_len`]), of any content.
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

    /// Takes the step that is over into the averages.
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

/// The taps of a step, which all of its segments share.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveFirStep<const LAGS: usize = 8> {
    /// `b_0`.
    direct: f32,
    /// `b_1, …`
    delayed: [f32; LAGS],
}

impl<const LAGS: usize> AdaptiveFirStep<LAGS> {
    /// `b_1, …`: released.
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
        // The newest is behind `next` in the ring, the oldest of `n` at `next`.
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
        // In the place of the oldest, whose piece was read.
        let row = piece(past, (*next as usize).saturating_mul(dim).saturating_add(at), len);
        for (s, g) in row.iter_mut().zip(grad) {
            *s = *g;
        }
    }
}

/// The ring, then each lag's `A_r`, `W_r`, `h_{t−r}` and `P_r`, then `B`, `V`, `Q`, the noise, and what is counted.
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
        // Memory of any content: it must not be read before it was written.
        (filter, AdaptiveFirState::new(std::vec![f32::NAN; filter.memory_len(DIM)]))
    }

    /// One step, its coordinates from `cut` on in a second piece; the output and the taps from `b_0` on.
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

    /// The definition: all sums from the beginning at each step.
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

        /// Whatever comes, the taps are a convex combination and the output is finite.
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

    /// A constant gradient is correlated with itself: all taps grow to equal ones, and it passes unchanged.
    #[test]
    fn constant_gradient_gives_equal_taps() {
        let (filter, mut state) = new(3, 0.9);
        let grad = [1.0f32, -2.0, 0.5];
        for t in 0..40 {
            let (out, taps) = step(&filter, &mut state, &grad, 0.0, DIM);
            assert!(out.iter().zip(&grad).all(|(out, grad)| (out - grad).abs() < 1e-6), "{out:?}");
            let expected = 1.0 / (1 + t.min(3)) as f32;
            // A lag's first product comes a step after it is seen.
            assert!(t < 4 || taps[..4].iter().all(|tap| (tap - expected).abs() < 1e-6), "step {t}: {taps:?}");
        }
    }

    /// Uncorrelated noise leaves the released gradient as it is.
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
