//! Function calls for kernels. Each function is a kernel of `damper-nn`, compiled once, and each shape is a constant.
//! In C, the functions are those of `damper_nn.h`, which take values and lengths as arguments.

use crate::Language;
use crate::library::Library;
use crate::schedule::{Source, Step};
use damper_nn::convolution::KernelStrides;
use damper_nn::elementwise::{Binary, Unary};
use damper_nn::index::Along;
use damper_nn::{Walk, Window};
use damper_runtime::portable::{Kernel, Kind, Logic};
use std::fmt::Debug;

/// Returns the Rust name of an element type.
pub(crate) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "f32",
        Kind::I64 => "i64",
        Kind::Bool => "bool",
    }
}

impl Library {
    /// Returns the statement that runs `step` on `reads` and writes `out`.
    pub(crate) fn call(&mut self, step: &Step, reads: &[String], out: &str) -> String {
        let quantized = step.reads.iter().position(|read| matches!(read.source, Source::Quantized(_)));
        if let Some(slot) = quantized {
            return self.quantized(step, slot, reads, out);
        }
        let write = type_of(step.write.kind);
        let read = step.reads.first().map_or(write, |read| type_of(read.kind));
        let one = &*reads.join(", ");
        let len = step.write.len;
        // Length of the second operand, for kernels that read indices there.
        let count = step.reads.get(1).map_or(0, |read| read.len);
        match &step.kernel {
            kernel if step.is_in_place() => self.in_place(kernel, one, (out, len)),
            Kernel::Unary(op) => self.unary(*op, one, (out, len)),
            Kernel::Binary(op, walk) => {
                let (name, body) = (lower(op), format!("elementwise::binary(Binary::{op:?}, walk, a, b, out)"));
                self.pair(&name, ("f32", "f32"), &body, walk, one, out)
            }
            Kernel::Whole(op, walk) => {
                let body = format!("elementwise::whole(Whole::{op:?}, walk, a, b, out)");
                self.pair(&format!("whole_{}", lower(op)), ("i64", "i64"), &body, walk, one, out)
            }
            Kernel::Compare(op, walk) => {
                let body = format!("elementwise::compare(Compare::{op:?}, walk, a, b, out)");
                self.pair(&format!("{}_{read}", lower(op)), (read, "bool"), &body, walk, one, out)
            }
            Kernel::Logic(op, walk) => {
                let (name, sign) = match op {
                    Logic::And => ("and", "a & b"),
                    Logic::Or => ("or", "a | b"),
                    Logic::Xor => ("xor", "a != b"),
                };
                let body = format!("elementwise::zip(walk, a, b, out, |a: bool, b: bool| {sign})");
                self.pair(name, ("bool", "bool"), &body, walk, one, out)
            }
            Kernel::Not => {
                self.mapped("not", ("bool", "bool"), "elementwise::map(x, out, |x: bool| !x)", one, (out, len))
            }
            Kernel::IsNan => {
                self.mapped("is_nan", ("f32", "bool"), "elementwise::map(x, out, f32::is_nan)", one, (out, len))
            }
            Kernel::Cast => self.cast((read, write), one, (out, len)),
            Kernel::Select(walk) => self.select(walk, write, one, out),
            Kernel::Copy(walk) => self.walked(("copy", walk), write, one, out),
            Kernel::Concat(walks) => {
                let calls = walks.iter().zip(reads).map(|(walk, read)| self.walked(("place", walk), write, read, out));
                calls.collect::<Vec<_>>().join("\n        ")
            }
            Kernel::Pad(walk) => {
                let fill = self.mapped("fill", ("f32", "f32"), FILL, &reads[1], (out, len));
                format!("{fill}\n        {}", self.walked(("place", walk), write, &reads[0], out))
            }
            Kernel::Reduce(fold, reduction) => {
                let (name, body) = (lower(fold), format!("reduce::reduce(Fold::{fold:?}, reduction, x, out)"));
                let reduction = self.shape("Reduction", reduction);
                let operands = "reduction: &Reduction, x: &[f32], out: &mut [f32]";
                self.function(&format!("reduce_{name}"), operands, &body, &[&reduction, one, out])
            }
            Kernel::Product(product) => {
                let shape = self.shape("Product", product);
                let operands = "shape: &Product, a: &[f32], b: &[f32], out: &mut [f32]";
                self.function("product", operands, "product::product::<Narrow>(shape, a, b, out)", &[&shape, one, out])
            }
            Kernel::Forward(window) => self.forward(window, reads, out),
            Kernel::Transposed(window, strides) => self.transposed(window, strides, reads, out),
            Kernel::MaxPool(window) => self.pool("max_pool", window, "pool::max_pool(window, x, out)", one, out),
            Kernel::MaxPoolGrad(window) => self.max_pool_grad(window, one, out),
            Kernel::AveragePool(window, counts_outside) => {
                let name = if *counts_outside { "average_pool_of_all" } else { "average_pool" };
                self.pool(name, window, &format!("pool::average_pool(window, {counts_outside}, x, out)"), one, out)
            }
            Kernel::Gather(along) => self.gather(("gather", along), write, (one, count), out),
            Kernel::GatherElements(along) => self.gather(("gather_elements", along), write, (one, count), out),
            Kernel::ScatterAdd(along) => self.scatter_add(along, (one, count), out),
        }
    }

    /// Returns the statement of [`Library::call`] if operand `slot` is a weight of 8-bit integers.
    fn quantized(&mut self, step: &Step, slot: usize, reads: &[String], out: &str) -> String {
        let weight = &reads[slot];
        match &step.kernel {
            Kernel::Product(product) => {
                let shape = self.shape("Product", product);
                let (name, body) = match slot {
                    0 => ("product_left", "quantized::product_left::<Narrow>(shape, weight, x, out)"),
                    _ => ("product_right", "quantized::product_right::<Narrow>(shape, x, weight, out)"),
                };
                let operands = "shape: &Product, weight: &Quantized<'_>, x: &[f32], out: &mut [f32]";
                self.function(name, operands, body, &[&shape, weight, &reads[1 - slot], out])
            }
            Kernel::Forward(window) => {
                let window = self.shape("Window", window);
                self.function(
                    "forward_quantized",
                    "window: &Window, kernel: &Quantized<'_>, x: &[f32], bias: Option<&[f32]>, out: &mut [f32]",
                    "quantized::forward::<Narrow>(window, x, kernel, bias, out)",
                    &[&window, weight, &reads[0], &self.bias(reads), out],
                )
            }
            Kernel::Transposed(window, strides) => {
                let (window, strides) = (self.shape("Window", window), self.shape("KernelStrides", strides));
                self.function(
                    "transposed_quantized",
                    "window: &Window, strides: &KernelStrides, kernel: &Quantized<'_>, y: &[f32], bias: Option<&[f32]>, out: &mut [f32]",
                    "quantized::transposed::<Narrow>(window, y, kernel, *strides, bias, out)",
                    &[&window, &strides, weight, &reads[0], &self.bias(reads), out],
                )
            }
            Kernel::Gather(along) => {
                let along = self.shape("Along", along);
                let operands = "along: &Along, table: &Quantized<'_>, indices: &[i64], out: &mut [f32]";
                let body = "quantized::gather(along, table, indices, out)";
                let count = step.reads[1].len.to_string();
                self.measured("gather_quantized", operands, body, &[&along, weight, &reads[1], out], &count)
            }
            kernel => unreachable!("{kernel:?} reads floats"),
        }
    }

    fn unary(&mut self, op: Unary, read: &str, (out, len): (&str, usize)) -> String {
        let (name, rust, numbers) = unary(op, self.language);
        let body = format!("elementwise::unary({rust}, x, out)");
        self.measured(&name, "x: &[f32], out: &mut [f32]", &body, &[read, out], &format!("{len}{numbers}"))
    }

    /// Returns the statement of a kernel that overwrites an operand.
    fn in_place(&mut self, kernel: &Kernel, read: &str, (out, len): (&str, usize)) -> String {
        if let Kernel::Unary(op) = kernel {
            let (name, rust, _) = unary(*op, self.language);
            let body = format!("elementwise::unary_in_place({rust}, x);\n    Ok(())");
            return self.measured(&format!("{name}_in_place"), "x: &mut [f32]", &body, &[out], &len.to_string());
        }
        if let Kernel::Binary(Binary::Add, walk) = kernel {
            let walk = self.shape("Walk<2>", walk);
            let operands = "walk: &Walk<2>, x: &[f32], out: &mut [f32]";
            return self.function(
                "add_in_place",
                operands,
                "elementwise::add_in_place(walk, x, out)",
                &[&walk, read, out],
            );
        }
        let (operands, body) = ("x: &[f32], grad: &mut [f32]", "elementwise::gate_in_place(x, grad)");
        self.measured("gate_in_place", operands, body, &[read, out], &len.to_string())
    }

    fn max_pool_grad(&mut self, window: &Window, reads: &str, out: &str) -> String {
        let operands = "window: &Window, dy: &[f32], x: &[f32], y: &[f32], out: &mut [f32]";
        let window = self.shape("Window", window);
        self.function("max_pool_grad", operands, "pool::max_pool_grad(window, dy, x, y, out)", &[&window, reads, out])
    }

    fn cast(&mut self, (from, to): (&str, &str), read: &str, out: (&str, usize)) -> String {
        let cast = match (from, to) {
            ("f32", "bool") => "x != 0.0",
            ("i64", "bool") => "x != 0",
            ("bool", "f32") => "if x { 1.0 } else { 0.0 }",
            ("bool", "i64") => "i64::from(x)",
            (_, "i64") => "x as i64",
            _ => "x as f32",
        };
        let body = format!("elementwise::map(x, out, |x: {from}| {cast})");
        self.mapped(&format!("{from}_as_{to}"), (from, to), &body, read, out)
    }

    fn select(&mut self, walk: &Walk<3>, of: &str, reads: &str, out: &str) -> String {
        let walk = self.shape("Walk<3>", walk);
        let operands = format!("walk: &Walk<3>, c: &[bool], a: &[{of}], b: &[{of}], out: &mut [{of}]");
        let body = "elementwise::select(walk, c, a, b, out)";
        self.function(&format!("select_{of}"), &operands, body, &[&walk, reads, out])
    }

    /// Returns the call of a copy along a walk: `copy` or `place`.
    fn walked(&mut self, (name, walk): (&str, &Walk<1>), of: &str, read: &str, out: &str) -> String {
        let walk = self.shape("Walk<1>", walk);
        let operands = format!("walk: &Walk<1>, x: &[{of}], out: &mut [{of}]");
        let body = format!("layout::{name}(walk, x, out)");
        self.function(&format!("{name}_{of}"), &operands, &body, &[&walk, read, out])
    }

    fn forward(&mut self, window: &Window, reads: &[String], out: &str) -> String {
        let window = self.shape("Window", window);
        let operands = "window: &Window, x: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &mut [f32]";
        let arguments = [&*window, &reads[0], &reads[1], &self.bias(reads), out];
        self.function("forward", operands, "convolution::forward::<Narrow>(window, x, kernel, bias, out)", &arguments)
    }

    fn transposed(&mut self, window: &Window, strides: &KernelStrides, reads: &[String], out: &str) -> String {
        let (window, strides) = (self.shape("Window", window), self.shape("KernelStrides", strides));
        let operands = "window: &Window, strides: &KernelStrides, y: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &mut [f32]";
        let body = "convolution::transposed::<Narrow>(window, y, kernel, *strides, bias, out)";
        let arguments = [&*window, &strides, &reads[0], &reads[1], &self.bias(reads), out];
        self.function("transposed", operands, body, &arguments)
    }

    fn pool(&mut self, name: &str, window: &Window, body: &str, read: &str, out: &str) -> String {
        let window = self.shape("Window", window);
        self.function(name, "window: &Window, x: &[f32], out: &mut [f32]", body, &[&window, read, out])
    }

    /// Returns the call of `gather` or `gather_elements` for `count` indices.
    fn gather(&mut self, (name, along): (&str, &Along), of: &str, (reads, count): (&str, usize), out: &str) -> String {
        let along = self.shape("Along", along);
        let operands = format!("along: &Along, x: &[{of}], indices: &[i64], out: &mut [{of}]");
        let body = format!("index::{name}(along, x, indices, out)");
        let arguments = [&*along, reads, out];
        self.measured(&format!("{name}_{of}"), &operands, &body, &arguments, &count.to_string())
    }

    fn scatter_add(&mut self, along: &Along, (reads, count): (&str, usize), out: &str) -> String {
        let along = self.shape("Along", along);
        let operands = "along: &Along, x: &[f32], indices: &[i64], updates: &[f32], out: &mut [f32]";
        let body = "elementwise::map(x, out, |x: f32| x)?;\n    index::scatter_add(along, indices, updates, out)";
        self.measured("scatter_add", operands, body, &[&along, reads, out], &count.to_string())
    }

    fn mapped(
        &mut self,
        name: &str,
        (from, to): (&str, &str),
        body: &str,
        read: &str,
        (out, len): (&str, usize),
    ) -> String {
        self.measured(name, &format!("x: &[{from}], out: &mut [{to}]"), body, &[read, out], &len.to_string())
    }

    fn pair(
        &mut self,
        name: &str,
        (from, to): (&str, &str),
        body: &str,
        walk: &Walk<2>,
        reads: &str,
        out: &str,
    ) -> String {
        let walk = self.shape("Walk<2>", walk);
        let operands = format!("walk: &Walk<2>, a: &[{from}], b: &[{from}], out: &mut [{to}]");
        self.function(name, &operands, body, &[&walk, reads, out])
    }
}

const FILL: &str = "let [around] = x else { return Err(Error::Length) };\n    out.fill(*around);\n    Ok(())";

fn lower(op: &impl Debug) -> String {
    snake(&format!("{op:?}"))
}

/// Converts `GreaterOrEqual` to `greater_or_equal`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Returns a function's name, its Rust expression, and its constants as arguments in C. In Rust, the function contains
/// them.
fn unary(op: Unary, language: Language) -> (String, String, String) {
    let (name, fields): (&str, &[(&str, f32)]) = match &op {
        Unary::Clip { low, high } => ("clip", &[("low", *low), ("high", *high)]),
        Unary::LeakyRelu { slope } => ("leaky_relu", &[("slope", *slope)]),
        _ => return (lower(&op), format!("Unary::{op:?}"), String::new()),
    };
    let listed = |of: &dyn Fn(&(&str, f32)) -> String| fields.iter().map(of).collect::<String>();
    let rust = listed(&|(field, x)| format!(" {field}: f32::from_bits({:#x}),", x.to_bits()));
    let variant = format!("{op:?}");
    let variant = variant.split_once(' ').map_or("", |(variant, _)| variant);
    let suffix = if language == Language::C { String::new() } else { listed(&|(_, x)| format!("_{:x}", x.to_bits())) };
    (format!("{name}{suffix}"), format!("Unary::{variant} {{{rust} }}"), listed(&|(_, x)| format!(", {}", c_float(*x))))
}

/// Formats a float in C.
pub(crate) fn c_float(x: f32) -> String {
    if x.is_finite() {
        format!("{x:?}f")
    } else {
        let sign = if x.is_sign_negative() { "-" } else { "" };
        format!("{sign}{}", if x.is_nan() { "NAN" } else { "INFINITY" })
    }
}
