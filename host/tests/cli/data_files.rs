//! Small data sets of every kind, and models for them.

use damper::graph::DType;
use damper::onnx::{self, Extent};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::basic::Compression as Codec;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Writes a model `logits = W flatten(x) + b` for samples of this shape.
pub fn linear(folder: &Path, name: &str, shape: &[usize], outputs: usize) {
    let values = shape.iter().product::<usize>();
    let weights: Vec<f32> = (0..values * outputs).map(|at| (at % 7) as f32 / 50.0 - 0.06).collect();
    let extents: Vec<Extent> =
        [Extent::Batch].into_iter().chain(shape.iter().map(|extent| Extent::Fixed(*extent))).collect();
    let flat = [onnx::make_attr_int("axis", 1)];
    let graph = onnx::pb::GraphProto {
        name: name.into(),
        node: vec![
            onnx::make_node("Flatten", "flatten", &["x"], &["flat"], flat.to_vec()),
            onnx::make_node("Gemm", "fc", &["flat", "fc.weight", "fc.bias"], &["logits"], vec![]),
        ],
        initializer: vec![
            onnx::make_tensor_f32("fc.weight", &[values, outputs], &weights),
            onnx::make_tensor_f32("fc.bias", &[outputs], &vec![0.0; outputs]),
        ],
        input: vec![onnx::make_value_info("x", DType::F32, &extents)],
        output: vec![onnx::make_value_info("logits", DType::F32, &[Extent::Batch, Extent::Fixed(outputs)])],
        ..Default::default()
    };
    let opset = onnx::pb::OperatorSetIdProto { version: 17, ..Default::default() };
    let model =
        onnx::pb::ModelProto { ir_version: 8, opset_import: vec![opset], graph: Some(graph), ..Default::default() };
    fs::write(folder.join(format!("{name}.onnx")), onnx::encode(&model)).unwrap();
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a PNG file with 1, 3 or 4 `channels` and pixels from `seed`.
pub fn png(height: u32, width: u32, channels: usize, seed: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(match channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    let pixels: Vec<u8> =
        (0..(height * width) as usize * channels).map(|at| seed.wrapping_mul(31).wrapping_add(at as u8)).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

/// Returns a JPEG file of 8 × 8 pixels, all of one grey (133, 133, 133), in colour.
pub fn jpeg() -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    bytes.extend([8; 64]);
    // Frame: 8 bits, 8 x 8, three components with one table.
    bytes.extend([0xff, 0xc0, 0, 17, 8, 0, 8, 0, 8, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
    // Codes: for DC `0` is three bits, `10` none. For AC `0` is the end of the block.
    bytes.extend([0xff, 0xc4, 0, 21, 0x00, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
    bytes.extend([0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Scan: Y is 5 above the middle, and both colours are zero.
    bytes.extend([0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0, 0x54, 0x9f, 0xff, 0xd9]);
    bytes
}

/// Encodes a `.npy` file.
pub fn npy(descr: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

pub fn npy_f32(shape: &[usize]) -> Vec<u8> {
    let count = shape.iter().product::<usize>();
    npy("<f4", shape, &(0..count).flat_map(|at| ((at % 11) as f32 / 11.0).to_le_bytes()).collect::<Vec<_>>())
}

pub fn npy_labels(count: usize, classes: u8) -> Vec<u8> {
    npy("|u1", &[count], &(0..count).map(|at| at as u8 % classes).collect::<Vec<_>>())
}

/// Returns a binary batch of CIFAR-10.
pub fn cifar_binary(images: usize) -> Vec<u8> {
    (0..images).flat_map(|at| [vec![at as u8 % 10], vec![at as u8; 3072]].concat()).collect()
}

/// Returns a Python batch of CIFAR-10, as Python 2 pickled it.
pub fn cifar_pickle(images: usize) -> Vec<u8> {
    let mut bytes =
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(".to_vec();
    bytes.extend((0..images).flat_map(|at| [b'K', at as u8 % 10]));
    bytes.extend(
        b"eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09",
    );
    bytes.extend(b"(K\x01M");
    bytes.extend((images as u16).to_le_bytes());
    bytes.extend(b"M\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b");
    bytes.extend(b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
    bytes.extend(((images * 3072) as u32).to_le_bytes());
    bytes.extend((0..images).flat_map(|at| vec![at as u8; 3072]));
    bytes.extend(b"tbu.");
    bytes
}

/// Encodes a `.tar` archive.
pub fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Values of a column of a Parquet file.
pub enum Column {
    Bytes(Vec<Option<Vec<u8>>>),
    I64(Vec<i64>),
    F32(Vec<f32>),
}

/// Writes a Parquet file. Optional columns have one level more than their depth.
pub fn parquet(file: &Path, schema: &str, columns: &[(Column, i16)]) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(Codec::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(File::create(file).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (column, full) in columns {
        let mut column_writer = group.next_column().unwrap().unwrap();
        let levels = |present: Vec<bool>| -> Option<Vec<i16>> {
            (*full > 0).then(|| present.into_iter().map(|here| if here { *full } else { 0 }).collect())
        };
        match (column_writer.untyped(), column) {
            (ColumnWriter::ByteArrayColumnWriter(to), Column::Bytes(values)) => {
                let levels = levels(values.iter().map(Option::is_some).collect());
                let values: Vec<ByteArray> = values.iter().flatten().map(|bytes| bytes.clone().into()).collect();
                to.write_batch(&values, levels.as_deref(), None).unwrap();
            }
            (ColumnWriter::Int64ColumnWriter(to), Column::I64(values)) => {
                to.write_batch(values, levels(vec![true; values.len()]).as_deref(), None).unwrap();
            }
            (ColumnWriter::FloatColumnWriter(to), Column::F32(values)) => {
                to.write_batch(values, levels(vec![true; values.len()]).as_deref(), None).unwrap();
            }
            _ => panic!("another type"),
        }
        column_writer.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// Writes a Parquet file in the layout of Hugging Face's image data sets.
pub fn hugging_face(file: &Path, images: Vec<Option<Vec<u8>>>, labels: Vec<i64>) {
    let schema = "message schema { optional group image { optional binary bytes; optional binary path (STRING); } \
                  optional int64 label; }";
    let paths = images.iter().map(|_| Some(b"a.png".to_vec())).collect();
    parquet(file, schema, &[(Column::Bytes(images), 2), (Column::Bytes(paths), 2), (Column::I64(labels), 1)]);
}
