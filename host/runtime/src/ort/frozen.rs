//! Large matrices of frozen weights as inputs of a session. All sessions read the same memory.
//!
//! onnxruntime copies initializers for each session, and copies them twice if a `Transpose` reads them. Convolution
//! kernels stay initializers because onnxruntime chooses their layout.

use super::super::bind::value_info;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use damper_onnx::{DType, Dim, Floats, TensorData, TensorSpec, attr_ints, data_type, decode_tensor, lowering};
use std::collections::HashSet;

/// Minimum number of entries of such a matrix.
const FEWEST: usize = 1 << 14;

/// Turns the large matrices of `model` into inputs, after its own inputs. Returns them with their entries.
pub(super) fn take(model: &mut ModelProto) -> Vec<(TensorSpec, Floats)> {
    let Some(graph) = &mut model.graph else { return vec![] };
    let kept = read_otherwise(graph);
    let (mut taken, mut left) = (vec![], vec![]);
    for tensor in std::mem::take(&mut graph.initializer) {
        match matrix(&tensor).filter(|_| !kept.contains(&tensor.name)) {
            Some(found) => taken.push(found),
            None => left.push(tensor),
        }
    }
    graph.initializer = left;
    graph.input.extend(taken.iter().map(|(spec, _)| value_info(spec, 1)));
    taken
}

/// The tensor as an input, if it is a large float32 matrix.
fn matrix(tensor: &TensorProto) -> Option<(TensorSpec, Floats)> {
    let is_large = matches!(tensor.dims[..], [rows, columns] if rows.saturating_mul(columns) >= FEWEST as i64);
    if !is_large || tensor.data_type != data_type(DType::F32) as i32 {
        return None;
    }
    let read = decode_tensor(tensor).ok()?;
    let TensorData::F32(entries) = read.data else { return None };
    let shape = read.shape.into_iter().map(Dim::Fixed).collect();
    Some((TensorSpec { name: tensor.name.clone(), dtype: DType::F32, shape }, entries))
}

/// Tensors with a reader other than a product or a lookup.
fn read_otherwise(graph: &GraphProto) -> HashSet<String> {
    let multiplied = |name: &str| {
        let mut readers = graph.node.iter().filter(|node| node.input.iter().any(|input| input == name));
        readers.all(|node| node.op_type == "MatMul" && node.domain.is_empty())
    };
    let is_fit = |node: &NodeProto, slot: usize| match (&*node.op_type, slot) {
        ("MatMul" | "Gemm", 0 | 1) | ("Gather", 0) => true,
        ("Transpose", 0) => {
            attr_ints(&node.attribute, "perm").is_none_or(|axes| *axes == [1, 0]) && multiplied(&node.output[0])
        }
        _ => false,
    };
    let mut found: HashSet<String> = graph.output.iter().map(|output| output.name.clone()).collect();
    for node in &graph.node {
        found.extend(lowering(node).iter().flat_map(|inner| inner.input.iter().cloned()));
        let others = node.input.iter().enumerate().filter(|(slot, _)| !node.domain.is_empty() || !is_fit(node, *slot));
        found.extend(others.map(|(_, name)| name.clone()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::super::Backend as _;
    use super::super::Ort;
    use super::super::testing::{BATCH, batched, model, node};
    use super::*;
    use damper_onnx::{TensorRef, make_tensor_f32};

    const WIDTH: usize = 128;

    fn network() -> (ModelProto, crate::SessionSpec) {
        let lines = ["t = Transpose(turned)", "h = MatMul(x, plain)", "y = MatMul(h, t)", "z = Mul(h, scale)"];
        let outputs = ["y", "z"].map(|name| batched(name, &[WIDTH])).to_vec();
        let (mut model, plan) = model(lines.map(node).to_vec(), &[], vec![batched("x", &[WIDTH])], outputs);
        let number = |seed: usize| move |at: usize| ((at * 31 + seed * 17 + at / WIDTH) % 23) as f32 / 64.0 - 0.17;
        let tensor = |name: &str, seed: usize, rows: usize| {
            let entries: Vec<f32> = (0..rows * WIDTH).map(number(seed)).collect();
            make_tensor_f32(name, &[rows, WIDTH], &entries)
        };
        let graph = model.graph.as_mut().unwrap();
        graph.initializer = vec![tensor("plain", 1, WIDTH), tensor("turned", 2, WIDTH), tensor("scale", 3, 1)];
        (model, plan)
    }

    // Takes matrices that products read. They share their memory with the model. Tensors with other readers stay.
    #[test]
    fn matrices_of_products_are_taken() {
        let (mut model, _) = network();
        let whole = model.graph.as_ref().unwrap().initializer[0].clone();
        let taken = take(&mut model);
        assert_eq!(taken.iter().map(|(spec, _)| &*spec.name).collect::<Vec<_>>(), ["plain", "turned"]);
        assert_eq!(taken[0].1.as_ptr().cast(), whole.raw_data.as_ptr());
        let graph = model.graph.unwrap();
        assert_eq!(graph.initializer.len(), 1);
        assert_eq!(graph.input.last().unwrap().name, "turned");
    }

    // Keeps a matrix of equal size that is added, scaled or returned.
    #[test]
    fn other_readers_keep_it() {
        for line in ["z = Mul(h, plain)", "z = Add(h, plain)", "z = Gather(x, plain)", "z = MatMul(h, u)"] {
            let (mut model, _) = network();
            let graph = model.graph.as_mut().unwrap();
            graph.node[3] = node(line);
            if line.contains('u') && line.ends_with("u)") {
                let mut turn = node("u = Transpose(plain)");
                turn.attribute = vec![damper_onnx::make_attr_ints("perm", &[0, 1])];
                graph.node.insert(3, turn);
            }
            assert_eq!(take(&mut model).len(), 1, "{line}");
        }
    }

    // Sessions compute products with the matrices. Another session of the same model has the same bits.
    #[test]
    fn sessions_share_matrices() {
        let Ok(backend) = Ort::open() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        let (model, plan) = network();
        let of = |at: usize| {
            let tensor = decode_tensor(&model.graph.as_ref().unwrap().initializer[at]).unwrap();
            tensor.as_f32().unwrap().to_vec()
        };
        let (plain, turned) = (of(0), of(1));
        let x: Vec<f32> = (0..BATCH * WIDTH).map(|at| (at % 13) as f32 / 8.0 - 0.7).collect();
        let mut want = vec![];
        for row in x.chunks(WIDTH) {
            let inner: Vec<f64> = (0..WIDTH)
                .map(|j| (0..WIDTH).map(|i| f64::from(row[i]) * f64::from(plain[i * WIDTH + j])).sum())
                .collect();
            want.extend(
                (0..WIDTH).map(|k| (0..WIDTH).map(|j| inner[j] * f64::from(turned[k * WIDTH + j])).sum::<f64>()),
            );
        }
        let mut found = vec![];
        for _ in 0..2 {
            let mut session = backend.load(&model, &plan).unwrap();
            session.run(&[TensorRef::F32(&x)], &mut |outputs| found.push(outputs[0].to_vec())).unwrap();
        }
        assert_eq!(found[0], found[1]);
        assert!(
            found[0]
                .iter()
                .zip(&want)
                .all(|(found, want)| (f64::from(*found) - want).abs() < 1e-3 * want.abs().max(1.0))
        );
    }
}
