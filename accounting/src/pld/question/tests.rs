//! Tests of the results against closed forms and searches.

use super::super::{Neighbours, epsilon, epsilon_lower_bound, of_discrete};
use super::*;
use crate::AccountingError;
use damper_core::accounting::event::Rate;
use libm::erfc;

fn event(q: f64, sigma: f64) -> SampledGaussian {
    SampledGaussian::new(Rate::at_least(q).unwrap(), sigma).unwrap()
}

fn removed(events: &[(SampledGaussian, u64)], delta: f64, bound: Bound) -> Question {
    Question::new(events, Pair::Sampled(Direction::Remove), delta, bound)
}

fn near(found: f64, exact: f64, share: f64) {
    assert!((found - exact).abs() <= share * exact.abs(), "{found:e}, not {exact:e}");
}

/// Full batches: the loss is normal with mean `shift²/2` and standard deviation `shift`.
fn shift(events: &[(SampledGaussian, u64)]) -> f64 {
    sqrt(events.iter().map(|(event, times)| *times as f64 / (event.multiplier() * event.multiplier())).sum())
}

fn above(z: f64) -> f64 {
    0.5 * erfc(z / sqrt(2.0))
}

fn gaussian_epsilon(shift: f64, delta: f64) -> f64 {
    let at = |epsilon: f64| above(epsilon / shift - shift / 2.0) - exp(epsilon) * above(epsilon / shift + shift / 2.0);
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if at(middle) > delta { low = middle } else { high = middle }
    }
    high
}

fn full(parts: [(f64, u64); 2]) -> [(SampledGaussian, u64); 2] {
    parts.map(|(sigma, times)| (event(1.0, sigma), times))
}

const FULL: [[(f64, u64); 2]; 3] = [[(1.0, 2), (2.0, 4)], [(300.0, 3), (200.0, 5)], [(0.1, 2), (0.2, 3)]];

/// The largest value of `e^(-λy) (1 - e^-y)`, by trial.
#[test]
fn chernoff_takes_the_largest_weight() {
    for (ln_moment, tilt, delta) in [(0.3, 0.2, 1e-5), (7.0, 1.0, 1e-3), (900.0, 40.0, 1e-9)] {
        let weight = |k: i32| {
            let y = f64::from(k) * 1e-4;
            exp(-tilt * y) * -expm1(-y)
        };
        let most = (1..200_000).map(weight).fold(0.0, f64::max);
        near(chernoff(ln_moment, tilt, delta), log(exp(ln_moment) / delta * most) / tilt, 1e-6);
    }
}

#[test]
fn aim_is_chernoffs_best_for_gaussians() {
    for parts in FULL {
        let (events, delta) = (full(parts), 1e-5);
        let (shift, question) = (shift(&events), removed(&events, delta, Bound::Upper));
        let bound = |tilt: f64| chernoff(tilt * (tilt + 1.0) * shift * shift / 2.0, tilt, delta);
        let best = (-8000..14_000).map(|k| bound(exp(f64::from(k) / 1000.0))).fold(f64::INFINITY, f64::min);
        let aim = question.aim(&question.losses(FINE), &question.counts(), delta);
        near(aim.epsilon, best, 5e-4);
        near(aim.mean, shift * shift * (0.5 + aim.tilt), 5e-3);
        near(aim.deviation, shift, 5e-3);
        near(aim.reach, 9.0 * aim.deviation, 1e-12);
    }
}

/// For full batches the best tilt λ satisfies `ln 1/δ = λ²·shift²/2 + ln(1 + λ)`.
#[test]
fn aim_finds_the_best_tilt() {
    let events = full(FULL[0]);
    let (shift, question) = (shift(&events), removed(&events, 1e-5, Bound::Upper));
    let (losses, counts) = (question.losses(FINE), question.counts());
    for ln_tilt in [-0.5f64, -0.26, 0.0, 0.12, 0.51, 0.77, 1.0, 1.24, 1.5] {
        let tilt = exp(ln_tilt);
        let delta = exp(-tilt * tilt * shift * shift / 2.0) / (1.0 + tilt);
        let found = log(question.aim(&losses, &counts, delta).tilt);
        assert!((found - ln_tilt).abs() < 1.0 / 64.0 + 2e-3, "{found}, not {ln_tilt}");
    }
}

/// The bound is between the mass of both normal tails and Chernoff's bound on it, at a tilt of up to a quarter more
/// than the best.
#[test]
fn folded_bounds_two_normal_tails() {
    let events = full(FULL[0]);
    let question = removed(&events, 1e-5, Bound::Lower);
    let (losses, counts) = (question.losses(FINE), question.counts());
    let aim = question.aim(&losses, &counts, 1e-5);
    for (down, up) in [(3.0, 5.0), (6.0, 3.5), (4.0, 8.0), (1.0, 6.0)] {
        let edges = (aim.mean - down * aim.deviation, aim.mean + up * aim.deviation);
        let found = question.folded(&losses, &counts, &aim, edges.0, edges.1);
        let exact: f64 = [down, up].map(above).iter().sum();
        let chernoffs: f64 = [down, up].map(|z| exp(-0.46 * z * z)).iter().sum();
        assert!(found >= exact && found <= 1.1 * chernoffs, "{down} {up}: {found:e} {exact:e}");
    }
}

#[test]
fn beyond_is_the_chance_of_any() {
    let one = |beyond, second| Losses { atoms: Vec::new(), beyond, second };
    let (losses, counts) = ([one(0.1, 0.01), one(0.02, 0.005)], [3.0, 2.5]);
    let first: f64 = 1.0 - 0.9f64.powf(3.0) * 0.98f64.powf(2.5);
    let second = 1.0 - 0.99f64.powf(3.0) * 0.995f64.powf(2.5);
    let beyond = |bound, limit| removed(&[(event(0.1, 1.0), 1)], 1e-5, bound).beyond(&losses, &counts, limit);
    let found = beyond(Bound::Upper, 1.0);
    assert!(found >= first && found <= first * (1.0 + 1e-9), "{found} {first}");
    for limit in [0.0, 1.5] {
        let (found, exact) = (beyond(Bound::Lower, limit), first - exp(limit) * second);
        assert!(found <= exact && found >= exact * (1.0 - 1e-8), "{found} {exact}");
    }
    assert_eq!((beyond(Bound::Lower, 9.0), beyond(Bound::Lower, f64::INFINITY)), (0.0, 0.0));
    // For one event the result is the mass itself, despite the rounding of the logarithm and the exponential.
    for mass in (1..400).map(|k| f64::from(k) * 2.3e-3) {
        let found =
            removed(&[(event(0.1, 1.0), 1)], 1e-5, Bound::Upper).beyond(&[one(mass, 0.0)], &[1.0], f64::INFINITY);
        assert!(found >= mass && found < mass * (1.0 + 2e-10), "{found:e}, not {mass:e}");
    }
}

#[test]
fn counts_add_up_shares_of_mixtures() {
    let mut question = removed(&[(event(0.1, 1.0), 1), (event(0.1, 2.0), 1)], 1e-5, Bound::Upper);
    question.events.mixtures = vec![(vec![(0, 0.25), (1, 0.75)], 4), (vec![(1, 1.0)], 3), (vec![(0, 0.5)], 6)];
    assert_eq!(question.counts(), [4.0, 6.0]);
}

#[test]
fn nodes_leave_a_small_part_of_delta() {
    let events = [(event(0.1, 1.0), 70), (event(0.2, 2.0), 30)];
    let reach = removed(&events, 1e-5, Bound::Upper).reach;
    near(100.0 * exp(-reach * reach / 2.0), 1e-12, 1e-9);
    assert_eq!(removed(&events, 5e-324, Bound::Upper).reach, sqrt(2000.0));
    let endless = removed(&[(event(0.1, 1e300), 1), (event(0.1, 2.0), 1)], 1e-5, Bound::Upper);
    assert_eq!(endless.events.knots.iter().map(SampledGaussian::multiplier).fold(0.0, f64::max), 1e9);
}

/// A window of the requested width. Its step is the largest power of two with an allowed excess.
#[test]
fn steps_are_as_coarse_as_is_allowed() {
    for (events, delta) in [
        ([(event(1.0, 1.0), 3), (event(1.0, 2.0), 4)], 1e-5),
        ([(event(0.01, 1.0), 900), (event(0.02, 0.8), 300)], 1e-6),
        ([(event(0.3, 30.0), 9), (event(0.5, 20.0), 30)], 1e-3),
    ] {
        let question = removed(&events, delta, Bound::Upper);
        let (losses, counts) = (question.losses(FINE), question.counts());
        let aim = question.aim(&losses, &counts, delta);
        let (step, len) = question.step(&losses, &counts, &aim, allowed(&aim));
        let low = (aim.mean - 9.0 * aim.deviation).min(aim.epsilon - 30.0 / aim.tilt);
        let high = (aim.mean + 9.0 * aim.deviation).max(aim.epsilon + 30.0 / aim.tilt);
        assert_eq!(super::above(&aim), high);
        let width = step * len as f64;
        assert!(width >= high - low && width < 2.0 * (high - low) * (1.0 + 1e-12), "{width} {low} {high}");
        assert_eq!(step.log2().fract(), 0.0);
        // The amount that the grid adds to `ln M`, computed directly.
        let added = |step: f64, len: usize| -> f64 {
            let one = |losses: &Losses| {
                grid::spread(losses, aim.tilt, step, 64 * len).ln_moment - losses.tilted(aim.tilt).ln_moment
            };
            losses.iter().zip(&counts).map(|(losses, count)| count * one(losses)).sum()
        };
        let costs = |step: f64, len: usize| added(step, len) / aim.tilt / aim.epsilon;
        assert!(costs(step, len) <= 1.1e-3, "{}", costs(step, len));
        let coarser = 2.0 * step;
        assert!(
            len == SHORTEST || costs(coarser, len) >= 0.9e-3 || coarser * (aim.tilt + 1.0) >= 0.5,
            "{len}: {}",
            costs(coarser, len)
        );
        assert_eq!(top(&aim, step, 0.25), ((high - 0.25) / step).ceil() as i64);
    }
    assert_eq!([0.3, 0.5, 5.0].map(exp2_up), [0.5, 0.5, 8.0]);
}

#[test]
fn a_step_may_cost_a_thousandth() {
    for (epsilon, tilt, costs) in [(2.0, 5.0, 2e-3), (1e-3, 40.0, 1.5e-5)] {
        let aim = Aim { tilt, value: epsilon, epsilon, mean: 1.0, deviation: 1.0, reach: 9.0 };
        near(chernoff(3.0 + allowed(&aim), tilt, 1e-5) - chernoff(3.0, tilt, 1e-5), costs, 1e-9);
    }
}

#[test]
fn what_lies_beyond_is_taken_from_delta() {
    for parts in FULL {
        let (events, delta) = (full(parts), 1e-5);
        let question = removed(&events, delta, Bound::Upper);
        let (losses, counts) = (question.losses(FINE), question.counts());
        let aim = question.aim(&losses, &counts, delta);
        let (step, len) = question.step(&losses, &counts, &aim, allowed(&aim));
        for left in [0.5, 0.01] {
            let found = question.at(&losses, &counts, &aim, (1.0 - left) * delta, f64::INFINITY, (step, len)).unwrap();
            let exact = gaussian_epsilon(shift(&events), left * delta);
            assert!(found >= exact && found < 1.01 * exact, "{found} {exact}");
        }
    }
}

/// The composition is skipped if and only if Chernoff's bound is below the cost of another pair.
#[test]
fn moments_suffice_below_the_least() {
    let events = full(FULL[0]);
    let question = removed(&events, 1e-5, Bound::Upper);
    let (losses, counts) = (question.losses(FINE), question.counts());
    let beyond = question.beyond(&losses, &counts, f64::INFINITY);
    let tilt = question.aim(&losses, &counts, 1e-5 - beyond).tilt;
    let ln_moment = losses.iter().zip(&counts).map(|(one, count)| count * one.tilted(tilt).ln_moment);
    let moments = chernoff(ln_moment.sum(), tilt, 1e-5 - beyond);
    let settled = |least: f64| {
        let question = Question { least, ..removed(&events, 1e-5, Bound::Upper) };
        question.settled(&losses, &counts, f64::INFINITY, true).unwrap().epsilon
    };
    near(settled(1.00001 * moments), (1.0 + 1e-6) * moments, 1e-9);
    for least in [0.0, 0.5 * moments, moments] {
        near(settled(least), gaussian_epsilon(shift(&events), 1e-5), 2e-3);
    }
    assert!(moments > 1.01 * settled(0.0));
}

/// If many losses add up, the cost of a step is known in advance, and one grid suffices. If few do, the first result is
/// rough.
#[test]
fn one_grid_settles_what_is_known_before() {
    let few = [(event(1e-4, 0.5), 100), (event(1e-4, 0.6), 50)];
    for (events, heavy) in [(full(FULL[0]), false), (full(FULL[1]), false), (full(FULL[2]), false), (few, true)] {
        let question = removed(&events, 1e-6, Bound::Upper);
        let (losses, counts) = (question.losses(FINE), question.counts());
        let beyond = question.beyond(&losses, &counts, f64::INFINITY);
        let aim = question.aim(&losses, &counts, 1e-6 - beyond);
        let (step, len) = question.step(&losses, &counts, &aim, allowed(&aim));
        let first = question.at(&losses, &counts, &aim, beyond, f64::INFINITY, (step, len)).unwrap();
        let settled = |rough| question.settled(&losses, &counts, f64::INFINITY, rough).unwrap();
        assert_eq!((settled(true).epsilon, settled(true).heavy), (first, heavy));
        assert_eq!(settled(false).epsilon == first, !heavy);
        assert!(settled(false).epsilon <= first);
    }
}

/// A window that ends 3.1 deviations below the mean. The mass below may be folded into it, and is subtracted.
#[test]
fn lower_bounds_take_off_what_is_folded() {
    let (events, delta, len) = (full(FULL[0]), 1e-5, 1024);
    let (shift, question) = (shift(&events), removed(&events, delta, Bound::Lower));
    let (losses, counts) = (question.losses(FINE), question.counts());
    let aim = question.aim(&losses, &counts, delta);
    let (step, width) = (1.0 / 64.0, 16.0);
    let aim = Aim { reach: width - 3.1 * shift, epsilon: 0.0, ..aim };
    assert_eq!(super::above(&aim), aim.mean + aim.reach);
    let found = question.at(&losses, &counts, &aim, 0.0, f64::INFINITY, (step, len)).unwrap();
    // At least the mass below the lower end, with the largest weight κ ≤ 1.
    let (mean, tilt) = (shift * shift * (0.5 + aim.tilt), aim.tilt);
    let below = above((mean - (aim.mean + aim.reach - width)) / shift);
    let most = |epsilon: f64| {
        let folded = exp(tilt * (tilt + 1.0) * shift * shift / 2.0 - tilt * epsilon) * below;
        above(epsilon / shift - shift / 2.0) - exp(epsilon) * above(epsilon / shift + shift / 2.0) - folded
    };
    assert!(most(found) >= delta, "{found}: {:e}", most(found));
    assert!(found > 0.9 * gaussian_epsilon(shift, delta), "{found}");
}

#[test]
fn answers_enclose_the_gaussian() {
    for parts in FULL {
        let events = full(parts);
        for delta in [1e-3, 1e-8] {
            let exact = gaussian_epsilon(shift(&events), delta);
            let [low, high] =
                [epsilon_lower_bound, epsilon].map(|bound| bound(&events, Neighbours::AddOrRemove, delta).unwrap());
            assert!(low <= exact && exact <= high, "{low} {exact} {high}");
            assert!(high - low <= 1.2e-3 * exact + 2e-5, "{low} {exact} {high}");
        }
    }
}

/// So many events that the nodes have a wider spacing.
#[test]
fn answers_hold_for_many_events() {
    let events: Vec<_> = (0..60).map(|k| (event(1.0, 2.0 * 1.09f64.powi(k)), 1 + k as u64)).collect();
    assert!(removed(&events, 1e-5, Bound::Upper).events.knots.len() > MANY);
    for delta in [1e-3, 1e-8] {
        let exact = gaussian_epsilon(shift(&events), delta);
        let found = epsilon(&events, Neighbours::AddOrRemove, delta).unwrap();
        assert!(exact <= found && found < 1.003 * exact, "{exact} {found}");
    }
}

/// Values of the independent generator: few large losses determine δ, many losses do, and cases in between.
#[test]
fn answers_enclose_recorded_bounds() {
    for line in include_str!("../../vectors/pld.tsv").lines().filter(|line| !line.starts_with('#')).step_by(24) {
        let fields: Vec<f64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let [numerator, sigma, steps, delta, least, most] = fields[..] else { panic!("{line}") };
        let events =
            [(SampledGaussian::new(Rate::from_numerator(numerator as u64).unwrap(), sigma).unwrap(), steps as u64)];
        let [low, high] =
            [epsilon_lower_bound, epsilon].map(|bound| bound(&events, Neighbours::AddOrRemove, delta).unwrap());
        println!("{line}: {} {}", low / least - 1.0, high / least - 1.0);
        assert!(low <= most && high >= least && low <= high, "{line}: {low} {high}");
        assert!(high - low <= 1.5e-3 * least + 2e-5, "{line}: {low} {high}");
    }
}

#[test]
fn what_can_not_be_asked_is_refused() {
    let one = event(0.1, 1.0);
    for bound in [epsilon, epsilon_lower_bound, of_discrete] {
        assert_eq!(bound(&[(one, 0)], Neighbours::AddOrRemove, 1e-5), Err(AccountingError::Steps));
        for delta in [0.0, 1.0, f64::NAN] {
            assert!(matches!(bound(&[(one, 1)], Neighbours::AddOrRemove, delta), Err(AccountingError::Delta(_))));
        }
    }
    assert_eq!(epsilon(&[(event(0.1, 0.01), 1)], Neighbours::AddOrRemove, 1e-5), Ok(f64::INFINITY));
}
