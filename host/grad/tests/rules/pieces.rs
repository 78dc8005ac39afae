//! Parts of networks as exporters write them, and operators without a gradient.

use super::builder::{Case, GraphBuilder};
use damper_onnx::graph::{DType, ValueId};
use damper_onnx::{data_type, make_attr_int, make_attr_ints};

/// All parts.
pub fn cases() -> Vec<Case> {
    vec![
        steps(),
        comparisons(),
        not_finite(),
        integers(),
        mean_pooling(),
        rms_norm(),
        gelu_by_erf(),
        gelu_by_tanh(),
        added_mask(),
    ]
}

/// Step functions have derivative zero. A product with a step function has the derivative of the other factor.
fn steps() -> Case {
    let mut b = GraphBuilder::new(17);
    let x = b.activation_in(&[5], -3.0, 3.0);
    let mut sum = b.node("Sign", &[x], vec![], &[1, 5]);
    for op in ["Floor", "Ceil", "Round"] {
        let step = b.node(op, &[x], vec![], &[1, 5]);
        sum = b.node("Add", &[sum, step], vec![], &[1, 5]);
    }
    let y = b.node("Mul", &[x, sum], vec![], &[1, 5]);
    b.case("piece: steps", y)
}

fn comparisons() -> Case {
    let mut b = GraphBuilder::new(17);
    let (ids, a, w) = (b.ids(&[4]), b.activation(&[4]), b.param(&[4]));
    let (one, two) = (b.ints(&[1]), b.ints(&[2]));
    let mut compare = |op, with| b.node_of(DType::Bool, op, &[ids, with], vec![], &[1, 4]);
    let (is_one, above, below) = (compare("Equal", one), compare("Greater", two), compare("Less", one));
    let (least, most) = (compare("GreaterOrEqual", one), compare("LessOrEqual", two));
    let mut join = |op, c, d| b.node_of(DType::Bool, op, &[c, d], vec![], &[1, 4]);
    let (either, both) = (join("Or", above, below), join("And", least, most));
    let one_of = join("Xor", either, is_one);
    let not = b.node_of(DType::Bool, "Not", &[both], vec![], &[1, 4]);
    let first = b.node("Where", &[one_of, a, w], vec![], &[1, 4]);
    let second = b.node("Where", &[not, w, a], vec![], &[1, 4]);
    let y = b.node("Mul", &[first, second], vec![], &[1, 4]);
    b.case("piece: comparisons and logic of integers", y)
}

fn not_finite() -> Case {
    let mut b = GraphBuilder::new(17);
    let (x, a, w) = (b.input(&[4]), b.activation(&[4]), b.param(&[4]));
    let zero = b.floats(&[], &[0.0]);
    let root = b.node("Sqrt", &[x], vec![], &[1, 4]);
    let no_root = b.node_of(DType::Bool, "IsNaN", &[root], vec![], &[1, 4]);
    let infinite = b.node("Div", &[x, zero], vec![], &[1, 4]);
    let no_ratio = b.node_of(DType::Bool, "IsInf", &[infinite], vec![], &[1, 4]);
    let first = b.node("Where", &[no_root, a, w], vec![], &[1, 4]);
    let y = b.node("Where", &[no_ratio, first, infinite], vec![], &[1, 4]);
    b.case("piece: what is not finite is masked", y)
}

fn integers() -> Case {
    let mut b = GraphBuilder::new(17);
    let (ids, x) = (b.ids(&[4]), b.activation(&[4]));
    let (zero, one, two, five) = (b.ints(&[0]), b.ints(&[1]), b.ints(&[2]), b.ints(&[5]));
    let mut number = |op, a, c| b.node_of(DType::I64, op, &[a, c], vec![], &[1, 4]);
    let doubled = number("Mul", ids, two);
    let shifted = number("Sub", doubled, one);
    let raised = number("Max", shifted, zero);
    let bounded = number("Min", raised, five);
    let whole = number("Add", bounded, ids);
    let size = b.node_of(DType::I64, "Abs", &[shifted], vec![], &[1, 4]);
    let minus = b.node_of(DType::I64, "Neg", &[size], vec![], &[1, 4]);
    let chosen = b.node_of(DType::Bool, "Greater", &[minus, whole], vec![], &[1, 4]);
    let chosen = b.node_of(DType::I64, "Where", &[chosen, whole, size], vec![], &[1, 4]);
    let weight = b.node("Cast", &[chosen], to(DType::F32), &[1, 4]);
    let y = b.node("Mul", &[x, weight], vec![], &[1, 4]);
    b.case("piece: arithmetic of integer data", y)
}

/// Mean over the unmasked tokens, as in sentence embeddings.
fn mean_pooling() -> Case {
    let mut b = GraphBuilder::new(17);
    let (ids, x) = (b.ids(&[4]), b.activation(&[4, 3]));
    let mask = kept(&mut b, ids, 4);
    let (last, middle) = (b.ints(&[1]), b.ints(&[1]));
    let count = b.node_of(DType::I64, "ReduceSum", &[mask, last], vec![], &[1, 1]);
    let count = b.node("Cast", &[count], to(DType::F32), &[1, 1]);
    let least = b.floats(&[], &[1e-9]);
    let count = b.node("Clip", &[count, least], vec![], &[1, 1]);
    let weight = b.node("Cast", &[mask], to(DType::F32), &[1, 4]);
    let weight = b.node("Reshape", &[weight], vec![], &[1, 4, 1]);
    let kept = b.node("Mul", &[x, weight], vec![], &[1, 4, 3]);
    let sum = b.node("ReduceSum", &[kept, middle], vec![make_attr_int("keepdims", 0)], &[1, 3]);
    let y = b.node("Div", &[sum, count], vec![], &[1, 3]);
    b.case("piece: the mean over a mask's tokens", y)
}

fn rms_norm() -> Case {
    let mut b = GraphBuilder::new(17);
    let (x, w) = (b.activation(&[2, 4]), b.param(&[4]));
    let (two, epsilon) = (b.floats(&[], &[2.0]), b.floats(&[], &[1e-6]));
    let square = b.node("Pow", &[x, two], vec![], &[1, 2, 4]);
    let mean = b.node("ReduceMean", &[square], vec![make_attr_ints("axes", &[-1])], &[1, 2, 1]);
    let sum = b.node("Add", &[mean, epsilon], vec![], &[1, 2, 1]);
    let root = b.node("Sqrt", &[sum], vec![], &[1, 2, 1]);
    let scale = b.node("Reciprocal", &[root], vec![], &[1, 2, 1]);
    let unit = b.node("Mul", &[x, scale], vec![], &[1, 2, 4]);
    let y = b.node("Mul", &[unit, w], vec![], &[1, 2, 4]);
    b.case("piece: RMS normalisation", y)
}

fn gelu_by_erf() -> Case {
    let mut b = GraphBuilder::new(17);
    let x = b.activation_in(&[6], -3.0, 3.0);
    let [root, one, half] = [2f64.sqrt(), 1.0, 0.5].map(|v| b.floats(&[], &[v]));
    let scaled = b.node("Div", &[x, root], vec![], &[1, 6]);
    let erf = b.node("Erf", &[scaled], vec![], &[1, 6]);
    let sum = b.node("Add", &[erf, one], vec![], &[1, 6]);
    let product = b.node("Mul", &[x, sum], vec![], &[1, 6]);
    let y = b.node("Mul", &[product, half], vec![], &[1, 6]);
    b.case("piece: GELU by erf", y)
}

fn gelu_by_tanh() -> Case {
    let mut b = GraphBuilder::new(17);
    let x = b.activation_in(&[6], -3.0, 3.0);
    let [three, cubic, root, one, half] =
        [3.0, 0.044715, std::f64::consts::FRAC_2_PI.sqrt(), 1.0, 0.5].map(|v| b.floats(&[], &[v]));
    let cube = b.node("Pow", &[x, three], vec![], &[1, 6]);
    let small = b.node("Mul", &[cube, cubic], vec![], &[1, 6]);
    let sum = b.node("Add", &[x, small], vec![], &[1, 6]);
    let u = b.node("Mul", &[sum, root], vec![], &[1, 6]);
    let tanh = b.node("Tanh", &[u], vec![], &[1, 6]);
    let whole = b.node("Add", &[tanh, one], vec![], &[1, 6]);
    let halved = b.node("Mul", &[x, half], vec![], &[1, 6]);
    let y = b.node("Mul", &[halved, whole], vec![], &[1, 6]);
    b.case("piece: GELU by tanh", y)
}

/// Attention mask added to the scores: the most negative float, times 0 or 1.
fn added_mask() -> Case {
    let mut b = GraphBuilder::new(17);
    let (ids, scores) = (b.ids(&[3]), b.activation(&[3, 3]));
    let mask = kept(&mut b, ids, 3);
    let (one, lowest) = (b.floats(&[], &[1.0]), b.floats(&[], &[f64::from(f32::MIN)]));
    // The first token is always visible.
    let first = b.ints(&[1, 0, 0]);
    let mask = b.node_of(DType::I64, "Max", &[mask, first], vec![], &[1, 3]);
    let mask = b.node("Cast", &[mask], to(DType::F32), &[1, 3]);
    let mask = b.node("Reshape", &[mask], vec![], &[1, 1, 3]);
    let hidden = b.node("Sub", &[one, mask], vec![], &[1, 1, 3]);
    let fill = b.node("Mul", &[hidden, lowest], vec![], &[1, 1, 3]);
    let masked = b.node("Add", &[scores, fill], vec![], &[1, 3, 3]);
    let y = b.node("Softmax", &[masked], vec![], &[1, 3, 3]);
    b.case("piece: an attention mask of the lowest float", y)
}

/// 1 if the value is above 0, else 0.
fn kept(b: &mut GraphBuilder, ids: ValueId, len: usize) -> ValueId {
    let zero = b.ints(&[0]);
    let above = b.node_of(DType::Bool, "Greater", &[ids, zero], vec![], &[1, len]);
    b.node_of(DType::I64, "Cast", &[above], to(DType::I64), &[1, len])
}

fn to(dtype: DType) -> Vec<damper_onnx::pb::AttributeProto> {
    vec![make_attr_int("to", data_type(dtype) as i64)]
}
