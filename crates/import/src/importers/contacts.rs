//! Imports contacts (vCard): a record for each card.
//!
//! *Source*: RFC 6350, section 6; RFC 2426; vCard 2.1.

use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::calendar::begins;
use super::compact_time;
use super::content_lines::{ContentLine, components, list};
use super::whole_file::{self, Keys, ReadRow};
use crate::importer::{Contents, ImportRow, Importer, Recognition, StreamDeclaration, file_bytes};
use crate::preset::{PresetDeclaration, PresetField};

/// Imports each card of a file of contacts.
pub static IMPORTER: Importer = Importer {
    name: "contacts",
    description: "contacts (vCard)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if begins(bytes, b"BEGIN:VCARD")),
        extensions: &["vcf"],
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| whole_file::open(path, |bytes| Ok(read(bytes))),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "contacts",
    key: "id",
    time: "updated",
    fields: &[
        ("id", PresetField::Name),
        ("name", PresetField::SearchedText),
        ("organization", PresetField::SearchedText),
        ("job_title", PresetField::SearchedText),
        ("emails", PresetField::Names),
        ("phones", PresetField::Names),
        ("addresses", PresetField::List),
        ("urls", PresetField::Names),
        ("categories", PresetField::Names),
        ("birthday", PresetField::Name),
        ("note", PresetField::SearchedText),
        ("updated", PresetField::Time),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is a file of contacts, a record for each card: `id` is its UID, or the digest of its \
         name, so import another address book into a stream of its own",
        "`updated` orders the records and is the time by which a grant counts; cards that do not say \
         it are outside of such a grant",
        "names, addresses, numbers, `organization`, `job_title`, `categories` and `note` can be \
         searched",
    ],
};

/// Reads all cards of a file, and skips each line that has no name and value.
pub fn read(bytes: &[u8]) -> Vec<ReadRow> {
    let mut keys = Keys::default();
    let (cards, _) = components(bytes, &[("VCARD", "card")]);
    cards.iter().map(|found| found.row(|lines| card(lines, &mut keys))).collect()
}

fn card(lines: &[ContentLine], keys: &mut Keys) -> ImportRow {
    let line = |name: &str| lines.iter().find(|line| line.name == name);
    let all = |name: &str, of: &dyn Fn(&ContentLine) -> Vec<String>| {
        list(lines.iter().filter(|line| line.name == name).flat_map(of).collect())
    };
    let text = |name: &str| line(name).map(ContentLine::text).filter(|text| !text.is_empty());
    let joined = |line: &ContentLine, by: &str| {
        let parts: Vec<String> =
            line.parts(';').into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(by)
    };
    let name = text("FN").or_else(|| line("N").map(given_name)).filter(|name| !name.is_empty());
    let updated = text("REV").and_then(|rev| {
        let read = Instant::parse(&with_marks(&rev)).and_then(compact_time::written);
        compact_time::or_as_written(read, &rev)
    });
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("id", Some(FieldValue::Text(id(lines, name.as_deref(), keys)))),
        ("name", own(name)),
        ("organization", own(line("ORG").map(|line| joined(line, ", ")))),
        // A field `title` would name the record in lists and searches.
        ("job_title", own(text("TITLE"))),
        ("emails", all("EMAIL", &|line| vec![line.text()])),
        ("phones", all("TEL", &|line| vec![without_scheme(&line.text(), "tel:")])),
        ("addresses", all("ADR", &|line| vec![joined(line, ", ")])),
        ("urls", all("URL", &|line| vec![line.text()])),
        ("categories", all("CATEGORIES", &|line| line.parts(','))),
        ("birthday", own(text("BDAY").map(|day| with_marks(&day)))),
        ("note", own(text("NOTE"))),
        ("updated", own(updated)),
    ];
    ImportRow::from_message(fields, Vec::new())
}

/// Returns a name that is given in parts as people say it.
fn given_name(line: &ContentLine) -> String {
    let parts = line.parts(';');
    let part = |index: usize| parts.get(index).map(String::as_str).unwrap_or_default();
    let said: Vec<&str> = [part(3), part(1), part(2), part(0), part(4)]
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect();
    said.join(" ")
}

/// Returns a date, with its time, with the marks of RFC 3339. Others stay as they are, such as a
/// birthday without a year.
fn with_marks(text: &str) -> String {
    let Some((date, rest)) = compact_time::date(text) else { return text.to_owned() };
    match rest.strip_prefix('T').and_then(compact_time::clock) {
        Some((clock, rest)) => format!("{date}T{clock}{rest}"),
        None => format!("{date}{rest}"),
    }
}

fn without_scheme(text: &str, scheme: &str) -> String {
    text.strip_prefix(scheme).unwrap_or(text).to_owned()
}

/// The longest identifier that becomes a key, in bytes.
const MAX_ID_BYTES: usize = 480;

/// Returns the key of a card. Without an identifier it is the digest of the name, so that a card
/// keeps its record when an address or a number changes. A card without a name has that of its
/// organization, or else of its first address or number. Cards of one name are counted.
fn id(lines: &[ContentLine], name: Option<&str>, keys: &mut Keys) -> String {
    let text = |name: &str| lines.iter().find(|line| line.name == name).map(ContentLine::text);
    let uid = text("UID").filter(|uid| !uid.is_empty() && uid.len() <= MAX_ID_BYTES);
    let id = uid.unwrap_or_else(|| {
        let first = ["ORG", "EMAIL", "TEL"].into_iter().filter_map(text);
        let mut named = name.map(str::to_owned).into_iter().chain(first);
        let named = named.find(|text| !text.is_empty()).unwrap_or_default();
        format!("sha256:{}", ContentHash::digest(named.as_bytes()))
    });
    keys.take(id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stile_domain::records::row;

    use super::*;

    #[test]
    fn a_card_of_each_version_is_a_record() {
        let text = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:1\r\nN:Lee;Ann;;Dr.;\r\nFN:Dr. Ann Lee\r\n\
            ORG:Herons;Ponds\r\nitem1.EMAIL;TYPE=HOME:ann@example.org\r\nEMAIL:lee@example.org\r\n\
            TITLE:Engineer\r\n\
            TEL;VALUE=uri:tel:+41-1\r\nADR:;;Main St 1;Zug;;6300;CH\r\nBDAY:19800105\r\n\
            REV:20260105T101112Z\r\nNOTE:likes\\, tea\r\nEND:VCARD\r\n\
            BEGIN:VCARD\r\nVERSION:2.1\r\nN:Roe;Bo\r\nEND:VCARD\r\n\
            BEGIN:VCARD\r\nVERSION:2.1\r\nN:Roe;Bo\r\nEND:VCARD\r\nBEGIN:VCARD\r\n";
        let mut rows = read(text.as_bytes());
        assert_eq!(rows.pop().unwrap().1.unwrap_err().code, "cut_off");
        let rows: Vec<Value> = rows
            .into_iter()
            .map(|(_, row)| serde_json::from_str(&row::to_json(&row.unwrap().fields)).unwrap())
            .collect();
        assert_eq!(
            rows[0],
            json!({
                "id": "1", "name": "Dr. Ann Lee", "organization": "Herons, Ponds",
                "job_title": "Engineer",
                "emails": ["ann@example.org", "lee@example.org"], "phones": ["+41-1"],
                "addresses": ["Main St 1, Zug, 6300, CH"], "birthday": "1980-01-05",
                "note": "likes, tea", "updated": "2026-01-05T10:11:12Z",
            })
        );
        assert_eq!(rows[1]["name"], "Bo Roe");
        assert_eq!(rows[2]["id"], format!("{}#2", rows[1]["id"].as_str().unwrap()));
    }
}
