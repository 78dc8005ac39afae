//! `Slice`, `Split`, `Gather`, `GatherElements`: parts of data, only within samples.
//!
//! `Split` is rewritten to slices. Every slice has starts, ends, axes and steps that name each axis once, with
//! non-negative indices.

use super::super::integers;
use super::super::node::{Data, Item, Outcome, Ruled, Shaped, Site, Source, Step};
use super::super::{DType, GraphError};
use super::slices::{parts, span};
use crate::{attr_int, make_attr_int};

/// Minimum value of an end that means "to the end". No batch has so many samples. TensorFlow writes ten digits.
const EVERYTHING: i64 = 1_000_000_000;

/// Selection of the elements `start, start + step, …` (`count` of them) along `axis`.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub axis: usize,
    pub start: usize,
    pub step: i64,
    pub count: usize,
}

/// `Slice` with constant bounds.
pub(in super::super) fn slice(site: &Site<'_>) -> Ruled {
    let x = site.data(0)?;
    let rank = x.shaped.shape.len();
    let (starts, ends) = (site.ints(1)?, site.ints(2)?);
    let axes = site.constants(3)?.unwrap_or_else(|| (0..starts.entries.len() as i64).collect());
    let steps = site.constants(4)?.unwrap_or_else(|| vec![1; starts.entries.len()]);
    if [ends.entries.len(), axes.len(), steps.len()] != [starts.entries.len(); 3] {
        return Err(site.invalid("starts, ends, axes and steps differ in length"));
    }
    let mut cuts: Vec<Cut> = Vec::with_capacity(axes.len());
    for (i, &axis) in axes.iter().enumerate() {
        let axis = site.axis(axis, rank)?;
        if cuts.iter().any(|cut| cut.axis == axis) {
            return Err(site.invalid(format!("it slices axis {axis} twice")));
        }
        let (start, end, step) = (starts.entries[i], ends.entries[i], steps[i]);
        if let Some(at) = x.shaped.batch.filter(|at| at.axis == axis) {
            let extent = at.extent() as i64;
            let exported = site.fixed_batch.map_or(EVERYTHING, |size| (size as i64).saturating_mul(extent));
            let to_the_end = match end.constant() {
                Some(end) => end >= exported,
                None => end.per_sample >= extent && end.fixed >= 0,
            };
            if start.constant() == Some(0) && step == 1 && to_the_end {
                continue;
            }
            return Err(site.mixes(
                format!("it selects samples along the batch axis {axis}"),
                "slice within each sample, and let damper choose the samples",
            ));
        }
        let (Some(start), Some(end)) = (start.constant(), end.constant()) else {
            return Err(site.mixes(
                format!("its bounds along axis {axis} depend on the number of samples"),
                "slice with fixed bounds",
            ));
        };
        let (start, count) = span(site, (start, end, step), x.shaped.shape[axis] as i64)?;
        if count == 0 {
            return Err(site.invalid(format!("nothing is left along axis {axis}")));
        }
        cuts.push(Cut { axis, start: start as usize, step, count });
    }
    match cut(x.source.clone(), &x.shaped, cuts) {
        Some(step) => Ok(Outcome::Steps { steps: vec![step], outputs: vec![0] }),
        None => alias(site),
    }
}

/// `Slice` by `cuts`. `None` if it keeps all of `shaped`.
pub(super) fn cut(source: Source, shaped: &Shaped, mut cuts: Vec<Cut>) -> Option<Step> {
    cuts.retain(|cut| (cut.start, cut.step, cut.count) != (0, 1, shaped.shape[cut.axis]));
    if cuts.is_empty() {
        return None;
    }
    cuts.sort_by_key(|cut| cut.axis);
    let mut shape = shaped.shape.clone();
    let mut lists: [Vec<i64>; 4] = Default::default();
    for cut in &cuts {
        let length = shape[cut.axis] as i64;
        // A single element does not need a step.
        let step = if cut.count == 1 { 1 } else { cut.step };
        let past = cut.start as i64 + (cut.count as i64 - 1) * step + step.signum();
        // An end before the first element would be -1, which means the last element.
        let end = if past < 0 { -length - 1 } else { past };
        for (list, value) in lists.iter_mut().zip([cut.start as i64, end, cut.axis as i64, step]) {
            list.push(value);
        }
        shape[cut.axis] = cut.count;
    }
    let mut inputs = vec![source];
    inputs.extend(lists.iter().map(|list| Source::integers(list)));
    let output = Shaped { shape, ..shaped.clone() };
    Some(Step { op: "Slice", inputs, attributes: vec![], output })
}

fn alias(site: &Site<'_>) -> Ruled {
    match &site.inputs[0] {
        Some(item) => Ok(Outcome::Alias(item.clone())),
        None => Err(site.invalid("input 0 is missing")),
    }
}

/// `Split` into parts of given sizes, or of equal sizes (the last may be smaller).
pub(in super::super) fn split(site: &Site<'_>) -> Ruled {
    if let Some(Some(Item::Ints(ints))) = site.inputs.first() {
        return Ok(Outcome::Parts(integers::split(site, ints)?));
    }
    let x = site.data(0)?;
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), x.shaped.shape.len())?;
    if x.shaped.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it splits axis {axis}, which holds the samples"),
            "split within each sample, as torch.chunk(x, 2, dim=1)",
        ));
    }
    let (axis, sizes) = parts(site, &x.shaped.shape)?;
    if let [_] = sizes[..] {
        return alias(site);
    }
    let mut start = 0;
    let mut steps = Vec::with_capacity(sizes.len());
    for count in sizes {
        let part = Cut { axis, start, step: 1, count };
        start += count;
        steps.push(cut(x.source.clone(), &x.shaped, vec![part]).ok_or_else(|| site.invalid("a part is empty"))?);
    }
    Ok(Outcome::Steps { outputs: (0..steps.len()).collect(), steps })
}

/// Known indices, converted to non-negative indices on an axis of `extent`.
pub(super) fn counted(site: &Site<'_>, indices: &[i64], extent: usize) -> Result<Vec<i64>, GraphError> {
    indices
        .iter()
        .map(|&index| {
            let counted = if index < 0 { index.saturating_add(extent as i64) } else { index };
            let fits = (0..extent as i64).contains(&counted);
            fits.then_some(counted).ok_or_else(|| site.invalid(format!("index {index} is not one of {extent} rows")))
        })
        .collect()
}

/// Indices as data. Known indices become non-negative indices on an axis of `extent`.
fn indices<'a>(site: &Site<'a>, extent: usize) -> Result<Data<'a>, GraphError> {
    let mut indices = site.data(1)?;
    if !matches!(indices.shaped.dtype, DType::I32 | DType::I64) {
        return Err(site.invalid(format!("its indices '{}' are no integers", indices.name)));
    }
    if let Some(Some(Item::Ints(ints))) = site.inputs.get(1) {
        let known = ints.constants().unwrap_or_default();
        let mut tensor = Source::integers(&counted(site, &known, extent)?);
        if let Source::Constant(tensor) = &mut tensor {
            tensor.shape.clone_from(&ints.shape);
        }
        indices.source = tensor;
    }
    Ok(indices)
}

/// `Gather` with constant indices or data as indices.
pub(in super::super) fn gather(site: &Site<'_>) -> Ruled {
    let x = site.data(0)?;
    let (shape, own) = (&x.shaped.shape, x.shaped.batch);
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), shape.len())?;
    if own.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it picks samples along the batch axis {axis}"),
            "gather within each sample, and let damper choose the samples",
        ));
    }
    let indices = indices(site, shape[axis])?;
    if indices.shaped.batch.is_some() && own.is_some() {
        return Err(site.mixes(
            "every sample's indices look up every sample's data",
            "gather from data that is the same for all samples, or a position for each sample with torch.gather",
        ));
    }
    let mut to = shape[..axis].to_vec();
    to.extend(&indices.shaped.shape);
    to.extend(&shape[axis + 1..]);
    // The indices replace one axis by their axes, so later axes move by their rank − 1.
    let own = own.map(|at| if at.axis < axis { at } else { at.at(at.axis + indices.shaped.shape.len() - 1) });
    let batch = own.or(indices.shaped.batch.map(|at| at.at(axis + at.axis)));
    let output = Shaped { dtype: x.shaped.dtype, shape: to, batch };
    Ok(one("Gather", vec![x.source, indices.source], axis, output))
}

fn one(op: &'static str, inputs: Vec<Source>, axis: usize, output: Shaped) -> Outcome {
    let attributes = vec![make_attr_int("axis", axis as i64)];
    Outcome::Steps { steps: vec![Step { op, inputs, attributes, output }], outputs: vec![0] }
}

/// `GatherElements`, with an index for each element of the output.
pub(in super::super) fn gather_elements(site: &Site<'_>) -> Ruled {
    let x = site.data(0)?;
    let rank = x.shaped.shape.len();
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), rank)?;
    let indices = indices(site, x.shaped.shape[axis])?;
    let (from, to) = (&x.shaped, &indices.shaped);
    if from.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it picks samples along the batch axis {axis}"),
            "gather within each sample, and let damper choose the samples",
        ));
    }
    let aligned = match (from.batch, to.batch) {
        (Some(own), Some(at)) => own == at,
        (None, Some(at)) => at.axis == axis,
        (Some(_), None) => false,
        (None, None) => true,
    };
    if !aligned {
        return Err(site.mixes(
            format!("its data '{}' and indices '{}' do not hold their samples alike", x.name, indices.name),
            "give both the batch along the same axis",
        ));
    }
    if to.shape.len() != rank || (0..rank).any(|i| i != axis && to.shape[i] > from.shape[i]) {
        return Err(site.invalid(format!("indices {:?} do not fit data {:?}", to.shape, from.shape)));
    }
    // Data that no index can reach is cropped first.
    let rest = (0..rank).filter(|&i| i != axis && from.batch.is_none_or(|at| at.axis != i));
    let cuts = rest.map(|i| Cut { axis: i, start: 0, step: 1, count: to.shape[i] }).collect();
    let output = Shaped { dtype: from.dtype, shape: to.shape.clone(), batch: to.batch };
    let attributes = vec![make_attr_int("axis", axis as i64)];
    let mut steps: Vec<Step> = cut(x.source.clone(), from, cuts).into_iter().collect();
    let source = if steps.is_empty() { x.source } else { Source::Step(0) };
    steps.push(Step { op: "GatherElements", inputs: vec![source, indices.source], attributes, output });
    Ok(Outcome::Steps { outputs: vec![steps.len() - 1], steps })
}
