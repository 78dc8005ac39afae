//! The server of a federation, which only adds the updates of its devices.
//!
//! Each update is a device's clipped sum plus its own noise ([`damper_core::update`]). Updates are integers on one
//! grid, so their total is exact and does not depend on the order. Adding is post-processing. It is not charged to a
//! budget and does not see data.

use crate::{Asked, Envelope, EnvelopeError, FederationPlan};
use damper_core::numerics::digest::Digest;
use damper_core::update::{Header, PayloadWord, Update, UpdateError};
use std::collections::HashMap;

/// The reason why updates cannot be added: one line with the file.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AggregateError {
    /// The bytes are not an update.
    #[error("{name}: {error}")]
    Damaged {
        /// The file.
        name: String,
        /// The problem.
        error: UpdateError,
    },
    /// The update is already a sum.
    #[error("{name}: a sum of {devices} devices already, whose devices are not known; give the devices' own updates")]
    Sum {
        /// The file.
        name: String,
        /// Number of devices in the sum.
        devices: u32,
    },
    /// The updates have different configurations.
    #[error("{name}: its {what} is {got}, that of {first} is {wanted}; add updates of one configuration and round")]
    Mixed {
        /// The file.
        name: String,
        /// The field that differs.
        what: &'static str,
        /// The value in this file.
        got: String,
        /// The first file.
        first: String,
        /// The value in the first file.
        wanted: String,
    },
    /// The federation does not have this device.
    #[error(
        "{name}: an update of device {device}, and the plan has devices 1 to {devices}; it is not of this federation"
    )]
    Unknown {
        /// The file.
        name: String,
        /// The device.
        device: u64,
        /// Number of devices in the plan.
        devices: u32,
    },
    /// The plan has members, but none of them signed the update.
    #[error("{name}: {error}")]
    Unsigned {
        /// The file.
        name: String,
        /// The problem.
        error: EnvelopeError,
    },
    /// A member signed another device's update.
    #[error(
        "{name}: signed by device {signer}, and an update of device {device}; a member speaks for its own device alone"
    )]
    OtherSigner {
        /// The file.
        name: String,
        /// The member.
        signer: u64,
        /// The device in the update.
        device: u64,
    },
    /// The update has integers outside the range of honest devices.
    #[error("{name}: an integer of device {device}'s update is above {largest}, and no honest update has one")]
    OutOfRange {
        /// The file.
        name: String,
        /// The device.
        device: u64,
        /// The maximum magnitude.
        largest: u32,
    },
    /// The device already has an update in the sum.
    #[error("{name}: an update of device {device}, as {other} is; a device is added once a round, leave one out")]
    Duplicate {
        /// The file.
        name: String,
        /// The device.
        device: u64,
        /// The file with its earlier update.
        other: String,
    },
}

/// A sum of updates of one configuration and one round.
#[derive(Debug, Default)]
pub struct Aggregate<'a> {
    sum: Vec<i64>,
    first: Option<(String, Header)>,
    names: HashMap<u64, String>,
    /// The request that updates must answer.
    asked: Option<Asked<'a>>,
}

impl<'a> Aggregate<'a> {
    /// Creates an empty sum of updates that answer `request` in `round` of `plan`, which is called `name`. If the plan
    /// has members, each update must be signed.
    #[must_use]
    pub fn of_plan(name: &str, plan: &'a FederationPlan, round: u32, request: [u8; 32]) -> Self {
        Self {
            first: Some((name.to_owned(), plan.header(0, round))),
            asked: Some(Asked::new(plan, round, request)),
            ..Self::default()
        }
    }

    /// Adds an update with the content of the file `name`. Returns its device.
    ///
    /// # Errors
    ///
    /// The update is damaged, is a sum, has another configuration, or is out of the plan's range. Or its member did not
    /// sign it, or its device was already added. Nothing is added then.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<u64, AggregateError> {
        let name = name.to_owned();
        let (bytes, signer) = match &self.asked {
            Some(asked) if !asked.plan.members.is_empty() => match Envelope::open(asked, bytes) {
                Ok(envelope) => (envelope.update, Some(envelope.device)),
                Err(error) => return Err(AggregateError::Unsigned { name, error }),
            },
            _ => (bytes, None),
        };
        let update = match Update::parse(bytes) {
            Ok(update) => update,
            Err(error) => return Err(AggregateError::Damaged { name, error }),
        };
        let header = *update.header();
        if let Some(signer) = signer.filter(|signer| *signer != header.device) {
            return Err(AggregateError::OtherSigner { name, signer, device: header.device });
        }
        if update.word() == PayloadWord::Sum {
            return Err(AggregateError::Sum { name, devices: header.devices });
        }
        let (first, wanted) = self.first.get_or_insert_with(|| (name.clone(), header));
        if let Some((what, got, wanted)) = difference(&header, wanted) {
            return Err(AggregateError::Mixed { name, what, got, first: first.clone(), wanted });
        }
        if let Some(Asked { plan, .. }) = &self.asked {
            let FederationPlan { devices, .. } = **plan;
            if !(1..=u64::from(devices)).contains(&header.device) {
                return Err(AggregateError::Unknown { name, device: header.device, devices });
            }
            let largest = plan.largest_integer();
            if update.units().any(|units| units.unsigned_abs() > u64::from(largest)) {
                return Err(AggregateError::OutOfRange { name, device: header.device, largest });
            }
        }
        if let Some(other) = self.names.get(&header.device) {
            return Err(AggregateError::Duplicate { name, device: header.device, other: other.clone() });
        }
        self.names.insert(header.device, name);
        self.sum.resize(header.dim as usize, 0);
        // With fewer than 2³² devices, sums of 32-bit integers cannot overflow 64 bits.
        for (sum, units) in self.sum.iter_mut().zip(update.units()) {
            *sum += units;
        }
        Ok(header.device)
    }

    /// Returns the sum's header. `None` before any update was added.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        let (_, header) = self.first.as_ref().filter(|_| !self.names.is_empty())?;
        Some(Header { device: 0, devices: u32::try_from(self.names.len()).unwrap_or(u32::MAX), ..*header })
    }

    /// Returns the sum, `[D]`, in grid units.
    #[must_use]
    pub fn sum(&self) -> &[i64] {
        &self.sum
    }

    /// Returns the sum as an update. `None` before any update was added.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = self.header()?.bytes(PayloadWord::Sum).to_vec();
        bytes.extend(self.sum.iter().flat_map(|units| units.to_le_bytes()));
        let mut digest = Digest::default();
        digest.add_bytes(&bytes);
        bytes.extend(digest.value().to_le_bytes());
        Some(bytes)
    }
}

/// Returns a field that must be equal but differs between two updates.
fn difference(got: &Header, wanted: &Header) -> Option<(&'static str, String, String)> {
    let pairs = [
        ("run", got.run, wanted.run),
        ("round", got.round.into(), wanted.round.into()),
        ("number of parameters", got.dim.into(), wanted.dim.into()),
        ("number of grid bits", got.grid_bits.into(), wanted.grid_bits.into()),
        ("expected batch", got.expected_batch.into(), wanted.expected_batch.into()),
    ];
    let (clip, wanted_clip) = (got.clip, wanted.clip);
    if let Some((what, got, wanted)) = pairs.into_iter().find(|(_, got, wanted)| got != wanted) {
        return Some((what, got.to_string(), wanted.to_string()));
    }
    if clip.to_bits() != wanted_clip.to_bits() {
        return Some(("clip", clip.to_string(), wanted_clip.to_string()));
    }
    (got.sigma != wanted.sigma).then(|| ("multiplier", got.multiplier().to_string(), wanted.multiplier().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::settings;
    use crate::{Member, MemberKey, PlanSettings, request_digest};
    use damper_core::accounting::Ledger;
    use damper_core::clip::FlatL2;
    use damper_core::filter::Identity;
    use damper_core::grid::Grid;
    use damper_core::noise::{ChaCha20, DiscreteGaussian};
    use damper_core::optimizer::{Sgd, SgdState};
    use damper_core::private::SumWord;
    use damper_core::schedule::Constant;
    use damper_core::step::{PrivateStep, Sender, Slots, StepState};
    use damper_core::threshold::Fixed;

    const DIM: usize = 1100;

    /// Returns the update of a simulated device, and the parameter change by the same step, in grid units.
    fn device(sender: Sender, clip: f32, multiplier: f64) -> (Vec<u8>, Vec<f32>) {
        let step = PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), multiplier).unwrap(),
            clip: FlatL2,
            threshold: Fixed(clip),
            filter: Identity,
            optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
            schedule: Constant(65536.0),
            expected_batch: 1,
        })
        .unwrap();
        let generator: ChaCha20 = ChaCha20::simulation(sender.device);
        let (mut bytes, mut params) = (Vec::new(), vec![0.0; DIM]);
        for emits in [true, false] {
            let mut state = StepState::new(vec![SumWord::ZERO; DIM], (), SgdState { momentum: [] }, ());
            let mut ledger = Ledger::volatile(1);
            let mut open = step.open(&mut state, &mut ledger).unwrap();
            for sample in 0..5 {
                let grad: Vec<f32> =
                    (0..DIM as u64).map(|i| ((i * 7 + sample + sender.device) % 13) as f32 - 6.0).collect();
                open.add_combined(&[&grad]).unwrap();
            }
            if emits {
                open.emit(sender, &generator, |part| bytes.extend_from_slice(part)).unwrap();
            } else {
                open.finish(&mut params, &generator).unwrap();
            }
        }
        (bytes, params)
    }

    fn sender(device: u64) -> Sender {
        Sender { run: 9, device, round: 4 }
    }

    // The sum over devices is exactly the sum of one process.
    #[test]
    fn device_sum_equals_one_process() {
        let devices: Vec<_> = (1..=5).map(|number| device(sender(number), 1.0, 0.75)).collect();
        let mut orders = [Aggregate::default(), Aggregate::default()];
        for ((first, _), (last, _)) in devices.iter().zip(devices.iter().rev()) {
            orders[0].add("one", first).unwrap();
            orders[1].add("one", last).unwrap();
        }
        // A step with learning rate 2¹⁶ at clip 1 moves each parameter by its units, which are exact in f32.
        let one_process: Vec<i64> =
            (0..DIM).map(|i| devices.iter().map(|(_, params)| -(params[i] as i64)).sum()).collect();
        assert_eq!(orders[0].sum(), one_process);
        assert!(one_process.iter().any(|units| *units != 0));
        let bytes = orders[0].to_bytes().unwrap();
        assert_eq!(Some(&bytes), orders[1].to_bytes().as_ref());
        let update = Update::parse(&bytes).unwrap();
        assert_eq!((update.word(), update.header().devices, update.header().device), (PayloadWord::Sum, 5, 0));
        assert!(update.units().eq(one_process));
    }

    // An update that does not belong to the sum is an error and adds nothing.
    #[test]
    fn mismatched_update_is_error() {
        let (first, _) = device(sender(1), 1.0, 1.0);
        let mut sum = Aggregate::default();
        sum.add("first.upd", &first).unwrap();
        let before = sum.sum().to_vec();
        let other = |sender, clip, multiplier| device(sender, clip, multiplier).0;
        for (bytes, words) in [
            (first.clone(), ["bad.upd", "device 1", "first.upd"]),
            (other(Sender { round: 5, ..sender(2) }, 1.0, 1.0), ["bad.upd", "round is 5", "first.upd"]),
            (other(Sender { run: 8, ..sender(2) }, 1.0, 1.0), ["bad.upd", "run is 8", "first.upd"]),
            (other(sender(2), 0.5, 1.0), ["bad.upd", "clip is 0.5", "first.upd is 1"]),
            (other(sender(2), 1.0, 2.0), ["bad.upd", "multiplier is 2", "first.upd is 1"]),
            (first[..first.len() - 1].to_vec(), ["bad.upd", "truncated", "4467 bytes of 4468"]),
            (sum.to_bytes().unwrap(), ["bad.upd", "sum of 1 devices", "own updates"]),
        ] {
            let error = sum.add("bad.upd", &bytes).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        let mut damaged = first;
        damaged[500] ^= 1;
        assert!(sum.add("bad.upd", &damaged).unwrap_err().to_string().contains("bad.upd: damaged"));
        assert_eq!((sum.sum(), sum.header().unwrap().devices), (&before[..], 1));
    }

    /// Returns the bytes of an update with this header and these integers.
    fn forged(header: Header, units: &[i32]) -> Vec<u8> {
        let mut bytes = header.bytes(PayloadWord::Device).to_vec();
        units.iter().for_each(|unit| bytes.extend(unit.to_le_bytes()));
        let mut digest = Digest::default();
        digest.add_bytes(&bytes);
        bytes.extend(digest.value().to_le_bytes());
        bytes
    }

    const HEADER: Header = Header {
        run: 9,
        device: 1,
        round: 4,
        devices: 1,
        dim: 2,
        grid_bits: 16,
        expected_batch: 3,
        sigma: 1 << 16,
        clip: 0.5,
    };

    // The extreme integers of many devices do not overflow the sum.
    #[test]
    fn extreme_integers_do_not_overflow() {
        let mut sum = Aggregate::default();
        for device in 1..=5000 {
            sum.add("one", &forged(Header { device, ..HEADER }, &[i32::MIN, i32::MAX])).unwrap();
        }
        assert_eq!(sum.sum(), [5000 * i64::from(i32::MIN), 5000 * i64::from(i32::MAX)]);
    }

    // The plan determines which updates fit, not the first update.
    #[test]
    fn plan_decides_what_fits() {
        let plan = FederationPlan::new(&settings(), 2, "m".repeat(64)).unwrap();
        let header = plan.header(1, 4);
        let mut sum = Aggregate::of_plan("federation.json", &plan, 4, [0; 32]);
        assert!(sum.header().is_none() && sum.to_bytes().is_none());
        for (header, word) in [
            (Header { clip: 0.25, ..header }, "clip is 0.25, that of federation.json is 0.5"),
            (Header { sigma: 1, ..header }, "multiplier"),
            (Header { run: 8, ..header }, "run is 8"),
            (Header { round: 3, ..header }, "round is 3"),
            (Header { grid_bits: 17, ..header }, "grid bits is 17"),
            (Header { expected_batch: 4, ..header }, "expected batch is 4"),
            (Header { device: 5, ..header }, "devices 1 to 4"),
            (Header { device: 0, ..header }, "devices 1 to 4"),
        ] {
            let error = sum.add("bad.upd", &forged(header, &[1, 2])).unwrap_err().to_string();
            assert!(error.contains(word) && error.starts_with("bad.upd"), "{error}");
        }
        assert!(sum.add("long.upd", &forged(Header { dim: 3, ..header }, &[1, 2, 3])).is_err());
        // Integers outside the range of honest devices: most units at the clip, and twelve deviations of the noise.
        let largest = (plan.most_units << 16) as i32 + 12 * (2 << 16);
        for units in [largest + 1, -largest - 1, i32::MAX, i32::MIN] {
            let error = sum.add("huge.upd", &forged(header, &[0, units])).unwrap_err();
            assert!(matches!(error, AggregateError::OutOfRange { device: 1, .. }), "{error}");
        }
        assert_eq!(sum.add("good.upd", &forged(header, &[largest, -largest])), Ok(1));
        assert!(sum.add("again.upd", &forged(header, &[1, -2])).unwrap_err().to_string().contains("added once"));
        let largest = i64::from(largest);
        assert_eq!((sum.sum(), sum.header().unwrap().devices), (&[largest, -largest][..], 1));
    }

    // A member's update counts only if the member signed it. Forged updates cannot displace it.
    #[test]
    fn forged_updates_displace_no_member() {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> =
            (0..4).map(|number| MemberKey::create(&folder.path().join(number.to_string())).unwrap()).collect();
        let members = keys.iter().map(|key| Member { public_key: key.public(), name: String::new() }).collect();
        let plan = FederationPlan::new(&PlanSettings { members, ..settings() }, 2, "m".repeat(64)).unwrap();
        let request = request_digest(&plan, 1, Some(&[0.5, 0.5]));
        let other = request_digest(&plan, 1, Some(&[0.5, 0.75]));
        let update = |device: u64, units: &[i32]| forged(plan.header(device, 1), units);
        let seal = |device: usize, request, update: &[u8]| {
            Envelope::seal(&Asked::new(&plan, 1, request), device as u64, update, &keys[device - 1])
        };
        let mut sum = Aggregate::of_plan("federation.json", &plan, 1, request);
        let bad = [
            // Without a signature.
            update(2, &[9, 9]),
            // Signed by device 1, with device 2 in the envelope and in the update.
            Envelope::seal(&Asked::new(&plan, 1, request), 2, &update(2, &[9, 9]), &keys[0]),
            seal(1, request, &update(2, &[9, 9])),
            // Answers to other parameters, and to another round.
            seal(2, other, &update(2, &[9, 9])),
            Envelope::seal(&Asked::new(&plan, 0, request), 2, &update(2, &[9, 9]), &keys[1]),
            seal(2, request, b"no update"),
        ];
        for bytes in &bad {
            assert!(sum.add("bad.upd", bytes).is_err());
        }
        for device in 1..=4 {
            assert_eq!(
                sum.add("good.upd", &seal(device, request, &update(device as u64, &[1, -2]))),
                Ok(device as u64)
            );
        }
        assert_eq!(sum.sum(), [4, -8]);
    }

    // A thousand forgeries built from observed updates. None is added, and none prevents a member's own update.
    #[test]
    fn thousand_forgeries_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str| MemberKey::create(&folder.path().join(name)).unwrap();
        let keys: Vec<_> = ["1", "2", "3", "4"].map(key).into();
        let members = keys.iter().map(|key| Member { public_key: key.public(), name: String::new() }).collect();
        let plan = FederationPlan::new(&PlanSettings { members, ..settings() }, 2, "m".repeat(64)).unwrap();
        let stranger = key("stranger");
        let request = request_digest(&plan, 2, Some(&[0.5, 0.5]));
        let honest: Vec<_> = (1..=4u64)
            .map(|device| {
                let update = forged(plan.header(device, 2), &[3, -1]);
                Envelope::seal(&Asked::new(&plan, 2, request), device, &update, &keys[device as usize - 1])
            })
            .collect();
        let mut sum = Aggregate::of_plan("federation.json", &plan, 2, request);
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as usize) % below
        };
        for number in 0..1000 {
            let of = random(4);
            let mut bytes = honest[of].clone();
            match random(6) {
                0 => bytes[random(96 + 60 + 16)] ^= 1 << random(8),
                1 => bytes.truncate(random(bytes.len())),
                // A part of another member's update.
                2 => {
                    let other = &honest[(of + 1) % 4];
                    let (from, to) = (random(bytes.len()), random(bytes.len()));
                    let (from, to) = (from.min(to), from.max(to) + 1);
                    bytes[from..to].copy_from_slice(&other[from..to]);
                }
                3 => {
                    let device = random(6) as u64;
                    let update = forged(plan.header(device, 2), &[random(1 << 20) as i32, 0]);
                    bytes = Envelope::seal(&Asked::new(&plan, 2, request), device, &update, &stranger);
                }
                4 => {
                    let update = forged(plan.header(of as u64 + 1, 2), &[9, 9]);
                    let round = random(5) as u32;
                    let asked = request_digest(&plan, round, Some(&[0.25, random(9) as f32]));
                    bytes =
                        Envelope::seal(&Asked::new(&plan, round, asked), of as u64 + 1, &update, &keys[(of + 1) % 4]);
                }
                _ => bytes = (0..random(300)).map(|_| random(256) as u8).collect(),
            }
            if !honest.contains(&bytes) {
                assert!(sum.add("forged", &bytes).is_err(), "{number}");
            }
        }
        assert!(sum.header().is_none());
        for bytes in &honest {
            sum.add("honest", bytes).unwrap();
        }
        assert_eq!(sum.sum(), [12, -4]);
    }
}
