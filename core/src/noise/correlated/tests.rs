//! Tests of the noise stream and the privacy argument: plain arithmetic, an adaptive adversary, and the leak that
//! rounding prevents.

use super::*;
use crate::noise::{Address, ChaCha20, Generator, Purpose};
use proptest::prelude::*;

extern crate std;
use std::vec;
use std::vec::Vec;

/// A correlation with its definition in plain arithmetic.
trait Plain: Correlation {
    /// Returns `c_0, c_1, …`.
    fn column(&self, steps: usize) -> Vec<f64>;
}

impl Plain for Lambda {
    fn column(&self, steps: usize) -> Vec<f64> {
        (0..steps).map(|j| self.value().powi(j as i32)).collect()
    }
}

impl<const D: usize> Plain for Blt<D> {
    fn column(&self, steps: usize) -> Vec<f64> {
        let entry = |j: i32| (0..D).map(|i| self.omega()[i] * self.theta()[i].powi(j - 1)).sum();
        (0..steps).map(|j| if j == 0 { 1.0 } else { entry(j as i32) }).collect()
    }
}

impl<const P: usize> Plain for Banded<P> {
    fn column(&self, steps: usize) -> Vec<f64> {
        (0..steps).map(|j| Banded::column(self).get(j).copied().unwrap_or(0.0)).collect()
    }
}

/// Buffers of one coordinate, and the previous noise.
struct Coordinate<K> {
    correlation: K,
    buffers: Vec<NoiseWord>,
    before: i64,
    age: u32,
}

impl<K: Correlation> Coordinate<K> {
    fn new(correlation: K) -> Self {
        Self { correlation, buffers: (0..correlation.words()).map(|_| NoiseWord::ZERO).collect(), before: 0, age: 0 }
    }

    fn next(&mut self, z: i64) -> i64 {
        let w = self.correlation.correlate(z, self.before, self.age, &mut self.buffers);
        (self.before, self.age) = (z, self.age + 1);
        w
    }

    /// Returns the z that gives w as the next noise. An observer who has all previous noise can compute it.
    fn needed(&mut self, w: i64) -> i64 {
        let mut copy: Vec<_> = self.buffers.iter().map(|word| NoiseWord(word.0)).collect();
        let z = w - self.correlation.correlate(0, self.before, self.age, &mut copy);
        assert_eq!(self.next(z), w);
        z
    }
}

fn draws(sigma: u32, count: usize, seed: u64) -> Vec<i64> {
    let generator = ChaCha20::<2>::simulation(seed);
    let mut stream = generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 });
    (0..count).map(|_| sample(sigma, &mut stream)).collect()
}

fn blt() -> Blt<2> {
    Blt::new([0.98607187, 0.62314437], [0.23131852, 0.2725381]).unwrap()
}

fn inverse(column: &[f64]) -> Vec<f64> {
    let mut inverse: Vec<f64> = vec![1.0];
    for t in 1..column.len() {
        inverse.push(-(1..=t).map(|j| column[j] * inverse[t - j]).sum::<f64>());
    }
    inverse
}

/// Checks `w = C⁻¹z` within the stated error.
fn follows_the_inverse<K: Plain>(correlation: K, sigma: u32) {
    const STEPS: usize = 150;
    let column = correlation.column(STEPS);
    let inverse = inverse(&column);
    let z = draws(sigma, STEPS, 3);
    let mut coordinate = Coordinate::new(correlation);
    let error = correlation.rounding(STEPS as u32) / 2.0;
    let bound = error * inverse.iter().map(|entry| entry.abs()).sum::<f64>() + 1e-6 * f64::from(sigma);
    let mut largest = 0.0f64;
    for t in 0..STEPS {
        let w = coordinate.next(z[t]);
        let exact: f64 = (0..=t).map(|j| inverse[j] * z[t - j] as f64).sum();
        largest = largest.max((w as f64 - exact).abs());
    }
    assert!(largest <= bound && largest > 0.0, "{correlation:?}: {largest} {bound}");
    let (mut line, mut back) = (K::START, K::START);
    for t in 0..STEPS {
        let x = f64::from(u8::from(t == 0));
        assert!((correlation.forward(&mut line, x) - column[t]).abs() < 1e-12);
        assert!((correlation.backward(&mut back, x) - inverse[t]).abs() < 1e-12);
    }
}

// The largest noise with the worst signs is close to the bound, and below it.
#[test]
fn largest_noise_is_hardly_above_the_worst() {
    fn check<K: Plain>(correlation: K) {
        const STEPS: usize = 60;
        let (sigma, run) = (40_000, Participation::new(STEPS as u32, 6, 5).unwrap());
        let grid = Grid::new(8).unwrap();
        let bound = CorrelatedGaussian::<i64, K, Vec<NoiseWord>>::new(grid, sigma, correlation, run, 3).unwrap();
        let inverse = inverse(&correlation.column(STEPS));
        let mut coordinate = Coordinate::new(correlation);
        let worst = (0..STEPS).map(|t| 19 * i64::from(sigma) * if inverse[STEPS - 1 - t] < 0.0 { -1 } else { 1 });
        let last = worst.fold(0, |_, z| coordinate.next(z)) as f64;
        let share = last / bound.largest_noise();
        assert!((0.98..1.0).contains(&share), "{correlation:?}: {share}");
    }
    check(Lambda::new(15, 4).unwrap());
    check(blt());
    check(Banded::new([1.0, 0.76, 0.67, 0.59]).unwrap());
}

#[test]
fn noise_follows_the_inverse() {
    for sigma in [1024, 1 << 20] {
        follows_the_inverse(Lambda::new(15, 4).unwrap(), sigma);
        follows_the_inverse(blt(), sigma);
        follows_the_inverse(Blt::new([0.9999, 0.99, 0.9, 0.5], [0.02, 0.05, 0.1, 0.2]).unwrap(), sigma);
        follows_the_inverse(Banded::new([1.0, 0.76, 0.67, 0.59]).unwrap(), sigma);
    }
}

/// Compares two data sets that differ in one sample. It takes part at `0, b, 2b, …`, with vectors that an adversary
/// chooses from earlier outputs. For equal outputs, the noise differs by integers of norm at most β. Returns the
/// largest norm divided by β.
fn coupling<K: Plain>(correlation: K, seed: u64, rule: impl Fn(usize, i64, f64) -> f64) -> f64 {
    const BITS: u32 = 8;
    let (dim, run) = (3usize, Participation::new(40, 6, 5).unwrap());
    let sigma = 40_000;
    let mechanism = CorrelatedGaussian::<i64, K, Vec<NoiseWord>>::new(
        Grid::new(BITS).unwrap(),
        sigma,
        correlation,
        run,
        dim as u32,
    )
    .unwrap();
    let z = draws(sigma, 40 * dim, seed);
    let mut ours: Vec<_> = (0..dim).map(|_| Coordinate::new(correlation)).collect();
    let mut theirs: Vec<_> = (0..dim).map(|_| Coordinate::new(correlation)).collect();
    let (mut square, mut before) = (0.0f64, 0);
    for t in 0..40usize {
        // The sample's vector is on the ball. Its direction is a function of released values.
        let takes_part = t % 6 == 0 && t / 6 < 5;
        let share = if takes_part { rule(t, before, f64::from(1u32 << BITS)) } else { 0.0 };
        let vector = [share, ((1u64 << (2 * BITS)) as f64 - share * share).max(0.0).sqrt(), 0.0];
        for i in 0..dim {
            let x = if takes_part { vector[i] as i64 } else { 0 };
            let w = ours[i].next(z[t * dim + i]);
            let output = x + w;
            // Without the sample, the same output needs the noise w + x.
            let needed = theirs[i].needed(output);
            square += ((needed - z[t * dim + i]) as f64).powi(2);
            before = before.wrapping_add(output);
        }
    }
    assert!(square.sqrt() <= mechanism.shift, "{correlation:?}: {} {}", square.sqrt(), mechanism.shift);
    square.sqrt() / mechanism.shift
}

#[test]
fn adaptive_sample_moves_noise_by_beta() {
    let mut largest = 0.0f64;
    for seed in 0..20 {
        let worst = |_: usize, _: i64, clip: f64| clip;
        let turns = |t: usize, before: i64, clip: f64| {
            if (before >> 3) & 1 == 1 { -clip } else { clip * (t as f64).cos() }
        };
        let against = |_: usize, before: i64, clip: f64| if before > 0 { -clip } else { clip };
        for found in [
            coupling(Lambda::new(15, 4).unwrap(), seed, worst),
            coupling(blt(), seed, worst),
            coupling(Banded::new([1.0, 0.76, 0.67, 0.59]).unwrap(), seed, worst),
        ] {
            largest = largest.max(found);
        }
        coupling(Lambda::new(15, 4).unwrap(), seed, turns);
        coupling(blt(), seed, turns);
        coupling(blt(), seed, against);
        coupling(Banded::new([1.0, 0.76, 0.67, 0.59]).unwrap(), seed, against);
    }
    // The bound is nearly reached, so a smaller S would fail.
    assert!(largest > 0.95, "{largest}");
}

/// After p rows, a participation changes no noise of banded correlation. This is exact, because w is the input of the
/// recursion.
#[test]
fn banded_participation_ends() {
    let banded = Banded::new([1.0, 0.76, 0.67, 0.59]).unwrap();
    let (mut ours, mut theirs) = (Coordinate::new(banded), Coordinate::new(banded));
    for (t, z) in draws(5000, 30, 1).into_iter().enumerate() {
        let output = ours.next(z) + if t == 10 { 255 } else { 0 };
        let moved = theirs.needed(output) - z;
        assert_eq!(moved != 0, (10..14).contains(&t), "{t}: {moved}");
    }
}

/// An adversary sees two outputs of λ = 15/16 and guesses the first step's sum modulo 16. Returns the number of correct
/// guesses in 1000.
fn found_modulo_16(rounds: bool) -> u32 {
    let z = draws(5000, 2000, 5);
    let lambda = Lambda::new(15, 4).unwrap();
    (0..1000)
        .map(|run| {
            let (first, second, x) = (z[2 * run], z[2 * run + 1], 37 * run as i64 % 1001);
            // Outputs in sixteenths of the grid.
            let noise =
                if rounds { 16 * lambda.correlate(second, first, 1, &mut []) } else { 16 * second - 15 * first };
            let guess = (x + first - noise.rem_euclid(16)).rem_euclid(16);
            u32::from(guess == x.rem_euclid(16))
        })
        .sum()
}

// The fraction of unrounded noise is z_1 mod 16, and reveals x_1 mod 16. By chance, 1 in 16 guesses is right: 62 of
// 1000, with standard deviation 7.7.
#[test]
fn rounding_prevents_the_lattice_leak() {
    assert_eq!(found_modulo_16(false), 1000);
    let found = found_modulo_16(true);
    assert!((24..101).contains(&found), "{found}");
}

proptest! {
    // The sensitivity bounds the direct matrix product for any allowed pattern.
    #[test]
    fn sensitivity_bounds_any_pattern(
        starts in prop::collection::vec(0u32..9, 1..5), separation in 1u32..9, which in 0usize..3,
    ) {
        let steps = 30;
        let mut at = Vec::new();
        let mut next = 0;
        for gap in starts {
            at.push(next + gap);
            next += gap + separation;
        }
        at.retain(|t| *t < steps);
        let run = Participation::new(steps, separation, 5).unwrap();
        let check = |column: Vec<f64>, sensitivity: f64| {
            let rows = (0..steps).map(|t| {
                at.iter().filter(|from| **from <= t).map(|from| column[(t - from) as usize]).sum::<f64>()
            });
            rows.map(|v| v * v).sum::<f64>().sqrt() <= sensitivity
        };
        let steps = steps as usize;
        let holds = match which {
            0 => check(Lambda::new(15, 4).unwrap().column(steps), Lambda::new(15, 4).unwrap().sensitivity(run)),
            1 => check(blt().column(steps), blt().sensitivity(run)),
            _ => {
                let banded = Banded::new([1.0, 0.76, 0.67, 0.59]).unwrap();
                check(Plain::column(&banded, steps), banded.sensitivity(run))
            }
        };
        prop_assert!(holds);
    }

    // For any noise within the bound, the buffers equal those of 128-bit arithmetic.
    #[test]
    fn blt_equals_wide_arithmetic(z in prop::collection::vec(-(1i64 << 36)..1 << 36, 1..60)) {
        let units = |x: f64| (x * f64::from(1u32 << 30)) as i128;
        let (theta, omega) = (blt().theta().map(units), blt().omega().map(units));
        let mut coordinate = Coordinate::new(blt());
        let mut wide = [0i128; 2];
        for z in z {
            let product: i128 = (0..2).map(|i| omega[i] * wide[i]).sum();
            let w = i128::from(z) - ((product + (1 << 39)) >> 40);
            for i in 0..2 {
                wide[i] = ((theta[i] * wide[i] + (1 << 29)) >> 30) + (w << 10);
            }
            prop_assert_eq!(i128::from(coordinate.next(z)), w);
            prop_assert!(coordinate.buffers.iter().zip(wide).all(|(word, wide)| i128::from(word.0) == wide));
        }
    }
}

// Buffers are wiped on drop and on creation.
#[test]
fn dropped_buffers_are_zero() {
    let mut memory = [NoiseWord(7), NoiseWord(8)];
    drop(CorrelatedState::<Blt<2>, _>::new(&mut memory[..]));
    assert!(memory.iter().all(|word| word.0 == 0));
    let mut state = CorrelatedState::<Blt<2>, _>::new(&mut memory[..]);
    state.buffers().words[1].0 = 9;
    drop(state);
    assert!(memory.iter().all(|word| word.0 == 0));
}
