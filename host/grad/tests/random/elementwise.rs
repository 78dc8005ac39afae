//! Elementwise operators, reductions and normalisations.

use damper_onnx::{make_attr_float, make_attr_int, make_attr_ints, make_attr_string};

use super::Op;
use super::net::{MAX_LEN, Net, Val, axis_attribute};

pub const OPS: &[Op] = &[
    ("Abs", unary),
    ("Celu", unary),
    ("Clip", clip),
    ("Cos", unary),
    ("Elu", unary),
    ("Erf", unary),
    ("Exp", exp),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", unary),
    ("Identity", unary),
    ("LeakyRelu", unary),
    ("Mish", unary),
    ("Neg", unary),
    ("Relu", unary),
    ("Selu", unary),
    ("Sigmoid", unary),
    ("Sin", unary),
    ("Softplus", unary),
    ("Softsign", unary),
    ("Tanh", unary),
    ("ThresholdedRelu", unary),
    ("Cast", cast),
    ("Ceil", stepped),
    ("Floor", stepped),
    ("Round", stepped),
    ("Sign", stepped),
    ("Log", of_positive),
    ("Reciprocal", of_positive),
    ("Sqrt", of_positive),
    ("Acos", of_bounded),
    ("Acosh", of_bounded),
    ("Asin", of_bounded),
    ("Asinh", of_bounded),
    ("Atan", of_bounded),
    ("Atanh", of_bounded),
    ("Cosh", of_bounded),
    ("Sinh", of_bounded),
    ("Tan", of_bounded),
    ("Pow", pow),
    ("Add", binary),
    ("Div", div),
    ("Max", variadic),
    ("Mean", variadic),
    ("Min", variadic),
    ("Mul", binary),
    ("PRelu", prelu),
    ("Sub", binary),
    ("Sum", variadic),
    ("Where", choose),
    ("ReduceL1", reduce),
    ("ReduceL2", reduce),
    ("ReduceLogSum", reduce),
    ("ReduceLogSumExp", reduce),
    ("ReduceMax", reduce),
    ("ReduceMean", reduce),
    ("ReduceMin", reduce),
    ("ReduceProd", reduce),
    ("ReduceSum", reduce),
    ("ReduceSumSquare", reduce),
    ("Softmax", softmax),
    ("LogSoftmax", softmax),
    ("LayerNormalization", layer_norm),
    ("LpNormalization", lp_norm),
    ("MeanVarianceNormalization", mean_variance_norm),
    ("InstanceNormalization", instance_norm),
    ("GroupNormalization", group_norm),
];

/// Applies the operator to an activation, or to a parameter whose result multiplies an activation.
fn unary(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let bound = match op {
        "Cos" | "Erf" | "Sigmoid" | "Sin" | "Softsign" | "Tanh" => 1.0,
        "Selu" => 2.0 * x.bound.max(1.0),
        "Softplus" => x.bound + 1.0,
        _ => x.bound.max(1.0),
    };
    if net.draw.one_in(8) {
        let shape = x.shape.clone();
        let own: Vec<usize> = shape.iter().enumerate().map(|(i, &d)| if at_batch(&x, i) { 1 } else { d }).collect();
        let w = net.param(&own);
        let mapped = net.node(op, &[&w.name], vec![]);
        let name = net.node("Mul", &[&x.name, &mapped], vec![]);
        net.yields(Val { name, bound: x.bound * bound.max(w.bound), ..x });
        return Some(());
    }
    net.maps(op, &x, vec![], bound);
    Some(())
}

fn at_batch(x: &Val, axis: usize) -> bool {
    x.batch.is_some_and(|b| b.axis == axis)
}

fn exp(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.bound <= 3.0)?;
    let bound = x.bound.exp();
    net.maps(op, &x, vec![], bound);
    Some(())
}

fn gelu(net: &mut Net, op: &str) -> Option<()> {
    if net.opset < 20 {
        return None;
    }
    let x = net.any(|_| true)?;
    let attributes = if net.draw.one_in(2) { vec![make_attr_string("approximate", "tanh")] } else { vec![] };
    let bound = x.bound;
    net.maps(op, &x, attributes, bound);
    Some(())
}

fn hard_sigmoid(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let attributes = if net.draw.one_in(2) { vec![make_attr_float("alpha", 1.0 / 6.0)] } else { vec![] };
    net.maps(op, &x, attributes, 1.0);
    Some(())
}

fn clip(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let (low, high) = (net.constant(&[], &[-0.4]), net.constant(&[], &[0.7]));
    let inputs: &[&str] = match net.draw.below(3) {
        0 => &[&x.name, &low, &high],
        1 => &[&x.name, &low],
        _ => &[&x.name, "", &high],
    };
    let name = net.node(op, inputs, vec![]);
    net.yields(Val { name, bound: x.bound.max(1.0), ..x });
    Some(())
}

fn cast(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let bound = x.bound;
    net.maps(op, &x, vec![make_attr_int("to", 1)], bound);
    Some(())
}

/// `x + op(3 x)`: the second term has a zero derivative.
fn stepped(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let three = net.constant(&[], &[3.0]);
    let wide = net.node("Mul", &[&x.name, &three], vec![]);
    let step = net.node(op, &[&wide], vec![]);
    let name = net.node("Add", &[&x.name, &step], vec![]);
    net.yields(Val { name, bound: 4.0 * x.bound + 1.0, ..x });
    Some(())
}

fn of_positive(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let x = net.positive(&x);
    let bound = x.bound.max(2.0);
    net.maps(op, &x, vec![], bound);
    Some(())
}

/// Trigonometric functions and their inverses, on (−0.8, 0.8), or for `Acosh` on (1.2, 2.8).
fn of_bounded(net: &mut Net, op: &str) -> Option<()> {
    if !net.draw.one_in(10) {
        return None;
    }
    let x = net.any(|_| true)?;
    let (scale, shift) = (net.constant(&[], &[0.8]), net.constant(&[], &[2.0]));
    let unit = net.node("Tanh", &[&x.name], vec![]);
    let mut name = net.node("Mul", &[&unit, &scale], vec![]);
    if op == "Acosh" {
        name = net.node("Add", &[&name, &shift], vec![]);
    }
    let name = net.node(op, &[&name], vec![]);
    net.yields(Val { name, bound: 2.6, ..x });
    Some(())
}

fn pow(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.bound <= 4.0)?;
    if net.draw.one_in(3) {
        let x = net.positive(&x);
        let exponent = net.param(&[]);
        let name = net.node(op, &[&x.name, &exponent.name], vec![]);
        net.yields(Val { name, bound: x.bound.powf(exponent.bound).max(2.0), ..x });
        return Some(());
    }
    let exponent = *net.draw.pick(&[2.0, 3.0]);
    let constant = net.constant(&[], &[exponent]);
    let name = net.node(op, &[&x.name, &constant], vec![]);
    net.yields(Val { name, bound: x.bound.powf(f64::from(exponent)), ..x });
    Some(())
}

/// Value that broadcasts to `x` without changing its shape: an activation, or parameters.
fn partner(net: &mut Net, x: &Val) -> Val {
    let alike = net.any(|y| y.batch.is_some() && y.shape == x.shape && y.batch == x.batch);
    match (net.draw.below(4), alike) {
        (0, Some(y)) => y,
        (1, _) if x.own_axes().len() > 1 && x.shape.iter().all(|&d| d > 0) => {
            // The same activation, summed over an axis that keeps extent 1.
            let axes = x.own_axes();
            let axis = *net.draw.pick(&axes);
            let axes = net.ints(&[axis as i64]);
            let name = net.node("ReduceSum", &[&x.name, &axes], vec![]);
            let mut shape = x.shape.clone();
            shape[axis] = 1;
            Val { name, shape, batch: x.batch, bound: x.bound * x.shape[axis] as f64 }
        }
        _ => {
            let dropped = net.draw.below(x.rank() + 1);
            let mut shape = Vec::new();
            for axis in dropped..x.rank() {
                // A parameter has one row for all samples.
                let own = if at_batch(x, axis) { 1 } else { x.shape[axis] };
                shape.push(if net.draw.one_in(4) { 1 } else { own });
            }
            net.param(&shape)
        }
    }
}

fn binary(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let y = partner(net, &x);
    let inputs = if net.draw.one_in(3) { [&*y.name, &*x.name] } else { [&*x.name, &*y.name] };
    let name = net.node(op, &inputs, vec![]);
    let bound = if op == "Mul" { x.bound * y.bound } else { x.bound + y.bound };
    net.yields(Val { name, bound, ..x });
    Some(())
}

fn div(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let y = partner(net, &x);
    let y = net.positive(&y);
    let name = net.node(op, &[&x.name, &y.name], vec![]);
    net.yields(Val { name, bound: 2.0 * x.bound, ..x });
    Some(())
}

fn variadic(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let others: Vec<Val> = (0..net.draw.between(1, 2)).map(|_| partner(net, &x)).collect();
    let inputs: Vec<&str> = std::iter::once(&*x.name).chain(others.iter().map(|y| &*y.name)).collect();
    let name = net.node(op, &inputs, vec![]);
    let bound = x.bound + others.iter().map(|y| y.bound).sum::<f64>();
    net.yields(Val { name, bound, ..x });
    Some(())
}

fn prelu(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.rank() > 1 && x.is_batch_first())?;
    let channels = if x.rank() == 2 { vec![x.shape[1]] } else { [&[x.shape[1]], &vec![1; x.rank() - 2][..]].concat() };
    let derivative = net.param(&channels);
    let name = net.node(op, &[&x.name, &derivative.name], vec![]);
    net.yields(Val { name, bound: x.bound * derivative.bound.max(1.0), ..x });
    Some(())
}

/// `x > y ? a : b` with broadcast branches.
fn choose(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let (y, branch) = (partner(net, &x), partner(net, &x));
    let greater = net.node("Greater", &[&x.name, &y.name], vec![]);
    let inputs =
        if net.draw.one_in(2) { [&*greater, &*x.name, &*branch.name] } else { [&*greater, &*branch.name, &*x.name] };
    let name = net.node(op, &inputs, vec![]);
    net.yields(Val { name, bound: x.bound.max(branch.bound), ..x });
    Some(())
}

fn reduce(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| !x.own_axes().is_empty() && x.bound <= 4.0)?;
    let own = x.own_axes();
    let order = net.draw.order(own.len());
    let mut axes: Vec<usize> = order[..net.draw.between(1, own.len())].iter().map(|&i| own[i]).collect();
    axes.sort_unstable();
    let keep = net.draw.one_in(2);
    let count: usize = axes.iter().map(|&axis| x.shape[axis]).product();
    let x = if op == "ReduceLogSum" { net.positive(&x) } else { x };
    let (input, mut attributes) = net.axes(&axes, op == "ReduceSum" || net.opset >= 18);
    attributes.push(make_attr_int("keepdims", i64::from(keep)));
    let inputs: Vec<&str> = std::iter::once(&*x.name).chain(input.as_deref()).collect();
    let name = net.node(op, &inputs, attributes);
    let kept = |axis: &usize| keep || !axes.contains(axis);
    let shape: Vec<usize> =
        (0..x.rank()).filter(kept).map(|axis| if axes.contains(&axis) { 1 } else { x.shape[axis] }).collect();
    let batch = x.batch.map(|b| damper_onnx::graph::BatchAxis { axis: (0..b.axis).filter(kept).count(), ..b });
    let bound = match op {
        "ReduceProd" => x.bound.max(1.0).powi(count as i32),
        "ReduceSumSquare" => x.bound * x.bound * count as f64,
        "ReduceMax" | "ReduceMean" | "ReduceMin" => x.bound,
        "ReduceLogSum" | "ReduceLogSumExp" => x.bound + (count as f64).ln() + 1.0,
        _ => x.bound * count as f64,
    };
    net.yields(Val { name, shape, batch, bound });
    Some(())
}

fn softmax(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| !x.own_axes().is_empty())?;
    let own = x.own_axes();
    let axis = *net.draw.pick(&own);
    let back = net.draw.one_in(2);
    let bound = if op == "Softmax" { 1.0 } else { 2.0 * x.bound + 6.0 };
    net.maps(op, &x, vec![axis_attribute(axis, x.rank(), back)], bound);
    Some(())
}

fn layer_norm(net: &mut Net, op: &str) -> Option<()> {
    if net.opset < 17 {
        return None;
    }
    let last = |x: &Val| x.batch.is_some_and(|b| b.axis + 1 < x.rank()) && x.shape[x.rank() - 1] > 1;
    let x = net.any(last)?;
    let axis = net.draw.between(x.batch.expect("an activation").axis + 1, x.rank() - 1);
    let (scale, bias) = (net.param(&x.shape[axis..]), net.param(&x.shape[axis..]));
    let inputs: &[&str] =
        if net.draw.one_in(3) { &[&x.name, &scale.name] } else { &[&x.name, &scale.name, &bias.name] };
    let attributes = vec![axis_attribute(axis, x.rank(), net.draw.one_in(2)), make_attr_float("epsilon", 0.03)];
    let name = net.node(op, inputs, attributes);
    net.yields(Val { name, bound: 8.0 * scale.bound + bias.bound, ..x });
    Some(())
}

/// On values away from 0, of both signs. A norm of 0, as in sums of centred values, has no derivative.
fn lp_norm(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| !x.own_axes().is_empty())?;
    let own = x.own_axes();
    let axis = *net.draw.pick(&own);
    let p = net.draw.between(1, 2) as i64;
    let last = x.rank() - 1;
    let width = if at_batch(&x, last) { 1 } else { x.shape[last] };
    let signs: Vec<f32> = (0..width).map(|i| if i % 2 == 0 { 1.5 } else { -1.5 }).collect();
    let signs = net.constant(&[width], &signs);
    let tame = net.node("Tanh", &[&x.name], vec![]);
    let away = net.node("Add", &[&tame, &signs], vec![]);
    let attributes = vec![axis_attribute(axis, x.rank(), false), make_attr_int("p", p)];
    let name = net.node(op, &[&away], attributes);
    net.yields(Val { name, bound: 1.0, ..x });
    Some(())
}

/// On `x` next to a parameter. Without an epsilon, finite differences fail for small variances.
fn mean_variance_norm(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.is_batch_first() && x.rank() > 1 && x.shape[x.rank() - 1] > 1)?;
    let own = x.own_axes();
    let axes: Vec<i64> = own[net.draw.below(own.len())..].iter().map(|&axis| axis as i64).collect();
    let width = x.shape[x.rank() - 1];
    let ramp: Vec<f32> = (0..width).map(|i| 4.0 * i as f32).collect();
    let ramp = net.constant(&[width], &ramp);
    let tame = net.node("Tanh", &[&x.name], vec![]);
    let spread = net.node("Add", &[&tame, &ramp], vec![]);
    let bound = (x.len() as f64).sqrt();
    let name = net.node(op, &[&spread], vec![make_attr_ints("axes", &axes)]);
    net.yields(Val { name, bound, ..x });
    Some(())
}

fn instance_norm(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.is_batch_first() && x.rank() > 2 && x.shape[2..].iter().product::<usize>() > 1)?;
    let (scale, bias) = (net.param(&[x.shape[1]]), net.param(&[x.shape[1]]));
    let name = net.node(op, &[&x.name, &scale.name, &bias.name], vec![make_attr_float("epsilon", 0.05)]);
    net.yields(Val { name, bound: 5.0 * scale.bound + bias.bound, ..x });
    Some(())
}

fn group_norm(net: &mut Net, op: &str) -> Option<()> {
    if net.opset < 18 {
        return None;
    }
    let x = net.any(|x| x.is_batch_first() && x.rank() > 2 && x.len() <= MAX_LEN && x.shape[1] % 2 == 0)?;
    let entries = if net.opset >= 21 { x.shape[1] } else { 2 };
    let (scale, bias) = (net.param(&[entries]), net.param(&[entries]));
    let attributes = vec![make_attr_int("num_groups", 2), make_attr_float("epsilon", 0.05)];
    let name = net.node(op, &[&x.name, &scale.name, &bias.name], attributes);
    net.yields(Val { name, bound: 8.0 * scale.bound + bias.bound, ..x });
    Some(())
}
