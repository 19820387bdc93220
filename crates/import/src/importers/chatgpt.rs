//! Imports an export of ChatGPT, Claude or Grok: a record for each message of each conversation.
//!
//! The exports of ChatGPT and Claude are `conversations.json`, or a folder or zip file that has it,
//! or several files such as `conversations-001.json`. [`conversation`] reads one element of such a
//! file, and tells whose it is. [`grok_export`] opens the export of Grok. So all give the same
//! fields, and can share a stream.
//!
//! *Source*: OpenAI and Anthropic document no format; these are as their exports of 2023 to 2026
//! are.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use stile_store::archive::Archive;
use stile_store::files;

use super::archive_arrays::{
    ArchiveArrays, ArrayElement, ElementLocation, bytes_of, entry_names, folder_of,
};
use crate::attachment;
use crate::exported_files::{ExportedFiles, FileIdShape};
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, LeftOutRows, LocatedRow, Recognition,
    StreamDeclaration, UnusableRow,
};
use crate::preset::{PresetDeclaration, PresetField};

mod claude;
pub mod conversation;
mod grok;
pub mod grok_export;
mod message;

use conversation::{Conversation, EMPTY};

/// Imports each message of a Claude export that has more than its conversations, as it is
/// downloaded. A lone `conversations.json` is for [`IMPORTER`], which reads it alike.
pub static CLAUDE: Importer = Importer {
    name: "claude",
    description: "a Claude export",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Folder(path) => files::entry_names(path)
                .is_ok_and(|names| is_claude(names.iter().map(String::as_str))),
            Contents::Zip(archive) => {
                let names = entry_names(archive);
                is_claude(names.map(|(_, name)| name.rsplit('/').next().unwrap_or_default()))
            }
            Contents::Beginning(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    ..IMPORTER
};

/// Imports each message of a ChatGPT export.
pub static IMPORTER: Importer = Importer {
    name: "chatgpt",
    description: "a ChatGPT export",
    recognition: Recognition {
        file_name: is_conversation_file,
        contents: |contents| match contents {
            Contents::Folder(path) => files::entry_names(path)
                .is_ok_and(|names| names.iter().any(|name| is_conversation_file(name))),
            Contents::Zip(archive) => find_conversations(archive).is_ok(),
            Contents::Beginning(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: |path| {
        let archive = Archive::open(path)?;
        Ok(bytes_of(&archive, &find_conversations(&archive)?.1))
    },
    open: |path, target| Ok(Box::new(ChatGptRows::open(path, target.clone())?)),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "messages",
    key: "id",
    time: "created_at",
    fields: &[
        ("id", PresetField::Name),
        ("conversation_id", PresetField::Name),
        ("conversation_title", PresetField::SearchedText),
        ("role", PresetField::Name),
        ("model", PresetField::Name),
        ("created_at", PresetField::Time),
        ("content_type", PresetField::Name),
        ("text", PresetField::SearchedText),
        ("parent_id", PresetField::Name),
        ("parent_ref", PresetField::Object),
        ("on_current_branch", PresetField::Flag),
        ("attachments", PresetField::List),
        (attachment::TEXT_FIELD, PresetField::SearchedText),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is an export of conversations, a record for each message: `id` is the key",
        "`created_at` orders the records and is the time by which a grant counts",
        "`conversation_title`, `text` and `attachment_text` can be searched",
        "`parent_id` is the message before; \
         `on_current_branch` is false for what was edited away or regenerated",
    ],
};

/// Identifiers such as `file-AbC12345` and `file_00000000abcd`.
const FILE_IDS: FileIdShape =
    FileIdShape { prefixes: &["file-", "file_"], is_id_byte: |byte| byte.is_ascii_alphanumeric() };

/// The endings of other formats, which a zip file may have alone.
const FOREIGN: [&str; 13] = [
    ".mbox", ".eml", ".txt", ".ics", ".vcf", ".ofx", ".qfx", ".xml", ".csv", ".gpx", ".enex",
    ".opml", ".html",
];

struct ChatGptRows {
    conversations: ArchiveArrays,
    files: ExportedFiles,
    target: ImportTarget,
    /// Bad rows that come before the first message.
    refused: VecDeque<LocatedRow>,
    current: Option<CurrentConversation>,
    left_out: u64,
}

struct CurrentConversation {
    conversation: Conversation,
    location: ElementLocation,
    /// The halves of surrogate pairs in the conversation. The first message reports them.
    replaced: u64,
}

impl ChatGptRows {
    fn open(path: &Path, target: ImportTarget) -> io::Result<Self> {
        let archive = Arc::new(Archive::open(path)?);
        let (folder, entries) = find_conversations(&archive)?;
        let files = ExportedFiles::new(&archive, &folder, FILE_IDS);
        let conversations = ArchiveArrays::new(&archive, path, entries);
        let refused = conversations.refused_entries();
        Ok(Self { conversations, files, target, refused, current: None, left_out: 0 })
    }
}

impl ImportRows for ChatGptRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        if let Some(row) = self.refused.pop_front() {
            return Ok(Some(row));
        }
        loop {
            if let Some(current) = &mut self.current
                && let Some(message) =
                    current.conversation.next_message(&self.files, &self.target)?
            {
                let row = match message {
                    Ok(row) => {
                        Ok(ImportRow { replaced: std::mem::take(&mut current.replaced), ..row })
                    }
                    Err(bad) => Err(UnusableRow::new("too_many_files", bad)),
                };
                return Ok(Some(current.location.locate(row)));
            }
            let Some(ArrayElement { location, row }) = self.conversations.next() else {
                return Ok(None);
            };
            self.current = None;
            let parsed = row.and_then(|(fields, replaced)| {
                let mut conversation = Conversation::parse(fields)
                    .map_err(|bad| UnusableRow::new("no_conversation", bad))?;
                self.left_out += conversation.take_left_out();
                Ok((conversation, replaced))
            });
            match parsed {
                Ok((conversation, replaced)) => {
                    self.current = Some(CurrentConversation { conversation, location, replaced });
                }
                Err(bad) => return Ok(Some(location.locate(Err(bad)))),
            }
        }
    }

    fn left_out(&self) -> Option<LeftOutRows> {
        (self.left_out > 0).then_some((EMPTY, self.left_out))
    }

    fn consumed(&self) -> u64 {
        self.conversations.consumed()
    }
}

/// Returns whether an export of these files is one of Claude.
fn is_claude<'n>(names: impl Iterator<Item = &'n str>) -> bool {
    let (mut has_conversations, mut has_own) = (false, false);
    for name in names {
        has_conversations |= is_conversation_file(name);
        has_own |= matches!(name, "users.json" | "projects.json" | "memories.json");
    }
    has_conversations && has_own
}

/// Returns the folder of the export in an archive, with a `/` at its end unless it is the top, and
/// the numbers of its files of conversations. An archive with a single file is an export whatever
/// the name of the file, if it is an array and the name is not that of another format.
fn find_conversations(archive: &Archive) -> io::Result<(String, Vec<usize>)> {
    let names: Vec<(usize, &str)> = entry_names(archive).collect();
    let is_named = |(_, name): &(usize, &str)| {
        is_conversation_file(name.rsplit('/').next().unwrap_or_default())
    };
    let mut found: Vec<(usize, &str)> = names.iter().copied().filter(is_named).collect();
    if let (true, [only]) = (found.is_empty(), names.as_slice())
        && !FOREIGN.iter().any(|end| only.1.to_ascii_lowercase().ends_with(end))
        && begins_as_array(archive, only.0)
    {
        found.push(*only);
    }
    let folder = found.iter().map(|(_, name)| folder_of(name)).min_by_key(|folder| folder.len());
    let folder = folder
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "it is not a ChatGPT export: there is no `conversations.json` in it",
            )
        })?
        .to_owned();
    found.retain(|(_, name)| folder_of(name) == folder);
    found.sort_unstable_by_key(|(_, name)| *name);
    Ok((folder, found.into_iter().map(|(number, _)| number).collect()))
}

/// Returns whether an entry of an archive is an array, as all exports of conversations are. One
/// that cannot be read may be one.
fn begins_as_array(archive: &Archive, number: usize) -> bool {
    let Some(entry) = archive.entries().get(number) else { return false };
    let mut beginning = Vec::new();
    let read = archive
        .read(entry)
        .and_then(|it| it.take(Contents::BEGINNING_BYTES as u64).read_to_end(&mut beginning));
    let text = beginning.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&beginning);
    read.is_err() || text.trim_ascii_start().starts_with(b"[")
}

/// Returns whether a file name is `conversations.json` or, as large exports have it,
/// `conversations-` with digits and `.json`.
fn is_conversation_file(name: &str) -> bool {
    let number = name.strip_prefix("conversations").and_then(|rest| rest.strip_suffix(".json"));
    number.is_some_and(|number| {
        number.is_empty()
            || number.strip_prefix('-').is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            })
    })
}
