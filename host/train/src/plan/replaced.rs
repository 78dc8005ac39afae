//! A prepared run on other data, or with another network, for audits: its privacy cost stays as it is.

use crate::engine::sampler::steps_per_event;
use crate::engine::worker::Layout;
use crate::plan::correlation::fitted;
use crate::plan::graphs::{as_read, clipped, initial, physical_batch};
use crate::plan::inputs::loss_output;
use crate::{Run, Terms, TrainError};
use damper_data::{Dataset, Split};
use damper_grad::{DeriveOptions, Loss, derive};
use damper_onnx::graph::{Graph, GraphOptions};
use damper_onnx::pb::ModelProto;

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
