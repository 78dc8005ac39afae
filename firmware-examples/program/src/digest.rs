//! A digest of parameters: FNV-1a, 64 bits, over the little-endian bytes of each f32 in order.
//!
//! It finds differences; it authenticates nothing.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The digest of `params` (`[D]`).
#[must_use]
pub fn fnv1a64(params: &[f32]) -> u64 {
    let mut digest = OFFSET;
    for param in params {
        for byte in param.to_bits().to_le_bytes() {
            digest = (digest ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a_of_the_bytes_in_order() {
        // Computed elsewhere, from the bytes of "" and "foobarfo".
        assert_eq!(fnv1a64(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(&[f32::from_le_bytes(*b"foob"), f32::from_le_bytes(*b"arfo")]), 0x7396_e6eb_4e20_40df);
    }
}
