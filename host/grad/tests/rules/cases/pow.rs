//! `Pow`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |name, c: f64, lo, hi| {
        let mut b = GraphBuilder::new(17);
        let (x, c) = (b.activation_in(&[5], lo, hi), b.floats(&[], &[c]));
        let y = b.node("Pow", &[x, c], vec![], &[1, 5]);
        b.case(name, y)
    };
    let mut several = GraphBuilder::new(17);
    let (x, c) = (several.activation_in(&[3], 0.5, 1.5), several.floats(&[3], &[0.0, 1.0, -0.5]));
    let y = several.node("Pow", &[x, c], vec![], &[1, 3]);
    let mut integers = GraphBuilder::new(17);
    let (x, c) = (integers.activation(&[3]), integers.ints(&[2, 3, 4]));
    let powers = integers.node("Pow", &[x, c], vec![], &[1, 3]);
    // As a generalised mean over positions is exported.
    let mut trained = GraphBuilder::new(17);
    let (x, p) = (trained.activation_in(&[2, 3], 0.5, 1.5), trained.param_in(&[1], 2.0, 3.0));
    let raised = trained.node("Pow", &[x, p], vec![], &[1, 2, 3]);
    let mut data = GraphBuilder::new(17);
    let (x, c) = (data.param_in(&[3], 0.5, 1.5), data.activation_in(&[2, 3], -2.0, 2.0));
    let by_data = data.node("Pow", &[x, c], vec![], &[1, 2, 3]);
    let mut frozen = GraphBuilder::new(17);
    let (x, c) = (frozen.activation_in(&[2, 3], 0.5, 1.5), frozen.frozen(&[]));
    let kept = frozen.node("Pow", &[x, c], vec![], &[1, 2, 3]);
    vec![
        integers.case("integer exponents of negative bases", powers),
        trained.case("a trained exponent", raised),
        data.case("an exponent that depends on data", by_data),
        frozen.case("an exponent that is not trained", kept),
        one("square", 2.0, -1.0, 1.0),
        one("fifth power of negative bases", 5.0, -1.5, 1.5),
        one("cube", 3.0, -1.0, 1.0),
        one("root", 0.5, 0.5, 1.5),
        several.case("an exponent for each element", y),
    ]
}
