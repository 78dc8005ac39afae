//! Summary of a report in a few lines.

use crate::record::{Execution, HeldOutRecord, NotPrivateReport, TestFigures, TrainReport, Versions};
use damper_accounting::{Sampler, upward};
use damper_train::{CLIPPED_BY_BACKEND, ClassFigures, LastIterate};
use std::fmt;

/// Text after the ε of a simulation.
pub const SIMULATION: &str = "  SIMULATION: the seed is known, nothing of it is private";

/// Writes the line on the run's time.
fn time(f: &mut fmt::Formatter<'_>, execution: &Execution, versions: &Versions, workers: usize) -> fmt::Result {
    let threads = if workers == 1 { "thread" } else { "threads" };
    let Execution { seconds, backend, .. } = execution;
    write!(f, "time      {seconds} s on {}, {workers} {threads}", versions.of_backend(backend))
}

/// Writes the line on accuracy, loss and perplexity on the held-out samples.
fn held_out(f: &mut fmt::Formatter<'_>, held_out: Option<&HeldOutRecord>, test: &TestFigures) -> fmt::Result {
    let Some(held_out) = held_out else {
        return writeln!(f, "accuracy  not measured: the data has no held-out samples (`test` gives some)");
    };
    let samples = held_out.samples;
    let secrecy = match &*held_out.metrics {
        "private" => "with noise, covered by epsilon",
        _ => "exact, not covered by epsilon",
    };
    match (test.accuracy, test.loss) {
        (Some(accuracy), Some(loss)) => {
            let perplexity = test.perplexity.map_or(String::new(), |p| format!(", perplexity {p:.2}"));
            writeln!(
                f,
                "accuracy  {:.2} %  (loss {loss:.4}{perplexity}, on {samples} held-out samples; {secrecy})",
                100.0 * accuracy
            )
        }
        (None, Some(loss)) => {
            let r_squared = test.r_squared.map_or(String::new(), |r_squared| format!("R² {r_squared:.4}, "));
            writeln!(f, "loss      {loss:.6}  ({r_squared}on {samples} held-out samples; {secrecy})")
        }
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

/// Writes the line on means over the classes, and on the class with the lowest accuracy.
fn by_class(f: &mut fmt::Formatter<'_>, held_out: Option<&HeldOutRecord>) -> fmt::Result {
    let Some(found) = held_out.and_then(|held_out| held_out.by_class.as_ref()) else { return Ok(()) };
    let number = |name: &str, figure: Option<f64>| figure.map(|figure| format!("{name} {figure:.4}"));
    let known = found.classes.iter().filter_map(|class| Some((class, class.accuracy?)));
    let worst = known.min_by(|a, b| a.1.total_cmp(&b.1));
    let worst =
        worst.map(|(class, accuracy)| format!("least right: class {}, {:.2} %", class_name(class), 100.0 * accuracy));
    let parts = [number("macro F1", found.macro_f1), number("AUC", found.macro_auc), worst];
    writeln!(f, "classes   {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Formats a class by its index, and its name if it has one.
pub(crate) fn class_name(class: &ClassFigures) -> String {
    match &class.name {
        // A name comes from a file: remove characters that would move a terminal's cursor.
        Some(name) => {
            let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{} ({name})", class.class)
        }
        None => class.class.to_string(),
    }
}

/// Writes the lines on the method, its noise and the releases before the steps.
fn mechanism(f: &mut fmt::Formatter<'_>, report: &TrainReport) -> fmt::Result {
    let on_grid = match (report.mechanism.sigma_grid, report.mechanism.grid_bits) {
        (Some(sigma), Some(bits)) => format!("  (= {sigma} / 2^{bits}, exact)"),
        _ if report.privacy.path == CLIPPED_BY_BACKEND => "  (continuous, clipped by the backend: not exact)".into(),
        _ => "  (continuous: not exact)".into(),
    };
    let differences = report.method.differences();
    if !differences.is_empty() {
        writeln!(f, "method    {}: {differences}", report.method.name)?;
    } else if report.method.name != "dp-sgd" {
        writeln!(f, "method    {}: with these flags every step is one of dp-sgd", report.method.name)?;
    }
    let when = if report.method.has_schedule() { " in the first step" } else { "" };
    writeln!(
        f,
        "sigma     {:.4} x clip {}{when}{on_grid}",
        report.mechanism.gradient_multiplier, report.mechanism.clip
    )?;
    if let Some(normalize) = &report.normalize {
        let (multiplier, epsilon) = (normalize.noise_multiplier, upward(normalize.epsilon));
        writeln!(
            f,
            "features  scaled by released means and deviations (sigma {multiplier:.4}; epsilon {epsilon} alone, part of the above)"
        )?;
    }
    if let Some(non_finite) = &report.non_finite {
        writeln!(f, "counted   {non_finite}")?;
    }
    if let Some(scale) = &report.training.label_scale {
        writeln!(f, "labels    scaled by {scale} for training; loss and model are in the labels' unit")?;
    }
    if let Some(correlation) = &report.mechanism.correlation {
        let (name, times, multiplier) =
            (&correlation.noise_correlation, report.privacy.events, report.noise_multiplier);
        let events = if times == 1 { "one event".into() } else { format!("{times} events") };
        writeln!(f, "noise     {name}, correlated over steps: {events} of multiplier {multiplier:.4}")?;
    }
    if report.method.clip_last != report.method.clip_first {
        writeln!(f, "clip      {} at first, {} at the end", report.method.clip_first, report.method.clip_last)?;
    }
    Ok(())
}

/// Writes the line on the draws.
fn draws(f: &mut fmt::Formatter<'_>, report: &TrainReport) -> fmt::Result {
    let samples = report.privacy.public_samples();
    let batch = report.mechanism.expected_batch;
    match report.privacy.sampler {
        Sampler::Poisson if report.privacy.declared_samples.is_some() => writeln!(
            f,
            "draws     {} Poisson draws at a rate of {} (`dataset_size` {samples}); the divisor is {batch}",
            report.steps, report.sampling_rate
        ),
        Sampler::Poisson => {
            let steps = report.steps;
            writeln!(f, "draws     {steps} Poisson draws, {batch} of {samples} samples expected in each")
        }
        Sampler::CyclicPoisson => writeln!(
            f,
            "draws     {} Poisson draws, {batch} of {samples} samples expected in each, a sample in one of {} at most",
            report.steps,
            report.steps.div_ceil(u32::try_from(report.privacy.events).unwrap_or(u32::MAX).max(1))
        ),
        Sampler::MinSeparation => writeln!(
            f,
            "batches   {} of {batch} of {samples} samples, in one order: {} event(s) at a rate of 1",
            report.steps, report.privacy.events
        ),
        Sampler::Shuffled => writeln!(
            f,
            "batches   {} of {batch} of {samples} samples, shuffled: {} epochs, each an event at a rate of 1",
            report.steps, report.privacy.events
        ),
    }
}

impl fmt::Display for TrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        held_out(f, self.held_out.as_ref(), &self.test)?;
        by_class(f, self.held_out.as_ref())?;
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
        mechanism(f, self)?;
        draws(f, self)?;
        time(f, &self.execution, &self.versions, self.training.workers)
    }
}

impl fmt::Display for NotPrivateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "NOT PRIVATE: no gradient was clipped and no noise was added; no epsilon holds")?;
        held_out(f, self.held_out.as_ref(), &self.test)?;
        by_class(f, self.held_out.as_ref())?;
        let (steps, batch, samples) = (self.steps, self.expected_batch, self.samples);
        match self.sampler {
            Sampler::Poisson | Sampler::CyclicPoisson => {
                writeln!(f, "draws     {steps} Poisson draws, {batch} of {samples} samples expected in each")?;
            }
            Sampler::Shuffled => writeln!(f, "batches   {steps} of {batch} of {samples} samples, shuffled")?,
            Sampler::MinSeparation => writeln!(f, "batches   {steps} of {batch} of {samples} samples, in one order")?,
        }
        time(f, &self.execution, &self.versions, self.training.workers)
    }
}

/// Capitalises the first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
