//! Generates the crate's own test: its gradient has the bits of the portable backend on any machine.

use crate::network::{Network, Port};
use crate::source::{arguments, rendered};
use askama::Template;

/// Returns element `at` of the sample's floats. Its integers are 0.
pub(crate) fn value(at: usize) -> f32 {
    (at * 37 % 101) as f32 / 101.0
}

/// Fields of the template of `tests/same_bits.rs`.
#[derive(Template)]
#[template(path = "same_bits.rs.j2", escape = "none")]
struct TestFile<'a> {
    module: String,
    ports: Vec<(&'a str, &'a Port)>,
    given: String,
}

/// Generates the source of `tests/same_bits.rs`.
pub(crate) fn source(network: &Network, name: &str) -> String {
    let arguments = arguments(network);
    rendered(&TestFile {
        module: name.replace('-', "_"),
        ports: arguments.iter().map(String::as_str).zip(&network.inputs).collect(),
        given: arguments.iter().map(|name| format!("&{name}, ")).collect(),
    })
}
