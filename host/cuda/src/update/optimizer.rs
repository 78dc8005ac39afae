//! Optimizers. The scalars of a step are computed here, as in `damper-core`, and the coordinates are updated on the
//! device.

use crate::device::{Argument, CudaDevice, by_coordinate};
use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use crate::memory::DeviceMemory;
use damper_core::optimizer::Begin;
use damper_core::state::StateField;
use std::sync::Arc;

/// Optimizer with the settings of the same optimizer in `damper-core`, which checks them.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are those of the optimizer that each variant names.
pub enum DeviceOptimizer {
    /// [`Sgd`](damper_core::optimizer::Sgd).
    Sgd { momentum: f32, nesterov: bool, weight_decay: f32 },
    /// [`Adam`](damper_core::optimizer::Adam).
    Adam { beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64, filtered_second: bool, floored: bool },
    /// [`AdamBc`](damper_core::optimizer::AdamBc).
    AdamBc { beta1: f64, beta2: f64, floor: f32, weight_decay: f64, floor_by_noise: bool },
    /// [`RmsProp`](damper_core::optimizer::RmsProp).
    RmsProp { alpha: f64, epsilon: f32, weight_decay: f32 },
    /// [`AdaGrad`](damper_core::optimizer::AdaGrad).
    AdaGrad { epsilon: f32, weight_decay: f32 },
}

impl DeviceOptimizer {
    /// Number of state vectors, each of `D` words.
    fn vectors(&self) -> usize {
        match self {
            Self::Sgd { momentum: 0.0, .. } => 0,
            Self::Sgd { .. } | Self::RmsProp { .. } | Self::AdaGrad { .. } => 1,
            Self::Adam { .. } | Self::AdamBc { .. } => 2,
        }
    }
}

/// State of the optimizer.
pub(super) struct OptimizerMemory {
    optimizer: DeviceOptimizer,
    dim: usize,
    vectors: Vec<DeviceMemory>,
    /// Scalar states: for both moments, the power of β or the weight, and the average of the noise's variance.
    first: f64,
    second: f64,
    noise: f64,
}

/// Scalars of one Adam step.
struct AdamScalars {
    keep: f32,
    rate: f32,
    scale: f32,
    betas: [(f32, f32); 2],
    /// 0: sum of root and epsilon. 1: their maximum. 2: root without the noise.
    denominator: u32,
    epsilon: f32,
    noise: f32,
}

/// Converts a step's scalar to f32, saturating at the largest finite value.
fn narrow(x: f64) -> f32 {
    (x as f32).clamp(-f32::MAX, f32::MAX)
}

/// Factors of a moving average.
fn weights(beta: f64) -> (f32, f32) {
    (beta as f32, (1.0 - beta) as f32)
}

impl OptimizerMemory {
    pub(super) fn new(
        device: &Arc<dyn CudaDevice>,
        optimizer: DeviceOptimizer,
        dim: usize,
    ) -> Result<Self, DeviceError> {
        let vectors = (0..optimizer.vectors()).map(|_| DeviceMemory::floats(device, dim)).collect::<Result<_, _>>()?;
        let (first, second) = if matches!(optimizer, DeviceOptimizer::Adam { .. }) { (1.0, 1.0) } else { (0.0, 0.0) };
        Ok(Self { optimizer, dim, vectors, first, second, noise: 0.0 })
    }

    /// Passes each value to `take`, in the same way as the state of the same optimizer in `damper-core`.
    pub(super) fn each_state(&mut self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        take(StateField::Owner(match self.optimizer {
            DeviceOptimizer::Sgd { .. } => "sgd",
            DeviceOptimizer::Adam { .. } => "adam",
            DeviceOptimizer::AdamBc { .. } => "adam-bc",
            DeviceOptimizer::RmsProp { .. } => "rmsprop",
            DeviceOptimizer::AdaGrad { .. } => "adagrad",
        }));
        if self.vectors.is_empty() {
            take(StateField::Floats(&mut []));
        }
        self.vectors.iter().try_for_each(|vector| vector.give(take))?;
        let scalars = match self.optimizer {
            DeviceOptimizer::Adam { .. } => vec![&mut self.first, &mut self.second],
            DeviceOptimizer::AdamBc { .. } => vec![&mut self.noise, &mut self.first, &mut self.second],
            _ => Vec::new(),
        };
        scalars.into_iter().for_each(|scalar| take(StateField::Double(scalar)));
        Ok(())
    }

    /// Updates the parameters by the filtered gradient. Second moments are those of the released gradient.
    pub(super) fn update(
        &mut self,
        device: &Arc<dyn CudaDevice>,
        params: &DeviceMemory,
        [filtered, released]: [&DeviceMemory; 2],
        begin: Begin,
    ) -> Result<(), DeviceError> {
        let dim = Argument::Wide(self.dim as u64);
        let rate = Argument::Float(narrow(begin.lr));
        let start = [params.argument(), filtered.argument(), released.argument(), dim, rate];
        match self.optimizer {
            DeviceOptimizer::Sgd { momentum, nesterov, weight_decay } => {
                let arguments = [
                    params.argument(),
                    filtered.argument(),
                    dim,
                    rate,
                    Argument::Float(momentum),
                    Argument::Narrow(nesterov.into()),
                    Argument::Float(weight_decay),
                    // Without momentum the kernel does not read this vector.
                    self.vectors.first().unwrap_or(params).argument(),
                ];
                by_coordinate(device, CudaKernel::UpdateSgd, self.dim, &arguments)
            }
            DeviceOptimizer::RmsProp { alpha, epsilon, weight_decay } => {
                self.scaled(device, &start, weights(alpha), (weight_decay, epsilon))
            }
            DeviceOptimizer::AdaGrad { epsilon, weight_decay } => {
                self.scaled(device, &start, (1.0, 1.0), (weight_decay, epsilon))
            }
            DeviceOptimizer::Adam { beta1, beta2, epsilon, weight_decay, filtered_second, floored } => {
                self.first *= beta1;
                self.second *= beta2;
                let scalars = AdamScalars {
                    keep: narrow(1.0 - begin.lr * weight_decay),
                    rate: narrow(begin.lr / (1.0 - self.first)),
                    scale: narrow(1.0 / (1.0 - self.second)),
                    betas: [weights(beta1), weights(beta2)],
                    denominator: floored.into(),
                    epsilon,
                    noise: 0.0,
                };
                let squared = if filtered_second { filtered } else { released };
                self.adam(device, [params, filtered, squared], &scalars)
            }
            DeviceOptimizer::AdamBc { beta1, beta2, floor, weight_decay, floor_by_noise } => {
                let betas = [weights(beta1), weights(beta2)];
                let [(keep1, new1), (keep2, new2)] = betas.map(|(keep, new)| (f64::from(keep), f64::from(new)));
                self.first = keep1 * self.first + new1;
                self.second = keep2 * self.second + new2;
                self.noise = keep2 * self.noise + new2 * (begin.noise_std * begin.noise_std);
                let variance = self.noise / self.second;
                let relative = if floor_by_noise { (2.0 * (1.0 - beta2) / (1.0 + beta2)).sqrt() } else { 0.0 };
                let scalars = AdamScalars {
                    keep: narrow(1.0 - begin.lr * weight_decay),
                    rate: narrow(begin.lr / self.first),
                    scale: narrow(1.0 / self.second),
                    betas,
                    denominator: 2,
                    epsilon: narrow(relative * variance).max(floor),
                    noise: narrow(variance),
                };
                self.adam(device, [params, filtered, released], &scalars)
            }
        }
    }

    fn adam(
        &self,
        device: &Arc<dyn CudaDevice>,
        [params, filtered, squared]: [&DeviceMemory; 3],
        scalars: &AdamScalars,
    ) -> Result<(), DeviceError> {
        let AdamScalars { keep, rate, scale, betas, denominator, epsilon, noise } = *scalars;
        let [(keep1, new1), (keep2, new2)] = betas;
        let [first, second] = self.moments()?;
        let arguments = [
            params.argument(),
            filtered.argument(),
            squared.argument(),
            Argument::Wide(self.dim as u64),
            Argument::Float(keep),
            Argument::Float(rate),
            Argument::Float(scale),
            Argument::Float(keep1),
            Argument::Float(new1),
            Argument::Float(keep2),
            Argument::Float(new2),
            Argument::Narrow(denominator),
            Argument::Float(epsilon),
            Argument::Float(noise),
            first.argument(),
            second.argument(),
        ];
        by_coordinate(device, CudaKernel::UpdateAdam, self.dim, &arguments)
    }

    fn scaled(
        &self,
        device: &Arc<dyn CudaDevice>,
        start: &[Argument],
        (keep, take): (f32, f32),
        (decay, epsilon): (f32, f32),
    ) -> Result<(), DeviceError> {
        let [second] = self.moments()?;
        let mut arguments = start.to_vec();
        arguments.extend([keep, take, decay, epsilon].map(Argument::Float));
        arguments.push(second.argument());
        by_coordinate(device, CudaKernel::UpdateScaled, self.dim, &arguments)
    }

    fn moments<const N: usize>(&self) -> Result<[&DeviceMemory; N], DeviceError> {
        let all: Vec<&DeviceMemory> = self.vectors.iter().collect();
        all.try_into().map_err(|_| DeviceError::Shape("moments of another optimizer"))
    }
}
