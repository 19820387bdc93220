//! The messages of a mailbox as rows of an import.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use super::mail;
use super::mailbox::{Mailbox, RawMessage, RawMessageError};
use crate::importer::{ImportRow, ImportRows, ImportTarget, LocatedRow, UnusableRow};

/// The messages of a mailbox as rows.
pub(in crate::importers) struct MailboxRows<R> {
    /// The file, as a person reads it.
    pub(in crate::importers) file: Arc<str>,
    mailbox: Mailbox<R>,
    target: ImportTarget,
}

impl<R: BufRead> MailboxRows<R> {
    /// Reads a mailbox from its first byte.
    pub(in crate::importers) fn new(path: &Path, reader: R, target: &ImportTarget) -> Self {
        Self::named(path.display().to_string().into(), reader, target)
    }

    /// Reads a mailbox that a person knows by this name.
    pub(super) fn named(file: Arc<str>, reader: R, target: &ImportTarget) -> Self {
        Self { file, mailbox: Mailbox::new(reader), target: target.clone() }
    }
}

/// Returns the row of a message.
pub(in crate::importers) fn message_row(
    message: Result<Vec<u8>, RawMessageError>,
    target: &ImportTarget,
) -> Result<ImportRow, UnusableRow> {
    match message.map(|raw| mail::read(&raw, target)) {
        Ok(Ok(row)) => Ok(row),
        Ok(Err(bad)) => Err(UnusableRow::new(bad.code(), bad)),
        Err(bad) => Err(UnusableRow::new(bad.code(), bad)),
    }
}

impl<R: BufRead> ImportRows for MailboxRows<R> {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let Some(RawMessage { line, message }) = self.mailbox.next_message()? else {
            return Ok(None);
        };
        let row = message_row(message, &self.target);
        Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row }))
    }

    fn consumed(&self) -> u64 {
        self.mailbox.consumed()
    }
}
