//! `Tile`: repeats within samples, rewritten as an expansion between reshapes.

use super::super::affine::Affine;
use super::super::node::{MAX_EXTENT, MAX_RANK, Outcome, Ruled, Shaped, Site, Source, Step};
use super::super::{BatchAxis, GraphError};

/// `Tile`. An axis of `d` elements repeated `r` times is `[1, d]`, expanded to `[r, d]` and merged to one axis. A value
/// that is the same for all samples may be repeated once per sample.
pub(in super::super) fn tile(site: &Site<'_>) -> Ruled {
    let x = site.data(0)?;
    let (shape, own) = (&x.shaped.shape, x.shaped.batch);
    let repeats = site.ints(1)?;
    if repeats.entries.len() != shape.len() || 2 * shape.len() > MAX_RANK {
        return Err(site.invalid(format!(
            "{} repeats are not one for each of {} axes",
            repeats.entries.len(),
            shape.len()
        )));
    }
    let Tiled { split, split_batch, spread, spread_batch, merged, batch } = tiled(site, shape, own, &repeats.entries)?;
    let dtype = x.shaped.dtype;
    let reshape = |input, shape, batch| Step {
        op: "Reshape",
        inputs: vec![input],
        attributes: vec![],
        output: Shaped { dtype, shape, batch },
    };
    if merged == *shape && batch == own {
        return match &site.inputs[0] {
            Some(item) => Ok(Outcome::Alias(item.clone())),
            None => Err(site.invalid("input 0 is missing")),
        };
    }
    let mut steps = Vec::new();
    let mut last = x.source;
    if split != *shape {
        steps.push(reshape(last, split, split_batch));
        last = Source::Step(steps.len() - 1);
    }
    let output = Shaped { dtype, shape: spread.clone(), batch: spread_batch };
    steps.push(Step { op: "Expand", inputs: vec![last], attributes: vec![], output });
    if spread != merged {
        steps.push(reshape(Source::Step(steps.len() - 1), merged, batch));
    }
    Ok(Outcome::Steps { outputs: vec![steps.len() - 1], steps })
}

/// Shapes before and after the expansion, with the repeats as separate axes, and the shape of the result.
struct Tiled {
    split: Vec<usize>,
    split_batch: Option<BatchAxis>,
    spread: Vec<usize>,
    spread_batch: Option<BatchAxis>,
    merged: Vec<usize>,
    batch: Option<BatchAxis>,
}

fn tiled(site: &Site<'_>, shape: &[usize], own: Option<BatchAxis>, repeats: &[Affine]) -> Result<Tiled, GraphError> {
    let (mut split, mut spread, mut merged) = (Vec::new(), Vec::new(), Vec::new());
    let (mut split_batch, mut spread_batch, mut batch) = (None, None, own);
    for (axis, (&d, repeat)) in shape.iter().zip(repeats).enumerate() {
        let times = match (repeat.per_sample, repeat.fixed) {
            (0, r) => r,
            (r, 0) => r,
            _ => 0,
        };
        let times = usize::try_from(times).ok().filter(|&r| (1..=MAX_EXTENT as usize).contains(&r));
        let times = times.ok_or_else(|| site.invalid(format!("it repeats axis {axis} {repeat} times")))?;
        if let Some(at) = own.filter(|at| at.axis == axis) {
            if repeat.constant() != Some(1) {
                return Err(site.mixes(
                    format!("it repeats the samples along the batch axis {axis}"),
                    "repeat along an axis of each sample",
                ));
            }
            split_batch = Some(at.at(split.len()));
            spread_batch = split_batch.map(|at| at.at(spread.len()));
        }
        let by_samples = repeat.per_sample != 0;
        if by_samples {
            if own.is_some() || batch.is_some() {
                return Err(site.mixes(
                    format!("it repeats every sample along axis {axis} for all samples"),
                    "keep one batch axis",
                ));
            }
            spread_batch = Some(BatchAxis { axis: spread.len(), outer: 1, inner: times });
            batch = Some(BatchAxis { axis, outer: 1, inner: times * d });
        }
        // An axis of one element is expanded itself. A longer axis gets an axis of repeats before it.
        let repeated = times != 1 || by_samples;
        if repeated {
            split.push(1);
            spread.push(times);
        }
        if d != 1 || !repeated {
            split.push(d);
            spread.push(d);
        }
        merged.push(times.checked_mul(d).ok_or_else(|| site.invalid("its result is too large"))?);
    }
    Ok(Tiled { split, split_batch, spread, spread_batch, merged, batch })
}
