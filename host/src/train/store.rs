//! The ledger's file: what was paid, durable before anything is released.

use crate::files::{Access, FileError, write};
use damper_core::accounting::{Record, Store};
use std::path::PathBuf;

/// Keeps the record in one private file, replaced atomically and synced.
pub(super) struct LedgerFile {
    path: PathBuf,
}

impl LedgerFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Store for LedgerFile {
    type Error = FileError;

    fn persist(&mut self, record: Record) -> Result<(), FileError> {
        let Record { budget, paid, divergence, order } = record;
        // Printed so that it reads back as the same number.
        let text = format!("{{\"budget\":{budget},\"paid\":{paid},\"divergence\":{divergence},\"order\":{order}}}\n");
        write(&self.path, text.as_bytes(), Access::Private)
    }
}
