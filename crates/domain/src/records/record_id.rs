//! The one text that identifies a record to an agent: `{connection_id}/{stream}:{record_id}`.
//!
//! Whatever a key contains, even slashes, quotes and line breaks, its identifier is one word of
//! plain ASCII. The word therefore survives being displayed, copied and sent back, and parsing it
//! restores the key byte for byte.

use std::borrow::Cow;
use std::fmt;

use crate::percent;

/// The longest decoded segment, in bytes. This server's keys are far shorter; another server's may
/// be longer.
const MAX_SEGMENT_BYTES: usize = 4096;

/// The identifier of a record in a stream of a connection.
///
/// *Shape*: three segments, percent-encoded (RFC 3986, section 2.1) outside of `A-Z a-z 0-9 . _ ~ :
/// @ -`. In the first two a `:` is encoded too, since the first `:` ends the stream. A segment `.`
/// is written `%2E` and `..` `%2E%2E`, so that no library takes them for steps of a path. The older
/// form lacks the connection and its slash, and needs the connection beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordId {
    /// The name of the connection; absent in the older form.
    pub connection: Option<String>,
    /// The name of the stream.
    pub stream: String,
    /// The key of the record in its stream.
    pub key: String,
}

/// A text that is not a record identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecordId {
    /// A part is missing, empty, too long, or not encoded.
    #[error(
        "is written {{connection_id}}/{{stream}}:{{record_id}}, each part percent-encoded; copy \
         it from an answer"
    )]
    Malformed,
    /// A part is `.` or `..`.
    #[error("has a part `.` or `..`, which is written `%2E` or `%2E%2E`; copy it from an answer")]
    DotSegment,
}

impl RecordId {
    /// Parses an identifier that an agent sent.
    pub fn parse(text: &str) -> Result<Self, BadRecordId> {
        let (connection, rest) = match text.split_once('/') {
            Some((connection, rest)) => (Some(decode(connection, false)?), rest),
            None => (None, text),
        };
        let (stream, key) = rest.split_once(':').ok_or(BadRecordId::Malformed)?;
        Ok(Self { connection, stream: decode(stream, false)?, key: decode(key, true)? })
    }

    /// Whether the formatted identifier can be parsed again: no part is empty or too long.
    pub fn is_readable(&self) -> bool {
        let parts = self.connection.iter().chain([&self.stream, &self.key]);
        parts.map(String::len).all(|length| (1..=MAX_SEGMENT_BYTES).contains(&length))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(connection) = &self.connection {
            formatter.write_str(&encode(connection, false))?;
            formatter.write_str("/")?;
        }
        formatter.write_str(&encode(&self.stream, false))?;
        formatter.write_str(":")?;
        formatter.write_str(&encode_key(&self.key))
    }
}

/// Encodes a key as one segment of an identifier or of an address, which no library takes for a
/// step of a path.
pub fn encode_key(key: &str) -> Cow<'_, str> {
    encode(key, true)
}

fn is_plain(byte: u8, is_key: bool) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'.' | b'_' | b'~' | b'@' | b'-')
        || (is_key && byte == b':')
}

fn encode(segment: &str, is_key: bool) -> Cow<'_, str> {
    let is_dots = matches!(segment, "." | "..");
    if !is_dots && segment.bytes().all(|byte| is_plain(byte, is_key)) {
        return Cow::Borrowed(segment);
    }
    percent::encode_except(segment, |byte| is_plain(byte, is_key) && !is_dots).into()
}

fn decode(segment: &str, is_key: bool) -> Result<String, BadRecordId> {
    if matches!(segment, "." | "..") {
        return Err(BadRecordId::DotSegment);
    }
    let decoded = percent::decode_except(segment, |byte| is_plain(byte, is_key))
        .ok_or(BadRecordId::Malformed)?;
    if (1..=MAX_SEGMENT_BYTES).contains(&decoded.len()) {
        Ok(decoded)
    } else {
        Err(BadRecordId::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(connection: Option<&str>, stream: &str, key: &str) -> RecordId {
        RecordId {
            connection: connection.map(str::to_owned),
            stream: stream.to_owned(),
            key: key.to_owned(),
        }
    }

    proptest! {
        #[test]
        fn every_record_has_a_unique_identifier_of_plain_characters(
            connection in proptest::option::of("[a-zA-Z0-9_:/.%@-]{1,20}"),
            stream in "\\PC{1,20}",
            key in "(?s).{1,120}",
        ) {
            let id = id(connection.as_deref(), &stream, &key);
            let text = id.to_string();
            prop_assert!(
                text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\<>".contains(&byte)),
            );
            prop_assert!(
                !text.split(['/', ':']).next().is_some_and(|segment| matches!(segment, "." | "..")),
            );
            prop_assert_eq!(RecordId::parse(&text), Ok(id));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "(?s).{0,60}") {
            if let Ok(id) = RecordId::parse(&text) {
                prop_assert_eq!(RecordId::parse(&id.to_string()), Ok(id));
            }
        }
    }

    #[test]
    fn identifiers_have_the_documented_form() {
        for (record, text) in [
            (id(Some("gmail-work"), "messages", "m1"), "gmail-work/messages:m1"),
            (id(Some("c"), "s", "urn:x:1@2~3"), "c/s:urn:x:1@2~3"),
            (id(Some("c"), "s", "https://a.b/?c=d#e"), "c/s:https:%2F%2Fa.b%2F%3Fc%3Dd%23e"),
            (id(Some("c"), "s", "[\"a\",\"b\"]"), "c/s:%5B%22a%22%2C%22b%22%5D"),
            (id(Some("c"), "s", ".."), "c/s:%2E%2E"),
            (id(Some("."), "s", "..."), "%2E/s:..."),
            (id(Some("c"), "a:b", "🙂"), "c/a%3Ab:%F0%9F%99%82"),
            (id(None, "s", "k"), "s:k"),
        ] {
            assert_eq!(record.to_string(), text);
            assert_eq!(RecordId::parse(text), Ok(record));
        }
    }

    #[test]
    fn readable_identifiers_are_parsed_again() {
        for connection in [None, Some(""), Some("c")] {
            for stream in ["", "s"] {
                for length in [0, 1, 600, 4096, 4097] {
                    let id = id(connection, stream, &"/".repeat(length));
                    assert_eq!(
                        RecordId::parse(&id.to_string()).is_ok_and(|read| read == id),
                        id.is_readable(),
                        "{id:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn malformed_identifiers_are_refused() {
        let long = format!("c/s:{}", "x".repeat(4097));
        for text in [
            "", "c", "c/s", "c/:k", "c/s:", "/s:k", "c/s:a/b", "c/s:a b", "c/s:%", "c/s:%FF",
            "a:b/s:k", "ä/s:k", &long,
        ] {
            assert_eq!(RecordId::parse(text), Err(BadRecordId::Malformed), "{text}");
        }
        for text in ["./s:k", "c/..:k", "c/s:..", "c/s:."] {
            assert_eq!(RecordId::parse(text), Err(BadRecordId::DotSegment), "{text}");
        }
    }
}
