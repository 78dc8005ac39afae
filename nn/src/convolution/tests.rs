use super::*;
use crate::window::Axis;
use damper_testing::Random;
use std::vec::Vec;

fn values(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| (random.below(1 << 16) as f32 - 32768.0) * 3.1e-5).collect()
}

/// An axis of random extents, sometimes with windows that lie outside in part or as a whole.
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

/// Every product `kernel · image` of the convolution: output, image and kernel element.
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

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

// Each form is the sum over all products in f64, and the wide one has the bits of the small one.
#[test]
fn convolutions_match_products_in_f64() {
    let mut random = Random(7);
    for _ in 0..150 {
        let window = window(&mut random);
        let (x, kernel) = (values(&mut random, window.input_len()), values(&mut random, window.kernel_len()));
        let dy = values(&mut random, window.output_len());
        let (bias, dx_bias) = (values(&mut random, window.outputs), values(&mut random, window.channels));
        let mut want = bias.iter().flat_map(|b| std::vec![f64::from(*b); window.positions()]).collect::<Vec<_>>();
        let mut dx = dx_bias.iter().flat_map(|b| std::vec![f64::from(*b); window.area()]).collect::<Vec<_>>();
        let mut dk = std::vec![0.0f64; kernel.len()];
        each_product(&window, |o, i, k| {
            want[o] += f64::from(x[i]) * f64::from(kernel[k]);
            dx[i] += f64::from(dy[o]) * f64::from(kernel[k]);
            dk[k] += f64::from(dy[o]) * f64::from(x[i]);
        });
        let (mut small, mut wide) = (std::vec![f32::NAN; want.len()], std::vec![f32::NAN; want.len()]);
        forward(&window, &x, &kernel, Some(&bias), &mut small).unwrap();
        forward_wide(&window, &x, &kernel, Some(&bias), &mut wide).unwrap();
        assert_near(&small, &want);
        assert_eq!(bits(&small), bits(&wide), "{window:?}");

        let strides = KernelStrides::onnx(&window);
        let (mut small, mut wide) = (std::vec![f32::NAN; dx.len()], std::vec![f32::NAN; dx.len()]);
        transposed(&window, &dy, &kernel, strides, Some(&dx_bias), &mut small).unwrap();
        transposed_wide(&window, &dy, &kernel, strides, Some(&dx_bias), &mut wide).unwrap();
        assert_near(&small, &dx);
        assert_eq!(bits(&small), bits(&wide), "{window:?}");
        let first = KernelStrides::taps_first(&window);
        let (channels, taps) = (window.group_channels(), window.taps());
        let mut laid = std::vec![0.0; kernel.len()];
        for (at, weight) in kernel.iter().enumerate() {
            let (o, c, t) = (at / (channels * taps), at / taps % channels, at % taps);
            laid[o * first.output + c * first.channel + t * first.tap] = *weight;
        }
        transposed_wide(&window, &dy, &laid, first, Some(&dx_bias), &mut wide).unwrap();
        assert_eq!(bits(&small), bits(&wide), "{window:?}");

        let (mut small, mut wide) = (std::vec![f32::NAN; dk.len()], std::vec![f32::NAN; dk.len()]);
        kernel_grad(&window, &dy, &x, &mut small).unwrap();
        kernel_grad_wide(&window, &dy, &x, &mut wide).unwrap();
        assert_near(&small, &dk);
        assert_eq!(bits(&small), bits(&wide), "{window:?}");
    }
}

// Sums of more than one block have the same bits in both forms.
#[test]
fn long_sums_have_the_same_bits() {
    let mut random = Random(9);
    let axis = Axis { input: 14, output: 12, kernel: 3, stride: 1, dilation: 1, before: 0 };
    let window = Window::new(17, 70, 1, [axis, axis]).unwrap();
    let (x, kernel) = (values(&mut random, window.input_len()), values(&mut random, window.kernel_len()));
    let dy = values(&mut random, window.output_len());
    let (mut small, mut wide) = (std::vec![0.0; dy.len()], std::vec![0.0; dy.len()]);
    forward(&window, &x, &kernel, None, &mut small).unwrap();
    forward_wide(&window, &x, &kernel, None, &mut wide).unwrap();
    assert_eq!(bits(&small), bits(&wide));
    let (mut small, mut wide) = (std::vec![0.0; x.len()], std::vec![0.0; x.len()]);
    let strides = KernelStrides::onnx(&window);
    transposed(&window, &dy, &kernel, strides, None, &mut small).unwrap();
    transposed_wide(&window, &dy, &kernel, strides, None, &mut wide).unwrap();
    assert_eq!(bits(&small), bits(&wide));
    let (mut small, mut wide) = (std::vec![0.0; kernel.len()], std::vec![0.0; kernel.len()]);
    kernel_grad(&window, &dy, &x, &mut small).unwrap();
    kernel_grad_wide(&window, &dy, &x, &mut wide).unwrap();
    assert_eq!(bits(&small), bits(&wide));
}

// A weight that is not finite meets what is outside the image in both forms alike.
#[test]
fn infinite_weights_meet_the_pads() {
    let axis = Axis { input: 2, output: 2, kernel: 3, stride: 1, dilation: 1, before: 1 };
    let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
    let (mut small, mut wide) = ([0.0; 2], [0.0; 2]);
    forward(&window, &[1.0, 2.0], &[f32::INFINITY, 1.0, 1.0], None, &mut small).unwrap();
    forward_wide(&window, &[1.0, 2.0], &[f32::INFINITY, 1.0, 1.0], None, &mut wide).unwrap();
    assert!(small[0].is_nan() && small[1] == f32::INFINITY && wide[0].is_nan() && wide[1] == f32::INFINITY);
}

#[test]
fn wrong_lengths_are_refused() {
    let window = Window::new(1, 1, 1, [Axis::POINT, Axis::POINT]).unwrap();
    let mut out = [0.0];
    assert_eq!(forward(&window, &[1.0, 2.0], &[1.0], None, &mut out), Err(Error::Length));
    assert_eq!(forward_wide(&window, &[1.0], &[1.0], Some(&[]), &mut out), Err(Error::Length));
    assert_eq!(kernel_grad(&window, &[], &[1.0], &mut out), Err(Error::Length));
    assert!(Window::new(3, 4, 2, [Axis::POINT; 2]).is_none() && Window::new(1, 1, 0, [Axis::POINT; 2]).is_none());
    assert!(Window::new(1, 1, 1, [Axis { stride: 0, ..Axis::POINT }, Axis::POINT]).is_none());
    assert!(Window::new(usize::MAX, 1, 1, [Axis { input: 2, ..Axis::POINT }, Axis::POINT]).is_none());
}
