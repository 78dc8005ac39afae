//! The weights that a run begins with: public numbers, checked before anything is charged.

use damper_onnx::graph::{Graph, GraphError, GraphOptions, Parameter};

/// The largest magnitude of a parameter that trains: the square of a larger one is infinite in float32.
pub(crate) const LARGEST: f32 = 1.8e19;

/// Refuses initial weights from which no step could be taken: a trained one that holds NaN, an infinity or a number beyond 1.8e19, and a
/// frozen one that holds NaN, unless `freeze` names it. A frozen mask may hold infinities.
///
/// # Errors
///
/// The first such tensor, with the first such number.
pub fn check_weights(graph: &Graph, options: &GraphOptions) -> Result<(), GraphError> {
    let is_named = |name: &str| options.freeze.iter().any(|given| given == name);
    graph.parameters.iter().try_for_each(|parameter| match (fault(parameter), parameter.trained) {
        (None, _) => Ok(()),
        (Some(_), false) if is_named(&parameter.name) => Ok(()),
        (Some((at, x)), trained) => {
            let (name, is) = (&parameter.name, if trained { "trained" } else { "a weight" });
            let remedy = if trained && !x.is_nan() && x < 0.0 {
                format!("repair the model's weights, or give `freeze` '{name}' if it is a mask")
            } else {
                "repair the model's weights, such as by an earlier checkpoint".to_owned()
            };
            Err(GraphError::Model(format!(
                "'{name}': {is}, and its element {at} is {x}, so no gradient is finite; {remedy}"
            )))
        }
    })
}

/// The first element that nothing can be trained from, with its place.
fn fault(parameter: &Parameter) -> Option<(usize, f32)> {
    let mut values = parameter.initial.as_f32()?.iter().copied().enumerate();
    let is_bad = |x: f32| if parameter.trained { x.is_nan() || x.abs() > LARGEST } else { x.is_nan() };
    values.find(|(_, x)| is_bad(*x))
}
