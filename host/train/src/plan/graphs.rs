//! The gradient graphs of a run, their physical batch and their initial parameters.

pub(crate) mod frozen;
pub(crate) mod opaque;

use crate::plan::sum_place::SumPlace;
use crate::{Clipping, NoiseKind, TrainConfig, TrainError};
use damper_grad::{Cost, DeriveOptions, GradGraph, Readout, derive};
use damper_onnx::SettingError;
use damper_onnx::graph::Graph;
use std::num::NonZeroUsize;

/// Returns options for the graph that the workers read. Workers compute outer products themselves.
pub(super) fn as_read(options: &DeriveOptions) -> DeriveOptions {
    let readout = if options.readout == Readout::PerSample {
        Readout::Factored { positions: true, groups: false }
    } else {
        options.readout
    };
    DeriveOptions { readout, ..options.clone() }
}

/// Returns the graph of whole gradients, for a run that takes its exact sum on a device, which does not compute outer
/// products. Returns `None` for other runs. Also returns `None` if the graph scatters sums, because a device may add
/// them in another order each time.
pub(crate) fn whole(
    graph: &Graph,
    derived: &DeriveOptions,
    config: &TrainConfig,
) -> Result<Option<GradGraph>, TrainError> {
    if SumPlace::of(config) != SumPlace::Device {
        return Ok(None);
    }
    let whole = derive(graph, derived)?;
    let model = whole.standard_model();
    let scatters = model.graph.iter().flat_map(|graph| &graph.node).any(|node| node.op_type.starts_with("Scatter"));
    Ok((!scatters).then_some(whole))
}

/// Returns the graph of clipped sums, if requested, with as many points as the filter needs. Returns an error if the
/// bound of this path would not hold.
pub(super) fn clipped(
    graph: &Graph,
    derived: &DeriveOptions,
    config: &TrainConfig,
) -> Result<Option<GradGraph>, TrainError> {
    match config.readout {
        Readout::PerSample => return Ok(None),
        Readout::ClippedSum => {}
        _ => return Err(SettingError::new("readout", "", "training takes per-sample or clipped-sum").into()),
    }
    if config.noise != NoiseKind::Continuous {
        let problem = "its bound holds in the backend's floats, not in integers; add `noise` continuous, or use `readout` \
                       per-sample, which is exact";
        return Err(SettingError::new("readout", "clipped-sum", problem).into());
    }
    if config.method.clipping != Clipping::default() {
        let problem = "clips all parameters together at the clip; use `clipping` flat, or `readout` per-sample";
        return Err(SettingError::new("readout", "clipped-sum", problem).into());
    }
    let points = NonZeroUsize::new(config.method.filter.gradients_per_sample()).unwrap_or(NonZeroUsize::MIN);
    let options = DeriveOptions { readout: Readout::ClippedSum, points, ..derived.clone() };
    Ok(Some(derive(graph, &options)?))
}

/// Returns the requested number of rows, or as many as fit in `memory` bytes.
pub fn physical_batch(rows: Option<NonZeroUsize>, memory: u64, cost: Cost) -> Result<NonZeroUsize, TrainError> {
    rows.or_else(|| cost.rows(memory)).ok_or_else(|| {
        let needed = cost.bytes(1).div_ceil(1 << 20);
        let problem = format!(
            "one sample's tensors take {needed}MiB; give at least so much (damper inspect counts it for each readout)"
        );
        SettingError::new("memory", "", problem).into()
    })
}

/// Returns the model file's values of the trained parameters, flat, in the gradient graph's order.
pub fn initial(graph: &Graph, grad: &GradGraph) -> Vec<f32> {
    let of = |name: &str| graph.parameters.iter().find(|parameter| parameter.name == name)?.initial.as_f32();
    // Growing the vector value by value could keep twice its memory for the whole run.
    grad.parameters.iter().filter_map(|spec| of(&spec.name)).collect::<Vec<_>>().concat()
}
