//! `damper federation` and the server's side of `damper aggregate`: whole rounds compared with one process, and faults
//! of devices.

#[path = "federation/members.rs"]
mod members;
#[path = "federation/refusals.rs"]
mod refusals;
#[path = "federation/stops.rs"]
mod stops;

use damper::federated::{Device, DeviceData, Listening, Machine, Request, Users};
use damper::federation::{Asked, Envelope, FederationPlan, RoundLedger, request_digest};
use damper::graph::GraphOptions;
use damper::onnx::TensorRef;
use damper::onnx::pb::ModelProto;
use damper::runtime::{Backend, BackendError, Choice, Session, SessionSpec, open};
use damper::train::gradients::GradientOptions;
use damper::train::{InputFiles, read};
use damper_core::update::Update;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const MODEL: &str = "onnx-models/digits-linear.onnx";
/// Flags for the same bits in every process.
const SAMPLES: [&str; 8] =
    ["--data", "idx:onnx-models/digits", "--train-size", "24", "--backend", "portable", "--workers", "1"];
const USERS: [&str; 8] = ["--unit", "user", "--local-steps", "3", "--local-lr", "0.2", "--local-batch", "2"];

/// Flags of all plans here.
const COMMON: [[&str; 2]; 4] =
    [["--rounds", "2"], ["--batch-size", "4"], ["--sampling-rate", "0.5"], ["--delta", "1e-5"]];

/// Returns the flags of `defaults` that are missing in `more`.
fn unless_given<'a>(defaults: &[[&'a str; 2]], more: &[&str]) -> Vec<&'a str> {
    defaults.iter().filter(|[flag, _]| !more.contains(flag)).flatten().copied().collect()
}

/// A federation in a folder, with the command in the workspace's root.
struct Federation {
    folder: TempDir,
}

impl Federation {
    /// Writes a simulation's plan `federation.json` of three devices and two rounds, with these additional flags.
    fn new(more: &[&str]) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        made.plan("federation.json", more);
        made
    }

    fn plan(&self, name: &str, more: &[&str]) {
        let mut command = damper(&["federation", "plan", MODEL, "--simulation", "--out"]);
        command.arg(self.at(name)).args(unless_given(&[["--devices", "3"], ["--noise-multiplier", "1"]], more));
        succeeds(command.args(unless_given(&COMMON, more)).args(more));
        // A text file with the users of the 24 rows, five of them.
        let users: String = (0..24).map(|row| format!("user {}\n", row % 5)).collect();
        fs::write(self.at("users"), users).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the update of a device in a round, `DEVICE-ROUND.upd`.
    fn update(&self, plan: &str, model: &Path, device: u32, round: u32, more: &[&str]) -> Output {
        let mut command = damper(&["federation", "update"]);
        command.arg(self.at(plan)).arg(model).args(SAMPLES).args(["--device", &device.to_string()]);
        command.args(["--round", &round.to_string(), "--seed", "5", "--json"]).args(more);
        command.arg("--ledger").arg(self.at(&format!("state-{device}"))).arg("--out");
        command.arg(self.at(&format!("{device}-{round}.upd"))).output().unwrap()
    }

    fn aggregate(&self, files: &[&str], round: u32) -> Output {
        self.aggregate_at(files, round, &[])
    }

    fn aggregate_at(&self, files: &[&str], round: u32, more: &[&str]) -> Output {
        let mut command = damper(&["aggregate", "--json", "--round", &round.to_string(), "--federation"]);
        command.arg(self.at("federation.json")).args(files.iter().map(|file| self.at(file))).args(more);
        command
            .arg("--ledger")
            .arg(self.at("server"))
            .arg("--out")
            .arg(self.at(&format!("{round}.sum")))
            .output()
            .unwrap()
    }

    fn apply(&self, model: &Path, sum: &str, out: &str, more: &[&str]) -> Output {
        let mut command = damper(&["federation", "apply"]);
        command
            .arg(self.at("federation.json"))
            .arg(model)
            .arg("--sum")
            .arg(self.at(sum))
            .arg("--out")
            .arg(self.at(out));
        command.args(more).output().unwrap()
    }

    fn simulate(&self, out: &str, more: &[&str]) -> Output {
        let mut command = damper(&["federation", "simulate"]);
        command.arg(self.at("federation.json")).args([MODEL, "--seed", "5"]).args(SAMPLES).args(more);
        command.arg("--out").arg(self.at(out)).output().unwrap()
    }
}

fn damper(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_damper"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).env_remove("ORT_DYLIB_PATH").args(args);
    command
}

#[track_caller]
fn ok(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[track_caller]
fn succeeds(command: &mut Command) -> serde_json::Value {
    ok(&command.output().unwrap())
}

/// Checks for an error of one line that has all of `words`.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| (1..3).contains(&code)), "{:?} {message}", output.status);
    assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
    words.iter().for_each(|word| assert!(message.contains(word), "`{word}` is not in: {message}"));
}

// Devices, server and files give the model of one process, for each unit and kind of noise, with a device that drops
// out.
#[test]
fn rounds_equal_one_process() {
    let [users, samples]: [&[&str]; 2] = [&USERS, &["--clip", "0.5"]];
    for (flags, with_users) in [(users, true), (samples, false)] {
        for noise in ["local", "shares"] {
            let all = [flags, &["--noise", noise, "--smallest-cohort", "2"]].concat();
            let federation = Federation::new(&all);
            let users = federation.at("users").display().to_string();
            let more: &[&str] = if with_users { &["--users", &users] } else { &[] };
            let model = Path::new(MODEL);
            let mut params: Vec<String> = vec![];
            for round in 0..2u32 {
                let present: &[u32] = if round == 1 { &[1, 3] } else { &[1, 2, 3] };
                let mut files = vec![];
                for device in present {
                    let more: Vec<&str> = more.iter().copied().chain(params.iter().map(String::as_str)).collect();
                    let said = ok(&federation.update("federation.json", model, *device, round, &more));
                    assert_eq!(said["rounds_charged"], round + 1);
                    files.push(format!("{device}-{round}.upd"));
                }
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                let of_round: Vec<&str> = params.iter().map(String::as_str).collect();
                let sum = ok(&federation.aggregate_at(&files, round, &of_round));
                assert_eq!(
                    (sum["devices"].as_u64(), sum["rounds_charged"].as_u64()),
                    (Some(files.len() as u64), Some(u64::from(round) + 1))
                );
                assert_eq!(sum["unit"], if with_users { "user" } else { "sample" });
                let epsilon = |party: &str| sum["epsilon"][party].as_f64().unwrap();
                assert!(
                    epsilon("outsider") < epsilon("participant") && epsilon("participant") <= epsilon("server"),
                    "{sum}"
                );
                let next = federation.at(&format!("{round}.params")).display().to_string();
                let more = [&params[..], &["--out-params".into(), next.clone()]].concat();
                let more: Vec<&str> = more.iter().map(String::as_str).collect();
                ok(&federation.apply(model, &format!("{round}.sum"), &format!("{round}.onnx"), &more));
                params = vec!["--params".into(), next];
            }
            let model = federation.at("1.onnx");
            ok(&federation.simulate("one.onnx", &[more, &["--absent", "1:2"]].concat()));
            let (found, one) = (fs::read(&model).unwrap(), fs::read(federation.at("one.onnx")).unwrap());
            assert!(found == one, "{flags:?} {noise}");
            assert!(found != fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MODEL)).unwrap());
            ok(&federation.simulate("other.onnx", more));
            assert!(found != fs::read(federation.at("other.onnx")).unwrap(), "a device more changes nothing");
        }
    }
}

// A round is charged once, on a device and on the server. After the last round nothing is released.
#[test]
fn rounds_are_charged_once() {
    let federation = Federation::new(&["--smallest-cohort", "2"]);
    let model = Path::new(MODEL);
    for device in 1..=3 {
        ok(&federation.update("federation.json", model, device, 0, &[]));
    }
    // The same request gets the same bytes, and another request in that round gets none.
    let first = fs::read(federation.at("1-0.upd")).unwrap();
    fs::remove_file(federation.at("1-0.upd")).unwrap();
    let again = ok(&federation.update("federation.json", model, 1, 0, &[]));
    assert_eq!((again["resent"].as_bool(), again["rounds_charged"].as_u64()), (Some(true), Some(1)));
    assert_eq!(fs::read(federation.at("1-0.upd")).unwrap(), first);
    let params = federation.at("zero.params").display().to_string();
    fs::write(&params, [0; 2600]).unwrap();
    let other = federation.update("federation.json", model, 1, 0, &["--params", &params]);
    refused(&other, &["--round 0", "charged or passed already"]);
    let sent = fs::read_to_string(federation.at("state-1/sent.log")).unwrap();
    assert!(sent.lines().count() == 2 && sent.contains("the same again"), "{sent}");

    let files = ["1-0.upd", "2-0.upd", "3-0.upd"];
    let first = ok(&federation.aggregate(&files, 0));
    let sum = fs::read(federation.at("0.sum")).unwrap();
    fs::remove_file(federation.at("0.sum")).unwrap();
    // A second sum of the round over other devices would reveal the update of one by the difference.
    refused(&federation.aggregate(&files[..2], 0), &["--round 0", "cohort is fixed", "device 3"]);
    assert!(!federation.at("0.sum").exists());
    let again = ok(&federation.aggregate(&files, 0));
    assert_eq!((&again["epsilon"], again["rounds_charged"].as_u64()), (&first["epsilon"], Some(1)));
    assert_eq!(fs::read(federation.at("0.sum")).unwrap(), sum);
    // Round 1 with the updates of round 0: nothing is released or charged.
    let later = |round| federation.aggregate_at(&files, round, &["--params", &params]);
    refused(&later(1), &["0 updates", "2 devices", "its round is 0", "nothing is charged"]);
    assert!(!federation.at("1.sum").exists());
    refused(&later(2), &["--round 2", "budget is spent"]);
    let spent = federation.update("federation.json", model, 1, 2, &["--params", &params]);
    refused(&spent, &["--round 2", "budget is spent"]);
    let whole = succeeds(damper(&["epsilon", "--json"]).arg(federation.at("federation.json")));
    let outsider = |found: &serde_json::Value| found["epsilon"]["outsider"].as_f64().unwrap();
    assert!(outsider(&first) < outsider(&whole));
}

// A round that a device or the server missed costs nothing, and cannot be run later.
#[test]
fn missed_rounds_cost_nothing() {
    let federation = Federation::new(&["--rounds", "9", "--smallest-cohort", "1"]);
    let model = Path::new(MODEL);
    let params = federation.at("zero.params").display().to_string();
    fs::write(&params, [0; 2600]).unwrap();
    let at = ["--params", &*params];
    assert_eq!(ok(&federation.update("federation.json", model, 1, 5, &at))["rounds_charged"], 1);
    refused(&federation.update("federation.json", model, 1, 4, &at), &["--round 4", "the next one is 6"]);
    assert_eq!(ok(&federation.update("federation.json", model, 1, 7, &at))["rounds_charged"], 2);
    let sum = ok(&federation.aggregate_at(&["1-5.upd"], 5, &at));
    assert_eq!(sum["rounds_charged"], 1);
    federation.plan("one.json", &["--rounds", "1", "--smallest-cohort", "1"]);
    let one = succeeds(damper(&["epsilon", "--json"]).arg(federation.at("one.json")));
    assert_eq!(sum["epsilon"], one["epsilon"]);
}

/// Runs device 1's answer to a request, on the rows that `more` selects.
fn request(federation: &Federation, round: u32, more: &[&str]) -> Output {
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).args([MODEL, "--data", "idx:onnx-models/digits"]);
    command.args(["--backend", "portable", "--workers", "1", "--device", "1", "--round", &round.to_string()]);
    command.args(["--seed", "5", "--json", "--ledger"]).arg(federation.at("state-1")).arg("--out");
    command.arg(federation.at("1-0.upd")).args(more).output().unwrap()
}

/// The portable backend, which fails after a number of runs.
struct Failing {
    inner: Box<dyn Backend>,
    left: Arc<AtomicUsize>,
}

struct FailingSession(Box<dyn Session>, Arc<AtomicUsize>);

impl Backend for Failing {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn version(&self) -> String {
        self.inner.version()
    }

    fn note(&self) -> String {
        self.inner.note()
    }

    fn is_portable(&self) -> bool {
        self.inner.is_portable()
    }

    fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
        Ok(Box::new(FailingSession(self.inner.load(model, plan)?, self.left.clone())))
    }
}

impl Session for FailingSession {
    fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
        let left = self.1.load(Ordering::SeqCst).checked_sub(1).ok_or_else(|| BackendError("out of memory".into()))?;
        self.1.store(left, Ordering::SeqCst);
        self.0.run(inputs, read)
    }
}

// An error after the charge may depend on rows, so the update is then noise alone, whenever the error comes. Before the
// charge it is an error.
#[test]
fn failed_contributions_leave_noise_alone() {
    let federation = Federation::new(&[]);
    let plan = FederationPlan::from_json(&fs::read(federation.at("federation.json")).unwrap()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut source = InputFiles {
        model: root.join(MODEL),
        of_file: Default::default(),
        graph: GraphOptions::default(),
        lora: None,
        derive: damper::grad::DeriveOptions::new(damper::grad::Loss::SoftmaxCrossEntropy),
        data: format!("idx:{}", root.join("onnx-models/digits").display()),
        data_options: Default::default(),
    };
    source.data_options.train_size = Some(24);
    let read = read(&source, None).unwrap();
    let users = Users::one(24);
    let options =
        GradientOptions { physical_batch: NonZeroUsize::new(1), memory: 1 << 28, workers: NonZeroUsize::new(1) };
    let update = |runs: usize, folder: String| {
        let left = Arc::new(AtomicUsize::new(runs));
        let backend = Failing { inner: open(Choice::Portable).unwrap(), left: left.clone() };
        let machine = Machine { backend: &backend, options: &options };
        let mut ledger = RoundLedger::open(&federation.at(&folder), &plan).unwrap();
        let data = DeviceData { read: &read, users: &users };
        let (mut told, request) = (vec![], Request { round: 0, params: None });
        let device = Device::new(&plan, 1, Some(5)).unwrap();
        let mut listen = |text: &str| told.push(text.to_owned());
        let mut listening = Listening { rows: Some(&mut listen), noise_alone: None };
        let made = device.update_telling(data, request, machine, &mut ledger, &mut listening);
        (made, told, ledger.charged(), runs - left.load(Ordering::SeqCst))
    };
    let (whole, told, charged, runs) = update(1000, "whole".into());
    let whole = whole.unwrap();
    assert!(told.is_empty() && charged == 1 && runs > 4, "{told:?} {runs}");
    let mut alone = std::collections::BTreeSet::new();
    let mut errors = 0;
    for allowed in 0..runs {
        let (made, told, charged, _) = update(allowed, format!("after-{allowed}"));
        match made {
            Ok(bytes) => {
                assert!(charged == 1 && told.len() == 1 && told[0].contains("noise alone"), "{told:?}");
                alone.insert(bytes);
            }
            Err(error) => {
                assert!(charged == 0 && told.is_empty() && alone.is_empty(), "{allowed}: {error}");
                errors += 1;
            }
        }
    }
    assert!(errors > 0 && errors + 4 < runs, "{errors} {runs}");
    assert!(alone.len() == 1 && !alone.contains(&whole));
    let noise: Vec<i64> = Update::parse(alone.first().unwrap()).unwrap().units().collect();
    let deviation = (noise.iter().map(|x| (*x as f64).powi(2)).sum::<f64>() / noise.len() as f64).sqrt();
    assert!((deviation / f64::from(plan.sigma) - 1.0).abs() < 0.12, "{deviation} {}", plan.sigma);
}

// Two private updates of one device's samples have different noise, because no key is stored.
#[test]
fn private_noise_is_fresh() {
    let federation = Federation::new(&[]);
    let mut plan = damper(&["federation", "plan", MODEL, "--rounds", "2", "--devices", "3", "--batch-size", "24"]);
    succeeds(plan.args(["--noise-multiplier", "1", "--delta", "1e-5", "--out"]).arg(federation.at("federation.json")));
    let update = |round: &str, out: &str, state: &str| {
        let mut command = damper(&["federation", "update"]);
        command
            .arg(federation.at("federation.json"))
            .arg(MODEL)
            .args(SAMPLES)
            .args(["--device", "1", "--round", round]);
        succeeds(command.arg("--ledger").arg(federation.at(state)).arg("--out").arg(federation.at(out)).arg("--json"));
        Update::parse(&fs::read(federation.at(out)).unwrap()).unwrap().units().collect::<Vec<_>>()
    };
    // The sampling rate is 1 and the model the same, so without noise both would be equal.
    let (a, b) = (update("0", "a", "one"), update("0", "b", "two"));
    let deviation = (a.iter().zip(&b).map(|(a, b)| ((a - b) as f64).powi(2)).sum::<f64>() / a.len() as f64).sqrt();
    let wanted = 2f64.sqrt() * 65536.0;
    assert!((deviation / wanted - 1.0).abs() < 0.15, "{deviation} {wanted}");
    let mut kept: Vec<_> =
        fs::read_dir(federation.at("one")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept, ["joined.json", "kept.upd", "ledger.json", "lock", "sent.log"]);
}

// The plan stores the model's flags. The other commands take them from it, and reject others.
#[test]
fn plan_holds_the_models_flags() {
    let federation = Federation::new(&["--loss", "mse", "--output", "logits"]);
    let text = fs::read_to_string(federation.at("federation.json")).unwrap();
    assert!(text.contains("\"model_flags\":[\"--loss=mse\",\"--output=logits\"]"), "{text}");
    let other = federation.update("federation.json", Path::new(MODEL), 1, 0, &["--loss", "bce-with-logits"]);
    refused(&other, &["--loss=bce-with-logits: the plan has `--loss=mse --output=logits`"]);
}

// `damper epsilon` names the unit that it protects.
#[test]
fn epsilon_names_the_unit() {
    let federation = Federation::new(&USERS);
    let of = |more: &[&str]| damper(&["epsilon"]).arg(federation.at("federation.json")).args(more).output().unwrap();
    let said = ok(&of(&["--json"]));
    assert_eq!((said["unit"].as_str(), said["run"].as_str()), (Some("user"), Some("simulation")));
    let text = String::from_utf8(of(&["--unit", "user"]).stdout).unwrap();
    assert!(text.contains("one user with all of its samples") && text.contains("NO GUARANTEE"), "{text}");
    refused(&of(&["--delta", "1e-6"]), &["--delta"]);
    federation.plan("samples.json", &[]);
    let wrong = damper(&["epsilon", "--unit", "user"]).arg(federation.at("samples.json")).output().unwrap();
    refused(&wrong, &["--unit user", "protects samples"]);
    let plain = ["epsilon", "--noise-multiplier", "1", "--sampling-rate", "0.1", "--steps", "9", "--delta", "1e-5"];
    for (more, words) in [(&[][..], "one sample replaced"), (&["--unit", "user"], "one user with all of its samples")] {
        let said = damper(&plain).args(more).output().unwrap();
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(text.contains(words), "{text}");
    }
}
