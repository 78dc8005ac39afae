use super::*;
use crate::{Accountant, AccountingError, Event, Plan, Recorded, RunParts, RunSearch, Sampler};
use damper_core::accounting::event::Rate;
use damper_core::accounting::renyi::{ORDER_COUNT, ORDERS};
use damper_testing::COUNTS;
use proptest::prelude::*;

fn count(text: &str) -> CandidateCount {
    text.parse().unwrap()
}

/// `P[K = k]` for k below `most`, by multiplication.
fn chances(count: CandidateCount, most: usize) -> Vec<f64> {
    let mut weights = vec![0.0; most];
    match count {
        CandidateCount::NegativeBinomial { shape, success } => {
            weights[1] = 1.0;
            for k in 2..most {
                let l = (k - 1) as f64;
                weights[k] = weights[k - 1] * (1.0 - success.as_f64()) * (l + shape.as_f64()) / (l + 1.0);
            }
        }
        CandidateCount::Poisson { mean } => {
            weights[0] = 1.0;
            for k in 1..most {
                weights[k] = weights[k - 1] * mean.as_f64() / k as f64;
            }
        }
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The exact distribution of the best of K, with the outcomes in ascending order. The last entry is the probability of
/// no candidate.
fn best_of(candidate: &[f64], chances: &[f64]) -> Vec<f64> {
    let below = |at: usize| candidate[..at].iter().sum::<f64>().min(1.0);
    let generated = |x: f64| chances.iter().rev().fold(0.0, |sum, chance| sum * x + chance);
    let each = (0..candidate.len()).map(|at| generated(below(at + 1)) - generated(below(at)));
    each.chain([chances[0]]).collect()
}

/// The exact Rényi divergence, in the worse direction.
fn divergence(p: &[f64], q: &[f64], order: f64) -> f64 {
    let moment = |p: &[f64], q: &[f64]| -> f64 {
        let each = p.iter().zip(q).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * (p / q).powf(order - 1.0));
        each.sum()
    };
    moment(p, q).max(moment(q, p)).ln() / (order - 1.0)
}

fn curve(p: &[f64], q: &[f64]) -> Curve {
    ORDERS.map(|order| divergence(p, q, order).max(0.0))
}

/// The largest excess of the exact divergence over the bound, up to the order 64.
fn excess(count: CandidateCount, p: &[f64], q: &[f64]) -> f64 {
    let chances = chances(count, 4000);
    let bound = count.best(&curve(p, q));
    let (p, q) = (best_of(p, &chances), best_of(q, &chances));
    let at = |(order, bound): (&f64, &f64)| divergence(&p, &q, *order) - bound;
    ORDERS.iter().zip(&bound).filter(|(order, _)| **order <= 64.0).map(at).fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn means_are_those_of_the_chances() {
    for text in COUNTS {
        let direct: f64 = chances(count(text), 4000).iter().enumerate().map(|(k, chance)| k as f64 * chance).sum();
        let found = count(text).mean();
        assert!(found >= direct * (1.0 - 1e-12) && found <= direct * (1.0 + 1e-8), "{text}: {found} {direct}");
    }
}

/// Randomised response, for which the best of K is known exactly, in all orders of its outputs.
#[test]
fn bound_holds_for_randomized_response() {
    for text in COUNTS {
        for epsilon in [0.01f64, 0.1, 0.5, 1.0, 3.0] {
            let truth = epsilon.exp() / (1.0 + epsilon.exp());
            let found = excess(count(text), &[truth, 1.0 - truth], &[1.0 - truth, truth]);
            assert!(found <= 1e-9, "{text} at {epsilon}: {found}");
        }
    }
}

/// The best of a geometric number of ε-private candidates reaches the loss 3ε, the limit of the bound at high orders.
#[test]
fn three_epsilon_is_reached() {
    let (epsilon, success) = (0.5f64, 1e-7);
    // The generating function, of the probability that a candidate is above.
    let generated = |above: f64| success * (1.0 - above) / (success + (1.0 - success) * above);
    let middle = |chance: f64, above: f64| generated(above) - generated(above + chance);
    let (p, q) = (middle(1e-9 * epsilon.exp(), 1e-3 * (-epsilon).exp()), middle(1e-9, 1e-3));
    let loss = (p / q).ln();
    assert!(loss > 2.98 * epsilon && loss <= 3.0 * epsilon, "{loss}");
}

// Values of dp-accounting 0.6.0 (`_compute_rdp_repeat_and_select`) for a candidate with the divergence 0.01 λ at the
// same orders. For a negative binomial number it also takes the minimum over all higher orders.
#[test]
fn bound_is_that_of_another_implementation() {
    for (text, exact) in [
        ("geometric:0.1", [0.9005170185988092, 0.9005170185988092, 1.2635603154626036]),
        ("logarithmic:0.05", [0.6181659940264376, 0.6181659940264376, 1.0055409785374658]),
        ("negative-binomial:0.5,0.2", [0.6026071729023006, 0.6026071729023006, 1.026115974307227]),
        ("poisson:10", [2.322586004496191, 0.6846820686874506, 1.446202600248201]),
        ("poisson:2.5", [0.9362909597496913, 0.2798340112612403, 0.84695770496087]),
    ] {
        let found = count(text).best(&ORDERS.map(|order| 0.01 * order));
        for (order, exact) in [2.0, 8.0, 64.0].into_iter().zip(exact) {
            let is_higher = |of: f64| of == order || (of > order && !text.starts_with("poisson"));
            let at = |(of, divergence): (&f64, &f64)| is_higher(*of).then_some(*divergence);
            let least = ORDERS.iter().zip(&found).filter_map(at).fold(f64::INFINITY, f64::min);
            assert!((least / exact - 1.0).abs() < 1e-8, "{text} at {order}: {least} {exact}");
        }
    }
}

// The paper's corollaries. A pure candidate of ε costs (2+η)ε. A ρ-zCDP candidate costs ρλ + (1+η)(2√(ρ ln(1/γ)) − ρ) +
// ln E[K]/(λ−1).
#[test]
fn candidates_cost_what_the_paper_says() {
    for (text, shape) in [("geometric:0.01", 1.0), ("logarithmic:0.01", 0.0), ("negative-binomial:-0.5,0.01", -0.5)] {
        let pure = count(text).best(&[0.1; ORDER_COUNT]);
        let (last, mean) = (pure[ORDER_COUNT - 1], count(text).mean());
        let limit = (2.0 + shape) * 0.1;
        assert!(
            last > limit && last < limit + (1.0 + shape) * 100f64.ln() / 1024.0 + mean.ln() / 1023.0 + 1e-9,
            "{text}: {last}"
        );
        for rho in [0.001, 0.01, 0.1] {
            let found = count(text).best(&ORDERS.map(|order| rho * order));
            let excess = (1.0 + shape) * (2.0 * (rho * 100f64.ln()).sqrt() - rho);
            for (found, order) in found.iter().zip(ORDERS) {
                let paper = rho * order + excess + mean.ln() / (order - 1.0);
                assert!(*found >= paper - 1e-9 && *found <= paper * 1.01, "{text} {rho} {order}: {found} {paper}");
            }
        }
    }
}

/// A hundred candidates cost less than three in sequence, and the record has the complete search.
#[test]
fn search_costs_less_than_few_candidates() {
    let plan = Plan::constant(Rate::of(256, 50_000).unwrap(), 1.5, None, 2000).unwrap();
    let one = Recorded::new(Accountant::Pld, 1e-5, plan.events());
    let search = |text: &str| {
        let search = RunSearch { candidates: count(text), others: vec![] };
        one.with(&RunParts { search: Some(search), ..one.parts() })
    };
    let epsilon = |recorded: &Recorded| recorded.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
    let alone = epsilon(&one);
    let (ten, hundred) = (epsilon(&search("geometric:0.1")), epsilon(&search("geometric:0.01")));
    println!("{alone} {ten} {hundred}");
    assert!(alone < ten && ten < hundred && hundred < 4.0 * alone);
    let read: Recorded = serde_json::from_str(&serde_json::to_string(&search("geometric:0.1")).unwrap()).unwrap();
    assert_eq!(read, search("geometric:0.1"));
    // The worst candidate counts at each order. Its score counts too, if that costs more.
    let noisier = Plan::constant(Rate::of(256, 50_000).unwrap(), 1.2, None, 2000).unwrap();
    let draws = Event::draws(Sampler::Poisson, noisier.events());
    let search = RunSearch { candidates: count("geometric:0.1"), others: vec![[&draws, &[]]] };
    let other = one.with(&RunParts { search: Some(search.clone()), ..one.parts() });
    assert_eq!(serde_json::from_str::<Recorded>(&serde_json::to_string(&other).unwrap()).unwrap(), other);
    let search = Some(RunSearch { others: vec![], ..search });
    let noisier = RunParts { draws: &draws, search: search.clone(), ..RunParts::default() };
    assert_eq!(epsilon(&other), epsilon(&one.with(&noisier)));
    let score = [(Event::gaussian(0.3).unwrap(), 1)];
    assert!(epsilon(&one.with(&RunParts { held_out: &score, search, ..one.parts() })) > 2.0 * ten);
    assert_eq!(other.epsilon_of_replaced(1e-5), Err(AccountingError::ReplacedSearch));
}

#[test]
fn texts_are_read_and_printed_alike() {
    for text in COUNTS {
        assert_eq!(count(text).to_string(), text);
    }
    for bad in [
        "geometric",
        "geometric:0",
        "geometric:1",
        "negative-binomial:-1,0.1",
        "negative-binomial:1.5,0.1",
        "poisson:0.5",
        "x:1",
        "geometric:0.1,0.2",
    ] {
        assert_eq!(bad.parse::<CandidateCount>(), Err(AccountingError::CandidateNumber), "{bad}");
    }
}

proptest! {
    /// Random mechanisms of up to five outcomes: the bound holds for the exact distribution of the best.
    #[test]
    fn bound_holds_for_random_mechanisms(
        which in 0..COUNTS.len(),
        p in prop::collection::vec(0.001f64..1.0, 2..6),
        losses in prop::collection::vec(-1.5f64..1.5, 6),
        rare in 0i32..4,
    ) {
        let mut p: Vec<f64> = p.iter().rev().enumerate().map(|(at, p)| p * 10f64.powi(-rare * at as i32)).collect();
        let mut q: Vec<f64> = p.iter().zip(&losses).map(|(p, loss)| p * loss.exp()).collect();
        for each in [&mut p, &mut q] {
            let sum: f64 = each.iter().sum();
            each.iter_mut().for_each(|p| *p /= sum);
        }
        let found = excess(count(COUNTS[which]), &p, &q);
        prop_assert!(found <= 1e-7, "{}: {found}", COUNTS[which]);
    }
}
