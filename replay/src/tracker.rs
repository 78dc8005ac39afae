//! Budget trackers: ledgers and Rényi filters, as kernels and in runs.

use super::compared::Compared;
use super::error::PackError;
use super::pack::Reader;
use damper_core::accounting::{Ledger, Rate, Record, RenyiFilter, SampledGaussian, Store, Volatile};
use damper_core::error::OpenError;
use damper_core::numerics::digest::Digest;

/// The number of the first step that a filter is charged for: 2³¹, as its docs state.
const FIRST: u32 = 1 << 31;

/// The budget tracker of a run.
pub(super) enum BudgetTracker {
    Ledger(Ledger<Volatile>),
    Filter { filter: RenyiFilter, rate: Rate },
}

impl BudgetTracker {
    /// A Rényi filter, and the rate at which it is charged.
    pub(super) fn filter(pack: &mut Reader<'_>) -> Result<Self, PackError> {
        Ok(Self::Filter {
            filter: RenyiFilter::new(pack.u32(), pack.f64(), pack.f64())?,
            rate: Rate::from_numerator(pack.u64())?,
        })
    }

    /// The number of its first step.
    pub(super) fn first(&self) -> u32 {
        match self {
            Self::Ledger(_) => 0,
            Self::Filter { .. } => FIRST,
        }
    }

    /// Steps charged so far.
    pub(super) fn paid(&self) -> u32 {
        match self {
            Self::Ledger(ledger) => ledger.charged_steps(),
            Self::Filter { filter, .. } => filter.charged_steps(),
        }
    }

    /// The digest of the privacy cost. None if only steps are counted.
    pub(super) fn digest(&self) -> Option<Digest> {
        let Self::Filter { filter, .. } = self else { return None };
        let mut digest = Digest::default();
        digest.add_f64(filter.spent());
        digest.add_bytes(&filter.charged_steps().to_le_bytes());
        Some(digest)
    }
}

/// The number of times that a refused factor is doubled.
const DOUBLINGS: u32 = 2;

/// The noise factor of a step that is charged to a filter, chosen from released values.
pub(super) fn factor(
    params: &[f32],
    filter: &RenyiFilter,
    event: impl Fn(f64) -> Result<SampledGaussian, PackError>,
) -> Result<f64, PackError> {
    let word = params.first().copied().unwrap_or_default().to_bits();
    let mut factor = 1.0 + f64::from(word & 7) / 8.0;
    for _ in 0..DOUBLINGS {
        if filter.fits_budget(&event(factor)?) {
            break;
        }
        factor *= 2.0;
    }
    Ok(factor)
}

/// A store that keeps the last record, or fails.
struct Kept {
    record: Record,
    fails: bool,
}

impl Kept {
    const EMPTY: Self = Self { record: Record::NONE, fails: false };
}

impl Store for Kept {
    type Error = ();

    fn persist(&mut self, record: Record) -> Result<(), ()> {
        if self.fails {
            return Err(());
        }
        self.record = record;
        Ok(())
    }
}

/// An operation on a ledger or a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Happening {
    Paid,
    StoreFails,
    Restart,
}

impl Happening {
    fn read(pack: &mut Reader<'_>) -> Result<Self, PackError> {
        match pack.u8() {
            0 => Ok(Self::Paid),
            1 => Ok(Self::StoreFails),
            2 => Ok(Self::Restart),
            _ => Err(PackError::Field("event of a ledger")),
        }
    }
}

/// The number of a step, or the code of an error.
fn number(paid: Result<u32, OpenError<()>>) -> u64 {
    u64::from(match paid {
        Ok(number) => number,
        Err(OpenError::BudgetSpent) => u32::MAX,
        Err(OpenError::Store(()) | OpenError::Call(_)) => u32::MAX - 1,
    })
}

/// The counts and the record of a ledger.
pub(super) fn ledger(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let (budget, reserve) = (pack.u32(), pack.u32());
    let mut ledger = Ledger::resume(Kept::EMPTY, budget, 0).with_reserve(reserve);
    let mut compared = Compared::default();
    for _ in 0..pack.u16() {
        let happening = Happening::read(pack)?;
        let found = if happening == Happening::Restart {
            let store = ledger.into_store();
            let charged = store.record.paid;
            ledger = Ledger::resume(store, budget, charged).with_reserve(reserve);
            u64::from(ledger.charged_steps())
        } else {
            ledger.store_mut().fails = happening == Happening::StoreFails;
            number(ledger.charge())
        };
        compared.value(found, u64::from(pack.u32()));
        compared.value(u64::from(ledger.store().record.paid), u64::from(pack.u32()));
    }
    Ok(compared)
}

/// The steps that a Rényi filter allows, and its privacy cost.
pub(super) fn filter(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let (order, epsilon, delta) = (pack.u32(), pack.f64(), pack.f64());
    let mut filter = RenyiFilter::new(order, epsilon, delta)?;
    let mut store = Kept::EMPTY;
    let mut compared = Compared::default();
    compared.value(filter.budget().to_bits(), pack.u64());
    for _ in 0..pack.u16() {
        let happening = Happening::read(pack)?;
        let event = SampledGaussian::new(Rate::from_numerator(pack.u64())?, pack.f64())?;
        let found = if happening == Happening::Restart {
            let Record { paid, divergence, .. } = store.record;
            filter = RenyiFilter::resume(order, epsilon, delta, paid, divergence)?;
            u64::from(filter.charged_steps())
        } else {
            store.fails = happening == Happening::StoreFails;
            number(filter.charge(&event, &mut store))
        };
        compared.value(found, u64::from(pack.u32()));
        compared.value(filter.spent().to_bits(), pack.u64());
    }
    Ok(compared)
}
