//! Schedules: functions of the step's number alone, declared before data is read.

/// The learning rate at each step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LearningRate {
    /// The same at every step.
    Constant(f64),
}

impl LearningRate {
    /// The rate of step `step`, counted from 0.
    #[must_use]
    pub fn at(&self, _step: u32) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
        }
    }
}
