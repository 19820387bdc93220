//! Where an operation writes its answer, piece by piece.

use stile_domain::json::text::{escaped, escaped_len};

/// The receiver of an answer while the answer is made.
pub trait ResponseSink {
    /// Takes the next part. Does nothing after the reader has gone.
    fn write(&mut self, part: &str);

    /// Returns whether nobody reads the answer any more, so that a long one can end early.
    fn is_closed(&self) -> bool;
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
