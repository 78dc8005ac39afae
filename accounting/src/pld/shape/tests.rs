use super::*;

/// δ at ε of two distributions over the integers.
fn hockey_stick(first: impl Fn(i64) -> f64, second: impl Fn(i64) -> f64, epsilon: f64) -> f64 {
    (-3000..=3000).map(|k| (first(k) - exp(epsilon) * second(k)).max(0.0)).sum()
}

fn both(shape: Shape, rate: Rate, epsilon: f64, exact: &dyn Fn(Direction) -> f64, near: f64) {
    for direction in [Direction::Remove, Direction::Add] {
        let part = Part::Drawn { shape, rate };
        let upper = part.losses(Bound::Upper, direction, 1.0 / 128.0, 12.0).delta(epsilon);
        let lower = part.losses(Bound::Lower, direction, 1.0 / 128.0, 12.0).delta(epsilon);
        let exact = exact(direction);
        assert!(lower <= exact + 1e-13 && exact <= upper + 1e-13, "{shape:?} {epsilon}: {lower:e} {exact:e} {upper:e}");
        assert!(upper - lower <= near * exact + 1e-12, "{shape:?} {epsilon}: {lower:e} {exact:e} {upper:e}");
    }
}

const RATES: [f64; 3] = [1.0, 0.6, 0.01];
const EPSILONS: [f64; 5] = [0.0, 0.05, 0.3, 1.0, 2.5];

/// Discrete releases equal a sum over the integers, in both directions of a draw.
#[test]
fn discrete_releases_are_sums_over_integers() {
    let gaussian = |sigma: f64| {
        let weight = move |k: i64| exp(-(k as f64).powi(2) / (2.0 * sigma * sigma));
        let total: f64 = (-3000..=3000).map(weight).sum();
        move |k: i64| weight(k) / total
    };
    let laplace = |a: f64| move |k: i64| tanh(a / 2.0) * exp(-a * (k as f64).abs());
    for rate in RATES.map(|q| Rate::at_least(q).unwrap()) {
        let q = rate.as_f64();
        for epsilon in EPSILONS {
            for (sigma, shift) in [(0.4, 1u32), (1.0, 1), (3.0, 2), (7.5, 5)] {
                let noise = gaussian(sigma);
                let mixed = |k: i64| (1.0 - q) * noise(k) + q * noise(k - i64::from(shift));
                let exact = |direction| match direction {
                    Direction::Remove => hockey_stick(mixed, noise, epsilon),
                    Direction::Add => hockey_stick(noise, mixed, epsilon),
                };
                both(Shape::DiscreteGaussian { sigma, shift }, rate, epsilon, &exact, 1e-9);
            }
            for (parameter, shift) in [(0.3, 1u32), (0.5, 3), (2.0, 1)] {
                let noise = laplace(parameter);
                let mixed = |k: i64| (1.0 - q) * noise(k) + q * noise(k - i64::from(shift));
                let exact = |direction| match direction {
                    Direction::Remove => hockey_stick(mixed, noise, epsilon),
                    Direction::Add => hockey_stick(noise, mixed, epsilon),
                };
                both(Shape::DiscreteLaplace { parameter, shift }, rate, epsilon, &exact, 1e-9);
            }
        }
    }
}

/// A Laplace release equals its integral, `1 − e^{(ε − 1/b)/2}` without a draw.
#[test]
fn laplace_is_its_closed_form() {
    for scale in [0.2f64, 1.0, 5.0] {
        for epsilon in EPSILONS {
            let exact = (1.0 - exp((epsilon - 1.0 / scale) / 2.0)).max(0.0);
            both(Shape::Laplace { scale }, Rate::ONE, epsilon, &|_| exact, 1e-3);
        }
        // A draw: H((1−q)N + qM ‖ N) at γ is q·H(M ‖ N) at (γ − 1 + q)/q.
        let rate = Rate::at_least(0.3).unwrap();
        let part = Part::Drawn { shape: Shape::Laplace { scale }, rate };
        for epsilon in [0.01f64, 0.2, 0.8] {
            let inner = log((exp(epsilon) - 1.0 + rate.as_f64()) / rate.as_f64());
            let exact = rate.as_f64() * (1.0 - exp((inner - 1.0 / scale) / 2.0)).max(0.0);
            let [low, high] = [Bound::Lower, Bound::Upper]
                .map(|bound| part.losses(bound, Direction::Remove, 1.0 / 128.0, 12.0).delta(epsilon));
            assert!(low <= exact + 1e-13 && exact <= high + 1e-13, "{scale} {epsilon}: {low:e} {exact:e} {high:e}");
            assert!(high - low <= 2e-3 * exact + 1e-12, "{scale} {epsilon}: {low:e} {exact:e} {high:e}");
        }
    }
}

/// Randomised response over three or more buckets, and of a blank answer.
#[test]
fn response_is_a_sum_over_buckets() {
    for (noise, buckets) in [(0.5f64, 5u32), (0.1, 2), (0.9, 40)] {
        let n = f64::from(buckets);
        let (same, other) = (1.0 - noise + noise / n, noise / n);
        for epsilon in EPSILONS {
            let gamma = exp(epsilon);
            let exact = (same - gamma * other).max(0.0) + (n - 2.0) * (other - gamma * other).max(0.0);
            both(Shape::Response { noise, buckets, blank: false }, Rate::ONE, epsilon, &|_| exact, 1e-9);
            let exact = |direction| match direction {
                Direction::Remove => (same - gamma / n).max(0.0) + (n - 1.0) * (other - gamma / n).max(0.0),
                Direction::Add => (1.0 / n - gamma * same).max(0.0) + (n - 1.0) * (1.0 / n - gamma * other).max(0.0),
            };
            both(Shape::Response { noise, buckets, blank: true }, Rate::ONE, epsilon, &exact, 1e-9);
        }
    }
}

#[test]
fn approximate_release_reaches_its_bound() {
    let shape = Shape::Approximate { epsilon: 0.7, delta: 1e-3 };
    for epsilon in [0.0f64, 0.3, 0.69, 0.7, 5.0] {
        let exact = 1e-3 + (1.0 - 1e-3) * ((exp(0.7) - exp(epsilon)) / (1.0 + exp(0.7))).max(0.0);
        let part = Part::Drawn { shape, rate: Rate::ONE };
        for direction in [Direction::Remove, Direction::Add] {
            let upper = part.losses(Bound::Upper, direction, 1.0 / 128.0, 12.0).delta(epsilon);
            let lower = part.losses(Bound::Lower, direction, 1.0 / 128.0, 12.0).delta(epsilon);
            assert!(
                (upper - exact).abs() < 1e-12 && (lower - exact).abs() < 1e-12,
                "{epsilon}: {lower} {exact} {upper}"
            );
        }
    }
}

/// The divergences of a Laplace release (Mironov, table II), and of randomised response by its sum.
#[test]
fn divergences_are_closed_forms() {
    let orders = [1.5, 2.0, 7.0, 40.0];
    for scale in [0.5f64, 1.0, 10.0] {
        let found = Shape::Laplace { scale }.divergences(Rate::ONE, &orders);
        for (order, found) in orders.into_iter().zip(found) {
            let up = order / (2.0 * order - 1.0) * exp((order - 1.0) / scale);
            let down = (order - 1.0) / (2.0 * order - 1.0) * exp(-order / scale);
            let exact = log(up + down) / (order - 1.0);
            assert!(found >= exact - 1e-13 && found <= exact * (1.0 + 1e-3), "{scale} {order}: {found} {exact}");
        }
    }
    let found = Shape::Response { noise: 0.5, buckets: 4, blank: false }.divergences(Rate::ONE, &orders);
    for (order, found) in orders.into_iter().zip(found) {
        let (a, b) = (0.625f64, 0.125f64);
        let exact =
            log(a.powf(order) * b.powf(1.0 - order) + b.powf(order) * a.powf(1.0 - order) + 2.0 * b) / (order - 1.0);
        assert!(found >= exact - 1e-13 && found <= exact + 1e-9, "{order}: {found} {exact}");
    }
    assert!(Shape::DiscreteGaussian { sigma: 1.0, shift: 1 }.divergences(Rate::ONE, &orders)[0].is_infinite());
}
