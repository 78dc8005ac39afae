//! Errors of an aggregator. They are sent as a number, so that no party shows another party's text.

use std::fmt;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $text:literal,)*) => {
        /// Reason why an aggregator rejects a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
        }

        impl Refusal {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$name,)*];

            pub(crate) fn number(self) -> u8 {
                match self { $(Self::$name => $number,)* }
            }

            pub(crate) fn of_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }

        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

refusals! {
    /// The bytes are not a message.
    Malformed = 1: "not a message of this protocol; use the same version of damper-prio everywhere",
    /// The certificate does not permit this request.
    Certificate = 2: "the certificate may not do this; use that of the party whose part it is",
    /// The plan is another.
    Plan = 3: "it has another plan; give all parties one file",
    /// The plan does not have the round.
    Round = 4: "the plan has no such round; rounds are counted from 0",
    /// The plan does not have the device.
    Member = 5: "the plan has no such member; ask for the plan in which it is",
    /// The signature is not the member's, for this plan, round, request and report.
    Signature = 6: "not signed by the member for this plan, round and request; sign with the member's own key",
    /// The share differs from the signed share.
    Share = 7: "the share is not the one that is signed; send the report as it was kept",
    /// The round is closed.
    Passed = 8: "the round is closed, and nothing is added to it; take part in the next one",
    /// The member has another report.
    Counted = 9: "the member has sent another report for this round or a later one; it counts once a round",
    /// The proof of the report does not hold.
    Proof = 10: "its proof does not hold, so the report is left out of this round",
    /// The round has another verify key: one of the aggregators has lost its folder.
    Key = 11: "the two aggregators have different keys for this round, so one of them has lost its folder; the round cannot be summed, start the next one",
    /// The aggregator does not have the report.
    Unknown = 12: "the other aggregator does not have this report; send it there again",
    /// The cohort differs from the fixed cohort.
    Cohort = 13: "the round's devices are fixed, and these are others; a round is summed once",
    /// Too few devices.
    Small = 14: "fewer verified reports of this request than the plan's smallest cohort, so nothing is released; wait for more devices",
    /// A report in the cohort is not verified.
    Unverified = 15: "the other aggregator has not verified all of these reports; collect again",
    /// The round has another request.
    Request = 16: "the round's devices are fixed for other parameters; give those of the round",
    /// The other aggregator does not answer.
    Peer = 17: "the other aggregator does not answer; start it and collect again",
    /// The disk fails.
    Disk = 18: "it cannot write its folder, so it does nothing; see to its disk and start it again",
    /// The cohort of the round is not fixed.
    Open = 19: "the round's devices are not fixed yet; ask the leader first",
    /// The limit on connections is reached.
    Busy = 20: "it has as many connections as it keeps, of this certificate or in all; try again",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::of_number(refusal.number()), Some(*refusal));
        }
        assert_eq!((Refusal::of_number(0), Refusal::of_number(200)), (None, None));
    }
}
