//! A reader of pickles with plain values and NumPy arrays of bytes, as in CIFAR's Python batches.
//!
//! It builds values and does not call anything. It stores a callable as its name, and the callable's arguments as a
//! list. It supports protocols 0 to 5 as far as those batches need them. Any other opcode is an error. Every value is
//! counted, so a small file cannot build a large value.

use std::rc::Rc;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    None,
    Integer(i64),
    Bytes(&'a [u8]),
    List(Rc<Vec<Value<'a>>>),
    /// Alternating keys and values.
    Dict(Rc<Vec<Value<'a>>>),
    /// A callable's arguments, and the state set on its result.
    Object {
        of: Rc<Vec<Value<'a>>>,
        state: Rc<Vec<Value<'a>>>,
    },
}

/// Maximum number of values. CIFAR's largest batch has about 150,000.
const VALUES: usize = 1 << 21;
/// Maximum number of lists, tuples and objects, which bounds their depth.
const CONTAINERS: usize = 1000;

/// Reads a pickle, or returns the fault.
pub(super) fn read(bytes: &[u8]) -> Result<Value<'_>, String> {
    let mut machine = Machine {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        values: VALUES,
        containers: CONTAINERS,
    };
    loop {
        if let Some(value) = machine.step()? {
            return Ok(value);
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value<'a>>,
    marks: Vec<usize>,
    memo: Vec<Value<'a>>,
    values: usize,
    containers: usize,
}

const ENDS: &str = "it ends early";

impl<'a> Machine<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or(ENDS)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, String> {
        let value = self.take(bytes)?.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).map_err(|_| "a length is too large".into())
    }

    fn line(&mut self) -> Result<&'a [u8], String> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|byte| *byte == b'\n').ok_or(ENDS)?;
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn text(&mut self, len: usize) -> Result<(), String> {
        let bytes = self.take(len)?;
        self.push(Value::Bytes(bytes))
    }

    fn push(&mut self, value: Value<'a>) -> Result<(), String> {
        self.count(1)?;
        self.stack.push(value);
        Ok(())
    }

    fn count(&mut self, values: usize) -> Result<(), String> {
        self.values = self.values.checked_sub(values).ok_or("it has too many values")?;
        Ok(())
    }

    fn container(&mut self, value: Value<'a>) -> Result<(), String> {
        self.containers = self.containers.checked_sub(1).ok_or("it has too many lists")?;
        self.push(value)
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        self.stack.pop().ok_or_else(|| "a value is missing".into())
    }

    /// Returns the values since the last mark.
    fn marked(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len()).ok_or("a mark is missing")?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, len: usize) -> Result<(), String> {
        let from = self.stack.len().checked_sub(len).ok_or("a value is missing")?;
        let values = self.stack.split_off(from);
        self.container(Value::List(Rc::new(values)))
    }

    fn add(&mut self, values: Vec<Value<'a>>) -> Result<(), String> {
        // A list that the memo also has is copied.
        let copied = match self.stack.last() {
            Some(Value::List(all) | Value::Dict(all)) if Rc::strong_count(all) > 1 => all.len(),
            _ => 0,
        };
        self.count(copied)?;
        match self.stack.last_mut() {
            Some(Value::List(all) | Value::Dict(all)) => {
                Rc::make_mut(all).extend(values);
                Ok(())
            }
            _ => Err("a list is missing".into()),
        }
    }

    fn memoize(&mut self, index: usize) -> Result<(), String> {
        let value = self.stack.last().cloned().ok_or("a value is missing")?;
        self.count((index + 1).saturating_sub(self.memo.len()))?;
        self.memo.resize(self.memo.len().max(index + 1), Value::None);
        self.memo[index] = value;
        Ok(())
    }

    fn remembered(&mut self, index: usize) -> Result<(), String> {
        let value = self.memo.get(index).cloned().ok_or("a memo is missing")?;
        self.push(value)
    }

    /// Executes one opcode. Returns the value at the end.
    fn step(&mut self) -> Result<Option<Value<'a>>, String> {
        match self.take(1)?[0] {
            b'.' => return self.pop().map(Some),
            0x80 => drop(self.take(1)?),
            // A frame.
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b't' => {
                let values = self.marked()?;
                self.container(Value::List(Rc::new(values)))?;
            }
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b'a' => {
                let value = self.pop()?;
                self.add(vec![value])?;
            }
            b'e' | b'u' => {
                let values = self.marked()?;
                self.add(values)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.add(vec![key, value])?;
            }
            b'c' => {
                self.line()?;
                let name = self.line()?;
                self.push(Value::Bytes(name))?;
            }
            0x93 => {
                let (name, _) = (self.pop()?, self.pop()?);
                self.push(name)?;
            }
            b'R' | 0x81 => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                let of = Rc::new(vec![callable, arguments]);
                self.container(Value::Object { of, state: Rc::default() })?;
            }
            b'b' => {
                let state = self.pop()?;
                match self.stack.last_mut() {
                    Some(Value::Object { state: own, .. }) => *own = Rc::new(vec![state]),
                    _ => return Err("an object is missing".into()),
                }
            }
            other => self.push_one(other)?,
        }
        Ok(None)
    }

    /// Executes an opcode that pushes one value: a constant, a number, a text or a memo entry. Also executes opcodes
    /// that store the last value in the memo.
    fn push_one(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Integer(1))?,
            0x89 => self.push(Value::Integer(0))?,
            b'}' => self.container(Value::Dict(Rc::default()))?,
            b']' | b')' => self.container(Value::List(Rc::default()))?,
            b'K' => self.integer(1)?,
            b'M' => self.integer(2)?,
            b'J' => {
                let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| ENDS)?;
                self.push(Value::Integer(i32::from_le_bytes(bytes).into()))?;
            }
            b'I' | b'L' => {
                let line = std::str::from_utf8(self.line()?).unwrap_or_default().trim_end_matches('L');
                // `I01` is true.
                let value = line.parse().map_err(|_| "a number is malformed")?;
                self.push(Value::Integer(value))?;
            }
            0x8a => {
                let len = self.number(1)?;
                let bytes = self.take(len)?;
                let value = (len <= 8).then(|| bytes.iter().rev().fold(0i64, |all, byte| all << 8 | i64::from(*byte)));
                self.push(Value::Integer(value.ok_or("a number is too large")?))?;
            }
            b'U' | b'C' | 0x8c => {
                let len = self.number(1)?;
                self.text(len)?;
            }
            b'T' | b'B' | b'X' => {
                let len = self.number(4)?;
                self.text(len)?;
            }
            0x8e | 0x8d | 0x96 => {
                let len = self.number(8)?;
                self.text(len)?;
            }
            b'q' => {
                let index = self.number(1)?;
                self.memoize(index)?;
            }
            b'r' => {
                let index = self.number(4)?;
                self.memoize(index)?;
            }
            0x94 => self.memoize(self.memo.len())?,
            b'h' => {
                let index = self.number(1)?;
                self.remembered(index)?;
            }
            b'j' => {
                let index = self.number(4)?;
                self.remembered(index)?;
            }
            other => return Err(format!("it has the opcode {other:#04x}, which such batches do not")),
        }
        Ok(())
    }

    fn integer(&mut self, bytes: usize) -> Result<(), String> {
        let value = self.number(bytes)?;
        self.push(Value::Integer(value as i64))
    }
}

impl<'a> Value<'a> {
    /// Returns the value of a dictionary's key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Value::Dict(entries) = self else { return None };
        let is_key = |value: &Value<'_>| matches!(value, Value::Bytes(bytes) if *bytes == key.as_bytes());
        entries.chunks_exact(2).find(|entry| is_key(&entry[0])).map(|entry| &entry[1])
    }

    pub fn integers(&self) -> Option<Vec<i64>> {
        let Value::List(values) = self else { return None };
        values.iter().map(|value| if let Value::Integer(value) = value { Some(*value) } else { None }).collect()
    }

    /// Returns the shape and bytes of an array of unsigned bytes in C order.
    pub fn byte_array(&self) -> Option<(Vec<i64>, &'a [u8])> {
        let Value::Object { state, .. } = self else { return None };
        let Some(Value::List(parts)) = state.first() else { return None };
        // (version, shape, type, is in Fortran order, bytes).
        let [_, shape, dtype, Value::Integer(0), Value::Bytes(bytes)] = &parts[..] else { return None };
        let Value::Object { of, .. } = dtype else { return None };
        let [_, Value::List(arguments)] = &of[..] else { return None };
        let is_byte = matches!(arguments.first(), Some(Value::Bytes(b"u1" | b"|u1")));
        is_byte.then_some(())?;
        Some((shape.integers()?, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A pickle with more content than its size allows ends early, for any opcodes.
    #[test]
    fn pickles_have_bounds() {
        let refused = |bytes: &[u8]| read(bytes).unwrap_err();
        // Nested tuples, a list copied by each append, a memo index out of range, and endless values.
        assert!(refused(&[b")".as_slice(), &[0x85; 5000], b"."].concat()).contains("too many lists"));
        let copies = [b"]".as_slice(), &b"\x94K\x01a".repeat(200_000), b"."].concat();
        assert!(refused(&copies).contains("too many values"));
        assert!(refused(b"Nr\xff\xff\xff\x7f.").contains("too many values"));
        assert!(refused(&[b'N'; 3_000_000]).contains("too many values"));
        assert!(refused(b"X\xff\xff\xff\xffabc.").contains("ends early"));
        assert!(refused(b"").contains("ends early"));
        assert!(read(b"\x80\x04]\x94(K\x01K\x02e.").unwrap().integers() == Some(vec![1, 2]));
    }
}
