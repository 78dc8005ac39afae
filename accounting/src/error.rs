//! The errors of the accountants.

use super::limits::{LARGEST_GROUP, LARGEST_USEFUL, MAX_BUFFERS};
use super::price::upward;
use damper_core::accounting::event::Rate;
use damper_core::error::ConfigError;
use damper_core::noise::Participation;
use thiserror::Error;

/// The smallest σ in grid units whose discrete Gaussian is priced as the continuous one at fractional orders
/// (`damper_core::accounting::renyi`, on integer orders, has the argument).
pub const SMALLEST_SIGMA: u64 = damper_core::noise::LEAST_SIGMA as u64;

/// An error: the setting at fault under the name of its field, in backticks, and the fix.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
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
    /// Something else than Gaussian releases is to be released from a Poisson draw.
    #[error("a Poisson draw: its privacy cost is known for Gaussian releases alone; draw nothing else")]
    Drawn,
    /// No step.
    #[error("`steps` 0: nothing is released; give the number of draws, epochs * samples / batch size")]
    Steps,
    /// The multiplier is not a finite number above 0.
    #[error("`noise_multiplier` {0}: must be a finite number above 0; give one such as 1.0, or `epsilon` instead")]
    NoiseMultiplier(f64),
    /// The multiplier of the counts released beside the gradient is not a finite number above 0.
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
        /// The multiplier that the target needs of all releases of a step together.
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
    /// Even the least of the sought quantity costs more than the target.
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
        /// The least of what is sought, in words.
        of: &'static str,
    },
    /// The target allows more steps than are counted.
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
    /// A batch without a number of samples, or both and a rate.
    #[error("the sampling rate: give `sampling_rate`, or `samples` and `batch_size`, of which the rate follows")]
    Draws,
    /// Even almost no noise stays below the target.
    #[error("`epsilon` {0}: so large that no noise to speak of is left; lower it, or give `noise_multiplier`")]
    TooLarge(f64),
    /// The grid's σ is an integer too small: to hit the target closely, or for the discrete Gaussian to be priced as
    /// the continuous one at fractional orders.
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
    /// The grid is finer than σ in grid units can be represented.
    #[error("`grid_bits` {0}: must be at most 40; 20 is fine for any network")]
    GridBits(u32),
    /// The grid is finer than σ in grid units can be sampled.
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
    /// None of the quantities is to be found, or more than one.
    #[error(
        "calibrate finds one quantity from the others: leave out exactly one of `epsilon`, `noise_multiplier`, `steps` and `sampling_rate`, \
         or, where `samples` is given, `batch_size`"
    )]
    Free,
    /// More steps than are factorised, or none.
    #[error("`steps` {0}: must be from 1 to {max}", max = Participation::MAX_STEPS)]
    FactorizedSteps(u64),
    /// No buffer, or more than are optimised.
    #[error("`buffers` {0}: must be from 1 to {max}; 2 are usual", max = MAX_BUFFERS)]
    Buffers(u32),
    /// Noise that reaches past a cycle of groups.
    #[error(
        "{bands} bands: more than the {groups} groups, so that two draws of a sample would share noise; give fewer"
    )]
    Bands {
        /// The bands.
        bands: usize,
        /// The groups.
        groups: u64,
    },
    /// An expected batch that is larger than a group, or empty.
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
    /// Correlated noise that cannot run.
    #[error("`noise_correlation`: {0}")]
    CorrelatedNoise(#[from] ConfigError),
    /// σ of correlated noise is larger than what is sampled.
    #[error("`grid_bits` {0}: too many, sigma is above 2^31 grid units; lower it")]
    SigmaOfGrid(u32),
    /// A record whose events are cheaper than its noise.
    #[error("the record of correlated noise: its events are not those of its coefficients; the file is damaged")]
    Correlated,
    /// Blocks of correlated noise have no price of a replaced sample.
    #[error("`neighbours` replace: correlated noise with cyclic Poisson draws is not priced for it; use add-or-remove")]
    ReplacedBlocks,
    /// A group that is larger than any that is priced.
    #[error("`group` {0}: must be at most {max}", max = LARGEST_GROUP)]
    GroupSize(u32),
    /// No useful ε is found for a group.
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
    /// The Rényi accountant has no price of a group.
    #[error("`group`: is priced by privacy loss distributions alone; use `accountant` pld")]
    GroupByOrders,
    /// No distribution of the number of candidates.
    #[error(
        "`tune_private`: give geometric:G, logarithmic:G or negative-binomial:SHAPE,G with G above 0 and below 1 and SHAPE above -1 and at \
         most 1, or poisson:MEAN with MEAN from 1 to 10000; numbers with at most six decimals, such as geometric:0.1"
    )]
    CandidateNumber,
    /// The best of a search has no price of a replaced sample.
    #[error("`neighbours` replace: a private search is not priced for it; use add-or-remove")]
    ReplacedSearch,
    /// The best of a search has no price if draws are cut.
    #[error("`truncate`: a private search has no price if draws are cut; leave it out")]
    TruncatedSearch,
    /// Steps of a sample that are no distance apart.
    #[error("`separation` 0: two steps of a sample are at least 1 apart; give the steps of an epoch in a fixed order")]
    Separation,
    /// A sample that takes no part.
    #[error("`participations` 0: a sample takes part at least once; give the number of epochs in a fixed order")]
    Participations,
    /// Cutting draws costs more than δ.
    #[error(
        "`truncate` {most}: draws are larger so often that cutting them takes {taken:.1e} of `delta` {delta:e}; raise it, or leave it \
         out: a draw of any size is split over physical batches"
    )]
    Truncation {
        /// The most that a draw may hold.
        most: u64,
        /// The part of δ that cutting takes.
        taken: f64,
        /// δ.
        delta: f64,
    },
    /// A sum without a share of noise.
    #[error(
        "`smallest_cohort` 0: noise comes from at least one device; give the fewest devices whose sum may be released"
    )]
    NoShares,
    /// Shares of noise whose sum is too far from a discrete Gaussian, or too small to be priced.
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
        /// The probability, of all rounds.
        probability: f64,
        /// δ.
        delta: f64,
    },
    /// More different events than are priced.
    #[error("{0} different events at changing rates: too many to be priced, and more than any run of damper has")]
    TooMany(usize),
    /// The Rényi accountant has no price of a replaced sample.
    #[error("`neighbours` replace: is priced by privacy loss distributions alone; use `accountant` pld")]
    Replaced,
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
    /// Returns true if a setting is at fault, by the name of its field.
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
