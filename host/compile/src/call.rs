//! From kernels to calls of functions: each function is a kernel of `damper-nn`, compiled once, and each shape a constant. In C the functions
//! are those of `damper_nn.h`, which take their numbers and lengths as arguments.

use crate::Language;
use crate::schedule::{Source, Step};
use damper_nn::elementwise::Unary;
use damper_runtime::portable::{Kernel, Kind, Logic};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The functions and shapes that calls need.
#[derive(Debug)]
pub(crate) struct Library {
    language: Language,
    /// Sources, by name.
    functions: BTreeMap<String, String>,
    /// Types and values.
    shapes: Vec<(&'static str, String)>,
}

/// How the type of elements is written.
pub(crate) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "f32",
        Kind::I64 => "i64",
        Kind::Bool => "bool",
    }
}

impl Library {
    pub(crate) fn new(language: Language) -> Self {
        Self { language, functions: BTreeMap::new(), shapes: vec![] }
    }

    /// A reference to the shape. The fields of shapes are numbers, so what `Debug` writes is a literal.
    pub(crate) fn shape(&mut self, of: &'static str, shape: &impl Debug) -> String {
        let shape = (of, format!("{shape:?}"));
        let at = self.shapes.iter().position(|known| *known == shape).unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        });
        format!("&S{at}")
    }

    /// The statement that runs `step` on `reads` into `out`.
    pub(crate) fn call(&mut self, step: &Step, reads: &[String], out: &str) -> String {
        let write = type_of(step.write.kind);
        let read = step.reads.first().map_or(write, |read| type_of(read.kind));
        let one = reads.join(", ");
        let len = step.write.len;
        let quantized = step.reads.iter().position(|read| matches!(read.source, Source::Quantized(_)));
        if let Some(slot) = quantized {
            return self.quantized(step, slot, reads, out);
        }
        // Of the second operand, which are indices.
        let count = step.reads.get(1).map_or(0, |read| read.len).to_string();
        match &step.kernel {
            Kernel::Unary(op) => {
                let (name, rust, numbers) = unary(*op, self.language);
                let body = format!("elementwise::unary({rust}, x, out)");
                self.measured(&name, "x: &[f32], out: &mut [f32]", &body, &[&one, out], &format!("{len}{numbers}"))
            }
            Kernel::Binary(op, walk) => {
                let (name, body) = (lower(op), format!("elementwise::binary(Binary::{op:?}, walk, a, b, out)"));
                self.pair(&name, ("f32", "f32"), &body, walk, &one, out)
            }
            Kernel::Whole(op, walk) => {
                let body = format!("elementwise::whole(Whole::{op:?}, walk, a, b, out)");
                self.pair(&format!("whole_{}", lower(op)), ("i64", "i64"), &body, walk, &one, out)
            }
            Kernel::Compare(op, walk) => {
                let body = format!("elementwise::compare(Compare::{op:?}, walk, a, b, out)");
                self.pair(&format!("{}_{read}", lower(op)), (read, "bool"), &body, walk, &one, out)
            }
            Kernel::Logic(op, walk) => {
                let (name, sign) = match op {
                    Logic::And => ("and", "a & b"),
                    Logic::Or => ("or", "a | b"),
                    Logic::Xor => ("xor", "a != b"),
                };
                let body = format!("elementwise::zip(walk, a, b, out, |a: bool, b: bool| {sign})");
                self.pair(name, ("bool", "bool"), &body, walk, &one, out)
            }
            Kernel::Not => {
                self.mapped("not", ("bool", "bool"), "elementwise::map(x, out, |x: bool| !x)", &one, (out, len))
            }
            Kernel::IsNan => {
                self.mapped("is_nan", ("f32", "bool"), "elementwise::map(x, out, f32::is_nan)", &one, (out, len))
            }
            Kernel::Cast => {
                let cast = match (read, write) {
                    ("f32", "bool") => "x != 0.0",
                    ("i64", "bool") => "x != 0",
                    ("bool", "f32") => "if x { 1.0 } else { 0.0 }",
                    ("bool", "i64") => "i64::from(x)",
                    (_, "i64") => "x as i64",
                    _ => "x as f32",
                };
                let body = format!("elementwise::map(x, out, |x: {read}| {cast})");
                self.mapped(&format!("{read}_as_{write}"), (read, write), &body, &one, (out, len))
            }
            Kernel::Select(walk) => {
                let walk = self.shape("Walk<3>", walk);
                self.function(
                    &format!("select_{write}"),
                    &format!("walk: &Walk<3>, c: &[bool], a: &[{write}], b: &[{write}], out: &mut [{write}]"),
                    "elementwise::select(walk, c, a, b, out)",
                    &[&walk, &one, out],
                )
            }
            Kernel::Copy(walk) => {
                let walk = self.shape("Walk<1>", walk);
                let operands = format!("walk: &Walk<1>, x: &[{write}], out: &mut [{write}]");
                self.function(&format!("copy_{write}"), &operands, "layout::copy(walk, x, out)", &[&walk, &one, out])
            }
            Kernel::Concat(walks) => {
                let calls = walks.iter().zip(reads).map(|(walk, read)| self.place(write, walk, read, out));
                calls.collect::<Vec<_>>().join("\n        ")
            }
            Kernel::Pad(walk) => {
                let fill = self.mapped("fill", ("f32", "f32"), FILL, &reads[1], (out, len));
                format!("{fill}\n        {}", self.place(write, walk, &reads[0], out))
            }
            Kernel::Reduce(fold, reduction) => {
                let reduction = self.shape("Reduction", reduction);
                self.function(
                    &format!("reduce_{}", lower(fold)),
                    "reduction: &Reduction, x: &[f32], out: &mut [f32]",
                    &format!("reduce::reduce(Fold::{fold:?}, reduction, x, out)"),
                    &[&reduction, &one, out],
                )
            }
            Kernel::Product(product) => {
                let shape = self.shape("Product", product);
                self.function(
                    "product",
                    "shape: &Product, a: &[f32], b: &[f32], out: &mut [f32]",
                    "product::product(shape, a, b, out)",
                    &[&shape, &one, out],
                )
            }
            Kernel::Forward(window) => {
                let window = self.shape("Window", window);
                self.function(
                    "forward",
                    "window: &Window, x: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &mut [f32]",
                    "convolution::forward(window, x, kernel, bias, out)",
                    &[&window, &reads[0], &reads[1], &self.bias(reads), out],
                )
            }
            Kernel::Transposed(window, strides) => {
                let (window, strides) = (self.shape("Window", window), self.shape("KernelStrides", strides));
                self.function(
                    "transposed",
                    "window: &Window, strides: &KernelStrides, y: &[f32], kernel: &[f32], bias: Option<&[f32]>, out: &mut [f32]",
                    "convolution::transposed(window, y, kernel, *strides, bias, out)",
                    &[&window, &strides, &reads[0], &reads[1], &self.bias(reads), out],
                )
            }
            Kernel::MaxPool(window) => {
                let window = self.shape("Window", window);
                let body = "pool::max_pool(window, x, out)";
                self.function("max_pool", "window: &Window, x: &[f32], out: &mut [f32]", body, &[&window, &one, out])
            }
            Kernel::AveragePool(window, counts_outside) => {
                let window = self.shape("Window", window);
                let name = if *counts_outside { "average_pool_of_all" } else { "average_pool" };
                let body = format!("pool::average_pool(window, {counts_outside}, x, out)");
                self.function(name, "window: &Window, x: &[f32], out: &mut [f32]", &body, &[&window, &one, out])
            }
            Kernel::Gather(along) => {
                let along = self.shape("Along", along);
                let operands = format!("along: &Along, x: &[{write}], indices: &[i64], out: &mut [{write}]");
                let body = "index::gather(along, x, indices, out)";
                self.measured(&format!("gather_{write}"), &operands, body, &[&along, &one, out], &count)
            }
            Kernel::GatherElements(along) => {
                let along = self.shape("Along", along);
                let operands = format!("along: &Along, x: &[{write}], indices: &[i64], out: &mut [{write}]");
                let body = "index::gather_elements(along, x, indices, out)";
                self.measured(&format!("gather_elements_{write}"), &operands, body, &[&along, &one, out], &count)
            }
            Kernel::ScatterAdd(along) => {
                let along = self.shape("Along", along);
                let body =
                    "elementwise::map(x, out, |x: f32| x)?;\n    index::scatter_add(along, indices, updates, out)";
                let operands = "along: &Along, x: &[f32], indices: &[i64], updates: &[f32], out: &mut [f32]";
                self.measured("scatter_add", operands, body, &[&along, &one, out], &count)
            }
        }
    }

    /// As [`Library::call`], where operand `slot` is a weight of 8-bit integers.
    fn quantized(&mut self, step: &Step, slot: usize, reads: &[String], out: &str) -> String {
        let weight = &reads[slot];
        match &step.kernel {
            Kernel::Product(product) => {
                let shape = self.shape("Product", product);
                let (name, body) = match slot {
                    0 => ("product_left", "quantized::product_left(shape, weight, x, out)"),
                    _ => ("product_right", "quantized::product_right(shape, x, weight, out)"),
                };
                let operands = "shape: &Product, weight: &Quantized<'_>, x: &[f32], out: &mut [f32]";
                self.function(name, operands, body, &[&shape, weight, &reads[1 - slot], out])
            }
            Kernel::Forward(window) => {
                let window = self.shape("Window", window);
                self.function(
                    "forward_quantized",
                    "window: &Window, kernel: &Quantized<'_>, x: &[f32], bias: Option<&[f32]>, out: &mut [f32]",
                    "quantized::forward(window, x, kernel, bias, out)",
                    &[&window, weight, &reads[0], &self.bias(reads), out],
                )
            }
            Kernel::Transposed(window, strides) => {
                let (window, strides) = (self.shape("Window", window), self.shape("KernelStrides", strides));
                self.function(
                    "transposed_quantized",
                    "window: &Window, strides: &KernelStrides, kernel: &Quantized<'_>, y: &[f32], bias: Option<&[f32]>, out: &mut [f32]",
                    "quantized::transposed(window, y, kernel, *strides, bias, out)",
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

    fn place(&mut self, of: &str, walk: &damper_nn::Walk<1>, read: &str, out: &str) -> String {
        let walk = self.shape("Walk<1>", walk);
        let operands = format!("walk: &Walk<1>, x: &[{of}], out: &mut [{of}]");
        self.function(&format!("place_{of}"), &operands, "layout::place(walk, x, out)", &[&walk, read, out])
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
        walk: &damper_nn::Walk<2>,
        reads: &str,
        out: &str,
    ) -> String {
        let walk = self.shape("Walk<2>", walk);
        let operands = format!("walk: &Walk<2>, a: &[{from}], b: &[{from}], out: &mut [{to}]");
        self.function(name, &operands, body, &[&walk, reads, out])
    }

    /// A call of the function, which is made if it is new.
    pub(crate) fn function(&mut self, name: &str, operands: &str, body: &str, arguments: &[&str]) -> String {
        self.measured(name, operands, body, arguments, "")
    }

    /// As [`Library::function`], with the lengths and numbers that a function of C takes last.
    fn measured(&mut self, name: &str, operands: &str, body: &str, arguments: &[&str], measures: &str) -> String {
        let arguments = arguments.join(", ");
        if self.language == Language::C {
            let comma = if measures.is_empty() { "" } else { ", " };
            return format!("TRY(damper_nn_{name}({arguments}{comma}{measures}));");
        }
        let source = format!("#[inline(never)]\npub fn {name}({operands}) -> Result<(), Error> {{\n    {body}\n}}\n");
        self.functions.entry(name.to_owned()).or_insert(source);
        format!("kernels::{name}({arguments})?;")
    }

    /// The third operand of a convolution.
    fn bias(&self, reads: &[String]) -> String {
        match (reads.get(2), self.language) {
            (Some(bias), Language::Rust) => format!("Some({bias})"),
            (None, Language::Rust) => "None".into(),
            (bias, Language::C) => bias.map_or("0", String::as_str).into(),
        }
    }

    /// The module of the functions.
    pub(crate) fn functions_source(&self) -> String {
        let body = self.functions.values().map(String::as_str).collect::<Vec<_>>().join("\n");
        let paths = [
            ("Along", "damper_nn::index::Along"),
            ("Binary", "damper_nn::elementwise::Binary"),
            ("Compare", "damper_nn::elementwise::Compare"),
            ("Error", "damper_nn::Error"),
            ("Fold", "damper_nn::reduce::Fold"),
            ("KernelStrides", "damper_nn::convolution::KernelStrides"),
            ("Product", "damper_nn::product::Product"),
            ("Quantized", "damper_nn::quantized::Quantized"),
            ("Reduction", "damper_nn::reduce::Reduction"),
            ("Unary", "damper_nn::elementwise::Unary"),
            ("Walk", "damper_nn::Walk"),
            ("Whole", "damper_nn::elementwise::Whole"),
            ("Window", "damper_nn::Window"),
            ("convolution", "damper_nn::convolution"),
            ("elementwise", "damper_nn::elementwise"),
            ("index", "damper_nn::index"),
            ("layout", "damper_nn::layout"),
            ("pool", "damper_nn::pool"),
            ("product", "damper_nn::product"),
            ("quantized", "damper_nn::quantized"),
            ("reduce", "damper_nn::reduce"),
        ];
        let is_word =
            |text: &str, name: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
        let is_used = |name: &str| match name.chars().next() {
            Some(first) if first.is_lowercase() => body.contains(&format!("    {name}::")),
            _ => is_word(&body, name),
        };
        let uses: String =
            paths.iter().filter(|(name, _)| is_used(name)).map(|(_, path)| format!("use {path};\n")).collect();
        format!("//! The kernels of this network: functions of `damper-nn`, each compiled once.\n\n{uses}\n{body}")
    }

    /// The constants of the shapes in C: what `Debug` writes, with other brackets.
    pub(crate) fn c_shapes(&self) -> String {
        let shape = |(at, (of, value)): (usize, &(&str, String))| {
            let of = match *of {
                "Product" => "product_shape".into(),
                "KernelStrides" => "strides".into(),
                of => of.to_lowercase().replace(['<', '>'], ""),
            };
            format!("static const damper_nn_{of} S{at} = {};\n", designated(value))
        };
        self.shapes.iter().enumerate().map(shape).collect()
    }

    /// The constants of the shapes, and what they use.
    pub(crate) fn shapes_source(&self) -> String {
        let has = |word: &str| self.shapes.iter().any(|(of, value)| of.contains(word) || value.contains(word));
        let paths = [
            ("Along", "damper_nn::index::Along"),
            ("Axis", "damper_nn::Axis"),
            ("KernelStrides", "damper_nn::convolution::KernelStrides"),
            ("Product", "damper_nn::product::Product"),
            ("Reduction", "damper_nn::reduce::Reduction"),
            ("Walk", "damper_nn::Walk"),
            ("Window", "damper_nn::Window"),
        ];
        let uses: String =
            paths.iter().filter(|(word, _)| has(word)).map(|(_, path)| format!("use {path};\n")).collect();
        let consts = self.shapes.iter().enumerate();
        let consts: String = consts.map(|(at, (of, value))| format!("pub static S{at}: {of} = {value};\n")).collect();
        format!("//! The shapes of this network.\n\n{uses}\n{consts}")
    }
}

/// A struct as `Debug` writes it, as an initializer of C99: `Name { field: [1] }` as `{ .field = {1} }`.
fn designated(value: &str) -> String {
    let mut words = vec![];
    for word in value.split(' ') {
        match word.strip_suffix(':') {
            Some(field) => words.push(format!(".{field} =")),
            // The name of a struct, whose bracket follows: of a list's first the list's bracket is before it.
            None if word.ends_with(|c: char| c.is_ascii_alphabetic()) => {
                words.extend(word.starts_with('[').then(|| "[".to_owned()));
            }
            None => words.push(word.to_owned()),
        }
    }
    words.join(" ").replace('[', "{").replace(']', "}")
}

const FILL: &str = "let [around] = x else { return Err(Error::Length) };\n    out.fill(*around);\n    Ok(())";

fn lower(op: &impl Debug) -> String {
    snake(&format!("{op:?}"))
}

/// `GreaterOrEqual` as `greater_or_equal`.
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

/// A function's name, how it is written in Rust, and the numbers that it takes in C: a function of Rust has its own.
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

/// A float in C.
pub(crate) fn c_float(x: f32) -> String {
    if x.is_finite() {
        format!("{x:?}f")
    } else {
        let sign = if x.is_sign_negative() { "-" } else { "" };
        format!("{sign}{}", if x.is_nan() { "NAN" } else { "INFINITY" })
    }
}
