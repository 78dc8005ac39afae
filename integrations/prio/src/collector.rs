//! The collector: combines the two aggregators' shares.

use crate::{PrioError, Scheme};
use damper_core::numerics::digest::Digest;
use damper_core::update::PayloadWord;
use prio::codec::ParameterizedDecode;
use prio::vdaf::prio3::Prio3SumVec;
use prio::vdaf::{Collector as _, Vdaf, VdafError};

/// Returns the sum of the updates of `devices` devices, from the leader's and the helper's share of it. The format is
/// that of `damper aggregate` (`damper_core::update`, integers of eight bytes).
///
/// # Errors
///
/// The shares are damaged, or of different devices. The sum then leaves its range, except with a probability that is
/// negligible from a few integers on.
pub fn combine(scheme: &Scheme, devices: usize, shares: [&[u8]; 2]) -> Result<Vec<u8>, PrioError> {
    let damaged = |what: &str| PrioError::Shares(VdafError::Uncategorized(what.into()));
    let count = u32::try_from(devices).map_err(|_| damaged("too many devices"))?;
    let decoded =
        shares.map(|share| <Prio3SumVec as Vdaf>::AggregateShare::get_decoded_with_param(&(&scheme.vdaf, &()), share));
    let [first, second] = decoded;
    let sums = scheme.vdaf.unshard(&(), [first?, second?], devices).map_err(PrioError::Shares)?;
    let mut bytes = scheme.sum_header(count).bytes(PayloadWord::Sum).to_vec();
    for sum in sums {
        let units = scheme.range.decode(sum, count).ok_or_else(|| damaged("a sum is out of its range"))?;
        bytes.extend(units.to_le_bytes());
    }
    let mut digest = Digest::default();
    digest.add_bytes(&bytes);
    bytes.extend(digest.value().to_le_bytes());
    Ok(bytes)
}
