//! A mailbox in one file, taken apart into the messages as they were sent.
//!
//! A message begins behind a From-line: `From `, anything, and a date in the words of C's
//! `asctime`, at the beginning of the file or after an empty line. A line of a message that only
//! looks like one is quoted by whoever writes the file, with a `>` before it; one `>` is taken away
//! again from each line that is `From ` behind one or more of them (mboxrd; what mboxo has quoted
//! comes out right as well). The empty line before a From-line belongs to the file and not to the
//! message. Lines end in LF or CRLF. `Content-Length` is not believed: other programs rewrite
//! messages and leave it.
//!
//! *Source*: RFC 4155, appendix A; the manual page mbox(5) of qmail.

use std::io::{self, BufRead};

use stile_records::rows::line_source::LineSource;

/// The most bytes that a message has. Its attachments are in it, so services allow less.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The messages of a mailbox.
#[derive(Debug)]
pub struct Mailbox<R> {
    source: LineSource<R>,
    most: usize,
    /// The line that is read, 1-based.
    line: u64,
    /// Where the message begins that is read; none before the first.
    began: Option<u64>,
    message: Vec<u8>,
    is_too_large: bool,
    after_blank: bool,
    is_over: bool,
}

/// A message as it was sent, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMessage {
    /// The line of its From-line, 1-based.
    pub line: u64,
    /// Its bytes.
    pub message: Result<Vec<u8>, NoMessage>,
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMessage {
    /// It has more than [`MAX_MESSAGE_BYTES`].
    #[error("the message has more than 64 MiB")]
    TooLarge,
    /// The file does not begin with a From-line. Ends it.
    #[error(
        "the file is no mailbox: it does not begin with a line like `From ann@example.org Thu Jan  1 00:00:00 2026`"
    )]
    NoMailbox,
}

impl NoMessage {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "message_too_large",
            Self::NoMailbox => "not_a_mailbox",
        }
    }
}

/// A line that was read.
enum Line {
    From,
    Other,
    End,
}

impl<R: BufRead> Mailbox<R> {
    /// Begins at the beginning of a file.
    pub fn new(reader: R) -> Self {
        Self::with_most(reader, MAX_MESSAGE_BYTES)
    }

    pub(super) fn with_most(reader: R, most: usize) -> Self {
        Self {
            source: LineSource::new(reader),
            most,
            line: 1,
            began: None,
            message: Vec::new(),
            is_too_large: false,
            after_blank: true,
            is_over: false,
        }
    }

    /// How many bytes of the file were read.
    pub fn consumed(&self) -> u64 {
        self.source.consumed()
    }

    /// The next message; nothing at the end of the file.
    ///
    /// # Errors
    /// What the reader fails with.
    pub fn next_message(&mut self) -> io::Result<Option<RawMessage>> {
        while !self.is_over {
            let line = self.line;
            let read = self.read_line()?;
            self.is_over = matches!(read, Line::End);
            let done = match (read, self.began) {
                (Line::Other, _) | (Line::End, None) => None,
                (Line::From, began) => {
                    self.began = Some(line);
                    began
                }
                (Line::End, began) => began,
            };
            if self.began.is_none() && (self.is_too_large || !self.message.trim_ascii().is_empty())
            {
                self.is_over = true;
                return Ok(Some(RawMessage { line, message: Err(NoMessage::NoMailbox) }));
            }
            if done.is_none() && (self.began.is_none() || self.began == Some(line)) {
                // Empty lines before the first message.
                self.message.clear();
            }
            if let Some(line) = done {
                return Ok(Some(self.finish(line)));
            }
        }
        Ok(None)
    }

    /// Reads a line, and adds it to the message where it is none of the file's own.
    fn read_line(&mut self) -> io::Result<Line> {
        let begun = self.message.len();
        let mut held = self.is_too_large;
        let mut line = Vec::new();
        loop {
            let buffer = self.source.fill()?;
            let newline = memchr::memchr(b'\n', buffer).map(|at| at + 1);
            let count = newline.unwrap_or(buffer.len());
            let part = buffer.get(..count).unwrap_or_default();
            // While a message is passed over, only the beginnings of its lines are looked at.
            let room =
                if held { LOOK_BYTES } else { LOOK_BYTES.max(self.most.saturating_sub(begun) + 1) };
            line.extend_from_slice(
                part.get(..room.saturating_sub(line.len()).min(count)).unwrap_or_default(),
            );
            held |= begun.saturating_add(line.len()) > self.most;
            let is_end = buffer.is_empty();
            self.source.consume(count);
            if is_end && line.is_empty() {
                return Ok(Line::End);
            }
            if newline.is_some() || is_end {
                break;
            }
        }
        self.line += 1;
        if self.after_blank && is_from_line(&line) {
            self.after_blank = false;
            return Ok(Line::From);
        }
        self.after_blank = matches!(line.as_slice(), b"\n" | b"\r\n");
        self.is_too_large = held;
        if held {
            self.message = Vec::new();
        } else {
            self.message.extend_from_slice(unquoted(&line));
        }
        Ok(Line::Other)
    }

    fn finish(&mut self, line: u64) -> RawMessage {
        let mut bytes = std::mem::take(&mut self.message);
        if std::mem::take(&mut self.is_too_large) {
            return RawMessage { line, message: Err(NoMessage::TooLarge) };
        }
        let before = bytes.strip_suffix(b"\r\n").or_else(|| bytes.strip_suffix(b"\n"));
        let is_empty_line = |before: &&[u8]| before.is_empty() || before.ends_with(b"\n");
        let length = before.filter(is_empty_line).map_or(bytes.len(), <[u8]>::len);
        bytes.truncate(length);
        RawMessage { line, message: Ok(bytes) }
    }
}

/// How much of a line that is not kept is looked at.
const LOOK_BYTES: usize = 1024;

/// A line of a message without what the file has put before it.
fn unquoted(line: &[u8]) -> &[u8] {
    let marks = line.iter().take_while(|&&byte| byte == b'>').count();
    let is_quoted = marks > 0 && line.get(marks..).is_some_and(|rest| rest.starts_with(b"From "));
    line.get(usize::from(is_quoted)..).unwrap_or_default()
}

/// Whether a line that follows an empty one begins a message. A paragraph may begin with the word,
/// too; it seldom goes on with a month, a time of day and a year.
fn is_from_line(line: &[u8]) -> bool {
    const MONTHS: [&[u8]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    let rest = rest.get(..LOOK_BYTES).unwrap_or(rest);
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

/// Whether a file begins like a mailbox, of which these are its first bytes.
pub(super) fn begins_one(first: &[u8]) -> bool {
    first.starts_with(b"From ")
}

#[cfg(test)]
mod tests;
