//! Kernels of onnxruntime's CUDA provider, with the types that they support.
//!
//! Sources of types and opsets: `docs/OperatorKernels.md` of onnxruntime 1.24, section CUDAExecutionProvider, and the
//! registrations in `core/providers/cuda/cuda_execution_provider.cc` of its main branch in 2026. They agree for opsets
//! 13 to 18. From 19 on they differ: older versions than those registrations have no kernel for `Equal` 19 and `Pad`
//! 19. Conditions on attributes: `GetCapability` in the same file (`ConvTransposeNeedFallbackToCPU`,
//! `ArgMaxOrArgMinNeedFallbackToCPU`), and `cuda/nn/conv_transpose.cc`. Inputs in the processor's memory:
//! `InputMemoryType(OrtMemTypeCPUInput, ..)` in the kernels' definitions.

use damper_onnx::graph::DType::{self, Bool, F32, F64, I32, I64};

/// Opsets that the table covers.
pub const OPSETS: std::ops::RangeInclusive<i64> = 13..=18;

/// Type of a node's first output.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Output {
    /// Same type as this input.
    Like(usize),
    /// Always this type.
    Is(DType),
    /// Type in the attribute `to`.
    Named,
}

/// Kernels of an operator.
pub struct Kernel {
    /// Operator.
    pub op: &'static str,
    /// Types of each input. The last entry applies to all later inputs.
    pub inputs: &'static [&'static [DType]],
    /// Inputs that it reads from the processor's memory.
    pub host: &'static [usize],
    /// Type of its output.
    pub output: Output,
}

/// Elementwise operators without a kernel in the provider. For them, onnxruntime copies the input to the processor and
/// the result back.
pub const WITHOUT: &[&str] = &["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh"];

const FLOATS: &[DType] = &[F32, F64];
const NUMBERS: &[DType] = &[F32, F64, I32, I64];
const ALL: &[DType] = &[F32, F64, I32, I64, Bool];
const INDEX: &[DType] = &[I32, I64];
const LIST: &[DType] = &[I64];
const TRUTH: &[DType] = &[Bool];

const fn like(op: &'static str, inputs: &'static [&'static [DType]]) -> Kernel {
    Kernel { op, inputs, host: &[], output: Output::Like(0) }
}

const fn shaped(op: &'static str, inputs: &'static [&'static [DType]], host: &'static [usize]) -> Kernel {
    Kernel { op, inputs, host, output: Output::Like(0) }
}

const fn truth(op: &'static str, inputs: &'static [&'static [DType]]) -> Kernel {
    Kernel { op, inputs, host: &[], output: Output::Is(Bool) }
}

/// Kernels of the operators in gradient graphs.
pub const KERNELS: &[Kernel] = &[
    like("Abs", &[NUMBERS]),
    like("Add", &[NUMBERS]),
    truth("And", &[TRUTH]),
    Kernel { op: "ArgMax", inputs: &[FLOATS], host: &[], output: Output::Is(I64) },
    like("AveragePool", &[FLOATS]),
    Kernel { op: "Cast", inputs: &[ALL], host: &[], output: Output::Named },
    like("Ceil", &[FLOATS]),
    like("Clip", &[&[F32, F64, I64]]),
    like("Concat", &[ALL]),
    like("Conv", &[FLOATS]),
    like("ConvTranspose", &[FLOATS]),
    like("Cos", &[FLOATS]),
    shaped("CumSum", &[NUMBERS, INDEX], &[1]),
    like("Div", &[NUMBERS]),
    truth("Equal", &[ALL]),
    like("Erf", &[FLOATS]),
    like("Exp", &[FLOATS]),
    shaped("Expand", &[ALL, LIST], &[1]),
    like("Flatten", &[ALL]),
    like("Floor", &[FLOATS]),
    like("Gather", &[ALL, INDEX]),
    like("GatherElements", &[ALL, INDEX]),
    like("Gemm", &[FLOATS]),
    like("GlobalAveragePool", &[FLOATS]),
    like("GlobalMaxPool", &[FLOATS]),
    truth("Greater", &[NUMBERS]),
    truth("GreaterOrEqual", &[NUMBERS]),
    like("Identity", &[ALL]),
    truth("IsInf", &[FLOATS]),
    truth("IsNaN", &[FLOATS]),
    like("LeakyRelu", &[FLOATS]),
    truth("Less", &[NUMBERS]),
    truth("LessOrEqual", &[NUMBERS]),
    like("Log", &[FLOATS]),
    like("MatMul", &[FLOATS]),
    like("Max", &[NUMBERS]),
    like("MaxPool", &[FLOATS]),
    like("Min", &[NUMBERS]),
    like("Mod", &[NUMBERS]),
    like("Mul", &[NUMBERS]),
    like("Neg", &[NUMBERS]),
    truth("Not", &[TRUTH]),
    truth("Or", &[TRUTH]),
    shaped("Pad", &[&[F32, F64, Bool], LIST, &[F32, F64, Bool], INDEX], &[1, 2, 3]),
    like("Pow", &[NUMBERS]),
    like("Reciprocal", &[FLOATS]),
    shaped("ReduceMax", &[NUMBERS, LIST], &[1]),
    shaped("ReduceMin", &[NUMBERS, LIST], &[1]),
    shaped("ReduceSum", &[NUMBERS, LIST], &[1]),
    like("Relu", &[FLOATS]),
    shaped("Reshape", &[ALL, LIST], &[1]),
    shaped("Resize", &[&[F32, F64, I32], FLOATS, &[F32], LIST], &[1, 2, 3]),
    like("Round", &[FLOATS]),
    like("ScatterElements", &[ALL, INDEX, ALL]),
    Kernel { op: "Shape", inputs: &[ALL], host: &[], output: Output::Is(I64) },
    like("Sigmoid", &[FLOATS]),
    like("Sign", &[NUMBERS]),
    like("Sin", &[FLOATS]),
    shaped("Slice", &[ALL, INDEX], &[1, 2, 3, 4]),
    shaped("Split", &[ALL, LIST], &[1]),
    like("Sqrt", &[FLOATS]),
    shaped("Squeeze", &[ALL, LIST], &[1]),
    like("Sub", &[NUMBERS]),
    like("Tanh", &[FLOATS]),
    shaped("Tile", &[NUMBERS, LIST], &[1]),
    shaped("TopK", &[NUMBERS, LIST], &[1]),
    like("Transpose", &[ALL]),
    shaped("Trilu", &[ALL, LIST], &[1]),
    shaped("Unsqueeze", &[ALL, LIST], &[1]),
    Kernel { op: "Where", inputs: &[TRUTH, NUMBERS, NUMBERS], host: &[], output: Output::Like(1) },
    truth("Xor", &[TRUTH]),
];
