//! Where an answer goes, piece by piece.

use stile_domain::json_string::{escaped, escaped_len};

/// Takes an answer as it is made.
pub trait Sink {
    /// Takes the next part. After the reader has gone it does nothing.
    fn put(&mut self, part: &str);

    /// Whether nobody reads any more, so that what is long need not go on.
    fn is_gone(&self) -> bool;
}

impl Sink for String {
    fn put(&mut self, part: &str) {
        self.push_str(part);
    }

    fn is_gone(&self) -> bool {
        false
    }
}

/// Puts a JSON string.
pub fn put_string(out: &mut dyn Sink, text: &str) {
    out.put("\"");
    if escaped_len(text) == text.len() {
        out.put(text);
    } else {
        out.put(&escaped(text));
    }
    out.put("\"");
}
