//! Model files. A model over 2 GiB has its weights in a second file.

use crate::state::files::{Access, AtomicFile, FileError, hex};
use damper_onnx::pb::ModelProto;
use damper_onnx::{self as onnx, split_weights};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;

/// Writes `model` to `path` atomically. The weights of a large model go to `path` with `.data` appended, which is
/// written first.
///
/// # Errors
///
/// The disk is full or fails.
pub fn write_model(path: &Path, model: &ModelProto, access: Access) -> Result<(), FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".data";
    let (model, weights) = split_weights(model, &name);
    if let Some(weights) = weights {
        let mut file = AtomicFile::create(&path.with_file_name(name), access)?;
        weights.write(&mut file).map_err(|error| file.failed(&error))?;
        file.commit()?;
    }
    let mut file = AtomicFile::create(path, access)?;
    onnx::write(&model, &mut file).map_err(|error| file.failed(&error))?;
    file.commit()
}

/// Returns the SHA-256 of the encoded `model`, in hexadecimal.
pub(crate) fn model_digest(model: &ModelProto) -> String {
    struct Hashed(Sha256);
    impl Write for Hashed {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (model, weights) = split_weights(model, "");
    let mut hashed = Hashed(Sha256::new());
    let weights = weights.iter().try_for_each(|weights| weights.write(&mut hashed));
    weights.and_then(|()| onnx::write(&model, &mut hashed)).expect("hashing does not fail, and the model is split");
    hex(hashed.0.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_edit::init;

    #[test]
    fn file_and_digest_are_of_the_encoded_model() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/digits-mlp.onnx");
        let model = init::load(&path, None).unwrap().model;
        assert_eq!(model_digest(&model), crate::state::files::sha256(&onnx::encode(&model)));
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("m.onnx");
        write_model(&written, &model, Access::Public).unwrap();
        assert_eq!(std::fs::read(&written).unwrap(), onnx::encode(&model));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
