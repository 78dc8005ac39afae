//! The interface between a Nitro enclave and what is around it: addresses, frames, and the calls in them.
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
    /// Begins the run, with nothing charged.
    Provision = 0,
    /// Goes on from the sealed state in the frame.
    Resume = 1,
    /// The same; the state may be older than the newest charge, and the steps since are lost.
    ResumeOlder = 2,
    /// One private step.
    Step = 3,
    /// The sealed state.
    Seal = 4,
    /// The released parameters, f32.
    Params = 5,
    /// Steps charged, and held-out samples that the parameters name rightly: two u32.
    Report = 6,
}

/// An answer of the enclave to its parent: the first byte of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Say {
    /// The call's result: a `EnclaveStatus` as a byte, and what was asked for.
    Done = 0,
    /// Keep this sealed ledger. The parent answers a byte: 1 if it says that it did.
    PutLedger = 1,
    /// The sealed ledger, please. The parent answers it, or an empty frame.
    GetLedger = 2,
}

/// A request of the enclave to the platform: the frame's one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ask {
    /// The counter's count: u64.
    Count = 0,
    /// Adds 1 to the counter; the new count: u64.
    Increment = 1,
    /// The sealing key: 32 bytes.
    SealingKey = 2,
}
