//! Generates the crate's README: its resources on a device, and its use.

use crate::names::comment;
use crate::network::{Network, Parameter, Part, Port};
use crate::schedule::{Schedule, Step};
use crate::source::{arguments, output_arguments, rendered};
use crate::{Footprint, Language};
use askama::Template;
use damper_runtime::portable::Kernel;

impl Footprint {
    pub(crate) fn of(network: &Network) -> Self {
        let of =
            |schedule: &Schedule| schedule.steps().map(|(count, step)| count as u64 * multiply_adds(step)).sum::<u64>();
        let passes = network.parameters.iter().map(|parameter| match &parameter.grad {
            Part::Whole(_) => 0,
            Part::Outer(..) => parameter.len as u64,
            Part::Kernel(_, _, window) => (parameter.len * window.output_len()) as u64,
        });
        let passes = passes.sum();
        Self {
            params: network.dim(),
            memory: network.memory(),
            constants: network.constants.bytes(),
            forward: of(&network.forward),
            gradient: of(&network.gradient) + passes,
            passes,
            is_stored: network.is_stored,
        }
    }
}

/// Returns the number of multiply-adds of a step.
fn multiply_adds(step: &Step) -> u64 {
    let window_len = |window: &damper_nn::Window| {
        let [height, width] = window.axes;
        window.output_len() * (window.channels / window.groups.max(1)) * height.kernel * width.kernel
    };
    let count = match &step.kernel {
        Kernel::Product(product) => product.len * product.terms,
        Kernel::Forward(window) | Kernel::Transposed(window, _) => window_len(window),
        _ => 0,
    };
    count as u64
}

/// Fields of the template of `README.md`.
#[derive(Template)]
#[template(path = "readme.md.j2", escape = "none")]
struct ReadmeFile<'a> {
    name: &'a str,
    module: &'a str,
    upper: String,
    is_c: bool,
    /// Arguments of a call in a loop over samples.
    given: String,
    ports: Vec<(&'a str, &'a Port)>,
    parameters: &'a [Parameter],
    figures: &'a Footprint,
    /// Bytes of one f32 per parameter.
    words: usize,
    /// Bytes that a step needs. `passes` is its number of multiply-adds.
    of_step: usize,
    passes: u64,
    /// Names in the generated language.
    memory: String,
    forward: String,
    gradient: String,
    add: String,
    initial: String,
}

/// Escapes text of a model for a table cell.
fn cell(text: &str) -> String {
    comment(text).replace('|', "\\|")
}

/// Describes the form of a parameter's gradient.
fn form(part: &Part) -> &'static str {
    match part {
        Part::Whole(_) => "in memory",
        Part::Outer(..) => "by rows",
        Part::Kernel(..) => "by channels",
    }
}

pub(crate) fn readme(network: &Network, name: &str, figures: &Footprint, language: Language) -> String {
    let module = &name.replace('-', "_");
    let words = 4 * figures.params;
    let (inputs, outputs) = (arguments(network), output_arguments(network));
    let names = inputs.iter().chain(&outputs).map(String::as_str);
    let (is_c, address) = match language {
        Language::Rust => (false, "&"),
        Language::C => (true, ""),
    };
    let (of_step, passes) = match figures.is_stored {
        true => (figures.memory + 3 * words, figures.gradient),
        false => (figures.memory + 2 * words, figures.gradient + 2 * figures.passes),
    };
    let [memory, forward, gradient, add, initial] = match language {
        Language::Rust => ["Memory", "forward", "gradient", "add_sample", "INITIAL"].map(String::from),
        Language::C => {
            ["memory", "forward", "gradient", "add_sample", "initial"].map(|part| format!("{module}_{part}"))
        }
    };
    rendered(&ReadmeFile {
        name,
        module,
        upper: module.to_uppercase(),
        is_c,
        given: inputs.iter().map(|name| format!("{address}{name}[i], ")).collect(),
        ports: names.zip(network.inputs.iter().chain(&network.outputs)).collect(),
        parameters: &network.parameters,
        figures,
        words,
        of_step,
        passes,
        memory,
        forward,
        gradient,
        add,
        initial,
    })
}
