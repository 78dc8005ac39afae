//! Numbers from any bytes, followed by zeros.

/// Reader of bytes from the front.
pub struct FuzzBytes<'a>(pub &'a [u8]);

impl<'a> FuzzBytes<'a> {
    /// Returns true if all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next `len` bytes, or fewer at the end.
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

    /// Reads a byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Reads a number below `bound`, at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    /// Reads two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Reads any f32.
    pub fn f32(&mut self) -> f32 {
        f32::from_bits(self.u32())
    }

    /// Reads an f64: a special value, a value from 2⁻⁶⁴ to 2⁶⁴, or any bits.
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
