//! Imports contacts (vCard): a record for each card.
//!
//! A card without an identifier has the record that is most like it of those with its name. So a
//! person keeps their record whatever is edited, and in whatever order an address book writes its
//! cards.
//!
//! *Source*: RFC 6350, section 6; RFC 2426; vCard 2.1.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io;

use stile_domain::hash::ContentHash;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;

use super::calendar::begins;
use super::compact_time;
use super::content_lines::{Component, ContentLine, components, list};
use super::whole_file::{self, Keys, ReadRow};
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, Recognition, StreamDeclaration,
    file_bytes,
};
use crate::preset::{PresetDeclaration, PresetField};
use crate::report::ImportError;
use crate::source::InputPath;
use crate::stored_fields;

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
        ("addresses", PresetField::Names),
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

/// The stored cards without an identifier, by what each is called.
#[derive(Debug, Default)]
pub(crate) struct StoredCards(HashMap<String, Vec<StoredCard>>);

#[derive(Debug)]
struct StoredCard {
    id: String,
    said: HashSet<Statement>,
}

/// A field of a card, and one of the texts in it.
type Statement = (&'static str, String);

/// What is compared of two cards of one name, and how much it weighs if both say the same.
const COMPARED: [(&str, u32); 9] = [
    ("emails", 4),
    ("phones", 4),
    ("birthday", 4),
    ("addresses", 3),
    ("urls", 3),
    ("note", 2),
    ("organization", 1),
    ("job_title", 1),
    ("categories", 1),
];

/// What the identifier of a card without one of its own begins with.
const MADE_ID: &str = "sha256:";

impl StoredCards {
    /// Reads the cards of a stream that have no identifier of their own.
    ///
    /// # Errors
    /// The error of the database.
    pub(crate) fn of(
        services: &RecordService,
        caller: &Principal,
        target: &ImportTarget,
    ) -> Result<Self, ImportError> {
        let mut names = vec!["name"];
        names.extend(COMPARED.map(|(name, _)| name));
        let mut cards = Self::default();
        stored_fields::each(services, caller, target, &names, &mut |key, fields| {
            if key.starts_with(MADE_ID) {
                let card = StoredCard { id: key.to_owned(), said: statements(&fields) };
                cards.0.entry(called_in(&fields)).or_default().push(card);
            }
        })?;
        Ok(cards)
    }

    fn of_name(&self, called: &str) -> &[StoredCard] {
        self.0.get(called).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Opens a file whose cards are compared with those that are stored.
pub(crate) fn open_among(
    path: &InputPath,
    stored: &StoredCards,
) -> io::Result<Box<dyn ImportRows>> {
    whole_file::open(path, |bytes| Ok(read_among(bytes, stored)))
}

/// Reads all cards of a file as if none were stored.
pub fn read(bytes: &[u8]) -> Vec<ReadRow> {
    read_among(bytes, &StoredCards::default())
}

/// Reads all cards of a file, and skips each line that has no name and value.
fn read_among(bytes: &[u8], stored: &StoredCards) -> Vec<ReadRow> {
    let (cards, _) = components(bytes, &[("VCARD", "card")]);
    let mut of_name: HashMap<String, Vec<&Component>> = HashMap::new();
    for found in &cards {
        if uid(&found.lines).is_none() {
            of_name.entry(called(&found.lines)).or_default().push(found);
        }
    }
    let mut kept = HashMap::new();
    for (called, cards) in &of_name {
        kept.extend(kept_ids(cards, stored.of_name(called)));
    }
    let mut keys = Keys::default();
    let mut row = |found: &Component, lines: &[ContentLine]| {
        let called = called(lines);
        let same = of_name.get(&called).map(Vec::as_slice).unwrap_or_default();
        let id = match (uid(lines), kept.get(&found.number)) {
            (Some(uid), _) => uid,
            (None, Some(id)) => (*id).to_owned(),
            (None, None) => new_id(lines, &called, same, stored.of_name(&called)),
        };
        card(lines, keys.take(id))
    };
    cards.iter().map(|found| found.row(|lines| row(found, lines))).collect()
}

/// Returns the identifiers of the stored cards that some cards of the same name are, by the number
/// of the line where each begins. The pairs with most in common come first. If the file has as many
/// cards of the name as are stored, the last one left on each side is the same, whatever it says.
fn kept_ids<'s>(cards: &[&Component], stored: &'s [StoredCard]) -> HashMap<u64, &'s str> {
    let mut pairs = Vec::new();
    for found in cards {
        let said = statements(&card(&found.lines, String::new()).fields);
        for other in stored {
            let weight: u32 = said.intersection(&other.said).map(weight).sum();
            let differing = said.symmetric_difference(&other.said).count();
            pairs.push((Reverse(weight), differing, found.number, other.id.as_str()));
        }
    }
    pairs.sort_unstable();
    let (mut kept, mut taken) = (HashMap::new(), HashSet::new());
    for (Reverse(weight), _, number, id) in pairs {
        let is_last = kept.len() + 1 == cards.len() && cards.len() == stored.len();
        if (weight > 0 || is_last) && !kept.contains_key(&number) && taken.insert(id) {
            kept.insert(number, id);
        }
    }
    kept
}

fn weight((field, _): &Statement) -> u32 {
    COMPARED.iter().find(|(name, _)| name == field).map_or(0, |(_, weight)| *weight)
}

/// Returns what a card says, as far as it is compared.
fn statements(fields: &RecordFields) -> HashSet<Statement> {
    let of = |(name, _): (&'static str, u32)| {
        texts(fields, name).into_iter().map(move |text| (name, text))
    };
    COMPARED.into_iter().flat_map(of).collect()
}

/// Returns the text of a field, or the texts in its list.
fn texts(fields: &RecordFields, name: &str) -> Vec<String> {
    match fields.iter().find(|(own, _)| own == name) {
        Some((_, FieldValue::Text(text))) => vec![text.clone()],
        Some((_, FieldValue::Json(json))) => serde_json::from_str(json).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns what a stored card is called, as [`called`] does for one that is read.
fn called_in(fields: &RecordFields) -> String {
    let names = ["name", "organization", "emails", "phones"];
    names.into_iter().find_map(|name| texts(fields, name).into_iter().next()).unwrap_or_default()
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

/// Returns the key of a card that has no identifier and is not stored yet: the digest of what the
/// card is called.
///
/// Several cards of one name are told apart by the first property in which all of them differ, or
/// else by all their lines. In the order of that property, the first card has the identifier of the
/// name, and each other one the digest of the name and the property. So the order of the cards in a
/// file does not matter. An identifier that a stored card has is not taken.
fn new_id(
    lines: &[ContentLine],
    called: &str,
    same: &[&Component],
    stored: &[StoredCard],
) -> String {
    let digest = |text: &str| format!("{MADE_ID}{}", ContentHash::digest(text.as_bytes()));
    let is_taken = |id: &str| stored.iter().any(|card| card.id == id);
    let differ = |property: &&str| {
        let values: HashSet<Vec<String>> =
            same.iter().map(|own| values(&own.lines, property)).collect();
        values.len() == same.len()
    };
    let property = DISTINGUISHING.into_iter().find(differ);
    let told = |lines: &[ContentLine]| match property {
        Some(property) => values(lines, property),
        None => all_values(lines),
    };
    let own = told(lines);
    let plain = digest(called);
    if !is_taken(&plain) && same.iter().all(|other| own <= told(&other.lines)) {
        return plain;
    }
    let named = |property: &str, own: &[String]| {
        digest(&[&[called.to_owned(), property.to_owned()], own].concat().join("\n"))
    };
    let told_apart = named(property.unwrap_or_default(), &own);
    if is_taken(&told_apart) { named("", &all_values(lines)) } else { told_apart }
}

/// Returns all that a card says and that does not change by itself, in an order that the file does
/// not decide.
fn all_values(lines: &[ContentLine]) -> Vec<String> {
    let stable = lines.iter().filter(|line| !matches!(line.name.as_str(), "REV" | "PRODID"));
    let mut all: Vec<String> = stable.map(|line| format!("{}:{}", line.name, line.value)).collect();
    all.sort();
    all
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
    use stile_records::operations::Operation;

    use super::*;
    use crate::report::BadRowPolicy;
    use crate::rig::{counts, recognised, rig};

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

    #[test]
    fn an_edited_card_of_one_name_with_others_keeps_its_record() {
        let card = |lines: &str| format!("BEGIN:VCARD\r\nFN:Bo Roe\r\n{lines}END:VCARD\r\n");
        let (cook, diver) = ("TEL:1\r\nEMAIL:cook@x.example\r\n", "TEL:2\r\nNOTE:dives\r\n");
        let edits = [
            "TEL:9\r\nEMAIL:cook@x.example\r\n",
            "TEL:1\r\nEMAIL:a@x.example\r\n",
            "TEL:1\r\nBDAY:19800105\r\nORG:Aaa\r\n",
            // Nothing is as it was.
            "TEL:9\r\n",
        ];
        for (edit, is_first) in edits.into_iter().flat_map(|edit| [(edit, true), (edit, false)]) {
            let rig = rig();
            let import = |cards: &[&str]| {
                let text: String = cards.iter().copied().map(card).collect();
                let inputs = [recognised(&rig.write("a.vcf", text))];
                counts(&rig.import(&inputs, &[], BadRowPolicy::Skip, |_| ()).unwrap())
            };
            let ids = || -> HashMap<String, Value> {
                let list = rig.get(Operation::ListRecords, "s", "", &[]);
                let records = list["data"].as_array().unwrap().iter();
                records
                    .map(|own| {
                        (own["id"].as_str().unwrap().to_owned(), own["data"]["phones"].clone())
                    })
                    .collect()
            };
            assert_eq!(import(&[cook, diver]), (2, 0, 0, 0));
            let before = ids();
            let edited = if is_first { [edit, diver] } else { [diver, edit] };
            assert_eq!(import(&edited), (0, 1, 1, 0), "{edit}");
            let after = ids();
            let of = |number: &str| json!([number]);
            let is_right = |(id, phones): (&String, &Value)| match before[id] == of("2") {
                true => *phones == of("2"),
                false => *phones == of(if edit.contains("TEL:9") { "9" } else { "1" }),
            };
            assert!(after.iter().all(is_right), "{edit}: {before:?}, {after:?}");
            // A third person takes nobody's record, and whoever is missing loses none.
            assert_eq!(import(&["TEL:0\r\nORG:A\r\n", edit, diver]), (1, 0, 2, 0), "{edit}");
            assert_eq!(import(&[diver]), (0, 0, 1, 0), "{edit}");
            assert_eq!(ids().len(), 3, "{edit}");
        }
    }
}
