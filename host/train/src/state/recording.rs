//! A recording: a run as a pack that [`damper_replay`] plays on any target. It has every drawn sample's combined
//! gradient, with the bits that the core received. It has a checkpoint of digests every ten steps and at the last step.
//!
//! The samples of a step are written in chunk order, regardless of the worker, so a seed always gives the same
//! recording. Sums are recorded as i32, which fit on small devices, if no draw and no noise can exceed that range. They
//! then have the bits of the i64 sums of the run. For correlated noise, the coefficients are recorded as used. The
//! noise buffers follow from the key.
//!
//! # Privacy
//!
//! A recording has the gradients before clipping and the key of all noise. It is as secret as the data, and has mode
//! 0600 from its first byte. It gets its name when it is complete. Until then, a run with a checkpoint keeps it next to
//! that name, to continue after a stop. If any other run fails, its recording is removed.

use crate::choice::{AnyThresholdState, FilterState, OptimizerState, ThresholdRule};
use crate::engine::worker::{GradientObserver, ParamLayout};
use crate::state::files::FileError;
use crate::state::replay::{self, PackWriter, part_of};
use crate::{AdamDenominator, FilterChoice, NoiseChoice, NoiseKind, OptimizerRule, Run, TrainConfig, TrainError};
use damper_core::clip::Layer;
use damper_core::filter::Filter;
use damper_core::grid::Grid;
use damper_core::noise::{DiscreteGaussian, NoiseWord};
use damper_core::numerics::digest::Digest;
use damper_core::private::Mechanism;
use damper_core::schedule::Noise as _;
use damper_core::slots::AnyToRecord;
use damper_grad::Readout;
use damper_onnx::SettingError;
use damper_replay::grammar::{MOST, MOST_LAYERS, RUN};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// The setting that names the file.
const SETTING: &str = "record";
/// The name of every recorded test set.
const SET: &str = "recorded run";
/// Steps between checkpoints.
const EVERY: u16 = 10;
/// Every draw of the discrete Gaussian is less than this many σ from 0, because its multiples of σ end at 18.
const FARTHEST: u64 = 19;

/// The source of the run's randomness.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    Seed(u64),
    Key(&'a [u8; 32]),
}

/// Returns an error for runs that a pack cannot represent, and for recordings above the allowed size.
pub(crate) fn check(run: &Run) -> Result<(), TrainError> {
    let Some(record) = &run.config.record else { return Ok(()) };
    let config = &run.config;
    let refuse = |problem: String| Err(SettingError::new(SETTING, "", problem).into());
    if config.readout == Readout::ClippedSum {
        return refuse("`readout` clipped-sum forms no sample's gradient; use `readout` per-sample".into());
    }
    if config.noise == NoiseKind::Continuous && config.workers != Some(NonZeroUsize::MIN) {
        return refuse(
            "with `noise` continuous the sum depends on how threads share the samples; add `workers` 1".into(),
        );
    }
    if config.optimizer.galore.is_some() {
        return refuse("a recording knows no `galore`; leave one of them out".into());
    }
    if config.stop_early.is_some() {
        return refuse("a recording holds all steps of the plan; leave out `stop_early` or `record`".into());
    }
    if let Some(setting) = unrecorded(config)? {
        return refuse(format!(
            "a recording has no field for {setting}, so it could not be played to this run's bits; leave out {setting} or `{SETTING}`"
        ));
    }
    let layers = layers(run).len();
    if layers > MOST_LAYERS {
        return refuse(format!(
            "a recording holds at most {MOST_LAYERS} tensors that are clipped each on its own, and here are {layers}; use \
             `clipping` flat"
        ));
    }
    if let FilterChoice::DpPmlf { iterates, .. } | FilterChoice::InnerOuter { iterates, .. } = config.method.filter
        && iterates > MOST
    {
        return refuse(format!("a recording holds at most {MOST} iterates; lower `iterates` {iterates}"));
    }
    if let Some(filter) = config.method.filter.taps() {
        let order = filter.to_core()?.order();
        if order > MOST {
            return refuse(format!(
                "a recording holds filters of order {MOST} at most, and this one has {order}; choose another `filter`"
            ));
        }
    }
    let expected = recording_bytes(run);
    if expected > record.limit {
        return refuse(format!(
            "about {expected} bytes ({} steps of about {} samples of {} parameters), above `record_limit` {}; record a shorter \
             run or a smaller model, or give a larger `record_limit`",
            run.price.terms.steps,
            config.batch_size,
            run.model.params.len(),
            record.limit
        ));
    }
    if record.resumed {
        return Ok(());
    }
    let part = part_of(&record.file);
    if fs::symlink_metadata(&part).is_ok() {
        return refuse(format!(
            "{}: is the recording of a run that goes on or has stopped; resume that run, or remove the file, or name another",
            part.display()
        ));
    }
    if fs::symlink_metadata(&record.file).is_ok() {
        return refuse(format!("{}: is there already; name another file, or remove it", record.file.display()));
    }
    Ok(())
}

/// Returns the expected size of a recording of this run in bytes. The actual number of drawn samples is private.
#[must_use]
pub fn recording_bytes(run: &Run) -> u64 {
    let dim = run.model.params.len() as u64;
    let sample = dim.saturating_mul(4);
    let step = 4u64.saturating_add(u64::from(run.config.batch_size).saturating_mul(sample));
    let checkpoint = 10 * u64::from(run.price.terms.steps.div_ceil(u32::from(EVERY)));
    let groups =
        sample.saturating_add(u64::from(run.price.terms.steps).saturating_mul(step)).saturating_add(checkpoint);
    // The configuration takes a few hundred bytes.
    PackWriter::size(SET, groups.saturating_add(256))
}

/// Returns the name of the recording `file` until it is complete.
#[must_use]
pub fn recording_part(file: &Path) -> PathBuf {
    part_of(file)
}

fn layers(run: &Run) -> Vec<Layer> {
    run.config.method.clipping.layers(ParamLayout::new(&run.model.grad).lengths())
}

/// A recording in progress.
pub(crate) struct Recording {
    pack: PackWriter,
    steps: u32,
    /// Number of written steps.
    done: u32,
}

/// The state of a recording before the first step of this process.
pub(crate) enum Beginning {
    /// No earlier process. If `kept`, the part stays on disk when the process ends.
    New { kept: bool },
    /// The recording of a state after `step` steps, `len` bytes long. `lost` steps may be missing.
    Resumed { step: u32, len: Option<u64>, lost: u32 },
}

/// The start of a run's recording.
pub(crate) enum Begun {
    /// In progress, or not requested.
    Recording(Option<Recording>),
    /// An earlier process finished it.
    Whole,
    /// It cannot continue. Has the reason, and whether a part of it exists.
    Lost(&'static str, bool),
}

impl Recording {
    /// Begins the requested recording with the configuration and the parameters.
    pub(crate) fn begin(run: &Run, origin: Origin<'_>, from: Beginning) -> Result<Begun, TrainError> {
        let Some(record) = &run.config.record else { return Ok(Begun::Recording(None)) };
        let config = &run.config;
        let mut pack = PackWriter::new(SET, run.model.params.len() * 4 + 4096);
        pack.u8(RUN);
        pack.name(&config.method.name);
        pack.u32(u32::try_from(run.model.params.len()).unwrap_or(u32::MAX));
        pack.u32(run.price.terms.steps);
        pack.u16(EVERY);
        match origin {
            Origin::Seed(seed) => {
                pack.u8(1);
                pack.u64(seed);
            }
            Origin::Key(key) => {
                pack.u8(2);
                pack.bytes(key);
            }
        }
        pack.u32(config.batch_size);
        mechanism(&mut pack, run)?;
        config.method.clipping.record(&layers(run), &mut pack)?;
        write(config.method.threshold.build(false)?.1.to_record(), &mut pack);
        write(&*config.method.filter.build(0)?.1, &mut pack);
        write(&*config.optimizer.build(&[])?.1, &mut pack);
        config.method.learning_rate.record(run.price.terms.rate, run.price.terms.steps, &mut pack);
        config.method.noise_schedule.record(&mut pack)?;
        pack.f32s(&run.model.params);
        let (steps, done) = (run.price.terms.steps, if let Beginning::Resumed { step, .. } = from { step } else { 0 });
        let own = matches!(from, Beginning::Resumed { .. }) && pack.owns_part(&record.file, SETTING);
        if let Beginning::Resumed { step, len, lost } = from {
            let lost = match (lost, step, len) {
                (1.., ..) => Some("steps are lost"),
                (0, 1.., None) => Some("the steps so far are not in it"),
                _ => None,
            };
            if let Some(why) = lost {
                return Ok(Begun::Lost(why, own));
            }
        }
        let pack = match from {
            Beginning::New { kept: false } => pack.into_file(&record.file, SETTING)?,
            Beginning::New { kept: true } => pack.into_part(&record.file, SETTING)?,
            Beginning::Resumed { len, .. } => match pack.resume(&record.file, SETTING, len)? {
                replay::PackProgress::Part(pack) => pack,
                replay::PackProgress::Whole => return Ok(Begun::Whole),
                replay::PackProgress::None(why) => return Ok(Begun::Lost(why, own)),
            },
        };
        pack.check()?;
        Ok(Begun::Recording(Some(Self { pack, steps, done })))
    }

    /// Syncs and returns the number of bytes so far that stay on disk if the process ends.
    pub(crate) fn sync(&mut self) -> Result<Option<u64>, FileError> {
        self.pack.sync()
    }

    /// Begins a step with this many samples.
    pub(crate) fn step(&mut self, samples: u32) {
        self.pack.u32(samples);
    }

    /// Ends a step, with its results.
    pub(crate) fn released(
        &mut self,
        params: &[f32],
        filter: &FilterState,
        optimizer: &OptimizerState,
        (threshold, threshold_state): (&ThresholdRule, &AnyThresholdState),
    ) -> Result<(), FileError> {
        self.done += 1;
        if self.done.is_multiple_of(u32::from(EVERY)) || self.done == self.steps {
            self.pack.u32(Digest::of(params).folded());
            let (mut filtered, mut moved) = (Digest::default(), Digest::default());
            filter.add_to(&mut filtered);
            optimizer.add_to(&mut moved);
            let digests = [
                (!Filter::<FilterState>::is_identity(&filter.slot())).then_some(filtered),
                // A stateless optimizer digests nothing.
                (moved != Digest::default()).then_some(moved),
                threshold.learned(threshold_state),
            ];
            for digest in digests.into_iter().flatten() {
                self.pack.u16(digest.folded_twice());
            }
        }
        self.pack.check()
    }

    /// Gives the complete recording its name.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        self.pack.finish()
    }
}

impl GradientObserver for Recording {
    fn sample(&mut self, _: u32, mixed: &[f32]) {
        self.pack.f32s(mixed);
    }
}

/// Writes the mechanism and the type of its sums. They are i32 if all samples in one draw and the noise cannot exceed
/// that range.
fn mechanism(pack: &mut PackWriter, run: &Run) -> Result<(), TrainError> {
    let Some(sigma) = run.price.terms.sigma_grid else {
        pack.u8(2);
        pack.f64(run.price.terms.multiplier);
        return Ok(());
    };
    let correlated = &run.price.terms.correlated;
    let farthest = match correlated {
        Some(correlated) => correlated.mechanism::<[NoiseWord; 0]>()?.largest_noise().ceil() as u64,
        None => {
            let mechanism = DiscreteGaussian::<i64>::new(Grid::new(run.config.grid_bits)?, sigma)?;
            let noise = run.price.terms.noise_schedule;
            let each = (0..run.price.terms.steps)
                .map(|step| mechanism.scaled(noise.factor(step, &run.price.terms.learning_rate)).sigma());
            FARTHEST * u64::from(each.max().unwrap_or(sigma))
        }
    };
    let units = (run.data.train.len() as u64).saturating_mul(1 << run.config.grid_bits);
    let is_wide = units.saturating_add(farthest) > i32::MAX as u64;
    pack.u8(u8::from(is_wide) + if correlated.is_some() { 3 } else { 0 });
    pack.u8(run.config.grid_bits as u8);
    pack.u32(sigma);
    if let Some(correlated) = correlated {
        pack.u32(correlated.participation.separation());
        pack.u32(correlated.participation.participations());
        let mut units = Vec::new();
        pack.u8(correlated.correlation.recorded(|unit| units.push(unit)));
        pack.u16(units.len() as u16);
        units.into_iter().for_each(|unit| pack.u32(unit));
    }
    Ok(())
}

/// Writes the kind of a method and its values. Methods without a kind were rejected before the run.
fn write(method: &(impl AnyToRecord + ?Sized), pack: &mut PackWriter) {
    pack.u8(method.kind().unwrap_or(u8::MAX));
    method.write(pack);
}

/// Returns the first setting without a field in the recording format.
fn unrecorded(config: &TrainConfig) -> Result<Option<&'static str>, TrainError> {
    let method = &config.method;
    let is_floored = matches!(config.optimizer.rule, OptimizerRule::Adam { denominator: AdamDenominator::Floored, .. });
    let settings = [
        ("`noise_schedule` clt", method.noise_schedule == NoiseChoice::Clt),
        ("`adaptive_fir`", matches!(method.filter, FilterChoice::AdaptiveFir { .. })),
        ("`no_bias_correction`", method.filter.is_uncorrected()),
        ("`method`", method.filter.build(0)?.1.kind().is_none()),
        ("`clip_rule`", method.threshold.build(false)?.1.to_record().kind().is_none()),
        ("`count_non_finite`", method.count_non_finite),
        ("`adam_denominator` floored", is_floored),
        ("`norm_weight`", config.optimizer.norm_weight.is_some()),
        ("`optimizer`", config.optimizer.build(&[])?.1.kind().is_none()),
        ("`average`", config.average.is_some()),
    ];
    Ok(settings.into_iter().find(|(_, given)| *given).map(|(setting, _)| setting))
}
