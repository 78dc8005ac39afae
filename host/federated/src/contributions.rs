//! The contribution of each unit of a device, **not private**: without clipping and noise. The core receives them one
//! at a time.

use super::{RoundError, Users};
use damper_core::error::CallError;
use damper_data::{Split, chunks};
use damper_federation::{FederationPlan, LocalSteps};
use damper_runtime::Backend;
use damper_train::gradients::{self, GradientOptions};
use damper_train::inside::initial;
use damper_train::inside::worker::{ChunkRows, ExactGradients, PlainSums};
use damper_train::{ModelAndData, TrainError};
use std::num::NonZeroUsize;

/// Receives a contribution in consecutive segments.
pub(super) type Take<'a> = dyn FnMut(&[&[f32]]) -> Result<(), CallError> + Send + 'a;

/// The units of a device, at the parameters of its model.
pub(super) struct Contributions<'a> {
    params: Vec<f32>,
    split: &'a Split,
    rows: NonZeroUsize,
    units: Units<'a>,
}

enum Units<'a> {
    Samples { gradients: ExactGradients, lengths: Vec<usize> },
    Users { sums: PlainSums, users: &'a Users, local: LocalSteps, sum: Vec<f64> },
}

impl<'a> Contributions<'a> {
    /// Loads the gradient graph of `read`, which has the parameters of the round.
    ///
    /// # Errors
    ///
    /// The model is not that of the plan, or the backend cannot run it.
    pub(super) fn new(
        plan: &FederationPlan,
        read: &'a ModelAndData,
        users: &'a Users,
        backend: &dyn Backend,
        options: &GradientOptions,
    ) -> Result<Self, RoundError> {
        let ModelAndData { graph, grad, data, .. } = read;
        let (split, params) = (&data.train, initial(graph, grad));
        if params.len() != plan.parameters as usize {
            let (got, wanted) = (params.len(), plan.parameters);
            let problem = format!(
                "the model has {got} trained parameters, and the plan is for {wanted}; give the plan's model, and its flags"
            );
            return Err(TrainError::Run(problem).into());
        }
        let sessions = gradients::sessions(read, backend, options, &params)?;
        let rows = sessions.rows;
        let units = match plan.local {
            None => Units::Samples {
                gradients: ExactGradients::without_losses(&sessions).map_err(TrainError::from)?,
                lengths: grad.parameters.iter().map(|spec| spec.elements(1)).collect(),
            },
            Some(local) => Units::Users {
                sums: PlainSums::new(&sessions).map_err(TrainError::from)?,
                users,
                local,
                sum: vec![0.0; params.len()],
            },
        };
        Ok(Self { params, split, rows, units })
    }

    /// Switches to other parameters, those of a later round.
    pub(super) fn move_to(&mut self, params: &[f32]) {
        self.params.copy_from_slice(params);
    }

    /// Returns the number of units of the device.
    pub(super) fn count(&self) -> u32 {
        let count = match &self.units {
            Units::Samples { .. } => self.split.len(),
            Units::Users { users, .. } => users.len(),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Computes and drops the first sample's gradient, so that a backend that cannot run the network fails before a
    /// round is charged.
    ///
    /// # Errors
    ///
    /// The backend fails.
    pub(super) fn rehearse(&mut self) -> Result<(), RoundError> {
        let Self { params, split, rows, units } = self;
        let first = [0];
        let chunks: Vec<_> = chunks(&first[..split.len().min(1)], *rows).collect();
        match units {
            Units::Samples { gradients, .. } => {
                gradients.each_chunk::<TrainError>(split, &chunks, params, &mut |_: &ChunkRows| Ok(()))?;
            }
            Units::Users { sums, sum, .. } => {
                sums.sum(split, &chunks, None, params, sum).map_err(TrainError::from)?;
                sum.fill(0.0);
            }
        }
        Ok(())
    }

    /// Calls `take` with the contribution of each of `drawn`, in order.
    pub(super) fn each(&mut self, drawn: &[u32], take: &mut Take<'_>) -> Result<(), RoundError> {
        let Self { params, split, rows, units } = self;
        match units {
            Units::Samples { gradients, lengths } => {
                let chunks: Vec<_> = chunks(drawn, *rows).collect();
                gradients.each_chunk(split, &chunks, params, &mut |rows: &ChunkRows| {
                    let count = rows.grads.iter().zip(&*lengths).map(|(grads, len)| grads.len() / len).max();
                    (0..count.unwrap_or(0)).try_for_each(|row| {
                        let parts = rows.grads.iter().zip(&*lengths).map(|(grads, len)| &grads[row * len..][..*len]);
                        take(&parts.collect::<Vec<_>>()).map_err(refused)
                    })
                })?;
            }
            Units::Users { sums, users, local, sum } => {
                let mut own = vec![0.0; params.len()];
                for user in drawn {
                    let samples = users.samples(*user);
                    own.copy_from_slice(params);
                    for step in 0..local.steps {
                        let batch = local.samples_of(step, samples);
                        let chunks: Vec<_> = chunks(&batch, *rows).collect();
                        sums.sum(split, &chunks, None, &own, sum).map_err(TrainError::from)?;
                        local.apply(sum, batch.len(), &mut own);
                    }
                    own.iter_mut().zip(&*params).for_each(|(own, param)| *own = param - *own);
                    take(&[&own]).map_err(refused)?;
                }
                own.fill(0.0);
            }
        }
        Ok(())
    }
}

/// The core accepts every gradient with the parameters' shapes.
fn refused(error: CallError) -> TrainError {
    TrainError::Run(format!("a contribution was not taken: {error}"))
}
