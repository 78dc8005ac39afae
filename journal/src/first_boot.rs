//! The owner's confirmation that a run begins.

/// The owner's confirmation that this run was not charged before. It is given in the factory, or by an action of the
/// device's owner.
///
/// Provisioning requires it, because a blank region has two possible causes: a device that never ran, and a device
/// whose flash was erased after it ran. In the second case a new ledger loses the charges. So a failure to open a
/// journal must not produce the token. It must come from another source: a button, a command of the production line, or
/// a build option.
///
/// ```
/// use damper_journal::FirstBoot;
///
/// /// Of a button, of the production line, or of a build option.
/// fn first_boot(button_is_held: bool) -> Option<FirstBoot> {
///     button_is_held.then(FirstBoot::confirmed_by_owner)
/// }
/// assert!(first_boot(false).is_none());
/// ```
#[derive(Debug)]
pub struct FirstBoot(());

impl FirstBoot {
    /// Confirms that this run was not charged before, and that its key is new.
    #[must_use]
    pub const fn confirmed_by_owner() -> Self {
        Self(())
    }
}
