//! Charges with records that are not durable yet, and receipts for durable charges.
//!
//! ```text
//! prepare ─► Due ─ the caller persists its record, blocking or not ─► Due::persisted ─► Receipt ─► open_charged
//! ```
//!
//! A [`Due`] borrows its ledger, so only one exists at a time. The ledger opens no other step until the `Due` is
//! confirmed or dropped. Records therefore reach the store in order, and numbers do not repeat. A [`Receipt`] borrows
//! nothing, because its record is durable.
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

/// A step that may open once its record is durable. Dropping it burns the step: its number is never used again.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
/// let (mut state, mut ledger) = (config.state::<3>(), Ledger::resume((), 100, 0));
/// let due = config.prepare(&mut state, &mut ledger)?;
/// assert_eq!(due.step(), 0);
/// let record = due.record().expect("each step is recorded");
/// // Write the record here, and continue only if it is durable.
/// assert_eq!((record.budget, record.paid), (100, 1));
/// let receipt = due.persisted();
/// assert_eq!(config.open_charged(&mut state, receipt)?.number(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the step's number is burned if it is not opened"]
#[derive(Debug)]
pub struct Due<'l> {
    record: Option<Record>,
    receipt: Receipt,
    /// The ledger's count of durable steps. `None` for a filter, which has no such count.
    durable: Option<&'l mut u32>,
    lent: PhantomData<&'l mut ()>,
}

impl<'l> Due<'l> {
    pub(crate) fn new(record: Option<Record>, receipt: Receipt, durable: Option<&'l mut u32>) -> Self {
        Self { record, receipt, durable, lent: PhantomData }
    }

    /// Confirms that the record is durable. Writes nothing.
    ///
    /// The confirmation must be true. If a restart loses the charge of a released step, it releases the same number
    /// again, with the same noise.
    pub fn persisted(self) -> Receipt {
        if let (Some(durable), Some(record)) = (self.durable, self.record) {
            *durable = record.paid;
        }
        self.receipt
    }

    /// Returns the record that must be durable before the step opens. Returns `None` if an earlier record covers this
    /// step ([`with_reserve`](super::Ledger::with_reserve)).
    #[must_use]
    pub fn record(&self) -> Option<Record> {
        self.record
    }

    /// Returns the number of the step.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.receipt.step
    }
}

/// A durable charge, which opens one step, once. It has no `Clone`. It is bound to the step's number and to the charged
/// configuration.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
/// let (mut state, mut ledger) = (config.state::<3>(), Ledger::resume((), 100, 41));
/// let receipt: Receipt = config.prepare(&mut state, &mut ledger)?.persisted();
/// assert_eq!(config.open_charged(&mut state, receipt)?.number(), 41);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the step's number is burned if it is not opened"]
#[derive(Debug)]
pub struct Receipt {
    /// Number of the step.
    pub(crate) step: u32,
    /// Number of steps charged before it.
    pub(crate) charged: u32,
    pub(crate) noise: ChargedNoise,
}

/// The noise that was charged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ChargedNoise {
    /// Noise factor and sampling rate, if they were chosen from released values.
    pub(crate) chosen: Option<(f64, Rate)>,
    /// Fingerprint of the configuration.
    pub(crate) fingerprint: u64,
}
