//! Imports contacts (vCard): a record for each card.
//!
//! *Source*: RFC 6350, section 6; RFC 2426; vCard 2.1.

use std::collections::{HashMap, HashSet};

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
         name, so import another address book into a stream of its own; of several cards with one \
         name, of what tells them apart too",
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
    let mut of_name: HashMap<String, Vec<&[ContentLine]>> = HashMap::new();
    for found in &cards {
        if uid(&found.lines).is_none() {
            of_name.entry(called(&found.lines)).or_default().push(&found.lines);
        }
    }
    cards
        .iter()
        .map(|found| found.row(|lines| card(lines, keys.take(id(lines, &of_name)))))
        .collect()
}

fn card(lines: &[ContentLine], id: String) -> ImportRow {
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
    let name = name_of(lines);
    let updated = text("REV").and_then(|rev| {
        let read = Instant::parse(&with_marks(&rev)).and_then(compact_time::written);
        compact_time::or_as_written(read, &rev)
    });
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("id", Some(FieldValue::Text(id))),
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

/// What tells cards of one name apart, in this order. Birthdays do not change, and addresses most
/// often.
const DISTINGUISHING: [&str; 6] = ["BDAY", "ORG", "EMAIL", "TEL", "ADR", "NOTE"];

/// Returns the key of a card. Without an identifier it is the digest of what the card is called, so
/// that a card keeps its record when an address or a number changes.
///
/// Several cards of one name are told apart by the first property in which all of them differ, or
/// else by all their lines. In the order of that property, the first card has the identifier of the
/// name, and each other one the digest of the name and the property. So no card gets the record of
/// another one when their order in the file changes.
fn id(lines: &[ContentLine], of_name: &HashMap<String, Vec<&[ContentLine]>>) -> String {
    if let Some(uid) = uid(lines) {
        return uid;
    }
    let called = called(lines);
    let digest = |text: &str| format!("sha256:{}", ContentHash::digest(text.as_bytes()));
    let same = of_name.get(&called).map(Vec::as_slice).unwrap_or_default();
    if same.len() < 2 {
        return digest(&called);
    }
    let differ = |property: &&str| {
        let values: HashSet<Vec<String>> = same.iter().map(|own| values(own, property)).collect();
        values.len() == same.len()
    };
    let property = DISTINGUISHING.into_iter().find(differ);
    let told = |lines: &[ContentLine]| match property {
        Some(property) => values(lines, property),
        None => {
            let stable =
                lines.iter().filter(|line| !matches!(line.name.as_str(), "REV" | "PRODID"));
            let mut all: Vec<String> =
                stable.map(|line| format!("{}:{}", line.name, line.value)).collect();
            all.sort();
            all
        }
    };
    let own = told(lines);
    if same.iter().all(|other| own <= told(other)) {
        return digest(&called);
    }
    let named = [called, property.unwrap_or_default().to_owned()];
    digest(&[&named[..], &own].concat().join("\n"))
}

/// Returns the values of a property in an order that the file does not decide.
fn values(lines: &[ContentLine], property: &str) -> Vec<String> {
    let own = lines.iter().filter(|line| line.name == property).map(ContentLine::text);
    let mut values: Vec<String> = own.filter(|value| !value.is_empty()).collect();
    values.sort();
    values
}

fn uid(lines: &[ContentLine]) -> Option<String> {
    let uid = lines.iter().find(|line| line.name == "UID").map(ContentLine::text);
    uid.filter(|uid| !uid.is_empty() && uid.len() <= MAX_ID_BYTES)
}

fn name_of(lines: &[ContentLine]) -> Option<String> {
    let line = |name: &str| lines.iter().find(|line| line.name == name);
    let text = line("FN").map(ContentLine::text).filter(|text| !text.is_empty());
    text.or_else(|| line("N").map(given_name)).filter(|name| !name.is_empty())
}

/// Returns what a card is called: its name, or else its organization, its first address or number.
fn called(lines: &[ContentLine]) -> String {
    let text = |name: &str| lines.iter().find(|line| line.name == name).map(ContentLine::text);
    let first = ["ORG", "EMAIL", "TEL"].into_iter().filter_map(text);
    let mut named = name_of(lines).into_iter().chain(first);
    named.find(|text| !text.is_empty()).unwrap_or_default()
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
        // Nothing tells these two apart.
        assert_eq!(rows[2]["id"], format!("{}#2", rows[1]["id"].as_str().unwrap()));
    }

    #[test]
    fn cards_of_one_name_keep_their_records_in_any_order() {
        let card = |lines: &str| format!("BEGIN:VCARD\r\nFN:Bo Roe\r\n{lines}END:VCARD\r\n");
        let born = [card("BDAY:19800105\r\nTEL:1\r\n"), card("BDAY:19900105\r\nTEL:2\r\n")];
        let called = [card("TEL:1\r\nTEL:3\r\n"), card("TEL:1\r\n"), card("EMAIL:b@x.example\r\n")];
        let noted = [card("TITLE:Cook\r\nREV:20260105T101112Z\r\n"), card("TITLE:Diver\r\n")];
        let keys = |cards: &[String]| -> Vec<Value> {
            read(cards.concat().as_bytes())
                .into_iter()
                .map(|(_, row)| {
                    let json = row::to_json(&row.unwrap().fields);
                    serde_json::from_str::<Value>(&json).unwrap()["id"].clone()
                })
                .collect()
        };
        for cards in [&born[..], &called, &noted] {
            let (there, mut back) = (keys(cards), cards.to_vec());
            assert!(there.iter().enumerate().all(|(at, key)| !there[..at].contains(key)));
            back.reverse();
            let mut again = keys(&back);
            again.reverse();
            assert_eq!(again, there, "{cards:?}");
        }
        let moved = [card("BDAY:19800105\r\nTEL:9\r\n"), born[1].clone()];
        assert_eq!(keys(&moved), keys(&born), "another number is the same person");
        let turned = [card("TEL:3\r\nTEL:1\r\n"), called[1].clone(), called[2].clone()];
        assert_eq!(keys(&turned), keys(&called), "the order of numbers says nothing");
    }
}
