use super::*;

extern crate std;
use std::vec;
use std::vec::Vec;

fn constant(kappa: f64, look_ahead: LookAhead) -> Kalman {
    Kalman::new(Gain::Constant(kappa), look_ahead).unwrap()
}

/// Runs SGD with DiSK on a loss with this gradient, without noise or clipping. Returns the iterates.
fn descend(kalman: Kalman, lr: f32, steps: usize, start: &[f32], grad: impl Fn(&[f32]) -> Vec<f32>) -> Vec<Vec<f32>> {
    let dim = start.len();
    let mut state = KalmanState::new(&kalman, vec![f32::NAN; dim], vec![f32::NAN; dim]);
    let mut params = start.to_vec();
    let mut iterates = vec![];
    for _ in 0..steps {
        let mut mixed = vec![0.0; dim];
        for index in 0..kalman.eval_points(&state) {
            let mut point = vec![0.0; dim];
            let weight = kalman.eval_point(&state, index, &params, &mut point).unwrap();
            crate::filter::mix(index, weight, &[&grad(&point)], &mut mixed);
        }
        let step = kalman.begin(&mut state);
        let mut filtered = vec![0.0; dim];
        kalman.apply(step, &mut state, 0, &Released::new(&mixed, 0.0), &mut filtered);
        kalman.before_update(step, &mut state, 0, &params);
        for (param, grad) in params.iter_mut().zip(&filtered) {
            *param -= lr * grad;
        }
        kalman.after_update(step, &mut state, 0, &params);
        iterates.push(params.clone());
    }
    iterates
}

fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    a.iter().flatten().zip(b.iter().flatten()).fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

const LOOKS: [LookAhead; 4] =
    [LookAhead::One, LookAhead::Two { gamma: 0.5 }, LookAhead::Two { gamma: -1.0 }, LookAhead::Two { gamma: 0.2 }];

// Without noise, DiSK on a quadratic is gradient descent.
#[test]
fn noiseless_disk_on_quadratic_is_gd() {
    let grad = |x: &[f32]| vec![0.8 * x[0] - 0.3 * x[1], -0.3 * x[0] + 0.5 * x[1]];
    let plain = descend(constant(1.0, LookAhead::One), 0.4, 40, &[1.0, -2.0], grad);
    for look in LOOKS {
        for kappa in [0.3, 0.7, 0.95] {
            assert!(distance(&descend(constant(kappa, look), 0.4, 40, &[1.0, -2.0], grad), &plain) < 2e-5, "{look:?}");
        }
    }
}

/// Beyond quadratics, only γ = −1 is gradient descent. Another γ must differ.
#[test]
fn noiseless_disk_gamma_minus_one_is_gd() {
    let grad = |x: &[f32]| vec![x[0] * x[0] * x[0], 4.0 * x[1] * x[1] * x[1]];
    let plain = descend(constant(1.0, LookAhead::One), 0.2, 30, &[1.0, -0.8], grad);
    let with = |gamma| descend(constant(0.7, LookAhead::Two { gamma }), 0.2, 30, &[1.0, -0.8], grad);
    assert!(distance(&with(-1.0), &plain) < 1e-5);
    assert!(distance(&with(0.5), &plain) > 1e-3);
}

// At gamma = (1-kappa)/kappa, the form with two gradients equals the form with one.
#[test]
fn one_gradient_gamma_zeroes_other_weight() {
    for kappa in [0.3, 0.5, 0.7] {
        let kalman = constant(kappa, LookAhead::Two { gamma: (1.0 - kappa) / kappa });
        let (_, c) = kalman.mixing(kappa);
        assert!((c - 1.0).abs() < 1e-15);
        let grad = |x: &[f32]| vec![x[0] * x[0] - 0.3];
        let two = descend(kalman, 0.2, 20, &[0.9], grad);
        assert!(distance(&two, &descend(constant(kappa, LookAhead::One), 0.2, 20, &[0.9], grad)) < 1e-6);
    }
}

/// DP-PMLF's per-sample momentum with k = 2 and the factor −(1−κ) has the weights 1/κ and −(1−κ)/κ.
#[test]
fn gamma_minus_one_is_negative_momentum() {
    let kappa = 0.7;
    let kalman = constant(kappa, LookAhead::Two { gamma: -1.0 });
    let mut state = KalmanState::new(&kalman, [0f32], [0f32]);
    let step = kalman.begin(&mut state);
    kalman.before_update(step, &mut state, 0, &[3.0]);
    kalman.after_update(step, &mut state, 0, &[5.0]);
    let mut point = [0.0];
    assert_eq!(kalman.eval_points(&state), 2);
    assert_eq!(kalman.eval_point(&state, 0, &[5.0], &mut point), Ok((1.0 / kappa) as f32));
    assert_eq!(point, [5.0]);
    assert_eq!(kalman.eval_point(&state, 1, &[5.0], &mut point), Ok((-(1.0 - kappa) / kappa) as f32));
    assert_eq!(point, [3.0]);
}

/// Fixed points of the recursion, and the factor `(1−k)²` of its convergence (the paper prints another factor).
#[test]
fn gain_converges_to_closed_form() {
    for (noise, drift, process, p, k) in [
        (1.0, 0.1, 0.05, 0.300000, 1.0 / 3.0),
        (1.0, 0.5, 0.2, 0.337386, 0.674773),
        (2.0, 0.0, 0.3, 0.638987, 0.319493),
    ] {
        let kalman = Kalman::new(Gain::Recursion { noise, drift, process }, LookAhead::One).unwrap();
        let (mut uncertainty, mut gains) = (noise, vec![]);
        for _ in 0..60 {
            let (gain, next) = kalman.gain.next(uncertainty);
            uncertainty = next;
            gains.push(gain);
        }
        assert!((uncertainty - p).abs() < 1e-6 && (gains[59] - k).abs() < 1e-6);
        let rate = (gains[6] - gains[59]) / (gains[5] - gains[59]);
        assert!((rate / (1.0 - gains[59]).powi(2) - 1.0).abs() < 1e-2, "{rate}");
    }
}

/// On a quadratic under noise of variance σ², the error of the filtered gradient has variance κ/(2−κ)·σ². The noise is
/// fixed, with 60,000 draws and a correlation time below 4. Six standard errors are 8 % (error rate 2e-9), and κ off by
/// a fifth must fail.
#[test]
fn residual_noise_has_closed_form() {
    let mut x = 1u64;
    let mut noise = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 40) as f32 / 16_777_216.0 - 0.5
    };
    let variance_of = |kappa: f64, noise: &mut dyn FnMut() -> f32| {
        let kalman = constant(kappa, LookAhead::One);
        let mut state = KalmanState::new(&kalman, [0f32], [0f32]);
        let mut param = [0.5f32];
        let (mut total, steps) = (0.0, 60_000);
        for _ in 0..steps {
            let mut point = [0f32];
            kalman.eval_point(&state, 0, &param, &mut point).unwrap();
            let released = [0.3 * point[0] + noise()];
            let step = kalman.begin(&mut state);
            let mut filtered = [0f32];
            kalman.apply(step, &mut state, 0, &Released::new(&released, 0.0), &mut filtered);
            total += f64::from(filtered[0] - 0.3 * param[0]).powi(2);
            kalman.before_update(step, &mut state, 0, &param);
            param[0] -= 0.1 * filtered[0];
            kalman.after_update(step, &mut state, 0, &param);
        }
        total / f64::from(steps) * 12.0
    };
    for kappa in [0.7, 0.5, 0.1] {
        let ratio = variance_of(kappa, &mut noise) / (kappa / (2.0 - kappa));
        assert!((ratio - 1.0).abs() < if kappa < 0.2 { 0.15 } else { 0.08 }, "{kappa}: {ratio}");
    }
    assert!((variance_of(0.6, &mut noise) / (0.5 / 1.5) - 1.0).abs() > 0.08);
}

#[test]
fn numbers_out_of_range_are_refused() {
    for kappa in [0.0, -0.1, 1.1, f64::NAN, 1e-4] {
        assert!(Kalman::new(Gain::Constant(kappa), LookAhead::One).is_err());
    }
    for gamma in [0.0, 0.005, -0.005, f64::NAN, f64::INFINITY] {
        assert!(Kalman::new(Gain::Constant(0.7), LookAhead::Two { gamma }).is_err());
    }
    let recursion = Gain::Recursion { noise: 1.0, drift: 1.0, process: 0.0 };
    assert!(Kalman::new(recursion, LookAhead::One).is_err());
}
