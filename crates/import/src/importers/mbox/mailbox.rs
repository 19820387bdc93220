//! Splits a mailbox into the messages as they were sent.
//!
//! A message follows a From-line: `From `, any text, and a date in the format of C's `asctime`. A
//! From-line is the first line of the file or follows an empty line, which is not part of the
//! message before it. The program that writes a mailbox puts a `>` before a line of a message that
//! looks like a From-line, so one `>` is removed from each line that is `From ` after one or more
//! `>` (mboxrd; mboxo is a subset). Lines end in LF or CRLF. `Content-Length` is ignored, because
//! programs rewrite messages and keep it.
//!
//! *Source*: RFC 4155, appendix A; the manual page mbox(5) of qmail.

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
    after_blank: bool,
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
            after_blank: true,
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
        let mut line = Vec::new();
        loop {
            let buffer = self.source.fill()?;
            let newline = memchr::memchr(b'\n', buffer).map(|at| at + 1);
            let count = newline.unwrap_or(buffer.len());
            let part = buffer.get(..count).unwrap_or_default();
            // Of a message that is too large, only the beginnings of lines are kept.
            let room = if is_too_large {
                FROM_LINE_BYTES
            } else {
                FROM_LINE_BYTES.max(self.max_message_bytes.saturating_sub(begun) + 1)
            };
            line.extend_from_slice(
                part.get(..room.saturating_sub(line.len()).min(count)).unwrap_or_default(),
            );
            is_too_large |= begun.saturating_add(line.len()) > self.max_message_bytes;
            let is_end = buffer.is_empty();
            self.source.consume(count);
            if is_end && line.is_empty() {
                return Ok(MailboxLine::End);
            }
            if newline.is_some() || is_end {
                break;
            }
        }
        self.line += 1;
        if self.after_blank && is_from_line(&line) {
            self.after_blank = false;
            return Ok(MailboxLine::From);
        }
        self.after_blank = matches!(line.as_slice(), b"\n" | b"\r\n");
        self.is_too_large = is_too_large;
        if is_too_large {
            self.message = Vec::new();
        } else {
            self.message.extend_from_slice(unquoted(&line));
        }
        Ok(MailboxLine::Other)
    }

    fn finish(&mut self, line: u64) -> RawMessage {
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

/// How many bytes of a line are searched for a date.
const FROM_LINE_BYTES: usize = 1024;

/// Removes the `>` that the writer of the mailbox put before a line.
fn unquoted(line: &[u8]) -> &[u8] {
    let marks = line.iter().take_while(|&&byte| byte == b'>').count();
    let is_quoted = marks > 0 && line.get(marks..).is_some_and(|rest| rest.starts_with(b"From "));
    line.get(usize::from(is_quoted)..).unwrap_or_default()
}

/// Returns whether a line that follows an empty line is a From-line. A paragraph can begin with
/// `From `, but it seldom has a month, a time of day and a year.
fn is_from_line(line: &[u8]) -> bool {
    const MONTHS: [&[u8]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    let rest = rest.get(..FROM_LINE_BYTES).unwrap_or(rest);
    let has = |fits: &dyn Fn(&[u8]) -> bool| rest.split(u8::is_ascii_whitespace).any(fits);
    let is_time = |word: &[u8]| {
        let parts: Vec<&[u8]> = word.split(|&byte| byte == b':').collect();
        let digits =
            |part: &&[u8]| (1..=2).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
        (2..=3).contains(&parts.len()) && parts.iter().all(digits)
    };
    has(&|word| MONTHS.contains(&word.to_ascii_lowercase().as_slice()))
        && has(&|word| word.len() == 4 && word.iter().all(u8::is_ascii_digit))
        && has(&is_time)
}

#[cfg(test)]
mod tests;
