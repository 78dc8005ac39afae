//! Operators that move elements.

use damper_onnx::graph::Node;
use damper_onnx::{attr_int, attr_ints, attr_string};

use super::{Array, unravel};

/// Output of `node`. `None` for an operator of another family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    let int = |name: &str| attr_int(&node.attributes, name, 0) as usize;
    Some(match node.op.as_str() {
        "Concat" => {
            let axis = int("axis");
            Array::from_fn(shape, |i| {
                let (mut part, mut at) = (0, i.to_vec());
                while at[axis] >= x[part].shape[axis] {
                    at[axis] -= x[part].shape[axis];
                    part += 1;
                }
                x[part].at(&at)
            })
        }
        "CumSum" => {
            let axis = x[1].data[0] as usize;
            let counts = |s: usize, t: usize| {
                let between = if int("reverse") == 1 { s >= t } else { s <= t };
                between && (s != t || int("exclusive") == 0)
            };
            let term = |i: &[usize], s: usize| x[0].at(&[&i[..axis], &[s], &i[axis + 1..]].concat());
            Array::from_fn(shape, |i| (0..shape[axis]).filter(|&s| counts(s, i[axis])).map(|s| term(i, s)).sum())
        }
        "Expand" => Array::from_fn(shape, |i| x[0].spread(i)),
        "Gather" => {
            let (axis, rank) = (int("axis"), x[1].shape.len());
            Array::from_fn(shape, |i| {
                let row = from_front(x[1].at(&i[axis..axis + rank]), x[0].shape[axis]);
                x[0].at(&[&i[..axis], &[row], &i[axis + rank..]].concat())
            })
        }
        "GatherElements" => {
            let axis = int("axis");
            Array::from_fn(shape, |i| {
                let row = from_front(x[1].at(i), x[0].shape[axis]);
                x[0].at(&[&i[..axis], &[row], &i[axis + 1..]].concat())
            })
        }
        "ScatterElements" => {
            assert_eq!(attr_string(&node.attributes, "reduction", "none"), "add");
            let axis = int("axis");
            let mut y = x[0].clone();
            for (flat, update) in x[2].data.iter().enumerate() {
                let mut to = unravel(flat, &x[2].shape);
                to[axis] = from_front(x[1].data[flat], shape[axis]);
                y.data[to.iter().zip(shape).fold(0, |flat, (i, d)| flat * d + i)] += update;
            }
            y
        }
        "TopK" => {
            let axis = attr_int(&node.attributes, "axis", -1).rem_euclid(shape.len() as i64) as usize;
            let places = places(node, x[0], shape);
            Array::from_fn(shape, |i| x[0].at(&[&i[..axis], &[places.at(i) as usize], &i[axis + 1..]].concat()))
        }
        "Reshape" => Array::new(shape, x[0].data.clone()),
        "Slice" => Array::from_fn(shape, |i| {
            let mut from = i.to_vec();
            for ((&start, &axis), &step) in x[1].data.iter().zip(&x[3].data).zip(&x[4].data) {
                from[axis as usize] = (start + i[axis as usize] as f64 * step) as usize;
            }
            x[0].at(&from)
        }),
        "Trilu" => {
            let diagonal = x.get(1).map_or(0.0, |k| k.data[0]);
            let upper = attr_int(&node.attributes, "upper", 1) != 0;
            Array::from_fn(shape, |i| {
                let above = i[i.len() - 1] as f64 - i[i.len() - 2] as f64;
                let inside = if upper { above >= diagonal } else { above <= diagonal };
                if inside { x[0].at(i) } else { 0.0 }
            })
        }
        "Transpose" => {
            let perm: Vec<usize> = match attr_ints(&node.attributes, "perm") {
                Some(perm) => perm.iter().map(|&p| p as usize).collect(),
                None => (0..shape.len()).rev().collect(),
            };
            Array::from_fn(shape, |i| {
                let mut from = vec![0; i.len()];
                for (axis, &p) in perm.iter().enumerate() {
                    from[p] = i[axis];
                }
                x[0].at(&from)
            })
        }
        _ => return None,
    })
}

/// A negative index counts from the end.
fn from_front(index: f64, extent: usize) -> usize {
    if index < 0.0 { (extent as f64 + index) as usize } else { index as usize }
}

/// Second output of `TopK`.
pub fn places(node: &Node, x: &Array, shape: &[usize]) -> Array {
    let axis = attr_int(&node.attributes, "axis", -1).rem_euclid(shape.len() as i64) as usize;
    let sign = if attr_int(&node.attributes, "largest", 1) == 0 { 1.0 } else { -1.0 };
    Array::from_fn(shape, |i| {
        let along = |place: usize| x.at(&[&i[..axis], &[place], &i[axis + 1..]].concat());
        let mut order: Vec<usize> = (0..x.shape[axis]).collect();
        order.sort_by(|a, b| (sign * along(*a)).total_cmp(&(sign * along(*b))));
        order[i[axis]] as f64
    })
}
