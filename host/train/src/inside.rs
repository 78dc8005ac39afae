//! The trainer's own parts, for the crates that check or use them: audits and the devices of a federation.
//!
//! What they see before a release is as secret as the data, and no ε covers it. A program that trains needs none of them.

pub use crate::choice::OptimizerState;
pub use crate::engine::observed;
pub use crate::engine::rehearsal::self_test;
pub use crate::plan::graphs::{initial, physical_batch};
pub use crate::plan::replaced::{on_data, on_network};

/// The generator of a run, and its key.
pub mod generator {
    pub use crate::engine::generator::{ChaCha20, generator, key};
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
    pub use crate::engine::step_loop::{Draw, State, StepLoop, Sum, event, go, layers, step};
}

/// The mechanisms of a run.
pub mod trained {
    pub use crate::engine::trained::Trained;
}

/// Optimizers that show what is released to them.
pub mod watched {
    pub use crate::engine::watched::{GradientWatch, Watched, WatchedState};
}

/// The workers of a run.
pub mod worker {
    pub use crate::engine::worker::{
        Accumulate, ExactGradients, GradientObserver, GradsAt, Layout, OUTPUTS, Opened, PerSampleGradients, PlainSums,
        Point, Rows, Sessions, Step, threads,
    };
}
