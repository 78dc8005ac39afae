//! Settings of a plan, from its owner.

use crate::{LocalSteps, Member};
use damper_data::DataNames;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The unit that the clip and ε protect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// One sample. Its gradient is clipped.
    Sample,
    /// One user with all of its samples. The total change by its local steps is clipped once.
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
    /// The full noise on each device. An update is private to any reader.
    Local,
    /// A share of the noise on each device, so that the sum of the smallest cohort without its colluders has the full
    /// multiplier. A single update has little noise. This is for secure aggregation, or for a trusted server.
    Shares,
}

/// The aggregation of updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// The server reads each update and adds them.
    #[default]
    Clear,
    /// Prio: two aggregators, at least one of them honest, add secret shares of updates. No party reads an update.
    Prio,
}

/// Requested settings of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanSettings {
    /// The protected unit.
    pub unit: Unit,
    /// The noise of a device.
    pub noise: DeviceNoise,
    /// The noise's standard deviation in clips: on each update, or on the smallest cohort's sum.
    pub noise_multiplier: f64,
    /// The sampling probability of each unit in each round.
    pub sampling_rate: f64,
    /// Number of rounds.
    pub rounds: u32,
    /// Number of devices. They are numbered from 1.
    pub devices: u32,
    /// Minimum number of devices in a released sum.
    pub smallest_cohort: u32,
    /// Maximum number of them that reveal their updates to others, or add no noise.
    pub colluders: u32,
    /// The aggregation of updates.
    pub aggregation: Aggregation,
    /// Expected number of units in a device's draw.
    pub expected_batch: u32,
    /// Maximum number of units that a device draws. If `None`, enough for a device with four times the expected number.
    pub most_units: Option<u32>,
    /// Fixed delay from a request to the answer in seconds, for any draw. If `None`, a device answers immediately.
    pub reply_seconds: Option<u32>,
    /// Public keys of the devices, one for each. Empty if updates are not signed.
    pub members: Vec<Member>,
    /// Maximum norm of a unit's contribution.
    pub clip: f32,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// The server's learning rate.
    pub lr: f32,
    /// Local steps of a user. None if the unit is a sample.
    pub local: Option<LocalSteps>,
    /// δ.
    pub delta: f64,
    /// True if keys come from a seed, so that the federation can be repeated and is not private.
    pub simulation: bool,
    /// The flags with which all sides read and differentiate the model, one word each.
    pub model_flags: Vec<String>,
    /// Names of the columns in devices' tables, and of classes.
    pub names: DataNames,
}
