use super::*;
use crate::clip::{FlatL2, Layers, PerLayer};
use crate::numerics::function::sqrt_f32;
use proptest::prelude::*;

extern crate std;
use std::vec;
use std::vec::Vec;

fn added(bits: u32, clip: f32, parts: &[&[f32]]) -> Vec<i64> {
    let mut sum = vec![SumWord(0i64); parts.iter().map(|p| p.len()).sum()];
    Grid::new(bits).unwrap().add_sample(&FlatL2, clip, parts, &mut sum);
    sum.into_iter().map(|word| word.0).collect()
}

fn square(q: &[i64]) -> u128 {
    q.iter().map(|q| u128::from(q.unsigned_abs()).pow(2)).sum()
}

/// Adversarial gradients for the bound: one coordinate, equal coordinates, powers of two, huge, tiny, mixed.
pub(super) fn adversarial() -> impl Strategy<Value = Vec<f32>> {
    let any_finite = prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO;
    let plain = prop::collection::vec(-2f32..2.0, 1..40);
    prop_oneof![
        prop::collection::vec(any_finite, 1..20),
        plain,
        (1usize..5000, -1e3f32..1e3).prop_map(|(n, x)| vec![x; n]),
        (1usize..30, -30i32..30).prop_map(|(n, e)| vec![(e as f32).exp2(); n]),
        (0usize..9, -1e-3f32..1e-3).prop_map(|(n, x)| {
            let mut v = vec![x; 9];
            v[n] = 1.0;
            v
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sample_adds_at_most_the_clip(
        grad in adversarial(), bits in 8u32..=22, clip in prop_oneof![1e-30f32..1e-20, 1e-3f32..10.0, 1e20f32..1e30],
    ) {
        prop_assert!(square(&added(bits, clip, &[&grad])) <= 1u128 << (2 * bits));
    }

    // The grid point is within one unit of the clipped gradient, and never longer.
    #[test]
    fn grid_point_is_within_one_unit(
        grad in prop::collection::vec(-2f32..2.0, 1..40), clip in 1e-2f32..10.0,
    ) {
        let norm = grad.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let factor = (f64::from(clip) / norm).min(1.0) * f64::from(1u32 << 20) / f64::from(clip);
        for (q, g) in added(20, clip, &[&grad]).iter().zip(&grad) {
            let exact = f64::from(*g) * factor;
            prop_assert!((*q as f64 - exact).abs() <= 1.0 + exact.abs() * 4e-6, "{q} {exact}");
            prop_assert!(q.unsigned_abs() as f64 <= exact.abs() * (1.0 + 1e-6));
        }
    }

    #[test]
    fn parts_add_what_the_whole_adds(grad in adversarial(), cut in 0usize..5000) {
        let cut = cut.min(grad.len());
        prop_assert_eq!(added(20, 1.0, &[&grad]), added(20, 1.0, &[&grad[..cut], &grad[cut..]]));
    }

    #[test]
    fn non_finite_sample_adds_nothing(
        grad in adversarial(), at in 0usize..5000,
        bad in prop::sample::select(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30][..]),
    ) {
        let mut grad = grad;
        let at = at % grad.len();
        grad[at] = bad;
        prop_assert!(added(20, 1.0, &[&grad]).iter().all(|q| *q == 0));
    }

    // Samples added together have the bits and norms of samples added in turn. Covers any number of samples and parts,
    // samples that are not finite or are scaled down, and every clipping rule.
    #[test]
    fn samples_abreast_have_bits_of_samples_in_turn(
        grads in prop::collection::vec(adversarial(), 0..20), len in 1usize..5000, cut in 0usize..5000,
        threshold in prop_oneof![1e-30f32..1e-20, 1e-3f32..10.0],
    ) {
        let grads: Vec<Vec<f32>> = grads.iter().map(|grad| grad.iter().copied().cycle().take(len).collect()).collect();
        let cut = cut.min(len);
        let parts: Vec<[&[f32]; 2]> = grads.iter().map(|grad| [&grad[..cut], &grad[cut..]]).collect();
        let samples: Vec<&[&[f32]]> = parts.iter().map(|parts| &parts[..]).collect();
        let layers = [Layer::equal(cut, 2), Layer::equal(len - cut, 2)];
        let layered = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
        let grid = Grid::new(20).unwrap();
        fn same<C: Clip>(grid: Grid, clip: &C, threshold: f32, samples: &[&[&[f32]]], len: usize) -> Result<(), TestCaseError> {
            let (mut abreast, mut in_turn) = (vec![SumWord(3i64); len], vec![SumWord(3i64); len]);
            let mut norms = vec![];
            grid.add_samples(clip, threshold, samples, &mut abreast, |norm| norms.push(norm));
            let want: Vec<_> =
                samples.iter().map(|parts| grid.add_sample(clip, threshold, parts, &mut in_turn)).collect();
            prop_assert_eq!(norms, want);
            prop_assert!(abreast.iter().zip(&in_turn).all(|(a, b)| a.0 == b.0));
            Ok(())
        }
        same(grid, &FlatL2, threshold, &samples, len)?;
        same(grid, &layered, threshold, &samples, len)?;
    }

    // The final scale is the first of the sequence that fits, for any initial norm.
    #[test]
    fn scale_is_first_that_fits(grad in adversarial(), n in 1usize..5000, bits in 8u32..=22, low in 0f32..0.9) {
        let grad: Vec<f32> = grad.iter().copied().cycle().take(n).collect();
        let (units, norm) = (1u32 << bits, sqrt_f32(crate::numerics::reduce::sum_of_squares([&grad[..]].into_iter())));
        // A norm that is too small.
        let scale = units as f32 / (norm * (1.0 - low * low * low * low * low * low));
        prop_assume!(scale.is_finite());
        let (parts, bound) = ([&grad[..]], 1u64 << (2 * bits));
        let mut plain = Scale { scale, shrink: 1.0 / (1u32 << 20) as f32 };
        let mut want = vec![SumWord(5i64); n];
        while quantise(units, plain.scale, parts.into_iter(), &mut vec![SumWord(0i64); n]) > bound {
            plain = plain.next();
        }
        quantise(units, plain.scale, parts.into_iter(), &mut want);
        for added in [false, true] {
            let mut found = vec![SumWord(5i64); n];
            let total = added.then(|| quantise(units, scale, parts.into_iter(), &mut found));
            add_bounded((units, scale), total, Pieces::new(&parts, 0, n), &mut found);
            prop_assert!(found.iter().zip(&want).all(|(a, b)| a.0 == b.0), "{} {}", scale, plain.scale);
        }
    }

    // Sums in i32 and i64 agree below overflow.
    #[test]
    fn i32_and_i64_sums_agree(grad in adversarial()) {
        let grid = Grid::new(20).unwrap();
        let mut narrow = vec![SumWord(0i32); grad.len()];
        grid.add_sample(&FlatL2, 1.0, &[&grad], &mut narrow);
        let wide = added(20, 1.0, &[&grad]);
        prop_assert!(narrow.iter().zip(&wide).all(|(n, w)| i64::from(n.0) == *w && n.0.to_f32().to_bits() == w.to_f32().to_bits()));
    }
}

/// The previous content of the memory is neither read nor kept.
#[test]
fn a_rounded_sample_is_what_it_adds() {
    let (grid, grad) = (Grid::new(20).unwrap(), [0.3f32, -2.0, 0.5]);
    let mut memory = [SumWord(7i64); 3];
    let mut found = vec![];
    let norm = grid.round_sample(&FlatL2, 1.0, &[&grad[..1], &grad[1..]], &mut memory, |q| found.push(q));
    assert_eq!(norm, Ok(Some(sqrt_f32(4.34))));
    assert_eq!(found, added(20, 1.0, &[&grad]));
    assert!(memory.iter().all(|word| word.0 == 0));
}

#[test]
fn misfits_round_no_sample() {
    let grid = Grid::new(20).unwrap();
    let layers = [Layer::equal(2, 1)];
    let layered = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
    let none = |_: i64| panic!("a coordinate of a sample that does not fit");
    let memory = &mut [SumWord::ZERO; 3];
    assert_eq!(grid.round_sample(&FlatL2, 0.0, &[&[1.0; 3]], memory, none), Err(CallError::Clip));
    assert!(grid.round_sample(&FlatL2, 1.0, &[&[1.0; 2]], memory, none).is_err());
    assert!(grid.round_sample(&layered, 1.0, &[&[1.0; 3]], memory, none).is_err());
}

/// Squares that underflow give too small a norm. The sample is scaled down to the clip, and not to zero.
#[test]
fn a_norm_that_underflowed_is_made_up_for() {
    let mut shrunk = 0;
    for (size, n) in [(2.7e-23f32, 9), (1e-22, 30), (1e-22, 700), (4e-23, 5000), (6e-23, 3)] {
        let grad: Vec<f32> = (0..n).map(|i| if i % 3 == 0 { -size } else { size * (1.0 + i as f32 / 4e4) }).collect();
        let norm = grad.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let found = f64::from(crate::numerics::reduce::sum_of_squares([&grad[..]].into_iter())).sqrt();
        for bits in [16, 20, 22] {
            let q = added(bits, 1e-23, &[&grad]);
            let (square, bound) = (square(&q) as f64, f64::from(1u32 << bits).powi(2));
            assert!(square <= bound, "{size} {n} {bits}: {square}");
            if norm < 3.0 * found {
                assert!(square > 0.1 * bound, "{size} {n} {bits}: {square} of {bound}");
                assert!(q.iter().zip(&grad).all(|(q, g)| (*q > 0) == (*g > 0.0) && *q != 0));
                shrunk += u32::from(norm > 1.001 * found);
            }
        }
    }
    assert!(shrunk >= 3, "{shrunk}");
}

#[test]
fn what_is_longer_than_the_sum_is_left_out() {
    for (len, kept) in [(5, 3), (40, 33), (3, 5), (9000, 8190)] {
        let mut sum = vec![SumWord(0i64); kept];
        let part = vec![2.75f32; len];
        let shared = len.min(kept);
        assert_eq!(quantise(64, 4.0, [&part[..]].into_iter(), &mut sum), 121 * shared as u64);
        assert!(sum.iter().enumerate().all(|(i, sum)| sum.0 == if i < shared { 11 } else { 0 }));
    }
}

#[test]
fn sums_wrap_and_do_not_depend_on_order() {
    let grid = Grid::new(22).unwrap();
    let mut forward = [SumWord(i32::MAX - 5)];
    let mut backward = [SumWord(i32::MAX - 5)];
    let samples: Vec<f32> = (1..200).map(|i| 1.0 / i as f32).collect();
    for x in &samples {
        grid.add_sample(&FlatL2, 1.0, &[&[*x]], &mut forward);
    }
    for x in samples.iter().rev() {
        grid.add_sample(&FlatL2, 1.0, &[&[*x]], &mut backward);
    }
    assert_eq!(forward[0].0, backward[0].0);
    assert!(forward[0].0 < 0);
}

// The warning about i32 precedes any overflow of a sum.
#[test]
fn i32_warning_precedes_overflow() {
    let grid = Grid::new(20).unwrap();
    assert!(!grid.may_overflow_i32(500, 1 << 20));
    assert!(grid.may_overflow_i32(501, 1 << 20));
    assert!(grid.may_overflow_i32(1, 1 << 28));
    // Without the warning, four times the expected batch, all aligned, and ten standard deviations still fit.
    assert!(4 * 500 * i64::from(grid.unit()) + 10 * (1 << 20) < i64::from(i32::MAX));
    assert!((0..4000).all(|batch| grid.may_overflow_i32(batch, 1) == ((8 * batch).min(4 * batch + 32) >= 2048)));
}
