//! Imports a Slack export: a record for each message of each channel.
//!
//! The export is a folder or zip file with the lists of people and channels, and for each channel a
//! folder with a file for each day. [`message`] reads one element of such a file. A message that
//! was changed or deleted later is imported once, in its last state.
//!
//! *Source*: Slack's help page "How to read Slack data exports".

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, BufRead as _};
use std::path::Path;
use std::sync::Arc;

use stile_domain::records::value::RecordFields;
use stile_store::archive::{Archive, ArchiveEntryReader};

use super::archive_arrays::{
    ArchiveArrays, ArrayElement, ElementLocation, bytes_of, entry_names, folder_of,
};
use crate::attachment;
use crate::exported_files::{ExportedFiles, FileIdShape};
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, LocatedRow, Recognition,
    StreamDeclaration, UnusableRow,
};
use crate::preset::{PresetDeclaration, PresetField};

pub mod message;
mod mrkdwn;
mod rich_text;
pub mod workspace;

use workspace::{Channel, Workspace};

/// Imports each message of a Slack export.
pub static IMPORTER: Importer = Importer {
    name: "slack",
    description: "a Slack export",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Folder(path) => {
                let has = |name: &str| path.join(name).is_file();
                has(USERS) && has(CHANNEL_LISTS[0])
            }
            Contents::Zip(archive) => find_export(archive).is_ok(),
            Contents::Beginning(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: |path| {
        let archive = Archive::open(path)?;
        Ok(bytes_of(&archive, &day_files(&archive, &find_export(&archive)?)))
    },
    open: |path, target| Ok(Box::new(SlackRows::open(path, target.clone())?)),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "messages",
    key: "id",
    time: "at",
    fields: &[
        ("id", PresetField::Name),
        ("channel", PresetField::Name),
        ("channel_id", PresetField::Name),
        ("user", PresetField::Name),
        ("user_name", PresetField::SearchedText),
        ("at", PresetField::Time),
        ("text", PresetField::SearchedText),
        ("thread_ts", PresetField::Name),
        ("thread_id", PresetField::Name),
        ("thread_ref", PresetField::Object),
        ("is_reply", PresetField::Flag),
        ("subtype", PresetField::Name),
        ("edited_at", PresetField::Time),
        ("reactions", PresetField::List),
        ("files", PresetField::List),
        ("attachments", PresetField::List),
        (attachment::TEXT_FIELD, PresetField::SearchedText),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is a Slack export: `id` is the key, the channel and the time stamp of a message",
        "`at` orders the records and is the time by which a grant counts",
        "`user_name`, `text` and `attachment_text` can be searched",
        "`thread_id` is the message that began the thread; \
         `attachments` refers to blobs, where the export has the files",
    ],
};

/// Identifiers such as `F0BEDS001`.
const FILE_IDS: FileIdShape = FileIdShape {
    prefixes: &["F"],
    is_id_byte: |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit(),
};

const USERS: &str = "users.json";
/// The lists of channels, private channels, direct messages and group messages. Every export has
/// the first.
const CHANNEL_LISTS: [&str; 4] = ["channels.json", "groups.json", "dms.json", "mpims.json"];

struct SlackRows {
    messages: ArchiveArrays,
    files: ExportedFiles,
    target: ImportTarget,
    /// The folder of the export in the archive.
    folder: String,
    workspace: Workspace,
    /// The channels by their identifiers and by their names: a folder is named by either.
    channels: HashMap<String, Channel>,
    /// The entry and the index of the last element about a message, for messages that were changed
    /// or deleted. The key is the channel's identifier and the message's time stamp.
    last_events: HashMap<(String, String), (usize, u64)>,
    /// Bad rows that come before the first message.
    refused: VecDeque<LocatedRow>,
}

impl SlackRows {
    fn open(path: &Path, target: ImportTarget) -> io::Result<Self> {
        let archive = Arc::new(Archive::open(path)?);
        let folder = find_export(&archive)?;
        let days = day_files(&archive, &folder);
        let messages = ArchiveArrays::new(&archive, path, days.clone());
        let mut rows = Self {
            files: ExportedFiles::new(&archive, &folder, FILE_IDS),
            target,
            folder,
            workspace: Workspace::default(),
            channels: HashMap::new(),
            last_events: HashMap::new(),
            refused: messages.refused_entries(),
            messages,
        };
        rows.read_lists(&archive, path);
        rows.find_events(&archive, path, days);
        Ok(rows)
    }

    /// Reads the lists of people and channels. An element that cannot be read is a bad row.
    fn read_lists(&mut self, archive: &Arc<Archive>, path: &Path) {
        for list in [USERS].into_iter().chain(CHANNEL_LISTS) {
            let name = format!("{}{list}", self.folder);
            let entry = entry_names(archive).find(|(_, own)| **own == name);
            let entries = entry.map(|(number, _)| number).into_iter().collect();
            let mut elements = ArchiveArrays::new(archive, path, entries);
            while let Some(ArrayElement { location, row }) = elements.next() {
                match row {
                    Err(bad) => self.refused.push_back(location.locate(Err(bad))),
                    Ok((fields, _)) if list == USERS => self.workspace.add_user(fields),
                    Ok((fields, _)) => {
                        if let Some(channel) = self.workspace.add_channel(fields) {
                            self.channels.insert(channel.id.clone(), channel.clone());
                            self.channels.insert(channel.name.clone(), channel);
                        }
                    }
                }
            }
        }
    }

    /// Finds the messages that were changed or deleted. Few exports have such an event, so only
    /// files that contain its name are parsed.
    fn find_events(&mut self, archive: &Arc<Archive>, path: &Path, days: Vec<usize>) {
        let has_event = |number: &usize| {
            archive.entries().get(*number).is_some_and(|entry| has_event(archive.read(entry)))
        };
        let days = days.into_iter().filter(has_event).collect();
        let mut elements = ArchiveArrays::new(archive, path, days);
        while let Some(ArrayElement { location, row }) = elements.next() {
            if let Some(event) = row.ok().and_then(|(fields, _)| message::event(&fields)) {
                let channel = self.channel_of(location.entry).id;
                self.last_events
                    .insert((channel, event.time_stamp), (location.entry, location.index));
            }
        }
    }

    /// Returns the channel of a day's file. A channel that no list has is named by its folder.
    fn channel_of(&self, entry: usize) -> Channel {
        let name = self.messages.entry_name(entry);
        let folder = name.strip_prefix(&self.folder).and_then(channel_folder).unwrap_or_default();
        let unlisted = || Channel { id: folder.to_owned(), name: folder.to_owned() };
        self.channels.get(folder).cloned().unwrap_or_else(unlisted)
    }

    /// Returns whether the export has a later state of the message than this element.
    fn is_outdated(
        &self,
        channel: &Channel,
        fields: &RecordFields,
        location: &ElementLocation,
    ) -> bool {
        if self.last_events.is_empty() {
            return false;
        }
        let time_stamp = match message::event(fields) {
            Some(event) => Some(event.time_stamp),
            None => message::time_stamp(fields),
        };
        time_stamp
            .and_then(|time_stamp| self.last_events.get(&(channel.id.clone(), time_stamp)))
            .is_some_and(|last| *last != (location.entry, location.index))
    }
}

impl ImportRows for SlackRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        if let Some(row) = self.refused.pop_front() {
            return Ok(Some(row));
        }
        loop {
            let Some(ArrayElement { location, row }) = self.messages.next() else {
                return Ok(None);
            };
            let (fields, replaced) = match row {
                Ok(row) => row,
                Err(bad) => return Ok(Some(location.locate(Err(bad)))),
            };
            let channel = self.channel_of(location.entry);
            if self.is_outdated(&channel, &fields, &location) {
                continue;
            }
            let row = message::read(fields, &channel, &self.workspace, &self.files, &self.target)?
                .map(|row| ImportRow { replaced, ..row })
                .map_err(|bad| UnusableRow::new(bad.code(), bad));
            return Ok(Some(location.locate(row)));
        }
    }

    fn consumed(&self) -> u64 {
        self.messages.consumed()
    }
}

/// Returns the folder of the export in an archive, with a `/` at its end unless it is the top.
fn find_export(archive: &Archive) -> io::Result<String> {
    let names: HashSet<&str> = entry_names(archive).map(|(_, name)| name).collect();
    let folders = entry_names(archive)
        .filter(|(_, name)| name.rsplit('/').next() == Some(USERS))
        .map(|(_, name)| folder_of(name))
        .filter(|folder| names.contains(format!("{folder}{}", CHANNEL_LISTS[0]).as_str()));
    let outermost = folders.min_by_key(|folder| folder.len());
    outermost.map(str::to_owned).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not a Slack export: there is no `users.json` beside a `channels.json` in it",
        )
    })
}

/// Returns the numbers of the files of days, ordered by channel and day.
fn day_files(archive: &Archive, folder: &str) -> Vec<usize> {
    let is_day = |name: &str| name.strip_prefix(folder).and_then(channel_folder).is_some();
    let mut days: Vec<(&str, usize)> = entry_names(archive)
        .filter(|(_, name)| is_day(name))
        .map(|(number, name)| (name, number))
        .collect();
    days.sort_unstable();
    days.into_iter().map(|(_, number)| number).collect()
}

/// Returns `general` of `general/2026-01-31.json`; `None` for a name that is not of a day's file.
fn channel_folder(name: &str) -> Option<&str> {
    let (channel, file) = name.split_once('/')?;
    let day = file.strip_suffix(".json")?;
    let fits = |(at, byte): (usize, u8)| {
        if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
    };
    (day.len() == 10 && day.bytes().enumerate().all(fits)).then_some(channel)
}

/// Returns whether a file contains the name of an event; `false` if it cannot be read.
fn has_event(reader: io::Result<ArchiveEntryReader>) -> bool {
    let Ok(mut reader) = reader else { return false };
    let events: [&[u8]; 2] = [b"\"message_changed\"", b"\"message_deleted\""];
    let mut window: Vec<u8> = Vec::new();
    loop {
        let Ok(buffer) = reader.fill_buf() else { return false };
        if buffer.is_empty() {
            return false;
        }
        window.extend_from_slice(buffer);
        let count = buffer.len();
        reader.consume(count);
        if events.iter().any(|event| memchr::memmem::find(&window, event).is_some()) {
            return true;
        }
        // The end of the window may be the beginning of a name.
        window.drain(..window.len().saturating_sub(events[0].len()));
    }
}
