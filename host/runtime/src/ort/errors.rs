//! Error messages of onnxruntime.

/// Message without line breaks.
pub(super) fn one_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}
