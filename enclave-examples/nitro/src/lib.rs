//! The interface between a Nitro enclave and its environment: addresses, frames, and the calls in them.
//!
//! ```text
//! parent ─ stream ─► enclave ─ stream ─► platform: counter and sealing key
//! ```

mod address;
mod frame;

pub use address::{ByteStream, StreamAddress};
pub use frame::{LONGEST, receive, send};

/// A call of the parent: the first byte of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ParentCall {
    /// Starts the run, with nothing charged.
    Provision = 0,
    /// Continues from the sealed state in the frame.
    Resume = 1,
    /// Continues from a state that may be older than the newest charge. The steps since are lost.
    ResumeOlder = 2,
    /// One private step.
    Step = 3,
    /// The sealed state.
    Seal = 4,
    /// The released parameters, f32.
    Params = 5,
    /// Steps charged, and held-out samples that the parameters classify correctly: two u32.
    Report = 6,
}

/// An answer of the enclave to its parent: the first byte of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Say {
    /// The call's result: a `EnclaveStatus` as a byte, and the requested data.
    Done = 0,
    /// Asks to store this sealed ledger. The parent answers a byte: 1 if it claims that it did.
    PutLedger = 1,
    /// Asks for the sealed ledger. The parent answers it, or an empty frame.
    GetLedger = 2,
}

/// A request of the enclave to the platform: the frame's one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ask {
    /// Returns the counter's count: u64.
    Count = 0,
    /// Adds 1 to the counter and returns the new count: u64.
    Increment = 1,
    /// Returns the sealing key: 32 bytes.
    SealingKey = 2,
}
