//! Matrix products, convolutions, pools and other operators on planes.

use damper_onnx::graph::BatchAxis;
use damper_onnx::pb::AttributeProto;
use damper_onnx::{make_attr_float, make_attr_int, make_attr_ints, make_attr_string};

use super::Op;
use super::net::{MAX_LEN, Net, Val};

pub const OPS: &[Op] = &[
    ("Einsum", einsum),
    ("Gemm", gemm),
    ("MatMul", mat_mul),
    ("MatMul", attention),
    ("AveragePool", pool),
    ("Conv", conv),
    ("ConvTranspose", conv_transpose),
    ("DepthToSpace", depth_to_space),
    ("GlobalAveragePool", global_pool),
    ("GlobalMaxPool", global_pool),
    ("MaxPool", pool),
    ("Pad", pad),
    ("Resize", resize),
    ("SpaceToDepth", space_to_depth),
];

fn mat_mul(net: &mut Net, op: &str) -> Option<()> {
    match net.draw.below(4) {
        // Weight on the right, of rank 1, 2 or a stack.
        0 | 1 => {
            let x = net.any(|x| x.rank() > 1 && x.batch.is_some_and(|b| b.axis + 1 < x.rank()))?;
            let inner = x.shape[x.rank() - 1];
            let columns = net.draw.between(1, 4);
            if net.draw.one_in(6) {
                let w = net.param(&[inner]);
                let name = net.node(op, &[&x.name, &w.name], vec![]);
                let shape = x.shape[..x.rank() - 1].to_vec();
                net.yields(Val { name, shape, batch: x.batch, bound: x.bound * w.bound * inner as f64 });
                return Some(());
            }
            let stacked = x.rank() > 2 && x.batch.is_some_and(|b| b.axis + 2 < x.rank()) && net.draw.one_in(3);
            let lead = if stacked { vec![x.shape[x.rank() - 3]] } else { vec![] };
            let w = net.param(&[&lead[..], &[inner, columns]].concat());
            let name = net.node(op, &[&x.name, &w.name], vec![]);
            let shape = [&x.shape[..x.rank() - 1], &[columns]].concat();
            net.yields(Val { name, shape, batch: x.batch, bound: x.bound * w.bound * inner as f64 });
        }
        // Weight on the left.
        2 => {
            let x = net.any(|x| x.rank() > 2 && x.batch.is_some_and(|b| b.axis + 2 < x.rank()))?;
            let inner = x.shape[x.rank() - 2];
            let rows = net.draw.between(1, 4);
            let w = net.param(&[rows, inner]);
            let name = net.node(op, &[&w.name, &x.name], vec![]);
            let mut shape = x.shape.clone();
            let at = shape.len() - 2;
            shape[at] = rows;
            net.yields(Val { name, shape, batch: x.batch, bound: x.bound * w.bound * inner as f64 });
        }
        // Scores: x · xᵀ within one sample.
        _ => {
            let x = net.any(|x| x.rank() > 2 && x.batch.is_some_and(|b| b.axis + 2 < x.rank()))?;
            let mut perm: Vec<i64> = (0..x.rank() as i64).collect();
            perm.swap(x.rank() - 2, x.rank() - 1);
            let transposed = net.node("Transpose", &[&x.name], vec![make_attr_ints("perm", &perm)]);
            let name = net.node(op, &[&x.name, &transposed], vec![]);
            let (rows, inner) = (x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
            let shape = [&x.shape[..x.rank() - 2], &[rows, rows]].concat();
            net.yields(Val { name, shape, batch: x.batch, bound: x.bound * x.bound * inner as f64 });
        }
    }
    Some(())
}

/// Attention on `[N, S, D]`: splits heads, multiplies the (optionally masked) softmax of scaled scores by values, and
/// merges the heads.
fn attention(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.is_batch_first() && x.rank() == 3)?;
    let (length, depth) = (x.shape[1], x.shape[2]);
    let (heads, width) = (net.draw.between(1, 2), net.draw.between(1, 2));
    if heads * length * length.max(width) > MAX_LEN {
        return None;
    }
    let split = |net: &mut Net, perm: &[i64]| {
        let w = net.param(&[depth, heads * width]);
        let projected = net.node(op, &[&x.name, &w.name], vec![]);
        let target = net.ints(&[-1, length as i64, heads as i64, width as i64]);
        let by_head = net.node("Reshape", &[&projected, &target], vec![]);
        (net.node("Transpose", &[&by_head], vec![make_attr_ints("perm", perm)]), x.bound * w.bound * depth as f64)
    };
    let (queries, _) = split(net, &[0, 2, 1, 3]);
    let (keys, _) = split(net, &[0, 2, 3, 1]);
    let (values, bound) = split(net, &[0, 2, 1, 3]);
    let scores = net.node(op, &[&queries, &keys], vec![]);
    let scale = net.constant(&[], &[0.25]);
    let mut scores = net.node("Mul", &[&scores, &scale], vec![]);
    if let Some((tokens, _)) = net.tokens.clone().filter(|(_, count)| *count == length) {
        // Padding has id 0. A row of only padding is uniform.
        let zero = net.int_tensor(&[], &[0]);
        let padding = net.node("Equal", &[&tokens, &zero], vec![]);
        let axes = net.ints(&[1, 2]);
        let mask = net.node("Unsqueeze", &[&padding, &axes], vec![]);
        let low = net.constant(&[], &[-1e4]);
        scores = net.node("Where", &[&mask, &low, &scores], vec![]);
    }
    let weights = net.node("Softmax", &[&scores], vec![make_attr_int("axis", -1)]);
    let mixed = net.node(op, &[&weights, &values], vec![]);
    let by_token = net.node("Transpose", &[&mixed], vec![make_attr_ints("perm", &[0, 2, 1, 3])]);
    let target = net.ints(&[-1, length as i64, (heads * width) as i64]);
    let name = net.node("Reshape", &[&by_token, &target], vec![]);
    net.yields(Val { name, shape: vec![1, length, heads * width], batch: x.batch, bound });
    Some(())
}

fn gemm(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.rank() == 2 && x.batch.is_some_and(|b| b.axis == 0))?;
    let (inner, columns) = (x.shape[1], net.draw.between(1, 4));
    let transposed = net.draw.one_in(2);
    let w = net.param(&if transposed { [columns, inner] } else { [inner, columns] });
    let mut attributes = vec![make_attr_int("transB", i64::from(transposed))];
    if net.draw.one_in(3) {
        attributes.extend([make_attr_float("alpha", 0.5), make_attr_float("beta", -1.5)]);
    }
    let bias = match net.draw.below(4) {
        0 => None,
        1 => Some(net.param(&[1, columns])),
        2 => Some(net.param(&[])),
        _ => Some(net.param(&[columns])),
    };
    let inputs: Vec<&str> = [&*x.name, &*w.name].into_iter().chain(bias.as_ref().map(|b| &*b.name)).collect();
    let name = net.node(op, &inputs, attributes);
    let bound = x.bound * w.bound * inner as f64 + bias.map_or(0.0, |b| 1.5 * b.bound);
    net.yields(Val { name, shape: vec![x.shape[0], columns], batch: x.batch, bound });
    Some(())
}

fn einsum(net: &mut Net, op: &str) -> Option<()> {
    let rank = net.draw.between(2, 4);
    let x = net.any(|x| x.rank() == rank && x.is_batch_first())?;
    let d = x.shape[rank - 1];
    let e = net.draw.between(1, 4);
    let first = BatchAxis { axis: 0, outer: 1, inner: 1 };
    let (equation, other, shape) = match (rank, net.draw.below(3)) {
        (2, 0) => ("nd,de->ne", net.param(&[d, e]), vec![1, e]),
        (2, 1) => ("nd,ed->ne", net.param(&[e, d]), vec![1, e]),
        (2, _) => ("nd,e->nde", net.param(&[e]), vec![1, d, e]),
        (3, 0) => ("nsd,de->nse", net.param(&[d, e]), vec![1, x.shape[1], e]),
        (3, 1) => ("nid,njd->nij", x.clone(), vec![1, x.shape[1], x.shape[1]]),
        (3, _) => ("nsd,sde->ne", net.param(&[x.shape[1], d, e]), vec![1, e]),
        (_, 0) => ("nhid,nhjd->nhij", x.clone(), vec![1, x.shape[1], x.shape[2], x.shape[2]]),
        (_, 1) => ("nhid,hde->nie", net.param(&[x.shape[1], d, e]), vec![1, x.shape[2], e]),
        (_, _) => ("nhid,he->neid", net.param(&[x.shape[1], e]), vec![1, e, x.shape[2], d]),
    };
    if shape.iter().product::<usize>() > MAX_LEN {
        return None;
    }
    let name = net.node(op, &[&x.name, &other.name], vec![make_attr_string("equation", equation)]);
    let bound = x.bound * other.bound * x.len() as f64;
    net.yields(Val { name, shape, batch: Some(first), bound });
    Some(())
}

fn planes(net: &mut Net) -> Option<Val> {
    net.any(|x| x.is_batch_first() && (3..=4).contains(&x.rank()) && x.shape[2..].iter().all(|&d| d >= 2))
}

/// Kernel, strides, dilations, pads and extents of the output.
struct Window {
    attributes: Vec<AttributeProto>,
    kernel: Vec<usize>,
    output: Vec<usize>,
}

fn window(net: &mut Net, input: &[usize], dilated: bool, ceil: bool) -> Option<Window> {
    let axes = input.len();
    let mut lists: [Vec<usize>; 4] = Default::default();
    let (mut after, mut output) = (vec![], vec![]);
    for &d in input {
        let k = net.draw.between(1, 3.min(d));
        let s = net.draw.between(1, 2);
        let dilation = if dilated { net.draw.between(1, 2) } else { 1 };
        let (b, a) = (net.draw.below(k), net.draw.below(k));
        let reach = (d + a + b).checked_sub((k - 1) * dilation + 1)?;
        let mut count = if ceil { reach.div_ceil(s) } else { reach / s } + 1;
        // With ceil mode, the last window begins in the input or in the padding before it.
        if ceil && (count - 1) * s >= d + b {
            count -= 1;
        }
        output.push(count);
        after.push(a);
        lists.iter_mut().zip([k, s, dilation, b]).for_each(|(list, v)| list.push(v));
    }
    let [kernel, strides, dilations, before] = lists;
    let wide = |list: &[usize]| list.iter().map(|&v| v as i64).collect::<Vec<_>>();
    let mut attributes = vec![
        make_attr_ints("kernel_shape", &wide(&kernel)),
        make_attr_ints("strides", &wide(&strides)),
        make_attr_ints("pads", &wide(&[before, after].concat())),
    ];
    if dilated {
        attributes.push(make_attr_ints("dilations", &wide(&dilations)));
    }
    debug_assert_eq!(output.len(), axes);
    Some(Window { attributes, kernel, output })
}

fn conv(net: &mut Net, op: &str) -> Option<()> {
    let x = planes(net)?;
    let w = window(net, &x.shape[2..], true, false)?;
    let groups = if x.shape[1] % 2 == 0 && net.draw.one_in(3) { 2 } else { 1 };
    let outputs = groups * net.draw.between(1, 2);
    let weight = net.param(&[&[outputs, x.shape[1] / groups], &w.kernel[..]].concat());
    let bias = if net.draw.one_in(2) { Some(net.param(&[outputs])) } else { None };
    let mut attributes = w.attributes;
    attributes.push(make_attr_int("group", groups as i64));
    let inputs: Vec<&str> = [&*x.name, &*weight.name].into_iter().chain(bias.as_ref().map(|b| &*b.name)).collect();
    let shape = [&[1, outputs], &w.output[..]].concat();
    if shape.iter().product::<usize>() > MAX_LEN {
        return None;
    }
    let name = net.node(op, &inputs, attributes);
    let terms = (weight.len() / outputs) as f64;
    let bound = x.bound * weight.bound * terms + bias.map_or(0.0, |b| b.bound);
    net.yields(Val { name, shape, batch: x.batch, bound });
    Some(())
}

fn conv_transpose(net: &mut Net, op: &str) -> Option<()> {
    let x = planes(net)?;
    let groups = if x.shape[1] % 2 == 0 && net.draw.one_in(3) { 2 } else { 1 };
    let outputs = groups * net.draw.between(1, 2);
    let (mut kernel, mut strides, mut pads, mut extra, mut output) = (vec![], vec![], vec![], vec![], vec![]);
    for &d in &x.shape[2..] {
        let (k, s) = (net.draw.between(1, 3), net.draw.between(1, 2));
        let (p, e) = (net.draw.below(k), net.draw.below(s));
        output.push(((d - 1) * s + k + e).checked_sub(2 * p).filter(|&d| d > 0)?);
        kernel.push(k);
        [(&mut strides, s), (&mut pads, p), (&mut extra, e)].into_iter().for_each(|(list, v)| list.push(v as i64));
    }
    let shape = [&[1, outputs], &output[..]].concat();
    if shape.iter().product::<usize>() > MAX_LEN {
        return None;
    }
    let weight = net.param(&[&[x.shape[1], outputs / groups], &kernel[..]].concat());
    let bias = if net.draw.one_in(2) { Some(net.param(&[outputs])) } else { None };
    let attributes = vec![
        make_attr_ints("kernel_shape", &kernel.iter().map(|&k| k as i64).collect::<Vec<_>>()),
        make_attr_ints("strides", &strides),
        make_attr_ints("pads", &[&pads[..], &pads[..]].concat()),
        make_attr_ints("output_padding", &extra),
        make_attr_int("group", groups as i64),
    ];
    let inputs: Vec<&str> = [&*x.name, &*weight.name].into_iter().chain(bias.as_ref().map(|b| &*b.name)).collect();
    let name = net.node(op, &inputs, attributes);
    let bound = x.bound * weight.bound * weight.len() as f64 + bias.map_or(0.0, |b| b.bound);
    net.yields(Val { name, shape, batch: x.batch, bound });
    Some(())
}

fn pool(net: &mut Net, op: &str) -> Option<()> {
    let x = planes(net)?;
    let ceil = net.draw.one_in(3);
    let w = window(net, &x.shape[2..], op == "MaxPool", ceil)?;
    let shape = [&x.shape[..2], &w.output[..]].concat();
    if shape.iter().product::<usize>() > MAX_LEN {
        return None;
    }
    let mut attributes = w.attributes;
    attributes.push(make_attr_int("ceil_mode", i64::from(ceil)));
    if op == "AveragePool" {
        attributes.push(make_attr_int("count_include_pad", net.draw.below(2) as i64));
    }
    let name = net.node(op, &[&x.name], attributes);
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn global_pool(net: &mut Net, op: &str) -> Option<()> {
    let x = planes(net)?;
    let name = net.node(op, &[&x.name], vec![]);
    let shape = [&x.shape[..2], &vec![1; x.rank() - 2][..]].concat();
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn pad(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| !x.own_axes().is_empty() && x.own_axes().iter().all(|&a| x.shape[a] > 1))?;
    let own = x.own_axes();
    let axis = *net.draw.pick(&own);
    let mode = *net.draw.pick(&["constant", "reflect", "edge"]);
    let (before, after) = (net.draw.below(2), net.draw.below(2));
    let mut pads = vec![0i64; 2 * x.rank()];
    pads[axis] = before as i64;
    pads[x.rank() + axis] = after as i64;
    let pads = net.ints(&pads);
    let value = net.constant(&[], &[0.5]);
    let inputs: &[&str] =
        if mode == "constant" && net.draw.one_in(2) { &[&x.name, &pads, &value] } else { &[&x.name, &pads] };
    let name = net.node(op, inputs, vec![make_attr_string("mode", mode)]);
    let mut shape = x.shape.clone();
    shape[axis] += before + after;
    net.yields(Val { name, shape, bound: x.bound.max(1.0), ..x });
    Some(())
}

fn resize(net: &mut Net, op: &str) -> Option<()> {
    let x = planes(net)?;
    let mode = *net.draw.pick(&["nearest", "linear"]);
    let coordinates = match mode {
        "nearest" => *net.draw.pick(&["asymmetric", "half_pixel"]),
        _ => *net.draw.pick(&["align_corners", "half_pixel", "pytorch_half_pixel", "asymmetric"]),
    };
    let spatial: Vec<usize> = x.shape[2..].iter().map(|&d| net.draw.between(d, 2 * d)).collect();
    let shape = [&x.shape[..2], &spatial[..]].concat();
    if shape.iter().product::<usize>() > MAX_LEN {
        return None;
    }
    // Scales, because the number of samples is unknown, chosen so that extents are exact.
    let mut scales = vec![1.0, 1.0];
    scales.extend(x.shape[2..].iter().zip(&spatial).map(|(&d, &to)| to as f32 / d as f32));
    let exact = x.shape[2..].iter().zip(&scales[2..]).zip(&spatial).all(|((&d, s), &to)| (d as f32 * s) as usize == to);
    if !exact {
        return None;
    }
    let scales = net.constant(&[scales.len()], &scales);
    let mut attributes =
        vec![make_attr_string("mode", mode), make_attr_string("coordinate_transformation_mode", coordinates)];
    if mode == "nearest" {
        attributes.push(make_attr_string("nearest_mode", "floor"));
    }
    let name = net.node(op, &[&x.name, "", &scales], attributes);
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn depth_to_space(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.is_batch_first() && x.rank() == 4 && x.shape[1] == 4)?;
    let mode = *net.draw.pick(&["DCR", "CRD"]);
    let name = net.node(op, &[&x.name], vec![make_attr_int("blocksize", 2), make_attr_string("mode", mode)]);
    net.yields(Val { name, shape: vec![1, 1, 2 * x.shape[2], 2 * x.shape[3]], ..x });
    Some(())
}

fn space_to_depth(net: &mut Net, op: &str) -> Option<()> {
    let even = |d: usize| d.is_multiple_of(2);
    let x = net.any(|x| x.is_batch_first() && x.rank() == 4 && even(x.shape[2]) && even(x.shape[3]))?;
    let name = net.node(op, &[&x.name], vec![make_attr_int("blocksize", 2)]);
    net.yields(Val { name, shape: vec![1, 4 * x.shape[1], x.shape[2] / 2, x.shape[3] / 2], ..x });
    Some(())
}
