//! Runs a gradient graph in f64 with the operators of the reference interpreter. The runtimes support few operators in
//! f64.

use std::collections::{BTreeMap, HashMap};

use damper_grad::GradGraph;
use damper_onnx::graph::{DType, Graph, Node, Origin, Tensor, TensorData, ValueId};
use damper_onnx::pb::NodeProto;
use damper_onnx::{attr_int, attr_ints, attr_string, decode_tensor, make_attr_int};

use super::reference::{Array, apply, places, to_f64};
use super::run::{Feed, bound, extents, specs};

/// ONNX type codes of float and double.
const FLOAT: i64 = 1;
const DOUBLE: i64 = 11;

/// `graph` with every float32 value as float64.
pub fn widened(graph: &Graph) -> Graph {
    let mut wide = graph.clone();
    // Scales and regions of interest are always float32.
    let resizes = graph.nodes.iter().filter(|node| node.op == "Resize");
    let narrow: Vec<ValueId> = resizes.flat_map(|node| node.inputs[1..].iter().flatten().copied()).collect();
    let widen = |tensor: &mut Tensor| {
        if let TensorData::F32(data) = &tensor.data {
            tensor.data = TensorData::F64(data.iter().map(|&v| f64::from(v)).collect());
        }
    };
    for (_, value) in wide.values.iter_mut().enumerate().filter(|(i, _)| !narrow.contains(&ValueId(*i))) {
        if value.dtype == DType::F32 {
            value.dtype = DType::F64;
        }
        if let Origin::Constant(tensor) = &mut value.origin {
            widen(tensor);
        }
    }
    for parameter in &mut wide.parameters {
        widen(&mut parameter.initial);
    }
    for node in wide.nodes.iter_mut().filter(|node| node.op == "Cast") {
        for attribute in node.attributes.iter_mut().filter(|a| a.name == "to" && a.i == FLOAT) {
            *attribute = make_attr_int("to", DOUBLE);
        }
    }
    wide
}

/// Outputs of `grad` by name, for a batch of `n`.
pub fn run(grad: &GradGraph, feeds: &[Feed], n: usize) -> BTreeMap<String, Array> {
    let model = bound(&grad.standard_model(), n);
    let graph = model.graph.expect("an emitted model has a graph");
    let dummy = Graph {
        opset: model.opset_import[0].version,
        values: vec![],
        nodes: vec![],
        inputs: vec![],
        outputs: vec![],
        parameters: vec![],
        warnings: vec![],
    };
    let mut values: HashMap<String, Array> = HashMap::new();
    for proto in &graph.initializer {
        let tensor = decode_tensor(proto).expect("emitted tensors are whole");
        values.insert(proto.name.clone(), Array::new(&tensor.shape, to_f64(&tensor.data)));
    }
    for (spec, feed) in specs(grad).into_iter().zip(feeds) {
        let data = match feed {
            Feed::Float(v) => v.iter().map(|&v| f64::from(v)).collect(),
            Feed::Int(v) => v.iter().map(|&v| v as f64).collect(),
        };
        values.insert(spec.name.clone(), Array::new(&extents(&spec, n), data));
    }
    for node in &graph.node {
        let x: Vec<&Array> = node.input.iter().filter(|name| !name.is_empty()).map(|name| &values[name]).collect();
        let mut second = None;
        let y = match node.op_type.as_str() {
            "Shape" => Array::new(&[x[0].shape.len()], x[0].shape.iter().map(|&d| d as f64).collect()),
            "Reshape" => Array::new(&reshaped(x[0], x[1]), x[0].data.clone()),
            op => {
                let node = Node {
                    name: node.name.clone(),
                    op: op.into(),
                    // Marks the inputs that are present. Their values are in `x`.
                    inputs: node.input.iter().map(|name| (!name.is_empty()).then_some(ValueId(0))).collect(),
                    outputs: vec![],
                    attributes: node.attribute.clone(),
                };
                let shape = shape(&node, &x);
                if op == "TopK" {
                    second = Some(places(&node, x[0], &shape));
                }
                apply(&dummy, &node, &x, &shape)
            }
        };
        values.insert(first_output(node), y);
        values.extend(second.map(|second| (node.output[1].clone(), second)));
    }
    graph.output.iter().map(|output| (output.name.clone(), values[&output.name].clone())).collect()
}

fn first_output(node: &NodeProto) -> String {
    node.output[0].clone()
}

fn reshaped(x: &Array, target: &Array) -> Vec<usize> {
    let known: f64 = target.data.iter().filter(|&&d| d > 0.0).product();
    let shape = target.data.iter().enumerate().map(|(axis, &d)| match d {
        0.0 => x.shape[axis],
        -1.0 => (x.data.len() as f64 / known) as usize,
        d => d as usize,
    });
    shape.collect()
}

fn broadcast(shapes: &[&[usize]]) -> Vec<usize> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let extent = |axis: usize| {
        let at = |s: &&[usize]| (axis + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
        shapes.iter().map(at).max().unwrap_or(1)
    };
    (0..rank).map(extent).collect()
}

fn whole(x: &Array) -> Vec<i64> {
    x.data.iter().map(|&v| v as i64).collect()
}

/// Shape of an emitted node's output.
fn shape(node: &Node, x: &[&Array]) -> Vec<usize> {
    let int = |name: &str, default: i64| attr_int(&node.attributes, name, default);
    let list = |name: &str, i: usize, default: i64| attr_ints(&node.attributes, name).map_or(default, |l| l[i]);
    let first = &x[0].shape;
    let axis = |axis: i64| axis.rem_euclid(first.len() as i64) as usize;
    match node.op.as_str() {
        "TopK" => {
            let mut shape = first.clone();
            shape[axis(int("axis", -1))] = x[1].data[0] as usize;
            shape
        }
        "Transpose" => match attr_ints(&node.attributes, "perm") {
            Some(perm) => perm.iter().map(|&p| first[p as usize]).collect(),
            None => first.iter().rev().copied().collect(),
        },
        "MatMul" => {
            let (a, b) = (first, &x[1].shape);
            let (row, column) = (a.len() > 1, b.len() > 1);
            let lead = broadcast(&[&a[..a.len().saturating_sub(2)], &b[..b.len().saturating_sub(2)]]);
            let tail = [row.then(|| a[a.len() - 2]), column.then(|| b[b.len() - 1])];
            lead.into_iter().chain(tail.into_iter().flatten()).collect()
        }
        "Gemm" => {
            let (a, b) = (int("transA", 0) as usize, int("transB", 0) as usize);
            vec![first[a], x[1].shape[1 - b]]
        }
        "Concat" => {
            let at = axis(int("axis", 0));
            let mut shape = first.clone();
            shape[at] = x.iter().map(|part| part.shape[at]).sum();
            shape
        }
        "Slice" => {
            let (starts, ends) = (whole(x[1]), whole(x[2]));
            let axes = x.get(3).map_or_else(|| (0..starts.len() as i64).collect(), |a| whole(a));
            let steps = x.get(4).map_or_else(|| vec![1; starts.len()], |s| whole(s));
            let mut shape = first.clone();
            for (i, &at) in axes.iter().enumerate() {
                let (at, d) = (axis(at), shape[axis(at)] as i64);
                let place = |v: i64| if v < 0 { v.saturating_add(d) } else { v };
                let span = if steps[i] > 0 {
                    place(ends[i]).clamp(0, d) - place(starts[i]).clamp(0, d)
                } else {
                    place(starts[i]).clamp(-1, d - 1) - place(ends[i]).clamp(-1, d - 1)
                };
                shape[at] = (span as usize).div_ceil(steps[i].unsigned_abs() as usize);
            }
            shape
        }
        "Gather" => {
            let at = axis(int("axis", 0));
            [&first[..at], &x[1].shape, &first[at + 1..]].concat()
        }
        "GatherElements" => x[1].shape.clone(),
        "GatherND" => {
            let (depth, shared) = (*x[1].shape.last().unwrap(), int("batch_dims", 0) as usize);
            [&x[1].shape[..x[1].shape.len() - 1], &first[shared + depth..]].concat()
        }
        "OneHot" => {
            let at = int("axis", -1).rem_euclid(first.len() as i64 + 1) as usize;
            [&first[..at], &[x[1].data[0] as usize], &first[at..]].concat()
        }
        "Expand" => broadcast(&[first, &x[1].data.iter().map(|&d| d as usize).collect::<Vec<_>>()]),
        "Tile" => first.iter().zip(&x[1].data).map(|(&d, &times)| d * times as usize).collect(),
        "Pad" => {
            let rank = first.len();
            (0..rank).map(|i| (first[i] as f64 + x[1].data[i] + x[1].data[rank + i]) as usize).collect()
        }
        "Resize" => first.iter().zip(&x[1].data).map(|(&d, scale)| (d as f64 * scale) as usize).collect(),
        "Conv" | "MaxPool" | "AveragePool" => {
            let axes = first.len() - 2;
            let kernel: Vec<i64> = match attr_ints(&node.attributes, "kernel_shape") {
                Some(kernel) => kernel.to_vec(),
                None => x[1].shape[2..].iter().map(|&k| k as i64).collect(),
            };
            assert_eq!(attr_string(&node.attributes, "auto_pad", "NOTSET"), "NOTSET", "emitted windows say their pads");
            let ceil = int("ceil_mode", 0) != 0;
            let extent = |i: usize| {
                let d = first[2 + i] as i64 + list("pads", i, 0) + list("pads", axes + i, 0);
                let stride = list("strides", i, 1);
                let room = d - (kernel[i] - 1) * list("dilations", i, 1) - 1;
                let mut count = if ceil { (room + stride - 1) / stride } else { room / stride } + 1;
                if ceil && (count - 1) * stride >= first[2 + i] as i64 + list("pads", i, 0) {
                    count -= 1;
                }
                count as usize
            };
            let channels = if node.op == "Conv" { x[1].shape[0] } else { first[1] };
            [first[0], channels].into_iter().chain((0..axes).map(extent)).collect()
        }
        "ConvTranspose" => {
            let axes = first.len() - 2;
            let extent = |i: usize| {
                let k = x[1].shape[2 + i] as i64;
                let grown = (first[2 + i] as i64 - 1) * list("strides", i, 1) + (k - 1) * list("dilations", i, 1) + 1;
                (grown + list("output_padding", i, 0) - list("pads", i, 0) - list("pads", axes + i, 0)) as usize
            };
            [first[0], x[1].shape[1] * int("group", 1) as usize].into_iter().chain((0..axes).map(extent)).collect()
        }
        "GlobalAveragePool" | "GlobalMaxPool" => [&first[..2], &vec![1; first.len() - 2][..]].concat(),
        op if op.starts_with("Reduce") => {
            let axes = match attr_ints(&node.attributes, "axes") {
                Some(axes) => axes.to_vec(),
                None => x.get(1).map_or_else(|| (0..first.len() as i64).collect(), |a| whole(a)),
            };
            let axes: Vec<usize> = axes.into_iter().map(axis).collect();
            let keep = int("keepdims", 1) != 0;
            let kept = |i: &usize| keep || !axes.contains(i);
            (0..first.len()).filter(kept).map(|i| if axes.contains(&i) { 1 } else { first[i] }).collect()
        }
        "ArgMax" | "ArgMin" => {
            let at = axis(int("axis", 0));
            let keep = int("keepdims", 1) != 0;
            (0..first.len()).filter(|&i| keep || i != at).map(|i| if i == at { 1 } else { first[i] }).collect()
        }
        "CumSum"
        | "Trilu"
        | "Softmax"
        | "LogSoftmax"
        | "InstanceNormalization"
        | "GroupNormalization"
        | "LayerNormalization"
        | "ScatterElements"
        | "ScatterND" => first.clone(),
        _ => broadcast(&x.iter().map(|a| &a.shape[..]).collect::<Vec<_>>()),
    }
}
