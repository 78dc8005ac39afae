//! The gateway: converts a device's update to a report.

use crate::report::{InputShare, Report};
use crate::{PrioError, Scheme};
use damper_core::update::{PayloadWord, Update};
use prio::codec::Encode;
use prio::vdaf::Client;

/// Shares the update in `bytes` between two aggregators, with a proof that each of its integers is in the range.
///
/// # Errors
///
/// The bytes are not a device's update, the update is not of this round, or an integer is out of range. The latter has
/// the probability that the range was chosen for, whatever the data ([`Range::fitting`](crate::Range::fitting)).
pub fn shard(scheme: &Scheme, bytes: &[u8]) -> Result<Report, PrioError> {
    let update = Update::parse(bytes)?;
    let header = *update.header();
    if update.word() != PayloadWord::Device {
        return Err(PrioError::Mixed { device: header.device, field: "size of integers" });
    }
    scheme.check(&header)?;
    let encoded: Option<Vec<u128>> = update.units().map(|units| scheme.range.encode(units)).collect();
    let integers = encoded.ok_or(PrioError::OutOfRange { device: header.device })?;
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(PrioError::Randomness)?;
    let device = header.device;
    let refused = |error| PrioError::Refused { device, error };
    let (public, shares) = scheme.vdaf.shard(&scheme.context(&header), &integers, &nonce).map_err(refused)?;
    let mut encoded = shares.iter().map(|share| share.get_encoded().map(InputShare));
    let mut next = || encoded.next().unwrap_or_else(|| Ok(InputShare(vec![])));
    Ok(Report { header, nonce, public_share: public.get_encoded()?, leader: next()?, helper: next()? })
}
