mod poles;

use super::*;
use crate::optimizer::{Begin, Optimizer, Sgd, SgdState};
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::format;
use std::vec::Vec;

fn iir(set: &Set) -> Iir {
    Iir::new(set.a, set.b).unwrap()
}

fn wide(coefficients: &[f32]) -> Vec<f64> {
    coefficients.iter().map(|x| f64::from(*x)).collect()
}

/// The filter as in the paper, in direct form and f64. Inputs before the first step are zero.
fn direct_form(a: &[f64], b: &[f64], input: &[f64]) -> Vec<f64> {
    let mut output: Vec<f64> = Vec::new();
    for t in 0..input.len() {
        let fed: f64 = b.iter().enumerate().filter(|(r, _)| *r <= t).map(|(r, b)| b * input[t - r]).sum();
        let back: f64 = a.iter().enumerate().filter(|(r, _)| *r < t).map(|(r, a)| a * output[t - 1 - r]).sum();
        output.push(fed - back);
    }
    output
}

fn impulse_response(set: &Set, len: usize) -> Vec<f64> {
    let mut impulse = std::vec![0.0; len];
    impulse[0] = 1.0;
    direct_form(&wide(set.a), &wide(set.b), &impulse)
}

/// Returns `m̂_t` of the implementation for inputs `[t][coordinate]`, applied in segments of 64.
fn run(filter: &Iir, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let dim = inputs[0].len();
    let mut state = IirState::new(std::vec![0f32; filter.order() * dim]);
    Filter::check(filter, &state, dim).unwrap();
    let step_of = |input: &Vec<f32>| {
        let step = filter.begin(&mut state);
        let mut filtered = std::vec![f32::NAN; dim];
        for (i, (grad, filtered)) in input.chunks(64).zip(filtered.chunks_mut(64)).enumerate() {
            filter.apply(step, &mut state, 64 * i, &Released::new(grad, 0.0), filtered);
        }
        filtered
    };
    inputs.iter().map(step_of).collect()
}

fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn noise(seed: u64, steps: usize, dim: usize) -> Vec<Vec<f32>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..steps).map(|_| (0..dim).map(|_| uniform(&mut random) as f32).collect()).collect()
}

/// Returns the bound in the module's docs on the change of a constant input, in units of 2⁻²⁴, for each step.
fn rounding_bound(set: &Set, steps: usize) -> Vec<f64> {
    let (a, b) = (wide(set.a), wide(set.b));
    let order = a.len().max(b.len() - 1);
    let at = |of: &[f64], i: usize| of.get(i).copied().unwrap_or(0.0);
    let mut impulse = std::vec![0.0; steps];
    impulse[0] = 1.0;
    let h = direct_form(&a, &[1.0], &impulse);
    let mut states = std::vec![0.0; order + 1];
    // Errors that reach y at each step.
    let mut errors = std::vec![0.0; steps + order + 1];
    let mut bounds = Vec::new();
    for t in 0..steps {
        let y = b[0] + states[0];
        errors[t] += b[0].abs() + y.abs();
        for i in 0..order {
            let (b, back) = (at(&b, i + 1), at(&a, i) * y);
            states[i] = b - back + states[i + 1];
            errors[t + i + 1] += b.abs() + back.abs() + (b - back).abs() + states[i].abs();
        }
        let error: f64 = (0..=t).map(|tau| h[t - tau].abs() * errors[tau]).sum();
        bounds.push(2.0 + error / y);
    }
    bounds
}

#[test]
fn published_filters_have_unit_dc_gain() {
    for set in SETS {
        // Off only by the rounding of the coefficients, which 1 + Σ a magnifies.
        assert!((iir(set).dc_gain() - 1.0).abs() < 5e-6, "{}", set.name);
    }
    // D1 and D2 are quotients, and their gain is exactly 1.
    for (name, a, b, denominator) in
        [("d1v1", &[-9][..], &[1, 1][..], 11), ("d1v2", &[-9], &[3, -1], 11), ("d2", &[-92, 38], &[1, 2, 1], 58)]
    {
        assert_eq!(b.iter().sum::<i32>(), denominator + a.iter().sum::<i32>(), "{name}");
        let set = named(name).unwrap();
        let quotients = |numerators: &[i32]| -> Vec<f32> {
            numerators.iter().map(|numerator| (f64::from(*numerator) / f64::from(denominator)) as f32).collect()
        };
        assert_eq!((set.a, set.b), (&quotients(a)[..], &quotients(b)[..]), "{name}");
    }
}

#[test]
fn names_are_unique_and_found_in_any_case() {
    for (i, set) in SETS.iter().enumerate() {
        assert_eq!(named(&set.name.to_uppercase()), Some(set));
        assert!(SETS[..i].iter().all(|other| other.name != set.name));
    }
    assert_eq!(named("Identity"), named("sgd"));
    assert_eq!(named("p8"), None);
}

// The bias correction is the sum of the impulse response so far.
#[test]
fn bias_correction_is_impulse_sum() {
    for set in SETS {
        let (filter, kappa) = (iir(set), impulse_response(set, 300));
        let mut ones = [0.0; 8];
        let mut sum = 0.0;
        for kappa in kappa {
            sum += kappa;
            let c = filter.advance(&mut ones);
            assert!((c - sum).abs() < 1e-12, "{} {c} {sum}", set.name);
            assert!(c > 0.0 && c < 1.32, "{} {c}", set.name);
        }
    }
}

// A constant input passes unchanged at every step.
#[test]
fn constant_input_passes_unchanged() {
    let constants = [1.0f32, -0.7, 3e-20, 12345.678, 1.0 / 3.0, 0.0];
    for set in SETS {
        let bounds = rounding_bound(set, 400);
        let inputs: Vec<_> = (0..400).map(|_| constants.to_vec()).collect();
        for (t, (filtered, bound)) in run(&iir(set), &inputs).iter().zip(bounds).enumerate() {
            let stated = match set.name {
                "f6" => 316.0,
                "d2" => 115.0,
                _ => 43.0,
            };
            assert!(bound < stated, "{} {t} {bound}", set.name);
            for (filtered, constant) in filtered.iter().zip(constants) {
                let off = (f64::from(*filtered) - f64::from(constant)).abs() * 16_777_216.0;
                assert!(off <= 1.001 * bound * f64::from(constant).abs(), "{} {t} {off} {bound}", set.name);
            }
        }
    }
}

#[test]
fn the_first_output_is_the_first_input() {
    let input = noise(1, 1, 200);
    for set in SETS {
        for (filtered, grad) in run(&iir(set), &input)[0].iter().zip(&input[0]) {
            assert!((filtered - grad).abs() <= 2e-7 * grad.abs(), "{} {filtered} {grad}", set.name);
        }
    }
}

// The implementation equals the direct form, within rounding.
#[test]
fn filter_matches_direct_form() {
    const STEPS: usize = 300;
    let inputs = noise(2, STEPS, 130);
    for set in SETS {
        let outputs = run(&iir(set), &inputs);
        let (a, b) = (wide(set.a), wide(set.b));
        let c = direct_form(&a, &b, &[1.0; STEPS]);
        for coordinate in [0, 63, 64, 129] {
            let input: Vec<f64> = inputs.iter().map(|grad| f64::from(grad[coordinate])).collect();
            for (t, (m, c)) in direct_form(&a, &b, &input).iter().zip(&c).enumerate() {
                let off = (f64::from(outputs[t][coordinate]) - m / c).abs();
                assert!(off < 2e-5, "{} {t} {off}", set.name);
            }
        }
    }
}

// The output is the convolution of the input with the impulse response.
#[test]
fn output_is_impulse_convolution() {
    let input: Vec<f64> = noise(3, 200, 1).iter().map(|grad| f64::from(grad[0])).collect();
    for set in SETS {
        let kappa = impulse_response(set, 200);
        for (t, m) in direct_form(&wide(set.a), &wide(set.b), &input).iter().enumerate() {
            let sum: f64 = (0..=t).map(|r| kappa[r] * input[t - r]).sum();
            assert!((m - sum).abs() < 1e-12, "{}", set.name);
        }
    }
}

#[test]
fn pieces_do_not_matter() {
    let input = noise(4, 20, 130);
    let filter = iir(named("d2").unwrap());
    let mut state: IirState<_> = IirState::new(std::vec![0f32; 2 * 130]);
    for (grad, in_pieces) in input.iter().zip(run(&filter, &input)) {
        let step = filter.begin(&mut state);
        let mut filtered = std::vec![0f32; 130];
        filter.apply(step, &mut state, 0, &Released::new(grad, 0.0), &mut filtered);
        assert_eq!(filtered, in_pieces);
    }
}

// The identity filter keeps every bit and has no state.
#[test]
fn identity_keeps_bits_without_state() {
    let filter = iir(named("sgd").unwrap());
    assert_eq!(filter.order(), 0);
    let input = std::vec![std::vec![1.0, -0.0, 0.0, f32::MIN_POSITIVE / 8.0, -3e38, 0.1, f32::MAX]; 3];
    for (filtered, grad) in run(&filter, &input).iter().flatten().zip(input.iter().flatten()) {
        assert_eq!(filtered.to_bits(), grad.to_bits());
    }
    // Trailing zeros do not add to the order.
    assert_eq!(Iir::<8>::new(&[0.0, 0.0], &[1.0, 0.0]), Ok(filter));
}

#[test]
fn scaling_b_changes_nothing() {
    let input = noise(5, 100, 3);
    for set in SETS {
        let plain = run(&iir(set), &input);
        let scaled: Vec<f32> = set.b.iter().map(|b| 16.0 * b).collect();
        assert_eq!(run(&Iir::new(set.a, &scaled).unwrap(), &input), plain, "{}", set.name);
        let scaled: Vec<f32> = set.b.iter().map(|b| 0.3 * b).collect();
        for (x, y) in run(&Iir::new(set.a, &scaled).unwrap(), &input).iter().flatten().zip(plain.iter().flatten()) {
            assert!((x - y).abs() < 3e-5, "{} {x} {y}", set.name);
        }
    }
}

#[test]
fn the_poles_are_those_of_the_table() {
    // Moduli. The two moduli of a second-order filter with complex poles are equal.
    let table: &[(&str, &[f64])] = &[
        ("momentum", &[0.9]),
        ("d1v1", &[0.818]),
        ("d1v2", &[0.818]),
        ("d2", &[0.809, 0.809]),
        ("f3", &[0.8]),
        ("f4", &[0.6]),
        ("f5", &[0.9]),
        ("f6", &[0.922, 0.922]),
        ("p1", &[0.6]),
        ("p7", &[0.9179, 0.2179]),
    ];
    for (name, moduli) in table {
        let set = named(name).unwrap();
        let poles: Vec<f64> = match *wide(set.a) {
            [a] => std::vec![a.abs()],
            [a1, a2] => {
                let discriminant = a1 * a1 / 4.0 - a2;
                if discriminant < 0.0 {
                    std::vec![a2.sqrt(); 2]
                } else {
                    [1.0, -1.0].map(|sign| (sign * discriminant.sqrt() - a1 / 2.0).abs()).to_vec()
                }
            }
            _ => unreachable!(),
        };
        for (pole, modulus) in poles.iter().zip(*moduli) {
            assert!((pole - modulus).abs() < 6e-4, "{name} {pole}");
        }
        assert_eq!(poles.len(), moduli.len());
    }
}

/// Returns `Var(m̂_t)/σ²` for white noise.
fn variance(set: &Set, t: usize) -> f64 {
    let kappa = impulse_response(set, t + 1);
    let (power, sum) = kappa.iter().fold((0.0, 0.0), |(power, sum), k| (power + k * k, sum + k));
    power / (sum * sum)
}

#[test]
fn the_noise_falls_as_published() {
    let of = |name| named(name).unwrap();
    for (t, expected) in [(0, 1.0), (1, 0.5014), (2, 0.3358), (5, 0.1720), (10, 0.1008), (50, 0.0531)] {
        assert!((variance(of("momentum"), t) - expected).abs() < 5.1e-5, "{t}");
    }
    for (name, t, expected, digit) in [
        ("d2", 0, 1.0, 1e-12),
        ("d2", 1, 0.659, 1e-3),
        ("d2", 2, 0.446, 1e-3),
        ("d2", 5, 0.199, 1e-3),
        ("d2", 10, 0.1055, 1e-4),
        ("d2", 50, 0.0983, 1e-4),
        ("f6", 10, 0.1011, 1e-4),
        ("f6", 50, 0.1655, 1e-4),
    ] {
        assert!((variance(of(name), t) - expected).abs() < 0.51 * digit, "{name} {t} {}", variance(of(name), t));
    }
}

/// Closed forms from the tables (`momentum`: `(1−β)/(1+β)`).
const NOISE_GAIN: &[(&str, f64)] = &[
    ("sgd", 1.0),
    ("momentum", 1.0 / 19.0),
    ("d1v1", 1.0 / 11.0),
    ("d1v2", 0.127_27),
    ("d2", 0.098_28),
    ("f1", 0.050_66),
    ("f2", 0.050_66),
    ("f3", 0.1),
    ("f4", 0.2),
    ("f5", 0.048_75),
    ("f6", 1.0 / 6.0),
    ("p0", 1.0),
    ("p1", 0.25),
    ("p2", 0.2),
    ("p3", 0.3125),
    ("p4", 1.0 / 19.0),
    ("p5", 0.05),
    ("p6", 0.060_53),
    ("p7", 0.041_67),
];

#[test]
fn the_noise_gain_is_that_of_the_table() {
    assert_eq!(NOISE_GAIN.len(), SETS.len());
    for (name, expected) in NOISE_GAIN {
        let power: f64 = impulse_response(named(name).unwrap(), 2000).iter().map(|k| k * k).sum();
        assert!((power - expected).abs() < 5.1e-6, "{name} {power}");
    }
}

/// Returns the mean square over 2¹⁶ independent coordinates after the start-up, divided by the input's variance.
fn measured_noise_gain(set: &Set, seed: u64) -> f64 {
    const DIM: usize = 1 << 16;
    let filter = iir(set);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut state: IirState<_> = IirState::new(std::vec![0f32; filter.order() * DIM]);
    let (mut grad, mut filtered) = (std::vec![0f32; DIM], std::vec![0f32; DIM]);
    for _ in 0..150 {
        grad.iter_mut().for_each(|g| *g = uniform(&mut random) as f32);
        let step = filter.begin(&mut state);
        filter.apply(step, &mut state, 0, &Released::new(&grad, 0.0), &mut filtered);
    }
    let power: f64 = filtered.iter().map(|x| f64::from(*x).powi(2)).sum();
    3.0 * power / DIM as f64
}

// The variance of filtered noise has its closed form.
#[test]
fn noise_power_has_closed_form() {
    // Uniform noise has negative excess kurtosis, also after filtering. The mean square of n independent outputs
    // therefore has a relative deviation below √(2/n) = 0.55 %. The limit of five deviations gives one false alarm in
    // 1.7 million.
    let tolerance = 5.0 * (2.0f64 / 65_536.0).sqrt();
    for (name, seed) in [("momentum", 11), ("d2", 12), ("f6", 13), ("p6", 14), ("p7", 15)] {
        let (_, expected) = NOISE_GAIN.iter().find(|(of, _)| *of == name).unwrap();
        let measured = measured_noise_gain(named(name).unwrap(), seed);
        assert!((measured / expected - 1.0).abs() < tolerance, "{name} {measured} {expected}");
    }
    // The test can fail: it distinguishes the filter nearest to momentum.
    assert!((measured_noise_gain(named("p5").unwrap(), 16) / (1.0 / 19.0) - 1.0).abs() > tolerance);
}

#[test]
fn one_pole_is_adams_bias_corrected_average() {
    for beta in [0.5f32, 0.9, 0.99] {
        let inputs = noise(6, 500, 1);
        let outputs = run(&Iir::new(&[-beta], &[1.0 - beta]).unwrap(), &inputs);
        let (beta, mut m, mut power) = (f64::from(beta), 0.0, 1.0);
        for (grad, filtered) in inputs.iter().zip(outputs) {
            m = beta * m + (1.0 - beta) * f64::from(grad[0]);
            power *= beta;
            let m_hat = m / (1.0 - power);
            assert!((f64::from(filtered[0]) - m_hat).abs() < 2e-6, "{} {m_hat}", filtered[0]);
        }
    }
}

// One pole without bias correction is heavy-ball momentum.
#[test]
fn uncorrected_pole_is_heavy_ball() {
    // SGD with momentum β and learning rate η(1−β) on ½x² + noise, against x ← x − η·m_t with m_t = m̂_t·c_t.
    let (beta, lr) = (0.75f32, 0.5f64);
    let filter: Iir = Iir::new(&[-beta], &[1.0 - beta]).unwrap();
    let sgd = Sgd::new(beta, false, 0.0).unwrap();
    let mut heavy = SgdState { momentum: [0f32] };
    let mut state: IirState<_> = IirState::new([0f32]);
    let (mut x, mut y, mut power) = ([1f32], 1f64, 1f64);
    for grad_noise in noise(7, 300, 1) {
        let grad = [x[0] + grad_noise[0]];
        let step = sgd.begin(&mut heavy, Begin { lr: lr * 0.25, noise_std: 0.0 });
        sgd.update(step, &mut heavy, 0, &mut x, &Released::new(&grad, 0.0), &Released::new(&grad, 0.0));

        let grad = [y as f32 + grad_noise[0]];
        let step = filter.begin(&mut state);
        let mut filtered = [0f32];
        filter.apply(step, &mut state, 0, &Released::new(&grad, 0.0), &mut filtered);
        power *= f64::from(beta);
        y -= lr * (1.0 - power) * f64::from(filtered[0]);
        assert!((f64::from(x[0]) - y).abs() < 1e-5, "{} {y}", x[0]);
    }
}

#[test]
fn invalid_filter_error_gives_reason() {
    let cases: &[(&[f32], &[f32], &str)] = &[
        (&[-1.1], &[0.1], "inside the unit circle"),
        (&[-1.0], &[1.0], "inside the unit circle"),
        (&[0.5, 1.2], &[1.0], "inside the unit circle"),
        (&[-1.8, 0.9, -0.2], &[0.1], "inside the unit circle"),
        // The reciprocal of a stable pole, which DOPPLER's printed condition would accept.
        (&[-1.0 / 0.9], &[0.1], "inside the unit circle"),
        (&[-0.9], &[0.1, -0.3], "from 2^-32 to 2^32"),
        (&[-0.9], &[0.1, -0.1], "from 2^-32 to 2^32"),
        (&[-0.9], &[-0.1], "from 2^-32 to 2^32"),
        (&[], &[0.1, -0.3, 0.4], "above 0 at every step"),
        (&[-1.9, 0.95], &[0.5, -0.9, 0.402], "above 0 at every step"),
        (&[], &[-0.1, 0.4], "above 0 at every step"),
        (&[-0.999_999_5], &[1.0, -0.999_999_9], "within 10,000 steps"),
        (&[-0.9], &[], "b_0"),
        (&[-0.9], &[0.0, 0.1], "b_0"),
        (&[f32::NAN], &[0.1], "finite"),
        (&[-0.9], &[f32::INFINITY], "finite"),
        (&[0.1; 9], &[0.1], "capacity"),
        (&[0.1], &[0.1; 10], "capacity"),
        (&[], &[1e-30], "from 2^-32 to 2^32"),
        (&[], &[1.0, 1_099_511_627_776.0, -1_099_511_627_776.0], "within 2^32 times"),
    ];
    for (a, b, reason) in cases {
        let refusal = Iir::<8>::new(a, b).expect_err(&format!("{a:?} {b:?}"));
        assert!(refusal.must_be.contains(reason), "{a:?} {b:?}: {refusal}");
    }
    // A slow filter is valid if its step response provably stays positive.
    Iir::<8>::new(&[-0.999_999_9], &[1.0e-7]).unwrap();
    Iir::<8>::new(&[0.1; 8], &[0.1; 9]).unwrap();
}

// The state must fit the gradient, and there is one evaluation point.
#[test]
fn checks_state_size_and_eval_point() {
    let filter = iir(named("d2").unwrap());
    let state: IirState<_> = IirState::new([0f32; 6]);
    assert_eq!(filter.check(&state, 3), Ok(()));
    assert!(filter.check(&state, 2).is_err());
    assert_eq!((filter.eval_points(&state), filter.weight(&state, 0)), (1, 1.0));
    let mut out = [0.0; 3];
    assert_eq!(filter.eval_point(&state, 0, &[1.0, 2.0, 3.0], &mut out), Ok(1.0));
    assert_eq!(out, [1.0, 2.0, 3.0]);
    assert!(filter.eval_point(&state, 1, &[1.0, 2.0, 3.0], &mut out).is_err());
}

#[test]
fn memory_that_does_not_fit_does_not_panic() {
    let filter = iir(named("d2").unwrap());
    for len in 0..7 {
        let mut state: IirState<_> = IirState::new(std::vec![0f32; len]);
        let step = filter.begin(&mut state);
        for at in [0, 2, 100, usize::MAX] {
            filter.apply(step, &mut state, at, &Released::new(&[1.0; 3], 0.0), &mut [0.0; 3]);
        }
    }
}
