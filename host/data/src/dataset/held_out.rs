//! The choice of held-out rows for a fraction.
//!
//! Rows are sorted by numbers that follow from the seed and the row's index alone. Row `i` gets output `i` of a
//! SplitMix64 generator. The generator's state is the first output for the seed. The rows at positions `j` of this
//! order are held out if `⌊(j + 1) · s / 2^32⌋ > ⌊j · s / 2^32⌋`, with `s = ⌈f · 2^32⌉`. So the number of held-out rows
//! follows from N and the fraction.
//!
//! With stratification, rows are sorted by class first, so each class contributes its share within one row. The
//! position of a row then depends on the classes of other rows. This is sound only if the class of every row is public,
//! including bad rows. Neighbouring data sets then differ in the other values of one row, and both have the same split.

/// Returns the number of held-out rows among `rows` rows.
pub fn held_out_rows(rows: u64, fraction: f64) -> u64 {
    let step = (fraction * 4_294_967_296.0).ceil() as u128;
    ((u128::from(rows) * step) >> 32) as u64
}

/// Returns one flag per row, true if the row is held out.
pub(crate) fn held_out(rows: usize, fraction: f64, seed: u64, classes: Option<&[i64]>) -> Vec<bool> {
    let state = mix(seed.wrapping_add(GAMMA));
    let number = |row: usize| mix(state.wrapping_add(GAMMA.wrapping_mul(row as u64 + 1)));
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by_cached_key(|row| (classes.map(|classes| classes[*row]), number(*row), *row));
    let mut held_out = vec![false; rows];
    for (place, row) in (0..).zip(order) {
        held_out[row] = held_out_rows(place + 1, fraction) > held_out_rows(place, fraction);
    }
    held_out
}

/// The increment of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns SplitMix64's output for a state (Steele, Lea and Flood, OOPSLA 2014).
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_splitmix64() {
        // The published outputs for seed 0.
        assert_eq!([1u64, 2].map(|n| mix(GAMMA.wrapping_mul(n))), [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn number_follows_from_rows_and_fraction() {
        for rows in [1, 2, 10, 999] {
            for fraction in [0.001, 0.1, 0.2, 0.5, 0.999] {
                for classes in [None, Some(vec![3; rows]), Some((0..rows as i64).map(|row| row % 7).collect())] {
                    let held = held_out(rows, fraction, 5, classes.as_deref());
                    let count = held.iter().filter(|held| **held).count() as u64;
                    assert_eq!(count, held_out_rows(rows as u64, fraction), "{rows} {fraction}");
                }
            }
        }
    }

    // The seed selects the rows, and every block gets its share.
    #[test]
    fn seed_changes_rows_and_blocks_are_even() {
        let held = held_out(10_000, 0.2, 0, None);
        assert_eq!(held, held_out(10_000, 0.2, 0, None));
        assert_ne!(held, held_out(10_000, 0.2, 1, None));
        for block in held.chunks(1000) {
            // The bounds are far beyond 8 standard deviations of 12.
            let count = block.iter().filter(|held| **held).count();
            assert!((100..300).contains(&count), "{count}");
        }
    }

    #[test]
    fn classes_give_their_part_each() {
        let classes: Vec<i64> = (0..1000).map(|row| i64::from(row % 10 == 0) + i64::from(row % 50 == 0)).collect();
        let held = held_out(1000, 0.25, 3, Some(&classes));
        for (class, part) in [(0, 225.0), (1, 20.0), (2, 5.0)] {
            let count = classes.iter().zip(&held).filter(|(of, held)| **of == class && **held).count();
            assert!((count as f64 - part).abs() <= 1.0, "{class}: {count}");
        }
    }
}
