//! The report in a few lines, for people.

use super::{HeldOut, TrainReport, Versions, by_class};
use damper_accounting::{Sampler, upward};
use damper_train::{CLIPPED_BY_BACKEND, LastIterate};
use std::fmt;

/// Written after the ε of a simulation.
pub const SIMULATION: &str = "  SIMULATION: the seed is known, nothing of it is private";

/// The line of a run's time.
pub(super) fn write_time(
    f: &mut fmt::Formatter<'_>,
    seconds: f64,
    versions: &Versions,
    backend: &str,
    workers: usize,
) -> fmt::Result {
    let threads = if workers == 1 { "thread" } else { "threads" };
    write!(f, "time      {seconds} s on {}, {workers} {threads}", versions.of_backend(backend))
}

/// The line of accuracy, loss and perplexity on the held-out samples.
pub(super) fn held_out(
    f: &mut fmt::Formatter<'_>,
    held_out: Option<&HeldOut>,
    (accuracy, loss, perplexity): (Option<f64>, Option<f64>, Option<f64>),
) -> fmt::Result {
    let Some(held_out) = held_out else {
        return writeln!(f, "accuracy  not measured: the data has no held-out samples (`test` gives some)");
    };
    let samples = held_out.samples;
    let secrecy = match &*held_out.metrics {
        "private" => "with noise, covered by epsilon",
        _ => "exact, not covered by epsilon",
    };
    match (accuracy, loss) {
        (Some(accuracy), Some(loss)) => {
            let perplexity = perplexity.map_or(String::new(), |p| format!(", perplexity {p:.2}"));
            writeln!(
                f,
                "accuracy  {:.2} %  (loss {loss:.4}{perplexity}, on {samples} held-out samples; {secrecy})",
                100.0 * accuracy
            )
        }
        (None, Some(loss)) => writeln!(f, "loss      {loss:.6}  (on {samples} held-out samples; {secrecy})"),
        _ => writeln!(f, "accuracy  not measured (`test_metrics` {})", held_out.metrics),
    }?;
    match held_out.last_iterate {
        Some(LastIterate { loss, accuracy: Some(accuracy) }) => {
            writeln!(f, "last      {:.2} %  (loss {loss:.4}; without averaging, not written)", 100.0 * accuracy)
        }
        Some(LastIterate { loss, accuracy: None }) => {
            writeln!(f, "last      {loss:.6}  (loss without averaging, not written)")
        }
        None => Ok(()),
    }
}

impl fmt::Display for TrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        held_out(f, self.held_out.as_ref(), (self.test_accuracy, self.test_loss, self.test_perplexity))?;
        by_class::line(f, self.held_out.as_ref())?;
        if let Some(early) = &self.early_stop {
            writeln!(f, "{}", early.lines())?;
        }
        let kind = match &*self.run {
            "simulation" => SIMULATION,
            _ if !self.privacy.is_exact() => "  NOT GUARANTEED: sums and noise are floats",
            _ => "",
        };
        for note in self.data.iter().flat_map(|data| &data.notes) {
            writeln!(f, "data      {note}")?;
        }
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
        if let Some(normalize) = &self.normalize {
            let (multiplier, epsilon) = (normalize.noise_multiplier, upward(normalize.epsilon));
            writeln!(
                f,
                "features  scaled by released means and deviations (sigma {multiplier:.4}; epsilon {epsilon} alone, part of the above)"
            )?;
        }
        if let Some(non_finite) = &self.non_finite {
            writeln!(f, "counted   {non_finite}")?;
        }
        if let Some(scale) = &self.training.label_scale {
            writeln!(f, "labels    scaled by {scale} for training; loss and model are in the labels' unit")?;
        }
        if let Some(correlation) = &self.mechanism.correlation {
            let (name, times, multiplier) =
                (&correlation.noise_correlation, self.privacy.events, self.noise_multiplier);
            let events = if times == 1 { "one event".into() } else { format!("{times} events") };
            writeln!(f, "noise     {name}, correlated over steps: {events} of multiplier {multiplier:.4}")?;
        }
        if self.method.clip_last != self.method.clip_first {
            writeln!(f, "clip      {} at first, {} at the end", self.method.clip_first, self.method.clip_last)?;
        }
        let samples = self.privacy.public_samples();
        let batch = self.mechanism.expected_batch;
        match self.privacy.sampler {
            Sampler::Poisson if self.privacy.declared_samples.is_some() => writeln!(
                f,
                "draws     {} Poisson draws at a rate of {} (`dataset_size` {samples}); the divisor is {batch}",
                self.steps, self.sampling_rate
            )?,
            Sampler::Poisson => {
                let steps = self.steps;
                writeln!(f, "draws     {steps} Poisson draws, {batch} of {samples} samples expected in each")?;
            }
            Sampler::CyclicPoisson => writeln!(
                f,
                "draws     {} Poisson draws, {batch} of {samples} samples expected in each, a sample in one of {} at most",
                self.steps,
                self.steps.div_ceil(u32::try_from(self.privacy.events).unwrap_or(u32::MAX).max(1))
            )?,
            Sampler::MinSeparation => writeln!(
                f,
                "batches   {} of {batch} of {samples} samples, in one order: {} event(s) at a rate of 1",
                self.steps, self.privacy.events
            )?,
            Sampler::Shuffled => writeln!(
                f,
                "batches   {} of {batch} of {samples} samples, shuffled: {} epochs, each an event at a rate of 1",
                self.steps, self.privacy.events
            )?,
        }
        write_time(f, self.seconds, &self.versions, &self.backend, self.training.workers)
    }
}
