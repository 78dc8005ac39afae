use super::*;
use crate::{Accountant, Plan};

const BOTH: [Accountant; 2] = [Accountant::Pld, Accountant::Rdp];

fn steps(rate: f64, multiplier: f64, times: u64) -> Event {
    let rate = crate::sampling_rate(rate).unwrap();
    Event::poisson(rate, Event::gaussian(multiplier).unwrap()).unwrap().times(times)
}

fn releases(multiplier: f64, times: u64) -> Event {
    Event::gaussian(multiplier).unwrap().times(times)
}

fn epsilon(event: &Event) -> f64 {
    event.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon
}

#[test]
fn nested_events_cost_what_a_list_costs() {
    let nested = Event::compose([steps(0.01, 1.0, 30).times(10), Event::compose([steps(0.1, 2.0, 20)])]);
    let list = Event::compose([steps(0.1, 2.0, 15), steps(0.01, 1.0, 300), steps(0.1, 2.0, 5)]);
    for accountant in BOTH {
        assert_eq!(nested.epsilon(accountant, 1e-5), list.epsilon(accountant, 1e-5));
    }
    assert_eq!(nested.divergences(), list.divergences());
    assert_eq!(nested.epsilon_of_replaced(1e-5), list.epsilon_of_replaced(1e-5));
    let delta = nested.delta(Accountant::Pld, epsilon(&nested)).unwrap();
    assert!((delta / 1e-5 - 1.0).abs() < 0.01, "{delta:e}");
}

#[test]
fn releases_of_a_draw_are_one() {
    let rate = crate::sampling_rate(0.02).unwrap();
    let with_counts = Event::compose([Event::gaussian(1.1).unwrap(), Event::gaussian(5.0).unwrap()]);
    let plan = Plan::constant(rate, 1.1, Some(5.0), 200).unwrap();
    for accountant in BOTH {
        let found = Event::poisson(rate, with_counts.clone()).unwrap().times(200).epsilon(accountant, 1e-5);
        assert_eq!(found, plan.epsilon(accountant, 1e-5));
    }
    // n releases have a multiplier of 1/√n, rounded down.
    for times in [1u64, 2, 3, 7, 64, 1000, u64::MAX] {
        let found = releases(3.0, times).drawn(rate).unwrap().multiplier();
        let exact = 3.0 / (times as f64).sqrt();
        assert!(found <= exact && found >= exact * (1.0 - 1e-13), "{times}: {found} {exact}");
    }
    // Statistics are one release, in any order and however often.
    let statistic = |of, multiplier| Event::Statistic { of, multiplier };
    let (one, two) = (statistic(Statistic::FeatureMoments, 6.0), statistic(Statistic::NonFiniteCount, 9.0));
    let all = |first, second| epsilon(&Event::compose([first, second, steps(0.02, 1.1, 200)]));
    assert_eq!(all(one.clone(), two.clone()), all(two.clone(), one.clone()));
    let twice = epsilon(&Event::compose([one.clone().times(2), steps(0.02, 1.1, 200)]));
    assert!(all(one.clone(), one.clone()) == twice && twice > all(one, two));
}

#[test]
fn constructors_check_ranges() {
    for multiplier in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Event::gaussian(multiplier), Err(AccountingError::NoiseMultiplier(_))));
        // A variant built by hand has no privacy cost.
        for event in [Event::Gaussian { multiplier }, Event::draw(true, Rate::ONE, multiplier)] {
            assert!(matches!(event.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::NoiseMultiplier(_))));
        }
    }
    let (gaussian, none) = (Event::gaussian(1.0).unwrap(), Event::Compose(vec![]));
    assert_eq!(Event::poisson(Rate::ZERO, gaussian), Err(AccountingError::SamplingRate(0.0)));
    assert_eq!(Event::poisson(Rate::ONE, none.clone()), Err(AccountingError::Steps));
    for event in [steps(0.1, 1.0, 1), Event::Disjoint(vec![releases(1.0, 1)])] {
        assert_eq!(Event::poisson(Rate::ONE, event), Err(AccountingError::Drawn));
    }
    assert_eq!(Event::best_of("poisson:3".parse().unwrap(), vec![]), Err(AccountingError::Steps));
    for event in
        [none, releases(1.0, 0), Event::Disjoint(vec![]), Event::Disjoint(vec![releases(1.0, 1), releases(1.0, 0)])]
    {
        assert_eq!(event.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::Steps));
    }
    assert_eq!(releases(1.0, 1).epsilon(Accountant::Pld, 0.0), Err(AccountingError::Delta(0.0)));
}

/// Every set of one event is combined with every set of the other. If there are too many, all sets are merged.
#[test]
fn disjoint_sets_cost_the_largest() {
    let sets = |multipliers: &[f64]| Event::Disjoint(multipliers.iter().map(|z| releases(*z, 1)).collect());
    assert_eq!(epsilon(&sets(&[8.0, 5.0, 9.0])), epsilon(&releases(5.0, 1)));
    let (two, three) = (sets(&[8.0, 5.0]), sets(&[7.0, 9.0, 20.0]));
    let largest = Event::compose([releases(5.0, 1), releases(7.0, 1)]);
    assert_eq!(epsilon(&Event::compose([two.clone(), three.clone()])), epsilon(&largest));
    assert_eq!(Event::compose([two, three]).divergences(), largest.divergences());
    let many = Event::compose([sets(&[40.0; 8]), sets(&[40.0; 9])]);
    assert_eq!(epsilon(&many), epsilon(&releases(40.0, 10)));
}

#[test]
fn truncations_of_events_add_up() {
    let cut = |times, most| steps(0.1, 2.0, times).truncated(Truncation { samples: 1000, most });
    let all = epsilon(&cut(100, 170));
    let parts = epsilon(&Event::compose([cut(60, 170), cut(40, 170)]));
    assert!((parts / all - 1.0).abs() < 1e-9 && all > epsilon(&steps(0.1, 2.0, 100)), "{parts} {all}");
    let statistic = Event::Statistic { of: Statistic::NonFiniteCount, multiplier: 1e9 };
    let with_statistic = Event::compose([statistic, steps(0.1, 2.0, 100)]);
    let with_statistic = epsilon(&with_statistic.truncated(Truncation { samples: 1000, most: 170 }));
    assert!((with_statistic / all - 1.0).abs() < 1e-6, "{with_statistic} {all}");
    assert_eq!(cut(9, 170).divergences(), Err(AccountingError::TruncatedSearch));
    let best = Event::best_of("geometric:0.1".parse().unwrap(), vec![cut(9, 170)]).unwrap();
    assert_eq!(best.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::TruncatedSearch));
    assert_eq!(best.truncated(Truncation { samples: 9, most: 9 }).divergences(), Err(AccountingError::TruncatedSearch));
}

/// A search over one event costs more than the event and less than two searches. It composes with draws by Rényi
/// divergences.
#[test]
fn selections_compose() {
    let run = steps(0.01, 1.5, 500);
    let best = Event::best_of("geometric:0.2".parse().unwrap(), vec![run.clone(), steps(0.01, 2.0, 500)]).unwrap();
    let alone = Event::best_of("geometric:0.2".parse().unwrap(), vec![run.clone()]).unwrap();
    assert_eq!(epsilon(&best), epsilon(&alone));
    let (once, twice) = (epsilon(&best), epsilon(&best.clone().times(2)));
    let with_run = epsilon(&Event::compose([best.clone(), run.clone()]));
    assert!(epsilon(&run) < once && once < with_run && with_run < twice && twice < 2.0 * once);
    let listed = epsilon(&Event::compose([best.clone(), best.clone()]));
    assert!((listed / twice - 1.0).abs() < 1e-12, "{listed} {twice}");
    assert_eq!(best.epsilon_of_replaced(1e-5), Err(AccountingError::ReplacedSearch));
}
