//! A cache of images that another run decoded: a folder of pixels, which the user requests
//! ([`DataOptions::image_cache`]).
//!
//! A file has the pixels of a block of images. Its name is the SHA-256 of the images' bytes, of the pixel layout and of
//! this version. So a changed image is never confused with its predecessor. A file is written atomically and ends with
//! its digest. If a file is damaged, its images are decoded again.
//!
//! The folder is as secret as the data. Only its owner can enter it, even if it existed before.

use super::pixel_layout::PixelLayout;
use crate::{DataError, DataOptions};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

type Pixels = Result<Vec<u8>, String>;

/// Returns the pixels of a block of images in order, or the fault of each.
pub(crate) fn pixels(layout: PixelLayout, images: &[Vec<u8>], options: &DataOptions) -> Result<Vec<Pixels>, DataError> {
    let Some(folder) = &options.image_cache else { return Ok(layout.all(images)) };
    let failed = |error: &io::Error| {
        let folder = folder.display();
        DataError::File(format!(
            "{folder}: cannot hold the decoded images ({error}); name another `image_cache`, or none"
        ))
    };
    let file = folder.join(format!("{}.pixels", hex(&key(layout, images))));
    if let Some(found) = read(&file, layout, images.len()) {
        return Ok(found);
    }
    let found = layout.all(images);
    // Images with faults are not cached, so that faults are always reported.
    if let Some(all) = found.iter().map(|image| image.as_ref().ok()).collect::<Option<Vec<_>>>() {
        create(folder).and_then(|()| write(folder, &file, &all)).map_err(|error| failed(&error))?;
    }
    Ok(found)
}

fn key(layout: PixelLayout, images: &[Vec<u8>]) -> Vec<u8> {
    let mut key = Sha256::new();
    key.update(format!("damper {} {}", env!("CARGO_PKG_VERSION"), layout.key()));
    for image in images {
        key.update((image.len() as u64).to_le_bytes());
        key.update(image);
    }
    key.finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(file: &Path, layout: PixelLayout, images: usize) -> Option<Vec<Pixels>> {
    let bytes = fs::read(file).ok()?;
    let (pixels, digest) = bytes.split_at_checked(images * layout.len())?;
    (Sha256::digest(pixels)[..] == *digest)
        .then(|| pixels.chunks(layout.len()).map(|image| Ok(image.to_vec())).collect())
}

fn write(folder: &Path, file: &Path, images: &[&Vec<u8>]) -> io::Result<()> {
    // Mode 0600.
    let mut new = tempfile::Builder::new().prefix(".damper-").tempfile_in(folder)?;
    let mut digest = Sha256::new();
    for image in images {
        digest.update(image);
        new.write_all(image)?;
    }
    new.write_all(&digest.finalize())?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(())
}

fn create(folder: &PathBuf) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}
