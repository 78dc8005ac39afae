//! Independence of neighbouring steps, coordinates, chunks, purposes, seeds, and of runs before and after a restart.
//!
//! There are two tests of pairs. Correlation is linear and sensitive. Chi-square over 16 × 16 cells detects any
//! dependence that is visible in the cells. Both assume the distribution, which the other files test.

use crate::draws::{COUNTS, Steps, exact, float, numbers, with_counts};
use crate::tail::{chi_square_uniform, normal, of_normal};
use crate::{DRAWS, LEVEL};
use damper_core::accounting::{Ledger, ReadStore, Record, Store};
use damper_core::noise::{Address, ChaCha20, Generator, Purpose, Xoshiro};
use rand_core::Rng;

/// σ of the draws, so large that a draw counts as normal in these tests.
const SIGMA: u32 = 1 << 16;

/// Draws of a step, as probabilities: uniform in (0, 1).
type Uniform = Vec<f64>;

fn uniform(draws: &[i32]) -> Uniform {
    draws.iter().map(|z| normal((f64::from(*z) + 0.5) / f64::from(SIGMA))).collect()
}

/// The noise of step `step`.
fn noise(step: u32, dim: usize) -> Uniform {
    uniform(&exact::<i32, _>(SIGMA, &generator(), Steps { first: step, steps: 1, dim }))
}

fn generator() -> ChaCha20<16> {
    ChaCha20::simulation(80)
}

/// The smallest probability of both tests, under independence of the pairs.
fn least<'a>(pairs: impl Iterator<Item = (&'a f64, &'a f64)>) -> f64 {
    let (mut cells, mut product, mut n) = (vec![0u64; 256], 0.0, 0.0);
    for (a, b) in pairs {
        cells[(a * 16.0) as usize * 16 + (b * 16.0) as usize] += 1;
        // Uniform numbers have variance 1/12.
        product += 12.0 * (a - 0.5) * (b - 0.5);
        n += 1.0;
    }
    assert!(n >= 9e5, "{n} pairs");
    of_normal(product / f64::sqrt(n)).min(chi_square_uniform(&cells))
}

#[track_caller]
fn must_be_independent(a: &[f64], b: &[f64], what: &str) {
    let least = least(a.iter().zip(b));
    println!("{what}: {least:.3}");
    assert!(least >= LEVEL, "{what}: {least:e}");
}

#[track_caller]
fn must_depend(a: &[f64], b: &[f64], control: &str) {
    let least = least(a.iter().zip(b));
    assert!(least < LEVEL, "the control passes: {control}: {least:e}");
}

// Neighbouring coordinates and chunks have independent noise.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn neighbouring_noise_is_independent() {
    let draws = noise(0, DRAWS);
    for lag in [1, 2, 3, 8, 16, 64, 1023, 1024, 1025, 16 * 1024] {
        must_be_independent(&draws, &draws[lag..], &format!("coordinates {lag} apart"));
    }
    // Control: the neighbour reuses the chunk's address.
    let shared: Uniform = draws.chunks(2048).flat_map(|two| [&two[..two.len().min(1024)]; 2].concat()).collect();
    must_depend(&shared, &shared[1024..], "two chunks share a stream");
    // Control: an echo of one twentieth of the neighbour.
    let echo: Uniform = draws.windows(2).map(|two| 0.95 * two[1] + 0.05 * two[0]).collect();
    must_depend(&echo, &echo[1..], "an echo of the neighbour");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn neighbouring_steps_share_no_noise() {
    let dim = DRAWS / 10;
    let steps: Vec<Uniform> = (0..10).chain([1 << 16, 1 << 24, (1 << 31) - 1]).map(|step| noise(step, dim)).collect();
    for (a, before) in steps.iter().enumerate() {
        for (b, after) in steps.iter().enumerate().skip(a + 1) {
            must_be_independent(before, after, &format!("steps {a} and {b}"));
        }
        // Shifted by a coordinate or by a chunk, to detect one shared stream.
        must_be_independent(&before[1..], &steps[(a + 1) % steps.len()], "the next step, shifted by a coordinate");
        must_be_independent(&before[1024..], &steps[(a + 1) % steps.len()], "the next step, shifted by a chunk");
    }
    must_depend(&steps[3], &steps[3], "a step that is not counted");
    let opposite: Uniform = steps[3].iter().map(|x| 1.0 - x).collect();
    must_depend(&steps[3], &opposite, "the same noise with the other sign");
    let size: Uniform =
        steps[3].iter().zip(&steps[4]).map(|(x, sign)| if *sign < 0.5 { *x } else { 1.0 - x }).collect();
    must_depend(&steps[3], &size, "the same size with another sign");
}

// Neighbouring seeds and the float path have independent noise.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn seeds_and_float_path_are_independent() {
    let of = Steps::from_the_first(1, DRAWS / 10);
    let seeds = [0, 1, 2, 1 << 32, u64::MAX].map(|seed| {
        [
            uniform(&exact::<i32, _>(SIGMA, &ChaCha20::<16>::simulation(seed), of)),
            uniform(&exact::<i32, _>(SIGMA, &Xoshiro::simulation(seed), of)),
        ]
    });
    for two in seeds.windows(2) {
        must_be_independent(&two[0][0], &two[1][0], "two seeds of ChaCha20");
        must_be_independent(&two[0][1], &two[1][1], "two seeds of xoshiro");
        must_be_independent(&two[0][0], &two[0][1], "two generators");
    }
    let of_floats = |step| -> Uniform {
        float(&generator(), Steps { first: step, ..of }).iter().map(|x| normal(f64::from(*x))).collect()
    };
    let (first, second) = (of_floats(0), of_floats(1));
    must_be_independent(&first, &second, "two steps of the float path");
    must_be_independent(&first, &first[1..], "neighbours of the float path: the two draws of a pair");
    must_be_independent(&first, &first[2..], "neighbours of the float path: two pairs");
    must_depend(&first, &of_floats(0), "one step twice");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn purposes_share_no_words() {
    const PURPOSES: [Purpose; 9] = [
        Purpose::GradientNoise,
        Purpose::HistogramNoise,
        Purpose::Sampling,
        Purpose::Initialisation,
        Purpose::Augmentation,
        Purpose::Audit,
        Purpose::HeldOutNoise,
        Purpose::RunKey,
        Purpose::Search,
    ];
    let source = generator();
    // Ten million words in total, at addresses that are the same except for the purpose.
    let words = PURPOSES.map(|purpose| -> Uniform {
        let chunk = |at: u32| {
            let mut stream = source.stream(Address { purpose, step: at / 8, chunk: at % 8 });
            (0..1000).map(move |_| (f64::from(stream.next_u32()) + 0.5) / 4_294_967_296.0)
        };
        (0..DRAWS as u32 / 1000 / PURPOSES.len() as u32).flat_map(chunk).collect()
    });
    for (a, first) in words.iter().enumerate() {
        for (b, second) in words.iter().enumerate().skip(a + 1) {
            must_be_independent(first, second, &format!("words of {:?} and {:?}", PURPOSES[a], PURPOSES[b]));
        }
    }
    must_depend(&words[2], &words[2], "two purposes with one number");

    // The noise of gradients and of counts, with each other and with the Bernoulli trials of sampling.
    let (gradient, counts) =
        with_counts(SIGMA, &generator(), Steps::from_the_first((DRAWS / COUNTS / 10) as u32, COUNTS));
    let (gradient, counts) = (uniform(&gradient), uniform(&counts));
    let coins: Uniform = (0..(DRAWS / COUNTS / 10) as u32)
        .flat_map(|step| {
            let mut stream = source.stream(Address { purpose: Purpose::Sampling, step, chunk: 0 });
            (0..COUNTS).map(move |_| (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
        })
        .collect();
    must_be_independent(&gradient, &counts, "noise of gradients and of counts");
    must_be_independent(&gradient, &coins, "noise of gradients and coins");
    must_be_independent(&counts, &coins, "noise of counts and coins");
    must_depend(&gradient, &gradient, "counts from the gradients' stream");
}

/// A store that may lose its record.
struct Flash {
    durable: Record,
    loses: bool,
}

impl Store for Flash {
    type Error = ();

    fn persist(&mut self, record: Record) -> Result<(), ()> {
        if !self.loses {
            self.durable = record;
        }
        Ok(())
    }
}

impl ReadStore for Flash {
    fn record(&self) -> Record {
        self.durable
    }
}

/// The step numbers of two runs with three steps each. The second starts from the first run's store.
fn numbers_around_a_restart(loses: bool) -> [[u32; 3]; 2] {
    let budget = 100;
    let mut ledger = Ledger::open(Flash { durable: Record::NONE, loses: false }, budget).unwrap();
    let [_] = numbers(&mut ledger);
    ledger.store_mut().loses = loses;
    let before = numbers(&mut ledger);
    let mut ledger = Ledger::open(ledger.into_store(), budget).unwrap();
    [before, numbers(&mut ledger)]
}

// Noise after a restart is independent of the noise before it.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn restart_noise_is_independent() {
    let of = |numbers: [u32; 3]| -> Uniform { numbers.iter().flat_map(|step| noise(*step, DRAWS / 10)).collect() };
    let [before, after] = numbers_around_a_restart(false);
    must_be_independent(&of(before), &of(after), "before and after a restart");
    let [before, after] = numbers_around_a_restart(true);
    must_depend(&of(before), &of(after), "a store that forgot the payments");
}
