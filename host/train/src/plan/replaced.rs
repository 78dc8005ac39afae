//! A prepared run on other data or with another network, for audits. Its recorded privacy cost does not change.

use crate::engine::sampler::steps_per_event;
use crate::engine::worker::ParamLayout;
use crate::plan::correlation::fitted;
use crate::plan::graphs::{as_read, clipped, initial, physical_batch};
use crate::plan::inputs::loss_output;
use crate::plan::model::Model;
use crate::plan::terms::Price;
use crate::{Run, Terms, TrainError};
use damper_data::{Dataset, Split};
use damper_grad::{DeriveOptions, Loss, derive};
use damper_onnx::graph::{Graph, GraphOptions};
use damper_onnx::pb::ModelProto;
use std::sync::Arc;

impl Run {
    /// Returns the run on other data for this many steps. Its recorded privacy cost does not change.
    ///
    /// # Errors
    ///
    /// Correlated noise cannot be accounted for this many steps.
    pub fn on_data(&self, train: Split, steps: u32) -> Result<Run, TrainError> {
        let Run { config, model, data, price, .. } = self;
        let correlated = price.terms.correlated;
        let correlated = correlated
            .map(|noise| fitted(noise, config, steps, train.len() as u64, ParamLayout::new(&model.grad).dim()))
            .transpose()?;
        let steps_per_event = steps_per_event(config, train.len() as u64, steps);
        let Dataset { sample, names, notes, .. } = &**data;
        let data = Dataset { train, test: None, sample, names: names.clone(), notes: notes.clone() };
        let terms = Terms { steps, correlated, steps_per_event, ..price.terms };
        let price = Price { terms, private_metrics: None, ..price.clone() };
        Ok(Run { data: Arc::new(data), price, ..self.clone() })
    }

    /// Returns the run with another network and other data, for this many steps. Its recorded privacy cost does not
    /// change.
    ///
    /// # Errors
    ///
    /// The network cannot be trained this way.
    pub fn on_network(&self, model: ModelProto, train: Split, steps: u32) -> Result<Run, TrainError> {
        let graph = Graph::from_model(&model, &GraphOptions::default())?;
        let options = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
        let grad = derive(&graph, &as_read(&options))?;
        let clipped = clipped(&graph, &options, &self.config)?;
        let output = loss_output(&options, &graph)?;
        let derive = DeriveOptions { output: Some(graph.value(output).name.clone()), ..options };
        let cost = clipped.as_ref().unwrap_or(&grad).cost;
        let physical_batch = physical_batch(self.config.physical_batch, self.config.memory, cost)?;
        let params = initial(&graph, &grad);
        let (adapted, init_seed) = (None, None);
        let model = Model { onnx: model, adapted, init_seed, graph, grad, clipped, derive, params, physical_batch };
        Run { model: Arc::new(model), frozen: vec![], ..self.clone() }.on_data(train, steps)
    }
}
