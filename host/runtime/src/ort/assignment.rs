//! The nodes of a session that another provider runs than its device's.
//!
//! onnxruntime assigns each node to a provider when it loads a model, after it has folded constants. If a session records that, its C interface
//! lists it.

use super::super::backend::HostNode;
use ort::session::Session;
use ort::{AsPointer as _, Error, sys};
use std::ffi::{CStr, c_char};
use std::ptr;

/// The configuration entry that has a session record it.
pub(super) const RECORD: &str = "session.record_ep_graph_assignment_info";

/// The nodes of `session` that are not assigned to `provider`, in the order in which it lists them. The session has [`RECORD`] set to 1.
pub(super) fn assigned_elsewhere(session: &Session, provider: &str) -> ort::Result<Vec<HostNode>> {
    let api = ort::api();
    let mut nodes = vec![];
    // SAFETY: the session is alive, so the list is. It is read and not kept.
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

/// The list that `get` gives.
///
/// # Safety
///
/// On success `get` writes an array and its length. The array lives as long as the caller reads it.
unsafe fn list<'a, T>(
    get: impl FnOnce(*mut *const *const T, *mut usize) -> sys::OrtStatusPtr,
) -> ort::Result<&'a [*const T]> {
    let (mut entries, mut len) = (ptr::null(), 0);
    // SAFETY: a status of onnxruntime.
    unsafe { Error::result_from_status(get(&mut entries, &mut len))? };
    // SAFETY: as promised. An empty list may have no array.
    Ok(if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(entries, len) } })
}

/// The text that `get` gives.
///
/// # Safety
///
/// On success `get` writes a zero-terminated text.
unsafe fn text(get: impl FnOnce(*mut *const c_char) -> sys::OrtStatusPtr) -> ort::Result<String> {
    let mut text = ptr::null();
    // SAFETY: a status of onnxruntime, and as promised.
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

    // A session on the processor has all nodes there. It folds one.
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
