//! Imports a folder of Markdown, or one file: a record for each note.
//!
//! A record has the note's path, its front matter, and its text. The front matter is parsed as for
//! the note tools; headings and sections are not parsed. A note can be larger than memory: only its
//! first `HEAD_BYTES` are parsed, and the text of a longer note is streamed when it is stored.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;
use stile_domain::notes::parse_front_matter;
use stile_domain::path::SpacePath;
use stile_domain::records::identifiers;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::files::{self, FileOpener, NoteFile, StreamedText};
use stile_store::space::note_folder::NoteFolder;

use crate::importer::{
    Contents, ImportRow, ImportRows, Importer, LocatedRow, Recognition, StreamDeclaration,
    UnusableRow,
};

/// Imports each note of a folder of Markdown.
pub static IMPORTER: Importer = Importer {
    name: "markdown",
    description: "a folder of Markdown",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Folder(_)),
        extensions: &["md", "markdown"],
        ..Recognition::NEVER
    },
    byte_count: |path| {
        note_files(path)?
            .iter()
            .try_fold(0, |bytes, note| Ok(bytes + files::open(&note.path)?.bytes))
    },
    open: |path, _| {
        let notes = note_files(path)?.into_iter().map(|NoteFile { path, name }| NoteSource {
            file: path.display().to_string().into(),
            name,
            opener: Arc::new(move || files::open(&path)),
        });
        Ok(Box::new(NoteRows { remaining: Box::new(notes), consumed: 0 }))
    },
    declaration: StreamDeclaration::InferredWithKey {
        field: PATH,
        reason: "the key is `path`: a note is known by where it is",
    },
};

/// The field with the note's path in its folder, `/` between its parts. The key.
pub(crate) const PATH: &str = "path";
/// The field with the time of the file's last change.
const MODIFIED: &str = "modified";
/// The field with the text after the front matter.
const TEXT: &str = "text";
/// How many bytes of a file may contain its front matter.
const HEAD_BYTES: usize = 1024 * 1024;
/// The prefix of a member of the front matter that is named like one of the fields above.
const PREFIX: &str = "fm_";

/// The code of a row of a note that could not be read, though it is there.
pub(crate) const UNREADABLE: &str = "unreadable";
/// The code of a row of a note that was removed after it was found.
pub(crate) const ABSENT: &str = "absent";

/// A note that is to be read.
struct NoteSource {
    /// The file, as a person reads it.
    file: Arc<str>,
    /// The path in the folder; `None` if it is not UTF-8.
    name: Option<String>,
    opener: FileOpener,
}

struct NoteRows {
    remaining: Box<dyn Iterator<Item = NoteSource> + Send>,
    consumed: u64,
}

/// Returns the rows of some notes of a folder. `should_stop` is asked before each note.
pub(crate) fn selected_rows(
    folder: &NoteFolder,
    notes: Arc<[SpacePath]>,
    should_stop: Arc<AtomicBool>,
) -> Box<dyn ImportRows> {
    let folder = folder.clone();
    let sources = (0..notes.len()).filter_map(move |index| {
        let note = notes.get(index)?;
        let name = relative(note);
        Some(NoteSource {
            file: name.into(),
            name: Some(name.to_owned()),
            opener: folder.opener(note),
        })
    });
    let rows = NoteRows { remaining: Box::new(sources), consumed: 0 };
    Box::new(StoppableRows { rows, should_stop })
}

/// Returns the path of a note in its folder, as the field [`PATH`] has it.
pub(crate) fn relative(note: &SpacePath) -> &str {
    note.as_str().trim_start_matches('/')
}

/// Rows that end with an error once they should stop.
struct StoppableRows {
    rows: NoteRows,
    should_stop: Arc<AtomicBool>,
}

impl ImportRows for StoppableRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        match self.should_stop.load(Ordering::Relaxed) {
            true => Err(ErrorKind::Interrupted.into()),
            false => self.rows.next(),
        }
    }

    fn consumed(&self) -> u64 {
        self.rows.consumed()
    }
}

impl ImportRows for NoteRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let Some(note) = self.remaining.next() else { return Ok(None) };
        let row = match &note.name {
            None => {
                Err(UnusableRow::new("invalid_utf8", "the file's name is not UTF-8; rename it"))
            }
            // A file that cannot be read is one bad row. The other files are read all the same.
            Some(name) => self.read(&note.opener, name).unwrap_or_else(|error| {
                let code = match error.kind() {
                    ErrorKind::InvalidData => "invalid_utf8",
                    ErrorKind::NotFound => ABSENT,
                    _ => UNREADABLE,
                };
                Err(UnusableRow::new(code, format!("the file could not be read: {error}")))
            }),
        };
        Ok(Some(LocatedRow { file: note.file, line: 1, row }))
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

impl NoteRows {
    fn read(
        &mut self,
        opener: &FileOpener,
        name: &str,
    ) -> io::Result<Result<ImportRow, UnusableRow>> {
        let mut file = opener()?;
        self.consumed += file.bytes;
        // A file that grows in the meantime is not read beyond this.
        let mut beginning = file.reader.by_ref().take(HEAD_BYTES as u64);
        if file.bytes <= HEAD_BYTES as u64 {
            let mut text = String::new();
            beginning.read_to_string(&mut text)?;
            return Ok(Ok(ImportRow::new(note_fields(name, file.modified, &text))));
        }
        let mut first = Vec::with_capacity(HEAD_BYTES);
        beginning.read_to_end(&mut first)?;
        let first = match std::str::from_utf8(&first) {
            Ok(first) => first,
            // The last character may continue after the beginning.
            Err(error) if error.error_len().is_none() => {
                let whole = first.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            Err(_) => {
                let reason = "the file is not UTF-8; convert it first";
                return Ok(Err(UnusableRow::new("invalid_utf8", reason)));
            }
        };
        let head = NoteHead::parse(first);
        let text = StreamedText { opener: Arc::clone(opener), from: head.text_starts as u64 };
        let fields = head.fields(name, file.modified);
        Ok(Ok(ImportRow { streamed_text: Some((TEXT, text)), ..ImportRow::new(fields) }))
    }
}

/// Returns the notes of a folder, or a single file as a note.
fn note_files(path: &Path) -> io::Result<Vec<NoteFile>> {
    if files::is_folder(path) {
        return files::find_notes(path);
    }
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    Ok(vec![NoteFile { path: path.to_owned(), name }])
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NoteHead {
    /// The members of the front matter in their order. A member named `path`, `modified` or `text`
    /// gets the prefix `fm_`. A member whose name cannot be a field's is left out.
    members: RecordFields,
    /// The offset of the text in the file, in bytes. Front matter that is not valid YAML is text.
    text_starts: usize,
}

impl NoteHead {
    /// Parses a whole note, or its first [`HEAD_BYTES`] up to a whole character. A byte order mark
    /// is neither front matter nor text.
    fn parse(first: &str) -> Self {
        const OWN: [&str; 3] = [PATH, MODIFIED, TEXT];
        let unmarked = first.strip_prefix('\u{feff}').unwrap_or(first);
        // A note may end with its front matter, without a line end behind it.
        let ended = unmarked.ends_with("\n---").then(|| format!("{unmarked}\n"));
        let (front_matter, starts) = parse_front_matter(ended.as_deref().unwrap_or(unmarked));
        let starts = starts.min(unmarked.len());
        let mut taken: HashSet<String> = OWN.map(str::to_owned).into();
        // Other members keep their names, so a prefixed name must differ from those too.
        taken.extend(front_matter.keys().filter(|name| !OWN.contains(&name.as_str())).cloned());
        let mut members = RecordFields::new();
        for (mut name, json) in front_matter {
            if OWN.contains(&name.as_str()) {
                while !taken.insert(name.clone()) {
                    name.insert_str(0, PREFIX);
                }
            }
            if identifiers::is_field_name(&name) {
                members.push((name, field_value(json)));
            }
        }
        Self { members, text_starts: first.len() - unmarked.len() + starts }
    }

    /// Returns the fields of the record without the text.
    fn fields(self, path: &str, modified: Option<Instant>) -> RecordFields {
        let mut fields = vec![(PATH.to_owned(), FieldValue::Text(path.to_owned()))];
        if let Some(modified) = modified {
            fields.push((MODIFIED.to_owned(), FieldValue::Text(modified.to_rfc3339())));
        }
        fields.extend(self.members);
        fields
    }
}

/// Returns the fields of a note that is in memory.
fn note_fields(path: &str, modified: Option<Instant>, file: &str) -> RecordFields {
    let head = NoteHead::parse(file);
    let text = file.get(head.text_starts..).unwrap_or_default().to_owned();
    let mut fields = head.fields(path, modified);
    fields.push((TEXT.to_owned(), FieldValue::Text(text)));
    fields
}

fn field_value(json: Json) -> FieldValue {
    match json {
        Json::Null => FieldValue::Null,
        Json::Bool(value) => FieldValue::Bool(value),
        Json::Number(number) => FieldValue::Number(number.to_string().into()),
        Json::String(text) => FieldValue::Text(text),
        nested => FieldValue::Json(nested.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stile_domain::records::row;

    use super::*;

    fn json_of(file: &str) -> String {
        row::to_json(&note_fields("a/b.md", Some(Instant(0)), file))
    }

    #[test]
    fn a_note_becomes_its_path_its_front_matter_and_its_text() {
        insta::assert_snapshot!(
            json_of(
                "\u{feff}---\ntitle: Ferns\ndate: 2026-01-03\ntags: [moss, 007]\nrating: 4.5\n\
                 done: true\nnone: ~\nmeta: {a: 1}\n---\n# Text\n"
            ).replace(",\"", ",\n\""),
            @r##"
        {"path":"a/b.md",
        "modified":"1970-01-01T00:00:00Z",
        "title":"Ferns",
        "date":"2026-01-03",
        "tags":["moss",
        "007"],
        "rating":4.5,
        "done":true,
        "none":null,
        "meta":{"a":1},
        "text":"# Text\n"}
        "##
        );
        assert_eq!(
            row::to_json(&note_fields("x.md", None, "plain")),
            r#"{"path":"x.md","text":"plain"}"#
        );
        assert_eq!(row::to_json(&note_fields("x.md", None, "")), r#"{"path":"x.md","text":""}"#);
    }

    #[test]
    fn members_named_like_the_fields_of_a_note_get_a_prefix() {
        let fields =
            NoteHead::parse("---\nfm_text: 1\ntext: 2\npath: 3\nmodified: 4\n\"\": 5\n---\n")
                .members;
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fm_text", "fm_fm_text", "fm_path", "fm_modified"]);
    }

    #[test]
    fn front_matter_may_end_the_file_without_a_line_end() {
        for file in ["---\ntitle: x\n---", "---\r\ntitle: x\r\n---"] {
            let json = row::to_json(&note_fields("x.md", None, file));
            assert_eq!(json, r#"{"path":"x.md","title":"x","text":""}"#, "{file:?}");
        }
        let json = row::to_json(&note_fields("x.md", None, "---\na: x\n---\nb\n---"));
        assert_eq!(json, r#"{"path":"x.md","a":"x","text":"b\n---"}"#);
    }

    #[test]
    fn front_matter_that_is_not_yaml_is_text() {
        for file in [
            "---\na: [\n---\nx", "---\na: 1\na: 2\n---\n", "---\nno end", "--- \na: 1\n---\n",
            "---\n- a\n---\n",
        ] {
            assert_eq!(NoteHead::parse(file), NoteHead::default(), "{file}");
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_record(
            file in "(---\n([a-z]{1,4}: [a-z0-9\\[\\]]{0,4}\n){0,3}---\n)?\\PC{0,40}",
        ) {
            let fields = note_fields("x.md", None, &file);
            let names: HashSet<&String> = fields.iter().map(|(name, _)| name).collect();
            prop_assert_eq!(names.len(), fields.len());
            let json = row::to_json(&fields);
            prop_assert_eq!(row::parse(json.as_bytes()).unwrap().fields, fields);
        }
    }
}
