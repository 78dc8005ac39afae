//! The source of a compiled network: `src/lib.rs`.

use crate::Language;
use crate::call::{Library, type_of};
use crate::names::{Names, comment, literal};
use crate::network::{Network, Part, Port};
use crate::schedule::{Operand, Schedule, Source, Step};
use damper_runtime::portable::Kind;
use std::fmt::Write as _;

/// The sources of the modules.
pub(crate) struct Sources {
    pub(crate) lib: String,
    pub(crate) kernels: String,
    pub(crate) shapes: String,
    pub(crate) constants: String,
}

/// The name of each data input as an argument.
pub(crate) fn arguments(network: &Network) -> Vec<String> {
    let mut names = Names::default();
    let labels = network.inputs.len() - usize::from(network.has_labels);
    let name = |(at, port): (usize, &Port)| if at == labels { "labels" } else { port.name.as_str() }.to_owned();
    network.inputs.iter().enumerate().map(name).map(|name| names.of(&name)).collect()
}

/// The name of a model's output as an argument.
pub(crate) fn output_arguments(network: &Network) -> Vec<String> {
    let mut names = Names::default();
    arguments(network).iter().for_each(|name| {
        names.of(name);
    });
    network.outputs.iter().map(|port| names.of(&port.name)).collect()
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
    /// An operand that is only read. `memory` is what precedes the names of the memories.
    fn read(&self, operand: Operand, memory: &str) -> String {
        let Operand { source, kind, start, len } = operand;
        let range = format!("{start}, {len}");
        match source {
            _ if len == 0 => "&[]".into(),
            Source::Constant => format!("part(&constants::{}, {range})", type_of(kind).to_uppercase()),
            Source::Quantized(number) => format!("&constants::Q{number}"),
            Source::Memory => format!("part(&{memory}{}s[..], {range})", type_of(kind)),
            Source::Input(at) => match at.checked_sub(self.inputs.len()) {
                None => self.inputs[at].clone(),
                Some(at) => {
                    let parameter = &self.network.parameters[at];
                    format!("part(params, {}, {len})", parameter.start)
                }
            },
        }
    }

    /// The block of a step: what it writes and what it reads beside it are cut out of one memory.
    fn step(&mut self, step: &Step) -> String {
        let write = step.write;
        let mut cut: Vec<Operand> = vec![];
        let mut reads = vec![];
        for read in &step.reads {
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
        let ranges: Vec<String> =
            cut.iter().chain([&write]).map(|cut| format!("{}..{}", cut.start, cut.start + cut.len)).collect();
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
        let steps: String = schedule.steps.iter().map(|step| self.step(step)).collect();
        format!("    let Memory {{ f32s, i64s, bools }} = memory;\n{steps}")
    }

    /// The arguments that name a sample, with their types.
    fn sample(&self, with_labels: bool) -> String {
        let count =
            if with_labels { self.inputs.len() } else { self.inputs.len() - usize::from(self.network.has_labels) };
        let ports = self.inputs.iter().zip(&self.network.inputs).take(count);
        ports.map(|(name, port)| format!("{name}: &[{}; {}], ", type_of(port.kind), port.len)).collect()
    }

    fn lib(&mut self, title: &str) -> String {
        let network = self.network;
        let [f32s, i64s, bools] = network.areas();
        let mut parameters = String::new();
        for parameter in &network.parameters {
            let (name, shape) = (literal(&parameter.name), &parameter.shape);
            let _ = writeln!(
                parameters,
                "    Parameter {{ name: {name}, start: {}, len: {}, shape: &{shape:?} }},",
                parameter.start, parameter.len
            );
        }
        let (sample, labelled) = (self.sample(false), self.sample(true));
        let given: String = self.inputs.iter().map(|name| format!("{name}, ")).collect();
        let outputs = output_arguments(network);
        let taken: String = outputs
            .iter()
            .zip(&network.outputs)
            .map(|(name, port)| format!("{name}: &mut [f32; {}], ", port.len))
            .collect();
        let forward = self.steps(&network.forward);
        let mut written = String::new();
        for (name, operand) in outputs.iter().zip(&network.forward.outputs) {
            let _ = writeln!(written, "    write({}, {name})?;", self.read(*operand, ""));
        }
        let loss = self.steps(&network.loss);
        let of_loss = network.loss.outputs.first().map_or("&[]".into(), |operand| self.read(*operand, ""));
        let factors = self.steps(&network.gradient);
        let yielded = self.yielded();
        let (dim, count) = (network.dim(), network.parameters.len());
        let helpers = self.helpers();
        let (how, added) = match network.is_stored {
            true => (
                "with a copy of it on the stack",
                format!(
                    "    let mut grad = [0.0; PARAMS];\n    gradient(params, {given}memory, &mut grad)?;\n    open.add(&grad[..])?;\n"
                ),
            ),
            false => (
                "without a copy of it in memory: the step asks for it three times",
                format!(
                    "    factors(params, {given}memory)?;
    let memory = &*memory;
    open.add_streamed(|segments| {{
        // What a gradient lacks, the step finds.
        let _ = yield_gradient(params, {given}memory, segments);
    }})?;
"
                ),
            ),
        };
        let documented = |ports: &[Port], names: &[String]| -> String {
            let of = |(port, name): (&Port, &String)| {
                format!("//! - `{name}`: '{}' `{:?}`, {}\n", comment(&port.name), port.shape, type_of(port.kind))
            };
            ports.iter().zip(names).map(of).collect()
        };
        let ports = documented(&network.inputs, &self.inputs) + &documented(&network.outputs, &outputs);
        let title = comment(title);
        let bytes = if network.constants.quantized.is_empty() { "" } else { BYTES };
        format!(
            r#"//! The network {title}, compiled by damper: {dim} trained parameters, one sample at a time, the same bits on every target.
//!
//! `README.md` says what it takes of a device. Numbers are in row-major order:
//!
{ports}#![no_std]
#![forbid(unsafe_code)]
#![allow(unused_variables, long_running_const_eval, clippy::single_range_in_vec_init, clippy::too_many_arguments)]

mod constants;
mod kernels;
mod shapes;

use damper_core::clip::Segments;
use damper_core::error::CallError;
use damper_core::filter::Filter;
use damper_core::grid::Word;
use damper_core::noise::DiscreteGaussian;
use damper_core::optimizer::Optimizer;
use damper_core::step::{{Open, StepConfig}};
use shapes::*;

pub use damper_core;
pub use damper_nn::Error;

/// Trained parameters.
pub const PARAMS: usize = {dim};

/// The model file's values of the trained parameters.
pub static INITIAL: [f32; PARAMS] = floats(include_bytes!("params.f32"));

/// A trained tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {{
    /// Its name in the model.
    pub name: &'static str,
    /// Where it begins in the vector of all.
    pub start: usize,
    /// Its elements.
    pub len: usize,
    /// Its shape.
    pub shape: &'static [usize],
}}

/// The trained tensors, in the order of the vector of all.
pub static PARAMETERS: [Parameter; {count}] = [
{parameters}];

/// What a sample's numbers take. Values that are not alive together share it.
#[derive(Clone, Debug)]
pub struct Memory {{
    f32s: [f32; {f32s}],
    i64s: [i64; {i64s}],
    bools: [bool; {bools}],
}}

impl Memory {{
    /// Zeros. Nothing of one sample is read for the next.
    #[must_use]
    pub const fn new() -> Self {{
        Self {{ f32s: [0.0; {f32s}], i64s: [0; {i64s}], bools: [false; {bools}] }}
    }}
}}

impl Default for Memory {{
    fn default() -> Self {{
        Self::new()
    }}
}}

/// Why a sample was not added. Nothing of it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddError {{
    /// The network cannot take it: an index, such as a label, is out of range.
    Network(Error),
    /// The step cannot take it.
    Step(CallError),
}}

impl From<Error> for AddError {{
    fn from(error: Error) -> Self {{
        Self::Network(error)
    }}
}}

impl From<CallError> for AddError {{
    fn from(error: CallError) -> Self {{
        Self::Step(error)
    }}
}}

/// The model's outputs for one sample.
///
/// # Errors
///
/// An index of the sample is out of range.
pub fn forward(params: &[f32; PARAMS], {sample}memory: &mut Memory, {taken}) -> Result<(), Error> {{
{forward}{written}    Ok(())
}}

/// The loss of one sample. It is private: no ε covers it.
///
/// # Errors
///
/// An index of the sample is out of range.
pub fn loss(params: &[f32; PARAMS], {labelled}memory: &mut Memory) -> Result<f32, Error> {{
{loss}    {of_loss}.first().copied().ok_or(Error::Length)
}}

/// The gradient of one sample's loss. It is private: no ε covers it before a step has clipped it and added noise.
///
/// # Errors
///
/// An index of the sample is out of range.
pub fn gradient(params: &[f32; PARAMS], {labelled}memory: &mut Memory, grad: &mut [f32; PARAMS]) -> Result<(), Error> {{
    factors(params, {given}memory)?;
    yield_gradient(params, {given}memory, &mut Stored {{ rest: grad }})
}}

/// Adds one sample's gradient to the step, {how}. The sum has the bits that adding [`gradient`] gives it.
///
/// # Errors
///
/// Those of [`gradient`] and of [`Open::add_streamed`].
pub fn add_sample<W, P, FS, OS>(
    open: &mut Open<'_, P, FS, OS>, params: &[f32; PARAMS], {labelled}memory: &mut Memory,
) -> Result<(), AddError>
where
    W: Word,
    P: StepConfig<Mechanism = DiscreteGaussian<W>>,
    P::Filter: Filter<FS>,
    P::Optimizer: Optimizer<OS>,
{{
{added}    Ok(())
}}

/// Computes what the gradient is made of.
#[inline(never)]
fn factors(params: &[f32; PARAMS], {labelled}memory: &mut Memory) -> Result<(), Error> {{
{factors}    Ok(())
}}

/// Hands the gradient to `sink`, in the order of the parameters, out of what [`factors`] left in memory.
#[inline(never)]
fn yield_gradient(params: &[f32; PARAMS], {labelled}memory: &Memory, sink: &mut dyn Sink) -> Result<(), Error> {{
{yielded}    Ok(())
}}

/// A sink: it takes a gradient in segments.
trait Sink {{
    /// Returns true if the next so many numbers are not wanted; then they must not be pushed.
    fn skip(&mut self, len: usize) -> bool;
    /// Takes the next numbers.
    fn push(&mut self, segment: &[f32]);
}}

impl Sink for Segments<'_> {{
    fn skip(&mut self, len: usize) -> bool {{
        Segments::skip(self, len)
    }}

    fn push(&mut self, segment: &[f32]) {{
        Segments::push(self, segment);
    }}
}}

/// A gradient in memory, as it fills.
struct Stored<'a> {{
    rest: &'a mut [f32],
}}

impl Sink for Stored<'_> {{
    fn skip(&mut self, _: usize) -> bool {{
        false
    }}

    fn push(&mut self, segment: &[f32]) {{
        let Some((here, rest)) = core::mem::take(&mut self.rest).split_at_mut_checked(segment.len()) else {{ return }};
        for (to, from) in here.iter_mut().zip(segment) {{
            *to = *from;
        }}
        self.rest = rest;
    }}
}}

{helpers}
/// So many elements from `start` on.
#[inline(always)]
fn part<T>(values: &[T], start: usize, len: usize) -> &[T] {{
    values.get(start..start.wrapping_add(len)).unwrap_or_default()
}}

/// Ranges of a memory that share no element.
#[inline(always)]
fn cut<T, const N: usize>(values: &mut [T], ranges: [core::ops::Range<usize>; N]) -> Result<[&mut [T]; N], Error> {{
    values.get_disjoint_mut(ranges).map_err(|_| Error::Length)
}}

fn write(values: &[f32], out: &mut [f32]) -> Result<(), Error> {{
    damper_nn::elementwise::map(values, out, |value: f32| value)
}}

{bytes}/// Little-endian bytes as numbers, when this is compiled.
const fn floats<const N: usize>(bytes: &[u8]) -> [f32; N] {{
    let mut floats = [0.0; N];
    let mut at = 0;
    while at < N {{
        floats[at] = f32::from_le_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]]);
        at += 1;
    }}
    floats
}}
"#
        )
    }

    /// The body that yields the gradient.
    fn yielded(&mut self) -> String {
        let mut body = String::new();
        for parameter in &self.network.parameters {
            let read = |operand: &Operand| self.read(*operand, "memory.");
            let push = match &parameter.grad {
                Part::Whole(values) => format!("sink.push({});", read(values)),
                Part::Outer(left, right) => format!("outer({}, {}, sink);", read(left), read(right)),
                Part::Kernel(dy, x, window) => {
                    let (dy, x) = (read(dy), read(x));
                    let taps = window.kernel_len();
                    let window = self.library.shape("Window", window);
                    format!("kernel({window}, {dy}, {x}, &mut [0.0; {taps}], sink)?;")
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

    /// What makes gradients of factors, where there are such.
    fn helpers(&self) -> String {
        let parts = || self.network.parameters.iter().map(|parameter| &parameter.grad);
        let (has_outer, has_kernel) =
            (parts().any(|part| matches!(part, Part::Outer(..))), parts().any(|part| matches!(part, Part::Kernel(..))));
        let mut helpers = String::new();
        if has_outer {
            helpers += r#"#[inline(never)]
fn outer(left: &[f32], right: &[f32], sink: &mut dyn Sink) {
    damper_nn::product::outer(left, right, |row| sink.push(row));
}

"#;
        }
        if has_kernel {
            helpers += r#"/// The gradient of a kernel, by way of `taps`.
#[inline(never)]
fn kernel(
    window: &damper_nn::Window, dy: &[f32], x: &[f32], taps: &mut [f32], sink: &mut dyn Sink,
) -> Result<(), Error> {
    damper_nn::convolution::kernel_grad_by_channels(window, dy, x, taps, |taps| sink.push(taps))
}
"#;
        }
        helpers
    }
}

const BYTES: &str = "/// Bytes as integers, when this is compiled.
const fn bytes<const N: usize>(bytes: &[u8; N]) -> [i8; N] {
    let mut integers = [0; N];
    let mut at = 0;
    while at < N {
        integers[at] = i8::from_le_bytes([bytes[at]]);
        at += 1;
    }
    integers
}

";

/// The module of the constants: long ones of floats in a file beside it.
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

/// Returns true of an input of floats.
pub(crate) fn is_float(port: &Port) -> bool {
    port.kind == Kind::F32
}
