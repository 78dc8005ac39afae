//! The owner's word that a run begins.

/// The owner's word that nothing was charged to this run before: in the factory, or by an act of whoever owns the device.
///
/// Provisioning takes it, because a blank region tells two cases that look the same: a device that never ran, and one whose flash was
/// erased after it ran. In the second case a new ledger forgets what was charged. So the token must not come from the failure to open
/// a journal, but from elsewhere: a button, a command of the production line, an option of the build.
#[derive(Debug)]
pub struct FirstBoot(());

impl FirstBoot {
    /// Nothing was charged to this run before, and its key is new.
    #[must_use]
    pub const fn confirmed_by_owner() -> Self {
        Self(())
    }
}
