//! The privacy cost of releasing the best of a random number of candidates.
//!
//! A search draws K from a [`CandidateCount`], runs a mechanism K times and releases the output with the best score.
//! The score is part of the output: it is a release that is charged with the candidate, or a function of public data. K
//! and the other outputs stay secret.
//!
//! A candidate draws its settings at random from a public list. The divergence of the mixture is at most the largest of
//! the list at each order. The privacy cost of the search is then little more than that of two or three candidates, for
//! any number of candidates.
//!
//! - [`CandidateCount`] is a distribution of K. `negative_binomial` and `poisson` have its bounds, with proofs.

mod count;
mod curve;
mod fraction;
mod negative_binomial;
mod poisson;
#[cfg(test)]
mod tests;

pub use count::CandidateCount;
pub use curve::Curve;
pub(crate) use curve::{NOTHING, epsilon, larger, of_events, sum};
pub use fraction::Fraction;
