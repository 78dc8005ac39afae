//! Warnings about the nodes of a device's graphs that run on the processor.

use crate::{Progress, RunEvent};
use damper_runtime::{Backend, HostNode};
use std::collections::BTreeMap;

/// Warns of the nodes that `backend` left to the processor, if any.
pub(crate) fn warn(backend: &dyn Backend, progress: &mut dyn Progress) {
    if let Some(text) = warning_of(&backend.host_nodes().unwrap_or_default()) {
        progress.on_event(RunEvent::Warned(&text));
    }
}

fn warning_of(nodes: &[HostNode]) -> Option<String> {
    let mut operators: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        operators.entry(&node.op).or_default().push(&node.name);
    }
    let listed: Vec<String> =
        operators.iter().map(|(op, names)| format!("{} {op} ({})", names.len(), names.join(", "))).collect();
    let listed = listed.join(", ");
    (!nodes.is_empty()).then(|| {
        format!("the device has no kernel for {listed}: they run on the processor, and their tensors cross the bus in each run")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_lists_operators_and_names() {
        assert_eq!(warning_of(&[]), None);
        let node = |op: &str, name: &str| HostNode { op: op.into(), name: name.into() };
        let text =
            warning_of(&[node("ConvTranspose", "dp.v7"), node("Where", "b"), node("ConvTranspose", "dp.v9")]).unwrap();
        assert!(text.contains("2 ConvTranspose (dp.v7, dp.v9), 1 Where (b)"), "{text}");
    }
}
