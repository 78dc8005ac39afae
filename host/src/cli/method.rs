//! The private method of `damper train`: a name that sets everything, and flags that change one thing.
//!
//! A method is a choice for each slot of the private step: filter, threshold, clipping, noise schedule. Its name fills the
//! slots as its paper does; a flag fills one of them otherwise, so that all methods compose. What breaks a proof, or would
//! silently do nothing, is refused with the reason.

use super::Failure;
use super::flags::with_flags;
use clap::{Args, ValueEnum};
use damper_core::filter::{Gain, LookAhead};
use damper_core::schedule::NoiseSchedule;
use damper_core::threshold::Solver;
use damper_train::filter::Coefficients;
use damper_train::{
    Clipping, DecayChoice, FilterChoice, LAGS, LearningRateChoice, Method, PerSample, ThresholdChoice, ThresholdRule,
};

#[derive(Args, Debug)]
#[command(next_help_heading = "Method")]
pub(super) struct MethodArgs {
    /// The private method; the flags below change parts of it
    #[arg(long, value_name = "NAME", default_value = "dp-sgd")]
    method: MethodArg,
    /// Filter of released gradients: none, a name from `damper filter --list`, or coefficients A1,A2;B0,B1
    /// [default: doppler, dp-pmlf: momentum; others: none]
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// doppler: instead of --filter, a filter over LAGS past gradients whose taps follow their autocorrelation; MEMORY is
    /// what its averages keep from step to step, FLOOR the least squared norm [default: MEMORY 0.9, FLOOR 1e-3]
    #[arg(long, value_name = "LAGS[,MEMORY[,FLOOR]]", conflicts_with = "filter", value_parser = adaptive_fir)]
    adaptive_fir: Option<(usize, f64, f64)>,
    /// doppler, dp-pmlf, --filter: the filter's output as it is, not over its step response
    #[arg(long, conflicts_with = "adaptive_fir")]
    no_bias_correction: bool,
    /// dp-pmlf, inner-outer: iterates whose gradients are mixed per sample, the current one included, 1 to 16
    /// [default: 2]
    #[arg(long, value_name = "K")]
    iterates: Option<usize>,
    /// dp-pmlf, inner-outer: factor of the mix, -0.9 to 1 [default: dp-pmlf 0.1, inner-outer 0.9]
    #[arg(long, value_name = "B")]
    beta: Option<f64>,
    /// disk: the filter's gain, 0.001 to 1 (1: no filter) [default: 0.7]
    #[arg(long, value_name = "K")]
    kappa: Option<f64>,
    /// disk: `one` takes one gradient a sample, at the point (1-K)/K steps ahead; a number takes two, one of them so many
    /// steps ahead [default: one]
    #[arg(long, value_name = "one|G", allow_hyphen_values = true, value_parser = look_ahead)]
    gamma: Option<LookAhead>,
    /// disk: the gain follows the scalar recursion with these variances: of the noise, of the difference, of the gradient
    #[arg(long, value_name = "W,H,V", conflicts_with = "kappa", allow_hyphen_values = true, value_parser = gain)]
    gain_recursion: Option<Gain>,
    /// Clipping threshold of each step; all rules except `fixed` learn it from released counts [default: by the method]
    #[arg(long, alias = "threshold", value_name = "RULE")]
    clip_rule: Option<ThresholdArg>,
    /// percentile, quantile: share of gradients to leave unclipped [default: 0.5]
    #[arg(long, value_name = "P")]
    percentile: Option<f64>,
    /// percentile, expected-error, quantile: standard deviation of the noise on each released count, which one sample moves
    /// by 1 [default: 5; 8 where sigma is from 2; 12 where it is above 3; quantile: batch size / 10, twice the paper's
    /// sigma_b]
    #[arg(long, value_name = "S")]
    count_noise_multiplier: Option<f64>,
    /// Bounds of a learned clipping threshold [default: 1e-8,1e8]
    #[arg(long, value_name = "MIN,MAX", allow_hyphen_values = true, value_parser = bounds)]
    clip_bounds: Option<(f32, f32)>,
    /// percentile, expected-error: range of the first histogram of norms [default: percentile 1, expected-error 20]
    #[arg(long, alias = "range", value_name = "R")]
    histogram_range: Option<f32>,
    /// percentile, expected-error: counts a sample whose gradient is not finite in the histogram's last bin, not nowhere
    #[arg(long)]
    count_non_finite: bool,
    /// expected-error: `paper-grid` searches multiples of the last clip, `exact` solves [default: paper-grid]
    #[arg(long, value_name = "NAME")]
    solver: Option<SolverArg>,
    /// quantile: how fast the clip follows [default: 0.2]
    #[arg(long, alias = "threshold-rate", value_name = "R")]
    clip_lr: Option<f64>,
    /// Bound on one sample: `flat`, all parameters together to the clip at most; `per-layer`, each tensor on its own;
    /// `automatic`, normalised to the clip (AUTO-S)
    #[arg(long, value_name = "RULE", default_value = "flat")]
    clipping: ClippingArg,
    /// automatic clipping: the constant that keeps small gradients small [default: 0.01]
    #[arg(long, alias = "stability", value_name = "G")]
    auto_clip_gamma: Option<f32>,
    /// Noise of each step: constant; matched:P, growing as the learning rate falls, to the power P from 0 to 4;
    /// polynomial:G,P, as (1 + G t)^(P/2); clt, the least noise at the price that the central limit theorem gives a step
    /// [default: adp: matched:0.5; others: constant]
    #[arg(long, value_name = "SCHEDULE", value_parser = noise_schedule)]
    noise_schedule: Option<NoiseArg>,
}

/// A noise schedule, or the one that its own multiplier shapes.
#[derive(Clone, Copy, Debug)]
enum NoiseArg {
    Schedule(NoiseSchedule),
    Clt,
}

#[derive(Args, Debug)]
pub(super) struct ScheduleArgs {
    /// Learning rate
    #[arg(long, value_name = "L")]
    lr: f64,
    /// How it changes: constant; step:EPOCHS,FACTOR; cosine or cosine:FLOOR; polynomial:A,C for 1/sqrt(A + C t); linear in
    /// the root of t: root-linear or root-linear:FLOOR [default: adp: polynomial:20,1; others: constant]
    #[arg(long, value_name = "SCHEDULE", value_parser = decay)]
    lr_schedule: Option<DecayChoice>,
    /// Epochs over which it rises to its value
    #[arg(long, value_name = "EPOCHS", default_value_t = 0.0)]
    warmup: f64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MethodArg {
    /// Abadi et al.: clip, add noise, average
    DpSgd,
    /// Low-pass filter on released gradients
    Doppler,
    /// Per-sample momentum and low-pass filter
    DpPmlf,
    /// Simplified Kalman filter
    Disk,
    /// Clip from a released histogram, by percentile
    DcSgdP,
    /// Clip from a released histogram, by expected error
    DcSgdE,
    /// Noise adapted to the learning rate
    Adp,
    /// Clip that tracks a quantile (Andrew et al.)
    Quantile,
    /// Inner and outer momentum (Xiao et al.)
    InnerOuter,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ThresholdArg {
    Fixed,
    Percentile,
    ExpectedError,
    Quantile,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum SolverArg {
    PaperGrid,
    Exact,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ClippingArg {
    Flat,
    PerLayer,
    Automatic,
}

/// As the command line has it.
pub(super) fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let all: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    all?.try_into().ok()
}

fn bounds(text: &str) -> Result<(f32, f32), String> {
    match numbers(text) {
        Some([min, max]) => Ok((min as f32, max as f32)),
        None => Err("give two numbers, with a comma between them".into()),
    }
}

fn look_ahead(text: &str) -> Result<LookAhead, String> {
    if text == "one" {
        return Ok(LookAhead::One);
    }
    match numbers(text) {
        Some([gamma]) => Ok(LookAhead::Two { gamma }),
        None => Err("give `one` or a number".into()),
    }
}

fn gain(text: &str) -> Result<Gain, String> {
    match numbers(text) {
        Some([noise, drift, process]) => Ok(Gain::Recursion { noise, drift, process }),
        None => Err("give three numbers, with commas between them".into()),
    }
}

fn noise_schedule(text: &str) -> Result<NoiseArg, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    Ok(NoiseArg::Schedule(match (kind, numbers(rest), numbers(rest)) {
        ("constant", ..) if rest.is_empty() => NoiseSchedule::Constant,
        ("matched", Some([exponent]), _) => NoiseSchedule::Matched { exponent },
        ("polynomial", _, Some([growth, exponent])) => NoiseSchedule::Polynomial { growth, exponent },
        ("clt", ..) if rest.is_empty() => return Ok(NoiseArg::Clt),
        _ => return Err("give constant, matched:P, polynomial:G,P or clt".into()),
    }))
}

fn adaptive_fir(text: &str) -> Result<(usize, f64, f64), String> {
    let mut parts = text.split(',').map(str::trim);
    let lags = parts.next().and_then(|part| part.parse().ok());
    let lags = lags.filter(|lags| (1..=LAGS).contains(lags)).ok_or("give LAGS, a whole number from 1 to 16")?;
    let memory = parts.next().unwrap_or("0.9").parse().ok().filter(|memory| (0.0..1.0).contains(memory));
    let memory = memory.ok_or("give MEMORY, a number from 0 to below 1, after LAGS")?;
    let floor = parts.next().unwrap_or("1e-3").parse().map_err(|_| "give FLOOR, a number, after LAGS,MEMORY")?;
    match parts.next() {
        None => Ok((lags, memory, floor)),
        Some(_) => Err("give at most LAGS,MEMORY,FLOOR".into()),
    }
}

fn decay(text: &str) -> Result<DecayChoice, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match (kind, rest, numbers(rest), numbers(rest)) {
        ("constant", "", ..) => Ok(DecayChoice::Constant),
        ("cosine", "", ..) => Ok(DecayChoice::Cosine { floor: 0.0 }),
        ("cosine", _, Some([floor]), _) => Ok(DecayChoice::Cosine { floor }),
        ("root-linear", "", ..) => Ok(DecayChoice::RootLinear { floor: 1e-9 }),
        ("root-linear", _, Some([floor]), _) => Ok(DecayChoice::RootLinear { floor }),
        ("step", _, _, Some([epochs, factor])) => Ok(DecayChoice::Step { epochs, factor }),
        ("polynomial", _, _, Some([offset, slope])) => Ok(DecayChoice::Polynomial { offset, slope }),
        _ => Err("give constant, step:EPOCHS,FACTOR, cosine, polynomial:A,C or root-linear".into()),
    }
}

/// The named set, the coefficients, or none.
fn coefficients(text: &str) -> Result<Option<Coefficients>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    let (parsed, or) = match text.split_once(';') {
        Some((a, b)) => (Coefficients::parse(a, b), ""),
        None => (Coefficients::named(text), "; or give coefficients A1,A2;B0,B1"),
    };
    parsed
        .and_then(|coefficients| coefficients.checked().map(|_| Some(coefficients)))
        .map_err(|error| Failure::new(format!("--filter {text}: {}{or}", with_flags(&error.to_string()))))
}

impl MethodArgs {
    /// The method's name, as reports call it.
    pub(super) fn name(&self) -> String {
        name(self.method)
    }

    /// Returns true if released gradients are filtered by DOPPLER, whose filter takes the place of Adam's first moment.
    pub(super) fn filters_for_adam(&self) -> bool {
        self.method == MethodArg::Doppler
    }

    /// Returns true if the method is DiSK, whose Adam takes both moments of the filtered gradient.
    pub(super) fn is_disk(&self) -> bool {
        self.method == MethodArg::Disk
    }

    /// Returns true if the method is Xiao et al.'s, whose outer momentum is the optimizer's.
    pub(super) fn needs_momentum(&self) -> bool {
        self.method == MethodArg::InnerOuter
    }

    /// The slots.
    pub(super) fn choice(&self, schedule: &ScheduleArgs, clip: f32, batch_size: u32) -> Result<Method, Failure> {
        self.refuse_idle_flags()?;
        Ok(Method {
            name: self.name(),
            filter: self.filter()?,
            threshold: ThresholdChoice { clip, rule: self.threshold(batch_size), bounds: self.clip_bounds },
            count_non_finite: self.count_non_finite,
            clipping: self.clipping()?,
            noise_schedule: self.noise_schedule(),
            clt_noise: matches!(self.noise_schedule, Some(NoiseArg::Clt)),
            learning_rate: LearningRateChoice {
                lr: schedule.lr,
                warmup: schedule.warmup,
                decay: schedule.lr_schedule.unwrap_or(match self.method {
                    MethodArg::Adp => DecayChoice::Polynomial { offset: 20.0, slope: 1.0 },
                    _ => DecayChoice::Constant,
                }),
            },
        })
    }

    fn noise_schedule(&self) -> NoiseSchedule {
        match (self.noise_schedule, self.method) {
            (Some(NoiseArg::Schedule(schedule)), _) => schedule,
            (None, MethodArg::Adp) => NoiseSchedule::Matched { exponent: 0.5 },
            (None | Some(NoiseArg::Clt), _) => NoiseSchedule::Constant,
        }
    }

    fn rule(&self) -> ThresholdArg {
        self.clip_rule.unwrap_or(match self.method {
            MethodArg::DcSgdP => ThresholdArg::Percentile,
            MethodArg::DcSgdE => ThresholdArg::ExpectedError,
            MethodArg::Quantile => ThresholdArg::Quantile,
            _ => ThresholdArg::Fixed,
        })
    }

    fn mixes_iterates(&self) -> bool {
        matches!(self.method, MethodArg::DpPmlf | MethodArg::InnerOuter)
    }

    /// A flag that the method does not read would be a misunderstanding.
    fn refuse_idle_flags(&self) -> Result<(), Failure> {
        let method = self.name();
        let rule = self.rule();
        let disk = self.method == MethodArg::Disk;
        let mixes = self.mixes_iterates();
        let doppler = self.method == MethodArg::Doppler;
        let given = self.filter.as_deref().is_some_and(|filter| filter != "none");
        let usual = self.filter.is_none() && matches!(self.method, MethodArg::Doppler | MethodArg::DpPmlf);
        let recursive = !disk && (given || usual);
        let counts = rule != ThresholdArg::Fixed;
        let histogram = matches!(rule, ThresholdArg::Percentile | ThresholdArg::ExpectedError);
        let share = matches!(rule, ThresholdArg::Percentile | ThresholdArg::Quantile);
        let of_rule = format!("--clip-rule {}", name(rule));
        let of_method = format!("--method {method}");
        let flags = [
            ("--adaptive-fir", self.adaptive_fir.is_some(), doppler, &of_method, "--method doppler"),
            ("--no-bias-correction", self.no_bias_correction, recursive, &of_method, "--method doppler"),
            ("--count-non-finite", self.count_non_finite, histogram, &of_rule, "--clip-rule percentile"),
            ("--iterates", self.iterates.is_some(), mixes, &of_method, "--method dp-pmlf"),
            ("--beta", self.beta.is_some(), mixes, &of_method, "--method dp-pmlf"),
            ("--kappa", self.kappa.is_some(), disk, &of_method, "--method disk"),
            ("--gamma", self.gamma.is_some(), disk, &of_method, "--method disk"),
            ("--gain-recursion", self.gain_recursion.is_some(), disk, &of_method, "--method disk"),
            ("--clip-bounds", self.clip_bounds.is_some(), counts, &of_rule, "--clip-rule percentile"),
            ("--percentile", self.percentile.is_some(), share, &of_rule, "--clip-rule percentile"),
            ("--histogram-range", self.histogram_range.is_some(), histogram, &of_rule, "--clip-rule percentile"),
            (
                "--count-noise-multiplier",
                self.count_noise_multiplier.is_some(),
                counts,
                &of_rule,
                "--clip-rule percentile",
            ),
            (
                "--solver",
                self.solver.is_some(),
                rule == ThresholdArg::ExpectedError,
                &of_rule,
                "--clip-rule expected-error",
            ),
            ("--clip-lr", self.clip_lr.is_some(), rule == ThresholdArg::Quantile, &of_rule, "--clip-rule quantile"),
            (
                "--auto-clip-gamma",
                self.auto_clip_gamma.is_some(),
                self.clipping == ClippingArg::Automatic,
                &format!("--clipping {}", name(self.clipping)),
                "--clipping automatic",
            ),
        ];
        for (flag, given, read, of, others) in flags {
            if given && !read {
                return Err(Failure::new(format!("{flag}: {of} has none; leave it out, or use {others}")));
            }
        }
        let own = match self.method {
            MethodArg::DcSgdP => ThresholdArg::Percentile,
            MethodArg::DcSgdE => ThresholdArg::ExpectedError,
            MethodArg::Quantile => ThresholdArg::Quantile,
            _ => rule,
        };
        if rule != own {
            return Err(Failure::new(format!(
                "--clip-rule {}: --method {method} is nothing but --clip-rule {}; leave the one out, or use --method dp-sgd",
                name(rule),
                name(own)
            )));
        }
        if disk && self.filter.as_deref().is_some_and(|filter| filter != "none") {
            return Err(Failure::new(
                "--filter: --method disk is a filter itself, and its look-ahead is derived for that filter alone; leave \
                 it out, or use --method doppler",
            ));
        }
        if counts && self.clipping != ClippingArg::Flat {
            return Err(Failure::new(format!(
                "--clipping {}: {of_rule} learns the clip of the whole gradient from norms of the whole gradient; use \
                 --clipping flat, or --clip-rule fixed",
                name(self.clipping)
            )));
        }
        Ok(())
    }

    fn filter(&self) -> Result<FilterChoice, Failure> {
        let usual = match self.method {
            MethodArg::Doppler | MethodArg::DpPmlf => "momentum",
            _ => "none",
        };
        let filter = coefficients(self.filter.as_deref().unwrap_or(usual))?;
        if self.method == MethodArg::Disk {
            return Ok(FilterChoice::Kalman {
                gain: self.gain_recursion.unwrap_or(Gain::Constant(self.kappa.unwrap_or(0.7))),
                look_ahead: self.gamma.unwrap_or(LookAhead::One),
            });
        }
        if let Some((lags, memory, floor)) = self.adaptive_fir {
            return Ok(FilterChoice::AdaptiveFir { lags, memory, floor });
        }
        if self.mixes_iterates() {
            let pmlf = self.method == MethodArg::DpPmlf;
            let kind =
                if self.no_bias_correction { FilterChoice::PerSampleUncorrected } else { FilterChoice::PerSample };
            return Ok(kind(PerSample {
                iterates: self.iterates.unwrap_or(2),
                beta: self.beta.unwrap_or(if pmlf { 0.1 } else { 0.9 }),
                normalised: pmlf,
                inner: filter.unwrap_or_else(|| Coefficients { a: vec![], b: vec![1.0] }),
            }));
        }
        let kind = if self.no_bias_correction { FilterChoice::Uncorrected } else { FilterChoice::Iir };
        Ok(filter.map_or(FilterChoice::None, kind))
    }

    fn threshold(&self, batch_size: u32) -> ThresholdRule {
        let count_noise = self.count_noise_multiplier;
        let fraction = self.percentile.unwrap_or(0.5);
        match self.rule() {
            ThresholdArg::Fixed => ThresholdRule::Fixed,
            ThresholdArg::Percentile => {
                ThresholdRule::Percentile { fraction, count_noise, range: self.histogram_range.unwrap_or(1.0) }
            }
            ThresholdArg::ExpectedError => ThresholdRule::ExpectedError {
                solver: match self.solver {
                    None | Some(SolverArg::PaperGrid) => Solver::PaperGrid,
                    Some(SolverArg::Exact) => Solver::Exact,
                },
                count_noise,
                range: self.histogram_range.unwrap_or(20.0),
            },
            ThresholdArg::Quantile => ThresholdRule::Quantile {
                fraction,
                rate: self.clip_lr.unwrap_or(0.2),
                count_noise: self.count_noise_multiplier.unwrap_or(f64::from(batch_size) / 10.0),
            },
        }
    }

    fn clipping(&self) -> Result<Clipping, Failure> {
        Ok(match self.clipping {
            ClippingArg::Flat => Clipping::Flat,
            ClippingArg::PerLayer => Clipping::PerLayer,
            ClippingArg::Automatic => Clipping::Automatic { stability: self.auto_clip_gamma.unwrap_or(0.01) },
        })
    }
}
