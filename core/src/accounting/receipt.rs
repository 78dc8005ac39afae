//! A charge whose record is not durable yet, and the receipt for one whose record is.
//!
//! ```text
//! prepare ─► Due ─ the caller persists its record, blocking or not ─► Ledger::confirm ─► Receipt ─► open_charged
//! ```

use super::Record;

/// A step that may open once its record is durable. Dropping it burns the step: its number is never given again.
#[must_use = "the step's number is burned if it is not opened"]
#[derive(Debug)]
pub struct Due {
    pub(super) record: Option<Record>,
    pub(super) receipt: Receipt,
}

impl Due {
    pub(crate) fn new(record: Option<Record>, receipt: Receipt) -> Self {
        Self { record, receipt }
    }

    /// What must be durable before the step opens; none if an earlier record covers this step
    /// ([`with_reserve`](super::Ledger::with_reserve)).
    #[must_use]
    pub fn record(&self) -> Option<Record> {
        self.record
    }

    /// The number of the step.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.receipt.step
    }
}

/// Opens one step, once: a charge that is durable. It has no `Clone`, and is bound to the step's number and to the noise that
/// was charged.
#[must_use = "the step's number is burned if it is not opened"]
#[derive(Debug)]
pub struct Receipt {
    /// The number of the step.
    pub(crate) step: u32,
    /// Steps charged before it.
    pub(crate) charged: u32,
    pub(crate) noise: ChargedNoise,
}

/// The noise that was charged for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ChargedNoise {
    /// The noise factor, if it was chosen from released values.
    pub(crate) factor: Option<f64>,
    /// The noise multiplier of the gradient.
    pub(crate) multiplier: f64,
    /// The noise multiplier of the counts, if any are taken.
    pub(crate) counts: Option<f64>,
}
