//! Restores source names of folded tensors: `val_0` is `fc.weight`, transposed.

use std::collections::BTreeMap;

use super::names_in_file::{is_taken, rename};
use super::record::ExportRecord;
use crate::decode_tensor;
use crate::pb::{GraphProto, tensor_proto::DataType};

/// Names each float initializer after the single parameter from which it was folded. Of copies, the first gets exactly
/// this name. For parts, computed values, and names that are taken, the name is followed by a slash and the name in the
/// file.
pub fn give(graph: &mut GraphProto, record: &ExportRecord) {
    let mut folded: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for tensor in graph.initializer.iter().filter(|tensor| tensor.data_type == DataType::Float as i32) {
        if let Some(source) = record.folded_from(&tensor.name) {
            folded.entry(source).or_default().push(tensor.name.clone());
        }
    }
    for (source, stored) in folded {
        let is_source = are_copies(graph, &stored) && stored.iter().all(|name| !record.is_computed(graph, name));
        // A file that was read and written before already has the names.
        for name in stored.iter().filter(|name| *name != source) {
            let own = match is_source && !is_taken(graph, source) {
                true => source.to_string(),
                false => format!("{source}/{name}"),
            };
            if !name.starts_with(&format!("{source}/")) && !is_taken(graph, &own) {
                rename(graph, name, &own);
            }
        }
    }
}

/// Returns true if all of `names` have the same number of values and the same checksum, which ignores their order.
fn are_copies(graph: &GraphProto, names: &[String]) -> bool {
    let sum = |name: &String| {
        let tensor = graph.initializer.iter().find(|tensor| tensor.name == *name)?;
        let tensor = decode_tensor(tensor).ok()?;
        Some(
            tensor
                .as_f32()?
                .iter()
                .fold((0, 0u64), |(count, sum), x| (count + 1, sum.wrapping_add(u64::from(x.to_bits()).pow(2)))),
        )
    };
    names.len() == 1 || names.windows(2).all(|pair| sum(&pair[0]) == sum(&pair[1]))
}
