//! Numbers out of bytes: whatever the bytes, and zeros where they end.

/// Bytes that are taken from the front.
pub struct FuzzBytes<'a>(pub &'a [u8]);

impl<'a> FuzzBytes<'a> {
    /// Returns true if all were taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes, fewer at the end.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.bytes(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// A number below `bound`, at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Any f32.
    pub fn f32(&mut self) -> f32 {
        f32::from_bits(self.u32())
    }

    /// Any f64: one of a few that are met, near or far, or any bits at all.
    pub fn f64(&mut self) -> f64 {
        const MET: [f64; 16] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            1e-5,
            1e-15,
            1e-300,
            5e-324,
            1e10,
            1e300,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        match self.u8() {
            kind @ 0..16 => MET[usize::from(kind)],
            // From 2⁻⁶⁴ to 2⁶⁴.
            16..128 => f64::from(self.u16()) / 65536.0 * 2f64.powi(i32::from(self.u8() as i8) / 2),
            _ => f64::from_bits(self.u64()),
        }
    }
}
