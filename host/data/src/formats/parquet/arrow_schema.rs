//! Arrow's schema, which programs write into a Parquet file as `ARROW:schema`. Parquet has no duration type and stores
//! durations as plain integers.
//!
//! The entry is base64 of an encapsulated message, a FlatBuffer (<https://arrow.apache.org/docs/format/Columnar.html>,
//! `Schema.fbs` and `Message.fbs`). This code reads the names and types of its fields. Unreadable parts are ignored.

/// Union tags: of a message's header, and of a field's type.
const SCHEMA: u8 = 1;
const DURATION: u8 = 18;
/// Maximum depth of nested fields that are read.
const DEPTH: usize = 16;
/// Maximum number of fields that are read.
const MOST: usize = 1 << 16;

/// Returns the names of the duration columns among the leaves, such as `a` or `s.a`.
pub(super) fn durations(entry: &str) -> Vec<String> {
    let mut found = Vec::new();
    let bytes = base64(entry).unwrap_or_default();
    // The length of the message follows a marker in newer files.
    let message = match bytes.get(..4) {
        Some([0xff, 0xff, 0xff, 0xff]) => bytes.get(8..),
        _ => bytes.get(4..),
    };
    message.and_then(|message| read(Buffer(message), &mut found)).unwrap_or(found)
}

fn read(buffer: Buffer<'_>, found: &mut Vec<String>) -> Option<Vec<String>> {
    let message = buffer.follow(0)?;
    if buffer.byte(buffer.slot(message, 1)?)? != SCHEMA {
        return None;
    }
    let schema = buffer.follow(buffer.slot(message, 2)?)?;
    let fields = buffer.follow(buffer.slot(schema, 1)?)?;
    of_fields(buffer, fields, "", DEPTH, &mut 0, found);
    Some(std::mem::take(found))
}

fn of_fields(
    buffer: Buffer<'_>,
    fields: usize,
    within: &str,
    depth: usize,
    seen: &mut usize,
    found: &mut Vec<String>,
) -> Option<()> {
    for at in 0..buffer.number(fields)? as usize {
        *seen += 1;
        if *seen > MOST || depth == 0 {
            return None;
        }
        let field = buffer.follow(fields.checked_add(4)?.checked_add(4 * at)?)?;
        let name = buffer.text(buffer.follow(buffer.slot(field, 0)?)?)?;
        let name = format!("{within}{name}");
        if let Some(children) = buffer.slot(field, 5).and_then(|slot| buffer.follow(slot)) {
            of_fields(buffer, children, &format!("{name}."), depth - 1, seen, found);
        }
        if buffer.slot(field, 2).and_then(|slot| buffer.byte(slot)) == Some(DURATION) {
            found.push(name);
        }
    }
    Some(())
}

/// A FlatBuffer with arbitrary, untrusted content.
#[derive(Clone, Copy)]
struct Buffer<'a>(&'a [u8]);

impl<'a> Buffer<'a> {
    fn bytes<const W: usize>(self, at: usize) -> Option<[u8; W]> {
        self.0.get(at..at.checked_add(W)?)?.try_into().ok()
    }

    fn byte(self, at: usize) -> Option<u8> {
        self.bytes::<1>(at).map(|[byte]| byte)
    }

    fn number(self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// Follows the offset at `at`.
    fn follow(self, at: usize) -> Option<usize> {
        at.checked_add(self.number(at)? as usize)
    }

    /// Returns the position of field `id` of the table at `table`, if present.
    fn slot(self, table: usize, id: usize) -> Option<usize> {
        let back = i64::from(i32::from_le_bytes(self.bytes(table)?));
        let entries = usize::try_from(i64::try_from(table).ok()?.checked_sub(back)?).ok()?;
        let size = usize::from(u16::from_le_bytes(self.bytes(entries)?));
        let entry = 4 + 2 * id;
        let offset = usize::from(u16::from_le_bytes(self.bytes(entries.checked_add(entry)?)?));
        (entry + 2 <= size && offset > 0).then(|| table.checked_add(offset))?
    }

    fn text(self, at: usize) -> Option<&'a str> {
        let from = at.checked_add(4)?;
        std::str::from_utf8(self.0.get(from..from.checked_add(self.number(at)? as usize)?)?).ok()
    }
}

/// Decodes base64 (RFC 4648, section 4).
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::with_capacity(text.len() / 4 * 3));
    for byte in text.trim_end_matches('=').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_its_rfc() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar"), ("+/8=", "")]
        {
            let found = base64(text).unwrap();
            assert!(found == bytes.as_bytes() || found == [0xfb, 0xff], "{text}: {found:?}");
        }
        assert_eq!(base64("a b"), None);
    }

    // The schema that pyarrow writes for `a: float, d: duration[ms], s: struct<d: duration[us], b: int64>`, and damaged
    // variants.
    #[test]
    fn damaged_schemas_say_nothing() {
        let whole = WHOLE;
        assert_eq!(durations(whole), ["d", "s.d"]);
        for at in 0..whole.len() {
            let _ = durations(&whole[..at]);
            for other in ["A", "/", "w", "9"] {
                let _ = durations(&[&whole[..at], other, &whole[at + 1..]].concat());
            }
        }
    }

    const WHOLE: &str = "/////ygBAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAMAAADMAAAAkAAAAAQAAABQ////AAABDRgAAAAcAAAABAAAAAIAAABIAAAAEAAAAAEAAABzAAAAgP///3z///8AAAECEAAAABwAAAAEAAAAAAAAAAEAAABiAAAACAAMAAgABwAIAAAAAAAAAUAAAACw////AAABEhAAAAAUAAAABAAAAAAAAAABAAAAZAAAAKL///8AAAIA2P///wAAARIQAAAAGAAAAAQAAAAAAAAAAQAAAGQAAAAEAAQABAAAABAAFAAIAAYABwAMAAAAEAAQAAAAAAABAxAAAAAYAAAABAAAAAAAAAABAAAAYQAGAAgABgAGAAAAAAABAA==";
}
