//! Code of a PE image: its sections that are never written, without the import table. Pointers are relative to the
//! image.

use super::system::{bytes, image};

const READ: u32 = 0x4000_0000;
const WRITE: u32 = 0x8000_0000;
/// Section that the loader may discard.
const DISCARDABLE: u32 = 0x0200_0000;

// Directories: relocations, and the import address table.
const RELOCATIONS: usize = 5;
const IMPORTS: usize = 12;
/// Relocation types, of 32 and 64 bits.
const HIGH_LOW: u16 = 3;
const DIR64: u16 = 10;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

/// See [`code`](super::code).
pub(super) fn code(address: usize, read: &mut dyn FnMut(&[u8])) -> bool {
    image(address).is_some_and(|base| hand_over(base, read).is_some())
}

fn hand_over(base: usize, read: &mut dyn FnMut(&[u8])) -> Option<()> {
    // SAFETY: the loader reports that an image begins here, and the first page of an image is mapped readable.
    let header = unsafe { bytes(base, 4096) };
    let pe = u32_at(header, 0x3c)? as usize;
    if header.get(..2)? != b"MZ" || header.get(pe..pe.checked_add(4)?)? != b"PE\0\0" {
        return None;
    }
    let (count, optional) = (u16_at(header, pe + 6)?, u16_at(header, pe + 20)? as usize);
    let is_64 = u16_at(header, pe + 24)? == 0x20b;
    let directory = |at: usize| {
        let at = pe + 24 + if is_64 { 112 } else { 96 } + 8 * at;
        Some((u32_at(header, at)? as usize, u32_at(header, at + 4)? as usize))
    };
    let size = u32_at(header, pe + 24 + 56)? as usize;
    let (imports, imported) = directory(IMPORTS)?;
    let (table, tabled) = directory(RELOCATIONS)?;
    if table.checked_add(tabled)? > size {
        return None;
    }
    // SAFETY: the table is in the image, and the header contains the image's size.
    let relocations = unsafe { bytes(base + table, tabled) };
    // Time of the link, or a hash of its inputs.
    read(header.get(pe + 8..pe + 12)?);
    for section in 0..usize::from(count) {
        let entry = header.get(pe + 24 + optional + 40 * section..)?.get(..40)?;
        let (len, start, kind) = (u32_at(entry, 8)? as usize, u32_at(entry, 12)? as usize, u32_at(entry, 36)?);
        if kind & (READ | WRITE | DISCARDABLE) != READ || start.checked_add(len)? > size {
            continue;
        }
        read(entry);
        // SAFETY: the section is in the image, is mapped readable, and is not writable.
        let mut own = unsafe { bytes(base + start, len) }.to_vec();
        each_relocation(relocations, |target, wide| {
            let width = if wide { 8 } else { 4 };
            let Some(word) = target.checked_sub(start).and_then(|at| own.get_mut(at..at.checked_add(width)?)) else {
                return;
            };
            let mut value = [0; 8];
            value[..width].copy_from_slice(word);
            let relative = u64::from_le_bytes(value).wrapping_sub(base as u64);
            word.copy_from_slice(&relative.to_le_bytes()[..width]);
        })?;
        let place = |at: usize| at.saturating_sub(start).min(own.len());
        let (from, to) = (place(imports), place(imports.saturating_add(imported)));
        own[from..to.max(from)].fill(0);
        read(&own);
    }
    Some(())
}

/// Calls `target` with each relocated address, relative to the image, and with true if it has 64 bits.
fn each_relocation(mut table: &[u8], mut target: impl FnMut(usize, bool)) -> Option<()> {
    while table.len() >= 8 {
        let (page, len) = (u32_at(table, 0)? as usize, u32_at(table, 4)? as usize);
        if len < 8 || len > table.len() {
            return None;
        }
        for entry in table[8..len].chunks_exact(2) {
            let entry = u16::from_le_bytes([entry[0], entry[1]]);
            let place = page.checked_add(usize::from(entry & 0xfff))?;
            match entry >> 12 {
                DIR64 => target(place, true),
                HIGH_LOW => target(place, false),
                _ => {}
            }
        }
        table = &table[len..];
    }
    Some(())
}
