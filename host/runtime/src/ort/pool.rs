//! Pools of 2×2 windows that lie next to each other or overlap, as custom operators: beside convolutions that are ours, onnxruntime
//! reorders planes before and after each of its own.

use super::convolution::NAME as CONVOLUTION;
use super::operator::{Arity, Attributes, DOMAIN, Kernel, Operator};
use damper_kernels::convolution::Windows;
use damper_kernels::pool::Pool;
use damper_onnx::{attr_int, attr_ints, attr_string, make_attr_int, pb};

/// Puts the operators in the place of pools of 2×2 windows without padding, where all convolutions are ours, and tells whether there was one.
pub(super) fn put(graph: &mut pb::GraphProto) -> bool {
    let of = |domain: &str, name: &str| graph.node.iter().any(|node| node.domain == domain && node.op_type == name);
    if !of(DOMAIN, CONVOLUTION) || of("", "Conv") {
        return false;
    }
    let mut is_put = false;
    for node in &mut graph.node {
        let attributes = &node.attribute;
        let all = |name: &str, value: i64| {
            attr_ints(attributes, name).is_none_or(|list| list.iter().all(|entry| *entry == value))
        };
        let stride = match attr_ints(attributes, "strides") {
            None | Some([1, 1]) => 1,
            Some([2, 2]) => 2,
            _ => continue,
        };
        let is_plain = node.domain.is_empty()
            && [Pool::Max, Pool::Average].iter().any(|pool| pool.name() == node.op_type)
            && node.output.len() == 1
            && attr_ints(attributes, "kernel_shape") == Some(&[2, 2])
            && all("pads", 0)
            && all("dilations", 1)
            && attr_int(attributes, "ceil_mode", 0) == 0
            && attr_string(attributes, "auto_pad", "NOTSET") == "NOTSET";
        if is_plain {
            node.domain = DOMAIN.into();
            node.attribute = vec![make_attr_int("stride", stride)];
            is_put = true;
        }
    }
    is_put
}

/// `x [N, C, *input] → y [N, C, *output]`, with the attribute `stride`, 1 or 2, over lines and columns.
impl Operator for Pool {
    type Kernel = Pooling;

    fn name(&self) -> &'static str {
        match self {
            Self::Max => "MaxPool",
            Self::Average => "AveragePool",
        }
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 1, optional: 0 }
    }

    fn kernel(&self, attributes: &Attributes<'_>) -> Pooling {
        Pooling { pool: *self, stride: attributes.int("stride"), windows: None }
    }
}

/// Over each plane of an input of this shape, where they fit.
fn windows(x: &[i64], stride: i64) -> Option<Windows> {
    let &[_, _, lines, columns] = x else { return None };
    Pool::windows([usize::try_from(lines).ok()?, usize::try_from(columns).ok()?], usize::try_from(stride).ok()?)
}

/// A node's.
pub(super) struct Pooling {
    pool: Pool,
    stride: i64,
    windows: Option<Windows>,
}

impl Kernel for Pooling {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let [Some(x)] = *inputs else { return None };
        let windows = windows(x, self.stride)?;
        self.windows = Some(windows);
        let [lines, columns] = windows.output.map(|extent| extent as i64);
        Some(vec![Some(vec![x[0], x[1], lines, columns])])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x)], [Some(y)]) = (inputs, outputs) else { return None };
        self.pool.run(self.windows?, x, y);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_onnx::{make_attr_ints, make_node};

    #[test]
    fn they_stand_for_plain_pools_beside_convolutions_that_are_ours() {
        let graph = |domain: &str, attributes: &[pb::AttributeProto], outputs: &[&str]| {
            let mut convolution = make_node("Conv", "", &["x", "w"], &["c"], vec![]);
            if domain == DOMAIN {
                (convolution.op_type, convolution.domain) = (CONVOLUTION.into(), DOMAIN.into());
            }
            let attributes = [&[make_attr_ints("kernel_shape", &[2, 2])], attributes].concat();
            let pool = make_node("MaxPool", "", &["c"], outputs, attributes);
            pb::GraphProto { node: vec![convolution, pool], ..Default::default() }
        };
        let mut ours = graph(DOMAIN, &[make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[0; 4])], &["y"]);
        assert!(put(&mut ours));
        assert_eq!((&*ours.node[1].domain, &*ours.node[1].op_type), (DOMAIN, "MaxPool"));
        for mut other in [
            graph("", &[], &["y"]),
            graph(DOMAIN, &[make_attr_ints("pads", &[0, 0, 0, 1])], &["y"]),
            graph(DOMAIN, &[make_attr_ints("strides", &[2, 1])], &["y"]),
            graph(DOMAIN, &[make_attr_ints("dilations", &[1, 2])], &["y"]),
            graph(DOMAIN, &[make_attr_int("ceil_mode", 1)], &["y"]),
            graph(DOMAIN, &[], &["y", "indices"]),
        ] {
            let before = other.clone();
            assert!(!put(&mut other));
            assert_eq!(other, before);
        }
    }
}
