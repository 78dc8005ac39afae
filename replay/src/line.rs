//! The lines of a replay.

use super::pack::Name;
use super::summary::Summary;
use core::fmt;

/// A value of a kernel that differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelValue {
    /// The index of the value, from 0.
    pub index: u32,
    /// The computed bits.
    pub found: u64,
    /// The recorded bits.
    pub recorded: u64,
}

/// A part of a run's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The parameters.
    Params,
    /// The filter's state.
    Filter,
    /// The optimizer's state.
    Optimizer,
    /// The clip or the range of the coming step.
    Threshold,
    /// The steps and the privacy cost that the ledger or the Rényi filter has counted, and whether it rejects a further
    /// step.
    Ledger,
    /// The bytes of updates.
    Update,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 6] =
        [Self::Params, Self::Filter, Self::Optimizer, Self::Threshold, Self::Ledger, Self::Update];

    /// The part's name, as printed in a line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Params => "params",
            Self::Filter => "filter",
            Self::Optimizer => "optimizer",
            Self::Threshold => "threshold",
            Self::Ledger => "ledger",
            Self::Update => "update",
        }
    }
}

/// A set of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts(u8);

impl Parts {
    pub(super) fn set(&mut self, part: Part, differs: bool) {
        self.0 |= u8::from(differs) << part as u8;
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains this part.
    #[must_use]
    pub fn contains(self, part: Part) -> bool {
        self.0 >> part as u8 & 1 == 1
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for part in Part::ALL {
            if self.contains(part) {
                f.write_str(comma)?;
                f.write_str(part.name())?;
                comma = ", ";
            }
        }
        Ok(())
    }
}

/// The location of a run's mismatch with its recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The last checkpoint without a difference, in steps.
    pub after: u32,
    /// The first checkpoint with a difference, in steps.
    pub by: u32,
    /// The parts that differ at that checkpoint.
    pub parts: Parts,
}

/// One line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The set that is played.
    Set {
        /// The set's name.
        name: Name,
        /// The version of the contract.
        contract: u32,
    },
    /// A kernel.
    Kernel {
        /// Name of the kernel.
        name: Name,
        /// Values compared.
        values: u32,
        /// The first value that differs.
        first: Option<KernelValue>,
    },
    /// A run.
    Run {
        /// Name of the run.
        name: Name,
        /// Number of steps.
        steps: u32,
        /// The digest of its final parameters, as computed here.
        params: u64,
        /// The mismatch.
        mismatch: Option<Mismatch>,
    },
    /// Rounds that emit updates.
    Updates {
        /// Their name.
        name: Name,
        /// Rounds.
        rounds: u32,
        /// The digest of all bytes, as computed here.
        bytes: u64,
        /// The mismatch.
        mismatch: Option<Mismatch>,
    },
    /// All groups were played.
    End(Summary),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { name, contract } => write!(f, "set {name}, contract {contract}"),
            Self::Kernel { name, values, first: None } => write!(f, "{name}: {values} values"),
            Self::Kernel { name, values, first: Some(KernelValue { index, found, recorded }) } => {
                write!(f, "{name}: DIFFERS: value {index} of {values} is {found:x} where {recorded:x} was recorded")
            }
            Self::Run { name, steps, params, mismatch } => {
                write!(f, "{name}: {steps} steps, params {params:016x}{}", Told(mismatch))
            }
            Self::Updates { name, rounds, bytes, mismatch } => {
                write!(f, "{name}: {rounds} rounds, bytes {bytes:016x}{}", Told(mismatch))
            }
            Self::End(Summary { groups, differ }) => {
                let plural = if *groups == 1 { "" } else { "s" };
                match differ {
                    0 => write!(f, "{groups} group{plural}, all the same"),
                    _ => write!(f, "{groups} group{plural}, {differ} DIFFER"),
                }
            }
        }
    }
}

/// The mismatch of a run, if any.
struct Told<'a>(&'a Option<Mismatch>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(Mismatch { after, by, parts }) => {
                write!(f, ", DIFFERS: the same after step {after}, not after step {by}: {parts}")
            }
        }
    }
}
