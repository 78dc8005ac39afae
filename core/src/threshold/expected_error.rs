//! DC-SGD-E: the clip minimises the expected error from noise and clipping together.
//!
//! ```text
//! E(C) = a·C² + (1/S')·Σ H̃[i]·max(m_i − C, 0)²        a = σ_T²·d/B²        S' = Σ H̃        m_i = (i + ½)·R_t/b
//!
//! R_{t+1} = 2·R_t  if H̃[b−1] ≥ S'/2,      R_t/2  if Σ_{i ≥ ⌊b/2⌋} H̃[i] ≤ S'/b,      R_t  otherwise
//! ```
//!
//! `H̃` is the released histogram of the norms of step `t` over `[0, R_t)`. `σ_T` is the multiplier of that step's
//! gradient noise, `d` the number of parameters and `B` the declared batch.
//!
//! Source: Wei, Li, Gong, Chen, "DC-SGD: Differentially Private SGD with Dynamic Clipping through Gradient Norm
//! Distribution Estimation", Algorithm 4 (`AdaptE`). Its settings: 20 bins, noise of 5 counts, `C_0 = 1`, `R_0 = b`.
//!
//! There are two [solvers](Solver):
//!
//! - **Paper's grid**: takes the best of `{0.1, 0.2, …, 2.0}·C`, and repeats around the winner until the winner is not
//!   at an end. It uses raw counts. Noise may make `E` fall all the way to 0, and the paper's loop then never ends.
//!   Here, `C` is unchanged and only the range adapts if `Σ H̃[i]·m_i ≤ 0` (`E` rises from 0, even if it falls
//!   elsewhere). The same applies if the [`PASSES`]th winner is still at an end. A winner near 0.1 is on a coarse grid:
//!   `E` there is at most 4 times its minimum.
//! - **Exact**: sets counts below 0 to 0 (`w_i = max(H̃[i], 0)`, `S = Σ w_i`). `E` is then convex, with its minimum at
//!   `C = Σ_{m_i > C} w_i·m_i / (a·S + Σ_{m_i > C} w_i)`. It never collapses. If the range is far too wide, the counts
//!   set to 0 raise the minimum. With a suitable range, they lower it by a few per cent.
//!
//! If `S' ≤ 0`, the counts have no information, and `C` and `R` are unchanged.
//!
//! With large `a` (large networks), the minimum of `E` is at `mean norm/(1 + a)`. Every sample is then clipped, and
//! SGD's learning rate must compensate for the scale.
//!
//! # Memory
//!
//! Two `f32`, and `b` counts in each open step and shard. A pass of the grid takes `20·b` terms of f64. One pass
//! suffices while the clip changes little, and each doubling or tenth takes another. The exact solver takes one term
//! for each bin.
//!
//! # Numerics
//!
//! All arithmetic is in f64, from the f32 `C_t`, `R_t` (both clamped to their bounds). Every operation rounds
//! separately, to nearest with ties to even:
//!
//! 1. `S' = H̃[0] + H̃[1] + …`, from the left, starting at 0 (exact, as counts are multiples of `2^-12`). If not
//!    `S' > 0`, stop.
//! 2. `a = ((σ_T · σ_T) · d) / (B · B)` and `m_i = ((i + 0.5) · R_t) / b`.
//! 3. Paper's grid:
//!    - Let `M = 0`. For `i = 0, 1, …`: `M = M + H̃[i] · m_i`. If `M > 0`, start from `C = C_t` and run up to 60
//!      passes.
//!    - A pass takes `c_j = (j · C) / 10` for `j = 1, …, 20`, and `E_j = a · (c_j · c_j) + F / S'`. Here `F = 0` at
//!      first, and for `i = 0, 1, …`: `x = m_i − c_j`, and if `x > 0`: `F = F + H̃[i] · (x · x)`.
//!    - The winner is the smallest `j` of the least `E_j`, and `C = c_winner`. If the winner is neither 1 nor 20,
//!      `C_{t+1}` is `C`, rounded to f32, then clamped.
//! 4. Exact: let `S = Σ max(H̃[i], 0)` from the left, and `W = M = 0`. For `k = b−1, …, 0`: `w = max(H̃[k], 0)`,
//!    `W = W + w`, `M = M + w · m_k`, `C = M / (a · S + W)`. The first `k` that is 0 or has `C ≥ m_{k−1}` gives
//!    `C_{t+1} = min(C, m_k)`, rounded to f32, then clamped.
//! 5. Let `right = H̃[⌊b/2⌋] + … + H̃[b−1]`. If `H̃[b−1] ≥ 0.5 · S'`: `R = 2 · R_t`. Else if `right ≤ S' / b`:
//!    `R = R_t / 2`. The result is rounded to f32, then clamped.
//!
//! # Privacy
//!
//! One sample changes one count by one. The noise of counts and gradient is accounted as one event
//! (`1/σ² = 1/σ_T² + 1/σ_H²`). The rest is post-processing of released counts and constants. The paper's equation 4
//! prints the actual size of the batch. This code uses the noisy `S'`, as in its Algorithm 4.

use super::base::{StepConstants, Threshold};
use super::bounds::{Bounds, scale};
use super::histogram::{check_bins, midpoint, total};
use crate::count::{CountNoise, Query, ReleasedCounts};
use crate::error::ConfigError;
use crate::numerics::order::{is_above_zero, is_within};
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Number of grid passes after which `C` is unchanged. From one end of the default bounds to the other takes 55.
pub const PASSES: u32 = 60;

/// Number of candidates in a pass.
const CANDIDATES: u32 = 20;

/// Method that minimises `E`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Solver {
    /// The paper's grid search, with guards.
    #[default]
    PaperGrid,
    /// The closed form.
    Exact,
}

/// Configuration of DC-SGD-E, with a histogram of `BINS` bins.
///
/// ```
/// use damper_core::count::{CountNoise, Query};
/// use damper_core::threshold::{Bounds, ExpectedError, ExpectedErrorState, Solver, Threshold as _};
///
/// let bounds = Bounds::new(0.01, 10.0)?;
/// let rule = ExpectedError::<20>::new(Solver::Exact, CountNoise::new(5.0)?)?.within(bounds, bounds);
/// let state = ExpectedErrorState::new(1.0, 2.0)?;
/// assert_eq!((state.clip(), state.range()), (1.0, 2.0));
/// assert_eq!(rule.query(&state), Query::Histogram { bins: 20, range: 2.0 });
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExpectedError<const BINS: usize = 20> {
    solver: Solver,
    noise: CountNoise,
    clips: Bounds,
    ranges: Bounds,
}

impl<const BINS: usize> ExpectedError<BINS> {
    /// Creates the rule with this `solver`, and with noise `noise` on the counts.
    ///
    /// # Errors
    ///
    /// Fails unless the number of bins is from 2 to 1024.
    pub fn new(solver: Solver, noise: CountNoise) -> Result<Self, ConfigError> {
        check_bins(BINS)?;
        Ok(Self { solver, noise, clips: Bounds::default(), ranges: Bounds::default() })
    }

    /// Limits clips to `clips`, and the histogram's range to `ranges`.
    #[must_use]
    pub fn within(self, clips: Bounds, ranges: Bounds) -> Self {
        Self { clips, ranges, ..self }
    }

    fn range(&self, state: &ExpectedErrorState) -> f32 {
        self.ranges.clamp(state.range)
    }
}

/// State of DC-SGD-E. Both numbers are functions of released counts only.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExpectedErrorState {
    clip: f32,
    range: f32,
}

impl ExpectedErrorState {
    /// Creates the state with the clip and histogram range of the first step, `C_0` and `R_0`. After a restart, they
    /// are those of the next step.
    ///
    /// # Errors
    ///
    /// Fails unless both are from `2^-104` to `2^126`.
    pub fn new(clip: f32, range: f32) -> Result<Self, ConfigError> {
        Ok(Self { clip: scale("clip", clip)?, range: scale("histogram range", range)? })
    }

    /// Returns the clip that follows from the counts so far. Released.
    #[must_use]
    pub fn clip(&self) -> f32 {
        self.clip
    }

    /// Returns the range of the next histogram. Released.
    #[must_use]
    pub fn range(&self) -> f32 {
        self.range
    }
}

/// Returns the count, or 0 if it is negative.
fn positive(count: f64) -> f64 {
    if is_above_zero(count) { count } else { 0.0 }
}

/// Objective `E` of one histogram.
#[derive(Clone, Copy)]
struct Objective<'a> {
    counts: &'a [f64],
    /// `S'`, above 0.
    total: f64,
    /// `R_t`.
    range: f64,
    /// `a`.
    variance: f64,
}

impl Objective<'_> {
    fn midpoint(&self, bin: usize) -> f64 {
        midpoint(bin, self.counts.len(), self.range)
    }

    /// Returns `E(clip)`.
    fn at(&self, clip: f64) -> f64 {
        let mut bias = 0.0;
        for (i, count) in self.counts.iter().enumerate() {
            let excess = self.midpoint(i) - clip;
            if is_above_zero(excess) {
                bias += count * (excess * excess);
            }
        }
        self.variance * (clip * clip) + bias / self.total
    }

    /// Searches the paper's grid around `clip`, and then around each winner. Returns `None` if the search does not end.
    fn by_grid(&self, mut clip: f64) -> Option<f64> {
        let mut moment = 0.0;
        for (i, count) in self.counts.iter().enumerate() {
            moment += count * self.midpoint(i);
        }
        // A mean norm is never below 0, so these counts are noise, and their E begins by rising.
        if !is_above_zero(moment) {
            return None;
        }
        for _ in 0..PASSES {
            let candidate = |j: u32| f64::from(j) * clip / 10.0;
            let (mut winner, mut least) = (1, f64::INFINITY);
            for j in 1..=CANDIDATES {
                let error = self.at(candidate(j));
                if least > error {
                    (winner, least) = (j, error);
                }
            }
            clip = candidate(winner);
            if winner != 1 && winner != CANDIDATES {
                return Some(clip);
            }
        }
        None
    }

    /// Returns the minimum, with counts below 0 set to 0.
    fn exactly(&self) -> Option<f64> {
        let mut all = 0.0;
        for count in self.counts {
            all += positive(*count);
        }
        let floor = self.variance * all;
        let (mut weight, mut moment) = (0.0, 0.0);
        for (k, count) in self.counts.iter().enumerate().rev() {
            let (count, midpoint) = (positive(*count), self.midpoint(k));
            weight += count;
            moment += count * midpoint;
            let clip = moment / (floor + weight);
            // E falls up to the midpoint below, and rises from this midpoint on. The minimum only guards against
            // rounding.
            if k.checked_sub(1).is_none_or(|below| is_within(clip, self.midpoint(below), f64::INFINITY)) {
                return Some(if midpoint > clip { clip } else { midpoint });
            }
        }
        None
    }

    /// Returns `R_{t+1}`.
    fn next_range(&self) -> f64 {
        let bins = self.counts.len();
        let last = self.counts.last().copied().unwrap_or_default();
        let right = total(self.counts.get(bins / 2..).unwrap_or_default());
        if is_within(last, 0.5 * self.total, f64::INFINITY) {
            2.0 * self.range
        } else if right > self.total / bins as f64 {
            self.range
        } else {
            self.range / 2.0
        }
    }
}

impl SaveState for ExpectedErrorState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("expected error"));
        take(StateField::Floats(core::slice::from_mut(&mut self.clip)));
        take(StateField::Floats(core::slice::from_mut(&mut self.range)));
    }
}

impl<const BINS: usize> ToRecord<ExpectedErrorState> for ExpectedError<BINS> {
    fn kind(&self, _state: &ExpectedErrorState) -> Option<u8> {
        Some(match self.solver {
            Solver::PaperGrid => 2,
            Solver::Exact => 3,
        })
    }

    fn write(&self, state: &ExpectedErrorState, sink: &mut dyn RecordSink) {
        sink.f64(self.noise.multiplier());
        sink.f32(state.clip);
        sink.f32(state.range);
        self.clips.write(sink);
        self.ranges.write(sink);
    }
}

impl<const BINS: usize> FromRecord for ExpectedError<BINS> {
    type State<B: StateVector> = ExpectedErrorState;

    const KINDS: &'static [u8] = &[2, 3];

    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, ExpectedErrorState), R::Error> {
        let solver = if kind == 3 { Solver::Exact } else { Solver::PaperGrid };
        let rule = Self::new(solver, CountNoise::new(source.f64())?)?;
        let state = ExpectedErrorState::new(source.f32(), source.f32())?;
        Ok((rule.within(Bounds::read(source)?, Bounds::read(source)?), state))
    }
}

impl<const BINS: usize> Threshold for ExpectedError<BINS> {
    type State = ExpectedErrorState;
    type Counts = [i32; BINS];

    fn clip(&self, state: &ExpectedErrorState) -> f32 {
        self.clips.clamp(state.clip)
    }

    fn query(&self, state: &ExpectedErrorState) -> Query {
        Query::Histogram { bins: BINS as u32, range: self.range(state) }
    }

    fn count_noise(&self) -> Option<CountNoise> {
        Some(self.noise)
    }

    fn update(&self, state: &mut ExpectedErrorState, released: &ReleasedCounts<'_>, constants: StepConstants) {
        let counts = released.counts();
        let total = total(counts);
        if !is_above_zero(total) {
            return;
        }
        let batch = f64::from(constants.expected_batch);
        let variance = constants.multiplier * constants.multiplier * constants.dim as f64 / (batch * batch);
        let objective = Objective { counts, total, range: f64::from(self.range(state)), variance };
        let clip = match self.solver {
            Solver::PaperGrid => objective.by_grid(f64::from(self.clip(state))),
            Solver::Exact => objective.exactly(),
        };
        if let Some(clip) = clip {
            state.clip = self.clips.clamp(clip as f32);
        }
        state.range = self.ranges.clamp(objective.next_range() as f32);
    }
}

#[cfg(test)]
mod tests;
