//! Lookups by index and their transpose, shared by all operators that select elements.
//!
//! Indices from data are not trusted: reads, and additions of their gradients, stay inside the table for any index. A
//! negative index counts from the end, as in ONNX. An index outside the table makes its result NaN, and so that
//! sample's gradient, which then contributes nothing. Other samples are not affected.

use super::emit::{BATCH_FIRST, Emitter, Var};
use damper_onnx::graph::{DType, Tensor, TensorData};

/// Indices from data, and whether they were valid.
pub struct Checked {
    /// Index within the table, int64.
    pub index: Var,
    /// True if the original index was valid.
    pub valid: Var,
}

/// Makes `index` safe for an axis of `extent`.
pub fn checked(em: &mut Emitter, index: &Var, extent: usize) -> Checked {
    let mut int = |value: i64| em.constant(Tensor { shape: vec![], data: TensorData::I64(vec![value]) });
    let count = extent as i64;
    let (lowest, zero, last, extent) = (int(-count - 1), int(0), int(count - 1), int(count));
    // At most one past either end, so that counting from the end cannot overflow.
    let index = em.cast(index, DType::I64);
    let index = em.binary("Max", &index, &lowest);
    let index = em.binary("Min", &index, &extent);
    let below = em.compare("Less", &index, &zero);
    let from_end = em.add(&index, &extent);
    let counted = em.choose(&below, &from_end, &index);
    let above = em.binary("Max", &counted, &zero);
    let index = em.binary("Min", &above, &last);
    let valid = em.compare("Equal", &index, &counted);
    Checked { index, valid }
}

/// `found` for valid indices, else NaN. Integers keep the value of the nearest row. `valid` lacks the last `behind`
/// axes of `found`.
pub fn found(em: &mut Emitter, found: &Var, valid: &Var, behind: usize) -> Var {
    if !found.dtype.is_float() {
        return found.clone();
    }
    let valid = em.reshape(valid, &[&valid.shape[..], &vec![1; behind]].concat(), valid.batch);
    let nan = em.scalar(found.dtype, f64::NAN);
    em.choose(&valid, found, &nan)
}

/// Transpose of a lookup of rows `indices` along `axis`. The result has `extent` rows, each the sum of the rows of
/// `rows` that were read from it.
pub fn scatter(em: &mut Emitter, rows: &Var, axis: usize, indices: &[usize], extent: usize) -> Var {
    let count = indices.len();
    let ascends = indices.windows(2).all(|pair| pair[1] == pair[0] + 1);
    if ascends {
        let mut pads = vec![(0, 0); rows.rank()];
        pads[axis] = (indices[0], extent - indices[0] - count);
        return em.pad(rows, &pads, 0.0);
    }
    let mut source: Vec<Option<usize>> = vec![None; extent];
    let mut once = true;
    for (from, &to) in indices.iter().enumerate() {
        once &= source[to].replace(from).is_none();
    }
    if once {
        // Rows that were never read become a row of zeros after the others.
        let mut pads = vec![(0, 0); rows.rank()];
        pads[axis] = (0, usize::from(source.contains(&None)));
        let padded = em.pad(rows, &pads, 0.0);
        let picked: Vec<i64> = source.iter().map(|from| from.unwrap_or(count) as i64).collect();
        return em.gather(&padded, &picked, axis);
    }
    let mut ones = vec![0.0; count * extent];
    for (from, &to) in indices.iter().enumerate() {
        ones[to * count + from] = 1.0;
    }
    let ones = em.floats(rows.dtype, &[extent, count], ones);
    along(em, &ones, rows, axis)
}

/// Multiplies `matrix` (`[to, from]`) by the matrices with rows along `axis`, which must not be the batch. Each sample
/// has its own product because the bits of a row depend on its position among the rows.
pub fn along(em: &mut Emitter, matrix: &Var, x: &Var, axis: usize) -> Var {
    let [before, from, after] = split_at_axis(&x.shape, axis);
    let mut shape = x.shape.clone();
    shape[axis] = matrix.shape[0];
    match x.batch {
        Some(batch) => {
            let matrices = em.per_sample(x, &[before, from, after]);
            let product = em.matmul(matrix, &matrices);
            em.as_batched(&product, &shape, batch)
        }
        None => {
            let matrices = em.reshape(x, &[before, from, after], None);
            let product = em.matmul(matrix, &matrices);
            em.reshape(&product, &shape, None)
        }
    }
}

/// Gradient `[N, before, extent, after]` of a table that is the same for all samples. Each row is the sum of the rows
/// of `grad` (`[N, before, S, after]`) whose `index` (`[N, S]`) is this row.
///
/// A product with one-hot indices. The order of the sums is that of the positions, and no index addresses memory.
pub fn embedding_gradient(em: &mut Emitter, index: &Var, grad: &Var, extent: usize) -> Var {
    let positions = index.shape[1];
    let row = em.reshape(index, &[1, 1, 1, positions], Some(BATCH_FIRST));
    let numbers = numbers(em, &[extent, 1]);
    let hits = em.compare("Equal", &numbers, &row);
    let one_hot = em.cast(&hits, grad.dtype);
    em.matmul(&one_hot, grad)
}

/// The integers 0, 1, …, in the given shape.
pub fn numbers(em: &mut Emitter, shape: &[usize]) -> Var {
    let count = shape.iter().product::<usize>() as i64;
    em.constant(Tensor { shape: shape.to_vec(), data: TensorData::I64((0..count).collect()) })
}

/// Extents before `axis`, along it, and after it.
pub fn split_at_axis(shape: &[usize], axis: usize) -> [usize; 3] {
    [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
}
