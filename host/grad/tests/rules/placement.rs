//! Every node of a gradient graph has a kernel in onnxruntime's CUDA provider. None runs on the processor.

mod kernels;

use crate::builder::Case;
use crate::readout_cases;
use damper_edit::init;
use damper_grad::{DeriveOptions, GradGraph, Loss, Readout, derive};
use damper_onnx::graph::{DType, Graph, GraphOptions};
use damper_onnx::pb::{GraphProto, NodeProto, ValueInfoProto, tensor_proto::DataType, type_proto};
use damper_onnx::{Extent, attr_int, attr_ints, attr_string, make_attr_ints, make_node, make_value_info};
use kernels::{KERNELS, OPSETS, Output, WITHOUT};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// Types of a graph's tensors, and the set of constant tensors.
#[derive(Default)]
struct Known {
    types: HashMap<String, DType>,
    /// Tensors that onnxruntime computes when it loads the model, before it places nodes. They are initializers, shapes
    /// (the batch is fixed by then), and anything computed only from such tensors.
    folded: HashSet<String>,
}

fn dtype(number: i32) -> Option<DType> {
    Some(match DataType::try_from(number).ok()? {
        DataType::Float => DType::F32,
        DataType::Double => DType::F64,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::Bool => DType::Bool,
        _ => return None,
    })
}

impl Known {
    fn of(graph: &GraphProto) -> Self {
        let mut known = Self::default();
        let element = |info: &ValueInfoProto| {
            let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()?;
            dtype(tensor.elem_type)
        };
        for info in &graph.input {
            known.types.insert(info.name.clone(), element(info).expect("an input of a known type"));
        }
        for tensor in &graph.initializer {
            known.types.insert(tensor.name.clone(), dtype(tensor.data_type).expect("a constant of a known type"));
            known.folded.insert(tensor.name.clone());
        }
        known
    }

    /// Adds the outputs of `node`. The error is the reason why it runs on the processor.
    fn place(&mut self, node: &NodeProto) -> Result<(), String> {
        let kernel = KERNELS.iter().find(|kernel| kernel.op == node.op_type && node.domain.is_empty());
        let kernel = kernel.ok_or("there is no kernel, or the table lacks it")?;
        let types: Vec<Option<DType>> = node.input.iter().map(|name| self.types.get(name).copied()).collect();
        let output = match kernel.output {
            Output::Like(input) => types[input].expect("typed before it is read"),
            Output::Is(dtype) => dtype,
            Output::Named => dtype(attr_int(&node.attribute, "to", 0) as i32).ok_or("it casts to another type")?,
        };
        self.types.extend(node.output.iter().map(|name| (name.clone(), output)));
        if let ("TopK", Some(places)) = (&*node.op_type, node.output.get(1)) {
            self.types.insert(places.clone(), DType::I64);
        }
        let is_folded = |name: &String| name.is_empty() || self.folded.contains(name);
        if node.op_type == "Shape" || node.input.iter().all(is_folded) {
            self.folded.extend(node.output.iter().cloned());
            return Ok(());
        }
        for (index, dtype) in types.into_iter().enumerate().filter_map(|(index, dtype)| Some((index, dtype?))) {
            let taken = kernel.inputs[index.min(kernel.inputs.len() - 1)];
            if !taken.contains(&dtype) {
                return Err(format!("input {index} is {dtype:?}, and kernels take {taken:?}"));
            }
            if kernel.host.contains(&index) && !is_folded(&node.input[index]) {
                return Err(format!("input {index} is read in the processor's memory, and computed on the device"));
            }
        }
        attributes(node)
    }
}

/// Conditions on attributes.
fn attributes(node: &NodeProto) -> Result<(), String> {
    let is_even = |pads: &[i64]| pads[..pads.len() / 2] == pads[pads.len() / 2..];
    let pads = attr_ints(&node.attribute, "pads").unwrap_or_default();
    let auto_pad = attr_string(&node.attribute, "auto_pad", "NOTSET");
    let list = |name: &str, index: usize, otherwise| {
        attr_ints(&node.attribute, name).and_then(|list| list.get(index).copied()).unwrap_or(otherwise)
    };
    match node.op_type.as_str() {
        // The provider rejects such a transposed convolution. It leaves such a convolution to cuDNN, which may have no
        // engine for it.
        "ConvTranspose" | "Conv" if !is_even(pads) => Err(format!("its pads are {pads:?}")),
        "ConvTranspose" if auto_pad.starts_with("SAME") => Err(format!("its auto_pad is {auto_pad}")),
        "ConvTranspose" if (0..8).any(|axis| list("output_padding", axis, 0) >= list("strides", axis, 1)) => {
            Err("its output padding is not below its stride".into())
        }
        "ArgMax" | "ArgMin" if attr_int(&node.attribute, "select_last_index", 0) != 0 => {
            Err("it takes the last".into())
        }
        _ => Ok(()),
    }
}

/// Nodes of `grad` that run on the processor, each with the reason.
fn on_processor(grad: &GradGraph) -> Vec<String> {
    let model = grad.device_model();
    let opset = model.opset_import.iter().find(|import| import.domain.is_empty()).map(|import| import.version);
    assert!(opset.is_some_and(|opset| OPSETS.contains(&opset)), "the table is not of operator set {opset:?}");
    let graph = model.graph.expect("a gradient graph");
    let mut known = Known::of(&graph);
    let reason = |node: &NodeProto| {
        let error = known.place(node).err()?;
        Some(format!("{} ({}): {error}", node.op_type, node.name))
    };
    graph.node.iter().filter_map(reason).collect()
}

/// Gradient graphs of the shipped models, as workers read them, in their original form, and with sums on the device.
#[test]
fn shipped_models_run_on_device() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models");
    let mut paths: Vec<_> = std::fs::read_dir(&models).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    assert!(paths.len() >= 13, "the models are there");
    let mut found = vec![];
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let graph = Graph::from_model(&init::load(&path, None).unwrap().model, &GraphOptions::default()).unwrap();
        let mut operators = BTreeMap::new();
        for readout in [
            Readout::Factored { positions: true, groups: false },
            Readout::PerSample,
            Readout::Norms,
            Readout::ClippedSum,
        ] {
            for checkpoint_activations in [false, true] {
                let options =
                    DeriveOptions { readout, checkpoint_activations, ..DeriveOptions::new(Loss::SoftmaxCrossEntropy) };
                let grad = derive(&graph, &options).unwrap();
                for node in grad.device_model().graph.unwrap().node {
                    *operators.entry(node.op_type).or_insert(0) += 1;
                }
                found.extend(on_processor(&grad).into_iter().map(|node| format!("{name}, {readout:?}: {node}")));
            }
        }
        println!("{name}: {operators:?}");
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Gradient graphs of all rules, with per-sample gradients and with clipped sums.
#[test]
fn rules_run_on_device() {
    let mut found = vec![];
    let has_kernels = |case: &Case| !case.graph.nodes.iter().any(|node| WITHOUT.contains(&&*node.op));
    for case in readout_cases().into_iter().filter(|case| OPSETS.contains(&case.graph.opset) && has_kernels(case)) {
        for readout in [case.options.readout, Readout::ClippedSum] {
            let grad = derive(&case.graph, &DeriveOptions { readout, ..case.options.clone() }).unwrap();
            found.extend(on_processor(&grad).into_iter().map(|node| format!("{}: {node}", case.name)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Detects the gradient of a strided convolution without equal pads, which the provider rejects, and other nodes for
/// the processor.
#[test]
fn other_nodes_are_found() {
    let value = |name: &str, dtype| make_value_info(name, dtype, &[Extent::Fixed(4)]);
    let mut known = Known::of(&GraphProto {
        input: vec![value("x", DType::F32), value("i", DType::I64), value("b", DType::Bool)],
        ..Default::default()
    });
    let mut place = |op: &str, inputs: &[&str], lists: &[(&str, &[i64])]| {
        let attributes = lists.iter().map(|(name, list)| make_attr_ints(name, list)).collect();
        known.place(&make_node(op, "it", inputs, &["y"], attributes)).err().unwrap_or_default()
    };
    let strided = |pads| [("strides", &[2, 2][..]), ("pads", pads)];
    assert_eq!(place("ConvTranspose", &["x", "x"], &strided(&[1, 1, 1, 1])), "");
    assert!(place("ConvTranspose", &["x", "x"], &strided(&[1, 1, 0, 0])).contains("pads"));
    assert!(place("ConvTranspose", &["x", "x"], &[("output_padding", &[0, 1])]).contains("output padding"));
    assert!(place("Pad", &["i", "i"], &[]).contains("input 0 is I64"));
    assert!(place("Where", &["b", "b", "b"], &[]).contains("input 1 is Bool"));
    assert!(place("Reshape", &["x", "i"], &[]).contains("processor's memory"));
    assert!(place("Einsum", &["x", "x"], &[]).contains("no kernel"));
}
