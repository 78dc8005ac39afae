//! Data inputs: types, shapes, and whether the export fixed the batch.

use std::collections::HashSet;

use super::super::GraphOptions;
use super::super::node::{MAX_ELEMENTS, MAX_EXTENT, MAX_RANK, Shaped};
use super::super::{BatchAxis, DType, GraphError};
use crate::SettingError;
use crate::pb::tensor_shape_proto::{Dimension, dimension};
use crate::pb::{GraphProto, ValueInfoProto, type_proto};

/// Data inputs, and the batch size that the export fixed.
pub(in super::super) type Inputs = (Vec<(String, Shaped)>, Option<usize>);

/// Name, type and one-sample shape of each data input, and the batch size if the export fixed it.
pub(super) fn read(graph: &GraphProto, options: &GraphOptions) -> Result<Inputs, GraphError> {
    let initializers: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut inputs = Vec::new();
    // Name and batch size of the first input.
    let mut first: Option<(&str, Option<usize>)> = None;
    let mut sizes: Vec<(&String, bool)> = options.shape.iter().map(|(name, _)| (name, false)).collect();
    for input in graph.input.iter().filter(|input| !initializers.contains(input.name.as_str())) {
        let name = input.name.as_str();
        let (dtype, dims) = typed(input)?;
        let Some((batch, rest)) = dims.split_first() else {
            return Err(GraphError::Model(format!(
                "input '{name}' is a scalar, so it is no sample's; give its public value with `input` {name}=VALUE"
            )));
        };
        let size = fixed(batch);
        match first {
            None => first = Some((name, size)),
            Some((other, known)) if known != size => {
                let write = |size: Option<usize>| size.map_or("a symbolic batch".into(), |n| format!("a batch of {n}"));
                return Err(GraphError::Model(format!(
                    "input '{other}' has {} and input '{name}' has {}; export all inputs with a symbolic batch on axis \
                     0 (dynamic_axes, or dynamic_shapes with dynamo=True)",
                    write(known),
                    write(size)
                )));
            }
            Some(_) => {}
        }
        if dims.len() > MAX_RANK {
            return Err(GraphError::Model(format!(
                "input '{name}' has {} axes; check the model with onnx.checker",
                dims.len()
            )));
        }
        let mut shape = vec![1];
        for (axis, dim) in (1..).zip(rest) {
            shape.push(extent(name, axis, dim, options, &mut sizes)?);
        }
        let shaped = Shaped { dtype, shape, batch: Some(BatchAxis::plain(0)) };
        if shaped.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_none_or(|n| n > MAX_ELEMENTS) {
            return Err(GraphError::Model(format!("input '{name}' is too large; check the model with onnx.checker")));
        }
        inputs.push((name.to_string(), shaped));
    }
    let Some((_, fixed_batch)) = first else {
        return Err(GraphError::Model("the model has no data input; export a model that reads a batch".into()));
    };
    let is_given = |name: &str| options.input.iter().any(|(given, _)| name.starts_with(&format!("{given}[")));
    if let Some((name, _)) = sizes.iter().find(|(name, used)| !used && !is_given(name)) {
        let problem = "names no dynamic axis of an input (other than the batch); remove it, or check the name";
        return Err(SettingError::new("shape", name, problem).into());
    }
    Ok((inputs, fixed_batch))
}

fn typed(input: &ValueInfoProto) -> Result<(DType, &[Dimension]), GraphError> {
    let name = &input.name;
    let Some(type_proto::Value::TensorType(tensor)) = input.r#type.as_ref().and_then(|kind| kind.value.as_ref()) else {
        return Err(GraphError::Model(format!("input '{name}' is no tensor; export a model of tensors")));
    };
    // Samples are float32, float64 or int64.
    let dtype = match DType::from_onnx(tensor.elem_type) {
        Ok(dtype @ (DType::F32 | DType::F64 | DType::I64)) => Ok(dtype),
        Ok(dtype @ (DType::I32 | DType::Bool)) => Err(dtype.name().to_owned()),
        Err(dtype) => Err(dtype),
    };
    let dtype = dtype.map_err(|dtype| {
        GraphError::Model(format!(
            "input '{name}' has elements of type {dtype}; export the model with float32 or int64 inputs"
        ))
    })?;
    let Some(shape) = &tensor.shape else {
        return Err(GraphError::Model(format!("input '{name}' declares no shape; export the model with shapes")));
    };
    Ok((dtype, &shape.dim))
}

fn fixed(dim: &Dimension) -> Option<usize> {
    match dim.value {
        Some(dimension::Value::DimValue(d)) if (1..=MAX_EXTENT).contains(&d) => Some(d as usize),
        _ => None,
    }
}

fn extent(
    input: &str,
    axis: usize,
    dim: &Dimension,
    options: &GraphOptions,
    sizes: &mut [(&String, bool)],
) -> Result<usize, GraphError> {
    if let Some(d) = fixed(dim) {
        return Ok(d);
    }
    let place = format!("{input}[{axis}]");
    let param = match &dim.value {
        Some(dimension::Value::DimParam(param)) if !param.is_empty() => param.clone(),
        Some(dimension::Value::DimValue(d)) if *d > MAX_EXTENT => {
            return Err(GraphError::Model(format!(
                "axis {axis} of input '{input}' has the extent {d}; check the model with onnx.checker"
            )));
        }
        _ => place.clone(),
    };
    let given = options.shape.iter().position(|(name, _)| *name == param || *name == place);
    match given {
        Some(i) if (1..=MAX_EXTENT as usize).contains(&options.shape[i].1) => {
            sizes[i].1 = true;
            Ok(options.shape[i].1)
        }
        Some(i) => {
            let value = format!("{param}={}", options.shape[i].1);
            Err(SettingError::new("shape", value, format!("out of range; give a size from 1 to {MAX_EXTENT}")).into())
        }
        None => Err(GraphError::Model(format!(
            "axis {axis} ('{param}') of input '{input}' is dynamic; fix it with `shape` {param}=SIZE"
        ))),
    }
}
