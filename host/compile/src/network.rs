//! Compiled gradient graph: its programs with their memory, and the form of each parameter's gradient.

use crate::error::CompileError;
use crate::rolled;
use crate::schedule::{Constants, Operand, Schedule};
use damper_grad::{GradGraph, KernelWindows};
use damper_onnx::graph::Graph;
use damper_onnx::{DType, Dim, TensorSpec};
use damper_runtime::SessionSpec;
use damper_runtime::portable::{ADVICE, Kind, Program, ProgramForm};

/// Form of a parameter's gradient.
#[derive(Debug)]
pub(crate) enum Part {
    /// The complete gradient, in memory.
    Whole(Operand),
    /// Factors of an outer product.
    Outer(Operand, Operand),
    /// Gradient `[O, *windows]` and image `[C, *image]`, for the gradient of a convolution kernel.
    Kernel(Operand, Operand, damper_nn::Window),
}

/// Trained parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    /// Offset in the flat parameters.
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) grad: Part,
}

/// Input or output.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: Kind,
    pub(crate) len: usize,
}

/// Network to generate.
#[derive(Debug)]
pub(crate) struct Network {
    /// Inputs of a sample. Labels are last, if there are any.
    pub(crate) inputs: Vec<Port>,
    pub(crate) has_labels: bool,
    pub(crate) outputs: Vec<Port>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) forward: Schedule,
    pub(crate) loss: Schedule,
    pub(crate) gradient: Schedule,
    pub(crate) constants: Constants,
    /// True if a step stores a sample's gradient and computes it once. Otherwise a step reads it three times.
    pub(crate) is_stored: bool,
}

impl Network {
    pub(crate) fn new(graph: &Graph, grad: &GradGraph) -> Result<Self, CompileError> {
        let model = &grad.model;
        let weights = graph.parameters.iter();
        let weights = weights.filter_map(|weight| Some((weight.quantized.as_ref()?, weight.initial.as_f32()?)));
        let mut constants = Constants::new(weights);
        let mut schedule = |outputs: Vec<TensorSpec>| {
            let program = Program::new(model, &plan(grad, outputs), ProgramForm::Small)
                .map_err(|error| CompileError::new(error.0.strip_suffix(ADVICE).unwrap_or(&error.0)))?;
            let rolled = rolled::schedule(&program, &mut constants);
            Ok(rolled.unwrap_or_else(|| Schedule::unrolled(&program, &mut constants)))
        };
        let outputs: Vec<TensorSpec> = grad
            .outputs
            .iter()
            .filter(|spec| {
                !spec.name.starts_with("dp.") && spec.dtype == DType::F32 && spec.shape.contains(&Dim::Batch)
            })
            .cloned()
            .collect();
        let loss = grad.outputs.iter().filter(|spec| spec.name == "dp.loss").cloned().collect();
        let (forward, loss) = (schedule(outputs.clone())?, schedule(loss)?);
        let gradient = schedule(gradients(grad))?;
        let inputs = grad.inputs.iter().chain(&grad.labels).map(port).collect();
        Ok(Self {
            inputs,
            has_labels: grad.labels.is_some(),
            outputs: outputs.iter().map(port).collect(),
            parameters: parameters(grad, &gradient)?,
            forward,
            loss,
            gradient,
            constants,
            is_stored: false,
        })
    }

    /// Returns the total number of elements in the trained parameters.
    pub(crate) fn dim(&self) -> usize {
        self.parameters.iter().map(|parameter| parameter.len).sum()
    }

    /// Returns true if steps are in loops.
    pub(crate) fn has_loop(&self) -> bool {
        let schedules = [&self.forward, &self.loss, &self.gradient];
        schedules.iter().any(|schedule| schedule.blocks.iter().any(|block| block.count > 1))
    }

    /// Plans for `limit` bytes of RAM, if given. Stores the gradient if there is room for it after the parameters, the
    /// step's sum and the values of a sample.
    pub(crate) fn fit(&mut self, limit: Option<usize>) -> Result<(), CompileError> {
        let Some(limit) = limit else { return Ok(()) };
        let (vector, numbers) = (4 * self.dim(), self.memory());
        let needed = 2 * vector + numbers;
        self.is_stored = needed + vector <= limit;
        if needed <= limit {
            return Ok(());
        }
        let largest = self.gradient.steps().map(|(_, step)| step).max_by_key(|step| step.write.bytes());
        let largest = largest.map_or(String::new(), |step| {
            format!("; the largest value, {} bytes, is of node '{}'", step.write.bytes(), step.node)
        });
        Err(CompileError::new(format!(
            "needs {needed} bytes of memory and {limit} are given: {vector} for the parameters, {vector} for the step's sum, {numbers} for \
             the numbers of a sample{largest}; train fewer parameters or give more"
        )))
    }

    /// Returns the bytes of a sample's values.
    pub(crate) fn memory(&self) -> usize {
        let [f32s, i64s, bools] = self.areas();
        4 * f32s + 8 * i64s + bools
    }

    /// Returns the lengths of the memories of f32, i64 and bool. Each program fits in them.
    pub(crate) fn areas(&self) -> [usize; 3] {
        let most = |at: usize| [&self.forward, &self.loss, &self.gradient].map(|schedule| schedule.areas[at]);
        [0, 1, 2].map(|at| most(at).into_iter().max().unwrap_or(0))
    }
}

/// Returns the specification of a session with one sample.
pub(crate) fn plan(grad: &GradGraph, outputs: Vec<TensorSpec>) -> SessionSpec {
    SessionSpec { batch: 1, threads: 1, inputs: grad.feeds(), outputs }
}

/// Returns the outputs that contain gradients or their factors.
pub(crate) fn gradients(grad: &GradGraph) -> Vec<TensorSpec> {
    let is_read =
        |spec: &&TensorSpec| ["dp.grad.", LEFT, "dp.right."].iter().any(|prefix| spec.name.starts_with(prefix));
    grad.outputs.iter().filter(is_read).cloned().collect()
}

/// Prefix of the first of two outputs that are the factors of a gradient.
const LEFT: &str = "dp.left.";

fn port(spec: &TensorSpec) -> Port {
    let kind = if spec.dtype == DType::I64 { Kind::I64 } else { Kind::F32 };
    Port { name: spec.name.clone(), shape: shape(spec), kind, len: spec.elements(1) }
}

/// Returns the shape of one sample, without the batch axis.
fn shape(spec: &TensorSpec) -> Vec<usize> {
    spec.shape.iter().filter(|dim| **dim != Dim::Batch).map(|dim| dim.extent(1)).collect()
}

fn parameters(grad: &GradGraph, gradient: &Schedule) -> Result<Vec<Parameter>, CompileError> {
    let outputs = gradients(grad);
    let mut read = outputs.iter().zip(gradient.outputs.iter().copied());
    let mut next = || read.next().ok_or_else(|| CompileError::new("a gradient has no output: a defect in damper"));
    let (mut parameters, mut start) = (vec![], 0);
    for spec in &grad.parameters {
        let (output, operand) = next()?;
        let part = match output.name.strip_prefix(LEFT) {
            None => Part::Whole(operand),
            Some(name) => {
                let (right_spec, right) = next()?;
                match grad.windows.iter().find(|(kernel, _)| kernel == name) {
                    None => Part::Outer(operand, right),
                    Some((_, windows)) => Part::Kernel(operand, right, kernel_window(windows, output, right_spec)?),
                }
            }
        };
        let len = spec.elements(1);
        parameters.push(Parameter { name: spec.name.clone(), shape: shape(spec), start, len, grad: part });
        start += len;
    }
    Ok(parameters)
}

/// Returns the windows of the image `[N, C, *image]` for a gradient `[N, O, *windows]`.
fn kernel_window(
    KernelWindows { window, groups }: &KernelWindows,
    gradient: &TensorSpec,
    image: &TensorSpec,
) -> Result<damper_nn::Window, CompileError> {
    let channels = |spec: &TensorSpec| spec.shape.get(1).map_or(0, |dim| dim.extent(1));
    let window = damper_nn::Window::of_lists(channels(image), channels(gradient), *groups, window.lists());
    window.ok_or_else(|| CompileError::new("a convolution is over neither a line nor a plane: a defect in damper"))
}
