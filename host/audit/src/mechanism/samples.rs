//! The trainer's draws over the run's own samples, without their gradients.
//!
//! - At the run's own sampling rate: each sample, blocks, residues, sizes, and samples with the same draws ([`Rates`]).
//! - At a rate of one half, over 128 steps, each trial is one bit. This detects two samples with the same or opposite
//!   bits, or with the same bits a step later. It does so however seldom the samples are drawn. It also detects a
//!   sample with another rate.
//! - At a rate of a thousand samples a step, or the run's if that is less. Pairs of samples at each distance are drawn
//!   together as often as with independent trials.
//!
//! A fixed order and shuffled batches have no trials to account for. The accountant assumes that a sample comes once in
//! an epoch, and as far apart as declared.

use super::chance::binomial;
use super::power::Power;
use super::rates::Rates;
use super::tests_of::Tests;
use damper_accounting::Sampler;
use damper_core::accounting::Rate;
use damper_train::Run;
use damper_train::inside::generator::RunGenerator;
use damper_train::inside::sampler::{BatchSampler, epoch_steps};

/// Maximum number of trials of a pass, if that leaves enough steps.
const COINS: u64 = 1 << 27;
/// Steps of a pass at the run's sampling rate.
const STEPS: (u64, u64) = (192, 8192);
/// Bits of a sample that are compared.
const BITS: u32 = 128;
/// Samples of a step, and pairs in all, that are tested at each distance.
const PAIRED: f64 = 1000.0;
const PAIRS: f64 = 2e7;

/// Steps that were drawn.
pub(super) struct Steps {
    pub(super) own: u32,
    pub(super) all: u64,
}

/// Draws and tests. `share` scales the default number of steps.
pub(super) fn samples(run: &Run, share: f64, generator: &RunGenerator, tests: &mut Tests) -> Steps {
    let samples = run.data.train.len() as u32;
    let groups = run.config.groups();
    if !matches!(run.config.sampler, Sampler::Poisson | Sampler::CyclicPoisson) {
        return in_order(run, samples, generator, tests);
    }
    let coins_a_step = u64::from((samples / groups).max(1));
    let wanted = (COINS / coins_a_step).clamp(STEPS.0, STEPS.1 * u64::from(groups)) as f64 * share;
    let own = (wanted.max(STEPS.0 as f64) as u32).next_multiple_of(groups);
    let mut draw = Vec::new();
    let mut rates = Rates::new(run, samples as usize);
    let mut sampler = BatchSampler::new(run, samples);
    for step in 0..own {
        sampler.draw(generator, step, &mut draw);
        rates.add(&draw, step);
    }
    rates.conclude("samples", run.price.terms.event_rate.as_f64(), tests);
    let bits = BITS * groups;
    same_bits(run, samples, own..own + bits, generator, tests);
    let first = own + bits;
    let apart = distances(run, samples, first, generator, tests);
    Steps { own, all: u64::from(first + apart) }
}

/// Tests for samples with the same or the opposite trials as another sample, at a rate of one half.
fn same_bits(run: &Run, samples: u32, steps: std::ops::Range<u32>, generator: &RunGenerator, tests: &mut Tests) {
    let half = Rate::of(1, 2).expect("a half is a rate");
    let mut sampler = BatchSampler::new(run, samples).at(half);
    let groups = run.config.groups();
    let mut draw = Vec::new();
    let mut bits = vec![0u128; samples as usize];
    let from = steps.start;
    for step in steps {
        sampler.draw(generator, step, &mut draw);
        let mark = 1u128 << ((step - from) / groups);
        for sample in &draw {
            if let Some(bits) = bits.get_mut(*sample as usize) {
                *bits |= mark;
            }
        }
    }
    let pairs = f64::from(samples) * f64::from(samples.saturating_sub(1)) / 2.0;
    let ones = || bits.iter().zip(0u32..).map(|(bits, at)| (bits.count_ones(), at));
    let what = "samples: coins of each sample, at a rate of one half";
    let extremes = ones().min().into_iter().chain(ones().max());
    let found = extremes.map(|(ones, at)| (binomial(ones.into(), BITS.into(), 0.5) * f64::from(samples), ones, at));
    if let Some((p, ones, at)) = found.min_by(|a, b| a.0.total_cmp(&b.0)) {
        tests.test(what, BITS.into(), p.min(1.0), || format!("sample {at}: drawn {ones} times in {BITS} steps"));
        let power = Power::Rate { what: "the rate of one sample", trials: BITS.into(), rate: 0.5, of: samples.into() };
        tests.finds(what, power);
    }
    // The lowest bit selects one of the two opposites.
    let folded = |bits: u128| if bits & 1 == 1 { !bits } else { bits };
    let mut order: Vec<(u128, u32)> = bits.iter().zip(0..).map(|(bits, at)| (folded(*bits), at)).collect();
    order.sort_unstable();
    let equal = order.windows(2).find(|pair| pair[0].0 == pair[1].0);
    let chance = |pairs: f64, bits: u32| (pairs * 0.5f64.powi(bits as i32)).min(1.0);
    let what = "samples: no two samples share coins, at a rate of one half";
    let p = if equal.is_some() { chance(pairs, BITS - 1) } else { 1.0 };
    tests.test(what, u64::from(BITS), p, || match equal {
        Some([a, b]) => format!("samples {} and {}: the same coins in {BITS} steps, or the opposite ones", a.1, b.1),
        _ => "none".into(),
    });
    tests.finds(what, Power::Always(format!("two samples of {samples} with the same or opposite coins")));
    // One step later: compare all bits except the first of one sample with all except the last of another.
    let mut later: Vec<(u128, u32)> = bits.iter().zip(0..).map(|(bits, at)| (bits >> 1, at)).collect();
    later.sort_unstable();
    let last = u128::MAX >> 1;
    let found = bits.iter().zip(0u32..).find_map(|(bits, at)| {
        let place = later.binary_search_by_key(&(bits & last), |(bits, _)| *bits).ok()?;
        Some((at, later[place].1))
    });
    let what = "samples: no sample has another's coins a step later, at a rate of one half";
    let p = if found.is_some() { chance(f64::from(samples).powi(2), BITS - 1) } else { 1.0 };
    tests.test(what, u64::from(BITS - 1), p, || match found {
        Some((a, b)) => format!("sample {a} has the coins of sample {b} a step later"),
        None => "none".into(),
    });
    tests.finds(what, Power::Always("one sample with another's coins of the step before".into()));
}

/// Tests pairs of samples at each distance. At each distance a sample is in at most one pair. Returns the steps.
fn distances(run: &Run, samples: u32, first: u32, generator: &RunGenerator, tests: &mut Tests) -> u32 {
    if run.config.sampler != Sampler::Poisson || run.price.terms.truncation.is_some() || samples < 2 {
        return 0;
    }
    let own = run.price.terms.event_rate;
    let rate = if own.as_f64() * f64::from(samples) <= PAIRED {
        own
    } else {
        Rate::of(PAIRED as u64, u64::from(samples)).unwrap_or(own)
    };
    let mean = rate.as_f64() * f64::from(samples);
    let steps = (PAIRS / (mean * (mean + 1.0) / 2.0).max(1.0))
        .min(COINS as f64 / 4.0 / f64::from(samples))
        .clamp(16.0, 4096.0) as u32;
    let mut sampler = BatchSampler::new(run, samples).at(rate);
    let mut both = vec![0u32; samples as usize];
    let mut draw = Vec::new();
    for step in first..first + steps {
        sampler.draw(generator, step, &mut draw);
        for (at, a) in draw.iter().enumerate() {
            for b in &draw[at + 1..] {
                let distance = b - a;
                if (a / distance).is_multiple_of(2) {
                    both[distance as usize] += 1;
                }
            }
        }
    }
    let together = rate.as_f64() * rate.as_f64();
    let of = f64::from(samples - 1);
    let mut least = (f64::INFINITY, 0, 0, 0);
    for (distance, both) in both.iter().enumerate().skip(1) {
        let pairs = pairs_at(samples, distance as u32) * u64::from(steps);
        let mean = pairs as f64 * together;
        // The sum is expensive, so evaluate it only for counts far from the mean.
        let away = (f64::from(*both) - mean).abs();
        if away > 4.0 * mean.sqrt() + 4.0 || least.0 == f64::INFINITY {
            let p = binomial(u64::from(*both), pairs, together) * of;
            if p < least.0 {
                least = (p, distance, *both, pairs);
            }
        }
    }
    let what = "samples: draws at each distance are independent";
    let (p, distance, both, pairs) = least;
    tests.test(what, pairs_at(samples, 1) * u64::from(steps), p.min(1.0), || {
        format!("samples {distance} apart: both drawn {both} times of {pairs}, at a rate of {:.6}", rate.as_f64())
    });
    let power = Power::Rate {
        what: "how often neighbours come together",
        trials: pairs_at(samples, 1) * u64::from(steps),
        rate: together,
        of: u64::from(samples - 1),
    };
    tests.finds(what, power);
    steps
}

/// Returns the number of disjoint pairs of samples at this distance.
fn pairs_at(samples: u32, distance: u32) -> u64 {
    let (samples, distance) = (u64::from(samples), u64::from(distance));
    samples / (2 * distance) * distance + (samples % (2 * distance)).saturating_sub(distance)
}

/// Tests batches of a fixed size: three epochs.
fn in_order(run: &Run, samples: u32, generator: &RunGenerator, tests: &mut Tests) -> Steps {
    let batch = run.config.batch_size;
    let epoch = epoch_steps(u64::from(samples), batch);
    let steps = epoch.saturating_mul(3);
    let mut sampler = BatchSampler::new(run, samples);
    let mut last: Vec<Option<u32>> = vec![None; samples as usize];
    let (mut draw, mut broken) = (Vec::new(), None);
    for step in 0..steps {
        sampler.draw(generator, step, &mut draw);
        if draw.len() > batch as usize {
            broken.get_or_insert_with(|| format!("step {step}: {} samples in a batch of {batch}", draw.len()));
        }
        for sample in &draw {
            let before = last[*sample as usize].replace(step);
            let Some(before) = before else { continue };
            let holds = match run.config.sampler {
                Sampler::Shuffled => before / epoch < step / epoch,
                _ => step - before >= epoch,
            };
            if !holds {
                broken.get_or_insert_with(|| {
                    format!("sample {sample}: steps {before} and {step}, epochs of {epoch} steps")
                });
            }
        }
    }
    tests.law("samples: a sample is once in an epoch, and as far apart as is priced", u64::from(samples) * 3, broken);
    Steps { own: steps, all: steps.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_disjoint_and_all_counted() {
        for samples in 1..60u32 {
            for distance in 1..samples {
                let pairs: Vec<(u32, u32)> = (0..samples)
                    .flat_map(|a| (a + 1..samples).map(move |b| (a, b)))
                    .filter(|(a, b)| b - a == distance && (a / distance).is_multiple_of(2))
                    .collect();
                let mut seen: Vec<u32> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len(), 2 * pairs.len());
                assert_eq!(pairs.len() as u64, pairs_at(samples, distance), "{samples} {distance}");
            }
        }
    }
}
