//! Float tensors that are constants of the source, told by their values and their readers.

use super::Tensor;
use crate::pb::{GraphProto, NodeProto};
use crate::{DType, attr_int};

/// How far a square of sine and cosine may be from 1.
const UNIT: f32 = 1e-4;

/// Why `data` is written by no initialiser of weights; `None` where it may be a weight.
pub(super) fn written(tensor: &Tensor, data: &[f32]) -> Option<&'static str> {
    if is_mask(data) {
        return Some("a mask: it holds infinities or numbers below -1e9");
    }
    if is_causal(&tensor.shape, data) {
        return Some("a causal mask: one number below the diagonal, another above it");
    }
    if is_sinusoid(&tensor.shape, data) {
        return Some("a table of sines and cosines");
    }
    is_frequencies(data).then_some("the frequencies of sines and cosines: powers of one number")
}

/// Infinities, the least float, or only 0 and one number of at most -1e4.
fn is_mask(data: &[f32]) -> bool {
    let least = data.iter().copied().fold(0.0, f32::min);
    data.iter().any(|x| x.is_infinite() || *x <= -1e9) || least <= -1e4 && data.iter().all(|&x| x == 0.0 || x == least)
}

/// The last two axes are square, with one number below the diagonal and another above; the diagonal goes with either.
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
            std::cmp::Ordering::Less => x == above,
            std::cmp::Ordering::Greater => x == below,
            std::cmp::Ordering::Equal => x == data[0] && (x == above || x == below),
        }
    };
    above != below && data.iter().enumerate().all(fits)
}

/// Sine and cosine of the same angle beside each other, or half a row apart, in every row.
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

/// `1, r, r², …` for a rate below 1: the frequencies of rotary and of sinusoidal positions.
fn is_frequencies(data: &[f32]) -> bool {
    if data.len() < 3 || data[0] != 1.0 || !(0.0..1.0).contains(&data[1]) || data[1] == 0.0 {
        return false;
    }
    data.windows(2).all(|pair| (pair[1] / pair[0] / data[1] - 1.0).abs() < UNIT)
}

/// The cosines to these sines, or the other way round: a table of the same shape that makes every square sum 1.
pub(super) fn is_rotary(data: &[f32], other: &[f32]) -> bool {
    let unit = |(a, b): (&f32, &f32)| (a * a + b * b - 1.0).abs() < UNIT;
    data.len() == other.len() && data.len() >= 16 && data.iter().zip(other).all(unit)
}

/// Returns true if no gradient leaves `node` through input `slot`: it reads numbers as integers, truth values or a shape, or in steps.
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

/// A scale of ones or a bias of zeros that a normalisation without a weight is exported with.
pub(super) fn is_unset(graph: &GraphProto, (node, slot): (usize, usize), data: &[f32]) -> bool {
    let constant = if slot == 1 { 1.0 } else { 0.0 };
    graph.node[node].op_type.ends_with("Normalization") && matches!(slot, 1 | 2) && data.iter().all(|&x| x == constant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorData;

    fn why(shape: &[usize], data: Vec<f32>) -> Option<&'static str> {
        written(&Tensor { shape: shape.to_vec(), data: TensorData::F32(data.clone()) }, &data)
    }

    fn grid(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..rows * columns).map(|flat| f(flat / columns, flat % columns)).collect()
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
        assert!(why(&[1, 4, 4], grid(4, 4, |r, c| if c > r { f32::MIN } else { 0.0 })).unwrap().starts_with("a mask"));
        assert!(why(&[4], vec![0.0, -10000.0, 0.0, -10000.0]).unwrap().starts_with("a mask"));
        assert!(why(&[4, 4], grid(4, 4, |r, c| f32::from(c <= r))).unwrap().starts_with("a causal mask"));
        assert!(why(&[1, 6, 4], grid(6, 4, table)).unwrap().contains("sines"));
        assert!(why(&[6, 4], grid(6, 4, halves)).unwrap().contains("sines"));
        assert!(why(&[4], vec![1.0, 0.1, 0.01, 0.001]).unwrap().contains("frequencies"));
        // Weights at their initial values.
        assert_eq!(why(&[4, 4], grid(4, 4, |r, c| f32::from(r == c))), None);
        assert_eq!(why(&[4, 4], vec![0.0; 16]), None);
        assert_eq!(why(&[4], vec![1.0; 4]), None);
        assert_eq!(why(&[4], vec![1.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(why(&[4, 4], grid(4, 4, |r, c| (r * 4 + c) as f32 * 0.1 - 0.7)), None);
    }
}
