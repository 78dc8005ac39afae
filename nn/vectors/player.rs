// Runs all forms of kernels on recorded vectors, in memory of the caller. The crate's tests run it on systems with an
// OS, and `firmware-examples/vectors` on boards.

use damper_nn::convolution::{KernelStrides, forward, kernel_grad, kernel_grad_in_parts, transposed};
use damper_nn::elementwise::{Binary, Unary, binary, unary};
use damper_nn::pool::{average_pool, max_pool};
use damper_nn::product::{Product, product};
use damper_nn::quantized::{self, Quantized};
use damper_nn::reduce::{Fold, Reduction, reduce};
use damper_nn::{Axis, Error, Lanes, Narrow, Walk, Wide, Window};

/// Recorded vector: the name of the kernel, its sizes, operands and output.
pub struct KernelVector<'a> {
    pub name: &'a str,
    pub sizes: &'a [usize],
    pub operands: &'a [&'a [f32]],
    pub output: &'a [f32],
}

/// Maximum number of output entries.
pub const LONGEST: usize = 3150;
/// Maximum number of entries of one output's kernel gradient.
pub const PART: usize = 630;
/// Maximum number of integers and of zero points of a quantised weight.
const INTEGERS: usize = 2100;
const ROWS: usize = 128;

/// First mismatch: form, entry and computed value.
pub type VectorMismatch = (usize, usize, f32);

/// Runs at most `most` forms of the vector's kernel. Returns how many it ran: 0 if the kernel or its sizes are unknown.
pub fn play(vector: &KernelVector<'_>, memory: &mut [f32], most: usize) -> Result<usize, VectorMismatch> {
    let Some(out) = memory.get_mut(..vector.output.len()) else { return Ok(0) };
    let mut form = 0;
    loop {
        out.fill(f32::NAN);
        if form == most || !matches!(compute(vector, form, out), Some(Ok(()))) {
            return Ok(form);
        }
        for (at, want) in vector.output.iter().enumerate() {
            let got = out.get(place(vector, form, at)).copied().unwrap_or(f32::NAN);
            if !same(got, *want) {
                return Err((form, at, got));
            }
        }
        form += 1;
    }
}

/// Computes a recorded `kernel_grad` in parts that fit `part`, less memory than its output takes. Returns the number of
/// entries that it compared: 0 if the vector is of another kernel, or if the kernel fails.
// Not inlined, as the families below.
#[inline(never)]
pub fn play_in_parts(vector: &KernelVector<'_>, part: &mut [f32]) -> Result<usize, VectorMismatch> {
    let ("kernel_grad", Some(window), &[dy, x]) = (vector.name, window(vector.sizes), vector.operands) else {
        return Ok(0);
    };
    let (mut at, mut mismatch) = (0, None);
    part.fill(f32::NAN);
    let played = kernel_grad_in_parts::<Narrow>(&window, dy, x, part, |part| {
        for got in part {
            if !vector.output.get(at).is_some_and(|want| same(*got, *want)) {
                mismatch.get_or_insert((0, at, *got));
            }
            at += 1;
        }
    });
    match (played, mismatch) {
        (_, Some(mismatch)) => Err(mismatch),
        (Ok(()), None) if at == vector.output.len() => Ok(at),
        _ => Ok(0),
    }
}

/// Returns true if two values have the same bits, or both are NaN.
fn same(got: f32, want: f32) -> bool {
    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
}

/// Returns the index of output entry `at` in the result of a form.
fn place(vector: &KernelVector<'_>, form: usize, at: usize) -> usize {
    match (vector.name, form, vector.sizes) {
        // The transposed product.
        ("product_quantized", 1, &[rows, columns, ..]) => at % columns * rows + at / columns,
        _ => at,
    }
}

// Families of kernels are separate functions, so that their buffers are not on the stack together. Boards have little
// RAM.
fn compute(vector: &KernelVector<'_>, form: usize, out: &mut [f32]) -> Option<Result<(), Error>> {
    let (&a, rest) = vector.operands.split_first()?;
    match vector.name {
        "forward" | "transposed" | "kernel_grad" => match form {
            0 => convolution::<Narrow>(vector, a, rest, out),
            1 => convolution::<Wide>(vector, a, rest, out),
            _ => None,
        },
        "product" => multiply(vector, form, a, rest.first()?, out),
        "product_quantized" => multiply_quantized(vector, form, a, rest, out),
        "forward_quantized" | "transposed_quantized" if form == 0 => convolution_quantized(vector, a, rest, out),
        _ if form == 0 => other(vector, a, rest.first().copied().unwrap_or_default(), out),
        _ => None,
    }
}

#[inline(never)]
fn convolution<L: Lanes>(
    vector: &KernelVector<'_>,
    a: &[f32],
    rest: &[&[f32]],
    out: &mut [f32],
) -> Option<Result<(), Error>> {
    let (window, second, bias) = (window(vector.sizes)?, *rest.first()?, rest.get(1).copied());
    Some(match vector.name {
        "forward" => forward::<L>(&window, a, second, bias, out),
        "transposed" => transposed::<L>(&window, a, second, KernelStrides::onnx(&window), bias, out),
        _ => kernel_grad::<L>(&window, a, second, out),
    })
}

#[inline(never)]
fn multiply(
    vector: &KernelVector<'_>,
    form: usize,
    a: &[f32],
    second: &[f32],
    out: &mut [f32],
) -> Option<Result<(), Error>> {
    let &[rows, columns, terms] = vector.sizes else { return None };
    let stack = Walk::new(&[], [&[], &[]], [0, 0])?;
    let shape = Product::new([rows, columns, terms], [terms, 1], [columns, 1], stack)?;
    match form {
        0 => Some(product::<Narrow>(&shape, a, second, out)),
        1 => Some(product::<Wide>(&shape, a, second, out)),
        _ => None,
    }
}

#[inline(never)]
fn multiply_quantized(
    vector: &KernelVector<'_>,
    form: usize,
    a: &[f32],
    rest: &[&[f32]],
    out: &mut [f32],
) -> Option<Result<(), Error>> {
    let &[rows, columns, terms, inner] = vector.sizes else { return None };
    let stack = Walk::new(&[], [&[], &[]], [0, 0])?;
    match form {
        0 => {
            let shape = Product::new([rows, columns, terms], [terms, 1], [columns, 1], stack)?;
            with_weight(rest, inner, |weight| quantized::product_right::<Narrow>(&shape, a, weight, out))
        }
        // In the transposed product, the weight is on the left.
        1 => {
            let turned = Product::new([columns, rows, terms], [1, columns], [1, terms], stack)?;
            with_weight(rest, inner, |weight| quantized::product_left::<Narrow>(&turned, weight, a, out))
        }
        _ => None,
    }
}

#[inline(never)]
fn convolution_quantized(
    vector: &KernelVector<'_>,
    a: &[f32],
    rest: &[&[f32]],
    out: &mut [f32],
) -> Option<Result<(), Error>> {
    let window = window(vector.sizes)?;
    let (inner, strides) = (window.kernel_len() / window.outputs, KernelStrides::onnx(&window));
    with_weight(rest, inner, |kernel| match vector.name {
        "forward_quantized" => quantized::forward::<Narrow>(&window, a, kernel, None, out),
        _ => quantized::transposed::<Narrow>(&window, a, kernel, strides, None, out),
    })
}

#[inline(never)]
fn other(vector: &KernelVector<'_>, a: &[f32], second: &[f32], out: &mut [f32]) -> Option<Result<(), Error>> {
    let op = match vector.name {
        "average_pool" => return Some(average_pool(&pooled(vector.sizes)?, false, a, out)),
        "max_pool" => return Some(max_pool(&pooled(vector.sizes)?, a, out)),
        "sum" => {
            let (&rank, sizes) = vector.sizes.split_first()?;
            let (shape, &[axis]) = sizes.split_at_checked(rank)? else { return None };
            // An axis after the last stands for all axes.
            let reduction = Reduction::new(shape, |at| at == axis || axis == rank)?;
            return Some(reduce(Fold::Sum, &reduction, a, out));
        }
        "sqrt" => return Some(unary(Unary::Sqrt, a, out)),
        "add" => Binary::Add,
        "sub" => Binary::Sub,
        "mul" => Binary::Mul,
        "div" => Binary::Div,
        _ => return None,
    };
    let walk = Walk::broadcast(&[a.len()], [&[a.len()], &[a.len()]])?;
    Some(binary(op, &walk, a, second, out))
}

fn window(sizes: &[usize]) -> Option<Window> {
    let &[channels, outputs, groups, h, w, oh, ow, kh, kw, stride, dilation, before] = sizes else { return None };
    let axis = |input, output, kernel| Axis { input, output, kernel, stride, dilation, before };
    Window::new(channels, outputs, groups, [axis(h, oh, kh), axis(w, ow, kw)])
}

/// Returns a pool's window, with one group per channel.
fn pooled(sizes: &[usize]) -> Option<Window> {
    let mut own: [usize; 12] = sizes.try_into().ok()?;
    own[2] = own[0];
    window(&own)
}

/// Calls `run` with the weight that has the integers, scales and zero points in `operands`.
fn with_weight<T>(operands: &[&[f32]], inner: usize, run: impl FnOnce(&Quantized<'_>) -> T) -> Option<T> {
    let &[values, scales, zeros] = operands else { return None };
    let (mut integers, mut rows) = ([0; INTEGERS], [0; ROWS]);
    Some(run(&Quantized { values: small(values, &mut integers)?, scales, zeros: small(zeros, &mut rows)?, inner }))
}

fn small<'m>(floats: &[f32], memory: &'m mut [i8]) -> Option<&'m [i8]> {
    let memory = memory.get_mut(..floats.len())?;
    memory.iter_mut().zip(floats).for_each(|(integer, float)| *integer = *float as i8);
    Some(memory)
}

/// FNV-1a digest of the results of `libm` functions over a grid. It was recorded on x86-64 and is the same on every
/// target.
pub const FUNCTIONS: u64 = 3_984_082_756_321_604_042;

/// Computes the digest for comparison with [`FUNCTIONS`].
pub fn functions() -> Option<u64> {
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    for op in [Unary::Cos, Unary::Erf, Unary::Exp, Unary::Log, Unary::Sigmoid, Unary::Sin, Unary::Tanh] {
        for first in (0..4000u16).step_by(50) {
            let x: [f32; 50] = core::array::from_fn(|at| (f32::from(first + at as u16) - 2000.0) * 0.0137);
            let mut out = [0.0; 50];
            unary(op, &x, &mut out).ok()?;
            for value in out.iter().filter(|value| !value.is_nan()) {
                digest = (digest ^ u64::from(value.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
    Some(digest)
}
