//! DiSK: the simplified Kalman filter.
//!
//! ```text
//! u_i = c·∇f(x_t + γd_{t−1}; i) + (1−c)·∇f(x_t; i),   c = (1−κ)/(κγ)     mixed per sample, then clipped once
//! g̃_t = (1−κ)·g̃_{t−1} + κ·g_t,   g̃_0 = g_0            d_t = x_{t+1} − x_t
//! ```
//!
//! Source: Zhang, Bu, Balle, Hong, Razaviyayn, Mirrokni, "DiSK: Differentially Private Optimizer with Simplified Kalman
//! Filter for Noise Reduction", Algorithm 3. With `γ = (1−κ)/κ`, the constant `c` is 1, and each sample needs one
//! gradient, at the point ahead. This is the default. The filter starts from the first released gradient itself,
//! without a separate release.
//!
//! The gain may follow the scalar recursion of the unsimplified filter (Algorithm 2, with scalars for matrices):
//!
//! ```text
//! p⁻ = p_{t−1} + σ_H² + σ_v²        κ_t = p⁻/(p⁻ + σ_w² − σ_H²)        p_t = (1 − κ_t)·p⁻,   p_0 = σ_w²
//! ```
//!
//! # Memory
//!
//! `2·D` floats: `g̃` and `d`. A step with two evaluation points needs one more vector for the combined gradient. A
//! step with one point needs a vector for the point.
//!
//! # Numerics
//!
//! Each coordinate is in f32, with products and sums rounded separately. `κ`, `c`, `γ` are computed in f64 once a step,
//! then rounded to f32: `g̃ ← F(F(F(1−κ)·g̃) + F(F(κ)·g))`, point `F(x + F(F(γ)·d))`, `d ← F(x_{t+1} − x_t)`. If
//! nothing is combined (the first step, or `κ = 1`), values are copied, so `κ = 1` is DP-SGD bit for bit. In f64, from
//! left to right:
//!
//! ```text
//! p⁻ = p + σ_H² + σ_v²        κ = p⁻/(p⁻ + σ_w² − σ_H²), from 0.001 to 1        p ← (1 − κ)·p⁻        c = ((1−κ)/κ)/γ
//! ```
//!
//! The first step (`t = 0`) does not change `p` and evaluates one gradient, at `x_0`. So does any step with `κ = 1`. A
//! step with `c = 1` evaluates one gradient at the point ahead. With two points, the first is `x_t` with weight
//! `F(1−c)`, and the second is the point ahead with weight `F(c)`.
//!
//! # Privacy
//!
//! `x_t` and `d_{t−1}` follow from earlier releases. Combining first and clipping once therefore keeps the sensitivity
//! at `C` for any `c`. Clipping the two gradients separately would let one sample add `(|c| + |1−c|)·C`.

use super::base::Filter;
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::order::{is, is_above_zero};
use crate::numerics::round::saturate;
use crate::optimizer::piece;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Source of the gain.
///
/// ```
/// use damper_core::filter::Gain;
///
/// assert_eq!(Gain::Constant(0.7).next(1.0).0, 0.7);
/// // A Kalman filter's gain falls from step to step.
/// let gain = Gain::Recursion { noise: 1.0, drift: 0.0, process: 0.0 };
/// let (first, p) = gain.next(1.0);
/// assert!(gain.next(p).0 < first);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Gain {
    /// Constant `κ`, from 0.001 to 1.
    Constant(f64),
    /// Scalar recursion, with variances in any common unit.
    Recursion {
        /// `σ_w²`: variance of the noise in a released gradient. Above `drift`.
        noise: f64,
        /// `σ_H²`: variance of the error of the finite difference.
        drift: f64,
        /// `σ_v²`: variance of the gradient's own change.
        process: f64,
    },
}

impl Gain {
    /// Returns the gain of a step after the uncertainty `p`, and the uncertainty after that step.
    #[must_use]
    pub fn next(self, p: f64) -> (f64, f64) {
        match self {
            Self::Constant(gain) => (gain, p),
            Self::Recursion { noise, drift, process } => {
                let predicted = p + drift + process;
                // The smallest gain also covers 0/0, when the recursion has lost all information.
                let gain = predicted / (predicted + noise - drift);
                let gain = if gain > 1.0 {
                    1.0
                } else if gain > LEAST_GAIN {
                    gain
                } else {
                    LEAST_GAIN
                };
                (gain, (1.0 - gain) * predicted)
            }
        }
    }
}

/// Evaluation points of a sample's gradients.
///
/// ```
/// use damper_core::filter::{Filter as _, Gain, Kalman, KalmanState, LookAhead};
///
/// let points = |look_ahead| {
///     let kalman = Kalman::new(Gain::Constant(0.7), look_ahead)?;
///     let state = KalmanState::new(&kalman, [0.0; 2], [0.0; 2]);
///     Ok::<_, damper_core::error::ConfigError>(kalman.eval_points(&state))
/// };
/// // Before the first step there is no direction to look along.
/// assert_eq!((points(LookAhead::One)?, points(LookAhead::Two { gamma: 0.5 })?), (1, 1));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LookAhead {
    /// One gradient, at `x_t + ((1−κ)/κ)·d_{t−1}`.
    One,
    /// Two gradients, at `x_t` and `x_t + γd_{t−1}`.
    Two {
        /// `γ`, of either sign and at least 0.01 in magnitude. Below that, the difference of two gradients is rounding
        /// error.
        gamma: f64,
    },
}

/// Configuration of DiSK's filter.
///
/// ```
/// use damper_core::filter::{Gain, Kalman, KalmanState, LookAhead};
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
/// #     let (mut buffer, mut point) = ([0.0; 2], [0.0; 2]);
/// #     let mut sample = step.add_points(&mut buffer)?;
/// #     while sample.next_eval_point(&params, &mut point)? {
/// #         sample.eval_point(&[&grad])?;
/// #     }
/// #     sample.add()?;
/// #     step.finish(&mut params, &NoiseRng::simulation(1))?;
/// #     Ok(params)
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let filter = Kalman::new(Gain::Constant(0.7), LookAhead::One)?;
/// let state = KalmanState::new(&filter, [0.0; 2], [0.0; 2]);
/// // The first gradient passes.
/// // One step of SGD at a learning rate of 0.1, with next to no noise.
/// let sgd = (Sgd::new(0.0, false, 0.0)?, SgdState { momentum: [] as [f32; 0] });
/// let params = step_once((filter, state), sgd, [0.5, -0.5])?;
/// assert!((params[0] + 0.05).abs() < 1e-4 && (params[1] - 0.05).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kalman {
    gain: Gain,
    look_ahead: LookAhead,
}

/// Smallest gain. Below it, the weights of the two gradients lose all digits.
const LEAST_GAIN: f64 = 1e-3;

impl Kalman {
    /// Creates the filter with this gain and look-ahead.
    ///
    /// # Errors
    ///
    /// Fails if a gain is outside `[0.001, 1]`, variances are out of their ranges, or `γ` is too close to 0.
    pub fn new(gain: Gain, look_ahead: LookAhead) -> Result<Self, ConfigError> {
        match gain {
            Gain::Constant(gain) if !(LEAST_GAIN..=1.0).contains(&gain) => {
                return Err(ConfigError::new("kappa", "from 0.001 to 1"));
            }
            Gain::Recursion { noise, drift, process }
                if !(noise.is_finite() && noise > drift && drift >= 0.0 && process.is_finite() && process >= 0.0) =>
            {
                return Err(ConfigError::new(
                    "variances of the gain's recursion",
                    "finite and not negative, that of the noise above that of the difference",
                ));
            }
            _ => {}
        }
        match look_ahead {
            LookAhead::Two { gamma } if !(gamma.is_finite() && gamma.abs() >= 0.01) => {
                Err(ConfigError::new("gamma", "at least 0.01 in magnitude"))
            }
            _ => Ok(Self { gain, look_ahead }),
        }
    }

    /// Returns `(γ, c)` of a step with this gain.
    fn mixing(&self, gain: f64) -> (f64, f64) {
        let one = (1.0 - gain) / gain;
        match self.look_ahead {
            LookAhead::One => (one, 1.0),
            LookAhead::Two { gamma } => (gamma, one / gamma),
        }
    }

    /// Returns the evaluation points of a step with this gain. A filter that has not `started` has one, at `x_t`.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn look_ahead(&self, started: bool, gain: f64) -> Look {
        let here = Look { gamma: 0.0, ahead: false, weights: (1.0, None) };
        if !started || is(gain, 1.0) {
            return here;
        }
        let (gamma, c) = self.mixing(gain);
        let gamma = gamma as f32;
        if is(c, 1.0) {
            Look { gamma, ahead: true, weights: (1.0, None) }
        } else if !is_above_zero(c.abs()) {
            here
        } else {
            Look { gamma, ahead: false, weights: ((1.0 - c) as f32, Some(c as f32)) }
        }
    }
}

/// Evaluation points of one step.
struct Look {
    /// Distance of the point ahead.
    gamma: f32,
    /// True if the first point is ahead. The second always is.
    ahead: bool,
    /// Weights of the first point, and of the second if it exists.
    weights: (f32, Option<f32>),
}

impl Look {
    fn eval_points(&self) -> usize {
        if self.weights.1.is_some() { 2 } else { 1 }
    }

    fn weight(&self, index: usize) -> f32 {
        match self.weights {
            (_, Some(second)) if index != 0 => second,
            (first, _) => first,
        }
    }
}

/// State of DiSK's filter.
#[derive(Debug)]
pub struct KalmanState<B> {
    filtered: B,
    moved: B,
    started: bool,
    /// `κ` of the coming step.
    gain: f64,
    /// `p` before the coming step.
    uncertainty: f64,
}

impl<B> KalmanState<B> {
    /// Creates the state before the first step. `filtered` (`g̃`) and `moved` (`d`) are `[D]`, with any content.
    pub fn new(kalman: &Kalman, filtered: B, moved: B) -> Self {
        let uncertainty = match kalman.gain {
            Gain::Constant(_) => 0.0,
            Gain::Recursion { noise, .. } => noise,
        };
        Self { filtered, moved, started: false, gain: kalman.gain.next(uncertainty).0, uncertainty }
    }
}

/// Constants that the segments of one step share.
///
/// ```
/// use damper_core::filter::{Filter as _, Gain, Kalman, KalmanState, KalmanStep, LookAhead};
///
/// let method = Kalman::new(Gain::Constant(0.7), LookAhead::One)?;
/// let mut state = KalmanState::new(&method, [0.0f32; 2], [0.0; 2]);
/// let step: KalmanStep = method.begin(&mut state);
/// // All segments of a step share it.
/// let _copies = [step; 2];
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KalmanStep {
    /// `1−κ` and `κ`. If `None`, the filtered gradient is the released gradient.
    weights: Option<(f32, f32)>,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Filter<KalmanState<B>> for Kalman {
    type Step = KalmanStep;

    fn eval_points(&self, state: &KalmanState<B>) -> usize {
        self.look_ahead(state.started, state.gain).eval_points()
    }

    fn evaluates_at_params(&self) -> bool {
        false
    }

    fn eval_point(
        &self,
        state: &KalmanState<B>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        check_len("the point's buffer", params.len(), out.len())?;
        check_len("DiSK's displacement", params.len(), state.moved.as_ref().len())?;
        let look = self.look_ahead(state.started, state.gain);
        if index >= look.eval_points() {
            return Err(CallError::Order("points of DiSK's filter"));
        }
        let ahead = index == 1 || look.ahead;
        for ((out, param), moved) in out.iter_mut().zip(params).zip(state.moved.as_ref()) {
            *out = if ahead { saturate(param + look.gamma * moved) } else { *param };
        }
        Ok(look.weight(index))
    }

    fn weight(&self, state: &KalmanState<B>, index: usize) -> f32 {
        self.look_ahead(state.started, state.gain).weight(index)
    }

    fn check(&self, state: &KalmanState<B>, dim: usize) -> Result<(), CallError> {
        check_len("DiSK's filtered gradient", dim, state.filtered.as_ref().len())?;
        check_len("DiSK's displacement", dim, state.moved.as_ref().len())
    }

    fn begin(&self, state: &mut KalmanState<B>) -> KalmanStep {
        if !state.started {
            state.started = true;
            return KalmanStep { weights: None };
        }
        let gain = state.gain;
        state.uncertainty = self.gain.next(state.uncertainty).1;
        state.gain = self.gain.next(state.uncertainty).0;
        KalmanStep { weights: if is(gain, 1.0) { None } else { Some(((1.0 - gain) as f32, gain as f32)) } }
    }

    fn apply(
        &self,
        step: KalmanStep,
        state: &mut KalmanState<B>,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        let kept = piece(state.filtered.as_mut(), at, filtered.len());
        for ((filtered, kept), grad) in filtered.iter_mut().zip(kept).zip(released.grad()) {
            *kept = match step.weights {
                None => *grad,
                Some((keep, new)) => saturate(keep * *kept + new * grad),
            };
            *filtered = *kept;
        }
    }

    fn before_update(&self, _step: KalmanStep, state: &mut KalmanState<B>, at: usize, params: &[f32]) {
        for (moved, param) in piece(state.moved.as_mut(), at, params.len()).iter_mut().zip(params) {
            *moved = *param;
        }
    }

    fn after_update(&self, _step: KalmanStep, state: &mut KalmanState<B>, at: usize, params: &[f32]) {
        for (moved, param) in piece(state.moved.as_mut(), at, params.len()).iter_mut().zip(params) {
            *moved = saturate(param - *moved);
        }
    }
}

impl<B: AsMut<[f32]>> SaveState for KalmanState<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("kalman"));
        take(StateField::Floats(self.filtered.as_mut()));
        take(StateField::Floats(self.moved.as_mut()));
        take(StateField::Double(&mut self.gain));
        take(StateField::Double(&mut self.uncertainty));
        let mut started = u32::from(self.started);
        take(StateField::Count(&mut started));
        self.started = started != 0;
    }
}

impl<B> ToRecord<KalmanState<B>> for Kalman {
    fn kind(&self, _state: &KalmanState<B>) -> Option<u8> {
        Some(4)
    }

    fn write(&self, _state: &KalmanState<B>, sink: &mut dyn RecordSink) {
        match self.gain {
            Gain::Constant(kappa) => {
                sink.u8(0);
                sink.f64(kappa);
            }
            Gain::Recursion { noise, drift, process } => {
                sink.u8(1);
                [noise, drift, process].into_iter().for_each(|variance| sink.f64(variance));
            }
        }
        match self.look_ahead {
            LookAhead::One => sink.u8(1),
            LookAhead::Two { gamma } => {
                sink.u8(2);
                sink.f64(gamma);
            }
        }
    }
}

impl FromRecord for Kalman {
    type State<B: StateVector> = KalmanState<B>;

    const KINDS: &'static [u8] = &[4];

    fn read<R: RecordSource>(_kind: u8, source: &mut R) -> Result<(Self, KalmanState<R::Vector>), R::Error> {
        let gain = match source.u8() {
            0 => Gain::Constant(source.f64()),
            1 => Gain::Recursion { noise: source.f64(), drift: source.f64(), process: source.f64() },
            _ => return Err(R::wrong("kind of gain")),
        };
        let look_ahead = match source.u8() {
            1 => LookAhead::One,
            2 => LookAhead::Two { gamma: source.f64() },
            _ => return Err(R::wrong("points of a filter")),
        };
        let kalman = Self::new(gain, look_ahead)?;
        let state = KalmanState::new(&kalman, source.zeros(source.dim())?, source.zeros(source.dim())?);
        Ok((kalman, state))
    }
}

/// Adds `g̃`, `d`, then `κ` of the coming step.
impl<B: AsRef<[f32]>> Digested<KalmanState<B>> for Kalman {
    fn add_to(&self, state: &KalmanState<B>, digest: &mut Digest) {
        digest.add_f32s(state.filtered.as_ref());
        digest.add_f32s(state.moved.as_ref());
        digest.add_f64(state.gain);
    }
}

#[cfg(test)]
mod tests;
