//! Sum of a chunk of samples.

use super::gradients::{KINDS, gradient};
use super::{device, reference};
use crate::{CudaDevice, DeviceMemory, DeviceTensor, ExactSum, SumShape, ThreadOrder};
use damper_access::Unreleased;
use damper_core::clip::{AnyRule, Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::grid::Grid;
use damper_core::private::SumWord;
use damper_testing::Random;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::ops::Range;
use std::sync::Arc;

/// Chunk of samples, with the settings of its sum.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) parts: Vec<usize>,
    pub(super) kinds: Vec<usize>,
    pub(super) present: Vec<bool>,
    pub(super) layers: Option<Vec<Layer>>,
    pub(super) bits: u32,
    pub(super) threshold: f32,
    pub(super) rule: AnyRule,
    pub(super) seed: u64,
}

impl Case {
    fn dim(&self) -> usize {
        self.parts.iter().sum()
    }

    fn rows(&self) -> Vec<Vec<f32>> {
        let mut random = Random(self.seed);
        self.kinds.iter().map(|kind| gradient(*kind, self.dim(), &mut random)).collect()
    }

    /// Norms and sum from the device.
    pub(super) fn on_device(&self, device: &Arc<dyn CudaDevice>) -> (Vec<Option<f32>>, Vec<i64>) {
        let rows = self.rows();
        let layers = self.layers.as_ref().map(|layers| Layers::new(layers).unwrap());
        let grid = Grid::new(self.bits).unwrap();
        let shape = SumShape { parts: &self.parts, rows: rows.len(), layers, grid };
        let mut sum = ExactSum::new(device, &shape).unwrap();
        let mut at = 0;
        let memory: Vec<DeviceMemory> = self
            .parts
            .iter()
            .map(|len| {
                let columns = at..at + len;
                at += len;
                upload(device, &rows, columns)
            })
            .collect();
        let tensors: Vec<DeviceTensor<'_>> = memory.iter().map(DeviceTensor::of).collect();
        sum.begin(self.threshold, self.rule).unwrap();
        let norms = sum.add_chunk(&tensors, &self.present, Unreleased::claim()).unwrap();
        (norms, words(&sum))
    }

    /// Norms and sum from the slow reference.
    fn slowly(&self) -> (Vec<Option<f32>>, Vec<i64>) {
        let mut sum = vec![0; self.dim()];
        let rows = self.rows();
        let norms = rows.iter().zip(&self.present).map(|(grad, present)| {
            let layers = self.layers.as_deref();
            let (norm, added) = reference::sample(grad, self.bits, self.threshold, self.rule, layers);
            if *present {
                sum.iter_mut().zip(added).for_each(|(sum, q)| *sum += q);
            }
            norm.filter(|_| *present)
        });
        (norms.collect(), sum)
    }

    /// Norms and sum from `damper-core`.
    fn by_core(&self) -> (Vec<Option<f32>>, Vec<i64>) {
        match (self.rule, &self.layers) {
            (AnyRule::Flat, None) => self.by(&FlatL2),
            (AnyRule::Automatic(rule), None) => self.by(&rule),
            (AnyRule::Flat, Some(layers)) => self.by(&PerLayer::new(FlatL2, Layers::new(layers).unwrap()).unwrap()),
            (AnyRule::Automatic(rule), Some(layers)) => {
                self.by(&PerLayer::new(rule, Layers::new(layers).unwrap()).unwrap())
            }
        }
    }

    fn by(&self, clip: &impl Clip) -> (Vec<Option<f32>>, Vec<i64>) {
        let (grid, mut memory) = (Grid::new(self.bits).unwrap(), vec![SumWord::<i64>::ZERO; self.dim()]);
        let mut sum = vec![0i64; self.dim()];
        let rows = self.rows();
        let norms = rows.iter().zip(&self.present).map(|(grad, present)| {
            let mut each = sum.iter_mut();
            let mut add = |q: i64| *each.next().unwrap() += if *present { q } else { 0 };
            let norm = grid.round_sample(clip, self.threshold, &[grad], &mut memory, &mut add).unwrap();
            norm.filter(|_| *present)
        });
        (norms.collect(), sum)
    }

    /// Compares the device with the slow reference, and with `damper-core` if its norms have the same order of sums.
    pub(super) fn check(&self, device: &Arc<dyn CudaDevice>) -> Result<(), TestCaseError> {
        let (norms, sum) = self.on_device(device);
        let bits = |norms: &[Option<f32>]| norms.iter().map(|norm| norm.map(f32::to_bits)).collect::<Vec<_>>();
        let (slow_norms, slow_sum) = self.slowly();
        prop_assert_eq!(bits(&norms), bits(&slow_norms));
        prop_assert_eq!(&sum, &slow_sum);
        let (core_norms, core_sum) = self.by_core();
        prop_assert_eq!(bits(&norms), bits(&core_norms));
        prop_assert_eq!(&sum, &core_sum);
        Ok(())
    }
}

/// Uploads the columns of a chunk that are one tensor.
pub(super) fn upload(device: &Arc<dyn CudaDevice>, rows: &[impl AsRef<[f32]>], columns: Range<usize>) -> DeviceMemory {
    let floats = rows.iter().flat_map(|row| &row.as_ref()[columns.clone()]);
    DeviceMemory::of(device, &floats.flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()).unwrap()
}

/// Words of a sum.
pub(super) fn words(sum: &ExactSum) -> Vec<i64> {
    let mut bytes = vec![0; sum.dim() * 8];
    sum.totals.sum.download(&mut bytes).unwrap();
    bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

fn cut(dim: usize, seed: u64) -> Vec<Layer> {
    let mut random = Random(seed);
    let count = 1 + random.below(4);
    let (mut rest, mut layers) = (dim, Vec::new());
    for last in (0..count).rev() {
        let len = if last == 0 { rest } else { random.below(rest + 1) };
        layers.push(Layer { share: 1 + random.below((4_194_304.0 / (count as f64).sqrt()) as usize) as u32, len });
        rest -= len;
    }
    layers
}

fn case(most: usize) -> impl Strategy<Value = Case> {
    let parts = prop::collection::vec(prop_oneof![0..most, 0..9usize], 1..6);
    let kinds = prop::collection::vec((0..KINDS, prop::bool::weighted(0.8)), 1..6);
    let threshold = prop_oneof![Just(1f32), Just(0.37), Just(1e-28), Just(1e6)];
    let rule = prop_oneof![
        2 => Just(AnyRule::Flat),
        1 => prop_oneof![Just(0.01f32), Just(1e-18)].prop_map(|gamma| AnyRule::Automatic(Automatic::new(gamma).unwrap())),
    ];
    (parts, kinds, any::<bool>(), 8u32..=22, threshold, rule, any::<u64>()).prop_map(
        |(parts, kinds, has_layers, bits, threshold, rule, seed)| {
            let layers = has_layers.then(|| cut(parts.iter().sum(), seed));
            let (kinds, present) = kinds.into_iter().unzip();
            Case { parts, kinds, present, layers, bits, threshold, rule, seed }
        },
    )
}

/// Deterministic cases.
pub(super) fn cases(count: usize, most: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| case(most).new_tree(&mut runner).unwrap().current()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn short_gradients_add_as_in_core(case in case(200), seed: u32) {
        if let Some(device) = device(ThreadOrder::Shuffled(seed)) {
            case.check(&device)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn long_gradients_add_as_the_slow_sum(case in case(3000), reversed: bool) {
        if let Some(device) = device(if reversed { ThreadOrder::Reversed } else { ThreadOrder::Numbered }) {
            case.check(&device)?;
        }
    }
}

// Groups of as many rows as a thread adds in 32 bits, and more.
#[test]
fn many_rows_do_not_overflow() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    for rows in [255, 256, 700] {
        let case = Case {
            parts: vec![1],
            kinds: vec![6; rows],
            present: vec![true; rows],
            layers: None,
            bits: 22,
            threshold: 1e-3,
            rule: AnyRule::Flat,
            seed: 1,
        };
        case.check(&device).unwrap();
        assert!(case.on_device(&device).1[0] > i64::from(u32::MAX) / 8);
    }
}

// A sample whose squares underflow shrinks many times, which exposes the order of the loop.
#[test]
fn underflowed_samples_shrink_to_fit() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    let rule = AnyRule::Automatic(Automatic::new(1e-18).unwrap());
    let case = Case {
        parts: vec![700, 300],
        kinds: vec![4, 11, 4, 0],
        present: vec![true; 4],
        layers: None,
        bits: 22,
        threshold: 1.0,
        rule,
        seed: 3,
    };
    case.check(&device).unwrap();
}
