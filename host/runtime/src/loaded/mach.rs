//! Code of a Mach-O image: its segment `__TEXT`. It has instructions, constants, and the header, which includes the
//! image's UUID.

use super::system::{bytes, image};

const MAGIC_64: u32 = 0xfeed_facf;
/// Size of the header in bytes.
const HEADER: usize = 32;
/// Load command of a segment.
const SEGMENT_64: u32 = 0x19;

/// See [`code`](super::code).
pub(super) fn code(address: usize, read: &mut dyn FnMut(&[u8])) -> bool {
    let Some(header) = image(address) else { return false };
    // SAFETY: the loader reports that an image begins here, and its header has this many bytes.
    let first = unsafe { bytes(header, HEADER) };
    let at = |bytes: &[u8], at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
    if at(first, 0) != Some(MAGIC_64) {
        return false;
    }
    let Some(len) = at(first, 20) else { return false };
    // SAFETY: the load commands follow the header, and the header contains their length.
    let mut commands = unsafe { bytes(header + HEADER, len as usize) };
    while let (Some(kind), Some(len)) = (at(commands, 0), at(commands, 4)) {
        let len = len as usize;
        if len < 8 || len > commands.len() {
            return false;
        }
        let (command, rest) = commands.split_at(len);
        if kind == SEGMENT_64 && command.get(8..24).is_some_and(|name| name.starts_with(b"__TEXT\0")) {
            let Some(size) = command.get(32..40).and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes) else {
                return false;
            };
            // SAFETY: this segment begins with the header. It is mapped readable and executable, and nothing writes to
            // it.
            read(unsafe { bytes(header, size as usize) });
            return true;
        }
        commands = rest;
    }
    false
}
