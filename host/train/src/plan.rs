//! Everything that is fixed before the first row is read: rates, noise, steps and the privacy cost.

pub(crate) mod before_steps;
mod check;
pub(crate) mod correlation;
pub(crate) mod equation6;
pub(crate) mod graphs;
pub(crate) mod held_out;
pub(crate) mod inputs;
pub(crate) mod model;
pub(crate) mod prepare;
pub(crate) mod price;
pub(crate) mod read;
pub(crate) mod replaced;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod run_plan;
pub(crate) mod sum_place;
pub(crate) mod terms;
pub(crate) mod tuning;
pub(crate) mod warnings;
pub(crate) mod weights;
