//! A run that stops and resumes ends with the bits of an uninterrupted run. If it cannot, it takes no step twice.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/methods.rs"]
mod methods;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "one backend is enough")]
mod models;

use damper::accounting::Sampler;
use damper::data::DataOptions;
use damper::runtime::Choice;
use damper::train::{
    self, Budget, Checkpoint, Ended, Evaluation, InputFiles, Invocation, NoiseKind, Outcome, Progress, Run, RunEvent,
    TestMetrics, TrainConfig,
};
use damper_core::numerics::digest::Digest;
use digits::source;
use methods::{config, correlated, methods, others};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

const SMALL: &str = "digits-linear.onnx";

/// Stops after a step, and records its events.
#[derive(Default)]
struct Stopping {
    after: Option<u32>,
    at: u32,
    told: Vec<Evaluation>,
    resumed: Option<(u32, u32)>,
    /// True while rows are counted before the first step.
    counting: bool,
}

impl Stopping {
    fn after(step: u32) -> Self {
        Self { after: Some(step), ..Self::default() }
    }
}

impl Progress for Stopping {
    fn on_event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Evaluated(at) => self.told.push(at),
            RunEvent::Resumed(at) => {
                self.resumed = Some((at.step, at.lost));
                self.counting = false;
                self.at = at.step + at.lost;
                self.told = at.evaluations.to_vec();
            }
            RunEvent::Counted(_) => self.counting = false,
            _ => {}
        }
    }
    fn stop(&mut self) -> bool {
        if self.counting {
            return false;
        }
        // Asked after each step except the last.
        self.at += 1;
        self.after.is_some_and(|after| self.at >= after)
    }
}

/// Records the names of events, without repetition of steps. Stops after a number of steps.
struct Names {
    names: Vec<String>,
    left: u32,
}

impl Progress for Names {
    fn on_event(&mut self, event: RunEvent<'_>) {
        let name = match event {
            RunEvent::Opened(_) => "opened".into(),
            RunEvent::Resumed(at) => format!("resumed {}", at.step),
            RunEvent::Stepped { at, epsilon } => {
                assert!(epsilon(at.step) > 0.0);
                "stepped".into()
            }
            RunEvent::Evaluated(at) => format!("evaluated {}", at.step),
            RunEvent::Saved(step) => format!("saved {step}"),
            RunEvent::Ended(Ended { step, cause }) => format!("{cause:?} {step}"),
            _ => return,
        };
        if self.names.last() != Some(&name) {
            self.names.push(name);
        }
    }

    fn stop(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }
}

// The listener receives the backend first, each evaluation and state once, and the end last, with and without privacy.
#[test]
fn events_come_in_order() {
    for budget in [Budget::NoiseMultiplier(0.5), Budget::NotPrivate] {
        let config = TrainConfig { budget, evaluate_every: Some(0.5), ..config() };
        let run = train::prepare(&source(SMALL), config).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut of_first = Names { names: vec![], left: 3 };
        let mut checkpoint = begin(folder.path(), &run);
        train::run_resumable(&run, &mut checkpoint, &mut of_first).unwrap();
        assert_eq!(of_first.names, ["opened", "stepped", "saved 3", "Stopped 3"]);
        drop(checkpoint);
        let mut of_second = Names { names: vec![], left: 30 };
        train::run_resumable(&run, &mut resume(folder.path(), &run), &mut of_second).unwrap();
        let resumed = ["opened", "resumed 3", "stepped", "evaluated 11", "stepped", "evaluated 22"];
        let expected = [&resumed[..], &["stepped", "evaluated 23", "saved 23", "Complete 23"]].concat();
        assert_eq!(of_second.names, expected);
    }
}

fn invocation() -> Invocation {
    Invocation::default()
}

fn begin(folder: &Path, run: &Run) -> Checkpoint {
    Checkpoint::begin(folder, run, invocation(), Duration::from_secs(60)).unwrap()
}

fn resume(folder: &Path, run: &Run) -> Checkpoint {
    Checkpoint::resume(folder, run, Duration::from_secs(60)).unwrap()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn bits(params: &[f32]) -> u64 {
    Digest::of(params).value()
}

fn assert_same(name: &str, stopped: &Outcome, whole: &Outcome) {
    assert_eq!(bits(&stopped.params), bits(&whole.params), "{name}");
    assert_eq!(stopped.evaluations, whole.evaluations, "{name}");
    assert_eq!((&stopped.recorded, &stopped.normalize), (&whole.recorded, &whole.normalize), "{name}");
    assert_eq!(stopped.non_finite, whole.non_finite, "{name}");
    assert_eq!((stopped.steps, stopped.lost_steps, stopped.clip), (whole.steps, 0, whole.clip), "{name}");
}

// Every method resumes with the bits of an uninterrupted run.
#[test]
fn every_method_resumes_with_same_bits() {
    for (name, config) in methods().into_iter().chain(others()) {
        let run = train::prepare(&source(SMALL), config).unwrap();
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut checkpoint = begin(one.path(), &run);
        copy(one.path(), other.path());
        let whole = train::run_resumable(&run, &mut checkpoint, &mut Stopping::default()).unwrap();
        assert!(!whole.stopped && whole.steps == run.price.terms.steps, "{name}");
        for after in [1, 9, 20] {
            let mut checkpoint = resume(other.path(), &run);
            let counting = run.config.release_non_finite.is_some();
            let mut progress = Stopping { counting, ..Stopping::after(after) };
            let stopped = train::run_resumable(&run, &mut checkpoint, &mut progress).unwrap();
            assert!(stopped.stopped && stopped.steps == after, "{name}: {} {after}", stopped.steps);
        }
        let mut watcher = Stopping::default();
        let stopped = train::run_resumable(&run, &mut resume(other.path(), &run), &mut watcher).unwrap();
        assert_eq!((watcher.resumed, &watcher.told), (Some((20, 0)), &whole.evaluations), "{name}");
        assert_same(name, &stopped, &whole);
        // Nothing is left to do after the state of the last step.
        let again = train::run_resumable(&run, &mut resume(other.path(), &run), &mut Stopping::default()).unwrap();
        assert_same(name, &again, &whole);
    }
}

// With correlated noise in a fixed order the first step charges the run. If steps are lost, later steps have the noise
// that they would have had.
#[test]
fn lost_steps_of_correlated_noise_stay_in_it() {
    let run = |backend| {
        let mut config = TrainConfig { backend, ..config() };
        correlated(&mut config, "blt:2", Sampler::MinSeparation);
        train::prepare(&source(SMALL), config).unwrap()
    };
    let (one, two) = (run(Choice::Tract), run(Choice::Portable));
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), &one, 5);
    let plan = one.run_plan().unwrap();
    assert!(plan.paid(1).events() == 1 && plan.paid(1).parts().draws == plan.paid(one.price.terms.steps).parts().draws);
    let mut watcher = Stopping::default();
    let outcome = train::run_resumable(&two, &mut resume(folder.path(), &two), &mut watcher).unwrap();
    assert_eq!((watcher.resumed, outcome.lost_steps), (Some((5, 3)), 3));
    assert_eq!(outcome.recorded.parts().draws, plan.events.parts().draws);
}

/// Returns the charged steps in the ledger in `folder`.
fn paid(folder: &Path) -> u64 {
    let ledger = fs::read_to_string(folder.join("ledger.json")).unwrap();
    let paid = ledger.split("\"paid\":").nth(1).unwrap();
    paid[..paid.find(',').unwrap()].parse().unwrap()
}

/// Writes the state after a kill after `step` steps: the state of step `saved`, and a ledger with charged later steps.
fn killed(folder: &Path, run: &Run, saved: u32) {
    train::run_resumable(run, &mut begin(folder, run), &mut Stopping::after(saved)).unwrap();
    let state = tempfile::tempdir().unwrap();
    copy(folder, state.path());
    train::run_resumable(run, &mut resume(folder, run), &mut Stopping::after(saved + 3)).unwrap();
    for name in ["state-a", "state-b"] {
        fs::copy(state.path().join(name), folder.join(name)).unwrap();
    }
    assert_eq!(paid(folder), u64::from(saved + 3));
}

// A float run that resumes with other workers loses its charged steps.
#[test]
fn other_float_workers_lose_charged_steps() {
    let floats = |workers| TrainConfig {
        noise: NoiseKind::Continuous,
        workers: NonZeroUsize::new(workers),
        evaluate_every: Some(0.2),
        ..config()
    };
    let run = |workers| train::prepare(&source(SMALL), floats(workers)).unwrap();
    let (one, two) = (run(1), run(2));
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), &one, 5);
    // With the same workers, steps 5 to 8 are taken again.
    let copied = tempfile::tempdir().unwrap();
    copy(folder.path(), copied.path());
    let other = tempfile::tempdir().unwrap();
    let mut watcher = Stopping::after(6);
    train::run_resumable(&one, &mut resume(copied.path(), &one), &mut watcher).unwrap();
    assert_eq!(watcher.resumed, Some((5, 0)));
    assert_eq!(paid(copied.path()), 8, "what was paid before stays paid");
    // With other workers, they are lost.
    let mut watcher = Stopping::after(10);
    train::run_resumable(&two, &mut resume(folder.path(), &two), &mut watcher).unwrap();
    assert_eq!((watcher.resumed, paid(folder.path())), (Some((5, 3)), 10));
    // From then on the state is of two workers. They lose nothing, and one worker loses nothing that was not released.
    let mut watcher = Stopping::default();
    let outcome = train::run_resumable(&two, &mut resume(folder.path(), &two), &mut watcher).unwrap();
    assert_eq!(watcher.resumed, Some((10, 0)));
    assert_eq!((outcome.steps, outcome.lost_steps), (two.price.terms.steps, 3));
    let whole = train::run_resumable(&two, &mut begin(other.path(), &two), &mut Stopping::default()).unwrap();
    assert_eq!(outcome.recorded, whole.recorded, "the price is that of the plan");
    assert_ne!(bits(&outcome.params), bits(&whole.params));
}

/// A state from before a move is invalid at its old location, because steps with the same numbers were taken since.
#[test]
fn state_is_invalid_after_move() {
    let run = |workers| {
        let workers = NonZeroUsize::new(workers);
        train::prepare(&source(SMALL), TrainConfig { noise: NoiseKind::Continuous, workers, ..config() }).unwrap()
    };
    let (one, two) = (run(1), run(2));
    for damaged in ["state-a", "state-b"] {
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path(), &one, 5);
        // Killed before its first step.
        train::run_resumable(&two, &mut resume(folder.path(), &two), &mut Stopping::after(9)).unwrap();
        fs::write(folder.path().join(damaged), b"torn").unwrap();
        let mut watcher = Stopping::after(15);
        train::run_resumable(&one, &mut resume(folder.path(), &one), &mut watcher).unwrap();
        let (step, lost) = watcher.resumed.unwrap();
        assert!(step + lost == 9, "{step} {lost}");
    }
}

#[test]
fn all_steps_may_be_lost() {
    let run = |workers| {
        let workers = NonZeroUsize::new(workers);
        let metrics = TestMetrics::Private { loss_bound: 10.0 };
        let config = TrainConfig { noise: NoiseKind::Continuous, workers, test_metrics: metrics, ..config() };
        train::prepare(&source(SMALL), config).unwrap()
    };
    let (one, two) = (run(1), run(2));
    let folder = tempfile::tempdir().unwrap();
    let steps = one.price.terms.steps;
    killed(folder.path(), &one, steps - 4);
    train::pay_all(&one, folder.path()).unwrap();
    let outcome = train::run_resumable(&two, &mut resume(folder.path(), &two), &mut Stopping::default()).unwrap();
    assert_eq!((outcome.steps, outcome.lost_steps, outcome.evaluations.len()), (steps, 4, 0));
}

#[test]
fn damaged_state_falls_back_or_is_refused() {
    let run = train::prepare(&source(SMALL), TrainConfig { evaluate_every: Some(0.2), ..config() }).unwrap();
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = train::run_resumable(&run, &mut begin(other.path(), &run), &mut Stopping::default()).unwrap();
    train::run_resumable(&run, &mut begin(folder.path(), &run), &mut Stopping::after(5)).unwrap();
    for after in [7, 8, 11, 12] {
        train::run_resumable(&run, &mut resume(folder.path(), &run), &mut Stopping::after(after)).unwrap();
        for name in ["state-a", "state-b"] {
            let kept = fs::read(folder.path().join(name)).unwrap();
            for cut in [0, 1, kept.len() / 3, kept.len() - 1] {
                fs::write(folder.path().join(name), &kept[..cut]).unwrap();
                resume(folder.path(), &run);
            }
            for at in [40, kept.len() / 2, kept.len() - 3] {
                let mut changed = kept.clone();
                changed[at] ^= 1;
                fs::write(folder.path().join(name), changed).unwrap();
                resume(folder.path(), &run);
            }
            fs::write(folder.path().join(name), &kept).unwrap();
        }
    }
    // The newer state is lost, so the run resumes from the older state.
    let newer = ["state-a", "state-b"].map(|name| fs::read(folder.path().join(name)).unwrap());
    let copied = tempfile::tempdir().unwrap();
    for lost in 0..2 {
        copy(folder.path(), copied.path());
        fs::write(copied.path().join(["state-a", "state-b"][lost]), &newer[lost][..100]).unwrap();
        let outcome = train::run_resumable(&run, &mut resume(copied.path(), &run), &mut Stopping::default()).unwrap();
        assert_same(&format!("without {lost}"), &outcome, &whole);
    }
    for name in ["state-a", "state-b"] {
        fs::write(folder.path().join(name), b"torn").unwrap();
    }
    let message = Checkpoint::resume(folder.path(), &run, Duration::ZERO).unwrap_err().to_string();
    assert!(message.contains("no file of its state can be used") && !message.contains('\n'), "{message}");
}

/// Whatever the ledger lost, a run at its original location takes the same steps. At another location it is rejected.
#[test]
fn damaged_ledger_counts_whole() {
    let run = |workers| {
        let workers = NonZeroUsize::new(workers);
        train::prepare(&source(SMALL), TrainConfig { noise: NoiseKind::Continuous, workers, ..config() }).unwrap()
    };
    let (one, two) = (run(1), run(2));
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), &one, 5);
    fs::write(folder.path().join("ledger.json"), "{}").unwrap();
    let refused = train::run_resumable(&two, &mut resume(folder.path(), &two), &mut Stopping::default());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("ledger cannot be used") && message.contains("where it began"), "{message}");
    train::run_resumable(&one, &mut resume(folder.path(), &one), &mut Stopping::after(7)).unwrap();
    assert_eq!(paid(folder.path()), u64::from(one.price.terms.steps));
}

#[test]
fn other_model_data_or_plan_is_refused() {
    let run = train::prepare(&source(SMALL), config()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    train::run_resumable(&run, &mut begin(folder.path(), &run), &mut Stopping::after(3)).unwrap();
    let refusal = |source: &InputFiles, config: TrainConfig| {
        let run = train::prepare(source, config).unwrap();
        Checkpoint::resume(folder.path(), &run, Duration::ZERO).unwrap_err().to_string()
    };
    let small = source(SMALL);
    assert!(refusal(&source("digits-mlp.onnx"), config()).contains("the model is not"));
    let shifted = DataOptions { normalize: Some((0.1, 1.0).into()), ..DataOptions::default() };
    assert!(refusal(&InputFiles { data_options: shifted, ..small.clone() }, config()).contains("the data is not"));
    let fewer = DataOptions { train_size: Some(1000), ..DataOptions::default() };
    assert!(refusal(&InputFiles { data_options: fewer, ..small.clone() }, config()).contains("the data is not"));
    assert!(refusal(&small, TrainConfig { epochs: 2.0, ..config() }).contains("plan of steps and noise"));
}

#[test]
fn two_processes_do_not_share_a_folder() {
    let run = train::prepare(&source(SMALL), config()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let held = begin(folder.path(), &run);
    let message = Checkpoint::resume(folder.path(), &run, Duration::ZERO).unwrap_err().to_string();
    assert!(message.contains("still going on"), "{message}");
    drop(held);
    drop(resume(folder.path(), &run));
    Checkpoint::remove(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let message = Checkpoint::resume(folder.path(), &run, Duration::ZERO).unwrap_err().to_string();
    assert!(message.contains("nothing to resume"), "{message}");
}

#[cfg(unix)]
#[test]
fn state_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let run = train::prepare(&source(SMALL), config()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    train::run_resumable(&run, &mut begin(folder.path(), &run), &mut Stopping::after(3)).unwrap();
    for name in ["state-a", "state-b"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
