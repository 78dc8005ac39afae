//! Frames on a stream: the length as u32, and that many bytes. All numbers are little-endian.

use std::io::{Error, ErrorKind, Read, Result, Write};

/// Bytes of the longest frame. A longer announced frame is not read.
pub const LONGEST: usize = 8192;

/// Sends a frame made of these parts.
///
/// # Errors
///
/// The stream failed, or the frame is too long.
pub fn send(to: &mut (impl Write + ?Sized), parts: &[&[u8]]) -> Result<()> {
    let bytes = parts.concat();
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len as usize <= LONGEST);
    let len = len.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "a frame is too long"))?;
    to.write_all(&[&len.to_le_bytes(), &bytes[..]].concat())?;
    to.flush()
}

/// Receives a frame. Returns `None` if the stream has ended before a frame.
///
/// # Errors
///
/// The stream failed or ended within a frame, or the frame is too long.
pub fn receive(from: &mut (impl Read + ?Sized)) -> Result<Option<Vec<u8>>> {
    let mut len = [0; 4];
    if from.read(&mut len[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut len[1..])?;
    let len = u32::from_le_bytes(len) as usize;
    if len > LONGEST {
        return Err(Error::new(ErrorKind::InvalidData, "a frame is too long"));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}
