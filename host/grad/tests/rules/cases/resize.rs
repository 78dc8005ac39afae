//! `Resize`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let one = |mode: &str, coordinates: &str, scales: [f64; 2], output: [usize; 2]| {
        let mut b = GraphBuilder::new(17);
        let (x, scales) = (b.activation(&[2, 4, 5]), b.floats(&[4], &[1.0, 1.0, scales[0], scales[1]]));
        let attributes = vec![
            make_attr_string("mode", mode),
            make_attr_string("coordinate_transformation_mode", coordinates),
            make_attr_string("nearest_mode", if coordinates == "asymmetric" { "floor" } else { "round_prefer_floor" }),
        ];
        let y = b.node_with("Resize", &[Some(x), None, Some(scales)], attributes, &[1, 2, output[0], output[1]]);
        b.case(&format!("{mode}, {coordinates}, to {output:?}"), y)
    };
    let line = |mode: &str| {
        let mut b = GraphBuilder::new(18);
        let (x, scales) = (b.activation(&[2, 4]), b.floats(&[3], &[1.0, 1.0, 1.75]));
        let y = b.node_with("Resize", &[Some(x), None, Some(scales)], vec![make_attr_string("mode", mode)], &[1, 2, 7]);
        b.case(&format!("1-D, {mode}"), y)
    };
    let parameter = {
        let mut b = GraphBuilder::new(17);
        let (x, w, scales) = (b.input(&[2, 5, 6]), b.param(&[1, 2, 3, 3]), b.floats(&[4], &[1.0, 1.0, 1.6666667, 2.0]));
        let attributes = vec![make_attr_string("mode", "cubic"), make_attr_int("exclude_outside", 1)];
        let resized = b.node_with("Resize", &[Some(w), None, Some(scales)], attributes, &[1, 2, 5, 6]);
        let y = b.node("Mul", &[x, resized], vec![], &[1, 2, 5, 6]);
        b.case("of a parameter (position embeddings)", y)
    };
    vec![
        one("nearest", "asymmetric", [2.0, 3.0], [8, 15]),
        one("nearest", "asymmetric", [1.5, 0.6], [6, 3]),
        one("nearest", "half_pixel", [2.0, 6.0], [8, 30]),
        one("nearest", "half_pixel", [0.5, 1.4000001], [2, 7]),
        one("linear", "asymmetric", [2.0, 1.4000001], [8, 7]),
        one("linear", "half_pixel", [2.0, 0.6], [8, 3]),
        one("linear", "pytorch_half_pixel", [0.25, 2.0], [1, 10]),
        one("linear", "align_corners", [2.0, 1.8000001], [8, 9]),
        one("linear", "half_pixel_symmetric", [1.5, 1.5], [6, 7]),
        one("cubic", "half_pixel", [1.5, 2.0], [6, 10]),
        line("nearest"),
        line("linear"),
        parameter,
    ]
}
