//! Runs of every method, from `src/vectors/methods.tsv`. Its header explains its lines.

use crate::Gradients;
use crate::slots::{AnyClip, Words, filter, learning_rate, noise_schedule, optimizer, threshold};
use damper_access::Unreleased;
use damper_core::accounting::{Ledger, Rate};
use damper_core::filter::mix;
use damper_core::grid::{Grid, Word};
use damper_core::noise::{ChaCha20, DiscreteGaussian, LEAST_SIGMA};
use damper_core::private::SumWord;
use damper_core::schedule::Declared;
use damper_core::slots::FilterSlot;
use damper_core::step::audit::ByRule;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Threshold;

const VECTORS: &str = include_str!("../../src/vectors/methods.tsv");

/// A run's line, and its expected results: the lines up to the next run.
fn runs(vectors: &str) -> Vec<(&str, Vec<&str>)> {
    let mut runs: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("run\t"), runs.last_mut()) {
            (Some(run), _) => runs.push((run, Vec::new())),
            (None, Some((_, expected))) => expected.push(line),
            (None, None) => panic!("a line before the first run: {line}"),
        }
    }
    runs
}

fn fnv(params: &[f32]) -> u64 {
    params
        .iter()
        .flat_map(|p| p.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The first parameter whose digits do not match `expected`, with `width` digits each.
fn first_difference(params: &[f32], expected: &str, width: usize, digits: impl Fn(f32) -> String) -> Option<String> {
    assert_eq!(expected.len(), params.len() * width, "as many digits as {} parameters have", params.len());
    params.iter().enumerate().find_map(|(i, param)| {
        let (is, must_be) = (digits(*param), &expected[i * width..(i + 1) * width]);
        (is != must_be).then(|| format!("coordinate {i} is {param:e}, {is} where {must_be} was recorded"))
    })
}

fn bits(param: f32) -> String {
    format!("{:08x}", param.to_bits())
}

fn mark(param: f32) -> String {
    format!("{:02x}", param.to_le_bytes().iter().fold(0, |mark, byte| mark ^ byte))
}

/// A run's samples, with the gradient x/4 − z.
struct Samples {
    numbers: Gradients,
    dim: usize,
}

impl Samples {
    /// The `z` of every sample of step `t`.
    fn of(&mut self, t: u32) -> Vec<Vec<f32>> {
        let spoilt = match t % 5 {
            3 => Some(2f32.powi(100)),
            4 => Some(f32::INFINITY),
            _ => None,
        };
        let count = (5 * t + 3) % 7;
        (0..count + u32::from(spoilt.is_some()))
            .map(|s| {
                let mut z: Vec<f32> = (0..self.dim).map(|_| self.numbers.next(22 + (s % 4) as i32)).collect();
                if let Some(bad) = spoilt.filter(|_| s == count) {
                    z[t as usize % self.dim] = bad;
                }
                z
            })
            .collect()
    }
}

/// Plays a run with sums in words `W`. Returns the first difference from the recorded results.
fn play<W: Word>(run: &str, expected: &[&str]) -> Result<(), String> {
    let fields: Vec<&str> = run.split('\t').collect();
    let [head, clip, rule, smoothing, descent, rate, noise] = fields[..] else { panic!("seven fields: {run}") };
    let mut head = Words::of(head);
    let name = head.word();
    let (dim, steps, seed): (usize, u32, u64) = (head.number(), head.number(), head.number());
    let (expected_batch, grid) = (head.number(), Grid::new(head.number()).unwrap());
    let mechanism = DiscreteGaussian::<W>::new(grid, head.number()).unwrap();

    let mut layers = Vec::new();
    let filter = filter(&mut Words::of(smoothing), dim);
    let (threshold, threshold_state) = threshold(&mut Words::of(rule));
    let (optimizer, optimizer_state) = optimizer(&mut Words::of(descent), dim);
    let counts = threshold.count_noise().is_some();
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: ByRule::new(AnyClip::parse(&mut Words::of(clip), &mut layers), Unreleased::claim()),
        threshold,
        filter: FilterSlot::of(filter),
        optimizer,
        schedule: Declared {
            learning_rate: learning_rate(&mut Words::of(rate)),
            noise: noise_schedule(&mut Words::of(noise)),
        },
        expected_batch,
    })
    .unwrap();
    let mut state = StepState::new(vec![SumWord::default(); dim], filter, optimizer_state, threshold_state);
    let (mut ledger, generator) = (Ledger::volatile(steps), ChaCha20::<1>::simulation(seed));
    let mut samples = Samples { numbers: Gradients(seed), dim };
    let mut params: Vec<f32> = (0..dim).map(|_| samples.numbers.next(24)).collect();

    let (mut last_sigma, mut last_clip) = ("", "");
    let mut parted = None;
    for line in expected {
        let (kind, rest) = line.split_once('\t').expect("a tab after the line's kind");
        if kind == "marks" {
            let difference = first_difference(&params, rest, 2, mark);
            if let Some(t) = parted {
                let seen = difference.unwrap_or_else(|| String::from("no mark differs"));
                return Err(format!(
                    "{name}: digests part after step {t}; after step {}, {seen}",
                    ledger.charged_steps()
                ));
            }
            assert_eq!(difference, None, "{name}: marks that contradict the digest");
            continue;
        }
        assert_eq!(kind, "step");
        let mut words = Words::of(rest);
        let (paid, sigma, clip, found): (u32, _, _, _) = (words.number(), words.word(), words.word(), words.word());
        last_sigma = if sigma == "=" { last_sigma } else { sigma };
        last_clip = if clip == "=" { last_clip } else { clip };

        let mut open = step.open(&mut state, &mut ledger).unwrap();
        let t = open.number();
        assert_eq!(t + 1, paid, "{name}: lines of steps in order");
        if bits(open.clip()) != last_clip {
            return Err(format!("{name}: the clip of step {paid} is {}, {last_clip} was recorded", bits(open.clip())));
        }
        for (s, z) in samples.of(t).iter().enumerate() {
            // In three segments, two of them short, like the tensors of a network.
            let cut =
                |grad: &[f32]| [grad[..dim / 5].to_vec(), grad[dim / 5..dim / 2].to_vec(), grad[dim / 2..].to_vec()];
            let grads: Vec<(f32, [Vec<f32>; 3])> = (0..open.eval_points())
                .map(|index| {
                    let mut point = vec![f32::NAN; dim];
                    let weight = open.eval_point(index, &params, &mut point).unwrap();
                    let grad: Vec<f32> = point.iter().zip(z).map(|(x, z)| x / 4.0 - z).collect();
                    (weight, cut(&grad))
                })
                .collect();
            let mut mixed = vec![f32::NAN; dim];
            for (index, (weight, [a, b, c])) in grads.iter().enumerate() {
                mix(index, *weight, &[a, b, c], &mut mixed);
            }
            let [a, b, c] = cut(&mixed);
            // The three methods of adding give the same bits.
            match s % 3 {
                0 => open.add_combined(&[&a, &b, &c]).unwrap(),
                1 => {
                    let mut sum = vec![SumWord::<W>::default(); dim];
                    let mut shard = open.shard(&mut sum).unwrap();
                    shard.add_combined(&[&a, &b, &c]).unwrap();
                    open.merge(shard).unwrap();
                }
                _ => {
                    let mut mixing = open.add_points(&mut mixed).unwrap();
                    for (_, [a, b, c]) in &grads {
                        mixing.eval_point(&[a, b, c]).unwrap();
                    }
                    mixing.add().unwrap();
                }
            }
        }
        open.finish(&mut params, &generator).unwrap();

        assert_eq!(ledger.charged_steps(), paid, "{name}");
        let priced = step.event_at(t, Rate::from_numerator(1 << 53).unwrap()).map(|event| event.multiplier());
        let sigma = Words::of(last_sigma).number::<u32>();
        let runs = f64::from(sigma) / f64::from(grid.unit());
        let wrong = match priced {
            Ok(priced) if counts => priced >= runs,
            Ok(priced) => priced != runs,
            // The noise of some runs is too small to be accounted.
            Err(_) => sigma >= LEAST_SIGMA && u64::from(sigma) * u64::from(sigma) >= 10 * u64::from(grid.unit()),
        };
        if wrong {
            return Err(format!("{name}: the noise of step {paid} is priced at {priced:?}, {runs} was recorded"));
        }
        if found.len() == 8 * dim {
            if let Some(difference) = first_difference(&params, found, 8, bits) {
                return Err(format!("{name}: after step {paid}, {difference}"));
            }
        } else if parted.is_none() && format!("{:016x}", fnv(&params)) != found {
            parted = Some(paid);
        }
    }
    assert_eq!(ledger.charged_steps(), steps, "{name}: a line for each step");
    assert!(step.open(&mut state, &mut ledger).is_err(), "{name}: the budget is spent");
    match parted {
        None => Ok(()),
        Some(t) => Err(format!("{name}: digests part after step {t}")),
    }
}

/// The differences from the vectors, over all runs.
fn differences<W: Word>(vectors: &str) -> Vec<String> {
    runs(vectors).iter().filter_map(|(run, expected)| play::<W>(run, expected).err()).collect()
}

#[test]
fn methods_match_vectors_bit_for_bit() {
    let differences = differences::<i32>(VECTORS);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn wide_sums_give_the_same_runs() {
    let differences = differences::<i64>(VECTORS);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_method_is_among_the_vectors() {
    let words: std::collections::BTreeSet<&str> =
        runs(VECTORS).iter().flat_map(|(run, _)| run.split(['\t', ' '])).collect();
    for method in "flat automatic layers fixed percentile grid exact quantile identity set iir momentum normalised plain kalman \
        constant recursion one two sgd nesterov adam adam-floored adam-bc uncorrected adaptive all weighted clt adagrad rmsprop norm raw subtract step cosine polynomial root matched"
        .split_ascii_whitespace()
    {
        assert!(words.contains(method), "{method}");
    }
}

// A wrong bit is reported with its step and its coordinate.
#[test]
fn reports_step_and_coordinate_of_error() {
    let all = runs(VECTORS);
    let (run, expected) = &all[0];
    let mut wrong: Vec<String> = expected.iter().map(ToString::to_string).collect();
    let line = &mut wrong[4];
    let digit = line.len() - 16;
    let other = if line.as_bytes()[digit] == b'0' { "1" } else { "0" };
    line.replace_range(digit..=digit, other);
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
    let difference = play::<i32>(run, &wrong).unwrap_err();
    assert!(difference.starts_with("sgd: after step 5, coordinate 1 is"), "{difference}");

    // The next run has marks. With another seed it differs at the first step, and the marks show the step.
    let (run, expected) = &all[1];
    let difference = play::<i32>(&run.replacen(" 1001 ", " 1002 ", 1), expected).unwrap_err();
    assert!(difference.contains("part after step 1; after step 6, coordinate 0 is"), "{difference}");
}
