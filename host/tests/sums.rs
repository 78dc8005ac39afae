//! The trainer's sums, measured through its releases: the samples in a step's sum, the sensitivity to a sample, and the
//! scale of the output.
//!
//! The model is `z = x · w` with the loss `(z − t)²`. Row `i` is a multiple of the unit vector `e_i`, so its gradient
//! has one non-zero coordinate. All arithmetic before the clip is exact. Two simulations of one seed have the same
//! noise. Their difference is the difference of their sums.

use damper::data::DataOptions;
use damper::design::Coefficients;
use damper::grad::{DeriveOptions, Loss};
use damper::graph::{DType, GraphOptions};
use damper::onnx::{self, Extent, make_node, make_tensor_f32, make_value_info, pb};
use damper::runtime::Choice;
use damper::train::{
    self, Budget, ByName, FilterChoice, InputFiles, Method, NoiseChoice, NormStep, OptimizerRule, Run, ThresholdChoice,
    TrainConfig,
};
use damper_core::noise::ChaCha20;
use damper_core::sampling::poisson;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use toml::toml;

/// Number of features, parameters, and rows of the data.
const ROWS: usize = 24;
const BATCH: u32 = 8;
const CLIP: f32 = 0.5;
const LR: f64 = 0.25;
const SEED: u64 = 9;

/// Content of a row.
#[derive(Clone, Copy, PartialEq)]
enum Row {
    /// `e_i` times a number, with a target that keeps its gradient away from zero.
    Unit(usize, f32),
    /// A null sample: it contributes nothing.
    Null,
}

/// Writes the model and these rows to `folder`.
fn source(folder: &Path, rows: &[Row]) -> InputFiles {
    let graph = pb::GraphProto {
        name: "linear".into(),
        node: vec![make_node("MatMul", "product", &["x", "w"], &["z"], vec![])],
        initializer: vec![make_tensor_f32("w", &[ROWS, 1], &[0.0; ROWS])],
        input: vec![make_value_info("x", DType::F32, &[Extent::Batch, Extent::Fixed(ROWS)])],
        output: vec![make_value_info("z", DType::F32, &[Extent::Batch, Extent::Fixed(1)])],
        ..Default::default()
    };
    let opset = pb::OperatorSetIdProto { domain: String::new(), version: 17 };
    let model = pb::ModelProto { ir_version: 8, opset_import: vec![opset], graph: Some(graph), ..Default::default() };
    let file = folder.join("linear.onnx");
    fs::write(&file, onnx::encode(&model)).unwrap();
    let line = |row: &Row| {
        let feature = |at: usize| match *row {
            Row::Unit(own, size) if own == at => size.to_string(),
            Row::Unit(..) => "0".into(),
            Row::Null => "0".into(),
        };
        (0..ROWS).map(|at| feature(at) + ",").collect::<String>() + "4096\n"
    };
    let data = folder.join("rows.csv");
    fs::write(&data, rows.iter().map(line).collect::<String>()).unwrap();
    InputFiles {
        model: file,
        of_file: Default::default(),
        lora: None,
        graph: GraphOptions::default(),
        derive: DeriveOptions::new(Loss::Mse),
        data: format!("csv:{}", data.display()),
        data_options: DataOptions { header: Some(false), ..DataOptions::default() },
    }
}

/// A simulation of `steps` steps with a declared size of as many rows.
fn config(steps: u32) -> TrainConfig {
    TrainConfig {
        backend: Choice::Tract,
        seed: Some(SEED),
        allow_large_delta: true,
        dataset_size: Some(ROWS as u64),
        physical_batch: NonZeroUsize::new(16),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(
            Budget::NoiseMultiplier(1.0),
            1e-5,
            BATCH,
            f64::from(steps) * f64::from(BATCH) / ROWS as f64,
            Method::dp_sgd(CLIP, LR),
        )
    }
}

/// Trains, and returns the run with its final parameters.
fn train(rows: &[Row], config: TrainConfig) -> (Run, Vec<f32>) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = train::prepare(&source(folder.path(), rows), config).unwrap();
    for index in (0..rows.len()).filter(|index| rows[*index] == Row::Null) {
        Arc::make_mut(&mut run.data).train.set_null(index, true);
    }
    let params = train::run(&run, folder.path(), &mut ()).unwrap().params;
    assert_eq!(params.len(), ROWS);
    (run, params)
}

fn bits(params: &[f32]) -> Vec<u32> {
    params.iter().map(|x| x.to_bits()).collect()
}

/// Returns each coordinate's distance from a run without samples, in clips: the number of times that a sample of that
/// coordinate was summed. A gradient points down, so the parameter rises.
fn clips_summed(params: &[f32], noise_alone: &[f32]) -> Vec<f64> {
    let clip = LR * f64::from(CLIP) / f64::from(BATCH);
    params.iter().zip(noise_alone).map(|(x, noise)| (f64::from(*x) - f64::from(*noise)) / clip).collect()
}

/// Shapes of the computation of a sum: rows of a chunk, and workers.
const SHAPES: [(usize, usize); 6] = [(1, 1), (2, 3), (3, 2), (5, 1), (16, 4), (64, 1)];

fn in_shape((rows, workers): (usize, usize), config: TrainConfig) -> TrainConfig {
    TrainConfig { physical_batch: NonZeroUsize::new(rows), workers: NonZeroUsize::new(workers), ..config }
}

/// Physical batches split one draw. Whatever the chunks and workers, a sample is in a step's sum exactly once if the
/// step's only draw contains it, and never otherwise.
#[test]
fn a_step_sums_each_drawn_sample_once() {
    const STEPS: u32 = 6;
    let rows: Vec<Row> = (0..ROWS).map(|at| Row::Unit(at, 1.0)).collect();
    let inner = Coefficients { a: vec![], b: vec![1.0] };
    let mixed = FilterChoice::with(
        "dp-pmlf",
        toml! {
            iterates = 3
            beta = 0.5
        },
    )
    .unwrap()
    .with_taps(&inner);
    for filter in [FilterChoice::default(), mixed] {
        let with_filter = |steps| {
            let mut config = config(steps);
            config.method.filter = filter.clone();
            config
        };
        for steps in [1, STEPS] {
            let (run, noise_alone) = train(&[Row::Null; ROWS], with_filter(steps));
            assert_eq!(run.price.terms.steps, steps);
            let mut expected = [0.0; ROWS];
            for step in 0..steps {
                for sample in poisson(&ChaCha20::<4>::simulation(SEED), step, run.price.terms.rate, ROWS as u32) {
                    expected[sample as usize] += 1.0;
                }
            }
            assert!(expected.contains(&1.0) && (steps > 1 || expected.contains(&0.0)), "{expected:?}");
            for shape in SHAPES {
                let (_, params) = train(&rows, in_shape(shape, with_filter(steps)));
                for (summed, expected) in clips_summed(&params, &noise_alone).iter().zip(expected) {
                    assert!((summed - expected).abs() < 1e-3, "{shape:?}: {summed} clips, drawn {expected} times");
                }
            }
        }
    }
}

/// Gradients are clipped separately, not as a chunk's mean. The sum has the same bits in every shape.
#[test]
fn sum_does_not_depend_on_physical_batch() {
    // Norms below and above the clip, several samples for each coordinate.
    let rows: Vec<Row> = (0..ROWS).map(|at| Row::Unit(at / 3, (1 + at) as f32 / 65536.0)).collect();
    let wanted = train(&rows, config(4)).1;
    assert_ne!(bits(&wanted), bits(&train(&[Row::Null; ROWS], config(4)).1));
    for shape in SHAPES {
        assert_eq!(bits(&train(&rows, in_shape(shape, config(4))).1), bits(&wanted), "{shape:?}");
    }
}

/// All samples have the same direction. This is the worst case for a clip of anything except one sample's gradient.
#[test]
fn sample_moves_sum_by_at_most_clip() {
    let rows = [Row::Unit(3, 1.0); ROWS];
    for shape in SHAPES {
        let (run, all) = train(&rows, in_shape(shape, config(1)));
        let (_, none) = train(&[Row::Null; ROWS], in_shape(shape, config(1)));
        let drawn: Vec<u32> = poisson(&ChaCha20::<4>::simulation(SEED), 0, run.price.terms.rate, ROWS as u32).collect();
        let summed = clips_summed(&all, &none);
        assert!((summed[3] - drawn.len() as f64).abs() < 1e-3, "{shape:?}: {} samples sum to {summed:?}", drawn.len());
        for sample in [drawn[0], drawn[drawn.len() - 1]] {
            let mut without = rows;
            without[sample as usize] = Row::Null;
            let (_, without) = train(&without, in_shape(shape, config(1)));
            let moved = clips_summed(&all, &without).iter().map(|x| x * x).sum::<f64>().sqrt();
            // The tolerance is that of the released f32.
            assert!((0.999..=1.0 + 1e-4).contains(&moved), "{shape:?}: sample {sample} moves the sum by {moved} clips");
        }
    }
}

/// Configurations with output scales from every slot: divisor, noise, its variance in the optimizer, counts, schedules.
fn scaled() -> Vec<(&'static str, TrainConfig)> {
    let with = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config(6);
        change(&mut config);
        config
    };
    let threshold = |rule: ThresholdChoice| {
        with(&|config| config.method.threshold = rule.with_clip(config.method.threshold.clip()))
    };
    let quantile = ThresholdChoice::with("quantile", toml! { count_noise = 2.5 }).unwrap();
    let error = ThresholdChoice::with(
        "expected-error",
        toml! {
            solver = "exact"
            count_noise = 5.0
        },
    )
    .unwrap();
    let percentile = ThresholdChoice::with("percentile", toml! { count_noise = 5.0 }).unwrap();
    let adam_bc = OptimizerRule::of_name("adam-bc").unwrap();
    let norm_step = NormStep { initial: 1.0, floor: 1e-5, subtract_noise: true };
    vec![
        ("dp-sgd", with(&|_| {})),
        ("adam-bc", with(&|config| config.optimizer = adam_bc.into())),
        ("adagrad-norm", with(&|config| config.optimizer.norm_step = Some(norm_step))),
        ("quantile", threshold(quantile)),
        ("percentile", threshold(percentile)),
        ("expected error", threshold(error)),
        ("growing noise", with(&|config| config.method.noise_schedule = "polynomial:0.1,0.5".parse().unwrap())),
        ("continuous", with(&|config| config.noise = damper::train::NoiseKind::Continuous)),
    ]
}

/// If the batch size and the sampling rate are public, no output's scale may reveal the number of rows. With one row
/// more or less, the divisor, the noise, the learning rate, the threshold and the number of steps are unchanged. The
/// rows are null, so the output is only noise, times every scale.
#[test]
fn output_scales_ignore_dataset_size() {
    for (name, config) in scaled() {
        // At a rate of 1 the expected batch would grow with the number of rows.
        for batch in [BATCH, ROWS as u32] {
            let steps = config.epochs * ROWS as f64 / f64::from(config.batch_size);
            let epochs = steps * f64::from(batch) / ROWS as f64;
            let config = TrainConfig { batch_size: batch, epochs, ..config.clone() };
            let (run, wanted) = train(&[Row::Null; ROWS], config.clone());
            for rows in [ROWS - 1, ROWS + 1] {
                let (other, params) = train(&vec![Row::Null; rows], config.clone());
                assert_eq!(bits(&params), bits(&wanted), "{name}, batch {batch}: {rows} rows");
                assert_eq!(
                    (other.price.terms.rate, other.price.terms.steps),
                    (run.price.terms.rate, run.price.terms.steps),
                    "{name}"
                );
                assert_eq!(other.price.terms.multiplier.to_bits(), run.price.terms.multiplier.to_bits(), "{name}");
                let multiplier = |run: &Run| run.price.plan.as_ref().unwrap().smallest_multiplier();
                assert_eq!(multiplier(&other), multiplier(&run), "{name}");
                assert_eq!(other.price.epsilon.to_bits(), run.price.epsilon.to_bits(), "{name}");
            }
        }
    }
}

/// If the number of rows is public, it sets only the sampling rate, and with it the number of steps and ε.
#[test]
fn a_counted_size_changes_the_rate_alone() {
    for (name, config) in scaled() {
        // Four steps for each of the sizes.
        let config = TrainConfig { dataset_size: None, epochs: 1.25, ..config };
        let (run, wanted) = train(&[Row::Null; ROWS], config.clone());
        for rows in [ROWS - 1, ROWS + 1] {
            let (other, params) = train(&vec![Row::Null; rows], config.clone());
            assert_eq!(other.price.terms.steps, run.price.terms.steps, "{name}");
            assert_ne!(other.price.terms.rate, run.price.terms.rate, "{name}");
            assert_eq!(bits(&params), bits(&wanted), "{name}: {rows} rows");
        }
    }
}

/// Every request for no noise, or for invalid noise, is rejected before a step.
#[test]
fn a_run_without_noise_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path(), &[Row::Unit(0, 1.0); ROWS]);
    let refused = |name: &str, config: TrainConfig| {
        assert!(train::prepare(&source, config).is_err(), "{name}");
    };
    let none = [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE / 2.0, 1e-40];
    for noise in [damper::train::NoiseKind::Discrete, damper::train::NoiseKind::Continuous] {
        for value in none {
            let with = |budget| TrainConfig { budget, noise, ..config(2) };
            refused(&format!("{noise:?}, noise multiplier {value:e}"), with(Budget::NoiseMultiplier(value)));
        }
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let with = |budget| TrainConfig { budget, noise, ..config(2) };
            refused(&format!("{noise:?}, epsilon {value}"), with(Budget::Epsilon(value)));
        }
        for value in none {
            let with = |rule: ThresholdChoice| {
                let mut config = TrainConfig { noise, ..config(2) };
                config.method.threshold = rule.with_clip(config.method.threshold.clip());
                config
            };
            for rule in ["percentile", "expected-error", "quantile"] {
                let rule = ThresholdChoice::with(rule, toml! { count_noise = value }).unwrap();
                refused(&format!("{noise:?}, count noise {value:e}"), with(rule));
            }
        }
        for exponent in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
            let mut config = TrainConfig { noise, ..config(2) };
            config.method.noise_schedule = NoiseChoice::Matched { exponent };
            refused(&format!("{noise:?}, exponent {exponent}"), config);
        }
    }
}
