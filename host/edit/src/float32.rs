//! Converts models to float32, the only float type for training.

use damper_onnx::pb::tensor_proto::{DataLocation, DataType};
use damper_onnx::pb::{GraphProto, ModelProto, TensorProto, ValueInfoProto, type_proto};
use damper_onnx::{Floats, restore_source};
use half::{bf16, f16};
use std::collections::BTreeSet;

/// Returns true for float types that are converted.
fn is_other(data_type: i32) -> bool {
    [DataType::Float16, DataType::Bfloat16, DataType::Double].iter().any(|other| *other as i32 == data_type)
}

/// Converts `model` to float32 if it has an input or a weight of another float type. Returns the names of these types,
/// or an empty list if it does not change. A double of one element, as exporters write for constants, is not a weight.
pub fn convert_to_float32(model: &mut ModelProto) -> Vec<String> {
    let Some(graph) = model.graph.as_mut() else { return vec![] };
    let is_single = |tensor: &TensorProto| tensor.dims.iter().all(|&extent| extent == 1);
    let weights =
        graph.initializer.iter().filter(|tensor| !is_single(tensor) || tensor.data_type != DataType::Double as i32);
    let weights = weights.map(|tensor| tensor.data_type);
    let inputs = graph.input.iter().filter_map(elem_type);
    let found: BTreeSet<i32> = weights.chain(inputs).filter(|data_type| is_other(*data_type)).collect();
    if !found.is_empty() {
        convert(graph);
        // Tensors of other types were not compared when the file was read.
        restore_source(model);
    }
    let names = found.into_iter().filter_map(|data_type| DataType::try_from(data_type).ok());
    names
        .map(|data_type| {
            if data_type == DataType::Double { "float64".into() } else { data_type.as_str_name().to_ascii_lowercase() }
        })
        .collect()
}

fn elem_type(info: &ValueInfoProto) -> Option<i32> {
    let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()?;
    Some(tensor.elem_type)
}

fn convert(graph: &mut GraphProto) {
    for info in graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info) {
        let value = info.r#type.as_mut().and_then(|kind| kind.value.as_mut());
        if let Some(type_proto::Value::TensorType(tensor)) = value
            && is_other(tensor.elem_type)
        {
            tensor.elem_type = DataType::Float as i32;
        }
    }
    graph.initializer.iter_mut().for_each(convert_tensor);
    for node in &mut graph.node {
        for attribute in &mut node.attribute {
            if let Some(tensor) = &mut attribute.t {
                convert_tensor(tensor);
            }
            if matches!(&*attribute.name, "to" | "dtype") && i32::try_from(attribute.i).is_ok_and(is_other) {
                attribute.i = DataType::Float as i64;
            }
        }
    }
}

/// Data whose length does not match the shape stays unchanged, and reading the tensor detects it. Data in another file
/// is not read.
fn convert_tensor(tensor: &mut TensorProto) {
    if !is_other(tensor.data_type) || tensor.data_location == Some(DataLocation::External as i32) {
        return;
    }
    let raw = &tensor.raw_data;
    let halves = || -> Vec<u16> {
        if raw.is_empty() {
            tensor.int32_data.iter().map(|&bits| bits as u16).collect()
        } else {
            raw.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect()
        }
    };
    let data: Vec<f32> = match DataType::try_from(tensor.data_type) {
        Ok(DataType::Float16) => halves().into_iter().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        Ok(DataType::Bfloat16) => halves().into_iter().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        _ if raw.is_empty() => tensor.double_data.iter().map(|&x| x as f32).collect(),
        _ => raw.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect(),
    };
    tensor.data_type = DataType::Float as i32;
    tensor.raw_data = Floats::from(data).to_little_endian();
    tensor.int32_data.clear();
    tensor.double_data.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_onnx::pb::StringStringEntryProto;
    use damper_onnx::{DType, Extent, Tensor, TensorData, decode_tensor, make_node, make_tensor, make_value_info};

    fn model(tensor: TensorProto, elem_type: DataType) -> ModelProto {
        let mut input = make_value_info("x", DType::F32, &[Extent::Batch, Extent::Fixed(2)]);
        if let Some(type_proto::Value::TensorType(kind)) = &mut input.r#type.as_mut().unwrap().value {
            kind.elem_type = elem_type as i32;
        }
        let to = damper_onnx::make_attr_int("to", elem_type as i64);
        let graph = GraphProto {
            node: vec![make_node("Cast", "c", &["x"], &["y"], vec![to])],
            input: vec![input],
            initializer: vec![tensor],
            ..GraphProto::default()
        };
        ModelProto { graph: Some(graph), ..ModelProto::default() }
    }

    fn halves(data_type: DataType, bits: [u16; 2], raw: bool) -> TensorProto {
        let empty =
            TensorProto { name: "w".into(), dims: vec![2], data_type: data_type as i32, ..TensorProto::default() };
        if raw {
            TensorProto { raw_data: bits.iter().flat_map(|bits| bits.to_le_bytes()).collect(), ..empty }
        } else {
            TensorProto { int32_data: bits.iter().map(|&bits| i32::from(bits)).collect(), ..empty }
        }
    }

    #[test]
    fn weights_of_other_floats_become_float32() {
        let double = make_tensor("w", &Tensor { shape: vec![2], data: TensorData::F64(vec![1.5, -2.0]) });
        for (tensor, elem_type, name) in [
            (halves(DataType::Float16, [0x3e00, 0xc000], true), DataType::Float16, "float16"),
            (halves(DataType::Float16, [0x3e00, 0xc000], false), DataType::Float16, "float16"),
            (halves(DataType::Bfloat16, [0x3fc0, 0xc000], true), DataType::Bfloat16, "bfloat16"),
            (double, DataType::Double, "float64"),
        ] {
            let mut model = model(tensor, elem_type);
            assert_eq!(convert_to_float32(&mut model), [name]);
            let graph = model.graph.as_ref().unwrap();
            let read = decode_tensor(&graph.initializer[0]).unwrap();
            assert_eq!(read, Tensor { shape: vec![2], data: TensorData::F32(vec![1.5, -2.0].into()) });
            assert_eq!(elem_type_of(&graph.input[0]), DataType::Float as i32);
            assert_eq!(graph.node[0].attribute[0].i, DataType::Float as i64);
            assert!(convert_to_float32(&mut model).is_empty());
        }
    }

    // A half-precision weight also gets its name in the source.
    #[test]
    fn converted_weight_has_its_sources_name() {
        let mut model = model(halves(DataType::Bfloat16, [0x3fc0, 0xc000], true), DataType::Bfloat16);
        let graph = model.graph.as_mut().unwrap();
        graph.node.push(make_node("Mul", "m", &["y", "val_0"], &["z"], vec![]));
        graph.output = vec![make_value_info("z", DType::F32, &[Extent::Batch, Extent::Fixed(2)])];
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        let signature = "\n# inputs\np_gain: PARAMETER target='norm.gain'\n";
        graph.metadata_props = vec![entry("pkg.torch.export.ExportedProgram.graph_signature", signature)];
        graph.initializer[0].name = "val_0".into();
        let mut info = make_value_info("val_0", DType::F32, &[Extent::Fixed(2)]);
        info.metadata_props = vec![entry("pkg.onnxscript.optimizer.folded_from", "['norm.gain']")];
        graph.value_info = vec![info];
        convert_to_float32(&mut model);
        let graph = model.graph.unwrap();
        assert_eq!(graph.initializer[0].name, "norm.gain");
        assert_eq!(graph.node[1].input, ["y", "norm.gain"]);
    }

    fn elem_type_of(info: &ValueInfoProto) -> i32 {
        elem_type(info).unwrap()
    }

    #[test]
    fn a_double_constant_alone_converts_nothing() {
        let constant = make_tensor("c", &Tensor { shape: vec![1], data: TensorData::F64(vec![0.1]) });
        let mut model = model(constant, DataType::Float);
        let before = model.clone();
        assert!(convert_to_float32(&mut model).is_empty());
        assert_eq!(model, before);
    }
}
