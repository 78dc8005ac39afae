//! Parameters that stay on the device: filter, optimizer and average after a release.

mod filter;
mod kalman;
mod optimizer;

pub use filter::DeviceFilter;
pub use optimizer::DeviceOptimizer;

use crate::device::{Argument, CudaDevice, by_coordinate};
use crate::error::DeviceError;
use crate::exact_sum::ExactSum;
use crate::kernels::CudaKernel;
use crate::memory::DeviceMemory;
use crate::tensor::DeviceTensor;
use damper_core::average::Weight;
use damper_core::optimizer::Begin;
use damper_core::state::StateField;
use filter::FilterMemory;
use optimizer::OptimizerMemory;
use std::sync::Arc;

/// Parameters on a device, with the states of a filter and an optimizer, and the mean of the parameters over steps. A
/// step has the bits of `damper-core`. All contents are released values or post-processing of them.
pub struct DeviceParams {
    device: Arc<dyn CudaDevice>,
    dim: usize,
    params: DeviceMemory,
    filter: FilterMemory,
    optimizer: OptimizerMemory,
    average: Option<Average>,
}

struct Average {
    mean: DeviceMemory,
    weight: f64,
}

impl DeviceParams {
    /// Stores the parameters before the first step. `averages` allocates memory for their mean.
    ///
    /// # Errors
    ///
    /// Fails if the device has no room. Nothing is charged by then.
    pub fn new(
        device: &Arc<dyn CudaDevice>,
        params: &[f32],
        filter: DeviceFilter,
        optimizer: DeviceOptimizer,
        averages: bool,
    ) -> Result<Self, DeviceError> {
        let dim = params.len();
        let average = averages.then(|| Ok(Average { mean: DeviceMemory::floats(device, dim)?, weight: 0.0 }));
        let memory = DeviceMemory::floats(device, dim)?;
        memory.upload_floats(params)?;
        Ok(Self {
            filter: FilterMemory::new(device, filter, dim)?,
            optimizer: OptimizerMemory::new(device, optimizer, dim)?,
            average: average.transpose()?,
            device: Arc::clone(device),
            dim,
            params: memory,
        })
    }

    /// Updates the parameters from the released mean of `sum`.
    ///
    /// # Errors
    ///
    /// Fails if nothing is released, its length differs, or the device fails. If the device fails, the parameters may
    /// be partly updated.
    pub fn update(&mut self, sum: &ExactSum, begin: Begin) -> Result<(), DeviceError> {
        let released = sum.released_memory()?;
        if !released.is_on(&self.device) {
            return Err(DeviceError::Shape("a sum on another device"));
        }
        self.update_from(released, begin)
    }

    /// Like [`update`](Self::update), with a released mean.
    pub(crate) fn update_from(&mut self, released: &DeviceMemory, begin: Begin) -> Result<(), DeviceError> {
        if released.bytes() != self.params.bytes() {
            return Err(DeviceError::Shape("a mean of another length"));
        }
        self.filter.keep_move(&self.device, &self.params, false)?;
        let filtered = self.filter.apply(&self.device, released)?;
        self.optimizer.update(&self.device, &self.params, [filtered, released], begin)?;
        self.filter.keep_move(&self.device, &self.params, true)
    }

    /// Adds the parameters to their mean.
    ///
    /// # Errors
    ///
    /// Fails if the weight is not finite and above 0, or if the factor of earlier steps is not from 0 to 1. Also fails
    /// if no mean was requested, or if the device fails.
    pub fn add_to_average(&mut self, Weight { weight, keep }: Weight) -> Result<(), DeviceError> {
        let Some(average) = &mut self.average else { return Err(DeviceError::Order("a mean that was not asked for")) };
        if !(weight.is_finite() && weight > 0.0 && (0.0..=1.0).contains(&keep)) {
            return Err(DeviceError::Shape("a weight that is not finite and above 0"));
        }
        let total = keep * average.weight + weight;
        average.weight = total;
        let arguments = [
            self.params.argument(),
            Argument::Wide(self.dim as u64),
            Argument::Float((weight / total) as f32),
            average.mean.argument(),
        ];
        by_coordinate(&self.device, CudaKernel::AverageParams, self.dim, &arguments)
    }

    /// Parameters as a network's inputs. Nothing may write to them.
    #[must_use]
    pub fn tensor(&self) -> DeviceTensor<'_> {
        DeviceTensor::of(&self.params)
    }

    /// Evaluation point for the gradients of the next step: the parameters, unless the filter looks ahead.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn eval_point(&self) -> Result<DeviceTensor<'_>, DeviceError> {
        self.filter.point(&self.device, &self.params).map(DeviceTensor::of)
    }

    /// Copies the parameters.
    ///
    /// # Errors
    ///
    /// Fails if `out` has another length, or the device fails.
    pub fn read_params(&self, out: &mut [f32]) -> Result<(), DeviceError> {
        self.params.download_floats(out)
    }

    /// Copies the point of [`eval_point`](Self::eval_point).
    ///
    /// # Errors
    ///
    /// Fails if `out` has another length, or the device fails.
    pub fn read_eval_point(&self, out: &mut [f32]) -> Result<(), DeviceError> {
        self.filter.point(&self.device, &self.params)?.download_floats(out)
    }

    /// Copies the mean of the parameters.
    ///
    /// # Errors
    ///
    /// Fails if nothing was averaged, `out` has another length, or the device fails.
    pub fn read_average(&self, out: &mut [f32]) -> Result<(), DeviceError> {
        match &self.average {
            Some(average) if average.weight > 0.0 => average.mean.download_floats(out),
            _ => Err(DeviceError::Order("a mean of nothing")),
        }
    }

    /// Replaces the parameters.
    ///
    /// # Errors
    ///
    /// Fails if `params` has another length, or the device fails.
    pub fn write_params(&mut self, params: &[f32]) -> Result<(), DeviceError> {
        if params.len() != self.dim {
            return Err(DeviceError::Shape("parameters of another number"));
        }
        self.params.upload_floats(params)
    }

    /// Passes each value of the filter's state to `take`, which may change it. The order is that of the same filter in
    /// `damper-core`. So a state saved on either side fits both.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn each_filter_state(&mut self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        self.filter.each_state(take)
    }

    /// Like [`each_filter_state`](Self::each_filter_state), for the optimizer.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn each_optimizer_state(&mut self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        self.optimizer.each_state(take)
    }

    /// Like [`each_filter_state`](Self::each_filter_state), for the mean, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn each_average_state(&mut self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        let Some(average) = &mut self.average else { return Ok(()) };
        take(StateField::Owner("average"));
        average.mean.give(take)?;
        take(StateField::Double(&mut average.weight));
        Ok(())
    }
}
