//! Released noise: whole private steps without samples.

use damper_core::accounting::{Ledger, Store, Volatile};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::{Grid, Word};
use damper_core::noise::{ContinuousGaussian, DiscreteGaussian, Generator};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::{Mechanism, SumWord};
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::{CountNoise, Fixed, Query, ReleasedCounts, StepConstants, Threshold};

/// The range of steps: `steps` from step `first` on, `dim` coordinates each.
#[derive(Clone, Copy)]
pub struct Steps {
    pub first: u32,
    pub steps: u32,
    pub dim: usize,
}

impl Steps {
    /// The range from the first step of a run.
    pub fn from_the_first(steps: u32, dim: usize) -> Self {
        Self { first: 0, steps, dim }
    }
}

/// DP-SGD with batch 1. From zero, its parameters become the negated released mean.
fn dp_sgd<M: Mechanism<NoiseState = ()>, T: Threshold>(mechanism: M, threshold: T) -> PrivateStep<Identity, Sgd, M, T> {
    PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold,
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .unwrap()
}

/// Passes each release with clip 1 and no samples to `each`. Returns the threshold's state.
fn released<M: Mechanism<NoiseState = ()>, T: Threshold, G: Generator>(
    mechanism: M,
    threshold: T,
    memory: T::State,
    generator: &G,
    of: Steps,
    mut each: impl FnMut(&[f32]),
) -> T::State {
    let step = dp_sgd(mechanism, threshold);
    let mut ledger = Ledger::resume(Volatile, of.first + of.steps, of.first);
    let optimizer = SgdState { momentum: vec![0f32; 0] };
    let mut state = StepState::new(vec![M::Word::default(); of.dim], (), optimizer, memory);
    let mut params = vec![0f32; of.dim];
    for _ in 0..of.steps {
        params.fill(0.0);
        step.open(&mut state, &mut ledger).unwrap().finish(&mut params, generator).unwrap();
        each(&params);
    }
    state.threshold
}

/// The numbers of the next steps of a run with this ledger.
pub fn numbers<S: Store<Error: std::fmt::Debug>, const N: usize>(ledger: &mut Ledger<S>) -> [u32; N] {
    let step = dp_sgd(DiscreteGaussian::<i32>::new(Grid::new(GRID_BITS).unwrap(), 1).unwrap(), Fixed(1.0));
    let optimizer = SgdState { momentum: vec![0f32; 0] };
    let mut state = StepState::new(vec![SumWord::ZERO; 1], (), optimizer, ());
    [0; N].map(|_| step.open(&mut state, ledger).unwrap().number())
}

/// A released value in grid units. Fails if it is not on the grid.
fn units(released: f64, unit: f64) -> i32 {
    let units = released * unit;
    assert!(units.fract() == 0.0 && units.abs() < 16_777_216.0, "not on the grid: {units}");
    units as i32
}

/// log2 of the grid units per clip of 1. They are so few that each draw is an f32 and a multiple of a unit.
const GRID_BITS: u32 = 8;
const GRID_UNIT: f64 = (1 << GRID_BITS) as f64;

/// The exact path's noise in grid units.
pub fn exact<W: Word, G: Generator>(sigma: u32, generator: &G, of: Steps) -> Vec<i32> {
    let mechanism = DiscreteGaussian::<W>::new(Grid::new(GRID_BITS).unwrap(), sigma).unwrap();
    let mut draws = Vec::with_capacity(of.steps as usize * of.dim);
    released(mechanism, Fixed(1.0), (), generator, of, |params| {
        draws.extend(params.iter().map(|x| units(f64::from(-x), GRID_UNIT)));
    });
    draws
}

/// The float path's noise of multiplier 1.
pub fn float<G: Generator>(generator: &G, of: Steps) -> Vec<f32> {
    let mut draws = Vec::with_capacity(of.steps as usize * of.dim);
    let mechanism = ContinuousGaussian::new(1.0).unwrap();
    released(mechanism, Fixed(1.0), (), generator, of, |params| draws.extend(params.iter().map(|x| -x)));
    draws
}

/// Counts per step.
pub const COUNTS: usize = 1000;

/// Grid units of a count of 1.
const COUNT_UNIT: f64 = damper_core::count::UNIT as f64;

/// A threshold rule that records its counts.
#[derive(Clone)]
struct Watch(CountNoise);

impl Threshold for Watch {
    type State = Vec<i32>;
    type Counts = [i32; COUNTS];

    fn clip(&self, _: &Vec<i32>) -> f32 {
        1.0
    }

    fn query(&self, _: &Vec<i32>) -> Query {
        Query::Histogram { bins: COUNTS as u32, range: 1.0 }
    }

    fn count_noise(&self) -> Option<CountNoise> {
        Some(self.0)
    }

    fn update(&self, seen: &mut Vec<i32>, released: &ReleasedCounts<'_>, _: StepConstants) {
        assert_eq!(released.counts().len(), COUNTS);
        seen.extend(released.counts().iter().map(|count| units(*count, COUNT_UNIT)));
    }
}

/// The gradient's noise of σ grid units, and the noise of [`COUNTS`] counts per step, of the same number of units of
/// their own grid.
pub fn with_counts<G: Generator>(sigma: u32, generator: &G, of: Steps) -> (Vec<i32>, Vec<i32>) {
    let noise = CountNoise::new(f64::from(sigma) / COUNT_UNIT).unwrap();
    let mechanism = DiscreteGaussian::<i32>::new(Grid::new(GRID_BITS).unwrap(), sigma).unwrap();
    let mut draws = Vec::with_capacity(of.steps as usize * of.dim);
    let counts = released(mechanism, Watch(noise), vec![], generator, of, |params| {
        draws.extend(params.iter().map(|x| units(f64::from(-x), GRID_UNIT)));
    });
    (draws, counts)
}
