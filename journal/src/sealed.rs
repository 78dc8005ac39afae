//! A ledger's charges in an enclave: a sealed blob kept by a host that is not trusted, and a counter that is.
//!
//! The host can lose a blob, hand over an older one, or run the enclave twice. It cannot read or forge a blob, nor turn the
//! counter back. A charge takes a count, puts a blob that names the count, and **only then** is a step released. Each count
//! has an [`Allowance`]: under count `v`, counted from provisioning, no more than `v` allowances are ever paid. So whatever the
//! host hands over:
//!
//! - the blob of the counter's own count is the newest charge, exactly;
//! - with any other, `v` allowances are taken as paid, the most that there can have been.
//!
//! *Why.* An increment gives each count to one instance alone, so at most one blob has it. Its writer held the count before
//! (it stops if it is given any other) and so, by induction, a bound on all that was released before. What is released
//! under a count is at most what its blob holds. Step numbers below what is charged are never given out again, so two instances of
//! one ledger share none: of two that hold the same count, one is given the next.
//!
//! A ledger that reserves exactly its allowance loses no more than one charge by a lost blob. A filter loses the difference
//! between what its steps cost and their allowances. Neither is locked out, and neither loses privacy. Two things are beyond it:
//! whoever can provision can begin a budget again, and so can whoever runs the enclave with another counter.
//!
//! # Cost
//!
//! One increment a charge: prepay where the counter is slow or wears out. 80 bytes of memory.

use crate::block;
use crate::{Configuration, FirstBoot};
use core::fmt;
use damper_core::accounting::{ReadStore, Record, Store};
use damper_core::numerics::up::{from_u64_up, mul_up};

/// Bytes of a blob before it is sealed.
pub const BLOB: usize = 40;
/// "DJE2": a charge of the second format, whose fingerprint is made of the step.
const KIND: u32 = u32::from_le_bytes(*b"DJE2");

/// A counter that nobody can turn back, not even by cutting power: a TPM's, replay-protected memory's, a quorum's.
pub trait MonotonicCounter {
    /// Why it did not count.
    type Error;

    /// The count.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    fn read(&mut self) -> Result<u64, Self::Error>;

    /// Adds 1 and returns the new count, which it returns to nobody else.
    ///
    /// # Errors
    ///
    /// It may or may not have counted.
    fn increment(&mut self) -> Result<u64, Self::Error>;
}

/// Keeps one blob outside the enclave, sealed: encrypted and authenticated with a key that this enclave alone can have.
pub trait Vault {
    /// Why it failed; of [`get`](Self::get), also that what came back was not sealed by this enclave.
    type Error;

    /// Seals the blob and gives it to the host.
    ///
    /// # Errors
    ///
    /// The host may or may not have it.
    fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Self::Error>;

    /// Unseals what the host gives back: none if it has nothing.
    ///
    /// # Errors
    ///
    /// The host failed, or what it gave is not authentic.
    fn get(&mut self) -> Result<Option<[u8; BLOB]>, Self::Error>;
}

/// The charge that each count of the counter allows.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allowance {
    /// Steps: of a ledger those it reserves, of a filter 1.
    pub steps: u32,
    /// Rényi divergence: of a ledger 0, of a filter the dearest step's.
    pub divergence: f64,
}

/// Why a charge was not persisted, or nothing may be released. `C` is the counter's error, `V` the vault's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SealedError<C, V> {
    /// The counter failed.
    Counter(C),
    /// The vault failed.
    Vault(V),
    /// The host has no blob: it was not provisioned, or the host withholds it.
    Blank,
    /// A vault to be provisioned has a blob.
    Occupied,
    /// The blob is another configuration's, another allowance's or an earlier version's, or the ledger is another's.
    OtherConfiguration,
    /// The budget is above 2³¹ steps.
    Budget,
    /// The counter is behind the blob: it is another counter.
    CounterBehind,
    /// Another instance has taken a count. This one is closed.
    Forked,
    /// A charge that is not above the one before it.
    Backwards,
    /// A charge of more than the allowances of all counts so far.
    Allowance,
    /// A charge failed before: open again.
    Closed,
}

impl<C: fmt::Display, V: fmt::Display> fmt::Display for SealedError<C, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter(e) => return write!(f, "the counter failed: {e}"),
            Self::Vault(e) => return write!(f, "the vault failed: {e}"),
            Self::Blank => "there is no sealed ledger",
            Self::Occupied => "a vault that is to be provisioned must be empty",
            Self::OtherConfiguration => "the sealed ledger belongs to another configuration, or to an earlier version",
            Self::Budget => "the budget must be at most 2^31 steps",
            Self::CounterBehind => "the counter is behind the sealed ledger",
            Self::Forked => "another instance uses the same ledger",
            Self::Backwards => "a charge must be above the one before it",
            Self::Allowance => "a charge is above its allowance",
            Self::Closed => "a charge failed: open the ledger again",
        })
    }
}

impl<C, V> core::error::Error for SealedError<C, V>
where
    C: fmt::Debug + fmt::Display,
    V: fmt::Debug + fmt::Display,
{
}

/// The charges of one run, sealed.
#[derive(Debug)]
pub struct SealedJournal<C, V> {
    counter: C,
    vault: V,
    run: Configuration,
    allowance: Allowance,
    /// The count at provisioning.
    origin: u64,
    /// The count that this instance holds; none after a failure.
    count: Option<u64>,
    paid: u32,
    divergence: f64,
}

type Failure<C, V> = SealedError<<C as MonotonicCounter>::Error, <V as Vault>::Error>;

impl<C: MonotonicCounter, V: Vault> SealedJournal<C, V> {
    /// Begins a ledger with nothing paid. Once in a run, never because opening failed: [`FirstBoot`] says why.
    ///
    /// # Errors
    ///
    /// The vault has a blob, or something failed.
    pub fn provision(
        mut counter: C,
        mut vault: V,
        run: Configuration,
        allowance: Allowance,
        _: FirstBoot,
    ) -> Result<Self, Failure<C, V>> {
        if !run.fits() {
            return Err(SealedError::Budget);
        }
        if vault.get().map_err(SealedError::Vault)?.is_some() {
            return Err(SealedError::Occupied);
        }
        let run = allowed(run, allowance);
        let origin = counter.increment().map_err(SealedError::Counter)?;
        vault.put(&blob(&run, origin, origin, 0, 0.0)).map_err(SealedError::Vault)?;
        Ok(Self { counter, vault, run, allowance, origin, count: Some(origin), paid: 0, divergence: 0.0 })
    }

    /// Opens the ledger of a run.
    ///
    /// # Errors
    ///
    /// There is none, it is another configuration's, or something failed: nothing may be released.
    pub fn open(mut counter: C, mut vault: V, run: Configuration, allowance: Allowance) -> Result<Self, Failure<C, V>> {
        if !run.fits() {
            return Err(SealedError::Budget);
        }
        let found = vault.get().map_err(SealedError::Vault)?.ok_or(SealedError::Blank)?;
        let run = allowed(run, allowance);
        let mut words = [0; BLOB / 4];
        for (word, bytes) in words.iter_mut().zip(found.chunks_exact(4)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        let [kind, paid, low, high, count, count_high, origin, origin_high, divergence, divergence_high] = words;
        if [kind, paid, low, high] != block::head(KIND, paid, &run) {
            return Err(SealedError::OtherConfiguration);
        }
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (held, origin) = (long(count, count_high), long(origin, origin_high));
        let divergence = f64::from_bits(long(divergence, divergence_high));
        let count = counter.read().map_err(SealedError::Counter)?;
        if count < held || held < origin {
            return Err(SealedError::CounterBehind);
        }
        let (paid, divergence) = if count == held { (paid, divergence) } else { allowance.times(count - origin) };
        Ok(Self { counter, vault, run, allowance, origin, count: Some(count), paid, divergence })
    }

    /// Returns the charged record, from which a ledger or a filter resumes.
    #[must_use]
    pub fn record(&self) -> Record {
        self.run.record(self.paid, self.divergence)
    }
}

impl Allowance {
    /// Returns the charge that so many counts allow: steps, and a divergence that is rounded up.
    pub(crate) fn times(&self, counts: u64) -> (u32, f64) {
        let steps = u32::try_from(counts).unwrap_or(u32::MAX).saturating_mul(self.steps);
        (steps, if self.divergence == 0.0 { 0.0 } else { mul_up(from_u64_up(counts), self.divergence) })
    }
}

/// The configuration of a run with this allowance: another allowance is another ledger.
fn allowed(run: Configuration, allowance: Allowance) -> Configuration {
    run.with(&allowance.steps.to_le_bytes()).with(&allowance.divergence.to_bits().to_le_bytes())
}

fn blob(run: &Configuration, origin: u64, count: u64, paid: u32, divergence: f64) -> [u8; BLOB] {
    let [kind, paid, low, high] = block::head(KIND, paid, run);
    let head = u64::from(kind) | u64::from(paid) << 32;
    let tag = u64::from(low) | u64::from(high) << 32;
    let mut blob = [0; BLOB];
    let bytes = [head, tag, count, origin, divergence.to_bits()].map(u64::to_le_bytes);
    for (byte, from) in blob.iter_mut().zip(bytes.as_flattened()) {
        *byte = *from;
    }
    blob
}

impl<C: MonotonicCounter, V: Vault> ReadStore for SealedJournal<C, V> {
    fn record(&self) -> Record {
        self.record()
    }
}

impl<C: MonotonicCounter, V: Vault> Store for SealedJournal<C, V> {
    type Error = Failure<C, V>;

    fn charged_steps(&self) -> u32 {
        self.paid
    }

    fn persist(&mut self, record: Record) -> Result<(), Self::Error> {
        if !self.run.takes(&record) {
            return Err(SealedError::OtherConfiguration);
        }
        // Of a divergence that is not a number, no comparison holds.
        if !(record.paid > self.paid && record.divergence >= self.divergence) {
            return Err(SealedError::Backwards);
        }
        let held = self.count.ok_or(SealedError::Closed)?;
        let next = held.saturating_add(1);
        let (steps, divergence) = self.allowance.times(next.saturating_sub(self.origin));
        let within = record.paid <= steps && record.divergence <= divergence;
        if !within {
            return Err(SealedError::Allowance);
        }
        // Whatever fails from here on, this instance no longer knows which count it holds.
        self.count = None;
        if self.counter.increment().map_err(SealedError::Counter)? != next {
            return Err(SealedError::Forked);
        }
        let blob = blob(&self.run, self.origin, next, record.paid, record.divergence);
        self.vault.put(&blob).map_err(SealedError::Vault)?;
        (self.count, self.paid, self.divergence) = (Some(next), record.paid, record.divergence);
        Ok(())
    }
}
