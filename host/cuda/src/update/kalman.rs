//! DiSK's filter with one gradient per sample, at the look-ahead point.

use crate::device::{Argument, CudaDevice, by_coordinate};
use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use crate::memory::DeviceMemory;
use damper_core::filter::Gain;
use damper_core::state::StateField;
use std::sync::Arc;

pub(super) struct KalmanMemory {
    dim: usize,
    settings: Gain,
    started: bool,
    /// `κ` of the next step.
    gain: f64,
    /// `p` before the next step.
    uncertainty: f64,
    filtered: DeviceMemory,
    moved: DeviceMemory,
    point: DeviceMemory,
}

impl KalmanMemory {
    pub(super) fn new(device: &Arc<dyn CudaDevice>, settings: Gain, dim: usize) -> Result<Self, DeviceError> {
        let uncertainty = match settings {
            Gain::Constant(_) => 0.0,
            Gain::Recursion { noise, .. } => noise,
        };
        Ok(Self {
            dim,
            settings,
            started: false,
            gain: settings.next(uncertainty).0,
            uncertainty,
            filtered: DeviceMemory::floats(device, dim)?,
            moved: DeviceMemory::floats(device, dim)?,
            point: DeviceMemory::floats(device, dim)?,
        })
    }

    /// Evaluation point for the gradients of the next step.
    pub(super) fn point<'a>(
        &'a self,
        device: &Arc<dyn CudaDevice>,
        params: &'a DeviceMemory,
    ) -> Result<&'a DeviceMemory, DeviceError> {
        if !self.started || self.gain == 1.0 {
            return Ok(params);
        }
        let arguments = [
            params.argument(),
            self.moved.argument(),
            Argument::Wide(self.dim as u64),
            Argument::Float(((1.0 - self.gain) / self.gain) as f32),
            self.point.argument(),
        ];
        by_coordinate(device, CudaKernel::PointAhead, self.dim, &arguments)?;
        Ok(&self.point)
    }

    pub(super) fn apply(
        &mut self,
        device: &Arc<dyn CudaDevice>,
        released: &DeviceMemory,
    ) -> Result<&DeviceMemory, DeviceError> {
        let gain = self.gain;
        let is_later = std::mem::replace(&mut self.started, true);
        let has_weights = is_later && gain != 1.0;
        // The first step does not change the uncertainty.
        if is_later {
            self.uncertainty = self.settings.next(self.uncertainty).1;
            self.gain = self.settings.next(self.uncertainty).0;
        }
        let arguments = [
            released.argument(),
            Argument::Wide(self.dim as u64),
            Argument::Narrow(has_weights.into()),
            Argument::Float((1.0 - gain) as f32),
            Argument::Float(gain as f32),
            self.filtered.argument(),
        ];
        by_coordinate(device, CudaKernel::FilterKalman, self.dim, &arguments)?;
        Ok(&self.filtered)
    }

    /// Stores the parameters before an update, or their change after it.
    pub(super) fn keep_move(
        &self,
        device: &Arc<dyn CudaDevice>,
        params: &DeviceMemory,
        is_after: bool,
    ) -> Result<(), DeviceError> {
        let dim = Argument::Wide(self.dim as u64);
        let arguments = [params.argument(), dim, Argument::Narrow(is_after.into()), self.moved.argument()];
        by_coordinate(device, CudaKernel::KeepMove, self.dim, &arguments)
    }

    pub(super) fn each_state(&mut self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        take(StateField::Owner("kalman"));
        self.filtered.give(take)?;
        self.moved.give(take)?;
        take(StateField::Double(&mut self.gain));
        take(StateField::Double(&mut self.uncertainty));
        let mut started = u32::from(self.started);
        take(StateField::Count(&mut started));
        self.started = started != 0;
        Ok(())
    }
}
