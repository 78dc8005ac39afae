//! `ReduceSum`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    reduction_cases("ReduceSum", input_form)
}

/// Additional inputs and attributes.
pub type Form = (Vec<ValueId>, Vec<AttributeProto>);

fn input_form(b: &mut GraphBuilder, axes: &[i64], keep: i64) -> Form {
    (vec![b.ints(axes)], vec![make_attr_int("keepdims", keep)])
}

/// Cases of another reduction, in its form from opset 18 on.
pub fn input_form_cases(op: &str) -> Vec<Case> {
    let mut cases = reduction_cases(op, input_form);
    for case in &mut cases {
        case.graph.opset = 18;
        case.name += ", operator set 18";
    }
    cases
}

/// Axes as an attribute, for the other reductions up to opset 17.
pub fn attribute_form(_: &mut GraphBuilder, axes: &[i64], keep: i64) -> Form {
    (vec![], vec![make_attr_ints("axes", axes), make_attr_int("keepdims", keep)])
}

/// Cases shared with the other reductions. `form` returns the axes as additional inputs or as attributes.
pub fn reduction_cases(op: &str, form: fn(&mut GraphBuilder, &[i64], i64) -> Form) -> Vec<Case> {
    reduction_cases_in(op, form, -1.0, 1.0)
}

/// Like [`reduction_cases`], on positive values.
pub fn positive_reduction_cases(op: &str, form: fn(&mut GraphBuilder, &[i64], i64) -> Form) -> Vec<Case> {
    reduction_cases_in(op, form, 0.5, 1.5)
}

fn reduction_cases_in(op: &str, form: fn(&mut GraphBuilder, &[i64], i64) -> Form, low: f32, high: f32) -> Vec<Case> {
    let one = |name, axes: &[i64], keep, out: &[usize]| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation_in(&[2, 3, 4], low, high);
        let (inputs, attributes) = form(&mut b, axes, keep);
        let y = b.node(op, &[&[x], &inputs[..]].concat(), attributes, out);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[3]), parameter.param_in(&[2, 3], low, high));
    let (inputs, attributes) = form(&mut parameter, &[0], 0);
    let row = parameter.node(op, &[&[w], &inputs[..]].concat(), attributes, &[3]);
    let y = parameter.node("Mul", &[x, row], vec![], &[1, 3]);
    let mut merged = GraphBuilder::new(17);
    let x = merged.activation_in(&[2, 3], low, high);
    let axis = Some(BatchAxis { axis: 0, outer: 1, inner: 2 });
    let rows = merged.node_at("Reshape", &[x], vec![], &[2, 3], axis);
    let (inputs, attributes) = form(&mut merged, &[1], 0);
    let ends = merged.node_at(op, &[&[rows], &inputs[..]].concat(), attributes, &[2], axis);
    let z = merged.node("Reshape", &[ends], vec![], &[1, 2]);
    vec![
        merged.case("with the batch merged with positions", z),
        one("keeps its axis", &[2], 1, &[1, 2, 1, 4]),
        one("drops two axes", &[-1, 1], 0, &[1, 3]),
        parameter.case("of a parameter", y),
    ]
}
