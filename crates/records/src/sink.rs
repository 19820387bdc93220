//! Where an answer goes, piece by piece.

use stile_domain::json_string::{escaped, escaped_len};

/// Takes an answer as it is made.
pub trait ResponseSink {
    /// Takes the next part. After the reader has gone it does nothing.
    fn write(&mut self, part: &str);

    /// Whether nobody reads any more, so that what is long need not go on.
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

/// Puts a JSON string.
pub fn write_json_string(out: &mut dyn ResponseSink, text: &str) {
    out.write("\"");
    if escaped_len(text) == text.len() {
        out.write(text);
    } else {
        out.write(&escaped(text));
    }
    out.write("\"");
}
