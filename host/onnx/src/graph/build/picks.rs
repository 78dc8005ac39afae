//! `z[arange(N), index]`: one row of each sample, chosen by the sample's own data. Models that classify by the last
//! token do this.
//!
//! Exporters write `Gather(z as rows, n · length + index)` or `GatherND(z, (n, index))`. Both become a `GatherND`
//! within each sample. So no value of the index can reach another sample.

use super::super::affine::Affine;
use super::super::node::{Ints, Item, Rewritten};
use super::super::{BatchAxis, DType, GraphError, Value};
use super::builder::{Builder, Pick, Rows};
use crate::pb::NodeProto;
use crate::{attr_int, make_attr_int, make_node};

impl Builder<'_> {
    /// Adds the node if it creates or reads such indices.
    pub(super) fn add_pick(&mut self, index: usize, name: &str, node: &NodeProto) -> Result<bool, GraphError> {
        let Some(output) = node.output.first() else { return Ok(false) };
        if let Some(pick) = self.made(node) {
            self.picks.insert(output.clone(), pick);
            return Ok(true);
        }
        let Some(pick) = node.input.iter().find_map(|input| self.picks.get(input)).cloned() else { return Ok(false) };
        if node.op_type == "Shape" && node.attribute.iter().all(|a| a.name == "start" && a.i == 0) {
            let extents = [Affine::per_sample(1), Affine::fixed(2)];
            let entries = extents[..if pick.stride.is_some() { 1 } else { 2 }].to_vec();
            let ints = Ints { dtype: DType::I64, shape: vec![entries.len()], entries };
            self.items.insert(output.clone(), Item::Ints(ints));
            return Ok(true);
        }
        match self.within(node, &pick) {
            Some(rewritten) => self.add_rewritten(index, name, node, rewritten).map(|()| true),
            None => Err(GraphError::Mixes {
                node: name.into(),
                op: node.op_type.clone(),
                reason: "it reads the samples' numbers, in another way than to look up their own rows".into(),
                remedy: "look up within each sample, as with torch.gather".into(),
            }),
        }
    }

    fn data(&self, name: &String) -> Option<&Value> {
        match self.items.get(name)? {
            Item::Value(id) => Some(&self.values[id.0]),
            Item::Ints(_) => None,
        }
    }

    /// Indices that `node` computes.
    fn made(&self, node: &NodeProto) -> Option<Pick> {
        let [a, b] = &node.input[..] else { return None };
        let (rows, index, number_first) = match (self.rows.get(a), self.rows.get(b)) {
            (Some(rows), None) => (rows, b, true),
            (None, Some(rows)) => (rows, a, false),
            _ => return None,
        };
        let Rows { shape, axis: 0, entries, dtype } = rows else { return None };
        let value = self.data(index)?;
        let fits = value.dtype == *dtype && value.shape == *shape && value.batch == Some(BatchAxis::plain(0));
        let axis = attr_int(&node.attribute, "axis", 0);
        let stride = match (&*node.op_type, &shape[..], &entries[..]) {
            ("Add", [1], [Some((stride, 0))]) => Some(usize::try_from(*stride).ok().filter(|&stride| stride > 0)?),
            ("Concat", [1, 1], [Some((1, 0))]) if number_first && matches!(axis, 1 | -1) => None,
            _ => return None,
        };
        fits.then(|| Pick { index: index.clone(), stride })
    }

    /// Lookup of `pick` within each sample.
    fn within(&self, node: &NodeProto, pick: &Pick) -> Option<Rewritten> {
        let [data, _] = &node.input[..] else { return None };
        let (value, output) = (self.data(data)?, node.output.first()?);
        let part = |what: &str| format!("{output}/{what}");
        let within = |data: &str, index: &str| {
            make_node("GatherND", &node.name, &[data, index], &[output], vec![make_attr_int("batch_dims", 1)])
        };
        match (&*node.op_type, pick.stride) {
            ("GatherND", None) => {
                let fits = value.batch == Some(BatchAxis::plain(0)) && value.shape.len() > 1;
                let plain = attr_int(&node.attribute, "batch_dims", 0) == 0;
                let nodes = vec![within(data, &pick.index)];
                (fits && plain).then(|| Rewritten { nodes, ints: vec![] })
            }
            ("Gather", Some(length)) if attr_int(&node.attribute, "axis", 0) == 0 => {
                let at = value.batch?;
                if (at.axis, at.outer, at.inner) != (0, 1, length) {
                    return None;
                }
                let [rows, target, index, last] = ["rows", "target", "index", "last"].map(part);
                let rest = value.shape[1..].iter().map(|&extent| Affine::fixed(extent as i64));
                let entries: Vec<Affine> =
                    [Affine::per_sample(1), Affine::fixed(length as i64)].into_iter().chain(rest).collect();
                let list = |entries: Vec<Affine>| Ints { dtype: DType::I64, shape: vec![entries.len()], entries };
                let nodes = vec![
                    make_node("Reshape", &rows, &[data, &target], &[&rows], vec![]),
                    make_node("Unsqueeze", &index, &[&pick.index, &last], &[&index], vec![]),
                    within(&rows, &index),
                ];
                let ints = vec![(target, list(entries)), (last, list(vec![Affine::fixed(1)]))];
                Some(Rewritten { nodes, ints })
            }
            _ => None,
        }
    }
}
