//! Models in the form that tract runs.

use damper_onnx::pb::ModelProto;
use prost::Message as _;
use std::sync::Arc;
use tract_onnx::prelude::*;

/// Form of the graph to run.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Optimised,
    AsWritten,
}

/// Loads `model` in this form. tract has its own types for the messages of the file.
pub(super) fn runnable(model: &ModelProto, form: Form) -> TractResult<Arc<TypedRunnableModel>> {
    let model = tract_onnx::pb::ModelProto::decode(&model.encode_to_vec()[..])?;
    let parsed = tract_onnx::onnx().with_ignore_output_shapes(true).parse(&model, None)?;
    let model = match form {
        Form::Optimised => parsed.model.into_optimized(),
        Form::AsWritten => parsed.model.into_typed(),
    }?;
    model.into_runnable()
}

/// Chain of causes on one line, outermost first. The outermost cause names the node.
pub(super) fn one_line(error: &TractError) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string().replace('\n', " "));
    }
    text
}
