//! Statistics of the noise: at least ten million draws of every mechanism through the public API, compared with the
//! accounted distribution. Also tests of independence between streams.
//!
//! Every comparison is a two-sided probability under the distribution, and fails below [`LEVEL`]. There are fewer than
//! a thousand comparisons, so a correct implementation fails any with probability below 1e-9 over the choice of the
//! seeds. The seeds are fixed, so the result is the same at every run and on every target: the digests of `src/vectors`
//! and the packs fix the bits of all targets. Controls (σ off by 1 %, half the noise, a biased rounding, a repeated
//! block, a shared stream) must fail at the same level.
//!
//! In release builds only: unoptimised, these draws take minutes.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

mod draws;
mod independence;
mod law;
mod noise;
mod tail;
mod timing;
mod words;

/// The smallest probability of a comparison that passes.
const LEVEL: f64 = 1e-12;

/// Draws of each distribution.
const DRAWS: usize = 10_000_000;
