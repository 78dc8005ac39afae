//! The errors of the accountants.

use super::dp_event::adjacency::Adjacency;
use super::limits::{LARGEST_GROUP, LARGEST_USEFUL, MAX_BUFFERS};
use super::price::upward;
use damper_core::accounting::event::Rate;
use damper_core::error::ConfigError;
use damper_core::noise::Participation;
use thiserror::Error;

/// The smallest σ, in grid units, at which fractional orders account a discrete Gaussian as the continuous Gaussian.
/// `damper_core::accounting::renyi` has the argument, on integer orders.
pub const SMALLEST_SIGMA: u64 = damper_core::noise::LEAST_SIGMA as u64;

/// An error: the setting at fault under the name of its field, in backticks, and the fix.
///
/// ```
/// use damper_accounting::{AccountingError, sampling_rate};
///
/// let error = sampling_rate(2.0).unwrap_err();
/// assert_eq!(error, AccountingError::SamplingRate(2.0));
/// assert!(error.is_of_setting() && error.to_string().starts_with("`sampling_rate` 2"));
/// ```
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum AccountingError {
    /// ε is not a finite number above 0.
    #[error("`epsilon` {0}: must be a finite number above 0; give a budget such as 1.0 or 3.0")]
    Epsilon(f64),
    /// The ε that δ is asked for is not a finite number of at least 0.
    #[error("`epsilon` {0}: must be a finite number of at least 0; give the epsilon that delta is wanted for")]
    EpsilonOfDelta(f64),
    /// δ is not between 0 and 1.
    #[error("`delta` {0}: must be above 0 and below 1; give one well below 1/N for N samples, such as 1e-5")]
    Delta(f64),
    /// The sampling rate is not above 0 and at most 1.
    #[error("`sampling_rate` {0}: must be above 0 and at most 1; give expected batch size / number of samples")]
    SamplingRate(f64),
    /// A release from a Poisson draw is not Gaussian.
    #[error("a Poisson draw: its privacy cost is known for Gaussian releases alone; draw nothing else")]
    Drawn,
    /// The number of steps is 0.
    #[error("`steps` 0: nothing is released; give the number of draws, epochs * samples / batch size")]
    Steps,
    /// The multiplier is not a finite number above 0.
    #[error("`noise_multiplier` {0}: must be a finite number above 0; give one such as 1.0, or `epsilon` instead")]
    NoiseMultiplier(f64),
    /// The multiplier of the counts released next to the gradient is not a finite number above 0.
    #[error("`count_noise_multiplier` {0}: must be a finite number above 0; 5 is usual")]
    CountNoise(f64),
    /// The counts alone cost the whole budget.
    #[error(
        "`count_noise_multiplier` {multiplier}: the counts alone would cost the budget and leave no gradient; it must be \
         above {}, and twice that costs the gradient a sixth more noise",
        upward(*least)
    )]
    CountNoiseTooSmall {
        /// The multiplier of the counts.
        multiplier: f64,
        /// The multiplier that the target requires of all releases of a step together.
        least: f64,
    },
    /// A factor of a noise schedule is not a finite number above 0.
    #[error(
        "the noise schedule: its factor at step {step} is {factor}; it must be a finite number above 0 at every step"
    )]
    Factor {
        /// The step, counted from 0.
        step: usize,
        /// The factor.
        factor: f64,
    },
    /// The run was trained without clipping and noise.
    #[error("not private: the run was trained without clipping and noise (`not_private`), so no epsilon holds")]
    NotPrivate,
    /// No finite ε holds.
    #[error("`noise_multiplier` {multiplier}: too small, no finite epsilon holds for {steps} steps; raise it")]
    NothingHolds {
        /// The multiplier asked about.
        multiplier: f64,
        /// The number of events.
        steps: u64,
    },
    /// No multiplier brings ε down to the target.
    #[error(
        "`epsilon` {epsilon}: out of reach at `delta` {delta}: no noise brings this accountant below {least:.4}; raise \
         `epsilon` or `delta`"
    )]
    TooSmall {
        /// The target.
        epsilon: f64,
        /// δ.
        delta: f64,
        /// About the smallest ε that can be reached.
        least: f64,
    },
    /// Even the least value of the calibrated quantity costs more than the target.
    #[error(
        "`epsilon` {epsilon}: out of reach at `delta` {delta}: {of} costs {} already; raise `epsilon`, `delta` or `noise_multiplier`",
        upward(*least)
    )]
    OutOfReach {
        /// The target.
        epsilon: f64,
        /// δ.
        delta: f64,
        /// ε of the least value.
        least: f64,
        /// The least value, in words.
        of: &'static str,
    },
    /// The target allows more steps than the calibration counts.
    #[error("`epsilon` {0}: allows more than 2^53 steps; lower it, or give `steps`")]
    Endless(f64),
    /// The expected batch is not from 1 up to the number of samples.
    #[error("{}", batch_message(*batch, *samples))]
    Batch {
        /// The expected batch.
        batch: u64,
        /// The number of samples.
        samples: u64,
    },
    /// The batch size has no number of samples, or a rate is given in addition to both.
    #[error("the sampling rate: give `sampling_rate`, or `samples` and `batch_size`, of which the rate follows")]
    Draws,
    /// Even almost no noise stays below the target.
    #[error("`epsilon` {0}: so large that no noise to speak of is left; lower it, or give `noise_multiplier`")]
    TooLarge(f64),
    /// σ in grid units is too small an integer. It cannot hit the target closely, or a discrete Gaussian of this σ is
    /// not accounted as the continuous Gaussian at fractional orders.
    #[error(
        "`epsilon` {epsilon}: a grid of {grid_bits} bits is too coarse, sigma is only {sigma} grid units there; raise \
         `grid_bits` until it is at least {SMALLEST_SIGMA}"
    )]
    GridTooCoarse {
        /// The target.
        epsilon: f64,
        /// log2 of the grid units in one clip.
        grid_bits: u32,
        /// σ in grid units.
        sigma: u64,
    },
    /// σ cannot be represented in units of so fine a grid.
    #[error("`grid_bits` {0}: must be at most 40; 20 is fine for any network")]
    GridBits(u32),
    /// σ cannot be sampled in units of so fine a grid.
    #[error(
        "`epsilon` {epsilon}: on a grid of {grid_bits} bits sigma is more than {largest} grid units; lower `grid_bits`"
    )]
    GridTooFine {
        /// The target.
        epsilon: f64,
        /// log2 of the grid units in one clip.
        grid_bits: u32,
        /// The largest σ.
        largest: u64,
    },
    /// The query leaves none of the quantities to be found, or more than one.
    #[error(
        "calibrate finds one quantity from the others: leave out exactly one of `epsilon`, `noise_multiplier`, `steps` and `sampling_rate`, \
         or, where `samples` is given, `batch_size`"
    )]
    Free,
    /// The number of steps is 0, or above the limit of factorisations.
    #[error("`steps` {0}: must be from 1 to {max}", max = Participation::MAX_STEPS)]
    FactorizedSteps(u64),
    /// The number of buffers is 0, or above the limit of the optimisation.
    #[error("`buffers` {0}: must be from 1 to {max}; 2 are usual", max = MAX_BUFFERS)]
    Buffers(u32),
    /// The matrix has more bands than there are groups, so noise reaches past a cycle.
    #[error(
        "{bands} bands: more than the {groups} groups, so that two draws of a sample would share noise; give fewer"
    )]
    Bands {
        /// The bands.
        bands: usize,
        /// The groups.
        groups: u64,
    },
    /// The expected batch is larger than a group, or empty.
    #[error(
        "`batch_size` {batch}: times {groups} groups must be from 1 to the {samples} samples; lower it, or the groups"
    )]
    GroupBatch {
        /// The expected batch.
        batch: u64,
        /// The groups.
        groups: u64,
        /// The samples.
        samples: u64,
    },
    /// The correlated noise cannot run.
    #[error("`noise_correlation`: {0}")]
    CorrelatedNoise(#[from] ConfigError),
    /// σ of correlated noise is larger than the sampler's limit.
    #[error("`grid_bits` {0}: too many, sigma is above 2^31 grid units; lower it")]
    SigmaOfGrid(u32),
    /// A record has events that cost less than its noise.
    #[error("the record of correlated noise: its events are not those of its coefficients; the file is damaged")]
    Correlated,
    /// Blocks of correlated noise have no privacy cost for a replaced sample.
    #[error("`neighbours` replace: correlated noise with cyclic Poisson draws is not priced for it; use add-or-remove")]
    ReplacedBlocks,
    /// The group is larger than the limit of the accountant.
    #[error("`group` {0}: must be at most {max}", max = LARGEST_GROUP)]
    GroupSize(u32),
    /// The accountant finds no useful ε for a group.
    #[error(
        "`group` {size}: no useful bound: at `delta` {delta:e} epsilon is above {max} or infinite; give a smaller group or a larger \
         `delta`, or train with more noise",
        max = LARGEST_USEFUL
    )]
    Group {
        /// The samples of the group.
        size: u32,
        /// δ.
        delta: f64,
    },
    /// The Rényi accountant has no privacy cost of a group.
    #[error("`group`: is priced by privacy loss distributions alone; use `accountant` pld")]
    GroupByOrders,
    /// The distribution of the number of candidates is not valid.
    #[error(
        "`tune_private`: give geometric:G, logarithmic:G or negative-binomial:SHAPE,G with G above 0 and below 1 and SHAPE above -1 and at \
         most 1, or poisson:MEAN with MEAN from 1 to 10000; numbers with at most six decimals, such as geometric:0.1"
    )]
    CandidateNumber,
    /// The best of a search has no privacy cost for a replaced sample.
    #[error("`neighbours` replace: a private search is not priced for it; use add-or-remove")]
    ReplacedSearch,
    /// The best of a search has no privacy cost if draws are truncated.
    #[error("`truncate`: a private search has no price if draws are cut; leave it out")]
    TruncatedSearch,
    /// The distance between two steps of a sample is 0.
    #[error("`separation` 0: two steps of a sample are at least 1 apart; give the steps of an epoch in a fixed order")]
    Separation,
    /// A sample takes part in no step.
    #[error("`participations` 0: a sample takes part at least once; give the number of epochs in a fixed order")]
    Participations,
    /// Truncation of draws costs more than δ.
    #[error(
        "`truncate` {most}: draws are larger so often that cutting them takes {taken:.1e} of `delta` {delta:e}; raise it, or leave it \
         out: a draw of any size is split over physical batches"
    )]
    Truncation {
        /// The largest number of samples of a draw.
        most: u64,
        /// The part of δ that truncation takes.
        taken: f64,
        /// δ.
        delta: f64,
    },
    /// A sum has no share of noise.
    #[error(
        "`smallest_cohort` 0: noise comes from at least one device; give the fewest devices whose sum may be released"
    )]
    NoShares,
    /// The sum of the noise shares is too far from a discrete Gaussian, or too small to be accounted.
    #[error(
        "`grid_bits`: the noise of a device is {sigma} grid units, too few for the sum of {shares} to have a price; raise the bits, or          `noise_multiplier`"
    )]
    SharesTooCoarse {
        /// σ of a share in grid units.
        sigma: u32,
        /// Shares in a sum.
        shares: u32,
    },
    /// Integers leave their range too often.
    #[error(
        "`delta` {delta:e}: integers leave their range with a probability of {probability:.1e}, which at so large an epsilon takes all of \
         it; raise `noise_multiplier`"
    )]
    OutOfRange {
        /// The probability over all rounds.
        probability: f64,
        /// δ.
        delta: f64,
    },
    /// The number of different events is above the limit of the accountant.
    #[error("{0} different events at changing rates: too many to be priced, and more than any run of damper has")]
    TooMany(usize),
    /// The Rényi accountant has no privacy cost of a replaced sample.
    #[error("`neighbours` replace: is priced by privacy loss distributions alone; use `accountant` pld")]
    Replaced,
    /// A mechanism has no proved bound under an adjacency.
    #[error("{}: has no proved bound under {}", [*mechanism, *of].join(" ").trim_end(), adjacency.name())]
    Unsupported {
        /// The mechanism, or its outer part.
        mechanism: &'static str,
        /// Its inner part, or empty.
        of: &'static str,
        /// The adjacency.
        adjacency: Adjacency,
    },
    /// A value of a mechanism is outside its range.
    #[error("`{name}` {value}: must be {must_be}")]
    Range {
        /// The name.
        name: &'static str,
        /// The value.
        value: f64,
        /// The range.
        must_be: &'static str,
    },
    /// Nested compositions have too many releases.
    #[error("the counts of the compositions multiply to more than 2^53 releases; give fewer")]
    Releases,
    /// The sampling rate is too small to be rounded to a multiple of 2^-53.
    #[error("`sampling_rate` {0}: below 1e-13, too small for a near bound; give at least 1e-13, which costs more")]
    SmallRate(f64),
    /// No finite ε is found.
    #[error("`delta` {delta:e}: no finite epsilon holds; add noise, or give a larger `delta`")]
    NoBound {
        /// δ.
        delta: f64,
    },
    /// The bounds of an extreme question are too far apart for one of them to be near the exact value.
    #[error(
        "`{of}`: at so many steps or so small a delta it is only known to be from {lower:e} to {upper:e}; ask for both bounds"
    )]
    Imprecise {
        /// The quantity.
        of: &'static str,
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// The ends of a search are not two numbers in order.
    #[error("the ends {low} and {high} of the search: give two finite numbers, the lower one first")]
    Bracket {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// Both ends of a search are on one side of the target.
    #[error("`epsilon` {epsilon}: both ends of the search cost {}; move one of them", if *both { "at most as much" } else { "more" })]
    NoRoot {
        /// The target.
        epsilon: f64,
        /// True if both ends fit.
        both: bool,
    },
    /// δ is not below 1/N.
    #[error(
        "`delta` {delta}: not below 1/N = {one_over:.3e} for {samples} samples, which would allow publishing one of \
         them; lower it to {advised:.1e}, or pass `allow_large_delta`"
    )]
    LargeDelta {
        /// δ.
        delta: f64,
        /// N.
        samples: u64,
        /// 1/N.
        one_over: f64,
        /// N^-1.1.
        advised: f64,
    },
}

impl AccountingError {
    /// Returns true if the error names a setting by its field.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        !matches!(
            self,
            Self::Factor { .. } | Self::NotPrivate | Self::Draws | Self::Free | Self::Bands { .. } | Self::Correlated
        )
    }
}

fn batch_message(batch: u64, samples: u64) -> String {
    if samples == 0 || samples > Rate::DENOMINATOR {
        return format!("`samples` {samples}: must be at least 1, and at most 2^53");
    }
    format!("`batch_size` {batch}: must be at least 1, and at most the {samples} of `samples`")
}
