//! State, errors and recovery of aggregators. Both are in one process, each with its folder.

#[path = "support/federation.rs"]
mod federation;
#[path = "memory/lost.rs"]
mod lost;
#[path = "support/pair.rs"]
mod support;

use damper_federation::{DeviceNoise, MemberKey, request_digest};
use damper_prio::{
    Aggregator, AggregatorRequest, Answer, FolderError, Gateway, GatewayError, Helper, InputShare, Leader, Party,
    Refusal, ReportSet, Role, Scheme, Service, Upload, combine, shard,
};
use federation::{Chance, Federation};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// The helper, called through encoded messages.
struct Local(Arc<Service>);

impl Helper for Local {
    fn ask(&self, request: &AggregatorRequest) -> Result<Answer, Refusal> {
        let answer = self.0.answer(Party::Leader, &request.to_bytes());
        match Answer::from_bytes(&answer.to_bytes()).unwrap() {
            Answer::Refused(refusal) => Err(refusal),
            answer => Ok(answer),
        }
    }
}

struct Both {
    leader: Service,
    helper: Arc<Service>,
}

fn quiet(_: &str) {}

impl Both {
    fn open(folder: &Path, of: &Federation) -> Self {
        let open = |role: Role| Aggregator::open(&folder.join(role.name()), of.plan.clone(), role, quiet).unwrap();
        let helper = Arc::new(Service::Helper(open(Role::Helper)));
        let leader = Service::Leader(Leader::new(open(Role::Leader), Box::new(Local(helper.clone()))));
        Self { leader, helper }
    }

    fn send(&self, [leader, helper]: [Upload; 2]) -> [Answer; 2] {
        let of =
            |service: &Service, upload| service.answer(Party::Gateway, &AggregatorRequest::Upload(upload).to_bytes());
        [of(&self.leader, leader), of(&self.helper, helper)]
    }

    fn collect_at(&self, of: &Federation, round: u32, request: [u8; 32]) -> Result<(ReportSet, [Vec<u8>; 2]), Refusal> {
        let question = AggregatorRequest::Collect(of.plan.digest(), round, request).to_bytes();
        let ask = |service: &Service| match service.answer(Party::Collector, &question) {
            Answer::Share(cohort, share) => Ok((cohort, share)),
            Answer::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        };
        let ((cohort, leaders), (same, helpers)) = (ask(&self.leader)?, ask(&self.helper)?);
        assert_eq!(cohort, same);
        Ok((cohort, [leaders, helpers]))
    }

    fn collect(&self, of: &Federation, round: u32) -> Result<(ReportSet, [Vec<u8>; 2]), Refusal> {
        self.collect_at(of, round, of.request(round))
    }
}

const DONE: [Answer; 2] = [Answer::Done, Answer::Done];

fn refused(refusal: Refusal) -> [Answer; 2] {
    [Answer::Refused(refusal), Answer::Refused(refusal)]
}

/// Returns the sum of the shares.
fn sum(of: &Federation, (cohort, [leaders, helpers]): &(ReportSet, [Vec<u8>; 2])) -> Vec<u8> {
    let scheme = Scheme::of_plan(&of.plan, cohort.round).unwrap();
    combine(&scheme, cohort.reports.len(), [leaders, helpers]).unwrap()
}

fn place() -> (tempfile::TempDir, Federation) {
    let folder = tempfile::tempdir().unwrap();
    let of = Federation::new(folder.path(), DeviceNoise::Shares, 6);
    (folder, of)
}

// The sum equals the sum in clear over the devices that reported. Both aggregators return the same bytes again, also
// after a restart.
#[test]
fn sum_is_that_in_clear_and_stays() {
    for noise in [DeviceNoise::Local, DeviceNoise::Shares] {
        let folder = tempfile::tempdir().unwrap();
        let of = Federation::new(folder.path(), noise, 6);
        let both = Both::open(folder.path(), &of);
        for round in [0, 1, 4] {
            let devices: Vec<u64> = if round == 1 { vec![1, 3, 4] } else { vec![1, 2, 3, 4] };
            devices.iter().for_each(|device| assert_eq!(both.send(of.uploads(*device, round)), DONE));
            let collected = both.collect(&of, round).unwrap();
            assert!(collected.0.reports.keys().eq(&devices));
            assert_eq!(sum(&of, &collected), of.sum_in_clear(&devices, round));
            assert_eq!(both.collect(&of, round).unwrap(), collected);
            // A late device is in no sum.
            if round == 1 {
                assert_eq!(both.send(of.uploads(2, 1)), refused(Refusal::Passed));
                assert_eq!(both.collect(&of, round).unwrap(), collected);
            }
        }
        // Rounds increase: 1 and 3 are passed.
        for round in [1, 3] {
            assert_eq!(both.send(of.uploads(1, round)), refused(Refusal::Passed));
            assert_eq!(both.collect(&of, round).unwrap_err(), Refusal::Passed);
        }
        let last = both.collect(&of, 4).unwrap();
        drop(both);
        let both = Both::open(folder.path(), &of);
        assert_eq!(both.collect(&of, 4).unwrap(), last);
        assert_eq!(both.collect(&of, 6).unwrap_err(), Refusal::Round);
    }
}

// Changed reports, and reports of non-members of the round, count nowhere. The honest round is summed.
#[test]
fn forged_reports_do_not_count() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    let scheme = Scheme::of_plan(&of.plan, 1).unwrap();
    let report = shard(&scheme, &of.update(2, 1)).unwrap();
    let request = of.request(1);
    let sign = |report: &damper_prio::Report, request, key: &MemberKey| Upload::sign(&of.plan, request, report, key);
    // Devices outside the plan, signed by a member or by a stranger.
    let stranger = MemberKey::create(&folder.path().join("stranger")).unwrap();
    for device in [0, 5, 77, 1 << 40, u64::MAX] {
        let update = support::update_with(&of.plan.header(device, 1), device);
        let report = shard(&scheme, &update).unwrap();
        for key in [of.key(1), &stranger] {
            assert_eq!(both.send(sign(&report, request, key)), refused(Refusal::Member), "{device}");
        }
    }
    // Another member, or a stranger, signs for device 2.
    for key in [of.key(1), &stranger] {
        assert_eq!(both.send(sign(&report, request, key)), refused(Refusal::Signature));
    }
    let good = sign(&report, request, of.key(2));
    let other_plan = Federation::new(tempfile::tempdir().unwrap().path(), DeviceNoise::Local, 6).plan;
    let all = |change: &dyn Fn(&mut Upload)| {
        let mut both = good.clone();
        both.iter_mut().for_each(change);
        both
    };
    for forged in [
        all(&|upload| upload.signature = [0; 64]),
        all(&|upload| upload.round = 2),
        all(&|upload| upload.request = of.request(2)),
        all(&|upload| upload.nonce[3] ^= 1),
        all(&|upload| upload.public_share[0] ^= 1),
        all(&|upload| upload.device = 1),
        all(&|upload| upload.shares.swap(0, 1)),
        Upload::sign(&other_plan, request, &report, of.key(2)),
    ] {
        assert_eq!(both.send(forged), refused(Refusal::Signature));
    }
    // One share exchanged, or both swapped.
    let [leaders, helpers] = good.clone();
    let mut changed = good.clone();
    changed[0].share.0[9] ^= 1;
    changed[1].share.0[9] ^= 1;
    for forged in [[helpers, leaders], changed] {
        assert_eq!(both.send(forged), refused(Refusal::Share));
    }
    // A member signs different reports for helper and leader. A report has an invalid proof. A report has another
    // request.
    let again = sign(&shard(&scheme, &of.update(2, 1)).unwrap(), request, of.key(2));
    assert_eq!(both.send([good[0].clone(), again[1].clone()]), DONE);
    assert_eq!(both.send([again[0].clone(), good[1].clone()]), refused(Refusal::Counted));
    for device in [1, 3, 4] {
        assert_eq!(both.send(of.uploads(device, 1)), DONE);
    }
    let collected = both.collect(&of, 1).unwrap();
    assert!(collected.0.reports.keys().eq(&[1, 3, 4]));
    assert_eq!(sum(&of, &collected), of.sum_in_clear(&[1, 3, 4], 1));
    // A replay of round 1 in round 2 and later.
    assert_eq!(both.send(good), refused(Refusal::Passed));

    let scheme = Scheme::of_plan(&of.plan, 2).unwrap();
    let mut lie = shard(&scheme, &of.update(1, 2)).unwrap();
    let at = lie.leader.0.len() / 2;
    lie.leader.0[at] ^= 1;
    assert_eq!(both.send(sign(&lie, of.request(2), of.key(1))), DONE);
    let short = damper_prio::Report { helper: InputShare(vec![1, 2]), ..shard(&scheme, &of.update(2, 2)).unwrap() };
    assert_eq!(both.send(sign(&short, of.request(2), of.key(2))), DONE);
    assert_eq!(both.send(of.uploads(3, 2)), DONE);
    assert_eq!(both.send(of.uploads(4, 2)), DONE);
    // Two are left, and three are needed, so nothing is fixed or charged.
    assert_eq!(both.collect(&of, 2).unwrap_err(), Refusal::Small);
    assert_eq!(both.send(sign(&lie, of.request(2), of.key(1)))[0], Answer::Refused(Refusal::Proof));
    (1..=4).for_each(|device| assert_eq!(both.send(of.uploads(device, 3)), DONE));
    assert_eq!(sum(&of, &both.collect(&of, 3).unwrap()), of.sum_in_clear(&[1, 2, 3, 4], 3));
}

// If a server gives devices different parameters, they do not get into one sum, and the others get no second sum.
#[test]
fn one_request_is_summed_once() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    (1..=3).for_each(|device| assert_eq!(both.send(of.uploads(device, 0)), DONE));
    let other = request_digest(&of.plan, 0, Some(&[7.0; support::DIM]));
    let report = shard(&Scheme::of_plan(&of.plan, 0).unwrap(), &of.update(4, 0)).unwrap();
    assert_eq!(both.send(Upload::sign(&of.plan, other, &report, of.key(4))), DONE);
    assert_eq!(both.collect_at(&of, 0, other).unwrap_err(), Refusal::Small);
    let collected = both.collect(&of, 0).unwrap();
    assert!(collected.0.reports.keys().eq(&[1, 2, 3]));
    assert_eq!(both.collect_at(&of, 0, other).unwrap_err(), Refusal::Request);
    assert_eq!(both.collect(&of, 0).unwrap(), collected);
}

// A charge that cannot be written releases nothing until the folder is opened again. A report that cannot be stored is
// not acknowledged.
#[test]
fn failed_writes_release_nothing() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    let at = |name: &str| folder.path().join("helper").join(name);
    fs::create_dir(at("device-3")).unwrap();
    assert_eq!(both.send(of.uploads(3, 0)), [Answer::Done, Answer::Refused(Refusal::Disk)]);
    fs::remove_dir(at("device-3")).unwrap();
    [1, 2, 4].iter().for_each(|device| assert_eq!(both.send(of.uploads(*device, 0)), DONE));
    fs::create_dir(at("round-0.cohort")).unwrap();
    assert_eq!(both.collect(&of, 0).unwrap_err(), Refusal::Disk);
    fs::remove_dir(at("round-0.cohort")).unwrap();
    fs::rename(at("ledger.json"), at("kept")).unwrap();
    fs::create_dir(at("ledger.json")).unwrap();
    assert_eq!(both.collect(&of, 0).unwrap_err(), Refusal::Disk);
    fs::remove_dir(at("ledger.json")).unwrap();
    fs::rename(at("kept"), at("ledger.json")).unwrap();
    assert_eq!(both.collect(&of, 0).unwrap_err(), Refusal::Disk);
    drop(both);
    let both = Both::open(folder.path(), &of);
    assert_eq!(sum(&of, &both.collect(&of, 0).unwrap()), of.sum_in_clear(&[1, 2, 4], 0));
    let ledger = fs::read_to_string(at("ledger.json")).unwrap();
    assert!(ledger.contains("\"paid\":1"), "{ledger}");
}

// Before a cohort is fixed, a helper that lost its folder accepts the same reports again.
#[test]
fn kept_reports_repair_an_open_round() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    let uploads: Vec<[Upload; 2]> = (1..=4).map(|device| of.uploads(device, 0)).collect();
    uploads.iter().for_each(|upload| assert_eq!(both.send(upload.clone()), DONE));
    let Service::Leader(leader) = &both.leader else { unreachable!() };
    leader.verify_ready().unwrap();
    drop(both);
    fs::remove_dir_all(folder.path().join("helper")).unwrap();
    let both = Both::open(folder.path(), &of);
    assert_eq!(both.collect(&of, 0).unwrap_err(), Refusal::Small);
    uploads.iter().for_each(|upload| assert_eq!(both.send(upload.clone()), DONE));
    assert_eq!(sum(&of, &both.collect(&of, 0).unwrap()), of.sum_in_clear(&[1, 2, 3, 4], 0));
}

// A member has one report. A later round's report replaces it, and an earlier round's is rejected. So a member cannot
// fill a disk.
#[test]
fn member_has_one_report() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    assert_eq!(both.send(of.uploads(1, 3)), DONE);
    assert_eq!(both.send(of.uploads(1, 2)), refused(Refusal::Counted));
    assert_eq!(both.send(of.uploads(1, 3)), refused(Refusal::Counted));
    assert_eq!(both.send(of.uploads(1, 4)), DONE);
    let Service::Leader(leader) = &both.leader else { unreachable!() };
    leader.verify_ready().unwrap();
    let names = fs::read_dir(folder.path().join("leader")).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".key")) && names.contains(&"device-1".into()), "{names:?}");
}

// The aggregators enforce their own rules against a dishonest leader: a helper fixes no small, unverified or second
// cohort.
#[test]
fn helper_trusts_no_leader() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    (1..=4).for_each(|device| assert_eq!(both.send(of.uploads(device, 0)), DONE));
    let Service::Leader(leader) = &both.leader else { unreachable!() };
    let ask = |request: AggregatorRequest| both.helper.answer(Party::Leader, &request.to_bytes());
    let cohort = |devices: &[u64]| {
        let mut cohort = leader.aggregator().verified(0, of.request(0));
        cohort.reports.retain(|device, _| devices.contains(device));
        cohort
    };
    let stored = ReportSet {
        reports: (1..=3).map(|device| (device, of.uploads(device, 0)[0].digest())).collect(),
        ..cohort(&[])
    };
    assert_eq!(ask(AggregatorRequest::Fix(stored)), Answer::Refused(Refusal::Unverified));
    leader.verify_ready().unwrap();
    assert_eq!(ask(AggregatorRequest::Fix(cohort(&[1, 2]))), Answer::Refused(Refusal::Small));
    let mut foreign = cohort(&[1, 2, 3]);
    foreign.reports.insert(77, [1; 32]);
    assert_eq!(ask(AggregatorRequest::Fix(foreign)), Answer::Refused(Refusal::Unverified));
    let collect = AggregatorRequest::Collect(of.plan.digest(), 0, of.request(0)).to_bytes();
    assert_eq!(both.helper.answer(Party::Collector, &collect), Answer::Refused(Refusal::Open));
    assert_eq!(ask(AggregatorRequest::Key(0, [9; 32])), Answer::Refused(Refusal::Key));
    assert_eq!(ask(AggregatorRequest::Fix(cohort(&[1, 2, 3]))), Answer::Done);
    assert_eq!(ask(AggregatorRequest::Fix(cohort(&[1, 2, 4]))), Answer::Refused(Refusal::Cohort));
    assert_eq!(ask(AggregatorRequest::Fix(cohort(&[1, 2, 3, 4]))), Answer::Refused(Refusal::Cohort));
    // The leader has another cohort, and the helper's stays.
    assert_eq!(leader.collect(0, of.request(0)).unwrap_err(), Refusal::Passed);
}

// Each party may send only its own requests.
#[test]
fn parties_have_their_own_requests() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    let [leaders, helpers] = of.uploads(1, 0);
    let cohort = ReportSet { round: 0, request: of.request(0), reports: [(1, [0; 32])].into() };
    for (service, upload) in [(&both.leader, leaders), (&*both.helper, helpers)] {
        let requests = [
            (AggregatorRequest::Upload(upload), vec![Party::Gateway]),
            (AggregatorRequest::Collect(of.plan.digest(), 0, of.request(0)), vec![Party::Collector]),
            (AggregatorRequest::Hello(of.plan.digest(), 0), vec![Party::Leader]),
            (AggregatorRequest::Key(0, [0; 32]), vec![Party::Leader]),
            (AggregatorRequest::Verify(1, [0; 32], vec![]), vec![Party::Leader]),
            (AggregatorRequest::Offer(cohort.clone()), vec![Party::Leader]),
            (AggregatorRequest::Fix(cohort.clone()), vec![Party::Leader]),
        ];
        for (request, may) in requests {
            for party in Party::ALL {
                let answer = service.answer(party, &request.to_bytes());
                let is_free = may.contains(&party) && (party != Party::Leader || service.role() == Role::Helper);
                assert_eq!(
                    answer != Answer::Refused(Refusal::Certificate),
                    is_free,
                    "{party:?} {request:?} {answer:?}"
                );
            }
        }
    }
}

// Random and damaged messages of every party cause no panic, report, key or cohort.
#[test]
fn damaged_messages_change_nothing() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    let uploads: Vec<[Upload; 2]> = (1..=4).map(|device| of.uploads(device, 0)).collect();
    uploads[..3].iter().for_each(|upload| assert_eq!(both.send(upload.clone()), DONE));
    let Service::Leader(leader) = &both.leader else { unreachable!() };
    leader.verify_ready().unwrap();
    let cohort = leader.aggregator().verified(0, of.request(0));
    let [of_leader, of_helper] = uploads[3].clone();
    let good = [
        AggregatorRequest::Upload(of_leader),
        AggregatorRequest::Upload(of_helper),
        AggregatorRequest::Hello(of.plan.digest(), 0),
        AggregatorRequest::Verify(1, cohort.reports[&1], vec![3; 900]),
        AggregatorRequest::Offer(cohort.clone()),
        AggregatorRequest::Collect(of.plan.digest(), 0, of.request(0)),
    ]
    .map(|request| request.to_bytes());
    let mut chance = Chance(40);
    let count: usize = std::env::var("DAMPER_PRIO_FUZZ").map_or(6000, |count| count.parse().unwrap());
    for _ in 0..count {
        let bytes = match chance.below(3) {
            0 => (0..chance.below(200)).map(|_| chance.next() as u8).collect(),
            _ => {
                let bytes = &good[chance.below(good.len())];
                chance.damage(bytes)
            }
        };
        // A changed bit may be changed back.
        if good.contains(&bytes) {
            continue;
        }
        for party in [Party::Gateway, Party::Collector, Party::Helper] {
            for service in [&both.leader, &*both.helper] {
                let answer = service.answer(party, &bytes);
                assert!(matches!(answer, Answer::Refused(_)), "{party:?} {answer:?} {bytes:?}");
            }
        }
        // The leader is trusted only for availability: it may set other keys of rounds that are not open yet, and pass
        // rounds.
        if !matches!(bytes.first(), Some(2 | 3)) {
            both.helper.answer(Party::Leader, &bytes);
        }
        let _ = Answer::from_bytes(&bytes);
    }
    assert_eq!(both.send(uploads[3].clone()), DONE);
    let collected = both.collect(&of, 0).unwrap();
    assert_eq!(sum(&of, &collected), of.sum_in_clear(&[1, 2, 3, 4], 0));
}

// A gateway sends exactly the same report again, and no other report of a round.
#[test]
fn gateway_keeps_one_report_a_round() {
    let (folder, of) = place();
    let gateway = Gateway::open(&folder.path().join("gateway")).unwrap();
    let request = of.request(1);
    let (update, other) = (of.update(1, 1), support::update_with(&of.plan.header(1, 1), 999));
    let first = gateway.report(&of.plan, 1, request, &update, of.key(1), None).unwrap();
    assert!(matches!(Gateway::open(&folder.path().join("gateway")), Err(GatewayError::Running(_))));
    drop(gateway);
    let gateway = Gateway::open(&folder.path().join("gateway")).unwrap();
    assert_eq!(gateway.report(&of.plan, 1, request, &update, of.key(1), None).unwrap(), first);
    let error = |round, request, update: &[u8], key: u64| {
        gateway.report(&of.plan, round, request, update, of.key(key), None).unwrap_err()
    };
    assert!(matches!(error(1, request, &other, 1), GatewayError::Other { device: 1, round: 1 }));
    assert!(matches!(error(1, of.request(2), &update, 1), GatewayError::Other { device: 1, round: 1 }));
    assert!(matches!(error(1, request, &update, 2), GatewayError::OtherKey(1)));
    assert!(matches!(error(0, of.request(0), &of.update(1, 0), 1), GatewayError::Passed { device: 1, kept: 1 }));
    gateway.report(&of.plan, 2, of.request(2), &of.update(1, 2), of.key(1), None).unwrap();
    assert!(matches!(error(1, request, &update, 1), GatewayError::Passed { device: 1, kept: 2 }));
}

// With a fixed delay no report is made late, and a stored report is sent again at any time.
#[test]
fn late_report_is_not_made() {
    let (folder, of) = place();
    let gateway = Gateway::open(&folder.path().join("gateway")).unwrap();
    let (update, request, now) = (of.update(1, 0), of.request(0), SystemTime::now());
    let report = |due: SystemTime| gateway.report(&of.plan, 0, request, &update, of.key(1), Some(due));
    assert!(matches!(report(now), Err(GatewayError::Late(1))));
    let kept = report(now + Duration::from_secs(60)).unwrap();
    assert_eq!(report(now).unwrap(), kept);
}

// Plans without members or without Prio, other plans and other roles do not open a folder.
#[test]
fn folder_is_of_one_plan_and_role() {
    let (folder, of) = place();
    let open = |plan: &damper_federation::FederationPlan, role| {
        Aggregator::open(&folder.path().join("a"), plan.clone(), role, quiet).map(|_| ())
    };
    let clear = damper_federation::FederationPlan { aggregation: Default::default(), ..of.plan.clone() };
    let open_to_all = damper_federation::FederationPlan { members: vec![], ..of.plan.clone() };
    for plan in [clear, open_to_all] {
        assert!(matches!(open(&plan, Role::Leader), Err(FolderError::Plan(_))));
    }
    open(&of.plan, Role::Leader).unwrap();
    assert!(matches!(open(&of.plan, Role::Helper), Err(FolderError::Role { .. })));
    let other = damper_federation::FederationPlan { clip: 0.5, ..of.plan.clone() };
    assert!(matches!(open(&other, Role::Leader), Err(FolderError::Federation(_))));
    open(&of.plan, Role::Leader).unwrap();
}
