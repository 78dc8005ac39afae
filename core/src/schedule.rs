//! Schedules: functions of the step's number alone, declared before data is read.

mod learning_rate;
mod noise;

pub use learning_rate::{Decay, LearningRate};
pub use noise::NoiseSchedule;
