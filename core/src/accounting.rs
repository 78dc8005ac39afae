//! What a run releases, and what that costs.

pub mod event;
pub mod renyi;
