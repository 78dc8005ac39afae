//! Secure aggregation of damper's updates by [Prio3SumVec](https://datatracker.ietf.org/doc/draft-irtf-cfrg-vdaf/): two aggregators that do
//! not collude add the updates of a round, and neither sees one.
//!
//! ```text
//! device ─ update ─► Gateway ─ Upload ─┬─► Aggregator, leader ◄─ key, verifiers, cohort ─► Aggregator, helper
//!                    shares, proof,    │        │    memory on disk            memory on disk    │
//!                    signature         └────────┼────────────────────────────────────────────────┤
//!                                               └──────────────► combine ◄───────────────────────┘ ─► sum, as `damper aggregate` writes it
//! ```
//!
//! The command `damper-prio` runs each of them as a process of its own, over mutual TLS. Its README has the commands.
//!
//! The gateway stands on the device's side: it sees the update. In a gateway of many devices they trust it, as a server of their own.
//!
//! # What is proved
//!
//! That each integer of an update is in the [`Range`]. **Not** that the clipped contributions had a norm of at most the clip, nor that the noise
//! was added: a device that lies moves each coordinate of the sum by as much as the range has room for. That harms the model, and, if it adds no
//! noise, it is not one of the honest devices that the smallest cohort counts: plan for it as a colluder.
//!
//! # What is hidden
//!
//! From each aggregator everything but who takes part in which round and when, the plan, and that the proof holds. From whoever collects,
//! everything but the sum. The sum is what is private, by the noise in it (`damper_accounting::NoiseShares`).

mod aggregator;
mod bytes;
mod collector;
mod error;
mod folder;
mod gateway;
mod kept_report;
mod leader;
pub mod link;
mod message;
mod party;
mod range;
mod refusal;
mod report;
mod report_set;
mod scheme;
pub mod server;
pub mod tls;
mod upload;
mod verify;

pub use aggregator::{Aggregator, PendingReport};
pub use collector::combine;
pub use error::{FolderError, PrioError};
pub use gateway::shard;
pub use kept_report::{Gateway, GatewayError};
pub use leader::{Helper, Leader};
pub use message::{AggregatorRequest, Answer};
pub use party::{Party, Service};
pub use range::Range;
pub use refusal::Refusal;
pub use report::{InputShare, Report};
pub use report_set::ReportSet;
pub use scheme::Scheme;
pub use upload::Upload;
pub use verify::{Role, SumShare, Verifying};
