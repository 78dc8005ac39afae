//! Files other than models and data that the host's commands read: a run's events, a comparison's journal, packs,
//! updates, filters.

use damper::accounting::{Accountant, Recorded};
use damper::aggregate::Aggregate;
use damper::design::Coefficients;
use damper_core::numerics::digest::Digest;

/// `events.json`: refused, or accounted by both accountants.
pub fn events(bytes: &[u8]) {
    let Ok(recorded) = serde_json::from_slice::<Recorded>(bytes) else { return };
    let again = serde_json::to_string(&recorded).expect("it was read");
    assert!(serde_json::from_str::<Recorded>(&again).is_ok_and(|again| again == recorded), "{again}");
    for accountant in [Accountant::Rdp, Accountant::Pld] {
        if let Ok(price) = recorded.epsilon(accountant, recorded.delta) {
            assert!(price.epsilon >= 0.0 && price.epsilon.is_finite(), "{price:?}");
        }
    }
}

/// `runs.jsonl` of a comparison: opened twice, it has the same runs.
pub fn runs(bytes: &[u8]) {
    let path = crate::data::file("runs.jsonl", bytes);
    let Ok(journal) = damper::compare::ComparisonJournal::open(&path) else { return };
    let runs = journal.len();
    drop(journal);
    let again = damper::compare::ComparisonJournal::open(&path).expect("it was opened before");
    assert_eq!(again.len(), runs);
}

/// A pack as `damper replay` plays it, in at most 16 MiB.
pub fn host_pack(bytes: &[u8]) {
    let _ = damper::replay::play(bytes, 16 << 20, |_| ());
}

/// Updates as `damper aggregate` adds them: parts with a kind and a length before each. Parts of even kind get the
/// right digest.
pub fn aggregate(bytes: &[u8]) {
    let (mut rest, mut sum, mut added) = (bytes, Aggregate::default(), 0);
    while let [kind, low, high, after @ ..] = rest {
        let (part, next) = after.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(after.len()));
        let mut part = part.to_vec();
        if kind.is_multiple_of(2) {
            let mut digest = Digest::default();
            digest.add_bytes(&part);
            part.extend(digest.value().to_le_bytes());
        }
        crate::update::update(&part);
        added += usize::from(sum.add("part", &part).is_ok());
        rest = next;
    }
    assert_eq!(sum.header().map_or(0, |header| header.devices as usize), added);
    assert_eq!(sum.to_bytes().is_some(), added > 0);
}

/// The coefficients of a filter, two lists on two lines, and their analysis.
pub fn filter(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (a, b) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(coefficients) = Coefficients::parse(a, b) else { return };
    let _ = coefficients.to_core();
    if coefficients.checked().is_ok() {
        let run = coefficients.as_run();
        assert!(run.checked().is_ok() && run.order() == coefficients.order());
        assert!(!coefficients.flags().is_empty());
    }
}
