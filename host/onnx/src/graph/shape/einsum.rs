//! `Einsum`, rewritten as sums, transposes, reshapes and products, which have their own rules.
//!
//! Operands are contracted from left to right. A label that nothing else needs is summed at once. Two operands then
//! have three kinds of labels. Common labels that stay are leading axes of a `MatMul`. Common labels that are summed
//! are its inner extent. Labels of one operand are its rows and columns. If nothing is summed, the product is a `Mul`.
//! The samples' label comes first. So a weight stays a matrix or a stack of matrices, and its gradient stays factored.

use super::super::affine::Affine;
use super::super::node::{Ruled, Site};
use super::super::{GraphError, Value};
use super::rewrite::Rewrite;
use crate::{make_attr_int, make_attr_ints};

/// Letter, or an axis of an ellipsis, counted from the last axis.
type Label = u32;

const ELLIPSIS: Label = 0x11_0000;

/// Tensor with named axes.
#[derive(Clone)]
struct Operand {
    /// Name in the graph.
    name: String,
    /// Name in messages.
    called: String,
    labels: Vec<Label>,
    extents: Vec<Affine>,
}

impl Operand {
    fn extent(&self, label: Label) -> Option<Affine> {
        self.labels.iter().position(|&own| own == label).map(|axis| self.extents[axis])
    }

    fn samples(&self) -> Option<Label> {
        self.labels.iter().zip(&self.extents).find(|(_, extent)| extent.per_sample != 0).map(|(&label, _)| label)
    }
}

/// `Einsum` without a repeated label within an operand.
pub(in super::super) fn einsum(site: &Site<'_>) -> Ruled {
    let values = (0..site.inputs.len()).map(|index| site.float(index)).collect::<Result<Vec<_>, _>>()?;
    let equation: String = site.attr_string("equation", "").chars().filter(|c| !c.is_whitespace()).collect();
    let (terms, result) = match equation.split_once("->") {
        Some((terms, result)) => (terms, Some(result)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = terms.split(',').collect();
    if terms.len() != values.len() || values.is_empty() {
        return Err(site.invalid(format!("the equation '{equation}' does not fit {} inputs", values.len())));
    }
    let mut operands = Vec::new();
    for ((term, value), name) in terms.iter().zip(&values).zip(&site.node.input) {
        operands.push(operand(site, term, value, name)?);
    }
    let output = output_labels(site, &operands, result)?;

    let mut rewrite = Rewrite::of(site);
    let mut rest = operands.into_iter();
    let mut sum = rest.next().ok_or_else(|| site.invalid("it has no input"))?;
    let mut rest: Vec<Operand> = rest.collect();
    rest.reverse();
    while let Some(mut next) = rest.pop() {
        let wanted: Vec<Label> =
            output.iter().chain(rest.iter().flat_map(|operand| &operand.labels)).copied().collect();
        squeeze(&mut rewrite, &mut sum, &next);
        squeeze(&mut rewrite, &mut next, &sum);
        sum_out(site, &mut rewrite, &mut sum, |label| wanted.contains(&label) || next.labels.contains(&label))?;
        sum_out(site, &mut rewrite, &mut next, |label| wanted.contains(&label) || sum.labels.contains(&label))?;
        sum = product(site, &mut rewrite, sum, next, &wanted)?;
    }
    sum_out(site, &mut rewrite, &mut sum, |label| output.contains(&label))?;
    let sum = transpose(&mut rewrite, sum, &output);
    Ok(rewrite.end("Identity", &[&sum.name], vec![]))
}

fn operand(site: &Site<'_>, term: &str, value: &Value, name: &str) -> Result<Operand, GraphError> {
    let does_not_fit = || site.invalid(format!("'{term}' does not fit '{}' of rank {}", value.name, value.shape.len()));
    let rank = value.shape.len();
    let named = term.chars().filter(|&c| c != '.').count();
    let mut labels = Vec::with_capacity(rank);
    match term.split_once("...") {
        Some((before, after)) => {
            let hidden = rank.checked_sub(named).ok_or_else(does_not_fit)?;
            labels.extend(before.chars().map(Label::from));
            labels.extend((0..hidden).rev().map(|back| ELLIPSIS + back as Label));
            labels.extend(after.chars().map(Label::from));
        }
        None => labels.extend(term.chars().map(Label::from)),
    }
    if labels.len() != rank || labels.contains(&Label::from('.')) {
        return Err(does_not_fit());
    }
    if let Some(axis) = (0..rank).find(|&axis| labels[..axis].contains(&labels[axis])) {
        return Err(site.refused(
            format!("'{term}' takes a diagonal (the label '{}' is repeated)", show(labels[axis])),
            "multiply by a mask, as x * torch.eye(n), and sum",
        ));
    }
    let extent = |(axis, &d): (usize, &usize)| match value.batch {
        Some(at) if at.axis == axis => Affine::per_sample(d as i64),
        _ => Affine::fixed(d as i64),
    };
    let extents = value.shape.iter().enumerate().map(extent).collect();
    Ok(Operand { name: name.to_string(), called: value.name.clone(), labels, extents })
}

fn show(label: Label) -> String {
    char::from_u32(label).map_or("...".to_string(), String::from)
}

/// Labels of the result: as written, or the ellipsis and then every label that occurs once, in order.
fn output_labels(site: &Site<'_>, operands: &[Operand], result: Option<&str>) -> Result<Vec<Label>, GraphError> {
    let all: Vec<Label> = operands.iter().flat_map(|operand| &operand.labels).copied().collect();
    let mut hidden: Vec<Label> = all.iter().copied().filter(|&label| label >= ELLIPSIS).collect();
    hidden.sort_unstable();
    hidden.dedup();
    hidden.reverse();
    let output = match result {
        Some(result) => match result.split_once("...") {
            Some((before, after)) => {
                let letters = |text: &str| text.chars().map(Label::from).collect::<Vec<_>>();
                [letters(before), hidden, letters(after)].concat()
            }
            None => result.chars().map(Label::from).collect(),
        },
        None => {
            let once = |label: &Label| *label < ELLIPSIS && all.iter().filter(|other| *other == label).count() == 1;
            let mut letters: Vec<Label> = all.iter().copied().filter(once).collect();
            letters.sort_unstable();
            [hidden, letters].concat()
        }
    };
    let bad = |axis: &usize| output[..*axis].contains(&output[*axis]) || !all.contains(&output[*axis]);
    match (0..output.len()).find(bad) {
        Some(axis) => {
            Err(site.invalid(format!("the label '{}' of the result is repeated, or in no operand", show(output[axis]))))
        }
        None => Ok(output),
    }
}

/// Drops axes of extent 1 that broadcast to longer axes.
fn squeeze(rewrite: &mut Rewrite<'_>, operand: &mut Operand, other: &Operand) {
    let one = Affine::fixed(1);
    let is_spread = |axis: &usize| {
        let meets = other.extent(operand.labels[*axis]);
        operand.extents[*axis] == one && meets.is_some_and(|extent| extent != one)
    };
    let axes: Vec<usize> = (0..operand.labels.len()).filter(is_spread).collect();
    if axes.is_empty() {
        return;
    }
    let list = rewrite.fixed(axes.iter().map(|&axis| axis as i64));
    operand.name = rewrite.node("Squeeze", &[&operand.name, &list], vec![]);
    drop_axes(operand, &axes);
}

fn drop_axes(operand: &mut Operand, axes: &[usize]) {
    for &axis in axes.iter().rev() {
        operand.labels.remove(axis);
        operand.extents.remove(axis);
    }
}

/// Sums over the labels that are not kept.
fn sum_out(
    site: &Site<'_>,
    rewrite: &mut Rewrite<'_>,
    operand: &mut Operand,
    keep: impl Fn(Label) -> bool,
) -> Result<(), GraphError> {
    let axes: Vec<usize> = (0..operand.labels.len()).filter(|&axis| !keep(operand.labels[axis])).collect();
    if axes.is_empty() {
        return Ok(());
    }
    if let Some(label) = operand.samples().filter(|&label| !keep(label)) {
        return Err(sums_samples(site, label, operand));
    }
    let list = rewrite.fixed(axes.iter().map(|&axis| axis as i64));
    operand.name = rewrite.node("ReduceSum", &[&operand.name, &list], vec![make_attr_int("keepdims", 0)]);
    drop_axes(operand, &axes);
    Ok(())
}

fn sums_samples(site: &Site<'_>, label: Label, operand: &Operand) -> GraphError {
    site.mixes(
        format!("it sums over '{}', along which the samples of '{}' lie", show(label), operand.called),
        "keep the batch's label in the result",
    )
}

fn transpose(rewrite: &mut Rewrite<'_>, operand: Operand, labels: &[Label]) -> Operand {
    let perm: Vec<usize> =
        labels.iter().filter_map(|label| operand.labels.iter().position(|own| own == label)).collect();
    if perm.iter().enumerate().all(|(axis, &from)| axis == from) {
        return operand;
    }
    let list: Vec<i64> = perm.iter().map(|&axis| axis as i64).collect();
    let name = rewrite.node("Transpose", &[&operand.name], vec![make_attr_ints("perm", &list)]);
    let extents = perm.iter().map(|&axis| operand.extents[axis]).collect();
    Operand { name, labels: labels.to_vec(), extents, ..operand }
}

/// Name of `operand` after its axes are ordered by `groups` and each group is merged.
fn grouped(
    site: &Site<'_>,
    rewrite: &mut Rewrite<'_>,
    operand: Operand,
    groups: &[Vec<Label>],
) -> Result<String, GraphError> {
    let operand = transpose(rewrite, operand, &groups.concat());
    if groups.iter().all(|group| group.len() == 1) {
        return Ok(operand.name);
    }
    let mut target = Vec::with_capacity(groups.len());
    for group in groups {
        let mut extents = group.iter().filter_map(|&label| operand.extent(label));
        let total = extents.try_fold(Affine::fixed(1), Affine::mul);
        target.push(total.ok_or_else(|| site.invalid("its extents are too large"))?);
    }
    let target = rewrite.ints(target);
    Ok(rewrite.node("Reshape", &[&operand.name, &target], vec![]))
}

/// Product of two operands, summed over their common labels that are not in the result.
fn product(
    site: &Site<'_>,
    rewrite: &mut Rewrite<'_>,
    a: Operand,
    b: Operand,
    wanted: &[Label],
) -> Result<Operand, GraphError> {
    check(site, &a, &b, wanted)?;
    // The product commutes. If only one operand has the samples, it becomes the left operand.
    let (a, b) = if a.samples().is_none() && b.samples().is_some() { (b, a) } else { (a, b) };
    let samples = a.samples();
    let in_order = |labels: &[Label], keep: &dyn Fn(Label) -> bool| -> Vec<Label> {
        labels.iter().copied().filter(|&label| keep(label)).collect()
    };
    let is_wanted = |label: Label| wanted.contains(&label);
    let mut shared = in_order(&a.labels, &|label| b.labels.contains(&label) && is_wanted(label));
    let inner = in_order(&a.labels, &|label| b.labels.contains(&label) && !is_wanted(label));
    let mut rows = in_order(&a.labels, &|label| !b.labels.contains(&label));
    let columns = in_order(&b.labels, &|label| !a.labels.contains(&label));
    let extent = |label: Label| a.extent(label).or(b.extent(label)).unwrap_or(Affine::fixed(1));
    // The samples come first, whether both operands have them or only one.
    let alone: Vec<Label> = samples.filter(|label| rows.contains(label)).into_iter().collect();
    rows.retain(|label| !alone.contains(label));
    shared.sort_by_key(|&label| Some(label) != samples);

    let (name, labels) = if inner.is_empty() {
        let labels = [&alone[..], &shared, &rows, &columns].concat();
        let mut aligned = |operand: Operand| {
            let groups: Vec<Vec<Label>> =
                labels.iter().map(|&label| in_order(&operand.labels, &|own| own == label)).collect();
            let first = groups.iter().position(|group| !group.is_empty()).unwrap_or(groups.len());
            grouped(site, rewrite, operand, &groups[first..])
        };
        let (left, right) = (aligned(a.clone())?, aligned(b.clone())?);
        (rewrite.node("Mul", &[&left, &right], vec![]), labels)
    } else {
        let single = |labels: &[Label]| labels.iter().map(|&label| vec![label]).collect::<Vec<_>>();
        let lead = single(&shared);
        let own_lead = single(&alone);
        // A matrix on the right supports any number of row axes.
        let row_groups = if shared.is_empty() && !(alone.is_empty() && rows.is_empty()) {
            single(&rows)
        } else {
            vec![rows.clone()]
        };
        let left_groups = [&own_lead[..], &lead, &row_groups, std::slice::from_ref(&inner)].concat();
        let right_groups = [&lead[..], &[inner, columns.clone()]].concat();
        let left = grouped(site, rewrite, a.clone(), &left_groups)?;
        let right = grouped(site, rewrite, b.clone(), &right_groups)?;
        let labels = [&alone[..], &shared, &rows, &columns].concat();
        let mut name = rewrite.node("MatMul", &[&left, &right], vec![]);
        if row_groups.iter().any(|group| group.len() != 1) || columns.len() != 1 {
            let target = rewrite.ints(labels.iter().map(|&label| extent(label)).collect());
            name = rewrite.node("Reshape", &[&name, &target], vec![]);
        }
        (name, labels)
    };
    let extents = labels.iter().map(|&label| extent(label)).collect();
    let called = if samples.is_some() { a.called.clone() } else { b.called.clone() };
    Ok(Operand { name, called, labels, extents })
}

/// Checks that common labels have one extent, and that samples only meet the same samples.
fn check(site: &Site<'_>, a: &Operand, b: &Operand, wanted: &[Label]) -> Result<(), GraphError> {
    if let (Some(own), Some(other)) = (a.samples(), b.samples())
        && own != other
    {
        return Err(site.mixes(
            format!("it multiplies every sample of '{}' with every sample of '{}'", a.called, b.called),
            "give the batch of both the same label",
        ));
    }
    for &label in &a.labels {
        let (Some(own), Some(other)) = (a.extent(label), b.extent(label)) else {
            continue;
        };
        let has_samples = (own.per_sample != 0, other.per_sample != 0);
        let shown = show(label);
        match has_samples {
            (true, true) if own != other => {
                return Err(site.mixes(
                    format!("'{}' and '{}' have other groups of samples along '{shown}'", a.called, b.called),
                    "give both the batch alone on an axis",
                ));
            }
            (true, true) | (false, false) if own == other => {}
            (true, false) | (false, true) => {
                let rows = if has_samples.0 { b } else { a };
                return Err(site.mixes(
                    format!("'{}' has different rows along '{shown}', which holds the samples", rows.called),
                    format!("use the same values for every sample, or {}", site.export_remedy()),
                ));
            }
            _ => {
                return Err(site.invalid(format!("the extents {own} and {other} of '{shown}' differ")));
            }
        }
        if has_samples.0 && !wanted.contains(&label) {
            return Err(sums_samples(site, label, a));
        }
    }
    Ok(())
}
