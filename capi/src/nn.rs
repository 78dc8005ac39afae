//! Kernels of networks for the C files that `damper compile --target c` writes: the functions of `include/damper_nn.h`,
//! which cbindgen does not generate. The shape of a kernel determines the lengths of its arguments.

use crate::ffi::{input_alone, output_alone};
use crate::segments::Sink;
use crate::status::{FfiResult, Status, status};
use damper_nn::convolution::{self, KernelStrides};
use damper_nn::elementwise::{self, Binary, Compare, Unary, Whole};
use damper_nn::index::{self, Along};
use damper_nn::product::{self, Product};
use damper_nn::quantized::{self, Quantized};
use damper_nn::reduce::{self, Fold, Reduction};
use damper_nn::{Error, Narrow, Walk, Window, layout, pool};

/// Converts the result of a kernel.
fn answer(answer: Result<(), Error>) -> FfiResult {
    answer.map_err(|error| match error {
        Error::Length => Status::Length,
        Error::Index => Status::Range,
    })
}

/// Borrows a shape.
unsafe fn shape<'a, T>(shape: *const T) -> FfiResult<&'a T> {
    // SAFETY: the caller's contract.
    unsafe { input_alone(shape, 1) }?.first().ok_or(Status::Null)
}

/// A weight of 8-bit integers, in its C layout.
#[repr(C)]
struct QuantizedWeight {
    values: *const i8,
    scales: *const f32,
    zeros: *const i8,
    len: usize,
    channels: usize,
    inner: usize,
}

/// Borrows the slices of a weight.
unsafe fn weight(of: &QuantizedWeight) -> FfiResult<Quantized<'_>> {
    // SAFETY: the caller's contract.
    unsafe {
        Ok(Quantized {
            values: input_alone(of.values, of.len)?,
            scales: input_alone(of.scales, of.channels)?,
            zeros: input_alone(of.zeros, of.channels)?,
            inner: of.inner,
        })
    }
}

/// Returns the number of elements of a tensor.
fn elements<const N: usize>(extents: [usize; N]) -> usize {
    extents.iter().fold(1, |len: usize, extent| len.wrapping_mul(*extent))
}

/// Defines functions: shapes, inputs and output, each with its length, further numbers, and the kernel.
macro_rules! kernels {
    ($($name:ident($(&$shape:ident: $of:ty,)* $($read:ident: [$from:ty; $len:expr],)* => $out:ident: [$to:ty; $out_len:expr]
       $(, $number:ident: $number_type:ty)*) $kernel:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($shape: *const $of,)* $($read: *const $from,)* $out: *mut $to $(, $number: $number_type)*
        ) -> Status {
            // SAFETY: the contract of the header.
            let run = || unsafe {
                $(let $shape = shape($shape)?;)*
                $(let $read = input_alone($read, $len)?;)*
                let $out = output_alone($out, $out_len)?;
                answer($kernel)
            };
            status(run())
        }
    )*};
}

/// Defines elementwise functions of one operand.
macro_rules! maps {
    ($($name:ident $from:ty => $to:ty, $function:expr;)*) => {
        kernels! { $($name(x: [$from; len], => out: [$to; len], len: usize) elementwise::map(x, out, $function);)* }
    };
}

macro_rules! unaries {
    ($($name:ident $op:ident;)*) => {
        kernels! { $($name(x: [f32; len], => out: [f32; len], len: usize) elementwise::unary(Unary::$op, x, out);)* }
    };
}

/// Defines elementwise functions of two operands.
macro_rules! pairs {
    ($($name:ident $from:ty => $to:ty, $function:path, $op:expr;)*) => {
        kernels! { $($name(
            &walk: Walk<2>, a: [$from; walk.needed(0)], b: [$from; walk.needed(1)], => out: [$to; walk.len()]
        ) $function($op, walk, a, b, out);)* }
    };
}

macro_rules! of_type {
    ($type:ty, $select:ident, $copy:ident, $place:ident, $gather:ident, $gather_elements:ident) => {
        kernels! {
            $select(
                &walk: Walk<3>, c: [bool; walk.needed(0)], a: [$type; walk.needed(1)], b: [$type; walk.needed(2)],
                => out: [$type; walk.len()]
            ) elementwise::select(walk, c, a, b, out);
            $copy(&walk: Walk<1>, x: [$type; walk.needed(0)], => out: [$type; walk.len()]) layout::copy(walk, x, out);
            $place(&walk: Walk<1>, x: [$type; walk.len()], => out: [$type; walk.needed(0)]) layout::place(walk, x, out);
            $gather(
                &along: Along, x: [$type; elements([along.outer, along.axis, along.inner])], indices: [i64; count],
                => out: [$type; elements([along.outer, count, along.inner])], count: usize
            ) index::gather(along, x, indices, out);
            $gather_elements(
                &along: Along, x: [$type; elements([along.outer, along.axis, along.inner])], indices: [i64; count],
                => out: [$type; count], count: usize
            ) index::gather_elements(along, x, indices, out);
        }
    };
}

/// Returns the number of elements that a reduction reads.
fn reduced_len(of: &Reduction) -> usize {
    if of.is_empty() || of.reduced.is_empty() {
        0
    } else {
        of.kept.needed(0).wrapping_add(of.reduced.needed(0)).wrapping_sub(1)
    }
}

macro_rules! reductions {
    ($($name:ident $fold:ident;)*) => {
        kernels! { $($name(
            &reduction: Reduction, x: [f32; reduced_len(reduction)], => out: [f32; reduction.len()]
        ) reduce::reduce(Fold::$fold, reduction, x, out);)* }
    };
}

/// Functions that replace each entry.
macro_rules! unaries_in_place {
    ($($name:ident $op:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(x: *mut f32, len: usize) -> Status {
            let run = || {
                // SAFETY: the contract of the header.
                let x = unsafe { output_alone(x, len) }?;
                elementwise::unary_in_place(Unary::$op, x);
                Ok(())
            };
            status(run())
        }
    )*};
}

unaries_in_place! {
    damper_nn_relu_in_place Relu;
    damper_nn_sigmoid_in_place Sigmoid;
    damper_nn_tanh_in_place Tanh;
}

unaries! {
    damper_nn_abs Abs;
    damper_nn_ceil Ceil;
    damper_nn_cos Cos;
    damper_nn_erf Erf;
    damper_nn_exp Exp;
    damper_nn_floor Floor;
    damper_nn_log Log;
    damper_nn_neg Neg;
    damper_nn_reciprocal Reciprocal;
    damper_nn_relu Relu;
    damper_nn_round Round;
    damper_nn_sigmoid Sigmoid;
    damper_nn_sign Sign;
    damper_nn_sin Sin;
    damper_nn_sqrt Sqrt;
    damper_nn_tanh Tanh;
}

maps! {
    damper_nn_not bool => bool, |x: bool| !x;
    damper_nn_is_nan f32 => bool, f32::is_nan;
    damper_nn_f32_as_bool f32 => bool, |x: f32| x != 0.0;
    damper_nn_f32_as_i64 f32 => i64, |x: f32| x as i64;
    damper_nn_i64_as_bool i64 => bool, |x: i64| x != 0;
    damper_nn_i64_as_f32 i64 => f32, |x: i64| x as f32;
    damper_nn_bool_as_f32 bool => f32, |x: bool| if x { 1.0 } else { 0.0 };
    damper_nn_bool_as_i64 bool => i64, i64::from;
}

pairs! {
    damper_nn_add f32 => f32, elementwise::binary, Binary::Add;
    damper_nn_div f32 => f32, elementwise::binary, Binary::Div;
    damper_nn_gate f32 => f32, elementwise::binary, Binary::Gate;
    damper_nn_max f32 => f32, elementwise::binary, Binary::Max;
    damper_nn_min f32 => f32, elementwise::binary, Binary::Min;
    damper_nn_mul f32 => f32, elementwise::binary, Binary::Mul;
    damper_nn_pow f32 => f32, elementwise::binary, Binary::Pow;
    damper_nn_sub f32 => f32, elementwise::binary, Binary::Sub;
    damper_nn_whole_add i64 => i64, elementwise::whole, Whole::Add;
    damper_nn_whole_div i64 => i64, elementwise::whole, Whole::Div;
    damper_nn_whole_max i64 => i64, elementwise::whole, Whole::Max;
    damper_nn_whole_min i64 => i64, elementwise::whole, Whole::Min;
    damper_nn_whole_mul i64 => i64, elementwise::whole, Whole::Mul;
    damper_nn_whole_sub i64 => i64, elementwise::whole, Whole::Sub;
    damper_nn_equal_f32 f32 => bool, elementwise::compare, Compare::Equal;
    damper_nn_equal_i64 i64 => bool, elementwise::compare, Compare::Equal;
    damper_nn_equal_bool bool => bool, elementwise::compare, Compare::Equal;
    damper_nn_greater_f32 f32 => bool, elementwise::compare, Compare::Greater;
    damper_nn_greater_i64 i64 => bool, elementwise::compare, Compare::Greater;
    damper_nn_greater_or_equal_f32 f32 => bool, elementwise::compare, Compare::GreaterOrEqual;
    damper_nn_greater_or_equal_i64 i64 => bool, elementwise::compare, Compare::GreaterOrEqual;
    damper_nn_less_f32 f32 => bool, elementwise::compare, Compare::Less;
    damper_nn_less_i64 i64 => bool, elementwise::compare, Compare::Less;
    damper_nn_less_or_equal_f32 f32 => bool, elementwise::compare, Compare::LessOrEqual;
    damper_nn_less_or_equal_i64 i64 => bool, elementwise::compare, Compare::LessOrEqual;
    damper_nn_and bool => bool, logic, |a, b| a & b;
    damper_nn_or bool => bool, logic, |a, b| a | b;
    damper_nn_xor bool => bool, logic, |a, b| a != b;
}

/// Logical operation. The signature is that of the other functions of pairs.
fn logic(op: fn(bool, bool) -> bool, walk: &Walk<2>, a: &[bool], b: &[bool], out: &mut [bool]) -> Result<(), Error> {
    elementwise::zip(walk, a, b, out, op)
}

of_type!(
    f32,
    damper_nn_select_f32,
    damper_nn_copy_f32,
    damper_nn_place_f32,
    damper_nn_gather_f32,
    damper_nn_gather_elements_f32
);
of_type!(
    i64,
    damper_nn_select_i64,
    damper_nn_copy_i64,
    damper_nn_place_i64,
    damper_nn_gather_i64,
    damper_nn_gather_elements_i64
);
of_type!(
    bool,
    damper_nn_select_bool,
    damper_nn_copy_bool,
    damper_nn_place_bool,
    damper_nn_gather_bool,
    damper_nn_gather_elements_bool
);

reductions! {
    damper_nn_reduce_max Max;
    damper_nn_reduce_mean Mean;
    damper_nn_reduce_min Min;
    damper_nn_reduce_product Product;
    damper_nn_reduce_sum Sum;
}

kernels! {
    damper_nn_add_in_place(&walk: Walk<2>, x: [f32; walk.needed(1)], => out: [f32; walk.needed(0)])
        elementwise::add_in_place(walk, x, out);
    damper_nn_gate_in_place(x: [f32; len], => grad: [f32; len], len: usize) elementwise::gate_in_place(x, grad);
    damper_nn_clip(x: [f32; len], => out: [f32; len], len: usize, low: f32, high: f32)
        elementwise::unary(Unary::Clip { low, high }, x, out);
    damper_nn_leaky_relu(x: [f32; len], => out: [f32; len], len: usize, slope: f32)
        elementwise::unary(Unary::LeakyRelu { slope }, x, out);
    damper_nn_fill(x: [f32; 1], => out: [f32; len], len: usize) {
        x.iter().for_each(|x| out.fill(*x));
        Ok(())
    };
    damper_nn_product(&of: Product, a: [f32; of.needed[0]], b: [f32; of.needed[1]], => out: [f32; of.len])
        product::product::<Narrow>(of, a, b, out);
    damper_nn_max_pool(&window: Window, x: [f32; window.input_len()], => out: [f32; window.output_len()])
        pool::max_pool(window, x, out);
    damper_nn_max_pool_grad(
        &window: Window, dy: [f32; window.output_len()], x: [f32; window.input_len()], y: [f32; window.output_len()],
        => out: [f32; window.input_len()]
    ) pool::max_pool_grad(window, dy, x, y, out);
    damper_nn_average_pool(&window: Window, x: [f32; window.input_len()], => out: [f32; window.output_len()])
        pool::average_pool(window, false, x, out);
    damper_nn_average_pool_of_all(&window: Window, x: [f32; window.input_len()], => out: [f32; window.output_len()])
        pool::average_pool(window, true, x, out);
    damper_nn_scatter_add(
        &along: Along, x: [f32; elements([along.outer, along.axis, along.inner])], indices: [i64; count], updates: [f32; count],
        => out: [f32; x.len()], count: usize
    ) elementwise::map(x, out, |x: f32| x).and_then(|()| index::scatter_add(along, indices, updates, out));
    damper_nn_forward(
        &window: Window, x: [f32; window.input_len()], kernel: [f32; window.kernel_len()],
        bias: [f32; if bias.is_null() { 0 } else { window.outputs }], => out: [f32; window.output_len()]
    ) convolution::forward::<Narrow>(window, x, kernel, (!bias.is_empty()).then_some(bias), out);
    damper_nn_transposed(
        &window: Window, &strides: KernelStrides, y: [f32; window.output_len()], kernel: [f32; window.kernel_len()],
        bias: [f32; if bias.is_null() { 0 } else { window.channels }], => out: [f32; window.input_len()]
    ) convolution::transposed::<Narrow>(window, y, kernel, *strides, (!bias.is_empty()).then_some(bias), out);
}

kernels! {
    damper_nn_product_left(&of: Product, &a: QuantizedWeight, b: [f32; of.needed[1]], => out: [f32; of.len])
        quantized::product_left::<Narrow>(of, &weight(a)?, b, out);
    damper_nn_product_right(&of: Product, &b: QuantizedWeight, a: [f32; of.needed[0]], => out: [f32; of.len])
        quantized::product_right::<Narrow>(of, a, &weight(b)?, out);
    damper_nn_forward_quantized(
        &window: Window, &kernel: QuantizedWeight, x: [f32; window.input_len()],
        bias: [f32; if bias.is_null() { 0 } else { window.outputs }], => out: [f32; window.output_len()]
    ) quantized::forward::<Narrow>(window, x, &weight(kernel)?, (!bias.is_empty()).then_some(bias), out);
    damper_nn_transposed_quantized(
        &window: Window, &strides: KernelStrides, &kernel: QuantizedWeight, y: [f32; window.output_len()],
        bias: [f32; if bias.is_null() { 0 } else { window.channels }], => out: [f32; window.input_len()]
    ) quantized::transposed::<Narrow>(window, y, &weight(kernel)?, *strides, (!bias.is_empty()).then_some(bias), out);
    damper_nn_gather_quantized(
        &along: Along, &table: QuantizedWeight, indices: [i64; count],
        => out: [f32; elements([along.outer, count, along.inner])], count: usize
    ) quantized::gather(along, &weight(table)?, indices, out);
}

/// Pushes the outer product of `left` and `right` to `sink`. The consumer detects missing values.
#[unsafe(no_mangle)]
unsafe extern "C" fn damper_nn_outer(
    left: *const f32,
    left_len: usize,
    right: *const f32,
    right_len: usize,
    sink: *mut Sink<'_, '_>,
) {
    // SAFETY: the contract of the header.
    unsafe {
        if let (Ok(left), Ok(right), Some(sink)) =
            (input_alone(left, left_len), input_alone(right, right_len), Sink::of(sink))
        {
            product::outer(left, right, |row| sink.push(row));
        }
    }
}

/// Passes the gradient of a convolution kernel to `sink`, as many outputs at a time as `part` holds. If values are
/// missing, the reader of the sink reports it.
#[unsafe(no_mangle)]
unsafe extern "C" fn damper_nn_kernel_grad(
    window: *const Window,
    dy: *const f32,
    x: *const f32,
    part: *mut f32,
    part_len: usize,
    sink: *mut Sink<'_, '_>,
) {
    // SAFETY: the contract of the header.
    unsafe {
        let (Ok(window), Some(sink)) = (shape(window), Sink::of(sink)) else { return };
        if let (Ok(dy), Ok(x), Ok(part)) =
            (input_alone(dy, window.output_len()), input_alone(x, window.input_len()), output_alone(part, part_len))
        {
            let _ = convolution::kernel_grad_in_parts::<Narrow>(window, dy, x, part, |part| sink.push(part));
        }
    }
}
