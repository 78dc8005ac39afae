//! Rewrites a node to other nodes, each processed by its own rule. So the proofs about samples by the rules of the
//! parts hold for the whole.

use super::super::affine::Affine;
use super::super::node::{Ints, Outcome, Rewritten, Site};
use super::super::{DType, Tensor, TensorData};
use crate::pb::AttributeProto;
use crate::{make_attr_tensor, make_node, make_tensor};

/// Nodes under construction that compute output 0 of a node.
pub(super) struct Rewrite<'a> {
    name: &'a str,
    output: &'a str,
    rewritten: Rewritten,
    made: usize,
}

impl<'a> Rewrite<'a> {
    pub fn of(site: &'a Site<'_>) -> Rewrite<'a> {
        let output = site.node.output.iter().find(|name| !name.is_empty()).map_or("", |name| name.as_str());
        Rewrite { name: site.name, output, rewritten: Rewritten::default(), made: 0 }
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        format!("{}/{}", self.output, self.made)
    }

    /// Adds a node with one output and returns the output's name.
    pub fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.fresh();
        let name = format!("{}/{}", self.name, self.made);
        self.rewritten.nodes.push(make_node(op, &name, inputs, &[&output], attributes));
        output
    }

    /// Adds known integers, some of which may be multiples of the number of samples.
    pub fn ints(&mut self, entries: Vec<Affine>) -> String {
        let name = self.fresh();
        let ints = Ints { dtype: DType::I64, shape: vec![entries.len()], entries };
        self.rewritten.ints.push((name.clone(), ints));
        name
    }

    /// Adds known integers.
    pub fn fixed(&mut self, entries: impl IntoIterator<Item = i64>) -> String {
        self.ints(entries.into_iter().map(Affine::fixed).collect())
    }

    /// Adds a float constant.
    pub fn floats(&mut self, shape: &[usize], data: Vec<f32>) -> String {
        let tensor = make_tensor("", &Tensor { shape: shape.to_vec(), data: TensorData::F32(data.into()) });
        self.node("Constant", &[], vec![make_attr_tensor("value", tensor)])
    }

    /// Adds a node that computes `output`, an output of the rewritten node.
    pub fn named(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>, output: &str) {
        self.made += 1;
        let name = format!("{}/{}", self.name, self.made);
        self.rewritten.nodes.push(make_node(op, &name, inputs, &[output], attributes));
    }

    /// Returns the nodes, which compute all outputs under their names.
    pub fn all(self) -> Outcome {
        Outcome::Rewritten(self.rewritten)
    }

    /// Adds a last node, which computes output 0, and returns all nodes.
    pub fn end(mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> Outcome {
        let node = make_node(op, self.name, inputs, &[self.output], attributes);
        self.rewritten.nodes.push(node);
        Outcome::Rewritten(self.rewritten)
    }
}
