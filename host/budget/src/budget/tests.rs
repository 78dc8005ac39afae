use super::*;
use crate::cost::cost;
use damper_accounting::{Accountant, Recorded, RunParts, Truncation, pld::Neighbours};
use damper_core::accounting::{Rate, SampledGaussian};

const DELTA: f64 = 1e-5;

fn plan(steps: u32, multiplier: f64) -> RunPlan {
    let rate = Rate::of(64, 1437).unwrap();
    let events = [(SampledGaussian::new(rate, multiplier).unwrap(), u64::from(steps))];
    RunPlan {
        run: "private".into(),
        path: "exact".into(),
        steps,
        steps_per_event: 1,
        evaluate_every: None,
        events: Recorded::new(Accountant::Pld, DELTA, &events),
    }
}

fn made() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.budget");
    BudgetFile::create(&path, BudgetHeader::new("data".into(), Some(8.0), DELTA)).unwrap();
    (folder, path)
}

fn reserve(path: &Path, plan: RunPlan) -> Reservation {
    BudgetFile::open(path).unwrap().reserve("train", Path::new("out"), plan).unwrap()
}

#[test]
fn cost_composes_all_events() {
    let (one, two) = (plan(100, 1.0).events, plan(50, 2.0).events);
    let joined = |one: &Recorded, two: &Recorded| {
        let draws = [one.parts().draws, two.parts().draws].concat();
        one.with(&RunParts { draws: &draws, ..one.parts() })
    };
    let whole = joined(&one, &two);
    let of = |runs: &[&Recorded]| cost(runs, DELTA, Neighbours::AddOrRemove).unwrap();
    assert_eq!(of(&[&one, &two]), whole.epsilon(Accountant::Pld, DELTA).unwrap().epsilon);
    assert_eq!(of(&[&one]), one.epsilon(Accountant::Pld, DELTA).unwrap().epsilon);
    assert_eq!(of(&[]), 0.0);
    // Truncated draws cost the same as in one run with as many truncated draws, and more than draws without truncation.
    let truncation = Some(Truncation { samples: 1437, most: 120 });
    let cut = |run: &Recorded| run.with(&RunParts { truncation, ..run.parts() });
    let joined = cut(&joined(&one, &one));
    let (both, joined) = (of(&[&cut(&one), &cut(&one)]), joined.epsilon(Accountant::Pld, DELTA).unwrap().epsilon);
    assert!((both / joined - 1.0).abs() < 1e-9 && both > of(&[&one, &one]), "{both} {joined}");
}

#[test]
fn narrowed_charges_count_paid_steps() {
    let (_folder, path) = made();
    let first = reserve(&path, plan(100, 1.0));
    let whole = BudgetFile::open(&path).unwrap().record().epsilon(None).unwrap();
    first.narrow(64).unwrap();
    let record = BudgetFile::open(&path).unwrap().record().clone();
    assert_eq!((record.charges[0].steps, record.charges[0].plan.steps), (64, 100));
    let left = record.epsilon(None).unwrap();
    assert!(left < whole && left == cost(&[&plan(64, 1.0).events], DELTA, Neighbours::AddOrRemove).unwrap());
    reserve(&path, plan(10, 1.0)).narrow(0).unwrap();
    assert_eq!(BudgetFile::open(&path).unwrap().record().epsilon(None).unwrap(), left);
}

#[test]
fn run_beyond_the_limit_charges_nothing() {
    let (_folder, path) = made();
    reserve(&path, plan(100, 1.0));
    let before = std::fs::read(&path).unwrap();
    let error = BudgetFile::open(&path).unwrap().reserve("train", Path::new("out"), plan(10_000, 0.5)).unwrap_err();
    assert!(matches!(error, BudgetError::Exceeded { .. }), "{error}");
    let simulation = RunPlan { run: "simulation".into(), ..plan(1, 5.0) };
    assert!(BudgetFile::open(&path).unwrap().reserve("train", Path::new("out"), simulation).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// A file with any changed byte, or a file that ends within a line, is an error.
#[test]
fn every_damage_is_found() {
    let (_folder, path) = made();
    reserve(&path, plan(100, 1.0)).narrow(64).unwrap();
    reserve(&path, plan(20, 2.0));
    let whole = std::fs::read(&path).unwrap();
    assert!(parse(&whole).is_ok());
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(parse(&changed).is_err(), "byte {at}");
        let at_line_end = at > 0 && whole[at - 1] == b'\n';
        assert_eq!(parse(&whole[..at]).is_ok(), at_line_end, "{at} bytes");
    }
    // A torn line can be recorded for any position of the tear, and the file stays usable.
    let from = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(BudgetFile::repair(&path).unwrap() && std::fs::read(&path).unwrap() == whole);
    for at in (from + 1..whole.len() - 1).step_by(17) {
        std::fs::write(&path, &whole[..at]).unwrap();
        assert!(BudgetFile::open(&path).unwrap_err().to_string().contains("`repair`"));
        assert!(BudgetFile::repair(&path).unwrap());
        reserve(&path, plan(5, 2.0));
        let record = BudgetFile::open(&path).unwrap().record().clone();
        assert_eq!((record.charges.len(), record.torn), (2, vec![4]));
        assert!(!BudgetFile::repair(&path).unwrap());
    }
}
