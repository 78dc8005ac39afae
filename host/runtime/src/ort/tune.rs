//! Measures which way of computing each kind of layer is the fastest here.
//!
//! Graphs are timed whole, for a layer's neighbours pay for the layout of what it leaves. The faster of two graphs, run in turns, is the one whose
//! fastest run is; a way is taken if that gains more than runs differ by themselves.

use super::super::backend::{BackendError, Session, SessionSpec};
use super::super::ways::{Way, Ways};
use super::operators;
use crate::bind::bind;
use damper_onnx::{TensorRef, pb};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs of each graph in a comparison.
const RUNS: usize = 5;

/// Share of the time that another way must save.
const GAIN: f64 = 0.02;

/// Comparisons end early if another way takes so much longer in a single run.
const HOPELESS: f64 = 1.1;

/// A session, or why there is none.
type Loaded = Result<Box<dyn Session>, BackendError>;

/// The fastest ways for `model` on `inputs`, kind by kind. `load` loads a bound model with ways.
pub(super) fn tune(
    load: &dyn Fn(pb::ModelProto, &Ways) -> Loaded,
    model: &[u8],
    plan: &SessionSpec,
    inputs: &[TensorRef<'_>],
    keeps: &mut dyn FnMut(&mut dyn Session) -> Result<bool, BackendError>,
) -> Result<Ways, BackendError> {
    let bound = bind(model, plan)?;
    let layers: BTreeMap<String, &[Way]> =
        operators::put(&mut bound.clone(), plan, &Ways::default()).into_iter().collect();
    let mut best = Ways::default();
    let mut fastest = load(bound.clone(), &best)?;
    for (layer, ways) in layers {
        for way in ways {
            let other = best.with(&layer, *way);
            let mut session = load(bound.clone(), &other)?;
            if is_faster(&mut session, &mut fastest, inputs)? && keeps(session.as_mut())? {
                (best, fastest) = (other, session);
            }
        }
    }
    Ok(best)
}

/// Returns true if `other` takes less time than `now`.
fn is_faster(
    other: &mut Box<dyn Session>,
    now: &mut Box<dyn Session>,
    inputs: &[TensorRef<'_>],
) -> Result<bool, BackendError> {
    let time = |session: &mut Box<dyn Session>| -> Result<Duration, BackendError> {
        let begun = Instant::now();
        session.run(inputs, &mut |_| {})?;
        Ok(begun.elapsed())
    };
    // The first run of a session allocates.
    time(other)?;
    let (mut of_other, mut of_now) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        of_other = of_other.min(time(other)?);
        of_now = of_now.min(time(now)?);
        if of_other > of_now.mul_f64(HOPELESS) {
            return Ok(false);
        }
    }
    Ok(of_other < of_now.mul_f64(1.0 - GAIN))
}

#[cfg(test)]
mod tests {
    use super::super::super::Backend as _;
    use super::super::Ort;
    use super::super::testing::{BATCH, apart, batched, model, node, numbers, parameter};
    use super::*;
    use damper_onnx::{make_attr_ints, pb};
    use prost::Message as _;

    const CONVOLUTION: &str = "Conv [32, 32, 3, 3] by [1, 1]";
    const PRODUCT: &str = "MatMul 2048 to 8";

    /// A convolution that has transforms, and a product.
    fn network() -> (pb::ModelProto, SessionSpec) {
        let mut convolution = node("y = Conv(x, weights)");
        convolution.attribute = vec![make_attr_ints("pads", &[1, 1, 1, 1])];
        let nodes = vec![convolution, node("flat = Flatten(y)"), node("z = MatMul(flat, matrix)")];
        let inputs =
            vec![batched("x", &[32, 8, 8]), parameter("weights", &[32, 32, 3, 3]), parameter("matrix", &[2048, 8])];
        model(nodes, &[], inputs, vec![batched("z", &[8])])
    }

    #[test]
    fn layers_are_computed_in_their_ways() {
        let Ok(mut backend) = Ort::open() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        let (model, plan) = network();
        let layers = operators::put(&mut model.clone(), &plan, &Ways::default());
        let names: Vec<_> = layers.iter().map(|(layer, ways)| (layer.as_str(), ways.len())).collect();
        assert_eq!(names, [(CONVOLUTION, 2), (PRODUCT, 1)]);
        let inputs = numbers(&plan);
        let inputs: Vec<_> = inputs.iter().map(|input| TensorRef::F32(input)).collect();
        let mut made = vec![];
        for (layer, way) in
            [("", Way::Own), (CONVOLUTION, Way::Defined), (CONVOLUTION, Way::Runtime), (PRODUCT, Way::Runtime)]
        {
            backend.set_ways(Ways::default().with(layer, way));
            let mut put = model.clone();
            operators::put(&mut put, &plan, &backend.ways());
            let ours = put.graph.unwrap().node.iter().filter(|node| !node.domain.is_empty()).count();
            assert_eq!(ours, if way == Way::Runtime { 1 } else { 2 }, "{layer} {}", way.name());
            let mut session = backend.load(&model.encode_to_vec(), &plan).unwrap();
            session.run(&inputs, &mut |outputs| made.push(outputs[0].to_vec())).unwrap();
        }
        let first: Vec<f64> = made[0].iter().map(|entry| f64::from(*entry)).collect();
        assert!(first.len() == 8 * BATCH && made.iter().all(|made| apart(made, &first) < 1e-3));
        assert_ne!(made[0], made[1], "the definition sums otherwise than the transforms");
    }

    #[test]
    fn ways_that_are_refused_are_not_taken() {
        let Ok(backend) = Ort::open() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        let (model, plan) = network();
        let inputs = numbers(&plan);
        let inputs: Vec<_> = inputs.iter().map(|input| TensorRef::F32(input)).collect();
        let ways = backend.tune(&model.encode_to_vec(), &plan, &inputs, &mut |_| Ok(false)).unwrap();
        assert_eq!(ways, Some(Ways::default()));
        let free = backend.tune(&model.encode_to_vec(), &plan, &inputs, &mut |_| Ok(true)).unwrap().unwrap();
        assert!(free.iter().all(|(layer, _)| [CONVOLUTION, PRODUCT].contains(&layer)), "{free:?}");
    }
}
