//! A program as a compiled network runs it: what it computes lies in one memory, and what is known beforehand does not.
//!
//! [`Program`] keeps constants, parameters and samples in its areas. On a device constants stay in flash, and parameters and the sample are
//! the caller's. So the values that steps write are told apart again and placed anew, by the same plan of memory.

use crate::layout::{Layout, Value};
use damper_nn::elementwise::{Binary, Unary};
use damper_onnx::graph::QuantizedTensor;
use damper_runtime::portable::{Data, Kernel, Kind, Program, ValuePlace};
use std::collections::HashMap;

/// Where an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Among the constants of its kind.
    Constant,
    /// A weight of 8-bit integers, by its number.
    Quantized(usize),
    /// An input of the program, by its number.
    Input(usize),
    /// In the memory of its kind.
    Memory,
}

/// An operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operand {
    pub(crate) source: Source,
    pub(crate) kind: Kind,
    /// The first element; of an input always 0.
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Operand {
    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len
            * match self.kind {
                Kind::F32 => 4,
                Kind::I64 => 8,
                Kind::Bool => 1,
            }
    }
}

/// A kernel with its operands.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) node: String,
    pub(crate) kernel: Kernel,
    pub(crate) reads: Vec<Operand>,
    pub(crate) write: Operand,
}

/// What computes the outputs of a program.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) steps: Vec<Step>,
    pub(crate) outputs: Vec<Operand>,
    /// Lengths of the memories of f32, i64 and bool.
    pub(crate) areas: [usize; 3],
}

/// The constants of a network, each once.
#[derive(Default, Debug)]
pub(crate) struct Constants {
    pub(crate) f32: Vec<f32>,
    pub(crate) i64: Vec<i64>,
    pub(crate) bool: Vec<bool>,
    /// Weights that kernels read as integers.
    pub(crate) quantized: Vec<QuantizedTensor>,
    known: Vec<(Kind, usize, usize)>,
    /// The model's weights of integers, each with its elements as floats, and its number among `quantized` if a kernel reads it.
    weights: Vec<(QuantizedTensor, Vec<f32>, Option<usize>)>,
}

impl Constants {
    /// None yet, of a model with these weights of integers and their elements as floats.
    pub(crate) fn new<'a>(weights: impl Iterator<Item = (&'a QuantizedTensor, &'a [f32])>) -> Self {
        Self { weights: weights.map(|(of, floats)| (of.clone(), floats.to_vec(), None)).collect(), ..Self::default() }
    }

    /// The number of the weight of integers whose elements are `data`, if there is one: whoever reads it need not have floats.
    fn quantize(&mut self, data: &Data) -> Option<usize> {
        let Data::F32(data) = data else { return None };
        let is_it = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).eq(data.iter().map(|x| x.to_bits()));
        let (weight, _, number) = self.weights.iter_mut().find(|(_, floats, _)| is_it(floats))?;
        let quantized = &mut self.quantized;
        Some(*number.get_or_insert_with(|| {
            quantized.push(weight.clone());
            quantized.len() - 1
        }))
    }

    /// Where `data` begins among those of its kind.
    fn intern(&mut self, data: &Data) -> usize {
        let Self { f32, i64, bool, known, .. } = self;
        match data {
            Data::F32(data) => intern(f32, known, (Kind::F32, data), |a, b| a.to_bits() == b.to_bits()),
            Data::I64(data) => intern(i64, known, (Kind::I64, data), i64::eq),
            Data::Bool(data) => intern(bool, known, (Kind::Bool, data), bool::eq),
        }
    }

    /// Bytes.
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

/// What a place holds at a step.
#[derive(Clone, Copy)]
enum Holder {
    /// A constant of the program, by its number.
    Constant(usize),
    Input(Operand),
    Written(usize),
}

/// Returns true if `kernel` has a form that reads operand `slot` as 8-bit integers.
fn reads_quantized(kernel: &Kernel, slot: usize) -> bool {
    match kernel {
        Kernel::Product(_) => true,
        Kernel::Forward(_) | Kernel::Transposed(..) => slot == 1,
        Kernel::Gather(_) => slot == 0,
        _ => false,
    }
}

/// The operand that `kernel` has a form to overwrite.
fn overwritten(kernel: &Kernel) -> Option<usize> {
    match kernel {
        Kernel::Unary(Unary::Relu | Unary::Sigmoid | Unary::Tanh) => Some(0),
        Kernel::Binary(Binary::Gate, _) => Some(1),
        _ => None,
    }
}

impl Step {
    /// Returns true if the step overwrites this operand.
    pub(crate) fn overwrites(&self, read: &Operand) -> bool {
        *read == self.write
    }

    /// Returns true if the step overwrites an operand.
    pub(crate) fn is_in_place(&self) -> bool {
        self.reads.iter().any(|read| self.overwrites(read))
    }
}

impl Schedule {
    /// Of `program`, whose constants join `constants`.
    pub(crate) fn new(program: &Program, constants: &mut Constants) -> Self {
        let mut holders: HashMap<ValuePlace, Holder> = HashMap::new();
        let known = |source, place: &ValuePlace, start| Operand { source, kind: place.kind, start, len: place.len };
        for (at, (place, _)) in program.constants.iter().enumerate() {
            holders.insert(*place, Holder::Constant(at));
        }
        for (at, port) in program.inputs.iter().enumerate() {
            holders.insert(port.place, Holder::Input(known(Source::Input(at), &port.place, 0)));
        }
        // Of a step that writes nothing there is nothing to run.
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
        let in_memory = |kind, start, len| Operand { source: Source::Memory, kind, start, len };
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
            // Nobody writes a value without elements.
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
        Self { steps: order.into_iter().map(step).collect(), outputs, areas }
    }
}
