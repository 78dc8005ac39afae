//! Evaluation points, the inputs of filters and thresholds, and values that do not depend on the private data.

use crate::harness::{How, Sample, Taken, bits};
use crate::method::{FilterChoice, Method, OptimizerChoice, PLAIN, ThresholdChoice};
use crate::table::{FALLING, FILTERS, Noise, batches, methods};
use damper_core::accounting::{Ledger, Rate};
use damper_core::clip::FlatL2;
use damper_core::filter::{Gain, Identity, LookAhead, SETS, named};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{AdaGradNorm, AdaGradNormState, Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::sampling::poisson;
use damper_core::schedule::{Constant, NoiseSchedule};
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;

/// Batches of at least one sample.
fn full_batches(seed: u64, steps: usize, dim: usize) -> Vec<Vec<Sample>> {
    let mut noise = Noise::new(seed);
    (0..steps).map(|_| (0..5).map(|_| crate::table::bowl(&mut noise, dim)).collect()).collect()
}

/// The steps of a run, and the parameters before each and at the end.
fn history(method: &Method, data: &[Vec<Sample>]) -> (Vec<Taken>, Vec<Vec<f32>>) {
    let mut run = method.start::<i64>(data.len() as u32);
    let mut params = vec![run.params.clone()];
    let steps = data
        .iter()
        .map(|samples| {
            let taken = run.take(samples, How::Points);
            params.push(run.params.clone());
            taken
        })
        .collect();
    (steps, params)
}

/// An empty batch, and a batch without a finite sample. Both release noise, and leave a valid state for the steps
/// after.
#[test]
fn an_empty_batch_is_a_step_like_any_other() {
    for method in methods() {
        let (mut run, mut other) = (method.start::<i64>(12), method.start::<i64>(12));
        let mut data = full_batches(1, 12, method.dim);
        data[0].clear();
        data[5].clear();
        for (t, samples) in data.iter().enumerate() {
            let before = run.params.clone();
            let taken = run.take(samples, How::Points);
            let hollow = [vec![Sample::constant(vec![f32::NAN; method.dim])], samples.clone()].concat();
            assert_eq!(taken, other.take(&hollow, How::Points), "{method:?}");
            assert_eq!((taken.number, run.ledger.charged_steps()), (t as u32, t as u32 + 1));
            assert!(taken.released.iter().all(|x| x.is_finite()) && taken.released.iter().any(|x| *x != 0.0));
            assert!(before != run.params && run.params.iter().all(|x| x.is_finite()));
        }
        // The filter advances at empty batches as at others: it requests gradients at the same number of points.
        let points =
            |data: &[Vec<Sample>]| history(&method, data).0.iter().map(|taken| taken.points.len()).collect::<Vec<_>>();
        assert_eq!(points(&data), points(&full_batches(1, 12, method.dim)));
    }
}

/// The optimizer's direction follows from all releases, including those of empty batches, by the filter's formula.
#[test]
fn filters_receive_each_release_in_order() {
    for filter in FILTERS {
        let method = Method { filter: *filter, ..PLAIN };
        let (steps, _) = history(&method, &batches(3, 20, method.dim));
        for i in 0..method.dim {
            let released: Vec<f64> = steps.iter().map(|taken| f64::from(taken.released[i])).collect();
            for ((taken, expected), t) in steps.iter().zip(filtered(filter, &released)).zip(0..) {
                let scale = released.iter().fold(0f64, |most, x| most.max(x.abs()));
                let error = (f64::from(taken.filtered[i]) - expected).abs();
                assert!(error < 1e-4 * scale, "{filter:?}, step {t}: {} for {expected}", taken.filtered[i]);
            }
        }
    }
}

/// The filters' formulas, in f64.
fn filtered(filter: &FilterChoice, released: &[f64]) -> Vec<f64> {
    match filter {
        FilterChoice::Identity | FilterChoice::Momentum { inner: None, .. } => released.to_vec(),
        FilterChoice::Iir(name) | FilterChoice::Momentum { inner: Some(name), .. } => {
            let set = named(name).unwrap();
            let pass = |g: &[f64]| {
                let mut m: Vec<f64> = vec![];
                for t in 0..g.len() {
                    let past = set.a.iter().zip(1..).filter(|(_, r)| *r <= t);
                    let new = set.b.iter().zip(0..).filter(|(_, r)| *r <= t);
                    let past: f64 = past.map(|(a, r)| f64::from(*a) * m[t - r]).sum();
                    m.push(new.map(|(b, r)| f64::from(*b) * g[t - r]).sum::<f64>() - past);
                }
                m
            };
            pass(released).iter().zip(pass(&vec![1.0; released.len()])).map(|(m, c)| m / c).collect()
        }
        FilterChoice::Kalman(gain, _) => {
            let mut p = 1.0;
            let mut kept = released[0];
            let mut out = vec![kept];
            for g in &released[1..] {
                let kappa = match *gain {
                    Gain::Constant(kappa) => kappa,
                    Gain::Recursion { noise, drift, process } => {
                        let predicted = p + drift + process;
                        let kappa = predicted / (predicted + noise - drift);
                        p = (1.0 - kappa) * predicted;
                        kappa
                    }
                };
                kept = (1.0 - kappa) * kept + kappa * g;
                out.push(kept);
            }
            out
        }
    }
}

/// `g̃_0 = g_0`: the first step is a DP-SGD step, for any later look-ahead.
#[test]
fn disk_starts_with_dp_sgd_gradient() {
    for method in methods() {
        let FilterChoice::Kalman(..) = method.filter else { continue };
        let data = full_batches(2, 1, method.dim);
        let (steps, params) = history(&method, &data);
        assert_eq!(steps[0].points, [(1.0, params[0].clone())]);
        assert_eq!(bits(&steps[0].filtered), bits(&steps[0].released));
        let (plain, _) = history(&Method { filter: FilterChoice::Identity, ..method }, &data);
        assert_eq!(steps[0], plain[0]);
        assert_eq!(steps[0].releases.0, 1);
    }
}

// DiSK evaluates at the parameters and ahead along the last update.
#[test]
fn disk_evaluates_params_and_look_ahead() {
    for method in methods() {
        let FilterChoice::Kalman(Gain::Constant(kappa), look) = method.filter else { continue };
        let (steps, params) = history(&method, &batches(4, 8, method.dim));
        for t in 1..8 {
            let ahead = |gamma: f64| {
                let moved = params[t].iter().zip(&params[t - 1]).map(|(now, before)| now - before);
                params[t].iter().zip(moved).map(|(x, d)| x + gamma as f32 * d).collect::<Vec<_>>()
            };
            let expected = match look {
                LookAhead::One => vec![(1.0, ahead((1.0 - kappa) / kappa))],
                LookAhead::Two { gamma } => {
                    let c = (1.0 - kappa) / (kappa * gamma);
                    vec![((1.0 - c) as f32, params[t].clone()), (c as f32, ahead(gamma))]
                }
            };
            assert_eq!(steps[t].points.len(), expected.len());
            for ((weight, point), (expected, at)) in steps[t].points.iter().zip(&expected) {
                assert!((weight - expected).abs() <= 4.0 * f32::EPSILON * expected.abs(), "{weight} {expected}");
                assert_eq!(bits(point), bits(at));
            }
        }
    }
}

/// Point `j` of step `t` is `x_{t−j}`. Before there are `k` of them, the oldest, `x_0`, takes the positions of the
/// missing iterates.
#[test]
fn per_sample_momentum_uses_last_iterates() {
    for method in methods() {
        let FilterChoice::Momentum { iterates, beta, normalised, .. } = method.filter else { continue };
        let (steps, params) = history(&method, &batches(5, 10, method.dim));
        let powers: Vec<f64> = (0..iterates).map(|j| beta.powi(j as i32)).collect();
        let total: f64 = if normalised { powers.iter().sum() } else { 1.0 };
        for (t, taken) in steps.iter().enumerate() {
            let count = iterates.min(t + 1);
            assert_eq!(taken.points.len(), count);
            for (j, (weight, point)) in taken.points.iter().enumerate() {
                assert_eq!(bits(point), bits(&params[t - j]), "{method:?}, step {t}");
                let of: f64 = if j + 1 == count { powers[j..].iter().sum() } else { powers[j] };
                assert!((f64::from(*weight) - of / total).abs() < 1e-7);
            }
        }
    }
}

/// If gradients do not depend on the point, the momentum only sums its weights, and their sum is 1.
#[test]
fn equal_gradients_pass_normalised_filters() {
    let mut noise = Noise::new(6);
    let samples = vec![Sample::constant(noise.vector(70, 0.05)), Sample::constant(noise.vector(70, 3.0))];
    for filter in FILTERS {
        let normalised = !matches!(filter, FilterChoice::Momentum { normalised: false, .. });
        let method = Method { filter: *filter, sigma: 1, ..PLAIN };
        let (mut run, mut plain) =
            (method.start::<i64>(9), Method { filter: FilterChoice::Identity, ..method }.start::<i64>(9));
        let mut most = 0;
        for _ in 0..9 {
            let (a, b) = (run.take(&samples, How::Points), plain.take(&samples, How::Points));
            let apart = method.units(&a).into_iter().zip(method.units(&b)).map(|(a, b)| a.abs_diff(b));
            most = most.max(apart.max().unwrap());
        }
        // Two samples, each off by one unit due to the rounding of weights.
        assert_eq!(most <= 2, normalised, "{filter:?}: {most}");
    }
}

/// A constant gradient under noise of one unit of a fine grid. The filtered gradient equals it at every step, from the
/// first.
#[test]
fn constant_gradient_passes_every_filter() {
    let published = SETS.iter().map(|set| FilterChoice::Iir(set.name));
    let inside = SETS.iter().map(|set| FilterChoice::Momentum {
        iterates: 3,
        beta: 0.4,
        normalised: true,
        inner: Some(set.name),
    });
    let kalman = FILTERS.iter().copied().filter(|filter| matches!(filter, FilterChoice::Kalman(..)));
    for filter in published.chain(inside).chain(kalman) {
        let method = Method { filter, dim: 12, bits: 22, sigma: 1, expected_batch: 1, ..PLAIN };
        let grad: Vec<f32> = (0..12).map(|i| 0.01 * i as f32 - 0.05).collect();
        let mut run = method.start::<i64>(60);
        for t in 0..60 {
            let taken = run.take(&[Sample::constant(grad.clone())], How::Points);
            for (filtered, grad) in taken.filtered.iter().zip(&grad) {
                // Some ten units of the grid.
                assert!((filtered - grad).abs() < 3e-6, "{filter:?}, step {t}: {filtered} for {grad}");
            }
        }
    }
}

/// `β` of per-sample momentum, `γ` of DiSK: a number that is read but not used would pass every check of noise and
/// sensitivity.
#[test]
fn every_number_of_a_filter_changes_the_run() {
    let momentum = |iterates, beta, normalised| FilterChoice::Momentum { iterates, beta, normalised, inner: None };
    let disk = |kappa, gamma| FilterChoice::Kalman(Gain::Constant(kappa), LookAhead::Two { gamma });
    let filters = [
        momentum(2, 0.1, true),
        momentum(2, 0.5, true),
        momentum(3, 0.5, true),
        momentum(3, 0.5, false),
        disk(0.7, 0.5),
        disk(0.6, 0.5),
        disk(0.7, -1.0),
        FilterChoice::Kalman(Gain::Constant(0.7), LookAhead::One),
        FilterChoice::Kalman(Gain::Constant(0.6), LookAhead::One),
    ];
    let ends: Vec<_> = filters
        .iter()
        .map(|filter| history(&Method { filter: *filter, ..PLAIN }, &full_batches(7, 10, 70)).1.pop().unwrap())
        .collect();
    for (i, end) in ends.iter().enumerate() {
        assert!(ends[i + 1..].iter().all(|other| other != end), "{:?}", filters[i]);
    }
}

/// The clip of a step is known before its samples are. Its own counts determine the next clip.
#[test]
fn clip_is_chosen_one_step_before() {
    for method in methods() {
        let data = full_batches(9, 8, method.dim);
        let mut changed = data.clone();
        changed[4] = vec![Sample::constant(vec![50.0; method.dim]); 40];
        let run = |data: &[Vec<Sample>], seed| {
            let mut run = Method { seed, ..method }.start::<i64>(8);
            data.iter()
                .map(|samples| {
                    let chosen = run.clip();
                    let taken = run.take(samples, How::Points);
                    assert_eq!(chosen.to_bits(), taken.clip.to_bits());
                    (taken.clip, taken.noise_std)
                })
                .collect::<Vec<_>>()
        };
        // A rule that chooses among few clips may choose the same clip again because of its noise.
        let moves = (1..=8).filter(|&seed| {
            let (before, after) = (run(&data, seed), run(&changed, seed));
            assert_eq!(before[..5], after[..5], "{method:?}");
            if method.threshold == ThresholdChoice::Fixed {
                assert!(after.iter().all(|(clip, _)| *clip == method.first_clip));
            }
            before[5].0 != after[5].0
        });
        if method.threshold != ThresholdChoice::Fixed {
            assert!(moves.count() >= 4, "40 samples of large norm move the next clip: {method:?}");
        } else {
            assert_eq!(moves.count(), 0);
        }
    }
}

/// Two data sets whose raw gradients differ arbitrarily but whose clipped sums agree are indistinguishable. A data set
/// whose sum differs by one unit is distinguishable.
#[test]
fn adagrad_norm_lr_needs_only_releases() {
    let inner = Sgd::new(0.0, false, 0.0).unwrap();
    for subtract_noise in [false, true] {
        let step = PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::<i64>::new(Grid::new(16).unwrap(), 3000).unwrap(),
            clip: FlatL2,
            threshold: Fixed(1.0),
            filter: Identity,
            optimizer: AdaGradNorm::new(0.5, 1e-6, subtract_noise, inner).unwrap(),
            schedule: Constant(0.1),
            expected_batch: 2,
        })
        .unwrap();
        // b² − b_0² after each step, and the final parameters.
        let rates = |data: &dyn Fn(usize) -> Vec<[f32; 3]>| {
            let mut state =
                StepState::new([SumWord::ZERO; 3], (), AdaGradNormState::new(SgdState { momentum: [0f32; 0] }), ());
            let (mut ledger, mut params) = (Ledger::volatile(20), [0f32; 3]);
            let added: Vec<_> = (0..20)
                .map(|t| {
                    let mut open = step.open(&mut state, &mut ledger).unwrap();
                    data(t).iter().for_each(|grad| open.add_combined(&[grad]).unwrap());
                    open.finish(&mut params, &ChaCha20::<1>::simulation(4)).unwrap();
                    state.optimizer.added.to_bits()
                })
                .collect();
            (added, bits(&params))
        };
        let plain = rates(&|t| vec![[0.5, 0.25, t as f32 / 64.0]]);
        let loud = |t: usize| {
            let huge = 10f32.powi(t as i32);
            // After clipping, these two cancel, and the others have the same sum.
            vec![[huge, -huge, 0.0], [0.25, 0.25, 0.0], [-huge, huge, 0.0], [0.25, 0.0, t as f32 / 64.0]]
        };
        assert_eq!(plain, rates(&loud));
        assert!(plain != rates(&|t| vec![[0.5 + 1.0 / 65_536.0, 0.25, t as f32 / 64.0]]));
    }
}

/// Recomputes the parameters from the stored data of each step: released and filtered gradients, and the declared rate
/// and noise.
#[test]
fn adagrad_norm_replays_from_releases() {
    for method in methods().into_iter().filter(|method| method.optimizer == OptimizerChoice::AdaGradNorm) {
        let (steps, params) = history(&method, &batches(10, 15, method.dim));
        let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let (mut params_again, mut momentum, mut b_squared) = (wide(&params[0]), vec![0.0; method.dim], 20.0);
        for (taken, after) in steps.iter().zip(&params[1..]) {
            let norm_squared: f64 = wide(&taken.released).iter().map(|x| x * x).sum();
            b_squared += (norm_squared - method.dim as f64 * taken.noise_std * taken.noise_std).max(1e-5);
            let rate = method.learning_rate().at(taken.number) / b_squared.sqrt();
            for ((param, m), grad) in params_again.iter_mut().zip(&mut momentum).zip(wide(&taken.filtered)) {
                *m = 0.9 * *m + grad;
                *param -= rate * *m;
            }
            let apart = params_again.iter().zip(wide(after)).fold(0f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(apart < 1e-5, "{apart}: {method:?}");
        }
    }
}

/// One more record in the data set, with the same declared rate and batch. The other records' trials, their scale and
/// the noise stay the same.
#[test]
fn extra_record_affects_only_its_own_trial() {
    let rate = Rate::at_most(0.05).unwrap();
    let coins = ChaCha20::<1>::simulation(12);
    for method in methods().into_iter().step_by(3) {
        let mut noise = Noise::new(13);
        let mut records: Vec<_> = (0..101).map(|_| crate::table::bowl(&mut noise, method.dim)).collect();
        // The last record adds nothing, so that only the effect of its presence is visible.
        records[100] = Sample::constant(vec![f32::INFINITY; method.dim]);
        let runs = [100, 101].map(|count| {
            let mut run = method.start::<i64>(8);
            let mut drawn = 0;
            let steps: Vec<_> = (0..8)
                .map(|t| {
                    let draw: Vec<u32> = poisson(&coins, t, rate, count).collect();
                    assert!(draw.windows(2).all(|pair| pair[0] < pair[1]), "a draw has each record at most once");
                    drawn += draw.iter().filter(|i| **i == 100).count();
                    let batch: Vec<_> = draw.iter().map(|i| records[*i as usize].clone()).collect();
                    run.take(&batch, How::Points)
                })
                .collect();
            (steps, run.params, drawn)
        });
        assert!(runs[0].0 == runs[1].0 && runs[0].1 == runs[1].1, "{method:?}");
    }
}

/// The step size of the whole step, `η_t`, and the noise that reaches the parameters under a matched schedule:
/// `√η_t·√η_0` times the first step's σ.
#[test]
fn matched_noise_scales_as_sqrt_lr() {
    let method = Method {
        noise: NoiseSchedule::Matched { exponent: 0.5 },
        learning_rate: FALLING,
        optimizer: OptimizerChoice::Sgd,
        ..PLAIN
    };
    let mut run = method.start::<i64>(30);
    for t in 0..30 {
        let before = run.params.clone();
        let taken = run.take(&[], How::Points);
        let rate = |t| method.learning_rate().at(t);
        assert_eq!(taken.lr.to_bits(), rate(t).to_bits());
        let reaches = taken.lr * taken.noise_std;
        let base = f64::from(method.sigma) / f64::from(1u32 << method.bits) * f64::from(method.first_clip) / 6.0;
        // σ_t is rounded up to the grid.
        assert!((reaches / (base * (rate(t) * rate(0)).sqrt()) - 1.0).abs() < 2e-5);
        for ((before, after), released) in before.iter().zip(&run.params).zip(&taken.released) {
            assert_eq!((before - taken.lr as f32 * released).to_bits(), after.to_bits());
        }
    }
}
