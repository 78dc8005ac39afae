//! Lookups that the exporter folded. `table[index]` with constant indices became one tensor, which repeats each row of
//! the table at every position that looks it up. Trained in this form, equal rows would diverge.
//!
//! A table of relative positions `[P, H]` becomes attention biases `[1, H, L, L]`. A token type, the same row for each
//! position, becomes `[1, L, D]`. A tensor with exactly repeated rows becomes a table and a `Gather` of constant
//! indices again. A tensor with equal entries along axis 0, such as a class token expanded to the batch, becomes one
//! entry and an `Expand`. A tensor with a name of the source was not folded. If all values are equal, this proves
//! nothing. Masks, and slopes times distances (ALiBi), are constants of the source with repeated rows. They stay
//! unchanged, as do the tables of rotary positions.

use std::collections::HashMap;

use super::invented::is_exporters_name;
use super::names_in_file::{is_taken, note};
use super::record::{ExportRecord, KIND};
use super::scopes::reader;
use crate::pb::{GraphProto, tensor_proto::DataType};
use crate::{Tensor, TensorData, decode_tensor, make_attr_int, make_node, make_tensor_f32, make_tensor_i64};

/// Tensor as rows of a table. Entry `[outer, place]` is `table[outer, index[place]]`, a block of `inner` values.
struct Rows {
    axis: usize,
    table: Tensor,
    index: Tensor,
}

/// Converts folded initializers in `graph` with repeated rows to tables and lookups.
pub fn unfold(graph: &mut GraphProto, record: &ExportRecord) {
    let is_float = |kind: i32| kind == DataType::Float as i32;
    let folded = |name: &str| match record.is_empty() {
        true => is_exporters_name(name),
        false => record.folded_from(name).is_some_and(|source| source != name) && !record.is_computed(graph, name),
    };
    let tensors = graph.initializer.iter().filter(|tensor| is_float(tensor.data_type) && tensor.dims.len() > 1);
    let names: Vec<String> = tensors.map(|tensor| tensor.name.clone()).filter(|name| folded(name)).collect();
    for name in names {
        let added = graph.node.iter().filter(|node| node.input.contains(&name));
        // Weights of layers have repeated rows only by chance.
        let is_operand = |op: &str| match record.is_empty() {
            true => matches!(op, "Add" | "Sub" | "Mul"),
            false => !matches!(op, "MatMul" | "Gemm" | "Conv" | "ConvTranspose"),
        };
        let is_operand = added.clone().all(|node| is_operand(&node.op_type)) && added.count() > 0;
        let Some(at) = graph.initializer.iter().position(|tensor| tensor.name == name).filter(|_| is_operand) else {
            continue;
        };
        let tensor = decode_tensor(&graph.initializer[at]).ok();
        let Some(tensor) = tensor else { continue };
        if !record.is_empty() && expand(graph, at, &tensor) {
            continue;
        }
        let Some(rows) = rows(&tensor, !record.is_empty()) else { continue };
        let module = reader(graph, &name);
        let own =
            module.map(|module| format!("{module}.table")).filter(|own| record.is_empty() && !is_taken(graph, own));
        let table = own.unwrap_or_else(|| format!("{name}/table"));
        let index = format!("{name}/index");
        if is_taken(graph, &table) || is_taken(graph, &index) {
            continue;
        }
        let (TensorData::F32(values), TensorData::I64(places)) = (&rows.table.data, &rows.index.data) else { continue };
        graph.initializer[at] = make_tensor_f32(&table, &rows.table.shape, values);
        graph.initializer.push(make_tensor_i64(&index, &rows.index.shape, places));
        let axis = vec![make_attr_int("axis", rows.axis as i64)];
        graph.node.insert(0, make_node("Gather", &format!("{name}/look-up"), &[&table, &index], &[&name], axis));
        hand_over(graph, &name, &table);
    }
}

/// Converts the initializer at `at` to one entry and an `Expand`, if all entries along axis 0 are equal. A tensor of
/// equal values counts only if the exporter named it an expansion and it is concatenated with others.
fn expand(graph: &mut GraphProto, at: usize, tensor: &Tensor) -> bool {
    let name = graph.initializer[at].name.clone();
    let (Some(data), Some(&entries)) = (tensor.as_f32(), tensor.shape.first()) else { return false };
    let (entry, target) = (format!("{name}/entry"), format!("{name}/shape"));
    let size = data.len() / entries.max(1);
    let is_same = || data.chunks(size).skip(1).all(|other| bits(other) == bits(&data[..size]));
    let is_joined = || {
        let mut readers = graph.node.iter().filter(|node| node.input.contains(&name));
        name.starts_with("expand") && readers.all(|node| node.op_type == "Concat")
    };
    if entries < 2
        || size < 2
        || !is_same()
        || is_mask(data) && !is_joined()
        || is_taken(graph, &entry)
        || is_taken(graph, &target)
    {
        return false;
    }
    let mut shape = tensor.shape.clone();
    shape[0] = 1;
    let extents: Vec<i64> = tensor.shape.iter().map(|&extent| extent as i64).collect();
    graph.initializer[at] = make_tensor_f32(&entry, &shape, &data[..size]);
    graph.initializer.push(make_tensor_i64(&target, &[extents.len()], &extents));
    graph.node.insert(0, make_node("Expand", &format!("{name}/expand"), &[&entry, &target], &[&name], vec![]));
    hand_over(graph, &name, &entry);
    true
}

/// Moves the metadata of the initializer `name` to `source` because `name` becomes the output of a node.
fn hand_over(graph: &mut GraphProto, name: &str, source: &str) {
    graph.input.retain(|input| input.name != name);
    let entries = graph.value_info.iter().find(|info| info.name == name).map(|info| info.metadata_props.clone());
    for entry in entries.unwrap_or_default().iter().filter(|entry| entry.key != KIND) {
        note(graph, source, &entry.key, &entry.value);
    }
}

/// Table and indices of the tensor, if its rows repeat. Rows are vectors along the last axis, columns along the first
/// axis after axes of extent 1, or single values. A tensor `known` to come from a parameter may have any positions.
/// Others must have square positions.
fn rows(tensor: &Tensor, known: bool) -> Option<Rows> {
    let data = tensor.as_f32()?;
    let shape = &tensor.shape;
    let ones = shape.iter().take_while(|extent| **extent == 1).count();
    let &[.., last] = shape.as_slice() else { return None };
    if is_mask(data) || is_rotary(data, last) {
        return None;
    }
    let along_last = || {
        let vectors: Vec<Vec<u32>> = data.chunks(last).map(bits).collect();
        let (index, firsts) = group(&vectors);
        let table = firsts.iter().flat_map(|&at| &data[at * last..(at + 1) * last]).copied().collect();
        let repeated = last > 1 && shape.len() > 1 && firsts.len() < vectors.len();
        let table = Tensor { shape: vec![firsts.len(), last], data: TensorData::F32(table) };
        let index = Tensor { shape: shape[..shape.len() - 1].to_vec(), data: TensorData::I64(index) };
        repeated.then_some(Rows { axis: 0, table, index })
    };
    let down = |axis: usize| {
        let heads: usize = shape.get(..axis)?.iter().product();
        let places = data.len() / heads;
        let column = |place: usize| (0..heads).map(|head| data[head * places + place].to_bits()).collect();
        let columns: Vec<Vec<u32>> = (0..places).map(column).collect();
        let (index, firsts) = group(&columns);
        // Single values may be equal by chance.
        let few = if heads == 1 { firsts.len() * 3 < places * 2 } else { firsts.len() < places };
        let is_square = matches!(shape[axis..], [rows, columns] if rows == columns);
        let table: Vec<f32> =
            (0..heads).flat_map(|head| firsts.iter().map(move |&place| data[head * places + place])).collect();
        let is_table = firsts.len() > 2 && !is_slopes(&table, firsts.len());
        let table = Tensor {
            shape: shape[..axis].iter().copied().chain([firsts.len()]).collect(),
            data: TensorData::F32(table.into()),
        };
        let index = Tensor { shape: shape[axis..].to_vec(), data: TensorData::I64(index) };
        (few && (known && heads > 1 || is_square) && is_table).then_some(Rows { axis, table, index })
    };
    along_last().or_else(|| down(ones + 1)).or_else(|| down(ones))
}

/// Returns true for at most two distinct values, or for values far below every weight.
fn is_mask(data: &[f32]) -> bool {
    let mut others = data.iter().filter(|x| x.to_bits() != data[0].to_bits());
    let second = others.next();
    others.all(|x| Some(x.to_bits()) == second.map(|x| x.to_bits()))
        || data.iter().any(|x| !x.is_finite() || *x <= -1e4)
}

/// Returns true if the second half of each row equals the first half: the sines or cosines of rotary positions.
fn is_rotary(data: &[f32], width: usize) -> bool {
    let halves = |row: &[f32]| row[..width / 2] == row[width / 2..];
    width >= 2 && width.is_multiple_of(2) && data.chunks(width).all(halves)
}

/// Returns true if rows are multiples of the first row, or if a single row has equal steps.
fn is_slopes(table: &[f32], places: usize) -> bool {
    let rows: Vec<&[f32]> = table.chunks(places).collect();
    let most = |row: &[f32]| row.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let is_multiple = |row: &&[f32]| {
        let (of, to) = (most(rows[0]), most(row));
        let same = |sign: f32| rows[0].iter().zip(*row).all(|(a, b)| (a * to - sign * b * of).abs() <= 1e-4 * of * to);
        same(1.0) || same(-1.0)
    };
    if rows.len() > 1 {
        return rows[1..].iter().all(is_multiple);
    }
    let mut sorted = table.to_vec();
    sorted.sort_by(f32::total_cmp);
    let step = (sorted[sorted.len() - 1] - sorted[0]) / (sorted.len() - 1).max(1) as f32;
    sorted.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() <= 1e-4 * step)
}

fn bits(vector: &[f32]) -> Vec<u32> {
    vector.iter().map(|x| x.to_bits()).collect()
}

/// Group of each vector, and the first vector of each group.
fn group(vectors: &[Vec<u32>]) -> (Vec<i64>, Vec<usize>) {
    let mut known: HashMap<&[u32], i64> = HashMap::new();
    let mut firsts = Vec::new();
    let mut index = Vec::with_capacity(vectors.len());
    for (at, vector) in vectors.iter().enumerate() {
        let group = *known.entry(vector).or_insert_with(|| {
            firsts.push(at);
            firsts.len() as i64 - 1
        });
        index.push(group);
    }
    (index, firsts)
}
