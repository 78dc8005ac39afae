//! Origin of a run: the names of its model and data, and its day.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Names of a run's inputs, and the day of its start. All of it is public, as the command line is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunOrigin {
    /// Name of the model's file without its folders, or of the built network.
    pub model: String,
    /// Kind and name of the data without their folders: `idx:digits`.
    pub data: String,
    /// Day of the start in UTC: `2026-11-29`. A resumed run has that of its last start.
    pub date: String,
}

impl RunOrigin {
    /// Returns the origin of a run that started at `started`, of the file or network `model` and of `data`, as
    /// `KIND:PATH`.
    #[must_use]
    pub fn new(model: &str, data: &str, started: SystemTime) -> Self {
        let since = started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let data = match data.split_once(':') {
            // Arrays of a program have no name.
            Some(("memory", _)) => "arrays of a program".into(),
            Some((kind, path)) => format!("{kind}:{}", name(path)),
            None => name(data).into(),
        };
        Self { model: name(model).into(), data, date: date(since.as_secs() / 86_400) }
    }
}

/// Returns the last part of a path.
fn name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

/// Returns the Gregorian date of a day after 1 January 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn date(day: u64) -> String {
    // Years start on 1 March, so that the leap day is the last. An era has 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The reference counts the days of each month.
    #[test]
    fn dates_follow_the_calendar() {
        let (mut year, mut month, mut of_month) = (1970, 1, 1);
        for day in 0..200_000 {
            assert_eq!(date(day), format!("{year:04}-{month:02}-{of_month:02}"), "day {day}");
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            of_month += 1;
            if of_month > days {
                (month, of_month) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn origin_has_names_without_folders() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (model, data, seconds, wanted) in [
            (
                "onnx-models/digits-cnn.onnx",
                "idx:onnx-models/digits/",
                0,
                ["digits-cnn.onnx", "idx:digits", "1970-01-01"],
            ),
            ("linear", "csv:/home/a/table.csv", 86_399, ["linear", "csv:table.csv", "1970-01-01"]),
            ("./m.onnx", "memory:train", 951_782_400, ["m.onnx", "arrays of a program", "2000-02-29"]),
            ("m.onnx", "images:.", 1_795_910_400, ["m.onnx", "images:.", "2026-11-29"]),
        ] {
            let RunOrigin { model, data, date } = RunOrigin::new(model, data, at(seconds));
            assert_eq!([&*model, &*data, &*date], wanted);
        }
    }
}
