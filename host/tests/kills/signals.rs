//! Ctrl-C and SIGTERM.

use super::*;

/// Checks the state after an interrupted run of [`train`]: a ledger that covers its log, and a state to resume from.
fn assert_unfinished(log: &Path, out: &Path) {
    let left = Left::read(log, out);
    assert!(left.released > 0 && left.released < STEPS && left.paid > 0 && !left.is_violation(), "{left:?}");
    assert!(!out.join("report.json").exists() && !out.join("events.json").exists());
    assert!(out.join("checkpoint/state-a").exists() && out.join("checkpoint/state-b").exists());
    let text = damper().arg("epsilon").arg(out).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(&format!("{} of {STEPS} planned steps are paid", left.paid)), "{text}");
}

/// Each signal ends a run after its step, with its exit code.
#[test]
fn signal_ends_a_run_after_its_step() {
    let guard = tempfile::tempdir().unwrap();
    let whole = guard.path().join("whole");
    assert!(train(&whole).arg("--quiet").stdout(Stdio::null()).status().unwrap().success());
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let (out, log) = (guard.path().join(signal), guard.path().join("log"));
        let answer = guard.path().join("answer");
        let mut child = train(&out).stdout(File::create(&answer).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut text: Vec<String> = lines.by_ref().take(40).collect();
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let interrupted = Instant::now();
        text.extend(lines);
        let status = child.wait().unwrap();
        assert!(interrupted.elapsed() < Duration::from_secs(60));
        assert_eq!(status.code(), Some(code));
        fs::write(&log, text.join("\n")).unwrap();
        assert_unfinished(&log, &out);
        // Nothing is reserved that was not taken, and all outputs so far exist.
        let left = Left::read(&log, &out);
        assert_eq!(left.paid, left.released);
        let answer = fs::read_to_string(answer).unwrap();
        assert!(answer.contains(&format!("after step {} of {STEPS}", left.paid)), "{answer}");
        assert!(answer.contains(&format!("damper train --resume {}", out.display())), "{answer}");
        let metrics = fs::read_to_string(out.join("metrics.csv")).unwrap();
        assert!(fs::read_to_string(whole.join("metrics.csv")).unwrap().starts_with(&metrics));
        let model = fs::read(out.join("model.onnx")).unwrap();
        let said = format!("{} of {STEPS} steps", left.paid);
        assert!(model.windows(said.len()).any(|bytes| bytes == said.as_bytes()), "the model does not say what it is");
        assert!(resumed(&out).args(["--quiet", "--workers", "2"]).stdout(Stdio::null()).status().unwrap().success());
        assert!(Whole::read(&whole).is(&out));
        assert!(!out.join("checkpoint/state-a").exists() && !out.join("checkpoint/state-b").exists());
    }
}

#[test]
fn run_without_checkpoint_keeps_no_key() {
    let guard = tempfile::tempdir().unwrap();
    let out = guard.path().join("run");
    let mut child = train(&out).arg("--no-checkpoint").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    lines.by_ref().take(20).for_each(drop);
    let names: Vec<_> = fs::read_dir(out.join("checkpoint")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_str().unwrap().starts_with("state")), "{names:?}");
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap().success());
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8(output.stdout).unwrap().contains("it cannot be resumed"));
    let refused = resumed(&out).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("nothing to resume"));
}

/// On a terminal of `script`, the byte of Ctrl-C, twice, goes through its line discipline to the run and its shell.
#[test]
fn ctrl_c_leaves_the_terminal_as_it_was() {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        damper_testing::skip("script", "there is no `script`, which makes a terminal");
        return;
    }
    let guard = tempfile::tempdir().unwrap();
    let (out, log) = (guard.path().join("run"), guard.path().join("log"));
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap());
    let run = train(&out);
    let words: Vec<String> = [run.get_program()].into_iter().chain(run.get_args()).map(quoted).collect();
    let line = format!(
        "modes() {{ echo; echo modes=$(stty -g); }}; trap : INT; modes; {}; code=$?; modes; exit $code",
        words.join(" ")
    );
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]).env("SHELL", "/bin/sh");
    command.current_dir(run.get_current_dir().unwrap()).env_remove("ORT_DYLIB_PATH").env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut screen = Vec::new();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut pressed = false;
    loop {
        let chunk = shown.fill_buf().unwrap().to_vec();
        if chunk.is_empty() {
            break;
        }
        shown.consume(chunk.len());
        screen.extend(chunk);
        if !pressed && String::from_utf8_lossy(&screen).matches("epoch ").count() >= 20 {
            pressed = true;
            keys.write_all(b"\x03\x03").unwrap();
        }
    }
    let status = child.wait().unwrap();
    let screen = String::from_utf8_lossy(&screen);
    assert_eq!(status.code(), Some(130), "{screen}");
    // The modes of the terminal are unchanged. The cursor was not hidden, and no other screen was opened.
    let modes: Vec<_> = screen.split("modes=").skip(1).map(|rest| rest.split_whitespace().next()).collect();
    assert!(modes.len() == 2 && modes[0] == modes[1], "{modes:?} {screen}");
    assert!(!screen.contains("\x1b[?"), "{screen:?}");
    // The bar and the lines above it share one line of bytes.
    let lines = screen.split("epoch ").skip(1).map(|line| format!("epoch {line}"));
    fs::write(&log, lines.collect::<Vec<_>>().join("\n")).unwrap();
    assert_unfinished(&log, &out);
}
