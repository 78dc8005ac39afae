//! Subcommands on noise, budgets and filters.

pub(in crate::cli) mod budget;
pub(in crate::cli) mod calibrate;
pub(in crate::cli) mod epsilon;
pub(in crate::cli) mod factorize;
pub(in crate::cli) mod filter;
