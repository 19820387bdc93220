//! Imports messages of mail that are files of their own: one message, a folder of them, a Maildir,
//! a folder of MH, or a folder of mailboxes as Apple Mail and Thunderbird keep them.
//!
//! The records are those of a mailbox with the same messages ([`mbox`]). A file that begins with a
//! From-line is read as a mailbox. A file of Apple Mail (`.emlx`) has the length of the message on
//! its first line, and properties of the program behind the message.

use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_store::archive::Archive;
use stile_store::files::{self, SourceReader};

use super::mbox::mailbox::{MAX_MESSAGE_BYTES, RawMessageError};
use super::mbox::{
    self, ArchivedMail, MailboxRows, Threads, archived, is_beginning_of_mail, message_row,
};
use super::unknown;
use crate::importer::{
    Contents, ImportRows, ImportTarget, Importer, LocatedRow, Recognition, StreamDeclaration,
    UnusableRow, file_bytes,
};
use crate::source::InputPath;

/// What some programs of Windows write before the header of a message.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Imports each message of a folder, or one message.
pub static IMPORTER: Importer = Importer {
    name: "mail",
    description: "mail in files (`.eml`, `.emlx`, a Maildir, MH, or a folder of mailboxes)",
    recognition: Recognition {
        file_name: |name| {
            let name = name.to_ascii_lowercase();
            name.ends_with(".eml") || name.ends_with(".emlx")
        },
        contents: |contents| match contents {
            Contents::Folder(path) => is_folder_of_mail(path),
            Contents::Beginning(beginning) => is_beginning_of_mail(beginning),
            Contents::Zip(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: |path| {
        // A file that cannot be read becomes a bad row, and counts nothing.
        if is_zip(path)? {
            return file_bytes(path);
        }
        let bytes = |file: &PathBuf| files::open(file).map_or(0, |file| file.bytes);
        Ok(message_files(path)?.iter().map(bytes).sum())
    },
    open: |path, target| {
        if is_zip(path)? {
            return open_zip(path, target);
        }
        refuse_binary(path)?;
        Ok(Box::new(MailFiles {
            remaining: message_files(path)?.into_iter(),
            mailbox: None,
            consumed: 0,
            target: target.clone(),
            threads: Threads::default(),
        }))
    },
    declaration: StreamDeclaration::Preset(&mbox::DECLARATION),
};

/// Returns whether a path leads to a zip file.
fn is_zip(path: &Path) -> io::Result<bool> {
    Ok(!files::is_folder(path) && archived::is_zip(path)?)
}

/// Opens a zip file with mail in it.
fn open_zip(path: &InputPath, target: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    match archived::has_mail(&Archive::open(path)?) {
        true => Ok(Box::new(ArchivedMail::open(path, target)?)),
        false => Err(no_mail(path)),
    }
}

/// Refuses a file that the caller names if it is no text, whatever it holds.
fn refuse_binary(path: &Path) -> io::Result<()> {
    if files::is_folder(path) {
        return Ok(());
    }
    let is_message = |beginning: &[u8]| !is_binary(beginning) || beginning.starts_with(b"From ");
    match is_message(&beginning_of(path)?) {
        true => Ok(()),
        false => Err(no_mail(path)),
    }
}

fn no_mail(path: &Path) -> io::Error {
    let message = format!("it is no mail: {}", unknown::describe(path));
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Returns whether the beginning of a file is that of no text: it begins with no header field and
/// has zero bytes, or many control characters.
fn is_binary(beginning: &[u8]) -> bool {
    let beginning = beginning.strip_prefix(BYTE_ORDER_MARK).unwrap_or(beginning);
    let first = beginning.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let name = first.and_then(|line| line.split(|&byte| byte == b':').next());
    let is_name = |name: &[u8]| {
        first.is_some_and(|line| name.len() < line.len())
            && name.trim_ascii().iter().all(u8::is_ascii_graphic)
    };
    if name.is_some_and(is_name) {
        return false;
    }
    let is_control = |byte: &u8| matches!(byte, 1..=8 | 14..=26 | 28..=31 | 127) || *byte == 0x0b;
    let controls = beginning.iter().filter(|byte| is_control(byte)).count();
    beginning.contains(&0) || controls * 20 > beginning.len()
}

fn beginning_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::with_capacity(Contents::BEGINNING_BYTES);
    let file = files::open(path)?.reader;
    file.take(Contents::BEGINNING_BYTES as u64).read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// Returns whether a folder is a Maildir, or has messages and no notes. The messages in a folder of
/// notes are attached to the notes.
fn is_folder_of_mail(path: &Path) -> bool {
    files::is_maildir(path)
        || (files::find_notes(path).is_ok_and(|notes| notes.is_empty())
            && files::find_messages(path, &begins_as_mail)
                .is_ok_and(|messages| !messages.is_empty()))
}

/// Returns whether a file begins as a mailbox or as a message of mail.
fn begins_as_mail(path: &Path) -> bool {
    beginning_of(path)
        .is_ok_and(|beginning| beginning.starts_with(b"From ") || is_beginning_of_mail(&beginning))
}

/// Returns the messages of a folder, or a single file as a message.
fn message_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !files::is_folder(path) {
        // A file that the caller names must be there.
        files::open(path)?;
        return Ok(vec![path.to_owned()]);
    }
    let found = files::find_messages(path, &begins_as_mail)?;
    if found.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no message is in the folder: no file ends in `.eml` or `.emlx`, no Maildir (`cur` and \
             `new`) has files, and no file without an extension begins as mail",
        ));
    }
    Ok(found)
}

struct MailFiles {
    remaining: std::vec::IntoIter<PathBuf>,
    /// The current file, if it begins as a mailbox.
    mailbox: Option<MailboxRows<BufReader<SourceReader>>>,
    /// Bytes of the files before the current one.
    consumed: u64,
    target: ImportTarget,
    threads: Threads,
}

impl ImportRows for MailFiles {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        loop {
            if let Some(mailbox) = &mut self.mailbox {
                let failure = match mailbox.next() {
                    Ok(Some(row)) => return Ok(Some(row)),
                    Ok(None) => None,
                    Err(error) => Some(unreadable(&error)),
                };
                let file = Arc::clone(&mailbox.file);
                self.consumed += mailbox.consumed();
                self.mailbox = None;
                if let Some(bad) = failure {
                    return Ok(Some(LocatedRow { file, line: 1, row: Err(bad) }));
                }
            }
            let Some(path) = self.remaining.next() else { return Ok(None) };
            let row = match self.read_where_it_is(&path) {
                Ok(None) => continue,
                Ok(Some(message)) => message_row(message, (&self.target, &self.threads)),
                // The message was removed after its file was found.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // A file that cannot be read is one bad row. The other files are read all the same.
                Err(error) => Err(unreadable(&error)),
            };
            let file: Arc<str> = path.display().to_string().into();
            return Ok(Some(LocatedRow { file, line: 1, row }));
        }
    }

    fn consumed(&self) -> u64 {
        self.consumed + self.mailbox.as_ref().map_or(0, ImportRows::consumed)
    }
}

fn unreadable(error: &io::Error) -> UnusableRow {
    UnusableRow::new("unreadable", format!("the file could not be read: {error}"))
}

impl MailFiles {
    /// Reads a file like [`Self::read`], from its new place if a mail program has moved it since it
    /// was found.
    fn read_where_it_is(
        &mut self,
        path: &Path,
    ) -> io::Result<Option<Result<Vec<u8>, RawMessageError>>> {
        match self.read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.read(&files::find_moved_message(path).ok_or(error)?)
            }
            read => read,
        }
    }

    /// Reads the message in a file; `None` if the file begins as a mailbox, which is read next.
    fn read(&mut self, path: &Path) -> io::Result<Option<Result<Vec<u8>, RawMessageError>>> {
        let file = files::open(path)?;
        let mut reader = file.reader;
        let mut length = u64::MAX;
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("emlx")) {
            length = read_length_of_emlx(&mut reader)?;
        } else if reader.fill_buf()?.starts_with(b"From ") {
            self.mailbox = Some(MailboxRows::named(
                path.display().to_string().into(),
                reader,
                (&self.target, &self.threads),
            ));
            return Ok(None);
        }
        self.consumed += file.bytes;
        if reader.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            reader.consume(BYTE_ORDER_MARK.len());
        }
        let beginning = reader.fill_buf()?;
        if is_binary(beginning.get(..Contents::BEGINNING_BYTES).unwrap_or(beginning)) {
            return Ok(Some(Err(RawMessageError::NotText)));
        }
        match files::read_short(&mut reader.take(length), MAX_MESSAGE_BYTES as u64) {
            Ok(message) => Ok(Some(Ok(message))),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Ok(Some(Err(RawMessageError::TooLarge)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads the first line of an `.emlx`: the length of the message in bytes, and spaces.
fn read_length_of_emlx(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut line = Vec::new();
    reader.take(MAX_LENGTH_LINE_BYTES).read_until(b'\n', &mut line)?;
    let length = std::str::from_utf8(&line).ok().and_then(|line| line.trim().parse().ok());
    length.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "its first line is not the length of the message, as an `.emlx` has it",
        )
    })
}

/// The longest line with the length of a message.
const MAX_LENGTH_LINE_BYTES: u64 = 64;

#[cfg(test)]
mod tests {
    use stile_testkit::zip::{Member, Zip};

    use super::*;
    use crate::importers::{IMPORTERS, is_folder_of_nothing, recognise};
    use crate::input::ImportInput;
    use crate::report::BadRowPolicy;
    use crate::rig::{Rig, counts, recognised, rig, target};

    const FROM: &str = "From ann@example.org Thu Jan  1 00:00:00 2026\n";
    const MAILS: [&str; 3] = [
        "Message-ID: <a@example.org>\nDate: Sat, 7 Mar 2026 10:15:00 +0100\nSubject: ferns\n\nmoss\n",
        "Message-ID: <b@example.org>\nIn-Reply-To: <a@example.org>\nMIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=x\n\n--x\n\nFrom here\n--x\n\
         Content-Type: text/csv; name=list.csv\n\na,b\n--x--\n",
        "Subject: without an identifier\n\n\nend\n",
    ];

    fn import(rig: &Rig, path: &Path) -> (u64, u64, u64, u64) {
        let report = rig.import(&[recognised(path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        counts(&report)
    }

    #[test]
    fn files_and_maildirs_become_the_records_of_a_mailbox_with_the_same_messages() {
        let rig = rig();
        let quoted = MAILS.map(|mail| format!("{FROM}{}\n", mail.replace("\nFrom ", "\n>From ")));
        assert_eq!(import(&rig, &rig.write("all.mbox", quoted.concat())), (3, 0, 0, 0));
        assert!(rig.keys().contains(&"b@example.org".to_owned()), "{:?}", rig.keys());
        let stored = rig.keys();
        for (number, mail) in MAILS.iter().enumerate() {
            let one = rig.write(&format!("eml/in/{number}.EML"), mail);
            assert_eq!(import(&rig, &one), (0, 0, 1, 0), "{mail}");
            rig.write(&format!("box/cur/170000000{number}.M1.host:2,S"), mail);
        }
        rig.write("box/new/1700000009.M2.host", "Message-ID: <c@example.org>\n\nnew\n");
        rig.write("box/tmp/1700000010.M2.host", "Message-ID: <d@example.org>\n\nhalf of");
        rig.write("eml/begins-as-a-mailbox.eml", quoted[0].as_bytes());
        assert_eq!(import(&rig, &rig.folder.path().join("eml")), (0, 0, 4, 0));
        assert_eq!(rig.keys(), stored);
        let maildir = rig.folder.path().join("box");
        assert_eq!(import(&rig, &maildir), (1, 0, 3, 0));
        assert_eq!(import(&rig, &maildir.join("new/1700000009.M2.host")), (0, 0, 1, 0));
        rig.write("box/new/folder/none", "");
        assert_eq!(import(&rig, &maildir.join("new/folder/..")), (0, 0, 1, 0));
        assert_eq!(rig.keys().len(), 4);
    }

    #[test]
    fn folders_of_apple_mail_thunderbird_and_mh_are_folders_of_mail() {
        let rig = rig();
        let [first, second, unnamed] = MAILS;
        let plist = "<?xml version=\"1.0\"?>\n<plist></plist>\n";
        rig.write("mail/V/Messages/1.emlx", format!("{:<10}\n{first}{plist}", first.len()));
        rig.write("mail/In.mbox/mbox", format!("{FROM}{second}\n"));
        rig.write("mail/In.mbox/table_of_contents", "\0\x01");
        rig.write("mail/Profile/Inbox", format!("From \r\n{unnamed}"));
        rig.write("mail/Profile/Inbox.msf", "// <!-- <mdb:mork -->");
        rig.write("mail/mh/17", "Received: by a\nMessage-ID: <mh@example.org>\n\nx\n");
        rig.write("mail/mh/18", "1,2\n3,4\n");
        let folder = rig.folder.path().join("mail");
        assert_eq!(recognised(&folder).importer.name, "mail");
        assert_eq!(import(&rig, &folder), (4, 0, 0, 0));
        assert_eq!(rig.record("a@example.org")["body"], "moss\n");
        let one = rig.folder.path().join("mail/V/Messages/1.emlx");
        assert_eq!(import(&rig, &one), (0, 0, 1, 0));
        let broken = rig.write("broken.emlx", "Subject: x\n\ny");
        let report = rig.import(&[recognised(&broken)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert!(report.bad[0].reason.contains("length of the message"), "{report:?}");
    }

    #[test]
    fn a_maildir_is_one_whatever_it_lacks_and_what_mh_deleted_is_left_out() {
        let rig = rig();
        let mail = |number: u8| format!("Message-ID: <{number}@x.org>\nSubject: {number}\n\nx\n");
        let plain = "From: a@x.org\nTo: b@x.org\nSubject: plain\n\nx\n";
        for (path, content) in [
            ("md/A/new/1.host", mail(1)),
            ("md/B/cur/2.host", mail(2)),
            ("md/C/cur/3.host:2,S", mail(3)),
            ("md/D/new/4.host", plain.to_owned()),
            ("md/mh/17", mail(5)),
            ("md/mh/,18", mail(6)),
        ] {
            rig.write(path, content);
        }
        assert_eq!(import(&rig, &rig.folder.path().join("md")), (5, 0, 0, 0));
        let zip = Zip::default()
            .with(&Member::stored("md/cur/7.host:2,S", mail(7).as_bytes()))
            .with(&Member::stored("md/new/8.host", mail(8).as_bytes()))
            .with(&Member::deflated("Profile/Inbox", format!("{FROM}{}", mail(9)).as_bytes()));
        assert_eq!(import(&rig, &rig.write("mail.zip", zip.finish())), (3, 0, 0, 0));
    }

    #[test]
    fn a_file_that_is_no_mail_is_refused_with_what_it_is_and_a_zip_is_read() {
        let rig = rig();
        let import = |path: PathBuf| {
            let input = ImportInput::whole(path, &IMPORTER);
            rig.import(&[input], &[], BadRowPolicy::Skip, |_| ()).map(|report| counts(&report))
        };
        let other = Zip::default().with(&Member::stored("a.csv", b"a,b\n")).finish();
        let binary: Vec<u8> = (0..1024_u32).map(|at| (at * 7 % 256) as u8).collect();
        for (content, says) in [
            (other, "a zip file with `a.csv`"),
            (binary, "a file of a program"),
            (b"\x1f\x8b\x08\0\0:\0".to_vec(), "gzip"),
        ] {
            let refused = import(rig.write("x", content)).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        let mail = Zip::default().with(&Member::stored("a.eml", MAILS[0].as_bytes())).finish();
        assert_eq!(import(rig.write("mail", mail)).unwrap(), (1, 0, 0, 0));
        assert!(rig.keys() == ["a@example.org"]);
    }

    #[test]
    fn a_conversation_is_one_however_its_messages_refer_to_each_other() {
        let rig = rig();
        let mail = |id: u8, refers: &str| format!("{FROM}Message-ID: <m{id}@x>\n{refers}\nx\n\n");
        let mailbox = [
            mail(1, ""),
            mail(2, "In-Reply-To: <m1@x>\n"),
            mail(3, "In-Reply-To: <m2@x>\n"),
            mail(4, "References: <m2@x>\n"),
        ];
        assert_eq!(import(&rig, &rig.write("all.mbox", mailbox.concat())), (4, 0, 0, 0));
        for id in ["m1@x", "m2@x", "m3@x", "m4@x"] {
            assert_eq!(rig.record(id)["thread"], "m1@x", "{id}");
        }
        assert_eq!(rig.record("m4@x")["thread_ref"]["record_id"], "m1@x");
    }

    #[test]
    fn a_file_that_is_no_message_is_one_bad_row() {
        let rig = rig();
        rig.write("mail/a.eml", MAILS[0]);
        rig.write("mail/b.eml", "no header\n");
        let folder = rig.folder.path().join("mail");
        let report = rig.import(&[recognised(&folder)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert_eq!(counts(&report), (1, 0, 0, 1));
        let bad = &report.bad[0];
        assert!(bad.file.ends_with("b.eml"), "{bad:?}");
        assert_eq!((bad.line, bad.code), (1, "no_header"));
    }

    #[cfg(unix)]
    #[test]
    fn a_mailbox_that_cannot_be_read_is_one_bad_row() {
        let rig = rig();
        let next = rig.write("next.eml", MAILS[0]);
        // A folder can be opened as a file, and fails when it is read.
        let folder = rig.folder.path();
        let reader = BufReader::new(files::open_again(folder).unwrap());
        let mut rows = MailFiles {
            remaining: vec![next].into_iter(),
            mailbox: Some(MailboxRows::new(folder, reader, &target())),
            consumed: 0,
            target: target(),
            threads: Threads::default(),
        };
        let bad = rows.next().unwrap().unwrap();
        assert_eq!(&*bad.file, folder.to_str().unwrap());
        assert_eq!(bad.row.unwrap_err().code, "unreadable");
        assert!(rows.next().unwrap().unwrap().row.is_ok());
        assert!(rows.next().unwrap().is_none());
    }

    #[test]
    fn a_message_that_is_moved_or_removed_while_others_are_read_is_no_bad_row() {
        let rig = rig();
        for (number, name) in ["new/1.host", "cur/2.host:2,", "cur/3.host:2,"].iter().enumerate() {
            rig.write(&format!("box/{name}"), format!("Message-ID: <{number}@example.org>\n\n"));
        }
        let maildir = rig.folder.path().join("box");
        let mut rows = (IMPORTER.open)(&maildir.as_path().into(), &target()).unwrap();
        for (from, to) in [("new/1.host", "cur/1.host:2,S"), ("cur/2.host:2,", "cur/2.host:2,RS")] {
            std::fs::rename(maildir.join(from), maildir.join(to)).unwrap();
        }
        std::fs::remove_file(maildir.join("cur/3.host:2,")).unwrap();
        let found: Vec<_> = std::iter::from_fn(|| rows.next().unwrap()).collect();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|found| found.row.is_ok()), "{found:?}");
    }

    #[test]
    fn each_hostile_file_costs_itself_and_nothing_else() {
        let rig = rig();
        let bad: [(&str, Vec<u8>, &str); 5] = [
            ("mail/empty.eml", Vec::new(), "no_header"),
            ("mail/blank.eml", b"\r\n\r\nSubject: too late\r\n".to_vec(), "no_header"),
            ("mail/picture.eml", b"\x89PNG\r\n\x1a\n\0\0\0".to_vec(), "no_header"),
            ("mail/header.eml", [b"X: ".as_slice(), &[b'x'; 2 << 20]].concat(), "header_too_large"),
            ("mail/large.eml", vec![b'\n'; MAX_MESSAGE_BYTES + 1], "message_too_large"),
        ];
        for (name, content, _) in &bad {
            rig.write(name, content);
        }
        let folder = rig.folder.path().join("mail");
        rig.write("outside/secret.eml", "Message-ID: <secret@example.org>\n\n");
        #[cfg(unix)]
        {
            let outside = rig.folder.path().join("outside");
            std::os::unix::fs::symlink(outside.join("secret.eml"), folder.join("link.eml"))
                .unwrap();
            std::os::unix::fs::symlink(&outside, folder.join("out")).unwrap();
            std::os::unix::fs::symlink(&folder, folder.join("loop")).unwrap();
            std::os::unix::fs::symlink(folder.join("none"), folder.join("dangling.eml")).unwrap();
        }
        rig.write("mail/nul.eml", "Message-ID: <nul@example.org>\nSubject: a\0b\n\nx\0y");
        rig.write("mail/header-alone.eml", "Message-ID: <alone@example.org>");
        rig.write("mail/mark.eml", "\u{feff}Message-ID: <mark@example.org>\r\n\r\nx");
        rig.write("mail/.hidden.eml", MAILS[0]);
        rig.write("mail/notes.txt", MAILS[0]);
        let mut name = "mail/deep".to_owned();
        (0..50).for_each(|_| name.push_str("/d"));
        rig.write(&format!("{name}/deep.eml"), "Message-ID: <deep@example.org>\n\n");
        let report = rig.import(&[recognised(&folder)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        let mut reported: Vec<(String, &str)> = report
            .bad
            .iter()
            .map(|bad| (bad.file.rsplit('/').next().unwrap().to_owned(), bad.code))
            .collect();
        reported.sort();
        let mut expected =
            bad.map(|(name, _, code)| (name.trim_start_matches("mail/").to_owned(), code));
        expected.sort();
        assert_eq!(reported, expected);
        let mut keys = rig.keys();
        keys.sort();
        assert_eq!(keys, ["alone", "deep", "mark", "nul"].map(|id| format!("{id}@example.org")));
        assert_eq!(import(&rig, &folder), (0, 0, 4, 5));
    }

    #[test]
    fn a_message_keeps_its_record_when_its_file_is_renamed_or_copied() {
        let rig = rig();
        let [first, _, unnamed] = MAILS;
        rig.write("box/new/1.host", first);
        rig.write("box/cur/2.host:2,", unnamed);
        let maildir = rig.folder.path().join("box");
        assert_eq!(import(&rig, &maildir), (2, 0, 0, 0));
        let (keys, record) = (rig.keys(), rig.record("a@example.org"));
        rig.write("box/cur/1.host:2,FRS", first);
        rig.write("box/cur/2.host:2,ST", unnamed);
        rig.write("box/.Archive/cur/3.host:2,S", first);
        rig.write("box/.Archive/new/.keep", "");
        assert_eq!(import(&rig, &maildir), (0, 0, 5, 0), "all copies are the same record");
        assert_eq!((rig.keys(), rig.record("a@example.org")), (keys.clone(), record));
        rig.write("box/cur/4.host:2,S", first.replace("moss", "a copy with a footer of the list"));
        assert_eq!(import(&rig, &maildir), (1, 0, 5, 0), "a copy that differs is kept");
        assert_eq!(import(&rig, &maildir), (0, 0, 6, 0));
        let copies = rig.keys().into_iter().filter(|key| key.starts_with("a@example.org#"));
        assert_eq!((copies.count(), rig.keys().len()), (1, keys.len() + 1));
    }

    #[test]
    fn mail_is_recognised_by_name_and_contents_and_notes_stay_notes() {
        let rig = rig();
        let name_of = |path: &Path| recognise(IMPORTERS, path).unwrap().map(|found| found.name);
        assert_eq!(name_of(&rig.write("x.Eml", "")), Some("mail"));
        assert_eq!(name_of(&rig.write("x", "Received: by a\nX: y\n\n")), Some("mail"));
        assert_eq!(name_of(&rig.write("x.txt", "Title: a\n\nReceived: b\n")), None);
        rig.write("notes/a.md", "# Ferns\n");
        rig.write("notes/attached.eml", MAILS[0]);
        assert_eq!(name_of(&rig.folder.path().join("notes")), Some("markdown"));
        rig.write("box/new/a.md", MAILS[0]);
        rig.write("box/cur/1.host", MAILS[1]);
        assert_eq!(name_of(&rig.folder.path().join("box")), Some("mail"));
    }

    #[test]
    fn a_folder_without_messages_is_refused_as_mail_and_empty_as_notes() {
        let rig = rig();
        rig.write("empty/picture.png", "");
        let folder = rig.folder.path().join("empty");
        let error =
            |input| rig.import(&[input], &[], BadRowPolicy::Skip, |_| ()).unwrap_err().to_string();
        assert!(is_folder_of_nothing(recognised(&folder).importer, &folder));
        assert_eq!(import(&rig, &folder), (0, 0, 0, 0));
        let named = error(ImportInput::whole(folder.clone(), &IMPORTER));
        assert!(named.contains("no message is in the folder"), "{named}");
        let missing = error(ImportInput::whole(folder.join("no.eml"), &IMPORTER));
        assert!(missing.contains("cannot read"), "{missing}");
        assert!(rig.streams().is_empty());
    }

    #[test]
    fn a_file_of_header_fields_is_mail_if_one_of_them_says_so() {
        for beginning in [
            "Return-Path: <ann@example.org>\r\nX: y\r\n",
            "Subject: a\n b\nMESSAGE-ID: <1@example.org>\n\nany text: \u{1}",
            "Received: by a; Mon\nX-Long: cut o",
        ] {
            assert!(is_beginning_of_mail(beginning.as_bytes()), "{beginning}");
        }
        for beginning in [
            "",
            "Title: a\nDate: 2026\n\nMessage-ID: in the text\n",
            "Subject: a\nFrom: b\n\n",
            "a,b\nMessage-ID: x\n",
            "Message-ID",
            "Message-ID: <1@exam",
            "It is so: yes\nReceived: no\n",
        ] {
            assert!(!is_beginning_of_mail(beginning.as_bytes()), "{beginning}");
        }
    }
}
