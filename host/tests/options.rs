//! Options of the papers in addition to their methods' defaults, through the trainer's library. Each has an effect, has
//! the expected special cases, and is accounted as it runs.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "one backend is enough")]
mod models;

use damper::data::{Augment, Motion, Numbers};
use damper::design::Coefficients;
use damper::runtime::Choice;
use damper::train::{
    self, Budget, ByName, FilterChoice, Method, NoiseChoice, NormStep, OptimizerRule, Outcome, Run, ThresholdChoice,
    TrainConfig,
};
use damper_core::average::Averaging;
use digits::source;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use toml::toml;

/// Twelve steps of a simulation on the digits.
fn config() -> TrainConfig {
    TrainConfig {
        backend: Choice::Tract,
        seed: Some(3),
        physical_batch: NonZeroUsize::new(16),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.5), 1e-5, 120, 1.0, Method::dp_sgd(0.1, 0.3))
    }
}

fn with(change: impl FnOnce(&mut TrainConfig)) -> TrainConfig {
    let mut config = config();
    change(&mut config);
    config
}

fn trained(config: TrainConfig) -> (Run, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let run = train::prepare(&source("digits-linear.onnx"), config).unwrap();
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap();
    (run, outcome)
}

fn params(config: TrainConfig) -> Vec<f32> {
    trained(config).1.params
}

fn filtered(filter: FilterChoice) -> TrainConfig {
    with(|config| config.method.filter = filter)
}

/// Returns the filter of this name with its default settings.
fn of(name: &str) -> FilterChoice {
    FilterChoice::of_name(name).unwrap()
}

#[test]
fn adaptive_fir_filters_released_gradients() {
    let fir = |lags: u8, memory| {
        filtered(
            FilterChoice::with(
                "adaptive-fir",
                toml! {
                    lags = lags
                    memory = memory
                    floor = 1e-3
                },
            )
            .unwrap(),
        )
    };
    assert_ne!(params(fir(2, 0.9)), params(config()));
    assert_ne!(params(fir(2, 0.9)), params(fir(2, 0.1)));
    // Steps before the second have no past gradient.
    let one = |config| params(TrainConfig { epochs: 0.01, ..config });
    assert_eq!(one(fir(4, 0.9)), one(config()));
    let priced = |config| trained(config).0.price.epsilon;
    assert_eq!(priced(fir(2, 0.9)), priced(config()), "post-processing costs nothing");
}

// Without bias correction, the first step is scaled by b_0.
#[test]
fn uncorrected_first_step_is_scaled() {
    let one = |filter| params(TrainConfig { epochs: 0.01, ..filtered(filter) });
    let start = trained(config()).0.model.params.clone();
    let (corrected, raw) = (one(of("doppler")), one(of("doppler").uncorrected()));
    for ((start, corrected), raw) in start.iter().zip(&corrected).zip(&raw) {
        // b_0 = 0.1.
        assert!((0.1 * (corrected - start) - (raw - start)).abs() < 1e-6);
    }
    assert_ne!(params(filtered(of("dp-pmlf"))), params(filtered(of("dp-pmlf").uncorrected())));
    let identity = of("dp-pmlf").with_taps(&Coefficients::identity());
    let uncorrected = identity.clone().uncorrected();
    assert_eq!(params(filtered(identity)), params(filtered(uncorrected)), "the identity has nothing to correct");
}

#[test]
fn floored_adam_is_sgd_above_all_roots() {
    let adam = |epsilon, floored| {
        let denominator = if floored { "floored" } else { "added" };
        let rule = OptimizerRule::with(
            "adam",
            toml! {
                betas = [0.0, 0.99]
                epsilon = epsilon
            denominator = denominator
            },
        )
        .unwrap();
        with(|config| config.optimizer = rule.into())
    };
    assert_ne!(params(adam(1e-4, true)), params(adam(1e-4, false)));
    let (floored, sgd) = (params(adam(1.0, true)), params(config()));
    assert!(floored.iter().zip(&sgd).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn weighted_norm_of_one_is_adagrad_norm() {
    let norm = |weight: Option<f64>| {
        with(|config| {
            config.optimizer.norm_step = Some(NormStep { initial: 1.0, floor: 1e-5, subtract_noise: true });
            config.optimizer.norm_weight = weight.map(|weight| (weight, NonZeroU32::new(4).unwrap()));
        })
    };
    assert_eq!(params(norm(Some(1.0))), params(norm(None)));
    assert_ne!(params(norm(Some(64.0))), params(norm(None)));
}

/// The mean is over the parameters after each step, compared with shorter runs of the same seed.
#[test]
fn average_is_of_released_parameters() {
    let steps = |steps: u32| with(|config| config.epochs = f64::from(steps) * 120.0 / 1437.0 - 1e-6);
    let average = |averaging| TrainConfig { average: Some(averaging), ..steps(4) };
    let iterates: Vec<Vec<f32>> = (1..=4).map(|count| params(steps(count))).collect();
    let check = |config: TrainConfig, from: usize| {
        let (run, outcome) = trained(config);
        assert_eq!(run.price.terms.steps, 4);
        for (at, found) in outcome.params.iter().enumerate() {
            let mean = iterates[from..].iter().map(|params| f64::from(params[at])).sum::<f64>() / (4 - from) as f64;
            assert!((f64::from(*found) - mean).abs() < 1e-6, "{at}: {found} {mean}");
        }
    };
    check(average(Averaging::new(0.0).unwrap()), 0);
    check(average(Averaging::new(0.5).unwrap()), 2);
    check(average(Averaging::new(0.0).unwrap().by_learning_rate()), 0);
    assert_eq!(params(average(Averaging::new(0.99).unwrap())), iterates[3]);
    let fewer = trained(average(Averaging::new(0.5).unwrap())).0;
    assert_eq!(fewer.price.epsilon, trained(steps(4)).0.price.epsilon, "post-processing costs nothing");
}

/// Training continues from the last parameters, whatever their mean. The report has the held-out figures of both.
#[test]
fn average_is_told_beside_the_last_iterate() {
    let (_, plain) = trained(with(|_| {}));
    assert_eq!(plain.last_iterate, None);
    let last = plain.evaluations.last().unwrap();
    let averages = [Averaging::new(0.5), Averaging::exponential(0.9), Averaging::polynomial(8.0)].map(Result::unwrap);
    let mut seen = vec![plain.params];
    for averaging in averages {
        let (_, outcome) = trained(with(|config| config.average = Some(averaging)));
        let found = outcome.last_iterate.unwrap();
        assert_eq!((found.loss, found.accuracy), (last.loss, last.accuracy), "{averaging}");
        assert_ne!(outcome.evaluations.last().unwrap().loss, last.loss, "{averaging}");
        assert!(!seen.contains(&outcome.params), "{averaging}");
        seen.push(outcome.params);
    }
}

/// Three steps of a run with views of each image, with a given split of the samples.
fn augmented(views: u32, motion: Motion, flip: bool) -> TrainConfig {
    let views = NonZeroU32::new(views).unwrap();
    with(|config| {
        config.epochs = 0.2;
        config.augment = Some(Augment { views, motion, flip });
    })
}

fn trained_cnn(config: TrainConfig, edit: impl FnOnce(&mut Run)) -> (Run, Vec<f32>) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = train::prepare(&source("digits-cnn.onnx"), config).unwrap();
    edit(&mut run);
    let params = train::run(&run, folder.path(), &mut ()).unwrap().params;
    (run, params)
}

/// Every view has its own random numbers, which depend on the sample, and not on its row, its worker or its neighbours.
#[test]
fn views_follow_from_the_sample() {
    let params = |config| trained_cnn(config, |_| ()).1;
    let config = augmented(3, Motion::Crop(2), true);
    let spread = TrainConfig { workers: NonZeroUsize::new(1), physical_batch: NonZeroUsize::new(5), ..config.clone() };
    let found = params(config.clone());
    assert_eq!(found, params(spread));
    for other in [
        augmented(2, Motion::Crop(2), true),
        augmented(3, Motion::Shift(2), true),
        augmented(3, Motion::Crop(2), false),
    ] {
        assert_ne!(found, params(other));
    }
    let plain = TrainConfig { augment: None, ..config.clone() };
    let price = |config| trained_cnn(config, |_| ()).0.price.epsilon;
    assert_eq!(price(config), price(plain), "views cost nothing");
}

/// Images of one colour look the same in every view, and the mean of four equal gradients is each of them, bit for bit.
#[test]
fn views_are_mixed_before_the_clip() {
    let one_colour = |run: &mut Run| {
        for index in 0..run.data.train.len() {
            let mut sample = run.data.train.sample(index);
            if let Numbers::F32(pixels) = &mut sample.features[0] {
                let colour = pixels[27];
                pixels.fill(colour);
            }
            Arc::make_mut(&mut run.data).train.replace(index, &sample);
        }
    };
    let config = augmented(4, Motion::Crop(3), true);
    let plain = TrainConfig { augment: None, ..config.clone() };
    assert_eq!(trained_cnn(config, one_colour).1, trained_cnn(plain, one_colour).1);
}

/// Samples with a NaN gradient raise the percentile, if they are counted.
#[test]
fn non_finite_samples_count_on_request() {
    let rule = ThresholdChoice::with(
        "percentile",
        toml! {
            count_noise = 0.5
            range = 8.0
        },
    )
    .unwrap();
    let run = |count_non_finite, broken: bool| {
        let config = with(|config| {
            config.method.threshold = rule.with_clip(config.method.threshold.clip());
            config.method.count_non_finite = count_non_finite;
        });
        let mut run = train::prepare(&source("digits-linear.onnx"), config).unwrap();
        if broken {
            for index in 0..run.data.train.len() {
                if index % 4 != 0 {
                    let mut sample = run.data.train.sample(index);
                    for features in &mut sample.features {
                        if let Numbers::F32(values) = features {
                            values.fill(f32::NAN);
                        }
                    }
                    Arc::make_mut(&mut run.data).train.replace(index, &sample);
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        train::run(&run, folder.path(), &mut ()).unwrap()
    };
    assert_eq!(run(true, false).params, run(false, false).params, "all samples are finite");
    let (counted, not) = (run(true, true), run(false, true));
    assert!(counted.clip > 4.0 * not.clip, "{} {}", counted.clip, not.clip);
    assert!(counted.params.iter().all(|param| param.is_finite()));
}

fn falling(config: &mut TrainConfig) {
    config.method.learning_rate.decay = "polynomial:1.0,1.0".parse().unwrap();
}

/// The schedule is calibrated as a whole, to within a hundredth of the budget, and shaped by the actual multiplier.
#[test]
fn clt_noise_meets_the_budget() {
    for epsilon in [0.5, 3.0] {
        let (run, outcome) = trained(with(|config| {
            config.budget = Budget::Epsilon(epsilon);
            config.method.noise_schedule = "clt".parse().unwrap();
            falling(config);
        }));
        assert!(run.price.epsilon <= epsilon && run.price.epsilon > 0.99 * epsilon, "{}", run.price.epsilon);
        assert_eq!(outcome.recorded.steps(), u64::from(run.price.terms.steps));
    }
    let constant = |noise: &str| with(|config| config.method.noise_schedule = noise.parse().unwrap());
    assert_eq!(params(constant("clt")), params(constant("constant")), "a constant rate has constant noise");
}

/// Equation 6 sets the noise, and the accountant computes its ε.
#[test]
fn equation_6_sets_noise_but_not_epsilon() {
    let of = |epsilon, schedule| {
        let config = with(|config| {
            config.budget = Budget::Equation6(epsilon);
            config.method.noise_schedule = schedule;
            falling(config);
        });
        train::prepare(&source("digits-linear.onnx"), config).unwrap()
    };
    let run = of(1.0, NoiseChoice::default());
    let (q, steps) = (run.price.terms.rate.as_f64(), f64::from(run.price.terms.steps));
    let expected = q * ((16.0 * steps * q / 1e-5).ln() * (1.25f64 / 1e-5).ln() * steps).sqrt();
    assert!((run.price.terms.multiplier / expected - 1.0).abs() < 1e-5, "{} {expected}", run.price.terms.multiplier);
    assert_eq!(run.config.budget, Budget::NoiseMultiplier(expected));
    let same = train::prepare(
        &source("digits-linear.onnx"),
        with(|config| {
            config.budget = Budget::NoiseMultiplier(expected);
            falling(config);
        }),
    );
    assert_eq!(run.price.epsilon, same.unwrap().price.epsilon);
    let matched = of(1.0, "matched:0.5".parse().unwrap());
    assert!(matched.price.terms.multiplier < run.price.terms.multiplier && matched.price.epsilon > run.price.epsilon);
}
