//! Kills, full disks and failing writes at random moments. No case releases more than the ledger shows, and each run
//! resumes and ends with the bits of a run without a fault.
//!
//! A run evaluates after every step and prints a line for it, so the lines in its log count the released steps from
//! outside. After the fault, the ledger must have at least as many charged steps, and `damper epsilon DIR` must give
//! their cost. Then, in some cases, one file of its state is truncated. The run is resumed, in some cases with more
//! kills. The runs are simulations with one seed, so that all have the same bits.
//!
//! Ctrl-C ends a run after its step, and a second Ctrl-C ends it at once. It leaves the ledger, the model so far, and
//! an unchanged terminal.
//!
//! `DAMPER_KILLS=200` sets the number of cases, and `DAMPER_KILLS_RECORD=FILE` writes their figures.
#![cfg(target_os = "linux")]

#[path = "kills/signals.rs"]
mod signals;

use damper_testing::{Random, may_mount};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const STEPS: u64 = 314;

fn damper() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_damper"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).env_remove("ORT_DYLIB_PATH");
    command
}

/// Returns a training run that prints a line after each step.
fn train(out: &Path) -> Command {
    let mut command = damper();
    command
        .args(["train", "onnx-models/digits-linear.onnx", "--data", "idx:onnx-models/digits", "--backend", "tract"])
        .args(["--workers", "1", "--batch-size", "64", "--epochs", "13.98", "--lr", "0.5", "--noise-multiplier", "1"])
        .args(["--accountant", "rdp", "--eval-every", "0.001", "--seed", "1", "--out"])
        .arg(out);
    command
}

/// Files in which all runs have the same bits.
const SAME: [&str; 3] = ["model.onnx", "events.json", "metrics.csv"];

/// Final files of a run without a fault.
struct Whole(Vec<Vec<u8>>);

impl Whole {
    fn read(out: &Path) -> Self {
        Self(SAME.iter().map(|name| fs::read(out.join(name)).unwrap()).collect())
    }

    /// Resumes the run that a fault left in `out`, with up to three more kills, and compares its end with this run.
    /// Returns false if the fault came before any state was stored.
    fn finish(&self, random: &mut Random, folder: &Path, out: &Path) -> bool {
        let state = |name: &str| out.join("checkpoint").join(name);
        if !state("state-a").exists() && !state("state-b").exists() {
            if out.join("report.json").exists() && out.join("events.json").exists() {
                return self.is(out);
            }
            assert!(!out.join("checkpoint/ledger.json").exists(), "a paid run without its state");
            return false;
        }
        // One of the files, if both exist.
        if random.below(3) == 0 && state("state-a").exists() && state("state-b").exists() {
            let damaged = state(["state-a", "state-b"][random.below(2)]);
            let bytes = fs::read(&damaged).unwrap();
            fs::write(damaged, &bytes[..random.below(bytes.len())]).unwrap();
        }
        for _ in 0..random.below(4) {
            let mut child = resumed(out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random.below(200) as u64));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let log = folder.join("resumed");
        let status = resumed(out).stdout(Stdio::null()).stderr(File::create(&log).unwrap()).status().unwrap();
        let log = fs::read_to_string(log).unwrap();
        assert!(status.success() || log.contains("the run is finished"), "{log}");
        for name in ["state-a", "state-b", "lock"] {
            assert!(!state(name).exists(), "{name} outlives its run");
        }
        self.is(out)
    }

    fn is(&self, out: &Path) -> bool {
        for (name, bytes) in SAME.iter().zip(&self.0) {
            assert!(fs::read(out.join(name)).unwrap() == *bytes, "{name} has other bits");
        }
        let left = Left::read_paid(out);
        assert_eq!(left, Some(STEPS));
        true
    }
}

/// Returns a resumed run.
fn resumed(out: &Path) -> Command {
    let mut command = damper();
    command.args(["train", "--resume"]).arg(out);
    command
}

/// Returns the interval between state writes: after each step, sometimes, or not before it stops.
fn checkpoint_every(random: &mut Random) -> &'static str {
    ["0", "0", "0.03", "60"][random.below(4)]
}

/// Runs `command` as arguments of a shell script, in `shell`.
fn under(shell: &[&str], script: &str, args: &[&Path], command: &Command) -> Command {
    let mut sh = Command::new(shell[0]);
    sh.args(&shell[1..])
        .args(["sh", "-c", script, "sh"])
        .args(args)
        .arg(command.get_program())
        .args(command.get_args());
    sh.current_dir(command.get_current_dir().unwrap());
    sh
}

/// State after a fault.
#[derive(Clone, Copy, Debug)]
struct Left {
    released: u64,
    paid: u64,
}

impl Left {
    /// Reads the log and the folder of a run.
    fn read(log: &Path, out: &Path) -> Self {
        let log = fs::read_to_string(log).unwrap();
        let released = log.lines().filter(|line| line.starts_with("epoch ")).count() as u64;
        // The progress line of the last step has no evaluation line before it.
        let told = log.lines().filter_map(|line| line.strip_prefix("step ")?.split('/').next()?.parse().ok()).max();
        let released = released.max(told.unwrap_or(0));
        let Some(paid) = Self::read_paid(out) else { return Self { released, paid: 0 } };
        let output = damper().arg("epsilon").arg(out).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}\n{log}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["steps"], paid, "{log}");
        assert!(found["epsilon"].as_f64().unwrap() > 0.0);
        Self { released, paid }
    }

    /// Returns the charged steps in the ledger, if it exists.
    fn read_paid(out: &Path) -> Option<u64> {
        let ledger = fs::read(out.join("checkpoint/ledger.json")).ok()?;
        let ledger: Value = serde_json::from_slice(&ledger).unwrap();
        Some(ledger["ledger"]["paid"].as_u64().unwrap())
    }

    fn is_violation(&self) -> bool {
        self.released > self.paid
    }
}

/// Counts of cases of one kind.
#[derive(Default)]
struct Tally {
    cases: u64,
    unfinished: u64,
    before_payment: u64,
    released: u64,
    paid: u64,
    violations: u64,
    /// Stopped during the write of a file of its private folder.
    torn: u64,
    resumed: u64,
}

impl Tally {
    fn count(&mut self, left: &Left) {
        self.cases += 1;
        self.before_payment += u64::from(left.paid == 0);
        self.unfinished += u64::from(left.paid > 0 && left.released < STEPS);
        self.released += left.released;
        self.paid += left.paid;
        self.violations += u64::from(left.is_violation());
    }

    fn row(&self, name: &str) -> String {
        let Self { cases, unfinished, before_payment, released, paid, violations, torn, resumed } = self;
        format!(
            "| {name} | {cases} | {before_payment} | {unfinished} | {torn} | {released} | {paid} | {violations} | {resumed} |\n"
        )
    }
}

/// Returns true if a file of the private folder of `out` is being written, or was when the run was killed.
fn is_writing(out: &Path) -> bool {
    let entries = fs::read_dir(out.join("checkpoint")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_str().unwrap().starts_with('.'))
}

/// Kills a run: at its start, after a random line of its log, or during the write of its state.
fn killed(random: &mut Random, folder: &Path, usual: Duration) -> Left {
    let (out, log) = (folder.join("run"), folder.join("log"));
    let while_writing = random.below(2) == 0;
    let mut command = train(&out);
    command.args(["--checkpoint-every", if while_writing { "0" } else { checkpoint_every(random) }]);
    let mut child =
        command.stdout(File::create(folder.join("answer")).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log_file = File::create(&log).unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut copy = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
        lines.for_each(|line| writeln!(log_file, "{}", line.unwrap()).unwrap());
    };
    if while_writing || random.below(4) > 0 {
        copy(&mut lines.by_ref().take(random.below(STEPS as usize * 2 / 3)));
    }
    let delay = match () {
        () if while_writing => {
            while !is_writing(&out) && child.try_wait().unwrap().is_none() {}
            random.below(50) as u64
        }
        () if random.below(4) == 0 => random.below(usual.as_micros() as usize) as u64,
        () => random.below(2000) as u64,
    };
    std::thread::sleep(Duration::from_micros(delay));
    child.kill().unwrap();
    copy(&mut lines);
    child.wait().unwrap();
    Left::read(&log, &out)
}

/// Runs on a disk that is too small, or is filled after a random line of the log.
fn full_disk(random: &mut Random, folder: &Path) -> Left {
    let (disk, kept, log) = (folder.join("disk"), folder.join("kept"), folder.join("log"));
    fs::create_dir(&disk).unwrap();
    let (pages, line) = match random.below(2) {
        0 => (3 + random.below(12), "never".to_owned()),
        _ => (64, format!("{}", 1 + random.below(STEPS as usize * 2 / 3))),
    };
    let script = format!(
        "mount -t tmpfs -o size={}k tmpfs \"$1\" || exit 9; disk=$1; kept=$2; shift 2; \
         \"$@\" 2>&1 >\"$kept.answer\" | (n=0; while IFS= read -r line; do printf '%s\\n' \"$line\"; n=$((n + 1)); \
         [ $n != {line} ] || cat /dev/zero >\"$disk/fill\" 2>\"$kept.full\"; done); \
         cp -r \"$disk/run\" \"$kept\" || mkdir \"$kept\"",
        4 * pages
    );
    let mut run = train(&disk.join("run"));
    run.args(["--checkpoint-every", checkpoint_every(random)]);
    let mut command = under(&["unshare", "-Urm"], &script, &[&disk, &kept], &run);
    command.stdout(File::create(&log).unwrap()).stderr(File::create(folder.join("shell")).unwrap());
    command.status().unwrap();
    Left::read(&log, &kept)
}

/// Fails call number `DAMPER_FAIL_AT` of the function `DAMPER_FAIL`, and all later calls if `DAMPER_FAIL_ON` is set.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int fails(const char *name) {
  static int calls;
  const char *which = getenv("DAMPER_FAIL"), *at = getenv("DAMPER_FAIL_AT");
  if (!which || !at || strcmp(which, name)) return 0;
  int call = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (call < atoi(at) || (call > atoi(at) && !getenv("DAMPER_FAIL_ON"))) return 0;
  errno = EIO;
  return 1;
}
int fsync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return fails("fsync") ? -1 : real(fd);
}
ssize_t write(int fd, const void *bytes, size_t len) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (fd > 2 && fails("write")) return -1;
  return real(fd, bytes, len);
}
int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (!real) real = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
  return fails("rename") ? -1 : real(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
  static int (*real)(int, const char *, int, const char *);
  if (!real) real = (int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat");
  return fails("rename") ? -1 : real(a, from, b, to);
}
"#;

fn shim(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    fs::write(&source, SHIM).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
    cc.output().is_ok_and(|output| output.status.success()).then_some(library)
}

/// Runs with a call that fails once, or from then on.
fn failing_call(random: &mut Random, folder: &Path, library: &Path) -> Left {
    let (out, log) = (folder.join("run"), folder.join("log"));
    let mut command = train(&out);
    command.args(["--checkpoint-every", checkpoint_every(random)]);
    command.env("LD_PRELOAD", library).env("DAMPER_FAIL", ["fsync", "fsync", "write", "rename"][random.below(4)]);
    command.env("DAMPER_FAIL_AT", (1 + random.below(24)).to_string());
    if random.below(2) == 0 {
        command.env("DAMPER_FAIL_ON", "1");
    }
    command.stdout(File::create(folder.join("answer")).unwrap()).stderr(File::create(&log).unwrap());
    command.status().unwrap();
    Left::read(&log, &out)
}

#[test]
fn nothing_is_released_beyond_the_ledger() {
    let all: u64 = std::env::var("DAMPER_KILLS").map_or(21, |count| count.parse().unwrap());
    let guard = tempfile::tempdir().unwrap();
    let folder = |name: String| {
        let folder = guard.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    // A run without a fault. As a control, its log with an old ledger is a violation.
    let usual = folder("usual".into());
    let (out, log) = (usual.join("run"), usual.join("log"));
    let started = Instant::now();
    let status =
        train(&out).stdout(File::create(usual.join("answer")).unwrap()).stderr(File::create(&log).unwrap()).status();
    let time = started.elapsed();
    assert!(status.unwrap().success(), "{}", fs::read_to_string(&log).unwrap());
    let whole = Left::read(&log, &out);
    assert!(whole.released == STEPS && whole.paid == STEPS, "{whole:?}");
    assert!(Left { paid: 64, ..whole }.is_violation());
    let end = Whole::read(&out);

    let library = shim(guard.path());
    let mounts = may_mount(guard.path());
    let mut random = Random(16);
    let (mut kills, mut disks, mut calls) = (Tally::default(), Tally::default(), Tally::default());
    for case in 0..all {
        let folder = folder(format!("{case}"));
        let (tally, out, left) = match (case % 3, &library) {
            (0, _) => (&mut kills, "run", killed(&mut random, &folder, time)),
            (1, _) if mounts => (&mut disks, "kept", full_disk(&mut random, &folder)),
            (2, Some(library)) => (&mut calls, "run", failing_call(&mut random, &folder, library)),
            _ => continue,
        };
        tally.count(&left);
        tally.torn += u64::from(is_writing(&folder.join(out)));
        tally.resumed += u64::from(end.finish(&mut random, &folder, &folder.join(out)));
        let violations = kills.violations + disks.violations + calls.violations;
        assert_eq!(violations, 0, "case {case}: {}", fs::read_to_string(folder.join("log")).unwrap());
        fs::remove_dir_all(folder).unwrap();
    }
    if !mounts {
        damper_testing::skip("mount", "full disks; this user may not mount a small disk");
    }
    if library.is_none() {
        damper_testing::skip("cc", "failing calls; there is no C compiler `cc`");
    }
    let mut table = String::from(
        "| fault | cases | no step paid | stopped after a payment | while a private file was written | steps released | steps paid | \
         more released than paid | resumed, same bits |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, tally) in [
        ("`kill -9` at a random moment", &kills),
        ("full disk", &disks),
        ("a failing `fsync`, `write` or `rename`", &calls),
    ] {
        table.write_str(&tally.row(name)).unwrap();
    }
    println!("{table}");
    assert!(all < 200 || kills.torn >= 20, "{table}");
    assert!(
        kills.unfinished > 0 && (!mounts || disks.unfinished > 0) && (library.is_none() || calls.unfinished > 0),
        "{table}"
    );
    if let Some(file) = std::env::var_os("DAMPER_KILLS_RECORD") {
        let text = format!(
            "# Kills\n\nWritten by `.ci/long kills`. Each case is a run of {STEPS} steps of `digits-linear.onnx` with an evaluation \
             after each step, stopped by one fault. Released steps are counted in its log, paid steps are read from its ledger. In a third of \
             the cases one file of the state is then cut. Each run is resumed, with up to three more kills, and its model, events and \
             metrics are those of the run without a fault, byte for byte; before the first state is on the disk, there is nothing to \
             resume and nothing was paid.\n\n{table}"
        );
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file), text).unwrap();
    }
}
