//! `Resize`: `Y` = `X` with elements along each axis copied (`nearest`) or interpolated (`linear`, `cubic`). The
//! weights depend on the shape ⇒ `dX` = `dY` under the transposed map, axis by axis.
//!
//! The nearest element is computed here, in f32 as in the runtimes, so that both passes agree at ties.

use super::rule::GradRule;
use crate::axis_map::AxisMap;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use damper_onnx::graph::{DType, Graph, Node};
use damper_onnx::{attr_float, attr_int, attr_string, make_attr_string};

pub const RULE: GradRule = GradRule { op: "Resize", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (graph, node) = p.place();
    let Some(maps) = maps(graph, node) else {
        return Err(p.refuse("its scales are not constants", "export the model with fixed sizes"));
    };
    let shift = p.shift();
    let mut gx = p.gy();
    for (axis, map) in maps.iter().enumerate() {
        gx = map.backward(p.em, &gx, axis + shift);
    }
    p.gx(0, gx);
    Ok(())
}

/// Output. `None` if the operator is emitted unchanged.
pub fn forward(em: &mut Emitter, graph: &Graph, node: &Node, x: &Var) -> Option<Var> {
    let maps = maps(graph, node)?;
    let is_plane = x.rank() == 4 && x.batch.is_some_and(|batch| batch.axis == 0);
    if is_plane && attr_string(&node.attributes, "mode", "nearest") != "nearest" {
        return None;
    }
    if is_plane && let Some(times) = maps.iter().map(AxisMap::repeats).collect::<Option<Vec<_>>>() {
        return Some(repeat(em, x, &times));
    }
    Some(maps.iter().enumerate().fold(x.clone(), |y, (axis, map)| map.apply(em, &y, axis)))
}

/// Repeats every element of `x` `times[i]` times along axis `i`.
pub fn repeat(em: &mut Emitter, x: &Var, times: &[usize]) -> Var {
    let scales = em.floats(DType::F32, &[times.len()], times.iter().map(|&k| k as f64));
    let none = Var { name: "".into(), dtype: x.dtype, shape: vec![], batch: None };
    let attributes = vec![
        make_attr_string("mode", "nearest"),
        make_attr_string("coordinate_transformation_mode", "asymmetric"),
        make_attr_string("nearest_mode", "floor"),
    ];
    let shape = x.shape.iter().zip(times).map(|(d, k)| d * k).collect();
    em.node("Resize", &[x, &none, &scales], attributes, x.dtype, shape, x.batch)
}

/// Map along each axis.
fn maps(graph: &Graph, node: &Node) -> Option<Vec<AxisMap>> {
    let scales = graph.constant(node.inputs.get(2).copied()??)?.as_f32()?;
    let input = &graph.value(node.inputs[0]?).shape;
    let output = &graph.value(node.outputs[0]).shape;
    let axis = |((&scale, &input), &output): ((&f32, &usize), &usize)| {
        if scale == 1.0 && input == output {
            return AxisMap::copying(input, 0..input);
        }
        let taps = |o: usize| taps(node, input, coordinate(node, o as f32, scale, input as f32, output as f32));
        AxisMap::new(input, (0..output).map(taps).collect())
    };
    Some(scales.iter().zip(input).zip(output).map(axis).collect())
}

/// Position along the input of the output's element `at`.
fn coordinate(node: &Node, at: f32, scale: f32, input: f32, output: f32) -> f32 {
    match attr_string(&node.attributes, "coordinate_transformation_mode", "half_pixel") {
        "asymmetric" => at / scale,
        "align_corners" if output == 1.0 => 0.0,
        "align_corners" => at * (input - 1.0) / (output - 1.0),
        "pytorch_half_pixel" if output <= 1.0 => 0.0,
        "half_pixel_symmetric" => {
            let offset = input / 2.0 * (1.0 - output / (scale * input));
            offset + (at + 0.5) / scale - 0.5
        }
        _ => (at + 0.5) / scale - 0.5,
    }
}

/// Input elements, with weights, that contribute to the output at `coordinate`.
fn taps(node: &Node, input: usize, coordinate: f32) -> Vec<(usize, f64)> {
    let last = input as f64 - 1.0;
    let at = |place: f64| place.clamp(0.0, last) as usize;
    match attr_string(&node.attributes, "mode", "nearest") {
        "linear" => {
            let place = f64::from(coordinate).clamp(0.0, last);
            let part = place - place.floor();
            vec![(at(place.floor()), 1.0 - part), (at(place.floor() + 1.0), part)]
        }
        "cubic" => {
            let a = f64::from(attr_float(&node.attributes, "cubic_coeff_a", -0.75));
            let (floor, part) = (f64::from(coordinate).floor(), f64::from(coordinate - coordinate.floor()));
            let near = |s: f64| ((a + 2.0) * s - (a + 3.0)) * s * s + 1.0;
            let far = |s: f64| ((a * s - 5.0 * a) * s + 8.0 * a) * s - 4.0 * a;
            let weights = [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)];
            let taps = weights.into_iter().enumerate().map(|(k, weight)| (floor - 1.0 + k as f64, weight));
            if attr_int(&node.attributes, "exclude_outside", 0) == 0 {
                return taps.map(|(place, weight)| (at(place), weight)).collect();
            }
            let inside: Vec<_> = taps.filter(|(place, _)| (0.0..=last).contains(place)).collect();
            let total: f64 = inside.iter().map(|(_, weight)| weight).sum();
            inside.into_iter().map(|(place, weight)| (at(place), weight / total)).collect()
        }
        _ => {
            let nearest = match attr_string(&node.attributes, "nearest_mode", "round_prefer_floor") {
                "floor" => coordinate.floor(),
                "ceil" => coordinate.ceil(),
                "round_prefer_ceil" => (coordinate + 0.5).floor(),
                _ => (coordinate - 0.5).ceil(),
            };
            vec![(at(f64::from(nearest)), 1.0)]
        }
    }
}
