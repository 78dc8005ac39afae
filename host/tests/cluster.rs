//! Training on several ranks has the bits of one process: with ranks as threads, and with processes that `mpirun`
//! started.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/methods.rs"]
mod methods;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "one backend is enough")]
mod models;

use damper::cluster::Threads;
use damper::data::Numbers;
use damper::train::{self, Checkpoint, Group, Invocation, NoiseKind, Outcome, RankError, Run, TrainConfig, TrainError};
use damper_core::numerics::digest::Digest;
use digits::{StopAfter, source};
use methods::{config, methods, others};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SMALL: &str = "digits-linear.onnx";
/// More parameters than two ranks' chunks.
const LARGER: &str = "digits-mlp.onnx";

/// Returns the result of each rank of a group of threads, in their order.
fn on_ranks<T: Send>(size: usize, rank: impl Fn(&dyn Group) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let rank = &rank;
        let threads: Vec<_> =
            Threads::group(size).into_iter().map(|group| scope.spawn(move || rank(&{ group }))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Returns `run` for the rank of `group`, with one worker or two, and with its shard of the data if `is_sharded`.
fn of_rank(run: &Run, group: &dyn Group, is_sharded: bool) -> Run {
    let mut run = run.clone();
    run.config.workers = NonZeroUsize::new(1 + group.rank() % 2);
    if is_sharded {
        run.keep_shard(group.rank(), group.size(), u64::MAX).unwrap();
    }
    run
}

/// Trains on `size` ranks, which write to `folder`.
fn train_on(size: usize, run: &Run, folder: &Path, is_sharded: bool) -> Vec<Result<Outcome, TrainError>> {
    on_ranks(size, |group| {
        let run = of_rank(run, group, is_sharded);
        train::run_on(&run, group, (group.rank() == 0).then_some(folder), None, &mut ())
    })
}

fn bits(params: &[f32]) -> u64 {
    Digest::of(params).value()
}

fn assert_same(name: &str, ranks: &[Result<Outcome, TrainError>], whole: &Outcome) {
    for (rank, outcome) in ranks.iter().enumerate() {
        let outcome = outcome.as_ref().unwrap_or_else(|error| panic!("{name}: rank {rank}: {error}"));
        assert_eq!(bits(&outcome.params), bits(&whole.params), "{name}: rank {rank} of {}", ranks.len());
        assert_eq!(outcome.evaluations, whole.evaluations, "{name}: rank {rank}");
        assert_eq!((outcome.steps, outcome.clip), (whole.steps, whole.clip), "{name}: rank {rank}");
        assert_eq!(outcome.non_finite, whole.non_finite, "{name}: rank {rank}");
    }
    assert_eq!(ranks[0].as_ref().unwrap().recorded, whole.recorded, "{name}");
}

// Every method with integer sums ends like one process, on 2, 3 and 4 ranks with one worker or two. Methods with float
// sums are rejected.
#[test]
fn every_method_has_the_bits_of_one_process() {
    for (index, (name, config)) in methods().into_iter().chain(others()).enumerate() {
        let is_float = config.noise == NoiseKind::Continuous;
        let run = train::prepare(&source(SMALL), TrainConfig { seed: Some(3), ..config }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let whole = train::run(&run, folder.path(), &mut ()).unwrap();
        for size in 2..=4 {
            let folder = tempfile::tempdir().unwrap();
            let ranks = train_on(size, &run, folder.path(), (index + size).is_multiple_of(2));
            if is_float {
                assert!(
                    ranks.iter().all(|rank| rank.as_ref().unwrap_err().to_string().contains("adds floats")),
                    "{name}"
                );
            } else {
                assert_same(name, &ranks, &whole);
            }
        }
    }
}

/// Returns a run of a network of 26,010 parameters on images in `folder`.
fn images(folder: &Path, epochs: f64, config: TrainConfig) -> Run {
    let source = train::InputFiles { data: made_up_images(folder), ..source("mnist-cnn.onnx") };
    train::prepare(&source, TrainConfig { batch_size: 24, epochs, ..config }).unwrap()
}

/// Adam after a filter. A rank has only the state of its coordinates.
fn filtered() -> TrainConfig {
    let of_method = |name: &str| methods().into_iter().find(|(found, _)| *found == name).unwrap().1;
    TrainConfig { optimizer: of_method("adam").optimizer, ..of_method("doppler") }
}

// Ranks that each draw the noise of some coordinates, with 32-bit and 64-bit sums. They update these coordinates with
// their own state, or all ranks have the whole state.
#[test]
fn noise_drawn_in_parts_has_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let images = |config| images(folder.path(), 1.0, config);
    let digits = |config| train::prepare(&source(LARGER), config).unwrap();
    let wide = TrainConfig { grid_bits: 22, batch_size: 512, epochs: 2.0, ..config() };
    let of_method = |name: &str| methods().into_iter().chain(others()).find(|(found, _)| *found == name).unwrap().1;
    for (name, run) in [
        ("images", images(config())),
        ("images, filtered", images(filtered())),
        ("images, disk", images(of_method("disk"))),
        ("images, adaptive filter", images(of_method("adaptive fir"))),
        ("images, galore", images(of_method("galore"))),
        ("images, adam, filter and counts", images(TrainConfig { seed: Some(3), ..of_method("everything") })),
        ("digits", digits(config())),
        ("digits, norm", digits(of_method("adagrad-norm"))),
        ("digits, wide", digits(wide)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let whole = train::run(&run, folder.path(), &mut ()).unwrap();
        for size in 2..=4 {
            let folder = tempfile::tempdir().unwrap();
            assert_same(name, &train_on(size, &run, folder.path(), size == 3), &whole);
        }
    }
}

// Several ranks count the same samples as a single process: never null samples, and all without a finite gradient.
#[test]
fn ranks_count_samples_as_one_process() {
    let mut run = train::prepare(&source(SMALL), config()).unwrap();
    let split = &mut Arc::make_mut(&mut run.data).train;
    for index in 0..split.len() {
        if index % 4 == 1 {
            split.set_null(index, true);
        } else if index % 4 == 2 {
            let mut sample = split.sample(index);
            for features in &mut sample.features {
                let Numbers::F32(values) = features else { panic!("digits are floats") };
                values.fill(f32::NAN);
            }
            split.replace(index, &sample);
        }
    }
    let count = |folder: &Path| fs::read_to_string(folder.join("non-finite.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let whole = train::run(&run, folder.path(), &mut ()).unwrap();
    for size in 2..=3 {
        let ranks = tempfile::tempdir().unwrap();
        assert_same("null", &train_on(size, &run, ranks.path(), size == 3), &whole);
        assert_eq!(count(ranks.path()), count(folder.path()), "{size} ranks");
    }
}

/// Writes images of 28 by 28 bytes in two classes as IDX files in `folder`, and returns the data set's name.
fn made_up_images(folder: &Path) -> String {
    let (images, side) = (96u32, 28u32);
    let mut words = damper_testing::Random(5);
    for (name, count) in [("train", images), ("t10k", 8)] {
        let mut pixels: Vec<u8> = [0x803, count, side, side].iter().flat_map(|word| word.to_be_bytes()).collect();
        pixels.extend((0..count * side * side).map(|_| words.below(256) as u8));
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), pixels).unwrap();
        let mut labels: Vec<u8> = [0x801, count].iter().flat_map(|word| word.to_be_bytes()).collect();
        labels.extend((0..count).map(|at| (at % 10) as u8));
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
    format!("idx:{}", folder.display())
}

// A run resumes with other numbers of ranks, and ends with the bits of one uninterrupted process. Any rank may stop it.
#[test]
fn resumes_with_other_ranks() {
    let every = Duration::from_secs(60);
    let find = |name: &str| methods().into_iter().chain(others()).find(|(found, _)| *found == name).unwrap().1;
    let small = |name| (name, train::prepare(&source(SMALL), find(name)).unwrap());
    let data = tempfile::tempdir().unwrap();
    let sharded = ("state of blocks", images(data.path(), 4.0, filtered()));
    for (name, run) in [small("private"), small("everything"), small("blt of a mean"), small("evaluations"), sharded] {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let invocation = Invocation::default();
        let mut checkpoint = Checkpoint::begin(one.path(), &run, invocation, every).unwrap();
        for entry in fs::read_dir(one.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), other.path().join(entry.file_name())).unwrap();
        }
        let whole = train::run_resumable(&run, &mut checkpoint, &mut ()).unwrap();
        for (size, stopper) in [(2, Some(1)), (1, Some(0)), (4, Some(2)), (3, None)] {
            let folder = other.path();
            let ranks = on_ranks(size, |group| {
                let run = of_rank(&run, group, size == 4);
                let leads = group.rank() == 0;
                let mut checkpoint = leads.then(|| Checkpoint::resume(folder, &run, every).unwrap());
                let mut progress = StopAfter(if stopper == Some(group.rank()) { 5 } else { u32::MAX });
                train::run_on(&run, group, leads.then_some(folder), checkpoint.as_mut(), &mut progress)
            });
            if stopper.is_none() {
                assert_same(name, &ranks, &whole);
            } else {
                assert!(ranks.iter().all(|rank| rank.as_ref().is_ok_and(|outcome| outcome.stopped)), "{name}");
            }
        }
    }
}

// Ranks of different runs, and a rank that cannot write or fails, give an error on every rank. Nothing is charged that
// was not written.
#[test]
fn an_error_of_one_rank_ends_all() {
    let run = train::prepare(&source(SMALL), config()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    type Change = fn(&mut Run);
    let changes: [(&str, Change); 4] = [
        ("settings", |run| Arc::make_mut(&mut run.model).physical_batch = NonZeroUsize::new(3).unwrap()),
        ("settings", |run| Arc::make_mut(&mut run.model).params[0] += 1.0),
        ("another model", |run| Arc::make_mut(&mut run.model).onnx.producer_name.push('x')),
        ("data", |run| Arc::make_mut(&mut run.data).test = None),
    ];
    for (what, change) in changes {
        let ranks = on_ranks(3, |group| {
            let mut run = run.clone();
            if group.rank() == 2 {
                change(&mut run);
            }
            train::run_on(&run, group, (group.rank() == 0).then(|| folder.path()), None, &mut ()).map(|_| ())
        });
        for rank in ranks {
            let error = rank.unwrap_err();
            let is_it =
                matches!(&error, TrainError::Rank(RankError::Differs { rank: 2, what: found }) if found == what);
            assert!(is_it, "{what}: {error}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was charged");
    // The folder is missing, as on a full disk.
    let gone = folder.path().join("gone");
    let ranks = train_on(3, &run, &gone, false);
    let messages: Vec<String> = ranks.into_iter().map(|rank| rank.unwrap_err().to_string()).collect();
    assert!(messages[0].contains("gone") && !messages[0].contains("rank"), "{messages:?}");
    assert!(messages[1..].iter().all(|message| *message == format!("rank 0: {}", messages[0])), "{messages:?}");
    // A rank leaves, and the others do not wait for it.
    let ranks = on_ranks(3, |group| match group.rank() {
        1 => Ok(()),
        _ => {
            let folder = (group.rank() == 0).then(|| folder.path());
            train::run_on(&run, group, folder, None, &mut ()).map(|_| ())
        }
    });
    assert!(ranks[0].is_err() && ranks[2].is_err());
}
