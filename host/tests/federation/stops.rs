//! Kills of devices and servers.

use super::members::{approved, of_members};
use super::*;

/// Runs `command` and kills it after `milliseconds`. Returns true if it had ended before.
fn killed_after(command: &mut Command, milliseconds: u64) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(milliseconds));
    let ended = child.try_wait().unwrap().is_some();
    child.kill().ok();
    child.wait().unwrap();
    ended
}

/// Returns the number of kills of each party in the tests: `DAMPER_STOPS`, or a few.
fn stops() -> u64 {
    std::env::var("DAMPER_STOPS").ok().and_then(|stops| stops.parse().ok()).unwrap_or(6)
}

// A device that is killed at any moment sends at most one update in a round, always with the same bytes. Each round is
// charged once.
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
            // Killed between the charge and the update: nothing was sent.
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

// A server that is killed at any moment writes the same sum after a restart, and its round is charged once.
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
