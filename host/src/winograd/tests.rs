//! What the definitions of both are written with.

use super::Planes;

/// Numbers in (−1, 1).
pub(super) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Odd and even planes, thin ones, one wider than a block, every padding.
pub(super) fn cases() -> Vec<Planes> {
    [
        (3, 5, [7, 6], [[1, 1], [1, 1]]),
        (16, 17, [8, 8], [[1, 1], [1, 1]]),
        (17, 3, [5, 11], [[0, 2], [1, 0]]),
        (2, 3, [3, 110], [[2, 0], [0, 2]]),
        (1, 1, [3, 3], [[0, 0], [0, 0]]),
        (4, 9, [1, 1], [[1, 1], [1, 1]]),
        (5, 8, [14, 14], [[1, 1], [1, 1]]),
        (49, 4, [4, 5], [[2, 2], [2, 2]]),
        (1, 2, [2, 60], [[1, 1], [0, 1]]),
    ]
    .map(|(channels, outputs, input, pads)| Planes::new(channels, outputs, input, pads).unwrap())
    .into()
}

/// The input under tap `(k, j)` of the window at `(y, x)`, of a plane.
pub(super) fn under(planes: &Planes, plane: &[f32], [y, x]: [usize; 2], [k, j]: [usize; 2]) -> f64 {
    let inside = |at: usize, i: usize| at.checked_sub(planes.before[i]).filter(|at| *at < planes.input[i]);
    match (inside(y + k, 0), inside(x + j, 1)) {
        (Some(line), Some(column)) => f64::from(plane[line * planes.input[1] + column]),
        _ => 0.0,
    }
}

pub(super) fn taps() -> impl Iterator<Item = [usize; 2]> {
    (0..3).flat_map(|k| (0..3).map(move |j| [k, j]))
}

pub(super) fn positions(planes: &Planes) -> impl Iterator<Item = [usize; 2]> + use<> {
    let [lines, columns] = planes.output;
    (0..lines).flat_map(move |y| (0..columns).map(move |x| [y, x]))
}

/// Checks each entry to what `terms` products of numbers below 1 can lose.
pub(super) fn check(what: &str, got: &[f32], want: &[f64], terms: usize) {
    assert_eq!(got.len(), want.len());
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let most = 4.0 * (terms as f64).sqrt() * 9.0 * f64::from(f32::EPSILON);
        assert!((f64::from(*got) - want).abs() <= most, "{what}, entry {at}: {got}, not {want}");
    }
}
