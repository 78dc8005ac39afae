//! `Concat`: concatenation within samples.

use super::super::GraphError;
use super::super::batch::show;
use super::super::node::{Data, Outcome, Ruled, Shaped, Site, Source, Step};
use crate::{attr_int, make_attr_int};

/// `Concat`. If the export fixed a batch of 1, it expands an input that is the same for all samples before joining it
/// to batched data. With other batch sizes the model must expand it, because it has another number of rows along the
/// batch axis.
pub(in super::super) fn concat(site: &Site<'_>) -> Ruled {
    let inputs = (0..site.inputs.len()).map(|i| site.data(i)).collect::<Result<Vec<_>, _>>()?;
    let first = inputs.first().ok_or_else(|| site.invalid("input 0 is missing"))?;
    let lead = inputs.iter().find(|input| input.shaped.batch.is_some()).unwrap_or(first);
    let rank = lead.shaped.shape.len();
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), rank)?;
    if inputs.iter().any(|input| input.shaped.batch.is_some_and(|at| at.axis == axis)) {
        return Err(site.mixes(
            format!("it joins batches along axis {axis}, which holds the samples"),
            "concatenate features, as torch.cat(xs, dim=1)",
        ));
    }
    let batch = lead.shaped.batch;
    let mut steps = Vec::new();
    let mut sources = Vec::with_capacity(inputs.len());
    let mut shape = lead.shaped.shape.clone();
    shape[axis] = 0;
    for input in &inputs {
        let own = &input.shaped;
        let fits = own.shape.len() == rank && (0..rank).all(|i| i == axis || own.shape[i] == shape[i]);
        // It has one row for each sample, not one for several rows of a sample.
        let has_one = batch.is_some_and(|batch| batch.extent() == 1);
        let spread = has_one && own.batch.is_none() && site.fixed_batch == Some(1);
        if own.batch != batch && !(spread && fits) {
            return Err(differently(site, lead, input));
        }
        if !fits || own.dtype != lead.shaped.dtype {
            return Err(site.invalid(format!(
                "'{}' {:?} does not fit '{}' {:?}",
                input.name, own.shape, lead.name, lead.shaped.shape
            )));
        }
        shape[axis] += own.shape[axis];
        sources.push(input.source.clone());
        if spread {
            let output = Shaped { batch, ..own.clone() };
            steps.push(Step { op: "Expand", inputs: vec![input.source.clone()], attributes: vec![], output });
            *sources.last_mut().expect("just pushed") = Source::Step(steps.len() - 1);
        }
    }
    let output = Shaped { dtype: lead.shaped.dtype, shape, batch };
    let attributes = vec![make_attr_int("axis", axis as i64)];
    steps.push(Step { op: "Concat", inputs: sources, attributes, output });
    Ok(Outcome::Steps { outputs: vec![steps.len() - 1], steps })
}

fn differently(site: &Site<'_>, a: &Data<'_>, b: &Data<'_>) -> GraphError {
    site.mixes(
        format!(
            "'{}' {} and '{}' {} hold their samples differently",
            a.name,
            show(&a.shaped.shape, a.shaped.batch),
            b.name,
            show(&b.shaped.shape, b.shaped.batch)
        ),
        format!("expand what is the same for all samples along the batch first, and {}", site.export_remedy()),
    )
}
