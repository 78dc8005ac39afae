//! `GatherND`, rewritten to `Gather` or `GatherElements` of reshaped data.

use super::super::node::{Data, Item, Outcome, Ruled, Shaped, Site, Source, Step};
use super::super::{BatchAxis, GraphError, Tensor, TensorData};
use super::select::counted;
use crate::{attr_int, make_attr_int};

/// `GatherND` in the forms that exporters write. The indices are constant positions on the first axes, or a single
/// index into a table that is the same for all samples. With `batch_dims` 1, they are one index for each sample into
/// that sample's rows.
pub(in super::super) fn gather_nd(site: &Site<'_>) -> Ruled {
    let (x, indices) = (site.data(0)?, site.data(1)?);
    let common = usize::try_from(attr_int(site.attributes(), "batch_dims", 0)).unwrap_or(usize::MAX);
    let Some((&width, places)) = indices.shaped.shape.split_last() else {
        return Err(site.invalid("its indices are a scalar"));
    };
    let rank = x.shaped.shape.len();
    if common > places.len() || width == 0 || common.saturating_add(width) > rank || indices.shaped.dtype.is_float() {
        return Err(site.invalid(format!(
            "indices {:?} after {common} common axes do not fit data {:?}",
            indices.shaped.shape, x.shaped.shape
        )));
    }
    if let Some(Some(Item::Ints(ints))) = site.inputs.get(1) {
        return constant(site, &x, places, width, &ints.constants().unwrap_or_default(), common);
    }
    let (own, at) = (x.shaped.batch, indices.shaped.batch);
    if width != 1 {
        return Err(site.refused(
            "its indices are data and name several axes at once",
            "reshape those axes to one, and use torch.gather",
        ));
    }
    if at.is_some_and(|at| at.axis == places.len()) {
        return Err(site.mixes("the numbers of one index come from several samples", "give each sample its indices"));
    }
    let dtype = indices.shaped.dtype;
    let flat = |shape: Vec<usize>| Step {
        op: "Reshape",
        inputs: vec![indices.source.clone()],
        attributes: vec![],
        output: Shaped { dtype, shape, batch: at },
    };
    let rest = &x.shaped.shape[common + 1..];
    match (common, own, at) {
        (0, None, _) => {
            let output = Shaped { dtype: x.shaped.dtype, shape: [places, rest].concat(), batch: at };
            let inputs = vec![x.source, Source::Step(0)];
            let gather = Step { op: "Gather", inputs, attributes: vec![make_attr_int("axis", 0)], output };
            Ok(Outcome::Steps { steps: vec![flat(places.to_vec()), gather], outputs: vec![1] })
        }
        (1, Some(own), Some(at)) if own == BatchAxis::plain(0) && at == own => {
            // Every element of a row has the row's index.
            let count: usize = places[1..].iter().product();
            let [one, full] = [vec![1; rest.len()], rest.to_vec()].map(|rest| [&[1, count], &rest[..]].concat());
            let shaped = |dtype, shape| Shaped { dtype, shape, batch: Some(own) };
            let step = |op, inputs, attributes, output| Step { op, inputs, attributes, output };
            let values = x.shaped.dtype;
            let steps = vec![
                flat(one),
                step("Expand", vec![Source::Step(0)], vec![], shaped(dtype, full.clone())),
                step(
                    "GatherElements",
                    vec![x.source, Source::Step(1)],
                    vec![make_attr_int("axis", 1)],
                    shaped(values, full),
                ),
                step("Reshape", vec![Source::Step(2)], vec![], shaped(values, [places, rest].concat())),
            ];
            Ok(Outcome::Steps { steps, outputs: vec![3] })
        }
        _ => Err(site.mixes(
            "its indices choose among the data of several samples",
            "pick within each sample, as torch.gather(x, 1, index)",
        )),
    }
}

/// Known positions on the first `width` axes.
fn constant(
    site: &Site<'_>,
    x: &Data<'_>,
    places: &[usize],
    width: usize,
    indices: &[i64],
    common: usize,
) -> Result<Outcome, GraphError> {
    let shape = &x.shaped.shape;
    if common > 0 {
        return Err(site.refused("it has other constant places for each row", "use torch.gather"));
    }
    if let Some(at) = x.shaped.batch.filter(|at| at.axis < width) {
        return Err(site.mixes(
            format!("it picks samples along the batch axis {}", at.axis),
            "gather within each sample, and let damper choose the samples",
        ));
    }
    let mut flat = Vec::with_capacity(indices.len() / width);
    for place in indices.chunks(width) {
        let mut at = 0;
        for (&index, &extent) in place.iter().zip(shape) {
            at = at * extent as i64 + counted(site, &[index], extent)?[0];
        }
        flat.push(at);
    }
    let dtype = x.shaped.dtype;
    let (merged, rest) = (shape[..width].iter().product::<usize>(), &shape[width..]);
    let table = [&[merged], rest].concat();
    let moved = |by: usize| x.shaped.batch.map(|at| at.at(at.axis - width + by));
    let mut steps = Vec::new();
    let mut source = x.source.clone();
    if width > 1 {
        let output = Shaped { dtype, shape: table, batch: moved(1) };
        steps.push(Step { op: "Reshape", inputs: vec![source], attributes: vec![], output });
        source = Source::Step(0);
    }
    let tensor = Source::Constant(Tensor { shape: places.to_vec(), data: TensorData::I64(flat) });
    let output = Shaped { dtype, shape: [places, rest].concat(), batch: moved(places.len()) };
    let attributes = vec![make_attr_int("axis", 0)];
    steps.push(Step { op: "Gather", inputs: vec![source, tensor], attributes, output });
    Ok(Outcome::Steps { outputs: vec![steps.len() - 1], steps })
}
