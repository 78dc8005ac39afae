//! Matrix products.

use super::var::Var;
use super::{Emitter, broadcast};
use damper_onnx::graph::BatchAxis;
use damper_onnx::make_attr_int;

impl Emitter {
    /// Matrix product over the last two axes, with leading axes broadcast. Both ranks must be at least 2.
    ///
    /// Products of a batch with one column are emitted as sums of products. With such a column, onnxruntime multiplies
    /// blocks of rows, and the remaining rows in another way with other bits. So a sample's bits would depend on its
    /// position. (For the sums, which are products with all-one vectors, both ways give the same bits.)
    pub fn matmul(&mut self, a: &Var, b: &Var) -> Var {
        let (inner, columns) = (b.shape[b.rank() - 2], b.shape[b.rank() - 1]);
        if columns == 1 && inner > 1 && a.batch.is_some() && b.batch.is_none() {
            let row = self.transpose_last(b);
            let products = self.mul(a, &row);
            return self.reduce_sum(&products, &[products.rank() - 1], true);
        }
        if a.shape[a.rank() - 2] == 1
            && inner > 1
            && a.batch.is_none()
            && b.batch.is_some_and(|at| at.axis == b.rank() - 1)
        {
            let (left, right) = (self.transpose_last(b), self.transpose_last(a));
            let transposed = self.matmul(&left, &right);
            return self.transpose_last(&transposed);
        }
        self.product(a, b)
    }

    pub(super) fn product(&mut self, a: &Var, b: &Var) -> Var {
        let (ra, rb) = (a.rank(), b.rank());
        debug_assert_eq!(a.shape[ra - 1], b.shape[rb - 2], "matmul {a:?} {b:?}");
        // Treat both as [.., m, n] to broadcast the leading axes and find the batch.
        let (m, n) = (a.shape[ra - 2], b.shape[rb - 1]);
        let stretch = |v: &Var, rank: usize| {
            let mut v = v.clone();
            v.shape[rank - 2] = m;
            v.shape[rank - 1] = n;
            v
        };
        let (shape, batch) = broadcast(&stretch(a, ra), &stretch(b, rb));
        self.node("MatMul", &[a, b], vec![], a.dtype, shape, batch)
    }

    /// `op(a) · op(b)` of two matrices. `op` transposes if its flag is set.
    pub fn gemm(&mut self, a: &Var, transpose_a: bool, b: &Var, transpose_b: bool) -> Var {
        let at = |v: &Var, flip: bool, i: usize| v.shape[i ^ flip as usize];
        let shape = vec![at(a, transpose_a, 0), at(b, transpose_b, 1)];
        if !transpose_a && !transpose_b || shape.contains(&1) {
            let a = if transpose_a { self.transpose_last(a) } else { a.clone() };
            let b = if transpose_b { self.transpose_last(b) } else { b.clone() };
            return self.matmul(&a, &b);
        }
        let side = |v: &Var, flip: bool| v.batch.map(|b| BatchAxis { axis: b.axis ^ flip as usize, ..b });
        let batch = side(a, transpose_a).or(side(b, transpose_b));
        let flags = vec![make_attr_int("transA", transpose_a as i64), make_attr_int("transB", transpose_b as i64)];
        self.node("Gemm", &[a, b], flags, a.dtype, shape, batch)
    }
}
