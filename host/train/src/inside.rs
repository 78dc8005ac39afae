//! The trainer's own parts, for the crates that check or use them: audits and the devices of a federation.
//!
//! What they see before a release is as secret as the data, and no ε covers it. A program that trains needs none of them.

pub use crate::choice::OptimizerState;
pub use crate::engine::observed;
pub use crate::plan::graphs::initial;

/// The generator of a run.
pub mod generator {
    pub use crate::engine::generator::{RunGenerator, fresh};
}

/// Observers of a run's inside.
pub mod observe {
    pub use crate::engine::observe::{Counting, Given, Normalizing, Observer, Summed};
}

/// The draws of a run.
pub mod sampler {
    pub use crate::engine::sampler::{BatchSampler, epoch_steps};
}

/// The way from a draw to the sum of a step.
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
