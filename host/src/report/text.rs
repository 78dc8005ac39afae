//! The report in a few lines, for people.

use super::TrainReport;
use std::fmt;

impl fmt::Display for TrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(held_out) = &self.held_out {
            let samples = held_out.samples;
            match (self.test_accuracy, self.test_loss) {
                (Some(accuracy), Some(loss)) => {
                    writeln!(f, "accuracy  {:.2} %  (loss {loss:.4}, on {samples} held-out samples)", 100.0 * accuracy)?;
                }
                (None, Some(loss)) => writeln!(f, "loss      {loss:.6}  (on {samples} held-out samples)")?,
                _ => {}
            }
        } else {
            writeln!(f, "accuracy  not measured: the data has no held-out samples (--test gives some)")?;
        }
        let kind = if self.run == "simulation" { "  SIMULATION: the seed is known, nothing of it is private" } else { "" };
        writeln!(f, "epsilon   {}{kind}", upward(self.epsilon))?;
        writeln!(f, "delta     {}", self.delta)?;
        let on_grid = match (self.mechanism.sigma_grid, self.mechanism.grid_bits) {
            (Some(sigma), Some(bits)) => format!("  (= {sigma} / 2^{bits}, exact)"),
            _ => "  (continuous: not exact)".into(),
        };
        writeln!(f, "sigma     {:.4} x clip {}{on_grid}", self.noise_multiplier, self.mechanism.clip)?;
        writeln!(
            f,
            "draws     {} Poisson draws, {} of {} samples expected in each",
            self.steps,
            self.mechanism.expected_batch,
            self.privacy.declared_samples.unwrap_or(self.privacy.samples)
        )?;
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

/// A number for people: four decimals, never below the number.
pub(crate) fn upward(x: f64) -> String {
    let nearest = format!("{x:.4}");
    match nearest.parse::<f64>() {
        Ok(shown) if shown < x => format!("{:.4}", shown + 1e-4),
        _ => nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::upward;

    #[test]
    fn a_printed_epsilon_is_never_below_the_figure() {
        for x in [0.0, 1.00001, 1.00009, 2.5, 12.345_649_9, 1e-9] {
            let shown: f64 = upward(x).parse().unwrap();
            assert!(shown >= x && shown < x + 1.0001e-4, "{x} {shown}");
        }
    }
}
