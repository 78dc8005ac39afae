//! The random words of all noise are uniform, and the Bernoulli trials of sampling succeed at the accounted rate.

use crate::tail::{chi_square, chi_square_uniform, of_chi_square, of_normal};
use crate::{DRAWS, LEVEL};
use damper_core::accounting::Rate;
use damper_core::noise::{Address, ChaCha20, Generator, Purpose, Xoshiro};
use damper_core::sampling::poisson;
use rand_core::Rng;

/// Words of a run's noise: `of` words at each of the first addresses.
fn words<G: Generator>(generator: &G, of: usize) -> Vec<u32> {
    let each = |at: usize| {
        let (step, chunk) = ((at / 16) as u32, (at % 16) as u32);
        let mut stream = generator.stream(Address { purpose: Purpose::GradientNoise, step, chunk });
        (0..of).map(move |_| stream.next_u32())
    };
    (0..DRAWS / of).flat_map(each).collect()
}

/// The smallest probability over high halves, low halves, neighbours' low bytes, the first word of each address if
/// there are many, and each bit.
fn least(words: &[u32], of: usize) -> f64 {
    let count = |kind: &mut dyn Iterator<Item = u32>| {
        let mut counts = vec![0; 1 << 16];
        kind.for_each(|half| counts[half as usize] += 1);
        chi_square_uniform(&counts)
    };
    let mut least = [
        count(&mut words.iter().map(|word| word >> 16)),
        count(&mut words.iter().map(|word| word & 0xffff)),
        count(&mut words.chunks_exact(2).map(|pair| pair[0] & 0xff | (pair[1] & 0xff) << 8)),
    ]
    .into_iter()
    .fold(1.0, f64::min);
    let mut firsts = vec![0; 256];
    words.iter().step_by(of).for_each(|word| firsts[(word >> 24) as usize] += 1);
    least = least.min(chi_square_uniform(&firsts));
    for bit in 0..32 {
        let ones = words.iter().filter(|word| *word >> bit & 1 == 1).count() as f64;
        let n = words.len() as f64;
        least = least.min(of_normal((2.0 * ones - n) / n.sqrt()));
    }
    least
}

// Words are uniform in every bit and across addresses.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn words_are_uniform() {
    for of in [100, 1000] {
        let chacha = words(&ChaCha20::<16>::simulation(60), of);
        let fast = words(&Xoshiro::simulation(61), of);
        println!("words: ChaCha20 {:.3}, xoshiro {:.3}", least(&chacha, of), least(&fast, of));
        assert!(least(&chacha, of) >= LEVEL && least(&fast, of) >= LEVEL);

        let repeated: Vec<u32> = chacha.chunks(16).step_by(2).flat_map(|block| [block, block].concat()).collect();
        assert!(least(&repeated, of) < LEVEL, "the control passes: a repeated block");
        let even: Vec<u32> = chacha.iter().enumerate().map(|(i, word)| word & !u32::from(i % 100 == 0)).collect();
        assert!(least(&even, of) < LEVEL, "the control passes: one word in a hundred is even");
    }
}

/// Bernoulli trials for a hundred chunks of samples, over several steps. Returns the smallest probability under
/// `claimed` of three statistics: the number of successes, the gaps between them (geometric, across steps too), and
/// their positions in a chunk.
fn least_of_coins(rate: f64, claimed: f64, steps: u32) -> f64 {
    const SAMPLES: u32 = 102_400;
    let generator = ChaCha20::<16>::simulation(70);
    // Gaps longer than the length that expects twenty occurrences are counted together.
    let coins = f64::from(SAMPLES) * f64::from(steps);
    let longest = ((20.0 / (coins * claimed * claimed)).ln() / (1.0 - claimed).ln()).ceil() as usize;
    let (mut gaps, mut places) = (vec![0u64; longest + 1], vec![0u64; 1024]);
    let mut before = -1;
    for step in 0..steps {
        for sample in poisson(&generator, step, Rate::at_most(rate).unwrap(), SAMPLES) {
            let at = i64::from(step) * i64::from(SAMPLES) + i64::from(sample);
            gaps[((at - before) as usize - 1).min(longest)] += 1;
            places[sample as usize % 1024] += 1;
            before = at;
        }
    }
    let drawn: u64 = places.iter().sum();
    let number = of_normal((drawn as f64 - coins * claimed) / (coins * claimed * (1.0 - claimed)).sqrt());
    // The number at each position is binomial, with the same number of trials.
    let each = coins / places.len() as f64 * claimed;
    let squares = places.iter().map(|drawn| (*drawn as f64 - each).powi(2) / (each * (1.0 - claimed)));
    let by_place = of_chi_square(squares.sum(), places.len());
    let mut probabilities: Vec<f64> = (0..longest).map(|gap| claimed * (1.0 - claimed).powi(gap as i32)).collect();
    probabilities.push(1.0 - probabilities.iter().sum::<f64>());
    number.min(by_place).min(chi_square(&gaps, &probabilities))
}

// Bernoulli trials succeed at the sampling rate that the accountant uses.
#[test]
#[cfg_attr(debug_assertions, ignore = "in releases alone: minutes")]
fn trials_match_charged_sampling_rate() {
    // The smaller the rate, the more trials are needed to detect one per cent.
    for (rate, steps) in [(0.5, 100), (1.0 / 3.0, 100), (0.1, 200), (0.01, 1000)] {
        let right = least_of_coins(rate, rate, steps);
        println!("coins at {rate}: {right:.3}");
        assert!(right >= LEVEL, "{rate}: {right:e}");
        for control in [1.01, 1.0 / 1.01] {
            assert!(least_of_coins(rate, rate * control, steps) < LEVEL, "the control passes: {rate} times {control}");
        }
    }
}
