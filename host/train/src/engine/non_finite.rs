//! Counts samples without a finite gradient, which add nothing to a step. A run of only such samples trains on noise
//! alone.
//!
//! # Privacy
//!
//! The count is a function of single samples, without noise. It goes to the private folder, and to
//! [`Progress::data_warning`], for the owner of the data. A threshold that learns from counts includes these samples
//! only if requested (`count_non_finite`).

use crate::state::files::{self, Access};
use crate::{Progress, Run, TrainError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The file of the count in the private folder. Absent if the count is 0.
pub const NON_FINITE: &str = "non-finite.json";

/// Maximum number of samples checked before the first step.
const FIRST: usize = 32;

/// The fix for a model or its data.
const REMEDY: &str =
    "scale the features (`scale`, `normalize`), look for values that overflow, or check the model's initial weights";

/// The numbers of samples drawn so far, and of those without a finite gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NonFinite {
    /// Number of steps before the first counted step. More than 0 if an earlier process found no such samples.
    first_step: u32,
    /// Number of steps so far.
    steps: u32,
    /// Number of samples drawn, with repetitions.
    drawn: u64,
    /// Number of those samples without a finite gradient, which added nothing.
    non_finite: u64,
    /// True if a step without any finite gradient was already reported.
    #[serde(skip)]
    is_told: bool,
}

impl NonFinite {
    /// Continues the count in `folder`, if it has the same number of steps.
    pub(crate) fn begin(folder: Option<&Path>, step: u32) -> Self {
        let kept =
            folder.and_then(|folder| serde_json::from_slice::<Self>(&fs::read(folder.join(NON_FINITE)).ok()?).ok());
        kept.filter(|kept| step > 0 && kept.steps == step).unwrap_or(Self {
            first_step: step,
            steps: step,
            ..Self::default()
        })
    }

    /// Counts a step. The first step without any finite gradient is reported immediately.
    pub(crate) fn add(&mut self, drawn: usize, non_finite: u32, progress: &mut dyn Progress) {
        self.steps += 1;
        self.drawn += drawn as u64;
        self.non_finite += u64::from(non_finite);
        if drawn > 0 && non_finite as usize == drawn && !self.is_told {
            self.is_told = true;
            progress.data_warning(&format!(
                "step {}: none of the {drawn} samples drawn has a finite gradient, so the step was noise alone; {REMEDY}",
                self.steps
            ));
        }
    }

    /// Returns the numbers of samples drawn, and of those without a finite gradient.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.drawn, self.non_finite]
    }

    /// Replaces the counts.
    pub(crate) fn with_counts(self, [drawn, non_finite]: [u64; 2]) -> Self {
        Self { drawn, non_finite, ..self }
    }

    /// Writes the count into the private folder, if it is not 0.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), TrainError> {
        if self.non_finite == 0 {
            return Ok(());
        }
        let text = files::json(self).map_err(|error| TrainError::Run(error.to_string()))?;
        Ok(files::write(&folder.join(NON_FINITE), text.as_bytes(), Access::Private)?)
    }

    /// Reports the count at the end, if it is not 0.
    pub(crate) fn tell(&self, progress: &mut dyn Progress) {
        let Self { drawn, non_finite, .. } = self;
        if *non_finite > 0 {
            let what = if non_finite == drawn { ", so the model is noise alone" } else { "" };
            progress.data_warning(&format!(
                "{non_finite} of the {drawn} samples drawn had no finite gradient and added nothing{what}; {REMEDY}"
            ));
        }
    }
}

/// Returns the first samples of `run`, which are checked before the first step. They are at most a physical batch,
/// without null samples.
pub(crate) fn first_samples(run: &Run) -> Vec<u32> {
    let split = &run.data.train;
    let own = split.rows_held();
    let rows = own.filter(|row| !split.is_null(*row)).take(run.model.physical_batch.get().min(FIRST));
    rows.map(|row| row as u32).collect()
}

/// Warns if any of the first `samples` have no finite gradient.
pub(crate) fn tell_first(non_finite: u64, samples: usize, progress: &mut dyn Progress) {
    if non_finite > 0 {
        progress.data_warning(&format!(
            "before the first step: {non_finite} of the first {samples} samples have no finite gradient, so they would add nothing; {REMEDY}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Progress for Heard {
        fn data_warning(&mut self, text: &str) {
            self.0.push(text.into());
        }
    }

    #[test]
    fn count_goes_on_after_a_stop() {
        let folder = tempfile::tempdir().unwrap();
        let mut heard = Heard::default();
        let mut count = NonFinite::begin(Some(folder.path()), 0);
        count.add(10, 3, &mut heard);
        count.write(folder.path()).unwrap();
        assert_eq!(NonFinite::begin(Some(folder.path()), 1), count);
        // A count with another number of steps is not continued.
        for (step, first_step) in [(0, 0), (2, 2)] {
            let other = NonFinite::begin(Some(folder.path()), step);
            assert_eq!((other.first_step, other.counts()), (first_step, [0, 0]));
        }
    }

    // A step without any finite gradient is reported once, and the count at the end. Empty draws are ordinary.
    #[test]
    fn steps_of_noise_alone_are_told_once() {
        let mut heard = Heard::default();
        let mut count = NonFinite::begin(None, 0);
        count.add(0, 0, &mut heard);
        count.tell(&mut heard);
        assert!(heard.0.is_empty());
        count.add(4, 4, &mut heard);
        count.add(5, 5, &mut heard);
        count.tell(&mut heard);
        assert_eq!(heard.0.len(), 2, "{:?}", heard.0);
        assert!(heard.0[0].starts_with("step 2: none of the 4 samples"), "{:?}", heard.0);
        assert!(
            heard.0[1].starts_with("9 of the 9 samples drawn") && heard.0[1].contains("noise alone"),
            "{:?}",
            heard.0
        );
    }
}
