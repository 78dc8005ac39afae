//! Custom operators in onnxruntime, on the processor.

use super::super::SessionSpec;
use super::clipped_sum::{SQUARED_NORMS, WEIGHTED_SUM};
use super::convolution::{self, CONVOLUTION};
use super::gelu::{GELU, GELU_GRAD};
use super::kernel_grad::KERNEL_GRAD;
use super::max_pool_grad::{self, MAX_POOL_GRAD};
use super::normalize::NORMALIZE;
use super::normalize_grad::NORMALIZE_GRAD;
use super::param_product::{self, PRODUCT};
use super::pool::{self, AVERAGE_POOL, MAX_POOL};
use super::softmax::SOFTMAX;
use super::softmax_grad::SOFTMAX_GRAD;
use super::tanh_grad::TANH_GRAD;
use damper_onnx::{CUSTOM_DOMAIN as DOMAIN, lower_custom, pb};
use ort::operator::OperatorDomain;
use std::collections::HashSet;

/// Operators for the session options.
pub(super) fn domain() -> ort::Result<OperatorDomain> {
    OperatorDomain::new(DOMAIN)?
        .add(CONVOLUTION)?
        .add(PRODUCT)?
        .add(MAX_POOL)?
        .add(AVERAGE_POOL)?
        .add(MAX_POOL_GRAD)?
        .add(KERNEL_GRAD)?
        .add(TANH_GRAD)?
        .add(GELU)?
        .add(GELU_GRAD)?
        .add(NORMALIZE)?
        .add(SOFTMAX)?
        .add(NORMALIZE_GRAD)?
        .add(SOFTMAX_GRAD)?
        .add(SQUARED_NORMS)?
        .add(WEIGHTED_SUM)
}

/// Replaces nodes for which a custom operator is faster, and keeps those of the gradient graph. `model` is bound to
/// `plan`.
pub(super) fn put(model: &mut pb::ModelProto, plan: &SessionSpec) {
    if let Some(graph) = &mut model.graph {
        convolution::put(graph, plan);
        pool::put(graph);
        param_product::put(graph, plan);
        leave_out_unread(graph);
    }
    let kept = [
        NORMALIZE.name,
        NORMALIZE_GRAD.name,
        SOFTMAX.name,
        SOFTMAX_GRAD.name,
        MAX_POOL_GRAD.name,
        KERNEL_GRAD.name,
        TANH_GRAD.name,
        GELU.name,
        GELU_GRAD.name,
        SQUARED_NORMS.name,
        WEIGHTED_SUM.name,
    ];
    let is_supported = |node: &pb::NodeProto| {
        kept.contains(&&*node.op_type) && (node.op_type != MAX_POOL_GRAD.name || max_pool_grad::suits(node))
    };
    lower_custom(model, is_supported);
}

/// Removes outputs of custom operators that nothing reads.
fn leave_out_unread(graph: &mut pb::GraphProto) {
    let read = graph.node.iter().flat_map(|node| &node.input).chain(graph.output.iter().map(|output| &output.name));
    let read: HashSet<String> = read.cloned().collect();
    for node in graph.node.iter_mut().filter(|node| node.domain == DOMAIN) {
        node.output.iter_mut().filter(|name| !read.contains(*name)).for_each(String::clear);
    }
}
