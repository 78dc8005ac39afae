//! The initial weights of a run. They are public, and checked before anything is charged.

use damper_onnx::graph::{Graph, GraphError, GraphOptions, Parameter};

/// The maximum magnitude of a trainable parameter. The square of a larger value is infinite in float32.
pub(crate) const LARGEST: f32 = 1.8e19;

/// Returns an error for initial weights that cannot be trained from. A trained tensor must not have NaN, an infinity or
/// a magnitude above 1.8e19. A frozen tensor must not have NaN, unless `freeze` names it. A frozen mask may have
/// infinities.
///
/// # Errors
///
/// The first bad tensor, with its first bad value.
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

/// Returns the first element that cannot be trained from, with its index.
fn fault(parameter: &Parameter) -> Option<(usize, f32)> {
    let mut values = parameter.initial.as_f32()?.iter().copied().enumerate();
    let is_bad = |x: f32| if parameter.trained { x.is_nan() || x.abs() > LARGEST } else { x.is_nan() };
    values.find(|(_, x)| is_bad(*x))
}
