//! The run inside an enclave: the program of the firmware examples, with its state sealed and its ledger bound to the
//! counter. The host only gets released parameters and blobs that it can neither read nor change.
//!
//! ```text
//! enclave ─► damper-core, damper-journal, the model and samples of the firmware examples
//!    └─► seal ─► platform: counter, sealing key, entropy; the host's shelf of blobs
//! ```
//!
//! `../../docs/enclaves.md` lists the simulated parts, and what a product must do instead.
#![no_std]
#![forbid(unsafe_code)]

mod enclave;
mod platform;
mod seal;
mod shelf;

pub use enclave::{Enclave, EnclaveStatus, SEALED_STATE};
pub use platform::{Platform, Refused, SEALED_LEDGER};
