//! Reads a model and its data.

use crate::TrainError;
use crate::outcome::data_names;
use crate::plan::graphs::as_read;
use crate::plan::graphs::opaque::{ReadGraph, read_graph};
use crate::plan::inputs::{input_shape, label_kind, loss_output, opaque_input_shape};
use crate::plan::review::review;
use crate::plan::weights::check_weights;
use damper_data::{DataOptions, Dataset, load, sample_shapes};
use damper_edit::init::{self, LoadOptions};
use damper_edit::lora::{self, Adapted, Lora};
use damper_grad::{DeriveOptions, FrozenPart, GradGraph, derive};
use damper_onnx::SettingError;
use damper_onnx::graph::{Graph, GraphOptions, OpenInput, open_inputs, retie};
use damper_onnx::label_scale;
use damper_onnx::pb::ModelProto;
use damper_runtime::Choice;
use std::path::PathBuf;

/// Sources of model and data.
#[derive(Clone, Debug)]
pub struct InputFiles {
    /// The `.onnx` file.
    pub model: PathBuf,
    /// Changes to the file as it is read. Its seed is for missing weights, not for the noise.
    pub of_file: LoadOptions,
    /// Options of the graph.
    pub graph: GraphOptions,
    /// Low-rank adapters added to the weights, if requested.
    pub lora: Option<Lora>,
    /// The loss and the output that feeds it.
    pub derive: DeriveOptions,
    /// The data, as `KIND:PATH`.
    pub data: String,
    /// Options of the data. `labels` and `inputs` are set from the model.
    pub data_options: DataOptions,
}

#[cfg(test)]
impl InputFiles {
    /// A model of `onnx-models`, with the digits data.
    pub(crate) fn digits(model: &str) -> Self {
        let models = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models");
        Self {
            model: models.join(model),
            of_file: LoadOptions::default(),
            graph: GraphOptions::default(),
            lora: None,
            derive: DeriveOptions::new(damper_grad::Loss::SoftmaxCrossEntropy),
            data: format!("idx:{}", models.join("digits").display()),
            data_options: DataOptions::default(),
        }
    }
}

/// A model as read.
pub(super) struct Network {
    model: ModelProto,
    adapted: Option<Adapted>,
    warnings: Vec<String>,
    init_seed: Option<u64>,
    /// The options used to read the model, with sizes taken from the data.
    options: GraphOptions,
    graph: Graph,
    opaque: Option<FrozenPart>,
    pub(super) grad: GradGraph,
}

/// Reads and derives the model of `source`, without its data. `backend` runs a frozen part that has operators without a
/// rule.
pub(super) fn network(source: &InputFiles, backend: Option<Choice>) -> Result<Network, TrainError> {
    let mut options = source.graph.clone();
    let (loaded, adapted) = match &source.lora {
        None => (init::load(&source.model, source.of_file)?, None),
        Some(lora) => {
            let (loaded, adapted) = lora::load(&source.model, source.of_file, &options, lora)?;
            (loaded, Some(adapted))
        }
    };
    let init::Loaded { model, init_seed, mut warnings } = loaded;
    warnings.extend(take_sizes(&model, source, &mut options));
    let model = retie(&model, &options)?.into_owned();
    let ReadGraph { graph, opaque, note } = match &adapted {
        None => read_graph(&model, &options, backend)?,
        Some(adapted) => read_graph(&adapted.model, &adapted.options(&options), backend)?,
    };
    warnings.extend(note);
    check_weights(&graph, &options)?;
    let grad = derive(&graph, &as_read(&source.derive))?;
    Ok(Network { model, adapted, warnings, init_seed, options, graph, opaque, grad })
}

/// Fixes open axes of the model by the shapes of arrays of samples. Returns a line with the sizes, if there are any.
fn take_sizes(model: &ModelProto, source: &InputFiles, options: &mut GraphOptions) -> Option<String> {
    // Reading the graph reports inputs that cannot be read.
    let inputs = open_inputs(model, options).ok()?;
    if inputs.iter().all(|input| input.extents.iter().all(Option::is_some)) {
        return None;
    }
    let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
    let shapes = sample_shapes(&source.data, &source.data_options, &names)?;
    let mut taken = vec![];
    for (OpenInput { name, extents }, shape) in inputs.iter().zip(shapes) {
        let open = extents.iter().zip(&shape).enumerate().filter(|(_, (own, _))| own.is_none());
        if extents.len() == shape.len() {
            taken.extend(open.map(|(axis, (_, &size))| (format!("{name}[{}]", axis + 1), size)));
        }
    }
    let list: Vec<String> = taken.iter().map(|(place, size)| format!("{place}={size}")).collect();
    options.shape.extend(taken);
    (!list.is_empty()).then(|| format!("the data fix the model's open axes, as `shape` would: {}", list.join(", ")))
}

/// A model and its data, as read.
#[derive(Debug)]
pub struct ModelAndData {
    pub(super) model: ModelProto,
    pub(super) adapted: Option<Adapted>,
    /// Warnings about the model, one line each.
    pub warnings: Vec<String>,
    pub(super) init_seed: Option<u64>,
    /// The network, with the initial values of the trained parameters. Without the frozen part, if that has operators
    /// without a rule.
    pub graph: Graph,
    /// The frozen part, if it has operators without a rule. The data are those of the whole network.
    pub(crate) opaque: Option<FrozenPart>,
    /// The graph that computes per-sample gradients.
    pub grad: GradGraph,
    pub(super) derive: DeriveOptions,
    /// The data.
    pub data: Dataset,
}

/// Reads the model and the data, checks them, and derives the gradient graph. `backend` runs a frozen part that has
/// operators without a rule. Without a backend such operators are an error.
///
/// # Errors
///
/// The model or the data is wrong. The message names it and the fix.
pub fn read(source: &InputFiles, backend: Option<Choice>) -> Result<ModelAndData, TrainError> {
    let Network { model, mut adapted, mut warnings, init_seed, options, graph, opaque, grad } =
        network(source, backend)?;
    let output = loss_output(&source.derive, &graph)?;
    let data_options = DataOptions {
        labels: label_kind(&source.derive, &graph, &grad, output),
        inputs: match &opaque {
            None => grad.inputs.iter().map(|spec| input_shape(spec, &graph)).collect(),
            Some(part) => part.inputs.iter().map(|spec| opaque_input_shape(spec, part, &graph)).collect(),
        },
        names: data_names::known(source.data_options.names.as_ref(), &model)?,
        ..source.data_options.clone()
    };
    let derive = DeriveOptions { output: Some(graph.value(output).name.clone()), ..source.derive.clone() };
    let data = load(&source.data, &data_options)?;
    let (model, of_model) = match &mut adapted {
        // No rule has proven the batch axis of the frozen part, so the file keeps its batch.
        _ if opaque.is_some() => (model, damper_grad::warnings(&graph, &derive)),
        None => review(model, &graph, &options, &derive),
        Some(adapted) => {
            // Released models take any batch size, with and without adapters.
            let (with, of_model) = review(adapted.model.clone(), &graph, &adapted.options(&options), &derive);
            adapted.model = with;
            let options = adapted.plain_options(&options);
            let plain = Graph::from_model(&model, &options)?;
            (review(model, &plain, &options, &derive).0, of_model)
        }
    };
    warnings.extend(of_model);
    Ok(ModelAndData { model, adapted, warnings, init_seed, graph, opaque, grad, derive, data })
}

/// Returns an error if labels are scaled but the model's output is already in another unit.
pub(super) fn check_label_scale(model: &ModelProto, options: &DataOptions, data: &Dataset) -> Result<(), TrainError> {
    let scale = data.train.label_scale().filter(|scale| *scale != (0.0, 1.0));
    let (Some((mean, std)), Some(before)) = (scale, label_scale(model)) else { return Ok(()) };
    // The label column, named as the user names it: by its name, its number, or `labels`.
    let label = data.names.table.as_ref().and_then(|table| table.label.as_deref());
    let mut own = options.scale.iter().filter(|(_, own_mean, own_std)| (*own_mean, *own_std) == (mean, std));
    let named = own.clone().find(|(column, ..)| Some(column.as_str()) == label);
    let column = named.or_else(|| own.next_back()).map_or("labels", |(column, ..)| column);
    let problem = format!(
        "the model was trained on labels scaled by {before}, and its output is in their unit; to go on with it give `scale` {column}=0,1 and \
         `clip` in the labels' unit, or start from the model before that"
    );
    Err(SettingError::new("scale", format!("{column}={mean},{std}"), problem).into())
}
