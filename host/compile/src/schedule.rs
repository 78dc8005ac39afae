//! Schedule of a compiled network's program: computed values are in one memory, separate from those known in advance.
//!
//! [`Program`] keeps constants, parameters and samples in its areas. On a device, constants stay in flash, and the
//! caller owns parameters and samples. This module identifies the values that steps write and places only them, with
//! the same placement algorithm.

use crate::layout::{Layout, Value};
use damper_nn::elementwise::{Binary, Unary};
use damper_onnx::graph::QuantizedTensor;
use damper_runtime::portable::{Data, Kernel, Kind, Program, ValuePlace};
use std::collections::HashMap;

/// Source of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Constants of its kind.
    Constant,
    /// Weight of 8-bit integers, by its number.
    Quantized(usize),
    /// Input of the program, by its number.
    Input(usize),
    /// Memory of its kind.
    Memory,
}

/// Operand of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operand {
    pub(crate) source: Source,
    pub(crate) kind: Kind,
    /// Index of the first element.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Elements by which each iteration of its block moves it.
    pub(crate) stride: isize,
}

impl Operand {
    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len
            * match self.kind {
                Kind::F32 => 4,
                Kind::I64 => 8,
                Kind::Bool => 1,
            }
    }
}

/// Kernel with its operands.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) node: String,
    pub(crate) kernel: Kernel,
    pub(crate) reads: Vec<Operand>,
    pub(crate) write: Operand,
}

/// Steps that run `count` times.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) count: usize,
    pub(crate) steps: Vec<Step>,
}

/// Steps that compute the outputs of a program.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) blocks: Vec<Block>,
    pub(crate) outputs: Vec<Operand>,
    /// Lengths of the memories of f32, i64 and bool.
    pub(crate) areas: [usize; 3],
}

/// Constants of a network, without duplicates.
#[derive(Default, Debug)]
pub(crate) struct Constants {
    pub(crate) f32: Vec<f32>,
    pub(crate) i64: Vec<i64>,
    pub(crate) bool: Vec<bool>,
    /// Weights that kernels read as integers.
    pub(crate) quantized: Vec<QuantizedTensor>,
    known: Vec<(Kind, usize, usize)>,
    /// Integer weights of the model, with their elements as floats. The number is that in `quantized`, if a kernel
    /// reads it.
    weights: Vec<(QuantizedTensor, Vec<f32>, Option<usize>)>,
}

impl Constants {
    /// Creates empty constants for a model with these integer weights, given with their elements as floats.
    pub(crate) fn new<'a>(weights: impl Iterator<Item = (&'a QuantizedTensor, &'a [f32])>) -> Self {
        Self { weights: weights.map(|(of, floats)| (of.clone(), floats.to_vec(), None)).collect(), ..Self::default() }
    }

    /// Returns the number of the integer weight with the elements `data`, if any. Its readers do not need floats.
    pub(crate) fn quantize(&mut self, data: &Data) -> Option<usize> {
        let Data::F32(data) = data else { return None };
        let is_it = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).eq(data.iter().map(|x| x.to_bits()));
        let (weight, _, number) = self.weights.iter_mut().find(|(_, floats, _)| is_it(floats))?;
        let quantized = &mut self.quantized;
        Some(*number.get_or_insert_with(|| {
            quantized.push(weight.clone());
            quantized.len() - 1
        }))
    }

    /// Returns the offset of `data` in the constants of its kind. Adds them if they are new.
    pub(crate) fn intern(&mut self, data: &Data) -> usize {
        let Self { f32, i64, bool, known, .. } = self;
        match data {
            Data::F32(data) => intern(f32, known, (Kind::F32, data), |a, b| a.to_bits() == b.to_bits()),
            Data::I64(data) => intern(i64, known, (Kind::I64, data), i64::eq),
            Data::Bool(data) => intern(bool, known, (Kind::Bool, data), bool::eq),
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let quantized = self.quantized.iter().map(|weight| weight.values.len() + 5 * weight.scales.len());
        4 * self.f32.len() + 8 * self.i64.len() + self.bool.len() + quantized.sum::<usize>()
    }
}

fn intern<T: Copy>(
    all: &mut Vec<T>,
    known: &mut Vec<(Kind, usize, usize)>,
    (kind, data): (Kind, &[T]),
    is_same: impl Fn(&T, &T) -> bool,
) -> usize {
    let is_it = |&&(of, start, len): &&(Kind, usize, usize)| {
        of == kind && len == data.len() && all[start..start + len].iter().zip(data).all(|(a, b)| is_same(a, b))
    };
    if let Some((_, start, _)) = known.iter().find(is_it) {
        return *start;
    }
    known.push((kind, all.len(), data.len()));
    all.extend_from_slice(data);
    all.len() - data.len()
}

/// Content of a place at a step.
#[derive(Clone, Copy)]
enum Holder {
    /// Constant of the program, by its number.
    Constant(usize),
    Input(Operand),
    Written(usize),
}

/// Returns true if `kernel` can read operand `slot` as 8-bit integers.
pub(crate) fn reads_quantized(kernel: &Kernel, slot: usize) -> bool {
    match kernel {
        Kernel::Product(_) => true,
        Kernel::Forward(_) | Kernel::Transposed(..) => slot == 1,
        Kernel::Gather(_) => slot == 0,
        _ => false,
    }
}

/// Returns the operand that `kernel` can overwrite, if any.
fn overwritten(kernel: &Kernel) -> Option<usize> {
    match kernel {
        Kernel::Unary(Unary::Relu | Unary::Sigmoid | Unary::Tanh) => Some(0),
        Kernel::Binary(Binary::Gate, _) => Some(1),
        _ => None,
    }
}

impl Step {
    /// Returns the operands that the step does not overwrite.
    pub(crate) fn kept_reads(&self) -> impl Iterator<Item = &Operand> {
        self.reads.iter().filter(|read| **read != self.write)
    }

    /// Returns true if the step overwrites an operand.
    pub(crate) fn is_in_place(&self) -> bool {
        self.reads.contains(&self.write)
    }
}

impl Schedule {
    /// Returns the steps, each with the number of times that it runs.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.blocks.iter().flat_map(|block| block.steps.iter().map(|step| (block.count, step)))
    }

    /// Schedules `program` without loops and adds its constants to `constants`.
    pub(crate) fn unrolled(program: &Program, constants: &mut Constants) -> Self {
        let mut holders: HashMap<ValuePlace, Holder> = HashMap::new();
        let known =
            |source, place: &ValuePlace, start| Operand { source, kind: place.kind, start, len: place.len, stride: 0 };
        for (at, (place, _)) in program.constants.iter().enumerate() {
            holders.insert(*place, Holder::Constant(at));
        }
        for (at, port) in program.inputs.iter().enumerate() {
            holders.insert(port.place, Holder::Input(known(Source::Input(at), &port.place, 0)));
        }
        // Steps that write no elements are skipped.
        let steps: Vec<_> =
            program.of_parameters.iter().chain(&program.of_sample).filter(|step| step.write.len > 0).collect();
        let mut values: Vec<Value> = vec![];
        let mut read = vec![];
        for (at, step) in steps.iter().enumerate() {
            let reads: Vec<Option<Holder>> = step.reads.iter().map(|place| holders.get(place).copied()).collect();
            let written = |holder: &Option<Holder>| match holder {
                Some(Holder::Written(value)) => Some(*value),
                _ => None,
            };
            let of_steps: Vec<usize> = reads.iter().filter_map(written).collect();
            let over = overwritten(&step.kernel).and_then(|slot| reads.get(slot).and_then(written)).filter(|over| {
                let is_alone = of_steps.iter().filter(|read| *read == over).count() == 1;
                is_alone && values[*over].kind == step.write.kind && values[*over].len == step.write.len
            });
            read.push(reads);
            holders.insert(step.write, Holder::Written(at));
            let (kind, len) = (step.write.kind, step.write.len);
            values.push(Value { kind, len, reads: of_steps, over, is_output: false });
        }
        let outputs: Vec<_> =
            program.outputs.iter().map(|port| (holders.get(&port.place).copied(), port.place)).collect();
        for (holder, _) in &outputs {
            if let Some(Holder::Written(value)) = holder {
                values[*value].is_output = true;
            }
        }
        let Layout { order, starts, areas } = Layout::smallest(&values);
        let in_memory = |kind, start, len| Operand { source: Source::Memory, kind, start, len, stride: 0 };
        let mut operand = |holder: Option<Holder>, place: &ValuePlace, may_be_quantized: bool| match holder {
            Some(Holder::Constant(at)) => {
                let (_, data) = &program.constants[at];
                match may_be_quantized.then(|| constants.quantize(data)).flatten() {
                    Some(number) => known(Source::Quantized(number), place, 0),
                    None => known(Source::Constant, place, constants.intern(data)),
                }
            }
            Some(Holder::Input(operand)) => operand,
            Some(Holder::Written(value)) => in_memory(place.kind, starts[value], place.len),
            // No step writes a value without elements.
            None => in_memory(place.kind, 0, 0),
        };
        let outputs = outputs.iter().map(|(holder, place)| operand(*holder, place, false)).collect();
        let step = |at: usize| {
            let step = steps[at];
            let reads = read[at].iter().zip(&step.reads).enumerate();
            Step {
                node: step.node.clone(),
                kernel: step.kernel.clone(),
                reads: reads
                    .map(|(slot, (holder, place))| operand(*holder, place, reads_quantized(&step.kernel, slot)))
                    .collect(),
                write: in_memory(step.write.kind, starts[at], step.write.len),
            }
        };
        Self { blocks: vec![Block { count: 1, steps: order.into_iter().map(step).collect() }], outputs, areas }
    }
}
