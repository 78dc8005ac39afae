//! SHA-256 of released values, in hexadecimal.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of released parameters, in hexadecimal.
pub fn digest(params: &[f32]) -> String {
    let mut hash = Sha256::new();
    for chunk in params.chunks(1024) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
        hash.update(&bytes);
    }
    hex(&hash.finalize())
}

/// Returns bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_sha256_of_little_endian_bytes() {
        // printf '\0\0\200\077\0\0\0\300' | sha256sum
        assert_eq!(digest(&[1.0, -2.0]), "ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b");
        let long: Vec<f32> = (0..3000).map(|i| i as f32).collect();
        let bytes: Vec<u8> = long.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(digest(&long), hex(&Sha256::digest(&bytes)));
    }
}
