//! Sums of rows for the custom operators, in an order that depends only on the row's length.
//!
//! A sum has 16 accumulator lanes, for any SIMD width. Entry `i` goes to lane `i mod 16`. If fewer than 16 entries
//! remain, they go to the last lanes. Then the lanes are folded in halves. Nothing is fused. So the bits of a sum do
//! not depend on the address of the row, the other rows, or the kind of processor.

use super::elements;

const LANES: usize = 16;

/// Rows processed together. The sum of one row is folded while the next row is summed.
pub(super) const ABREAST: usize = 4;

/// Lanes of the last entries of `row`, of which there are fewer than 16. `others` fills the lanes before them.
#[inline(always)]
fn last(row: &[f32], others: f32) -> [f32; LANES] {
    let count = row.len() % LANES;
    match row.last_chunk::<LANES>() {
        Some(entries) => {
            let mut lanes = *entries;
            for lane in 0..LANES {
                lanes[lane] = if lane < LANES - count { others } else { entries[lane] };
            }
            lanes
        }
        None => {
            let mut lanes = [others; LANES];
            lanes[LANES - count..].copy_from_slice(row);
            lanes
        }
    }
}

#[inline(always)]
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Length of the rows of tensors of these shapes. `None` unless the tensor of shape `small` is broadcast along the
/// first axes of `whole` and along no other axis.
pub(super) fn repeats(whole: &[i64], small: &[i64]) -> Option<usize> {
    let first = small.iter().take_while(|extent| **extent == 1).count();
    let is_repeated = whole.len() >= small.len() && whole.ends_with(&small[first..]);
    let n = usize::try_from(*whole.last()?).ok()?;
    (is_repeated && n > 0 && small.last() == whole.last()).then_some(n)
}

/// `Σ row`.
#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for entries in whole {
        for lane in 0..LANES {
            lanes[lane] += entries[lane];
        }
    }
    if !rest.is_empty() {
        let entries = last(row, 0.0);
        for lane in 0..LANES {
            lanes[lane] += entries[lane];
        }
    }
    fold(lanes)
}

/// `Σ left · right`, of one length.
#[inline(always)]
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((whole, rest), (other, _)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    for (left, right) in whole.iter().zip(other) {
        for lane in 0..LANES {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    if !rest.is_empty() {
        let (left, right) = (last(left, 0.0), last(right, 0.0));
        for lane in 0..LANES {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    fold(lanes)
}

/// Maximum of a row. It may ignore NaN.
#[inline(always)]
pub(super) fn largest(row: &[f32]) -> f32 {
    let (whole, rest) = row.as_chunks::<LANES>();
    let mut lanes = if rest.is_empty() { [f32::NEG_INFINITY; LANES] } else { last(row, f32::NEG_INFINITY) };
    for entries in whole {
        for lane in 0..LANES {
            lanes[lane] = larger(entries[lane], lanes[lane]);
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = larger(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn larger(one: f32, other: f32) -> f32 {
    if one > other { one } else { other }
}

/// `exp(x − top)` of each entry.
#[inline(always)]
pub(super) fn exponentials(x: &[f32], top: f32, y: &mut [f32]) {
    let ((whole, rest), (into, _)) = (x.as_chunks::<LANES>(), y.as_chunks_mut::<LANES>());
    for (x, y) in whole.iter().zip(into) {
        exponentials_of(x, top, y);
    }
    if !rest.is_empty() {
        match (x.last_chunk(), y.last_chunk_mut()) {
            // Recomputes some of the entries.
            (Some(x), Some(y)) => exponentials_of(x, top, y),
            _ => {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = elements::exp(x - top);
                }
            }
        }
    }
}

#[inline(always)]
fn exponentials_of(x: &[f32; LANES], top: f32, y: &mut [f32; LANES]) {
    for lane in 0..LANES {
        y[lane] = elements::exp(x[lane] - top);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_sixteen_lanes() {
        for len in [1, 7, 16, 33, 64, 259] {
            let row: Vec<f32> = (0..len).map(|i| ((i * 17 + 7) % 61) as f32 / 20.3 - 1.5).collect();
            let slow = |term: &dyn Fn(f32) -> f32| {
                let mut lanes = vec![0.0f32; 16];
                for (i, entry) in row.iter().enumerate() {
                    let (whole, rest) = (len - len % 16, len % 16);
                    lanes[if i < whole { i % 16 } else { 16 - rest + i - whole }] += term(*entry);
                }
                while lanes.len() > 1 {
                    let (low, high) = lanes.split_at(lanes.len() / 2);
                    lanes = low.iter().zip(high).map(|(low, high)| low + high).collect();
                }
                lanes[0]
            };
            assert_eq!(sum(&row).to_bits(), slow(&|x| x).to_bits());
            assert_eq!(dot(&row, &row).to_bits(), slow(&|x| x * x).to_bits());
            assert_eq!(largest(&row), row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }
}
