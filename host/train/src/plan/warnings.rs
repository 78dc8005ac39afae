//! Warnings before a run, with a function for each rule.

pub(super) mod correlated;
pub(super) mod data;
pub(super) mod released_noise;
pub(super) mod settings;

/// The warnings of a run, one line each.
#[derive(Clone, Default, Debug)]
pub struct Warnings {
    /// Warnings for the user who starts the run, and for the report. They are functions of public figures alone.
    pub public: Vec<String>,
    /// Warnings for the owner of the data. They depend on its rows and are not written to released files.
    pub of_data: Vec<String>,
}
