//! Subcommands on model files.

pub(in crate::cli) mod compile;
pub(in crate::cli) mod derive;
pub(in crate::cli) mod export;
pub(in crate::cli) mod fix;
pub(in crate::cli) mod gradients;
pub(in crate::cli) mod init;
pub(in crate::cli) mod inspect;
