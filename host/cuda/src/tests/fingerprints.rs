//! Tests of the fingerprints of rows.

use super::device;
use super::sums::upload;
use crate::{DeviceMemory, DeviceTensor, ExactSum, SumShape, ThreadOrder};
use damper_access::Unreleased;
use damper_core::grid::Grid;
use damper_testing::Random;

const PARTS: [usize; 3] = [700, 1, 1900];

#[test]
fn fingerprints_differ_with_the_bits() {
    let dim = PARTS.iter().sum();
    let mut random = Random(3);
    let first: Vec<f32> = (0..dim).map(|_| random.below(1000) as f32 * 0.001).collect();
    let mut rows = vec![first.clone(); 9];
    // A bit, a sign of zero, another NaN, two coordinates that changed places, the last coordinate.
    rows[1][900] = f32::from_bits(rows[1][900].to_bits() ^ 1);
    (rows[2][5], rows[3][5], rows[4][5], rows[5][5]) = (0.0, -0.0, f32::NAN, f32::from_bits(f32::NAN.to_bits() | 1));
    rows[6].swap(10, 2000);
    rows[7][dim - 1] += 1.0;
    let mut found = vec![];
    for order in [ThreadOrder::Numbered, ThreadOrder::Reversed, ThreadOrder::Shuffled(8)] {
        let Some(device) = device(order) else { return };
        let shape = SumShape { parts: &PARTS, rows: rows.len(), layers: None, grid: Grid::new(16).unwrap() };
        let mut sum = ExactSum::new(&device, &shape).unwrap();
        let mut at = 0;
        let memory: Vec<DeviceMemory> = PARTS
            .iter()
            .map(|len| {
                at += len;
                upload(&device, &rows, at - len..at)
            })
            .collect();
        let tensors: Vec<DeviceTensor<'_>> = memory.iter().map(DeviceTensor::of).collect();
        let prints = sum.fingerprints(&tensors, Unreleased::claim()).unwrap();
        assert_eq!(prints[0], prints[8]);
        let mut different = prints[..8].to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 8);
        found.push(prints);
        assert!(sum.fingerprints(&tensors[1..], Unreleased::claim()).is_err());
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
}
