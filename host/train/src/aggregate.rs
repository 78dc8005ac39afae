//! The server of a federation: it adds the updates of its devices, and does nothing else.
//!
//! Each update is a device's clipped sum with its own noise on it ([`damper_core::update`]): integers on one grid, so their total is
//! exact and does not depend on order. Adding is post-processing; no budget is spent here, and no data is seen.

use damper_core::numerics::digest::Digest;
use damper_core::update::{Header, Update, UpdateError, Word};
use std::collections::HashMap;

/// Why updates cannot be added: one line that names the file.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum AggregateError {
    /// Bytes that are no update.
    #[error("{name}: {error}")]
    Damaged {
        /// The file.
        name: String,
        /// The problem.
        error: UpdateError,
    },
    /// An update that is a sum already.
    #[error("{name}: a sum of {devices} devices already, whose devices are not known; give the devices' own updates")]
    Sum {
        /// The file.
        name: String,
        /// Devices in it.
        devices: u32,
    },
    /// Updates of different configurations.
    #[error("{name}: its {what} is {got}, that of {first} is {wanted}; add updates of one configuration and round")]
    Mixed {
        /// The file.
        name: String,
        /// The field that differs.
        what: &'static str,
        /// The file's.
        got: String,
        /// The first file.
        first: String,
        /// The first file's.
        wanted: String,
    },
    /// A device that the federation does not have.
    #[error(
        "{name}: an update of device {device}, and the plan has devices 1 to {devices}; it is not of this federation"
    )]
    Unknown {
        /// The file.
        name: String,
        /// The device.
        device: u64,
        /// Devices of the plan.
        devices: u32,
    },
    /// A device that is there twice.
    #[error("{name}: an update of device {device}, as {other} is; a device is added once a round, leave one out")]
    Duplicate {
        /// The file.
        name: String,
        /// The device.
        device: u64,
        /// The file it came in before.
        other: String,
    },
}

/// A sum of updates of one configuration and one round.
#[derive(Debug, Default)]
pub struct Aggregate {
    sum: Vec<i64>,
    first: Option<(String, Header)>,
    names: HashMap<u64, String>,
    /// Devices of the plan, numbered from 1, if there is a plan.
    devices: Option<u32>,
}

impl Aggregate {
    /// A sum of updates that must have the fields of `header`, which the plan called `name` gives, of devices 1 to `devices`.
    #[must_use]
    pub fn of_plan(name: &str, header: Header, devices: u32) -> Self {
        Self { first: Some((name.to_owned(), header)), devices: Some(devices), ..Self::default() }
    }

    /// Adds an update, the content of the file `name`.
    ///
    /// # Errors
    ///
    /// It is damaged, a sum, of another configuration, or of a device that was added; nothing was added then.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), AggregateError> {
        let name = name.to_owned();
        let update = match Update::parse(bytes) {
            Ok(update) => update,
            Err(error) => return Err(AggregateError::Damaged { name, error }),
        };
        let header = *update.header();
        if update.word() == Word::Sum {
            return Err(AggregateError::Sum { name, devices: header.devices });
        }
        let (first, wanted) = self.first.get_or_insert_with(|| (name.clone(), header));
        if let Some((what, got, wanted)) = difference(&header, wanted) {
            return Err(AggregateError::Mixed { name, what, got, first: first.clone(), wanted });
        }
        if let Some(devices) = self.devices.filter(|devices| !(1..=u64::from(*devices)).contains(&header.device)) {
            return Err(AggregateError::Unknown { name, device: header.device, devices });
        }
        if let Some(other) = self.names.get(&header.device) {
            return Err(AggregateError::Duplicate { name, device: header.device, other: other.clone() });
        }
        self.names.insert(header.device, name);
        self.sum.resize(header.dim as usize, 0);
        // Below 2³² devices, 32-bit integers cannot overflow 64 bits.
        for (sum, units) in self.sum.iter_mut().zip(update.units()) {
            *sum += units;
        }
        Ok(())
    }

    /// The sum's header; none before anything was added.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        let (_, header) = self.first.as_ref().filter(|_| !self.names.is_empty())?;
        Some(Header { device: 0, devices: u32::try_from(self.names.len()).unwrap_or(u32::MAX), ..*header })
    }

    /// The sum, `[D]`, in grid units.
    #[must_use]
    pub fn sum(&self) -> &[i64] {
        &self.sum
    }

    /// The sum as an update; none before anything was added.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = self.header()?.bytes(Word::Sum).to_vec();
        bytes.extend(self.sum.iter().flat_map(|units| units.to_le_bytes()));
        let mut digest = Digest::default();
        digest.add_bytes(&bytes);
        bytes.extend(digest.value().to_le_bytes());
        Some(bytes)
    }
}

/// Returns a field that must be equal and differs between two updates.
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

    /// The update of a simulated device, and how far the same step moves its parameters, in grid units.
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
        devices.iter().for_each(|(bytes, _)| orders[0].add("one", bytes).unwrap());
        devices.iter().rev().for_each(|(bytes, _)| orders[1].add("one", bytes).unwrap());
        // A step of rate 2¹⁶ at clip 1 moves each parameter by its units, which an f32 holds exactly.
        let one_process: Vec<i64> =
            (0..DIM).map(|i| devices.iter().map(|(_, params)| -(params[i] as i64)).sum()).collect();
        assert_eq!(orders[0].sum(), one_process);
        assert!(one_process.iter().any(|units| *units != 0));
        let bytes = orders[0].to_bytes().unwrap();
        assert_eq!(Some(&bytes), orders[1].to_bytes().as_ref());
        let update = Update::parse(&bytes).unwrap();
        assert_eq!((update.word(), update.header().devices, update.header().device), (Word::Sum, 5, 0));
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

    /// The bytes of an update with this header and these integers, whoever made them.
    fn forged(header: Header, units: &[i32]) -> Vec<u8> {
        let mut bytes = header.bytes(Word::Device).to_vec();
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

    // The largest and least integers of many devices do not overflow the sum.
    #[test]
    fn extreme_integers_do_not_overflow() {
        let mut sum = Aggregate::default();
        for device in 1..=5000 {
            sum.add("one", &forged(Header { device, ..HEADER }, &[i32::MIN, i32::MAX])).unwrap();
        }
        assert_eq!(sum.sum(), [5000 * i64::from(i32::MIN), 5000 * i64::from(i32::MAX)]);
    }

    // The plan decides what fits, not the update that comes first.
    #[test]
    fn plan_decides_what_fits() {
        let mut sum = Aggregate::of_plan("federation.json", Header { device: 0, ..HEADER }, 3);
        assert!(sum.header().is_none() && sum.to_bytes().is_none());
        for (header, word) in [
            (Header { clip: 0.25, ..HEADER }, "clip is 0.25, that of federation.json is 0.5"),
            (Header { sigma: 1, ..HEADER }, "multiplier"),
            (Header { run: 8, ..HEADER }, "run is 8"),
            (Header { round: 3, ..HEADER }, "round is 3"),
            (Header { grid_bits: 17, ..HEADER }, "grid bits is 17"),
            (Header { expected_batch: 4, ..HEADER }, "expected batch is 4"),
            (Header { device: 4, ..HEADER }, "devices 1 to 3"),
            (Header { device: 0, ..HEADER }, "devices 1 to 3"),
        ] {
            let error = sum.add("bad.upd", &forged(header, &[1, 2])).unwrap_err().to_string();
            assert!(error.contains(word) && error.starts_with("bad.upd"), "{error}");
        }
        assert!(sum.add("long.upd", &forged(Header { dim: 3, ..HEADER }, &[1, 2, 3])).is_err());
        sum.add("good.upd", &forged(HEADER, &[1, -2])).unwrap();
        assert!(sum.add("again.upd", &forged(HEADER, &[1, -2])).unwrap_err().to_string().contains("added once"));
        assert_eq!((sum.sum(), sum.header().unwrap().devices), (&[1, -2][..], 1));
    }
}
