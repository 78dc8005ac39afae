//! Recorded runs. A replay by the core alone ends with the same bits as the host, and detects changes.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/methods.rs"]
mod methods;
#[path = "support/models.rs"]
mod models;

use damper::accounting::Sampler;
use damper::design::Coefficients;
use damper::grad::Readout;
use damper::graph::DType;
use damper::onnx::{self, Extent};
use damper::replay::{PlayError, Played, play, play_file};
use damper::report::TrainReport;
use damper::train::{
    self, Budget, ByName, Clipping, FilterChoice, LowRank, NoiseKind, NormStep, OptimizerRule, RecordRequest,
    ThresholdChoice, TrainConfig,
};
use damper_core::average::Averaging;
use damper_core::numerics::digest::Digest;
use damper_replay::{Line, Mismatch, PackError, Part};
use digits::source;
use methods::{config, correlated, methods};
use models::{backends, path};
use proptest::prelude::*;
use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use toml::toml;

const SMALL: &str = "digits-linear.onnx";
/// Memory limit of a replay.
const LIMIT: u64 = 1 << 26;
/// Offset of the mechanism in a seeded recording of `dp-sgd`.
const MECHANISM: usize = 25 + 8 + 4 + 4 + 2 + 9 + 4;

fn recorded_in(file: &Path, config: TrainConfig) -> TrainConfig {
    TrainConfig { record: Some(RecordRequest { file: file.into(), limit: 1 << 30, resumed: false }), ..config }
}

/// Trains and records. Returns the parameters' digest, the report, and the recording's bytes.
fn record(model: &str, config: TrainConfig) -> (u64, TrainReport, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pack");
    let run = train::prepare(&source(model), recorded_in(&file, config)).unwrap();
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap();
    (Digest::of(&outcome.params).value(), TrainReport::new(&run, &outcome), fs::read(file).unwrap())
}

/// Returns the final digest of the only run in a pack, and its mismatch.
fn run_of(played: &Played) -> (u64, Option<Mismatch>) {
    match played.lines[..] {
        [Line::Set { .. }, Line::Run { params, mismatch, .. }, Line::End(_)] => (params, mismatch),
        _ => panic!("{played:?}"),
    }
}

/// Returns the bytes with a matching digest.
fn signed(mut pack: Vec<u8>) -> Vec<u8> {
    let end = pack.len() - 8;
    let mut digest = Digest::default();
    digest.add_bytes(&pack[..end]);
    pack[end..].copy_from_slice(&digest.value().to_le_bytes());
    pack
}

// On every backend, a recording ends with the parameters of the run.
#[test]
fn recording_ends_with_params_of_run() {
    for backend in backends() {
        for model in [SMALL, "digits-mlp.onnx", "digits-cnn.onnx"] {
            let config = TrainConfig { backend: backend.name().parse().unwrap(), ..config() };
            let (params, report, pack) = record(model, config);
            let played = play(&pack, LIMIT, |_| {}).unwrap();
            assert_eq!(run_of(&played), (params, None), "{model} on {}", backend.name());
            assert_eq!(report.recording.unwrap().params, format!("{params:016x}"));
        }
    }
}

// The recording of every method replays to the digests of the run.
#[test]
fn recordings_match_digests_of_methods() {
    let mut digests = vec![];
    for (name, config) in methods() {
        let (params, _, pack) = record(SMALL, config);
        let played = play(&pack, LIMIT, |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(run_of(&played), (params, None), "{name}");
        digests.push((params, name));
    }
    // If two methods had the same digest, a recording of the wrong method would not be detected.
    digests.sort_unstable();
    for pair in digests.windows(2) {
        let same = pair[0].0 == pair[1].0;
        let pair = [pair[0].1, pair[1].1];
        assert_eq!(same, pair.contains(&"no filter") && pair.contains(&"dp-sgd"), "{pair:?}");
    }
}

/// A seeded recording of 23 steps.
struct Recorded {
    params: u64,
    pack: Vec<u8>,
    /// Offset and number of each step's samples.
    steps: Vec<(usize, u32)>,
}

static RECORDED: LazyLock<Recorded> = LazyLock::new(|| {
    let sgd = OptimizerRule::default().into();
    let (params, _, pack) = record(SMALL, TrainConfig { optimizer: sgd, ..config() });
    // Mechanism, clip, threshold, filter, optimizer, schedule, parameters.
    let mut at = MECHANISM + 6 + 2 + 5 + 1 + 9 + 14 + 4 * 650;
    let mut steps = vec![];
    for step in 1..=23 {
        let samples = u32::from_le_bytes(pack[at..at + 4].try_into().unwrap());
        steps.push((at + 4, samples));
        at += 4 + samples as usize * 4 * 650 + if step % 10 == 0 || step == 23 { 4 } else { 0 };
    }
    assert_eq!(at + 1 + 8, pack.len());
    Recorded { params, pack, steps }
});

// A flipped bit of a gradient is located between its checkpoints.
#[test]
fn flipped_bit_is_located_by_checkpoint() {
    let Recorded { params, pack, steps } = &*RECORDED;
    for (step, sample, after, by) in [(0, 0, 0, 10), (9, 5, 0, 10), (10, 1, 10, 20), (13, 20, 10, 20), (22, 3, 20, 23)]
    {
        let (at, samples) = steps[step];
        assert!(sample < samples);
        let mut changed = pack.clone();
        // The largest value of the sample changes its sign.
        let start = at + sample as usize * 4 * 650;
        let bits = |at: usize| u32::from_le_bytes(pack[at..at + 4].try_into().unwrap());
        let largest = (start..start + 4 * 650).step_by(4).max_by_key(|at| bits(*at) & 0x7fff_ffff).unwrap();
        changed[largest + 3] ^= 0x80;
        // Unchanged digest: the file is damaged. With a matching digest: the run mismatches.
        let mut said = vec![];
        let damaged = play(&changed, LIMIT, |line| said.push(*line));
        assert!(matches!(damaged, Err(PlayError::Pack { error: PackError::Damaged, .. })), "{damaged:?}");
        let played = play(&signed(changed), LIMIT, |_| {}).unwrap();
        assert_eq!((said[1], played.summary.differ), (played.lines[1], 1));
        let (found, mismatch) = run_of(&played);
        let mismatch = mismatch.unwrap();
        assert_ne!(found, *params);
        assert_eq!((mismatch.after, mismatch.by), (after, by), "step {step}");
        assert!(mismatch.parts.contains(Part::Params) && !mismatch.parts.contains(Part::Ledger));
    }
}

// A seed gives one recording for any number of workers.
#[test]
fn seed_fixes_recording_for_any_workers() {
    let pack = &RECORDED.pack;
    let sgd = OptimizerRule::default().into();
    for workers in [1, 3] {
        let config = TrainConfig { workers: NonZeroUsize::new(workers), optimizer: sgd, ..config() };
        assert!(record(SMALL, config).2 == *pack, "{workers} workers");
    }
}

/// 1,437 samples of 2^20 units are below 2^31, and of 2^21 units they are not.
#[test]
fn recording_is_i32_if_nothing_overflows() {
    for (grid_bits, multiplier, kind) in [(20, 0.5, 0), (20, 25.0, 0), (20, 40.0, 1), (21, 0.5, 1), (16, 40.0, 0)] {
        let config = TrainConfig { grid_bits, budget: Budget::NoiseMultiplier(multiplier), epochs: 0.1, ..config() };
        let (params, _, pack) = record(SMALL, config);
        assert_eq!(pack[MECHANISM], kind, "{grid_bits} bits, {multiplier}");
        assert_eq!(run_of(&play(&pack, LIMIT, |_| {}).unwrap()), (params, None));
    }
}

// A recording has the coefficients of correlated noise. With other coefficients it is another run or an error.
#[test]
fn recorded_coefficients_are_checked() {
    let mut config = config();
    correlated(&mut config, "blt:1", Sampler::MinSeparation);
    let (params, _, pack) = record(SMALL, config);
    assert_eq!(run_of(&play(&pack, LIMIT, |_| {}).unwrap()), (params, None));
    // 32-bit sums, bits, σ, separation, participations, then a BLT of two coefficients.
    let table = MECHANISM + 14;
    assert_eq!((pack[MECHANISM], &pack[MECHANISM + 6..table]), (3, &[23, 0, 0, 0, 3, 0, 0, 0][..]));
    assert_eq!(&pack[table..table + 3], [1, 2, 0]);
    let with = |at: usize, byte: u8| {
        let mut changed = pack.clone();
        changed[at] = byte;
        play(&signed(changed), LIMIT, |_| {})
    };
    let (after, by) =
        run_of(&with(table + 3 + 4 + 1, !pack[table + 3 + 4 + 1]).unwrap()).1.map(|at| (at.after, at.by)).unwrap();
    assert_eq!((after, by), (0, 10));
    for (at, byte) in
        [(table, 3), (table, 0), (table + 1, 1), (table + 2, 255), (table + 3 + 3, 0x40), (MECHANISM + 6, 0)]
    {
        assert!(matches!(with(at, byte), Err(PlayError::Pack { .. })), "{at}");
    }
    for len in MECHANISM..table + 3 + 8 {
        assert!(matches!(play(&pack[..len], LIMIT, |_| {}), Err(PlayError::Truncated)), "{len}");
    }
}

// A private recording holds the key, and a simulated recording holds the seed.
#[test]
fn recording_holds_key_or_seed() {
    let (_, _, private) = record(SMALL, TrainConfig { seed: None, epochs: 0.1, ..config() });
    let pack = &RECORDED.pack;
    let kind = MECHANISM - 4 - 9;
    assert_eq!((pack[kind], &pack[kind + 1..kind + 9]), (1, &3u64.to_le_bytes()[..]));
    assert_eq!(private[kind], 2);
    // Another key gives another run.
    let mut other = private.clone();
    other[kind + 1] ^= 1;
    assert_eq!(play(&signed(other), LIMIT, |_| {}).unwrap().summary.differ, 1);
}

// A recording omits rows that do not contribute.
#[test]
fn recording_omits_rows_without_effect() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..200).map(|row| format!("0.5,{}\n", row % 2)).collect();
    fs::write(folder.path().join("rows.csv"), rows).unwrap();
    let model = folder.path().join("one.onnx");
    fs::write(&model, one_feature()).unwrap();
    let mut source = source(SMALL);
    source.model = model;
    source.data = format!("csv:{}", folder.path().join("rows.csv").display());
    let file = folder.path().join("run.pack");
    let mut run = train::prepare(&source, recorded_in(&file, config())).unwrap();
    (0..200).step_by(4).for_each(|row| Arc::make_mut(&mut run.data).train.set_null(row, true));
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap();
    let played = play_file(&file, LIMIT, |_| {}).unwrap();
    assert_eq!(run_of(&played), (Digest::of(&outcome.params).value(), None));
    let samples = (fs::metadata(&file).unwrap().len() - 100) / (4 * 4) / u64::from(outcome.steps);
    // A quarter of the 64 expected samples does not contribute.
    assert!((38..58).contains(&samples), "{samples} a step");
}

/// Encodes a logistic regression of one feature and two classes.
fn one_feature() -> Vec<u8> {
    let mut model = onnx::load(&path(SMALL)).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node = vec![onnx::make_node("Gemm", "fc", &["x", "fc.weight", "fc.bias"], &["logits"], vec![])];
    let values = |name: &str, shape: &[usize]| onnx::make_tensor_f32(name, shape, &[0.1, -0.1]);
    graph.initializer = vec![values("fc.weight", &[1, 2]), values("fc.bias", &[2])];
    graph.input = vec![onnx::make_value_info("x", DType::F32, &[Extent::Batch, Extent::Fixed(1)])];
    graph.output = vec![onnx::make_value_info("logits", DType::F32, &[Extent::Batch, Extent::Fixed(2)])];
    onnx::encode(&model)
}

/// Returns the reason why this configuration cannot be recorded.
fn refusal(model: &str, config: TrainConfig) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pack");
    let message = match train::prepare(&source(model), recorded_in(&file, config)) {
        Ok(_) => panic!("not refused"),
        Err(error) => error.to_string(),
    };
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{message}");
    message
}

// A run that cannot be recorded is an error before anything is released.
#[test]
fn unrecordable_run_is_error_before_release() {
    let of = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config();
        change(&mut config);
        config
    };
    let fir = |taps| Coefficients { a: vec![], b: vec![1.0; taps] };
    let iir = |taps| FilterChoice::of_name("doppler").unwrap().with_taps(&fir(taps));
    let iterates =
        |iterates: u32| FilterChoice::with("dp-pmlf", toml! { iterates = iterates }).unwrap().with_taps(&fir(1));
    let galore = LowRank { rank: NonZeroUsize::MIN, every: NonZeroU32::MIN, scale: 1.0 };
    let continuous = |workers| {
        move |config: &mut TrainConfig| {
            config.noise = NoiseKind::Continuous;
            config.workers = workers;
        }
    };
    for (model, config, words) in [
        (SMALL, of(&|config| config.optimizer.galore = Some(galore)), ["`galore`", "leave one"]),
        (
            SMALL,
            of(&|config| {
                continuous(NonZeroUsize::new(1))(config);
                config.readout = Readout::ClippedSum;
            }),
            ["`readout` clipped-sum", "`readout` per-sample"],
        ),
        (SMALL, of(&continuous(None)), ["`noise` continuous", "`workers` 1"]),
        (SMALL, of(&continuous(NonZeroUsize::new(2))), ["`noise` continuous", "`workers` 1"]),
        (
            "digits-cnn-groupnorm.onnx",
            of(&|config| config.method.clipping = Clipping::PerLayer),
            ["at most 8 tensors", "`clipping` flat"],
        ),
        (SMALL, of(&|config| config.method.filter = iterates(9)), ["at most 8", "`iterates` 9"]),
        (SMALL, of(&|config| config.method.filter = iir(10)), ["order 8", "has 9"]),
    ] {
        let message = refusal(model, config);
        assert!(message.starts_with("`record`: ") && words.iter().all(|word| message.contains(word)), "{message}");
    }
    // Configurations at the limits are recorded.
    for within in [iterates(8), iir(9)] {
        let (params, _, pack) = record(SMALL, of(&|config| config.method.filter = within.clone()));
        assert_eq!(run_of(&play(&pack, LIMIT, |_| {}).unwrap()), (params, None));
    }
}

/// Options of the papers without a field in a recording.
#[test]
fn options_without_a_field_are_refused() {
    type Change = fn(&mut TrainConfig);
    let options: [(&str, Change); 8] = [
        ("--adaptive-fir", |config| {
            config.method.filter = FilterChoice::with(
                "adaptive-fir",
                toml! {
                    lags = 2
                    memory = 0.5
                    floor = 1e-3
                },
            )
            .unwrap();
        }),
        ("--no-bias-correction", |config| {
            config.method.filter = FilterChoice::of_name("doppler").unwrap().uncorrected();
        }),
        ("--no-bias-correction", |config| {
            config.method.filter = FilterChoice::of_name("dp-pmlf").unwrap().uncorrected();
        }),
        ("--count-non-finite", |config| {
            config.method.threshold = ThresholdChoice::with("percentile", toml! { count_noise = 2.0 }).unwrap();
            config.method.count_non_finite = true;
        }),
        ("--noise-schedule clt", |config| config.method.noise_schedule = "clt".parse().unwrap()),
        ("--adam-denominator floored", |config| {
            config.optimizer = OptimizerRule::with("adam", toml! { denominator = "floored" }).unwrap().into();
        }),
        ("--norm-weight", |config| {
            config.optimizer.norm_step = Some(NormStep { initial: 20.0, floor: 1e-5, subtract_noise: false });
            config.optimizer.norm_weight = Some((2.0, NonZeroU32::MIN));
        }),
        ("--average", |config| config.average = Some(Averaging::new(0.5).unwrap())),
    ];
    let docs = fs::read_to_string(path("../docs/replay.md")).unwrap();
    let table = docs.split("| refused | because |").nth(1).unwrap().split("\n\n").next().unwrap();
    for (flag, change) in options {
        let mut config = config();
        change(&mut config);
        // The run itself is valid.
        train::prepare(&source(SMALL), config.clone()).unwrap_or_else(|error| panic!("{flag}: {error}"));
        let message = refusal(SMALL, config);
        let (name, value) = flag.strip_prefix("--").unwrap().split_at(flag.find(' ').unwrap_or(flag.len()) - 2);
        let setting = format!("`{}`{value}", name.replace('-', "_"));
        let expected = format!(
            "`record`: a recording has no field for {setting}, so it could not be played to this run's bits; leave out {setting} \
             or `record`"
        );
        assert_eq!(message, expected);
        assert!(table.contains(&format!("`{flag}`")), "{flag}: {table}");
    }
}

// The error for a recording above its limit shows the expected size.
#[test]
fn size_limit_error_shows_expected_size() {
    let folder = tempfile::tempdir().unwrap();
    let with = |limit| {
        let record = Some(RecordRequest { file: folder.path().join("run.pack"), limit, resumed: false });
        train::prepare(&source(SMALL), TrainConfig { record, ..config() })
    };
    let size = train::recording_bytes(&with(1 << 30).unwrap());
    let pack = &RECORDED.pack;
    assert!(size.abs_diff(pack.len() as u64) < size / 10, "{size} expected, {} bytes", pack.len());
    assert!(with(size).is_ok());
    let message = with(size - 1).err().unwrap().to_string();
    for word in ["`record`: ", &size.to_string(), "23 steps", "650 parameters", "`record_limit`"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pack");
    fs::write(&file, "mine").unwrap();
    let message = train::prepare(&source(SMALL), recorded_in(&file, config())).err().unwrap().to_string();
    assert!(message.contains("run.pack: is there already"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

// If a recording cannot start, the run stops before its first step.
#[test]
fn failed_recording_stops_before_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no such folder/run.pack");
    let run = train::prepare(&source(SMALL), recorded_in(&file, config())).unwrap();
    let message = train::run(&run, folder.path(), &mut ()).err().unwrap().to_string();
    assert!(message.contains("run.pack") && message.contains("make its folder first"), "{message}");
    // Nothing was charged.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Changes a recording of one step and signs it again, or truncates it.
    #[test]
    fn changed_recording_plays_or_is_error(
        changes in prop::collection::vec((0usize..200, any::<u8>()), 1..5), cut in any::<prop::sample::Index>(),
    ) {
        static SHORT: LazyLock<Vec<u8>> =
            LazyLock::new(|| record(SMALL, TrainConfig { epochs: 0.04, batch_size: 4, ..config() }).2);
        let mut changed = SHORT.clone();
        for (at, byte) in changes {
            changed[at] = byte;
        }
        let _played_or_refused = play(&signed(changed), LIMIT, |_| {});
        let cut = play(&SHORT[..cut.index(SHORT.len())], LIMIT, |_| {});
        prop_assert!(matches!(cut, Err(PlayError::Truncated)));
    }
}
