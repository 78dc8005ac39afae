//! Checks of plan settings: their ranges and their combinations.

use super::settings::{DeviceNoise, PlanSettings, Unit};
use crate::room::{self, ROOM};
use crate::{FederationError, Member};
use damper_accounting::SMALLEST_SIGMA;
use damper_core::accounting::Rate;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_data::{DataNames, TableNames};
use damper_onnx::SettingError;
use std::collections::HashSet;
use std::fmt;

/// Maximum seconds of a fixed delay: one day.
const LONGEST_REPLY: u32 = 86_400;
/// Maximum length of a member's name in characters.
const LONGEST_NAME: usize = 40;
/// Number of units that a device may have per expected unit, unless the plan sets the maximum draw.
const HELD: f64 = 4.0;
/// Maximum number of devices and of rounds in a plan.
const MOST: u32 = 1 << 24;

/// Returns the error of a setting.
pub(super) fn refuse(setting: &'static str, value: &dyn fmt::Display, problem: &str) -> Result<(), FederationError> {
    Err(SettingError::new(setting, value, problem).into())
}

/// Returns the mechanism of a device. Checks every number of the plan except the sampling rate.
pub(super) fn settings(settings: &PlanSettings) -> Result<DiscreteGaussian<i32>, FederationError> {
    parties(settings)?;
    steps(settings)?;
    let PlanSettings { devices, smallest_cohort, colluders, .. } = *settings;
    let share = match settings.noise {
        DeviceNoise::Local => settings.noise_multiplier,
        DeviceNoise::Shares => settings.noise_multiplier / f64::from(smallest_cohort - colluders).sqrt(),
    };
    let mechanism = DiscreteGaussian::<i32>::with_multiplier(Grid::new(settings.grid_bits)?, share)?;
    update(settings, &mechanism)?;
    if let Some(seconds) = settings.reply_seconds.filter(|seconds| !(1..=LONGEST_REPLY).contains(seconds)) {
        refuse("reply_seconds", &seconds, "must be from 1 to 86400")?;
    }
    members(&settings.members, devices)?;
    Ok(mechanism)
}

/// Checks rounds, devices, the cohort and colluders.
fn parties(settings: &PlanSettings) -> Result<(), FederationError> {
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
    // A device removes its own noise and that of its colluders. At least one device's noise must be left.
    match settings.noise {
        DeviceNoise::Local if colluders >= smallest_cohort => {
            refuse("colluders", &colluders, "must be fewer than the smallest cohort")
        }
        DeviceNoise::Shares if colluders.saturating_add(2) > smallest_cohort => {
            let problem = "a participant and its colluders know so many shares that none hides another device; the smallest cohort must \
                           be at least two more";
            refuse("colluders", &colluders, problem)
        }
        _ => Ok(()),
    }
}

/// Checks the learning rate and the local steps.
fn steps(settings: &PlanSettings) -> Result<(), FederationError> {
    if !(settings.lr.is_normal() && settings.lr > 0.0) {
        refuse("lr", &settings.lr, "must be a finite number above 0")?;
    }
    match (settings.unit, settings.local) {
        (Unit::Sample, Some(_)) => refuse("local_steps", &"", "belong to users; use `unit` user, or leave them out"),
        (Unit::User, None) => refuse("local_steps", &"", "needed with `unit` user; give 1 or more"),
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
            Ok(())
        }
        (Unit::Sample, None) => Ok(()),
    }
}

/// Checks the clip, the batch and the grid of an update.
fn update(settings: &PlanSettings, mechanism: &DiscreteGaussian<i32>) -> Result<(), FederationError> {
    let clip_units = settings.clip / mechanism.grid().unit() as f32;
    if !(settings.clip.is_finite() && clip_units.is_normal() && clip_units > 0.0) {
        refuse("clip", &settings.clip, "must be above 0, and a normal number on the grid")?;
    }
    if !(1..=1 << 24).contains(&settings.expected_batch) {
        refuse("batch_size", &settings.expected_batch, "must be from 1 to 2^24")?;
    }
    if u64::from(settings.expected_batch) * u64::from(settings.devices) > 1 << 24 {
        refuse("batch_size", &settings.expected_batch, "times the devices must be at most 2^24; lower it")?;
    }
    if u64::from(mechanism.sigma()) < SMALLEST_SIGMA && settings.noise == DeviceNoise::Local {
        refuse("grid_bits", &settings.grid_bits, "too few for this noise; raise them")?;
    }
    Ok(())
}

/// Returns the sampling rate, rounded up.
pub(super) fn rate(settings: &PlanSettings) -> Result<Rate, FederationError> {
    let rate = Rate::at_least(settings.sampling_rate).ok().filter(|rate| *rate != Rate::ZERO);
    let problem = || SettingError::new("sampling_rate", settings.sampling_rate, "must be above 0 and at most 1");
    rate.ok_or_else(|| problem().into())
}

/// Returns the maximum number of units that a device draws in a round. Without the setting, it suits a device with
/// [`HELD`] times the units of a batch.
pub(super) fn most_units(
    settings: &PlanSettings,
    mechanism: &DiscreteGaussian<i32>,
    rate: Rate,
) -> Result<u32, FederationError> {
    let most_units = match settings.most_units {
        Some(most) => most,
        None => {
            let held = (HELD * f64::from(settings.expected_batch) / rate.as_f64()).ceil().min(f64::from(u32::MAX));
            let most = room::most_drawn(held as u32, rate.as_f64(), settings.rounds);
            // If 32 bits have room for fewer units, that number applies.
            most.min(most_that_fit(settings.grid_bits, mechanism.sigma())).max(settings.expected_batch)
        }
    };
    if most_units < settings.expected_batch {
        refuse("most_units", &most_units, "must be at least `batch_size`, which is expected")?;
    }
    Ok(most_units)
}

/// Returns the maximum number of units with a sum, including noise of `sigma`, that fits in 32 bits.
fn most_that_fit(grid_bits: u32, sigma: u32) -> u32 {
    let left = (1u64 << 31).saturating_sub(1 + ROOM * u64::from(sigma));
    u32::try_from(left >> grid_bits).unwrap_or(u32::MAX)
}

/// Returns true if a name can be displayed unchanged. It is shorter than a key, so it cannot imitate another member's
/// line.
fn is_plain(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || " -_.,'()&/+@#:".contains(c);
    name.chars().count() <= LONGEST_NAME && name.chars().all(is_allowed) && !name.contains("  ")
}

/// Checks that each device has a valid key, without duplicates, so that an owner cannot sign for two devices.
fn members(members: &[Member], devices: u32) -> Result<(), FederationError> {
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

/// Checks that names are unique, and that the label is among the columns.
pub(super) fn names(names: &DataNames) -> Result<(), FederationError> {
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
