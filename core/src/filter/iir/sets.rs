//! Published filters, by their names in the papers' tables.

/// A published filter.
///
/// ```
/// use damper_core::filter::{SETS, Set};
///
/// let Set { name, a, b, source } = SETS[1];
/// assert_eq!((name, a, b, source), ("momentum", &[-0.9][..], &[0.1][..], "DOPPLER, Table 2"));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Set {
    /// Name of the set: `momentum`, `d2`, `f6`, `p7`.
    pub name: &'static str,
    /// `a_1, a_2, …`, without the leading 1.
    pub a: &'static [f32],
    /// `b_0, b_1, …`
    pub b: &'static [f32],
    /// Table of the paper.
    pub source: &'static str,
}

const T2: &str = "DOPPLER, Table 2";
const T4: &str = "DOPPLER, Table 4";
const PM: &str = "DP-PMLF, Table 4";

/// Every filter in the tables of DOPPLER (the orders of Table 2: SGD, momentum, first and second order, and f1–f6) and
/// of DP-PMLF (p0–p7). All have a DC gain of 1. `p0 = sgd`, `p4 = momentum`, `p2 = f4`.
pub const SETS: &[Set] = &[
    Set { name: "sgd", a: &[], b: &[1.0], source: T2 },
    Set { name: "momentum", a: &[-0.9], b: &[0.1], source: T2 },
    Set { name: "d1v1", a: &[-9.0 / 11.0], b: &[1.0 / 11.0, 1.0 / 11.0], source: T2 },
    Set { name: "d1v2", a: &[-9.0 / 11.0], b: &[3.0 / 11.0, -1.0 / 11.0], source: T2 },
    Set { name: "d2", a: &[-92.0 / 58.0, 38.0 / 58.0], b: &[1.0 / 58.0, 2.0 / 58.0, 1.0 / 58.0], source: T2 },
    Set { name: "f1", a: &[-0.9], b: &[0.075, 0.025], source: T4 },
    Set { name: "f2", a: &[-0.9], b: &[0.025, 0.075], source: T4 },
    Set { name: "f3", a: &[-0.8], b: &[0.1, 0.1], source: T4 },
    Set { name: "f4", a: &[-0.6], b: &[0.2, 0.2], source: T4 },
    Set { name: "f5", a: &[-0.9], b: &[0.025, 0.05, 0.025], source: T4 },
    Set { name: "f6", a: &[-1.8, 0.85], b: &[0.025, 0.025], source: T4 },
    Set { name: "p0", a: &[], b: &[1.0], source: PM },
    Set { name: "p1", a: &[-0.6], b: &[0.4], source: PM },
    Set { name: "p2", a: &[-0.6], b: &[0.2, 0.2], source: PM },
    Set { name: "p3", a: &[-0.6], b: &[0.5, -0.1], source: PM },
    Set { name: "p4", a: &[-0.9], b: &[0.1], source: PM },
    Set { name: "p5", a: &[-0.9], b: &[0.05, 0.05], source: PM },
    Set { name: "p6", a: &[-0.9], b: &[0.15, -0.05], source: PM },
    Set { name: "p7", a: &[-0.7, -0.2], b: &[0.05, 0.05], source: PM },
];

/// Returns the filter of that name, in any case. `identity` is `sgd`.
///
/// ```
/// use damper_core::filter::named;
///
/// assert_eq!(named("P4").map(|set| set.source), Some("DP-PMLF, Table 4"));
/// assert!(named("butterworth").is_none());
/// ```
#[must_use]
pub fn named(name: &str) -> Option<&'static Set> {
    let name = if name.eq_ignore_ascii_case("identity") { "sgd" } else { name };
    SETS.iter().find(|set| set.name.eq_ignore_ascii_case(name))
}
