//! Exact enumeration of two private steps on tiny data sets.
//!
//! Every Poisson draw of both steps is enumerated. The real step of `damper-core` clips, rounds and sums each draw, and
//! the test reads the integers of the sum. Their release is a discrete Gaussian of known probabilities. So every output
//! of both steps has an exact probability under both neighbours, and δ at ε is a finite sum. The gradients of the
//! second step depend on the first release.
//!
//! # Soundness
//!
//! `δ(ε) = Σ P₁(y)P₂(z|y)·(1 − e^{ε − L₁(y) − L₂(z|y)})₊`. Losses are rounded to multiples of a width: up for an upper
//! bound of δ, down for a lower bound. Outputs farther than eleven standard deviations from every sum are omitted.
//! [`SLACK`] covers their mass, below 1e-26, and the rounding error of sums of positive terms, below 1e-12 relative.
//!
//! # Choice of parameters
//!
//! The accountant treats the discrete Gaussian as a continuous Gaussian whose multiplier is smaller by the factor √(1 −
//! 8/σ²), with σ in grid units. That costs 4e-6 at σ = 1,024, the least σ that damper runs and the σ of the cases with
//! D = 1. With D = 2 an output is a point of a plane, so σ is 96 and the factor costs 4e-4. Rounding of losses costs at
//! most two widths of ε. The rest of the half per cent is the accountant's own excess.
//!
//! The worst neighbours have samples without gradient around one sample of full norm, because other samples only hide
//! it.

use damper_access::Unreleased;
use damper_accounting::pld::{Neighbours, discrete, epsilon};
use damper_core::accounting::{Ledger, Rate, SampledGaussian};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator, Purpose};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use rand_core::Rng;

/// Relative error of δ.
const SLACK: f64 = 1e-9;
/// The largest distance of an output from a sum, in standard deviations.
const REACH: f64 = 11.0;
/// The number of kinds of first releases, each with its own second gradient.
const STATES: usize = 3;

/// The gradient of one sample at the first step, and at the second after each kind of first release.
#[derive(Clone, Copy, Debug)]
struct Sample<const D: usize> {
    first: [f32; D],
    second: [[f32; D]; STATES],
}

impl<const D: usize> Sample<D> {
    fn constant(gradient: [f32; D]) -> Self {
        Self { first: gradient, second: [gradient; STATES] }
    }

    /// The second gradient reverses its sign if the first release was large, and vanishes if it was small.
    fn adaptive(gradient: [f32; D]) -> Self {
        let back = gradient.map(|g| -g);
        Self { first: gradient, second: [[0.0; D], gradient, back] }
    }

    fn opposite(self) -> Self {
        Self { first: self.first.map(|g| -g), second: self.second.map(|second| second.map(|g| -g)) }
    }
}

/// The mechanism and its sampling.
#[derive(Clone, Copy, Debug)]
struct Setting {
    bits: u32,
    sigma: u32,
    rate: Rate,
    /// The width of rounded losses.
    width: f64,
}

impl Setting {
    /// The accountant's event: one draw.
    fn event(&self) -> SampledGaussian {
        let sigma = f64::from(self.sigma);
        let multiplier = sigma / f64::from(1u32 << self.bits);
        SampledGaussian::new(self.rate, discrete::continuous(multiplier, sigma).unwrap()).unwrap()
    }

    /// The probability of a draw. `drawn` has one bit for each of the samples.
    fn chance(&self, samples: usize, drawn: usize) -> f64 {
        let (inside, out) = (self.rate.as_f64(), self.rate.complement().as_f64());
        (0..samples).map(|i| if drawn >> i & 1 == 1 { inside } else { out }).product()
    }

    /// The sums of the real step, one for each draw of these gradients, with the draw's probability.
    fn sums<const D: usize>(&self, gradients: &[[f32; D]]) -> Vec<([i64; D], f64)> {
        let grid = Grid::new(self.bits).unwrap();
        let step = PrivateStep::new(Slots {
            // The sums do not depend on σ, and a run does not allow a smaller σ.
            mechanism: DiscreteGaussian::<i64>::new(grid, self.sigma.max(1024)).unwrap(),
            clip: FlatL2,
            threshold: Fixed(1.0),
            filter: Identity,
            optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
            schedule: Constant(0.1),
            expected_batch: 2,
        })
        .unwrap();
        let mut state = StepState::new([SumWord::default(); D], (), SgdState { momentum: [0.0f32; 0] }, ());
        let mut ledger = Ledger::volatile(1 << 10);
        let draws = 0..1usize << gradients.len();
        let mut sums: Vec<([i64; D], f64)> = Vec::new();
        for drawn in draws {
            let mut open = step.open(&mut state, &mut ledger).unwrap();
            for (_, gradient) in gradients.iter().enumerate().filter(|(i, _)| drawn >> i & 1 == 1) {
                open.add_combined(&[gradient]).unwrap();
            }
            let sum: Vec<i64> =
                open.probe(Unreleased::claim()).sum.iter().map(|word| word.get(Unreleased::claim())).collect();
            let (sum, chance): ([i64; D], f64) = (sum.try_into().unwrap(), self.chance(gradients.len(), drawn));
            match sums.iter_mut().find(|(known, _)| *known == sum) {
                Some((_, total)) => *total += chance,
                None => sums.push((sum, chance)),
            }
        }
        sums
    }

    /// `P(z)` of the discrete Gaussian for `|z| ≤ reach`, at `z + reach`.
    fn noise(&self, reach: i64) -> Vec<f64> {
        let sigma = f64::from(self.sigma);
        let weight = |z: i64| libm::exp(-(z as f64) * (z as f64) / (2.0 * sigma * sigma));
        let far = 40 * i64::from(self.sigma);
        let total: f64 = (-far..=far).map(weight).sum();
        (-reach..=reach).map(|z| weight(z) / total).collect()
    }
}

/// Masses of rounded losses, which are multiples of the width.
#[derive(Clone)]
struct Masses {
    mass: Vec<f64>,
    /// The multiple of the first entry.
    start: i64,
}

/// Upper limit: every ε here is smaller.
const LARGEST: f64 = 256.0;

impl Masses {
    fn add(&mut self, multiple: f64, mass: f64) {
        let multiple = multiple as i64;
        if self.mass.is_empty() {
            (self.mass, self.start) = (vec![0.0; 2048], multiple - 1024);
        }
        while multiple < self.start {
            let len = self.mass.len();
            self.mass.splice(0..0, std::iter::repeat_n(0.0, len));
            self.start -= len as i64;
        }
        while multiple >= self.start + self.mass.len() as i64 {
            self.mass.resize(2 * self.mass.len(), 0.0);
        }
        self.mass[(multiple - self.start) as usize] += mass;
    }

    fn trimmed(mut self) -> Self {
        let first = self.mass.iter().position(|mass| *mass > 0.0).unwrap_or(0);
        let last = self.mass.iter().rposition(|mass| *mass > 0.0).map_or(first, |last| last + 1);
        self.mass = self.mass[first..last].to_vec();
        Self { start: self.start + first as i64, ..self }
    }
}

/// The losses of one step in both directions, by the kind of its release: the first neighbour against the second, then
/// the second against the first. Each is rounded up, then down.
struct Losses([[Vec<Masses>; 2]; 2]);

impl Losses {
    /// The losses of two lists of sums with their probabilities.
    fn of<const D: usize>(setting: &Setting, with: &[([i64; D], f64)], without: &[([i64; D], f64)]) -> Self {
        let edge = (REACH * f64::from(setting.sigma)) as i64;
        let all = || with.iter().chain(without);
        let low: [i64; D] = std::array::from_fn(|d| all().map(|(sum, _)| sum[d]).min().unwrap() - edge);
        let high: [i64; D] = std::array::from_fn(|d| all().map(|(sum, _)| sum[d]).max().unwrap() + edge);
        let reach = (0..D).map(|d| high[d] - low[d]).max().unwrap();
        let noise = setting.noise(reach);
        let at = |sums: &[([i64; D], f64)], output: &[i64; D]| -> f64 {
            let one = |(sum, chance): &([i64; D], f64)| {
                (0..D).fold(*chance, |product, d| product * noise[(output[d] - sum[d] + reach) as usize])
            };
            sums.iter().map(one).sum()
        };
        let empty = || vec![Masses { mass: Vec::new(), start: 0 }; STATES];
        let mut found = [[empty(), empty()], [empty(), empty()]];
        let mut visit = |output: &[i64; D]| {
            let (first, second) = (at(with, output), at(without, output));
            let loss = libm::log(first / second) / setting.width;
            let kind = kind(setting, output[0]);
            for (direction, (mass, loss)) in [(first, loss), (second, -loss)].into_iter().enumerate() {
                found[direction][0][kind].add((loss + 1e-6).ceil(), mass);
                found[direction][1][kind].add((loss - 1e-6).floor(), mass);
            }
        };
        for first in low[0]..=high[0] {
            if D == 1 {
                visit(&std::array::from_fn(|_| first));
            } else {
                for second in low[D - 1]..=high[D - 1] {
                    visit(&std::array::from_fn(|d| if d == 0 { first } else { second }));
                }
            }
        }
        Self(found.map(|direction| direction.map(|round| round.into_iter().map(Masses::trimmed).collect())))
    }
}

/// The kind of a first release that the second step's gradients depend on.
fn kind(setting: &Setting, release: i64) -> usize {
    let scale = i64::from(setting.sigma);
    if release < -scale { 0 } else { usize::from(release >= scale) + 1 }
}

/// The second step after one kind of first release: `Σ mass` and `Σ mass·e^{−loss}` over each multiple and all above.
struct Tails {
    mass: Vec<f64>,
    other: Vec<f64>,
    start: i64,
}

impl Tails {
    fn of(kinds: &[Masses], width: f64) -> Self {
        let start = kinds.iter().map(|kind| kind.start).min().unwrap();
        let end = kinds.iter().map(|kind| kind.start + kind.mass.len() as i64).max().unwrap();
        let len = (end - start) as usize;
        let (mut mass, mut other) = (vec![0.0; len + 1], vec![0.0; len + 1]);
        for at in (0..len).rev() {
            let multiple = start + at as i64;
            let one = |kind: &Masses| kind.mass.get((multiple - kind.start) as usize).copied().unwrap_or(0.0);
            let sum: f64 = kinds.iter().map(one).sum();
            mass[at] = mass[at + 1] + sum;
            other[at] = other[at + 1] + sum * libm::exp(-width * multiple as f64);
        }
        Self { mass, other, start }
    }
}

/// δ at ε of two steps, from their rounded losses.
fn delta(first: &[Masses], second: &[Tails], width: f64, epsilon: f64) -> f64 {
    let mut sum = 0.0;
    for (first, second) in first.iter().zip(second) {
        for (at, mass) in first.mass.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
            let needed = epsilon - width * (first.start + at as i64) as f64;
            let last = second.mass.len() as i64 - 1;
            let from = ((needed / width).ceil() as i64 - second.start).clamp(0, last) as usize;
            sum += mass * (second.mass[from] - libm::exp(needed) * second.other[from]).max(0.0);
        }
    }
    sum
}

/// A lower and an upper bound of ε of two data sets at this δ: the largest over both directions.
fn bounds<const D: usize>(setting: &Setting, with: &[Sample<D>], without: &[Sample<D>], target: f64) -> (f64, f64) {
    let losses = |of: &dyn Fn(&Sample<D>) -> [f32; D]| {
        let sums = |samples: &[Sample<D>]| setting.sums(&samples.iter().map(of).collect::<Vec<_>>());
        Losses::of(setting, &sums(with), &sums(without))
    };
    let first = losses(&|sample| sample.first);
    let second: Vec<Losses> = (0..STATES).map(|state| losses(&|sample| sample.second[state])).collect();
    let epsilon = |direction: usize, round: usize| {
        let tails = |losses: &Losses| Tails::of(&losses.0[direction][round], setting.width);
        let second: Vec<Tails> = second.iter().map(tails).collect();
        let target = target * if round == 0 { 1.0 - SLACK } else { 1.0 + SLACK };
        let (mut low, mut high) = (0.0, LARGEST);
        for _ in 0..36 {
            let middle = (low + high) / 2.0;
            let found = delta(&first.0[direction][round], &second, setting.width, middle);
            if found > target { low = middle } else { high = middle }
        }
        if round == 0 { high } else { low }
    };
    let [most, least] = [0, 1].map(|round| epsilon(0, round).max(epsilon(1, round)));
    assert!(least <= most && most - least < 5.0 * setting.width, "{least} {most}");
    (least, most)
}

/// The largest lower bound and the largest upper bound over all neighbours of a data set, with a sample left out and
/// replaced.
fn worst<const D: usize>(setting: &Setting, data: &[Sample<D>], delta: f64) -> [(f64, f64); 2] {
    let mut found = [(0.0f64, 0.0f64); 2];
    let mut compare = |at: usize, other: &[Sample<D>]| {
        let (least, most) = bounds(setting, data, other, delta);
        found[at] = (found[at].0.max(least), found[at].1.max(most));
    };
    for i in 0..data.len() {
        // Removed, or added with the roles exchanged.
        compare(0, &[&data[..i], &data[i + 1..]].concat());
        let with = |sample: Sample<D>| [&data[..i], &[sample], &data[i + 1..]].concat();
        // Zeroed out, by zeros and by a non-finite gradient.
        compare(0, &with(Sample::constant([0.0; D])));
        compare(0, &with(Sample::constant([f32::NAN; D])));
        compare(1, &with(data[i].opposite()));
        compare(1, &with(Sample::constant(std::array::from_fn(|d| if d == 0 { 0.3 } else { -5.0 }))));
    }
    found
}

/// The accountant's ε of two steps: with a sample left out, and with a sample replaced.
fn priced(setting: &Setting, delta: f64) -> [f64; 2] {
    [Neighbours::AddOrRemove, Neighbours::Replace]
        .map(|neighbours| epsilon(&[(setting.event(), 2)], neighbours, delta).unwrap())
}

fn compare<const D: usize>(setting: &Setting, delta: f64, data: &[&[Sample<D>]]) {
    let priced = priced(setting, delta);
    let mut least = [0.0f64; 2];
    for (at, data) in data.iter().enumerate() {
        for (which, (low, high)) in worst(setting, data, delta).into_iter().enumerate() {
            println!("{setting:?} {delta} data {at}: {low} to {high}, priced {}", priced[which]);
            assert!(high <= priced[which], "{setting:?} {delta} {data:?}: {high} {}", priced[which]);
            least[which] = least[which].max(low);
        }
    }
    for (which, least) in least.into_iter().enumerate() {
        assert!(priced[which] <= 1.005 * least, "{setting:?} {delta}: {} {least}", priced[which]);
    }
}

#[test]
fn accountant_is_tight_in_one_dimension() {
    let (full, null) = (Sample::constant([1.0]), Sample::constant([0.0]));
    let worst: &[Sample<1>] = &[full, null];
    let others: &[Sample<1>] = &[full, Sample::constant([-0.4]), Sample::adaptive([3.0])];
    let four: &[Sample<1>] = &[Sample::adaptive([1.0]), null, Sample::constant([f32::NAN]), Sample::adaptive([-0.7])];
    let all = [worst, others, four];
    // Without sampling the accountant is closest to the exact ε, so losses are rounded less.
    let (coarse, fine) = (1.0 / 8192.0, 1.0 / 65_536.0);
    let cases = [
        (10, 1024, 0.25, 1e-5, coarse, &all[..]),
        (11, 1024, 0.5, 1e-5, coarse, &all[..]),
        (10, 1024, 0.03, 1e-6, coarse, &all[..]),
        (9, 1024, 1.0, 1e-4, fine, &all[..1]),
        (10, 2048, 0.9, 1e-3, fine, &all[..2]),
    ];
    for (bits, sigma, rate, delta, width, data) in cases {
        let setting = Setting { bits, sigma, rate: Rate::at_least(rate).unwrap(), width };
        compare(&setting, delta, data);
    }
}

#[test]
fn accountant_is_tight_in_two_dimensions() {
    // On the line through both, and perpendicular to it.
    let (along, null) = (Sample::constant([0.6, 0.8]), Sample::constant([0.0, 0.0]));
    let worst: &[Sample<2>] = &[Sample::adaptive([1.0, 0.0])];
    let others: &[Sample<2>] = &[along, null, Sample::adaptive([0.0, -1.0])];
    let setting = Setting { bits: 8, sigma: 96, rate: Rate::at_least(0.3).unwrap(), width: 1.0 / 4096.0 };
    let constant: &[Sample<2>] = &[Sample::constant([1.0, 0.0])];
    compare(&setting, 1e-4, &[constant, worst, others]);
}

#[test]
fn sampler_has_exact_probabilities() {
    // A random 53-bit integer below the numerator draws a sample, so a subset of n samples has the probability Π k or
    // (2^53 − k) over 2^53n.
    let mut seen = [false; 16];
    for seed in 0..400 {
        let generator: ChaCha20 = ChaCha20::simulation(seed);
        let mut words = generator.stream(Address { purpose: Purpose::Sampling, step: 1, chunk: 0 });
        let coins: Vec<u64> = (0..4).map(|_| words.next_u64() >> 11).collect();
        let drawn = |numerator: u64| -> usize {
            let rate = Rate::from_numerator(numerator).unwrap();
            poisson(&generator, 1, rate, 4).map(|sample| 1 << sample).sum()
        };
        for (i, coin) in coins.iter().enumerate() {
            assert_eq!(drawn(*coin) >> i & 1, 0, "a coin equal to the numerator is no draw");
            assert_eq!(drawn(coin + 1) >> i & 1, 1);
        }
        seen[drawn(Rate::DENOMINATOR / 2)] = true;
    }
    assert_eq!(seen, [true; 16]);

    // The enumeration uses these probabilities, and they sum to 1.
    for numerator in [1, 12_345, Rate::DENOMINATOR / 3, Rate::DENOMINATOR - 1, Rate::DENOMINATOR] {
        let rate = Rate::from_numerator(numerator).unwrap();
        let setting = Setting { bits: 10, sigma: 1024, rate, width: 1.0 };
        let k = u128::from(numerator);
        let out = u128::from(Rate::DENOMINATOR) - k;
        let exact = [out * out, k * out, out * k, k * k];
        assert_eq!(exact.iter().sum::<u128>(), 1 << 106);
        for (drawn, exact) in exact.into_iter().enumerate() {
            let found = setting.chance(2, drawn) * 2f64.powi(106);
            assert!((found - exact as f64).abs() <= 4.0 * f64::EPSILON * exact as f64, "{numerator} {drawn}");
        }
        let total: f64 = (0..16).map(|drawn| setting.chance(4, drawn)).sum();
        assert!((total - 1.0).abs() < 1e-14);
    }
}
