//! Secure aggregation of damper's updates by [Prio3SumVec](https://datatracker.ietf.org/doc/draft-irtf-cfrg-vdaf/): two aggregators that do
//! not collude add the updates of a round, and neither sees one.
//!
//! ```text
//! device ─ update ─► Gateway ─ Report ─┬─► Aggregator (leader) ◄─ verifier ─► Aggregator (helper)
//!                    offset, shares    │          │                                  │
//!                    range proof       └──────────┼───────── half of the sum ────────┤
//!                                                 └──────────► Collector ◄───────────┘ ─► sum, as `damper aggregate` writes it
//! ```
//!
//! The gateway stands on the device's side: it sees the update. In a gateway of many devices they trust it, as a server of their own.
//!
//! # What is proved
//!
//! That each integer of an update is in the [`Range`]. **Not** that the clipped contributions had a norm of at most the clip, nor that the noise
//! was added: a device that lies moves each coordinate of the sum by as much as the range has room for. That harms the model, and, if it adds no
//! noise, it is not one of the honest devices that the smallest cohort counts.
//!
//! # What is hidden
//!
//! From each aggregator everything but the header: which device takes part in which round, the configuration, and that the proof holds.
//! From whoever collects, everything but the sum. The sum is what is private, by the noise in it (`damper_accounting::NoiseShares`).

mod aggregator;
mod collector;
mod error;
mod gateway;
mod range;
mod report;
mod scheme;

pub use aggregator::{Aggregator, Role, Share, Verifying};
pub use collector::collect;
pub use error::PrioError;
pub use gateway::shard;
pub use range::Range;
pub use report::{InputShare, Report};
pub use scheme::Scheme;
