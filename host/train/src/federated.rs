//! Federated rounds: a device's round, the server's round, and all of it in one process. What all sides agree on is `damper-federation`'s.
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
pub use damper_federation::{
    Aggregation, Asked, Cohort, DeviceNoise, Envelope, FederationEpsilon, FederationError, FederationPlan, Keeping,
    Kept, LocalSteps, Member, MemberKey, PlanSettings, RoundLedger, SentLog, Unit, aggregate, approve, check_approved,
    has_joined, join, members_of_text, request_digest,
};
pub use error::RoundError;
pub use server::ServerModel;
pub use simulation::{Absent, simulate};
pub use users::Users;
