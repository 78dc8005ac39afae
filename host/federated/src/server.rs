//! The server's round: the selection of updates, and the parameter update from their sum.
//!
//! ```text
//! θ_i ← F(θ_i − F(lr · F(F(sum_i) · F(clip / 2^b / (B·n)))))
//! ```
//!
//! F rounds to float32, B is the expected number of units of a device, and n the number of added updates, which is
//! public.

use super::RoundError;
use damper_core::update::{Header, PayloadWord, Update};
use damper_data::DataNames;
use damper_edit::init::{self, LoadOptions, Loaded};
use damper_federation::{FederationError, FederationPlan};
use damper_grad::{DeriveOptions, GradGraph, derive};
use damper_onnx::graph::{Graph, GraphOptions};
use damper_onnx::pb::ModelProto;
use damper_onnx::write_trained;
use damper_train::inside::initial;
use damper_train::{TrainError, data_names, set_data_names};
use std::path::Path;

/// The model of a round, without data.
#[derive(Debug)]
pub struct ServerModel {
    model: ModelProto,
    grad: GradGraph,
    params: Vec<f32>,
}

impl ServerModel {
    /// Reads the model in `file`.
    ///
    /// # Errors
    ///
    /// It is not a trainable model.
    pub fn read(
        file: &Path,
        of_file: LoadOptions,
        graph: &GraphOptions,
        options: &DeriveOptions,
    ) -> Result<Self, TrainError> {
        let Loaded { model, .. } = init::load(file, of_file)?;
        let graph = Graph::from_model(&model, graph)?;
        let grad = derive(&graph, options)?;
        let params = initial(&graph, &grad);
        Ok(Self { model, grad, params })
    }

    /// Updates the parameters by the mean of the updates with the sum `sum`, in the bytes of
    /// [`Aggregate`](damper_federation::aggregate::Aggregate).
    ///
    /// # Errors
    ///
    /// The bytes are not a sum of this plan, it has fewer updates than the plan's noise requires, or the model has
    /// other parameters.
    pub fn apply(&mut self, plan: &FederationPlan, sum: &[u8]) -> Result<(), RoundError> {
        let update = Update::parse(sum).map_err(|error| FederationError::Sum(error.to_string()))?;
        let header = *update.header();
        let wanted = Header { devices: header.devices, ..plan.header(0, header.round) };
        if update.word() != PayloadWord::Sum
            || header != wanted
            || header.round >= plan.rounds
            || header.devices > plan.devices
        {
            return Err(FederationError::Sum("not a sum of this plan's updates; make it with the plan".into()).into());
        }
        let units: Vec<i64> = update.units().collect();
        self.apply_sum(plan, &units, header.devices)
    }

    /// Does the same as [`apply`](Self::apply), for the sum of `devices` updates, `[D]`, in grid units.
    pub(super) fn apply_sum(&mut self, plan: &FederationPlan, sum: &[i64], devices: u32) -> Result<(), RoundError> {
        if devices < plan.smallest_cohort {
            return Err(FederationError::SmallCohort { accepted: devices, smallest: plan.smallest_cohort }.into());
        }
        if sum.len() != self.params.len() {
            let (got, wanted) = (self.params.len(), sum.len());
            let problem = format!(
                "the model has {got} trained parameters, and the sum {wanted}; give the round's model, and its flags"
            );
            return Err(TrainError::Run(problem).into());
        }
        let grid = (1u32 << plan.grid_bits) as f32;
        let unit = plan.clip / grid / (plan.expected_batch * devices) as f32;
        for (param, sum) in self.params.iter_mut().zip(sum) {
            *param -= plan.lr * (*sum as f32 * unit);
        }
        Ok(())
    }

    /// Sets the trained parameters of a round, `[D]`, flat, in the gradient graph's order.
    ///
    /// # Errors
    ///
    /// Their number differs from the plan's, or they are not finite.
    pub fn set_params(&mut self, plan: &FederationPlan, params: &[f32]) -> Result<(), RoundError> {
        if params.len() != self.params.len() || !params.iter().all(|x| x.is_finite()) {
            return Err(FederationError::Request { parameters: plan.parameters }.into());
        }
        self.params.copy_from_slice(params);
        Ok(())
    }

    /// Returns the parameters, flat, in the gradient graph's order.
    #[must_use]
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Returns the names of columns and classes in the model.
    ///
    /// # Errors
    ///
    /// Its metadata is damaged.
    pub fn names(&self) -> Result<DataNames, TrainError> {
        data_names(&self.model)
    }

    /// Returns the model with its parameters, and with the names of `plan`.
    ///
    /// # Errors
    ///
    /// A parameter is not in the model.
    pub fn to_model(&self, plan: &FederationPlan) -> Result<ModelProto, TrainError> {
        let mut rest = &self.params[..];
        let named: Vec<(&str, &[f32])> = self
            .grad
            .parameters
            .iter()
            .map(|spec| {
                let (values, after) = rest.split_at(spec.elements(1).min(rest.len()));
                rest = after;
                (spec.name.as_str(), values)
            })
            .collect();
        let mut model = write_trained(&self.model, &named).map_err(|error| TrainError::Run(error.to_string()))?;
        set_data_names(&mut model, &plan.names);
        Ok(model)
    }
}
