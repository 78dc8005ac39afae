//! Code of an ELF module: its segments that are never written, and its data that is read-only after relocation.
//! Pointers are relative to the module.
//!
//! In a static program the latter include variables of the C library, such as random numbers. If the program has a
//! build id, the id replaces this part. If not, each start may yield different code, which never matches an earlier
//! run.

use super::system::{Module, Part, each};
use std::ops::Range;

const WORD: usize = size_of::<usize>();

// Tags of the dynamic section.
const NEEDED: usize = 1;
const PLTGOT: usize = 3;
const PLTRELSZ: usize = 2;
const RELA: usize = 7;
const RELASZ: usize = 8;
const REL: usize = 17;
const RELSZ: usize = 18;
const PLTREL: usize = 20;
const JMPREL: usize = 23;
const RELRSZ: usize = 35;
const RELR: usize = 36;

/// Type of the relocation that fills two words: the descriptor of a thread-local variable.
const TLS_DESCRIPTOR: usize = if cfg!(target_arch = "x86_64") {
    36
} else if cfg!(target_arch = "aarch64") {
    1031
} else if cfg!(target_arch = "x86") {
    41
} else if cfg!(target_arch = "arm") {
    13
} else {
    12
};

fn loads<'a>(module: &'a Module<'_>) -> impl Iterator<Item = &'a Part> {
    module.parts.iter().filter(|part| part.kind == libc::PT_LOAD)
}

/// See [`code`](super::code).
pub(super) fn code(address: usize, read: &mut dyn FnMut(&[u8])) -> bool {
    let mut whole = false;
    each(&mut |module| {
        let is_in = |part: &Part| address.checked_sub(part.start).is_some_and(|at| at < part.len);
        if loads(module).any(is_in) {
            whole = hand_over(module, read).is_some();
        }
    });
    whole
}

/// An address in each library with a file name `NAME.so...` or `NAME-VERSION.so`.
pub(super) fn libraries(names: &[&str]) -> Vec<usize> {
    let mut found = Vec::new();
    each(&mut |module| {
        let file = module.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_one = |name: &&str| {
            file.strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.starts_with(b".so") || (rest.starts_with(b"-") && rest.ends_with(b".so")))
        };
        if names.iter().any(is_one) {
            found.extend(loads(module).map(|part| part.start).next());
        }
    });
    found
}

/// Passes the bytes of `module` to `read`. Returns `None` if some cannot be read.
fn hand_over(module: &Module<'_>, read: &mut dyn FnMut(&[u8])) -> Option<()> {
    for part in loads(module).filter(|part| part.flags & libc::PF_W == 0) {
        let place = [part.start.wrapping_sub(module.base), part.len, part.flags as usize];
        read(&place.map(usize::to_le_bytes).concat());
        read(module.bytes(part.start, part.len)?);
    }
    if is_static(module) && has_build_id(module) {
        return Some(());
    }
    for part in module.parts.iter().filter(|part| part.kind == libc::PT_GNU_RELRO) {
        let filed = loads(module).find_map(|load| {
            let end = load.start.checked_add(load.filed)?;
            (load.start..end).contains(&part.start).then(|| end - part.start)
        });
        let len = part.len.min(part.filed).min(filed?);
        let mut bytes = module.bytes(part.start, len)?.to_vec();
        make_relative(module, part.start, &mut bytes)?;
        read(&bytes);
    }
    Some(())
}

fn dynamic<'a>(module: &'a Module<'_>) -> Option<&'a Part> {
    module.parts.iter().find(|part| part.kind == libc::PT_DYNAMIC)
}

/// Returns true if `module` needs no library.
fn is_static(module: &Module<'_>) -> bool {
    let table = dynamic(module).map(|part| module.bytes(part.start, part.len).map(words));
    match table {
        None => true,
        Some(None) => false,
        Some(Some(table)) => table.chunks_exact(2).all(|entry| entry[0] != NEEDED),
    }
}

/// Returns true if the module has a note with the linker's digest of the whole file.
fn has_build_id(module: &Module<'_>) -> bool {
    let notes = module.parts.iter().filter(|part| part.kind == libc::PT_NOTE);
    notes.filter_map(|part| module.bytes(part.start, part.len)).any(|mut notes| {
        let number = |notes: &[u8], at: usize| {
            notes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(|word| u32::from_ne_bytes(word) as usize)
        };
        while let (Some(name), Some(digest), Some(kind)) = (number(notes, 0), number(notes, 4), number(notes, 8)) {
            if kind == 3 && digest >= 16 && notes.get(12..16) == Some(b"GNU\0") {
                return true;
            }
            let len = 12usize.saturating_add(name.saturating_add(3) & !3).saturating_add(digest.saturating_add(3) & !3);
            notes = notes.get(len..).unwrap_or_default();
        }
        false
    })
}

/// Undoes the loader's writes in `bytes`, which start at `start`. Pointers into the module become relative to it, other
/// pointers zero.
fn make_relative(module: &Module<'_>, start: usize, bytes: &mut [u8]) -> Option<()> {
    let Some(dynamic) = dynamic(module) else { return Some(()) };
    let end = loads(module).map(|part| part.start.saturating_add(part.len)).max()?;
    let own = loads(module).map(|part| part.start).min()?..=end;
    let mut each_target = |target: usize, words: usize| {
        for at in (0..words).filter_map(|word| target.wrapping_add(word * WORD).checked_sub(start)) {
            let Some(word) = at.checked_add(WORD).and_then(|end| bytes.get_mut(at..end)) else { continue };
            let value = word.try_into().map_or(0, usize::from_ne_bytes);
            let relative = if own.contains(&value) { value - module.base } else { 0 };
            word.copy_from_slice(&relative.to_ne_bytes());
        }
    };
    let table = words(module.bytes(dynamic.start, dynamic.len)?);
    let tag = |wanted: usize| table.chunks_exact(2).find(|entry| entry[0] == wanted).map(|entry| entry[1]);
    // Some loaders have added the base address of the module to these addresses, others have not.
    let at = |address: usize| if address < module.base { address.wrapping_add(module.base) } else { address };
    let lists = [
        (tag(RELA), tag(RELASZ), 3),
        (tag(REL), tag(RELSZ), 2),
        (tag(JMPREL), tag(PLTRELSZ), if tag(PLTREL) == Some(RELA) { 3 } else { 2 }),
    ];
    for (address, len, entry) in lists {
        let (Some(address), Some(len)) = (address, len) else { continue };
        for relocation in words(module.bytes(at(address), len)?).chunks_exact(entry) {
            let kind = relocation[1] & if WORD == 8 { 0xffff_ffff } else { 0xff };
            each_target(module.base.wrapping_add(relocation[0]), if kind == TLS_DESCRIPTOR { 2 } else { 1 });
        }
    }
    if let (Some(address), Some(len)) = (tag(RELR), tag(RELRSZ)) {
        let mut next = module.base;
        for entry in words(module.bytes(at(address), len)?) {
            if entry & 1 == 0 {
                next = module.base.wrapping_add(entry);
                each_target(next, 1);
                next = next.wrapping_add(WORD);
                continue;
            }
            // One bit for each of the following words.
            let bits = WORD * 8 - 1;
            (0..bits)
                .filter(|bit| entry >> (bit + 1) & 1 == 1)
                .for_each(|bit| each_target(next.wrapping_add(bit * WORD), 1));
            next = next.wrapping_add(bits * WORD);
        }
    }
    // The loader writes its own addresses to the first words of this table, without a relocation.
    if let Some(address) = tag(PLTGOT) {
        clear(bytes, start, at(address)..at(address).saturating_add(3 * WORD));
    }
    // It also writes addresses to this section, for debuggers. The section's contents are also in the other segments.
    clear(bytes, start, dynamic.start..dynamic.start.saturating_add(dynamic.len));
    Some(())
}

fn clear(bytes: &mut [u8], start: usize, range: Range<usize>) {
    let place = |address: usize| address.saturating_sub(start).min(bytes.len());
    let (from, to) = (place(range.start), place(range.end));
    bytes[from..to.max(from)].fill(0);
}

fn words(bytes: &[u8]) -> Vec<usize> {
    bytes.chunks_exact(WORD).map(|word| word.try_into().map_or(0, usize::from_ne_bytes)).collect()
}
