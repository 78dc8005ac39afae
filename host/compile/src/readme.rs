//! The crate's README: what it takes of a device, and how it is used.

use crate::names::comment;
use crate::network::{Network, Part, Port};
use crate::schedule::{Schedule, Step};
use crate::source::{arguments, output_arguments};
use crate::{Figures, Language};
use damper_runtime::portable::Kernel;

impl Figures {
    pub(crate) fn of(network: &Network) -> Self {
        let of = |schedule: &Schedule| schedule.steps.iter().map(multiply_adds).sum::<u64>();
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

/// Products of two numbers that a step adds up.
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

pub(crate) fn readme(network: &Network, name: &str, figures: &Figures, language: Language) -> String {
    let module = name.replace('-', "_");
    let Figures { params, memory, constants, forward, gradient, passes, is_stored } = *figures;
    let rows = |ports: &[Port], names: &[String]| -> String {
        let row = |(port, argument): (&Port, &String)| {
            format!("| `{argument}` | {} | `{:?}` |\n", comment(&port.name).replace('|', "\\|"), port.shape)
        };
        ports.iter().zip(names).map(row).collect()
    };
    let (inputs, outputs) = (arguments(network), output_arguments(network));
    let ports = rows(&network.inputs, &inputs) + &rows(&network.outputs, &outputs);
    let tensors: String = network
        .parameters
        .iter()
        .map(|p| {
            let how = match p.grad {
                Part::Whole(_) => "in memory",
                Part::Outer(..) => "by rows",
                Part::Kernel(..) => "by channels",
            };
            format!(
                "| {} | `{:?}` | {} | {} | {how} |\n",
                comment(&p.name).replace('|', "\\|"),
                p.shape,
                p.start,
                p.len
            )
        })
        .collect();
    let given = inputs.iter().map(|name| format!("&{name}[i], ")).collect::<String>();
    let (words, stored) = (4 * params, 4 * params);
    let (of_step, passes, how, and_gradient) = match is_stored {
        true => (memory + 3 * words, gradient, "one pass", ", and a gradient"),
        false => (memory + 2 * words, gradient + 2 * passes, "three passes over what is not in memory", ""),
    };
    let use_of_it = match language {
        Language::Rust => format!(
            "Written by `damper compile`: a network that trains privately on a device, `no_std`, without a heap, `unsafe` or a panic. Its gradients
have the bits of `damper train --backend portable` on every target.

```rust
use {module}::damper_core::prelude::*;
use {module}::{{INITIAL, Memory, PARAMS, add_sample}};

let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60);
let config = config.poisson_batches(rate, N).build()?;
let (mut params, mut memory, mut state) = (INITIAL, Memory::new(), config.state::<PARAMS>());
while let Some(mut step) = config.begin(&mut state, &mut ledger)? {{
    for i in step.poisson_batch(&noise)? {{
        add_sample(&mut step, &params, {given}&mut memory)?;
    }}
    step.finish(&mut params, &noise)?;
}}
```

`cargo test` compares a gradient with the recorded one, and a step of streamed gradients with one of gradients in memory."
        ),
        Language::C => format!(
            "Written by `damper compile`: a network in C99 that trains privately on a device, without a heap. Its gradients have the bits of
`damper train --backend portable` on every target.

`{module}.c` calls the kernels of damper's C library: link `libdamper_capi.a`, whose headers `damper.h` and `damper_nn.h` are in
`capi/include`. What is not called is not linked, with `-ffunction-sections -Wl,--gc-sections`.

```c
static {module}_memory memory;
/* ... a run that is started, with N samples in its configuration, and params that begin as {module}_initial ... */
while ((status = damper_step_open(run, &number)) == DAMPER_STATUS_OK) {{
  status = damper_batch_begin(run);
  while (status == DAMPER_STATUS_OK && (status = damper_batch_next(run, &i)) == DAMPER_STATUS_OK) {{
    status = {module}_add_sample(run, params, {}&memory);
  }}
  if (status == DAMPER_STATUS_END) status = damper_step_finish(run, params, {}_PARAMS);
  if (status != DAMPER_STATUS_OK) break;
}}
```

`test.c` compares a gradient with the recorded one, and a step of streamed gradients with one of gradients in memory. It returns 0:

```sh
cc -std=c99 -I capi/include {module}.c test.c libdamper_capi.a -lm -o test && ./test
```",
            given.replace('&', ""),
            module.to_uppercase()
        ),
    };
    let [memory_name, forward_name, gradient_name, add_name, initial_name] = match language {
        Language::Rust => ["Memory", "forward", "gradient", "add_sample", "INITIAL"].map(String::from),
        Language::C => {
            ["memory", "forward", "gradient", "add_sample", "initial"].map(|part| format!("{module}_{part}"))
        }
    };
    format!(
        "# {name}

{use_of_it}

| argument | of the model | shape of a sample |
| --- | --- | --- |
{ports}
| parameter | shape | begins at | elements | gradient |
| --- | --- | ---: | ---: | --- |
{tensors}
## What it takes

| | bytes |
| --- | ---: |
| RAM: `{memory_name}`, the numbers of a sample | {memory} |
| RAM: parameters | {words} |
| RAM: the step's sum, of `i32` | {words} |
| RAM of `{add_name}`: these three{and_gradient}; stack and the optimizer's memory aside | {of_step} |
| RAM: a gradient in memory, which `{gradient_name}` fills | {stored} |
| flash: weights that are not trained, and other constants | {constants} |
| flash: `{initial_name}`, if the device begins with it | {words} |

| of one sample | multiply-adds |
| --- | ---: |
| `{forward_name}` | {forward} |
| `{gradient_name}` | {gradient} |
| `{add_name}`, {how} | {passes} |

An estimate for a board: `{add_name}` takes about 35 instructions a multiply-add on a Cortex-M4F or M33, and about 200 on an RV32IMAC, which
computes floats in software. That is of all that a sample takes; two convolutional networks measured 33 to 35, and 188 to 216.
",
    )
}
