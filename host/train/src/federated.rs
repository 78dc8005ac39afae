//! Federated rounds: the plan that all sides are given, a device's round, the server's round, and all of it in one process.
//!
//! ```text
//! FederationPlan ─► device: draw units ─ contributions ─ clip, sum, noise (core) ─► bytes
//!                ─► server: charge the round ─ Aggregate ─ next parameters
//! ```
//!
//! A *unit* is what is protected: a sample, or a user with all of its samples. A device draws its own units, each by a coin, so nobody
//! else knows the draw. What it emits has its own noise ([`damper_core::update`]).

mod client;
mod contributions;
mod error;
mod local_steps;
mod plan;
mod price;
mod round_ledger;
mod server;
mod simulation;
mod users;

pub use client::{Device, DeviceData, Machine, Request};
pub use error::FederationError;
pub use local_steps::LocalSteps;
pub use plan::{Aggregation, DeviceNoise, FederationPlan, PlanSettings, Unit};
pub use price::FederationEpsilon;
pub use round_ledger::RoundLedger;
pub use server::ServerModel;
pub use simulation::{Absent, simulate};
pub use users::Users;
