//! Rounds of two aggregators as processes over TLS: honest, killed at random moments, and attacked.

#[path = "support/federation.rs"]
mod federation;
#[path = "support/processes.rs"]
mod processes;
#[path = "support/pair.rs"]
mod support;

use damper_federation::{Aggregation, DeviceNoise, FederationPlan};
use damper_prio::link::{AggregatorAddress, Link, Patience};
use damper_prio::tls::PartyIdentity;
use damper_prio::{AggregatorRequest, Answer, Party, Refusal, Upload};
use federation::{Chance, Federation};
use processes::{HELPER, LEADER, Machines, make_certificate, make_certificates, text};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

fn machines(noise: DeviceNoise, rounds: u32) -> (tempfile::TempDir, Machines) {
    let folder = tempfile::tempdir().unwrap();
    let of = Federation::new(folder.path(), noise, rounds);
    let machines = Machines::new(folder.path(), of);
    (folder, machines)
}

// The first sum equals that in clear, and so does the next. A repeated command returns the same bytes.
#[test]
fn honest_rounds_are_summed() {
    let (_folder, machines) = machines(DeviceNoise::Local, 3);
    for round in [0, 1] {
        assert!(machines.collect(round).unwrap_err().contains("smallest cohort"));
        for device in 1..=4 {
            let sent = machines.upload(device, round);
            assert!(sent.status.success(), "{}", text(&sent));
            assert!(machines.upload(device, round).status.success());
        }
        let sum = machines.collect(round).unwrap();
        assert_eq!(sum, machines.of.sum_in_clear(&[1, 2, 3, 4], round));
        assert_eq!(machines.collect(round).unwrap(), sum);
    }
    assert!(text(&machines.upload(1, 0)).contains("sent a report for round 1 already"));
}

/// Kills and restarts one of the aggregators at random moments, until `stop`. Counts in `kills`.
fn restart(machines: &Machines, stop: &AtomicBool, kills: &AtomicUsize) {
    let mut chance = Chance(7);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(chance.below(250) as u64));
        machines.restart(chance.below(2));
        kills.fetch_add(1, Ordering::Relaxed);
    }
}

/// Uploads until the report is acknowledged. A first gateway is killed during its upload.
fn upload_patiently(machines: &Machines, device: u64, round: u32, tries: usize) -> bool {
    machines.upload_killed(device, round, Duration::from_millis(device * 37 + u64::from(round) * 13 % 100));
    (0..tries).any(|_| machines.upload(device, round).status.success())
}

// Aggregators are killed while gateways upload and two collectors collect. Each round has one sum, of one cohort, with
// every acknowledged device.
#[test]
fn restarts_give_one_sum_a_round() {
    let wanted: usize = std::env::var("DAMPER_PRIO_KILLS").map_or(50, |count| count.parse().unwrap());
    let rounds = 100;
    let (_folder, machines) = machines(DeviceNoise::Shares, rounds);
    let (stop, kills) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| restart(&machines, &stop, &kills));
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let mut round = 0;
            while kills.load(Ordering::Relaxed) < wanted {
                assert!(round < rounds);
                // One device stops after its first try.
                let shy = u64::from(round % 4) + 1;
                let acknowledged: Vec<u64> = (1..=4)
                    .filter(|device| upload_patiently(&machines, *device, round, if *device == shy { 1 } else { 200 }))
                    .collect();
                let tls = machines.tls("certificates", "collector");
                let sums: Vec<Vec<u8>> = thread::scope(|scope| {
                    let first = scope.spawn(|| machines.collect_as(round, &tls, "first.sum").ok());
                    let mut sums = vec![];
                    for _ in 0..200 {
                        sums.extend(machines.collect(round).ok());
                        if sums.len() == 2 {
                            break;
                        }
                    }
                    assert_eq!(sums.len(), 2, "round {round}: {:?}", machines.collect(round));
                    sums.extend(first.join().unwrap());
                    sums
                });
                assert!(sums.iter().all(|sum| *sum == sums[0]), "round {round}: two sums");
                // Both may have stored the report of the device that stopped.
                let [of_acknowledged, of_all] =
                    [&acknowledged[..], &[1, 2, 3, 4]].map(|devices| machines.of.sum_in_clear(devices, round));
                assert!(sums[0] == of_acknowledged || sums[0] == of_all, "round {round}: {acknowledged:?}");
                round += 1;
            }
            round
        }));
        stop.store(true, Ordering::Relaxed);
        match tried {
            Ok(rounds) => println!("{} restarts, {rounds} rounds, one sum a round", kills.load(Ordering::Relaxed)),
            Err(panic) => resume_unwind(panic),
        }
    });
}

/// Connects to an aggregator with the certificate `file`.
fn link(machines: &Machines, file: &str, as_party: Party, to: usize) -> std::io::Result<Link> {
    let at = |name: String| machines.folder.join("certificates").join(name);
    let ca = at("ca.crt".into());
    let identity = PartyIdentity::read(as_party, &ca, &at(format!("{file}.crt")), &at(format!("{file}.key"))).unwrap();
    let party = [Party::Leader, Party::Helper][to];
    let address = machines.addresses[to].clone();
    Link::connect(&AggregatorAddress { address, party, fingerprint: None, config: identity.client().unwrap() })
}

// Only a certificate of the federation's authority with the party's name can act as that party. A pinned certificate
// cannot be replaced.
#[test]
fn other_certificates_are_refused() {
    let (folder, mut machines) = machines(DeviceNoise::Local, 2);
    make_certificates(&folder.path().join("foreign"));
    let certificates = folder.path().join("certificates");
    make_certificate(&certificates, "both", "DNS:gateway,DNS:collector");
    make_certificate(&certificates, "nobody", "DNS:example.org");
    for device in 1..=3 {
        assert!(machines.upload(device, 0).status.success());
    }
    // A gateway that collects with its own certificate: the command rejects it, and so does each aggregator.
    let error = machines.collect_as(0, &machines.tls("certificates", "gateway"), "b.sum").unwrap_err();
    assert!(error.contains("a certificate of gateway, not of collector"), "{error}");
    let patience = Patience::of_upload();
    let collect = AggregatorRequest::Collect(machines.of.plan.digest(), 0, machines.of.request(0));
    let [of_leader, of_helper] = machines.of.uploads(4, 0);
    for (to, upload) in [(LEADER, of_leader), (HELPER, of_helper)] {
        for (file, party, request) in [
            ("gateway", Party::Gateway, collect.clone()),
            ("leader", Party::Leader, collect.clone()),
            ("helper", Party::Helper, collect.clone()),
            ("collector", Party::Collector, AggregatorRequest::Upload(upload.clone())),
            ("collector", Party::Collector, AggregatorRequest::Key(0, [0; 32])),
            ("gateway", Party::Gateway, AggregatorRequest::Key(0, [0; 32])),
        ] {
            match link(&machines, file, party, to).and_then(|mut link| link.ask(&request, patience)) {
                Ok(answer) => assert_eq!(answer, Answer::Refused(Refusal::Certificate), "{file} {to}"),
                // A report is longer than any message of a collector.
                Err(error) => assert!(matches!(request, AggregatorRequest::Upload(_)), "{file} {to} {error}"),
            }
        }
    }
    // Another authority: the aggregators reject it, and a gateway rejects aggregators of another authority.
    let mut foreign = machines.tls("foreign", "collector");
    assert!(machines.collect_as(0, &foreign, "b.sum").unwrap_err().contains("certificates are of one authority"));
    foreign = machines.tls("foreign", "gateway");
    assert!(!machines.upload_as(4, 0, &foreign, &[]).status.success());
    let mut trusting = machines.tls("certificates", "gateway");
    trusting[1] = folder.path().join("foreign/ca.crt").display().to_string();
    assert!(!machines.upload_as(4, 0, &trusting, &[]).status.success());
    // The names of two parties, or of none.
    for (file, found) in [("both", "no one party"), ("nobody", "no one party")] {
        let refused = machines.upload_as(4, 0, &machines.tls("certificates", file), &[]);
        assert!(text(&refused).contains(found), "{}", text(&refused));
    }
    // openssl as a client without a certificate.
    let shown = Command::new("openssl")
        .args(["s_client", "-ign_eof", "-connect", &machines.addresses[LEADER], "-CAfile"])
        .arg(certificates.join("ca.crt"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut shown = shown.unwrap();
    // A message that gets an answer if it arrives.
    let _ = shown.stdin.take().unwrap().write_all(&[1, 0, 0, 0, 0]);
    let shown = shown.wait_with_output().unwrap();
    assert!(text(&shown).contains("certificate required"), "{}", text(&shown));
    // The fingerprint of another certificate.
    let gateway = machines.tls("certificates", "gateway");
    let print = |party: &str| {
        let output = Command::new("openssl")
            .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
            .arg(certificates.join(format!("{party}.crt")))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().rsplit('=').next().unwrap().to_owned()
    };
    let (leader, helper) = (print("leader"), print("helper"));
    let wrong = machines.upload_as(4, 0, &gateway, &["--leader-fingerprint", &helper]);
    assert!(text(&wrong).contains("another certificate"), "{}", text(&wrong));
    let pinned = ["--leader-fingerprint", &leader, "--helper-fingerprint", &helper];
    let sent = machines.upload_as(4, 0, &gateway, &pinned);
    assert!(sent.status.success(), "{}", text(&sent));
    // Another certificate for the leader, of the same authority.
    make_certificate(&certificates, "stand-in", "DNS:leader");
    let ask_as = |machines: &Machines, file: &str| {
        let mut link = link(machines, file, Party::Leader, HELPER).unwrap();
        // An error that is sent before the request is also received.
        thread::sleep(Duration::from_millis(300));
        link.ask(&AggregatorRequest::Key(1, [0; 32]), patience).unwrap()
    };
    machines.more[HELPER] = ["--peer-fingerprint", &leader].map(String::from).into();
    machines.restart(HELPER);
    assert_eq!(ask_as(&machines, "stand-in"), Answer::Refused(Refusal::Certificate));
    assert_eq!(ask_as(&machines, "leader"), Answer::Done);
    machines.more[LEADER] = ["--peer-fingerprint", &leader].map(String::from).into();
    machines.restart(LEADER);
    assert!(machines.collect(0).unwrap_err().contains("the other aggregator does not answer"));
    machines.more[LEADER] = ["--peer-fingerprint", &helper].map(String::from).into();
    machines.restart(LEADER);
    assert_eq!(machines.collect(0).unwrap(), machines.of.sum_in_clear(&[1, 2, 3, 4], 0));
}

// With a fixed delay a report is sent that long after the request, whenever the update was ready.
#[test]
fn report_leaves_at_the_fixed_delay() {
    let folder = tempfile::tempdir().unwrap();
    let mut of = Federation::new(folder.path(), DeviceNoise::Local, 1);
    of.plan.reply_seconds = Some(5);
    let machines = Machines::new(folder.path(), of);
    let asked = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let flags = ["--requested-at", &asked.to_string()];
    let tls = machines.tls("certificates", "gateway");
    thread::scope(|scope| {
        for device in [1, 2, 3] {
            let (machines, tls) = (&machines, &tls);
            scope.spawn(move || {
                let sent = machines.upload_as(device, 0, tls, &flags);
                assert!(sent.status.success(), "{}", text(&sent));
                assert!(SystemTime::now() >= SystemTime::UNIX_EPOCH + Duration::from_secs(asked + 5));
            });
        }
        thread::sleep(Duration::from_secs(2));
        assert!(machines.collect(0).unwrap_err().contains("smallest cohort"));
        assert!(
            fs::read_dir(folder.path().join("helper"))
                .unwrap()
                .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with("device-") })
        );
    });
    assert_eq!(machines.collect(0).unwrap(), machines.of.sum_in_clear(&[1, 2, 3], 0));
}

// Each error is one line with place, problem and fix.
#[test]
fn errors_are_one_line() {
    let (folder, machines) = machines(DeviceNoise::Local, 2);
    let gateway = machines.tls("certificates", "gateway");
    let path = |name: &str| folder.path().join(name);
    let clear = FederationPlan { aggregation: Aggregation::Clear, ..machines.of.plan.clone() };
    fs::write(path("clear.json"), clear.to_json()).unwrap();
    let delayed = FederationPlan { reply_seconds: Some(3), ..machines.of.plan.clone() };
    fs::write(path("delayed.json"), delayed.to_json()).unwrap();
    let delayed = support::update_with(&delayed.header(2, 0), 1);
    fs::write(path("delayed.upd"), delayed).unwrap();
    fs::write(path("short"), [0; 7]).unwrap();
    fs::write(path("not-finite"), f32::NAN.to_le_bytes().repeat(support::DIM)).unwrap();
    fs::write(path("one.upd"), machines.of.update(2, 0)).unwrap();
    fs::write(path("other.upd"), support::update_with(&machines.of.plan.header(77, 0), 1)).unwrap();
    let upload = "upload --plan plan.json --round 0 --update one.upd --key-of-member member-2.key --folder g --leader [L] --helper [H]";
    let collect = "collect --plan plan.json --round 0 --out x.sum --leader [L] --helper [H]";
    let late = upload.replace("plan.json", "delayed.json").replace("one.upd", "delayed.upd");
    let aggregator = "aggregator --role helper --plan plan.json --listen 127.0.0.1:0 --folder other";
    for (arguments, party, wanted) in [
        (upload.replace("plan.json", "none.json"), "gateway", "none.json: "),
        (upload.replace("plan.json", "short"), "gateway", "short: not a federation's plan"),
        (upload.replace("--round 0", "--round 2"), "gateway", "--round 2: the plan has rounds 0 to 1;"),
        (upload.replace("--round 0", "--round 1"), "gateway", "--params: needed from round 1 on;"),
        (format!("{upload} --params short"), "gateway", "short: not 40 finite float32 words;"),
        (format!("{upload} --params not-finite"), "gateway", "not-finite: not 40 finite float32 words;"),
        (upload.replace("member-2", "member-3"), "gateway", "one.upd: the key is not that of device 2 in the plan;"),
        (upload.replace("one.upd", "other.upd"), "gateway", "other.upd: the plan has no device 77;"),
        (upload.replace("one.upd", "short"), "gateway", "short: not an update"),
        (upload.replace("member-2.key", "short"), "gateway", "short: others on this machine can read it"),
        (upload.to_owned(), "collector", "collector.crt: a certificate of collector, not of gateway;"),
        (upload.replace("[L]", "127.0.0.1:1"), "gateway", "--leader 127.0.0.1:1: "),
        (upload.replace("[L]", "[H]"), "gateway", "--leader 127."),
        (format!("{upload} --leader-fingerprint 12"), "gateway", "invalid value '12'"),
        (format!("{upload} --requested-at 5"), "gateway", "--requested-at: the plan has no fixed delay;"),
        (late.clone(), "gateway", "--requested-at: the plan has devices answer 3 s after they are asked;"),
        (
            format!("{late} --requested-at 99999999999999"),
            "gateway",
            "--requested-at 99999999999999: it is in the future;",
        ),
        (format!("{late} --requested-at {}", u64::MAX), "gateway", "it is in the future;"),
        (format!("{late} --requested-at 1700000000"), "gateway", "delayed.upd: device 2: its update is later than"),
        (collect.to_owned(), "collector", "leader 127."),
        (collect.replace("x.sum", "no/x.sum"), "collector", "no/x.sum: cannot be written"),
        (aggregator.replace("plan.json", "clear.json"), "helper", "clear.json: the plan is not for aggregators;"),
        (aggregator.replace("helper", "leader"), "leader", "--peer"),
        (format!("{aggregator} --peer x:1"), "helper", "--peer: the helper asks nobody;"),
        (aggregator.replace("127.0.0.1:0", "[L]"), "helper", "--listen 127."),
        (aggregator.replace("--folder other", "--folder helper"), "helper", "helper: in use by another process;"),
    ] {
        let tls = if party == "gateway" { gateway.clone() } else { machines.tls("certificates", party) };
        let arguments =
            arguments.replace("[L]", &machines.addresses[LEADER]).replace("[H]", &machines.addresses[HELPER]);
        let all: Vec<&str> = arguments.split(' ').chain(tls.iter().map(String::as_str)).collect();
        let output = machines.run(&all);
        let said = text(&output);
        assert!(
            !output.status.success() && said.starts_with("error: ") && said.contains(wanted),
            "{arguments}: {said}"
        );
        // Errors of the flags themselves are clap's.
        assert!(said.trim_end().lines().count() == 1 || output.status.code() == Some(2), "{said}");
    }
    assert!(!path("x.sum").exists());
}

// Forged reports, noise instead of TLS, damaged messages, and silent clients. The honest round is summed meanwhile.
#[test]
fn attacks_do_not_stop_a_round() {
    let (_folder, machines) = machines(DeviceNoise::Local, 3);
    let patience = Patience::of_upload();
    let silent: Vec<TcpStream> = (0..100).map(|at| TcpStream::connect(&machines.addresses[at % 2]).unwrap()).collect();
    // One certificate holds the maximum number of connections.
    make_certificate(&machines.folder.join("certificates"), "greedy", "DNS:gateway");
    let slow: Vec<Link> = (0..32).map(|at| link(&machines, "greedy", Party::Gateway, at % 2).unwrap()).collect();
    let full = link(&machines, "greedy", Party::Gateway, LEADER).and_then(|mut link| link.ask_bytes(&[9], patience));
    assert!(full.is_err() || full.as_ref().is_ok_and(|answer| *answer == Answer::Refused(Refusal::Busy)), "{full:?}");
    let mut chance = Chance(3);
    for at in 0..200 {
        let mut noise = TcpStream::connect(&machines.addresses[at % 2]).unwrap();
        let bytes: Vec<u8> = (0..chance.below(300)).map(|_| chance.next() as u8).collect();
        let _ = noise.write_all(&bytes);
    }
    let uploads = machines.of.uploads(2, 0);
    let count: usize = std::env::var("DAMPER_PRIO_FUZZ").map_or(1500, |count| count.parse().unwrap());
    for to in [LEADER, HELPER] {
        let good = uploads[to].to_bytes();
        let mut gateway = link(&machines, "gateway", Party::Gateway, to).unwrap();
        for _ in 0..count / 2 {
            let bytes = [&[1][..], &chance.damage(&good)].concat();
            if bytes[1..] == good {
                continue;
            }
            match gateway.ask_bytes(&bytes, patience) {
                Ok(answer) => assert!(matches!(answer, Answer::Refused(_)), "{answer:?}"),
                // Too long: the connection ends.
                Err(_) => gateway = link(&machines, "gateway", Party::Gateway, to).unwrap(),
            }
        }
        // Longer than any report of the plan.
        let ended = gateway.ask_bytes(&vec![1; 1 << 20], patience);
        assert!(ended.is_err(), "{ended:?}");
    }
    // A report of device 1, signed by the owner of device 2.
    let scheme = damper_prio::Scheme::of_plan(&machines.of.plan, 0).unwrap();
    let report = damper_prio::shard(&scheme, &machines.of.update(1, 0)).unwrap();
    let forged = Upload::sign(&machines.of.plan, machines.of.request(0), &report, machines.of.key(2));
    for (to, upload) in forged.into_iter().enumerate() {
        let answer =
            link(&machines, "gateway", Party::Gateway, to).unwrap().ask(&AggregatorRequest::Upload(upload), patience);
        assert_eq!(answer.unwrap(), Answer::Refused(Refusal::Signature));
    }
    let begun = Instant::now();
    for device in 1..=4 {
        let sent = machines.upload(device, 0);
        assert!(sent.status.success(), "{}", text(&sent));
    }
    assert_eq!(machines.collect(0).unwrap(), machines.of.sum_in_clear(&[1, 2, 3, 4], 0));
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop((silent, slow));
}

// The folder of a helper or a leader is removed: no second sum, and the next round is summed.
#[test]
fn removed_folder_gives_no_second_sum() {
    let (folder, machines) = machines(DeviceNoise::Shares, 8);
    for (round, role) in [(0, LEADER), (2, HELPER)] {
        for device in 1..=4 {
            assert!(machines.upload(device, round).status.success());
        }
        assert_eq!(machines.collect(round).unwrap(), machines.of.sum_in_clear(&[1, 2, 3, 4], round));
        machines.kill(role);
        fs::remove_dir_all(folder.path().join(["leader", "helper"][role])).unwrap();
        machines.restart(role);
        // Three of the devices report again, from gateways that lost their folders as well.
        for device in 1..=3 {
            fs::remove_dir_all(folder.path().join(format!("gateway-{device}"))).unwrap();
            let _ = machines.upload(device, round);
        }
        let refused = machines.collect(round).unwrap_err();
        assert!(refused.contains("closed") || refused.contains("smallest cohort"), "{refused}");
        for device in 1..=4 {
            let sent = machines.upload(device, round + 1);
            assert!(sent.status.success(), "{}", text(&sent));
        }
        assert_eq!(machines.collect(round + 1).unwrap(), machines.of.sum_in_clear(&[1, 2, 3, 4], round + 1));
    }
}
