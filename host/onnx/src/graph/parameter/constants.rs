//! Detects float tensors that are constants of the source, by their values and readers.

use super::Tensor;
use crate::pb::{GraphProto, NodeProto};
use crate::{DType, attr_int};
use std::cmp::Ordering;

/// Tolerance for the sum of the squares of a sine and a cosine, around 1.
const UNIT: f32 = 1e-4;

/// Reason why no weight initializer produces `data`. `None` if it may be a weight. For masks, see [`mask`].
pub(super) fn written(tensor: &Tensor, data: &[f32]) -> Option<&'static str> {
    if is_causal(&tensor.shape, data) {
        return Some("a causal mask: one number below the diagonal, another above it");
    }
    if is_sinusoid(&tensor.shape, data) {
        return Some("a table of sines and cosines");
    }
    if is_fourier(&tensor.shape, data) {
        return Some("the sines and cosines of a Fourier transform, in a window");
    }
    is_frequencies(&tensor.shape, data)
        .then_some("powers of one number: the frequencies of sines and cosines, or slopes by distance")
}

/// Evidence that a constant tensor is a mask: its values are added to data, multiply data, or select from data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mask {
    /// No value masks a position.
    No,
    /// It has the form in which exporters write masks.
    Certain,
    /// It may be a mask.
    Doubtful,
    /// It has infinities but no other sign of a mask. A damaged weight is more likely.
    Damaged,
}

/// Returns true if the value masks a position: minus infinity, or far below every weight.
fn is_mark(x: f32) -> bool {
    x <= -1e9
}

/// Classifies `data`. A mask has at least two axes and one of these forms:
///
/// - masked positions, and one other value (0 if the mask is added, 1 if it multiplies),
/// - only 0 and one value of at most -1e4,
/// - every position on one side of the diagonal masked, as in distance biases.
///
/// A mask contains neither NaN nor plus infinity.
pub(super) fn mask(shape: &[usize], data: &[f32]) -> Mask {
    let least = data.iter().copied().fold(0.0, f32::min);
    let has_axes = shape.iter().filter(|extent| **extent > 1).count() >= 2 || data.len() == 1;
    if data.iter().any(|x| x.is_nan() || *x == f32::INFINITY) {
        return Mask::Damaged;
    }
    if !data.iter().any(|x| is_mark(*x)) {
        let is_written = least <= -1e4 && data.iter().all(|&x| x == 0.0 || x == least);
        return match (is_written, has_axes) {
            (false, _) => Mask::No,
            (true, true) => Mask::Certain,
            (true, false) => Mask::Doubtful,
        };
    }
    let mut others = data.iter().copied().filter(|x| !is_mark(*x));
    let first = others.next().unwrap_or(0.0);
    if [0.0, 1.0].contains(&first) && others.all(|x| x == first) {
        return if has_axes { Mask::Certain } else { Mask::Doubtful };
    }
    if is_one_sided(shape, data) {
        return Mask::Certain;
    }
    if data.iter().any(|x| x.is_infinite()) { Mask::Damaged } else { Mask::Doubtful }
}

/// Returns true if the last two axes are square and exactly the positions on one side of the diagonal are masked.
fn is_one_sided(shape: &[usize], data: &[f32]) -> bool {
    let &[.., rows, columns] = shape else { return false };
    let fits = |side: Ordering| {
        let place = |flat: usize| (flat / columns % rows).cmp(&(flat % columns));
        data.iter().enumerate().all(|(flat, x)| is_mark(*x) == (place(flat) == side))
    };
    rows == columns && rows > 1 && (fits(Ordering::Less) || fits(Ordering::Greater))
}

/// Returns true if the last two axes are square, with one value below the diagonal and another above. The diagonal may
/// have either value.
fn is_causal(shape: &[usize], data: &[f32]) -> bool {
    let &[.., rows, columns] = shape else {
        return false;
    };
    if rows != columns || rows < 3 {
        return false;
    }
    let (above, below) = (data[1], data[columns]);
    let fits = |(flat, &x): (usize, &f32)| {
        let (row, column) = (flat / columns % rows, flat % columns);
        match row.cmp(&column) {
            Ordering::Less => x == above,
            Ordering::Greater => x == below,
            Ordering::Equal => x == data[0] && (x == above || x == below),
        }
    };
    above != below && data.iter().enumerate().all(fits)
}

/// Returns true if every row has sine and cosine of the same angle next to each other, or half a row apart.
fn is_sinusoid(shape: &[usize], data: &[f32]) -> bool {
    let &[.., rows, columns] = shape else {
        return false;
    };
    if columns % 2 != 0 || columns < 4 || rows < 2 {
        return false;
    }
    let unit = |a: f32, b: f32| (a * a + b * b - 1.0).abs() < UNIT;
    let beside = |row: &[f32]| row.chunks(2).all(|pair| unit(pair[0], pair[1]));
    let apart = |row: &[f32]| row[..columns / 2].iter().zip(&row[columns / 2..]).all(|(&a, &b)| unit(a, b));
    data.chunks(columns).all(beside) || data.chunks(columns).all(apart)
}

/// Returns true for `1, r, r², …` with `r` below 1: the frequencies of rotary and sinusoidal positions. Also for
/// `r, r², …`: the slopes of ALiBi. With two heads, these must be a column of powers of 2.
fn is_frequencies(shape: &[usize], data: &[f32]) -> bool {
    let &[first, second, ..] = data else { return false };
    let rate = if first == 1.0 { second } else { first };
    let is_power_of_two = |x: &f32| x.to_bits().trailing_zeros() >= f32::MANTISSA_DIGITS - 1;
    let is_long = data.len() > 2 || first != 1.0 && shape.len() > 1 && data.iter().all(is_power_of_two);
    let follows = |pair: &[f32]| (pair[1] / pair[0] / rate - 1.0).abs() < UNIT;
    is_long && rate > 0.0 && rate < 1.0 && data.windows(2).all(follows)
}

/// Returns true for convolution filters of which half are `w(t) cos(kt)` and half `w(t) sin(kt)`. At each position, the
/// squares of each pair have the same sum.
fn is_fourier(shape: &[usize], data: &[f32]) -> bool {
    let &[filters, .., length] = shape else { return false };
    if filters < 6 || filters % 2 != 0 || length < 8 || data.len() != filters * length {
        return false;
    }
    let (cosines, sines) = data.split_at(data.len() / 2);
    let square = |pair: usize, at: usize| {
        let (cosine, sine) = (cosines[pair * length + at], sines[pair * length + at]);
        cosine * cosine + sine * sine
    };
    let most = (0..length).map(|at| square(0, at)).fold(0.0, f32::max);
    let is_one_sum = |at: usize| {
        let bound = UNIT * square(0, at) + 1e-7 * most;
        (1..filters / 2).all(|pair| (square(pair, at) - square(0, at)).abs() <= bound)
    };
    // A single large value is not enough.
    let is_wide = (0..length).filter(|&at| square(0, at) > 0.01 * most).count() * 2 >= length;
    most > 0.0 && most.is_finite() && is_wide && (0..length).all(is_one_sum)
}

/// Returns true for tables of sines and cosines of the same angles. They have equal length and squares that sum to 1
/// everywhere.
pub(super) fn is_rotary(data: &[f32], other: &[f32]) -> bool {
    let unit = |(a, b): (&f32, &f32)| (a * a + b * b - 1.0).abs() < UNIT;
    data.len() == other.len() && data.len() >= 16 && data.iter().zip(other).all(unit)
}

/// Returns true if no gradient passes through input `slot` of `node`. The node converts it to integers, Booleans or a
/// shape, or is a step function.
pub(super) fn stops_gradients(node: &NodeProto, slot: usize) -> bool {
    match node.op_type.as_str() {
        "Cast" => DType::from_onnx(attr_int(&node.attribute, "to", 0) as i32).is_ok_and(|dtype| !dtype.is_float()),
        "And" | "ArgMax" | "ArgMin" | "Ceil" | "DequantizeLinear" | "Equal" | "EyeLike" | "Floor" | "Greater"
        | "GreaterOrEqual" | "IsInf" | "IsNaN" | "Less" | "LessOrEqual" | "NonZero" | "Not" | "Or" | "Range"
        | "Round" | "Shape" | "Sign" | "Size" | "Xor" => true,
        "Where" => slot == 0,
        "CastLike" | "Gather" | "GatherElements" | "GatherND" => slot == 1,
        "OneHot" => slot < 2,
        _ => false,
    }
}

/// Returns true for the scale of 1 or bias of 0 with which a normalisation without weights is exported.
pub(super) fn is_unset(graph: &GraphProto, (node, slot): (usize, usize), data: &[f32]) -> bool {
    let constant = if slot == 1 { 1.0 } else { 0.0 };
    graph.node[node].op_type.ends_with("Normalization") && matches!(slot, 1 | 2) && data.iter().all(|&x| x == constant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorData;

    fn why(shape: &[usize], data: Vec<f32>) -> Option<&'static str> {
        written(&Tensor { shape: shape.to_vec(), data: TensorData::F32(data.clone().into()) }, &data)
    }

    fn grid(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..rows * columns).map(|flat| f(flat / columns, flat % columns)).collect()
    }

    // A mask has one other value, or masks one side of the diagonal. A weight with an infinity is damaged.
    #[test]
    fn masks_differ_from_damaged_weights() {
        let (inf, weight) = (f32::INFINITY, |r: usize, c: usize| (r * 4 + c) as f32 * 0.1 - 0.7);
        let above = |mark: f32| grid(4, 4, move |r, c| if c > r { mark } else { 0.0 });
        for mark in [f32::MIN, -inf, -1e9, -1e4] {
            assert_eq!(mask(&[1, 4, 4], &above(mark)), Mask::Certain, "{mark}");
        }
        assert_eq!(mask(&[2, 3], &[1.0, -inf, 1.0, 1.0, -inf, 1.0]), Mask::Certain);
        assert_eq!(mask(&[], &[-inf]), Mask::Certain);
        let by_distance = grid(4, 4, |r, c| if c > r { -inf } else { -0.25 * (r - c) as f32 });
        assert_eq!(mask(&[1, 4, 4], &by_distance), Mask::Certain);
        assert_eq!(mask(&[4], &[0.0, -10000.0, 0.0, -10000.0]), Mask::Doubtful);
        assert_eq!(mask(&[4], &[0.0, -inf, 0.0, 0.0]), Mask::Doubtful);
        assert_eq!(mask(&[2, 2], &[-2e9, 0.3, 0.1, 0.2]), Mask::Doubtful);
        for bad in [inf, f32::NAN, -inf] {
            let damaged = grid(4, 4, |r, c| if (r, c) == (2, 2) { bad } else { weight(r, c) });
            assert_eq!(mask(&[4, 4], &damaged), Mask::Damaged, "{bad}");
            assert_eq!(mask(&[3], &[0.1, bad, 0.2]), Mask::Damaged, "{bad}");
            let above = grid(4, 4, |r, c| if (r, c) == (1, 2) { bad } else { weight(r, c) });
            assert_eq!(mask(&[4, 4], &above), Mask::Damaged, "{bad}");
        }
        assert_eq!(mask(&[2], &[0.0, inf]), Mask::Damaged);
        assert_eq!(mask(&[4, 4], &grid(4, 4, weight)), Mask::No);
        assert_eq!(mask(&[4], &[0.0; 4]), Mask::No);
    }

    // Masks and position tables of exporters are constants. Initial weights are not.
    #[test]
    fn exported_constants_differ_from_weights() {
        let angle = |row: usize, k: usize| row as f32 * 0.1f32.powi(k as i32);
        let table = |row: usize, column: usize| {
            let (sine, cosine) = angle(row, column / 2).sin_cos();
            if column.is_multiple_of(2) { sine } else { cosine }
        };
        let halves = |row: usize, column: usize| {
            let (sine, cosine) = angle(row, column % 2).sin_cos();
            if column < 2 { sine } else { cosine }
        };
        assert!(why(&[4, 4], grid(4, 4, |r, c| f32::from(c <= r))).unwrap().starts_with("a causal mask"));
        assert!(why(&[1, 6, 4], grid(6, 4, table)).unwrap().contains("sines"));
        assert!(why(&[6, 4], grid(6, 4, halves)).unwrap().contains("sines"));
        assert!(why(&[4], vec![1.0, 0.1, 0.01, 0.001]).unwrap().contains("frequencies"));
        assert!(why(&[2, 1], vec![0.0625, 0.00390625]).unwrap().contains("slopes"));
        assert!(why(&[8, 1, 1], (1..9).map(|k| 0.5f32.powi(k)).collect()).unwrap().contains("slopes"));
        let window = |t: usize| 0.5 - 0.5 * (t as f32 * std::f32::consts::TAU / 16.0).cos();
        let filter = |row: usize, t: usize| {
            let (sine, cosine) = ((row % 9 * t) as f32 * std::f32::consts::TAU / 16.0).sin_cos();
            window(t) * if row < 9 { cosine } else { -sine }
        };
        assert!(why(&[18, 1, 16], grid(18, 16, filter)).unwrap().contains("Fourier"));
        // Weights at their initial values.
        assert_eq!(why(&[4, 4], grid(4, 4, |r, c| f32::from(r == c))), None);
        assert_eq!(why(&[4, 4], vec![0.0; 16]), None);
        assert_eq!(why(&[4], vec![1.0; 4]), None);
        assert_eq!(why(&[4], vec![1.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(why(&[2, 1], vec![0.3, 0.09]), None);
        assert_eq!(why(&[2], vec![0.5, 0.25]), None);
        assert_eq!(why(&[18, 1, 16], grid(18, 16, |r, t| (r * 16 + t) as f32 * 0.01 - 1.0)), None);
        assert_eq!(why(&[18, 1, 16], vec![0.5; 18 * 16 - 1].into_iter().chain([0.6]).collect()), None);
        let damaged =
            |bad: f32| grid(64, 10, |r, c| if (r, c) == (0, 7) { bad } else { (r * 37 + c) as f32 / 2000.0 - 0.15 });
        for bad in [1e20, f32::INFINITY, f32::NAN, 3.0] {
            assert_eq!(why(&[64, 10], damaged(bad)), None);
        }
        assert_eq!(why(&[4, 4], grid(4, 4, |r, c| (r * 4 + c) as f32 * 0.1 - 0.7)), None);
    }
}
