//! A federation with members: its plan, their keys, and their updates.
#![allow(dead_code)] // Each test uses a part.

use crate::support::{DIM, update_with};
use damper_federation::aggregate::Aggregate;
use damper_federation::{
    Aggregation, Asked, DeviceNoise, Envelope, FederationPlan, LocalSteps, Member, MemberKey, PlanSettings, Unit,
    request_digest,
};
use damper_prio::{Scheme, Upload, shard};
use std::path::Path;

pub const DEVICES: u32 = 4;
pub const SMALLEST: u32 = 3;

/// A federation of four devices, with a smallest cohort of three.
pub struct Federation {
    pub plan: FederationPlan,
    pub keys: Vec<MemberKey>,
}

impl Federation {
    /// Creates the federation, with the keys of members in `folder`: `member-D.key`.
    pub fn new(folder: &Path, noise: DeviceNoise, rounds: u32) -> Self {
        let key = |device| MemberKey::create(&folder.join(format!("member-{device}.key"))).unwrap();
        let keys: Vec<MemberKey> = (1..=DEVICES).map(key).collect();
        let members = keys.iter().map(|key| Member { public_key: key.public(), name: String::new() }).collect();
        let settings = PlanSettings {
            unit: Unit::User,
            noise,
            noise_multiplier: 8.0,
            sampling_rate: 1.0,
            rounds,
            devices: DEVICES,
            smallest_cohort: SMALLEST,
            colluders: 0,
            aggregation: Aggregation::Prio,
            expected_batch: 5,
            most_units: None,
            reply_seconds: None,
            members,
            clip: 1.0,
            grid_bits: 16,
            lr: 1.0,
            local: Some(LocalSteps { steps: 3, lr: 0.1, batch: 8 }),
            delta: 1e-5,
            simulation: true,
            model_flags: vec![],
            names: Default::default(),
        };
        let plan = FederationPlan::new(&settings, DIM, "m".repeat(64)).unwrap();
        Self { plan, keys }
    }

    pub fn key(&self, device: u64) -> &MemberKey {
        &self.keys[device as usize - 1]
    }

    pub fn request(&self, round: u32) -> [u8; 32] {
        request_digest(&self.plan, round, (round > 0).then_some(&[0.5; DIM]))
    }

    /// Returns the update of a device.
    pub fn update(&self, device: u64, round: u32) -> Vec<u8> {
        update_with(&self.plan.header(device, round), device + 100 * u64::from(round))
    }

    /// Returns the leader's and the helper's part of the report of a device.
    pub fn uploads(&self, device: u64, round: u32) -> [Upload; 2] {
        let report = shard(&Scheme::of_plan(&self.plan, round).unwrap(), &self.update(device, round)).unwrap();
        Upload::sign(&self.plan, self.request(round), &report, self.key(device))
    }

    /// Returns the sum of these devices' updates by `damper aggregate`.
    pub fn sum_in_clear(&self, devices: &[u64], round: u32) -> Vec<u8> {
        let request = self.request(round);
        let mut sum = Aggregate::of_plan("plan", &self.plan, round, request);
        for device in devices {
            let update = self.update(*device, round);
            let sealed = Envelope::seal(&Asked::new(&self.plan, round, request), *device, &update, self.key(*device));
            sum.add("update", &sealed).unwrap();
        }
        sum.to_bytes().unwrap()
    }
}

/// Random numbers for choices of tests (SplitMix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Changes, truncates or extends `bytes`.
    pub fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len().max(1));
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.extend((0..self.below(40)).map(|_| self.0 as u8)),
                2 if !bytes.is_empty() => bytes[at] = 0xff,
                3 if bytes.len() >= 4 => {
                    let at = at.min(bytes.len() - 4);
                    bytes[at..at + 4].copy_from_slice(&(self.next() as u32).to_le_bytes());
                }
                _ if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        bytes
    }
}
