//! `ScatterND` and `ScatterElements`: elements replaced or added within samples. A replaced element is left out and not
//! multiplied by 0.

use super::super::node::{Data, Item, Outcome, Ruled, Shaped, Site, Source, Step};
use super::super::{BatchAxis, DType, GraphError};
use super::rewrite::Rewrite;
use super::select::counted;
use crate::{attr_int, make_attr_int};

/// Maximum number of additions to one element by constant indices.
const MOST_ADDED: usize = 64;

/// `ScatterND` at known positions on the first axes.
pub(in super::super) fn scatter_nd(site: &Site<'_>) -> Ruled {
    let (x, updates) = (site.data(0)?, site.data(2)?);
    let Some(Some(Item::Ints(ints))) = site.inputs.get(1) else {
        return Err(site.refused("its indices are data", "write it with torch.where or torch.cat"));
    };
    let (indices, shape) = (ints.constants(), &x.shaped.shape);
    let (Some(indices), Some((&width, places))) = (indices, ints.shape.split_last()) else {
        return Err(site.mixes("its indices depend on the number of samples", "write within each sample"));
    };
    if width == 0 || width > shape.len() {
        return Err(site.invalid(format!("indices {:?} do not fit data {shape:?}", ints.shape)));
    }
    let mut rows = Vec::with_capacity(indices.len() / width);
    for place in indices.chunks(width) {
        let mut at = 0;
        for (&index, &extent) in place.iter().zip(shape) {
            at = at * extent + counted(site, &[index], extent)?[0] as usize;
        }
        rows.push(at);
    }
    let held = |data: &Data<'_>, lead: usize| match data.shaped.batch {
        Some(at) if at.axis < lead => Err(site.mixes(
            format!("it writes at places along axis {}, which holds the samples of '{}'", at.axis, data.name),
            "write within each sample, as x[:, 0] = 1",
        )),
        batch => Ok(batch.map(|at| at.at(at.axis - lead + 1))),
    };
    let (own, given) = (held(&x, width)?, held(&updates, places.len())?);
    let rest = &shape[width..];
    if updates.shaped.shape[..] != *[places, rest].concat() || x.shaped.dtype != updates.shaped.dtype {
        return Err(site.invalid(format!("updates {:?} do not fit data {shape:?}", updates.shaped.shape)));
    }
    let written = Written {
        data: (x.source, own),
        updates: (updates.source, given),
        axis: 0,
        lead: vec![],
        extent: shape[..width].iter().product(),
        rest: rest.to_vec(),
        dtype: x.shaped.dtype,
    };
    let batch = own.or(given).map(|at| at.at(at.axis + width - 1));
    let output = Shaped { dtype: x.shaped.dtype, shape: shape.clone(), batch };
    let steps = written.steps(site, &rows, output)?;
    Ok(Outcome::Steps { outputs: vec![steps.len() - 1], steps })
}

/// Rows along one axis of `[lead.., extent, rest..]` that updates are written to.
pub(in super::super) struct Written {
    /// Source, and the batch axis in this shape.
    pub data: (Source, Option<BatchAxis>),
    pub updates: (Source, Option<BatchAxis>),
    pub axis: usize,
    pub lead: Vec<usize>,
    pub extent: usize,
    pub rest: Vec<usize>,
    pub dtype: DType,
}

impl Written {
    /// Replaces row `rows[k]` by row `k` of the updates, or adds to it. The last step computes `output`.
    pub fn steps(self, site: &Site<'_>, rows: &[usize], output: Shaped) -> Result<Vec<Step>, GraphError> {
        let adds = match site.attr_string("reduction", "none") {
            "none" => false,
            "add" => true,
            other => return Err(site.refused(format!("it combines by {other}"), "use reduction 'none' or 'add'")),
        };
        let (dtype, batch) = (self.dtype, self.data.1.or(self.updates.1));
        let shaped = |extent: usize, batch| {
            let shape = [&self.lead[..], &[extent], &self.rest].concat();
            Shaped { dtype, shape, batch }
        };
        let mut steps: Vec<Step> = Vec::new();
        let mut add = |op, inputs, attributes, output| {
            steps.push(Step { op, inputs, attributes, output });
            Source::Step(steps.len() - 1)
        };
        let mut sides = Vec::new();
        for ((source, own), extent) in [(self.data, self.extent), (self.updates, rows.len())] {
            let mut side = add("Reshape", vec![source], vec![], shaped(extent, own));
            if own != batch {
                // ONNX does not broadcast here. In an export with one sample, a value that is the same for all samples
                // has one row.
                let has_one = site.fixed_batch == Some(1);
                let fits = batch.is_some_and(|at| {
                    has_one && own.is_none() && at.extent() == 1 && shaped(extent, None).shape[at.axis] == 1
                });
                if !fits {
                    return Err(site.mixes("data and updates hold their samples differently", site.export_remedy()));
                }
                side = add("Expand", vec![side], vec![], shaped(extent, batch));
            }
            sides.push(side);
        }
        let [data, updates] = [sides[0].clone(), sides[1].clone()];
        let along = || vec![make_attr_int("axis", self.axis as i64)];
        let whole = shaped(self.extent, batch);
        let last = if adds {
            // A zero row after the others.
            let rank = whole.shape.len();
            let mut pads = vec![0; 2 * rank];
            pads[rank + self.axis] = 1;
            let padded = add("Pad", vec![updates, Source::integers(&pads)], vec![], shaped(rows.len() + 1, batch));
            let mut sum = data;
            for round in rounds(rows, self.extent) {
                let picked: Vec<i64> = round.iter().map(|from| from.unwrap_or(rows.len()) as i64).collect();
                if picked.iter().all(|&from| from as usize == rows.len()) {
                    break;
                }
                let inputs = vec![padded.clone(), Source::integers(&picked)];
                let found = add("Gather", inputs, along(), whole.clone());
                sum = add("Add", vec![sum, found], vec![], whole.clone());
            }
            sum
        } else {
            let both = add("Concat", vec![data, updates], along(), shaped(self.extent + rows.len(), batch));
            let mut picked: Vec<i64> = (0..self.extent as i64).collect();
            for (from, &to) in rows.iter().enumerate() {
                picked[to] = (self.extent + from) as i64;
            }
            add("Gather", vec![both, Source::integers(&picked)], along(), whole)
        };
        if rows.len() > MOST_ADDED && adds && rounds(rows, self.extent).len() > MOST_ADDED {
            return Err(site.refused("it adds to one element too often", "sum over an axis"));
        }
        add("Reshape", vec![last], vec![], output);
        Ok(steps)
    }
}

/// Rounds of updates: in each round, the next update of every row, if any is left.
fn rounds(rows: &[usize], extent: usize) -> Vec<Vec<Option<usize>>> {
    let mut met = vec![0; extent];
    let mut rounds: Vec<Vec<Option<usize>>> = Vec::new();
    for (from, &to) in rows.iter().enumerate() {
        if met[to] == rounds.len() {
            rounds.push(vec![None; extent]);
        }
        rounds[met[to]][to] = Some(from);
        met[to] += 1;
    }
    rounds
}

/// `ScatterElements` within samples, with an index for each update. Indices may be data. Several updates with the same
/// index are summed. Without a reduction, ONNX does not define their result.
pub(in super::super) fn scatter_elements(site: &Site<'_>) -> Ruled {
    let (x, indices, updates) = (site.data(0)?, site.data(1)?, site.data(2)?);
    let (shape, rank) = (&x.shaped.shape, x.shaped.shape.len());
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), rank)?;
    let adds = match site.attr_string("reduction", "none") {
        "none" => false,
        "add" => true,
        other => return Err(site.refused(format!("it combines by {other}"), "use reduction 'none' or 'add'")),
    };
    if [&x, &indices, &updates].iter().any(|data| data.shaped.batch.is_some_and(|at| at.axis == axis)) {
        return Err(site.mixes(
            format!("it writes along axis {axis}, which holds the samples"),
            "write within each sample, as x.scatter(1, index, source)",
        ));
    }
    let fits = |other: &Data<'_>| {
        other.shaped.shape.len() == rank && (0..rank).all(|i| i == axis || other.shaped.shape[i] == shape[i])
    };
    if !fits(&indices) || indices.shaped.shape != updates.shaped.shape || !x.shaped.dtype.is_float() {
        return Err(site.refused(
            format!("indices {:?} do not cover the other axes of data {shape:?}", indices.shaped.shape),
            "slice the data first",
        ));
    }
    // ONNX does not broadcast: one row of indices would write only to the first sample.
    if indices.shaped.batch != x.shaped.batch || updates.shaped.batch != x.shaped.batch {
        return Err(site.mixes("data, indices and updates hold their samples differently", site.export_remedy()));
    }
    let extent = shape[axis] as i64;
    let names = &site.node.input;
    let mut out = Rewrite::of(site);
    let to = vec![make_attr_int("to", crate::data_type(DType::I64) as i64)];
    let index = out.node("Cast", &[&names[1]], to);
    let [zero, count, place, behind] = [0, extent, axis as i64, axis as i64 + 1].map(|number| out.fixed([number]));
    let below = out.node("Less", &[&index, &zero], vec![]);
    let from_end = out.node("Add", &[&index, &count], vec![]);
    let index = out.node("Where", &[&below, &from_end, &index], vec![]);
    // [.., extent, updates, ..]
    let index = out.node("Unsqueeze", &[&index, &place], vec![]);
    let updates = out.node("Unsqueeze", &[&names[2], &place], vec![]);
    let numbers = out.fixed(0..extent);
    let column = out.fixed(std::iter::once(extent).chain(vec![1; rank - axis]));
    let numbers = out.node("Reshape", &[&numbers, &column], vec![]);
    let hits = out.node("Equal", &[&index, &numbers], vec![]);
    let [off, on] = [0.0, 1.0].map(|value| out.floats(&[], vec![value]));
    let spread = out.node("Where", &[&hits, &updates, &off], vec![]);
    let flat = || vec![make_attr_int("keepdims", 0)];
    let written = out.node("ReduceSum", &[&spread, &behind], flat());
    if adds {
        return Ok(out.end("Add", &[&names[0], &written], vec![]));
    }
    let marks = out.node("Where", &[&hits, &on, &off], vec![]);
    let marks = out.node("ReduceSum", &[&marks, &behind], flat());
    let is_written = out.node("Greater", &[&marks, &off], vec![]);
    Ok(out.end("Where", &[&is_written, &written, &names[0]], vec![]))
}
