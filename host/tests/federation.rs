//! `damper federation` and the server's side of `damper aggregate`: whole rounds against one process, and what devices may do wrong.

use damper::federated::{Device, DeviceData, Listening, Machine, Request, Users};
use damper::federation::{Asked, Envelope, FederationPlan, RoundLedger, request_digest};
use damper::graph::GraphOptions;
use damper::onnx::TensorRef;
use damper::runtime::{Backend, BackendError, Choice, Plan, Session, open};
use damper::train::gradients::GradientOptions;
use damper::train::{Source, read};
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
/// The same bits in every process.
const SAMPLES: [&str; 8] =
    ["--data", "idx:onnx-models/digits", "--train-size", "24", "--backend", "portable", "--workers", "1"];
const USERS: [&str; 8] = ["--unit", "user", "--local-steps", "3", "--local-lr", "0.2", "--local-batch", "2"];

/// Flags of all plans here.
const COMMON: [[&str; 2]; 4] =
    [["--rounds", "2"], ["--batch-size", "4"], ["--sampling-rate", "0.5"], ["--delta", "1e-5"]];

/// The flags of `defaults` that `more` does not give.
fn unless_given<'a>(defaults: &[[&'a str; 2]], more: &[&str]) -> Vec<&'a str> {
    defaults.iter().filter(|[flag, _]| !more.contains(flag)).flatten().copied().collect()
}

/// A federation in a folder, and the command from the workspace's root.
struct Federation {
    folder: TempDir,
}

impl Federation {
    /// A simulation's plan `federation.json` of three devices and two rounds, with these flags more.
    fn new(more: &[&str]) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        made.plan("federation.json", more);
        made
    }

    fn plan(&self, name: &str, more: &[&str]) {
        let mut command = damper(&["federation", "plan", MODEL, "--simulation", "--out"]);
        command.arg(self.at(name)).args(unless_given(&[["--devices", "3"], ["--noise-multiplier", "1"]], more));
        succeeds(command.args(unless_given(&COMMON, more)).args(more));
        // A text with the users of the 24 rows, five of them.
        let users: String = (0..24).map(|row| format!("user {}\n", row % 5)).collect();
        fs::write(self.at("users"), users).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The update of a device in a round, `DEVICE-ROUND.upd`.
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

/// A failure with one line that has all of `words`.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| (1..3).contains(&code)), "{:?} {message}", output.status);
    assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
    words.iter().for_each(|word| assert!(message.contains(word), "`{word}` is not in: {message}"));
}

// Devices, server and files give the model of one process, for each unit and kind of noise, with a device that drops out.
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

// An output that cannot be written is found out before the round is charged, on a device and on the server.
#[test]
fn unwritable_outputs_charge_nothing() {
    let federation = Federation::new(&[]);
    let model = Path::new(MODEL);
    for device in 1..=3 {
        let command = damper(&["federation", "update"]);
        let elsewhere = |mut command: Command| {
            command
                .arg(federation.at("federation.json"))
                .arg(model)
                .args(SAMPLES)
                .args(["--device", &device.to_string()]);
            command.args(["--round", "0", "--seed", "5", "--ledger"]).arg(federation.at(&format!("state-{device}")));
            command.arg("--out").arg(federation.at("absent/1.upd")).output().unwrap()
        };
        refused(&elsewhere(command), &["absent/1.upd", "make its folder first"]);
        assert_eq!(ok(&federation.update("federation.json", model, device, 0, &[]))["rounds_charged"], 1);
    }
    let files = ["1-0.upd", "2-0.upd", "3-0.upd"];
    let mut command = damper(&["aggregate", "--round", "0", "--federation"]);
    command.arg(federation.at("federation.json")).args(files.map(|file| federation.at(file))).arg("--ledger");
    command.arg(federation.at("server")).arg("--out").arg(federation.at("absent/0.sum"));
    refused(&command.output().unwrap(), &["absent/0.sum", "make its folder first"]);
    assert_eq!(ok(&federation.aggregate(&files, 0))["rounds_charged"], 1);
}

// A round is charged once, on a device and on the server, and after the last nothing is released.
#[test]
fn rounds_are_charged_once() {
    let federation = Federation::new(&["--smallest-cohort", "2"]);
    let model = Path::new(MODEL);
    for device in 1..=3 {
        ok(&federation.update("federation.json", model, device, 0, &[]));
    }
    // The same request gets the same bytes, and another one of that round none.
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
    // A second sum of the round with other devices would differ by the update of one.
    refused(&federation.aggregate(&files[..2], 0), &["--round 0", "cohort is fixed", "device 3"]);
    assert!(!federation.at("0.sum").exists());
    let again = ok(&federation.aggregate(&files, 0));
    assert_eq!((&again["epsilon"], again["rounds_charged"].as_u64()), (&first["epsilon"], Some(1)));
    assert_eq!(fs::read(federation.at("0.sum")).unwrap(), sum);
    // Round 1 with the updates of round 0: nothing is released, and nothing charged.
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

// A round that a device or the server missed costs nothing, and cannot be taken later.
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

// What does not fit the plan is named and left out, and the others are added, whichever comes first.
#[test]
fn misfits_are_named_and_left_out() {
    let federation = Federation::new(&["--smallest-cohort", "2"]);
    federation.plan("other.json", &["--smallest-cohort", "2", "--clip", "2"]);
    let model = Path::new(MODEL);
    // Device 3 has another plan.
    ok(&federation.update("other.json", model, 3, 0, &[]));
    fs::rename(federation.at("3-0.upd"), federation.at("lie.upd")).unwrap();
    for device in [1, 2] {
        ok(&federation.update("federation.json", model, device, 0, &[]));
    }
    let one = fs::read(federation.at("1-0.upd")).unwrap();
    fs::write(federation.at("again.upd"), &one).unwrap();
    fs::write(federation.at("cut.upd"), &one[..one.len() - 3]).unwrap();
    fs::write(federation.at("text.upd"), "no update").unwrap();
    fs::write(federation.at("empty.upd"), "").unwrap();
    let mut flipped = one;
    flipped[100] ^= 4;
    fs::write(federation.at("flipped.upd"), flipped).unwrap();
    let bad = ["lie.upd", "cut.upd", "text.upd", "empty.upd", "flipped.upd", "absent.upd"];
    let files = [&bad[..], &["1-0.upd", "again.upd", "2-0.upd"]].concat();
    let sum = ok(&federation.aggregate(&files, 0));
    assert_eq!(sum["devices"], 2);
    let reasons: Vec<_> =
        sum["refused"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    let words = ["its run is", "truncated", "not an update", "not an update", "checksum", "No such file", "added once"];
    assert_eq!(reasons.len(), words.len(), "{reasons:?}");
    for ((reason, word), file) in reasons.iter().zip(words).zip(bad.iter().chain(&["again.upd"])) {
        assert!(reason.contains(word) && reason.contains(file), "{reason}");
    }
    let total = fs::read(federation.at("0.sum")).unwrap();
    let units =
        |name: &str| Update::parse(&fs::read(federation.at(name)).unwrap()).unwrap().units().collect::<Vec<_>>();
    let wanted: Vec<i64> = units("1-0.upd").iter().zip(units("2-0.upd")).map(|(a, b)| a + b).collect();
    assert!(Update::parse(&total).unwrap().units().eq(wanted));
}

// With fewer devices than the noise is for, or none, nothing is charged and no sum is written; the round is whole once the others are there.
#[test]
fn small_cohort_releases_nothing() {
    let federation = Federation::new(&["--noise", "shares"]);
    for device in [1, 2, 3] {
        ok(&federation.update("federation.json", Path::new(MODEL), device, 0, &[]));
    }
    fs::write(federation.at("none.upd"), "").unwrap();
    refused(&federation.aggregate(&["none.upd"], 0), &["0 updates", "none.upd"]);
    refused(&federation.aggregate(&["1-0.upd", "2-0.upd"], 0), &["2 updates", "3 devices or more"]);
    assert!(!federation.at("0.sum").exists() && !federation.at("server/cohort.json").exists());
    let sum = ok(&federation.aggregate(&["1-0.upd", "2-0.upd", "3-0.upd"], 0));
    assert_eq!(sum["rounds_charged"], 1);
    // An update with a share of the noise is not for others on this machine.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| fs::metadata(federation.at(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("1-0.upd"), mode("state-1"), mode("state-1/ledger.json")), (0o600, 0o700, 0o600));
    }
}

// A sum of another plan, a device's update and a damaged sum move no parameter.
#[test]
fn only_sums_of_the_plan_are_applied() {
    let federation = Federation::new(&["--smallest-cohort", "1"]);
    let model = Path::new(MODEL);
    ok(&federation.update("federation.json", model, 1, 0, &[]));
    ok(&federation.aggregate(&["1-0.upd"], 0));
    let apply = |model: &Path, sum: &str| federation.apply(model, sum, "out.onnx", &[]);
    refused(&apply(model, "1-0.upd"), &["1-0.upd", "not a sum of this plan"]);
    let sum = fs::read(federation.at("0.sum")).unwrap();
    fs::write(federation.at("cut.sum"), &sum[..sum.len() / 2]).unwrap();
    refused(&apply(model, "cut.sum"), &["cut.sum", "truncated"]);
    federation.plan("federation.json", &["--smallest-cohort", "1", "--clip", "2"]);
    refused(&apply(model, "0.sum"), &["0.sum", "not a sum of this plan"]);
    let other = Path::new("onnx-models/digits-mlp.onnx");
    refused(&apply(other, "0.sum"), &["digits-mlp.onnx", "not the model of the plan"]);
    let bad = federation.at("nan.params").display().to_string();
    fs::write(&bad, f32::NAN.to_le_bytes().repeat(650)).unwrap();
    refused(&federation.apply(model, "0.sum", "out.onnx", &["--params", &bad]), &["nan.params", "650 finite"]);
    assert!(!federation.at("out.onnx").exists());
}

// Wrong settings are named, and no round is charged for them.
#[test]
fn wrong_settings_charge_nothing() {
    let federation = Federation::new(&USERS);
    let model = Path::new(MODEL);
    let update = |device, more: &[&str]| federation.update("federation.json", model, device, 0, more);
    refused(&update(4, &[]), &["--device 4", "devices 1 to 3"]);
    refused(&update(0, &[]), &["--device 0"]);
    let short = federation.at("short");
    fs::write(&short, "a\nb\n").unwrap();
    refused(&update(1, &["--users", &short.display().to_string()]), &["--users", "2 lines", "24 training rows"]);
    refused(
        &federation.update("federation.json", Path::new("onnx-models/digits-mlp.onnx"), 1, 0, &[]),
        &["digits-mlp.onnx", "not the model of the plan"],
    );
    let damaged = fs::read_to_string(federation.at("federation.json")).unwrap().replace("\"rounds\":2", "\"rounds\":9");
    fs::write(federation.at("damaged.json"), damaged).unwrap();
    refused(&federation.update("damaged.json", model, 1, 0, &[]), &["damaged.json", "digest does not match"]);
    ok(&update(1, &[]));

    let mut private = damper(&["federation", "plan", MODEL, "--rounds", "2", "--devices", "3", "--batch-size", "4"]);
    succeeds(private.args(["--noise-multiplier", "1", "--delta", "1e-5", "--out"]).arg(federation.at("private.json")));
    refused(&federation.update("private.json", model, 2, 0, &[]), &["--seed 5", "plan is private"]);
    let simulated = federation.simulate("one.onnx", &["--users", &short.display().to_string()]);
    refused(&simulated, &["2 lines"]);
}

// A server chooses the values of the trained parameters and nothing else: whatever else it sends is refused in the same words on any data, before
// a charge and without a folder.
#[test]
fn crafted_requests_are_refused_in_the_same_words() {
    let federation = Federation::new(&[]);
    let words = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let good = vec![0.25f32; 650];
    let with = |at: usize, value: f32| {
        let mut values = good.clone();
        values[at] = value;
        words(&values)
    };
    let crafted = [
        vec![],
        words(&good[..649]),
        words(&[&good[..], &[1.0]].concat()),
        words(&good)[..2599].to_vec(),
        [words(&good), vec![0]].concat(),
        with(0, f32::NAN),
        with(649, f32::INFINITY),
        with(300, f32::NEG_INFINITY),
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MODEL)).unwrap(),
    ];
    // The same rows with other labels, and others.
    let (one, two) = (["--train-size", "24"], ["--train-size", "9"]);
    let mut said = std::collections::BTreeSet::new();
    for (at, bytes) in crafted.iter().enumerate() {
        let file = federation.at(&format!("{at}.params"));
        fs::write(&file, bytes).unwrap();
        for rows in [one, two] {
            for round in [0, 1] {
                let more = [&rows[..], &["--params", file.to_str().unwrap()]].concat();
                let output = request(&federation, round, &more);
                said.insert(String::from_utf8(output.stderr).unwrap());
                assert!(!output.status.success());
            }
        }
    }
    // A later round without parameters is no request either.
    said.insert(String::from_utf8(request(&federation, 1, &one).stderr).unwrap());
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said.first().unwrap().contains("--params"), "{said:?}");
    let state = fs::read_to_string(federation.at("state-1/ledger.json")).unwrap_or_default();
    assert!(!state.contains("\"paid\":1") && !federation.at("1-0.upd").exists(), "{state}");
    // Another network is refused by its digest, whatever it would have said of the rows.
    for other in ["onnx-models/digits-mlp.onnx", "onnx-models/digits-cnn.onnx"] {
        refused(&federation.update("federation.json", Path::new(other), 1, 0, &[]), &["not the model of the plan"]);
    }
    let file = federation.at("good.params");
    fs::write(&file, words(&good)).unwrap();
    let good = [&two[..], &["--params", file.to_str().unwrap()]].concat();
    assert_eq!(ok(&request(&federation, 1, &good))["rounds_charged"], 1);
    // A device that holds far more units than are expected is refused before a request, by its own check.
    let mut check = damper(&["federation", "check"]);
    check.arg(federation.at("federation.json")).args([MODEL, "--data", "idx:onnx-models/digits"]);
    refused(&check.output().unwrap(), &["--most-units 32", "1437 units"]);
    assert!(check.args(one).output().unwrap().status.success());
}

/// Device 1's answer to a request, on as many rows as `more` says.
fn request(federation: &Federation, round: u32, more: &[&str]) -> Output {
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).args([MODEL, "--data", "idx:onnx-models/digits"]);
    command.args(["--backend", "portable", "--workers", "1", "--device", "1", "--round", &round.to_string()]);
    command.args(["--seed", "5", "--json", "--ledger"]).arg(federation.at("state-1")).arg("--out");
    command.arg(federation.at("1-0.upd")).args(more).output().unwrap()
}

/// The portable backend, which fails after so many runs.
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

    fn load(&self, model: &[u8], plan: &Plan) -> Result<Box<dyn Session>, BackendError> {
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

// A failure behind the charge may depend on rows: the update is noise alone then, whenever it fails. Before the charge it is an error.
#[test]
fn failed_contributions_leave_noise_alone() {
    let federation = Federation::new(&[]);
    let plan = FederationPlan::from_json(&fs::read(federation.at("federation.json")).unwrap()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut source = Source {
        model: root.join(MODEL),
        init_seed: None,
        graph: GraphOptions::default(),
        lora: None,
        derive: damper::grad::DeriveOptions::new(damper::grad::Loss::SoftmaxCrossEntropy),
        data: format!("idx:{}", root.join("onnx-models/digits").display()),
        data_options: Default::default(),
    };
    source.data_options.train_size = Some(24);
    let read = read(&source).unwrap();
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

// Two private updates of one device's samples have different noise: no key is kept.
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
    // The rate is 1 and the model the same: without noise both would be equal.
    let (a, b) = (update("0", "a", "one"), update("0", "b", "two"));
    let deviation = (a.iter().zip(&b).map(|(a, b)| ((a - b) as f64).powi(2)).sum::<f64>() / a.len() as f64).sqrt();
    let wanted = 2f64.sqrt() * 65536.0;
    assert!((deviation / wanted - 1.0).abs() < 0.15, "{deviation} {wanted}");
    let mut kept: Vec<_> =
        fs::read_dir(federation.at("one")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept, ["joined.json", "kept.upd", "ledger.json", "lock", "sent.log"]);
}

/// A private federation of three members, whose owners have approved its plan. `more` are flags of the plan.
fn of_members(more: &[&str]) -> Federation {
    let federation = Federation { folder: tempfile::tempdir().unwrap() };
    let list: String = (1..=3)
        .map(|device| {
            let key = federation.at(&format!("{device}.key"));
            let made = succeeds(damper(&["federation", "key", "--json", "--out"]).arg(key));
            format!("{} clinic {device}\n", made["public"].as_str().unwrap())
        })
        .collect();
    fs::write(federation.at("members"), list).unwrap();
    let mut plan = damper(&["federation", "plan", MODEL, "--members"]);
    plan.arg(federation.at("members")).args(unless_given(&COMMON, more));
    plan.args(unless_given(&[["--noise-multiplier", "4"]], more)).args(more);
    succeeds(plan.arg("--out").arg(federation.at("federation.json")));
    federation
}

fn signed_update(federation: &Federation, device: u32, key: u32, more: &[&str]) -> Output {
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES);
    command.args(["--device", &device.to_string(), "--round", "0", "--json", "--key"]);
    command.arg(federation.at(&format!("{key}.key"))).arg("--ledger").arg(federation.at(&format!("state-{device}")));
    command.arg("--out").arg(federation.at(&format!("{device}-0.upd"))).args(more).output().unwrap()
}

fn approved(federation: &Federation, device: u32) -> serde_json::Value {
    let mut command = damper(&["federation", "approve", "--json"]);
    command.arg(federation.at("federation.json"));
    succeeds(command.arg("--ledger").arg(federation.at(&format!("state-{device}"))))
}

// Members sign, each for itself, once their owners have approved the plan; what others send in their names is left out.
#[test]
fn members_speak_for_themselves_alone() {
    let federation = of_members(&[]);
    refused(&signed_update(&federation, 1, 1, &[]), &["has not approved this plan", "federation approve"]);
    let plan = FederationPlan::from_json(&fs::read(federation.at("federation.json")).unwrap()).unwrap();
    for device in 1..=3u32 {
        let shown = approved(&federation, device);
        assert_eq!(shown["members"][device as usize - 1]["name"], format!("clinic {device}"));
        assert_eq!(
            (shown["sha256"].as_str().unwrap(), shown["epsilon"]["server"].is_number()),
            (&*plan.digest(), true)
        );
    }
    refused(&signed_update(&federation, 1, 2, &[]), &["2.key", "not the key of device 1"]);
    refused(&signed_update(&federation, 1, 1, &["--max-epsilon", "0.1"]), &["--max-epsilon", "costs epsilon"]);
    let strict = ["--max-epsilon", "100", "--max-delta", "1e-6"];
    refused(&signed_update(&federation, 1, 1, &strict), &["--max-delta is 1e-6", "at delta 1e-5"]);
    for device in 1..=3 {
        assert_eq!(ok(&signed_update(&federation, device, device, &[]))["rounds_charged"], 1);
    }
    let read = |name: &str| fs::read(federation.at(name)).unwrap();
    let asked = Asked::new(&plan, 0, request_digest(&plan, 0, None));
    let update = |name: &str| Envelope::open(&asked, &read(name)).map(|envelope| envelope.update.to_vec());
    // The bare update without its envelope, one of another device's in the envelope of the first, and a changed bit.
    fs::write(federation.at("bare.upd"), update("2-0.upd").unwrap()).unwrap();
    let (first, second) = (read("1-0.upd"), read("2-0.upd"));
    let end = first.len() - 64;
    fs::write(federation.at("moved.upd"), [&first[..96], &second[96..end], &first[end..]].concat()).unwrap();
    let mut flipped = second;
    flipped[200] ^= 1;
    fs::write(federation.at("flipped.upd"), flipped).unwrap();
    let bad = ["bare.upd", "moved.upd", "flipped.upd"];
    let sum = ok(&federation.aggregate(&[&bad[..], &["1-0.upd", "2-0.upd", "3-0.upd"]].concat(), 0));
    assert_eq!((sum["devices"].as_u64(), sum["refused"].as_array().map(Vec::len)), (Some(3), Some(3)));
    let mut wanted = vec![0; 650];
    for name in ["1-0.upd", "2-0.upd", "3-0.upd"] {
        let bytes = update(name).unwrap();
        Update::parse(&bytes).unwrap().units().zip(&mut wanted).for_each(|(units, sum)| *sum += units);
    }
    assert!(Update::parse(&read("0.sum")).unwrap().units().eq(wanted));
}

// Once a device has joined, each request of the plan gets a charged update: with rows that do not fit any more it is noise alone, and the
// message stays on the device.
#[test]
fn joined_device_answers_whatever_its_rows_are() {
    let federation = of_members(&["--rounds", "9"]);
    approved(&federation, 1);
    let data = |name: &str, label: usize| {
        let rows: String =
            (0..4).map(|row| format!("{}{}\n", "0.5,".repeat(64), if row == 3 { label } else { row })).collect();
        let file = federation.at(name);
        fs::write(&file, rows).unwrap();
        format!("csv:{}", file.display())
    };
    let (good, bad) = (data("good.csv", 9), data("bad.csv", 10));
    let params = federation.at("zero.params").display().to_string();
    fs::write(&params, [0; 2600]).unwrap();
    let update = |round: u32, data: &str| {
        let mut command = damper(&["federation", "update"]);
        command.arg(federation.at("federation.json")).arg(MODEL).args(["--data", data, "--device", "1", "--json"]);
        command.args(["--round", &round.to_string(), "--params", &params, "--backend", "portable", "--key"]);
        command.arg(federation.at("1.key")).arg("--ledger").arg(federation.at("state-1"));
        command.arg("--out").arg(federation.at("1.upd")).output().unwrap()
    };
    // Before it has joined, nothing leaves and nothing is charged.
    refused(&update(0, &bad), &["bad.csv: line 4", "label"]);
    let mut check = damper(&["federation", "check"]);
    check.arg(federation.at("federation.json")).arg(MODEL).args(["--data", &good]);
    assert!(check.arg("--ledger").arg(federation.at("state-1")).output().unwrap().status.success());
    let first = ok(&update(1, &good));
    let noise = update(2, &bad);
    let second = ok(&noise);
    assert_eq!((&first["bytes"], first["rounds_charged"].as_u64()), (&second["bytes"], Some(1)));
    assert_eq!(second["rounds_charged"], 2);
    assert_eq!(first.as_object().unwrap().len(), second.as_object().unwrap().len());
    let sent = fs::read_to_string(federation.at("state-1/sent.log")).unwrap();
    assert!(sent.contains("the data does not fit"), "{sent}");
    // A lost note changes nothing: a device that was charged has joined.
    fs::remove_file(federation.at("state-1/joined.json")).unwrap();
    assert_eq!(ok(&update(3, &bad))["rounds_charged"], 3);
}

// With a fixed delay a joined device answers then, also if its data cannot be read to the end.
#[cfg(unix)]
#[test]
fn slow_data_does_not_delay_an_answer() {
    let federation = of_members(&["--reply-seconds", "3"]);
    approved(&federation, 1);
    let mut check = damper(&["federation", "check"]);
    check.arg(federation.at("federation.json")).arg(MODEL).args(&SAMPLES[..4]);
    assert!(check.arg("--ledger").arg(federation.at("state-1")).output().unwrap().status.success());
    // A pipe into which nobody writes.
    let pipe = federation.at("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).arg(MODEL).arg("--data").arg(format!("csv:{}", pipe.display()));
    command
        .args(["--device", "1", "--round", "0", "--backend", "portable", "--json", "--key"])
        .arg(federation.at("1.key"));
    command.arg("--ledger").arg(federation.at("state-1")).arg("--out").arg(federation.at("1.upd"));
    let begun = SystemTime::now();
    let made = succeeds(&mut command);
    let seconds = begun.elapsed().unwrap().as_secs_f64();
    assert!((3.0..20.0).contains(&seconds) && made["rounds_charged"] == 1, "{seconds} {made}");
    assert!(federation.at("1.upd").exists());
}

// Files that the device keeps are not overwritten, and a sum moves the parameters of its own round.
#[test]
fn files_in_wrong_places_are_refused() {
    let federation = Federation::new(&["--smallest-cohort", "1"]);
    let model = Path::new(MODEL);
    ok(&federation.update("federation.json", model, 1, 0, &[]));
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES).args(["--device", "1", "--round", "1"]);
    command.args(["--seed", "5", "--ledger"]).arg(federation.at("state-1")).arg("--params").arg(federation.at("p"));
    fs::write(federation.at("p"), [0; 2600]).unwrap();
    let inside = command.arg("--out").arg(federation.at("state-1/../state-1/ledger.json")).output().unwrap();
    refused(&inside, &["--out", "that the device keeps"]);
    let params = federation.at("p").display().to_string();
    ok(&federation.update("federation.json", model, 1, 1, &["--params", &params]));
    ok(&federation.aggregate(&["1-1.upd"], 1));
    refused(&federation.apply(model, "1.sum", "out.onnx", &[]), &["--params: the sum is of round 1"]);
    // A folder is one device's.
    let mut other = damper(&["federation", "update"]);
    other.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES).args(["--device", "2", "--round", "1"]);
    other.args(["--seed", "5", "--params", &params, "--ledger"]).arg(federation.at("state-1"));
    refused(&other.arg("--out").arg(federation.at("x")).output().unwrap(), &["that of device 1"]);
}

// One budget pays for all plans on a device's data, each once, before its first round.
#[test]
fn device_charges_one_budget() {
    let federation = of_members(&[]);
    approved(&federation, 1);
    let file = federation.at("data.budget");
    let mut budget = damper(&["budget", "--create", "data", "--epsilon", "6", "--delta", "1e-5", "--json"]);
    succeeds(budget.arg(&file));
    let total = || succeeds(damper(&["budget", "--json"]).arg(&file));
    let flag = file.display().to_string();
    for _ in 0..2 {
        ok(&signed_update(&federation, 1, 1, &["--budget", &flag]));
    }
    let found = total();
    let plan = succeeds(damper(&["epsilon", "--json"]).arg(federation.at("federation.json")));
    let (charged, server) = (found["epsilon"].as_f64().unwrap(), plan["epsilon"]["server"].as_f64().unwrap());
    assert!(found["runs"].as_array().unwrap().len() == 1 && (charged / server - 1.0).abs() < 1e-6, "{found} {plan}");
    // A plan for which the limit has no room charges no round.
    let dear = of_members(&["--noise-multiplier", "0.8"]);
    approved(&dear, 1);
    refused(&signed_update(&dear, 1, 1, &["--budget", &flag]), &["data.budget", "above the limit"]);
    let ledger = fs::read_to_string(dear.at("state-1/ledger.json")).unwrap();
    assert!(ledger.contains("\"paid\":0"), "{ledger}");
}

// At a fixed delay an answer comes then, whether it is ready, refused, or late; what is late is noise alone.
#[test]
fn answers_come_at_the_plans_delay() {
    let of = |federation: &Federation, more: &[&str]| {
        let begun = std::time::Instant::now();
        let output = signed_update(federation, 1, 1, more);
        (output, begun.elapsed().as_secs_f64())
    };
    let quick = of_members(&["--reply-seconds", "4"]);
    approved(&quick, 1);
    let (output, seconds) = of(&quick, &["--max-epsilon", "0.1"]);
    refused(&output, &["costs epsilon"]);
    assert!(seconds >= 4.0, "{seconds}");
    let begun = SystemTime::now();
    let (output, seconds) = of(&quick, &[]);
    assert!(ok(&output)["resent"] == false && seconds >= 4.0, "{seconds}");
    // The file as well: whoever watches it, or is given its time, learns nothing.
    let written = fs::metadata(quick.at("1-0.upd")).unwrap().modified().unwrap();
    assert!(written.duration_since(begun).unwrap() >= Duration::from_millis(3990));
    let sent = |federation: &Federation| fs::read_to_string(federation.at("state-1/sent.log")).unwrap();
    assert!(sent(&quick).contains("\"update\""), "{}", sent(&quick));
    let (output, seconds) = of(&quick, &[]);
    assert!(ok(&output)["resent"] == true && seconds >= 4.0, "{seconds}");

    // Many local steps take minutes.
    let users = ["--unit", "user", "--local-lr", "0.1", "--local-batch", "24", "--local-steps", "16000000"];
    let slow = of_members(&[&users[..], &["--sampling-rate", "1", "--reply-seconds", "4"]].concat());
    approved(&slow, 1);
    let (output, seconds) = of(&slow, &[]);
    assert_eq!(ok(&output)["rounds_charged"], 1);
    assert!((4.0..60.0).contains(&seconds), "{seconds}");
    assert!(sent(&slow).contains("noise alone"), "{}", sent(&slow));
    // It has the noise, and nothing else.
    let plan = FederationPlan::from_json(&fs::read(slow.at("federation.json")).unwrap()).unwrap();
    let bytes = fs::read(slow.at("1-0.upd")).unwrap();
    let update = Envelope::open(&Asked::new(&plan, 0, request_digest(&plan, 0, None)), &bytes).unwrap().update;
    let noise: Vec<i64> = Update::parse(update).unwrap().units().collect();
    let deviation = (noise.iter().map(|x| (*x as f64).powi(2)).sum::<f64>() / noise.len() as f64).sqrt();
    assert!((deviation / f64::from(plan.sigma) - 1.0).abs() < 0.15, "{deviation} {}", plan.sigma);
    assert!(ok(&of(&slow, &[]).0)["resent"] == true);
    assert_eq!(fs::read(slow.at("1-0.upd")).unwrap(), bytes);
}

/// Runs `command` and kills it after `milliseconds`; true if it had ended by then.
fn killed_after(command: &mut Command, milliseconds: u64) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(milliseconds));
    let ended = child.try_wait().unwrap().is_some();
    child.kill().ok();
    child.wait().unwrap();
    ended
}

/// Stops of each party in the tests of them: `DAMPER_STOPS`, or a few.
fn stops() -> u64 {
    std::env::var("DAMPER_STOPS").ok().and_then(|stops| stops.parse().ok()).unwrap_or(6)
}

// A device that is killed at any moment makes one update of a round at most: what leaves it again is the same, and each round is charged once.
#[test]
fn killed_device_sends_one_update_a_round() {
    let rounds = stops();
    let federation = of_members(&["--rounds", &rounds.to_string(), "--noise-multiplier", "40"]);
    approved(&federation, 1);
    let params = federation.at("round.params").display().to_string();
    fs::write(&params, [0; 2600]).unwrap();
    let (mut lost, mut kept) = (0, 0);
    for round in 0..rounds {
        let out = federation.at(&format!("{round}.upd"));
        let of_round = || {
            let mut command = damper(&["federation", "update"]);
            command.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES);
            command.args(["--device", "1", "--round", &round.to_string(), "--params", &params, "--json", "--key"]);
            command.arg(federation.at("1.key")).arg("--ledger").arg(federation.at("state-1")).arg("--out").arg(&out);
            command
        };
        let mut sent: Option<Vec<u8>> = None;
        for attempt in 0..3u64 {
            // From before the ledger is opened to after the update is written.
            killed_after(&mut of_round(), (round * 37 + attempt * 53) % 250);
            if let Ok(bytes) = fs::read(&out) {
                assert!(sent.as_ref().is_none_or(|sent| *sent == bytes), "two updates of round {round}");
                sent = Some(bytes);
                fs::remove_file(&out).unwrap();
            }
        }
        let last = of_round().output().unwrap();
        match (last.status.success(), sent) {
            (true, sent) => {
                let bytes = fs::read(&out).unwrap();
                assert!(sent.is_none_or(|sent| sent == bytes), "two updates of round {round}");
                kept += 1;
            }
            // Killed between the charge and the update: nothing had left.
            (false, None) => {
                refused(&last, &["charged or passed already"]);
                lost += 1;
            }
            (false, Some(_)) => panic!("round {round}: {}", String::from_utf8_lossy(&last.stderr)),
        }
    }
    let ledger = fs::read_to_string(federation.at("state-1/ledger.json")).unwrap();
    assert!(ledger.contains(&format!("\"paid\":{rounds}")), "{ledger}");
    println!("{rounds} rounds: {kept} sent, {lost} lost between charge and update");
}

// A server that is killed at any moment makes the same sum when it is started again, and its round is charged once.
#[test]
fn killed_server_makes_the_same_sum() {
    let federation = Federation::new(&["--rounds", "2"]);
    for device in 1..=3 {
        ok(&federation.update("federation.json", Path::new(MODEL), device, 0, &[]));
    }
    let files = ["1-0.upd", "2-0.upd", "3-0.upd"];
    let mut wanted = vec![0; 650];
    for name in files {
        let bytes = fs::read(federation.at(name)).unwrap();
        Update::parse(&bytes).unwrap().units().zip(&mut wanted).for_each(|(units, sum)| *sum += units);
    }
    for stop in 0..stops() {
        let server = federation.at(&format!("server-{stop}"));
        let aggregate = |files: &[&str]| {
            let mut command = damper(&["aggregate", "--round", "0", "--json", "--federation"]);
            command.arg(federation.at("federation.json")).arg("--ledger").arg(&server);
            command.arg("--out").arg(federation.at("0.sum")).args(files.iter().map(|file| federation.at(file)));
            command
        };
        fs::remove_file(federation.at("0.sum")).ok();
        killed_after(&mut aggregate(&files), stop * 7 % 60);
        let sum = succeeds(&mut aggregate(&files));
        assert_eq!(sum["rounds_charged"], 1);
        assert!(Update::parse(&fs::read(federation.at("0.sum")).unwrap()).unwrap().units().eq(wanted.iter().copied()));
        refused(&aggregate(&files[1..]).output().unwrap(), &["cohort is fixed"]);
    }
    // A sum among the server's own files.
    let mut inside = damper(&["aggregate", "--round", "0", "--json", "--federation"]);
    inside.arg(federation.at("federation.json")).arg("--ledger").arg(federation.at("server"));
    inside.arg("--out").arg(federation.at("server/0.sum")).args(files.map(|file| federation.at(file)));
    fs::create_dir(federation.at("server")).unwrap();
    succeeds(&mut inside);
    assert_eq!(fs::read(federation.at("server/0.sum")).unwrap(), fs::read(federation.at("0.sum")).unwrap());
}

// The plan holds the model's flags: the other commands take them from it, and others are refused.
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
