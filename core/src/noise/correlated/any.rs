//! Correlation chosen at run time. It is one type, so a program with all correlations has one copy of the step.
//!
//! It calls the functions of the typed correlations, so the bits are equal.
//!
//! # Memory
//!
//! Space for 256 coefficients, 1 KiB, in each copy of the mechanism, and 2 KiB in its state.

use super::banded::{self, MOST};
use super::blt::Blt;
use super::correlation::Correlation;
use super::lambda::Lambda;
use super::word::NoiseWord;
use crate::error::ConfigError;
use crate::noise::sealed::Sealed;
use crate::numerics::digest::Digest;

/// Any correlation.
///
/// ```
/// use damper_core::noise::{AnyCorrelation, Lambda};
///
/// for correlation in [
///     Lambda::new(15, 4)?.into(),
///     AnyCorrelation::blt(&[0.5], &[0.25])?,
///     AnyCorrelation::banded(&[1.0, 0.5])?,
/// ] {
///     let mut units = vec![];
///     let kind = correlation.recorded(|unit| units.push(unit));
///     assert_eq!(AnyCorrelation::from_recorded(kind, &units)?, correlation);
///     let mut column = [0.0; 2];
///     correlation.column(&mut column);
///     assert_eq!(column[0], 1.0);
/// }
/// assert_eq!(AnyCorrelation::banded(&[1.0, 0.5])?.bands(), Some(2));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)] // Without an allocator, a variant cannot be boxed.
pub enum AnyCorrelation {
    /// Previous step only.
    Lambda(Lambda),
    /// BLT with one buffer.
    Blt1(Blt<1>),
    /// BLT with two buffers.
    Blt2(Blt<2>),
    /// BLT with three buffers.
    Blt3(Blt<3>),
    /// BLT with four buffers.
    Blt4(Blt<4>),
    /// Bands, as in [`Banded`](super::Banded).
    Banded(Bands),
}

/// 2 to 256 coefficients as integers over 2³⁰.
///
/// ```
/// use damper_core::noise::AnyCorrelation;
///
/// let AnyCorrelation::Banded(bands) = AnyCorrelation::banded(&[1.0, 0.5])? else { unreachable!() };
/// assert!(bands.column().eq([1.0, 0.5]));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bands {
    column: [u32; MOST],
    bands: usize,
}

impl Bands {
    /// Returns the coefficients after rounding.
    pub fn column(&self) -> impl Iterator<Item = f64> {
        self.units().iter().map(|units| banded::number(*units))
    }

    fn units(&self) -> &[u32] {
        self.column.get(..self.bands).unwrap_or_default()
    }
}

/// Matches on the kind, with one arm for all BLTs.
macro_rules! match_kind {
    ($self:expr, lambda $lambda:ident => $of_lambda:expr, blt $blt:ident => $of_blt:expr, banded $column:ident => $of_banded:expr) => {
        match $self {
            AnyCorrelation::Lambda($lambda) => $of_lambda,
            AnyCorrelation::Blt1($blt) => $of_blt,
            AnyCorrelation::Blt2($blt) => $of_blt,
            AnyCorrelation::Blt3($blt) => $of_blt,
            AnyCorrelation::Blt4($blt) => $of_blt,
            AnyCorrelation::Banded(bands) => {
                let $column = bands.units();
                $of_banded
            }
        }
    };
}

impl From<Lambda> for AnyCorrelation {
    fn from(lambda: Lambda) -> Self {
        Self::Lambda(lambda)
    }
}

impl AnyCorrelation {
    /// Creates a BLT with these decays and scales, as [`Blt::new`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`Blt::new`] does, or if the numbers of decays and scales differ.
    pub fn blt(theta: &[f64], omega: &[f64]) -> Result<Self, ConfigError> {
        fn of<const D: usize>(theta: &[f64], omega: &[f64]) -> Result<Blt<D>, ConfigError> {
            match (theta.try_into(), omega.try_into()) {
                (Ok(theta), Ok(omega)) => Blt::new(theta, omega),
                _ => Err(ConfigError::new("decays and scales", "1 to 4 of each, as many of one as of the other")),
            }
        }
        Ok(match theta.len() {
            1 => Self::Blt1(of(theta, omega)?),
            2 => Self::Blt2(of(theta, omega)?),
            3 => Self::Blt3(of(theta, omega)?),
            _ => Self::Blt4(of(theta, omega)?),
        })
    }

    /// Creates bands with these coefficients, as [`Banded::new`](super::Banded::new) does.
    ///
    /// # Errors
    ///
    /// Fails as [`Banded::new`](super::Banded::new) does.
    pub fn banded(column: &[f64]) -> Result<Self, ConfigError> {
        let mut units = [0; MOST];
        banded::read(column, &mut units)?;
        Ok(Self::Banded(Bands { column: units, bands: column.len() }))
    }

    /// Passes the recorded integers to `take`, and returns the kind: 0 (lambda: P and q), 1 (BLT: θ, then ω) or 2
    /// (bands). The integers of kinds 1 and 2 are over 2³⁰.
    pub fn recorded(&self, mut take: impl FnMut(u32)) -> u8 {
        match_kind!(
            self,
            lambda lambda => {
                let (numerator, whole) = lambda.fraction();
                take(numerator);
                take(whole.trailing_zeros());
                0
            },
            blt blt => {
                blt.units().for_each(take);
                1
            },
            banded column => {
                column.iter().copied().for_each(take);
                2
            }
        )
    }

    /// Creates the correlation from its recorded integers.
    ///
    /// # Errors
    ///
    /// Fails if [`recorded`](Self::recorded) never passes such integers.
    #[inline(never)]
    pub fn from_recorded(kind: u8, units: &[u32]) -> Result<Self, ConfigError> {
        const RANGE: ConfigError = ConfigError::new("recorded correlation", "one that can run");
        let mut numbers = [0.0; MOST];
        let (numbers, _) = numbers.split_at_mut(units.len().min(MOST));
        numbers.iter_mut().zip(units).for_each(|(number, units)| *number = banded::number(*units));
        let found = match (kind, units) {
            (0, [numerator, bits]) => Lambda::new(*numerator, *bits)?.into(),
            (1, _) => {
                let (theta, omega) = numbers.split_at(numbers.len() / 2);
                Self::blt(theta, omega)?
            }
            (2, _) => Self::banded(numbers)?,
            _ => return Err(RANGE),
        };
        // The constructor lowers scales that are too large, and integers past the end were ignored. Both are errors
        // here.
        let (mut rest, mut same) = (units.iter(), true);
        found.recorded(|units| same &= rest.next() == Some(&units));
        if same && rest.next().is_none() { Ok(found) } else { Err(RANGE) }
    }

    /// Writes the first column of C, `c_0 = 1, c_1, …`, after rounding.
    pub fn column(&self, out: &mut [f64]) {
        let mut line = Self::START;
        for (t, out) in out.iter_mut().enumerate() {
            *out = self.forward(&mut line, f64::from(u8::from(t == 0)));
        }
    }

    /// Returns the number of coefficients if all others are 0, else `None`.
    #[must_use]
    pub fn bands(&self) -> Option<usize> {
        if let Self::Banded(bands) = self { Some(bands.bands) } else { None }
    }
}

impl Sealed for AnyCorrelation {}

impl Correlation for AnyCorrelation {
    type Line = [f64; MOST];
    const START: [f64; MOST] = [0.0; MOST];
    const DRAWS_AGAIN: bool = true;

    #[inline]
    fn words(&self) -> usize {
        match_kind!(self, lambda lambda => lambda.words(), blt blt => blt.words(), banded column => column.len().saturating_sub(1))
    }

    fn draws_again(&self) -> bool {
        matches!(self, Self::Lambda(_))
    }

    fn add_to(&self, digest: &mut Digest) {
        match_kind!(
            self,
            lambda lambda => lambda.add_to(digest),
            blt blt => blt.add_to(digest),
            banded column => banded::add_to(column, digest)
        );
    }

    fn forward(&self, line: &mut [f64; MOST], x: f64) -> f64 {
        match_kind!(
            self,
            lambda lambda => line.first_mut().map_or(0.0, |line| lambda.forward(line, x)),
            blt blt => line.first_chunk_mut().map_or(0.0, |line| blt.forward(line, x)),
            banded column => {
                let (line, _) = line.split_at_mut(column.len().min(MOST));
                banded::forward(column, line, x)
            }
        )
    }

    fn backward(&self, line: &mut [f64; MOST], x: f64) -> f64 {
        match_kind!(
            self,
            lambda lambda => line.first_mut().map_or(0.0, |line| lambda.backward(line, x)),
            blt blt => line.first_chunk_mut().map_or(0.0, |line| blt.backward(line, x)),
            banded column => {
                let (line, _) = line.split_at_mut(column.len().min(MOST));
                banded::backward(column, line, x)
            }
        )
    }

    fn rounding(&self, steps: u32) -> f64 {
        match_kind!(self, lambda lambda => lambda.rounding(steps), blt blt => blt.rounding(steps), banded _column => 1.0)
    }

    fn fits(&self, steps: u32, largest: f64) -> bool {
        match_kind!(
            self,
            lambda lambda => lambda.fits(steps, largest),
            blt blt => blt.fits(steps, largest),
            banded _column => banded::fits(largest)
        )
    }

    #[inline]
    fn correlate(&self, z: i64, before: i64, age: u32, buffers: &mut [NoiseWord]) -> i64 {
        match_kind!(
            self,
            lambda lambda => lambda.correlate(z, before, age, buffers),
            blt blt => blt.correlate(z, before, age, buffers),
            banded column => banded::correlate(column, z, age, buffers)
        )
    }
}
