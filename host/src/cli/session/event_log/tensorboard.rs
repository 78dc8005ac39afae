//! TensorBoard's event files: records of protobuf messages, each with its length and checksums.
//!
//! ```text
//! length u64, crc(length) u32, data, crc(data) u32          crc: CRC-32C, rotated by 15 bits, plus 0xa282ead8
//! Event { wall_time = 1: double, step = 2: int64, file_version = 3: string, summary = 5: Summary }
//! Summary { value = 1: { tag = 1: string, simple_value = 2: float } }
//! ```

use crate::cli::Failure;
use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file of scalars.
pub(super) struct TensorBoard(File);

impl TensorBoard {
    /// Creates a file in `folder`, and the folder if it does not exist.
    pub(super) fn create(folder: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::usage(format!("`tensorboard` {}: {error}; name another folder", folder.display()))
        };
        create_dir_all(folder).map_err(failed)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // One file for each process. TensorBoard sorts files by the seconds in their names.
        let name = format!("events.out.tfevents.{:010}.damper.{}", now.as_secs(), std::process::id());
        let mut file = File::create(folder.join(name)).map_err(failed)?;
        file.write_all(&version(now.as_secs_f64())).map_err(failed)?;
        Ok(Self(file))
    }

    /// Writes the values after `step` steps.
    pub(super) fn scalars(&mut self, step: u32, scalars: &[(&str, f64)]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.write_all(&numbers(now.as_secs_f64(), step, scalars))
    }
}

/// Returns the first record of a file.
fn version(seconds: f64) -> Vec<u8> {
    event(seconds, |event| field(event, 3, b"brain.Event:2"))
}

fn numbers(seconds: f64, step: u32, scalars: &[(&str, f64)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, number) in scalars {
        let mut value = Vec::new();
        field(&mut value, 1, tag.as_bytes());
        value.push((2 << 3) | 5);
        value.extend((*number as f32).to_le_bytes());
        field(&mut summary, 1, &value);
    }
    event(seconds, |event| {
        event.push(2 << 3);
        varint(event, u64::from(step));
        field(event, 5, &summary);
    })
}

fn event(seconds: f64, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut event = vec![(1 << 3) | 1];
    event.extend(seconds.to_le_bytes());
    fill(&mut event);
    record(&event)
}

/// Encodes `data` as a record.
fn record(data: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), data, &masked(data)].concat()
}

/// Encodes a field of bytes.
fn field(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push((number << 3) | 2);
    varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by TensorBoard's own `RecordWriter`.
    #[test]
    fn records_are_those_of_tensorboard() {
        let expected = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c\
                        34000000000000005e33175c09000000000000f83f10ac022a260a0e0a07657073696c6f6e150000803e\
                        0a140a0d68656c645f6f75742f6c6f737315000000c00003678d";
        let found = [version(1.5), numbers(1.5, 300, &[("epsilon", 0.25), ("held_out/loss", -2.0)])].concat();
        assert_eq!(found.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }
}
