//! Biases of query, key and value that the exporter folded into one: `cat(q_bias, zeros, v_bias)` became `[3 W]`.
//!
//! The zeros are a buffer of the source because a key bias does not change attention. If trained, only noise would
//! change them. So such a bias becomes a `Concat` of its parts again, with the zero part as a constant.

use super::invented::is_exporters_name;
use super::names_in_file::{is_taken, note};
use super::record::{ExportRecord, KIND, SourceKind};
use super::scopes::reader;
use crate::pb::{GraphProto, tensor_proto::DataType};
use crate::{decode_tensor, make_attr_int, make_node, make_tensor_f32};

/// Number of parts: query, key and value.
const PARTS: usize = 3;

/// Splits the folded biases in `graph` if a third of them is a constant.
pub fn take_apart(graph: &mut GraphProto, record: &ExportRecord) {
    let float = |kind: i32| kind == DataType::Float as i32;
    let vectors = graph.initializer.iter().filter(|tensor| float(tensor.data_type) && tensor.dims.len() == 1);
    let names: Vec<String> = vectors.map(|tensor| tensor.name.clone()).collect();
    for name in names {
        let Some(at) = graph.initializer.iter().position(|tensor| tensor.name == name) else { continue };
        let Some(values) =
            decode_tensor(&graph.initializer[at]).ok().and_then(|tensor| Some(tensor.as_f32()?.to_vec()))
        else {
            continue;
        };
        let module = reader(graph, &name);
        let called = module.map(|module| format!("{module}.bias")).filter(|own| !is_taken(graph, own));
        let called = called.unwrap_or_else(|| name.clone());
        let Some(parts) = parts(record, &name, &called, &values) else { continue };
        if parts.iter().any(|(part, _)| is_taken(graph, part)) {
            continue;
        }
        graph.initializer.remove(at);
        graph.input.retain(|input| input.name != name);
        let width = values.len() / PARTS;
        for ((part, kind), values) in parts.iter().zip(values.chunks(width)) {
            graph.initializer.push(make_tensor_f32(part, &[width], values));
            match kind {
                SourceKind::Constant => note(graph, part, KIND, "BUFFER"),
                // Without a record it is an ordinary bias.
                SourceKind::Parameter if !record.is_empty() => note(graph, part, KIND, "PARAMETER"),
                SourceKind::Parameter => {}
            }
        }
        let inputs: Vec<&str> = parts.iter().map(|(part, _)| part.as_str()).collect();
        let axis = vec![make_attr_int("axis", 0)];
        graph.node.insert(0, make_node("Concat", &format!("{name}/parts"), &inputs, &[&name], axis));
    }
}

/// Names and kinds of the parts of initializer `name`, if one of them is a constant. Without a record, `called` is the
/// name of their bias.
fn parts(record: &ExportRecord, name: &str, called: &str, values: &[f32]) -> Option<[(String, SourceKind); PARTS]> {
    if values.is_empty() || !values.len().is_multiple_of(PARTS) {
        return None;
    }
    let zero: Vec<bool> = values.chunks(values.len() / PARTS).map(|part| part.iter().all(|x| *x == 0.0)).collect();
    if record.is_empty() {
        let is_folded = is_exporters_name(name) && zero == [false, true, false];
        let part = |at: &str, kind| (format!("{called}.{at}"), kind);
        return is_folded.then(|| {
            [
                part("query", SourceKind::Parameter),
                part("key", SourceKind::Constant),
                part("value", SourceKind::Parameter),
            ]
        });
    }
    let sources = record.sources(name);
    let [_, _, _] = sources.as_slice() else { return None };
    let letter = |source: &str| source.rsplit('.').next().and_then(|last| "qkv".find(last.get(..1)?));
    let mut placed: Vec<(usize, &str, SourceKind)> =
        sources.iter().map(|&(source, kind)| Some((letter(source)?, source, kind))).collect::<Option<_>>()?;
    placed.sort_unstable_by_key(|(at, ..)| *at);
    let in_order = placed.iter().enumerate().all(|(at, (letter, ..))| at == *letter);
    let fits = placed.iter().zip(&zero).all(|((.., kind), zero)| *kind == SourceKind::Parameter || *zero);
    let has_constant = placed.iter().any(|(.., kind)| *kind == SourceKind::Constant);
    let named: Vec<(String, SourceKind)> =
        placed.into_iter().map(|(_, source, kind)| (source.to_string(), kind)).collect();
    named.try_into().ok().filter(|_| in_order && fits && has_constant)
}
