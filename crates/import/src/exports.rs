//! Exports that are read message by message: a mailbox, and the archives of ChatGPT and Slack.
//!
//! An archive is read by the names that its service gives; everything else in it is only looked at
//! where a message names it. A file of it that cannot be read costs itself, and so does an entry
//! that the store refuses.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;

use stile_store::archive::{Archive, ArchiveEntryReader};
use stile_store::files;

use super::assets::{Assets, Ids};
use super::attachment::Attachment;
use super::chatgpt::{Conversation, Message};
use super::input::{Format, Found, Item, Rows};
use super::json_array::JsonArray;
use super::known::{CHATGPT, Known, MAIL, Place, SLACK};
use super::mbox::{self, Mailbox, RawMessage};
use super::slack::{Channel, Event, Workspace};
use super::{chatgpt, mail, slack};
use stile_domain::records::value::RecordFields;
use stile_records::rows::{DecodedRow, RowDecoder};

/// How much of a file tells what it is.
const FIRST_BYTES: usize = 5;
const USERS: &str = "users.json";
/// The lists of what is talked in. The first must be there.
const CHANNELS: [&str; 4] = ["channels.json", "groups.json", "dms.json", "mpims.json"];

/// The format of an export that is known by more than the end of its name.
///
/// # Errors
/// What the store says of an archive that cannot be opened.
pub(super) fn format_of(path: &Path) -> io::Result<Option<Format>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if files::is_folder(path) {
        let has = |name: &str| path.join(name).is_file();
        let chats = || {
            files::entry_names(path)
                .is_ok_and(|names| names.iter().any(|name| chatgpt::is_conversations(name)))
        };
        return Ok(match () {
            () if has(USERS) && has(CHANNELS[0]) => Some(Format::Slack),
            () if chats() => Some(Format::ChatGpt),
            () => None,
        });
    }
    if chatgpt::is_conversations(name) {
        return Ok(Some(Format::ChatGpt));
    }
    if name.to_ascii_lowercase().ends_with(".mbox") {
        return Ok(Some(Format::Mbox));
    }
    let Ok(file) = files::open(path) else { return Ok(None) };
    let mut first = Vec::with_capacity(FIRST_BYTES);
    file.reader.take(FIRST_BYTES as u64).read_to_end(&mut first)?;
    if mbox::begins_one(&first) {
        return Ok(Some(Format::Mbox));
    }
    if !first.starts_with(b"PK") {
        return Ok(None);
    }
    let archive = Archive::open(path)?;
    Ok(match () {
        () if slack_root(&archive).is_some() => Some(Format::Slack),
        () if conversations(&archive).is_ok() => Some(Format::ChatGpt),
        () => None,
    })
}

/// How many bytes of an archive are rows.
pub(super) fn bytes(path: &Path, format: Format) -> io::Result<u64> {
    let archive = Archive::open(path)?;
    let files = match format {
        Format::Slack => days(&archive, &slack_root(&archive).ok_or_else(no_slack)?),
        _ => conversations(&archive)?.1,
    };
    Ok(files
        .iter()
        .filter_map(|&number| archive.entries().get(number))
        .map(|entry| entry.bytes)
        .sum())
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn no_slack() -> io::Error {
    bad("it is no Slack export: there is no `users.json` beside a `channels.json` in it")
}

/// A row of a known format.
fn found(
    known: &'static Known,
    fields: RecordFields,
    replaced: u64,
    attachments: Vec<Attachment>,
) -> Found {
    Found { fields, replaced, text: None, attachments, known: Some(known) }
}

/// The messages of a mailbox.
pub(super) struct Mails<R> {
    pub(super) name: Arc<str>,
    pub(super) mailbox: Mailbox<R>,
    pub(super) place: Place,
}

impl<R: BufRead> Rows for Mails<R> {
    fn next(&mut self) -> io::Result<Option<Item>> {
        let Some(RawMessage { line, message }) = self.mailbox.next_message()? else {
            return Ok(None);
        };
        let row = match message.map(|raw| mail::read(&raw, &self.place)) {
            Ok(Ok(mail)) => Ok(found(&MAIL, mail.fields, 0, mail.attachments)),
            Ok(Err(why)) => Err((why.code(), why.to_string())),
            Err(why) => Err((why.code(), why.to_string())),
        };
        Ok(Some(Item { file: Arc::clone(&self.name), line, row }))
    }

    fn consumed(&self) -> u64 {
        self.mailbox.consumed()
    }
}

/// The elements of some files of an archive, each of which is a JSON array.
struct Elements {
    archive: Arc<Archive>,
    shown: String,
    left: std::vec::IntoIter<usize>,
    current: Option<Current>,
    /// Bytes of the files before the current one.
    before: u64,
    /// A file and what it is called in a report.
    named: Option<(usize, Arc<str>)>,
}

/// The file that is read, and how many elements of it there were.
struct Current {
    number: usize,
    array: JsonArray<ArchiveEntryReader>,
    count: u64,
}

/// An element, or why there is none.
struct Element {
    number: usize,
    line: u64,
    /// Which element of its file it is, from 0 on; a line can have many. The same in each reading.
    ordinal: u64,
    row: Result<(RecordFields, u64), (&'static str, String)>,
}

impl Elements {
    fn of(archive: &Arc<Archive>, shown: &str, files: Vec<usize>) -> Self {
        let (archive, shown) = (Arc::clone(archive), shown.to_owned());
        Self { archive, shown, left: files.into_iter(), current: None, before: 0, named: None }
    }

    fn next(&mut self) -> Option<Element> {
        loop {
            let Current { number, array, count } = match &mut self.current {
                Some(current) => current,
                None => {
                    let number = self.left.next()?;
                    match self.archive.entries().get(number).map(|entry| self.archive.read(entry)) {
                        Some(Ok(reader)) => self.current.insert(Current {
                            number,
                            array: JsonArray::new(reader),
                            count: 0,
                        }),
                        Some(Err(error)) => return Some(unreadable(number, 1, 0, &error)),
                        None => continue,
                    }
                }
            };
            let (number, ordinal) = (*number, *count);
            *count += 1;
            let element = match array.next() {
                Ok(Some(DecodedRow { line, row })) => {
                    let row = row
                        .map(|row| (row.fields, row.replaced))
                        .map_err(|bad| (bad.code(), bad.to_string()));
                    return Some(Element { number, line, ordinal, row });
                }
                Ok(None) => None,
                // One file that cannot be read costs itself; the others are there all the same.
                Err(error) => Some(unreadable(number, array.line(), ordinal, &error)),
            };
            self.before += array.consumed();
            self.current = None;
            if element.is_some() {
                return element;
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |current| current.array.consumed())
    }

    fn item(
        &mut self,
        number: usize,
        line: u64,
        row: Result<Found, (&'static str, String)>,
    ) -> Item {
        let file = match &self.named {
            Some((own, file)) if *own == number => Arc::clone(file),
            _ => {
                let name =
                    self.archive.entries().get(number).map_or("", |entry| entry.name.as_str());
                Arc::clone(&self.named.insert((number, format!("{}/{name}", self.shown).into())).1)
            }
        };
        Item { file, line, row }
    }
}

fn unreadable(number: usize, line: u64, ordinal: u64, error: &io::Error) -> Element {
    let row = Err(("unreadable", format!("the file could not be read to its end: {error}")));
    Element { number, line, ordinal, row }
}

/// What the store refuses of an archive, as rows that are bad.
fn refused(archive: &Archive, shown: &str) -> VecDeque<Item> {
    let item = |refused: &stile_store::archive::RefusedArchiveEntry| {
        let row = Err((refused.error.code(), refused.error.to_string()));
        Item { file: format!("{shown}/{}", refused.name).into(), line: 1, row }
    };
    archive.refused().iter().map(item).collect()
}

/// The messages of a ChatGPT export.
pub(super) struct Chats {
    elements: Elements,
    assets: Assets,
    place: Place,
    ready: VecDeque<Item>,
    current: Option<Chat>,
}

/// A conversation whose messages are given.
struct Chat {
    conversation: Conversation,
    /// Where it stands.
    number: usize,
    line: u64,
    /// Counted once, with its first message.
    replaced: u64,
}

/// The folder of a ChatGPT export in an archive, with a `/` at its end unless it is the top, and
/// the numbers of its files of conversations.
fn conversations(archive: &Archive) -> io::Result<(String, Vec<usize>)> {
    let named = |(_, name): &(usize, &str)| {
        chatgpt::is_conversations(name.rsplit('/').next().unwrap_or_default())
    };
    let names: Vec<(usize, &str)> = names(archive).collect();
    let mut found: Vec<(usize, &str)> = names.iter().copied().filter(named).collect();
    if let (true, [only]) = (found.is_empty(), names.as_slice()) {
        found.push(*only);
    }
    let root = found.iter().map(|(_, name)| folder_of(name)).min_by_key(|root| root.len());
    let root = root
        .ok_or_else(|| bad("it is no ChatGPT export: there is no `conversations.json` in it"))?
        .to_owned();
    found.retain(|(_, name)| folder_of(name) == root);
    found.sort_unstable_by_key(|(_, name)| *name);
    Ok((root, found.into_iter().map(|(number, _)| number).collect()))
}

fn names(archive: &Archive) -> impl Iterator<Item = (usize, &str)> {
    archive.entries().iter().map(|entry| entry.name.as_str()).enumerate()
}

/// The folder of an entry with the `/` at its end; `""` at the top.
fn folder_of(name: &str) -> &str {
    name.rfind('/').and_then(|at| name.get(..=at)).unwrap_or_default()
}

impl Chats {
    pub(super) fn open(path: &Path, shown: &str, place: Place) -> io::Result<Self> {
        let archive = Arc::new(Archive::open(path)?);
        let (root, files) = conversations(&archive)?;
        let assets = Assets::of(&archive, &root, Ids::ChatGpt);
        let ready = refused(&archive, shown);
        Ok(Self {
            elements: Elements::of(&archive, shown, files),
            assets,
            place,
            ready,
            current: None,
        })
    }
}

impl Rows for Chats {
    fn next(&mut self) -> io::Result<Option<Item>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(item));
        }
        loop {
            if let Some(chat) = &mut self.current
                && let Some(message) = chat.conversation.next_message(&self.assets, &self.place)?
            {
                let row = match message {
                    Ok(Message { fields, attachments }) => {
                        Ok(found(&CHATGPT, fields, std::mem::take(&mut chat.replaced), attachments))
                    }
                    Err(why) => Err(("too_many_files", why.to_string())),
                };
                return Ok(Some(self.elements.item(chat.number, chat.line, row)));
            }
            let Some(Element { number, line, row, .. }) = self.elements.next() else {
                return Ok(None);
            };
            let (fields, replaced) = match row {
                Ok(row) => row,
                Err(bad) => return Ok(Some(self.elements.item(number, line, Err(bad)))),
            };
            match Conversation::of(fields) {
                Ok(conversation) => {
                    self.current = Some(Chat { conversation, number, line, replaced })
                }
                Err(why) => {
                    self.current = None;
                    return Ok(Some(self.elements.item(
                        number,
                        line,
                        Err(("no_conversation", why.to_string())),
                    )));
                }
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.elements.consumed()
    }
}

/// The messages of a Slack export.
pub(super) struct Days {
    elements: Elements,
    assets: Assets,
    place: Place,
    root: String,
    workspace: Workspace,
    /// By the names of their folders.
    channels: HashMap<String, Channel>,
    /// Where the last that is known of a message stands that was changed or deleted: by its channel
    /// and time stamp the file and which element of it.
    last: HashMap<(String, String), (usize, u64)>,
    ready: VecDeque<Item>,
}

/// The folder of a Slack export in an archive.
fn slack_root(archive: &Archive) -> Option<String> {
    let all: std::collections::HashSet<&str> = names(archive).map(|(_, name)| name).collect();
    let roots = names(archive)
        .map(|(_, name)| name)
        .filter(|name| name.rsplit('/').next() == Some(USERS))
        .map(folder_of);
    let mut roots: Vec<&str> =
        roots.filter(|root| all.contains(format!("{root}{}", CHANNELS[0]).as_str())).collect();
    roots.sort_unstable_by_key(|root| root.len());
    roots.first().map(|&root| root.to_owned())
}

/// The numbers of the files of days, by channel and day.
fn days(archive: &Archive, root: &str) -> Vec<usize> {
    let mut days: Vec<(&str, usize)> = names(archive)
        .filter(|(_, name)| name.strip_prefix(root).is_some_and(|inner| day_of(inner).is_some()))
        .map(|(number, name)| (name, number))
        .collect();
    days.sort_unstable();
    days.into_iter().map(|(_, number)| number).collect()
}

/// The channel's folder of a file of a day, `general/2026-01-31.json`.
fn day_of(inner: &str) -> Option<&str> {
    let (channel, file) = inner.split_once('/')?;
    let day = file.strip_suffix(".json")?;
    let is_digit = |(at, byte): (usize, u8)| {
        if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
    };
    (day.len() == 10 && day.bytes().enumerate().all(is_digit)).then_some(channel)
}

impl Days {
    pub(super) fn open(path: &Path, shown: &str, place: Place) -> io::Result<Self> {
        let archive = Arc::new(Archive::open(path)?);
        let root = slack_root(&archive).ok_or_else(no_slack)?;
        let files = days(&archive, &root);
        let mut made = Self {
            elements: Elements::of(&archive, shown, files.clone()),
            assets: Assets::of(&archive, &root, Ids::Slack),
            place,
            root,
            workspace: Workspace::default(),
            channels: HashMap::new(),
            last: HashMap::new(),
            ready: refused(&archive, shown),
        };
        made.learn(&archive, shown);
        made.find_events(&archive, shown, files);
        Ok(made)
    }

    /// Reads who there is and what is talked in. What of it cannot be read is told like a row.
    fn learn(&mut self, archive: &Arc<Archive>, shown: &str) {
        for list in [USERS].into_iter().chain(CHANNELS) {
            let name = format!("{}{list}", self.root);
            let number = names(archive).find(|(_, own)| **own == name).map(|(number, _)| number);
            let mut elements = Elements::of(archive, shown, number.into_iter().collect());
            while let Some(Element { number, line, row, .. }) = elements.next() {
                match row {
                    Err(bad) => self.ready.push_back(elements.item(number, line, Err(bad))),
                    Ok((fields, _)) if list == USERS => self.workspace.user(fields),
                    Ok((fields, _)) => {
                        if let Some(channel) = self.workspace.channel(fields) {
                            self.channels.insert(channel.id.clone(), channel.clone());
                            self.channels.insert(channel.name.clone(), channel);
                        }
                    }
                }
            }
        }
    }

    /// Looks for messages that were changed or deleted. Few exports tell of it, so only files in
    /// which the words occur are taken apart.
    fn find_events(&mut self, archive: &Arc<Archive>, shown: &str, files: Vec<usize>) {
        let has = |number: &usize| {
            archive.entries().get(*number).is_some_and(|entry| has_event(archive.read(entry)))
        };
        let mut elements = Elements::of(archive, shown, files.into_iter().filter(has).collect());
        while let Some(Element { number, ordinal, row, .. }) = elements.next() {
            if let Some((ts, _)) = row.ok().and_then(|(fields, _)| slack::event(&fields)) {
                let channel = self.channel(number).id;
                self.last.insert((channel, ts), (number, ordinal));
            }
        }
    }

    /// The channel of a file. One that no list has is called by its folder.
    fn channel(&self, number: usize) -> Channel {
        let name =
            self.elements.archive.entries().get(number).map_or("", |entry| entry.name.as_str());
        let folder = name.strip_prefix(&self.root).and_then(day_of).unwrap_or_default();
        let unknown = || Channel { id: folder.to_owned(), name: folder.to_owned() };
        self.channels.get(folder).cloned().unwrap_or_else(unknown)
    }

    /// Whether something later is known of the message than this element.
    fn is_outdated(&self, channel: &Channel, fields: &RecordFields, place: (usize, u64)) -> bool {
        if self.last.is_empty() {
            return false;
        }
        let ts = match slack::event(fields) {
            Some((ts, Event::Changed | Event::Deleted)) => Some(ts),
            None => slack::time_stamp(fields),
        };
        ts.and_then(|ts| self.last.get(&(channel.id.clone(), ts)))
            .is_some_and(|last| *last != place)
    }
}

fn has_event(reader: io::Result<ArchiveEntryReader>) -> bool {
    let Ok(mut reader) = reader else { return false };
    let words: [&[u8]; 2] = [b"\"message_changed\"", b"\"message_deleted\""];
    let mut window: Vec<u8> = Vec::new();
    loop {
        let Ok(buffer) = reader.fill_buf() else { return false };
        if buffer.is_empty() {
            return false;
        }
        window.extend_from_slice(buffer);
        let count = buffer.len();
        reader.consume(count);
        if words.iter().any(|word| memchr::memmem::find(&window, word).is_some()) {
            return true;
        }
        // What may be the beginning of a word stays.
        window.drain(..window.len().saturating_sub(words[0].len()));
    }
}

impl Rows for Days {
    fn next(&mut self) -> io::Result<Option<Item>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(item));
        }
        loop {
            let Some(Element { number, line, ordinal, row }) = self.elements.next() else {
                return Ok(None);
            };
            let (fields, replaced) = match row {
                Ok(row) => row,
                Err(bad) => return Ok(Some(self.elements.item(number, line, Err(bad)))),
            };
            let channel = self.channel(number);
            if self.is_outdated(&channel, &fields, (number, ordinal)) {
                continue;
            }
            let row =
                match slack::read(fields, &channel, &self.workspace, &self.assets, &self.place)? {
                    Ok(message) => Ok(found(&SLACK, message.fields, replaced, message.attachments)),
                    Err(why) => Err((why.code(), why.to_string())),
                };
            return Ok(Some(self.elements.item(number, line, row)));
        }
    }

    fn consumed(&self) -> u64 {
        self.elements.consumed()
    }
}

#[cfg(test)]
mod tests;
