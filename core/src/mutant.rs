//! Broken mechanisms, to show what the audits see. Behind the feature `mutants`, which nothing that is released has: without it
//! [`is`] is constant, and no mutant is compiled.
//!
//! A program chooses one mutant at its start, before the first step.

macro_rules! mutants {
    ($($name:ident $what:literal,)*) => {
        /// A broken mechanism.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Mutant {
            $(#[doc = $what] $name,)*
        }

        impl Mutant {
            /// Each with its name and what is broken.
            pub const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$name, stringify!($name), $what),)*];
        }
    };
}

mutants! {
    ClipDoubled "a sample adds up to twice the clip",
    ClipOfSum "the samples of a chunk are summed, and the sum is clipped",
    LayersUnbounded "each layer may be as long as the whole clip",
    RoundOutward "coordinates are rounded away from zero, and the square is not checked",
    NonFiniteAdds "a sample whose norm is not finite adds its coordinates",
    MixAfterClip "gradients at several points are clipped each on its own",
    GradientsOverBatch "gradients are divided by the number of samples that were drawn",
    LookAheadPrivate "the points of a step depend on the number of samples that were drawn",
    PaddingCounted "rows of padding are summed",
    NullCounted "null samples are summed",
    BorderTwice "the last sample of a draw is summed twice where a draw has several chunks",
    ShardMergedTwice "a worker's sum is merged twice",
    SumNotWiped "the sum of a step stays for the next",
    HalfNoise "half the noise",
    QuarterNoise "a quarter of the noise",
    EighthNoise "an eighth of the noise",
    NoNoise "no noise",
    NoiseTwoPercentMore "the noise is 2 % larger than priced",
    SigmaOne "a deviation of one grid unit",
    NoiseOneSided "noise is never negative",
    NoiseUniform "uniform noise of the same deviation",
    NoiseEverySecond "every second coordinate has no noise",
    EmptySkipsNoise "a step without a sample has no noise",
    ScheduleIgnored "the noise schedule is priced, and does not run",
    SameNoiseEveryStep "every step has the noise of step 0",
    NoiseTwice "two consecutive steps have the same noise",
    SameNoiseEveryChunk "all chunks of coordinates have the same noise",
    PurposesShared "coins and noise are made of the same words",
    KeyFixed "the key of a private run is a constant",
    CountsNoNoise "counts have no noise",
    CountsHalfNoise "counts have half the noise",
    CountsShareStream "counts have the noise of the first coordinates",
    CountsTwice "a sample is counted twice",
    CountsDoubledInMerge "a worker's counts are merged twice",
    ThresholdExact "the clip is learned from counts without noise",
    ThresholdUnlearned "the clip of every second step is not the one that was learned",
    DivisorTaken "the sum is divided by the number of samples that came",
    DivisorOffByOne "the sum is divided by one more than the declared batch",
    RateFourfold "samples are drawn four times as often as priced",
    RateHalfMore "samples are drawn one and a half times as often as priced",
    FirstRowsMore "the first hundred samples are drawn twice as often",
    LabelDraws "of samples with an odd label every second draw is dropped",
    TwoDraws "a step draws twice",
    CoinsRepeat "every step has the draw of step 0",
    CoinsShared "all chunks of samples have the same coins",
    LedgerPaysAfter "the ledger's file shows a step as charged after its release",
    LedgerSkipsTenth "the ledger's file leaves out every tenth step",
    EventsFewer "every tenth step is not recorded as an event",
    ResumeReplays "a restart begins with steps that were released",
}

#[cfg(feature = "mutants")]
mod chosen {
    use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

    static CHOSEN: AtomicU8 = AtomicU8::new(u8::MAX);
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    static COORDINATE: AtomicU32 = AtomicU32::new(0);

    /// Chooses the mutant that runs.
    pub fn choose(mutant: super::Mutant) {
        CHOSEN.store(mutant as u8, Ordering::SeqCst);
    }

    pub(super) fn is(mutant: super::Mutant) -> bool {
        CHOSEN.load(Ordering::Relaxed) == mutant as u8
    }

    /// A step begins.
    pub(crate) fn begin() {
        TAKEN.store(0, Ordering::SeqCst);
    }

    /// A sample was added.
    pub(crate) fn take() {
        TAKEN.fetch_add(1, Ordering::SeqCst);
    }

    /// Samples that were added to the step.
    pub(crate) fn taken() -> u32 {
        TAKEN.load(Ordering::SeqCst)
    }

    /// A sample's rate is this over 2^53.
    pub(crate) fn rate(numerator: u64, sample: u32) -> u64 {
        use super::Mutant as M;
        match () {
            () if is(M::RateFourfold) => numerator.saturating_mul(4),
            () if is(M::RateHalfMore) => numerator.saturating_add(numerator / 2),
            () if is(M::FirstRowsMore) && sample < 100 => numerator.saturating_mul(2),
            () => numerator,
        }
    }

    /// A coordinate of size `exact` on the grid.
    pub(crate) fn magnitude(rounded: u32, exact: f32) -> u32 {
        rounded + u32::from(is(super::Mutant::RoundOutward) && exact > 0.0)
    }

    /// The noise of a coordinate of the gradient.
    pub(crate) fn noise(z: i64, sigma: u32) -> i64 {
        use super::Mutant as M;
        let at = COORDINATE.fetch_add(1, Ordering::Relaxed);
        match M::ALL.iter().find(|(mutant, _, _)| is(*mutant)).map(|(mutant, _, _)| *mutant) {
            Some(M::HalfNoise) => z / 2,
            Some(M::QuarterNoise) => z / 4,
            Some(M::EighthNoise) => z / 8,
            Some(M::NoNoise) => 0,
            Some(M::NoiseTwoPercentMore) => z + z / 50,
            Some(M::SigmaOne) => z / i64::from(sigma),
            Some(M::NoiseOneSided) => z.abs(),
            // 2·√3 deviations wide: the low digits of a draw are as good as uniform.
            Some(M::NoiseUniform) => (z.rem_euclid(i64::from(sigma)) * 3464 - i64::from(sigma) * 1732) / 1000,
            Some(M::NoiseEverySecond) if at % 2 == 1 => 0,
            Some(M::EmptySkipsNoise) if taken() == 0 => 0,
            _ => z,
        }
    }
}

#[cfg(feature = "mutants")]
pub use chosen::choose;
#[cfg(feature = "mutants")]
pub(crate) use chosen::{begin, magnitude, noise, rate, take, taken};

/// Returns true if this mutant is active.
#[inline(always)]
#[must_use]
pub fn is(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return chosen::is(mutant);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}

#[cfg(not(feature = "mutants"))]
mod none {
    #[inline(always)]
    pub(crate) fn begin() {}

    #[inline(always)]
    pub(crate) fn take() {}

    #[inline(always)]
    pub(crate) fn taken() -> u32 {
        0
    }

    #[inline(always)]
    pub(crate) fn rate(numerator: u64, _: u32) -> u64 {
        numerator
    }

    #[inline(always)]
    pub(crate) fn magnitude(rounded: u32, _: f32) -> u32 {
        rounded
    }

    #[inline(always)]
    pub(crate) fn noise(z: i64, _: u32) -> i64 {
        z
    }
}

#[cfg(not(feature = "mutants"))]
pub(crate) use none::{begin, magnitude, noise, rate, take, taken};
