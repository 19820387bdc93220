//! The messages of a mailbox as rows of an import.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use super::mail;
use super::mailbox::{Mailbox, RawMessage, RawMessageError};
use super::threads::Threads;
use crate::importer::{ImportRow, ImportRows, ImportTarget, LocatedRow, UnusableRow};

/// The messages of a mailbox as rows.
pub(in crate::importers) struct MailboxRows<R> {
    /// The file, as a person reads it.
    pub(in crate::importers) file: Arc<str>,
    mailbox: Mailbox<R>,
    target: ImportTarget,
    threads: Threads,
}

impl<R: BufRead> MailboxRows<R> {
    /// Reads a mailbox from its first byte.
    pub(in crate::importers) fn new(path: &Path, reader: R, target: &ImportTarget) -> Self {
        Self::named(path.display().to_string().into(), reader, (target, &Threads::default()))
    }

    /// Reads a mailbox that a person knows by this name.
    pub(in crate::importers) fn named(
        file: Arc<str>,
        reader: R,
        (target, threads): (&ImportTarget, &Threads),
    ) -> Self {
        let (target, threads) = (target.clone(), threads.clone());
        Self { file, mailbox: Mailbox::new(reader), target, threads }
    }
}

/// Returns the row of a message.
pub(in crate::importers) fn message_row(
    message: Result<Vec<u8>, RawMessageError>,
    (target, threads): (&ImportTarget, &Threads),
) -> Result<ImportRow, UnusableRow> {
    match message.map(|raw| mail::read(&raw, target)) {
        Ok(Ok(mut row)) => {
            threads.complete(&mut row.fields, target);
            Ok(row)
        }
        Ok(Err(bad)) => Err(UnusableRow::new(bad.code(), bad)),
        Err(bad) => Err(UnusableRow::new(bad.code(), bad)),
    }
}

/// Returns whether a file begins with header fields, one of which only mail has, or which together
/// only mail has.
pub(in crate::importers) fn is_beginning_of_mail(beginning: &[u8]) -> bool {
    const OF_MAIL: [&[u8]; 5] =
        [b"received", b"return-path", b"delivered-to", b"message-id", b"mime-version"];
    const OF_LETTERS: [&[u8]; 4] = [b"from", b"to", b"subject", b"date"];
    let (mut is_mail, mut of_letters) = (false, 0);
    let mut lines = beginning.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_cut_off = lines.peek().is_none();
        if matches!(line, b"" | b"\r") || is_cut_off {
            break;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            continue;
        }
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        if name.len() == line.len() || !name.iter().all(u8::is_ascii_graphic) {
            return false;
        }
        let name = name.to_ascii_lowercase();
        is_mail |= OF_MAIL.contains(&name.as_slice());
        of_letters += usize::from(OF_LETTERS.contains(&name.as_slice()));
    }
    is_mail || of_letters >= 3
}

impl<R: BufRead> ImportRows for MailboxRows<R> {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let Some(RawMessage { line, message }) = self.mailbox.next_message()? else {
            return Ok(None);
        };
        let row = message_row(message, (&self.target, &self.threads));
        Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row }))
    }

    fn consumed(&self) -> u64 {
        self.mailbox.consumed()
    }
}
