//! Secure aggregation of damper's updates by [Prio3SumVec](https://datatracker.ietf.org/doc/draft-irtf-cfrg-vdaf/). Two
//! aggregators that do not collude add the updates of a round, and neither sees an update.
//!
//! ```text
//! device ─ update ─► Gateway ─ Upload ─┬─► Aggregator, leader ◄─ key, verifiers, cohort ─► Aggregator, helper
//!                    shares, proof,    │        │    memory on disk            memory on disk    │
//!                    signature         └────────┼────────────────────────────────────────────────┤
//!                                               └──────────────► combine ◄───────────────────────┘ ─► sum, as `damper aggregate` writes it
//! ```
//!
//! The command `damper-prio` runs each party as a separate process, over mutual TLS. Its README has the commands.
//!
//! The gateway is on the device's side and sees the update. Devices that share a gateway must trust it like their own
//! server.
//!
//! # Proved properties
//!
//! Each integer of an update is in the [`Range`]. There is **no** proof that the clipped contributions had a norm of at
//! most the clip, or that the noise was added. A dishonest device moves each coordinate of the sum by up to the size of
//! the range. That harms the model. If the device adds no noise, it is not one of the honest devices of the smallest
//! cohort. Plan for it as a colluder.
//!
//! # Hidden values
//!
//! Each aggregator sees only the plan, the devices of each round with their times, and that the proof holds. The
//! collector sees only the sum. The noise in the sum makes it private (`damper_accounting::NoiseShares`).

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
