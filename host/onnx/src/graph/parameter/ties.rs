//! Tied weights: one tensor with several uses, for which an exporter stored several initializers.
//!
//! Constant folding stores the transpose of an embedding that an output layer uses as a second initializer
//! (`onnx::MatMul_30`, `val_11`). It stores a linear layer that is applied twice as two initializers. Here, readers of
//! such a copy read the original again. It is one parameter, in the layout and under the name of its first use.
//!
//! Equal values prove a tie only if they cannot be equal by chance. So a copy must have rank 2 or more and at least
//! [`DISTINCT`] distinct values. It must be the transpose of the original, or have the same order and a name that an
//! exporter generated. Layers copied before training (`nn.TransformerEncoder`) also have equal values in the same
//! order. They differ from one layer applied twice in the scopes in the names of their readers, and in their biases. If
//! the exporter recorded that both come from a single parameter of the source, any equal values prove a tie.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::decoded::{decoded, is_uniform};
use super::reads::Reads;
use super::{GraphError, GraphOptions, Tensor};
use super::{glob, patterns};
use crate::pb::{GraphProto, ModelProto};
use crate::scopes::has_branches;
use crate::source::{ExportRecord, is_exporters_name, stored};
use crate::{SettingError, make_attr_ints, make_node, make_tensor_i64};

/// Minimum number of distinct values. Fewer prove nothing: masks, identities, and constant initial values also have
/// few.
const DISTINCT: usize = 16;

/// Layout of a copy's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Form {
    /// Same as the original.
    Same,
    /// Same order, another shape.
    Reshaped,
    /// Rows and columns exchanged.
    Transposed,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Form::Same => "",
            Form::Reshaped => ", reshaped",
            Form::Transposed => ", transposed",
        })
    }
}

/// Initializer or alias with the values of another.
pub(in super::super) struct Tie {
    pub copy: String,
    pub of: String,
    pub form: Form,
    pub shape: Vec<usize>,
}

/// Evidence that equal values are a single weight.
struct Evidence<'a> {
    graph: &'a GraphProto,
    reads: Reads<'a>,
    record: ExportRecord,
    tensors: HashMap<&'a str, Tensor>,
    /// Initializers with names that are not in the source.
    renamed: HashSet<&'a str>,
}

/// Finds the copies in `graph`.
pub(in super::super) fn find(graph: &GraphProto, options: &GraphOptions) -> Result<Vec<Tie>, GraphError> {
    if !options.parameter.is_empty() {
        return Ok(Vec::new());
    }
    let options = &patterns::of_source(graph, options);
    let record = ExportRecord::of(graph);
    let reads = Reads::of(graph, &record);
    let renamed = stored(graph).map(|(name, _)| name).collect();
    let evidence = Evidence { graph, reads, record, tensors: decoded(graph)?, renamed };
    let tensors = &evidence.tensors;
    let apart = |name: &str| glob::any(&options.untie, name);
    let mut firsts: HashMap<usize, Vec<&str>> = HashMap::new();
    let mut ties = Vec::new();
    for name in evidence.candidates() {
        let tensor = &tensors[name];
        let same_size = firsts.entry(tensor.data.len()).or_default();
        let known = same_size.iter().find_map(|first| Some((*first, evidence.form(first, name)?)));
        match known {
            Some((of, form)) if !apart(name) && !apart(of) && !is_output(graph, name) => {
                ties.push(Tie { copy: name.into(), of: of.into(), form, shape: tensor.shape.clone() });
            }
            _ => same_size.push(name),
        }
    }
    for (alias, base) in &evidence.reads.aliases {
        let Some(tensor) = tensors.get(base) else { continue };
        let proven = form(tensor, tensor).is_some() && is_exporters_name(alias) && evidence.is_one_layer(base, alias);
        let wanted = glob::any(&options.tie, alias) || proven;
        if wanted && !apart(alias) && !apart(base) && !is_output(graph, alias) {
            ties.push(Tie {
                copy: alias.to_string(),
                of: base.to_string(),
                form: Form::Same,
                shape: tensor.shape.clone(),
            });
        }
    }
    check_patterns(options, tensors, &ties)?;
    Ok(ties)
}

/// Fails if a pattern matches only copies.
fn check_patterns(options: &GraphOptions, tensors: &HashMap<&str, Tensor>, ties: &[Tie]) -> Result<(), GraphError> {
    for (setting, patterns) in [("only", &options.only), ("train", &options.train), ("freeze", &options.freeze)] {
        for pattern in patterns {
            let one = [pattern.clone()];
            let copy = ties.iter().find(|tie| glob::any(&one, &tie.copy));
            let elsewhere =
                tensors.keys().any(|name| glob::any(&one, name) && ties.iter().all(|tie| tie.copy != **name));
            if let Some(tie) = copy.filter(|_| !elsewhere) {
                let problem = format!(
                    "matches '{}', which is tied to '{}'; name that one, or take them apart with `untie` '{}'",
                    tie.copy, tie.of, tie.copy
                );
                return Err(SettingError::new(setting, format!("'{pattern}'"), problem).into());
            }
        }
    }
    Ok(())
}

impl<'a> Evidence<'a> {
    /// Initializers that may be copies. Those named in the source come first, then the others in the order of their
    /// first use.
    fn candidates(&self) -> Vec<&'a str> {
        let first_use = |name: &str| self.reads.of_name(name).first().map(|read| read.0);
        let may_be = |name: &str, tensor: &Tensor| {
            tensor.shape.iter().filter(|&&d| d > 1).count() >= 2 || tensor.data.len() > 1 && self.origin(name).is_some()
        };
        let found = self.tensors.iter().filter(|(name, tensor)| may_be(name, tensor));
        let mut found: Vec<(bool, usize, &str)> =
            found.filter_map(|(name, _)| Some((self.is_invented(name), first_use(name)?, *name))).collect();
        found.sort_unstable();
        found.into_iter().map(|(.., name)| name).collect()
    }

    fn is_invented(&self, name: &str) -> bool {
        is_exporters_name(name) || self.renamed.contains(name)
    }

    /// Parameter of the source that the initializer is, or from which alone it was folded.
    fn origin(&self, name: &str) -> Option<&str> {
        <[&str; 1]>::try_from(self.record.parameters(name)).ok().map(|[origin]| origin)
    }

    /// Layout of the values of `first` in `copy`, if both are a single weight.
    fn form(&self, first: &str, copy: &str) -> Option<Form> {
        let (a, b) = (&self.tensors[first], &self.tensors[copy]);
        match (self.origin(first), self.origin(copy)) {
            // An unfolded initializer has the layout of the source, and a folded initializer has another layout.
            (Some(one), Some(other)) if one == other => {
                let exchanged = self.record.folded_from(first).is_none();
                transposed(a, b).filter(|_| exchanged).or_else(|| same(a, b)).or_else(|| transposed(a, b))
            }
            (Some(_), Some(_)) => None,
            _ => form(a, b).filter(|form| *form == Form::Transposed || self.proves_one_layer(first, copy)),
        }
    }

    /// Returns true if equal values in the same order belong to one layer. An exporter generated the copy's name, and
    /// not for another layer.
    fn proves_one_layer(&self, first: &str, copy: &str) -> bool {
        self.is_invented(copy) && (!self.is_invented(first) || self.is_one_layer(first, copy))
    }

    /// Returns true if a single module reads both, such as `/layers.0/linear` in `/layers.0/linear/MatMul_1`. Also if
    /// the same bias is added after both.
    fn is_one_layer(&self, first: &str, copy: &str) -> bool {
        let reader = |name: &str| Some(self.reads.of_name(name).first()?.0);
        let (Some(one), Some(other)) = (reader(first), reader(copy)) else { return false };
        // Zero biases may have been merged.
        let is_own = |bias: &&str| self.tensors.get(bias).is_some_and(|tensor| !is_uniform(tensor));
        let bias = |node: usize| self.reads.bias_after(self.graph, node).filter(is_own);
        self.reads.are_of_one_module(self.graph, [one, other].into_iter())
            || bias(one).is_some_and(|name| Some(name) == bias(other))
    }
}

/// `model`, with the readers of every copy reading the original.
fn apply(model: &ModelProto, ties: &[Tie]) -> ModelProto {
    let mut model = model.clone();
    if let Some(graph) = model.graph.as_mut() {
        apply_to(graph, ties);
    }
    model
}

/// [`retie`] for a graph. `None` if nothing is tied.
pub(in super::super) fn retie_graph(
    graph: &GraphProto,
    options: &GraphOptions,
) -> Result<Option<GraphProto>, GraphError> {
    let ties = find(graph, options)?;
    let mut tied = graph.clone();
    apply_to(&mut tied, &ties);
    Ok((!ties.is_empty()).then_some(tied))
}

/// Makes the readers of every copy in `graph` read the original.
fn apply_to(graph: &mut GraphProto, ties: &[Tie]) {
    let mut nodes = Vec::new();
    for tie in ties {
        graph.initializer.retain(|tensor| tensor.name != tie.copy);
        graph.input.retain(|input| input.name != tie.copy);
        let name = format!("{}/tied", tie.copy);
        let (of, copy) = (tie.of.as_str(), tie.copy.as_str());
        match tie.form {
            Form::Same => {
                graph.node.retain(|node| node.output.first().is_none_or(|output| output != copy));
                let inputs = graph.node.iter_mut().flat_map(|node| &mut node.input);
                inputs.filter(|input| *input == copy).for_each(|input| *input = of.to_string());
            }
            Form::Transposed => {
                let mut perm: Vec<i64> = (0..tie.shape.len() as i64).collect();
                if let Some([rows, columns]) = matrix(&tie.shape) {
                    perm.swap(rows, columns);
                }
                nodes.push(make_node("Transpose", &name, &[of], &[copy], vec![make_attr_ints("perm", &perm)]));
            }
            Form::Reshaped => {
                let target: Vec<i64> = tie.shape.iter().map(|&d| d as i64).collect();
                let shape = format!("{copy}/shape");
                nodes.push(make_node("Reshape", &name, &[of, &shape], &[copy], vec![]));
                graph.initializer.push(make_tensor_i64(&shape, &[target.len()], &target));
            }
        }
    }
    graph.node.splice(0..0, nodes);
}

/// Those of `weights` with the same values as another.
pub(super) fn equal<'a>(weights: &[(&'a str, &Tensor)]) -> HashSet<&'a str> {
    let mut by_size: HashMap<usize, Vec<(&'a str, &Tensor)>> = HashMap::new();
    let mut found = HashSet::new();
    for &(name, tensor) in weights {
        let others = by_size.entry(tensor.data.len()).or_default();
        if let Some((first, _)) = others.iter().find(|(_, first)| form(first, tensor).is_some()) {
            found.extend([*first, name]);
        }
        others.push((name, tensor));
    }
    found
}

/// Layout of the values of `first` in `copy`. `None` if the values differ or prove nothing.
fn form(first: &Tensor, copy: &Tensor) -> Option<Form> {
    let form = same(first, copy).or_else(|| transposed(first, copy))?;
    let mut seen = Vec::with_capacity(DISTINCT);
    for x in first.as_f32()? {
        if !seen.contains(&x.to_bits()) {
            seen.push(x.to_bits());
        }
        if seen.len() == DISTINCT {
            return Some(form);
        }
    }
    None
}

/// `Same` or `Reshaped`, if the values are equal in the same order.
fn same(first: &Tensor, copy: &Tensor) -> Option<Form> {
    let bits = |x: &f32| x.to_bits();
    let equal = first.as_f32()?.iter().map(bits).eq(copy.as_f32()?.iter().map(bits));
    equal.then_some(if first.shape == copy.shape { Form::Same } else { Form::Reshaped })
}

/// `Transposed`, if the values are equal after a transpose.
fn transposed(first: &Tensor, copy: &Tensor) -> Option<Form> {
    let (a, b) = (first.as_f32()?, copy.as_f32()?);
    let [row_axis, column_axis] = matrix(&first.shape)?;
    let (rows, columns) = (first.shape[row_axis], first.shape[column_axis]);
    let mut exchanged = first.shape.clone();
    exchanged.swap(row_axis, column_axis);
    let equal =
        |row: usize| (0..columns).all(|column| a[row * columns + column].to_bits() == b[column * rows + row].to_bits());
    (exchanged == copy.shape && (0..rows).all(equal)).then_some(Form::Transposed)
}

/// The two axes with more than one element, if there are exactly two.
fn matrix(shape: &[usize]) -> Option<[usize; 2]> {
    let long: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] > 1).collect();
    <[usize; 2]>::try_from(long).ok()
}

fn is_output(graph: &GraphProto, name: &str) -> bool {
    graph.output.iter().any(|output| output.name == name)
}

/// `model` in the form from which its graph is built: each tied weight is one initializer that all its uses read. The
/// trained parameters are written to this model.
///
/// # Errors
/// [`GraphError`] if a tensor cannot be read, or an option names a copy.
pub fn retie<'a>(model: &'a ModelProto, options: &GraphOptions) -> Result<Cow<'a, ModelProto>, GraphError> {
    let Some(graph) = &model.graph else {
        return Ok(Cow::Borrowed(model));
    };
    // Subgraphs may read tensors that seem unused in the outer graph.
    if has_branches(graph) {
        return Ok(Cow::Borrowed(model));
    }
    let ties = find(graph, options)?;
    Ok(if ties.is_empty() { Cow::Borrowed(model) } else { Cow::Owned(apply(model, &ties)) })
}
