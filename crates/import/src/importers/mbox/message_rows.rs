//! The messages of a mailbox as rows of an import.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use super::mail;
use super::mailbox::{Mailbox, RawMessage, RawMessageError};
use super::threads::Threads;
use crate::importer::{ImportRow, ImportRows, ImportTarget, LeftOutRows, LocatedRow, UnusableRow};

/// The messages of a mailbox as rows.
pub(in crate::importers) struct MailboxRows<R> {
    /// The file, as a person reads it.
    pub(in crate::importers) file: Arc<str>,
    mailbox: Mailbox<R>,
    target: ImportTarget,
    threads: Threads,
    /// How many messages were deleted and are still in the file.
    deleted: u64,
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
        Self { file, mailbox: Mailbox::new(reader), target, threads, deleted: 0 }
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

/// What is left out of a mailbox.
const DELETED: &str = "messages that were deleted in the mail program, which keeps them in its \
    file until it compacts the folder";

/// Returns whether Thunderbird has a message only until it compacts the folder.
///
/// It writes the marks of a message before the header that was received. The same words behind
/// that are the sender's.
///
/// *Source*: `nsMsgMessageFlags.idl` of Thunderbird: `Expunged`.
fn is_deleted(message: &[u8]) -> bool {
    const EXPUNGED: u32 = 0x0008;
    const OWN: [&[u8]; 5] =
        [b"x-mozilla-status", b"x-mozilla-status2", b"x-mozilla-keys", b"x-account-key", b"x-uidl"];
    for line in message.split(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        if lower == OWN[0] {
            let value = line.get(name.len() + 1..).unwrap_or_default().trim_ascii();
            let flags = std::str::from_utf8(value).ok();
            let flags = flags.and_then(|value| u32::from_str_radix(value, 16).ok());
            return flags.is_some_and(|flags| flags & EXPUNGED != 0);
        }
        if !OWN.contains(&lower.as_slice()) {
            return false;
        }
    }
    false
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
        while let Some(RawMessage { line, message }) = self.mailbox.next_message()? {
            if message.as_ref().is_ok_and(|raw| is_deleted(raw)) {
                self.deleted += 1;
                continue;
            }
            let row = message_row(message, (&self.target, &self.threads));
            return Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row }));
        }
        Ok(None)
    }

    fn left_out(&self) -> Option<LeftOutRows> {
        (self.deleted > 0).then_some((DELETED, self.deleted))
    }

    fn consumed(&self) -> u64 {
        self.mailbox.consumed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_thunderbird_deleted_is_left_out_and_no_sender_can_say_so() {
        for (header, expected) in [
            ("X-Mozilla-Status: 0009\r\nFrom: a@b", true),
            ("X-Account-Key: account1\nX-UIDL: 7\nX-Mozilla-Status: 0008\nFrom: a@b", true),
            ("X-Mozilla-Status: 0001\nX-Mozilla-Status2: 00000008\nFrom: a@b", false),
            ("X-Mozilla-Status: x\nFrom: a@b", false),
            ("Received: x\nX-Mozilla-Status: 0009\nFrom: a@b", false),
            ("", false),
        ] {
            assert_eq!(is_deleted(header.as_bytes()), expected, "{header}");
        }
    }

    #[test]
    fn deleted_messages_are_counted() {
        let rig = crate::rig::rig();
        let message = |status: &str| {
            format!(
                "From - Mon Jan  5 10:00:00 2026\nX-Mozilla-Status: {status}\n\
                 Message-ID: <{status}@x>\n\ntext\n\n"
            )
        };
        let path = rig.write("Inbox.mbox", [message("0001"), message("0009")].concat());
        let policy = crate::report::BadRowPolicy::Skip;
        let report = rig.import(&[crate::rig::recognised(&path)], &[], policy, |_| ()).unwrap();
        assert_eq!((report.added, report.left_out.get(DELETED)), (1, Some(&1)));
    }
}
