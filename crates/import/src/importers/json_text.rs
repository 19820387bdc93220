//! The text of JSON files: of those in UTF-16, and of those whose texts were encoded twice.
//!
//! Instagram and Facebook write the bytes of UTF-8 as if each were a character: `"Gr\u00c3\u00bc"`
//! for `Grü`. Such a file is ASCII, all of its escapes are below U+0100, and all of them together
//! are UTF-8. Then its texts are repaired, and no text of another file.

use std::io::{self, BufRead as _};

use stile_domain::records::value::FieldValue;

use crate::charset::file_encoding::{Encoding, Transcoder};
use crate::importer::{ImportRows, LocatedRow};
use crate::source::{InputPath, InputReader};

/// The text of a file as UTF-8.
pub(crate) type JsonText = Transcoder<InputReader>;

/// Opens a file of JSON, which is UTF-8 or begins with the mark of UTF-16.
pub(crate) fn open(path: &InputPath) -> io::Result<JsonText> {
    let mut reader = path.open()?.reader;
    let encoding = Encoding::marked(reader.fill_buf()?).unwrap_or(Encoding::Utf8);
    Ok(Transcoder::new(reader, encoding))
}

/// Returns whether all texts of a file are UTF-8 that was read as Latin-1.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn is_encoded_twice(path: &InputPath) -> io::Result<bool> {
    let mut scan = EscapeScan::default();
    let mut reader = path.open()?.reader;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(scan.end_run() && scan.repaired > 0);
        }
        if !scan.feed(buffer) {
            return Ok(false);
        }
        let length = buffer.len();
        reader.consume(length);
    }
}

/// Looks at the escapes of a file.
#[derive(Default)]
struct EscapeScan {
    /// The escape so far: a backslash and what follows.
    escape: Vec<u8>,
    /// The bytes that the last escapes stand for, one directly after the other.
    run: Vec<u8>,
    /// How many characters of several bytes the escapes stand for.
    repaired: u64,
}

impl EscapeScan {
    /// Returns whether the bytes can still be of such a file.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte.is_ascii() && self.byte(byte))
    }

    fn byte(&mut self, byte: u8) -> bool {
        if self.escape.is_empty() {
            return match byte {
                b'\\' => {
                    self.escape.push(byte);
                    true
                }
                _ => self.end_run(),
            };
        }
        self.escape.push(byte);
        match self.escape.as_slice() {
            [_, b'u'] | [_, b'u', _] | [_, b'u', _, _] | [_, b'u', _, _, _] => true,
            [_, b'u', b'0', b'0', high, low] => {
                let digits = [*high, *low];
                let value = std::str::from_utf8(&digits).ok();
                let value = value.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                self.escape.clear();
                match value {
                    Some(byte) if byte >= 0x80 => {
                        self.run.push(byte);
                        true
                    }
                    Some(_) => self.end_run(),
                    None => false,
                }
            }
            [_, b'u', ..] => false,
            _ => {
                self.escape.clear();
                self.end_run()
            }
        }
    }

    /// Returns whether the last escapes together are UTF-8.
    fn end_run(&mut self) -> bool {
        if self.run.is_empty() {
            return true;
        }
        let is_utf8 = std::str::from_utf8(&self.run).is_ok();
        self.run.clear();
        self.repaired += 1;
        is_utf8
    }
}

/// Rows whose texts are repaired.
pub(crate) struct RepairedRows(pub(crate) Box<dyn ImportRows>);

impl ImportRows for RepairedRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let Some(mut located) = self.0.next()? else { return Ok(None) };
        if let Ok(row) = &mut located.row {
            for (name, value) in &mut row.fields {
                *name = repaired(name);
                match value {
                    FieldValue::Text(text) | FieldValue::Json(text) => *text = repaired(text),
                    FieldValue::Null | FieldValue::Bool(_) | FieldValue::Number(_) => {}
                }
            }
        }
        Ok(Some(located))
    }

    fn consumed(&self) -> u64 {
        self.0.consumed()
    }
}

/// Returns a text with each run of characters from U+0080 to U+00FF taken for the bytes of UTF-8.
/// A run that is none stays.
fn repaired(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut run: (String, Vec<u8>) = Default::default();
    let end = |whole: &mut String, run: &mut (String, Vec<u8>)| {
        match std::str::from_utf8(&run.1) {
            Ok(text) => whole.push_str(text),
            Err(_) => whole.push_str(&run.0),
        }
        run.0.clear();
        run.1.clear();
    };
    for character in text.chars() {
        match u8::try_from(u32::from(character)) {
            Ok(byte) if byte >= 0x80 => {
                run.0.push(character);
                run.1.push(byte);
            }
            _ => {
                end(&mut whole, &mut run);
                whole.push(character);
            }
        }
    }
    end(&mut whole, &mut run);
    whole
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::report::BadRowPolicy;
    use crate::rig::{recognised, rig};

    #[test]
    fn texts_that_were_encoded_twice_are_repaired_where_the_whole_file_shows_it() {
        let rig = rig();
        let instagram = r#"{"messages":[{"id":1,"text":"Gr\u00c3\u00bc\u00c3\u009fe \u00f0\u009f\u0098\u0080","more":["\u00c3\u00bc"]},
            {"id":2,"text":"plain \" \\u00c3"}]}"#;
        let path = rig.write("a/message_1.json", instagram);
        let report = rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert!(report.read_as.iter().any(|line| line.contains("repaired")), "{report:?}");
        assert_eq!(rig.record("1")["text"], "Grüße 😀");
        assert_eq!(rig.record("1")["more"], json!(["ü"]));
        assert_eq!(rig.record("2")["text"], "plain \" \\u00c3");
        for other in [
            r#"[{"id":3,"text":"\u00c3\u00bc and \u00fc"}]"#,
            r#"[{"id":3,"text":"\u00c3\u00bc and ü"}]"#,
            r#"[{"id":3,"text":"\u00c3\u00bc and \u20ac"}]"#,
        ] {
            let path = rig.write("b.json", other);
            rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
            assert!(rig.record("3")["text"].as_str().unwrap().starts_with("Ã¼"), "{other}");
        }
    }

    #[test]
    fn json_in_utf_16_is_read() {
        let rig = rig();
        let text = "\u{feff}[{\"id\":\"a\",\"n\":\"ü\"}]";
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let path = rig.write("wide.json", bytes);
        rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert_eq!(rig.record("a")["n"], "ü");
    }
}
