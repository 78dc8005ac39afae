//! Tests of replay: the sets print the expected text of every target on this machine, and any other content of a pack
//! is reported.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

use damper_access::Unreleased;
use damper_core::noise::NoiseWord;
use damper_core::numerics::digest::Digest;
use damper_core::private::SumWord;
use damper_replay::{
    BASE, BASE_SAID, FURTHER, FURTHER_SAID, Memory, MemoryPart, PackError, ReplayError, Source, Summary, TruncatedPack,
    WIDE, WIDE_SAID, play, play_base, play_independent,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::ops::Range;
use std::sync::LazyLock;

/// The length of a pack's header, up to its first group.
const HEAD: usize = 12 + 1 + 4;
/// The length of its end: the end mark, and the digest.
const END: usize = 1 + 8;

fn said(pack: &[u8], floats: usize) -> (Result<Summary, ReplayError<TruncatedPack>>, String) {
    let mut floats = vec![7.0; floats];
    let (mut narrow, mut wide) =
        (vec![SumWord::new(7, Unreleased::claim()); 2_060], vec![SumWord::new(7, Unreleased::claim()); 40]);
    let mut float_sums = vec![SumWord::new(7.0, Unreleased::claim()); 2_060];
    let mut noise: Vec<_> = (0..40).map(|_| NoiseWord::ZERO).collect();
    let (float_sums, noise) = (&mut float_sums[..], &mut noise[..]);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
    let mut said = String::new();
    let played = play(&mut &pack[..], memory, |line| said += &format!("{line}\n"));
    (played, said)
}

/// The base set, and the number of bytes that were read.
struct Watched<'a> {
    rest: &'a [u8],
    read: &'a Cell<usize>,
}

impl Source for Watched<'_> {
    type Error = TruncatedPack;

    fn read(&mut self, out: &mut [u8]) -> Result<(), TruncatedPack> {
        self.read.set(self.read.get() + out.len());
        self.rest.read(out)
    }
}

/// The name and the bytes of each group of the base set and of the further set.
static GROUPS: LazyLock<Vec<(String, &[u8])>> = LazyLock::new(|| {
    let (mut floats, mut narrow, mut wide, mut float_sums) =
        ([0.0; 256], [SumWord::ZERO; 40], [SumWord::ZERO; 40], [SumWord::ZERO; 40]);
    let mut groups = Vec::new();
    for (pack, head) in [(BASE, HEAD), (FURTHER, HEAD + 3)] {
        let (float_sums, noise) = (&mut float_sums[..], &mut []);
        let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
        let read = Cell::new(0);
        let mut start = 0;
        let mut found: Vec<(String, Range<usize>)> = Vec::new();
        play(&mut Watched { rest: pack, read: &read }, memory, |line| {
            if let Some((name, _)) = line.to_string().split_once(": ") {
                found.push((name.to_owned(), start..read.get()));
            }
            start = read.get();
        })
        .unwrap();
        assert_eq!((found[0].1.start, found.last().unwrap().1.end), (head, pack.len() - END));
        groups.extend(found.into_iter().map(|(name, at)| (name, &pack[at])));
    }
    groups
});

/// The bytes of a group of the base set or of the further set.
fn group(name: &str) -> Vec<u8> {
    let (_, bytes) = GROUPS.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no group {name}"));
    bytes.to_vec()
}

/// A pack of these groups, with its digest.
fn packed(groups: &[Vec<u8>]) -> Vec<u8> {
    let mut pack = BASE[..HEAD].to_vec();
    pack.extend(groups.concat());
    pack.push(0);
    let mut digest = Digest::default();
    digest.add_bytes(&pack);
    pack.extend(digest.value().to_le_bytes());
    pack
}

// This machine prints what every target must print.
#[test]
fn output_matches_every_target() {
    for (pack, expected, floats) in [(BASE, BASE_SAID, 256), (FURTHER, FURTHER_SAID, 256), (WIDE, WIDE_SAID, 10_300)] {
        let (played, said) = said(pack, floats);
        assert_eq!(played.unwrap().differ, 0, "{said}");
        assert_eq!(said, expected);
    }
}

// The sets run every method for 200 steps under every mechanism.
#[test]
fn sets_cover_every_method_and_mechanism() {
    let methods = "dp-sgd doppler dp-pmlf inner-outer disk disk-two-points dc-sgd-p dc-sgd-e-grid dc-sgd-e-exact quantile adp \
        automatic per-layer momentum nesterov adam adamw adam-bc adagrad rmsprop adagrad-norm";
    for method in methods.split_ascii_whitespace() {
        for mechanism in ["i32", "i64", "f32"] {
            let line = format!("\n{method} {mechanism}: 200 steps, params ");
            assert!(BASE_SAID.contains(&line), "{line}");
            assert!(mechanism == "i64" || WIDE_SAID.contains(&line), "{line}");
        }
    }
}

// A program for the base set rejects the groups of other sets.
#[test]
fn base_player_rejects_other_groups() {
    let (mut floats, mut narrow, mut wide, mut float_sums) =
        ([0.0; 256], [SumWord::ZERO; 40], [SumWord::ZERO; 40], [SumWord::ZERO; 40]);
    let mut played = |pack: &[u8]| {
        let (float_sums, noise) = (&mut float_sums[..], &mut []);
        let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
        let mut said = String::new();
        let played = play_base(&mut &pack[..], memory, |line| said += &format!("{line}\n"));
        (played, said)
    };
    let (summary, said) = played(BASE);
    assert_eq!((summary.unwrap().differ, said.as_str()), (0, BASE_SAID));
    for name in ["xoshiro 1/0/0", "coordinates left", "ledger 9 by 1", "filter 8", "renyi-filter i32", "updates"] {
        assert_eq!(
            played(&packed(&[group(name)])).0,
            Err(ReplayError::Pack(PackError::Field("kind of group"))),
            "{name}"
        );
    }
    let elsewhere = played(&packed(&[group("clipped-elsewhere f32")])).0;
    assert_eq!(elsewhere, Err(ReplayError::Pack(PackError::Field("kind of samples"))));
    let correlated = played(&packed(&[correlated([2, 2], 0, &[15, 4])])).0;
    assert_eq!(correlated, Err(ReplayError::Pack(PackError::Field("kind of mechanism"))));
}

const WHOLE: &str = "whole-steps i32";
/// Offset of the mechanism in this group, in bytes.
const MECHANISM: usize = 1 + 1 + WHOLE.len() + 4 + 4 + 2 + 9 + 4;

/// The run of four whole steps on five parameters, with correlated noise.
fn correlated(pattern: [u32; 2], kind: u8, units: &[u32]) -> Vec<u8> {
    let mut run = group(WHOLE);
    run[MECHANISM] = 3;
    let mut described: Vec<u8> = pattern.iter().flat_map(|steps| steps.to_le_bytes()).collect();
    described.push(kind);
    described.extend((units.len() as u16).to_le_bytes());
    described.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    run.splice(MECHANISM + 6..MECHANISM + 6, described);
    run
}

const ONE: u32 = 1 << 30;
const HALF: u32 = 1 << 29;

// The first step has no earlier noise, so its noise is that of an independent run.
#[test]
fn correlated_run_parts_after_first_step() {
    for (kind, units) in [(0, &[15, 4][..]), (1, &[HALF, HALF / 2]), (2, &[ONE, HALF])] {
        let (played, said) = said(&packed(&[correlated([2, 2], kind, units)]), 256);
        assert_eq!(played.unwrap(), Summary { groups: 1, differ: 1 });
        assert!(said.contains("DIFFERS: the same after step 1, not after step 2: params"), "{said}");
    }
}

#[test]
fn broken_correlation_is_refused() {
    let refused = |run: Vec<u8>| match said(&packed(&[run]), 256).0 {
        Err(ReplayError::Pack(error)) => error,
        other => panic!("{other:?}"),
    };
    for (pattern, kind, units) in [
        ([0, 2], 0, &[15, 4][..]),
        ([2, 0], 0, &[15, 4]),
        ([2, 2], 0, &[16, 4]),
        ([2, 2], 0, &[15]),
        ([2, 2], 1, &[HALF, HALF + 1]),
        ([2, 2], 1, &[HALF]),
        ([2, 2], 2, &[ONE, HALF, HALF + 1]),
        ([2, 2], 2, &[HALF, 1]),
        ([2, 2], 3, &[15, 4]),
    ] {
        let error = refused(correlated(pattern, kind, units));
        assert!(matches!(error, PackError::Config(_)), "{kind} {units:?}: {error}");
    }
    assert_eq!(refused(correlated([2, 2], 2, &[ONE; 257])), PackError::Field("number of coefficients"));
    // Nine buffers of five parameters, but the tests lend forty words.
    let memory = PackError::Memory { of: MemoryPart::Noise, needed: 45, got: 40 };
    assert_eq!(refused(correlated([2, 2], 2, &[ONE; 10])), memory);
    // A single step has no privacy cost that a filter could charge.
    let mut charged = correlated([2, 2], 0, &[15, 4]);
    charged[0] = 17;
    let filter = [&8u32.to_le_bytes()[..], &3f64.to_le_bytes(), &1e-5f64.to_le_bytes(), &(1u64 << 50).to_le_bytes()];
    charged.splice(2 + WHOLE.len()..2 + WHOLE.len(), filter.concat());
    assert!(matches!(refused(charged), PackError::Config(_)));
}

// The player of independent noise plays all groups of the further set, and no correlated noise.
#[test]
fn independent_player_refuses_correlation() {
    let played = |pack: &[u8]| {
        let (mut floats, mut narrow, mut wide, mut float_sums) =
            ([0.0; 256], [SumWord::ZERO; 40], [SumWord::ZERO; 40], [SumWord::ZERO; 40]);
        let (float_sums, noise) = (&mut float_sums[..], &mut []);
        let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
        let mut said = String::new();
        (play_independent(&mut &pack[..], memory, |line| said += &format!("{line}\n")), said)
    };
    let (further, said) = played(FURTHER);
    assert_eq!((further.unwrap().differ, &said[..]), (0, FURTHER_SAID));
    let refused = played(&packed(&[correlated([2, 2], 0, &[15, 4])])).0;
    assert_eq!(refused, Err(ReplayError::Pack(PackError::Field("kind of mechanism"))));
}

#[test]
fn truncated_correlation_is_error() {
    let pack = packed(&[correlated([2, 2], 1, &[HALF, HALF / 2])]);
    for len in HEAD..pack.len() {
        assert_eq!(said(&pack[..len], 256).0, Err(ReplayError::Source(TruncatedPack)), "{len} bytes");
    }
}

// Groups outside the base set report their mismatches, too.
#[test]
fn other_sets_report_mismatches() {
    for (name, back, told) in [
        ("renyi-filter i32", 1, "DIFFERS: the same after step 230, not after step 233: ledger"),
        ("renyi-filter i32", 6, "DIFFERS: the same after step 230, not after step 233: params"),
        ("updates", 1, "DIFFERS: the same after step 190, not after step 200: update"),
        ("updates", 5, "DIFFERS: the same after step 180, not after step 190: update"),
        ("clipped-elsewhere f32", 1, "DIFFERS: the same after step 190, not after step 200: threshold"),
        ("filter 8", 1, "DIFFERS: value 48 of 49 is "),
        ("filter 8", 9, "DIFFERS: value 47 of 49 is "),
        ("ledger 9 by 1", 1, "DIFFERS: value 33 of 34 is "),
        ("coordinates left", 1, "DIFFERS: value 41 of 42 is "),
    ] {
        let mut changed = group(name);
        let at = changed.len() - back;
        changed[at] ^= 1;
        let (played, said) = said(&packed(&[changed]), 256);
        assert_eq!(played.unwrap(), Summary { groups: 1, differ: 1 }, "{name}");
        assert!(said.contains(told), "{said}");
    }
}

/// With another budget the filter ends earlier or later, or takes other steps near its end.
#[test]
fn a_filter_that_ends_elsewhere_is_told() {
    let run = group("renyi-filter i32");
    let epsilon = 1 + 1 + "renyi-filter i32".len() + 4;
    for (to, told) in
        [(1.90625f64, "not after step 230: "), (2.5, "not after step 230: "), (1.8, "not after step 180: ")]
    {
        let mut changed = run.clone();
        changed[epsilon..epsilon + 8].copy_from_slice(&to.to_le_bytes());
        let (_, said) = said(&packed(&[changed]), 256);
        assert!(said.contains(told) && said.contains("ledger\n"), "{said}");
    }
}

// A mismatch shows its run, its steps and the part that differs.
#[test]
fn mismatch_shows_run_steps_and_part() {
    let run = group("disk-adamw-dc-sgd-e i32");
    // Its checkpoints are ten bytes: parameters, filter, optimizer, threshold.
    for (back, told) in [
        (10, "the same after step 190, not after step 200: params"),
        (6, "the same after step 190, not after step 200: filter"),
        (4, "the same after step 190, not after step 200: optimizer"),
        (1, "the same after step 190, not after step 200: threshold"),
        (16, "the same after step 180, not after step 190: filter"),
        (200, "the same after step 0, not after step 10: params"),
    ] {
        let mut changed = run.clone();
        let at = changed.len() - back;
        changed[at] ^= 1;
        let (played, said) = said(&packed(&[run.clone(), changed]), 256);
        assert_eq!(played.unwrap(), Summary { groups: 2, differ: 1 });
        let lines: Vec<&str> = said.lines().collect();
        assert!(!lines[1].contains("DIFFERS"), "{said}");
        assert!(lines[2].starts_with("disk-adamw-dc-sgd-e i32: 200 steps, params "), "{said}");
        assert!(lines[2].ends_with(&format!(", DIFFERS: {told}")), "{said}");
        assert_eq!(lines[3], "2 groups, 1 DIFFER");
    }
    // Another seed differs at once, in all parts.
    let mut other = run.clone();
    let seed = 1 + 1 + "disk-adamw-dc-sgd-e i32".len() + 4 + 4 + 2 + 1;
    other[seed] ^= 1;
    let (played, said) = said(&packed(&[other]), 256);
    assert_eq!(played.unwrap().differ, 1);
    assert!(said.contains("not after step 10: params, filter, optimizer, threshold\n"), "{said}");
}

// A mismatch in a function check shows its value.
#[test]
fn function_check_mismatch_shows_value() {
    let mut words = group("words 1/0/0");
    let third = words.len() - 4 * 24 + 2 * 4;
    words[third] ^= 0x0f;
    let (played, said) = said(&packed(&[words]), 0);
    assert_eq!(played.unwrap().differ, 1);
    assert_eq!(
        said.lines().nth(1).unwrap(),
        "words 1/0/0: DIFFERS: value 2 of 24 is 43c507ed where 43c507e2 was recorded"
    );
}

#[test]
fn a_key_that_is_given_whole_is_the_key() {
    let simulation = group("whole-steps i32");
    let at = MECHANISM - 4 - 9;
    let mut private = simulation[..at].to_vec();
    private.push(2);
    private.extend(&simulation[at + 1..at + 9]);
    private.extend(b" damper: not private key");
    private.extend(&simulation[at + 9..]);
    assert_eq!(simulation[at], 1);
    let (played, said) = said(&packed(&[simulation, private]), 256);
    assert_eq!(played.unwrap(), Summary { groups: 2, differ: 0 }, "{said}");
}

// An invalid pack, or one of another contract, is an error.
#[test]
fn invalid_or_foreign_pack_is_error() {
    let with = |at: usize, byte: u8| {
        let mut pack = BASE.to_vec();
        pack[at] = byte;
        said(&pack, 256).0.unwrap_err()
    };
    assert_eq!(with(0, b'd'), ReplayError::Pack(PackError::NotAPack));
    assert_eq!(with(6, 200), ReplayError::Pack(PackError::NotAPack));
    assert_eq!(with(8, 77), ReplayError::Pack(PackError::Contract(77)));
    assert_eq!(with(BASE.len() - 1, BASE[BASE.len() - 1] ^ 1), ReplayError::Pack(PackError::Damaged));
    assert_eq!(said(&[], 256).0, Err(ReplayError::Source(TruncatedPack)));
}

/// Also in the pack's name, and in the name of its first group.
#[test]
fn truncated_header_is_error() {
    for len in 0..HEAD + 16 {
        let (played, said) = said(&BASE[..len], 256);
        assert_eq!(played, Err(ReplayError::Source(TruncatedPack)), "{len} bytes");
        assert_eq!(said, if len < HEAD { "" } else { "set base, contract 3\n" }, "{len} bytes");
    }
}

#[test]
fn too_little_memory_is_told() {
    assert!(matches!(said(BASE, 100).0, Err(ReplayError::Pack(PackError::Memory { .. }))));
    let (narrow, wide, float_sums, noise) = (&mut [], &mut [], &mut [], &mut []);
    let memory = Memory { floats: &mut [0.0; 256], narrow, wide, float_sums, noise };
    let played = play(&mut &BASE[..], memory, |_| {});
    assert!(matches!(played, Err(ReplayError::Pack(PackError::Memory { .. }))), "{played:?}");
}

fn is_played(pack: &[u8]) -> bool {
    matches!(said(pack, 256).0, Ok(Summary { differ: 0, .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_pack_that_is_cut_is_refused(len in 0..BASE.len()) {
        let (played, said) = said(&BASE[..len], 256);
        prop_assert_eq!(played, Err(ReplayError::Source(TruncatedPack)));
        prop_assert!(BASE_SAID.starts_with(&said));
    }

    #[test]
    fn a_changed_byte_is_found(at in 0..BASE.len(), by in 1u8..) {
        let mut pack = BASE.to_vec();
        pack[at] ^= by;
        prop_assert!(!is_played(&pack));
    }

    /// Damage that the digest at the end does not detect.
    #[test]
    fn changed_group_plays_or_is_error(
        which in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let found = GROUPS.get(which.index(GROUPS.len() + 1));
        let mut bytes = found.map_or_else(|| correlated([2, 2], 2, &[ONE, HALF]), |(_, bytes)| bytes.to_vec());
        // Most of the relevant bytes are at the beginning.
        let early = bytes.len().min(120);
        for (at, byte) in changes {
            bytes[at.index(early)] = byte;
        }
        let _played_or_refused = said(&packed(&[bytes]), 256);
    }

    #[test]
    fn bytes_that_mean_nothing_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut pack = BASE[..HEAD].to_vec();
        pack.push(16);
        pack.push(0);
        pack.extend(&bytes);
        prop_assert!(!is_played(&pack));
        prop_assert!(!is_played(&bytes));
    }
}
