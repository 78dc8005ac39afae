//! Persistence of a ledger or a filter: no crash, power cut or restart forgets a charge.

/// A place that survives a restart.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// Steps that may be released in all; of a filter, 0.
    pub budget: u32,
    /// Steps charged, those reserved included.
    pub paid: u32,
    /// The Rényi divergence spent by a [`RenyiFilter`](super::RenyiFilter), finite and at least 0; 0 of a ledger of steps.
    pub divergence: f64,
    /// The order of that divergence; 0 of a ledger of steps.
    pub order: u32,
    /// The [fingerprint](crate::step::StepConfig::fingerprint) of the configuration that is charged; 0 if no step was opened.
    pub fingerprint: u64,
}

impl Record {
    /// Nothing was charged yet.
    pub const NONE: Self = Self { budget: 0, paid: 0, divergence: 0.0, order: 0, fingerprint: 0 };
}

/// Durable memory for a ledger or a filter. `persist` returns only when the record would survive a power cut.
pub trait Store {
    /// Why it could not be persisted.
    type Error;

    /// Persists the state; it replaces the record before it.
    ///
    /// # Errors
    ///
    /// The record may not be durable: the step must not be released.
    fn persist(&mut self, record: Record) -> Result<(), Self::Error>;

    /// Steps that the store holds as charged; 0 if it cannot tell. A ledger gives no number below.
    fn charged_steps(&self) -> u32 {
        0
    }
}

/// A store that can be read: a restart goes on from what it holds.
pub trait ReadStore: Store {
    /// The last record persisted; zeros if there is none yet.
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

/// Forgets everything: for tests and simulations, where a restart starts again.
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

/// Remembers the last record; fails at chosen writes.
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
