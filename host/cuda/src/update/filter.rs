//! Filters on released gradients.

use super::kalman::KalmanMemory;
use crate::device::{Argument, CudaDevice, by_coordinate};
use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use crate::memory::DeviceMemory;
use damper_core::filter::Gain;
use damper_core::state::StateField;
use std::sync::Arc;

/// Filter with the settings of the same filter in `damper-core`, which checks them.
#[derive(Clone, PartialEq, Debug)]
pub enum DeviceFilter {
    /// No filter.
    Identity,
    /// [`Iir`](damper_core::filter::Iir), or without the bias correction
    /// [`Uncorrected`](damper_core::filter::Uncorrected).
    Iir {
        /// Coefficients `a_1, a_2, …`
        a: Vec<f32>,
        /// Coefficients `b_0, b_1, …`
        b: Vec<f32>,
        /// True if the output is divided by the step response.
        is_corrected: bool,
        /// Parameter `ORDER` of that filter, which is the number of scalars in its state.
        capacity: usize,
    },
    /// [`Kalman`](damper_core::filter::Kalman) with this gain and one gradient per sample
    /// ([`LookAhead::One`](damper_core::filter::LookAhead::One)).
    Kalman(Gain),
}

/// State of the filter. The identity has none.
pub(super) enum FilterMemory {
    Identity,
    Iir(Box<IirMemory>),
    Kalman(Box<KalmanMemory>),
}

pub(super) struct IirMemory {
    dim: usize,
    direct: f32,
    taps: Vec<(f32, f32)>,
    is_corrected: bool,
    /// States for the input 1, 1, 1, …
    ones: Vec<f64>,
    coefficients: DeviceMemory,
    memory: DeviceMemory,
    filtered: DeviceMemory,
}

impl FilterMemory {
    pub(super) fn new(device: &Arc<dyn CudaDevice>, filter: DeviceFilter, dim: usize) -> Result<Self, DeviceError> {
        let (a, b, is_corrected, capacity) = match filter {
            DeviceFilter::Identity => return Ok(Self::Identity),
            DeviceFilter::Kalman(gain) => return Ok(Self::Kalman(Box::new(KalmanMemory::new(device, gain, dim)?))),
            DeviceFilter::Iir { a, b, is_corrected, capacity } => (a, b, is_corrected, capacity),
        };
        // Trailing zeros do not count towards the order.
        let last = |of: &[f32]| of.iter().rposition(|x| *x != 0.0).map_or(0, |last| last + 1);
        let order = last(&a).max(last(&b).saturating_sub(1));
        if order > capacity {
            return Err(DeviceError::Shape("a filter of an order above its capacity"));
        }
        let at = |of: &[f32], at: usize| of.get(at).copied().unwrap_or(0.0);
        let taps: Vec<(f32, f32)> = (0..order).map(|i| (at(&a, i), at(&b, i + 1))).collect();
        let bytes: Vec<u8> = taps.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()]).flatten().collect();
        Ok(Self::Iir(Box::new(IirMemory {
            dim,
            direct: at(&b, 0),
            ones: vec![0.0; capacity],
            coefficients: DeviceMemory::of(device, &bytes)?,
            memory: DeviceMemory::floats(device, order * dim)?,
            filtered: DeviceMemory::floats(device, dim)?,
            taps,
            is_corrected,
        })))
    }

    /// Filtered gradient of this step.
    pub(super) fn apply<'a>(
        &'a mut self,
        device: &Arc<dyn CudaDevice>,
        released: &'a DeviceMemory,
    ) -> Result<&'a DeviceMemory, DeviceError> {
        let iir = match self {
            Self::Identity => return Ok(released),
            Self::Kalman(kalman) => return kalman.apply(device, released),
            Self::Iir(iir) => iir,
        };
        let correction = if iir.is_corrected { (1.0 / iir.advance()) as f32 } else { 1.0 };
        let arguments = [
            released.argument(),
            Argument::Wide(iir.dim as u64),
            Argument::Float(iir.direct),
            iir.coefficients.argument(),
            Argument::Narrow(iir.taps.len() as u32),
            Argument::Float(correction),
            iir.memory.argument(),
            iir.filtered.argument(),
        ];
        by_coordinate(device, CudaKernel::FilterIir, iir.dim, &arguments)?;
        Ok(&iir.filtered)
    }

    /// Evaluation point for the gradients of the next step.
    pub(super) fn point<'a>(
        &'a self,
        device: &Arc<dyn CudaDevice>,
        params: &'a DeviceMemory,
    ) -> Result<&'a DeviceMemory, DeviceError> {
        match self {
            Self::Kalman(kalman) => kalman.point(device, params),
            _ => Ok(params),
        }
    }

    /// Stores the parameters before an update, or their change after it, if the filter needs them.
    pub(super) fn keep_move(
        &self,
        device: &Arc<dyn CudaDevice>,
        params: &DeviceMemory,
        is_after: bool,
    ) -> Result<(), DeviceError> {
        match self {
            Self::Kalman(kalman) => kalman.keep_move(device, params, is_after),
            _ => Ok(()),
        }
    }

    /// Passes each value to `take`, in the same way as the state of the same filter in `damper-core`.
    pub(super) fn each_state(&mut self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        let iir = match self {
            Self::Identity => return Ok(()),
            Self::Kalman(kalman) => return kalman.each_state(take),
            Self::Iir(iir) => iir,
        };
        take(StateField::Owner("iir"));
        iir.memory.give(take)?;
        iir.ones.iter_mut().for_each(|one| take(StateField::Double(one)));
        Ok(())
    }
}

impl IirMemory {
    /// Computes the next `c_t`, in f64.
    fn advance(&mut self) -> f64 {
        let y = f64::from(self.direct) + self.ones.first().copied().unwrap_or(0.0);
        for (i, (a, b)) in self.taps.iter().enumerate() {
            let later = self.ones.get(i + 1).copied().unwrap_or(0.0);
            self.ones[i] = (f64::from(*b) - f64::from(*a) * y) + later;
        }
        y
    }
}
