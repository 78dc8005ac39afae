//! Plays the recorded vectors of `src/vectors`, which an independent generator wrote, through the public API.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

#[path = "vectors/methods.rs"]
mod methods;
#[path = "vectors/slots.rs"]
mod slots;

use damper_core::accounting::{Ledger, Rate, Volatile};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator, Purpose};
use damper_core::optimizer::{Adam, AdamState, Optimizer, Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::{CountNoise, Fixed, Query, ReleasedCounts, StepConstants, Threshold};
use rand_core::Rng;
use std::str::FromStr;

const VECTORS: &str = include_str!("../src/vectors/step.tsv");

/// The rows of one kind, at least one, split into cells.
fn rows(kind: &str) -> Vec<Vec<&'static str>> {
    let rows: Vec<Vec<_>> =
        VECTORS.lines().map(|line| line.split('\t').collect()).filter(|row: &Vec<&str>| row[0] == kind).collect();
    assert!(!rows.is_empty(), "no vectors of kind {kind}");
    rows
}

fn number<T: FromStr>(cell: &str) -> T {
    cell.parse().unwrap_or_else(|_| panic!("{cell} is not a number"))
}

fn float(cell: &str) -> f32 {
    f32::from_bits(u32::from_str_radix(cell, 16).unwrap())
}

/// The released mean of one step, times the batch, in grid units: the sum plus noise.
fn released(bits: u32, sigma: u32, clip: f32, seed: u64, step_number: u32, grads: &[Vec<f32>], dim: usize) -> Vec<f32> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i64>::new(Grid::new(bits).unwrap(), sigma).unwrap(),
        clip: FlatL2,
        threshold: Fixed(clip),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .unwrap();
    let mut state = StepState::new(vec![SumWord::ZERO; dim], (), SgdState { momentum: vec![] }, ());
    let mut ledger = Ledger::resume(Volatile, 1 << 31, step_number);
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    for grad in grads {
        open.add_combined(&[grad]).unwrap();
    }
    let mut params = vec![0f32; dim];
    open.finish(&mut params, &ChaCha20::<2>::simulation(seed)).unwrap();
    params.iter().map(|p| -p * (1u32 << bits) as f32 / clip).collect()
}

#[test]
fn words_equal_the_vectors() {
    for row in rows("words") {
        let purpose = if row[2] == "1" { Purpose::GradientNoise } else { Purpose::Sampling };
        let address = Address { purpose, step: number(row[3]), chunk: number(row[4]) };
        let generator = ChaCha20::<4>::simulation(number(row[1]));
        let mut stream = generator.stream(address);
        for word in row[5].split(' ') {
            assert_eq!(format!("{:08x}", stream.next_u32()), word);
        }
    }
}

/// Through a whole step without samples: the draws of chunk 1 are the release from coordinate 1024 on.
#[test]
fn noise_equals_the_vectors() {
    for row in rows("noise") {
        let sigma: u32 = number(row[1]);
        let expected: Vec<i64> = row[2].split(' ').map(number).collect();
        let noise = released(16, sigma, 1.0, u64::from(sigma), 5, &[], 1024 + expected.len());
        for (noise, expected) in noise[1024..].iter().zip(expected) {
            assert_eq!(*noise, expected as f32, "sigma {sigma}");
        }
    }
}

/// Words of a row, in their order.
struct Given(std::vec::IntoIter<u32>);

impl rand_core::TryRng for Given {
    type Error = std::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0.next().expect("more words than the vector's draw takes"))
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        unreachable!("a draw takes words")
    }
    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
        unreachable!("a draw takes words")
    }
}

/// Draws whose cell depends on all digits, on both sides of its lower end, and in distant cells.
#[test]
fn draws_at_edges_equal_the_vectors() {
    for row in rows("draw") {
        let words: Vec<u32> = row[3].split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
        let mut given = Given(words.into_iter());
        let mechanism = DiscreteGaussian::<i64>::new(Grid::new(16).unwrap(), number(row[1])).unwrap();
        assert_eq!(mechanism.sample(&mut given), number::<i64>(row[2]), "{row:?}");
        assert_eq!(given.0.len(), 0, "{row:?}");
    }
}

#[test]
fn samples_drawn_equal_the_vectors() {
    for row in rows("sampling") {
        let rate = Rate::from_numerator(number(row[1])).unwrap();
        let drawn: Vec<u32> = row[2].split(' ').map(number).collect();
        assert_eq!(poisson(&ChaCha20::<1>::simulation(4), 11, rate, 2500).collect::<Vec<_>>(), drawn);
    }
}

/// Subtracting the noise of the same address, from a run without the sample, leaves the sample's contribution. Both
/// releases are exact in f32 here, below 2²⁴ grid units.
#[test]
fn clipped_samples_equal_the_vectors() {
    for row in rows("clip") {
        let (bits, clip) = (number(row[1]), float(row[2]));
        let grad: Vec<f32> = row[3].split(' ').map(float).collect();
        let expected: Vec<f32> = row[4].split(' ').map(number).collect();
        let dim = grad.len();
        let mut with = vec![0i64; dim];
        let mut without = vec![0i64; dim];
        for (sum, grads) in [(&mut with, vec![grad]), (&mut without, vec![])] {
            for (sum, x) in sum.iter_mut().zip(released(bits, 1, clip, 1, 0, &grads, dim)) {
                *sum = x.round() as i64;
            }
        }
        for ((with, without), expected) in with.iter().zip(&without).zip(expected) {
            assert_eq!((with - without) as f32, expected, "bits {bits}, clip {clip}");
        }
    }
}

/// A threshold that makes one query at every step and records the release.
#[derive(Clone)]
struct Asking(Query);

impl Threshold for Asking {
    type State = Vec<f64>;
    type Counts = [i32; 20];

    fn clip(&self, _state: &Vec<f64>) -> f32 {
        1.0
    }

    fn query(&self, _state: &Vec<f64>) -> Query {
        self.0
    }

    fn count_noise(&self) -> Option<CountNoise> {
        Some(CountNoise::new(0.25).unwrap())
    }

    fn update(&self, state: &mut Vec<f64>, released: &ReleasedCounts<'_>, _facts: StepConstants) {
        *state = released.counts().to_vec();
    }
}

/// The released counts of a step with these samples of one coordinate.
fn counted(query: Query, samples: &[f32]) -> Vec<f64> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i64>::new(Grid::new(16).unwrap(), 1).unwrap(),
        clip: FlatL2,
        threshold: Asking(query),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .unwrap();
    let optimizer = SgdState { momentum: vec![0f32; 0] };
    let mut state = StepState::new(vec![SumWord::ZERO; 1], (), optimizer, vec![]);
    let mut open = step.open(&mut state, &mut Ledger::volatile(1)).unwrap();
    for sample in samples {
        open.add_combined(&[&[*sample]]).unwrap();
    }
    open.finish(&mut [0.0], &ChaCha20::<1>::simulation(1)).unwrap();
    state.threshold
}

/// As for clipped samples, the noise of the same address is subtracted, exactly.
#[test]
fn counted_samples_equal_the_vectors() {
    for row in [rows("bins"), rows("above")].concat() {
        let at = float(row[2]);
        let query = match row[0] {
            "bins" => Query::Histogram { bins: number(row[1]), range: at },
            _ => Query::Above { norm: at },
        };
        let without = counted(query, &[]);
        for (norm, expected) in row[3].split(' ').zip(row[4].split(' ')) {
            let moved = counted(query, &[float(norm)]);
            let moves: Vec<f64> = moved.iter().zip(&without).map(|(with, without)| with - without).collect();
            let expected: Vec<f64> = match row[0] {
                "bins" => (0..moves.len()).map(|bin| f64::from(bin == number::<usize>(expected))).collect(),
                _ => vec![number(expected)],
            };
            assert_eq!(moves, expected, "{} {} of norm {norm}", row[0], row[1]);
        }
    }
}

/// Generator of gradients: `x ← x·6364136223846793005 + 1442695040888963407 mod 2⁶⁴`. A gradient is
/// `((x >> 40) − 2²³) / 2^shift`.
struct Gradients(u64);

impl Gradients {
    fn next(&mut self, shift: i32) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 - 8_388_608.0) / 2f32.powi(shift)
    }
}

// Runs end with the parameters of the test vectors.
#[test]
fn runs_end_with_recorded_params() {
    for row in rows("run") {
        let (dim, steps, batch) = (number(row[2]), number(row[3]), number(row[4]));
        let mechanism = DiscreteGaussian::<i32>::new(Grid::new(number(row[5])).unwrap(), number(row[6])).unwrap();
        let (clip, seed) = (float(row[7]), number(row[8]));
        let params = match row[1] {
            "adam" => {
                let state = AdamState::new(vec![0f32; dim], vec![0f32; dim]);
                play(
                    Adam::new(0.9, 0.999, 1e-8, 0.01).unwrap(),
                    state,
                    0.01,
                    mechanism,
                    (dim, steps, batch, clip, seed),
                )
            }
            name => {
                let sgd = Sgd::new(0.9, name == "nesterov", 0.01).unwrap();
                let state = SgdState { momentum: vec![0f32; dim] };
                play(sgd, state, 0.125, mechanism, (dim, steps, batch, clip, seed))
            }
        };
        let bits: Vec<String> = params.iter().map(|p| format!("{:08x}", p.to_bits())).collect();
        assert_eq!(bits.join(" "), row[9], "{} with {dim} parameters", row[1]);
    }
}

fn play<O: Optimizer<S>, S>(
    optimizer: O,
    optimizer_state: S,
    lr: f64,
    mechanism: DiscreteGaussian<i32>,
    (dim, steps, expected_batch, clip, seed): (usize, u32, u32, f32, u64),
) -> Vec<f32> {
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(clip),
        filter: Identity,
        optimizer,
        schedule: Constant(lr),
        expected_batch,
    })
    .unwrap();
    let mut state = StepState::new(vec![SumWord::ZERO; dim], (), optimizer_state, ());
    let (mut ledger, generator) = (Ledger::volatile(steps), ChaCha20::<1>::simulation(seed));
    let mut gradients = Gradients(seed);
    let mut params: Vec<f32> = (0..dim).map(|_| gradients.next(24)).collect();
    for t in 0..steps {
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        for sample in 0..t % 4 {
            let grad: Vec<f32> = (0..dim).map(|_| gradients.next(22 + sample as i32)).collect();
            open.add_combined(&[&grad]).unwrap();
        }
        open.finish(&mut params, &generator).unwrap();
    }
    params
}
