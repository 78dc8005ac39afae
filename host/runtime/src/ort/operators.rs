//! Operators of our own in onnxruntime, on the processor.

use super::super::Plan;
use super::convolution::{self, Convolve};
use super::elementwise::{self, Elementwise};
use super::graph_index::{self, GraphIndex};
use super::normalize::{self, Normalize};
use super::normalize_grad::{self, NormalizeGrad};
use super::operator::{DOMAIN, Declared};
use super::pool;
use super::product::{self, Multiply};
use super::softmax::{self, Softmax};
use super::softmax_grad::{self, SoftmaxGrad};
use super::tanh_grad::{self, TanhGrad};
use damper_kernels::pool::Pool;
use damper_onnx::pb;
use ort::operator::OperatorDomain;

/// The operators, for a session's options.
pub(super) fn domain() -> ort::Result<OperatorDomain> {
    OperatorDomain::new(DOMAIN)?
        .add(Declared(Convolve))?
        .add(Declared(Multiply))?
        .add(Declared(Pool::Max))?
        .add(Declared(Pool::Average))?
        .add(Declared(TanhGrad))?
        .add(Declared(Normalize))?
        .add(Declared(Softmax))?
        .add(Declared(Elementwise))?
        .add(Declared(NormalizeGrad))?
        .add(Declared(SoftmaxGrad))
}

/// Puts them in the place of nodes that are better done by them. `model` is bound to `plan`.
pub(super) fn put(model: &mut pb::ModelProto, plan: &Plan) {
    let Some(graph) = &mut model.graph else { return };
    let of_others = [convolution::put(graph, plan), pool::put(graph), tanh_grad::put(graph)];
    let graph_index = GraphIndex::new(graph, plan);
    let of_rows = [product::places, normalize::places, softmax::places, normalize_grad::places, softmax_grad::places];
    let mut places: Vec<_> = of_rows.iter().flat_map(|places| places(graph, &graph_index)).collect();
    let taken: Vec<usize> = places.iter().flat_map(|place| place.nodes.iter().copied()).collect();
    places.extend(elementwise::places(graph, &graph_index, &taken));
    if graph_index::put(graph, places) || of_others.contains(&true) {
        model.opset_import.push(pb::OperatorSetIdProto { domain: DOMAIN.into(), version: 1 });
    }
}
