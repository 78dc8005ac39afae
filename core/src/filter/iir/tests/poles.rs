//! Filters with random poles.

use super::*;

/// Generates poles: real, or a conjugate pair as (modulus, angle).
fn poles(modulus: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Vec<(f64, Option<f64>)>> {
    let real = (modulus.clone(), any::<bool>()).prop_map(|(m, negative)| (if negative { -m } else { m }, None));
    let pair = (modulus, 0.01..3.13f64).prop_map(|(m, angle)| (m, Some(angle)));
    prop::collection::vec(prop_oneof![real, pair], 1..5)
}

/// Returns `a_1, a_2, …` of the filter with these poles.
fn with_poles(poles: &[(f64, Option<f64>)]) -> Vec<f64> {
    let mut a = std::vec![1.0];
    for (modulus, angle) in poles {
        let factor = match angle {
            None => std::vec![1.0, -modulus],
            Some(angle) => std::vec![1.0, -2.0 * modulus * angle.cos(), modulus * modulus],
        };
        let mut product = std::vec![0.0; a.len() + factor.len() - 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in factor.iter().enumerate() {
                product[i + j] += x * y;
            }
        }
        a = product;
    }
    a.remove(0);
    a
}

proptest! {
    #[test]
    fn stability_is_what_the_poles_say(mut poles in poles(0.0..0.999f64), outside in 1.001..3.0f64, which in any::<usize>()) {
        let a = with_poles(&poles);
        let zeros = std::vec![0.0; a.len()];
        prop_assert!(peak_squared(&mut a.clone(), &zeros).is_some(), "{:?}", poles);
        let which = which % poles.len();
        poles[which].0 = outside;
        prop_assert!(peak_squared(&mut with_poles(&poles), &zeros).is_none(), "{:?}", poles);
    }

    #[test]
    fn no_later_value_exceeds_the_peak(poles in poles(0.0..0.98f64), start in prop::collection::vec(-1.0..1.0f64, 8)) {
        let a = with_poles(&poles);
        let mut x = start[..a.len()].to_vec();
        let peak = peak_squared(&mut a.clone(), &x).unwrap();
        for _ in 0..500 {
            let last = x.iter().rev().zip(&a);
            x.push(-last.map(|(x, a)| x * a).sum::<f64>());
            prop_assert!(x[x.len() - 1].powi(2) <= peak * (1.0 + 1e-6) + 1e-12);
        }
        prop_assert!(x.iter().all(|x| x * x <= peak * (1.0 + 1e-6) + 1e-12));
    }

    // A valid filter has a positive bias correction at every step.
    #[test]
    fn valid_filter_has_positive_correction(
        poles in poles(0.0..0.97f64),
        zeros in prop::collection::vec(-0.9..0.9f32, 0..3),
    ) {
        let a: Vec<f32> = with_poles(&poles).iter().map(|a| *a as f32).collect();
        let b: Vec<f32> = [1.0].into_iter().chain(zeros).collect();
        if let Ok(filter) = Iir::<8>::new(&a, &b) {
            let c = direct_form(&wide(&a), &wide(&b), &[1.0; 1000]);
            prop_assert!(c.iter().all(|c| *c > 0.0));
            prop_assert!((c[999] / filter.dc_gain() - 1.0).abs() < 1e-6);
        }
    }
}
