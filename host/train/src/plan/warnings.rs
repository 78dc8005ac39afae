//! Warnings before a run, one rule each.

pub(super) mod correlated;
pub(super) mod data;
pub(super) mod released_noise;
pub(super) mod settings;
