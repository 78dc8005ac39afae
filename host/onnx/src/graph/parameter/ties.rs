//! Tied weights: one tensor that several layers use, and of which an exporter stored several initializers.
//!
//! Constant folding stores the transpose that an output layer takes of an embedding as a second initializer
//! (`onnx::MatMul_30`, `val_11`), and a linear layer that is applied twice as two. Such a copy is read from the first
//! again: it is one parameter, in the layout and under the name of its first use.
//!
//! Equal values prove that only where they cannot be equal by accident. So a copy has rank 2 or more and at least
//! [`DISTINCT`] different values, and it is the transpose of the first, or, in the same order, it has a name that an
//! exporter invented. Layers copied before training (`nn.TransformerEncoder`) are equal too, in the same order: they are
//! told from one layer applied twice by the scopes in the names of the nodes that read them.

use std::borrow::Cow;
use std::collections::HashMap;

use super::decoded::decoded;
use super::glob;
use super::reads::{Reads, is_exporters_name};
use super::{GraphError, GraphOptions, Tensor};
use crate::pb::{GraphProto, ModelProto, NodeProto};
use crate::scopes::has_branches;
use crate::{SettingError, make_attr_ints, make_node, make_tensor_i64};

/// Fewer different values are no evidence: masks, identities, initial values that are all equal.
const DISTINCT: usize = 16;

/// How a copy's values lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Form {
    /// As the first's.
    Same,
    /// In the same order, in another shape.
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

/// An initializer, or an alias, that holds another one's values.
pub(in super::super) struct Tie {
    pub copy: String,
    pub of: String,
    pub form: Form,
    pub shape: Vec<usize>,
}

/// The copies in `graph`.
pub(in super::super) fn find(graph: &GraphProto, options: &GraphOptions) -> Result<Vec<Tie>, GraphError> {
    if !options.parameter.is_empty() {
        return Ok(Vec::new());
    }
    let reads = Reads::of(graph);
    let tensors = decoded(graph)?;
    let apart = |name: &str| glob::any(&options.untie, name);
    let first_use = |name: &str| reads.of_name(name).first().map(|read| read.0);
    let mut candidates: Vec<(bool, usize, &str)> = tensors
        .iter()
        .filter(|(_, tensor)| tensor.shape.iter().filter(|&&d| d > 1).count() >= 2)
        .filter_map(|(name, _)| Some((is_exporters_name(name), first_use(name)?, *name)))
        .collect();
    candidates.sort_unstable();
    let mut firsts: HashMap<usize, Vec<&str>> = HashMap::new();
    let mut ties = Vec::new();
    for (_, _, name) in candidates {
        let tensor = &tensors[name];
        let same_size = firsts.entry(tensor.data.len()).or_default();
        let known = same_size.iter().find_map(|first| {
            let form = form(&tensors[first], tensor)?;
            let proven = form == Form::Transposed || proves_one_layer(graph, &reads, first, name);
            proven.then_some((*first, form))
        });
        match known {
            Some((of, form)) if !apart(name) && !apart(of) && !is_output(graph, name) => {
                ties.push(Tie { copy: name.into(), of: of.into(), form, shape: tensor.shape.clone() });
            }
            _ => same_size.push(name),
        }
    }
    for (alias, base) in &reads.aliases {
        let Some(tensor) = tensors.get(base) else { continue };
        let proven =
            form(tensor, tensor).is_some() && is_exporters_name(alias) && one_scope(graph, &reads, base, alias);
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
    Ok(ties)
}

/// Returns true if `node` brings a tied weight into a copy's shape.
pub(super) fn is_exchange(node: &NodeProto) -> bool {
    node.output.first().is_some_and(|copy| node.name.strip_suffix("/tied") == Some(copy))
}

/// `model` with every copy read from the first of its kind.
fn apply(model: &ModelProto, ties: &[Tie]) -> ModelProto {
    let mut model = model.clone();
    if let Some(graph) = model.graph.as_mut() {
        apply_to(graph, ties);
    }
    model
}

/// [`retie`], of a graph: none if nothing is tied.
pub(in super::super) fn retie_graph(
    graph: &GraphProto,
    options: &GraphOptions,
) -> Result<Option<GraphProto>, GraphError> {
    let ties = find(graph, options)?;
    let mut tied = graph.clone();
    apply_to(&mut tied, &ties);
    Ok((!ties.is_empty()).then_some(tied))
}

/// Every copy in `graph` is read from the first of its kind.
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

/// How `copy` holds the values of `first`; `None` where they differ or are no evidence.
fn form(first: &Tensor, copy: &Tensor) -> Option<Form> {
    let (a, b) = (first.as_f32()?, copy.as_f32()?);
    let bits = |x: &f32| x.to_bits();
    let form = if a.iter().map(bits).eq(b.iter().map(bits)) {
        if first.shape == copy.shape { Form::Same } else { Form::Reshaped }
    } else {
        let [row_axis, column_axis] = matrix(&first.shape)?;
        let (rows, columns) = (first.shape[row_axis], first.shape[column_axis]);
        let mut exchanged = first.shape.clone();
        exchanged.swap(row_axis, column_axis);
        let equal = |row: usize| (0..columns).all(|column| a[row * columns + column] == b[column * rows + row]);
        if exchanged != copy.shape || !(0..rows).all(equal) {
            return None;
        }
        Form::Transposed
    };
    let mut seen = Vec::with_capacity(DISTINCT);
    for x in a {
        if !seen.contains(&x.to_bits()) {
            seen.push(x.to_bits());
        }
        if seen.len() == DISTINCT {
            return Some(form);
        }
    }
    None
}

/// The two axes of more than one element, where there are two.
fn matrix(shape: &[usize]) -> Option<[usize; 2]> {
    let long: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] > 1).collect();
    <[usize; 2]>::try_from(long).ok()
}

/// Returns true if equal values in the same order are one layer's: an exporter named the copy, and not for another layer.
fn proves_one_layer(graph: &GraphProto, reads: &Reads<'_>, first: &str, copy: &str) -> bool {
    is_exporters_name(copy) && (!is_exporters_name(first) || one_scope(graph, reads, first, copy))
}

/// Returns true if both are read in one scope of the source, as `/layers.0/linear` of `/layers.0/linear/MatMul_1`.
fn one_scope(graph: &GraphProto, reads: &Reads<'_>, first: &str, copy: &str) -> bool {
    let scope = |name: &str| {
        let node: &NodeProto = &graph.node[reads.of_name(name).first()?.0];
        node.name.starts_with('/').then(|| node.name.rsplit_once('/').map(|(scope, _)| scope.to_string()))?
    };
    scope(first).is_some_and(|scope_of_first| Some(scope_of_first) == scope(copy))
}

fn is_output(graph: &GraphProto, name: &str) -> bool {
    graph.output.iter().any(|output| output.name == name)
}

/// `model` as its graph is built: each tied weight is one initializer, which all its uses read. The trained model is
/// written into this one.
///
/// # Errors
/// [`GraphError`] where a tensor cannot be read, or an option names a copy.
pub fn retie<'a>(model: &'a ModelProto, options: &GraphOptions) -> Result<Cow<'a, ModelProto>, GraphError> {
    let Some(graph) = &model.graph else {
        return Ok(Cow::Borrowed(model));
    };
    // Branches may read what the outer graph seems not to.
    if has_branches(graph) {
        return Ok(Cow::Borrowed(model));
    }
    let ties = find(graph, options)?;
    Ok(if ties.is_empty() { Cow::Borrowed(model) } else { Cow::Owned(apply(model, &ties)) })
}
