//! Each method with its own part switched off equals the plainer method, bit for bit. Settings without effect do not
//! change a bit.

use crate::harness::{How, bits};
use crate::method::{ClipChoice, FilterChoice, Method, OptimizerChoice, PLAIN, ThresholdChoice};
use crate::table::{CLIPS, FALLING, FILTERS, NOISES, OPTIMIZERS, THRESHOLDS, batches, methods};
use damper_core::filter::{Gain, LookAhead};
use damper_core::grid::Word;
use damper_core::schedule::{Decay, NoiseSchedule};

/// All outputs of a run, as bits: each step's release, the optimizer's inputs, counts, clip and parameters.
fn trajectory<W: Word>(method: &Method, how: How, seed: u64, steps: usize) -> Vec<Vec<u64>> {
    let mut run = method.start::<W>(steps as u32);
    let wide = |x: &[f32]| bits(x).into_iter().map(u64::from).collect::<Vec<_>>();
    batches(seed, steps, method.dim)
        .iter()
        .flat_map(|samples| {
            let taken = run.take(samples, how);
            let scalars = vec![u64::from(taken.clip.to_bits()), taken.noise_std.to_bits(), taken.lr.to_bits()];
            let counts = taken.counts.iter().map(|count| count.to_bits()).collect();
            [wide(&taken.released), wide(&taken.filtered), counts, scalars, wide(&run.params)]
        })
        .collect()
}

/// Fails unless all of `methods` give equal runs, over batches that include empty batches.
fn are_one(methods: &[Method]) {
    for seed in 0..2 {
        let first = trajectory::<i64>(&methods[0], How::Points, seed, 15);
        assert!(first.concat().iter().any(|bits| *bits != 0));
        for other in &methods[1..] {
            let same = first == trajectory::<i64>(other, How::Points, seed, 15);
            assert!(same, "{other:?}\nis not\n{:?}", methods[0]);
        }
    }
}

/// Every clip, threshold and noise schedule with every optimizer, under the identity filter.
fn unfiltered() -> Vec<Method> {
    let mut all = vec![];
    for (o, optimizer) in OPTIMIZERS.iter().enumerate() {
        for (i, clip) in CLIPS.iter().enumerate() {
            all.push(Method {
                optimizer: *optimizer,
                clip: *clip,
                threshold: THRESHOLDS[(i + o) % THRESHOLDS.len()],
                noise: NOISES[(i + 2 * o) % NOISES.len()],
                learning_rate: FALLING,
                ..PLAIN
            });
        }
    }
    all
}

fn with_filters(method: &Method, filters: &[FilterChoice]) -> Vec<Method> {
    filters.iter().map(|filter| Method { filter: *filter, ..*method }).collect()
}

// DOPPLER with an identity filter is DP-SGD.
#[test]
fn identity_doppler_is_dp_sgd() {
    for method in unfiltered() {
        are_one(&with_filters(&method, &[FilterChoice::Identity, FilterChoice::Iir("sgd"), FilterChoice::Iir("p0")]));
    }
}

// DiSK with a gain of one is DP-SGD, for any look-ahead.
#[test]
fn disk_with_unit_gain_is_dp_sgd() {
    let disk = |look| FilterChoice::Kalman(Gain::Constant(1.0), look);
    let two = |gamma| disk(LookAhead::Two { gamma });
    for method in unfiltered() {
        are_one(&with_filters(&method, &[FilterChoice::Identity, disk(LookAhead::One), two(0.5), two(-1.0), two(0.2)]));
    }
}

/// One iterate, or a factor of zero, with or without normalisation.
#[test]
fn one_iterate_momentum_is_inner_filter() {
    for method in unfiltered() {
        for inner in [None, Some("sgd"), Some("f6")] {
            let momentum = |iterates, beta, normalised| FilterChoice::Momentum { iterates, beta, normalised, inner };
            are_one(&with_filters(
                &method,
                &[
                    inner.map_or(FilterChoice::Identity, FilterChoice::Iir),
                    momentum(1, 0.9, true),
                    momentum(1, -0.5, false),
                    momentum(4, 0.0, true),
                    momentum(3, 0.0, false),
                ],
            ));
        }
    }
}

// A noise schedule with all factors 1 is DP-SGD.
#[test]
fn unit_noise_schedule_is_dp_sgd() {
    let constant = (0.05, 0, Decay::Constant);
    for method in methods().iter().step_by(7) {
        let with = |noise, learning_rate| Method { noise, learning_rate, ..*method };
        are_one(&[
            with(NoiseSchedule::Constant, constant),
            with(NoiseSchedule::Matched { exponent: 0.5 }, constant),
            with(NoiseSchedule::Matched { exponent: 4.0 }, constant),
            with(NoiseSchedule::Polynomial { growth: 0.0, exponent: 1.0 }, constant),
            with(NoiseSchedule::Polynomial { growth: 1.0, exponent: 0.0 }, constant),
        ]);
        are_one(&[with(NoiseSchedule::Constant, FALLING), with(NoiseSchedule::Matched { exponent: 0.0 }, FALLING)]);
    }
}

/// `α → κα` with `σ → σ/κ` is the same noise. Here `α_t = 2^t` is compared with a mechanism of half the σ, one step
/// later.
#[test]
fn only_schedule_times_multiplier_matters() {
    let halving = (0.5, 0, Decay::Step { every: 1, factor: 0.5 });
    let matched =
        Method { noise: NoiseSchedule::Matched { exponent: 1.0 }, learning_rate: halving, sigma: 6000, ..PLAIN };
    let mut schedule = matched.start::<i64>(6);
    for t in 0..6 {
        let taken = schedule.take(&[], How::Points);
        let fixed = Method { sigma: 6000 << t, ..PLAIN };
        let mut alone = fixed.resume::<i64>(6, t, 1);
        let expected = alone.take(&[], How::Points);
        assert_eq!(bits(&taken.released), bits(&expected.released));
        assert_eq!(taken.noise_std.to_bits(), expected.noise_std.to_bits());
    }
}

// Per-layer clipping of a single layer is flat clipping.
#[test]
fn single_layer_clipping_is_flat_clipping() {
    for method in methods().iter().step_by(5) {
        for (whole, layered) in
            [(ClipChoice::Flat, ClipChoice::OneLayer), (ClipChoice::Automatic, ClipChoice::OneLayerAutomatic)]
        {
            are_one(&[Method { clip: whole, ..*method }, Method { clip: layered, ..*method }]);
        }
    }
}

// An optimizer that observes the full gradient first gets the same gradient.
#[test]
fn look_ahead_optimizer_gets_same_gradient() {
    for method in methods() {
        are_one(&[method, Method { look_ahead: true, ..method }]);
    }
}

// The word type, the workers and the place of combining do not change a bit of any method.
#[test]
fn word_workers_and_combiner_keep_bits() {
    for method in methods() {
        let first = trajectory::<i64>(&method, How::Points, 3, 12);
        assert!(first == trajectory::<i32>(&method, How::Points, 3, 12), "words: {method:?}");
        assert!(first == trajectory::<i64>(&method, How::Mixed, 3, 12), "mixed outside: {method:?}");
        assert!(first == trajectory::<i64>(&method, How::Interrupted, 3, 12), "begun anew: {method:?}");
        assert!(first == trajectory::<i64>(&method, How::Shards(1), 3, 12), "one shard: {method:?}");
        assert!(first == trajectory::<i32>(&method, How::Shards(4), 3, 12), "four shards: {method:?}");
    }
}

/// More coordinates than share one address of noise, and more than are streamed at a time.
#[test]
fn long_gradients_release_like_short_ones() {
    for method in methods().iter().step_by(11) {
        let long = Method { dim: 2100, ..*method };
        let first = trajectory::<i64>(&long, How::Points, 4, 4);
        assert!(first == trajectory::<i32>(&long, How::Shards(3), 4, 4), "{method:?}");
        assert!(first == trajectory::<i64>(&Method { look_ahead: true, ..long }, How::Mixed, 4, 4), "{method:?}");
    }
}

/// Controls: the runs that must be equal above differ if the method's own part is switched on.
#[test]
fn every_method_differs_from_dp_sgd() {
    let plain = trajectory::<i64>(&PLAIN, How::Points, 2, 12);
    let differs = |method: Method| assert!(plain != trajectory::<i64>(&method, How::Points, 2, 12), "{method:?}");
    FILTERS.iter().skip(1).for_each(|filter| differs(Method { filter: *filter, ..PLAIN }));
    CLIPS.iter().skip(1).for_each(|clip| differs(Method { clip: *clip, ..PLAIN }));
    THRESHOLDS.iter().skip(1).for_each(|threshold| differs(Method { threshold: *threshold, ..PLAIN }));
    NOISES.iter().skip(2).for_each(|noise| differs(Method { noise: *noise, ..PLAIN }));
    OPTIMIZERS.iter().skip(1).for_each(|optimizer| differs(Method { optimizer: *optimizer, ..PLAIN }));
    assert_eq!((PLAIN.threshold, PLAIN.optimizer), (ThresholdChoice::Fixed, OptimizerChoice::Sgd));
}
