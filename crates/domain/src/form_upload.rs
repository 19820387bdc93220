//! Reads a form with files as a browser sends it, piece by piece.
//!
//! The form is one of this server's own pages, so the rules are narrow: short fields first, then
//! the files, and nothing behind them. Fields come first so that the server knows whose form it is
//! before it stores a byte of a file.
//!
//! *Source*: RFC 7578 (multipart/form-data); HTML Living Standard, "multipart form data", for the
//! characters of a file's name.

use memchr::memmem;

use crate::byte_size::beginning;

/// The longest head of a part, in bytes.
const MAX_HEAD_BYTES: usize = 4 * 1024;
/// The longest value of a field, in bytes.
const MAX_FIELD_BYTES: usize = 4 * 1024;
/// The most fields before the files.
const MAX_FIELDS: usize = 16;
/// The most files of one form.
pub const MAX_FILES: usize = 20;
/// The longest boundary. *Source*: RFC 2046, section 5.1.1.
const MAX_BOUNDARY_BYTES: usize = 70;
/// The longest name of a file that is kept, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// What arrived of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormEvent {
    /// A field, whole.
    Field {
        /// The name of the field.
        name: String,
        /// The value of the field.
        value: String,
    },
    /// A file begins. It has this name, as [`safe_file_name`] leaves it.
    File(String),
    /// The next bytes of the file that began last.
    Bytes(Vec<u8>),
    /// The file that began last is whole.
    FileEnd,
}

/// Why a form with files cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUpload {
    /// The type of the body names no usable boundary.
    #[error("the form is not multipart/form-data with a boundary")]
    NoBoundary,
    /// The body does not follow its form.
    #[error("the form is malformed")]
    Malformed,
    /// A head or a field is too long, or there are too many fields.
    #[error("a field of the form is too long")]
    TooLong,
    /// A field follows a file.
    #[error("the form has something behind its files")]
    BehindFile,
    /// There are more than [`MAX_FILES`] files.
    #[error("the form has more than 20 files")]
    TooMany,
    /// No file was chosen.
    #[error("the form has no file")]
    NoFile,
    /// The body ended before the form did.
    #[error("the form broke off")]
    BrokeOff,
}

/// What the next bytes are.
#[derive(Debug)]
enum Expects {
    /// The rest of a line that begins a part or ends the form.
    EndOfDelimiter,
    /// The head of a part.
    Head,
    /// The value of the field with this name.
    Value(String),
    /// Bytes of the file.
    File,
    /// Nothing: the form has ended.
    Nothing,
}

/// A form that is being read.
#[derive(Debug)]
pub struct FormUpload {
    /// What stands before each part: a line break, two hyphens and the boundary.
    delimiter: Vec<u8>,
    held: Vec<u8>,
    expects: Expects,
    fields: usize,
    files: usize,
}

impl FormUpload {
    /// Begins to read a form whose `Content-Type` is this.
    ///
    /// # Errors
    /// [`BadUpload::NoBoundary`].
    pub fn of_type(content_type: &str) -> Result<Self, BadUpload> {
        let (kind, rest) = content_type.split_once(';').ok_or(BadUpload::NoBoundary)?;
        let is_form = kind.trim().eq_ignore_ascii_case("multipart/form-data");
        let boundary = parameter(rest, "boundary").filter(|_| is_form);
        let fits = |boundary: &String| {
            (1..=MAX_BOUNDARY_BYTES).contains(&boundary.len())
                && boundary.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        let boundary = boundary.filter(fits).ok_or(BadUpload::NoBoundary)?;
        Ok(Self {
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            // A body may begin with its first boundary, without the line break that stands before
            // every other boundary. So that all are found alike, the break is put there.
            held: b"\r\n".to_vec(),
            expects: Expects::Value(String::new()),
            fields: 0,
            files: 0,
        })
    }

    /// Takes the next bytes of the body, and returns what they complete.
    ///
    /// # Errors
    /// Every [`BadUpload`] but [`BadUpload::BrokeOff`]. The form must be read no further then.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Vec<FormEvent>, BadUpload> {
        let mut events = Vec::new();
        if matches!(self.expects, Expects::Nothing) {
            return Ok(events);
        }
        self.held.extend_from_slice(piece);
        while self.step(&mut events)? {}
        Ok(events)
    }

    /// Says that the body has ended.
    ///
    /// # Errors
    /// [`BadUpload::BrokeOff`] and [`BadUpload::NoFile`].
    pub fn finish(self) -> Result<(), BadUpload> {
        match self.expects {
            Expects::Nothing if self.files > 0 => Ok(()),
            Expects::Nothing => Err(BadUpload::NoFile),
            _ => Err(BadUpload::BrokeOff),
        }
    }

    /// Takes one step, and returns whether another one may be possible.
    fn step(&mut self, events: &mut Vec<FormEvent>) -> Result<bool, BadUpload> {
        match std::mem::replace(&mut self.expects, Expects::Nothing) {
            Expects::EndOfDelimiter => self.end_delimiter(),
            Expects::Head => self.head(events),
            Expects::Value(name) => self.value(name, events),
            Expects::File => Ok(self.file(events)),
            Expects::Nothing => Ok(false),
        }
    }

    fn end_delimiter(&mut self) -> Result<bool, BadUpload> {
        match self.held.get(..2) {
            None => {
                self.expects = Expects::EndOfDelimiter;
                Ok(false)
            }
            Some(b"--") => Ok(false),
            Some(b"\r\n") => {
                self.held.drain(..2);
                self.expects = Expects::Head;
                Ok(true)
            }
            Some(_) => Err(BadUpload::Malformed),
        }
    }

    fn head(&mut self, events: &mut Vec<FormEvent>) -> Result<bool, BadUpload> {
        let Some(end) = memmem::find(&self.held, b"\r\n\r\n") else {
            self.expects = Expects::Head;
            return if self.held.len() > MAX_HEAD_BYTES {
                Err(BadUpload::TooLong)
            } else {
                Ok(false)
            };
        };
        let head: Vec<u8> = self.held.drain(..end + 4).collect();
        if head.len() > MAX_HEAD_BYTES {
            return Err(BadUpload::TooLong);
        }
        let head = String::from_utf8(head).map_err(|_| BadUpload::Malformed)?;
        let (name, file) = disposition(&head).ok_or(BadUpload::Malformed)?;
        match file {
            Some(file) if file.is_empty() => Err(BadUpload::NoFile),
            Some(_) if self.files == MAX_FILES => Err(BadUpload::TooMany),
            Some(file) => {
                self.files += 1;
                events.push(FormEvent::File(safe_file_name(&file)));
                self.expects = Expects::File;
                Ok(true)
            }
            None if self.files > 0 => Err(BadUpload::BehindFile),
            None if self.fields == MAX_FIELDS => Err(BadUpload::TooLong),
            None => {
                self.fields += 1;
                self.expects = Expects::Value(name);
                Ok(true)
            }
        }
    }

    fn value(&mut self, name: String, events: &mut Vec<FormEvent>) -> Result<bool, BadUpload> {
        let Some(end) = memmem::find(&self.held, &self.delimiter) else {
            self.expects = Expects::Value(name);
            let most = MAX_FIELD_BYTES + self.delimiter.len();
            return if self.held.len() > most { Err(BadUpload::TooLong) } else { Ok(false) };
        };
        if end > MAX_FIELD_BYTES {
            return Err(BadUpload::TooLong);
        }
        let value: Vec<u8> = self.held.drain(..end + self.delimiter.len()).take(end).collect();
        let value = String::from_utf8(value).map_err(|_| BadUpload::Malformed)?;
        match (self.fields, value.is_empty()) {
            // Before the first part nothing but its boundary.
            (0, true) => {}
            (0, false) => return Err(BadUpload::Malformed),
            _ => events.push(FormEvent::Field { name, value }),
        }
        self.expects = Expects::EndOfDelimiter;
        Ok(true)
    }

    fn file(&mut self, events: &mut Vec<FormEvent>) -> bool {
        let found = memmem::find(&self.held, &self.delimiter);
        // The end of what is held may be the beginning of the delimiter.
        let end = found.unwrap_or_else(|| self.held.len().saturating_sub(self.delimiter.len() - 1));
        let bytes: Vec<u8> = self.held.drain(..end).collect();
        if !bytes.is_empty() {
            events.push(FormEvent::Bytes(bytes));
        }
        if found.is_none() {
            self.expects = Expects::File;
            return false;
        }
        self.held.drain(..self.delimiter.len());
        events.push(FormEvent::FileEnd);
        self.expects = Expects::EndOfDelimiter;
        true
    }
}

/// Returns the name of a part, and the name of its file if it has one.
fn disposition(head: &str) -> Option<(String, Option<String>)> {
    let mut found = head.split("\r\n").filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then(|| value.trim())
    });
    let value = found.next().filter(|_| found.next().is_none())?;
    let (kind, rest) = value.split_once(';')?;
    let is_form = kind.trim().eq_ignore_ascii_case("form-data");
    let name = parameter(rest, "name").filter(|_| is_form)?;
    Some((name, parameter(rest, "filename")))
}

/// Returns a parameter of `; name="value"; other=value`. In quotes a browser writes a quote as
/// `%22`, and no backslash before anything.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (name, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(';').unwrap_or((after, "")),
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value.to_owned());
        }
        rest = next;
    }
}

/// Returns the name of a file without its folders, and with what no system and no reader minds: no
/// separator, no control character, no character that Windows forbids, at most 120 bytes with its
/// extension.
pub fn safe_file_name(text: &str) -> String {
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept = |character: char| match character {
        '<' | '>' | ':' | '"' | '|' | '?' | '*' => Some('_'),
        _ if character.is_control() => None,
        _ => Some(character),
    };
    let cleaned: String = last.chars().filter_map(kept).collect();
    let name = cleaned.trim_matches([' ', '.']);
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if extension.len() <= MAX_NAME_BYTES / 4 => (stem, extension),
        _ => (name, ""),
    };
    let dot = if extension.is_empty() { "" } else { "." };
    let room = MAX_NAME_BYTES - extension.len() - dot.len();
    let stem = beginning(stem, room).trim_end_matches([' ', '.']);
    let stem = if stem.is_empty() { "upload" } else { stem };
    format!("{stem}{dot}{extension}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=----x7";

    fn body(file: &[u8]) -> Vec<u8> {
        let head = "------x7\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\ntok\r\n\
                    ------x7\r\nContent-Disposition: form-data; name=\"file\"; \
                    filename=\"bank; 2026.csv\"\r\nContent-Type: text/csv\r\n\r\n";
        [head.as_bytes(), file, b"\r\n------x7--\r\n"].concat()
    }

    /// Returns the fields, the name and the bytes of the file.
    fn read(
        content_type: &str,
        pieces: &[&[u8]],
    ) -> Result<(Vec<String>, String, Vec<u8>), BadUpload> {
        let mut form = FormUpload::of_type(content_type)?;
        let (mut fields, mut name, mut bytes, mut ended) = (vec![], String::new(), vec![], false);
        for piece in pieces {
            for event in form.feed(piece)? {
                match event {
                    FormEvent::Field { name, value } => fields.push(format!("{name}={value}")),
                    FormEvent::File(file) => name = file,
                    FormEvent::Bytes(more) => bytes.extend(more),
                    FormEvent::FileEnd => ended = true,
                }
            }
        }
        form.finish().map(|()| {
            assert!(ended);
            (fields, name, bytes)
        })
    }

    #[test]
    fn a_form_of_a_browser_is_read() {
        let (fields, name, bytes) = read(TYPE, &[&body(b"a,b\r\n1,2\r\n--")]).unwrap();
        assert_eq!(fields, ["csrf=tok"]);
        assert_eq!(name, "bank; 2026.csv");
        assert_eq!(bytes, b"a,b\r\n1,2\r\n--");
        let empty = read("multipart/form-data; boundary=\"----x7\"", &[&body(b"")]).unwrap();
        assert_eq!(empty.2, b"");
    }

    #[test]
    fn what_is_no_such_form_is_refused() {
        let type_of = |text| FormUpload::of_type(text).map(drop);
        for text in ["text/plain", "multipart/form-data", "multipart/form-data; boundary=", "a;b"] {
            assert_eq!(type_of(text), Err(BadUpload::NoBoundary), "{text}");
        }
        let whole = body(b"x");
        assert_eq!(read(TYPE, &[&whole[..whole.len() - 5]]), Err(BadUpload::BrokeOff));
        assert_eq!(read(TYPE, &[b"preamble\r\n", &whole]), Err(BadUpload::Malformed));
        let text = String::from_utf8(whole).unwrap();
        let changed = |from: &str, to: &str| read(TYPE, &[text.replace(from, to).as_bytes()]);
        assert_eq!(changed("bank; 2026.csv", ""), Err(BadUpload::NoFile));
        assert_eq!(changed("form-data; name", "attachment; name"), Err(BadUpload::Malformed));
        assert_eq!(changed("tok", &"x".repeat(5000)), Err(BadUpload::TooLong));
        assert_eq!(changed("text/csv", &"x".repeat(5000)), Err(BadUpload::TooLong));
        let behind =
            "\r\n------x7\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n1\r\n------x7--";
        assert_eq!(changed("\r\n------x7--", behind), Err(BadUpload::BehindFile));
        let without =
            "------x7\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n------x7--";
        assert_eq!(read(TYPE, &[without.as_bytes()]), Err(BadUpload::NoFile));
    }

    #[test]
    fn the_name_of_a_file_is_a_name_alone() {
        for (text, expected) in [
            ("bank.csv", "bank.csv"),
            ("C:\\Users\\ann\\bank.csv", "bank.csv"),
            ("../../etc/passwd", "passwd"),
            ("..", "upload"),
            ("a\u{0}b\n.csv", "ab.csv"),
            ("what?.json", "what_.json"),
            (".csv", "csv"),
        ] {
            assert_eq!(safe_file_name(text), expected, "{text:?}");
        }
        let long = safe_file_name(&format!("{}.csv", "ä".repeat(500)));
        assert!(long.len() <= MAX_NAME_BYTES && long.ends_with("ä.csv"), "{long}");
    }

    /// Returns a form with so many files, each with its number.
    fn files(count: usize) -> Vec<u8> {
        let file = |number: usize| {
            format!(
                "------x7\r\nContent-Disposition: form-data; name=\"file\"; \
                 filename=\"{number}.csv\"\r\n\r\nrow {number}\r\n"
            )
        };
        let all: String = (0..count).map(file).collect();
        [all.as_bytes(), b"------x7--"].concat()
    }

    #[test]
    fn files_follow_each_other_and_their_number_is_bounded() {
        let mut form = FormUpload::of_type(TYPE).unwrap();
        let events = form.feed(&files(2)).unwrap();
        let file = |name: &str, content: &str| {
            let bytes = FormEvent::Bytes(content.as_bytes().to_vec());
            [FormEvent::File(name.to_owned()), bytes, FormEvent::FileEnd]
        };
        assert_eq!(events, [file("0.csv", "row 0"), file("1.csv", "row 1")].concat());
        assert_eq!(form.finish(), Ok(()));
        assert!(read(TYPE, &[&files(MAX_FILES)]).is_ok());
        assert_eq!(read(TYPE, &[&files(MAX_FILES + 1)]), Err(BadUpload::TooMany));
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_form(
            file in proptest::collection::vec(
                prop_oneof![
                    Just(b'\r'),
                    Just(b'\n'),
                    Just(b'-'),
                    Just(b'x'),
                    Just(b'7'),
                    any::<u8>(),
                ],
                0..200,
            ),
            cuts in proptest::collection::vec(0_usize..400, 0..6),
        ) {
            let whole = body(&file);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut begin = 0;
            for cut in cuts.into_iter().chain([whole.len()]) {
                pieces.push(&whole[begin..cut]);
                begin = cut;
            }
            prop_assert_eq!(read(TYPE, &pieces), read(TYPE, &[&whole]));
        }

        #[test]
        fn no_name_leads_elsewhere(text in "\\PC{0,300}") {
            let name = safe_file_name(&text);
            prop_assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES);
            prop_assert!(!name.contains(['/', '\\']) && name != ".." && name != ".");
        }
    }
}
