//! Arguments: flags, run files and a program's keywords as types.

pub(in crate::cli) mod augment;
pub(in crate::cli) mod data;
mod defaults;
pub(in crate::cli) mod flags;
pub(in crate::cli) mod given;
pub(in crate::cli) mod help;
pub(in crate::cli) mod machine;
pub(in crate::cli) mod method;
pub(in crate::cli) mod model;
pub(in crate::cli) mod near_miss;
pub(in crate::cli) mod optimizer;
mod run_config;
pub(in crate::cli) mod settings;
pub(in crate::cli) mod text;
pub(in crate::cli) mod train;
