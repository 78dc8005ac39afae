//! The source of a compiled network in C99: a header, and calls of the kernels of `damper_nn.h`.

use crate::Language;
use crate::call::{Library, c_float};
use crate::names::{c_comment, c_literal};
use crate::network::{Network, Part, Port};
use crate::schedule::{Operand, Schedule, Source};
use crate::source::{arguments, output_arguments};
use damper_runtime::portable::Kind;
use std::fmt::Write as _;

/// The header and the source.
pub(crate) struct Sources {
    pub(crate) header: String,
    pub(crate) source: String,
}

struct Writer<'a> {
    network: &'a Network,
    inputs: Vec<String>,
    library: Library,
}

/// Of `network`, whose functions begin with `prefix`.
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

/// The name of the memory, and of the constants in capitals, of a kind.
fn area_of(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "f32s",
        Kind::I64 => "i64s",
        Kind::Bool => "bools",
    }
}

/// An array of constants.
fn array(declaration: &str, numbers: impl Iterator<Item = String>) -> String {
    let numbers: Vec<String> = numbers.collect();
    let lines: Vec<String> = numbers.chunks(12).map(|line| format!("  {}", line.join(", "))).collect();
    format!("{declaration} = {{\n{}\n}};\n", lines.join(",\n"))
}

/// The numbers of an array of floats.
pub(crate) fn floats(declaration: &str, floats: &[f32]) -> String {
    array(declaration, floats.iter().map(|x| c_float(*x)))
}

impl Writer<'_> {
    /// A pointer to an operand that is only read.
    fn read(&self, operand: Operand) -> String {
        let Operand { source, kind, start, len } = operand;
        match source {
            _ if len == 0 => "0".into(),
            Source::Constant => format!("{} + {start}", area_of(kind).to_uppercase()),
            Source::Quantized(number) => format!("&Q{number}"),
            Source::Memory => format!("memory->{} + {start}", area_of(kind)),
            Source::Input(at) => match at.checked_sub(self.inputs.len()) {
                None => self.inputs[at].clone(),
                Some(at) => format!("params + {}", self.network.parameters[at].start),
            },
        }
    }

    fn steps(&mut self, schedule: &Schedule) -> String {
        let step = |step: &crate::schedule::Step| {
            let reads: Vec<String> = step.reads.iter().map(|read| self.read(*read)).collect();
            let call = self.library.call(step, &reads, &self.read(step.write));
            format!("  /* {} */\n  {}\n", c_comment(&step.node), call.replace("\n        ", "\n  "))
        };
        schedule.steps.iter().map(step).collect()
    }

    /// The sample's inputs, with their labels or without.
    fn ports(&self, with_labels: bool) -> impl Iterator<Item = (&String, &Port)> {
        let count = self.inputs.len() - usize::from(self.network.has_labels && !with_labels);
        self.inputs.iter().zip(&self.network.inputs).take(count)
    }

    /// The parameters of a function: the network's parameters, a sample and the memory.
    fn sample(&self, prefix: &str, with_labels: bool) -> String {
        let ports = self.ports(with_labels);
        let ports: String =
            ports.map(|(name, port)| format!("const {} {name}[{}], ", type_of(port.kind), port.len)).collect();
        format!("const float params[{}], {ports}{prefix}_memory *memory", self.network.dim())
    }

    /// Names of parameters, each marked as used.
    fn used(&self, with_labels: bool) -> String {
        let names = self.ports(with_labels).map(|(name, _)| name.as_str());
        let marked: String =
            ["params"].into_iter().chain(names).chain(["memory"]).map(|name| format!("(void){name}, ")).collect();
        format!("  {};\n", marked.trim_end_matches(", "))
    }

    /// The declarations of the functions.
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
        let (upper, dim, count) = (prefix.to_uppercase(), network.dim(), network.parameters.len());
        let ports = self
            .inputs
            .iter()
            .chain(&output_arguments(network))
            .zip(network.inputs.iter().chain(&network.outputs))
            .fold(String::new(), |mut ports, (name, port)| {
                let _ = writeln!(
                    ports,
                    " *   {name}: '{}' {:?}, {}",
                    c_comment(&port.name),
                    port.shape,
                    type_of(port.kind)
                );
                ports
            });
        let areas = network.areas();
        let mut fields: String = [Kind::F32, Kind::I64, Kind::Bool]
            .into_iter()
            .zip(areas)
            .filter(|(_, len)| *len > 0)
            .map(|(kind, len)| format!("  {} {}[{len}];\n", type_of(kind), area_of(kind)))
            .collect();
        if network.is_stored {
            let _ = writeln!(fields, "  float grad[{dim}];");
        }
        if fields.is_empty() {
            fields = "  uint8_t unused;\n".into();
        }
        let rank = network.parameters.iter().map(|parameter| parameter.shape.len()).max().unwrap_or(0).max(1);
        let [forward, loss, gradient, add_sample] = self.functions(prefix);
        let how = match network.is_stored {
            true => "with a copy of it in memory",
            false => "without a copy of it in memory: the step asks for it three times",
        };
        format!(
            r#"/* The network {}, compiled by damper: {dim} trained parameters, one sample at a time, the same bits on every target.
 *
 * README.md says what it takes of a device. Numbers are in row-major order:
{ports} */
#ifndef {upper}_H
#define {upper}_H

#include "damper.h"

/* Trained parameters, and the tensors that have them. */
enum {{ {upper}_PARAMS = {dim}, {upper}_PARAMETERS = {count} }};

/* The model file's values of the trained parameters. */
extern const float {prefix}_initial[{upper}_PARAMS];

/* A trained tensor: its name in the model, where it begins in the vector of all, its elements, and its shape. */
typedef struct {{
  const char *name;
  size_t start, len, rank, shape[{rank}];
}} {prefix}_parameter;

/* The trained tensors, in the order of the vector of all. */
extern const {prefix}_parameter {prefix}_parameters[{upper}_PARAMETERS];

/* What a sample's numbers take; zeros at first. Values that are not alive together share it, and nothing of one sample is read for the
 * next. */
typedef struct {{
{fields}}} {prefix}_memory;

/* DAMPER_STATUS_RANGE answers an index of the sample, such as a label, that is out of range; then nothing was added. */

/* The model's outputs for one sample. */
DAMPER_MUST_USE
{forward};

/* The loss of one sample. It is private: no epsilon covers it. */
DAMPER_MUST_USE
{loss};

/* The gradient of one sample's loss. It is private: no epsilon covers it before a step has clipped it and added noise. */
DAMPER_MUST_USE
{gradient};

/* Adds one sample's gradient to the open step of `run`, {how}. The sum has the bits that
 * adding the gradient of `{prefix}_gradient` gives it. */
DAMPER_MUST_USE
{add_sample};

#endif
"#,
            c_comment(title)
        )
    }

    fn source(mut self, prefix: &str, initial: &[f32]) -> String {
        let network = self.network;
        let upper = prefix.to_uppercase();
        let forward = self.steps(&network.forward);
        let mut written = String::new();
        for (name, operand) in output_arguments(network).iter().zip(&network.forward.outputs) {
            let _ = writeln!(written, "  copy({}, {name}, {});", self.read(*operand), operand.len);
        }
        let loss = self.steps(&network.loss);
        let of_loss = network.loss.outputs.first().map_or("0".into(), |operand| self.read(*operand));
        let factors = self.steps(&network.gradient);
        let yielded = self.yielded();
        let labelled = self.sample(prefix, true);
        let given: String = self.ports(true).map(|(name, _)| format!("{name}, ")).collect();
        let fields: String =
            self.ports(true).map(|(name, port)| format!("  const {} *{name};\n", type_of(port.kind))).collect();
        let locals: String = self
            .ports(true)
            .map(|(name, port)| format!("  const {} *{name} = of->{name};\n", type_of(port.kind)))
            .collect();
        let used = [false, true].map(|with_labels| self.used(with_labels));
        let parameters = network.parameters.iter().map(|parameter| {
            let shape: Vec<String> = parameter.shape.iter().map(usize::to_string).collect();
            let shape = if shape.is_empty() { "0".into() } else { shape.join(", ") };
            format!(
                "  {{{}, {}, {}, {}, {{{shape}}}}},\n",
                c_literal(&parameter.name),
                parameter.start,
                parameter.len,
                parameter.shape.len()
            )
        });
        let parameters: String = parameters.collect();
        let constants = &network.constants;
        let mut arrays = String::new();
        if !constants.f32.is_empty() {
            arrays += &floats("static const float F32S[]", &constants.f32);
        }
        if !constants.i64.is_empty() {
            // The least has no literal of its own.
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
        let [declared_forward, declared_loss, declared_gradient, declared_add] = self.functions(prefix);
        let shapes = self.library.c_shapes();
        let added = match network.is_stored {
            true => format!(
                "  TRY({prefix}_gradient(params, {given}memory, memory->grad));\n  return damper_add(run, memory->grad, {upper}_PARAMS);\n"
            ),
            false => format!(
                "  sample of = {{params, {given}memory}};\n  TRY(factors(params, {given}memory));\n  return damper_add_streamed(run, produce, \
                 &of);\n"
            ),
        };
        let initial = floats(&format!("const float {prefix}_initial[{upper}_PARAMS]"), initial);
        let body = format!(
            r#"
/* What does not change: weights that are not trained, and numbers of the model. */
{arrays}
/* Shapes. */
{shapes}
{initial}
const {prefix}_parameter {prefix}_parameters[{upper}_PARAMETERS] = {{
{parameters}}};

#define TRY(call)                                         \
  do {{                                                    \
    const damper_status answer = (call);                  \
    if (answer != DAMPER_STATUS_OK) return answer;        \
  }} while (0)

static void copy(const float *from, float *to, size_t len) {{
  for (size_t at = 0; at < len; at++) to[at] = from[at];
}}

{declared_forward} {{
{}{forward}{written}  return DAMPER_STATUS_OK;
}}

{declared_loss} {{
{}{loss}  copy({of_loss}, loss, 1);
  return DAMPER_STATUS_OK;
}}

/* Computes what the gradient is made of. */
static damper_status factors({labelled}) {{
{}{factors}  return DAMPER_STATUS_OK;
}}

/* A sample, of which memory has what the gradient is made of. */
typedef struct {{
  const float *params;
{fields}  const {prefix}_memory *memory;
}} sample;

/* Hands the gradient to `sink`, in the order of the parameters. */
static void produce(void *context, damper_sink *sink) {{
  const sample *of = context;
  const float *params = of->params;
{locals}  const {prefix}_memory *memory = of->memory;
{}{yielded}}}

{declared_gradient} {{
  sample of = {{params, {given}memory}};
  TRY(factors(params, {given}memory));
  return damper_store_streamed(produce, &of, grad, {upper}_PARAMS);
}}

{declared_add} {{
{added}}}
"#,
            used[0], used[1], used[1], used[1],
        );
        let math = if body.contains("NAN") || body.contains("INFINITY") { "#include <math.h>\n\n" } else { "" };
        format!("/* Written by `damper compile`. */\n{math}#include \"damper_nn.h\"\n#include \"{prefix}.h\"\n{body}")
    }

    /// The body that yields the gradient.
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
                    let ((dy, dy_len), (x, x_len)) = (read(dy), read(x));
                    let (outputs, channels) = (dy_len / window.output_len().max(1), x_len / window.input_len().max(1));
                    let shape = self.library.shape("Window", window);
                    format!(
                        "float taps[{}] = {{0}};\n    damper_nn_kernel_grad({shape}, {dy}, {outputs}, {x}, {channels}, taps, sink);",
                        window.kernel_len()
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

/// The source of `test.c`: gradients have recorded bits, and a step takes the same sum from segments as from memory.
pub(crate) fn test(network: &Network, prefix: &str, gradient: &[f32]) -> String {
    let names = arguments(network);
    let upper = prefix.to_uppercase();
    let (mut arrays, mut filled) = (String::new(), String::new());
    for (name, port) in names.iter().zip(&network.inputs) {
        let _ = writeln!(arrays, "static {} {name}[{}];", type_of(port.kind), port.len);
        if port.kind == Kind::F32 {
            let _ = writeln!(
                filled,
                "  for (size_t at = 0; at < {}; at++) {name}[at] = (float)(at * 37 % 101) / 101.0f;",
                port.len
            );
        }
    }
    let given: String = names.iter().map(|name| format!("{name}, ")).collect();
    let recorded = floats(&format!("static const float recorded[{upper}_PARAMS]"), gradient);
    let math = if recorded.contains("NAN") || recorded.contains("INFINITY") { "#include <math.h>\n" } else { "" };
    format!(
        r#"/* Gradients have the bits of damper's portable backend, and a step takes the same sum from segments as from memory. Returns 0. */
{math}#include "{prefix}.h"

{recorded}
static {prefix}_memory memory;
static uint64_t run_memory[(DAMPER_RUN_BYTES({upper}_PARAMS, 0, 0) + 7) / 8];
static float grad[{upper}_PARAMS], stored[{upper}_PARAMS], streamed[{upper}_PARAMS];
{arrays}
static int same(float a, float b) {{
  const union {{
    float value;
    uint32_t bits;
  }} of_a = {{a}}, of_b = {{b}};
  return of_a.bits == of_b.bits || (a != a && b != b);
}}

static int step(int is_streamed, float params[{upper}_PARAMS]) {{
  damper_config config = DAMPER_CONFIG_INIT;
  damper_run *run;
  uint32_t number;
  config.grid_bits = 16;
  config.expected_batch = 2;
  config.noise_multiplier = 1.0;
  config.learning_rate = 0.1;
  config.clip = 0.5f;
  config.budget = 1;
  for (size_t at = 0; at < {upper}_PARAMS; at++) params[at] = {prefix}_initial[at];
  if (damper_run_init(run_memory, sizeof run_memory, {upper}_PARAMS, &run) != DAMPER_STATUS_OK) return 10;
  if (damper_run_configure(run, &config) != DAMPER_STATUS_OK) return 11;
  if (damper_set_simulation_seed(run, 1) != DAMPER_STATUS_OK) return 12;
  if (damper_set_volatile_store(run) != DAMPER_STATUS_OK) return 13;
  if (damper_run_start(run) != DAMPER_STATUS_OK || damper_step_open(run, &number) != DAMPER_STATUS_OK) return 14;
  for (int sample = 0; sample < 2; sample++) {{
    if (is_streamed) {{
      if ({prefix}_add_sample(run, {prefix}_initial, {given}&memory) != DAMPER_STATUS_OK) return 15;
    }} else {{
      if ({prefix}_gradient({prefix}_initial, {given}&memory, grad) != DAMPER_STATUS_OK) return 16;
      if (damper_add(run, grad, {upper}_PARAMS) != DAMPER_STATUS_OK) return 17;
    }}
  }}
  if (damper_step_finish(run, params, {upper}_PARAMS) != DAMPER_STATUS_OK) return 18;
  return damper_run_close(run) == DAMPER_STATUS_OK ? 0 : 19;
}}

int main(void) {{
  float loss;
  int answer, changed = 0;
{filled}  /* Nothing is left of a sample for the next. */
  for (int time = 0; time < 2; time++) {{
    if ({prefix}_gradient({prefix}_initial, {given}&memory, grad) != DAMPER_STATUS_OK) return 1;
    for (size_t at = 0; at < {upper}_PARAMS; at++) {{
      if (!same(grad[at], recorded[at])) return 2;
    }}
  }}
  if ({prefix}_loss({prefix}_initial, {given}&memory, &loss) != DAMPER_STATUS_OK) return 3;
  if ((answer = step(0, stored)) != 0 || (answer = step(1, streamed)) != 0) return answer;
  for (size_t at = 0; at < {upper}_PARAMS; at++) {{
    if (!same(stored[at], streamed[at])) return 4;
    changed |= !same(stored[at], {prefix}_initial[at]);
  }}
  return changed ? 0 : 5;
}}
"#
    )
}
