//! Reads the mail in a zip file: its mailboxes (`.mbox`, or without an extension), its messages
//! (`.eml`) and those of a Maildir, in its order.
//!
//! The archive is never unpacked. Progress is counted in the bytes of the zip file, in proportion
//! to the unpacked bytes that were read.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use stile_store::archive::{Archive, ArchiveEntry, ArchiveEntryReader, RefusedArchiveEntry};
use stile_store::files;

use super::mailbox::{MAX_MESSAGE_BYTES, RawMessageError};
use super::message_rows::{MailboxRows, is_beginning_of_mail, message_row};
use super::threads::Threads;
use crate::importer::{Contents, ImportRows, ImportTarget, LeftOutRows, LocatedRow, UnusableRow};
use crate::source::InputPath;

/// Returns whether an archive has a mailbox or a message.
pub(in crate::importers) fn has_mail(archive: &Archive) -> bool {
    archive.entries().iter().any(|entry| kind_of(archive, entry).is_some())
}

/// Returns whether a file is a zip file.
pub(in crate::importers) fn is_zip(path: &Path) -> io::Result<bool> {
    files::begins_as_zip(path)
}

/// What a file in an archive holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MailKind {
    Mailbox,
    Message,
}

/// Returns what a file holds by its name or, if it has no extension or is in a folder of a Maildir,
/// by its beginning: so Thunderbird names its mailboxes.
fn kind_of(archive: &Archive, entry: &ArchiveEntry) -> Option<MailKind> {
    if let Some(kind) = kind_by_name(&entry.name) {
        return Some(kind);
    }
    let mut parts = entry.name.rsplit('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next());
    let is_in_maildir = matches!(folder, Some("cur" | "new"));
    if name.is_empty() || (name.contains('.') && !is_in_maildir) {
        return None;
    }
    let mut beginning = Vec::with_capacity(Contents::BEGINNING_BYTES);
    let reader = archive.read(entry).ok()?;
    let most = Contents::BEGINNING_BYTES as u64;
    io::Read::take(reader, most).read_to_end(&mut beginning).ok()?;
    match beginning.starts_with(b"From ") {
        true => Some(MailKind::Mailbox),
        false => is_beginning_of_mail(&beginning).then_some(MailKind::Message),
    }
}

fn kind_by_name(name: &str) -> Option<MailKind> {
    match name {
        _ if has_extension(name, "mbox") => Some(MailKind::Mailbox),
        _ if has_extension(name, "eml") => Some(MailKind::Message),
        _ => None,
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, own)| own.eq_ignore_ascii_case(extension))
}

/// The mail in a zip file.
pub(in crate::importers) struct ArchivedMail {
    archive: Arc<Archive>,
    /// The path of the archive, as a person reads it.
    path: String,
    /// What each entry holds.
    kinds: Vec<Option<MailKind>>,
    /// The number of the next entry to open.
    next: usize,
    mailbox: Option<MailboxRows<ArchiveEntryReader>>,
    refused: std::vec::IntoIter<LocatedRow>,
    /// Unpacked bytes of the entries before the current one.
    before: u64,
    /// Unpacked bytes of all mail.
    total: u64,
    /// The size of the archive.
    packed: u64,
    target: ImportTarget,
    threads: Threads,
    /// What the mailboxes that were read leave out.
    left_out: Option<LeftOutRows>,
}

impl ArchivedMail {
    /// Opens an archive, to read its mail or that of the files that the input names.
    pub(in crate::importers) fn open(path: &InputPath, target: &ImportTarget) -> io::Result<Self> {
        let files = path.all_files()?;
        let archive = Arc::clone(&files.archive);
        let mut kinds: Vec<Option<MailKind>> = vec![None; archive.entries().len()];
        for (number, entry) in files.entries() {
            if let Some(kind) = kinds.get_mut(number) {
                *kind = kind_of(&archive, entry);
            }
        }
        if kinds.iter().all(Option::is_none) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "no file in the archive is mail: none ends in `.mbox` or `.eml`, is in the `cur` or \
                 `new` of a Maildir, or begins as a mailbox",
            ));
        }
        let path_text = files.path.display().to_string();
        let located = |refused: &RefusedArchiveEntry| LocatedRow {
            file: format!("{path_text}/{}", refused.name).into(),
            line: 1,
            row: Err(UnusableRow::new(refused.error.code(), refused.error)),
        };
        // The refused files of a part are reported with those of the whole.
        let is_whole = path.files().is_none();
        let is_wanted =
            |refused: &&RefusedArchiveEntry| is_whole && kind_by_name(&refused.name).is_some();
        let refused: Vec<LocatedRow> =
            archive.refused().iter().filter(is_wanted).map(located).collect();
        let mail = archive.entries().iter().zip(&kinds).filter(|(_, kind)| kind.is_some());
        Ok(Self {
            total: mail.map(|(entry, _)| entry.bytes).sum(),
            kinds,
            packed: path.bytes()?,
            archive,
            path: path_text,
            next: 0,
            mailbox: None,
            refused: refused.into_iter(),
            before: 0,
            target: target.clone(),
            threads: Threads::default(),
            left_out: None,
        })
    }

    /// Opens an entry. Returns the row of a message; `None` for a mailbox, which is read next.
    fn open_entry(&mut self, entry: &ArchiveEntry, kind: MailKind) -> Option<LocatedRow> {
        let file: Arc<str> = format!("{}/{}", self.path, entry.name).into();
        let row = match self.archive.read(entry) {
            Err(error) => Err(unreadable(&error)),
            Ok(reader) if kind == MailKind::Mailbox => {
                self.mailbox =
                    Some(MailboxRows::named(file, reader, (&self.target, &self.threads)));
                return None;
            }
            Ok(mut reader) => {
                self.before += entry.bytes;
                match files::read_short(&mut reader, MAX_MESSAGE_BYTES as u64) {
                    Ok(message) => message_row(Ok(message), (&self.target, &self.threads)),
                    Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                        message_row(Err(RawMessageError::TooLarge), (&self.target, &self.threads))
                    }
                    Err(error) => Err(unreadable(&error)),
                }
            }
        };
        Some(LocatedRow { file, line: 1, row })
    }
}

impl ImportRows for ArchivedMail {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        if let Some(refused) = self.refused.next() {
            return Ok(Some(refused));
        }
        loop {
            if let Some(mailbox) = &mut self.mailbox {
                let failure = match mailbox.next() {
                    Ok(Some(row)) => return Ok(Some(row)),
                    Ok(None) => None,
                    // A damaged entry is one bad row. The others are read all the same.
                    Err(error) => Some((Arc::clone(&mailbox.file), unreadable(&error))),
                };
                self.before += mailbox.consumed();
                if let Some((what, count)) = mailbox.left_out() {
                    self.left_out.get_or_insert((what, 0)).1 += count;
                }
                self.mailbox = None;
                if let Some((file, bad)) = failure {
                    return Ok(Some(LocatedRow { file, line: 1, row: Err(bad) }));
                }
            }
            let archive = Arc::clone(&self.archive);
            let Some(entry) = archive.entries().get(self.next) else { return Ok(None) };
            let kind = self.kinds.get(self.next).copied().flatten();
            self.next += 1;
            if let Some(kind) = kind
                && let Some(row) = self.open_entry(entry, kind)
            {
                return Ok(Some(row));
            }
        }
    }

    fn left_out(&self) -> Option<LeftOutRows> {
        self.left_out
    }

    fn consumed(&self) -> u64 {
        let read = self.before + self.mailbox.as_ref().map_or(0, ImportRows::consumed);
        let share = u128::from(read.min(self.total)) * u128::from(self.packed);
        u64::try_from(share / u128::from(self.total.max(1))).unwrap_or(self.packed)
    }
}

fn unreadable(error: &io::Error) -> UnusableRow {
    UnusableRow::new("unreadable", format!("the file could not be read to its end: {error}"))
}

#[cfg(test)]
mod tests {
    use stile_testkit::zip::{Member, Zip};

    use crate::importers::{IMPORTERS, recognise};
    use crate::report::BadRowPolicy;
    use crate::rig::{counts, recognised, rig};

    #[test]
    fn mailboxes_and_messages_in_a_zip_file_are_read_in_place() {
        let rig = rig();
        let mail = |id: &str| format!("Message-ID: <{id}@x.org>\nSubject: {id}\n\n{id}\n");
        let mailbox = format!("From \n{}\nFrom a@x.org\n{}", mail("1"), mail("2"));
        let in_one = |name: &str| Member::deflated(name, mailbox.as_bytes());
        let archive = Zip::default()
            .with(&in_one("Takeout/Mail/All mail.mbox"))
            .with(&Member::stored("Takeout/Mail/one.EML", mail("3").as_bytes()))
            .with(&Member::stored("Takeout/archive_browser.html", b"<html>"));
        let path = rig.write("takeout.zip", archive.finish());
        assert_eq!(recognise(IMPORTERS, &path).unwrap().map(|found| found.name), Some("mbox"));
        let one = rig.write("one.zip", Zip::default().with(&in_one("All mail.mbox")).finish());
        assert_eq!(recognise(IMPORTERS, &one).unwrap().map(|found| found.name), Some("mbox"));
        let import = |path| {
            counts(&rig.import(&[recognised(path)], &[], BadRowPolicy::Skip, |_| ()).unwrap())
        };
        assert_eq!(import(&path), (3, 0, 0, 0));
        assert_eq!(import(&one), (0, 0, 2, 0));
    }
}
