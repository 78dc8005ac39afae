//! Parser for the distribution of the number of candidates.

use damper_accounting::{AccountingError, CandidateCount};

/// Parses the distribution. The error is the fix, without the name of the setting.
pub(super) fn count(text: &str) -> Result<CandidateCount, String> {
    text.parse().map_err(|error: AccountingError| error.to_string().replace("`tune_private`: ", ""))
}
