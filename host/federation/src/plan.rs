//! The plan of a federation. It is public, equal on all sides, and fixed before data is read.

mod check;
mod settings;

pub use settings::{Aggregation, DeviceNoise, PlanSettings, Unit};

use crate::room::{self, ROOM, TOO_MANY};
use crate::{FederationError, LocalSteps, Member};
use damper_accounting::RunKind;
use damper_core::accounting::Rate;
use damper_core::grid::Grid;
use damper_core::update::Header;
use damper_data::DataNames;
use damper_files::{sealed, unhex};
use damper_onnx::SettingError;
use serde::{Deserialize, Serialize};

/// The plan of a federation, in the form of its file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FederationPlan {
    /// The file format, 3. Format 1 had no format number and no names. Format 2 had no colluders, aggregation,
    /// `most_units` and members.
    pub format: u32,
    /// `private`, or `simulation`.
    pub run: RunKind,
    /// The protected unit.
    pub unit: Unit,
    /// The noise of a device.
    pub noise: DeviceNoise,
    /// The standard deviation of a device's noise in grid units.
    pub sigma: u32,
    /// Numerator `k` of the sampling probability `k/2^53` of each unit in each round.
    pub sampling_rate_numerator: u64,
    /// Number of rounds.
    pub rounds: u32,
    /// Number of devices.
    pub devices: u32,
    /// Minimum number of devices in a released sum.
    pub smallest_cohort: u32,
    /// Maximum number of them that reveal their updates to others, or add no noise.
    pub colluders: u32,
    /// The aggregation of updates.
    pub aggregation: Aggregation,
    /// Expected number of units in a device's draw. Multiplied by the number of devices, it is the divisor.
    pub expected_batch: u32,
    /// Maximum number of units that a device draws. The integers of an update have room for this many. Larger integers
    /// are rejected.
    pub most_units: u32,
    /// Fixed delay from a request to the answer in seconds, for any draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_seconds: Option<u32>,
    /// Maximum norm of a unit's contribution.
    pub clip: f32,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// The server's learning rate.
    pub lr: f32,
    /// Local steps of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalSteps>,
    /// δ.
    pub delta: f64,
    /// Number of trained parameters.
    pub parameters: u32,
    /// SHA-256 of the model file before the first round.
    pub model_sha256: String,
    /// The flags with which all sides read and differentiate the model, one word each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_flags: Vec<String>,
    /// Names of the columns in devices' tables, in the order of the model's input, and of classes, in the order of
    /// their numbers. All devices read their data with these names.
    pub names: DataNames,
    /// Public keys of the devices, in device order. Empty if updates are not signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
}

/// Maximum probability that an honest federation leaves the range of its integers.
const LEAVES: f64 = 1e-12;
/// The current format of plans.
const FORMAT: u32 = 3;

impl FederationPlan {
    /// Creates the plan from these settings, for a model with `parameters` trained parameters.
    ///
    /// # Errors
    ///
    /// A setting is out of range.
    pub fn new(settings: &PlanSettings, parameters: usize, model_sha256: String) -> Result<Self, FederationError> {
        let mechanism = check::settings(settings)?;
        let rate = check::rate(settings)?;
        check::names(&settings.names)?;
        let most_units = check::most_units(settings, &mechanism, rate)?;
        let plan = Self {
            format: FORMAT,
            run: if settings.simulation { RunKind::Simulation } else { RunKind::Private },
            unit: settings.unit,
            noise: settings.noise,
            sigma: mechanism.sigma(),
            sampling_rate_numerator: rate.numerator(),
            rounds: settings.rounds,
            devices: settings.devices,
            smallest_cohort: settings.smallest_cohort,
            colluders: settings.colluders,
            aggregation: settings.aggregation,
            expected_batch: settings.expected_batch,
            most_units,
            reply_seconds: settings.reply_seconds,
            clip: settings.clip,
            grid_bits: settings.grid_bits,
            lr: settings.lr,
            local: settings.local,
            delta: settings.delta,
            parameters: u32::try_from(parameters).map_err(|_| {
                SettingError::new("only", "", "more than 2^32 parameters do not fit an update; train fewer")
            })?,
            model_sha256,
            model_flags: settings.model_flags.clone(),
            names: settings.names.clone(),
            members: settings.members.clone(),
        };
        plan.check_room()?;
        plan.epsilon(plan.rounds)?;
        Ok(plan)
    }

    /// Returns an error if sums of the plan may exceed 32 bits, or honest integers their range.
    fn check_room(&self) -> Result<(), FederationError> {
        if room::largest(self.most_units, self.grid_bits, self.sigma).is_none() {
            let problem = format!(
                "the sum of {} units and their noise may leave 32 bits; lower the bits, `most_units` or the batch size",
                self.most_units
            );
            check::refuse("grid_bits", &self.grid_bits, &problem)?;
        }
        if self.out_of_range() > LEAVES {
            check::refuse(
                "rounds",
                &self.rounds,
                "with so many devices and parameters an honest integer may leave its range; plan fewer",
            )?;
        }
        Ok(())
    }

    /// Returns the maximum magnitude of the integers in an honest update.
    #[must_use]
    pub fn largest_integer(&self) -> u32 {
        room::largest(self.most_units, self.grid_bits, self.sigma).unwrap_or(i32::MAX as u32)
    }

    /// Returns an error if a device with `units` units may draw more than the plan allows.
    ///
    /// # Errors
    ///
    /// It may, with a probability that is not negligible.
    pub fn check_units(&self, units: u32) -> Result<(), FederationError> {
        let rate = self.rate()?.as_f64();
        if room::draws_fit(units, rate, self.most_units, self.rounds) {
            return Ok(());
        }
        let needed = room::most_drawn(units, rate, self.rounds);
        let problem = format!(
            "this device holds {units} units and may draw {needed} of them in a round; plan with `most_units` {needed}, or split the device"
        );
        Err(SettingError::new("most_units", self.most_units, problem).into())
    }

    /// Returns an upper bound on the probability that an integer of any honest device leaves its range in any round.
    pub(crate) fn out_of_range(&self) -> f64 {
        let devices = f64::from(self.devices);
        let integers = f64::from(self.parameters) * devices * f64::from(self.rounds);
        (damper_accounting::tail(ROOM as f64) * integers + TOO_MANY * devices) * (1.0 + 1e-9)
    }

    /// Returns the sampling rate.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub fn rate(&self) -> Result<Rate, FederationError> {
        Ok(Rate::from_numerator(self.sampling_rate_numerator)?)
    }

    /// Returns the SHA-256 of the plan, in hexadecimal. Ledgers store it too.
    #[must_use]
    pub fn digest(&self) -> String {
        sealed::digest(self)
    }

    /// Returns the member with number `device`, from 1.
    #[must_use]
    pub fn member(&self, device: u64) -> Option<&Member> {
        self.members.get(usize::try_from(device.checked_sub(1)?).ok()?)
    }

    /// Returns the bytes of the digest.
    pub(crate) fn digest_bytes(&self) -> [u8; 32] {
        unhex(&self.digest()).expect("a SHA-256 has 64 digits")
    }

    /// Returns the run number in updates of the federation: the first bytes of the digest. Updates of different plans
    /// have different numbers.
    #[must_use]
    pub fn run_number(&self) -> u64 {
        let digest = self.digest();
        u64::from_str_radix(digest.get(..16).unwrap_or_default(), 16).unwrap_or_default()
    }

    /// Returns the header of a device's update in `round`. Device 0 means no device.
    #[must_use]
    pub fn header(&self, device: u64, round: u32) -> Header {
        Header {
            run: self.run_number(),
            device,
            round,
            devices: 1,
            dim: self.parameters,
            grid_bits: self.grid_bits,
            expected_batch: self.expected_batch,
            sigma: self.sigma,
            clip: self.clip,
        }
    }

    /// Returns the content of the file: the plan and its digest.
    #[must_use]
    pub fn to_json(&self) -> String {
        sealed::line("federation", "", self).0
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    ///
    /// It is not a plan, its digest does not match, or a value is out of range.
    pub fn from_json(bytes: &[u8]) -> Result<Self, FederationError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            federation: FederationPlan,
            sha256: String,
        }
        let damaged = |problem: &str| FederationError::Plan(problem.into());
        if let Ok(file) = serde_json::from_slice::<serde_json::Value>(bytes)
            && file["federation"].is_object()
        {
            let format = file["federation"]["format"].as_u64().unwrap_or(1);
            if format != u64::from(FORMAT) {
                return Err(FederationError::Plan(format!(
                    "of format {format}, and this damper reads format {FORMAT}"
                )));
            }
        }
        let File { federation, sha256 } =
            serde_json::from_slice(bytes).map_err(|error| FederationError::Plan(error.to_string()))?;
        if federation.digest() != sha256 {
            return Err(damaged("its digest does not match"));
        }
        // A plan that is read must follow the rules for new plans, because its author may have forged the digest.
        let again =
            Self::new(&federation.settings()?, federation.parameters as usize, federation.model_sha256.clone())?;
        if again == federation { Ok(federation) } else { Err(damaged("its values are no plan's")) }
    }

    /// Returns the settings that produce this plan.
    fn settings(&self) -> Result<PlanSettings, FederationError> {
        let grid = Grid::new(self.grid_bits)?;
        let own = f64::from(self.sigma) / f64::from(grid.unit());
        let noise_multiplier = match self.noise {
            DeviceNoise::Local => own,
            // Slightly smaller, so that rounding up to the grid gives the same value.
            DeviceNoise::Shares => {
                own * f64::from(self.smallest_cohort.saturating_sub(self.colluders)).sqrt() * (1.0 - 1e-12)
            }
        };
        Ok(PlanSettings {
            unit: self.unit,
            noise: self.noise,
            noise_multiplier,
            sampling_rate: self.rate()?.as_f64(),
            rounds: self.rounds,
            devices: self.devices,
            smallest_cohort: self.smallest_cohort,
            colluders: self.colluders,
            aggregation: self.aggregation,
            expected_batch: self.expected_batch,
            most_units: Some(self.most_units),
            reply_seconds: self.reply_seconds,
            members: self.members.clone(),
            clip: self.clip,
            grid_bits: self.grid_bits,
            lr: self.lr,
            local: self.local,
            delta: self.delta,
            simulation: self.run == RunKind::Simulation,
            model_flags: self.model_flags.clone(),
            names: self.names.clone(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
