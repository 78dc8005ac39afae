//! Settings of a plan, as its owner gives them.

use crate::{LocalSteps, Member};
use damper_data::DataNames;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What one clip and one ε protect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// One sample: its gradient is clipped.
    Sample,
    /// One user with all of its samples: what its local steps change is clipped once.
    User,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sample => "sample",
            Self::User => "user",
        })
    }
}

/// The noise of a device's update.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceNoise {
    /// All of the multiplier on each device: an update is private for whoever reads it.
    Local,
    /// A share on each device, so that the sum of the smallest cohort, less its colluders, has the multiplier. An update alone has little
    /// noise: it is for a secure aggregation, or for a server that is trusted.
    Shares,
}

/// The way updates become a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// The server reads each update and adds them.
    #[default]
    Clear,
    /// Two aggregators, of which one is honest, add secret shares of updates: Prio. No party reads an update.
    Prio,
}

/// Settings of a plan, as they are asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanSettings {
    /// What is protected.
    pub unit: Unit,
    /// The noise of a device.
    pub noise: DeviceNoise,
    /// The standard deviation of the noise in clips: of each update, or of the smallest cohort's sum.
    pub noise_multiplier: f64,
    /// The probability of each unit in each round.
    pub sampling_rate: f64,
    /// Rounds.
    pub rounds: u32,
    /// Devices, numbered from 1.
    pub devices: u32,
    /// The fewest devices whose sum is released.
    pub smallest_cohort: u32,
    /// Devices among them that tell others their updates, or that add no noise, at most.
    pub colluders: u32,
    /// How updates become a sum.
    pub aggregation: Aggregation,
    /// The expected number of units of a device's draw.
    pub expected_batch: u32,
    /// The most units that a device draws. None for what a device draws that holds four times the expected number.
    pub most_units: Option<u32>,
    /// Seconds after a request at which a device answers, whatever it drew. None if it answers when it is ready.
    pub reply_seconds: Option<u32>,
    /// The devices' keys, one for each. Empty if nothing is signed.
    pub members: Vec<Member>,
    /// The largest norm of a unit's contribution.
    pub clip: f32,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// The server's learning rate.
    pub lr: f32,
    /// Local steps of a user. None if the unit is a sample.
    pub local: Option<LocalSteps>,
    /// δ.
    pub delta: f64,
    /// True if keys are made from a seed, so that the federation can be repeated and nothing is private.
    pub simulation: bool,
    /// The flags by which all sides read and differentiate the model, a word each.
    pub model_flags: Vec<String>,
    /// The names of the columns of devices' tables, and of classes.
    pub names: DataNames,
}
