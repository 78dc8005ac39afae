//! Activation checkpointing: the reverse sweep recomputes most activations from a few stored activations.
//!
//! The forward pass is divided into segments (Chen et al., 2016, "Training deep nets with sublinear memory cost").
//! Stored tensors are those that cross a segment border, outputs, and tensors that do not depend on the samples. Before
//! the sweep reads another tensor of a segment, copies of the nodes that compute it are emitted. The last segment is
//! not recomputed because the sweep begins with it.
//!
//! A runtime merges equal nodes, and runs a node as soon as it can. So a recomputed segment reads stored tensors as
//! `Where(g < g, x, x)`, with `g` from the sweep. This has the bits of `x`, and is not available before `g`. Booleans
//! are read as `Or(g < g, x)`.
//!
//! # Work
//!
//! At most one more forward pass. Bits stay the same if the runtime computes equal nodes with equal bits (see
//! [`AGAIN`]).

use super::cost::{bytes, shares_memory};
use super::emit::{Known, Var};
use damper_onnx::graph::{DType, Tensor, TensorData};
use damper_onnx::pb::{NodeProto, TensorProto};
use damper_onnx::{AGAIN, lowering, make_node, make_tensor, rename_tensor};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of segments. More save little and make the search for borders slower.
const MOST_SEGMENTS: usize = 32;

/// Nodes of an emitted graph, in order.
pub struct EmittedNodes<'a> {
    pub nodes: Vec<NodeProto>,
    pub initializers: &'a mut Vec<TensorProto>,
    pub known: &'a mut Known,
    pub outputs: &'a HashSet<&'a str>,
}

/// Rewrites the nodes of `emitted` to have fewer activations alive at once. `passes` are the index ranges of its
/// forward passes, each including the loss. Each is followed by its sweep.
pub fn checkpoint(mut emitted: EmittedNodes<'_>, passes: &[Range<usize>]) -> Vec<NodeProto> {
    // Recomputed nodes come after their pass, so the indices of earlier passes stay valid.
    for pass in passes.iter().rev() {
        let again = Pass::new(&emitted, pass.clone()).again(&emitted);
        emitted.write(again, pass.end);
    }
    without_unread(emitted.nodes, emitted.outputs)
}

/// Forward pass, with its tensors that depend on the samples, by the tensor that owns the memory.
struct Pass {
    range: Range<usize>,
    /// Owner of the memory that a reshape shares.
    roots: HashMap<String, String>,
    tensors: HashMap<String, Activation>,
}

/// Tensor of the forward pass that depends on the samples.
struct Activation {
    made: usize,
    /// Last node of the pass that reads it.
    last_read: usize,
    is_read_later: bool,
    bytes: u64,
}

/// Segment to recompute.
struct Again {
    /// First node of the sweep that reads from it.
    before: usize,
    nodes: Vec<NodeProto>,
    /// New names of its tensors, by old names.
    names: HashMap<String, String>,
    /// New names of the tensors that the sweep reads, by old names.
    read: HashMap<String, String>,
}

impl Pass {
    fn new(emitted: &EmittedNodes<'_>, range: Range<usize>) -> Self {
        let EmittedNodes { nodes, known, outputs, .. } = emitted;
        let mut roots = HashMap::new();
        let mut tensors = HashMap::new();
        for (at, node) in nodes.iter().enumerate().take(range.end).skip(range.start) {
            for name in
                node.output.iter().filter(|name| known.get(name.as_str()).is_some_and(|var| var.batch.is_some()))
            {
                if shares_memory(&node.op_type) {
                    let root = roots.get(&node.input[0]).unwrap_or(&node.input[0]).clone();
                    roots.insert(name.clone(), root);
                } else {
                    let activation = Activation {
                        made: at,
                        last_read: at,
                        is_read_later: false,
                        bytes: bytes(&known[name.as_str()]),
                    };
                    tensors.insert(name.clone(), activation);
                }
            }
        }
        for output in outputs.iter() {
            tensors.remove(roots.get(*output).map_or(*output, String::as_str));
        }
        for (at, node) in nodes.iter().enumerate().skip(range.start) {
            for name in &node.input {
                let Some(tensor) = tensors.get_mut(roots.get(name).unwrap_or(name)) else { continue };
                if at < range.end {
                    tensor.last_read = at;
                } else {
                    tensor.is_read_later = true;
                }
            }
        }
        Self { range, roots, tensors }
    }

    /// Activation that owns the memory of `name`. `None` if it is always stored.
    fn activation(&self, name: &str) -> Option<&Activation> {
        self.tensors.get(self.roots.get(name).map_or(name, String::as_str))
    }

    /// Borders of the segments with the least memory for border tensors and the largest segment together. Empty if no
    /// division saves memory.
    fn borders(&self) -> Vec<usize> {
        let mut saved = vec![0u64; self.range.len() + 1];
        let mut crossing = vec![0u64; self.range.len() + 1];
        for tensor in self.tensors.values() {
            let [made, last] = [tensor.made, tensor.last_read].map(|at| at - self.range.start);
            crossing[made + 1..=last].iter_mut().for_each(|bytes| *bytes += tensor.bytes);
            if tensor.is_read_later {
                saved[made + 1] += tensor.bytes;
            }
        }
        for at in 1..saved.len() {
            saved[at] += saved[at - 1];
        }
        let all = saved[self.range.len()];
        let of = |segments: usize| -> Vec<usize> {
            let border = |index: usize| {
                let from = |half: usize| (all as u128 * (2 * index - 2 + half) as u128 / (2 * segments) as u128) as u64;
                let [first, ideal, last] = [1, 2, 3].map(from);
                let places = (1..self.range.len()).filter(|at| (first..=last).contains(&saved[*at]));
                places.min_by_key(|at| (crossing[*at], saved[*at].abs_diff(ideal)))
            };
            let mut borders: Vec<usize> = (1..segments).filter_map(border).map(|at| at + self.range.start).collect();
            borders.dedup();
            borders
        };
        let candidates = (1..=MOST_SEGMENTS).map(of);
        candidates.min_by_key(|borders| self.memory(borders)).unwrap_or_default()
    }

    /// Bytes per sample that are alive at once with these borders.
    fn memory(&self, borders: &[usize]) -> u64 {
        let mut segments = vec![0u64; borders.len() + 1];
        let mut kept = 0;
        for tensor in self.tensors.values() {
            if crosses(tensor, borders) {
                kept += tensor.bytes;
            } else if tensor.is_read_later {
                segments[borders.partition_point(|border| *border <= tensor.made)] += tensor.bytes;
            }
        }
        kept + segments.into_iter().max().unwrap_or(0)
    }

    /// Segments to recompute.
    fn again(&self, emitted: &EmittedNodes<'_>) -> Vec<Again> {
        let borders = self.borders();
        let starts = [self.range.start].into_iter().chain(borders.iter().copied());
        let segments = starts.zip(&borders).map(|(start, end)| start..*end);
        segments.filter_map(|segment| self.segment_again(emitted, segment, &borders)).collect()
    }

    fn segment_again(&self, emitted: &EmittedNodes<'_>, segment: Range<usize>, borders: &[usize]) -> Option<Again> {
        let EmittedNodes { nodes, known, .. } = emitted;
        let is_again =
            |name: &str| self.activation(name).is_some_and(|of| segment.contains(&of.made) && !crosses(of, borders));
        let later = || nodes.iter().enumerate().skip(self.range.end);
        let (before, reader) = later().find(|(_, node)| node.input.iter().any(|name| is_again(name)))?;
        let mut needed: HashSet<&str> = later().flat_map(|(_, node)| &node.input).map(String::as_str).collect();
        needed.retain(|name| is_again(name));
        let mut written = vec![];
        for node in nodes[segment.clone()].iter().rev() {
            if node.output.iter().any(|name| needed.contains(name.as_str())) {
                needed.extend(node.input.iter().map(String::as_str).filter(|name| is_again(name)));
                written.push(node.clone());
            }
        }
        written.reverse();

        let is_gradient = |name: &&String| {
            known
                .get(name.as_str())
                .is_some_and(|var| var.batch.is_some() && matches!(var.dtype, DType::F32 | DType::F64))
        };
        let swept: HashSet<&String> = nodes[self.range.end..before].iter().flat_map(|node| &node.output).collect();
        let gradient =
            reader.input.iter().filter(|name| swept.contains(name)).find(is_gradient).or_else(|| {
                nodes[self.range.end..before].iter().rev().flat_map(|node| &node.output).find(is_gradient)
            })?;
        let prefix = format!("{AGAIN}{}.", segment.start);
        let [flat, first, never] = ["flat", "first", "never"].map(|name| format!("{prefix}dp.{name}"));
        let mut in_front = vec![
            node("Reshape", &[gradient, FLAT], &flat),
            node("Slice", &[&flat, ZERO, ONE, ZERO], &first),
            node("Less", &[&first, &first], &never),
        ];
        let renamed = |name: &String| (name.clone(), format!("{prefix}{name}"));
        let inside = |node: &NodeProto| lowering(node).iter().flat_map(|node| node.output.clone()).collect::<Vec<_>>();
        let made = written.iter().flat_map(|node| inside(node).into_iter().chain(node.output.clone()));
        let mut names: HashMap<_, _> = made.filter(|name| !name.is_empty()).map(|name| renamed(&name)).collect();
        // If a node is recomputed for another output, the sweep may read a stored output of it.
        let read =
            names.iter().filter(|(name, _)| is_again(name)).map(|(from, to)| (from.clone(), to.clone())).collect();
        let mut kept: Vec<&String> = written.iter().flat_map(|node| &node.input).collect();
        kept.retain(|name| {
            !names.contains_key(*name) && known.get(name.as_str()).is_some_and(|var| var.batch.is_some())
        });
        kept.sort_unstable();
        kept.dedup();
        let after: Vec<_> = kept.into_iter().map(renamed).collect();
        let is_truth = |name: &str| known.get(name).is_some_and(|var| var.dtype == DType::Bool);
        // onnxruntime has no `Where` on Booleans.
        in_front.extend(after.iter().map(|(name, after)| match is_truth(name) {
            true => node("Or", &[&never, name], after),
            false => node("Where", &[&never, name, name], after),
        }));
        names.extend(after);
        for mut node in written {
            rename(&mut node, &names);
            let inside = node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut());
            let all = inside.flat_map(|graph| &mut graph.node).map(|node| &mut node.name).chain([&mut node.name]);
            all.for_each(|name| *name = format!("{prefix}{name}"));
            in_front.push(node);
        }
        Some(Again { before, nodes: in_front, names, read })
    }
}

impl EmittedNodes<'_> {
    /// Inserts recomputed nodes before the nodes that read them, all after node `end`.
    fn write(&mut self, mut again: Vec<Again>, end: usize) {
        if again.is_empty() {
            return;
        }
        for (name, values) in [(FLAT, -1), (ZERO, 0), (ONE, 1)] {
            if self.initializers.iter().all(|known| known.name != name) {
                let tensor = Tensor { shape: vec![1], data: TensorData::I64(vec![values]) };
                self.initializers.push(make_tensor(name, &tensor));
            }
        }
        again.sort_by_key(|again| again.before);
        let mut read = HashMap::new();
        for again in &mut again {
            for (from, to) in &again.names {
                if let Some(var) = self.known.get(from.as_str()).cloned() {
                    let name: Rc<str> = to.as_str().into();
                    self.known.insert(name.clone(), Var { name, ..var });
                }
            }
            read.extend(std::mem::take(&mut again.read));
        }
        let mut again = again.into_iter().peekable();
        for (at, mut node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            while let Some(again) = again.next_if(|again| again.before == at) {
                self.nodes.extend(again.nodes);
            }
            if at >= end {
                rename(&mut node, &read);
            }
            self.nodes.push(node);
        }
    }
}

/// Names of constants: int64 vectors of one element.
const FLAT: &str = "dp.again.c.flat";
const ZERO: &str = "dp.again.c.zero";
const ONE: &str = "dp.again.c.one";

fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    make_node(op, output, inputs, &[output], vec![])
}

/// Renames the tensors of `node` and of its lowering.
fn rename(node: &mut NodeProto, names: &HashMap<String, String>) {
    let inside = lowering(node).iter().flat_map(|node| node.input.iter().chain(&node.output));
    let all: HashSet<String> = node.input.iter().chain(&node.output).chain(inside).cloned().collect();
    for (from, to) in all.iter().filter_map(|name| names.get_key_value(name)) {
        rename_tensor(node, from, to);
    }
}

/// Nodes that an output needs.
fn without_unread(nodes: Vec<NodeProto>, outputs: &HashSet<&str>) -> Vec<NodeProto> {
    let mut needed: HashSet<String> = outputs.iter().map(|name| (*name).to_owned()).collect();
    let mut kept = vec![];
    for node in nodes.into_iter().rev() {
        if node.output.iter().any(|name| needed.contains(name)) {
            needed.extend(node.input.iter().chain(lowering(&node).iter().flat_map(|node| &node.input)).cloned());
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}

/// Returns true if a border is between the node that writes the tensor and the last node of the pass that reads it.
fn crosses(tensor: &Activation, borders: &[usize]) -> bool {
    borders.iter().any(|border| tensor.made < *border && *border <= tensor.last_read)
}
