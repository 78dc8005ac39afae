//! A ledger's charges in an enclave: a sealed blob on an untrusted host, and a trusted counter.
//!
//! The host can lose a blob, return an older blob, or run the enclave twice. It cannot read or forge a blob, or
//! decrement the counter. A charge increments the counter and stores a blob with the new count. **Only then** is a step
//! released. Each count has an [`Allowance`]: at count `v`, counted from provisioning, at most `v` allowances are
//! charged. So for any blob that the host returns:
//!
//! - The blob with the counter's current count has the newest charge, exactly.
//! - Any other blob counts as `v` charged allowances, the largest possible charge.
//!
//! *Proof.* An increment gives each count to one instance alone, so at most one blob has it. Its writer had the
//! previous count (it stops if it gets any other). So by induction it had a bound on everything released before. A
//! count releases at most the charge in its blob. Step numbers below the charge are never used again, so two instances
//! of one ledger share none: of two with the same count, only one gets the next count.
//!
//! If a blob is lost, a ledger that reserves exactly its allowance loses at most one charge. A filter loses the
//! difference between the cost of its steps and their allowances. Neither is locked out, and neither loses privacy. The
//! design does not prevent two cases: whoever can provision can restart a budget, and so can whoever runs the enclave
//! with another counter.
//!
//! # Cost
//!
//! One increment per charge. Reserve steps if the counter is slow or wears out. 80 bytes of memory.

use crate::block;
use crate::{Configuration, FirstBoot};
use core::fmt;
use damper_core::accounting::{ReadStore, Record, Store};
use damper_core::numerics::up::{from_u64_up, mul_up};

/// Bytes of a blob before it is sealed.
pub const BLOB: usize = 40;
/// "DJE2": a charge of the second format, whose fingerprint is computed from the step.
const KIND: u32 = u32::from_le_bytes(*b"DJE2");

/// A counter that cannot be decremented, not even by a power cut, such as that of a TPM, of replay-protected memory or
/// of a quorum.
///
/// ```
/// use damper_journal::MonotonicCounter;
///
/// /// Of a secure element. A product's counter survives power cuts, and nobody can set it back.
/// struct Counter(u64);
/// impl MonotonicCounter for Counter {
///     type Error = core::convert::Infallible;
///     fn read(&mut self) -> Result<u64, Self::Error> {
///         Ok(self.0)
///     }
///     fn increment(&mut self) -> Result<u64, Self::Error> {
///         self.0 += 1;
///         Ok(self.0)
///     }
/// }
///
/// assert_eq!((Counter(4).read(), Counter(4).increment()), (Ok(4), Ok(5)));
/// ```
pub trait MonotonicCounter {
    /// The error of the counter.
    type Error;

    /// The count.
    ///
    /// # Errors
    ///
    /// The counter cannot be read.
    fn read(&mut self) -> Result<u64, Self::Error>;

    /// Adds 1 and returns the new count. No other caller gets this count.
    ///
    /// # Errors
    ///
    /// The counter failed, and may or may not have counted.
    fn increment(&mut self) -> Result<u64, Self::Error>;
}

/// Storage for one blob outside the enclave. The blob is sealed: encrypted and authenticated with a key of this enclave
/// alone.
///
/// ```
/// use damper_journal::{BLOB, Vault};
///
/// /// A product encrypts and authenticates the blob with a key of the enclave.
/// struct Host(Option<[u8; BLOB]>);
/// impl Vault for Host {
///     type Error = core::convert::Infallible;
///     fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Self::Error> {
///         self.0 = Some(*blob);
///         Ok(())
///     }
///     fn get(&mut self) -> Result<Option<[u8; BLOB]>, Self::Error> {
///         Ok(self.0)
///     }
/// }
///
/// let mut host = Host(None);
/// assert_eq!(host.get(), Ok(None));
/// assert!(host.put(&[1; BLOB]).is_ok() && host.get() == Ok(Some([1; BLOB])));
/// ```
pub trait Vault {
    /// The error of the vault. [`get`](Self::get) also fails if this enclave did not seal the blob.
    type Error;

    /// Seals the blob and sends it to the host.
    ///
    /// # Errors
    ///
    /// The host failed, and may or may not have the blob.
    fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Self::Error>;

    /// Unseals the blob that the host returns. None if the host has no blob.
    ///
    /// # Errors
    ///
    /// The host failed, or its blob is not authentic.
    fn get(&mut self) -> Result<Option<[u8; BLOB]>, Self::Error>;
}

/// The charge that each count of the counter allows.
///
/// ```
/// use damper_journal::Allowance;
///
/// // Of a ledger that reserves 8 steps at a time.
/// let each = Allowance { steps: 8, divergence: 0.0 };
/// assert_eq!(each.steps, 8);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allowance {
    /// The number of steps: those that a ledger reserves, or 1 for a filter.
    pub steps: u32,
    /// The Rényi divergence: 0 for a ledger, or that of the most expensive step for a filter.
    pub divergence: f64,
}

/// An error of a sealed journal: a charge was not persisted, or nothing may be released. `C` is the counter's error,
/// `V` the vault's.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_journal::{Allowance, BLOB, Configuration, MonotonicCounter, SealedError, SealedJournal, Vault};
/// # #[derive(Clone, Default)]
/// # struct Platform(std::rc::Rc<core::cell::RefCell<(u64, Option<[u8; BLOB]>)>>);
/// # impl MonotonicCounter for Platform {
/// #     type Error = core::fmt::Error;
/// #     fn read(&mut self) -> Result<u64, Self::Error> {
/// #         Ok(self.0.borrow().0)
/// #     }
/// #     fn increment(&mut self) -> Result<u64, Self::Error> {
/// #         self.0.borrow_mut().0 += 1;
/// #         self.read()
/// #     }
/// # }
/// # impl Vault for Platform {
/// #     type Error = core::fmt::Error;
/// #     fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Self::Error> {
/// #         self.0.borrow_mut().1 = Some(*blob);
/// #         Ok(())
/// #     }
/// #     fn get(&mut self) -> Result<Option<[u8; BLOB]>, Self::Error> {
/// #         Ok(self.0.borrow().1)
/// #     }
/// # }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let step = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
/// let (platform, each) = (Platform::default(), Allowance { steps: 1, divergence: 0.0 });
/// let run = Configuration::of_ledger(100, &step, 3);
/// // A host that withholds the blob.
/// let opened = SealedJournal::open(platform.clone(), platform, run, each);
/// assert!(matches!(opened, Err(SealedError::Blank)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SealedError<C, V> {
    /// The counter failed.
    Counter(C),
    /// The vault failed.
    Vault(V),
    /// The host has no blob. It was not provisioned, or the host withholds it.
    Blank,
    /// A vault for provisioning has a blob.
    Occupied,
    /// The blob has another configuration, another allowance or an earlier version, or the ledger has another
    /// configuration.
    OtherConfiguration,
    /// The budget is above 2³¹ steps.
    Budget,
    /// The count is below the blob's, so the counter was exchanged.
    CounterBehind,
    /// Another instance has taken a count, and this instance is closed.
    Forked,
    /// A charge is not above the previous charge.
    Backwards,
    /// A charge exceeds the allowances of all counts so far.
    Allowance,
    /// An earlier charge failed. Open the journal again.
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
///
/// ```
/// use damper_core::prelude::*;
/// use damper_journal::{Allowance, BLOB, Configuration, FirstBoot, MonotonicCounter, SealedError, SealedJournal, Vault};
/// # #[derive(Clone, Default)]
/// # struct Platform(std::rc::Rc<core::cell::RefCell<(u64, Option<[u8; BLOB]>)>>);
/// # impl MonotonicCounter for Platform {
/// #     type Error = core::fmt::Error;
/// #     fn read(&mut self) -> Result<u64, Self::Error> {
/// #         Ok(self.0.borrow().0)
/// #     }
/// #     fn increment(&mut self) -> Result<u64, Self::Error> {
/// #         self.0.borrow_mut().0 += 1;
/// #         self.read()
/// #     }
/// # }
/// # impl Vault for Platform {
/// #     type Error = core::fmt::Error;
/// #     fn put(&mut self, blob: &[u8; BLOB]) -> Result<(), Self::Error> {
/// #         self.0.borrow_mut().1 = Some(*blob);
/// #         Ok(())
/// #     }
/// #     fn get(&mut self) -> Result<Option<[u8; BLOB]>, Self::Error> {
/// #         Ok(self.0.borrow().1)
/// #     }
/// # }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let step = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
/// let run = Configuration::of_ledger(100, &step, 3);
/// // The platform's counter, and its storage for sealed blobs.
/// let (platform, each) = (Platform::default(), Allowance { steps: 1, divergence: 0.0 });
/// let owner = FirstBoot::confirmed_by_owner();
/// let sealed = SealedJournal::provision(platform.clone(), platform.clone(), run, each, owner)?;
/// let old = platform.0.borrow().1;
/// let (mut state, mut ledger) = (step.state::<3>(), Ledger::open(sealed, 100)?);
/// drop(step.open(&mut state, &mut ledger).unwrap());
///
/// // After a restart.
/// let sealed = SealedJournal::open(platform.clone(), platform.clone(), run, each)?;
/// assert!(sealed.record().paid >= 1);
/// // A host that returns the old blob gains nothing: the counter has moved on.
/// platform.0.borrow_mut().1 = old;
/// let sealed = SealedJournal::open(platform.clone(), platform.clone(), run, each)?;
/// assert!(sealed.record().paid >= 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SealedJournal<C, V> {
    counter: C,
    vault: V,
    run: Configuration,
    allowance: Allowance,
    /// The count at provisioning.
    origin: u64,
    /// The current count of this instance. None after a failure.
    count: Option<u64>,
    paid: u32,
    divergence: f64,
}

type Failure<C, V> = SealedError<<C as MonotonicCounter>::Error, <V as Vault>::Error>;

impl<C: MonotonicCounter, V: Vault> SealedJournal<C, V> {
    /// Creates a ledger without charges. Call it once per run, and never because opening failed. [`FirstBoot`] gives
    /// the reason.
    ///
    /// # Errors
    ///
    /// The vault has a blob, or a call failed.
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
    /// The ledger is missing, has another configuration, or a call failed. Then nothing may be released.
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
    /// Returns the charge that this many counts allow: steps, and a divergence that is rounded up.
    pub(crate) fn times(&self, counts: u64) -> (u32, f64) {
        let steps = u32::try_from(counts).unwrap_or(u32::MAX).saturating_mul(self.steps);
        (steps, if self.divergence == 0.0 { 0.0 } else { mul_up(from_u64_up(counts), self.divergence) })
    }
}

/// The configuration of a run with this allowance. Another allowance identifies another ledger.
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
        // A comparison with NaN is false.
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
        // If a call fails from here on, the current count of this instance is unknown.
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
