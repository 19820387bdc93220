//! Reads whole files, and windows of files without the rest.
//!
//! The hash and the lines of an answer must be of the same version. A small file is read into one
//! buffer. A large file is read twice, and equal stamps before and after prove that it did not
//! change in between, as long as the clock is fine enough.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::string::FromUtf8Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::document::{DocumentKind, DocumentText};
use stile_domain::error::{EncodingFault, Refusal};
use stile_domain::facts::{FINE_GRANULARITY, FileFacts, FileStamp};
use stile_domain::file_cursor::FileCursor;
use stile_domain::hash::{ContentHash, ContentHasher};
use stile_domain::line_search::LineQuery;
use stile_domain::lines::{LineIndex, LineRange, LineScanner, ResolvedLines};
use stile_domain::listing::EntryKind;
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::section::{SectionFault, WantedSection};
use stile_domain::path::SpacePath;
use stile_domain::text_encoding::{
    DecodedText, EncodingSource, MAX_DECODED_BYTES, TextEncoding, UTF_16_HEAD, is_disguised_utf_16,
    recognise, utf_8,
};
use stile_domain::window;
use stile_domain::window::WindowInput::{Partial, ToEndOfFile};

use super::document_texts::NoDocumentText;
use super::edit_refusal::no_section;
use super::file_hash::PIECE;
use super::whole_file::{HEAD, read_whole};
use super::{
    DocumentWindow, FileBytes, FileWindow, Inner, ReadAs, WindowContinuation, WindowStart, os,
    refusal,
};

/// The largest file that is read in one piece, in bytes.
const ONE_PIECE: u64 = 1024 * 1024;
/// How long after a change another program may still be saving the file.
const SETTLING: Duration = Duration::from_millis(5);
/// How long a read waits for a file to stop changing.
const PATIENCE: Duration = Duration::from_millis(250);

/// An open regular file with its attributes.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) status: os::Status,
}

/// Refuses a file that is not a regular file.
pub(super) fn regular(file: io::Result<File>, path: &SpacePath) -> Result<Opened, Refusal> {
    let file = file.map_err(|error| refusal(&error, path))?;
    let status = os::status(&file).map_err(|error| refusal(&error, path))?;
    if status.kind == EntryKind::File {
        Ok(Opened { file, status })
    } else {
        Err(Refusal::not_a_file(path))
    }
}

/// The facts of a file in one state, with its bytes if they were read in one piece.
struct StampedFacts {
    stamp: FileStamp,
    facts: Arc<FileFacts>,
    bytes: Option<Vec<u8>>,
}

impl Inner {
    /// Reads a window for `text.read`.
    pub(super) fn read(
        &self,
        path: &SpacePath,
        from: &WindowStart,
        encoding: ReadAs,
    ) -> Result<FileWindow, Refusal> {
        let budget = self.options.limits.read_budget;
        let is_utf8 = |stated| stated == ReadAs::Stated(TextEncoding::UTF_8);
        self.read_known(path, |file, known| {
            let hash = known.facts.hash;
            if let Some(kind) = self.document_kind(path, file, known, encoding)? {
                return self.document_window(path, (file, known), from, kind);
            }
            let lines = known.facts.lines.as_ref();
            let lines = lines.filter(|_| is_utf8(encoding) || !encoding.is_stated());
            if let Some(lines) = lines {
                let bytes = known.bytes.as_deref();
                let text = FileText { file, bytes, lines, document: None };
                return text.window(path, from, hash, budget);
            }
            let decoded = match self.decoded(file, known, path, encoding)? {
                Ok(decoded) => decoded,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let lines = line_index(&decoded.text);
            let bytes = Some(decoded.text.as_bytes());
            let text = FileText { file, bytes, lines: &lines, document: None };
            let window = text.window(path, from, hash, budget)?;
            let (size_bytes, encoding) = (known.stamp.size, (decoded.encoding, decoded.source));
            Ok(window.map(|it| FileWindow { size_bytes, encoding: Some(encoding), ..it }))
        })
    }

    /// Returns which kind of document is to be read; `None` if the file is read as text.
    fn document_kind(
        &self,
        path: &SpacePath,
        file: &File,
        known: &StampedFacts,
        read_as: ReadAs,
    ) -> io::Result<Option<DocumentKind>> {
        let is_text = known.facts.lines.is_some();
        if matches!(read_as, ReadAs::Utf8 | ReadAs::Stated(_)) {
            return Ok(None);
        }
        let kind = self.documents.kind(path, file)?;
        if let Some(kind) = kind.filter(|kind| !is_text || kind.is_never_text(path)) {
            return Ok(Some(kind));
        }
        Ok(match read_as {
            _ if !is_text => None,
            ReadAs::Extracted => {
                DocumentKind::of_marked_up_text(path).filter(|_| self.documents.has_reader())
            }
            _ => None,
        })
    }

    /// Reads a window of the text of a document.
    fn document_window(
        &self,
        path: &SpacePath,
        (file, known): (&File, &StampedFacts),
        from: &WindowStart,
        kind: DocumentKind,
    ) -> io::Result<Result<FileWindow, Refusal>> {
        let (stamp, hash) = (known.stamp, known.facts.hash);
        let document = match self.documents.read(file, stamp, kind)? {
            Ok(document) => document,
            Err(NoDocumentText::Busy | NoDocumentText::Late) => {
                return Ok(Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false }));
            }
            Err(NoDocumentText::Of(why)) => {
                let (path, size_bytes) = (path.clone(), stamp.size);
                return Ok(Err(Refusal::NoDocumentText { path, size_bytes, hash, why }));
            }
        };
        let lines = line_index(&document.text);
        let bytes = Some(document.text.as_bytes());
        let text = FileText { file, bytes, lines: &lines, document: Some(&document) };
        let window = text.window(path, from, hash, self.options.limits.read_budget)?;
        Ok(window.map(|it| {
            let first = document.part_of(it.lines.start);
            let shown = DocumentWindow { parts: document.parts(), first };
            FileWindow { size_bytes: stamp.size, document: Some(shown), ..it }
        }))
    }

    /// Decodes a file that is not UTF-8, or not to be read as UTF-8.
    fn decoded(
        &self,
        file: &File,
        known: &StampedFacts,
        path: &SpacePath,
        encoding: ReadAs,
    ) -> io::Result<Result<DecodedText, Refusal>> {
        let (size_bytes, hash) = (known.stamp.size, known.facts.hash);
        let not_text = || Refusal::NotText { path: path.clone(), size_bytes, hash };
        if matches!(encoding, ReadAs::Utf8 | ReadAs::Extracted) {
            return Ok(Err(not_text()));
        }
        let busy = || Refusal::Busy { path: path.clone(), is_locked_by_other: false };
        let too_large = || Refusal::TooLarge {
            path: path.clone(),
            limit_bytes: MAX_DECODED_BYTES,
            advice: "`file.read` reads a part of its bytes.",
        };
        if size_bytes > MAX_DECODED_BYTES {
            return Ok(Err(if encoding.is_stated() { too_large() } else { not_text() }));
        }
        let is_large = size_bytes > ONE_PIECE;
        let until = Instant::now() + self.options.lock_wait;
        let turn = is_large.then(|| self.first_reads.enter(until));
        if matches!(turn, Some(None)) {
            return Ok(Err(busy()));
        }
        let bytes = match &known.bytes {
            Some(bytes) => Cow::Borrowed(bytes.as_slice()),
            None => match read_whole(file, size_bytes, MAX_DECODED_BYTES)? {
                Some(bytes) => Cow::Owned(bytes),
                None => return Ok(Err(busy())),
            },
        };
        let ReadAs::Stated(stated) = encoding else {
            return Ok(recognise(&bytes).ok_or_else(not_text));
        };
        let decoded = DecodedText::of(&bytes, stated, EncodingSource::Stated);
        Ok(decoded.ok_or_else(|| Refusal::BadEncoding {
            path: path.clone(),
            encoding: stated.to_string(),
            why: EncodingFault::Invalid,
        }))
    }

    /// Reads a window for `file.read`.
    pub(super) fn read_bytes(
        &self,
        path: &SpacePath,
        offset: u64,
        length: usize,
    ) -> Result<FileBytes, Refusal> {
        self.read_known(path, |file, known| {
            let window = |offset: u64, length: usize| {
                let left = usize::try_from(known.stamp.size.saturating_sub(offset));
                let mut bytes = vec![0; left.unwrap_or(usize::MAX).min(length)];
                match (&known.bytes, usize::try_from(offset)) {
                    (Some(whole), Ok(start)) => {
                        let part = whole.get(start..start.saturating_add(bytes.len()));
                        bytes.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
                    }
                    _ => {
                        let read = os::read_at(file, &mut bytes, offset)?;
                        bytes.truncate(read);
                    }
                }
                io::Result::Ok(bytes)
            };
            Ok(Ok(FileBytes {
                bytes: window(offset, length)?,
                head: window(0, HEAD)?,
                hash: known.facts.hash,
                size_bytes: known.stamp.size,
            }))
        })
    }

    /// Reads a part of a file, and its facts, of one version.
    fn read_known<T>(
        &self,
        path: &SpacePath,
        read: impl Fn(&File, &StampedFacts) -> io::Result<Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let opened = regular(self.root.open_file(path), path)?;
            if opened.status.stamp.size > self.options.limits.read_size {
                return Err(Refusal::TooLarge {
                    path: path.clone(),
                    limit_bytes: self.options.limits.read_size,
                    advice: "Ask the user to split the file, or to raise the server's limit.",
                });
            }
            let io = |error: io::Error| refusal(&error, path);
            let Some(known) = self.known_file(&opened, path, deadline)? else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let done = read(&opened.file, &known);
            // Bytes in memory are of one version. Otherwise the stamp must be the same as before.
            if known.bytes.is_some() || os::status(&opened.file).map_err(io)?.stamp == known.stamp {
                return done.map_err(io)?;
            }
            if Instant::now() >= deadline {
                return Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false });
            }
        }
    }

    /// Reads a whole text file for [`super::Space::derive`].
    ///
    /// Waits while another program saves the file, like [`Inner::read`]. Opens the file once, so a
    /// file that is replaced meanwhile is read in its old version.
    pub(super) fn read_text(&self, path: &SpacePath, max_bytes: u64) -> Result<String, Refusal> {
        let io = |error: io::Error| refusal(&error, path);
        let too_large = || Refusal::TooLarge {
            path: path.clone(),
            limit_bytes: max_bytes,
            advice: "Call `text.read`, which reads a part of it.",
        };
        let deadline = Instant::now() + PATIENCE;
        let Opened { file, status } = regular(self.root.open_file(path), path)?;
        let mut stamp = status.stamp;
        loop {
            if stamp.size > max_bytes {
                return Err(too_large());
            }
            let patient = Instant::now() < deadline;
            if !(patient && self.is_settling(&stamp, os::now())) {
                let bytes =
                    read_whole(&file, stamp.size, max_bytes).map_err(io)?.ok_or_else(too_large)?;
                if os::status(&file).map_err(io)?.stamp == stamp {
                    return whole_utf_8(bytes).map_err(|bytes| Refusal::NotText {
                        path: path.clone(),
                        size_bytes: stamp.size,
                        hash: ContentHash::digest(&bytes),
                    });
                }
                if !patient {
                    return Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false });
                }
            }
            std::thread::sleep(Duration::from_millis(2));
            stamp = os::status(&file).map_err(io)?.stamp;
        }
    }

    /// Returns the facts of a file, from memory if possible. `None` means that the file is
    /// changing, so the caller must try again.
    fn known_file(
        &self,
        opened: &Opened,
        path: &SpacePath,
        deadline: Instant,
    ) -> Result<Option<StampedFacts>, Refusal> {
        let io = |error: io::Error| refusal(&error, path);
        let Opened { file, status } = opened;
        let stamp = status.stamp;
        if let Some(facts) = self.memory().get(&stamp) {
            return Ok(Some(StampedFacts { stamp, facts, bytes: None }));
        }
        let patient = Instant::now() < deadline;
        let began = os::now();
        if stamp.size <= ONE_PIECE {
            if patient && self.is_settling(&stamp, began) {
                return Ok(None);
            }
            let whole = read_whole(file, stamp.size, self.options.limits.read_size).map_err(io)?;
            let Some(bytes) = whole else { return Ok(None) };
            let facts = Arc::new(facts_of(&bytes));
            let after = os::status(file).map_err(io)?.stamp;
            if after != stamp && patient {
                return Ok(None);
            }
            if after == stamp {
                self.memory().insert(stamp, &facts, began);
            }
            return Ok(Some(StampedFacts { stamp, facts, bytes: Some(bytes) }));
        }
        if !stamp.settled_at(began) {
            return if patient {
                Ok(None)
            } else {
                Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false })
            };
        }
        let turn = self.first_reads.enter(Instant::now() + self.options.lock_wait);
        if turn.is_none() {
            return Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false });
        }
        let facts = Arc::new(scan(file).map_err(io)?);
        if os::status(file).map_err(io)?.stamp != stamp {
            return if patient {
                Ok(None)
            } else {
                Err(Refusal::Busy { path: path.clone(), is_locked_by_other: false })
            };
        }
        self.memory().insert(stamp, &facts, began);
        Ok(Some(StampedFacts { stamp, facts, bytes: None }))
    }

    /// Returns the stamp of an open file. Waits for a file that changed a moment ago until its next
    /// change would change the stamp, unless the clock of its file system is too coarse to wait.
    pub(super) fn settled_stamp(&self, file: &File) -> io::Result<FileStamp> {
        let stamp = os::status(file)?.stamp;
        let is_fine = stamp.granularity() == FINE_GRANULARITY;
        if !is_fine || stamp.settled_at(os::now()) || self.memory().get(&stamp).is_some() {
            return Ok(stamp);
        }
        std::thread::sleep(Duration::from_nanos(FINE_GRANULARITY.unsigned_abs()));
        Ok(os::status(file)?.stamp)
    }

    /// Returns the facts of a large file in the state of `stamp`, from memory if possible. `None`
    /// means that the file changed.
    pub(super) fn facts_of_file(
        &self,
        file: &File,
        stamp: FileStamp,
    ) -> io::Result<Option<Arc<FileFacts>>> {
        if let Some(facts) = self.memory().get(&stamp) {
            return Ok(Some(facts));
        }
        let began = os::now();
        let facts = Arc::new(scan(file)?);
        let is_certain = stamp.settled_at(began) || self.is_own(&stamp);
        if os::status(file)?.stamp != stamp || !is_certain {
            return Ok(None);
        }
        self.memory().insert(stamp, &facts, began);
        Ok(Some(facts))
    }

    /// Returns whether another program may still be saving a file, which changed a moment ago. An
    /// editor that truncates and then writes leaves the file empty for that moment.
    fn is_settling(&self, stamp: &FileStamp, now: i64) -> bool {
        let settling = i64::try_from(SETTLING.as_nanos()).unwrap_or(0);
        stamp.modified.saturating_add(settling) > now && !self.is_own(stamp)
    }
}

/// Computes the facts of bytes in memory.
pub(super) fn facts_of(bytes: &[u8]) -> FileFacts {
    let lines = utf_8(bytes).map(line_index);
    FileFacts { hash: ContentHash::digest(bytes), lines }
}

/// Returns the text of a whole file in UTF-8, or the bytes of another file.
pub(super) fn whole_utf_8(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let text = String::from_utf8(bytes).map_err(FromUtf8Error::into_bytes)?;
    match is_disguised_utf_16(text.as_bytes(), text.len() as u64) {
        true => Err(text.into_bytes()),
        false => Ok(text),
    }
}

fn line_index(text: &str) -> LineIndex {
    let mut scanner = LineScanner::default();
    scanner.feed(text.as_bytes());
    scanner.finish()
}

/// Computes the facts of a file, piece by piece.
pub(super) fn scan(file: &File) -> io::Result<FileFacts> {
    let (mut hasher, mut scanner) = (ContentHasher::default(), LineScanner::default());
    let mut text = Utf8Check::default();
    let mut buffer = vec![0; PIECE];
    let mut offset = 0;
    loop {
        let read = os::read_at(file, &mut buffer, offset)?;
        let piece = buffer.get(..read).unwrap_or_default();
        hasher.update(piece);
        scanner.feed(piece);
        text.feed(piece);
        offset += read as u64;
        if read < PIECE {
            let lines = text.is_text().then(|| scanner.finish());
            return Ok(FileFacts { hash: hasher.finish(), lines });
        }
    }
}

/// Checks whether a whole file whose bytes arrive in pieces is UTF-8.
#[derive(Default)]
pub(super) struct Utf8Check {
    /// The first bytes, which show UTF-16 in disguise.
    head: Vec<u8>,
    size: u64,
    /// The beginning of a character that the last piece cut off.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8Check {
    pub(super) fn feed(&mut self, mut piece: &[u8]) {
        self.size += piece.len() as u64;
        let missing = UTF_16_HEAD.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(piece.get(..missing).unwrap_or_default());
        // Complete the open character, which has at most four bytes, byte by byte.
        while !self.open.is_empty() && !self.broken {
            let Some((first, rest)) = piece.split_first() else { return };
            piece = rest;
            self.open.push(*first);
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) => self.broken |= error.error_len().is_some(),
            }
        }
        if let Err(error) = std::str::from_utf8(piece) {
            self.broken |= error.error_len().is_some();
            self.open = piece.get(error.valid_up_to()..).unwrap_or_default().to_vec();
        }
    }

    pub(super) fn is_text(&self) -> bool {
        !self.broken && self.open.is_empty() && !is_disguised_utf_16(&self.head, self.size)
    }
}

/// The text of a file in one state.
struct FileText<'a> {
    file: &'a File,
    bytes: Option<&'a [u8]>,
    lines: &'a LineIndex,
    /// The document whose text this is.
    document: Option<&'a DocumentText>,
}

/// The start of a window, and the end of the requested range.
struct WindowPosition {
    offset: u64,
    line: u64,
    end: u64,
    match_line: Option<u64>,
}

impl FileText<'_> {
    fn window(
        &self,
        path: &SpacePath,
        from: &WindowStart,
        hash: ContentHash,
        budget: usize,
    ) -> io::Result<Result<FileWindow, Refusal>> {
        let position = match self.position(path, from, hash)? {
            Ok(position) => position,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let size = self.lines.size_bytes();
        let left = usize::try_from(size.saturating_sub(position.offset)).unwrap_or(usize::MAX);
        // Four bytes more than the budget show whether the last character is complete. A budget
        // below one character would never make progress.
        let budget = budget.max(4);
        let bytes = self.bytes_at(position.offset, left.min(budget.saturating_add(4)))?;
        let input = if bytes.len() == left { ToEndOfFile } else { Partial };
        let cut = window::find_end(&bytes, position.line, position.end, budget, input);
        let Ok(content) = String::from_utf8(bytes.get(..cut.bytes).unwrap_or_default().to_vec())
        else {
            return Ok(Err(Refusal::invalid_argument("`cursor` is not one that a read returned")));
        };
        let truncated = cut.inside || cut.line < position.end;
        let next = truncated.then(|| WindowContinuation {
            cursor: FileCursor {
                hash,
                offset: position.offset + cut.bytes as u64,
                line: cut.line,
                end: position.end,
            },
            is_inside_line: cut.inside,
        });
        Ok(Ok(FileWindow {
            content,
            hash,
            size_bytes: self.lines.size_bytes(),
            total_lines: self.lines.total_lines(),
            lines: ResolvedLines { start: position.line, end: cut.line + u64::from(cut.inside) },
            match_line: position.match_line,
            encoding: None,
            document: None,
            next,
            start: FileCursor {
                hash,
                offset: position.offset,
                line: position.line,
                end: position.end,
            },
        }))
    }

    fn position(
        &self,
        path: &SpacePath,
        from: &WindowStart,
        hash: ContentHash,
    ) -> io::Result<Result<WindowPosition, Refusal>> {
        let total = self.lines.total_lines();
        Ok(match from {
            WindowStart::Cursor(cursor) if cursor.hash != hash => {
                Err(Refusal::Stale { path: path.clone(), argument: "cursor" })
            }
            WindowStart::Cursor(cursor) => Ok(WindowPosition {
                offset: cursor.offset.min(self.lines.size_bytes()),
                line: cursor.line.clamp(1, total + 1),
                end: cursor.end.clamp(1, total + 1),
                match_line: None,
            }),
            WindowStart::Range(range) => match resolve(*range, total) {
                Ok(lines) => Ok(self.first_line(lines)?),
                Err(refusal) => Err(refusal),
            },
            WindowStart::Match { range, query } => match resolve(*range, total) {
                Ok(lines) => self.match_in(path, lines, query)?,
                Err(refusal) => Err(refusal),
            },
            WindowStart::Section { section, query } => {
                self.part_or_match(path, self.section(path, section)?, query.as_ref())?
            }
            WindowStart::Part { number, query } => {
                self.part_or_match(path, self.part(*number), query.as_ref())?
            }
        })
    }

    /// Returns where a part of the text begins, or the first line in it with a text.
    fn part_or_match(
        &self,
        path: &SpacePath,
        part: Result<ResolvedLines, Refusal>,
        query: Option<&LineQuery>,
    ) -> io::Result<Result<WindowPosition, Refusal>> {
        Ok(match (part, query) {
            (Ok(lines), Some(query)) => self.match_in(path, lines, query)?,
            (Ok(lines), None) => Ok(self.first_line(lines)?),
            (Err(refusal), _) => Err(refusal),
        })
    }

    /// Returns the lines of a page, a slide, a sheet or a chapter.
    fn part(&self, number: u64) -> Result<ResolvedLines, Refusal> {
        let parts = self.document.map_or(0, DocumentText::parts);
        let lines = self.document.and_then(|document| document.lines_of(number));
        let end = self.lines.total_lines() + 1;
        lines.map(|it| ResolvedLines { start: it.start, end: it.end.min(end) }).ok_or_else(|| {
            Refusal::invalid_argument(match parts {
                0 => "`page`: this file has no pages; leave it out".to_owned(),
                _ => format!("`page` must be 1 to {parts}"),
            })
        })
    }

    fn first_line(&self, lines: ResolvedLines) -> io::Result<WindowPosition> {
        let offset = self.offset_of(lines.start)?;
        Ok(WindowPosition { offset, line: lines.start, end: lines.end, match_line: None })
    }

    fn match_in(
        &self,
        path: &SpacePath,
        lines: ResolvedLines,
        query: &LineQuery,
    ) -> io::Result<Result<WindowPosition, Refusal>> {
        Ok(self.find(lines, query)?.ok_or_else(|| Refusal::NoSuchText {
            path: path.clone(),
            first: lines.start,
            last: lines.end.saturating_sub(1).max(lines.start),
            total_lines: self.lines.total_lines(),
        }))
    }

    /// Returns the lines of a section of a note.
    fn section(
        &self,
        path: &SpacePath,
        section: &WantedSection,
    ) -> io::Result<Result<ResolvedLines, Refusal>> {
        let refused = |fault| no_section(fault, path, "section".into());
        let size = self.lines.size_bytes();
        if size > MAX_NOTE_BYTES {
            return Ok(Err(refused(SectionFault::TooLarge)));
        }
        let bytes = self.bytes_at(0, usize::try_from(size).unwrap_or(usize::MAX))?;
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return Ok(Err(refused(SectionFault::NoSuchSection { headings: Vec::new() })));
        };
        let found = section.find(text).map(|place| place.lines);
        let parts = self.document.map_or(0, DocumentText::parts);
        Ok(found.map_err(|fault| match fault {
            SectionFault::NoSuchSection { .. } if parts > 0 => Refusal::invalid_argument(format!(
                "`section` names no part of this document; `page` does, by its number, 1 to {parts}"
            )),
            SectionFault::NoSuchSection { .. } if self.document.is_some() => {
                Refusal::invalid_argument(
                    "`section` names no part of this document, which has none; read it with \
                     `lines` or `q`",
                )
            }
            fault => refused(fault),
        }))
    }

    /// Returns the offset of a line, which is counted from 1.
    fn offset_of(&self, line: u64) -> io::Result<u64> {
        let wanted = line - 1;
        let (mut marked, mut offset) = self.lines.nearest(wanted);
        if wanted >= self.lines.total_lines() {
            return Ok(self.lines.size_bytes());
        }
        while marked < wanted {
            let piece = self.bytes_at(offset, PIECE)?;
            let mut at = 0;
            while marked < wanted
                && let Some(newline) = memchr::memchr(b'\n', piece.get(at..).unwrap_or_default())
            {
                at += newline + 1;
                marked += 1;
            }
            if marked < wanted {
                at = piece.len();
            }
            offset += at as u64;
            if piece.is_empty() {
                break;
            }
        }
        Ok(offset)
    }

    fn find(&self, within: ResolvedLines, query: &LineQuery) -> io::Result<Option<WindowPosition>> {
        let start = self.offset_of(within.start)?;
        let mut matcher = query.matcher();
        let mut offset = start;
        loop {
            let piece = self.bytes_at(offset, PIECE)?;
            // Only complete characters. The rest comes with the next piece.
            let text = match std::str::from_utf8(&piece) {
                Ok(text) => text,
                Err(error) => piece
                    .get(..error.valid_up_to())
                    .and_then(|head| std::str::from_utf8(head).ok())
                    .unwrap_or(""),
            };
            if let Some(found) = matcher.feed(text) {
                let line = within.start + found.line;
                return Ok((line < within.end).then_some(WindowPosition {
                    offset: start + found.line_start,
                    line,
                    end: within.end,
                    match_line: Some(line),
                }));
            }
            if text.is_empty() || within.start + matcher.line() >= within.end {
                return Ok(None);
            }
            offset += text.len() as u64;
        }
    }

    fn bytes_at(&self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        if let Some(bytes) = self.bytes {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let end = start.saturating_add(count).min(bytes.len());
            return Ok(bytes.get(start..end).unwrap_or_default().to_vec());
        }
        let left =
            usize::try_from(self.lines.size_bytes().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; count.min(left)];
        let read = os::read_at(self.file, &mut buffer, offset)?;
        buffer.truncate(read);
        Ok(buffer)
    }
}

fn resolve(range: LineRange, total_lines: u64) -> Result<ResolvedLines, Refusal> {
    range
        .resolve(total_lines)
        .map_err(|_| Refusal::InvalidRange { argument: "lines".into(), total_lines })
}
