//! Federated rounds: a device's round, the server's round, and all of it in one process. What all sides agree on is [`damper_federation`]'s.
//! Nothing here opens a connection, and no server chooses what a device computes.
//!
//! ```text
//! FederationPlan ─► device: draw units ─ contributions ─ clip, sum, noise (core) ─► bytes
//!                ─► server: charge the round ─ Aggregate ─ next parameters
//! ```
//!
//! A *unit* is what is protected: a sample, or a user with all of its samples. A device draws its own units, each by a coin, so nobody
//! else knows the draw. What it emits has its own noise ([`damper_core::update`]).

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
