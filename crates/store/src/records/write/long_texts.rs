//! Measures long texts and cuts them into pieces, even if a text arrives in parts.

use std::io;

use ring::digest::{Context, SHA256};
use stile_domain::base64::Base64Check;
use stile_domain::records::pieces::{self, MAX_PIECES, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::LongValue;

use crate::records::model::{TextSource, WriteRefusal};

pub(super) fn measured(text: &str) -> Result<LongValue, WriteRefusal> {
    let mut measure = Measure::new();
    measure.add(text);
    measure.finish()
}

pub(super) fn measured_source(
    source: &mut dyn TextSource,
    mut check: Option<&mut Base64Check>,
) -> Result<LongValue, WriteRefusal> {
    let mut measure = Measure::new();
    let read = each_text(source, &mut |text| {
        measure.add(text);
        if let Some(check) = check.as_deref_mut() {
            check.feed(text);
        }
        Ok(())
    });
    read.unwrap_or(Err(WriteRefusal::Unreadable))?;
    measure.finish()
}

struct Measure {
    digest: Context,
    chars: u64,
    bytes: u64,
}

impl Measure {
    fn new() -> Self {
        Self { digest: Context::new(&SHA256), chars: 0, bytes: 0 }
    }

    fn add(&mut self, text: &str) {
        self.digest.update(text.as_bytes());
        self.chars += pieces::count(text);
        self.bytes += text.len() as u64;
    }

    fn finish(self) -> Result<LongValue, WriteRefusal> {
        if self.chars.div_ceil(PIECE_CHARS) > MAX_PIECES {
            return Err(WriteRefusal::TooLong);
        }
        let digest =
            self.digest.finish().as_ref().try_into().map_err(|_| WriteRefusal::Unreadable)?;
        Ok(LongValue { chars: self.chars, bytes: self.bytes, digest })
    }
}

/// Cuts a text that arrives in parts into pieces.
pub(super) struct Cutter {
    record: i64,
    slot: u16,
    piece: u64,
    held: String,
    chars: u64,
}

type Put<'p> = &'p mut dyn FnMut(i64, &str) -> Result<(), Problem>;

impl Cutter {
    pub(super) fn new(record: i64, slot: u16) -> Self {
        Self { record, slot, piece: 0, held: String::new(), chars: 0 }
    }

    pub(super) fn feed(&mut self, mut text: &str, put: Put<'_>) -> Result<(), Problem> {
        while !text.is_empty() {
            let (taken, rest) = text.split_at(pieces::byte_offset(text, PIECE_CHARS - self.chars));
            self.held.push_str(taken);
            self.chars += pieces::count(taken);
            text = rest;
            if self.chars == PIECE_CHARS {
                self.put(put)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, put: Put<'_>) -> Result<(), Problem> {
        put(
            pieces::number(self.record, self.slot, self.piece).ok_or(Problem::Corrupt)?,
            &self.held,
        )?;
        self.held.clear();
        self.chars = 0;
        self.piece += 1;
        Ok(())
    }

    pub(super) fn finish(mut self, put: Put<'_>) -> Result<(), Problem> {
        if self.chars > 0 { self.put(put) } else { Ok(()) }
    }
}

/// Passes a text to `take`, part by part.
pub(super) fn each_text(
    source: &mut dyn TextSource,
    take: &mut dyn FnMut(&str) -> Result<(), Problem>,
) -> Result<Result<(), WriteRefusal>, Problem> {
    const BUFFER: usize = 64 * 1024;
    let Ok(mut reader) = source.open() else { return Ok(Err(WriteRefusal::Unreadable)) };
    let mut buffer = vec![0; BUFFER];
    let mut held = 0;
    loop {
        let free = buffer.get_mut(held..).unwrap_or_default();
        let read = match reader.read(free) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Ok(Err(WriteRefusal::Unreadable)),
        };
        let filled = buffer.get(..held + read).unwrap_or_default();
        let valid = match std::str::from_utf8(filled) {
            Ok(text) => text,
            // The last character continues in the next part.
            Err(error) if error.error_len().is_none() && read > 0 => {
                let whole = filled.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            Err(_) => return Ok(Err(WriteRefusal::NotUtf8)),
        };
        let taken = valid.len();
        take(valid)?;
        if read == 0 {
            return Ok(Ok(()));
        }
        let end = held + read;
        buffer.copy_within(taken..end, 0);
        held = end - taken;
    }
}
