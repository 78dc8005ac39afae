//! Internals of the trainer, for the crates that check or use them: audits and the devices of a federation.
//!
//! Their values before a release are as secret as the data, and no ε covers them. A program that trains does not need
//! this module.

pub use crate::choice::OptimizerState;
pub use crate::engine::observed;
pub use crate::plan::graphs::initial;

/// The generator of a run.
pub mod generator {
    pub use crate::engine::generator::{RunGenerator, fresh};
}

/// Observers of a run's internal state.
pub mod observe {
    pub use crate::engine::observe::{Counting, Given, Normalizing, Observer, Summed};
}

/// The batch samplers of a run.
pub mod sampler {
    pub use crate::engine::sampler::{BatchSampler, epoch_steps};
}

/// The step loop, from a batch to the sum of a step.
pub mod step_loop {
    pub use crate::engine::step_loop::{Draw, State, StepLoop, StepSum, event, go, layers, step, watched_step};
}

/// The mechanisms of a run.
pub mod trained {
    pub use crate::engine::trained::Trained;
}

/// The workers of a run.
pub mod worker {
    pub use crate::engine::worker::{
        Accumulate, ChunkRows, ExactGradients, GradientObserver, GradsAt, Opened, ParamLayout, PerSampleGradients,
        PlainSums, Point, RunStep, Sessions,
    };
}
