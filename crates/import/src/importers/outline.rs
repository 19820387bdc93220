//! Imports outlines (OPML): a record for each line, as lists of feeds and outliners have them.
//!
//! *Source*: OPML 2.0.

use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::compact_time;
use super::whole_file::Keys;
use super::xml_elements::{self, Element, is_document_of};
use crate::importer::{
    Contents, ImportRow, Importer, Recognition, StreamDeclaration, UnusableRow, file_bytes,
};
use crate::preset::{PresetDeclaration, PresetField};

/// Imports each line of an outline.
pub static IMPORTER: Importer = Importer {
    name: "opml",
    description: "an outline (OPML)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if is_document_of(bytes, "opml")),
        extensions: &["opml"],
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| {
        let mut keys = Keys::default();
        let to_rows = move |body: &Element| lines(body, &mut keys);
        xml_elements::open(path, &["body"], to_rows)
    },
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "outline",
    key: "id",
    time: "created",
    fields: &[
        ("id", PresetField::Name),
        ("text", PresetField::SearchedText),
        ("below", PresetField::SearchedText),
        ("type", PresetField::Name),
        ("feed", PresetField::Name),
        ("page", PresetField::Name),
        ("note", PresetField::SearchedText),
        ("created", PresetField::Time),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is an outline, a record for each line: `id` is the digest of the line and of what it \
         is below",
        "`created` orders the records and is the time by which a grant counts; lines that do not \
         say it are outside of such a grant",
        "`text`, `below` and `note` can be searched",
    ],
};

/// Returns the lines of an outline in their order, each after the one that it is below.
fn lines(body: &Element, keys: &mut Keys) -> Vec<Result<ImportRow, UnusableRow>> {
    let mut rows = Vec::new();
    // The reader bounds how deep elements lie, and so the number of steps here.
    let mut open: Vec<(&Element, String)> =
        body.all("outline").map(|line| (line, String::new())).collect();
    open.reverse();
    while let Some((line, below)) = open.pop() {
        let text = line.attribute("text").or_else(|| line.attribute("title"));
        let said = text.clone().unwrap_or_default();
        rows.push(Ok(row(line, (text, &below), keys)));
        let path = if below.is_empty() { said } else { format!("{below} / {said}") };
        let inner: Vec<_> = line.all("outline").map(|line| (line, path.clone())).collect();
        open.extend(inner.into_iter().rev());
    }
    rows
}

fn row(line: &Element, (text, below): (Option<String>, &str), keys: &mut Keys) -> ImportRow {
    let own = |value: Option<String>| value.map(FieldValue::Text);
    let feed = line.attribute("xmlUrl");
    let page = line.attribute("htmlUrl").or_else(|| line.attribute("url"));
    let named = [below, text.as_deref().unwrap_or_default(), feed.as_deref().unwrap_or_default()];
    let id = format!("sha256:{}", ContentHash::digest(named.join("\n").as_bytes()));
    // Few programs write the time, and in the form of mail.
    let read = |text: &str| {
        let seconds = mail_parser::DateTime::parse_rfc822(text)?.to_timestamp();
        seconds.checked_mul(1_000_000).map(Instant).and_then(compact_time::written)
    };
    let created = line.attribute("created");
    let created = created.and_then(|text| compact_time::or_as_written(read(&text), &text));
    let fields = [
        ("id", Some(FieldValue::Text(keys.take(id)))),
        ("text", own(text)),
        ("below", own(Some(below.to_owned()).filter(|below| !below.is_empty()))),
        ("type", own(line.attribute("type"))),
        ("feed", own(feed)),
        ("page", own(page)),
        ("note", own(line.attribute("_note").or_else(|| line.attribute("description")))),
        ("created", own(created)),
    ];
    ImportRow::from_message(fields, Vec::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::xml_elements::tests::rows_of;
    use super::*;

    #[test]
    fn each_line_of_an_outline_is_a_record_that_says_what_it_is_below() {
        let text = "<?xml version='1.0'?><opml version='2.0'><head><title>x</title></head><body>\
            <outline text='News'><outline text='Herons' type='rss' xmlUrl='https://h.example/f' \
            created='Mon, 05 Jan 2026 10:00:00 +0100'/><outline text='Herons'/></outline>\
            <outline text='Herons'/></body></opml>";
        let rows = rows_of(&IMPORTER, "opml", text);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0]["text"], "News");
        assert_eq!(
            rows[1],
            json!({
                "id": rows[1]["id"], "text": "Herons", "below": "News", "type": "rss",
                "feed": "https://h.example/f", "created": "2026-01-05T09:00:00Z",
            })
        );
        let ids: std::collections::BTreeSet<_> =
            rows.iter().map(|row| row["id"].as_str()).collect();
        assert_eq!(ids.len(), 4, "{rows:?}");
    }
}
