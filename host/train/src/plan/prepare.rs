//! Everything that is fixed before the first step: the graph, the data's checks by its owner, the rate, the noise.

use crate::config::noise_correlation::NoiseCorrelation;
use crate::engine::galore::forms;
use crate::engine::not_private;
use crate::engine::sampler::steps_per_event;
use crate::engine::worker::Layout;
use crate::outcome::data_names;
use crate::plan::check::check_settings;
use crate::plan::correlation::fitted;
use crate::plan::held_out::{PrivateMetrics, steps_between};
use crate::plan::price::{Priced, of_training, price, tuning_rate};
use crate::plan::review::review;
use crate::plan::run_plan::run_plan;
use crate::plan::weights::check_weights;
use crate::state::recording;
use crate::{Budget, Clipping, Noise, ReleaseNonFinite, Run, Terms, TestMetrics, TrainConfig, TrainError};
use damper_accounting::{RunKind, Sampler, Truncated, upward};
use damper_budget::{RunPlan, evaluations};
use damper_data::{DataOptions, Dataset, InputShape, LabelKind, Labels, Split, TestSource, held_out_rows, load};
use damper_edit::init;
use damper_edit::lora::{self, Adapted, Lora};
use damper_grad::{Cost, DeriveOptions, GradGraph, Loss, Readout, derive};
use damper_onnx::SettingError;
use damper_onnx::graph::{Graph, GraphOptions, TensorData, Value, ValueId, retie};
use damper_onnx::pb::ModelProto;
use damper_onnx::{Dim, TensorSpec, attr_int, label_scale};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Learning rates above this are beyond sense.
const LARGE_LR: f64 = 1e3;

/// Noise on a mean above this share of half a column's range says little of the column, and on a count above this share of the rows of them.
const LARGE_NOISE: f64 = 0.1;

/// Labels above this, most of them, are no scaled ones.
const LARGE_LABEL: f32 = 1000.0;

/// An ε above this is hardly a guarantee.
const WEAK_EPSILON: f64 = 20.0;

/// Sources of model and data.
#[derive(Clone, Debug)]
pub struct Source {
    /// The `.onnx` file.
    pub model: PathBuf,
    /// Seed of the weights that the file leaves out; not of a run's noise.
    pub init_seed: Option<u64>,
    /// Options of its graph.
    pub graph: GraphOptions,
    /// Low-rank adapters beside its weights, if they are asked for.
    pub lora: Option<Lora>,
    /// The loss and what feeds it.
    pub derive: DeriveOptions,
    /// `KIND:PATH`.
    pub data: String,
    /// Options of the data; `labels` and `inputs` are filled in from the model.
    pub data_options: DataOptions,
}

/// A model, read.
struct Network {
    model: ModelProto,
    adapted: Option<Adapted>,
    warnings: Vec<String>,
    init_seed: Option<u64>,
    graph: Graph,
    grad: GradGraph,
}

/// Reads and derives the model of `source`, without its data.
fn network(source: &Source) -> Result<Network, TrainError> {
    let (loaded, adapted) = match &source.lora {
        None => (init::load(&source.model, source.init_seed)?, None),
        Some(lora) => {
            let (loaded, adapted) = lora::load(&source.model, source.init_seed, &source.graph, lora)?;
            (loaded, Some(adapted))
        }
    };
    let init::Loaded { model, init_seed, warnings } = loaded;
    let model = retie(&model, &source.graph)?.into_owned();
    let graph = match &adapted {
        None => Graph::from_model(&model, &source.graph)?,
        Some(adapted) => Graph::from_model(&adapted.model, &adapted.options(&source.graph))?,
    };
    check_weights(&graph, &source.graph)?;
    let grad = derive(&graph, &as_read(&source.derive))?;
    Ok(Network { model, adapted, warnings, init_seed, graph, grad })
}

/// A model and its data, read.
#[derive(Debug)]
pub struct Read {
    model: ModelProto,
    adapted: Option<Adapted>,
    /// Warnings about the model, one line each.
    pub warnings: Vec<String>,
    init_seed: Option<u64>,
    /// The network, with the initial values of the trained parameters.
    pub graph: Graph,
    /// The graph that computes per-sample gradients.
    pub grad: GradGraph,
    derive: DeriveOptions,
    /// The data.
    pub data: Dataset,
}

/// Reads, checks and derives.
///
/// # Errors
///
/// The model or the data is at fault; the message says which, and what to do.
pub fn read(source: &Source) -> Result<Read, TrainError> {
    let Network { model, mut adapted, mut warnings, init_seed, graph, grad } = network(source)?;
    let output = loss_output(&source.derive, &graph)?;
    let data_options = DataOptions {
        labels: label_kind(&source.derive, &graph, &grad, output),
        inputs: grad.inputs.iter().map(|spec| input_shape(spec, &graph)).collect(),
        names: data_names::known(source.data_options.names.as_ref(), &model)?,
        ..source.data_options.clone()
    };
    let derive = DeriveOptions { output: Some(graph.value(output).name.clone()), ..source.derive.clone() };
    let data = load(&source.data, &data_options)?;
    let (model, of_model) = match &mut adapted {
        None => review(model, &graph, &source.graph, &derive),
        Some(adapted) => {
            // What is released is for any batch, with adapters and without.
            let (with, of_model) = review(adapted.model.clone(), &graph, &adapted.options(&source.graph), &derive);
            adapted.model = with;
            let options = adapted.plain_options(&source.graph);
            let plain = Graph::from_model(&model, &options)?;
            (review(model, &plain, &options, &derive).0, of_model)
        }
    };
    warnings.extend(of_model);
    Ok(Read { model, adapted, warnings, init_seed, graph, grad, derive, data })
}

/// The graph that the workers read: they take outer products themselves.
fn as_read(options: &DeriveOptions) -> DeriveOptions {
    let readout =
        if options.readout == Readout::PerSample { Readout::Factored { positions: true } } else { options.readout };
    DeriveOptions { readout, ..options.clone() }
}

/// Reads, checks, derives and calibrates. Nothing is released and nothing written.
///
/// # Errors
///
/// A setting, the model or the data is at fault; the message says which, and what to do.
pub fn prepare(source: &Source, config: TrainConfig) -> Result<Run, TrainError> {
    prepare_on(source, config, Ok)
}

/// [`prepare`], on what `change` makes of the data: a part of the samples, which is chosen without looking at them.
///
/// # Errors
///
/// As [`prepare`], or those of `change`.
pub fn prepare_on(
    source: &Source,
    mut config: TrainConfig,
    change: impl FnOnce(Dataset) -> Result<Dataset, TrainError>,
) -> Result<Run, TrainError> {
    damper_core::self_test()?;
    check_settings(source.data_options.test.as_ref(), &config)?;
    config.method.check(&config.optimizer)?;
    let mut of_run = source.clone();
    // What is scaled by released constants is rounded after that.
    of_run.data_options.unrounded = config.normalize_private.is_some();
    let Read { model, adapted, warnings: of_model, init_seed, mut graph, grad, derive, data } = read(&of_run)?;
    check_label_scale(&model, &source.data_options, &data)?;
    let data = change(data)?;
    let clipped = clipped(&graph, &source.derive, &config)?;

    let Priced { terms, cut, plan, mut warnings, mut warnings_of_data } =
        price(&mut config, data.train.len() as u64, Layout::new(&grad).dim())?;
    if let Some(normalize) = &config.normalize_private {
        let (_, columns) = normalize.input(&data.train)?;
        let noise = normalize.noise(columns, config.dataset_size.unwrap_or(data.train.len() as u64));
        if noise > LARGE_NOISE {
            warnings.push(format!(
                "`normalize_private`: the noise on a mean is {noise:.2} of half its column's range; use fewer columns or more rows, lower \
                 `normalize_noise_multiplier`, or use public constants (`normalize`)"
            ));
        }
    }
    if let Some(ReleaseNonFinite { noise_multiplier: Some(noise) }) = config.release_non_finite {
        let rows = config.dataset_size.unwrap_or(data.train.len() as u64);
        if noise > LARGE_NOISE * rows as f64 {
            warnings.push(format!(
                "`release_non_finite`: the noise is {noise:.0} of {rows} samples, so the number says little; lower \
                 `non_finite_noise_multiplier`, or raise `epsilon`"
            ));
        }
    }
    if config.kind() == RunKind::Simulation {
        warnings.push(
            "`seed` makes this run a simulation: its noise can be recomputed, so nothing of it is private".into(),
        );
    }
    warnings.extend(of_model);
    let lr = config.method.learning_rate.lr;
    if lr > LARGE_LR {
        warnings.push(format!(
            "`lr` {lr:e}: beyond sense, so the parameters are likely to become infinite; use 0.001 to 10"
        ));
    }
    if !grad.unreached.is_empty() {
        let names = grad.unreached.join(", ");
        warnings.push(format!("{names}: not trained, for no gradient reaches it from the loss"));
    }
    let warmup = config.method.learning_rate.warmup;
    if warmup > config.epochs {
        warnings.push(format!(
            "`warmup` {warmup}: longer than the run, whose learning rate never rises to `lr` (`epochs` {})",
            config.epochs
        ));
    }
    if let Some(galore) = config.optimizer.galore
        && !forms(&grad).into_iter().any(|form| galore.projects(form))
    {
        warnings.push(format!(
            "`galore` {}: no tensor has more rows and more columns than that, so nothing is projected",
            galore.rank
        ));
    }
    if let Some(augment) = &config.augment {
        augment.check(&data.train)?;
    }
    if let (Some(patience), None) = (config.stop_early, &data.test) {
        let problem = "the data has no held-out samples to evaluate on; add `test`, or leave it out";
        return Err(SettingError::new("stop_early", patience, problem).into());
    }
    let cost = clipped.as_ref().unwrap_or(&grad).cost;
    let physical_batch = physical_batch(config.physical_batch, config.memory, cost)?;
    let Truncated { price: priced, delta: plan_delta } = match &plan {
        Some(plan) => of_training(&config, plan, terms.truncation, cut)?,
        None => not_private::PRICE,
    };
    let private_metrics = match &data.test {
        Some(_) => private_metrics(&config, &derive.loss, &terms, priced.epsilon)?,
        None => None,
    };
    let of_held_out =
        private_metrics.as_ref().map(|metrics| metrics.plan.epsilon(config.accountant, config.delta)).transpose()?;
    let priced = of_held_out.filter(|held_out| held_out.epsilon > priced.epsilon).unwrap_or(priced);
    if plan.is_none() {
        warnings.push(not_private::WARNING.into());
    } else if priced.epsilon > WEAK_EPSILON {
        warnings.push(format!(
            "epsilon {}: hardly a guarantee; 10 and less are usual: raise the noise, or train for fewer steps",
            upward(priced.epsilon)
        ));
    }
    if config.test_metrics == TestMetrics::Exact
        && let Some(TestSource::Fraction(fraction)) = source.data_options.test
    {
        warnings.push(format!(
            "`test` {fraction}: the held-out rows come out of the training file, and their exact metrics are not covered by epsilon; \
             use `test_metrics` private, or none, if these rows are private"
        ));
    }
    if source.data_options.stratify {
        warnings.push(
            "`stratify`: classes decide which rows are held out, so the class of every row is taken to be public; epsilon protects the \
             rest of a row"
                .into(),
        );
    }
    if data.shares_rows()? {
        warnings_of_data.push(
            "`test`: held-out rows are equal to training rows, so the metrics are not of unseen rows; remove them from one of the two"
                .into(),
        );
    }
    if let Some(class) = data.train.only_class() {
        let class = match data.names.classes.as_ref().and_then(|names| names.get(usize::try_from(class).ok()?)) {
            Some(name) => format!("'{name}' ({class})"),
            None => class.to_string(),
        };
        warnings_of_data
            .push(format!("`data`: every training row has the label {class}, so the model learns to give no other"));
    }
    warnings_of_data.extend(unit_warning(&data));
    let params = initial(&graph, &grad);
    // A copy of all parameters less for the whole run.
    graph.parameters.iter_mut().filter(|p| p.trained).for_each(|p| p.initial.data = TensorData::F32(vec![]));
    let run = Run {
        config,
        model,
        adapted,
        init_seed,
        graph,
        grad,
        clipped,
        derive,
        data,
        params,
        physical_batch,
        terms,
        plan,
        plan_delta,
        stratified: source.data_options.stratify,
        held_out_of_training_file: matches!(source.data_options.test, Some(TestSource::Fraction(_))),
        private_metrics,
        epsilon: priced.epsilon,
        order: priced.order,
        warnings,
        warnings_of_data,
        data_digest: None,
    };
    recording::check(&run)?;
    Ok(run)
}

/// Refuses scaled labels for a model whose output is in the unit of others.
fn check_label_scale(model: &ModelProto, options: &DataOptions, data: &Dataset) -> Result<(), TrainError> {
    let scale = data.train.label_scale().filter(|scale| *scale != (0.0, 1.0));
    let (Some((mean, std)), Some(before)) = (scale, label_scale(model)) else { return Ok(()) };
    // As the user names the labels' column: by its name, its number, or `labels`.
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

/// Warns of labels whose unit the model can hardly learn: most of them far from 0, and no scale. It depends on rows.
fn unit_warning(data: &Dataset) -> Option<String> {
    let Labels::Values { values, .. } = data.train.labels() else { return None };
    let large = values.iter().filter(|value| value.abs() > LARGE_LABEL).count();
    (data.train.label_scale().is_none() && 2 * large > values.len()).then(|| {
        format!(
            "`loss` mse: most labels are above {LARGE_LABEL} in size, and clipped gradients hardly get there; give their public mean and \
             standard deviation by `scale` LABEL=MEAN,STD (LABEL is the label's column, or labels where columns have no names), or \
             LABEL=0,1 to train on them as they are"
        )
    })
}

/// The noise of private metrics, if they are asked for. It does not depend on the held-out rows.
fn private_metrics(
    config: &TrainConfig,
    loss: &Loss,
    terms: &Terms,
    of_training: f64,
) -> Result<Option<PrivateMetrics>, TrainError> {
    let TestMetrics::Private { loss_bound } = config.test_metrics else { return Ok(None) };
    let target = match config.budget {
        Budget::Epsilon(target) => target,
        Budget::NoiseMultiplier(_) | Budget::Equation6(_) | Budget::NotPrivate => of_training,
    };
    let with_accuracy = matches!(loss, Loss::SoftmaxCrossEntropy | Loss::BceWithLogits);
    // The loss that a model computes itself may have any sign.
    let is_nonnegative = !matches!(loss, Loss::Output(_));
    let releases = evaluations(terms.steps, steps_between(config, terms.rate));
    let target = (target, config.delta);
    Ok(Some(PrivateMetrics::new(config.accountant, target, releases, loss_bound, (with_accuracy, is_nonnegative))?))
}

/// The plan of a run on `samples` samples, before any data is read. Private metrics count as if the data had held-out rows. If
/// `tuning`, a part of the samples is held out for figures after the noise was chosen: the rate is higher.
///
/// # Errors
///
/// A setting is at fault.
pub fn plan(
    source: &Source,
    mut config: TrainConfig,
    samples: u64,
    tuning: Option<f64>,
) -> Result<RunPlan, TrainError> {
    check_settings(source.data_options.test.as_ref(), &config)?;
    config.method.check(&config.optimizer)?;
    if tuning.is_some() && !matches!(config.sampler, Sampler::Poisson | Sampler::Shuffled) {
        let problem =
            "is priced for the samples of the last run, and tuning holds some out; give one value for each key";
        return Err(SettingError::new("sampler", config.sampler.name(), problem).into());
    }
    // Rounding of correlated noise costs by the number of parameters.
    let parameters = match config.noise_correlation {
        NoiseCorrelation::None => 0,
        _ => Layout::new(&network(source)?.grad).dim(),
    };
    let Priced { terms, cut, plan, .. } = price(&mut config, samples, parameters)?;
    let metrics = match (config.test_metrics, &plan) {
        (TestMetrics::Private { .. }, Some(plan)) => {
            let training = of_training(&config, plan, terms.truncation, cut)?;
            private_metrics(&config, &source.derive.loss, &terms, training.price.epsilon)?
        }
        _ => None,
    };
    let left = tuning.map_or(samples, |part| samples - held_out_rows(samples, part));
    let rate = if left == samples { terms.rate } else { tuning_rate(&config, samples, left)? };
    let event_rate = if config.sampler == Sampler::Poisson { rate } else { terms.event_rate };
    run_plan(&config, left, &Terms { rate, event_rate, ..terms }, metrics.as_ref())
}

/// `run` on other data for so many steps: what it costs stays as it is.
///
/// # Errors
///
/// Correlated noise of so many steps has no price.
pub fn on_data(run: &Run, train: Split, steps: u32) -> Result<Run, TrainError> {
    let correlated = run.terms.correlated;
    let correlated = correlated
        .map(|noise| fitted(noise, &run.config, steps, train.len() as u64, Layout::new(&run.grad).dim()))
        .transpose()?;
    let steps_per_event = steps_per_event(&run.config, train.len() as u64, steps);
    let data = Dataset { train, test: None, ..run.data.clone() };
    let terms = Terms { steps, correlated, steps_per_event, ..run.terms };
    Ok(Run { data, terms, private_metrics: None, ..run.clone() })
}

/// `run` with another network and other data, for so many steps: what it costs stays as it is.
///
/// # Errors
///
/// The network cannot be trained so.
pub fn on_network(run: &Run, model: ModelProto, train: Split, steps: u32) -> Result<Run, TrainError> {
    let graph = Graph::from_model(&model, &GraphOptions::default())?;
    let options = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
    let grad = derive(&graph, &as_read(&options))?;
    let clipped = clipped(&graph, &options, &run.config)?;
    let output = loss_output(&options, &graph)?;
    let derive = DeriveOptions { output: Some(graph.value(output).name.clone()), ..options };
    let cost = clipped.as_ref().unwrap_or(&grad).cost;
    let physical_batch = physical_batch(run.config.physical_batch, run.config.memory, cost)?;
    let params = initial(&graph, &grad);
    let run = &Run { grad, ..run.clone() };
    let grad = run.grad.clone();
    Ok(Run {
        model,
        adapted: None,
        init_seed: None,
        graph,
        grad,
        clipped,
        derive,
        params,
        physical_batch,
        ..on_data(run, train, steps)?
    })
}

/// The graph of clipped sums where they are asked for, at as many points as the filter wants; the path is refused where its
/// bound would not hold.
fn clipped(graph: &Graph, derived: &DeriveOptions, config: &TrainConfig) -> Result<Option<GradGraph>, TrainError> {
    match config.readout {
        Readout::PerSample => return Ok(None),
        Readout::ClippedSum => {}
        _ => return Err(SettingError::new("readout", "", "training takes per-sample or clipped-sum").into()),
    }
    if config.noise != Noise::Continuous {
        let problem = "its bound holds in the backend's floats, not in integers; add `noise` continuous, or use `readout` \
                       per-sample, which is exact";
        return Err(SettingError::new("readout", "clipped-sum", problem).into());
    }
    if config.method.clipping != Clipping::default() {
        let problem = "clips all parameters together at the clip; use `clipping` flat, or `readout` per-sample";
        return Err(SettingError::new("readout", "clipped-sum", problem).into());
    }
    let points = NonZeroUsize::new(config.method.filter.gradients_per_sample()).unwrap_or(NonZeroUsize::MIN);
    let options = DeriveOptions { readout: Readout::ClippedSum, points, ..derived.clone() };
    Ok(Some(derive(graph, &options)?))
}

/// The rows asked for, or as many as `memory` bytes hold.
pub fn physical_batch(rows: Option<NonZeroUsize>, memory: u64, cost: Cost) -> Result<NonZeroUsize, TrainError> {
    rows.or_else(|| cost.rows(memory)).ok_or_else(|| {
        let needed = cost.bytes(1).div_ceil(1 << 20);
        let problem = format!(
            "one sample's tensors take {needed}MiB; give at least so much (damper inspect counts it for each readout)"
        );
        SettingError::new("memory", "", problem).into()
    })
}

/// The output that feeds the loss: the one asked for, else the model's only one.
fn loss_output(options: &DeriveOptions, graph: &Graph) -> Result<ValueId, TrainError> {
    let named = |name: &String| graph.outputs.iter().find(|id| graph.value(**id).name == *name);
    // `derive` has refused a model that has no such output, and one with several and no choice.
    match (&options.loss, &options.output) {
        (Loss::Output(name), _) | (_, Some(name)) => named(name),
        _ => graph.outputs.first(),
    }
    .copied()
    .ok_or_else(|| SettingError::new("output", "", "the model has no output").into())
}

fn label_kind(options: &DeriveOptions, graph: &Graph, grad: &GradGraph, output: ValueId) -> LabelKind {
    let shape = grad.labels.as_ref().map(fixed);
    match options.loss {
        Loss::SoftmaxCrossEntropy => {
            LabelKind::Classes { classes: Some(class_axis(options, graph.value(output)).0), shape }
        }
        Loss::Mse => LabelKind::Values { shape },
        Loss::BceWithLogits => LabelKind::Chances { shape },
        Loss::Output(_) => LabelKind::None,
    }
}

/// The number of classes of the output that feeds the loss, and how many numbers lie between one class and the next in
/// a sample's part of it.
pub(crate) fn class_axis(options: &DeriveOptions, output: &Value) -> (usize, usize) {
    // As the loss sees it: the samples in front, and where they were an axis of their own, that axis gone.
    let mut rest = output.shape.clone();
    if let Some(batch) = output.batch.filter(|batch| rest[batch.axis] == 1) {
        rest.remove(batch.axis);
    }
    let rank = rest.len() as i64 + 1;
    let axis = options.class_axis.unwrap_or(-1);
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(0).clamp(1, rest.len().max(1)) - 1;
    (rest.get(axis).copied().unwrap_or(1), rest.iter().skip(axis + 1).product())
}

/// A data input as the data set is to give it.
fn input_shape(spec: &TensorSpec, graph: &Graph) -> InputShape {
    let input = graph.inputs.iter().find(|id| graph.value(**id).name == spec.name);
    InputShape {
        name: spec.name.clone(),
        shape: fixed(spec),
        dtype: spec.dtype,
        rows: input.and_then(|input| rows_looked_up(graph, *input)),
    }
}

/// The rows of the smallest table that `input`'s numbers are looked up in, where they are: below it each of them must be. Where constants
/// are added to them first, fewer rows by the least of these.
fn rows_looked_up(graph: &Graph, input: ValueId) -> Option<usize> {
    // Values that are the input's numbers and a constant each, of which the least.
    let mut same = HashMap::from([(input, 0i64)]);
    let mut least: Option<usize> = None;
    for node in &graph.nodes {
        let id = |slot: usize| node.inputs.get(slot).copied().flatten();
        let offset = |slot: usize| id(slot).and_then(|id| same.get(&id).copied());
        match &*node.op {
            "Gather" if offset(1).is_some() => {
                let table = node.inputs[0].map(|id| &graph.value(id).shape);
                let axis = attr_int(&node.attributes, "axis", 0);
                let rows = table.and_then(|shape| {
                    let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
                    shape.get(usize::try_from(axis).ok()?).copied()
                });
                let rows = rows.map(|rows| usize::try_from(rows as i64 - offset(1).unwrap_or(0)).unwrap_or(0));
                least = [least, rows].into_iter().flatten().min();
            }
            // Numbers that only change their place or type.
            "Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Transpose" => {
                same.extend(offset(0).into_iter().flat_map(|offset| node.outputs.iter().map(move |id| (*id, offset))));
            }
            "Add" => {
                let constants = [(0, 1), (1, 0)].into_iter().find_map(|(numbers, constant)| {
                    let least = graph.constant(id(constant)?).and_then(|tensor| match &tensor.data {
                        TensorData::I64(values) => values.iter().copied().min(),
                        _ => None,
                    })?;
                    Some(offset(numbers)?.saturating_add(least))
                });
                same.extend(constants.into_iter().flat_map(|offset| node.outputs.iter().map(move |id| (*id, offset))));
            }
            _ => {}
        }
    }
    least
}

/// Extents without the batch.
fn fixed(spec: &TensorSpec) -> Vec<usize> {
    spec.shape.iter().filter_map(|dim| if let Dim::Fixed(extent) = dim { Some(*extent) } else { None }).collect()
}

/// The model file's values of the trained parameters, flat, in the gradient graph's order.
pub fn initial(graph: &Graph, grad: &GradGraph) -> Vec<f32> {
    let of = |name: &str| graph.parameters.iter().find(|parameter| parameter.name == name)?.initial.as_f32();
    // Grown value by value, they would take up to twice their memory for the whole run.
    grad.parameters.iter().filter_map(|spec| of(&spec.name)).collect::<Vec<_>>().concat()
}
