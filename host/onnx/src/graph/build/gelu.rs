//! GELU as exporters write it before opset 20. A chain of operators around an `Erf` or `Tanh` becomes one node, with a
//! gradient of one node.
//!
//! Exporters order the factors in many ways. So a chain is identified by its values: it must equal GELU at all of
//! [`POINTS`].

use super::super::{DType, Node, Origin, Parameter, TensorData, Value, ValueId};
use super::builder::Builder;
use crate::make_attr_string;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// Evaluation points in units of `SPACING`, from −6 to 6. Beyond that range the candidates do not differ.
const POINTS: std::ops::RangeInclusive<i32> = -24..=24;
const SPACING: f64 = 0.25;
/// Constants have the precision of `f32`, and some only four digits.
const TOLERANCE: f64 = 2e-6;
/// Maximum numbers of operators between `X` and `Erf` or `Tanh`, from there to `Y`, and in the whole chain.
const BEFORE: usize = 6;
const BEHIND: usize = 4;
const DEPTH: usize = 12;

impl Builder<'_> {
    /// Replaces the last node of each chain by one node. No output needs the rest of the chain any more.
    pub(super) fn join_gelu_chains(&mut self) {
        let chains = Chains { nodes: &self.nodes, values: &self.values, parameters: &self.parameters };
        for (at, node) in chains.joined() {
            self.nodes[at] = node;
        }
    }
}

/// Nodes and values of a built graph.
struct Chains<'a> {
    nodes: &'a [Node],
    values: &'a [Value],
    parameters: &'a [Parameter],
}

impl Chains<'_> {
    /// Nodes that compute `Y` of a chain, in their new form.
    fn joined(&self) -> Vec<(usize, Node)> {
        let core = |node: &&Node| matches!(&*node.op, "Erf" | "Tanh");
        self.nodes.iter().filter(core).filter_map(|node| self.around(node)).collect()
    }

    fn around(&self, core: &Node) -> Option<(usize, Node)> {
        let approximate = core.op == "Tanh";
        let inputs = self.behind(core.inputs.first().copied().flatten()?);
        let mut y = *core.outputs.first()?;
        for _ in 0..BEHIND {
            let mut readers = self.nodes.iter().enumerate().filter(|(_, node)| node.inputs.contains(&Some(y)));
            let (Some((at, node)), None) = (readers.next(), readers.next()) else { return None };
            y = *node.outputs.first()?;
            if let Some(x) = inputs.iter().find(|x| self.is_gelu(**x, y, approximate)) {
                let attributes = if approximate { vec![make_attr_string("approximate", "tanh")] } else { vec![] };
                return Some((at, Node { op: "Gelu".into(), inputs: vec![Some(*x)], attributes, ..node.clone() }));
            }
        }
        None
    }

    /// `value` and the values from which it is computed, nearest first.
    fn behind(&self, value: ValueId) -> Vec<ValueId> {
        let (mut found, mut next) = (vec![value], vec![value]);
        for _ in 0..BEFORE {
            let inputs = next.iter().filter_map(|id| self.node(*id)).flat_map(|node| node.inputs.iter().flatten());
            next = inputs.copied().filter(|id| self.number(*id).is_none() && !found.contains(id)).collect();
            next.dedup();
            found.extend(&next);
        }
        found
    }

    fn is_gelu(&self, x: ValueId, y: ValueId, approximate: bool) -> bool {
        let [from, to] = [x, y].map(|id| &self.values[id.0]);
        let is_like = (from.dtype, &from.shape, from.batch) == (to.dtype, &to.shape, to.batch);
        let has_value =
            |point| self.at(y, x, point, DEPTH).is_some_and(|y| (y - gelu(point, approximate)).abs() < TOLERANCE);
        is_like && from.dtype == DType::F32 && POINTS.map(|step| f64::from(step) * SPACING).all(has_value)
    }

    /// Element of `value` if that of `x` is `point`. `None` if other inputs affect it.
    fn at(&self, value: ValueId, x: ValueId, point: f64, depth: usize) -> Option<f64> {
        if value == x {
            return Some(point);
        }
        if let Some(number) = self.number(value) {
            return Some(number);
        }
        let node = self.node(value)?;
        let depth = depth.checked_sub(1)?;
        let input = |slot: usize| self.at((*node.inputs.get(slot)?)?, x, point, depth);
        Some(match &*node.op {
            "Add" => input(0)? + input(1)?,
            "Sub" => input(0)? - input(1)?,
            "Mul" => input(0)? * input(1)?,
            "Div" => input(0)? / input(1)?,
            "Pow" => input(0)?.powf(input(1)?),
            "Erf" => libm::erf(input(0)?),
            "Tanh" => input(0)?.tanh(),
            _ => return None,
        })
    }

    fn node(&self, value: ValueId) -> Option<&Node> {
        match self.values[value.0].origin {
            Origin::Node { node, .. } => self.nodes.get(node),
            _ => None,
        }
    }

    /// Value of a scalar constant.
    fn number(&self, value: ValueId) -> Option<f64> {
        let tensor = match &self.values[value.0].origin {
            Origin::Constant(tensor) => tensor,
            Origin::Parameter(index) if !self.parameters[*index].trained => &self.parameters[*index].initial,
            _ => return None,
        };
        match &tensor.data {
            TensorData::F32(numbers) if numbers.len() == 1 => numbers.first().map(|number| f64::from(*number)),
            _ => None,
        }
    }
}

fn gelu(x: f64, approximate: bool) -> f64 {
    if approximate {
        0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x.powi(3))).tanh())
    } else {
        0.5 * x * (1.0 + libm::erf(x * FRAC_1_SQRT_2))
    }
}
