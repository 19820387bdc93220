//! Imports notes of Evernote (ENEX): a record for each note.
//!
//! *Source*: Evernote's export format 4.0 and its markup ENML 2.0.

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::compact_time;
use super::whole_file::Keys;
use super::xml_elements::{self, Element, is_document_of};
use crate::html;
use crate::importer::{Contents, ImportRow, Importer, Recognition, StreamDeclaration, file_bytes};
use crate::preset::{PresetDeclaration, PresetField};

/// Imports each note of an export.
pub static IMPORTER: Importer = Importer {
    name: "evernote",
    description: "notes of Evernote",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if is_document_of(bytes, "en-export")),
        extensions: &["enex"],
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| {
        let mut keys = Keys::default();
        let to_rows = move |note: &Element| vec![Ok(row(note, &mut keys))];
        xml_elements::open(path, &["note"], to_rows)
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
        ("author", PresetField::Name),
        ("source", PresetField::Name),
        ("files", PresetField::Names),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is an export of Evernote, a record for each note: `id` is the digest of its title and \
         of the time when it was made",
        "`created` orders the records and is the time by which a grant counts",
        "`title`, `text`, `tags` and the names of attached `files` can be searched",
    ],
};

fn row(note: &Element, keys: &mut Keys) -> ImportRow {
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let list = |all: Vec<String>| {
        Some(FieldValue::Json(json!(all).to_string())).filter(|_| !all.is_empty())
    };
    let title = note.text_of("title");
    let made = note.text_of("created");
    let named = [title.as_deref(), made.as_deref()].map(Option::unwrap_or_default).join("\n");
    let id = keys.take(format!("sha256:{}", ContentHash::digest(named.as_bytes())));
    let about = note.child("note-attributes");
    let of_note = |name: &str| about.and_then(|about| about.text_of(name));
    let files = note.all("resource").filter_map(|resource| {
        let named = resource.child("resource-attributes").and_then(|it| it.text_of("file-name"));
        named.or_else(|| resource.text_of("mime"))
    });
    let tags = note.all("tag").map(|tag| tag.text.trim().to_owned()).filter(|tag| !tag.is_empty());
    let fields = [
        ("id", Some(FieldValue::Text(id))),
        ("title", own(title)),
        ("text", own(note.text_of("content").map(|content| html::to_text(&content)))),
        ("tags", list(tags.collect())),
        ("created", own(made.as_deref().and_then(read_time))),
        ("updated", own(note.text_of("updated").as_deref().and_then(read_time))),
        ("author", own(of_note("author"))),
        ("source", own(of_note("source-url"))),
        ("files", list(files.collect())),
    ];
    ImportRow::from_message(fields, Vec::new())
}

/// Returns a time as RFC 3339 writes it, or as it is written.
fn read_time(text: &str) -> Option<String> {
    compact_time::or_as_written(time(text), text)
}

/// Returns a time such as `20260105T101112Z` as RFC 3339 writes it.
fn time(text: &str) -> Option<String> {
    let (date, rest) = compact_time::date(text)?;
    let (clock, zone) = compact_time::clock(rest.strip_prefix('T')?)?;
    compact_time::written(Instant::parse(&format!("{date}T{clock}{zone}"))?)
}

#[cfg(test)]
mod tests {
    use super::super::xml_elements::tests::rows_of;
    use super::*;

    #[test]
    fn each_note_is_a_record_with_its_text_and_the_names_of_its_files() {
        let text = "<?xml version=\"1.0\"?><!DOCTYPE en-export SYSTEM \"x.dtd\"><en-export>\
            <note><title>Herons &amp; ponds</title><content><![CDATA[<?xml version=\"1.0\"?>\
            <!DOCTYPE en-note SYSTEM \"y\"><en-note><div>First</div><div>two <b>herons</b></div>\
            </en-note>]]></content><created>20260105T101112Z</created><tag>birds</tag><tag>zug</tag>\
            <note-attributes><author>Ann</author><source-url>https://a.example</source-url>\
            </note-attributes><resource><data encoding=\"base64\">AAAA</data><mime>image/png</mime>\
            <resource-attributes><file-name>heron.png</file-name></resource-attributes></resource>\
            </note><note><title>Herons &amp; ponds</title><created>20260105T101112Z</created></note>\
            </en-export>";
        let rows = rows_of(&IMPORTER, "enex", text);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "title": "Herons & ponds", "text": "First\ntwo herons",
                "tags": ["birds", "zug"], "created": "2026-01-05T10:11:12Z", "author": "Ann",
                "source": "https://a.example", "files": ["heron.png"],
            })
        );
        assert_eq!(rows[1]["id"], format!("{}#2", rows[0]["id"].as_str().unwrap()));
    }
}
