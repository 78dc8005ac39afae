//! Predictions in the labels' unit. A model trained on scaled labels returns `output · std + mean`.

use damper_onnx::pb::{GraphProto, ModelProto};
use damper_onnx::{Tensor, TensorData, make_attr_tensor, make_node, make_tensor, rename_tensor};

/// Makes the output `name` of `model` equal to `output · std + mean`, by a product and a sum at the end. The constants
/// are in nodes, so they are not parameters. Returns false and does not change the model if no node computes the
/// output.
pub fn scale_output(model: &mut ModelProto, name: &str, mean: f64, std: f64) -> bool {
    let Some(graph) = &mut model.graph else { return false };
    let is_given = graph.node.iter().any(|node| node.output.iter().any(|output| output == name));
    if !is_given || !graph.output.iter().any(|output| output.name == name) {
        return false;
    }
    let own = |what: &str| format!("damper.labels.{what}");
    let (scaled, product, by, to) = (own("scaled"), own("product"), own("std"), own("mean"));
    graph.node.iter_mut().for_each(|node| rename_tensor(node, name, &scaled));
    for value in graph.value_info.iter_mut().filter(|value| value.name == name) {
        value.name.clone_from(&scaled);
    }
    constant(graph, &by, std as f32);
    constant(graph, &to, mean as f32);
    graph.node.push(make_node("Mul", &own("multiply"), &[&scaled, &by], &[&product], vec![]));
    graph.node.push(make_node("Add", &own("add"), &[&product, &to], &[name], vec![]));
    true
}

fn constant(graph: &mut GraphProto, name: &str, value: f32) {
    let tensor = make_tensor(name, &Tensor { shape: vec![], data: TensorData::F32(vec![value].into()) });
    graph.node.push(make_node(
        "Constant",
        &format!("{name}.value"),
        &[],
        &[name],
        vec![make_attr_tensor("value", tensor)],
    ));
}
