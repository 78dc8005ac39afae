//! GELU and its gradient, each in one pass over memory. Standard nodes need five to eight passes, and twelve to twenty
//! for the gradient. Their backward pass stores four tensors instead of one.
//!
//! `Y = X · Φ(X)` with `Φ(X) = (1 + erf(X/√2)) / 2`. With `approximate`, `Φ(X) = σ(2u)`,
//! `u = √(2/π) · (X + 0.044715 · X³)`. `dX = dY · (Φ(X) + X · Φ'(X))`.

use super::elements::{exp, horner};
use super::operator::{Attributes, Kernel, Operator};
use pulp::{Arch, Simd, WithSimd};
use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `X → Y`, with the attribute `approximate`.
pub(super) const GELU: Operator<Elements> =
    Operator { name: "Gelu", inputs: [1, 0], outputs: [1, 0], kernel: Elements::of };

/// `(dY, X) → dX`, all of one shape, with the attribute `approximate`.
pub(super) const GELU_GRAD: Operator<Elements> =
    Operator { name: "GeluGrad", inputs: [2, 0], outputs: [1, 0], kernel: Elements::of };

/// Kernel of a node.
pub(super) struct Elements {
    approximate: bool,
    vectors: Arch,
}

impl Elements {
    fn of(attributes: &Attributes<'_>) -> Self {
        Self { approximate: attributes.int("approximate") != 0, vectors: Arch::new() }
    }
}

impl Kernel for Elements {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let shape = inputs.first().copied().flatten()?;
        inputs.iter().all(|input| *input == Some(shape)).then(|| vec![shape.to_vec()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let (approximate, [Some(into)]) = (self.approximate, outputs) else { return None };
        match *inputs {
            [Some(x)] => self.vectors.dispatch(Forward { x, approximate, y: into }),
            [Some(gy), Some(x)] => self.vectors.dispatch(Backward { gy, x, approximate, gx: into }),
            _ => return None,
        }
        Some(())
    }
}

struct Forward<'a> {
    x: &'a [f32],
    approximate: bool,
    y: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // One loop for each form, since a branch inside would run for each element.
        if self.approximate { self.by(approximation) } else { self.by(distribution) }
    }
}

impl Forward<'_> {
    #[inline(always)]
    fn by(self, form: impl Fn(f32) -> (f32, f32)) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = x * form(*x).0;
        }
    }
}

struct Backward<'a> {
    gy: &'a [f32],
    x: &'a [f32],
    approximate: bool,
    gx: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if self.approximate { self.by(approximation) } else { self.by(distribution) }
    }
}

impl Backward<'_> {
    #[inline(always)]
    fn by(self, form: impl Fn(f32) -> (f32, f32)) {
        for ((gx, gy), x) in self.gx.iter_mut().zip(self.gy).zip(self.x) {
            let (below, density) = form(*x);
            *gx = gy * (below + x * density);
        }
    }
}

/// `Φ(x)` and its derivative, from one exponential. `Φ(x)` has an error of at most 2e-7.
/// `Φ(−|x|) = exp(−x²/2) · t · P(t)`, `t = 1 / (1 + 0.34 · |x|)`, after M. Abramowitz and I. Stegun, 26.2.17. `P` is
/// fitted to `Φ` on `[−9, 0]`, with an error of at most 8e-9.
#[inline(always)]
fn distribution(x: f32) -> (f32, f32) {
    let bell = exp(-0.5 * x * x);
    let t = 1.0 / x.abs().mul_add(0.34, 1.0);
    let p = horner(
        4.289_744e-2,
        [-1.916_810_6e-1, 2.474_874_3e-1, -1.448_102_9e-2, 1.478_503_6e-1, 1.321_748_6e-1, 1.357_520_2e-1],
        t,
    );
    let tail = bell * (t * p);
    (if x > 0.0 { 1.0 - tail } else { tail }, bell * (0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI))
}

/// `σ(2u)` and its derivative with respect to `x`, from `v = exp(−2|u|)`, which never overflows. `σ = 1 / (1 + v)` if
/// `u > 0`, else `v / (1 + v)`, and `σ · (1 − σ) = v / (1 + v)²`.
#[inline(always)]
fn approximation(x: f32) -> (f32, f32) {
    const CUBIC: f32 = 0.044_715;
    const ROOT: f32 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let square = x * x;
    let u = x * (ROOT + ROOT * CUBIC * square);
    let v = exp(-2.0 * u.abs());
    let above = 1.0 / (1.0 + v);
    let below = v * above;
    let slope = ROOT + 3.0 * ROOT * CUBIC * square;
    (if u > 0.0 { above } else { below }, 2.0 * above * below * slope)
}

#[cfg(test)]
mod tests {
    use super::super::operator::node;
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, numbers, run};
    use super::*;
    use crate::SessionSpec;
    use damper_onnx::{make_attr_int, pb};
    use pulp::Scalar;
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, PI};

    const WIDTH: usize = 37;

    fn of(name: &str, approximate: bool) -> (pb::ModelProto, SessionSpec) {
        let inputs = if name == "Gelu" { vec!["x"] } else { vec!["gy", "x"] };
        let made = node(name, &inputs, &["made"], vec![make_attr_int("approximate", i64::from(approximate))]);
        let inputs = inputs.into_iter().map(|name| batched(name, &[WIDTH])).collect();
        model(vec![made], &[], inputs, vec![batched("made", &[WIDTH])])
    }

    /// `Φ(x)` and its derivative.
    fn exact(x: f64, approximate: bool) -> (f64, f64) {
        if !approximate {
            return (0.5 * (1.0 + libm::erf(x * FRAC_1_SQRT_2)), (-0.5 * x * x).exp() / (2.0 * PI).sqrt());
        }
        let root = FRAC_2_PI.sqrt();
        let tanh = (root * (x + 0.044715 * x.powi(3))).tanh();
        (0.5 * (1.0 + tanh), 0.5 * (1.0 - tanh * tanh) * root * (1.0 + 3.0 * 0.044715 * x * x))
    }

    #[test]
    fn they_are_gelu_and_its_gradient() {
        for approximate in [false, true] {
            for name in ["Gelu", "GeluGrad"] {
                let model = of(name, approximate);
                let mut inputs = numbers(&model.1);
                let x = inputs.len() - 1;
                inputs[x].iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 - 90.0) / 12.0);
                let Some(made) = run(&model, &inputs) else { return };
                let values = inputs[x].iter().zip(&inputs[0]).map(|(x, gy)| {
                    let (x, gy) = (f64::from(*x), f64::from(*gy));
                    let (below, density) = exact(x, approximate);
                    if name == "Gelu" { x * below } else { gy * (below + x * density) }
                });
                let values: Vec<f64> = values.collect();
                assert!(apart(&made[0], &values) < 5e-7, "{name} {approximate}: {}", apart(&made[0], &values));
            }
        }
    }

    #[test]
    fn distribution_is_near_the_exact_value() {
        let points = (-2_000_000..=2_000_000).map(|i| i as f32 / 2e5);
        let off = points.map(|x| {
            let ((below, density), exact) = (distribution(x), exact(x.into(), false));
            (f64::from(below) - exact.0).abs().max((f64::from(density) - exact.1).abs())
        });
        assert!(off.fold(0.0, f64::max) < 2e-7);
        let (least, most) = (f32::NEG_INFINITY, f32::INFINITY);
        assert_eq!(
            [least, f32::MIN, f32::MAX, most].map(distribution),
            [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
        );
        assert!(distribution(f32::NAN).0.is_nan() && distribution(f32::NAN).1.is_nan());
    }

    #[test]
    fn a_sample_is_taken_alone() {
        for (name, inputs) in [("Gelu", 1), ("GeluGrad", 2)] {
            assert_samples_stay_alone(&of(name, false), inputs, &[f32::NAN, f32::INFINITY]);
        }
    }

    #[test]
    fn their_bits_are_those_of_any_processor() {
        let x: Vec<f32> = (0..4 * 259).map(|i| ((i * 17 + 7) % 611) as f32 / 61.1 - 5.0).collect();
        for approximate in [false, true] {
            let mut made = [(); 4].map(|()| vec![0.0; x.len()]);
            let [y, slow_y, gx, slow_gx] = &mut made;
            Arch::new().dispatch(Forward { x: &x, approximate, y });
            Forward { x: &x, approximate, y: slow_y }.with_simd(Scalar::new());
            Arch::new().dispatch(Backward { gy: &x, x: &x, approximate, gx });
            Backward { gy: &x, x: &x, approximate, gx: slow_gx }.with_simd(Scalar::new());
            let [y, slow_y, gx, slow_gx] = made.map(|made| made.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            assert_eq!((y, gx), (slow_y, slow_gx));
        }
    }
}
