//! A charge whose record is not durable yet, and the receipt for one whose record is.
//!
//! ```text
//! prepare ─► Due ─ the caller persists its record, blocking or not ─► Due::persisted ─► Receipt ─► open_charged
//! ```
//!
//! A [`Due`] borrows its ledger. So one is out at a time, and the ledger is not opened again before it is confirmed or dropped: records
//! reach the store in order, and no number is given twice. A [`Receipt`] borrows nothing, because its record is durable.
//!
//! ```compile_fail,E0499
//! # use damper_core::prelude::*;
//! # let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build().unwrap();
//! # let (mut state, mut ledger) = (config.state::<3>(), Ledger::resume((), 9, 0));
//! let first = config.prepare(&mut state, &mut ledger).unwrap();
//! let second = config.prepare(&mut state, &mut ledger).unwrap();
//! let receipt = first.persisted();
//! ```

use super::{Rate, Record};
use core::marker::PhantomData;

/// A step that may open once its record is durable. Dropping it burns the step: its number is never given again.
#[must_use = "the step's number is burned if it is not opened"]
#[derive(Debug)]
pub struct Due<'l> {
    record: Option<Record>,
    receipt: Receipt,
    /// Steps that the ledger knows to be durable. A filter keeps no such number.
    durable: Option<&'l mut u32>,
    lent: PhantomData<&'l mut ()>,
}

impl<'l> Due<'l> {
    pub(crate) fn new(record: Option<Record>, receipt: Receipt, durable: Option<&'l mut u32>) -> Self {
        Self { record, receipt, durable, lent: PhantomData }
    }

    /// Says that the record is durable; writes nothing. This must be true: a restart that has forgotten a released step releases its
    /// number again, with the same noise.
    pub fn persisted(self) -> Receipt {
        if let (Some(durable), Some(record)) = (self.durable, self.record) {
            *durable = record.paid;
        }
        self.receipt
    }

    /// The record that must be durable before the step opens; none if an earlier record covers this step
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

/// Opens one step, once: a charge that is durable. It has no `Clone`, and is bound to the step's number and to the configuration that
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
    /// The noise factor and the sampling rate, if they were chosen from released values.
    pub(crate) chosen: Option<(f64, Rate)>,
    /// The configuration's fingerprint.
    pub(crate) fingerprint: u64,
}
