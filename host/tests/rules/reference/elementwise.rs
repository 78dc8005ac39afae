//! Elementwise operators.

use damper::graph::Node;
use damper::onnx::attr_float;

use super::Array;

/// The output of `node`; `None` for an operator that is not of this family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    let float = |name: &str, default: f32| f64::from(attr_float(&node.attributes, name, default));
    let map = |f: &dyn Fn(f64) -> f64| Array::new(&x[0].shape, x[0].data.iter().map(|&v| f(v)).collect());
    let pairs = |f: &dyn Fn(f64, f64) -> f64| Array::from_fn(shape, |i| f(x[0].spread(i), x[1].spread(i)));
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
        "Max" => pairs(&f64::max),
        "Cast" => map(&|v| v),
        "Equal" => pairs(&|a, b| f64::from(u8::from(a == b))),
        "Greater" => pairs(&|a, b| f64::from(u8::from(a > b))),
        "Less" => pairs(&|a, b| f64::from(u8::from(a < b))),
        "LessOrEqual" => pairs(&|a, b| f64::from(u8::from(a <= b))),
        "GreaterOrEqual" => pairs(&|a, b| f64::from(u8::from(a >= b))),
        "Sign" => map(&f64::signum),
        "Where" => Array::from_fn(shape, |i| if x[0].spread(i) != 0.0 { x[1].spread(i) } else { x[2].spread(i) }),
        _ => return None,
    })
}
