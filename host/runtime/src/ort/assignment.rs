//! Nodes of a session that run on another provider than the session's device.
//!
//! onnxruntime assigns each node to a provider when it loads a model, after constant folding. If a session records the
//! assignment, the C interface lists it.

use super::super::backend::HostNode;
use ort::session::Session;
use ort::{AsPointer as _, Error, sys};
use std::ffi::{CStr, c_char};
use std::ptr;

/// Configuration entry that makes a session record the assignment.
pub(super) const RECORD: &str = "session.record_ep_graph_assignment_info";

/// Nodes of `session` that are not assigned to `provider`, in the session's order. The session must have [`RECORD`] set
/// to 1.
pub(super) fn assigned_elsewhere(session: &Session, provider: &str) -> ort::Result<Vec<HostNode>> {
    let api = ort::api();
    let mut nodes = vec![];
    // SAFETY: the session is alive, so its list is, too. The list is read and not stored.
    let subgraphs = unsafe { list(|to, len| (api.Session_GetEpGraphAssignmentInfo)(session.ptr(), to, len))? };
    for &subgraph in subgraphs {
        // SAFETY: an entry of the session's list ...
        let by = unsafe { text(|to| (api.EpAssignedSubgraph_GetEpName)(subgraph, to))? };
        if by == provider {
            continue;
        }
        // SAFETY: ... and so is this list, whose entries ...
        for &node in unsafe { list(|to, len| (api.EpAssignedSubgraph_GetNodes)(subgraph, to, len))? } {
            // SAFETY: ... have texts that live as long.
            let (op, name) = unsafe {
                (
                    text(|to| (api.EpAssignedNode_GetOperatorType)(node, to))?,
                    text(|to| (api.EpAssignedNode_GetName)(node, to))?,
                )
            };
            nodes.push(HostNode { op, name });
        }
    }
    Ok(nodes)
}

/// Reads a list through `get`.
///
/// # Safety
///
/// On success, `get` must write an array and its length. The array must live as long as the caller reads it.
unsafe fn list<'a, T>(
    get: impl FnOnce(*mut *const *const T, *mut usize) -> sys::OrtStatusPtr,
) -> ort::Result<&'a [*const T]> {
    let (mut entries, mut len) = (ptr::null(), 0);
    // SAFETY: `get` returns a status of onnxruntime.
    unsafe { Error::result_from_status(get(&mut entries, &mut len))? };
    // SAFETY: as the caller guarantees. An empty list may have no array.
    Ok(if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(entries, len) } })
}

/// Reads a string through `get`.
///
/// # Safety
///
/// On success, `get` must write a zero-terminated string.
unsafe fn text(get: impl FnOnce(*mut *const c_char) -> sys::OrtStatusPtr) -> ort::Result<String> {
    let mut text = ptr::null();
    // SAFETY: `get` returns a status of onnxruntime, and the rest is as the caller guarantees.
    unsafe {
        Error::result_from_status(get(&mut text))?;
        Ok(CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ort;
    use super::super::testing::{batched, model, node};
    use super::*;

    // A session on the processor has all nodes there. onnxruntime folds one of them.
    #[test]
    fn every_node_is_listed_but_constants() {
        let Ok(backend) = Ort::open_standard() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        let nodes = ["a = Tanh(x)", "two = Neg(one)", "b = Add(a, two)", "y = Erf(b)"].map(node).to_vec();
        let (model, _) =
            model(nodes, &[("one", &[2], &[1.0, 1.0])], vec![batched("x", &[2])], vec![batched("y", &[2])]);
        let session = backend.standard(model, 1).unwrap();
        let found = assigned_elsewhere(&session, "CUDAExecutionProvider").unwrap();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["Tanh a", "Add b", "Erf y"]);
        assert_eq!(assigned_elsewhere(&session, "CPUExecutionProvider").unwrap(), []);
    }
}
