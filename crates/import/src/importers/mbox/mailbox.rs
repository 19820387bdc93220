//! Splits a mailbox into the messages as they were sent.
//!
//! A message follows a From-line: `From ` and a date in the format of C's `asctime`, an address, or
//! nothing, as Thunderbird writes it. A From-line is the first line of the file, or a field of a
//! header follows it. So a paragraph that begins with `From` cuts no message. The empty line before
//! a From-line, which some programs leave out, is not part of the message before it. The program
//! that writes a mailbox puts a `>` before a line of a message that looks like a From-line, so one
//! `>` is removed from each line that is `From ` after one or more `>` (mboxrd; mboxo is a subset).
//! A patch of Git begins like a message. Where the message so far has parts and their end has not
//! come, a patch is an attachment. Lines end in LF or CRLF. `Content-Length` is ignored, because
//! programs rewrite messages and keep it.
//!
//! *Source*: RFC 4155, appendix A; the manual page mbox(5) of qmail; `MboxMsgOutputStream` of
//! Thunderbird.

use std::io::{self, BufRead};

use stile_records::rows::line_source::LineSource;

/// The most bytes of a message with its attachments. Mail services allow less.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// A mailbox, which returns its messages one at a time.
#[derive(Debug)]
pub struct Mailbox<R> {
    source: LineSource<R>,
    max_message_bytes: usize,
    /// The next line, 1-based.
    line: u64,
    /// The From-line of the message so far; `None` before the first message.
    began: Option<u64>,
    message: Vec<u8>,
    is_too_large: bool,
    /// The end of the parts of the message so far, as far as it was searched.
    parts_end: Option<PartsEnd>,
    /// The beginning of the next line, which was read to judge the line before it.
    peeked: Vec<u8>,
    is_over: bool,
}

/// A message as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMessage {
    /// The line of the From-line, 1-based.
    pub line: u64,
    /// The bytes after the From-line, at most [`MAX_MESSAGE_BYTES`].
    pub message: Result<Vec<u8>, RawMessageError>,
}

/// Why a message of a mailbox cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawMessageError {
    /// The message has more than [`MAX_MESSAGE_BYTES`].
    #[error("the message has more than 64 MiB")]
    TooLarge,
    /// The file is no text.
    #[error("the file is no message of mail: it begins with bytes that are no text")]
    NotText,
    /// The file does not begin with a From-line. No message follows.
    #[error(
        "the file is not a mailbox: it does not begin with a line like \
         `From ann@example.org Thu Jan  1 00:00:00 2026`"
    )]
    NotAMailbox,
}

impl RawMessageError {
    /// Returns the stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "message_too_large",
            Self::NotText => "no_header",
            Self::NotAMailbox => "not_a_mailbox",
        }
    }
}

enum MailboxLine {
    From,
    Other,
    End,
}

impl<R: BufRead> Mailbox<R> {
    /// Reads a mailbox from its first byte.
    pub fn new(reader: R) -> Self {
        Self::with_max_message_bytes(reader, MAX_MESSAGE_BYTES)
    }

    fn with_max_message_bytes(reader: R, max_message_bytes: usize) -> Self {
        Self {
            source: LineSource::new(reader),
            max_message_bytes,
            line: 1,
            began: None,
            message: Vec::new(),
            is_too_large: false,
            parts_end: None,
            peeked: Vec::new(),
            is_over: false,
        }
    }

    /// Returns how many bytes of the file were read.
    pub fn consumed(&self) -> u64 {
        self.source.consumed()
    }

    /// Returns the next message, or `None` at the end of the file.
    ///
    /// # Errors
    /// The reader failed.
    pub fn next_message(&mut self) -> io::Result<Option<RawMessage>> {
        while !self.is_over {
            let line = self.line;
            let read = self.read_line()?;
            self.is_over = matches!(read, MailboxLine::End);
            let done = match (read, self.began) {
                (MailboxLine::Other, _) | (MailboxLine::End, None) => None,
                (MailboxLine::From, began) => {
                    self.began = Some(line);
                    began
                }
                (MailboxLine::End, began) => began,
            };
            if self.began.is_none() && (self.is_too_large || !self.message.trim_ascii().is_empty())
            {
                self.is_over = true;
                return Ok(Some(RawMessage { line, message: Err(RawMessageError::NotAMailbox) }));
            }
            if done.is_none() && (self.began.is_none() || self.began == Some(line)) {
                // These are empty lines before the first message.
                self.message.clear();
            }
            if let Some(line) = done {
                return Ok(Some(self.finish(line)));
            }
        }
        Ok(None)
    }

    /// Reads a line, and adds it to the message unless it is a From-line.
    fn read_line(&mut self) -> io::Result<MailboxLine> {
        let begun = self.message.len();
        let mut is_too_large = self.is_too_large;
        let mut line = std::mem::take(&mut self.peeked);
        // Of a message that is too large, only the beginnings of lines are kept.
        let room = if is_too_large {
            FROM_LINE_BYTES
        } else {
            FROM_LINE_BYTES.max(self.max_message_bytes.saturating_sub(begun) + 1)
        };
        self.read_to_line_end(&mut line, room)?;
        if line.is_empty() {
            return Ok(MailboxLine::End);
        }
        self.line += 1;
        if let Some(kind) = FromLine::of(&line)
            && self.separates(kind)?
            && !(is_patch(&line) && self.is_within_parts())
        {
            return Ok(MailboxLine::From);
        }
        is_too_large |= begun.saturating_add(line.len()) > self.max_message_bytes;
        self.is_too_large = is_too_large;
        if is_too_large {
            self.message = Vec::new();
        } else {
            self.message.extend_from_slice(unquoted(&line));
        }
        Ok(MailboxLine::Other)
    }

    /// Reads to the end of a line whose beginning is in `line`, and keeps at most `room` bytes of
    /// it. An empty line means the end of the file.
    fn read_to_line_end(&mut self, line: &mut Vec<u8>, room: usize) -> io::Result<()> {
        while !line.ends_with(b"\n") {
            let buffer = self.source.fill()?;
            let newline = memchr::memchr(b'\n', buffer).map(|at| at + 1);
            let count = newline.unwrap_or(buffer.len());
            let kept = room.saturating_sub(line.len()).min(count);
            line.extend_from_slice(buffer.get(..kept).unwrap_or_default());
            let is_end = buffer.is_empty();
            self.source.consume(count);
            if newline.is_some() || is_end {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether a line that begins with `From ` begins a message. Looks at the next line
    /// without taking it.
    fn separates(&mut self, kind: FromLine) -> io::Result<bool> {
        let is_first = self.began.is_none() && self.message.trim_ascii().is_empty();
        if is_first && kind == FromLine::Dated {
            return Ok(true);
        }
        while self.peeked.len() < FROM_LINE_BYTES && !self.peeked.ends_with(b"\n") {
            let buffer = self.source.fill()?;
            if buffer.is_empty() {
                break;
            }
            let newline = memchr::memchr(b'\n', buffer).map_or(buffer.len(), |at| at + 1);
            let count = newline.min(FROM_LINE_BYTES.saturating_sub(self.peeked.len()));
            self.peeked.extend_from_slice(buffer.get(..count).unwrap_or_default());
            self.source.consume(count);
        }
        Ok(is_header_field(&self.peeked))
    }

    /// Returns whether the message so far has parts, and the end of them has not come.
    fn is_within_parts(&mut self) -> bool {
        let mut end = match self.parts_end.take() {
            Some(end) => end,
            None => match boundary(&self.message) {
                Some(boundary) => {
                    PartsEnd { line: [b"\n--", boundary, b"--"].concat(), searched: 0 }
                }
                None => return false,
            },
        };
        let from = end.searched.saturating_sub(end.line.len()).min(self.message.len());
        let rest = self.message.get(from..).unwrap_or_default();
        let is_within = memchr::memmem::find(rest, &end.line).is_none();
        if is_within {
            end.searched = self.message.len();
        }
        self.parts_end = Some(end);
        is_within
    }

    fn finish(&mut self, line: u64) -> RawMessage {
        self.parts_end = None;
        let mut bytes = std::mem::take(&mut self.message);
        if std::mem::take(&mut self.is_too_large) {
            return RawMessage { line, message: Err(RawMessageError::TooLarge) };
        }
        let before = bytes.strip_suffix(b"\r\n").or_else(|| bytes.strip_suffix(b"\n"));
        let is_empty_line = |before: &&[u8]| before.is_empty() || before.ends_with(b"\n");
        let length = before.filter(is_empty_line).map_or(bytes.len(), <[u8]>::len);
        bytes.truncate(length);
        RawMessage { line, message: Ok(bytes) }
    }
}

/// The line that ends the parts of a message.
#[derive(Debug)]
struct PartsEnd {
    line: Vec<u8>,
    /// How many bytes of the message do not have the line.
    searched: usize,
}

/// Returns the boundary between the parts of a message, as its header has it.
fn boundary(message: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"boundary=";
    let ends = [&b"\n\n"[..], b"\n\r\n"];
    let end = ends.iter().filter_map(|end| memchr::memmem::find(message, end)).min()?;
    let header = message.get(..end)?;
    let lower = header.to_ascii_lowercase();
    memchr::memmem::find(&lower, b"multipart/")?;
    let value = header.get(memchr::memmem::find(&lower, NAME)? + NAME.len()..)?;
    let own = match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|&byte| byte == b'"').next(),
        None => value.split(|byte| byte.is_ascii_whitespace() || *byte == b';').next(),
    };
    own.filter(|own| !own.is_empty())
}

/// Returns whether a line is the first of a patch, as `git format-patch` writes it: with the name
/// of the commit, and always the same date.
fn is_patch(line: &[u8]) -> bool {
    let commit = line.strip_prefix(b"From ").and_then(|rest| rest.split_at_checked(40));
    commit.is_some_and(|(name, date)| {
        name.iter().all(u8::is_ascii_hexdigit) && date.starts_with(b" Mon Sep 17 00:00:00 2001")
    })
}

/// How many bytes of a line are searched for a date, and for the name of a header field.
const FROM_LINE_BYTES: usize = 1024;
/// The longest name of a header field. The longest that is registered has 49 characters.
const MAX_FIELD_NAME_BYTES: usize = 76;

/// Returns whether a line begins with the name of a header field, or is a From-line that a program
/// quoted as part of the header.
fn is_header_field(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let behind = line.get(name.len() + 1..).unwrap_or_default();
    let is_name = (1..=MAX_FIELD_NAME_BYTES).contains(&name.len())
        && name.len() < line.len()
        && name.iter().all(u8::is_ascii_graphic)
        && !behind.starts_with(b"//");
    is_name || line.starts_with(b">From ")
}

/// Removes the `>` that the writer of the mailbox put before a line.
fn unquoted(line: &[u8]) -> &[u8] {
    let marks = line.iter().take_while(|&&byte| byte == b'>').count();
    let is_quoted = marks > 0 && line.get(marks..).is_some_and(|rest| rest.starts_with(b"From "));
    line.get(usize::from(is_quoted)..).unwrap_or_default()
}

/// What a line that begins with `From ` has behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FromLine {
    /// A month, a time of day and a year.
    Dated,
    /// An address, the `-` of Thunderbird, one other word, or nothing.
    Undated,
}

impl FromLine {
    /// Judges a line. `None` if it cannot be a From-line: a paragraph can begin with `From ` too.
    fn of(line: &[u8]) -> Option<Self> {
        const MONTHS: [&[u8]; 12] = [
            b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
            b"dec",
        ];
        let rest = line.strip_prefix(b"From ")?;
        let rest = rest.get(..FROM_LINE_BYTES).unwrap_or(rest);
        let words = || rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let has = |fits: &dyn Fn(&[u8]) -> bool| words().any(fits);
        let is_time = |word: &[u8]| {
            let parts: Vec<&[u8]> = word.split(|&byte| byte == b':').collect();
            let digits =
                |part: &&[u8]| (1..=2).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
            (2..=3).contains(&parts.len()) && parts.iter().all(digits)
        };
        let is_dated = has(&|word| MONTHS.contains(&word.to_ascii_lowercase().as_slice()))
            && has(&|word| word.len() == 4 && word.iter().all(u8::is_ascii_digit))
            && has(&is_time);
        let is_address = |word: &[u8]| word.contains(&b'@') || word == b"-";
        let is_undated = || words().count() <= 1 || words().next().is_some_and(is_address);
        match is_dated {
            true => Some(Self::Dated),
            false => is_undated().then_some(Self::Undated),
        }
    }
}

#[cfg(test)]
mod tests;
