//! Where an answer goes, piece by piece.

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

/// A text as the inside of a JSON string.
pub fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// Puts a JSON string.
pub fn put_string(out: &mut dyn Sink, text: &str) {
    out.put(&serde_json::Value::from(text).to_string());
}
