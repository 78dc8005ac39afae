//! Model as a list of kernels over planned memory, for one sample.
//!
//! Nodes are lowered to kernels in order. Values that depend only on constants are computed at once. Values that depend
//! only on the parameters are computed once for each evaluation point, and all others for each sample. There are three
//! memory areas, one for each [`Kind`]. A sample's values share memory if their lifetimes are disjoint.

use super::builder::{Builder, Id, ProgramForm, Written, len};
use super::kernel::Kernel;
use super::lower::{has_max_pool_grad, lower, tensor_of};
use super::memory_plan::{Life, place};
use super::node::Node;
use super::value::{Data, Kind, Stage};
use crate::backend::{BackendError, SessionSpec, bound_shape, check_plan};
use crate::bind::bind;
use damper_onnx::pb::ModelProto;
use damper_onnx::{DType, Dim, TensorSpec, lower_custom, node_name};
use std::collections::HashMap;

/// End of the error for an unsupported node or constant: the backends that can run the model.
pub const ADVICE: &str = "; use `backend` tract or ort";

/// Alignment of values in a fast program, in elements: a cache line of the processor.
const ALIGN: usize = 16;

/// Location of a value in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValuePlace {
    /// Memory area.
    pub kind: Kind,
    /// Index of the first element.
    pub start: usize,
    /// Number of elements.
    pub len: usize,
}

/// Kernel with its operands.
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramStep {
    /// Node from which the step was lowered.
    pub node: String,
    /// Kernel.
    pub kernel: Kernel,
    /// Operands.
    pub reads: Vec<ValuePlace>,
    /// Location of the result. It overlaps no operand.
    pub write: ValuePlace,
}

/// Input or output.
#[derive(Clone, PartialEq, Debug)]
pub struct Port {
    /// Name, type and shape, with the batch.
    pub spec: TensorSpec,
    /// Location of one sample's values.
    pub place: ValuePlace,
    /// Stage in which the values are known.
    pub stage: Stage,
}

/// Model ready to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Lengths of the areas for f32, i64 and bool.
    pub areas: [usize; 3],
    /// Constants and their locations.
    pub constants: Vec<(ValuePlace, Data)>,
    /// Inputs, in the plan's order.
    pub inputs: Vec<Port>,
    /// Outputs, in the plan's order.
    pub outputs: Vec<Port>,
    /// Steps that depend only on the parameters.
    pub of_parameters: Vec<ProgramStep>,
    /// Steps that depend on a sample.
    pub of_sample: Vec<ProgramStep>,
}

impl Program {
    /// Compiles `model` for the inputs and outputs of `plan`.
    ///
    /// # Errors
    ///
    /// Fails if an input or output of `plan` is missing or has another type, or if a node has no portable kernel. The
    /// message names it.
    pub fn new(model: &ModelProto, plan: &SessionSpec, form: ProgramForm) -> Result<Self, BackendError> {
        check_plan(plan)?;
        // Each sample's values depend only on that sample, so the graph has batch size 1.
        let mut model = bind(model, &SessionSpec { batch: 1, ..plan.clone() })?;
        lower_custom(&mut model, has_max_pool_grad);
        let graph = model.graph.ok_or_else(|| BackendError("the ONNX model has no graph: export it again".into()))?;
        let mut builder = Builder { form, ..Builder::default() };
        let mut ids: HashMap<&str, Id> = HashMap::new();
        let mut inputs = vec![];
        for spec in &plan.inputs {
            let kind = if spec.dtype == DType::I64 { Kind::I64 } else { Kind::F32 };
            let stage = if spec.shape.contains(&Dim::Batch) { Stage::Sample } else { Stage::Parameters };
            let id = builder.input(bound_shape(spec, 1), kind, stage);
            ids.insert(&spec.name, id);
            inputs.push(id);
        }
        for tensor in &graph.initializer {
            let id = tensor_of(&mut builder, tensor)
                .map_err(|why| BackendError(format!("portable cannot read the constant '{}': {why}", tensor.name)))?;
            ids.insert(&tensor.name, id);
        }
        for (at, node) in graph.node.iter().enumerate() {
            let name = node_name(node, at);
            let refuse = |why: String| {
                BackendError(format!("portable cannot run node '{name}' ({}): {why}{ADVICE}", node.op_type))
            };
            let mut given = vec![];
            for input in &node.input {
                given.push(match input.as_str() {
                    "" => None,
                    input => Some(*ids.get(input).ok_or_else(|| refuse(format!("there is no '{input}'")))?),
                });
            }
            if !matches!(node.domain.as_str(), "" | "ai.onnx") && !has_max_pool_grad(node) {
                return Err(refuse(format!("its domain is {}", node.domain)));
            }
            let outputs = node.output.iter().filter(|output| !output.is_empty()).count();
            builder.node.clone_from(&name);
            let read = Node { op: &node.op_type, attributes: &node.attribute, inputs: given, outputs };
            let id = lower(&mut builder, &read).map_err(refuse)?;
            if let Some(output) = node.output.first() {
                ids.insert(output, id);
            }
        }
        let mut outputs = vec![];
        for spec in &plan.outputs {
            let id = *ids
                .get(spec.name.as_str())
                .ok_or_else(|| BackendError(format!("no node of the model writes the output '{}'", spec.name)))?;
            let needed = bound_shape(spec, 1);
            if builder.kind(id) != Kind::F32 || builder.shape(id) != needed {
                return Err(BackendError(format!(
                    "output '{}' has the shape {:?} where the plan says {needed:?}",
                    spec.name,
                    builder.shape(id)
                )));
            }
            if builder.stage(id) == Stage::Sample && !spec.shape.contains(&Dim::Batch) {
                return Err(BackendError(format!(
                    "output '{}' joins the samples of a batch, and portable runs one sample at a time: use `readout` \
                     per-sample, or `backend` tract or ort",
                    spec.name
                )));
            }
            outputs.push(id);
        }
        Ok(laid_out(builder, plan, &inputs, &outputs))
    }
}

/// Program for `outputs`, in planned memory.
fn laid_out(builder: Builder, plan: &SessionSpec, inputs: &[Id], outputs: &[Id]) -> Program {
    let align = if builder.form == ProgramForm::Fast { ALIGN } else { 1 };
    let values = &builder.values;
    let root = |id: Id| values[id].root;
    let mut is_needed = vec![false; values.len()];
    outputs.iter().chain(inputs).for_each(|id| is_needed[root(*id)] = true);
    let mut steps = vec![];
    for step in builder.steps.iter().rev().filter(|step| values[step.write].root == step.write) {
        if is_needed[step.write] {
            step.reads.iter().for_each(|read| is_needed[root(*read)] = true);
            steps.push(step);
        }
    }
    steps.reverse();
    // Results of per-sample steps live until their last read, outputs until the end, and all other values always.
    let end = steps.len();
    let mut lives: Vec<Life> =
        values.iter().map(|value| Life { len: len(&value.shape), first: 0, last: end }).collect();
    for (at, step) in steps.iter().enumerate() {
        if values[step.write].stage == Stage::Sample {
            lives[step.write] = Life { first: at, last: at, ..lives[step.write] };
        }
        for read in &step.reads {
            let life = &mut lives[root(*read)];
            life.last = life.last.max(at);
        }
    }
    outputs.iter().for_each(|id| lives[root(*id)].last = end);
    let mut places = vec![None; values.len()];
    let areas = [Kind::F32, Kind::I64, Kind::Bool].map(|kind| {
        let held: Vec<Id> =
            (0..values.len()).filter(|id| is_needed[*id] && root(*id) == *id && values[*id].kind == kind).collect();
        let (starts, whole) = place(&held.iter().map(|id| lives[*id]).collect::<Vec<_>>(), align);
        for (id, start) in held.iter().zip(starts) {
            places[*id] = Some(ValuePlace { kind, start, len: lives[*id].len });
        }
        whole
    });
    let place_of = |id: Id| places[root(id)].expect("what is needed has a place");
    let port = |spec: &TensorSpec, id: &Id| Port { spec: spec.clone(), place: place_of(*id), stage: values[*id].stage };
    let ports = |specs: &[TensorSpec], ids: &[Id]| specs.iter().zip(ids).map(|(spec, id)| port(spec, id)).collect();
    let written = |step: &Written| ProgramStep {
        node: step.node.clone(),
        kernel: step.kernel.clone(),
        reads: step.reads.iter().map(|read| place_of(*read)).collect(),
        write: place_of(step.write),
    };
    let of_stage = |stage: Stage| {
        steps.iter().filter(|step| values[step.write].stage == stage).map(|step| written(step)).collect()
    };
    let constant = |id: Id| values[id].data.as_ref().zip(places[id]).map(|(data, place)| (place, data.clone()));
    Program {
        areas,
        constants: (0..values.len()).filter_map(constant).collect(),
        inputs: ports(&plan.inputs, inputs),
        outputs: ports(&plan.outputs, outputs),
        of_parameters: of_stage(Stage::Parameters),
        of_sample: of_stage(Stage::Sample),
    }
}
