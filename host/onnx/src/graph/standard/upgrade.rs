//! Converts nodes of opsets 7 to 12 to opset 13, and of opsets 22 to 24 to opset 21.
//!
//! If an attribute became an input, the input is a constant named after the output. For operators that have a rule,
//! opsets 22 to 24 changed only element types, and attributes for element types that are not supported.

use super::super::GraphError;
use crate::pb::{AttributeProto, GraphProto, NodeProto, TensorProto};
use crate::scopes::{DEEPEST, all_names, constant, inner_mut};
use crate::{
    Tensor, attr_float, attr_int, attr_ints, attr_string, attr_tensor, decode_tensor, find_attr, make_attr_int,
    make_attr_string, make_tensor_f32, make_tensor_i64,
};
use std::collections::HashSet;

/// Marks a `Softmax` or `LogSoftmax` from before opset 13, which normalises over all axes from its axis on.
pub(in super::super) const FLATTENS: &str = "dp.flattens";

/// Converts the nodes of `graph`, of opset `opset`, to the form that the rules support.
///
/// # Errors
/// [`GraphError`] for a node without an equivalent in the newer opset.
pub(super) fn upgrade(graph: &mut GraphProto, opset: i64) -> Result<(), GraphError> {
    if (13..22).contains(&opset) {
        return Ok(());
    }
    let names = all_names(graph);
    of_graph(graph, opset, &names, 0)
}

fn of_graph(graph: &mut GraphProto, opset: i64, names: &HashSet<String>, depth: usize) -> Result<(), GraphError> {
    let mut nodes = std::mem::take(&mut graph.node);
    let mut constants = Vec::new();
    let mut stored = graph.initializer.clone();
    for node in nodes.iter().filter(|node| node.op_type == "Constant") {
        let value = attr_tensor(&node.attribute, "value").zip(node.output.first());
        stored.extend(value.map(|(tensor, name)| TensorProto { name: name.clone(), ..tensor.clone() }));
    }
    for node in &mut nodes {
        if depth < DEEPEST {
            for inner in inner_mut(node) {
                of_graph(inner, opset, names, depth + 1)?;
            }
        }
        if matches!(node.domain.as_str(), "" | "ai.onnx") {
            let mut upgrade = Upgrade { node, opset, stored: &stored, names, constants: &mut constants };
            if opset < 13 { upgrade.raise()? } else { upgrade.lower() }
        }
    }
    graph.node = constants.into_iter().chain(nodes).collect();
    Ok(())
}

struct Upgrade<'a> {
    node: &'a mut NodeProto,
    opset: i64,
    /// Initializers and constants of the graph.
    stored: &'a [TensorProto],
    /// All names of the model.
    names: &'a HashSet<String>,
    /// Nodes for the inputs that replace attributes.
    constants: &'a mut Vec<NodeProto>,
}

impl Upgrade<'_> {
    fn raise(&mut self) -> Result<(), GraphError> {
        match self.node.op_type.as_str() {
            "Softmax" | "LogSoftmax" => self.flattening(),
            "Squeeze" | "Unsqueeze" | "ReduceSum" => self.list_to_input("axes", 1),
            "Split" => self.list_to_input("split", 1),
            "Dropout" if self.opset < 12 => self.remove("ratio"),
            "Clip" if self.opset < 11 => self.bounds(),
            "Pad" if self.opset < 11 => self.pads(),
            "Slice" if self.opset < 10 => self.slice()?,
            "TopK" if self.opset < 10 => self.number_to_input("k", 1),
            "Upsample" => self.upsample()?,
            "Resize" if self.opset < 11 => self.scaled()?,
            "Scatter" => self.node.op_type = "ScatterElements".into(),
            "BatchNormalization" if self.opset < 9 && attr_int(&self.node.attribute, "spatial", 1) == 0 => {
                return Err(self.invalid("spatial is 0, so it has statistics for each place"));
            }
            _ => {}
        }
        Ok(())
    }

    fn lower(&mut self) {
        // They select a rounding to 8-bit floats.
        if matches!(self.node.op_type.as_str(), "Cast" | "CastLike") {
            self.remove("round_mode");
            self.remove("saturate");
        }
    }

    fn invalid(&self, reason: impl Into<String>) -> GraphError {
        GraphError::Invalid { node: self.node.name.clone(), op: self.node.op_type.clone(), reason: reason.into() }
    }

    fn remove(&mut self, name: &str) {
        self.node.attribute.retain(|attribute| attribute.name != name);
    }

    fn take(&mut self, name: &str) -> Option<AttributeProto> {
        let at = self.node.attribute.iter().position(|attribute| attribute.name == name)?;
        Some(self.node.attribute.remove(at))
    }

    /// Makes `tensor` the input `slot`.
    fn input(&mut self, slot: usize, what: &str, tensor: impl FnOnce(&str) -> TensorProto) {
        let mut name = format!("{}/{what}", self.node.output.first().map_or("", String::as_str));
        while self.names.contains(&name) {
            name.push('_');
        }
        self.constants.push(constant(tensor(&name)));
        let length = self.node.input.len().max(slot + 1);
        self.node.input.resize(length, String::new());
        self.node.input[slot] = name;
    }

    fn list_to_input(&mut self, what: &str, slot: usize) {
        if let Some(list) = self.take(what) {
            self.input(slot, what, |name| make_tensor_i64(name, &[list.ints.len()], &list.ints));
        }
    }

    fn number_to_input(&mut self, what: &str, slot: usize) {
        if let Some(number) = self.take(what) {
            self.input(slot, what, |name| make_tensor_i64(name, &[1], &[number.i]));
        }
    }

    /// Flattens all axes from `axis` on. The default is 1.
    fn flattening(&mut self) {
        if find_attr(&self.node.attribute, "axis").is_none() {
            self.node.attribute.push(make_attr_int("axis", 1));
        }
        self.node.attribute.push(make_attr_int(FLATTENS, 1));
    }

    fn bounds(&mut self) {
        for (slot, what) in [(1, "min"), (2, "max")] {
            if let Some(bound) = self.take(what) {
                self.input(slot, what, |name| make_tensor_f32(name, &[], &[bound.f]));
            }
        }
    }

    fn pads(&mut self) {
        let value = attr_float(&self.node.attribute, "value", 0.0);
        let constant = attr_string(&self.node.attribute, "mode", "constant") == "constant";
        self.remove("value");
        self.list_to_input("pads", 1);
        if constant && value != 0.0 {
            self.input(2, "value", |name| make_tensor_f32(name, &[], &[value]));
        }
    }

    fn slice(&mut self) -> Result<(), GraphError> {
        if attr_ints(&self.node.attribute, "starts").is_none() || attr_ints(&self.node.attribute, "ends").is_none() {
            return Err(self.invalid("it has no starts and ends"));
        }
        for (slot, what) in [(1, "starts"), (2, "ends"), (3, "axes")] {
            self.list_to_input(what, slot);
        }
        Ok(())
    }

    /// `Upsample` is a `Resize` whose element `i` comes from `floor(i / scale)`.
    fn upsample(&mut self) -> Result<(), GraphError> {
        if self.opset < 9 {
            let Some(scales) = self.take("scales") else { return Err(self.invalid("it has no scales")) };
            self.input(1, "scales", |name| make_tensor_f32(name, &[scales.floats.len()], &scales.floats));
        }
        self.node.op_type = "Resize".into();
        self.resize();
        Ok(())
    }

    /// Before opset 11, input 1 has the scales, and element `i` comes from `i / scale`, rounded down, or up if the axis
    /// shrinks.
    fn scaled(&mut self) -> Result<(), GraphError> {
        let scales = self.scales();
        let known = scales.as_ref().and_then(|tensor| tensor.as_f32());
        let any = |holds: fn(&f32) -> bool| known.is_some_and(|scales| scales.iter().any(holds));
        let is_mixed = any(|scale| *scale < 1.0) && any(|scale| *scale > 1.0);
        // The newer operator rounds all axes in the same way.
        let is_nearest = attr_string(&self.node.attribute, "mode", "nearest") == "nearest";
        if is_nearest && (known.is_none() || is_mixed) {
            let reason = "its scales are data, or some shrink and others grow, which newer operator sets cannot say";
            return Err(self.invalid(reason));
        }
        self.resize();
        Ok(())
    }

    /// Scales, if they are known.
    fn scales(&self) -> Option<Tensor> {
        let name = self.node.input.get(1)?;
        self.stored.iter().find(|tensor| tensor.name == *name).and_then(|proto| decode_tensor(proto).ok())
    }

    fn resize(&mut self) {
        let shrinks = self.scales().is_some_and(|scales| scales.as_f32().is_some_and(|s| s.iter().any(|s| *s < 1.0)));
        let scales = self.node.input.get(1).cloned().unwrap_or_default();
        self.node.input.truncate(1);
        self.node.input.extend([String::new(), scales]);
        let mode = match attr_string(&self.node.attribute, "mode", "nearest") {
            "bilinear" => "linear".to_owned(),
            other => other.to_owned(),
        };
        self.remove("mode");
        self.node.attribute.extend([
            make_attr_string("mode", &mode),
            make_attr_string("coordinate_transformation_mode", "asymmetric"),
            make_attr_string("nearest_mode", if shrinks { "ceil" } else { "floor" }),
        ]);
    }
}
