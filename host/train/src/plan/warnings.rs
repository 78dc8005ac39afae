//! Warnings before a run: a function for each rule.

pub(super) mod correlated;
pub(super) mod data;
pub(super) mod released_noise;
pub(super) mod settings;

/// The warnings of a run, a line each.
#[derive(Clone, Default, Debug)]
pub struct Warnings {
    /// Those for whoever starts the run, and for the report: functions of public figures alone.
    pub public: Vec<String>,
    /// Those for whoever holds the data: what depends on its rows. They go into no released file.
    pub of_data: Vec<String>,
}
