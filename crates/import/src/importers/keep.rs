//! Imports notes of Google Keep, as Google Takeout has them: a record for each note.
//!
//! A note is a JSON file of its own beside an HTML file with the same note, which is left out. The
//! importer reads one such file, or all of a folder or zip file.
//!
//! *Source*: Google documents no format; these are the members that its exports of 2019 to 2026
//! have.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::Arc;

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::row;
use stile_domain::records::value::FieldValue;
use stile_store::archive::{Archive, ArchiveEntry};
use stile_store::files;

use super::{compact_time, json_members};
use crate::attachment::{self, Attachment};
use crate::exported_files;
use crate::importer::{
    Contents, ImportRow, ImportRows, Importer, LocatedRow, Recognition, StreamDeclaration,
    UnusableRow,
};
use crate::json_object::{JsonObject, truncate_name};
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::ArchivedFiles;

/// The largest note, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// How many bytes of a file show whether it is a note. A list of attachments can come first.
const BEGINNING: u64 = 4096;

/// Imports each note of Google Keep.
pub static IMPORTER: Importer = Importer {
    name: "keep",
    description: "notes of Google Keep",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Beginning(bytes) => begins(bytes),
            Contents::Database(_) => false,
            Contents::Zip(archive) => all_are_notes(archive),
            Contents::Folder(path) => {
                files::entry_names(path).is_ok_and(|names| names.iter().any(|name| is_json(name)))
                    && Archive::open(path).is_ok_and(|archive| all_are_notes(&archive))
            }
        },
        ..Recognition::NEVER
    },
    byte_count: |path| Ok(path.all_files()?.bytes()),
    open: |path, _| {
        let files = path.all_files()?;
        let numbers = files.entries().filter(|(_, entry)| is_json(&entry.name));
        let remaining: Vec<usize> = numbers.map(|(number, _)| number).collect();
        let entries = files.archive.entries().iter().enumerate();
        let media = entries.filter(|(_, entry)| is_media(&entry.name));
        let media = media.map(|(number, entry)| (spelling(&entry.name), number)).collect();
        Ok(Box::new(Notes { files, remaining: remaining.into_iter(), media, consumed: 0 }))
    },
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "notes",
    key: "id",
    time: "created",
    fields: &[
        ("id", PresetField::Name),
        ("title", PresetField::SearchedText),
        ("text", PresetField::SearchedText),
        ("tags", PresetField::Names),
        ("created", PresetField::Time),
        ("updated", PresetField::Time),
        ("pinned", PresetField::Flag),
        ("archived", PresetField::Flag),
        ("trashed", PresetField::Flag),
        ("shared_with", PresetField::Names),
        ("links", PresetField::Names),
        ("attachments", PresetField::List),
        (attachment::TEXT_FIELD, PresetField::SearchedText),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it has notes of Google Keep, a record for each: `id` is the digest of the time when a note \
         was made or, where it has none, of the name of its file",
        "`created` orders the records and is the time by which a grant counts",
        "`title`, `text`, `tags` and `attachment_text` can be searched; a list is text with `[ ]` \
         or `[x]` before each item",
        "`attachments` refers to blobs, where the export has the files",
    ],
};

fn is_json(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("json"))
}

/// Returns whether a file can be attached to a note: a picture, a recording or a film.
pub(crate) fn is_media(name: &str) -> bool {
    let media_type = exported_files::media_type_of(name);
    ["image/", "audio/", "video/"].iter().any(|kind| media_type.starts_with(kind))
}

/// Returns the name of a file as notes and archives both have it: a note can say `.jpeg` of a file
/// that the export names `.jpg`.
fn spelling(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_suffix(".jpeg").map_or(name.clone(), |stem| format!("{stem}.jpg"))
}

/// Returns whether a file begins as a note.
fn begins(bytes: &[u8]) -> bool {
    json_members::beginning(bytes).is_some_and(|json| {
        !json.is_array
            && (json.has(&["isTrashed", "isPinned"]) || json.has(&["isArchived", "isPinned"]))
    })
}

/// Returns whether an entry of an archive is a note.
pub(crate) fn is_note(archive: &Archive, entry: &ArchiveEntry) -> bool {
    let mut beginning = Vec::new();
    is_json(&entry.name)
        && archive
            .read(entry)
            .is_ok_and(|reader| reader.take(BEGINNING).read_to_end(&mut beginning).is_ok())
        && begins(&beginning)
}

/// Returns whether an archive has JSON files and all of them are notes.
fn all_are_notes(archive: &Archive) -> bool {
    let mut files = archive.entries().iter().filter(|entry| is_json(&entry.name)).peekable();
    files.peek().is_some() && files.all(|entry| is_note(archive, entry))
}

struct Notes {
    files: ArchivedFiles,
    remaining: std::vec::IntoIter<usize>,
    /// The numbers of the files that notes can have, by their spelling.
    media: HashMap<String, usize>,
    consumed: u64,
}

impl Notes {
    /// Gives a note in a file of this name the files that are attached to it.
    fn attach(&self, row: &mut ImportRow, note: &JsonObject, file: &str) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut missing = Vec::new();
        for attached in note.objects("attachments").iter().take(exported_files::MAX_FILES) {
            let Some(name) = attached.text("filePath") else { continue };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let number = self.media.get(&spelling(&path));
            // A file that cannot be read is named as one that the export lacks.
            match number.map(|number| exported_files::attach(&self.files.archive, *number)) {
                Some(Ok(found)) => row.attachments.push(found),
                _ => missing.push(truncate_name(name).to_owned()),
            }
        }
        let references = Attachment::references(&row.attachments, &missing);
        row.fields.extend(references.map(|list| ("attachments".to_owned(), list)));
    }
}

impl ImportRows for Notes {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let archive = Arc::clone(&self.files.archive);
        let next = self.remaining.by_ref().find_map(|number| archive.entries().get(number));
        let Some(entry) = next else { return Ok(None) };
        let file: Arc<str> = self.files.name_of(entry).into();
        let read = archive.read(entry).and_then(|mut it| files::read_short(&mut it, MAX_BYTES));
        self.consumed += entry.bytes;
        // A file that cannot be read is one bad row. The other files are read all the same.
        let row = match read {
            Ok(bytes) => match row::parse(&bytes) {
                Ok(parsed) => {
                    let found = JsonObject(parsed.fields);
                    let mut row = note(&found, &entry.name);
                    self.attach(&mut row, &found, &entry.name);
                    Ok(ImportRow { replaced: parsed.replaced, ..row })
                }
                Err(bad) => Err(UnusableRow::new("invalid_json", bad)),
            },
            Err(error) => Err(UnusableRow::new("unreadable", error)),
        };
        Ok(Some(LocatedRow { file, line: 1, row }))
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

/// Returns the record of a note in a file of this name.
fn note(note: &JsonObject, file: &str) -> ImportRow {
    let own = |text: Option<&str>| text.map(|text| FieldValue::Text(text.to_owned()));
    let texts = |list: &str, member: &str| -> Option<FieldValue> {
        let objects = note.objects(list);
        let texts: Vec<&str> = objects.iter().filter_map(|it| it.text(member)).collect();
        (!texts.is_empty()).then(|| FieldValue::Json(json!(texts).to_string()))
    };
    let time = |name: &str| {
        let micros = note.integer(name).filter(|&micros| micros > 0);
        micros.map(Instant).and_then(compact_time::written)
    };
    let created = time("createdTimestampUsec");
    let name = file.rsplit('/').next().unwrap_or_default();
    let named = created.as_deref().unwrap_or(name);
    let id = format!("sha256:{}", ContentHash::digest(named.as_bytes()));
    let items = note.objects("listContent");
    let items = items.iter().map(|item| {
        let mark = if item.is_true("isChecked") { "[x]" } else { "[ ]" };
        format!("{mark} {}", item.text("text").unwrap_or_default())
    });
    let text = note.text("textContent").map(str::to_owned).into_iter().chain(items);
    let text = text.collect::<Vec<_>>().join("\n");
    let flag = |name: &str| note.is_true(name).then_some(FieldValue::Bool(true));
    let fields = [
        ("id", Some(FieldValue::Text(id))),
        ("title", own(note.text("title"))),
        ("text", (!text.is_empty()).then_some(FieldValue::Text(text))),
        ("tags", texts("labels", "name")),
        // A note of an export that lacks the time when it was made has that of its last change.
        ("created", created.or_else(|| time("userEditedTimestampUsec")).map(FieldValue::Text)),
        ("updated", time("userEditedTimestampUsec").map(FieldValue::Text)),
        ("pinned", flag("isPinned")),
        ("archived", flag("isArchived")),
        ("trashed", flag("isTrashed")),
        ("shared_with", texts("sharees", "email")),
        ("links", texts("annotations", "url")),
    ];
    ImportRow::from_message(fields, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::super::xml_elements::tests::rows_of;
    use super::*;
    use crate::importers::{IMPORTERS, recognise};
    use crate::report::BadRowPolicy;
    use crate::rig::{counts, recognised, rig};

    const LIST: &str = r#"{"color": "DEFAULT", "isTrashed": false, "isPinned": true,
        "isArchived": false, "listContent": [{"text": "moss", "isChecked": true},
        {"text": "ferns", "isChecked": false}], "title": "Buy", "userEditedTimestampUsec":
        1767607872123000, "createdTimestampUsec": 1767600000000000, "labels": [{"name": "garden"}],
        "annotations": [{"source": "WEBLINK", "url": "https://a.example"}],
        "sharees": [{"isOwner": true, "type": "USER", "email": "ann@example.org"}],
        "attachments": [{"filePath": "fern.jpg", "mimetype": "image/jpeg"}]}"#;

    #[test]
    fn a_note_is_a_record_with_its_text_or_its_list() {
        let rows = rows_of(&IMPORTER, "json", LIST);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "title": "Buy", "text": "[x] moss\n[ ] ferns",
                "tags": ["garden"], "created": "2026-01-05T08:00:00Z",
                "updated": "2026-01-05T10:11:12.123Z", "pinned": true,
                "shared_with": ["ann@example.org"], "links": ["https://a.example"],
                "attachments": [{ "filename": "fern.jpg" }],
            })
        );
    }

    #[test]
    fn a_folder_of_notes_is_read_file_by_file() {
        let rig = rig();
        rig.write("Keep/Buy.json", LIST);
        rig.write("Keep/Buy.html", "<html>");
        // The note says `fern.jpg`.
        rig.write("Keep/fern.jpeg", "picture");
        let old = r#"{"isPinned": false, "isArchived": true, "textContent": "old", "title": ""}"#;
        let file = rig.write("Keep/2020.json", old);
        rig.write("Keep/torn.json", r#"{"isTrashed": false, "isPinned": false, "#);
        let folder = rig.folder.path().join("Keep");
        assert_eq!(recognise(IMPORTERS, &file).unwrap().map(|it| it.name), Some("keep"));
        let import = || {
            let inputs = [recognised(&folder)];
            rig.import(&inputs, &[], BadRowPolicy::Skip, |_| ()).unwrap()
        };
        let report = import();
        assert_eq!((counts(&report), report.bad[0].code), ((2, 0, 0, 1), "invalid_json"));
        assert_eq!(counts(&import()), (0, 0, 2, 1));
        let notes = rig.keys().iter().map(|key| rig.record(key)).collect::<Vec<_>>();
        let buy = notes.iter().find(|note| note["title"] == "Buy").unwrap();
        let blob = buy["attachments"][0]["blob_id"].as_str().unwrap();
        assert_eq!(rig.blob_bytes(blob).unwrap(), b"picture");
        assert_eq!(buy["attachments"][0]["mime_type"], "image/jpeg");
        rig.write("Keep/other.json", "{}");
        assert_ne!(recognise(IMPORTERS, &folder).unwrap().map(|it| it.name), Some("keep"));
    }
}
