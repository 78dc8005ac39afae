//! Statistics of the noise: ten million draws and more of every mechanism, each through the public door, against the
//! law that is accounted; and independence of what must not share a stream.
//!
//! Every comparison is a probability under the law, two-sided, and fails below [`LEVEL`]. There are fewer than a
//! thousand of them, so a right implementation fails anywhere with probability below 1e-9 over the choice of the seeds.
//! The seeds are fixed: a pass is the same pass at every run and on every target, whose bits are tied to these by the
//! digests of `src/vectors` and the packs. Controls (σ off by 1 %, half the noise, a biased rounding, a repeated block,
//! a shared stream) must fail at the same level.
//!
//! In the test profile for releases alone: unoptimised these draws take minutes.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

mod draws;
mod independence;
mod law;
mod noise;
mod tail;
mod timing;
mod words;

/// Least probability of a comparison that passes.
const LEVEL: f64 = 1e-12;

/// Draws of each law.
const DRAWS: usize = 10_000_000;
