//! Reads the distribution of the number of candidates.

use damper_accounting::{AccountingError, CandidateCount};

/// The distribution, or what to give, without the name of the setting.
pub(super) fn count(text: &str) -> Result<CandidateCount, String> {
    text.parse().map_err(|error: AccountingError| error.to_string().replace("`tune_private`: ", ""))
}
