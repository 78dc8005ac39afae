//! Subcommands, one file for each.

pub(in crate::cli) mod aggregate;
pub(in crate::cli) mod audit;
pub(in crate::cli) mod compare;
pub(in crate::cli) mod config;
pub(in crate::cli) mod evaluate;
pub(in crate::cli) mod federation;
pub(in crate::cli) mod models;
pub(in crate::cli) mod planning;
pub(in crate::cli) mod replay;
pub(in crate::cli) mod report;
pub(in crate::cli) mod shell;
pub(in crate::cli) mod train;
