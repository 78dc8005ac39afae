//! The sensitivity to one sample, in exact integers. Runs differ in one sample of their last step, under the same
//! noise.

use crate::harness::{How, Sample, Taken};
use crate::method::{ClipChoice, FilterChoice, Method, PLAIN, ThresholdChoice};
use crate::table::{Noise, batches, methods};
use damper_core::filter::{Gain, LookAhead};
use proptest::prelude::*;

const DIM: usize = 12;

/// The methods, each with a noise of one grid unit: almost the sums themselves. The grid is as fine as f32 can
/// represent.
fn exact() -> Vec<Method> {
    methods().into_iter().map(|method| Method { dim: DIM, bits: 19, sigma: 1, expected_batch: 3, ..method }).collect()
}

/// The step after `warm_up` common steps, with these samples in addition to those of a batch.
fn last(method: &Method, warm_up: usize, samples: &[Sample], how: How) -> Taken {
    let mut run = method.start::<i64>(1000);
    let mut batches = batches(warm_up as u64, warm_up + 1, method.dim);
    let mut others = batches.pop().unwrap();
    for batch in &batches {
        run.take(batch, how);
    }
    others.extend(samples.iter().cloned());
    run.take(&others, how)
}

/// The change of the sum, in grid units.
fn moved(method: &Method, with: &Taken, without: &Taken) -> Vec<i64> {
    assert_eq!(with.clip.to_bits(), without.clip.to_bits());
    method.units(with).iter().zip(method.units(without)).map(|(a, b)| a - b).collect()
}

fn square(x: &[i64]) -> u64 {
    x.iter().map(|x| x.unsigned_abs().pow(2)).sum()
}

/// `‖x‖² ≤ (factor·C)²`, all in grid units. Per-layer clipping also checks each layer's own share.
fn within(method: &Method, x: &[i64], factor: u64) -> Result<(), String> {
    let unit = 1u64 << method.bits;
    if square(x) > (factor * unit).pow(2) {
        return Err(format!("{} of {factor} clips", (square(x) as f64).sqrt() / unit as f64));
    }
    let (mut rest, mut bounds) = (x, 0);
    for layer in method.layers() {
        let (here, after) = rest.split_at(layer.len);
        let units = u64::from(layer.share >> (22 - method.bits));
        if square(here) > (factor * units).pow(2) {
            return Err(format!("layer: {} of {factor}·{units}", (square(here) as f64).sqrt()));
        }
        (rest, bounds) = (after, bounds + units.pow(2));
    }
    assert!(rest.is_empty() && bounds <= unit.pow(2));
    Ok(())
}

/// Gradients of one sample at four points that try to exceed a bound. They have one direction, with signs for which
/// separately clipped parts add up, or are huge, tiny, equal, single, or unrelated.
fn adversary() -> impl Strategy<Value = Sample> {
    let direction = prop_oneof![
        prop::collection::vec(-1f32..1.0, DIM),
        Just(vec![1.0; DIM]),
        (0..DIM).prop_map(|i| (0..DIM).map(|j| f32::from(u8::from(i == j))).collect()),
        Just((0..DIM).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect::<Vec<f32>>()),
        (0..DIM, -1e-4f32..1e-4).prop_map(|(i, x)| (0..DIM).map(|j| if i == j { 1.0 } else { x }).collect()),
    ];
    let scale = prop_oneof![4 => -4i32..5, 1 => 16i32..39, 1 => -45i32..-16].prop_map(|e| 10f64.powi(e) as f32);
    let signs = prop::sample::select(
        &[[1f32, -1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, -1.0]][..],
    );
    let aligned = (direction, scale, signs).prop_map(|(direction, scale, signs)| {
        Sample::At(signs.iter().map(|sign| direction.iter().map(|x| sign * (scale * x)).collect()).collect())
    });
    let any = prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO;
    let unrelated = prop::collection::vec(prop::collection::vec(any, DIM), 4).prop_map(Sample::At);
    prop_oneof![4 => aligned, 1 => unrelated]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // An added sample moves the sum of any method by at most the clipping threshold.
    #[test]
    fn added_sample_moves_sum_by_at_most_clip(sample in adversary(), warm_up in 0usize..5) {
        for method in exact() {
            let without = last(&method, warm_up, &[], How::Points);
            let with = last(&method, warm_up, std::slice::from_ref(&sample), How::Points);
            let moved = moved(&method, &with, &without);
            prop_assert_eq!(within(&method, &moved, 1), Ok(()), "{:?}", method);
        }
    }

    // A replaced sample moves the sum of any method by at most twice the clipping threshold.
    #[test]
    fn replacement_moves_sum_by_at_most_2_clips(
        samples in prop::array::uniform2(adversary()), warm_up in 0usize..5,
    ) {
        for method in exact() {
            let [one, other] = samples.each_ref().map(|s| last(&method, warm_up, std::slice::from_ref(s), How::Mixed));
            let moved = moved(&method, &one, &other);
            prop_assert_eq!(within(&method, &moved, 2), Ok(()), "{:?}", method);
        }
    }

    /// The gradient in units of its noise and the counts in units of theirs, stacked: one Gaussian release of the
    /// accounted multiplier.
    #[test]
    fn joint_sensitivity_is_within_charge(
        sample in adversary(), warm_up in 0usize..4,
    ) {
        for method in exact() {
            // The accounted noise. Noise of one unit reveals the sums.
            let priced = Method { sigma: PLAIN.sigma << 3, ..method };
            let event = priced.step::<i64>().event_at(warm_up as u32, damper_core::accounting::Rate::ONE).unwrap();
            let without = last(&method, warm_up, &[], How::Points);
            let with = last(&method, warm_up, std::slice::from_ref(&sample), How::Points);
            let unit = f64::from(1u32 << method.bits);
            let grad = square(&moved(&method, &with, &without)) as f64 / (unit * priced.multiplier_at(warm_up as u32)).powi(2);
            let counts: f64 = with.counts.iter().zip(&without.counts).map(|(a, b)| (a - b).powi(2)).sum();
            prop_assert!(counts == 0.0 || counts == 1.0);
            let sigma_h = if method.threshold == ThresholdChoice::Quantile { 2.0 } else { 5.0 };
            let stacked = grad + counts / (sigma_h * sigma_h);
            let bound = event.multiplier().powi(-2);
            prop_assert!(stacked <= bound, "{stacked} {bound} {method:?}");
            prop_assert_eq!(counts == 0.0, method.threshold == ThresholdChoice::Fixed || moved_nothing(&with, &without));
        }
    }

    /// At any point, also if only the combination overflows. The other samples' bits and all later bits stay the same.
    #[test]
    fn non_finite_sample_changes_no_bit(
        at in 0usize..4, i in 0..DIM, bad in prop::sample::select(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX][..]),
    ) {
        for method in exact() {
            let mut grads = vec![vec![0.25; DIM]; 4];
            (0..4).filter(|j| *j == at).for_each(|j| grads[j][i] = bad);
            let runs = [&[][..], &[Sample::At(grads.clone())][..]].map(|extra| {
                let mut run = method.start::<i64>(10);
                let steps: Vec<_> = batches(5, 6, DIM).into_iter().map(|mut batch| {
                    // If fewer points are requested, the non-finite point has no effect, so the sample is not added.
                    let wanted = run.eval_points() > at;
                    batch.extend(extra.iter().filter(|_| wanted).cloned());
                    run.take(&batch, How::Points)
                }).collect();
                format!("{steps:?} {:?}", run.params)
            });
            prop_assert!(runs[0] == runs[1], "{:?}", method);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The bound does not depend on the clip rule. It also holds for a rule that divides by an arbitrary number.
    #[test]
    fn wrong_clip_rule_cannot_exceed_clip(
        sample in adversary(),
        divisor in prop_oneof![
            prop::num::f32::ANY,
            -2f32..2.0,
            prop::sample::select(&[0.0, -0.0, 1e-45, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY][..]),
        ],
    ) {
        for clip in [ClipChoice::Wrong(divisor), ClipChoice::WrongLayers(divisor)] {
            let momentum = FilterChoice::Momentum { iterates: 4, beta: 1.0, normalised: false, inner: None };
            let method = Method { clip, filter: momentum, dim: DIM, sigma: 1, expected_batch: 3, ..PLAIN };
            let (without, with) =
                (last(&method, 3, &[], How::Points), last(&method, 3, std::slice::from_ref(&sample), How::Points));
            prop_assert_eq!(within(&method, &moved(&method, &with, &without), 1), Ok(()));
        }
    }
}

/// Returns true if a sample adds nothing and is not counted, because it is not finite after combination.
fn moved_nothing(with: &Taken, without: &Taken) -> bool {
    with.counts == without.counts && with.released == without.released
}

/// One sample whose gradients follow the signs of the weights, so that separately clipped parts add up.
fn against(weights: &[f32]) -> Vec<Vec<f32>> {
    weights.iter().map(|w| vec![100.0 * w.signum(); DIM]).collect()
}

/// Control: the same samples with each point clipped separately and then weighted, as in public implementations. Their
/// sums far exceed the bounds above, so the checks detect them. If combined first, the same sample adds `C`.
#[test]
fn clipping_each_point_exceeds_clip() {
    let momentum = |iterates, beta| FilterChoice::Momentum { iterates, beta, normalised: false, inner: None };
    for (filter, weights, excess) in [
        (
            FilterChoice::Kalman(Gain::Constant(0.5), LookAhead::Two { gamma: 0.7 }),
            vec![-0.428_571_43, 1.428_571_5],
            1.857,
        ),
        (momentum(2, 1.0), vec![1.0; 2], 2.0),
        (momentum(4, 1.0), vec![1.0; 4], 4.0),
    ] {
        let method = Method { filter, dim: DIM, sigma: 1, expected_batch: 3, ..PLAIN };
        let sample = Sample::At(against(&weights));
        let (without, with) = (last(&method, 3, &[], How::Points), last(&method, 3, &[sample], How::Points));
        assert_eq!(with.points.iter().map(|(weight, _)| *weight).collect::<Vec<_>>(), weights);
        let mixed_first = moved(&method, &with, &without);
        assert_eq!(within(&method, &mixed_first, 1), Ok(()));
        assert!(square(&mixed_first) as f64 > 0.999 * f64::from(1 << 16).powi(2), "it uses up the bound");

        // Each point's gradient clipped by a separate DP-SGD step.
        let alone = Method { filter: FilterChoice::Identity, ..method };
        let mut separately = [0f64; DIM];
        for (weight, grad) in weights.iter().zip(against(&weights)) {
            let clipped = moved(
                &alone,
                &last(&alone, 3, &[Sample::constant(grad)], How::Points),
                &last(&alone, 3, &[], How::Points),
            );
            for (sum, x) in separately.iter_mut().zip(clipped) {
                *sum += f64::from(*weight) * x as f64;
            }
        }
        let separately: Vec<i64> = separately.iter().map(|x| x.trunc() as i64).collect();
        assert!(within(&method, &separately, 1).is_err());
        let factor = (square(&separately) as f64).sqrt() / f64::from(1 << 16);
        assert!((factor - excess).abs() < 1e-3, "{factor}");
    }
}

/// Second control: a bound that fails per layer is detected, even if the total is within `C`.
#[test]
fn a_layer_beyond_its_share_is_seen() {
    let method = Method { clip: ClipChoice::UnequalLayers, dim: DIM, ..PLAIN };
    let mut x = vec![0; DIM];
    x[DIM - 1] = 30_000;
    assert!(within(&Method { clip: ClipChoice::Flat, ..method }, &x, 1).is_ok());
    assert!(within(&method, &x, 1).is_err());
}

/// Different batches with the same clipped sum, for any number of samples and any data set.
#[test]
fn realised_batch_keeps_scale_and_noise() {
    for method in exact().into_iter().filter(|method| method.threshold == ThresholdChoice::Fixed) {
        let mut noise = Noise::new(8);
        let (mut few, mut many) = (method.start::<i64>(9), method.start::<i64>(9));
        for t in 0..6 {
            let kept = Sample::constant(noise.vector(DIM, 0.3));
            // Each next to its opposite: the sum on the grid is exactly zero, because truncation is symmetric.
            let mut crowd = vec![kept.clone()];
            for _ in 0..t * t {
                let grad = noise.vector(DIM, 3.0);
                crowd.push(Sample::constant(grad.iter().map(|g| -g).collect()));
                crowd.push(Sample::constant(grad));
            }
            assert_eq!(few.take(&[kept], How::Mixed), many.take(&crowd, How::Mixed), "{method:?}");
        }
        assert_eq!(few.params, many.params);
    }
}

/// Gradients on the grid for any data: the reachable outputs are the same for all data sets.
#[test]
fn releases_are_multiples_of_public_unit() {
    for method in methods() {
        let mut run = method.start::<i64>(8);
        for batch in batches(6, 8, method.dim) {
            // Fails if a value is off the grid.
            method.units(&run.take(&batch, How::Points));
            assert!(run.sum_is_wiped());
        }
    }
}

#[test]
fn no_method_sees_the_order_of_its_samples() {
    for method in methods() {
        let (mut forward, mut backward) = (method.start::<i64>(6), method.start::<i64>(6));
        for mut batch in batches(7, 6, method.dim) {
            let taken = forward.take(&batch, How::Points);
            batch.reverse();
            assert_eq!(taken, backward.take(&batch, How::Points), "{method:?}");
        }
    }
}
