//! Files from both PyTorch exporters, if the repository's models are present.

use super::*;

/// Unsupported exports, and the expected part of the message.
const REFUSED: &[(&str, &str)] = &[
    ("batchnorm", "(BatchNormalization)"),
    ("bert.fused", "com.microsoft.SkipLayerNormalization has no rule"),
    ("dynamic-axis", "`shape`"),
    ("no-parameters", "no trainable initializer"),
];

// Exported models have the shapes and the sample independence that tract computes.
#[test]
fn exported_models_match_tract_shapes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models");
    let files =
        [folder.clone(), folder.join("exports")].into_iter().filter_map(|f| std::fs::read_dir(f).ok()).flatten();
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    paths.sort();
    assert!(!paths.is_empty(), "no models in onnx-models");
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let model = damper_edit::init::load(&path, None).unwrap().model;
        if let Some((_, word)) = REFUSED.iter().find(|(stem, _)| name.starts_with(stem)) {
            let message = refusal(&model);
            assert!(message.contains(word), "{name}: {message}");
            continue;
        }
        let graph = graph(&model).unwrap_or_else(|error| panic!("{name}: {error}"));
        // tract 0.23 has no GroupNormalization.
        if graph.nodes.iter().all(|node| node.op != "GroupNormalization") {
            let batch = &model.graph.as_ref().unwrap().input[0];
            examine(&model, &graph, fixed_batch(batch).unwrap_or(2));
        }
    }
}

fn fixed_batch(input: &ValueInfoProto) -> Option<usize> {
    use damper_onnx::pb::{tensor_shape_proto::dimension, type_proto};
    let type_proto::Value::TensorType(tensor) = input.r#type.as_ref()?.value.as_ref()?;
    match tensor.shape.as_ref()?.dim.first()?.value.as_ref()? {
        dimension::Value::DimValue(size) => usize::try_from(*size).ok(),
        dimension::Value::DimParam(_) => None,
    }
}
