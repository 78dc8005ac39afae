//! The noise of every mechanism has the accounted distribution.
//!
//! The other combinations of slots draw the noise of DP-SGD, integer by integer (`tests/methods/noise.rs`). Other
//! targets have the host's bits (`tests/vectors`, the packs). So the results here hold for them.

use crate::draws::{COUNTS, Steps, exact, float, with_counts};
use crate::law::{Discrete, Normal};
use crate::{DRAWS, LEVEL};
use damper_core::noise::{ChaCha20, Xoshiro};

/// σ in grid units: from five distinct values to ten million.
const SIGMAS: [u32; 8] = [1, 2, 3, 7, 30, 1000, 1 << 16, 1 << 20];

/// Ten million draws of the exact path, in full chunks and one partial chunk.
fn drawn(sigma: u32, seed: u64) -> Vec<i32> {
    let steps = Steps::from_the_first(10, DRAWS / 10);
    exact::<i64, _>(sigma, &ChaCha20::<16>::simulation(seed), steps)
}

fn sorted(mut draws: Vec<i32>) -> Vec<i32> {
    draws.sort_unstable();
    draws
}

/// Returns true if both tests pass, and their probabilities.
fn fits(sorted: &[i32], law: &Discrete) -> (bool, [f64; 2]) {
    let probabilities = [law.chi_square(sorted), law.kolmogorov(sorted)];
    (probabilities.iter().all(|p| *p >= LEVEL), probabilities)
}

#[track_caller]
fn must_fit(sorted: &[i32], sigma: f64, what: &str) {
    let (fits, probabilities) = fits(sorted, &Discrete::new(sigma));
    println!("{what}, sigma {sigma}: chi-square {:.3}, Kolmogorov-Smirnov {:.3}", probabilities[0], probabilities[1]);
    assert!(fits, "{what}, sigma {sigma}: {probabilities:?}");
}

#[track_caller]
fn must_not_fit(sorted: &[i32], sigma: f64, control: &str) {
    let (fits, probabilities) = fits(sorted, &Discrete::new(sigma));
    assert!(!fits, "the control passes: {control}, sigma {sigma}: {probabilities:?}");
}

// The exact path fits the discrete Gaussian. A sigma off by 1 % does not.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn exact_path_fits_discrete_gaussian() {
    for (seed, sigma) in SIGMAS.into_iter().enumerate() {
        let draws = sorted(drawn(sigma, seed as u64));
        let sigma = f64::from(sigma);
        must_fit(&draws, sigma, "gradient");
        must_not_fit(&draws, sigma * 1.01, "sigma 1 % too small");
        must_not_fit(&draws, sigma / 1.01, "sigma 1 % too large");
    }
}

// The tests detect half the noise, a biased rounding and a repeated block.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn detects_half_biased_or_repeated_noise() {
    let draws = drawn(500, 20);
    must_fit(&sorted(draws.clone()), 500.0, "gradient");
    must_not_fit(&sorted(draws.clone()), 1000.0, "half the noise");

    // Finer noise, truncated to the grid: rounded down, it is off by half a unit. Rounded toward zero, it has too many
    // zeros.
    let fine = drawn(800, 21);
    for sigma in [800 / 16, 800 / 80] {
        let per_unit = 800 / sigma;
        let cut =
            |to: fn(f64) -> f64| sorted(fine.iter().map(|z| to(f64::from(*z) / f64::from(per_unit)) as i32).collect());
        must_not_fit(&cut(f64::floor), f64::from(sigma), "rounded down");
        must_not_fit(&cut(f64::trunc), f64::from(sigma), "rounded toward zero");
    }

    // Every block of the generator is used twice. Each value comes in pairs, so the counts vary too much.
    let repeated = draws.chunks(16).step_by(2).flat_map(|block| [block, block].concat()).collect();
    must_not_fit(&sorted(repeated), 500.0, "a repeated block");
    // The same block is always used. The counts do not vary at all.
    let again = drawn(500, 22)[..1000].repeat(DRAWS / 1000);
    must_not_fit(&sorted(again), 500.0, "one block alone");
}

// The word type, partial chunks and the fast generator keep the distribution.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn word_chunk_and_rng_keep_distribution() {
    let small = Steps::from_the_first((DRAWS / 1500) as u32, 1500);
    must_fit(&sorted(exact::<i32, _>(7, &ChaCha20::<1>::simulation(30), small)), 7.0, "gradient in i32");
    must_fit(&sorted(exact::<i32, _>(5000, &Xoshiro::simulation(31), small)), 5000.0, "gradient by xoshiro");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn counts_fit_discrete_gaussian() {
    for (seed, sigma) in [1024, 4096, 1 << 20].into_iter().enumerate() {
        let steps = Steps::from_the_first((DRAWS / COUNTS) as u32, 1);
        let (_, counts) = with_counts(sigma, &ChaCha20::<16>::simulation(40 + seed as u64), steps);
        let (counts, sigma) = (sorted(counts), f64::from(sigma));
        assert_eq!(counts.len(), DRAWS);
        must_fit(&counts, sigma, "counts");
        must_not_fit(&counts, sigma * 1.01, "sigma 1 % too small");
        must_not_fit(&counts, sigma * 2.0, "half the noise");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn float_path_fits_normal_distribution() {
    let mut draws = float(&ChaCha20::<16>::simulation(50), Steps::from_the_first(10, DRAWS / 10));
    draws.sort_unstable_by(f32::total_cmp);
    let of = |sigma: f64| [Normal(sigma).chi_square(&draws), Normal(sigma).kolmogorov(&draws)];
    println!("float: chi-square {:.3}, Kolmogorov-Smirnov {:.3}", of(1.0)[0], of(1.0)[1]);
    assert!(of(1.0).iter().all(|p| *p >= LEVEL), "{:?}", of(1.0));
    for control in [1.01, 1.0 / 1.01, 2.0] {
        assert!(of(control).iter().any(|p| *p < LEVEL), "the control passes: {control}");
    }
}
