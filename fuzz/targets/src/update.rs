//! Updates of devices, as they come over the air.

use damper_core::update::{PayloadWord, Update};

/// An update is refused, or all of its words can be read and its header writes the same bytes.
pub fn update(bytes: &[u8]) {
    if let Ok(update) = Update::parse(bytes) {
        let header = update.header().bytes(update.word());
        assert_eq!(header, bytes[..header.len()]);
        let units = update.units();
        let mut count = 0usize;
        for unit in units {
            count += 1;
            assert!(update.word() == PayloadWord::Sum || i32::try_from(unit).is_ok());
        }
        assert!(count * update.word().bytes() <= bytes.len());
        assert!(update.header().multiplier() > 0.0);
    }
}
