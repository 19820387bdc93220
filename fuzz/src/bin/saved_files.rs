//! What calendars, contacts, chats of WhatsApp, statements of banks, bookmarks, exports in XML and
//! those of Google in JSON become.
//!
//! The first byte of an input selects the format; the rest is the file.

#![no_main]

use std::collections::HashSet;
use std::io::Write as _;

use libfuzzer_sys::fuzz_target;
use stile_domain::records::decimal::Decimal;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_import::importer::{ImportTarget, Importer, LocatedRow};
use stile_import::importers::statement::{ReadTransaction, camt, ofx};
use stile_import::importers::whole_file::ReadRow;
use stile_import::importers::{
    bookmarks, browser_history, calendar, contacts, evernote, google_activity, health, outline,
    places, timeline, whatsapp,
};

fuzz_target!(|input: &[u8]| {
    let Some((format, file)) = input.split_first() else { return };
    match format % 14 {
        0 => can_be_stored(calendar::read(file), &["start", "end"]),
        1 => can_be_stored(contacts::read(file), &["updated"]),
        4 => can_be_stored(whatsapp::read(file, None), &["at"]),
        5 => can_be_stored(bookmarks::read(file), &["added"]),
        6 => can_be_stored(opened(&outline::IMPORTER, file), &["created"]),
        7 => can_be_stored(opened(&places::IMPORTER, file), &["started", "ended"]),
        8 => can_be_stored(opened(&evernote::IMPORTER, file), &["created", "updated"]),
        9 => each_can_be_stored(&health::IMPORTER, file, &["started", "ended"]),
        10 => each_can_be_stored(&google_activity::IMPORTER, file, &["at"]),
        11 => each_can_be_stored(&timeline::IMPORTER, file, &["started", "ended"]),
        12 => each_can_be_stored(&timeline::POINTS, file, &["at"]),
        13 => each_can_be_stored(&browser_history::IMPORTER, file, &["at"]),
        2 => add_up(ofx::read(file).unwrap_or_default()),
        _ => add_up(camt::read(file).unwrap_or_default()),
    }
});

/// Every row can be stored. What is there twice, such as a measurement or a visit, is one record.
fn each_can_be_stored(importer: &Importer, file: &[u8], times: &[&str]) {
    for (_, row) in opened(importer, file) {
        can_be_stored(vec![(1, row)], times);
    }
}

/// Returns the rows of an importer that reads on from a file, up to where it fails.
fn opened(importer: &Importer, file: &[u8]) -> Vec<ReadRow> {
    let mut written = tempfile::NamedTempFile::new().expect("a file can be made");
    written.write_all(file).expect("a file can be written");
    let name = |name: &str| SourceName::parse(name).expect("a name");
    let target = ImportTarget { connection: name("a"), stream: name("b") };
    let opened = (importer.open)(&written.path().into(), &target);
    // What begins as a database is opened as one.
    let Ok(mut rows) = opened else { return Vec::new() };
    let mut read = Vec::new();
    while let Ok(Some(LocatedRow { line, row, .. })) = rows.next() {
        read.push((line, row));
    }
    read
}

/// Every row has a key of its own, times are times or as written, and what was read can be stored.
fn can_be_stored(rows: Vec<ReadRow>, times: &[&str]) {
    let mut keys = HashSet::new();
    for (line, row) in rows {
        assert!(line > 0);
        let Ok(row) = row else { continue };
        assert!(keys.insert(text(&row.fields, "id").expect("a row has a key").to_owned()));
        for name in times {
            if let Some(time) = text(&row.fields, name) {
                is_time_or_as_written(time);
            }
        }
        let again = row::parse(row::to_json(&row.fields).as_bytes()).expect("a row can be stored");
        assert_eq!(again.fields, row.fields);
    }
}

/// A text in the place of a time is a time, or what the file says there, without space around it:
/// an import counts it among the values that do not fit.
fn is_time_or_as_written(text: &str) {
    assert!(Instant::parse(text).is_some() || !text.is_empty() && text.trim() == text, "{text:?}");
}

/// Every amount is a number, and every day a date or as written.
fn add_up(transactions: Vec<ReadTransaction>) {
    for (line, transaction) in transactions {
        assert!(line > 0);
        let Ok(transaction) = transaction else { continue };
        assert!(Decimal::parse(&transaction.amount).is_some(), "{}", transaction.amount);
        for day in [transaction.date, transaction.value_date].into_iter().flatten() {
            is_time_or_as_written(&day);
        }
    }
}

fn text<'f>(fields: &'f RecordFields, name: &str) -> Option<&'f str> {
    fields.iter().find_map(|(own, value)| match value {
        FieldValue::Text(text) if own == name => Some(text.as_str()),
        _ => None,
    })
}
