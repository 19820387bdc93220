//! Where an operation writes its answer, piece by piece.

use stile_domain::json::text::{escaped, escaped_len};
use stile_domain::records::shown_records::ShownRecords;
use stile_store::records::RecordSource;

/// The receiver of an answer while the answer is made.
pub trait ResponseSink {
    /// Takes the next part. Does nothing after the reader has gone.
    fn write(&mut self, part: &str);

    /// Takes note that the answer shows something of a record, for the journal.
    fn note_record(&mut self, _source: &RecordSource, _key: &str) {}

    /// Returns whether nobody reads the answer any more, so that a long one can end early.
    fn is_closed(&self) -> bool;
}

/// Counts the records of an answer on their way to another sink.
pub struct CountingSink<'a> {
    out: &'a mut dyn ResponseSink,
    shown: ShownRecords,
}

impl<'a> CountingSink<'a> {
    /// Sends everything on to `out`.
    pub fn new(out: &'a mut dyn ResponseSink) -> Self {
        Self { out, shown: ShownRecords::default() }
    }

    /// Returns the records that were shown.
    pub fn into_shown(self) -> ShownRecords {
        self.shown
    }
}

impl ResponseSink for CountingSink<'_> {
    fn write(&mut self, part: &str) {
        self.out.write(part);
    }

    fn note_record(&mut self, source: &RecordSource, key: &str) {
        self.shown.add((source.connection().as_str(), source.stream().as_str()), key);
    }

    fn is_closed(&self) -> bool {
        self.out.is_closed()
    }
}

impl ResponseSink for String {
    fn write(&mut self, part: &str) {
        self.push_str(part);
    }

    fn is_closed(&self) -> bool {
        false
    }
}

pub(crate) fn write_json_string(out: &mut dyn ResponseSink, text: &str) {
    out.write("\"");
    if escaped_len(text) == text.len() {
        out.write(text);
    } else {
        out.write(&escaped(text));
    }
    out.write("\"");
}
