//! Recorded vectors of an independent generator (`vectors/generate.py`): every kernel, in its small and its wide form, has these bits.

use damper_nn::convolution::{
    KernelStrides, forward, forward_wide, kernel_grad, kernel_grad_wide, transposed, transposed_wide,
};
use damper_nn::elementwise::{Binary, Unary, binary, unary};
use damper_nn::pool::{average_pool, max_pool};
use damper_nn::product::{Product, product, product_wide};
use damper_nn::quantized::{self, Quantized};
use damper_nn::reduce::{Fold, Reduction, reduce};
use damper_nn::{Axis, Error, Walk, Window};

/// A line: the kernel, its sizes, its operands and its output.
struct Vector {
    name: String,
    sizes: Vec<usize>,
    operands: Vec<Vec<f32>>,
    output: Vec<f32>,
}

fn vectors() -> Vec<Vector> {
    let parse = |line: &str| {
        let mut fields = line.split(" | ");
        let mut head = fields.next().unwrap().split(' ');
        let name = head.next().unwrap().to_owned();
        let sizes = head.map(|size| size.parse().unwrap()).collect();
        let floats = |field: &str| {
            field.split_whitespace().map(|bits| f32::from_bits(u32::from_str_radix(bits, 16).unwrap())).collect()
        };
        let mut operands: Vec<Vec<f32>> = fields.map(floats).collect();
        let output = operands.pop().unwrap();
        Vector { name, sizes, operands, output }
    };
    include_str!("../vectors/vectors.txt").lines().map(parse).collect()
}

fn window(sizes: &[usize]) -> Window {
    let [channels, outputs, groups, h, w, oh, ow, kh, kw, stride, dilation, before] = *sizes else {
        panic!("a window has twelve sizes")
    };
    let axis = |input, output, kernel| Axis { input, output, kernel, stride, dilation, before };
    Window::new(channels, outputs, groups, [axis(h, oh, kh), axis(w, ow, kw)]).unwrap()
}

/// The outputs of all forms of the vector's kernel.
fn computed(vector: &Vector) -> Vec<Vec<f32>> {
    let [a, rest @ ..] = &vector.operands[..] else { panic!("a kernel has an operand") };
    let second = || &rest[0][..];
    let run = |f: &dyn Fn(&mut [f32]) -> Result<(), Error>| {
        let mut out = vec![f32::NAN; vector.output.len()];
        f(&mut out).unwrap();
        out
    };
    let pair = |op| {
        let walk = Walk::broadcast(&[a.len()], [&[a.len()], &[a.len()]]).unwrap();
        vec![run(&|out| binary(op, &walk, a, second(), out))]
    };
    match vector.name.as_str() {
        "product" => {
            let [rows, columns, terms] = vector.sizes[..] else { panic!("a product has three sizes") };
            let stack = Walk::new(&[], [&[], &[]], [0, 0]).unwrap();
            let shape = Product::new([rows, columns, terms], [terms, 1], [columns, 1], stack).unwrap();
            vec![run(&|out| product(&shape, a, second(), out)), run(&|out| product_wide(&shape, a, second(), out))]
        }
        "forward" => {
            let (window, bias) = (window(&vector.sizes), Some(&rest[1][..]));
            vec![
                run(&|out| forward(&window, a, second(), bias, out)),
                run(&|out| forward_wide(&window, a, second(), bias, out)),
            ]
        }
        "transposed" => {
            let (window, bias) = (window(&vector.sizes), Some(&rest[1][..]));
            let strides = KernelStrides::onnx(&window);
            vec![
                run(&|out| transposed(&window, a, second(), strides, bias, out)),
                run(&|out| transposed_wide(&window, a, second(), strides, bias, out)),
            ]
        }
        "kernel_grad" => {
            let window = window(&vector.sizes);
            vec![
                run(&|out| kernel_grad(&window, a, second(), out)),
                run(&|out| kernel_grad_wide(&window, a, second(), out)),
            ]
        }
        "product_quantized" => {
            let [rows, columns, terms, inner] = vector.sizes[..] else { panic!("it has four sizes") };
            let stack = Walk::new(&[], [&[], &[]], [0, 0]).unwrap();
            let shape = Product::new([rows, columns, terms], [terms, 1], [columns, 1], stack).unwrap();
            // The product of the transposes has the weight on the left.
            let turned = Product::new([columns, rows, terms], [1, columns], [1, terms], stack).unwrap();
            let right = run(&|out| with_weight(rest, inner, |weight| quantized::product_right(&shape, a, weight, out)));
            let left = run(&|out| with_weight(rest, inner, |weight| quantized::product_left(&turned, weight, a, out)));
            let left = (0..left.len()).map(|at| left[at % columns * rows + at / columns]).collect();
            vec![right, left]
        }
        "forward_quantized" => {
            let window = window(&vector.sizes);
            let inner = window.kernel_len() / window.outputs;
            vec![run(&|out| with_weight(rest, inner, |kernel| quantized::forward(&window, a, kernel, None, out)))]
        }
        "transposed_quantized" => {
            let window = window(&vector.sizes);
            let (inner, strides) = (window.kernel_len() / window.outputs, KernelStrides::onnx(&window));
            let run_it =
                |kernel: &Quantized<'_>, out: &mut [f32]| quantized::transposed(&window, a, kernel, strides, None, out);
            vec![run(&|out| with_weight(rest, inner, |kernel| run_it(kernel, out)))]
        }
        "average_pool" => vec![run(&|out| average_pool(&pooled(&vector.sizes), false, a, out))],
        "max_pool" => vec![run(&|out| max_pool(&pooled(&vector.sizes), a, out))],
        "sum" => {
            let rank = vector.sizes[0];
            let (shape, axis) = (&vector.sizes[1..=rank], vector.sizes[rank + 1]);
            // An axis beyond the last: all of them.
            let reduction = Reduction::new(shape, |at| at == axis || axis == rank).unwrap();
            vec![run(&|out| reduce(Fold::Sum, &reduction, a, out))]
        }
        "add" => pair(Binary::Add),
        "sub" => pair(Binary::Sub),
        "mul" => pair(Binary::Mul),
        "div" => pair(Binary::Div),
        "sqrt" => vec![run(&|out| unary(Unary::Sqrt, a, out))],
        other => panic!("no kernel {other}"),
    }
}

/// Calls `run` with the weight whose integers, scales and zero points are `operands`.
fn with_weight<T>(operands: &[Vec<f32>], inner: usize, run: impl FnOnce(&Quantized<'_>) -> T) -> T {
    let [values, scales, zeros] = operands else { panic!("a weight has three operands") };
    let [values, zeros] = [values, zeros].map(|of| of.iter().map(|x| *x as i8).collect::<Vec<i8>>());
    run(&Quantized { values: &values, scales, zeros: &zeros, inner })
}

/// A pool's window: each channel by itself.
fn pooled(sizes: &[usize]) -> Window {
    let mut sizes = sizes.to_vec();
    sizes[2] = sizes[0];
    window(&sizes)
}

#[test]
fn kernels_have_recorded_bits() {
    let vectors = vectors();
    assert!(vectors.len() > 35, "{} vectors", vectors.len());
    for vector in &vectors {
        for (form, computed) in computed(vector).iter().enumerate() {
            for (at, (got, want)) in computed.iter().zip(&vector.output).enumerate() {
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(
                    same,
                    "{} {:?}, form {form}, entry {at}: {got:e} ({:08x}), not {want:e} ({:08x})",
                    vector.name,
                    vector.sizes,
                    got.to_bits(),
                    want.to_bits()
                );
            }
        }
    }
}

/// FNV-1a of the bits of functions of `libm` over a grid: recorded on x86-64, the same on every target.
#[test]
fn functions_have_recorded_bits() {
    let x: Vec<f32> = (0..4000u32).map(|at| (at as f32 - 2000.0) * 0.0137).collect();
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    for op in [Unary::Cos, Unary::Erf, Unary::Exp, Unary::Log, Unary::Sigmoid, Unary::Sin, Unary::Tanh] {
        let mut out = vec![0.0; x.len()];
        unary(op, &x, &mut out).unwrap();
        for value in out.iter().filter(|value| !value.is_nan()) {
            digest = (digest ^ u64::from(value.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    assert_eq!(digest, 3_984_082_756_321_604_042);
}
