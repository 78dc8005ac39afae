//! What tests need: graphs written by hand, and whole nets.

mod builder;
pub mod losses;
pub mod nets;
pub mod pieces;
pub mod rewritten;
pub mod wide;

pub use super::emit::BATCH_FIRST;
pub use super::rules::{RULES, Rule};
pub use builder::GraphBuilder;

use super::DeriveOptions;
use crate::graph::Graph;

/// A graph whose gradients are checked.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is special about it.
    pub name: String,
    /// The graph; its parameters hold the values at which it is checked.
    pub graph: Graph,
    /// The loss.
    pub options: DeriveOptions,
}
