//! Steps of secure aggregation, with both aggregators in one process and without state.

#[path = "support/pair.rs"]
mod support;

use damper_accounting::{Accountant, NoiseShares, SharedRounds, tail};
use damper_core::accounting::Rate;
use damper_core::update::{Header, PayloadWord, Update};
use damper_prio::{Range, Scheme, shard};
use support::{BITS, DIM, Pair, SAMPLES, of_board, plain_sum, update, update_of};

/// Returns the scheme of an update's round.
fn scheme(bytes: &[u8]) -> Scheme {
    let header = *Update::parse(bytes).unwrap().header();
    let range = Range::fitting(header.expected_batch, header.grid_bits, header.sigma).unwrap();
    Scheme::new(header, range).unwrap()
}

// Two aggregators give the sum of the updates exactly, in the format of damper's own sums.
#[test]
fn sum_equals_plain_sum() {
    let updates: Vec<_> = (1..=5).map(|device| update(device, 3, 3000)).collect();
    let scheme = scheme(&updates[0]);
    let mut pair = Pair::new(&scheme);
    updates.iter().for_each(|bytes| pair.add(&shard(&scheme, bytes).unwrap()).unwrap());
    let bytes = pair.sum().unwrap();
    let sum = Update::parse(&bytes).unwrap();
    assert!(sum.units().eq(plain_sum(&updates)));
    let of_device = *Update::parse(&updates[0]).unwrap().header();
    assert_eq!((sum.word(), *sum.header()), (PayloadWord::Sum, Header { device: 0, devices: 5, ..of_device }));
}

// A gateway shards an update that a board emitted under QEMU, together with another device of the round.
#[test]
fn board_update_is_aggregated() {
    let board = of_board();
    let header = *Update::parse(&board).unwrap().header();
    assert_eq!((header.dim, header.expected_batch), (650, 100));
    let scheme = scheme(&board);
    let mut pair = Pair::new(&scheme);
    let report = shard(&scheme, &board).unwrap();
    pair.add(&report).unwrap();
    let bytes = pair.sum().unwrap();
    assert!(Update::parse(&bytes).unwrap().units().eq(plain_sum(&[board])));
    // Bytes that the gateway sends.
    let (bits, len) = (24, 650);
    let estimate = 16 * len * bits;
    let leader = report.leader_bytes();
    println!(
        "{len} integers of {bits} bits: {leader} bytes to the leader (16 x length x bits is {estimate}), {} to the helper, {} in clear",
        report.helper_bytes(),
        4 * len + 68
    );
    assert!(leader > estimate && leader < estimate + estimate / 10, "{leader}");
    assert!(report.helper_bytes() < 400);
}

// One share alone reveals nothing about the update: the leader's shares of two reports of one update differ almost
// everywhere.
#[test]
fn shares_alone_are_fresh_randomness() {
    let bytes = update(1, 0, 3000);
    let scheme = scheme(&bytes);
    let [a, b] = [0, 1].map(|_| shard(&scheme, &bytes).unwrap());
    let equal = a.leader.0.iter().zip(&b.leader.0).filter(|(a, b)| a == b).count();
    assert!(equal < a.leader.0.len() / 64, "{equal} of {}", a.leader.0.len());
    assert_ne!(a.nonce, b.nonce);
    assert_ne!(a.helper, b.helper);
}

// Six devices share the noise, and two drop out. The sum has the noise that is accounted for with four. The difference
// from the sum without noise has about the standard deviation of four shares.
#[test]
fn shares_of_noise_survive_dropouts() {
    const LEN: usize = 300;
    let share = 20_000u32;
    let updates: Vec<_> = (1..=6).map(|device| update_of(device, 0, share, 1.0, LEN)).collect();
    let quiet: Vec<_> = (1..=6).map(|device| update_of(device, 0, 1, 1.0, LEN)).collect();
    let scheme = scheme(&updates[0]);
    let mut pair = Pair::new(&scheme);
    for present in [0, 2, 3, 5] {
        pair.add(&shard(&scheme, &updates[present]).unwrap()).unwrap();
    }
    let bytes = pair.sum().unwrap();
    let sum = Update::parse(&bytes).unwrap();
    let without = plain_sum(&[0, 2, 3, 5].map(|at| quiet[at].clone()));
    let square: f64 = sum.units().zip(without).map(|(noisy, plain)| ((noisy - plain) as f64).powi(2)).sum();
    let deviation = (square / LEN as f64).sqrt();
    let noise = NoiseShares::new(share, 4).unwrap();
    assert!((deviation / noise.sigma() - 1.0).abs() < 0.2, "{deviation} {}", noise.sigma());
    let run = SharedRounds {
        accountant: Accountant::Pld,
        rate: Rate::of(1, 10).unwrap(),
        rounds: 100,
        dim: LEN as u64,
        grid_bits: BITS,
        out_of_range: tail(12.0) * 6.0 * 100.0 * LEN as f64,
    };
    let of = |shares| NoiseShares::new(share, shares).unwrap().epsilon(&run, 1e-5).unwrap().epsilon;
    assert!(of(4) > of(6) && of(4).is_finite());
}

#[test]
fn lengths_and_ranges_of_a_round_fit() {
    assert!(Range::fitting(SAMPLES, BITS, 3000).unwrap().bits() < 21);
    let header = *Update::parse(&update(1, 0, 3000)).unwrap().header();
    assert_eq!(header.dim as usize, DIM);
    assert!(Scheme::new(Header { dim: 0, ..header }, Range::new(20).unwrap()).is_err());
}
