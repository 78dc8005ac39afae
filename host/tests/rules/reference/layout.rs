//! Operators that move elements.

use damper::graph::Node;
use damper::onnx::attr_ints;

use super::Array;

/// The output of `node`; `None` for an operator that is not of this family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    Some(match node.op.as_str() {
        "Expand" => Array::from_fn(shape, |i| x[0].spread(i)),
        "Reshape" => Array::new(shape, x[0].data.clone()),
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
