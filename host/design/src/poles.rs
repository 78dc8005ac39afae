//! Poles of a filter: all roots of a real polynomial at once, by the Aberth–Ehrlich iteration.

use num_complex::Complex64;

/// Returns the roots of `z^n + a_1·z^(n−1) + … + a_n`, sorted by falling modulus. The accuracy of a root with
/// multiplicity `m` is about the `m`-th root of f64's precision.
#[must_use]
pub fn poles(a: &[f64]) -> Vec<Complex64> {
    let used = a.iter().rposition(|a| *a != 0.0).map_or(0, |last| last + 1);
    let a = &a[..used];
    // Fujiwara's bound on the moduli. Zeros at the end of `a` are roots at 0 that the filter does not have.
    let radius = (1..).zip(a).map(|(i, a)| 2.0 * a.abs().powf(1.0 / f64::from(i))).fold(0.0, f64::max);
    let mut roots: Vec<Complex64> = (0..used)
        .map(|k| Complex64::from_polar(0.5 * radius, 0.4 + std::f64::consts::TAU * k as f64 / used as f64))
        .collect();
    for _ in 0..500 {
        let mut moved = 0.0f64;
        for i in 0..used {
            let (value, slope) = evaluate(a, roots[i]);
            if value == Complex64::default() {
                continue;
            }
            let newton = slope / value;
            let others = roots.iter().enumerate().filter(|(j, _)| *j != i);
            let repelled = others.fold(newton, |sum, (_, other)| sum - Complex64::from(1.0) / (roots[i] - *other));
            let step = Complex64::from(1.0) / repelled;
            if step.norm().is_finite() {
                roots[i] -= step;
                moved = moved.max(step.norm());
            }
        }
        if moved < 1e-16 * radius {
            break;
        }
    }
    for root in &mut roots {
        if root.im.abs() < 1e-7 * radius {
            root.im = 0.0;
        }
        if root.re.abs() < 1e-12 * radius {
            root.re = 0.0;
        }
    }
    roots.sort_by(|x, y| y.norm().total_cmp(&x.norm()).then(y.im.total_cmp(&x.im)));
    roots
}

/// Evaluates the polynomial and its derivative.
fn evaluate(a: &[f64], z: Complex64) -> (Complex64, Complex64) {
    let start = (Complex64::from(1.0), Complex64::default());
    a.iter().fold(start, |(value, slope), a| (value * z + Complex64::from(*a), slope * z + value))
}

/// Formats poles with their moduli, a conjugate pair as one entry.
pub(super) fn poles_text(poles: &[Complex64]) -> String {
    let upper = poles.iter().filter(|pole| pole.im >= 0.0);
    let texts = upper.map(|pole| {
        let imaginary = if pole.im == 0.0 { String::new() } else { format!(" +/- {:.4}i", pole.im) };
        format!("{:.4}{imaginary} (modulus {:.4})", pole.re, pole.norm())
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { "none".into() } else { texts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_roots_are_found() {
        assert!(poles(&[]).is_empty() && poles(&[0.0, 0.0]).is_empty());
        for (a, expected) in [
            (&[-0.9][..], &[(0.9, 0.0)][..]),
            (&[-0.9, 0.0], &[(0.9, 0.0)]),
            (&[-1.8, 0.85], &[(0.9, 0.2), (0.9, -0.2)]),
            (&[-0.7, -0.2], &[(0.917_891, 0.0), (-0.217_891, 0.0)]),
            (&[0.0, 0.0, -8.0], &[(-1.0, 3f64.sqrt()), (2.0, 0.0), (-1.0, -(3f64.sqrt()))]),
        ] {
            let mut found = poles(a);
            assert_eq!(found.len(), expected.len());
            for (re, im) in expected {
                let near = found.iter().position(|z| (*z - Complex64::new(*re, *im)).norm() < 1e-6);
                found.remove(near.unwrap_or_else(|| panic!("{re} {im} not in {found:?}")));
            }
        }
    }

    #[test]
    fn a_double_root_is_real() {
        for root in poles(&[-1.8, 0.81]) {
            assert!((root.re - 0.9).abs() < 1e-6 && root.im == 0.0, "{root:?}");
        }
    }

    proptest! {
        // Every root is a zero of the polynomial. Their product is the last coefficient.
        #[test]
        fn roots_are_valid_and_product_is_last(a in prop::collection::vec(-2.0..2.0f64, 1..12)) {
            let roots = poles(&a);
            let product = roots.iter().fold(1.0, |product, root| product * root.norm());
            prop_assert!((product / a[a.len() - 1].abs() - 1.0).abs() < 1e-6, "{:?}", roots);
            for root in roots {
                let scale = a.iter().fold(1.0, |scale, a| scale * root.norm() + a.abs());
                prop_assert!(evaluate(&a, root).0.norm() < 1e-6 * scale, "{:?}", root);
            }
        }
    }
}
