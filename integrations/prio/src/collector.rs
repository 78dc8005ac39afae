//! The collector: puts the two aggregators' shares together.

use crate::aggregator::Share;
use crate::{PrioError, Scheme};
use damper_core::numerics::digest::Digest;
use damper_core::update::Word;
use prio::codec::ParameterizedDecode;
use prio::vdaf::prio3::Prio3SumVec;
use prio::vdaf::{Collector as _, Vdaf, VdafError};

/// The sum of a round's updates, as `damper aggregate` writes it (`damper_core::update`, integers of eight bytes).
///
/// # Errors
///
/// The shares are of different devices, of one aggregator, or damaged.
pub fn collect(scheme: &Scheme, shares: [&Share; 2]) -> Result<Vec<u8>, PrioError> {
    let [a, b] = shares;
    if a.role == b.role {
        return Err(PrioError::SameRole(a.role.name()));
    }
    if a.devices != b.devices {
        return Err(PrioError::Cohorts);
    }
    let damaged = |what: &str| PrioError::Shares(VdafError::Uncategorized(what.into()));
    let count = u32::try_from(a.devices.len()).map_err(|_| damaged("too many devices"))?;
    let decoded = [a, b]
        .map(|share| <Prio3SumVec as Vdaf>::AggregateShare::get_decoded_with_param(&(&scheme.vdaf, &()), &share.bytes));
    let [first, second] = decoded;
    let sums = scheme.vdaf.unshard(&(), [first?, second?], a.devices.len()).map_err(PrioError::Shares)?;
    let mut bytes = scheme.sum_header(count).bytes(Word::Sum).to_vec();
    for sum in sums {
        let units = scheme.range.decode(sum, count).ok_or_else(|| damaged("a sum is out of its range"))?;
        bytes.extend(units.to_le_bytes());
    }
    let mut digest = Digest::default();
    digest.add_bytes(&bytes);
    bytes.extend(digest.value().to_le_bytes());
    Ok(bytes)
}
