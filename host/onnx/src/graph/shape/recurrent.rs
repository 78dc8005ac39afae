//! `RNN`, `GRU` and `LSTM`, unrolled over a sequence of fixed length, so that gradients go through time.
//!
//! `x_t` is `[N, I]`, and `h` and `c` are `[N, H]`. The input's part of all steps is one product, `X·Wᵀ + b`:
//!
//! ```text
//! RNN    h ← f(x·Wᵀ + h·Rᵀ + b)
//! GRU    z, r = f(…)    n = g(x·W_nᵀ + (r ∘ h)·R_nᵀ + b)  or, linear before the reset,  g(x·W_nᵀ + w + r ∘ (h·R_nᵀ + b))
//!        h ← (1 − z) ∘ n + z ∘ h
//! LSTM   i, o, f = f(…)   g = g(…)    c ← f ∘ c + i ∘ g    h ← o ∘ h(c)
//! ```

use super::super::GraphError;
use super::super::node::{Ruled, Site};
use super::rewrite::Rewrite;
use crate::{attr_float, attr_int, attr_strings, find_attr, make_attr_int, make_attr_ints};

/// Maximum sequence length. No runtime loads graphs of longer sequences in reasonable time.
const LONGEST: usize = 512;

/// `RNN`: `[S, N, I]` to `[S, D, N, H]`, and the last state `[D, N, H]`.
pub(in super::super) fn rnn(site: &Site<'_>) -> Ruled {
    unroll(site, Kind::Rnn)
}

/// `GRU`, with the shapes of [`rnn`].
pub(in super::super) fn gru(site: &Site<'_>) -> Ruled {
    unroll(site, Kind::Gru { linear_before_reset: attr_int(site.attributes(), "linear_before_reset", 0) != 0 })
}

/// `LSTM`, with the shapes of [`rnn`] and the last cell state `[D, N, H]`.
pub(in super::super) fn lstm(site: &Site<'_>) -> Ruled {
    unroll(site, Kind::Lstm)
}

#[derive(Clone, Copy)]
enum Kind {
    Rnn,
    Gru { linear_before_reset: bool },
    Lstm,
}

impl Kind {
    /// Blocks of rows in the weights.
    fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru { .. } => 3,
            Self::Lstm => 4,
        }
    }

    /// Default activation functions of one direction.
    fn usual(self) -> &'static [&'static str] {
        match self {
            Self::Rnn => &["Tanh"],
            Self::Gru { .. } => &["Sigmoid", "Tanh"],
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// Weights and activation functions of one direction.
struct Direction {
    is_reverse: bool,
    /// Weights `[I, G·H]` and `[H, G·H]`.
    input: String,
    recurrent: String,
    /// Biases, `[G·H]` each.
    biases: Option<[String; 2]>,
    /// Initial states, `[N, H]` each. `None` if they are zero.
    hidden: Option<String>,
    cell: Option<String>,
    functions: Vec<String>,
}

fn unroll(site: &Site<'_>, kind: Kind) -> Ruled {
    refuse(site)?;
    let is_batch_first = attr_int(site.attributes(), "layout", 0) != 0;
    let (x, weights) = (site.float(0)?, site.float(2)?);
    let (&[first, second, _], &[directions, rows, hidden]) = (&x.shape[..], &weights.shape[..]) else {
        return Err(site.invalid("it reads a sequence [S, N, I] and weights [D, G·H, H]"));
    };
    let (steps, batch_axis) = if is_batch_first { (second, 0) } else { (first, 1) };
    if x.batch.is_none_or(|batch| batch.axis != batch_axis) {
        return Err(site.mixes(
            format!("its samples do not lie along axis {batch_axis} of its sequences"),
            "give it sequences with the batch where its layout attribute says",
        ));
    }
    if steps > LONGEST {
        return Err(site.refused(
            format!("its sequences have {steps} steps, and it is unrolled over at most {LONGEST}"),
            "use shorter sequences, or attention",
        ));
    }
    let gates = kind.gates();
    let wanted = match site.attr_string("direction", "forward") {
        "bidirectional" => 2,
        _ => 1,
    };
    if directions != wanted || rows != gates * hidden {
        return Err(site.invalid(format!("its weights {:?} do not fit its direction and size", weights.shape)));
    }

    let mut rewrite = Rewrite::of(site);
    let name = |slot: usize| site.node.input.get(slot).filter(|_| site.has(slot)).map(String::as_str);
    let required = |slot| name(slot).ok_or_else(|| site.invalid(format!("input {slot} is missing")));
    let mut sequence = required(0)?.to_owned();
    if is_batch_first {
        sequence = rewrite.node("Transpose", &[&sequence], vec![make_attr_ints("perm", &[1, 0, 2])]);
    }
    let mut outputs = Vec::new();
    for at in 0..directions {
        let direction = Direction {
            is_reverse: at == 1 || site.attr_string("direction", "forward") == "reverse",
            input: matrix(&mut rewrite, required(1)?, at),
            recurrent: matrix(&mut rewrite, required(2)?, at),
            biases: name(3).map(|bias| {
                let bias = part(&mut rewrite, bias, 0, at, at + 1);
                let bias = squeeze(&mut rewrite, &bias, 0);
                [0, 1].map(|half| part(&mut rewrite, &bias, 0, half * rows, (half + 1) * rows))
            }),
            hidden: name(5).map(|state| initial(&mut rewrite, state, at, is_batch_first)),
            cell: name(6).map(|state| initial(&mut rewrite, state, at, is_batch_first)),
            functions: functions(site, kind, at, directions)?,
        };
        outputs.push(run(&mut rewrite, kind, &direction, &sequence, steps, hidden));
    }

    write_outputs(&mut rewrite, site, &outputs, steps, is_batch_first);
    Ok(rewrite.all())
}

/// Writes the operator's outputs from the states, each `[N, H]`.
fn write_outputs(rewrite: &mut Rewrite<'_>, site: &Site<'_>, outputs: &[States], steps: usize, is_batch_first: bool) {
    let output = |slot: usize| site.node.output.get(slot).filter(|name| !name.is_empty());
    if let Some(output) = output(0) {
        let each: Vec<String> = (0..steps)
            .map(|step| {
                let states: Vec<&str> = outputs.iter().map(|states| &*states.hidden[step]).collect();
                let states = stack(rewrite, &states);
                unsqueeze(rewrite, &states)
            })
            .collect();
        let all = join(rewrite, &each);
        match is_batch_first {
            true => rewrite.named("Transpose", &[&all], vec![make_attr_ints("perm", &[2, 0, 1, 3])], output),
            false => rewrite.named("Identity", &[&all], vec![], output),
        }
    }
    for (slot, of) in [(1, false), (2, true)] {
        let Some(output) = output(slot) else { continue };
        let last: Vec<&str> = outputs.iter().map(|states| if of { &*states.cell } else { &*states.last }).collect();
        let last = stack(rewrite, &last);
        match is_batch_first {
            true => rewrite.named("Transpose", &[&last], vec![make_attr_ints("perm", &[1, 0, 2])], output),
            false => rewrite.named("Identity", &[&last], vec![], output),
        }
    }
}

/// Fails for features that are not unrolled.
fn refuse(site: &Site<'_>) -> Result<(), GraphError> {
    let has = |name| find_attr(site.attributes(), name).is_some();
    let refused = |what: &str, remedy: &str| Err(site.refused(what, remedy));
    if site.has(4) {
        return refused("its sequences have lengths of their own", "pad them to one length, and mask what is behind");
    }
    if site.has(7) {
        return refused("it has peephole weights", "export an LSTM without them");
    }
    if has("clip") && attr_float(site.attributes(), "clip", 0.0) != 0.0 {
        return refused("it clips its cells", "export it without clip");
    }
    if attr_int(site.attributes(), "input_forget", 0) != 0 {
        return refused("its input gate is tied to its forget gate", "export it with both gates");
    }
    Ok(())
}

/// Activation functions of direction `at`.
fn functions(site: &Site<'_>, kind: Kind, at: usize, directions: usize) -> Result<Vec<String>, GraphError> {
    let usual = kind.usual();
    let given = attr_strings(site.attributes(), "activations");
    if given.is_empty() {
        return Ok(usual.iter().map(|name| (*name).to_owned()).collect());
    }
    if given.len() != directions * usual.len() {
        return Err(site.invalid(format!("it has {} functions for {directions} directions", given.len())));
    }
    let own = given[at * usual.len()..][..usual.len()].to_vec();
    match own.iter().find(|name| !matches!(&***name, "Sigmoid" | "Tanh" | "Relu")) {
        Some(other) => Err(site.refused(format!("its function {other} has no rule here"), "use Sigmoid, Tanh or Relu")),
        None => Ok(own),
    }
}

/// States of one direction, each `[N, H]`: after each step in sequence order, and after the last step computed.
struct States {
    hidden: Vec<String>,
    last: String,
    cell: String,
}

fn run(
    rewrite: &mut Rewrite<'_>,
    kind: Kind,
    direction: &Direction,
    sequence: &str,
    steps: usize,
    size: usize,
) -> States {
    let Direction { input, recurrent, functions, .. } = direction;
    // The input's part of all steps, with the biases that add to it.
    let mut shares = rewrite.node("MatMul", &[sequence, input], vec![]);
    let mut inner = None;
    if let Some([of_input, of_state]) = &direction.biases {
        shares = rewrite.node("Add", &[&shares, of_input], vec![]);
        match kind {
            Kind::Gru { linear_before_reset: true } => {
                let outer = part(rewrite, of_state, 0, 0, 2 * size);
                let zeros = rewrite.floats(&[size], vec![0.0; size]);
                let outer = rewrite.node("Concat", &[&outer, &zeros], vec![make_attr_int("axis", 0)]);
                shares = rewrite.node("Add", &[&shares, &outer], vec![]);
                inner = Some(part(rewrite, of_state, 0, 2 * size, 3 * size));
            }
            _ => shares = rewrite.node("Add", &[&shares, of_state], vec![]),
        }
    }
    let mut hidden = vec![String::new(); steps];
    let (mut h, mut c) = (direction.hidden.clone(), direction.cell.clone());
    for step in 0..steps {
        let at = if direction.is_reverse { steps - 1 - step } else { step };
        let share = part(rewrite, &shares, 0, at, at + 1);
        let share = squeeze(rewrite, &share, 0);
        let next = match kind {
            Kind::Rnn => {
                let sum = plus_product(rewrite, &share, h.as_deref(), recurrent);
                rewrite.node(&functions[0], &[&sum], vec![])
            }
            Kind::Lstm => {
                let sum = plus_product(rewrite, &share, h.as_deref(), recurrent);
                lstm_step(rewrite, functions, &sum, size, &mut c)
            }
            Kind::Gru { linear_before_reset } => {
                gru_step(rewrite, direction, &share, size, h.as_deref(), linear_before_reset, inner.as_deref())
            }
        };
        hidden[at] = next.clone();
        h = Some(next);
    }
    States { hidden, last: h.unwrap_or_default(), cell: c.unwrap_or_default() }
}

/// Gate `at` of the concatenated gates.
fn gate(rewrite: &mut Rewrite<'_>, all: &str, at: usize, size: usize) -> String {
    part(rewrite, all, 1, at * size, (at + 1) * size)
}

/// Next hidden state of an LSTM from the sum of its gates. Updates the cell state.
fn lstm_step(
    rewrite: &mut Rewrite<'_>,
    functions: &[String],
    sum: &str,
    size: usize,
    cell_before: &mut Option<String>,
) -> String {
    let [i, o, f, g] = [0, 1, 2, 3].map(|at| gate(rewrite, sum, at, size));
    let [i, o] = [i, o].map(|gate| rewrite.node(&functions[0], &[&gate], vec![]));
    let g = rewrite.node(&functions[1], &[&g], vec![]);
    let mut cell = rewrite.node("Mul", &[&i, &g], vec![]);
    if let Some(before) = &*cell_before {
        let f = rewrite.node(&functions[0], &[&f], vec![]);
        let kept = rewrite.node("Mul", &[&f, before], vec![]);
        cell = rewrite.node("Add", &[&kept, &cell], vec![]);
    }
    let shown = rewrite.node(&functions[2], &[&cell], vec![]);
    *cell_before = Some(cell);
    rewrite.node("Mul", &[&o, &shown], vec![])
}

/// Next hidden state of a GRU. `bias` is added inside the reset if the reset follows the product.
fn gru_step(
    rewrite: &mut Rewrite<'_>,
    direction: &Direction,
    share: &str,
    size: usize,
    h: Option<&str>,
    linear_before_reset: bool,
    bias: Option<&str>,
) -> String {
    let gates = part(rewrite, &direction.recurrent, 1, 0, 2 * size);
    let of_new = part(rewrite, &direction.recurrent, 1, 2 * size, 3 * size);
    let outer = part(rewrite, share, 1, 0, 2 * size);
    let outer = plus_product(rewrite, &outer, h, &gates);
    let outer = rewrite.node(&direction.functions[0], &[&outer], vec![]);
    let [z, r] = [0, 1].map(|at| gate(rewrite, &outer, at, size));
    let new = gate(rewrite, share, 2, size);
    let sum = match (h, linear_before_reset) {
        (None, false) => new,
        (Some(h), false) => {
            let reset = rewrite.node("Mul", &[&r, h], vec![]);
            plus_product(rewrite, &new, Some(&reset), &of_new)
        }
        (h, true) => {
            let product = h.map(|h| rewrite.node("MatMul", &[h, &of_new], vec![]));
            let own = match (product, bias) {
                (Some(product), Some(bias)) => Some(rewrite.node("Add", &[&product, bias], vec![])),
                (product, bias) => product.or(bias.map(str::to_owned)),
            };
            match own {
                Some(own) => {
                    let reset = rewrite.node("Mul", &[&r, &own], vec![]);
                    rewrite.node("Add", &[&new, &reset], vec![])
                }
                None => new,
            }
        }
    };
    let new = rewrite.node(&direction.functions[1], &[&sum], vec![]);
    let one = rewrite.floats(&[1], vec![1.0]);
    let rest = rewrite.node("Sub", &[&one, &z], vec![]);
    let taken = rewrite.node("Mul", &[&rest, &new], vec![]);
    match h {
        Some(h) => {
            let kept = rewrite.node("Mul", &[&z, h], vec![]);
            rewrite.node("Add", &[&taken, &kept], vec![])
        }
        None => taken,
    }
}

/// `a + h·R`, or `a` if `h` is zero.
fn plus_product(rewrite: &mut Rewrite<'_>, a: &str, h: Option<&str>, weights: &str) -> String {
    match h {
        Some(h) => {
            let product = rewrite.node("MatMul", &[h, weights], vec![]);
            rewrite.node("Add", &[a, &product], vec![])
        }
        None => a.to_owned(),
    }
}

/// Direction `at` of weights `[D, rows, columns]`, transposed to `[columns, rows]`.
fn matrix(rewrite: &mut Rewrite<'_>, weights: &str, at: usize) -> String {
    let own = part(rewrite, weights, 0, at, at + 1);
    let own = squeeze(rewrite, &own, 0);
    rewrite.node("Transpose", &[&own], vec![make_attr_ints("perm", &[1, 0])])
}

/// Direction `at` of an initial state `[D, N, H]` or `[N, D, H]`: `[N, H]`.
fn initial(rewrite: &mut Rewrite<'_>, state: &str, at: usize, is_batch_first: bool) -> String {
    let axis = usize::from(is_batch_first);
    let own = part(rewrite, state, axis, at, at + 1);
    squeeze(rewrite, &own, axis)
}

/// Entries `from` to `to` along `axis`.
fn part(rewrite: &mut Rewrite<'_>, value: &str, axis: usize, from: usize, to: usize) -> String {
    let [from, to, axis] = [from, to, axis].map(|number| rewrite.fixed([number as i64]));
    rewrite.node("Slice", &[value, &from, &to, &axis], vec![])
}

fn squeeze(rewrite: &mut Rewrite<'_>, value: &str, axis: usize) -> String {
    let axis = rewrite.fixed([axis as i64]);
    rewrite.node("Squeeze", &[value, &axis], vec![])
}

fn unsqueeze(rewrite: &mut Rewrite<'_>, value: &str) -> String {
    let axis = rewrite.fixed([0]);
    rewrite.node("Unsqueeze", &[value, &axis], vec![])
}

/// Stacks the states `[N, H]` of the directions to `[D, N, H]`.
fn stack(rewrite: &mut Rewrite<'_>, states: &[&str]) -> String {
    let each: Vec<String> = states.iter().map(|state| unsqueeze(rewrite, state)).collect();
    join(rewrite, &each)
}

/// Concatenates values along axis 0.
fn join(rewrite: &mut Rewrite<'_>, values: &[String]) -> String {
    match values {
        [one] => one.clone(),
        _ => {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            rewrite.node("Concat", &values, vec![make_attr_int("axis", 0)])
        }
    }
}
