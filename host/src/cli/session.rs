//! Session of a running command: caller, signals, progress, answers and states.

pub(in crate::cli) mod caller;
pub(in crate::cli) mod charge;
pub(in crate::cli) mod command_line;
pub(in crate::cli) mod event_log;
pub(in crate::cli) mod finish;
pub(in crate::cli) mod in_memory;
pub(in crate::cli) mod network;
pub(in crate::cli) mod output;
pub(in crate::cli) mod progress;
pub(in crate::cli) mod ranks;
pub(in crate::cli) mod resume;
pub(in crate::cli) mod row_warnings;
pub(in crate::cli) mod run_folder;
pub(in crate::cli) mod signals;
pub(in crate::cli) mod watch;
