//! Operators of our own in onnxruntime, on the processor.

use super::super::Plan;
use super::convolution::{self, Convolve};
use super::pool::{self, Pool};
use super::tanh_grad::{self, TanhGrad};
use crate::onnx::pb;
use ort::operator::OperatorDomain;

/// Name of their domain.
pub(super) const DOMAIN: &str = "damper";

/// The operators, for a session's options.
pub(super) fn domain() -> ort::Result<OperatorDomain> {
    OperatorDomain::new(DOMAIN)?.add(Convolve)?.add(Pool::Max)?.add(Pool::Average)?.add(TanhGrad)
}

/// Puts them in the place of nodes that are better done by them. `model` is bound to `plan`.
pub(super) fn put(model: &mut pb::ModelProto, plan: &Plan) {
    let Some(graph) = &mut model.graph else { return };
    let are_put = [convolution::put(graph, plan), pool::put(graph), tanh_grad::put(graph)];
    if are_put.contains(&true) {
        model.opset_import.push(pb::OperatorSetIdProto { domain: DOMAIN.into(), version: 1 });
    }
}
