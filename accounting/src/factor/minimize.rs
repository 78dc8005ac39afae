//! Unconstrained minimisation of a smooth function: BFGS with numeric gradients, from a given start.

/// Distance of the finite differences from the centre.
const STEP: f64 = 1e-5;
/// The function counts as flat if a step gains less than this.
const FLAT: f64 = 1e-14;
const ITERATIONS: usize = 300;

/// Returns a local minimum of `f` near `start`, and its value. A value that is not finite counts as large.
pub(super) fn minimize(f: impl Fn(&[f64]) -> f64, start: &[f64]) -> (Vec<f64>, f64) {
    let n = start.len();
    let f = |x: &[f64]| Some(f(x)).filter(|value| value.is_finite()).unwrap_or(f64::MAX);
    let gradient = |x: &[f64]| -> Vec<f64> {
        let mut moved = x.to_vec();
        let mut at = |i: usize, to: f64| {
            moved[i] = to;
            let value = f(&moved);
            moved[i] = x[i];
            value
        };
        (0..n).map(|i| (at(i, x[i] + STEP) - at(i, x[i] - STEP)) / (2.0 * STEP)).collect()
    };
    let mut x = start.to_vec();
    let mut value = f(&x);
    let mut slope = gradient(&x);
    // The inverse of the Hessian, row by row. It is fresh if it is still the initial guess.
    let mut inverse = identity(n);
    let (mut is_fresh, mut flat) = (true, 0);
    for _ in 0..ITERATIONS {
        let mut direction: Vec<f64> = inverse.iter().map(|row| -dot(row, &slope)).collect();
        let mut descent = dot(&direction, &slope);
        if descent >= 0.0 {
            (inverse, is_fresh) = (identity(n), true);
            direction = slope.iter().map(|slope| -slope).collect();
            descent = dot(&direction, &slope);
        }
        // The first step has a length of about 1.
        let longest = direction.iter().fold(0.0f64, |longest, part| longest.max(part.abs()));
        if !(longest.is_finite() && longest > 0.0) {
            break;
        }
        let mut length = if is_fresh { (1.0 / longest).min(1.0) } else { (4.0 / longest).min(1.0) };
        let found = loop {
            let moved: Vec<f64> = x.iter().zip(&direction).map(|(x, direction)| x + length * direction).collect();
            let reached = f(&moved);
            if reached <= value + 1e-4 * length * descent {
                break Some((moved, reached));
            }
            length *= 0.5;
            if length < 1e-12 {
                break None;
            }
        };
        let Some((moved, reached)) = found else {
            if is_fresh {
                break;
            }
            (inverse, is_fresh) = (identity(n), true);
            continue;
        };
        flat = if value - reached < FLAT { flat + 1 } else { 0 };
        let next = gradient(&moved);
        update(&mut inverse, &difference(&moved, &x), &difference(&next, &slope), is_fresh);
        (x, value, slope, is_fresh) = (moved, reached, next, false);
        if flat == 3 {
            break;
        }
    }
    (x, value)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn identity(n: usize) -> Vec<Vec<f64>> {
    (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect()
}

/// The BFGS update for a step `s` and the change `y` of the gradient.
fn update(inverse: &mut [Vec<f64>], s: &[f64], y: &[f64], is_fresh: bool) {
    let curvature = dot(s, y);
    if curvature <= 1e-12 * dot(s, s).sqrt() * dot(y, y).sqrt() {
        return;
    }
    if is_fresh {
        let scale = curvature / dot(y, y);
        inverse.iter_mut().flatten().for_each(|entry| *entry *= scale);
    }
    let image: Vec<f64> = inverse.iter().map(|row| dot(row, y)).collect();
    let along = 1.0 + dot(y, &image) / curvature;
    for (i, row) in inverse.iter_mut().enumerate() {
        for (j, entry) in row.iter_mut().enumerate() {
            *entry += (along * s[i] * s[j] - image[i] * s[j] - s[i] * image[j]) / curvature;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rosenbrock_is_minimised() {
        let f = |x: &[f64]| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2);
        let (x, value) = minimize(f, &[-1.2, 1.0]);
        assert!(value < 1e-10 && (x[0] - 1.0).abs() < 1e-4, "{x:?} {value}");
    }

    // A function that is NaN outside its domain is minimised inside it.
    #[test]
    fn walls_are_avoided() {
        let (x, _) =
            minimize(|x| if x[0] > 2.0 { f64::NAN } else { (x[0] - 1.5).powi(2) + x[1].powi(2) }, &[-3.0, 4.0]);
        assert!((x[0] - 1.5).abs() < 1e-5 && x[1].abs() < 1e-5, "{x:?}");
    }
}
