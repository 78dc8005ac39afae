//! Loss of folders, files and messages.

use super::*;

// An aggregator that lost its folder gets no second sum, because the other aggregator rejects it. The next round is
// summed.
#[test]
fn lost_folder_gives_no_second_sum() {
    for lost in [Role::Leader, Role::Helper] {
        for was_released in [true, false] {
            let (folder, of) = place();
            let both = Both::open(folder.path(), &of);
            (1..=3).for_each(|device| assert_eq!(both.send(of.uploads(device, 1)), DONE));
            let first = if was_released {
                both.collect(&of, 1).unwrap().0
            } else {
                // Fixed on both, released by neither.
                let Service::Leader(leader) = &both.leader else { unreachable!() };
                leader.collect(1, of.request(1)).unwrap().0
            };
            drop(both);
            fs::remove_dir_all(folder.path().join(lost.name())).unwrap();
            let both = Both::open(folder.path(), &of);
            // Other devices, and the same devices with new reports.
            for device in [4, 1, 2, 3] {
                both.send(of.uploads(device, 1));
            }
            match both.collect(&of, 1) {
                Ok((cohort, _)) => panic!("{lost:?} {was_released}: {first:?} and {cohort:?}"),
                Err(refusal) => {
                    assert!(
                        matches!(refusal, Refusal::Passed | Refusal::Key | Refusal::Cohort | Refusal::Small),
                        "{refusal:?}"
                    );
                }
            }
            (1..=4).for_each(|device| assert_eq!(both.send(of.uploads(device, 2)), DONE, "{lost:?}"));
            assert_eq!(sum(&of, &both.collect(&of, 2).unwrap()), of.sum_in_clear(&[1, 2, 3, 4], 2));
        }
    }
}

// Folders are lost in turn. The first aggregator got the charged rounds from the other before.
#[test]
fn folders_lost_in_turn_are_remembered() {
    for order in [[Role::Leader, Role::Helper], [Role::Helper, Role::Leader]] {
        let (folder, of) = place();
        let both = Both::open(folder.path(), &of);
        (1..=4).for_each(|device| assert_eq!(both.send(of.uploads(device, 1)), DONE));
        both.collect(&of, 1).unwrap();
        drop(both);
        for lost in order {
            fs::remove_dir_all(folder.path().join(lost.name())).unwrap();
            let both = Both::open(folder.path(), &of);
            let Service::Leader(leader) = &both.leader else { unreachable!() };
            leader.verify_ready().unwrap();
        }
        let both = Both::open(folder.path(), &of);
        (1..=3).for_each(|device| assert_eq!(both.send(of.uploads(device, 1)), refused(Refusal::Passed), "{order:?}"));
        assert_eq!(both.collect(&of, 1).unwrap_err(), Refusal::Passed);
        (1..=4).for_each(|device| assert_eq!(both.send(of.uploads(device, 2)), DONE));
        both.collect(&of, 2).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

// The files of each moment, with one of them removed as if it had not been written yet. The round ends with the first
// cohort or is rejected.
#[test]
fn any_missing_file_gives_no_second_sum() {
    let (folder, of) = place();
    let both = Both::open(folder.path(), &of);
    (1..=3).for_each(|device| assert_eq!(both.send(of.uploads(device, 0)), DONE));
    let first = both.collect(&of, 0).unwrap();
    drop(both);
    let (whole, tried) = (folder.path().join("whole"), folder.path());
    for role in ["leader", "helper"] {
        copy(&tried.join(role), &whole);
        let names: Vec<PathBuf> = fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(names.iter().any(|name| name.ends_with("round-0.cohort")), "{names:?}");
        for name in &names {
            copy(&whole, &tried.join(role));
            fs::remove_file(tried.join(role).join(name.file_name().unwrap())).unwrap();
            let of_role = if role == "leader" { Role::Leader } else { Role::Helper };
            match Aggregator::open(&tried.join(role), of.plan.clone(), of_role, quiet) {
                Err(FolderError::Damaged(_) | FolderError::Federation(_)) => continue,
                Err(error) => panic!("{error}"),
                Ok(aggregator) => drop(aggregator),
            }
            let both = Both::open(tried, &of);
            (1..=4).for_each(|device| drop(both.send(of.uploads(device, 0))));
            match both.collect(&of, 0) {
                Ok(again) => assert_eq!(again, first, "{name:?}"),
                Err(refusal) => assert!(matches!(refusal, Refusal::Passed | Refusal::Cohort), "{name:?} {refusal:?}"),
            }
        }
        copy(&whole, &tried.join(role));
    }
}

/// A helper that stops at the message of this number, before or after it has read it.
struct Lost {
    helper: Local,
    left: AtomicUsize,
    is_read: bool,
}

impl Helper for Lost {
    fn ask(&self, request: &AggregatorRequest) -> Result<Answer, Refusal> {
        match self.left.load(Ordering::Relaxed) {
            0 => return Err(Refusal::Peer),
            left => self.left.store(left - 1, Ordering::Relaxed),
        }
        let is_last = self.left.load(Ordering::Relaxed) == 0;
        if is_last && !self.is_read {
            return Err(Refusal::Peer);
        }
        let answer = self.helper.ask(request);
        if is_last { Err(Refusal::Peer) } else { answer }
    }
}

// Both aggregators stop between any two messages of a round, and another device reports after it. The round has one
// cohort, and its sum.
#[test]
fn stops_between_messages_keep_the_cohort() {
    let (folder, of) = place();
    let (whole, tried) = (folder.path().join("whole"), folder.path().join("tried"));
    fs::create_dir(&whole).unwrap();
    let both = Both::open(&whole, &of);
    (1..=3).for_each(|device| assert_eq!(both.send(of.uploads(device, 0)), DONE));
    drop(both);
    let fourth = of.uploads(4, 0);
    let clear = [vec![1, 2, 3], vec![1, 2, 3, 4]].map(|devices| of.sum_in_clear(&devices, 0));
    let mut ends = [0, 0];
    for is_read in [false, true] {
        for left in 1.. {
            let _ = fs::remove_dir_all(&tried);
            fs::create_dir(&tried).unwrap();
            ["leader", "helper"].iter().for_each(|role| copy(&whole.join(role), &tried.join(role)));
            let open = |role: Role| Aggregator::open(&tried.join(role.name()), of.plan.clone(), role, quiet).unwrap();
            let helper = Arc::new(Service::Helper(open(Role::Helper)));
            let lost = Lost { helper: Local(helper.clone()), left: left.into(), is_read };
            let leader = Leader::new(open(Role::Leader), Box::new(lost));
            let first = leader.collect(0, of.request(0));
            let fixed = [leader.aggregator().fixed(0), helper.aggregator().fixed(0)];
            // Nothing is charged for a cohort that the helper has not written.
            assert!(fixed[1].is_some() || leader.aggregator().uncharged_round() == 0, "{left}");
            drop((leader, helper));
            let both = Both::open(&tried, &of);
            let sent = both.send(fourth.clone());
            let collected = both.collect(&of, 0).unwrap();
            for before in fixed.into_iter().flatten() {
                assert_eq!(collected.0, before, "{left}");
                assert!(sent.contains(&Answer::Refused(Refusal::Passed)), "{left}");
            }
            let devices = collected.0.reports.len();
            assert_eq!(sum(&of, &collected), clear[devices - 3], "{left}");
            ends[devices - 3] += 1;
            if let Ok((cohort, share)) = first {
                assert_eq!((cohort, share), (collected.0, collected.1[0].clone()));
                break;
            }
        }
    }
    assert!(ends[0] >= 4 && ends[1] >= 4, "{ends:?}");
}
