use super::super::double_double::{DoubleDouble, convolved, power_of};
use super::*;

/// Masses with a sum of at most 1, like those on a grid, smooth or not.
fn masses(len: usize, bulk: f64, width: f64, rough: usize) -> Folded {
    let unscaled = |i: usize| exp(-(i as f64 - bulk).powi(2) / width) * (1.0 + (i * 31 % rough) as f64) + 1e-9;
    let sum = (0..len).map(unscaled).sum::<f64>() * (1.0 + 1e-10);
    let mass: Vec<f64> = (0..len).map(|i| unscaled(i) / sum).collect();
    let norm = sqrt(mass.iter().map(|mass| mass * mass).sum());
    Folded { mass, offset: 0.0, ln_moment: 0.0, norm }
}

fn distance(ours: &[f64], exact: &[DoubleDouble]) -> f64 {
    sqrt(ours.iter().zip(exact).map(|(ours, exact)| exact.minus(*ours).powi(2)).sum())
}

/// The norm of `e^(-λy) (1 - e^-y)` on multiples of the step from any offset. The result is an upper bound, and close
/// at both ends of λ.
#[test]
fn kernel_norm_is_the_norm_of_the_kernel() {
    for (tilt, step) in [(0.01, 0.1), (100.0, 1e-4)] {
        let found = kernel_norm(tilt, step).powi(2);
        for place in 0..8 {
            let from = f64::from(place) / 8.0 * step;
            let kernel = |k: u32| {
                let y = from + f64::from(k) * step;
                (-tilt * y).exp() * -(-y).exp_m1()
            };
            let sum: f64 = (0..20_000).map(|k| kernel(k).powi(2)).sum();
            assert!(sum <= found && found <= 1.06 * sum, "{tilt}, {step}: {found:e}, {sum:e}");
        }
    }
}

// The computed composition differs from the exact composition by less than its error bound.
#[test]
fn composition_error_is_within_bound() {
    let (mut most, mut count) = (0.0f64, 0);
    for len in [16usize, 64, 256, 1024] {
        for (rough, width) in [(1, 40.0), (5, 3.0), (13, 4e3)] {
            let parts = [masses(len, len as f64 / 3.0, width, rough), masses(len, 2.0, 2.0 * width, 3)];
            // Shares that are not exact in floating point. The second event is a mixture.
            let events: [(&[(usize, f64)], u64); 3] =
                [(&[(0, 1.0)], 1), (&[(0, 0.25), (1, 0.75)], 37), (&[(1, 1.0)], 500)];
            for used in 1..=events.len() {
                let mut composer = Composer::new(len);
                parts.iter().for_each(|part| composer.part(part.clone()));
                let mut exact = vec![DoubleDouble::ZERO; len];
                exact[0] = DoubleDouble::ONE;
                for (mixture, times) in &events[..used] {
                    composer.compose(mixture, *times);
                    let mixed: Vec<DoubleDouble> = (0..len)
                        .map(|i| {
                            let terms =
                                mixture.iter().map(|(part, share)| DoubleDouble::product(parts[*part].mass[i], *share));
                            terms.fold(DoubleDouble::ZERO, DoubleDouble::plus)
                        })
                        .collect();
                    exact = convolved(&exact, &power_of(&mixed, *times));
                }
                let composed = composer.finish();
                let (off, bound) = (distance(&composed.mass, &exact), composed.error);
                assert!(off > 0.0 && off <= bound, "{len} {rough} {used}: {off:e} {bound:e}");
                most = most.max(off / bound);
                count += 1;
            }
        }
    }
    println!("{count} compositions: at most {most:.3} of the bound");
    assert!(most > 1e-4, "a bound so far off was not checked: {most:e}");
}

// For every length, a transform and its inverse err by less than the stated constant.
#[test]
fn fft_round_trip_error_is_within_bound() {
    // Forward and back: for a single event, the product is its transform.
    let mut most = 0.0f64;
    for digits in 10..=20 {
        let len = 1usize << digits;
        for rough in [1, 2, 97] {
            let part = masses(len, len as f64 / 5.0, (len as f64).powi(2) / 50.0, rough);
            let exact: Vec<DoubleDouble> = part.mass.iter().map(|mass| DoubleDouble::product(*mass, 1.0)).collect();
            let mut composer = Composer::new(len);
            composer.part(part);
            composer.compose(&[(0, 1.0)], 1);
            let norm = composer.parts[0].norm;
            let both = 2.0 * composer.transform_error() * norm;
            let composed = composer.finish();
            let off = distance(&composed.mass, &exact);
            assert!(off > 0.0 && off <= both, "2^{digits}: {off:e} {both:e}");
            most = most.max(off / both);
        }
    }
    println!("at most {most:.3} of the constant");
}

/// `e^{−2πi·m/len}` to a unit in the last place: an angle within an eighth of the circle has a small error.
fn root(m: usize, len: usize) -> Complex<f64> {
    let (eighth, within) = (8 * m / len, (8 * m % len) as f64 / len as f64);
    let angle = |within: f64| std::f64::consts::FRAC_PI_4 * within;
    let at = |eighths: f64| (libm::cos(angle(eighths)), libm::sin(angle(eighths)));
    let ((c, s), (d, t)) = (at(within), at(1.0 - within));
    let (re, im) = [(c, s), (t, d), (-s, c), (-d, t), (-c, -s), (-t, -d), (s, -c), (d, -t)][eighth % 8];
    Complex::new(re, -im)
}

// The transform equals the sum over all roots of unity, within the stated constant.
#[test]
fn fft_matches_definition_within_bound() {
    let mut most = 0.0f64;
    for digits in [10, 13, 16] {
        let len = 1usize << digits;
        for rough in [1, 2, 97] {
            let folded = masses(len, len as f64 / 5.0, (len as f64).powi(2) / 50.0, rough);
            let mass = folded.mass.clone();
            let mut composer = Composer::new(len);
            composer.part(folded);
            let part = &composer.parts[0];
            let bound = composer.transform_error() * part.norm * sqrt(len as f64);
            // One frequency may have an error of at most the whole 2-norm. So may the frequencies checked together.
            let off = |k: usize| {
                let (mut re, mut im) = (DoubleDouble::ZERO, DoubleDouble::ZERO);
                for (i, mass) in mass.iter().enumerate() {
                    let root = root(i * k % len, len);
                    re = re.plus(DoubleDouble::product(*mass, root.re));
                    im = im.plus(DoubleDouble::product(*mass, root.im));
                }
                let value = part.spectrum[k];
                re.minus(value.re).powi(2) + im.minus(value.im).powi(2)
            };
            let some = (0..40).chain((0..=len / 2).step_by(len / 64));
            let off = sqrt(some.map(off).sum());
            assert!(off > 0.0 && off <= bound, "2^{digits} {rough}: {off:e} {bound:e}");
            most = most.max(off / bound);
        }
    }
    println!("at most {most:.3} of the constant");
}

/// A tilted, uneven mass over multiples of 1/32, with a bulk of this deviation.
fn composed(offset: f64, ln_moment: f64) -> Composed {
    let folded = masses(1024, 300.0, 2e4, 5);
    Composed { mass: folded.mass, offset, ln_moment, ln_slack: 0.0, error: 0.0 }
}

fn window(tilt: f64, top: i64) -> Window {
    Window { tilt, step: 1.0 / 32.0, top, folded: 0.0 }
}

impl Composed {
    /// `Σ_{s>ε} M e^(-λs) p(s) (1 - e^(ε-s))`, term by term, and its derivative.
    fn direct(&self, window: &Window, epsilon: f64) -> (f64, f64) {
        let len = self.mass.len() as i64;
        let term = |at: i64| {
            let loss = self.offset + at as f64 * window.step;
            let mass = self.mass[at.rem_euclid(len) as usize] * exp(self.ln_moment - window.tilt * loss);
            if loss > epsilon { (-mass * expm1(epsilon - loss), -mass * exp(epsilon - loss)) } else { (0.0, 0.0) }
        };
        (window.top - len + 1..=window.top).map(term).fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d))
    }
}

/// For ε on multiples and between them: computes δ by direct sums, and recovers ε from it.
#[test]
fn epsilon_is_where_a_direct_sum_is_delta() {
    for (tilt, top, offset, ln_moment) in [(2.0, 900, 0.013, 3.0), (0.9, 1000, -0.5, 0.1), (6.0, 500, 0.0, 40.0)] {
        let (composed, window) = (composed(offset, ln_moment), window(tilt, top));
        let lowest = if tilt < 1.0 { 0.1 } else { 2.0 };
        for epsilon in [lowest, 4.0, 4.01, 4.05 + offset, 6.25 + offset, 7.3] {
            let (delta, slope) = composed.direct(&window, epsilon);
            let rounded = 2e-12 * (1.0 - delta / slope);
            for (infinite, least) in [(0.0, 0.0), (0.25 * delta, 0.05)] {
                let found = |bound| composed.epsilon(&window, bound, delta + infinite, infinite, least).unwrap();
                let (high, low) = (found(Bound::Upper), found(Bound::Lower));
                // The upper bound also moves all mass above the top to the top.
                let topmost = exp(-(tilt - 0.1) * (top as f64 / 32.0 - epsilon)).max(rounded);
                assert!(low <= epsilon && low >= epsilon - rounded, "{tilt}: {low} {epsilon}");
                assert!(high >= epsilon && high <= epsilon + 100.0 * topmost, "{tilt}: {high} {epsilon}");
            }
        }
        let all = composed.direct(&window, 1.0).0;
        let asked = |bound, delta, infinite| composed.epsilon(&window, bound, delta, infinite, 1.0);
        let least = asked(Bound::Upper, 1.5 * all, 0.0).unwrap();
        assert!(least <= 1.0 && least > 1.0 - 1.1 / 32.0, "{least}");
        assert_eq!(asked(Bound::Lower, 1.5 * all, 0.0), None);
        for bound in [Bound::Upper, Bound::Lower] {
            assert_eq!(asked(bound, 0.1, 0.1), None);
            assert_eq!(
                Composed { error: 2e-3, ..self::composed(offset, 0.0) }.epsilon(&window, bound, 0.1, 0.0, 0.0),
                None
            );
        }
    }
}

#[test]
fn errors_move_epsilon_by_their_share() {
    let (tilt, top, epsilon) = (2.0, 900, 5.0 + 0.3 / 32.0);
    let plain = composed(0.0, 3.0);
    let (delta, slope) = plain.direct(&window(tilt, top), epsilon);
    let moved = |changed: &Composed, window: &Window, bound| {
        let at = |composed: &Composed, window: &Window| composed.epsilon(window, bound, delta, 0.0, 0.0).unwrap();
        at(changed, window) - at(&plain, &self::window(tilt, top))
    };
    for (bound, sign) in [(Bound::Upper, 1.0), (Bound::Lower, -1.0)] {
        let near = |found: f64, share: f64| {
            let exact = sign * share / -slope;
            assert!((found / exact - 1.0).abs() < 0.05, "{bound:?}: {found:e} {exact:e}");
        };
        let slack = Composed { ln_slack: 1e-5, ..composed(0.0, 3.0) };
        near(moved(&slack, &window(tilt, top), bound), 1e-5 * delta);
        // Relative to the mass on the multiple below.
        let unit = exp(3.0 - tilt * 5.0);
        let folded = Window { folded: 1e-6, ..window(tilt, top) };
        near(moved(&plain, &folded, bound), 1e-6 * unit);
        let error = Composed { error: 1e-7, ..composed(0.0, 3.0) };
        near(moved(&error, &window(tilt, top), bound), 1e-7 * kernel_norm(tilt, 1.0 / 32.0) * unit);
    }
}

/// Both bounds differ by twice the rounding errors of `ln M`, offsets and sums.
#[test]
fn bounds_differ_by_their_roundings() {
    let unit = f64::EPSILON;
    let small = || Composed { mass: masses(64, 20.0, 40.0, 5).mass, ..composed(0.0, 3.0) };
    let at = |around: i64| window(2.0, 900 + around);
    let coarse = Window { step: 0.5, ..window(2.0, 50) };
    let coarsest = Window { step: 4.0, ..window(2.0, 9) };
    for (composed, window, place, epsilon) in [
        (composed(0.0, 3.0), at(0), 0.0, 5.01),
        (composed(2000.0, 4003.0), at(0), 2000.0, 5.01),
        (composed(2000.0, 253.0), at(-60_000), 125.0, 5.01),
        (composed(33_554_432.0, 3.0), at(-1 << 30), 0.0, 5.01),
        (small(), coarse, 0.0, 4.53),
        (small(), coarsest, 0.0, 3.95),
    ] {
        let (delta, slope) = composed.direct(&window, place + epsilon);
        let found = |bound| composed.epsilon(&window, bound, delta, 0.0, place).unwrap();
        let width = found(Bound::Upper) - found(Bound::Lower);
        let places = window.tilt * window.step * f64::abs(window.top as f64);
        let logarithms = 8.0 * unit * (composed.ln_moment + places + 64.0);
        let relative = logarithms + 4.0 * unit * (composed.mass.len() as f64 + 64.0);
        let places = composed.offset + (place + epsilon).abs() + window.step;
        let expected = 2.0 * (relative * delta / -slope + 4.0 * unit * places);
        assert!((width / expected - 1.0).abs() < 0.03, "{place} {epsilon}: {width:e} {expected:e}");
    }
}

#[test]
fn what_is_composed_adds_up() {
    let unit = f64::EPSILON;
    let part = |ln_moment: f64, offset: f64, bulk: f64| Folded { ln_moment, offset, ..masses(256, bulk, 40.0, 3) };
    let parts = [part(0.5, 0.3, 90.0), part(2.0, 0.3, 20.0), part(-300.0, -0.7, 50.0), part(300.0, 0.3, 50.0)];
    let norms = [0, 1, 2, 3].map(|at: usize| parts[at].norm);
    let mut composer = Composer::new(256);
    parts.into_iter().for_each(|part| composer.part(part));
    let near = |found: f64, exact: f64| assert!((found / exact - 1.0).abs() < 1e-9, "{found:e} {exact:e}");

    composer.compose(&[(0, 0.25), (1, 0.75)], 7);
    let (first, second) = (0.25 * exp(0.5), 0.75 * exp(2.0));
    near(composer.ln_moment, 7.0 * log(first + second));
    near(composer.ln_slack, unit * (112.0 * (1.0 + log(first + second)) + 2.0 * 7.0 * log(first + second)));
    let norm = (first * norms[0] + second * norms[1]) / (first + second);
    let one = |norm: f64| 20.0 * unit / 2.0 * 10.0 * norm + 8.0 * unit;
    near(composer.error, 7.0 * one(norm));
    assert!(composer.offset < 2.1 && composer.offset > 2.1 - 4e-15, "{:e}", composer.offset - 2.1);

    let (slack, error) = (composer.ln_slack, composer.error);
    composer.compose(&[(2, 1.0)], 5);
    let ln_moment = 7.0 * log(first + second) - 1500.0;
    near(composer.ln_moment, ln_moment);
    near(composer.ln_slack, slack + unit * (80.0 * 301.0 - 2.0 * ln_moment));
    near(composer.error, error + 5.0 * one(norms[2]));
    assert!(composer.offset < -1.4 && composer.offset > -1.4 - 1e-14, "{:e}", composer.offset + 1.4);

    // A share that is NaN unless it is divided by the largest.
    let mut composer = Composer { offset: 0.0, ln_moment: 0.0, ln_slack: 0.0, error: 0.0, ..composer };
    composer.compose(&[(0, 0.5), (1, 0.25), (3, 0.25)], 2000);
    near(composer.ln_moment, 2000.0 * (300.0 + log(0.25)));
    let error = 2000.0 * one(norms[3]);
    near(composer.error, error);
    near(composer.finish().error, error + 20.0 * unit / 2.0 * 10.0 * (1.0 + error));
}

/// A binomial distribution has the transform `cos^n`. Values of at least 1e-30 are kept.
#[test]
fn frequencies_are_kept_until_they_vanish() {
    let len = 1 << 10;
    let mut mass = vec![0.0; len];
    (mass[0], mass[1]) = (0.5, 0.5);
    let mut composer = Composer::new(len);
    composer.part(Folded { mass, offset: 0.0, ln_moment: 0.0, norm: sqrt(0.5) });
    composer.compose(&[(0, 1.0)], 50);
    for (k, value) in composer.product.iter().enumerate() {
        let size = libm::cos(std::f64::consts::PI * k as f64 / len as f64).abs().powi(50);
        let off = (value.norm() / size - 1.0).abs();
        assert!(if size > 1.01e-30 { off < 1e-9 } else { size > 0.99e-30 || value.norm() == 0.0 }, "{k}: {size:e}");
    }
    assert_eq!(composer.live.len(), composer.product.iter().filter(|value| value.norm() > 0.0).count());
}

#[test]
fn a_power_is_the_repeated_product() {
    let z = Complex::new(0.6, -0.7);
    let product = |n: u64| (0..n).fold(Complex::new(1.0, 0.0), |product, _| product * z);
    for n in [0, 1, 2, 3, 10, 63, 64] {
        assert!((power(z, n) - product(n)).norm() < 1e-14);
    }
}
