//! Initial parameters: models with shapes and initialisation schemes instead of weights, and new weights for any model.
//!
//! A *skeleton* is an ONNX model in which some float32 initializers have a type and a shape but no data. For each, the
//! model's `metadata_props` has an entry `damper.init.NAME` whose value is an [`Initialiser`] as text. [`load`]
//! generates the values, and every command loads models in this way. It never changes a tensor with data.
//!
//! [`initialise`] draws all trained parameters again, by the metadata or else by the default scheme of their role.
//! Values depend only on the seed and the parameter's name, with the same bits on every machine. So a skeleton loaded
//! with a seed is the model that [`initialise`] returns for that seed.
//!
//! The seed is public, like the model. It is independent of the key of a private run.

mod draw;
mod layer;
mod recurrent;
mod spec;

pub use spec::{Distribution, Fan, FanDistribution, Fans, Initialiser};

use crate::batch_norm::{BatchNormChange, BatchNormFix, Replacement, fix_batch_norm};
use damper_onnx::graph::{GraphError, GraphOptions, glob, hoist_weights, initializers};
use damper_onnx::pb::tensor_proto::{DataLocation, DataType};
use damper_onnx::pb::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
use damper_onnx::{self as onnx, Floats, LoadError, MAX_MODEL_BYTES, SettingError, TrainedError, write_trained};
use layer::{LayerRole, Layers};
use std::path::Path;

/// Prefix of a metadata key.
const KEY: &str = "damper.init.";

/// Error of a model without initial parameters.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum InitError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Trained(#[from] TrainedError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A metadata entry that is not an initialisation scheme.
    #[error("metadata '{KEY}{name}' is '{text}': {why}")]
    Metadata { name: String, text: String, why: String },
    /// A tensor that an initialisation scheme does not support.
    #[error(
        "parameter '{name}': {initialiser} needs a fan, and the shape {shape:?} has none; give `init` '{name}=SPEC'"
    )]
    NoFan { name: String, initialiser: Initialiser, shape: Vec<usize> },
    /// A tensor with neither values nor an initialisation scheme.
    #[error(
        "parameter '{0}' has no values, and nothing says how to make them: give `init` '{0}=SPEC', or export the model with \
         its weights"
    )]
    NoValues(String),
    /// A tensor that is larger than any model.
    #[error("parameter '{0}' is larger than 2 GiB, which no ONNX model can be: the file is damaged, export it again")]
    TooLarge(String),
    /// A pattern that matches nothing.
    #[error("`init` '{0}' matches no trained initializer; damper inspect lists their names")]
    Unmatched(String),
    /// Any of the other errors, with the file.
    #[error("{file}: {error}")]
    InFile { file: String, error: Box<InitError> },
    /// A seed for a model that needs none.
    #[error("`init_seed`: the model file has all its weights; leave it out, or draw new ones with damper init")]
    IdleSeed,
    /// A model that must not be used for results.
    #[error("is the model of a canary audit, which has seen made-up samples: use the model that was audited")]
    Canary,
    /// A model without a parameter.
    #[error("nothing is trained, so there is nothing to initialise; damper inspect says why")]
    Nothing,
}

impl InitError {
    /// Returns true if a setting is at fault.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        match self {
            Self::InFile { error, .. } => error.is_of_setting(),
            Self::Setting(_) | Self::Unmatched(_) | Self::IdleSeed => true,
            _ => false,
        }
    }
}

/// Options for reading a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadOptions {
    /// Seed of the weights that the file omits.
    pub seed: Option<u64>,
    /// True if each batch normalisation is replaced by an operator on single samples, like [`fix_batch_norm`] by
    /// default.
    pub fix: bool,
}

impl From<Option<u64>> for LoadOptions {
    fn from(seed: Option<u64>) -> Self {
        Self { seed, fix: false }
    }
}

/// Model with weights in float32.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// Model.
    pub model: ModelProto,
    /// Seed of the weights that the file omits. `None` if it has all weights.
    pub init_seed: Option<u64>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// Reads a model, converts it to float32, and generates the values that a skeleton omits. Uses the seed, or else seed
/// 0.
///
/// # Errors
///
/// [`InitError`] if the file is not a model, its metadata is wrong, or a seed is given although the file has all
/// values.
pub fn load(path: &Path, options: impl Into<LoadOptions>) -> Result<Loaded, InitError> {
    let options = options.into();
    let in_file = |error| InitError::InFile { file: path.display().to_string(), error: Box::new(error) };
    let loaded = load_with_any_seed(path, options)?;
    if options.seed.is_some() && loaded.init_seed.is_none() { Err(in_file(InitError::IdleSeed)) } else { Ok(loaded) }
}

/// Values for the tensor `name`, uniform in ±`most`, which depend only on the seed and the name.
pub(crate) fn uniform(seed: u64, name: &str, most: f64, length: usize) -> Vec<f32> {
    draw::draw(Distribution::Uniform { low: -most, high: most }, seed, name, length)
}

/// [`load`] with a seed that the file may not need.
pub(crate) fn load_with_any_seed(path: &Path, options: LoadOptions) -> Result<Loaded, InitError> {
    let mut model = onnx::load(path)?;
    let is_listed = model.ir_version < 4;
    if let Some(graph) = model.graph.as_mut() {
        hoist_weights(graph, is_listed);
    }
    let mut warnings: Vec<String> =
        converted(&mut model, path).map(|floats| floats + ", as is the trained model").into_iter().collect();
    let used = options.seed.unwrap_or(0);
    let in_file = |error| InitError::InFile { file: path.display().to_string(), error: Box::new(error) };
    if onnx::is_marked(&model) {
        return Err(in_file(InitError::Canary));
    }
    let made = fill(&mut model, used).map_err(in_file)?;
    // The statistics and weights of a skeleton are present now.
    if options.fix {
        let fixed = fix_batch_norm(&mut model, BatchNormFix::Auto, None)?;
        warnings.extend(summary(&fixed).map(|made| format!("{}: {made}, in the trained model too", path.display())));
    }
    Ok(Loaded { model, init_seed: (made > 0).then_some(used), warnings })
}

/// Counts the batch normalisations by replacement.
fn summary(changes: &[BatchNormChange]) -> Option<String> {
    let count = |is: fn(&Replacement) -> bool| changes.iter().filter(|change| is(&change.to)).count();
    let kinds = [
        (count(|to| matches!(to, Replacement::Merged { .. })), "merged into the layer before"),
        (count(|to| matches!(to, Replacement::Affine)), "made a scale and a shift"),
        (count(|to| matches!(to, Replacement::GroupNorm { .. })), "made a GroupNorm (the outputs change)"),
        (count(|to| matches!(to, Replacement::Kept { .. })), "kept"),
    ];
    let parts: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    (!parts.is_empty()).then(|| format!("of its batch normalisations {}", parts.join(", ")))
}

/// Converts `model`, read from `path`, to float32. Returns a message if it had other floats.
pub fn converted(model: &mut ModelProto, path: &Path) -> Option<String> {
    let floats = crate::convert_to_float32(model).join(" and ");
    (!floats.is_empty()).then(|| format!("{}: its {floats} numbers are converted to float32", path.display()))
}

/// Generates the values that a skeleton omits. Returns the number of tensors. A tensor without an entry in the metadata
/// does not change.
///
/// # Errors
///
/// [`InitError::Metadata`], [`InitError::NoFan`] or [`InitError::TooLarge`].
pub fn fill(model: &mut ModelProto, seed: u64) -> Result<usize, InitError> {
    fill_with(model, seed, |_, _| None)
}

/// [`fill`] with another source of initialisation schemes for tensors without metadata.
fn fill_with(
    model: &mut ModelProto,
    seed: u64,
    otherwise: impl Fn(&str, &LayerRole) -> Option<Initialiser>,
) -> Result<usize, InitError> {
    let Some(graph) = &model.graph else { return Ok(0) };
    let layers = Layers::of(graph);
    let mut made = Vec::new();
    let mut bytes = 0u64;
    for (index, tensor) in graph.initializer.iter().enumerate() {
        let Some(shape) = empty_shape(tensor) else { continue };
        let place = layers.place(&tensor.name, &shape);
        let given = match metadata(model, &tensor.name)? {
            Some(initialiser) => Some(initialiser),
            None => otherwise(&tensor.name, &place),
        };
        let Some(initialiser) = given else { continue };
        bytes = shape
            .iter()
            .try_fold(4u64, |n, &extent| n.checked_mul(extent as u64))
            .unwrap_or(u64::MAX)
            .saturating_add(bytes);
        if bytes >= MAX_MODEL_BYTES {
            return Err(InitError::TooLarge(tensor.name.clone()));
        }
        made.push((index, values(&tensor.name, &shape, &place, initialiser, seed)?));
    }
    let count = made.len();
    for (index, values) in made {
        if let Some(tensor) = model.graph.as_mut().and_then(|graph| graph.initializer.get_mut(index)) {
            tensor.raw_data = Floats::from(values).to_little_endian();
        }
    }
    Ok(count)
}

fn values(
    name: &str,
    shape: &[usize],
    place: &LayerRole,
    initialiser: Initialiser,
    seed: u64,
) -> Result<Vec<f32>, InitError> {
    let no_fan = || InitError::NoFan { name: name.into(), initialiser, shape: shape.to_vec() };
    let distribution = initialiser.distribution(place.fans).ok_or_else(no_fan)?;
    Ok(draw::draw(distribution, seed, name, shape.iter().product()))
}

/// Shape of a float32 tensor that should have data here but has none.
fn empty_shape(tensor: &TensorProto) -> Option<Vec<usize>> {
    let elsewhere = tensor.data_location == Some(DataLocation::External as i32) || !tensor.external_data.is_empty();
    let filled = !tensor.raw_data.is_empty() || !tensor.float_data.is_empty();
    if elsewhere || filled || tensor.data_type != DataType::Float as i32 {
        return None;
    }
    let shape: Vec<usize> = tensor.dims.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<_>>()?;
    shape.iter().all(|&extent| extent > 0).then_some(shape)
}

/// Initialisation scheme for `name` in the model's metadata.
fn metadata(model: &ModelProto, name: &str) -> Result<Option<Initialiser>, InitError> {
    let entry = model.metadata_props.iter().find(|entry| entry.key.strip_prefix(KEY) == Some(name));
    let parsed = entry.map(|entry| {
        let metadata = |why| InitError::Metadata { name: name.into(), text: entry.value.clone(), why };
        entry.value.parse().map_err(metadata)
    });
    parsed.transpose()
}

/// Shell pattern of names, with the initialisation scheme of the matching parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Override {
    /// Pattern with `*` and `?`.
    pub pattern: String,
    /// Initialisation scheme.
    pub initialiser: Initialiser,
}

/// Trained parameter, with its initialisation.
#[derive(Clone, PartialEq, Debug)]
pub struct Initialised {
    /// Name.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Role in its layer.
    pub role: &'static str,
    /// Initialisation scheme. `None` if it kept its values.
    pub initialiser: Option<Initialiser>,
}

/// Draws all trained parameters of the model again. The distribution is the last matching entry of `overrides`, else
/// that of the model's metadata, else the default of their role. Parameters without any of these keep their values.
/// Everything else stays unchanged.
///
/// # Errors
///
/// [`InitError`] if a pattern matches nothing, a scheme does not fit, or the model cannot be read.
pub fn initialise(
    model: &ModelProto,
    options: &GraphOptions,
    overrides: &[Override],
    seed: u64,
) -> Result<(ModelProto, Vec<Initialised>), InitError> {
    let chosen = |name: &str| {
        let matching = |one: &&Override| glob::any(std::slice::from_ref(&one.pattern), name);
        overrides.iter().rev().find(matching).map(|one| one.initialiser)
    };
    // The selection of trained parameters also depends on values: a mask is not trained.
    let mut filled = model.clone();
    fill_with(&mut filled, seed, |name, place| chosen(name).or(place.usual))?;
    let empty = GraphProto::default();
    let graph = filled.graph.as_ref().unwrap_or(&empty);
    if let Some(tensor) = graph.initializer.iter().find(|tensor| empty_shape(tensor).is_some()) {
        return Err(InitError::NoValues(tensor.name.clone()));
    }
    let trained: Vec<_> = initializers(&filled, options)?.into_iter().filter(|one| one.trained).collect();
    if trained.is_empty() {
        return Err(InitError::Nothing);
    }
    let unmatched = |one: &&Override| {
        let pattern = std::slice::from_ref(&one.pattern);
        !trained.iter().any(|parameter| glob::any(pattern, &parameter.name))
    };
    if let Some(one) = overrides.iter().find(unmatched) {
        return Err(InitError::Unmatched(one.pattern.clone()));
    }
    let layers = Layers::of(graph);
    let mut drawn = Vec::new();
    let mut list = Vec::new();
    for parameter in trained {
        let (name, shape) = (parameter.name, parameter.shape);
        let place = layers.place(&name, &shape);
        let initialiser = chosen(&name).map_or_else(|| metadata(model, &name), |one| Ok(Some(one)))?.or(place.usual);
        if let Some(initialiser) = initialiser {
            drawn.push((name.clone(), values(&name, &shape, &place, initialiser, seed)?));
        }
        list.push(Initialised { name, shape, role: place.role, initialiser });
    }
    let parts: Vec<(&str, &[f32])> = drawn.iter().map(|(name, values)| (name.as_str(), values.as_slice())).collect();
    Ok((write_trained(&filled, &parts)?, list))
}

/// Returns the number of inputs of one output, summed over the layers of these parameters, each given by its name and
/// shape. An embedding has one input. Biases and scales have none.
pub fn fan_in<'a>(model: &ModelProto, params: impl Iterator<Item = (&'a str, &'a [usize])>) -> usize {
    let empty = GraphProto::default();
    let layers = Layers::of(model.graph.as_ref().unwrap_or(&empty));
    params.map(|(name, shape)| layers.place(name, shape).fan_in(shape)).sum()
}

/// Converts `model` to a skeleton. Removes the values of the parameters in `list` and writes their schemes to the
/// metadata. Both must come from [`initialise`]. Parameters that kept their values keep them here.
pub fn skeleton(model: &mut ModelProto, list: &[Initialised]) {
    for parameter in list {
        let Some(initialiser) = parameter.initialiser else { continue };
        let tensors = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
        for tensor in tensors.filter(|tensor| tensor.name == parameter.name) {
            tensor.raw_data.clear();
            tensor.float_data.clear();
        }
        let key = format!("{KEY}{}", parameter.name);
        model.metadata_props.retain(|entry| entry.key != key);
        model.metadata_props.push(StringStringEntryProto { key, value: initialiser.to_string() });
    }
}

#[cfg(test)]
mod tests;
