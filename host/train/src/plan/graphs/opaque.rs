//! Graph of a model whose frozen part may have operators without a rule.

use crate::TrainError;
use damper_grad::FrozenPart;
use damper_onnx::graph::{Graph, GraphOptions, opaque_part};
use damper_onnx::pb::ModelProto;
use damper_onnx::{DType, TensorRef, TensorSpec};
use damper_runtime::{Backend, Choice, open};

/// Number of synthetic samples on which the shapes of values are found.
const SAMPLES: usize = 3;

/// A model as a graph.
#[derive(Clone, Debug)]
pub struct ReadGraph {
    /// The graph, of the rest if the frozen part has operators without a rule.
    pub graph: Graph,
    /// The frozen part, if it has operators without a rule.
    pub opaque: Option<FrozenPart>,
    /// A line that describes the frozen part, if it has operators without a rule.
    pub note: Option<String>,
}

/// Reads `model` as a graph. If operators without a rule are only in the frozen part, `backend` runs this part on
/// synthetic samples to find the shapes of its values. Without a backend such operators are an error.
///
/// # Errors
///
/// The model cannot be trained, or the backend cannot run the frozen part. The message names the node.
pub fn read_graph(
    model: &ModelProto,
    options: &GraphOptions,
    backend: Option<Choice>,
) -> Result<ReadGraph, TrainError> {
    let error = match Graph::from_model(model, options) {
        Ok(graph) => return Ok(ReadGraph { graph, opaque: None, note: None }),
        Err(error) => error,
    };
    let Some(choice) = backend else { return Err(error.into()) };
    let mut opened: Option<Box<dyn Backend>> = None;
    let mut shapes = |part: &ModelProto, inputs: &[TensorSpec]| {
        let backend = match opened.take() {
            Some(backend) => backend,
            None => open(choice).map_err(|error| error.to_string())?,
        };
        let found = output_shapes(backend.as_ref(), part, inputs);
        opened = Some(backend);
        found
    };
    match opaque_part(model, options, &error, &mut shapes)? {
        Some((part, graph)) => {
            let note = Some(part.note.clone());
            Ok(ReadGraph { graph, opaque: Some(part.into()), note })
        }
        None => Err(error.into()),
    }
}

/// Shapes of the outputs of `model` for one sample. `None` for an output that is not float32, or whose shape differs
/// between synthetic samples.
fn output_shapes(
    backend: &dyn Backend,
    model: &ModelProto,
    inputs: &[TensorSpec],
) -> Result<Vec<Option<Vec<usize>>>, String> {
    let mut session = backend.load_written(model, inputs, 1).map_err(|error| error.to_string())?;
    let mut shapes: Option<Vec<Option<Vec<usize>>>> = None;
    for sample in 0..SAMPLES {
        let made: Vec<Synthetic> = inputs.iter().map(|spec| Synthetic::of(spec, sample)).collect();
        let given: Vec<TensorRef<'_>> = made.iter().map(Synthetic::input).collect();
        let outputs = session.run(&given).map_err(|error| error.to_string())?;
        let found: Vec<Option<Vec<usize>>> =
            outputs.into_iter().map(|output| output.map(|output| output.shape)).collect();
        shapes = Some(match shapes {
            None => found,
            Some(known) => {
                known.into_iter().zip(found).map(|(one, other)| one.filter(|one| other.as_ref() == Some(one))).collect()
            }
        });
    }
    Ok(shapes.unwrap_or_default())
}

/// Synthetic values of an input of one sample.
enum Synthetic {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Synthetic {
    /// Zeros for the first sample. Integers are 0 and 1, which are valid in every embedding matrix.
    fn of(spec: &TensorSpec, sample: usize) -> Self {
        let entries = 0..spec.elements(1);
        match spec.dtype {
            DType::I64 => Self::I64(entries.map(|at| ((at + sample) % 2 * sample.min(1)) as i64).collect()),
            _ => Self::F32(entries.map(|at| sample as f32 * (((at * 5 + sample) % 11) as f32 / 8.0 - 0.5)).collect()),
        }
    }

    fn input(&self) -> TensorRef<'_> {
        match self {
            Self::F32(values) => TensorRef::F32(values),
            Self::I64(values) => TensorRef::I64(values),
        }
    }
}
