use super::*;
use crate::Error;
use crate::tile::{Narrow, Wide};
use crate::window::Axis;
use damper_testing::Random;
use std::vec::Vec;

fn values(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| (random.below(1 << 16) as f32 - 32768.0) * 3.1e-5).collect()
}

/// Returns a random axis. Some of its windows may be partly or completely outside the image.
fn axis(random: &mut Random) -> Axis {
    let mut draw = |low: usize, high: usize| low + random.below(high - low + 1);
    let (kernel, stride, dilation, before) = (draw(1, 4), draw(1, 3), draw(1, 2), draw(0, 3));
    Axis { input: draw(1, 9), output: draw(1, 9), kernel, stride, dilation, before }
}

fn window(random: &mut Random) -> Window {
    let groups = 1 + random.below(3);
    let (channels, outputs) = (groups * (1 + random.below(5)), groups * (1 + random.below(9)));
    let axes = if random.below(4) == 0 { [Axis::POINT, axis(random)] } else { [axis(random), axis(random)] };
    Window::new(channels, outputs, groups, axes).unwrap()
}

/// Calls `each` for every product `kernel · image` of the convolution, with the indices of output, image and kernel.
fn each_product(window: &Window, mut each: impl FnMut(usize, usize, usize)) {
    let [h, w] = window.axes;
    let (cs, os) = (window.group_channels(), window.group_outputs());
    for (o, y, x) in
        (0..window.outputs).flat_map(|o| (0..h.output).flat_map(move |y| (0..w.output).map(move |x| (o, y, x))))
    {
        for (c, i, j) in (0..cs).flat_map(|c| (0..h.kernel).flat_map(move |i| (0..w.kernel).map(move |j| (c, i, j)))) {
            let row = (y * h.stride + i * h.dilation) as isize - h.before as isize;
            let column = (x * w.stride + j * w.dilation) as isize - w.before as isize;
            if (0..h.input as isize).contains(&row) && (0..w.input as isize).contains(&column) {
                let image = ((o / os * cs + c) * h.input + row as usize) * w.input + column as usize;
                let kernel = ((o * cs + c) * h.kernel + i) * w.kernel + j;
                each((o * h.output + y) * w.output + x, image, kernel);
            }
        }
    }
}

fn assert_near(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((f64::from(*got) - want).abs() <= 2e-5 * want.abs().max(1.0), "{got}, not {want}");
    }
}

/// Returns the bits of the values. All NaNs compare equal, because their payloads may differ.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// Returns the bits of the `len` values that `run` writes.
fn written(len: usize, run: impl FnOnce(&mut [f32])) -> Vec<u32> {
    let mut out = std::vec![f32::NAN; len];
    run(&mut out);
    bits(&out)
}

/// Asserts that each kernel matches its reference bit for bit, with narrow and wide lanes, in each layout of the
/// kernel, and for gradients in parts of any size.
fn assert_bits(random: &mut Random, window: &Window, x: &[f32], kernel: &[f32], dy: &[f32]) {
    let (bias, dx_bias) = (values(random, window.outputs), values(random, window.channels));
    for bias in [None, Some(&bias[..])] {
        let want = written(dy.len(), |out| reference::forward(window, x, kernel, bias, out));
        assert_eq!(
            written(dy.len(), |out| forward::<Narrow>(window, x, kernel, bias, out).unwrap()),
            want,
            "{window:?}"
        );
        assert_eq!(written(dy.len(), |out| forward::<Wide>(window, x, kernel, bias, out).unwrap()), want, "{window:?}");
    }
    let (channels, taps) = (window.group_channels(), window.taps());
    let first = KernelStrides::taps_first(window);
    let mut laid = std::vec![0.0; kernel.len()];
    for (at, weight) in kernel.iter().enumerate() {
        let (o, c, t) = (at / (channels * taps), at / taps % channels, at % taps);
        laid[o * first.output + c * first.channel + t * first.tap] = *weight;
    }
    for bias in [None, Some(&dx_bias[..])] {
        let onnx = KernelStrides::onnx(window);
        let want = written(x.len(), |out| reference::transposed(window, dy, kernel, onnx, bias, out));
        for (kernel, strides) in [(kernel, onnx), (&laid, first)] {
            let narrow = written(x.len(), |out| transposed::<Narrow>(window, dy, kernel, strides, bias, out).unwrap());
            let wide = written(x.len(), |out| transposed::<Wide>(window, dy, kernel, strides, bias, out).unwrap());
            assert_eq!((&narrow, &wide), (&want, &want), "{window:?}");
        }
    }
    let want = written(kernel.len(), |out| reference::kernel_grad(window, dy, x, out));
    assert_eq!(written(kernel.len(), |out| kernel_grad::<Narrow>(window, dy, x, out).unwrap()), want, "{window:?}");
    assert_eq!(written(kernel.len(), |out| kernel_grad::<Wide>(window, dy, x, out).unwrap()), want, "{window:?}");
    let mut part = std::vec![f32::NAN; window.output_taps() * (1 + random.below(4))];
    let mut parts = std::vec![];
    kernel_grad_in_parts::<Narrow>(window, dy, x, &mut part, |part| parts.extend_from_slice(part)).unwrap();
    assert_eq!(bits(&parts), want, "{window:?}");
}

// The references match sums over all products in f64, and the kernels match the references bit for bit.
#[test]
fn convolutions_match_products_in_f64() {
    let mut random = Random(7);
    for case in 0..240 {
        let mut window = window(&mut random);
        if case % 3 == 0 {
            // Depthwise.
            window = Window::new(window.channels, window.channels, window.channels, window.axes).unwrap();
        }
        let (x, kernel) = (values(&mut random, window.input_len()), values(&mut random, window.kernel_len()));
        let dy = values(&mut random, window.output_len());
        let (mut want, mut dx) = (std::vec![0.0f64; dy.len()], std::vec![0.0f64; x.len()]);
        let mut dk = std::vec![0.0f64; kernel.len()];
        each_product(&window, |o, i, k| {
            want[o] += f64::from(x[i]) * f64::from(kernel[k]);
            dx[i] += f64::from(dy[o]) * f64::from(kernel[k]);
            dk[k] += f64::from(dy[o]) * f64::from(x[i]);
        });
        let mut out = std::vec![f32::NAN; dy.len()];
        reference::forward(&window, &x, &kernel, None, &mut out);
        assert_near(&out, &want);
        let mut out = std::vec![f32::NAN; x.len()];
        reference::transposed(&window, &dy, &kernel, KernelStrides::onnx(&window), None, &mut out);
        assert_near(&out, &dx);
        let mut out = std::vec![f32::NAN; kernel.len()];
        reference::kernel_grad(&window, &dy, &x, &mut out);
        assert_near(&out, &dk);
        assert_bits(&mut random, &window, &x, &kernel, &dy);
    }
}

// Sums longer than one block, also of a single channel.
#[test]
fn long_sums_have_the_same_bits() {
    let mut random = Random(9);
    let axis = Axis { input: 14, output: 12, kernel: 3, stride: 1, dilation: 1, before: 0 };
    let long = Axis { input: 90, output: 20, kernel: 70, stride: 1, dilation: 1, before: 3 };
    for window in [Window::new(17, 70, 1, [axis, axis]), Window::new(2, 2, 2, [Axis::POINT, long])] {
        let window = window.unwrap();
        let (x, kernel) = (values(&mut random, window.input_len()), values(&mut random, window.kernel_len()));
        let dy = values(&mut random, window.output_len());
        assert_bits(&mut random, &window, &x, &kernel, &dy);
    }
}

// With infinity and NaN in the operands and padding around the image, the same outputs are NaN. Zeros have the sign
// that the reference gives them.
#[test]
fn unusual_values_meet_the_pads() {
    let mut random = Random(21);
    for case in 0..300 {
        let mut window = window(&mut random);
        if case % 2 == 0 {
            window = Window::new(window.channels, window.channels, window.channels, window.axes).unwrap();
        }
        let mut unusual = |len: usize| -> Vec<f32> {
            let one = |random: &mut Random| match random.below(12) {
                0 if case % 4 < 2 => f32::INFINITY,
                1 if case % 4 < 2 => f32::NAN,
                2 => f32::from_bits(random.below(100) as u32),
                3 => f32::MAX,
                4..7 => -0.0,
                _ => random.signed(),
            };
            (0..len).map(|_| one(&mut random)).collect()
        };
        let (x, kernel) = (unusual(window.input_len()), unusual(window.kernel_len()));
        let dy = unusual(window.output_len());
        assert_bits(&mut random, &window, &x, &kernel, &dy);
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let window = Window::new(1, 1, 1, [Axis::POINT, Axis::POINT]).unwrap();
    let mut out = [0.0];
    assert_eq!(forward::<Narrow>(&window, &[1.0, 2.0], &[1.0], None, &mut out), Err(Error::Length));
    assert_eq!(forward::<Wide>(&window, &[1.0], &[1.0], Some(&[]), &mut out), Err(Error::Length));
    assert_eq!(kernel_grad::<Narrow>(&window, &[], &[1.0], &mut out), Err(Error::Length));
    assert!(Window::new(3, 4, 2, [Axis::POINT; 2]).is_none() && Window::new(1, 1, 0, [Axis::POINT; 2]).is_none());
    assert!(Window::new(1, 1, 1, [Axis { stride: 0, ..Axis::POINT }, Axis::POINT]).is_none());
    assert!(Window::new(usize::MAX, 1, 1, [Axis { input: 2, ..Axis::POINT }, Axis::POINT]).is_none());
}
