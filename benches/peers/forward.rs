//! Forward pass of a model, as a candidate of `forward.py`: `damper-forward MODEL.onnx SAMPLES`.
//!
//! The model runs in a session of the trainer, on inputs that this program makes. It takes numbers of runs from
//! standard input and answers with CPU seconds a run.

use cpu_time::ProcessTime;
use damper::graph::DType;
use damper::onnx::TensorRef;
use damper::onnx::pb::{ModelProto, ValueInfoProto, tensor_shape_proto::dimension, type_proto};
use damper::onnx::{Dim, TensorSpec};
use damper::runtime::{Choice, SessionSpec, open};
use std::error::Error;
use std::io::BufRead;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, samples] = &arguments[..] else {
        return Err("damper-forward MODEL.onnx SAMPLES".into());
    };
    let bytes = std::fs::read(model)?;
    let (proto, batch): (ModelProto, usize) = (damper::onnx::decode(model, &bytes)?, samples.parse()?);
    let graph = proto.graph.as_ref().ok_or("the model has no graph")?;
    let is_weight = |value: &&ValueInfoProto| graph.initializer.iter().all(|weight| weight.name != value.name);
    let inputs = graph.input.iter().filter(is_weight).map(spec).collect::<Result<Vec<_>, _>>()?;
    let outputs = graph.output.iter().map(spec).collect::<Result<Vec<_>, _>>()?;
    let made: Vec<Made> = inputs.iter().map(|spec| Made::new(spec, batch)).collect();
    let mut session = open(Choice::Ort)?.load(&proto, &SessionSpec { batch, threads: 1, inputs, outputs })?;
    let inputs: Vec<TensorRef<'_>> = made.iter().map(Made::input).collect();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let runs: u32 = line?.trim().parse()?;
        let start = ProcessTime::now();
        for _ in 0..runs {
            session.run(&inputs, &mut |_| ())?;
        }
        println!("{}", start.elapsed().as_secs_f64() / f64::from(runs));
    }
    Ok(())
}

/// Returns the type and shape of a declared input or output. Its one symbolic extent is the batch.
fn spec(value: &ValueInfoProto) -> Result<TensorSpec, Box<dyn Error>> {
    let Some(type_proto::Value::TensorType(tensor)) = value.r#type.as_ref().and_then(|kind| kind.value.as_ref()) else {
        return Err(format!("`{}` is no tensor", value.name).into());
    };
    let dtype = if tensor.elem_type == 7 { DType::I64 } else { DType::F32 };
    let extents = tensor.shape.iter().flat_map(|shape| &shape.dim).map(|dim| match dim.value {
        Some(dimension::Value::DimValue(extent)) => Dim::Fixed(extent as usize),
        _ => Dim::Batch,
    });
    Ok(TensorSpec { name: value.name.clone(), dtype, shape: extents.collect() })
}

enum Made {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Made {
    /// Returns small numbers of both signs, and for integers 0 and 1, which are indices of every table.
    fn new(spec: &TensorSpec, batch: usize) -> Self {
        let extents = spec.shape.iter().map(|dim| if let Dim::Fixed(extent) = dim { *extent } else { batch });
        let len = extents.product();
        let numbers = (0..len).map(|i: usize| i * 7919 % 127);
        match spec.dtype {
            DType::I64 => Made::I64(numbers.map(|number| number as i64 % 2).collect()),
            _ => Made::F32(numbers.map(|number| number as f32 / 630.0 - 0.1).collect()),
        }
    }

    fn input(&self) -> TensorRef<'_> {
        match self {
            Made::F32(values) => TensorRef::F32(values),
            Made::I64(values) => TensorRef::I64(values),
        }
    }
}
