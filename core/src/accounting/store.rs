//! Persistence of a ledger or a filter: charges survive crashes, power cuts and restarts.

/// Persisted state of a ledger or a filter.
///
/// ```
/// use damper_core::accounting::Record;
///
/// // A ledger of 100 steps after the first.
/// let record = Record { budget: 100, paid: 1, ..Record::NONE };
/// assert_eq!((record.divergence, record.order, record.fingerprint), (0.0, 0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// Total number of steps that may be released. 0 for a filter.
    pub budget: u32,
    /// Number of charged steps, including reserved steps.
    pub paid: u32,
    /// Rényi divergence spent by a [`RenyiFilter`](super::RenyiFilter), finite and at least 0. 0 for a ledger of steps.
    pub divergence: f64,
    /// Order of that divergence. 0 for a ledger of steps.
    pub order: u32,
    /// [Fingerprint](crate::step::StepConfig::fingerprint) of the charged configuration. 0 if no step was opened.
    pub fingerprint: u64,
}

impl Record {
    /// Record before the first charge.
    pub const NONE: Self = Self { budget: 0, paid: 0, divergence: 0.0, order: 0, fingerprint: 0 };
}

/// Durable storage for a ledger or a filter. `persist` returns only when the record would survive a power cut.
///
/// ```
/// use damper_core::accounting::{Ledger, ReadStore, Record, Store};
///
/// /// Two copies, of which the second is written only after the first.
/// struct Copies([Record; 2]);
///
/// impl Store for Copies {
///     type Error = &'static str;
///     fn persist(&mut self, record: Record) -> Result<(), Self::Error> {
///         self.0.fill(record);
///         Ok(())
///     }
///     fn charged_steps(&self) -> u32 {
///         self.record().paid
///     }
/// }
///
/// impl ReadStore for Copies {
///     fn record(&self) -> Record {
///         if self.0[0].paid > self.0[1].paid { self.0[0] } else { self.0[1] }
///     }
/// }
///
/// let mut ledger = Ledger::open(Copies([Record::NONE; 2]), 10)?;
/// assert_eq!(ledger.charge(), Ok(0));
/// let store = ledger.into_store();
/// assert_eq!(Ledger::open(store, 10)?.charged_steps(), 1);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait Store {
    /// Error of a failed write.
    type Error;

    /// Persists the record, in place of the previous record.
    ///
    /// # Errors
    ///
    /// Fails if the record may not be durable. The step must then not be released.
    fn persist(&mut self, record: Record) -> Result<(), Self::Error>;

    /// Returns the number of charged steps in the store, or 0 if it cannot be read. A ledger uses no number below it.
    fn charged_steps(&self) -> u32 {
        0
    }
}

/// A store that can be read, so a restart continues from its content.
pub trait ReadStore: Store {
    /// Returns the last persisted record, or zeros if there is none yet.
    fn record(&self) -> Record;
}

impl<S: Store + ?Sized> Store for &mut S {
    type Error = S::Error;

    fn persist(&mut self, record: Record) -> Result<(), S::Error> {
        (**self).persist(record)
    }

    fn charged_steps(&self) -> u32 {
        (**self).charged_steps()
    }
}

impl<S: ReadStore + ?Sized> ReadStore for &mut S {
    fn record(&self) -> Record {
        (**self).record()
    }
}

/// A store without persistence, for tests and simulations. A restart begins again from zero.
///
/// ```
/// use damper_core::accounting::{Ledger, ReadStore as _, Volatile};
///
/// let mut ledger = Ledger::open(Volatile, 10)?;
/// assert_eq!(ledger.charge(), Ok(0));
/// assert_eq!(ledger.into_store().record().paid, 0);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Volatile;

impl Store for Volatile {
    type Error = core::convert::Infallible;

    fn persist(&mut self, _record: Record) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl ReadStore for Volatile {
    fn record(&self) -> Record {
        Record::NONE
    }
}

/// Stores the last record, and fails at chosen writes.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) persisted: Record,
    pub(super) writes: u32,
    pub(super) fail_at: Option<u32>,
}

#[cfg(test)]
impl Recorder {
    pub(super) fn new() -> Self {
        Self { persisted: Record::NONE, writes: 0, fail_at: None }
    }
}

#[cfg(test)]
impl Store for Recorder {
    type Error = ();

    fn persist(&mut self, record: Record) -> Result<(), ()> {
        self.writes += 1;
        if self.fail_at == Some(self.writes) {
            return Err(());
        }
        self.persisted = record;
        Ok(())
    }
}

#[cfg(test)]
impl ReadStore for Recorder {
    fn record(&self) -> Record {
        self.persisted
    }
}
