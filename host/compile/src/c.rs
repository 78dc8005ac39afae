//! Generates a compiled network in C99: a header, and a source that calls the kernels of `damper_nn.h`.

use crate::Language;
use crate::call::c_float;
use crate::library::Library;
use crate::names::c_comment;
use crate::network::{Network, Parameter, Part, Port};
use crate::schedule::{Block, Constants, Operand, Schedule, Source, Step};
use crate::source::{arguments, indented, output_arguments, part_len, rendered};
use askama::Template;
use damper_runtime::portable::Kind;
use std::fmt::Write as _;

/// Generated header and source.
pub(crate) struct Sources {
    pub(crate) header: String,
    pub(crate) source: String,
}

/// Fields of the header's template.
#[derive(Template)]
#[template(path = "network.h.j2", escape = "none")]
struct HeaderFile<'a> {
    title: String,
    /// Prefix of functions, in lower case. Constants have it in upper case.
    prefix: &'a str,
    upper: String,
    dim: usize,
    count: usize,
    /// Maximum number of axes of a parameter.
    rank: usize,
    /// Names of arguments, each with its input or output.
    ports: Vec<(&'a str, &'a Port)>,
    /// Memory areas: types, names and lengths.
    areas: Vec<(&'static str, &'static str, usize)>,
    is_stored: bool,
    /// Declarations of functions.
    forward: String,
    loss: String,
    gradient: String,
    add_sample: String,
}

/// Fields of the template of the source, without its first lines.
#[derive(Template)]
#[template(path = "network.c.j2", escape = "none")]
struct SourceFile<'a> {
    prefix: &'a str,
    upper: String,
    /// Constants.
    arrays: String,
    shapes: String,
    initial: String,
    parameters: &'a [Parameter],
    /// Arguments of a sample with its label: names with their inputs, as declarations, and as a list of names.
    ports: Vec<(&'a str, &'a Port)>,
    labelled: String,
    given: String,
    /// Statements that mark each argument as used.
    used: String,
    used_labelled: String,
    declared_forward: String,
    declared_loss: String,
    declared_gradient: String,
    declared_add: String,
    /// Bodies of functions.
    forward: String,
    written: String,
    loss: String,
    of_loss: String,
    factors: String,
    yielded: String,
    is_stored: bool,
}

/// Fields of the test's template.
#[derive(Template)]
#[template(path = "test.c.j2", escape = "none")]
struct TestFile<'a> {
    prefix: &'a str,
    upper: String,
    /// Array of the recorded gradient.
    recorded: String,
    has_math: bool,
    ports: Vec<(&'a str, &'a Port)>,
    given: String,
}

struct Writer<'a> {
    network: &'a Network,
    inputs: Vec<String>,
    library: Library,
}

/// Generates the files of `network`. The names of its functions begin with `prefix`.
pub(crate) fn sources(network: &Network, title: &str, prefix: &str, initial: &[f32]) -> Sources {
    let writer = Writer { network, inputs: arguments(network), library: Library::new(Language::C) };
    Sources { header: writer.header(title, prefix), source: writer.source(prefix, initial) }
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "float",
        Kind::I64 => "int64_t",
        Kind::Bool => "uint8_t",
    }
}

/// Returns the name of the memory area of a kind. The array of its constants has the name in capitals.
fn area_of(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "f32s",
        Kind::I64 => "i64s",
        Kind::Bool => "bools",
    }
}

/// Formats an array of constants.
fn array(declaration: &str, numbers: impl Iterator<Item = String>) -> String {
    let numbers: Vec<String> = numbers.collect();
    let lines: Vec<String> = numbers.chunks(12).map(|line| format!("  {}", line.join(", "))).collect();
    format!("{declaration} = {{\n{}\n}};\n", lines.join(",\n"))
}

/// Formats an array of floats.
pub(crate) fn floats(declaration: &str, floats: &[f32]) -> String {
    array(declaration, floats.iter().map(|x| c_float(*x)))
}

impl Writer<'_> {
    /// Returns a pointer to an operand that is only read.
    fn read(&self, operand: Operand) -> String {
        let Operand { source, kind, start, len, stride } = operand;
        let place = |start: usize| match stride {
            0 => start.to_string(),
            1.. => format!("{start} + {stride} * t"),
            _ => format!("{start} - {} * t", stride.unsigned_abs()),
        };
        match source {
            _ if len == 0 => "0".into(),
            Source::Constant => format!("{} + {}", area_of(kind).to_uppercase(), place(start)),
            Source::Quantized(number) => format!("&Q{number}"),
            Source::Memory => format!("memory->{} + {}", area_of(kind), place(start)),
            Source::Input(at) => match at.checked_sub(self.inputs.len()) {
                None if (start, stride) == (0, 0) => self.inputs[at].clone(),
                None => format!("{} + {}", self.inputs[at], place(start)),
                Some(at) => format!("params + {}", place(self.network.parameters[at].start + start)),
            },
        }
    }

    fn steps(&mut self, schedule: &Schedule) -> String {
        let mut step = |step: &Step| {
            let reads: Vec<String> = step.kept_reads().map(|read| self.read(*read)).collect();
            let call = self.library.call(step, &reads, &self.read(step.write));
            format!("  /* {} */\n  {}\n", c_comment(&step.node), call.replace("\n        ", "\n  "))
        };
        let block = |block: &Block| {
            let steps: String = block.steps.iter().map(&mut step).collect();
            match block.count {
                1 => steps,
                count => format!("  for (size_t t = 0; t < {count}; t++) {{\n{}  }}\n", indented(&steps)),
            }
        };
        schedule.blocks.iter().map(block).collect()
    }

    /// Returns the sample's inputs, with or without its labels.
    fn ports(&self, with_labels: bool) -> impl Iterator<Item = (&String, &Port)> {
        let count = self.inputs.len() - usize::from(self.network.has_labels && !with_labels);
        self.inputs.iter().zip(&self.network.inputs).take(count)
    }

    /// Formats a function's parameters: the network's parameters, a sample and the memory.
    fn sample(&self, prefix: &str, with_labels: bool) -> String {
        let ports = self.ports(with_labels);
        let ports: String =
            ports.map(|(name, port)| format!("const {} {name}[{}], ", type_of(port.kind), port.len)).collect();
        format!("const float params[{}], {ports}{prefix}_memory *memory", self.network.dim())
    }

    /// Formats a statement that marks each argument as used.
    fn used(&self, with_labels: bool) -> String {
        let names = self.ports(with_labels).map(|(name, _)| name.as_str());
        let marked: String =
            ["params"].into_iter().chain(names).chain(["memory"]).map(|name| format!("(void){name}, ")).collect();
        format!("  {};\n", marked.trim_end_matches(", "))
    }

    /// Formats the declarations of the functions.
    fn functions(&self, prefix: &str) -> [String; 4] {
        let outputs: String = output_arguments(self.network)
            .iter()
            .zip(&self.network.outputs)
            .map(|(name, port)| format!(", float {name}[{}]", port.len))
            .collect();
        let (sample, labelled) = (self.sample(prefix, false), self.sample(prefix, true));
        [
            format!("damper_status {prefix}_forward({sample}{outputs})"),
            format!("damper_status {prefix}_loss({labelled}, float *loss)"),
            format!("damper_status {prefix}_gradient({labelled}, float grad[{}])", self.network.dim()),
            format!("damper_status {prefix}_add_sample(damper_run *run, {labelled})"),
        ]
    }

    fn header(&self, title: &str, prefix: &str) -> String {
        let network = self.network;
        let outputs = output_arguments(network);
        let names = self.inputs.iter().chain(&outputs).map(String::as_str);
        let areas = [Kind::F32, Kind::I64, Kind::Bool].map(|kind| (type_of(kind), area_of(kind)));
        let areas = areas.into_iter().zip(network.areas()).map(|((of, name), len)| (of, name, len));
        let ranks = network.parameters.iter().map(|parameter| parameter.shape.len());
        let [forward, loss, gradient, add_sample] = self.functions(prefix);
        rendered(&HeaderFile {
            title: c_comment(title),
            prefix,
            upper: prefix.to_uppercase(),
            dim: network.dim(),
            count: network.parameters.len(),
            rank: ranks.max().unwrap_or(0).max(1),
            ports: names.zip(network.inputs.iter().chain(&network.outputs)).collect(),
            areas: areas.filter(|(_, _, len)| *len > 0).collect(),
            is_stored: network.is_stored,
            forward,
            loss,
            gradient,
            add_sample,
        })
    }

    fn source(mut self, prefix: &str, initial: &[f32]) -> String {
        let network = self.network;
        let upper = prefix.to_uppercase();
        let forward = self.steps(&network.forward);
        let written = output_arguments(network).into_iter().zip(&network.forward.outputs);
        let written = written
            .map(|(name, operand)| format!("  copy({}, {name}, {});\n", self.read(*operand), operand.len))
            .collect();
        let loss = self.steps(&network.loss);
        let factors = self.steps(&network.gradient);
        let yielded = self.yielded();
        let [declared_forward, declared_loss, declared_gradient, declared_add] = self.functions(prefix);
        let body = rendered(&SourceFile {
            prefix,
            arrays: arrays(&network.constants),
            shapes: self.library.c_shapes(),
            initial: floats(&format!("const float {prefix}_initial[{upper}_PARAMS]"), initial),
            upper,
            parameters: &network.parameters,
            ports: self.ports(true).map(|(name, port)| (name.as_str(), port)).collect(),
            labelled: self.sample(prefix, true),
            given: self.ports(true).map(|(name, _)| format!("{name}, ")).collect(),
            used: self.used(false),
            used_labelled: self.used(true),
            declared_forward,
            declared_loss,
            declared_gradient,
            declared_add,
            forward,
            written,
            loss,
            of_loss: network.loss.outputs.first().map_or("0".into(), |operand| self.read(*operand)),
            factors,
            yielded,
            is_stored: network.is_stored,
        });
        let math = if has_math(&body) { "#include <math.h>\n\n" } else { "" };
        format!("/* Written by `damper compile`. */\n{math}#include \"damper_nn.h\"\n#include \"{prefix}.h\"\n{body}")
    }

    /// Formats the function body that passes the gradient to a sink.
    fn yielded(&mut self) -> String {
        let mut body = String::new();
        for parameter in &self.network.parameters {
            let read = |operand: &Operand| (self.read(*operand), operand.len);
            let push = match &parameter.grad {
                Part::Whole(values) => format!("damper_sink_push(sink, {}, {});", read(values).0, parameter.len),
                Part::Outer(left, right) => {
                    let ((left, rows), (right, columns)) = (read(left), read(right));
                    format!("damper_nn_outer({left}, {rows}, {right}, {columns}, sink);")
                }
                Part::Kernel(dy, x, window) => {
                    let ((dy, _), (x, _)) = (read(dy), read(x));
                    let (shape, part) = (self.library.shape("Window", window), part_len(window));
                    format!(
                        "float part[{part}] = {{0}};\n    damper_nn_kernel_grad({shape}, {dy}, {x}, part, {part}, sink);"
                    )
                }
            };
            let _ = write!(
                body,
                "  /* {} */\n  if (!damper_sink_skip(sink, {})) {{\n    {push}\n  }}\n",
                c_comment(&parameter.name),
                parameter.len
            );
        }
        body
    }
}

/// Formats the arrays of the constants.
fn arrays(constants: &Constants) -> String {
    let mut arrays = String::new();
    if !constants.f32.is_empty() {
        arrays += &floats("static const float F32S[]", &constants.f32);
    }
    if !constants.i64.is_empty() {
        // C has no literal for the minimum.
        let number = |x: &i64| if *x == i64::MIN { "INT64_MIN".into() } else { format!("INT64_C({x})") };
        arrays += &array("static const int64_t I64S[]", constants.i64.iter().map(number));
    }
    if !constants.bool.is_empty() {
        arrays += &array("static const uint8_t BOOLS[]", constants.bool.iter().map(|x| u8::from(*x).to_string()));
    }
    for (at, weight) in constants.quantized.iter().enumerate() {
        let integers = |declaration: String, values: &[i8]| array(&declaration, values.iter().map(i8::to_string));
        arrays += &integers(format!("static const int8_t V{at}[]"), &weight.values);
        arrays += &floats(&format!("static const float SCALES{at}[]"), &weight.scales);
        arrays += &integers(format!("static const int8_t ZEROS{at}[]"), &weight.zeros);
        let (len, channels, inner) = (weight.values.len(), weight.scales.len(), weight.inner);
        let _ = writeln!(
            arrays,
            "static const damper_nn_quantized Q{at} = {{V{at}, SCALES{at}, ZEROS{at}, {len}, {channels}, {inner}}};"
        );
    }
    arrays
}

/// Formats the elements of a parameter's shape array. It has at least one, because C has no empty arrays.
fn shape_of(parameter: &Parameter) -> String {
    let shape: Vec<String> = parameter.shape.iter().map(usize::to_string).collect();
    if shape.is_empty() { "0".into() } else { shape.join(", ") }
}

/// Returns true if a source has floats that need `math.h`.
fn has_math(source: &str) -> bool {
    source.contains("NAN") || source.contains("INFINITY")
}

/// Generates `test.c`. It checks that gradients have the recorded bits, and that a step computes the same sum from
/// segments as from memory.
pub(crate) fn test(network: &Network, prefix: &str, gradient: &[f32]) -> String {
    let names = arguments(network);
    let upper = prefix.to_uppercase();
    let recorded = floats(&format!("static const float recorded[{upper}_PARAMS]"), gradient);
    rendered(&TestFile {
        prefix,
        has_math: has_math(&recorded),
        recorded,
        upper,
        given: names.iter().map(|name| format!("{name}, ")).collect(),
        ports: names.iter().map(String::as_str).zip(&network.inputs).collect(),
    })
}
