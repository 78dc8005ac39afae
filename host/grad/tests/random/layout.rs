//! Operators that move elements.

use damper_onnx::graph::BatchAxis;
use damper_onnx::{make_attr_int, make_attr_ints};

use super::Op;
use super::net::{MAX_LEN, Net, VOCABULARY, Val, axis_attribute};

pub const OPS: &[Op] = &[
    ("Concat", concat),
    ("CumSum", cum_sum),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("Reshape", reshape),
    ("Slice", slice),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("TopK", top_k),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
];

fn transpose(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.rank() > 1)?;
    let order = net.draw.order(x.rank());
    let perm: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
    let name = net.node(op, &[&x.name], vec![make_attr_ints("perm", &perm)]);
    let shape = order.iter().map(|&axis| x.shape[axis]).collect();
    let batch = x.batch.map(|b| BatchAxis { axis: order.iter().position(|&p| p == b.axis).expect("in it"), ..b });
    net.yields(Val { name, shape, batch, bound: x.bound });
    Some(())
}

/// Splits an axis, merges two of a sample's own axes, or merges an axis with the batch.
fn reshape(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|_| true)?;
    let batch = x.batch.expect("the pool holds activations");
    let mut shape = x.shape.clone();
    let mut at = batch;
    match net.draw.below(3) {
        0 => {
            let even: Vec<usize> = x.own_axes().into_iter().filter(|&a| shape[a] % 2 == 0 && shape.len() < 5).collect();
            if even.is_empty() {
                return None;
            }
            let axis = *net.draw.pick(&even);
            shape[axis] /= 2;
            shape.insert(axis, 2);
            at.axis += usize::from(axis < batch.axis);
        }
        1 => {
            let pairs: Vec<usize> = (1..x.rank()).filter(|&a| a != batch.axis && a - 1 != batch.axis).collect();
            if pairs.is_empty() {
                return None;
            }
            let axis = *net.draw.pick(&pairs);
            let merged = shape.remove(axis);
            shape[axis - 1] *= merged;
            at.axis -= usize::from(axis < batch.axis);
        }
        _ => {
            // Merges the batch with the axis after or before it.
            let (before, after) = (batch.axis > 0, batch.axis + 1 < x.rank());
            if after && (!before || net.draw.one_in(2)) {
                let d = shape.remove(batch.axis + 1);
                shape[batch.axis] *= d;
                at.inner *= d;
            } else if before {
                let d = shape.remove(batch.axis - 1);
                at.axis -= 1;
                shape[at.axis] *= d;
                at.outer *= d;
            } else {
                return None;
            }
        }
    }
    let target = net.target(&shape, Some(at));
    let name = net.node(op, &[&x.name, &target], vec![]);
    net.yields(Val { name, shape, batch: Some(at), bound: x.bound });
    Some(())
}

fn flatten(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.is_batch_first() && x.rank() > 1)?;
    let name = net.node(op, &[&x.name], vec![make_attr_int("axis", 1)]);
    net.yields(Val { name, shape: vec![1, x.len()], ..x });
    Some(())
}

fn unsqueeze(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.rank() < 5)?;
    let axis = net.draw.between(0, x.rank());
    let axes = net.ints(&[axis as i64]);
    let name = net.node(op, &[&x.name, &axes], vec![]);
    let mut shape = x.shape.clone();
    shape.insert(axis, 1);
    let batch = x.batch.map(|b| BatchAxis { axis: b.axis + usize::from(axis <= b.axis), ..b });
    net.yields(Val { name, shape, batch, bound: x.bound });
    Some(())
}

fn squeeze(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.own_axes().iter().any(|&a| x.shape[a] == 1))?;
    let axis = x.own_axes().into_iter().find(|&a| x.shape[a] == 1)?;
    let axes = net.ints(&[axis as i64 - x.rank() as i64]);
    let name = net.node(op, &[&x.name, &axes], vec![]);
    let mut shape = x.shape.clone();
    shape.remove(axis);
    let batch = x.batch.map(|b| BatchAxis { axis: b.axis - usize::from(axis < b.axis), ..b });
    net.yields(Val { name, shape, batch, bound: x.bound });
    Some(())
}

/// Value, and one of its own axes with at least `extent` entries.
fn along(net: &mut Net, extent: usize) -> Option<(Val, usize)> {
    let x = net.any(|x| x.own_axes().iter().any(|&a| x.shape[a] >= extent))?;
    let axes: Vec<usize> = x.own_axes().into_iter().filter(|&a| x.shape[a] >= extent).collect();
    let axis = *net.draw.pick(&axes);
    Some((x, axis))
}

fn slice(net: &mut Net, op: &str) -> Option<()> {
    let (x, axis) = along(net, 2)?;
    let d = x.shape[axis] as i64;
    let (start, end, step, count) = match net.draw.below(4) {
        0 => (1, i64::MAX, 1, d - 1),
        1 => (0, -1, 1, d - 1),
        2 => (0, d, 2, (d + 1) / 2),
        _ => (-1, i64::MIN, -1, d),
    };
    let lists = [start, end, axis as i64, step].map(|v| net.ints(&[v]));
    let name = net.node(op, &[&x.name, &lists[0], &lists[1], &lists[2], &lists[3]], vec![]);
    let mut shape = x.shape.clone();
    shape[axis] = count as usize;
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn split(net: &mut Net, op: &str) -> Option<()> {
    let (x, axis) = along(net, 2)?;
    let d = x.shape[axis];
    let first = net.draw.between(1, d - 1);
    let parts = net.ints(&[first as i64, (d - first) as i64]);
    let (a, b) = (net.fresh("v"), net.fresh("v"));
    net.nodes_with(op, &[&x.name, &parts], &[&a, &b], vec![axis_attribute(axis, x.rank(), false)]);
    for (name, extent) in [(a, first), (b, d - first)] {
        let mut shape = x.shape.clone();
        shape[axis] = extent;
        net.yields(Val { name, shape, ..x.clone() });
    }
    Some(())
}

fn concat(net: &mut Net, op: &str) -> Option<()> {
    let (x, axis) = along(net, 1)?;
    let fits = |y: &Val| {
        y.batch == x.batch && y.rank() == x.rank() && (0..x.rank()).all(|a| a == axis || y.shape[a] == x.shape[a])
    };
    let y = net.any(fits)?;
    let mut shape = x.shape.clone();
    shape[axis] += y.shape[axis];
    if shape.iter().product::<usize>() > MAX_LEN {
        return None;
    }
    let attribute = axis_attribute(axis, x.rank(), net.draw.one_in(2));
    let name = net.node(op, &[&y.name, &x.name], vec![attribute]);
    net.yields(Val { name, shape, batch: x.batch, bound: x.bound.max(y.bound) });
    Some(())
}

/// Gather with constant (sometimes scalar) indices from an activation, or with token ids from a table.
fn gather(net: &mut Net, op: &str) -> Option<()> {
    if let Some((tokens, length)) = net.tokens.clone()
        && net.draw.one_in(2)
    {
        let width = net.draw.between(1, 4);
        let table = net.param(&[VOCABULARY, width]);
        let name = net.node(op, &[&table.name, &tokens], vec![]);
        let batch = Some(BatchAxis { axis: 0, outer: 1, inner: 1 });
        net.yields(Val { name, shape: vec![1, length, width], batch, bound: table.bound });
        return Some(());
    }
    let (x, axis) = along(net, 2)?;
    let d = x.shape[axis];
    let mut shape = x.shape.clone();
    if net.draw.one_in(2) {
        let index = net.draw.below(d) as i64 - if net.draw.one_in(2) { d as i64 } else { 0 };
        let index = net.int_tensor(&[], &[index]);
        let name = net.node(op, &[&x.name, &index], vec![axis_attribute(axis, x.rank(), false)]);
        shape.remove(axis);
        let batch = x.batch.map(|b| BatchAxis { axis: b.axis - usize::from(axis < b.axis), ..b });
        net.yields(Val { name, shape, batch, bound: x.bound });
        return Some(());
    }
    let count = net.draw.between(1, 3);
    let indices: Vec<i64> = (0..count).map(|_| net.draw.below(d) as i64).collect();
    let indices = net.ints(&indices);
    let name = net.node(op, &[&x.name, &indices], vec![axis_attribute(axis, x.rank(), false)]);
    shape[axis] = count;
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn gather_elements(net: &mut Net, op: &str) -> Option<()> {
    // Constant indices have the samples' extent only for a table without a batch.
    let table = net.param(&[3, 4]);
    let indices: Vec<i64> = (0..8).map(|_| net.draw.below(3) as i64).collect();
    let indices = net.int_tensor(&[2, 4], &indices);
    let gathered = net.node(op, &[&table.name, &indices], vec![make_attr_int("axis", 0)]);
    let x = net.any(|x| x.is_batch_first() && x.rank() > 1 && x.shape[x.rank() - 1] == 2)?;
    let name = net.node("MatMul", &[&x.name, &gathered], vec![]);
    let shape = [&x.shape[..x.rank() - 1], &[4]].concat();
    net.yields(Val { name, shape, batch: x.batch, bound: 2.0 * x.bound * table.bound });
    Some(())
}

/// On elements with large differences, so that a small step does not change their order.
fn top_k(net: &mut Net, op: &str) -> Option<()> {
    if !net.draw.one_in(5) {
        return None;
    }
    let x = net.any(|x| x.is_batch_first() && x.rank() > 1)?;
    let extent = x.shape[x.rank() - 1];
    let apart: Vec<f32> = (0..extent).map(|i| (3.0 * x.bound) as f32 * i as f32).collect();
    let shift = net.constant(&[extent], &apart);
    let moved = net.node("Add", &[&x.name, &shift], vec![]);
    let count = net.draw.between(1, extent);
    let k = net.ints(&[count as i64]);
    let name = net.node(op, &[&moved, &k], vec![]);
    let shape = [&x.shape[..x.rank() - 1], &[count]].concat();
    net.yields(Val { name, shape, batch: x.batch, bound: x.bound * (3 * extent + 4) as f64 });
    Some(())
}

fn expand(net: &mut Net, op: &str) -> Option<()> {
    let x = net.any(|x| x.own_axes().iter().any(|&a| x.shape[a] == 1) && x.len() <= MAX_LEN / 3)?;
    let axis = x.own_axes().into_iter().find(|&a| x.shape[a] == 1)?;
    let mut target = vec![1; x.rank()];
    target[axis] = net.draw.between(2, 3);
    let list = net.ints(&target.iter().map(|&d| d as i64).collect::<Vec<_>>());
    let name = net.node(op, &[&x.name, &list], vec![]);
    let mut shape = x.shape.clone();
    shape[axis] = target[axis];
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn tile(net: &mut Net, op: &str) -> Option<()> {
    let (x, axis) = along(net, 1)?;
    if 2 * x.len() > MAX_LEN {
        return None;
    }
    let mut repeats = vec![1i64; x.rank()];
    repeats[axis] = 2;
    let repeats = net.ints(&repeats);
    let name = net.node(op, &[&x.name, &repeats], vec![]);
    let mut shape = x.shape.clone();
    shape[axis] *= 2;
    net.yields(Val { name, shape, ..x });
    Some(())
}

fn trilu(net: &mut Net, op: &str) -> Option<()> {
    if net.opset < 14 {
        return None;
    }
    let x = net.any(|x| x.rank() > 2 && x.batch.is_some_and(|b| b.axis + 2 < x.rank()))?;
    let k = diagonal(x.shape[x.rank() - 1]);
    let k = net.int_tensor(&[], &[k]);
    let upper = net.draw.below(2) as i64;
    let name = net.node(op, &[&x.name, &k], vec![make_attr_int("upper", upper)]);
    net.yields(Val { name, ..x });
    Some(())
}

fn diagonal(extent: usize) -> i64 {
    if extent.is_multiple_of(2) { 1 } else { -1 }
}

fn cum_sum(net: &mut Net, op: &str) -> Option<()> {
    if net.opset < 14 {
        return None;
    }
    let (x, axis) = along(net, 2)?;
    let at = net.int_tensor(&[], &[axis as i64]);
    let attributes =
        vec![make_attr_int("exclusive", net.draw.below(2) as i64), make_attr_int("reverse", net.draw.below(2) as i64)];
    let name = net.node(op, &[&x.name, &at], attributes);
    let bound = x.bound * x.shape[axis] as f64;
    net.yields(Val { name, bound, ..x });
    Some(())
}
