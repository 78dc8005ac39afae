//! First screen of a page: what was trained, on which data, when, and how good it is.

use super::rows::{Rows, grouped};
use crate::record::{HeldOutRecord, RunOrigin, TestFigures};
use std::borrow::Cow;

/// A figure with its name and a note.
pub(super) struct Card {
    pub(super) name: Cow<'static, str>,
    pub(super) value: String,
    pub(super) note: String,
}

/// Returns the rows on model, data and date. A record of an earlier version has no names.
pub(super) fn facts(origin: Option<&RunOrigin>, parameters: usize, samples: u64, training: String) -> Rows {
    let (parameters, samples) = (grouped(parameters as u64), grouped(samples));
    let (model, data, date) = match origin {
        Some(RunOrigin { model, data, date }) => (format!("{model}: "), format!("{data}: "), date.clone()),
        None => Default::default(),
    };
    vec![
        ("model", format!("{model}{parameters} trained parameters")),
        ("data", format!("{data}{samples} training samples")),
        ("date", date),
        ("training", training),
    ]
}

/// Returns the figure on the held-out samples that readers ask for first.
pub(super) fn accuracy(held_out: Option<&HeldOutRecord>, test: &TestFigures) -> Card {
    let card = |name: &'static str, value: String, note: String| Card { name: name.into(), value, note };
    let Some(HeldOutRecord { samples, metrics, .. }) = held_out else {
        return card("accuracy", "not measured".into(), "the data had no held-out samples".into());
    };
    let secrecy = match &**metrics {
        "private" => "with noise, which ε covers",
        _ => "exact: ε does not cover these samples",
    };
    let note = format!("on {} held-out samples; {secrecy}", grouped(*samples as u64));
    match (test.accuracy, test.r_squared, test.loss) {
        (Some(accuracy), ..) => card("accuracy", format!("{:.2} %", 100.0 * accuracy), note),
        (None, Some(r_squared), _) => card("R²", format!("{r_squared:.4}"), note),
        (None, None, Some(loss)) => card("loss", format!("{loss:.4}"), note),
        _ => card("accuracy", "not measured".into(), "nothing was computed from the held-out samples".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_states_if_epsilon_covers_it() {
        let of = |metrics: &'static str| HeldOutRecord {
            samples: 12_345,
            counted: "samples".into(),
            public: "".into(),
            metrics: metrics.into(),
            noise: None,
            by_class: None,
            last_iterate: None,
            by_class_missing: None,
        };
        let test = TestFigures { accuracy: Some(0.9375), loss: Some(0.5), perplexity: None, r_squared: None };
        let exact = accuracy(Some(&of("exact")), &test);
        assert_eq!(
            (&*exact.value, &*exact.note),
            ("93.75 %", "on 12\u{202f}345 held-out samples; exact: ε does not cover these samples")
        );
        assert!(accuracy(Some(&of("private")), &test).note.ends_with("with noise, which ε covers"));
        let loss = TestFigures { accuracy: None, ..test };
        assert_eq!(accuracy(Some(&of("exact")), &loss).name, "loss");
        let none = TestFigures { accuracy: None, loss: None, ..test };
        assert_eq!(accuracy(Some(&of("none")), &none).value, "not measured");
        assert_eq!(accuracy(None, &test).value, "not measured");
    }
}
