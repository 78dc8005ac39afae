//! Kernels of a program. Each is a function of `damper-nn` with its shape.

use super::value::{Slice, SliceMut};
use damper_nn::convolution::{self, KernelStrides};
use damper_nn::elementwise::{self, Binary, Compare, Unary, Whole};
use damper_nn::index::{self, Along};
use damper_nn::product::{self, Product};
use damper_nn::reduce::{self, Fold, Reduction};
use damper_nn::{Walk, Wide, Window, layout, pool};
use pulp::{Simd, WithSimd};

/// Boolean function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logic {
    /// True if both operands are true.
    And,
    /// True if at least one operand is true.
    Or,
    /// True if exactly one operand is true.
    Xor,
}

/// Computation of a step.
#[derive(Clone, PartialEq, Debug)]
pub enum Kernel {
    /// Elementwise function.
    Unary(Unary),
    /// Arithmetic on floats.
    Binary(Binary, Walk<2>),
    /// Arithmetic on integers.
    Whole(Whole, Walk<2>),
    /// Comparison of floats or integers.
    Compare(Compare, Walk<2>),
    /// Boolean function.
    Logic(Logic, Walk<2>),
    /// Boolean negation.
    Not,
    /// Elementwise test for NaN.
    IsNan,
    /// Elementwise choice by a condition.
    Select(Walk<3>),
    /// Type conversion.
    Cast,
    /// Transpose, slice or expansion.
    Copy(Walk<1>),
    /// Concatenation. Each operand has its walk.
    Concat(Vec<Walk<1>>),
    /// Copy of the first operand, padded with the second, a scalar.
    Pad(Walk<1>),
    /// Reduction.
    Reduce(Fold, Reduction),
    /// Matrix products.
    Product(Product),
    /// Convolution of image and kernel, with a bias if there is a third operand.
    Forward(Window),
    /// Transposed convolution, with the same operands.
    Transposed(Window, KernelStrides),
    /// Maximum of each window.
    MaxPool(Window),
    /// Gradient of a max pool whose windows tile the image. Reads the gradient, the image and the largest entries.
    MaxPoolGrad(Window),
    /// The mean of each window, and whether what is outside counts.
    AveragePool(Window, bool),
    /// Rows at indices.
    Gather(Along),
    /// Entries at indices.
    GatherElements(Along),
    /// Copy of the first operand, with the entries of the third added at the indices of the second.
    ScatterAdd(Along),
}

/// Kernel with its operands, compiled for the SIMD instructions of the processor.
pub(super) struct Call<'k, 'a> {
    pub(super) kernel: &'k Kernel,
    pub(super) reads: &'k [Slice<'a>],
    pub(super) out: SliceMut<'a>,
}

impl WithSimd for Call<'_, '_> {
    type Output = Result<(), damper_nn::Error>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        use Slice::{Bool, F32, I64};
        match (self.kernel, self.reads, self.out) {
            (Kernel::Unary(op), [F32(x)], SliceMut::F32(out)) => elementwise::unary(*op, x, out),
            (Kernel::Binary(op, walk), [F32(a), F32(b)], SliceMut::F32(out)) => {
                elementwise::binary(*op, walk, a, b, out)
            }
            (Kernel::Whole(op, walk), [I64(a), I64(b)], SliceMut::I64(out)) => elementwise::whole(*op, walk, a, b, out),
            (Kernel::Compare(op, walk), reads, SliceMut::Bool(out)) => compare(*op, walk, reads, out),
            (Kernel::Logic(op, walk), [Bool(a), Bool(b)], SliceMut::Bool(out)) => match op {
                Logic::And => elementwise::zip(walk, a, b, out, |a, b| a && b),
                Logic::Or => elementwise::zip(walk, a, b, out, |a, b| a || b),
                Logic::Xor => elementwise::zip(walk, a, b, out, |a, b| a != b),
            },
            (Kernel::Not, [Bool(x)], SliceMut::Bool(out)) => elementwise::map(x, out, |x: bool| !x),
            (Kernel::IsNan, [F32(x)], SliceMut::Bool(out)) => elementwise::map(x, out, f32::is_nan),
            (Kernel::Select(walk), [Bool(c), a, b], out) => select(walk, c, (a, b), out),
            (Kernel::Cast, [x], out) => cast(x, out),
            (Kernel::Copy(walk), [F32(x)], SliceMut::F32(out)) => layout::copy(walk, x, out),
            (Kernel::Copy(walk), [I64(x)], SliceMut::I64(out)) => layout::copy(walk, x, out),
            (Kernel::Copy(walk), [Bool(x)], SliceMut::Bool(out)) => layout::copy(walk, x, out),
            (Kernel::Concat(walks), reads, SliceMut::F32(out)) => {
                walks.iter().zip(reads).try_for_each(|(walk, x)| match x {
                    F32(x) => layout::place(walk, x, out),
                    _ => Err(damper_nn::Error::Length),
                })
            }
            (Kernel::Concat(walks), reads, SliceMut::I64(out)) => {
                walks.iter().zip(reads).try_for_each(|(walk, x)| match x {
                    I64(x) => layout::place(walk, x, out),
                    _ => Err(damper_nn::Error::Length),
                })
            }
            (Kernel::Pad(walk), [F32(x), F32([around])], SliceMut::F32(out)) => {
                out.fill(*around);
                layout::place(walk, x, out)
            }
            (Kernel::Reduce(fold, reduction), [F32(x)], SliceMut::F32(out)) => reduce::reduce(*fold, reduction, x, out),
            (Kernel::Product(shape), [F32(a), F32(b)], SliceMut::F32(out)) => {
                product::product::<Wide>(shape, a, b, out)
            }
            (Kernel::Forward(window), [F32(x), F32(kernel), bias @ ..], SliceMut::F32(out)) => {
                convolution::forward::<Wide>(window, x, kernel, bias_of(bias), out)
            }
            (Kernel::Transposed(window, strides), [F32(y), F32(kernel), bias @ ..], SliceMut::F32(out)) => {
                convolution::transposed::<Wide>(window, y, kernel, *strides, bias_of(bias), out)
            }
            (Kernel::MaxPool(window), [F32(x)], SliceMut::F32(out)) => pool::max_pool(window, x, out),
            (Kernel::MaxPoolGrad(window), [F32(dy), F32(x), F32(y)], SliceMut::F32(out)) => {
                pool::max_pool_grad(window, dy, x, y, out)
            }
            (Kernel::AveragePool(window, counts_outside), [F32(x)], SliceMut::F32(out)) => {
                pool::average_pool(window, *counts_outside, x, out)
            }
            (Kernel::Gather(along), [F32(x), I64(indices)], SliceMut::F32(out)) => {
                index::gather(along, x, indices, out)
            }
            (Kernel::Gather(along), [I64(x), I64(indices)], SliceMut::I64(out)) => {
                index::gather(along, x, indices, out)
            }
            (Kernel::Gather(along), [Bool(x), I64(indices)], SliceMut::Bool(out)) => {
                index::gather(along, x, indices, out)
            }
            (Kernel::GatherElements(along), [F32(x), I64(indices)], SliceMut::F32(out)) => {
                index::gather_elements(along, x, indices, out)
            }
            (Kernel::GatherElements(along), [I64(x), I64(indices)], SliceMut::I64(out)) => {
                index::gather_elements(along, x, indices, out)
            }
            (Kernel::ScatterAdd(along), [F32(x), I64(indices), F32(updates)], SliceMut::F32(out)) => {
                elementwise::map(x, out, |x: f32| x)?;
                index::scatter_add(along, indices, updates, out)
            }
            _ => Err(damper_nn::Error::Length),
        }
    }
}

#[inline(always)]
fn compare(op: Compare, walk: &Walk<2>, reads: &[Slice<'_>], out: &mut [bool]) -> Result<(), damper_nn::Error> {
    match reads {
        [Slice::F32(a), Slice::F32(b)] => elementwise::compare(op, walk, a, b, out),
        [Slice::I64(a), Slice::I64(b)] => elementwise::compare(op, walk, a, b, out),
        [Slice::Bool(a), Slice::Bool(b)] => elementwise::compare(op, walk, a, b, out),
        _ => Err(damper_nn::Error::Length),
    }
}

#[inline(always)]
fn select(
    walk: &Walk<3>,
    c: &[bool],
    choices: (&Slice<'_>, &Slice<'_>),
    out: SliceMut<'_>,
) -> Result<(), damper_nn::Error> {
    match (choices, out) {
        ((Slice::F32(a), Slice::F32(b)), SliceMut::F32(out)) => elementwise::select(walk, c, a, b, out),
        ((Slice::I64(a), Slice::I64(b)), SliceMut::I64(out)) => elementwise::select(walk, c, a, b, out),
        ((Slice::Bool(a), Slice::Bool(b)), SliceMut::Bool(out)) => elementwise::select(walk, c, a, b, out),
        _ => Err(damper_nn::Error::Length),
    }
}

#[inline(always)]
fn cast(x: &Slice<'_>, out: SliceMut<'_>) -> Result<(), damper_nn::Error> {
    match (x, out) {
        (Slice::F32(x), SliceMut::I64(out)) => elementwise::map(x, out, |x| x as i64),
        (Slice::F32(x), SliceMut::Bool(out)) => elementwise::map(x, out, |x| x != 0.0),
        (Slice::I64(x), SliceMut::F32(out)) => elementwise::map(x, out, |x| x as f32),
        (Slice::I64(x), SliceMut::Bool(out)) => elementwise::map(x, out, |x| x != 0),
        (Slice::Bool(x), SliceMut::F32(out)) => elementwise::map(x, out, |x| if x { 1.0 } else { 0.0 }),
        (Slice::Bool(x), SliceMut::I64(out)) => elementwise::map(x, out, i64::from),
        _ => Err(damper_nn::Error::Length),
    }
}

/// Bias, the third operand of a convolution.
#[inline(always)]
fn bias_of<'a>(rest: &[Slice<'a>]) -> Option<&'a [f32]> {
    match rest {
        [Slice::F32(bias)] => Some(bias),
        _ => None,
    }
}
