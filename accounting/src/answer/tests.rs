use super::*;

const QUERY: EpsilonQuery = EpsilonQuery {
    accountant: Accountant::Rdp,
    noise_multiplier: 1.1,
    sampling_rate: 0.004,
    steps: 1000,
    delta: 1e-5,
    neighbours: Neighbours::AddOrRemove,
    count_noise_multiplier: None,
    group: None,
};
const SIGMA: CalibrateQuery = CalibrateQuery {
    accountant: Accountant::Rdp,
    epsilon: Some(2.0),
    delta: 1e-5,
    noise_multiplier: None,
    sampling_rate: Some(0.004),
    samples: None,
    batch_size: None,
    steps: Some(1000),
    grid_bits: None,
};

// The result has the fixed JSON keys. Its sampling rate is rounded up by less than 2e-16.
#[test]
fn result_has_fixed_keys() {
    let answer = QUERY.answer().unwrap();
    let json = serde_json::to_value(&answer).unwrap();
    for key in ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps"] {
        assert!(json[key].is_number(), "{key}");
    }
    assert_eq!(json["accountant"], "rdp");
    assert!(json.get("sigma_grid").is_none());
    let priced = answer.sampling_rate_numerator as f64 / 2f64.powi(53);
    assert!((0.004..0.004 + 2e-16).contains(&priced));
    assert_eq!(answer.sampling_rate, 0.004);

    let query = CalibrateQuery { grid_bits: Some(12), ..SIGMA };
    let answer = query.answer().unwrap();
    assert_eq!(answer.noise_multiplier, answer.sigma_grid.unwrap() as f64 / 4096.0);
    let again = EpsilonQuery { noise_multiplier: answer.noise_multiplier, ..QUERY }.answer().unwrap();
    assert_eq!(again.epsilon, answer.epsilon);
}

#[test]
fn names_accountant_and_neighbours() {
    let [rdp, pld] = [RDP_ASSUMES, PLD_ASSUMES];
    let smaller = [pld[0], pld[1], pld[2], pld[3], RENYI_IS_SMALLER];
    assert_eq!(assumptions(Accountant::Rdp, Neighbours::AddOrRemove, Some(2.0)), rdp);
    assert_eq!(assumptions(Accountant::Pld, Neighbours::AddOrRemove, None), pld);
    assert_eq!(assumptions(Accountant::Pld, Neighbours::AddOrRemove, Some(2.0)), smaller);
    assert_eq!(assumptions(Accountant::Pld, Neighbours::Replace, None), [REPLACED, pld[1], pld[2], pld[3], pld[4]]);
}

/// One quantity of six is missing. The case lists which quantity is found, and the result.
#[test]
fn each_question_has_its_answer() {
    let drawn = CalibrateQuery { sampling_rate: None, samples: Some(250_000), batch_size: Some(1000), ..SIGMA };
    let asked = [
        (SIGMA, None, None),
        (CalibrateQuery { epsilon: None, noise_multiplier: Some(2.0), ..SIGMA }, None, None),
        (CalibrateQuery { steps: None, noise_multiplier: Some(2.0), ..SIGMA }, None, None),
        (CalibrateQuery { sampling_rate: None, noise_multiplier: Some(2.0), ..SIGMA }, None, None),
        (CalibrateQuery { batch_size: None, noise_multiplier: Some(2.0), ..drawn }, Some(250_000), Some(1000)),
        (drawn, Some(250_000), Some(1000)),
        (CalibrateQuery { epsilon: None, noise_multiplier: Some(2.0), ..drawn }, Some(250_000), Some(1000)),
    ];
    for (query, samples, batch) in asked {
        let found = query.answer().unwrap();
        assert_eq!((found.samples, found.target_epsilon), (samples, query.epsilon), "{query:?}");
        assert!(found.batch_size == batch || query.batch_size.is_none() && batch.is_some(), "{query:?}");
        assert!(query.epsilon.is_none_or(|most| found.epsilon <= most && found.epsilon > 0.98 * most), "{query:?}");
    }
    let none = CalibrateQuery { sampling_rate: None, ..SIGMA };
    assert_eq!(none.answer(), Err(AccountingError::Free));
    assert_eq!(CalibrateQuery { samples: Some(250_000), ..none }.answer(), Err(AccountingError::Free));
}

// Calibration solves for the missing quantity. The privacy cost never exceeds the target.
#[test]
fn solves_any_quantity_below_target() {
    for accountant in [Accountant::Rdp, Accountant::Pld] {
        for target in [0.3, 2.0, 9.0] {
            let sigma = CalibrateQuery { accountant, epsilon: Some(target), ..SIGMA };
            let rate = CalibrateQuery { noise_multiplier: Some(2.0), sampling_rate: None, ..sigma };
            let steps = CalibrateQuery { noise_multiplier: Some(2.0), steps: None, ..sigma };
            let drawn = CalibrateQuery { sampling_rate: None, samples: Some(100_000), ..sigma };
            let batch = CalibrateQuery { noise_multiplier: Some(2.0), ..drawn };
            for query in [sigma, rate, steps, batch] {
                let found = query.answer().unwrap();
                if query == batch {
                    let rate = found.batch_size.unwrap() as f64 / 1e5;
                    assert!((found.sampling_rate / rate - 1.0).abs() < 1e-12, "{found:?}");
                }
                assert!(found.epsilon <= target, "{found:?}");
                // A single step may be a large part of a small budget.
                let coarse = found.steps < 300;
                assert!(found.epsilon >= 0.99 * target || coarse, "{found:?}");
                let again = EpsilonQuery {
                    accountant,
                    noise_multiplier: found.noise_multiplier,
                    sampling_rate: found.sampling_rate,
                    steps: found.steps,
                    delta: found.delta,
                    ..QUERY
                };
                assert_eq!(again.answer().unwrap().epsilon, found.epsilon);
                let free = CalibrateQuery {
                    epsilon: None,
                    noise_multiplier: Some(found.noise_multiplier),
                    sampling_rate: Some(found.sampling_rate).filter(|_| query.samples.is_none()),
                    batch_size: found.batch_size,
                    steps: Some(found.steps),
                    ..query
                };
                assert_eq!(free.answer().unwrap().epsilon, found.epsilon);
            }
        }
    }
    assert_eq!(CalibrateQuery { steps: None, ..SIGMA }.answer(), Err(AccountingError::Free));
    for query in [
        CalibrateQuery { samples: Some(100), ..SIGMA },
        CalibrateQuery { batch_size: Some(100), ..SIGMA },
        CalibrateQuery { sampling_rate: None, batch_size: Some(100), ..SIGMA },
    ] {
        assert_eq!(query.answer(), Err(AccountingError::Draws), "{query:?}");
    }
    let drawn = CalibrateQuery { sampling_rate: None, samples: Some(250_000), batch_size: Some(1000), ..SIGMA };
    let (drawn, plain) = (drawn.answer().unwrap(), SIGMA.answer().unwrap());
    assert!((drawn.noise_multiplier / plain.noise_multiplier - 1.0).abs() < 1e-3);
    assert!(drawn.to_string().contains("= 1000 of 250000 samples"), "{drawn}");
    assert_eq!(CalibrateQuery { noise_multiplier: Some(1.0), ..SIGMA }.answer(), Err(AccountingError::Free));
}

// Under replacement, the cost at sampling rate 1 follows from the joint multiplier.
#[test]
fn replace_cost_uses_joint_multiplier() {
    let query = EpsilonQuery { neighbours: Neighbours::Replace, accountant: Accountant::Pld, ..QUERY };
    let (plain, counted) = (query, EpsilonQuery { count_noise_multiplier: Some(3.0), ..query });
    let [plain, counted] = [plain, counted].map(|query| query.answer().unwrap());
    assert!(plain.assumptions[0].contains("in the place of another") && counted.epsilon > plain.epsilon);
    // At a rate of 1 the query is one Gaussian, shifted by the root of 4/σ_T² + 2/σ_H².
    let all = EpsilonQuery { sampling_rate: 1.0, noise_multiplier: 40.0, count_noise_multiplier: Some(60.0), ..query };
    let alike = EpsilonQuery {
        noise_multiplier: (4.0f64 / 1600.0 + 2.0 / 3600.0).powf(-0.5),
        count_noise_multiplier: None,
        neighbours: Neighbours::AddOrRemove,
        ..all
    };
    let [all, alike] = [all, alike].map(|query| query.answer().unwrap().epsilon);
    assert!((all / alike - 1.0).abs() < 3e-3, "{all} {alike}");
    let renyi = EpsilonQuery { accountant: Accountant::Rdp, ..query }.answer().unwrap_err().to_string();
    assert!(renyi.starts_with("`neighbours` replace") && renyi.contains("`accountant` pld"), "{renyi}");
}

// The PLD accountant needs at least 1 % less noise than the RDP accountant for the same target.
#[test]
fn pld_needs_less_noise_than_rdp() {
    let found = |accountant| CalibrateQuery { accountant, ..SIGMA }.answer().unwrap().noise_multiplier;
    let (rdp, pld) = (found(Accountant::Rdp), found(Accountant::Pld));
    assert!(pld < 0.99 * rdp && pld > 0.8 * rdp, "{pld} {rdp}");
}

#[test]
fn every_bad_flag_is_named_in_one_line() {
    let cases = [
        ("`noise_multiplier`", EpsilonQuery { noise_multiplier: 0.0, ..QUERY }),
        ("`noise_multiplier`", EpsilonQuery { noise_multiplier: f64::NAN, ..QUERY }),
        ("`noise_multiplier`", EpsilonQuery { noise_multiplier: 1e-200, ..QUERY }),
        ("`sampling_rate`", EpsilonQuery { sampling_rate: 1.5, ..QUERY }),
        ("`sampling_rate`", EpsilonQuery { sampling_rate: 0.0, ..QUERY }),
        ("`sampling_rate`", EpsilonQuery { sampling_rate: f64::NAN, ..QUERY }),
        ("`steps`", EpsilonQuery { steps: 0, ..QUERY }),
        ("`delta`", EpsilonQuery { delta: 1.0, ..QUERY }),
        ("`delta`", EpsilonQuery { delta: 0.0, ..QUERY }),
        ("`delta`", EpsilonQuery { delta: f64::NAN, ..QUERY }),
    ];
    for (flag, query) in cases {
        let message = query.answer().unwrap_err().to_string();
        assert!(message.starts_with(flag) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn printed_epsilon_rounds_up() {
    for x in [0.0, 1.00001, 1.00009, 2.5, 12.345_649_9, 1e-9] {
        let shown: f64 = upward(x).parse().unwrap();
        assert!(shown >= x && shown < x + 1.0001e-4, "{x} {shown}");
    }
}
