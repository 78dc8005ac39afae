//! The owner of a journal: a fingerprint of the run's configuration, and the budget of its ledger or filter.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A run's budget and the fingerprint of all that its charges stand for.
///
/// Fold in ([`with`](Self::with)) whatever changes what a step costs or what its noise is for: multiplier, clip, sampling
/// rate, expected batch, number of parameters, the grid, the data set's name, a number of the run. The fingerprint is FNV-1a of
/// 64 bits: it finds mistakes; it authenticates nothing. In a `const` it costs no code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    pub(crate) fingerprint: u64,
    pub(crate) budget: u32,
    pub(crate) order: u32,
}

impl Configuration {
    /// For a ledger of `budget` steps.
    #[must_use]
    pub const fn of_ledger(budget: u32) -> Self {
        let new = Self { fingerprint: OFFSET, budget, order: 0 };
        new.with(b"ledger").with(&budget.to_le_bytes())
    }

    /// For a Rényi filter of this order that keeps within (`epsilon`, `delta`).
    #[must_use]
    pub const fn of_filter(order: u32, epsilon: f64, delta: f64) -> Self {
        let new = Self { fingerprint: OFFSET, budget: 0, order };
        new.with(b"filter")
            .with(&order.to_le_bytes())
            .with(&epsilon.to_bits().to_le_bytes())
            .with(&delta.to_bits().to_le_bytes())
    }

    /// This configuration and one more item of it. Items are told apart: their lengths are folded in.
    #[must_use]
    pub const fn with(self, item: &[u8]) -> Self {
        let hash = fold(self.fingerprint, item);
        Self { fingerprint: fold(hash, &(item.len() as u64).to_le_bytes()), ..self }
    }
}

const fn fold(mut hash: u64, mut bytes: &[u8]) -> u64 {
    while let [byte, rest @ ..] = bytes {
        hash = (hash ^ *byte as u64).wrapping_mul(PRIME);
        bytes = rest;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    // The fingerprint depends on every item, its position and its length.
    #[test]
    fn items_order_and_length_count() {
        let run = Configuration::of_ledger(10);
        assert_ne!(run, Configuration::of_ledger(11));
        assert_ne!(run.with(b"ab").with(b"c"), run.with(b"a").with(b"bc"));
        assert_ne!(run.with(b"a").with(b"b"), run.with(b"b").with(b"a"));
        assert_ne!(run.with(b""), run);
        let filter = Configuration::of_filter(8, 1.0, 1e-5);
        for other in [(9, 1.0, 1e-5), (8, 1.5, 1e-5), (8, 1.0, 1e-6)] {
            assert_ne!(filter, Configuration::of_filter(other.0, other.1, other.2));
        }
    }

    // The fingerprint is FNV-1a over the items and their lengths.
    #[test]
    fn fingerprint_is_fnv_1a_of_items() {
        // Computed elsewhere, over b"ledger", its length as 8 bytes, b"\x0a\0\0\0" and its length.
        assert_eq!(Configuration::of_ledger(10).fingerprint, 0x5191_9578_a0f1_4524);
    }
}
