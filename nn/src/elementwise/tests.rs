use super::*;
use std::vec::Vec;

const UNUSUAL: [f32; 12] =
    [0.0, -0.0, 1.0, -1.5, 2.5, 1e-40, -1e-40, 88.8, -104.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];

// Every function matches f64, also on overflow. NaN stays NaN.
#[test]
fn functions_match_f64() {
    type Case = (Unary, fn(f64) -> f64);
    let cases: [Case; 17] = [
        (Unary::Abs, f64::abs),
        (Unary::Ceil, f64::ceil),
        (Unary::Clip { low: -1.0, high: 2.0 }, |x| x.clamp(-1.0, 2.0)),
        (Unary::Cos, f64::cos),
        (Unary::Erf, libm::erf),
        (Unary::Exp, libm::exp),
        (Unary::Floor, f64::floor),
        (Unary::LeakyRelu { slope: 0.1 }, |x| if x < 0.0 { f64::from(0.1f32) * x } else { x }),
        (Unary::Log, libm::log),
        (Unary::Neg, |x| -x),
        (Unary::Reciprocal, |x| 1.0 / x),
        (Unary::Relu, |x| if x < 0.0 { 0.0 } else { x }),
        (Unary::Round, f64::round_ties_even),
        (Unary::Sigmoid, |x| 1.0 / (1.0 + libm::exp(-x))),
        (Unary::Sin, f64::sin),
        (Unary::Sqrt, libm::sqrt),
        (Unary::Tanh, libm::tanh),
    ];
    let mut random = damper_testing::Random(19);
    let drawn = (0..500).map(|_| random.below(1 << 20) as f32 * 4e-5 - 20.0);
    let x: Vec<f32> = UNUSUAL.into_iter().chain(drawn).collect();
    for (op, want) in cases {
        let mut out = std::vec![0.0; x.len()];
        unary(op, &x, &mut out).unwrap();
        let mut in_place = x.clone();
        unary_in_place(op, &mut in_place);
        assert!(in_place.iter().zip(&out).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
        for (x, got) in x.iter().zip(&out) {
            let want = want(f64::from(*x));
            let near = (f64::from(*got) - want).abs() <= 4e-7 * want.abs() + 1e-37;
            let same = near || got.is_nan() && want.is_nan() || f64::from(*got) == want;
            assert!(same || want.abs() > f64::from(f32::MAX) && got.is_infinite(), "{op:?} of {x}: {got}, not {want}");
        }
    }
    let mut out = [0.0; 4];
    unary(Unary::Sign, &[-2.0, 0.0, 3.0, f32::NAN], &mut out).unwrap();
    assert!(out[..3] == [-1.0, 0.0, 1.0] && out[3].is_nan());
}

// Every pair of unusual values, with every combination of strides.
#[test]
fn arithmetic_matches_single_operations() {
    let n = UNUSUAL.len();
    let grid = Walk::broadcast(&[n, n], [&[n, 1], &[n]]).unwrap();
    let turned = Walk::new(&[n, n], [&[1, n as isize], &[0, 1]], [0, 0]).unwrap();
    let all: Vec<f32> = (0..n * n).map(|at| UNUSUAL[at / n]).collect();
    type Case = (Binary, fn(f32, f32) -> f32);
    let cases: [Case; 7] = [
        (Binary::Gate, |a, b| if a > 0.0 { b } else { 0.0 }),
        (Binary::Add, |a, b| a + b),
        (Binary::Div, |a, b| a / b),
        (Binary::Mul, |a, b| a * b),
        (Binary::Sub, |a, b| a - b),
        (Binary::Max, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }),
        (Binary::Min, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) }),
    ];
    for (op, want) in cases {
        let mut out = std::vec![0.0; n * n];
        binary(op, &grid, &UNUSUAL, &UNUSUAL, &mut out).unwrap();
        for (at, got) in out.iter().enumerate() {
            let want = want(UNUSUAL[at / n], UNUSUAL[at % n]);
            assert!(*got == want || got.is_nan() && want.is_nan(), "{op:?} at {at}: {got}, not {want}");
        }
        binary(op, &turned, &all, &UNUSUAL, &mut out).unwrap();
        for (at, got) in out.iter().enumerate() {
            let want = want(all[at / n + at % n * n], UNUSUAL[at % n]);
            assert!(*got == want || got.is_nan() && want.is_nan(), "{op:?} at {at}: {got}, not {want}");
        }
    }
    let mut out = [0.0];
    let one = Walk::broadcast(&[], [&[], &[]]).unwrap();
    binary(Binary::Pow, &one, &[3.0], &[2.0], &mut out).unwrap();
    assert_eq!(out, [9.0]);
    assert_eq!(binary(Binary::Add, &grid, &UNUSUAL[1..], &UNUSUAL, &mut std::vec![0.0; n * n]), Err(Error::Length));
}

// `select` ignores the operand that is not selected, even if it is NaN.
#[test]
fn choices_take_one_side() {
    let walk = Walk::broadcast(&[2, 2], [&[2, 2], &[2], &[]]).unwrap();
    let mut out = [0.0; 4];
    select(&walk, &[true, false, false, true], &[1.0, 2.0], &[f32::NAN], &mut out).unwrap();
    assert!(out[0] == 1.0 && out[1].is_nan() && out[2].is_nan() && out[3] == 2.0);
    let mut truths = [false; 3];
    let walk = Walk::broadcast(&[3], [&[3], &[]]).unwrap();
    for (op, want) in [
        (Compare::Equal, [false, true, false]),
        (Compare::Greater, [false, false, true]),
        (Compare::GreaterOrEqual, [false, true, true]),
        (Compare::Less, [true, false, false]),
        (Compare::LessOrEqual, [true, true, false]),
    ] {
        compare(op, &walk, &[1.0, 2.0, 3.0], &[2.0], &mut truths).unwrap();
        assert_eq!(truths, want);
        compare(op, &walk, &[1.0, 2.0, 3.0], &[f32::NAN], &mut truths).unwrap();
        assert_eq!(truths, [false; 3]);
    }
    let mut out = [0i64; 2];
    let walk = Walk::broadcast(&[2], [&[2], &[2]]).unwrap();
    whole(Whole::Div, &walk, &[7, i64::MIN], &[0, -1], &mut out).unwrap();
    assert_eq!(out, [0, i64::MIN]);
}

#[test]
fn gate_in_place_has_the_bits_of_gate() {
    let grads: Vec<f32> = UNUSUAL.into_iter().rev().collect();
    let walk = Walk::broadcast(&[12], [&[12], &[12]]).unwrap();
    let (mut want, mut got) = ([0.0; 12], grads.clone());
    binary(Binary::Gate, &walk, &UNUSUAL, &grads, &mut want).unwrap();
    gate_in_place(&UNUSUAL, &mut got).unwrap();
    assert!(got.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
    assert_eq!(gate_in_place(&UNUSUAL, &mut got[1..]), Err(Error::Length));
}

// A padded block and a broadcast row are added to parts of a matrix, in the bits of an addition.
#[test]
fn add_in_place_adds_to_the_walk() {
    let block = Walk::new(&[2, 2], [&[4, 1], &[2, 1]], [1, 0]).unwrap();
    let mut out = [0.5; 8];
    add_in_place(&block, &[1.0, 2.0, 3.0, -0.5], &mut out).unwrap();
    assert_eq!(out, [0.5, 1.5, 2.5, 0.5, 0.5, 3.5, 0.0, 0.5]);
    let row = Walk::new(&[2, 4], [&[4, 1], &[0, 1]], [0, 0]).unwrap();
    add_in_place(&row, &[1.0, 0.0, 0.0, 2.0], &mut out).unwrap();
    assert_eq!(out, [1.5, 1.5, 2.5, 2.5, 1.5, 3.5, 0.0, 2.5]);
    let one = Walk::new(&[UNUSUAL.len()], [&[1], &[0]], [0, 0]).unwrap();
    let (mut got, mut want) = (UNUSUAL, UNUSUAL);
    add_in_place(&one, &[-0.0], &mut got).unwrap();
    let walk = Walk::broadcast(&[UNUSUAL.len()], [&[UNUSUAL.len()], &[]]).unwrap();
    binary(Binary::Add, &walk, &UNUSUAL, &[-0.0], &mut want).unwrap();
    assert!(got.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
    assert_eq!(add_in_place(&block, &[0.0; 3], &mut out), Err(Error::Length));
    assert_eq!(add_in_place(&block, &[0.0; 4], &mut out[..6]), Err(Error::Length));
}
