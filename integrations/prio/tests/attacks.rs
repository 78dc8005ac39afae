//! Possible faults of gateways, aggregators and the network. All are rejected, and nothing is added.

#[path = "support/pair.rs"]
mod support;

use damper_core::update::{Header, Update};
use damper_prio::{InputShare, PrioError, Range, Report, Scheme, combine, shard};
use support::{Pair, update, update_of};

const SIGMA: u32 = 3000;

fn round() -> (Scheme, Vec<Report>) {
    let updates: Vec<_> = (1..=4).map(|device| update(device, 3, SIGMA)).collect();
    let header = *Update::parse(&updates[0]).unwrap().header();
    let scheme = Scheme::new(header, Range::fitting(header.expected_batch, header.grid_bits, SIGMA).unwrap()).unwrap();
    let reports = updates.iter().map(|bytes| shard(&scheme, bytes).unwrap()).collect();
    (scheme, reports)
}

// An update of another configuration or round, a damaged update and a sum are not reports.
#[test]
fn gateway_refuses_other_updates() {
    let (scheme, _) = round();
    for (bytes, field) in [
        (update(1, 4, SIGMA), "round"),
        (update(1, 3, SIGMA + 1), "noise"),
        (update_of(1, 3, SIGMA, 0.5, support::DIM), "clip"),
        (update_of(1, 3, SIGMA, 1.0, support::DIM + 1), "number of parameters"),
    ] {
        assert!(
            matches!(shard(&scheme, &bytes), Err(PrioError::Mixed { device: 1, field: found }) if found == field),
            "{field}"
        );
    }
    let good = update(1, 3, SIGMA);
    assert!(matches!(shard(&scheme, &good[..99]), Err(PrioError::Update(_))));
    // A range that is too small for the update.
    let header = *Update::parse(&good).unwrap().header();
    let small = Scheme::new(header, Range::new(8).unwrap()).unwrap();
    assert!(matches!(shard(&small, &good), Err(PrioError::OutOfRange { device: 1 })));
}

// A changed field element of the leader's share, in the update or its proof, breaks the proof.
#[test]
fn changed_shares_are_refused() {
    let (scheme, reports) = round();
    let len = reports[0].leader.0.len();
    for at in (0..len).step_by(len / 40) {
        let mut report = reports[0].clone();
        report.leader.0[at] ^= 1;
        assert!(Pair::new(&scheme).add(&report).is_err(), "byte {at}");
    }
    for at in 0..reports[0].helper.0.len() {
        let mut report = reports[0].clone();
        report.helper.0[at] ^= 0x10;
        assert!(Pair::new(&scheme).add(&report).is_err(), "byte {at}");
    }
    let other = Report { helper: reports[1].helper.clone(), ..reports[0].clone() };
    assert!(matches!(Pair::new(&scheme).add(&other), Err(PrioError::Refused { device: 1, .. })));
    let swapped = Report { leader: reports[0].helper.clone(), helper: reports[0].leader.clone(), ..reports[0].clone() };
    assert!(Pair::new(&scheme).add(&swapped).is_err());
    for cut in [0, 1, len / 2, len - 1] {
        let report = Report { leader: InputShare(reports[0].leader.0[..cut].to_vec()), ..reports[0].clone() };
        assert!(matches!(Pair::new(&scheme).add(&report), Err(PrioError::Encoding(_))), "{cut}");
    }
}

// A report is bound to its device, round, nonce and public share.
#[test]
fn report_is_bound_to_its_header() {
    let (scheme, reports) = round();
    let report = &reports[0];
    for header in [Header { device: 9, ..report.header }, Header { device: 0, ..report.header }] {
        let other = Report { header, ..report.clone() };
        assert!(matches!(Pair::new(&scheme).add(&other), Err(PrioError::Refused { .. })));
    }
    for header in [
        Header { round: 2, ..report.header },
        Header { run: 1, ..report.header },
        Header { clip: 2.0, ..report.header },
        Header { sigma: 1, ..report.header },
        Header { expected_batch: 1, ..report.header },
        Header { devices: 2, ..report.header },
    ] {
        let other = Report { header, ..report.clone() };
        assert!(matches!(Pair::new(&scheme).add(&other), Err(PrioError::Mixed { device: 1, .. })));
    }
    let mut other = report.clone();
    other.nonce[3] ^= 1;
    assert!(Pair::new(&scheme).add(&other).is_err());
    let mut other = report.clone();
    other.public_share[0] ^= 1;
    assert!(Pair::new(&scheme).add(&other).is_err());
}

// A changed or swapped message of the other aggregator breaks the verification.
#[test]
fn changed_messages_are_refused() {
    let (scheme, reports) = round();
    for change in 0..4 {
        let [leader, helper] = Pair::new(&scheme).begin(&reports[0]).unwrap();
        let mut messages = [leader.message().to_vec(), helper.message().to_vec()];
        match change {
            0 => messages[1][0] ^= 1,
            1 => messages.swap(0, 1),
            2 => messages[1].truncate(5),
            _ => messages[0] = vec![],
        }
        for aggregator in [leader, helper] {
            assert!(aggregator.finish([&messages[0], &messages[1]]).is_err(), "{change}");
        }
    }
}

// Shares of other cohorts, of one aggregator, or with damage do not give a sum.
#[test]
fn sums_need_one_cohort_of_both() {
    let (scheme, reports) = round();
    let shares = |count: usize| {
        let mut pair = Pair::new(&scheme);
        reports[..count].iter().for_each(|report| pair.add(report).unwrap());
        pair.shares()
    };
    let ([leader, helper], [_, other]) = (shares(3), shares(2));
    assert!(combine(&scheme, 3, [&leader, &helper]).is_ok());
    for wrong in [[&leader[..], &other], [&leader, &leader], [&leader, &helper[1..]], [&[], &helper]] {
        assert!(combine(&scheme, 3, wrong).is_err());
    }
}

// The aggregators must have one key.
#[test]
fn other_verify_key_is_refused() {
    let (scheme, reports) = round();
    let mut pair = Pair::new(&scheme);
    pair.keys[1] = [8; 32];
    assert!(pair.add(&reports[0]).is_err());
}
