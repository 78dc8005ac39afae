//! Comparison of a kernel's values with the recorded values.

use super::line::KernelValue;

/// The result of the comparison of one kernel.
#[derive(Default)]
pub(super) struct Compared {
    /// Values compared.
    pub(super) values: u32,
    /// The first value that differs.
    pub(super) first: Option<KernelValue>,
}

impl Compared {
    #[inline(never)]
    pub(super) fn value(&mut self, found: u64, recorded: u64) {
        if found != recorded && self.first.is_none() {
            self.first = Some(KernelValue { index: self.values, found, recorded });
        }
        self.values = self.values.saturating_add(1);
    }

    #[inline(never)]
    pub(super) fn float(&mut self, found: f32, recorded: u32) {
        self.value(u64::from(found.to_bits()), u64::from(recorded));
    }
}
