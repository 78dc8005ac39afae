//! Functions that a compiled network calls, and constants of their shapes, as source text.

use crate::Language;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Functions and shapes that the calls need.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) language: Language,
    /// Sources by name.
    functions: BTreeMap<String, String>,
    /// Types and values.
    shapes: Vec<(&'static str, String)>,
}

impl Library {
    pub(crate) fn new(language: Language) -> Self {
        Self { language, functions: BTreeMap::new(), shapes: vec![] }
    }

    /// Returns a reference to the shape's constant. All fields of shapes are numbers, so the output of `Debug` is a
    /// literal.
    pub(crate) fn shape(&mut self, of: &'static str, shape: &impl Debug) -> String {
        let shape = (of, format!("{shape:?}"));
        let at = self.shapes.iter().position(|known| *known == shape).unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        });
        format!("&S{at}")
    }

    /// Returns a call of the function. Adds the function if it is new.
    pub(crate) fn function(&mut self, name: &str, operands: &str, body: &str, arguments: &[&str]) -> String {
        self.measured(name, operands, body, arguments, "")
    }

    /// Returns a call as [`Library::function`] does, with the lengths and values that C functions take last.
    pub(crate) fn measured(
        &mut self,
        name: &str,
        operands: &str,
        body: &str,
        arguments: &[&str],
        measures: &str,
    ) -> String {
        let arguments = arguments.join(", ");
        if self.language == Language::C {
            let comma = if measures.is_empty() { "" } else { ", " };
            return format!("TRY(damper_nn_{name}({arguments}{comma}{measures}));");
        }
        let source = format!("#[inline(never)]\npub fn {name}({operands}) -> Result<(), Error> {{\n    {body}\n}}\n");
        self.functions.entry(name.to_owned()).or_insert(source);
        format!("kernels::{name}({arguments})?;")
    }

    /// Returns the third operand of a convolution.
    pub(crate) fn bias(&self, reads: &[String]) -> String {
        match (reads.get(2), self.language) {
            (Some(bias), Language::Rust) => format!("Some({bias})"),
            (None, Language::Rust) => "None".into(),
            (bias, Language::C) => bias.map_or("0", String::as_str).into(),
        }
    }

    /// Formats the module of the functions.
    pub(crate) fn functions_source(&self) -> String {
        let body = self.functions.values().map(String::as_str).collect::<Vec<_>>().join("\n");
        let paths = [
            ("Along", "damper_nn::index::Along"),
            ("Binary", "damper_nn::elementwise::Binary"),
            ("Compare", "damper_nn::elementwise::Compare"),
            ("Error", "damper_nn::Error"),
            ("Fold", "damper_nn::reduce::Fold"),
            ("KernelStrides", "damper_nn::convolution::KernelStrides"),
            ("Narrow", "damper_nn::Narrow"),
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

    /// Formats the constants of the shapes in C: the output of `Debug` as C initializers.
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

    /// Formats the constants of the shapes, with their imports.
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

/// Converts `Debug` output of a struct to a C99 initializer: `Name { field: [1] }` becomes `{ .field = {1} }`.
fn designated(value: &str) -> String {
    let mut words = vec![];
    for word in value.split(' ') {
        match word.strip_suffix(':') {
            Some(field) => words.push(format!(".{field} =")),
            // Drop the name of a struct, which is before its bracket. In the first element of a list, keep the list's
            // bracket.
            None if word.ends_with(|c: char| c.is_ascii_alphabetic()) => {
                words.extend(word.starts_with('[').then(|| "[".to_owned()));
            }
            None => words.push(word.to_owned()),
        }
    }
    words.join(" ").replace('[', "{").replace(']', "}")
}
