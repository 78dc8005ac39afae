//! Elementwise operators.

use damper_onnx::graph::Node;
use damper_onnx::{attr_float, attr_int, attr_string};

use super::Array;

/// Output of `node`. `None` for an operator of another family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    let float = |name: &str, default: f32| f64::from(attr_float(&node.attributes, name, default));
    let map = |f: &dyn Fn(f64) -> f64| Array::new(&x[0].shape, x[0].data.iter().map(|&v| f(v)).collect());
    let pairs = |f: &dyn Fn(f64, f64) -> f64| Array::from_fn(shape, |i| f(x[0].spread(i), x[1].spread(i)));
    let all =
        |f: &dyn Fn(&[f64]) -> f64| Array::from_fn(shape, |i| f(&x.iter().map(|x| x.spread(i)).collect::<Vec<_>>()));
    Some(match node.op.as_str() {
        "Exp" => map(&f64::exp),
        "Log" => map(&f64::ln),
        "Sqrt" => map(&f64::sqrt),
        "Reciprocal" => map(&f64::recip),
        "Tanh" => map(&f64::tanh),
        "Sigmoid" => map(&|v| 1.0 / (1.0 + (-v).exp())),
        "Relu" => map(&|v| v.max(0.0)),
        "LeakyRelu" => map(&|v| {
            if v >= 0.0 { v } else { float("alpha", 0.01) * v }
        }),
        "Neg" => map(&|v| -v),
        "Identity" => map(&|v| v),
        "Add" => pairs(&|a, b| a + b),
        "Sub" => pairs(&|a, b| a - b),
        "Mul" => pairs(&|a, b| a * b),
        "Div" => pairs(&|a, b| a / b),
        "Pow" => pairs(&f64::powf),
        "Abs" => map(&f64::abs),
        "Sign" => map(&|v| if v == 0.0 { 0.0 } else { v.signum() }),
        "Floor" => map(&f64::floor),
        "Ceil" => map(&f64::ceil),
        "Round" => map(&f64::round_ties_even),
        "Sin" => map(&f64::sin),
        "Cos" => map(&f64::cos),
        "Acos" => map(&f64::acos),
        "Acosh" => map(&f64::acosh),
        "Asin" => map(&f64::asin),
        "Asinh" => map(&f64::asinh),
        "Atan" => map(&f64::atan),
        "Atanh" => map(&f64::atanh),
        "Cosh" => map(&f64::cosh),
        "Sinh" => map(&f64::sinh),
        "Tan" => map(&f64::tan),
        "Erf" => map(&erf),
        "Gelu" if attr_string(&node.attributes, "approximate", "none") == "tanh" => map(&|v| {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
            0.5 * v * (1.0 + u.tanh())
        }),
        "Gelu" => map(&|v| 0.5 * v * (1.0 + erf(v / 2f64.sqrt()))),
        "Softplus" => map(&softplus),
        "Mish" => map(&|v| v * softplus(v).tanh()),
        "Softsign" => map(&|v| v / (1.0 + v.abs())),
        "Elu" => map(&|v| if v > 0.0 { v } else { float("alpha", 1.0) * v.exp_m1() }),
        "Celu" => map(&|v| v.max(0.0) + (float("alpha", 1.0) * (v / float("alpha", 1.0)).exp_m1()).min(0.0)),
        "Selu" => map(&|v| {
            let line = if v > 0.0 { v } else { float("alpha", 1.673_263_2) * v.exp_m1() };
            float("gamma", 1.050_701) * line
        }),
        "HardSigmoid" => map(&|v| (float("alpha", 0.2) * v + float("beta", 0.5)).clamp(0.0, 1.0)),
        "HardSwish" => map(&|v| v * (v / 6.0 + 0.5).clamp(0.0, 1.0)),
        "ThresholdedRelu" => map(&|v| if v > float("alpha", 1.0) { v } else { 0.0 }),
        "PRelu" => pairs(&|v, derivative| if v > 0.0 { v } else { derivative * v }),
        "Clip" => {
            let mut bounds = x[1..].iter().map(|bound| bound.data[0]);
            let mut bound = |slot: usize| node.inputs.get(slot).copied().flatten().and_then(|_| bounds.next());
            let (low, high) = (bound(1), bound(2));
            map(&|v| v.max(low.unwrap_or(v)).min(high.unwrap_or(f64::INFINITY)))
        }
        "Max" => all(&|values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        "Min" => all(&|values| values.iter().copied().fold(f64::INFINITY, f64::min)),
        "Sum" => all(&|values| values.iter().sum()),
        "Mean" => all(&|values| values.iter().sum::<f64>() / values.len() as f64),
        "Where" => all(&|values| if values[0] != 0.0 { values[1] } else { values[2] }),
        "Equal" => pairs(&|a, b| truth(a == b)),
        "Greater" => pairs(&|a, b| truth(a > b)),
        "GreaterOrEqual" => pairs(&|a, b| truth(a >= b)),
        "Less" => pairs(&|a, b| truth(a < b)),
        "LessOrEqual" => pairs(&|a, b| truth(a <= b)),
        "And" => pairs(&|a, b| truth(a != 0.0 && b != 0.0)),
        "Or" => pairs(&|a, b| truth(a != 0.0 || b != 0.0)),
        "Xor" => pairs(&|a, b| truth((a != 0.0) != (b != 0.0))),
        "Not" => map(&|v| truth(v == 0.0)),
        "IsNaN" => map(&|v| truth(v.is_nan())),
        "IsInf" => map(&|v| truth(v.is_infinite())),
        "Cast" => match attr_int(&node.attributes, "to", 0) {
            1 | 11 => map(&|v| v),
            6 | 7 => map(&f64::trunc),
            9 => map(&|v| truth(v != 0.0)),
            other => panic!("element type {other}"),
        },
        _ => return None,
    })
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn softplus(v: f64) -> f64 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

/// By the series `2/√π · exp(−x²) · Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1))`, whose terms have the same sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
