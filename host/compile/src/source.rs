//! Generates the Rust source of a compiled network.

use crate::Language;
use crate::call::type_of;
use crate::library::Library;
use crate::names::{Names, comment};
use crate::network::{Network, Parameter, Part, Port};
use crate::schedule::{Block, Operand, Schedule, Source, Step};
use askama::Template;
use damper_runtime::portable::Kind;
use std::fmt::Write as _;

/// Sources of the modules.
pub(crate) struct Sources {
    pub(crate) lib: String,
    pub(crate) kernels: String,
    pub(crate) shapes: String,
    pub(crate) constants: String,
}

/// Fields of the template of `src/lib.rs`.
#[derive(Template)]
#[template(path = "lib.rs.j2", escape = "none")]
struct LibFile<'a> {
    title: String,
    dim: usize,
    /// Names of arguments, each with its input or output.
    ports: Vec<(String, &'a Port)>,
    parameters: &'a [Parameter],
    /// Lengths of the memories.
    f32s: usize,
    i64s: usize,
    bools: usize,
    /// Declarations of arguments: a sample, a sample with its label, and outputs.
    sample: String,
    labelled: String,
    taken: String,
    /// Names of the arguments of a sample.
    given: String,
    /// Bodies of functions.
    forward: String,
    written: String,
    loss: String,
    of_loss: String,
    factors: String,
    yielded: String,
    is_stored: bool,
    /// Helpers that the bodies call.
    has_outer: bool,
    has_kernel: bool,
    has_quantized: bool,
    has_loop: bool,
}

/// Renders a template. Adds the last newline, which askama removes.
pub(crate) fn rendered(template: &impl Template) -> String {
    template.render().expect("a template that is compiled renders into memory") + "\n"
}

/// Returns the argument name of each input.
pub(crate) fn arguments(network: &Network) -> Vec<String> {
    let mut names = Names::default();
    let labels = network.inputs.len() - usize::from(network.has_labels);
    let name = |(at, port): (usize, &Port)| if at == labels { "labels" } else { port.name.as_str() }.to_owned();
    network.inputs.iter().enumerate().map(name).map(|name| names.of(&name)).collect()
}

/// Returns the argument name of each output.
pub(crate) fn output_arguments(network: &Network) -> Vec<String> {
    let mut names = Names::default();
    arguments(network).iter().for_each(|name| {
        names.of(name);
    });
    network.outputs.iter().map(|port| names.of(&port.name)).collect()
}

/// Formats the first element of an operand, in iteration `t` if it moves.
fn place(start: usize, stride: isize) -> String {
    match stride {
        0 => start.to_string(),
        _ => format!("at({start}, {stride}, t)"),
    }
}

/// Indents the lines of a block.
pub(crate) fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("    {line}\n")).collect()
}

struct Writer<'a> {
    network: &'a Network,
    inputs: Vec<String>,
    library: Library,
}

pub(crate) fn sources(network: &Network, title: &str) -> Sources {
    let mut writer = Writer { network, inputs: arguments(network), library: Library::new(Language::Rust) };
    let lib = writer.lib(title);
    Sources {
        lib,
        kernels: writer.library.functions_source(),
        shapes: writer.library.shapes_source(),
        constants: constants(network),
    }
}

impl Writer<'_> {
    /// Formats an operand that is only read. `memory` is the prefix of the memories' names.
    fn read(&self, operand: Operand, memory: &str) -> String {
        let Operand { source, kind, start, len, stride } = operand;
        let range = format!("{}, {len}", place(start, stride));
        match source {
            _ if len == 0 => "&[]".into(),
            Source::Constant => format!("part(&constants::{}, {range})", type_of(kind).to_uppercase()),
            Source::Quantized(number) => format!("&constants::Q{number}"),
            Source::Memory => format!("part(&{memory}{}s[..], {range})", type_of(kind)),
            Source::Input(at) => match at.checked_sub(self.inputs.len()) {
                None if (start, stride, len) == (0, 0, self.network.inputs[at].len) => self.inputs[at].clone(),
                None => format!("part({}, {range})", self.inputs[at]),
                Some(at) => {
                    let start = self.network.parameters[at].start + start;
                    format!("part(params, {}, {len})", place(start, stride))
                }
            },
        }
    }

    /// Formats the block of a step. It splits one memory into the value to write and the operands in the same memory.
    fn step(&mut self, step: &Step) -> String {
        let write = step.write;
        let mut cut: Vec<Operand> = vec![];
        let mut reads = vec![];
        for read in step.kept_reads() {
            let is_beside = read.source == Source::Memory && read.kind == write.kind && read.len > 0;
            if !is_beside {
                reads.push(self.read(*read, ""));
                continue;
            }
            let at = cut.iter().position(|known| known == read).unwrap_or_else(|| {
                cut.push(*read);
                cut.len() - 1
            });
            reads.push(format!("r{at}"));
        }
        let names: Vec<String> = (0..cut.len()).map(|at| format!("r{at}")).chain(["out".into()]).collect();
        let range = |cut: &Operand| match cut.stride {
            0 => format!("{}..{}", cut.start, cut.start + cut.len),
            stride => format!("span({}, {})", place(cut.start, stride), cut.len),
        };
        let ranges: Vec<String> = cut.iter().chain([&write]).map(range).collect();
        let call = self.library.call(step, &reads, "out");
        format!(
            "    // {}\n    {{\n        let [{}] = cut({}s, [{}])?;\n        {call}\n    }}\n",
            comment(&step.node),
            names.join(", "),
            type_of(write.kind),
            ranges.join(", ")
        )
    }

    fn steps(&mut self, schedule: &Schedule) -> String {
        let block = |block: &Block| {
            let steps: String = block.steps.iter().map(|step| self.step(step)).collect();
            match block.count {
                1 => steps,
                count => format!("    for t in 0..{count} {{\n{}    }}\n", indented(&steps)),
            }
        };
        let blocks: String = schedule.blocks.iter().map(block).collect();
        format!("    let Memory {{ f32s, i64s, bools }} = memory;\n{blocks}")
    }

    /// Formats the declarations of a sample's arguments.
    fn sample(&self, with_labels: bool) -> String {
        let count =
            if with_labels { self.inputs.len() } else { self.inputs.len() - usize::from(self.network.has_labels) };
        let ports = self.inputs.iter().zip(&self.network.inputs).take(count);
        ports.map(|(name, port)| format!("{name}: &[{}; {}], ", type_of(port.kind), port.len)).collect()
    }

    fn lib(&mut self, title: &str) -> String {
        let network = self.network;
        let [f32s, i64s, bools] = network.areas();
        let outputs = output_arguments(network);
        let taken = outputs.iter().zip(&network.outputs);
        let taken = taken.map(|(name, port)| format!("{name}: &mut [f32; {}], ", port.len)).collect();
        let written = outputs.iter().zip(&network.forward.outputs);
        let written =
            written.map(|(name, operand)| format!("    write({}, {name})?;\n", self.read(*operand, ""))).collect();
        let names = self.inputs.iter().chain(&outputs).cloned();
        let parts = || network.parameters.iter().map(|parameter| &parameter.grad);
        let file = LibFile {
            title: comment(title),
            dim: network.dim(),
            ports: names.zip(network.inputs.iter().chain(&network.outputs)).collect(),
            parameters: &network.parameters,
            f32s,
            i64s,
            bools,
            sample: self.sample(false),
            labelled: self.sample(true),
            given: self.inputs.iter().map(|name| format!("{name}, ")).collect(),
            taken,
            forward: self.steps(&network.forward),
            written,
            loss: self.steps(&network.loss),
            of_loss: network.loss.outputs.first().map_or("&[]".into(), |operand| self.read(*operand, "")),
            factors: self.steps(&network.gradient),
            yielded: self.yielded(),
            is_stored: network.is_stored,
            has_outer: parts().any(|part| matches!(part, Part::Outer(..))),
            has_kernel: parts().any(|part| matches!(part, Part::Kernel(..))),
            has_quantized: !network.constants.quantized.is_empty(),
            has_loop: network.has_loop(),
        };
        rendered(&file)
    }

    /// Formats the function body that passes the gradient to a sink.
    fn yielded(&mut self) -> String {
        let mut body = String::new();
        for parameter in &self.network.parameters {
            let read = |operand: &Operand| self.read(*operand, "memory.");
            let push = match &parameter.grad {
                Part::Whole(values) => format!("sink.push({});", read(values)),
                Part::Outer(left, right) => format!("outer({}, {}, sink);", read(left), read(right)),
                Part::Kernel(dy, x, window) => {
                    let (dy, x) = (read(dy), read(x));
                    let part = part_len(window);
                    let window = self.library.shape("Window", window);
                    format!("kernel({window}, {dy}, {x}, &mut [0.0; {part}], sink)?;")
                }
            };
            let _ = write!(
                body,
                "    // {}\n    if !sink.skip({}) {{\n        {push}\n    }}\n",
                comment(&parameter.name),
                parameter.len
            );
        }
        body
    }
}

/// Values of a kernel's gradient that are computed together: whole outputs of a group, up to 3 KB, and at least one
/// output. More outputs together take fewer instructions. The buffer is on the stack.
pub(crate) fn part_len(window: &damper_nn::Window) -> usize {
    const MOST: usize = 768;
    let of_output = window.output_taps().max(1);
    of_output * (MOST / of_output).max(1).min(window.group_outputs())
}

/// Formats the module of the constants. Floats are in a separate file.
fn constants(network: &Network) -> String {
    let constants = &network.constants;
    let mut source =
        String::from("//! What does not change: weights that are not trained, and numbers of the model.\n");
    if !constants.f32.is_empty() {
        let _ = write!(
            source,
            "\npub static F32: [f32; {}] = crate::floats(include_bytes!(\"constants.f32\"));\n",
            constants.f32.len()
        );
    }
    if !constants.i64.is_empty() {
        let _ = write!(source, "\npub static I64: [i64; {}] = {:?};\n", constants.i64.len(), constants.i64);
    }
    if !constants.bool.is_empty() {
        let _ = write!(source, "\npub static BOOL: [bool; {}] = {:?};\n", constants.bool.len(), constants.bool);
    }
    if !constants.quantized.is_empty() {
        source = source.replacen("\n\n", "\n\nuse damper_nn::quantized::Quantized;\n\n", 1);
    }
    for (at, weight) in constants.quantized.iter().enumerate() {
        let bits: Vec<String> = weight.scales.iter().map(|x| format!("f32::from_bits({:#x})", x.to_bits())).collect();
        let _ = write!(
            source,
            "\nstatic V{at}: [i8; {}] = crate::bytes(include_bytes!(\"q{at}.i8\"));\n\
             pub static Q{at}: Quantized<'static> =\n    \
             Quantized {{ values: &V{at}, scales: &[{}], zeros: &{:?}, inner: {} }};\n",
            weight.values.len(),
            bits.join(", "),
            weight.zeros,
            weight.inner
        );
    }
    source
}

/// Returns true if the input is of floats.
pub(crate) fn is_float(port: &Port) -> bool {
    port.kind == Kind::F32
}
