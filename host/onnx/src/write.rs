//! Writes a model in parts, without a second copy of its weights. Weights that exceed the limit of a protobuf message
//! go to a second file.

use std::io::{self, Write};
use std::mem::take;

use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::load::MAX_MODEL_BYTES;
use super::pb::tensor_proto::DataLocation;
use super::pb::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};

/// Encodes a model.
pub fn encode(model: &ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}

/// Writes the same bytes as [`encode`].
///
/// # Errors
/// Fails if `out` fails, or if the model is too large for a file (see [`split_weights`]).
pub fn write(model: &ModelProto, out: &mut dyn Write) -> io::Result<()> {
    if model.encoded_len() as u64 > MAX_MODEL_BYTES {
        return Err(io::Error::other("the model is larger than 2 GiB: its weights have to be in another file"));
    }
    // Fields are in the order of their numbers, and the graph is 7. Copies of the model share its weights.
    let mut last = model.clone();
    let Some(graph) = last.graph.take() else { return out.write_all(&model.encode_to_vec()) };
    let first = ModelProto {
        ir_version: take(&mut last.ir_version),
        producer_name: take(&mut last.producer_name),
        producer_version: take(&mut last.producer_version),
        domain: take(&mut last.domain),
        model_version: take(&mut last.model_version),
        doc_string: take(&mut last.doc_string),
        ..ModelProto::default()
    };
    out.write_all(&first.encode_to_vec())?;
    key(7, graph.encoded_len(), out)?;
    write_graph(graph, out)?;
    out.write_all(&last.encode_to_vec())
}

/// The initializers are field 5.
fn write_graph(mut last: GraphProto, out: &mut dyn Write) -> io::Result<()> {
    let initializers = take(&mut last.initializer);
    let first = GraphProto { node: take(&mut last.node), name: take(&mut last.name), ..GraphProto::default() };
    out.write_all(&first.encode_to_vec())?;
    for tensor in initializers {
        key(5, tensor.encoded_len(), out)?;
        write_tensor(tensor, out)?;
    }
    out.write_all(&last.encode_to_vec())
}

/// The raw data are field 9.
fn write_tensor(mut first: TensorProto, out: &mut dyn Write) -> io::Result<()> {
    let raw = take(&mut first.raw_data);
    let last = TensorProto {
        double_data: take(&mut first.double_data),
        uint64_data: take(&mut first.uint64_data),
        doc_string: take(&mut first.doc_string),
        external_data: take(&mut first.external_data),
        data_location: take(&mut first.data_location),
        metadata_props: take(&mut first.metadata_props),
        ..TensorProto::default()
    };
    out.write_all(&first.encode_to_vec())?;
    if !raw.is_empty() {
        key(9, raw.len(), out)?;
        out.write_all(&raw)?;
    }
    out.write_all(&last.encode_to_vec())
}

/// Writes the header of field `number` with the length `len`.
fn key(number: u32, len: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut head = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut head);
    encode_varint(len as u64, &mut head);
    out.write_all(&head)
}

/// Alignment of weights in bytes, so that they can be memory-mapped.
const PAGE: usize = 4096;

/// Minimum size of a tensor that moves to the file of weights.
const FEWEST: usize = 1024;

/// Content of a file of weights, to which a model's file refers.
#[derive(Clone, Default, Debug)]
pub struct WeightFile(Vec<Bytes>);

impl WeightFile {
    /// Writes the content.
    ///
    /// # Errors
    /// Fails if `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for bytes in &self.0 {
            out.write_all(bytes)?;
            out.write_all(&[0; PAGE][..padding(bytes.len())])?;
        }
        Ok(())
    }
}

fn padding(len: usize) -> usize {
    len.next_multiple_of(PAGE) - len
}

/// Returns a model that fits in one file unchanged. From a larger model it moves the weights to the file `name` in the
/// same folder.
pub fn split_weights(model: &ModelProto, name: &str) -> (ModelProto, Option<WeightFile>) {
    if model.encoded_len() as u64 <= MAX_MODEL_BYTES {
        return (model.clone(), None);
    }
    let (model, weights) = move_weights(model, name);
    (model, Some(weights))
}

fn move_weights(model: &ModelProto, name: &str) -> (ModelProto, WeightFile) {
    let (mut model, mut weights, mut at) = (model.clone(), WeightFile::default(), 0);
    let initializers = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
    for tensor in initializers.filter(|tensor| tensor.raw_data.len() >= FEWEST) {
        let bytes = take(&mut tensor.raw_data);
        let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", name.into()),
            entry("offset", at.to_string()),
            entry("length", bytes.len().to_string()),
        ];
        at += bytes.len() + padding(bytes.len());
        weights.0.push(bytes);
    }
    (model, weights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::OperatorSetIdProto;
    use crate::{DType, Extent, load, make_node, make_tensor_f32, make_value_info};

    fn model() -> ModelProto {
        let info = |name| make_value_info(name, DType::F32, &[Extent::Batch, Extent::Fixed(3)]);
        let numbers: Vec<f32> = (0..600).map(|at| at as f32).collect();
        let typed = TensorProto { double_data: vec![1.5, 2.5], dims: vec![2], data_type: 11, ..TensorProto::default() };
        let entry = StringStringEntryProto { key: "k".into(), value: "v".into() };
        ModelProto {
            ir_version: 8,
            producer_name: "p".into(),
            producer_version: "1".into(),
            domain: "d".into(),
            model_version: 3,
            doc_string: "of a model".into(),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
            metadata_props: vec![entry.clone()],
            graph: Some(GraphProto {
                name: "g".into(),
                doc_string: "of a graph".into(),
                node: vec![make_node("Tanh", "t", &["x"], &["y"], vec![])],
                input: vec![info("x")],
                output: vec![info("y")],
                value_info: vec![info("z")],
                initializer: vec![
                    TensorProto { doc_string: "of w".into(), ..make_tensor_f32("w", &[600], &numbers) },
                    typed,
                    make_tensor_f32("e", &[0], &[]),
                    TensorProto { metadata_props: vec![entry], ..make_tensor_f32("v", &[300], &numbers[..300]) },
                ],
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        }
    }

    #[test]
    fn pieces_are_the_bytes_of_the_message() {
        for model in [model(), ModelProto { graph: None, ..model() }, ModelProto::default()] {
            let mut bytes = vec![];
            write(&model, &mut bytes).unwrap();
            assert_eq!(bytes, encode(&model));
        }
    }

    #[test]
    fn moved_weights_are_read_again() {
        assert!(split_weights(&model(), "m.data").1.is_none());
        let (moved, weights) = move_weights(&model(), "m.data");
        assert!(encode(&moved).len() + 3600 < encode(&model()).len() + 200);
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = vec![];
        weights.write(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 2 * PAGE);
        std::fs::write(folder.path().join("m.data"), bytes).unwrap();
        std::fs::write(folder.path().join("m.onnx"), encode(&moved)).unwrap();
        assert_eq!(load(&folder.path().join("m.onnx")).unwrap(), model());
    }
}
