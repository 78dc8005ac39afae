//! `Clip`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, low: Option<f64>, high: Option<f64>| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation_in(&[2, 4], -2.0, 2.0);
        let mut bound = |v: Option<f64>| v.map(|v| b.floats(&[], &[v]));
        let (low, high) = (bound(low), bound(high));
        let mut inputs = vec![Some(x), low, high];
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let y = b.node_with("Clip", &inputs, vec![], &[1, 2, 4]);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(13);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param_in(&[2, 3], -2.0, 2.0));
    let (low, high) = (parameter.frozen(&[]), parameter.floats(&[1], &[1.0]));
    let clipped = parameter.node("Clip", &[w, low, high], vec![], &[2, 3]);
    let y = parameter.node("Mul", &[x, clipped], vec![], &[1, 2, 3]);
    vec![
        one("between bounds", Some(-0.5), Some(1.0)),
        one("from below", Some(0.0), None),
        one("from above", None, Some(0.25)),
        parameter.case("of a parameter, a bound not trained", y),
    ]
}
