//! Custom operators for pools with adjacent or overlapping 2×2 windows. Next to custom convolutions, onnxruntime would
//! reorder planes before and after each of its own pools.

use super::convolution::CONVOLUTION;
use super::operator::{Kernel, Operator};
use damper_kernels::convolution::Windows;
use damper_kernels::pool::Pool;
use damper_onnx::{CUSTOM_DOMAIN as DOMAIN, attr_int, attr_ints, attr_string, make_attr_int, pb};

/// Replaces pools of 2×2 windows without padding, if all convolutions are custom operators.
pub(super) fn put(graph: &mut pb::GraphProto) {
    let of = |domain: &str, name: &str| graph.node.iter().any(|node| node.domain == domain && node.op_type == name);
    if !of(DOMAIN, CONVOLUTION.name) || of("", "Conv") {
        return;
    }
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
            && [MAX_POOL.name, AVERAGE_POOL.name].contains(&&*node.op_type)
            && node.output.len() == 1
            && attr_ints(attributes, "kernel_shape") == Some(&[2, 2])
            && all("pads", 0)
            && all("dilations", 1)
            && attr_int(attributes, "ceil_mode", 0) == 0
            && attr_string(attributes, "auto_pad", "NOTSET") == "NOTSET";
        if is_plain {
            node.domain = DOMAIN.into();
            node.attribute = vec![make_attr_int("stride", stride)];
        }
    }
}

/// `x [N, C, *input] → y [N, C, *output]`, with the attribute `stride`, 1 or 2, for both axes.
pub(super) const MAX_POOL: Operator<Pooling> = Operator {
    name: "MaxPool",
    inputs: [1, 0],
    outputs: [1, 0],
    kernel: |attributes| Pooling { pool: Pool::Max, stride: attributes.int("stride"), windows: None },
};

/// See [`MAX_POOL`].
pub(super) const AVERAGE_POOL: Operator<Pooling> = Operator {
    name: "AveragePool",
    kernel: |attributes| Pooling { pool: Pool::Average, ..(MAX_POOL.kernel)(attributes) },
    ..MAX_POOL
};

/// Windows of each plane of an input of shape `x`. `None` if they do not fit.
fn windows(x: &[i64], stride: i64) -> Option<Windows> {
    let &[_, _, lines, columns] = x else { return None };
    Pool::windows([usize::try_from(lines).ok()?, usize::try_from(columns).ok()?], usize::try_from(stride).ok()?)
}

/// Kernel of a node.
pub(super) struct Pooling {
    pool: Pool,
    stride: i64,
    windows: Option<Windows>,
}

impl Kernel for Pooling {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(x)] = *inputs else { return None };
        let windows = windows(x, self.stride)?;
        self.windows = Some(windows);
        let [lines, columns] = windows.output.map(|extent| extent as i64);
        Some(vec![vec![x[0], x[1], lines, columns]])
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

    // The operator replaces a plain pool only after a custom convolution.
    #[test]
    fn replaces_plain_pool_after_custom_conv() {
        let graph = |domain: &str, attributes: &[pb::AttributeProto], outputs: &[&str]| {
            let mut convolution = make_node("Conv", "", &["x", "w"], &["c"], vec![]);
            if domain == DOMAIN {
                (convolution.op_type, convolution.domain) = (CONVOLUTION.name.into(), DOMAIN.into());
            }
            let attributes = [&[make_attr_ints("kernel_shape", &[2, 2])], attributes].concat();
            let pool = make_node("MaxPool", "", &["c"], outputs, attributes);
            pb::GraphProto { node: vec![convolution, pool], ..Default::default() }
        };
        let mut ours = graph(DOMAIN, &[make_attr_ints("strides", &[2, 2]), make_attr_ints("pads", &[0; 4])], &["y"]);
        put(&mut ours);
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
            put(&mut other);
            assert_eq!(other, before);
        }
    }
}
