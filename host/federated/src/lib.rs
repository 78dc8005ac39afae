//! Federated rounds: a device's round, the server's round, and a whole federation in one process. [`damper_federation`]
//! has the parts that all sides share. This crate opens no connections, and a server cannot choose what a device
//! computes.
//!
//! ```text
//! FederationPlan ─► device: draw units ─ contributions ─ clip, sum, noise (core) ─► bytes
//!                ─► server: charge the round ─ Aggregate ─ next parameters
//! ```
//!
//! A *unit* is protected: a sample, or a user with all of its samples. A device draws its own units, each by a
//! Bernoulli trial, so no other party learns the draw. Its updates have their own noise ([`damper_core::update`]).

mod charge;
mod client;
mod contributions;
mod error;
mod server;
mod simulation;
mod users;

pub use charge::charge_budget;
pub use client::{ChargedRound, Device, DeviceData, Listening, Machine, Request};
pub use error::RoundError;
pub use server::ServerModel;
pub use simulation::{Absent, simulate};
pub use users::Users;
