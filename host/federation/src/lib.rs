//! The parts of a federation that all sides share, without networking and training.
//!
//! ```text
//! FederationPlan ─► ε of each party
//!       │       └─► Member: a public key of each device
//!       ▼
//! device: RoundLedger, KeptUpdate ─► update ─► Envelope, signed ─► server: Aggregate ─► sum, Cohort, RoundLedger
//! ```
//!
//! This crate does not see data. The format of an update is in the core ([`damper_core::update`]).

pub mod aggregate;
mod approval;
mod cohort;
mod envelope;
mod error;
mod kept_update;
mod local_steps;
mod member;
mod plan;
mod price;
mod request;
mod room;
mod round_ledger;
mod sent_log;

pub use approval::{approve, check_approved, has_joined, join};
pub use cohort::Cohort;
pub use envelope::{Asked, Envelope, EnvelopeError};
pub use error::FederationError;
pub use kept_update::{Keeping, KeptUpdate};
pub use local_steps::LocalSteps;
pub use member::{Member, MemberKey, members_of_text};
pub use plan::{Aggregation, DeviceNoise, FederationPlan, PlanSettings, Unit};
pub use price::FederationEpsilon;
pub use request::request_digest;
pub use round_ledger::{RoundLedger, RoundStore};
pub use sent_log::SentLog;
