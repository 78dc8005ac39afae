//! Sentences on the accounting of a run, derived from its sampler and its noise. Every match is exhaustive: a new
//! sampler has to state its claims.

use damper_accounting::{Accountant, CorrelatedRun, Sampler};

/// Returns the computation of ε.
pub(super) fn accountant(
    accountant: Accountant,
    is_by_orders: bool,
    sampler: Sampler,
    is_correlated: bool,
    is_discrete: bool,
) -> String {
    let mechanism = match (sampler, is_correlated) {
        (Sampler::Poisson, _) => "the Poisson-subsampled Gaussian",
        (Sampler::CyclicPoisson, false) => "the Poisson-subsampled Gaussian, one for a draw of each group",
        (Sampler::CyclicPoisson, true) => {
            "the Poisson-subsampled Gaussian with correlated noise, one for a draw of each group"
        }
        (Sampler::Shuffled, _) => "the Gaussian without amplification by sampling, one for an epoch",
        (Sampler::MinSeparation, false) => "the Gaussian without amplification by sampling, one for an epoch",
        (Sampler::MinSeparation, true) => {
            "the Gaussian without amplification by sampling, one for the whole run with its correlated noise"
        }
    };
    let discrete = if is_discrete {
        "; the discrete Gaussian is bounded by the continuous one at a multiplier 4e-6 smaller"
    } else {
        "; in real numbers, which the floats of this run are not"
    };
    match (accountant, is_by_orders) {
        (Accountant::Pld, true) => format!(
            "Rényi divergences of {mechanism}, converted to (epsilon, delta), every rounding upward: over so many steps a smaller bound \
             than that of privacy loss distributions{discrete}"
        ),
        (Accountant::Rdp, _) => {
            let discrete = if is_discrete { "" } else { discrete };
            format!("Rényi divergences of {mechanism}, converted to (epsilon, delta), every rounding upward{discrete}")
        }
        (Accountant::Pld, false) => format!(
            "privacy loss distributions of {mechanism}, both directions, composed by a Fourier transform, every rounding and its own error \
             upward{discrete}"
        ),
    }
}

/// Returns the effect of one sample over more than one step.
pub(super) fn over_the_run(sampler: Sampler, correlated: Option<&CorrelatedRun>) -> String {
    let sensitivity = |correlated: &CorrelatedRun| {
        // Rounded up, because it is a bound.
        (correlated.sensitivity() * 1e6).ceil() / 1e6
    };
    match (sampler, correlated) {
        (Sampler::Poisson, _) => String::new(),
        (Sampler::CyclicPoisson, None) => ", in one step of each cycle of groups".into(),
        (Sampler::Shuffled | Sampler::MinSeparation, None) => ", in one step of an epoch".into(),
        (Sampler::CyclicPoisson, Some(run)) => format!(
            ", and by one draw all steps of a cycle, in units of their correlated noise, by at most {} clips",
            sensitivity(run)
        ),
        (Sampler::Shuffled | Sampler::MinSeparation, Some(run)) => format!(
            ", and all {} of its steps together, in units of the correlated noise, by at most {} clips",
            run.participation.participations(),
            sensitivity(run)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes contain no words that hold only for another kind of run.
    #[test]
    fn notes_are_of_their_kind() {
        for sampler in [Sampler::Poisson, Sampler::CyclicPoisson, Sampler::Shuffled, Sampler::MinSeparation] {
            for (by, orders) in [(Accountant::Pld, false), (Accountant::Pld, true), (Accountant::Rdp, true)] {
                for is_correlated in [false, true] {
                    for is_discrete in [false, true] {
                        let note = accountant(by, orders, sampler, is_correlated, is_discrete);
                        assert_eq!(note.contains("Poisson-subsampled"), sampler.has_coins(), "{note}");
                        assert_eq!(note.contains("without amplification"), !sampler.has_coins(), "{note}");
                        assert!(!note.contains("discrete") || is_discrete, "{note}");
                        assert_eq!(note.contains("floats"), !is_discrete, "{note}");
                        assert_eq!(note.contains("Fourier"), by == Accountant::Pld && !orders, "{note}");
                        let is_told =
                            is_correlated && matches!(sampler, Sampler::CyclicPoisson | Sampler::MinSeparation);
                        assert_eq!(note.contains("correlated"), is_told, "{note}");
                    }
                }
            }
        }
    }
}
