//! The report in a few lines, for people.

use super::TrainReport;
use crate::accounting::{Sampler, upward};
use crate::train::CLIPPED_BY_BACKEND;
use std::fmt;

impl fmt::Display for TrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(held_out) = &self.held_out {
            let samples = held_out.samples;
            match (self.test_accuracy, self.test_loss) {
                (Some(accuracy), Some(loss)) => {
                    let perplexity = self.test_perplexity.map_or(String::new(), |p| format!(", perplexity {p:.2}"));
                    writeln!(
                        f,
                        "accuracy  {:.2} %  (loss {loss:.4}{perplexity}, on {samples} held-out samples)",
                        100.0 * accuracy
                    )?;
                }
                (None, Some(loss)) => writeln!(f, "loss      {loss:.6}  (on {samples} held-out samples)")?,
                _ => {}
            }
        } else {
            writeln!(f, "accuracy  not measured: the data has no held-out samples (--test gives some)")?;
        }
        let kind =
            if self.run == "simulation" { "  SIMULATION: the seed is known, nothing of it is private" } else { "" };
        writeln!(f, "epsilon   {}{kind}", upward(self.epsilon))?;
        writeln!(f, "delta     {:e}", self.delta)?;
        let on_grid = match (self.mechanism.sigma_grid, self.mechanism.grid_bits) {
            (Some(sigma), Some(bits)) => format!("  (= {sigma} / 2^{bits}, exact)"),
            _ if self.privacy.path == CLIPPED_BY_BACKEND => "  (continuous, clipped by the backend: not exact)".into(),
            _ => "  (continuous: not exact)".into(),
        };
        let differences = self.method.differences();
        if !differences.is_empty() {
            writeln!(f, "method    {}: {differences}", self.method.name)?;
        } else if self.method.name != "dp-sgd" {
            writeln!(f, "method    {}: with these flags every step is one of dp-sgd", self.method.name)?;
        }
        let when = if self.method.has_schedule() { " in the first step" } else { "" };
        writeln!(
            f,
            "sigma     {:.4} x clip {}{when}{on_grid}",
            self.mechanism.gradient_multiplier, self.mechanism.clip
        )?;
        if self.method.clip_last != self.method.clip_first {
            writeln!(f, "clip      {} at first, {} at the end", self.method.clip_first, self.method.clip_last)?;
        }
        let samples = self.privacy.public_samples();
        let batch = self.mechanism.expected_batch;
        match self.privacy.sampler {
            Sampler::Poisson => {
                let steps = self.steps;
                writeln!(f, "draws     {steps} Poisson draws, {batch} of {samples} samples expected in each")?;
            }
            Sampler::Shuffled => writeln!(
                f,
                "batches   {} of {batch} of {samples} samples, shuffled: {} epochs, each an event at a rate of 1",
                self.steps, self.privacy.events
            )?,
        }
        write!(
            f,
            "time      {:.1} s on {} {}, {} {}",
            self.seconds,
            self.backend,
            self.versions.backend,
            self.training.workers,
            if self.training.workers == 1 { "thread" } else { "threads" }
        )
    }
}
