//! Imports a mailbox: one file that holds the messages of a mail program, a record for each.
//!
//! [`mailbox`] splits the file into messages, and [`mail`] reads the fields of one. `archived`
//! reads the mailboxes and messages in a zip file, as Gmail's Takeout is.

use crate::attachment;
use crate::importer::{Contents, Importer, Recognition, StreamDeclaration, file_bytes};
use crate::preset::{PresetDeclaration, PresetField};

pub(super) mod archived;
pub mod mail;
pub mod mailbox;
mod message_rows;
mod threads;

pub(super) use archived::ArchivedMail;
pub(super) use message_rows::{MailboxRows, is_beginning_of_mail, message_row};
pub(super) use threads::Threads;

/// Imports each message of a mailbox.
pub static IMPORTER: Importer = Importer {
    name: "mbox",
    description: "a mailbox (mbox)",
    recognition: Recognition {
        file_name: |name| name.to_ascii_lowercase().ends_with(".mbox"),
        contents: |contents| match contents {
            Contents::Beginning(beginning) => beginning.starts_with(b"From "),
            Contents::Zip(archive) => archived::has_mail(archive),
            Contents::Folder(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, target| match path.files().is_some() || archived::is_zip(path)? {
        true => Ok(Box::new(ArchivedMail::open(path, target)?)),
        false => Ok(Box::new(MailboxRows::new(path, path.open()?.reader, target))),
    },
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

/// The declaration of a stream of mail.
pub(super) static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "messages",
    key: "message_id",
    time: "date",
    fields: &[
        ("message_id", PresetField::Name),
        ("date", PresetField::Time),
        ("from", PresetField::SearchedText),
        ("to", PresetField::SearchedText),
        ("cc", PresetField::SearchedText),
        ("subject", PresetField::SearchedText),
        ("in_reply_to", PresetField::Name),
        ("in_reply_to_ref", PresetField::Object),
        ("thread", PresetField::Name),
        ("thread_ref", PresetField::Object),
        ("labels", PresetField::SearchedText),
        ("body", PresetField::SearchedText),
        ("attachments", PresetField::List),
        (attachment::TEXT_FIELD, PresetField::SearchedText),
    ],
    keys_can_be_forged: true,
    owner_fields: &["labels"],
    derived_fields: &["thread", "thread_ref"],
    because: &[
        "it is mail: `message_id` is the key",
        "`date` orders the records and is the time by which a grant counts; \
         a message without a date has none",
        "`from`, `to`, `cc`, `subject`, `labels`, `body`, `attachment_text` can be searched",
        "`thread` is the message that began the conversation; `attachments` refers to blobs",
    ],
};
