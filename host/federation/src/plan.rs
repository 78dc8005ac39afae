//! The plan of a federation: public, equal on all sides, and fixed before data is read.

use crate::room::{self, ROOM, TOO_MANY};
use crate::{FederationError, LocalSteps, Member};
use damper_accounting::{RunKind, SMALLEST_SIGMA};
use damper_core::accounting::Rate;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::update::Header;
use damper_data::{DataNames, TableNames};
use damper_files::{sealed, unhex};
use damper_onnx::SettingError;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
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

/// The plan of a federation, as its file has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FederationPlan {
    /// The format of the file, 3. Format 1 had no number and no names, format 2 no colluders, no aggregation, no most units and no members.
    pub format: u32,
    /// `private`, or `simulation`.
    pub run: RunKind,
    /// What is protected.
    pub unit: Unit,
    /// The noise of a device.
    pub noise: DeviceNoise,
    /// Its standard deviation in grid units.
    pub sigma: u32,
    /// `k` of the probability `k/2^53` of each unit in each round.
    pub sampling_rate_numerator: u64,
    /// Rounds.
    pub rounds: u32,
    /// Devices.
    pub devices: u32,
    /// The fewest devices whose sum is released.
    pub smallest_cohort: u32,
    /// Devices among them that tell others their updates, or that add no noise, at most.
    pub colluders: u32,
    /// How updates become a sum.
    pub aggregation: Aggregation,
    /// The expected number of units of a device's draw: with the devices, the divisor.
    pub expected_batch: u32,
    /// The most units that a device draws. The integers of an update have room for so many, and others are refused.
    pub most_units: u32,
    /// Seconds after a request at which a device answers, whatever it drew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_seconds: Option<u32>,
    /// The largest norm of a unit's contribution.
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
    /// Trained parameters.
    pub parameters: u32,
    /// SHA-256 of the model's file before the first round.
    pub model_sha256: String,
    /// The flags by which all sides read and differentiate the model, a word each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_flags: Vec<String>,
    /// The names of the columns of devices' tables, in the order of the model's input, and of classes, in the order of their numbers: all
    /// devices read their data by them.
    pub names: DataNames,
    /// The devices' public keys, in the order of their numbers. Empty if nothing is signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
}

/// The format of plans.
const FORMAT: u32 = 3;

/// Devices and rounds that a plan may have at most.
const MOST: u32 = 1 << 24;
/// Seconds that a fixed reply may take at most: a day.
const LONGEST_REPLY: u32 = 86_400;
/// Letters of a member's name, at most.
const LONGEST_NAME: usize = 40;
/// Units that a device may hold for each that is expected, unless the plan says how many it draws.
const HELD: f64 = 4.0;
/// The largest probability with which an honest federation leaves the range of its integers.
const LEAVES: f64 = 1e-12;

impl FederationPlan {
    /// The plan of these settings for a model of `parameters` trained parameters.
    ///
    /// # Errors
    ///
    /// A setting is out of its range.
    pub fn new(settings: &PlanSettings, parameters: usize, model_sha256: String) -> Result<Self, FederationError> {
        let refuse = |setting, value: &dyn fmt::Display, problem: &str| {
            Err::<(), FederationError>(SettingError::new(setting, value, problem).into())
        };
        let PlanSettings { devices, smallest_cohort, colluders, rounds, .. } = *settings;
        if !(1..=MOST).contains(&rounds) {
            refuse("rounds", &rounds, "must be from 1 to 2^24")?;
        }
        if !(1..=MOST).contains(&devices) {
            refuse("devices", &devices, "must be from 1 to 2^24")?;
        }
        if !(1..=devices).contains(&smallest_cohort) {
            refuse("smallest_cohort", &smallest_cohort, "must be from 1 to the number of devices")?;
        }
        // A device that knows its own update and those of its colluders leaves at least one device's noise.
        match settings.noise {
            DeviceNoise::Local if colluders >= smallest_cohort => {
                refuse("colluders", &colluders, "must be fewer than the smallest cohort")?;
            }
            DeviceNoise::Shares if colluders.saturating_add(2) > smallest_cohort => {
                let problem = "a participant and its colluders know so many shares that none hides another device; the smallest cohort must \
                               be at least two more";
                refuse("colluders", &colluders, problem)?;
            }
            _ => {}
        }
        if !(settings.lr.is_normal() && settings.lr > 0.0) {
            refuse("lr", &settings.lr, "must be a finite number above 0")?;
        }
        match (settings.unit, settings.local) {
            (Unit::Sample, Some(_)) => {
                refuse("local_steps", &"", "belong to users; use `unit` user, or leave them out")?;
            }
            (Unit::User, None) => refuse("local_steps", &"", "needed with `unit` user; give 1 or more")?,
            (Unit::User, Some(local)) => {
                if !(1..=MOST).contains(&local.steps) {
                    refuse("local_steps", &local.steps, "must be from 1 to 2^24")?;
                }
                if !(local.lr.is_normal() && local.lr > 0.0) {
                    refuse("local_lr", &local.lr, "must be a finite number above 0")?;
                }
                if local.batch == 0 {
                    refuse("local_batch", &0, "must be at least 1")?;
                }
            }
            (Unit::Sample, None) => {}
        }
        let share = match settings.noise {
            DeviceNoise::Local => settings.noise_multiplier,
            DeviceNoise::Shares => settings.noise_multiplier / f64::from(smallest_cohort - colluders).sqrt(),
        };
        let mechanism = DiscreteGaussian::<i32>::with_multiplier(Grid::new(settings.grid_bits)?, share)?;
        let clip_units = settings.clip / mechanism.grid().unit() as f32;
        if !(settings.clip.is_finite() && clip_units.is_normal() && clip_units > 0.0) {
            refuse("clip", &settings.clip, "must be above 0, and a normal number on the grid")?;
        }
        if !(1..=1 << 24).contains(&settings.expected_batch) {
            refuse("batch_size", &settings.expected_batch, "must be from 1 to 2^24")?;
        }
        if u64::from(settings.expected_batch) * u64::from(devices) > 1 << 24 {
            refuse("batch_size", &settings.expected_batch, "times the devices must be at most 2^24; lower it")?;
        }
        if u64::from(mechanism.sigma()) < SMALLEST_SIGMA && settings.noise == DeviceNoise::Local {
            refuse("grid_bits", &settings.grid_bits, "too few for this noise; raise them")?;
        }
        if let Some(seconds) = settings.reply_seconds.filter(|seconds| !(1..=LONGEST_REPLY).contains(seconds)) {
            refuse("reply_seconds", &seconds, "must be from 1 to 86400")?;
        }
        check_members(&settings.members, devices)?;
        let rate = Rate::at_least(settings.sampling_rate).ok().filter(|rate| *rate != Rate::ZERO).ok_or_else(|| {
            SettingError::new("sampling_rate", settings.sampling_rate, "must be above 0 and at most 1")
        })?;
        check_names(&settings.names)?;
        let most_units = match settings.most_units {
            Some(most) => most,
            None => {
                let held = (HELD * f64::from(settings.expected_batch) / rate.as_f64()).ceil().min(f64::from(u32::MAX));
                let most = room::most_drawn(held as u32, rate.as_f64(), rounds);
                // As many as 32 bits have room for, if that is fewer.
                most.min(most_that_fit(settings.grid_bits, mechanism.sigma())).max(settings.expected_batch)
            }
        };
        if most_units < settings.expected_batch {
            refuse("most_units", &most_units, "must be at least `batch_size`, which is expected")?;
        }
        let plan = Self {
            format: FORMAT,
            run: if settings.simulation { RunKind::Simulation } else { RunKind::Private },
            unit: settings.unit,
            noise: settings.noise,
            sigma: mechanism.sigma(),
            sampling_rate_numerator: rate.numerator(),
            rounds,
            devices,
            smallest_cohort,
            colluders,
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
        if room::largest(plan.most_units, plan.grid_bits, plan.sigma).is_none() {
            let problem = format!(
                "the sum of {} units and their noise may leave 32 bits; lower the bits, `most_units` or the batch size",
                plan.most_units
            );
            refuse("grid_bits", &plan.grid_bits, &problem)?;
        }
        if plan.out_of_range() > LEAVES {
            refuse(
                "rounds",
                &rounds,
                "with so many devices and parameters an honest integer may leave its range; plan fewer",
            )?;
        }
        plan.epsilon(plan.rounds)?;
        Ok(plan)
    }

    /// The largest magnitude of an honest update's integers.
    #[must_use]
    pub fn largest_integer(&self) -> u32 {
        room::largest(self.most_units, self.grid_bits, self.sigma).unwrap_or(i32::MAX as u32)
    }

    /// Refuses a device that holds `units` units, of which it may draw more than the plan has room for.
    ///
    /// # Errors
    ///
    /// It may, with a probability that counts.
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

    /// The probability that an integer of any honest device leaves its range in any round, at most.
    pub(crate) fn out_of_range(&self) -> f64 {
        let devices = f64::from(self.devices);
        let integers = f64::from(self.parameters) * devices * f64::from(self.rounds);
        (damper_accounting::tail(ROOM as f64) * integers + TOO_MANY * devices) * (1.0 + 1e-9)
    }

    /// The sampling rate.
    ///
    /// # Errors
    ///
    /// The plan is damaged.
    pub fn rate(&self) -> Result<Rate, FederationError> {
        Ok(Rate::from_numerator(self.sampling_rate_numerator)?)
    }

    /// SHA-256 of the plan, in hexadecimal. Ledgers hold it too.
    #[must_use]
    pub fn digest(&self) -> String {
        sealed::digest(self)
    }

    /// The member whose number is `device`, from 1.
    #[must_use]
    pub fn member(&self, device: u64) -> Option<&Member> {
        self.members.get(usize::try_from(device.checked_sub(1)?).ok()?)
    }

    /// The bytes of the digest.
    pub(crate) fn digest_bytes(&self) -> [u8; 32] {
        unhex(&self.digest()).expect("a SHA-256 has 64 digits")
    }

    /// The number of the federation's run in updates: the first bytes of the digest. An update of another plan has another.
    #[must_use]
    pub fn run_number(&self) -> u64 {
        let digest = self.digest();
        u64::from_str_radix(digest.get(..16).unwrap_or_default(), 16).unwrap_or_default()
    }

    /// The header of a device's update in `round`. Device 0 stands for none.
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

    /// The file's content: the plan and its digest.
    #[must_use]
    pub fn to_json(&self) -> String {
        sealed::line("federation", "", self).0
    }

    /// Reads the file's content.
    ///
    /// # Errors
    ///
    /// It is no plan, its digest does not match, or a value is out of its range.
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
        // The rules for a new plan hold for one that is read: whoever wrote it may have made the digest match.
        let again =
            Self::new(&federation.settings()?, federation.parameters as usize, federation.model_sha256.clone())?;
        if again == federation { Ok(federation) } else { Err(damaged("its values are no plan's")) }
    }

    /// The settings that give this plan.
    fn settings(&self) -> Result<PlanSettings, FederationError> {
        let grid = Grid::new(self.grid_bits)?;
        let own = f64::from(self.sigma) / f64::from(grid.unit());
        let noise_multiplier = match self.noise {
            DeviceNoise::Local => own,
            // A little less, so that rounding up to the grid gives the same.
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

/// The most units whose sum, with noise of `sigma`, fits 32 bits.
fn most_that_fit(grid_bits: u32, sigma: u32) -> u32 {
    let left = (1u64 << 31).saturating_sub(1 + ROOM * u64::from(sigma));
    u32::try_from(left >> grid_bits).unwrap_or(u32::MAX)
}

/// Returns true if a name can be shown as it is. It is shorter than a key, so it cannot look like another member's line.
fn is_plain(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || " -_.,'()&/+@#:".contains(c);
    name.chars().count() <= LONGEST_NAME && name.chars().all(is_allowed) && !name.contains("  ")
}

/// A valid key for each device, and none twice: one owner could speak for two.
fn check_members(members: &[Member], devices: u32) -> Result<(), FederationError> {
    if members.is_empty() {
        return Ok(());
    }
    let refuse = |value: &dyn fmt::Display, problem: String| Err(SettingError::new("members", value, problem).into());
    if members.len() as u64 != u64::from(devices) {
        return refuse(&members.len(), format!("one for each of the {devices} devices is needed"));
    }
    let (mut seen, mut names) = (HashSet::new(), HashSet::new());
    for (number, member) in (1..).zip(members) {
        if !member.is_valid() {
            return refuse(&member.public_key, format!("device {number} has no public key of 64 hexadecimal digits"));
        }
        if !seen.insert(&member.public_key) {
            return refuse(&member.public_key, format!("device {number} has the key of another one; each has its own"));
        }
        if !is_plain(&member.name) {
            let problem = format!(
                "the name of device {number} must be at most {LONGEST_NAME} letters, digits, single spaces and simple marks: owners read it on a terminal"
            );
            return refuse(&number, problem);
        }
        if !member.name.is_empty() && !names.insert(&member.name) {
            return refuse(&member.name, format!("device {number} has the name of another one; give each its own"));
        }
    }
    Ok(())
}

/// Each name once, and the label among the columns.
fn check_names(names: &DataNames) -> Result<(), FederationError> {
    let check = |setting: &'static str, names: &[String]| -> Result<(), FederationError> {
        let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        let twice = (1..names.len()).find(|at| match setting {
            "columns" => lower[..*at].contains(&lower[*at]),
            _ => names[..*at].contains(&names[*at]),
        });
        match (twice, names.iter().any(String::is_empty)) {
            (Some(at), _) => Err(SettingError::new(setting, &names[at], "is named twice; name each once").into()),
            (None, true) => Err(SettingError::new(setting, names.join(","), "a name is empty; name each").into()),
            (None, false) => Ok(()),
        }
    };
    if let Some(TableNames { columns, label }) = &names.table {
        check("columns", columns)?;
        if let Some(label) = label.as_ref().filter(|label| !columns.contains(label)) {
            return Err(SettingError::new("label_column", label, "is none of `columns`; name one of them").into());
        }
    }
    names.classes.iter().try_for_each(|classes| check("classes", classes))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plan of four devices of users, with noise of each.
    pub(crate) fn settings() -> PlanSettings {
        PlanSettings {
            unit: Unit::User,
            noise: DeviceNoise::Local,
            noise_multiplier: 2.0,
            sampling_rate: 0.5,
            rounds: 5,
            devices: 4,
            smallest_cohort: 3,
            colluders: 0,
            aggregation: Aggregation::Clear,
            expected_batch: 10,
            most_units: None,
            reply_seconds: None,
            members: vec![],
            clip: 0.5,
            grid_bits: 16,
            lr: 1.0,
            local: Some(LocalSteps { steps: 3, lr: 0.1, batch: 8 }),
            delta: 1e-5,
            simulation: true,
            model_flags: vec![],
            names: DataNames::default(),
        }
    }

    fn plan(settings: &PlanSettings) -> Result<FederationPlan, FederationError> {
        FederationPlan::new(settings, 650, "m".repeat(64))
    }

    fn table(columns: &[&str], label: &str) -> DataNames {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        DataNames { table: Some(TableNames { columns, label: Some(label.into()) }), classes: None }
    }

    // The names are part of the digest: a plan with other names is another plan. One of the first format is refused by name.
    #[test]
    fn names_and_format_are_of_the_plan() {
        let named = |columns: &[&str]| plan(&PlanSettings { names: table(columns, "y"), ..settings() }).unwrap();
        let (first, second) = (named(&["a", "b", "y"]), named(&["b", "a", "y"]));
        assert_eq!(FederationPlan::from_json(first.to_json().as_bytes()).unwrap().names, table(&["a", "b", "y"], "y"));
        assert_ne!(first.digest(), second.digest());
        let old = br#"{"federation":{"run":"simulation","unit":"user"},"sha256":"00"}"#;
        let message = FederationPlan::from_json(old).unwrap_err().to_string();
        assert!(message.contains("of format 1") && message.contains("format 3"), "{message}");
    }

    #[test]
    fn plan_round_trips() {
        for noise in [DeviceNoise::Local, DeviceNoise::Shares] {
            for multiplier in [0.8, 1.0, 1.37, 2.0, 50.0] {
                for (colluders, aggregation) in [(0, Aggregation::Clear), (1, Aggregation::Prio)] {
                    let settings =
                        PlanSettings { noise, noise_multiplier: multiplier, colluders, aggregation, ..settings() };
                    let plan = plan(&settings).unwrap();
                    assert_eq!(FederationPlan::from_json(plan.to_json().as_bytes()).unwrap(), plan);
                }
            }
        }
    }

    // Every changed character is an error, and so is a sealed plan whose values no settings give.
    #[test]
    fn damaged_or_forged_plan_is_error() {
        let plan = plan(&settings()).unwrap();
        let text = plan.to_json();
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(FederationPlan::from_json(&bytes).is_err(), "{at}");
        }
        let twice = TableNames { columns: ["a", "b", "A"].map(String::from).into(), label: None };
        let twice = DataNames { table: Some(twice), classes: None };
        for forged in [
            FederationPlan { sigma: 3, ..plan.clone() },
            FederationPlan { smallest_cohort: 9, ..plan.clone() },
            FederationPlan { colluders: 3, ..plan.clone() },
            FederationPlan { delta: 2.0, ..plan.clone() },
            FederationPlan { grid_bits: 40, ..plan.clone() },
            FederationPlan { sampling_rate_numerator: 1 << 60, ..plan.clone() },
            FederationPlan { run: RunKind::NotPrivate, ..plan.clone() },
            FederationPlan { local: None, ..plan.clone() },
            FederationPlan { format: 1, ..plan.clone() },
            FederationPlan { names: twice.clone(), ..plan.clone() },
        ] {
            assert!(FederationPlan::from_json(forged.to_json().as_bytes()).is_err(), "{forged:?}");
        }
    }

    // A name cannot draw on the owner's terminal, nor pass for another member.
    #[test]
    fn members_names_are_plain() {
        let keys = [
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        ];
        let of = |names: [&str; 2]| {
            let members =
                keys.iter().zip(names).map(|(key, name)| Member { public_key: (*key).into(), name: name.into() });
            plan(&PlanSettings { devices: 2, smallest_cohort: 2, members: members.collect(), ..settings() })
        };
        of(["St. Mary's (Köln)", "клиника 2"]).unwrap();
        of(["", ""]).unwrap();
        let spaced = format!("clinic 1{}member 2", " ".repeat(20));
        for bad in
            ["a\u{202e}b", "a\u{200b}", "\u{1b}[2J", "a\nb", "a  b", &spaced, &"x".repeat(41), "a\u{ad}", "\u{e0041}"]
        {
            assert!(of([bad, "b"]).unwrap_err().to_string().contains("the name of device 1"), "{bad:?}");
        }
        assert!(of(["a", "a"]).unwrap_err().to_string().contains("name of another"));
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let good = settings();
        let local = good.local.unwrap();
        for (bad, word) in [
            (PlanSettings { rounds: 0, ..good.clone() }, "rounds"),
            (PlanSettings { devices: 0, ..good.clone() }, "devices"),
            (PlanSettings { smallest_cohort: 5, ..good.clone() }, "smallest_cohort"),
            (PlanSettings { smallest_cohort: 0, ..good.clone() }, "smallest_cohort"),
            (PlanSettings { colluders: 3, ..good.clone() }, "colluders"),
            (PlanSettings { colluders: 2, noise: DeviceNoise::Shares, ..good.clone() }, "colluders"),
            (PlanSettings { colluders: u32::MAX, noise: DeviceNoise::Shares, ..good.clone() }, "colluders"),
            (PlanSettings { lr: f32::NAN, ..good.clone() }, "lr"),
            (PlanSettings { clip: 0.0, ..good.clone() }, "clip"),
            (PlanSettings { local: None, ..good.clone() }, "local_steps"),
            (PlanSettings { unit: Unit::Sample, ..good.clone() }, "local_steps"),
            (PlanSettings { local: Some(LocalSteps { steps: 0, ..local }), ..good.clone() }, "local_steps"),
            (PlanSettings { local: Some(LocalSteps { lr: 0.0, ..local }), ..good.clone() }, "local_lr"),
            (PlanSettings { local: Some(LocalSteps { batch: 0, ..local }), ..good.clone() }, "local_batch"),
            (PlanSettings { sampling_rate: 0.0, ..good.clone() }, "sampling_rate"),
            (PlanSettings { noise_multiplier: 0.0, ..good.clone() }, "noise_multiplier"),
            (PlanSettings { noise_multiplier: 0.001, ..good.clone() }, "grid_bits"),
            (PlanSettings { expected_batch: 0, ..good.clone() }, "batch_size"),
            (PlanSettings { expected_batch: 1 << 15, ..good.clone() }, "grid_bits"),
            (PlanSettings { delta: 0.0, ..good.clone() }, "delta"),
            (PlanSettings { names: table(&["a", "a"], "a"), ..good.clone() }, "columns"),
            (PlanSettings { names: table(&["a", "A"], "a"), ..good.clone() }, "columns"),
            (PlanSettings { names: table(&["a", "b"], "c"), ..good.clone() }, "label_column"),
            (
                PlanSettings { names: DataNames { table: None, classes: Some(vec!["x".into(); 2]) }, ..good.clone() },
                "classes",
            ),
        ] {
            let error = plan(&bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{word}`")), "{word}: {error}");
        }
    }
}
