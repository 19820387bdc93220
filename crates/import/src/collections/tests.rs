//! Tests of whole exports, made of what the services write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stile_domain::records::identifiers::SourceName;
use stile_testkit::zip::{Member, Zip};

use super::*;
use crate::importer::ImportTarget;
use crate::report::BadRowPolicy;
use crate::rig::{Rig, counts, rig};

const MAIL: &str = "From a@example.org Thu Jan  1 00:00:00 2026\nMessage-ID: <a@example.org>\n\
    Date: Sat, 7 Mar 2026 10:15:00 +0100\nSubject: ferns\n\nmoss\n\n";
const EVENT: &str = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:e1\r\nDTSTART:20260105T101500Z\r\n\
    SUMMARY:Walk\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
const CARD: &str = "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ann\r\nUID:c1\r\nEND:VCARD\r\n";
const BOOKMARKS: &str = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n\
    <DT><A HREF=\"https://a.example/\" ADD_DATE=\"1767600000\">A</A>\n</DL><p>\n";
const HISTORY: &str = r#"{"Browser History": [{"page_transition": "LINK", "title": "A",
    "url": "https://a.example/", "time_usec": 1767607872123456}]}"#;
const NOTE: &str = r#"{"color": "DEFAULT", "isTrashed": false, "isPinned": false,
    "isArchived": false, "textContent": "moss", "title": "N", "createdTimestampUsec":
    1767600000000000}"#;
const WATCHED: &str = r#"[{"header": "YouTube", "title": "Watched X", "time":
    "2026-01-05T10:11:12Z", "products": ["YouTube"]}]"#;
const POINTS: &str = r#"{"locations": [{"latitudeE7": 1, "longitudeE7": 2,
    "timestamp": "2026-01-05T10:11:12Z"}]}"#;
const TASKS: &str = r#"{"kind": "tasks#taskLists", "items": [{"kind": "tasks#tasks", "id": "l1",
    "title": "Home", "items": [{"id": "t1", "title": "Water", "updated":
    "2026-01-05T10:11:12Z", "status": "needsAction"}]}]}"#;

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let member =
        |zip: Zip, (name, text): &(&str, &str)| zip.with(&Member::deflated(name, text.as_bytes()));
    files.iter().fold(Zip::default(), member).finish()
}

/// A zip file whose entries are of a month of 2026.
fn zip_of_month(month: u16, files: &[(&str, &str)]) -> Vec<u8> {
    let member = |zip: Zip, (name, text): &(&str, &str)| {
        zip.with(&Member::deflated(name, text.as_bytes()).on_day(2026, month, 1))
    };
    files.iter().fold(Zip::default(), member).finish()
}

/// How many rows of each stream were added, changed, unchanged and bad.
type Stored = BTreeMap<String, (u64, u64, u64, u64)>;

/// Imports each part. Returns what was stored, and what was left out.
fn import(rig: &Rig, paths: &[PathBuf]) -> (Stored, Vec<String>) {
    let DividedExport { parts, skipped, .. } = divide(paths, None).unwrap().unwrap();
    let name = |name: &str| SourceName::parse(name).unwrap();
    let mut stored = BTreeMap::new();
    for ExportPart { stream, inputs } in parts {
        let target = ImportTarget { connection: name("c"), stream: name(&stream) };
        let report = rig.import_into(&target, &inputs, BadRowPolicy::Skip).unwrap();
        assert!(report.bad.is_empty(), "{:?}", report.bad);
        assert!(stored.insert(stream, counts(&report)).is_none());
    }
    (stored, skipped.iter().map(SkippedFiles::described).collect())
}

fn streams(of: &Stored) -> Vec<(&str, u64)> {
    of.iter().map(|(stream, (added, ..))| (stream.as_str(), *added)).collect()
}

const FIRST: &[(&str, &str)] = &[
    ("Takeout/archive_browser.html", "<html>"),
    ("Takeout/E-Mail/Alle Nachrichten.mbox", MAIL),
    ("Takeout/Kalender/Privat.ics", EVENT),
    ("Takeout/Kontakte/Alle/Alle.vcf", CARD),
    ("Takeout/Kontakte/Meine/Meine.vcf", CARD),
    ("Takeout/Chrome/Lesezeichen.html", BOOKMARKS),
    ("Takeout/Chrome/Verlauf.json", HISTORY),
    ("Takeout/Chrome/Einstellungen.json", "{\"a\": 1}"),
    ("Takeout/Notizen/N.json", NOTE),
    ("Takeout/Notizen/N.html", "<html>"),
    ("Takeout/Drive/own.ics", EVENT),
];
const SECOND: &[(&str, &str)] = &[
    ("Takeout/YouTube/Verlauf/Wiedergabeverlauf.json", WATCHED),
    ("Takeout/Standortverlauf/Records.json", POINTS),
    ("Takeout/Tasks/Tasks.json", TASKS),
    ("Takeout/Google Fotos/2026/a.jpg", "x"),
    ("Takeout/Google Fotos/2026/b.jpg", "x"),
    ("Takeout/Google Fotos/2026/b.jpg.json", "{\"title\": \"b\", \"photoTakenTime\": {}}"),
];

#[test]
fn each_part_of_takeout_goes_to_its_importer_and_the_rest_is_listed() {
    let rig = rig();
    let first = rig.write("takeout-1-001.zip", zip(FIRST));
    let second = rig.write("takeout-1-002.zip", zip(SECOND));
    let (stored, skipped) = import(&rig, &[first.clone(), second]);
    assert_eq!(
        streams(&stored),
        [
            ("activity", 1),
            ("bookmarks", 1),
            ("contacts", 1),
            ("events", 1),
            ("history", 1),
            ("locations", 1),
            ("mail", 1),
            ("notes", 1),
            ("tasks", 1)
        ]
    );
    assert_eq!(stored["contacts"], (1, 0, 1, 0), "the same card in two groups");
    insta::assert_snapshot!(skipped.join("\n"));
    // The folder has the same records as the zip file.
    for (name, text) in FIRST {
        rig.write(&format!("unpacked/{name}"), text);
    }
    for folder in ["unpacked", "unpacked/Takeout"] {
        let (again, _) = import(&rig, &[rig.folder.path().join(folder)]);
        assert_eq!(again.len(), 6, "{again:?}");
        for (stream, (added, changed, unchanged, bad)) in again {
            assert_eq!((added, changed, bad), (0, 0, 0), "{stream}");
            assert!(unchanged > 0);
        }
    }
    let export = divide(std::slice::from_ref(&first), None).unwrap().unwrap();
    assert_eq!(export.unnamed, ["takeout-1-002.zip"]);
    let other = rig.write("other.zip", zip(&[("a/b.csv", "a,b")]));
    let error = divide(&[first.clone(), other.clone()], None).unwrap_err();
    assert!(error.to_string().contains("`other.zip` is not a part of"), "{error}");
    assert!(divide(&[other], None).unwrap().is_none());
    assert!(divide(&[first], Some("mbox")).unwrap().is_none());
}

#[test]
fn an_export_without_anything_to_import_has_no_parts() {
    let rig = rig();
    let path = rig.write("takeout.zip", zip(&[("Takeout/Fotos/a.jpg", "x")]));
    let export = divide(&[path], None).unwrap().unwrap();
    assert!(export.parts.is_empty());
    assert_eq!(export.skipped.len(), 1);
}

const PAGE: &str = "Garden 0123456789abcdef0123456789abcde0.md";
const ROW: &str = "# Fern\n\nStatus: Done\nCreated: January 5, 2026 10:11 AM\n\nWater it.\n";

fn notion() -> Vec<(&'static str, &'static str)> {
    vec![
        (PAGE, "# Garden\n\nMoss.\n"),
        (
            "Garden 0123456789abcdef0123456789abcde0/Herons 0123456789abcdef0123456789abcde1.md",
            "# Herons\n\nGrey.\n",
        ),
        ("Garden/Ponds 0123456789abcdef0123456789abcde2.md", "# Ponds\n"),
        ("Garden/Plants 0123456789abcdef0123456789abcde3.csv", "Name,Status\nFern,Done\n"),
        (
            "Garden/Plants 0123456789abcdef0123456789abcde3_all.csv",
            "Name,Status,Height\nFern,Done,1.5\nMoss,Open,0.1\n",
        ),
        ("Garden/Plants/Fern 0123456789abcdef0123456789abcde4.md", ROW),
        ("Garden/Ponds/pond.png", "x"),
        ("Other/lost.png", "y"),
    ]
}

#[test]
fn pages_and_databases_of_notion_become_records() {
    let rig = rig();
    let path = rig.write("export.zip", zip(&notion()));
    let (stored, skipped) = import(&rig, &[path]);
    assert_eq!(streams(&stored), [("pages", 4), ("plants-01234567", 2)]);
    insta::assert_snapshot!(skipped.join("\n"));
    let page = |digit: u8| {
        let key = format!("0123456789abcdef0123456789abcde{digit}");
        rig.get(stile_records::operations::Operation::GetRecord, "pages", &key, &[])["data"].clone()
    };
    assert_eq!(
        (&page(1)["title"], &page(1)["path"], &page(1)["parent_id"]),
        (&"Herons".into(), &"Garden".into(), &"0123456789abcdef0123456789abcde0".into())
    );
    assert_eq!(page(1)["parent_ref"]["record_id"], "0123456789abcdef0123456789abcde0");
    let picture = &page(2)["attachments"][0];
    assert_eq!(
        (&picture["filename"], &picture["mime_type"]),
        (&"pond.png".into(), &"image/png".into())
    );
    assert_eq!(rig.blob_bytes(picture["blob_id"].as_str().unwrap()).unwrap(), b"x");
    assert_eq!(page(2)["parent_id"], page(1)["parent_id"], "a folder without an identifier");
    let fern = page(4);
    assert_eq!(
        (&fern["database"], &fern["path"], &fern["created"], &fern["text"]),
        (&"Plants".into(), &"Garden / Plants".into(), &"2026-01-05T10:11:00Z".into(), &ROW.into())
    );
}

#[test]
fn an_edited_row_of_a_database_of_notion_keeps_its_record() {
    let rig = rig();
    let path = rig.write("export.zip", zip(&notion()));
    assert_eq!(import(&rig, std::slice::from_ref(&path)).0["plants-01234567"], (2, 0, 0, 0));
    assert_eq!(import(&rig, &[path]).0["plants-01234567"], (0, 0, 2, 0));
    let edited: Vec<(&str, &str)> = notion()
        .into_iter()
        .map(|(name, text)| match name {
            // The page was given another title, and a row without a page other cells.
            "Garden/Plants 0123456789abcdef0123456789abcde3_all.csv" => {
                (name, "Name,Status,Height\nTall fern,Open,1.5\nMoss,Done,0.2\n")
            }
            "Garden/Plants/Fern 0123456789abcdef0123456789abcde4.md" => {
                ("Garden/Plants/Tall fern 0123456789abcdef0123456789abcde4.md", "# Tall fern\n")
            }
            _ => (name, text),
        })
        .collect();
    let path = rig.write("edited.zip", zip_of_month(3, &edited));
    let (stored, _) = import(&rig, &[path]);
    assert_eq!(stored["plants-01234567"], (0, 2, 0, 0));
    let key = "0123456789abcdef0123456789abcde4";
    let operation = stile_records::operations::Operation::GetRecord;
    let row = rig.get(operation, "plants-01234567", key, &[])["data"].clone();
    assert_eq!((&row["Name"], &row["Status"]), (&"Tall fern".into(), &"Open".into()));
}

#[test]
fn several_texts_of_a_property_of_notion_are_a_list() {
    let rig = rig();
    let table = "Books 0123456789abcdef0123456789abcde3.csv";
    let store = |name: &str, rows: &str| {
        let text = format!("Name,Kind,Place,Tags\n{rows}");
        let path = rig.write(name, zip(&[(PAGE, "# Garden\n"), (table, &text)]));
        import(&rig, &[path]).0["books-01234567"]
    };
    let rows =
        "\"Dune, one\",\"scifi, classic\",\"Zug, CH\",\"x, 7\"\nEmma,classic,\"Bern, CH\",\n";
    assert_eq!(store("one.zip", rows), (2, 0, 0, 0));
    let list = rig.get(
        stile_records::operations::Operation::ListRecords,
        "books-01234567",
        "",
        &[("filter[Kind]", "classic")],
    );
    let rows = list["data"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{list}");
    let dune = rows.iter().map(|row| &row["data"]).find(|row| row["Place"] == "Zug, CH").unwrap();
    assert_eq!((&dune["Name"], dune["Kind"][1].as_str()), (&"Dune, one".into(), Some("classic")));
    assert_eq!(dune["Tags"].to_string(), "[\"x\",\"7\"]");
    // A later export that shows it no longer is stored as the stream declares.
    assert_eq!(store("two.zip", "Emma,classic,\"Bern, CH\",\n"), (0, 0, 1, 0));
}

#[test]
fn an_export_of_notion_as_html_names_the_format_to_choose() {
    let rig = rig();
    let files = [
        ("Garden 0123456789abcdef0123456789abcde0.html", "<html>"),
        ("Garden/Herons 0123456789abcdef0123456789abcde1.html", "<html>"),
        ("index.html", "<html>"),
    ];
    let path = rig.write("html.zip", zip(&files));
    let export = divide(&[path], None).unwrap().unwrap();
    assert_eq!(export.collection.name, "notion");
    assert!(export.parts.is_empty());
    assert!(export.skipped[0].reason.contains("Markdown & CSV"), "{:?}", export.skipped);
}

#[test]
fn two_databases_of_one_name_have_streams_of_their_own_in_any_order() {
    let rig = rig();
    let (one, other) = (
        ("A/Tasks aaaaaaaa0123456789abcdef01234567.csv", "Name\nFern\n"),
        ("B/Tasks bbbbbbbb0123456789abcdef01234567.csv", "Name\nMoss\n"),
    );
    let streams = |name: &str, files: &[(&str, &str)]| {
        let files = [&[(PAGE, "# Garden\n")], files].concat();
        let path = rig.write(name, zip(&files));
        let parts = divide(&[path], None).unwrap().unwrap().parts;
        let mut streams: Vec<String> = parts.iter().map(|part| part.stream.to_string()).collect();
        streams.retain(|stream| stream != "pages");
        streams.sort();
        streams
    };
    let both = ["tasks-aaaaaaaa", "tasks-bbbbbbbb"];
    assert_eq!(streams("one.zip", &[one, other]), both);
    assert_eq!(streams("other.zip", &[other, one]), both);
    assert_eq!(streams("alone.zip", &[other]), ["tasks-bbbbbbbb"], "not the place of the first");
}

const TABLE: &str = "Garden/Plants 0123456789abcdef0123456789abcde3.csv";

/// Imports exports of Notion together. Returns how many rows of older exports changed nothing.
fn outdated(rig: &Rig, paths: &[PathBuf]) -> u64 {
    let parts = divide(paths, None).unwrap().unwrap().parts;
    let name = |name: &str| SourceName::parse(name).unwrap();
    let imported = parts.into_iter().map(|ExportPart { stream, inputs }| {
        let target = ImportTarget { connection: name("c"), stream: name(&stream) };
        rig.import_into(&target, &inputs, BadRowPolicy::Skip).unwrap().outdated
    });
    imported.sum()
}

fn page_text(rig: &Rig) -> String {
    let key = "0123456789abcdef0123456789abcde0";
    let page = rig.get(stile_records::operations::Operation::GetRecord, "pages", key, &[]);
    page["data"]["text"].as_str().unwrap().to_owned()
}

fn plants(rig: &Rig) -> Vec<serde_json::Value> {
    let operation = stile_records::operations::Operation::ListRecords;
    let list = rig.get(operation, "plants-01234567", "", &[]);
    list["data"].as_array().unwrap().iter().map(|row| row["data"].clone()).collect()
}

#[test]
fn a_database_of_several_exports_is_one_stream_and_the_newest_row_wins() {
    let export = |rig: &Rig, month: u16, text: &str, rows: &str| {
        let table = format!("Name,{text}\n{rows}");
        let files = [(PAGE, text), (TABLE, table.as_str())];
        rig.write(&format!("{month}.zip"), zip_of_month(month, &files))
    };
    for newest_first in [true, false] {
        let rig = rig();
        let mut paths = vec![
            export(&rig, 3, "New", "Fern,3\nMoss,3\n"),
            export(&rig, 1, "Old", "Fern,1\nReed,1\n"),
        ];
        if !newest_first {
            paths.reverse();
        }
        let parts = divide(&paths, None).unwrap().unwrap().parts;
        let streams: Vec<&str> = parts.iter().map(|part| part.stream.as_str()).collect();
        assert_eq!(streams, ["plants-01234567", "pages"]);
        assert_eq!(outdated(&rig, &paths), 0);
        let rows = plants(&rig);
        let of = |name: &str| rows.iter().find(|row| row["Name"] == name).unwrap()["New"].clone();
        assert_eq!((rows.len(), of("Fern"), of("Moss")), (3, 3.into(), 3.into()));
        assert_eq!(page_text(&rig), "New");
    }
}

#[test]
fn an_older_export_of_notion_changes_nothing_and_is_counted() {
    let rig = rig();
    let files = |text: &'static str, row: &'static str| [(PAGE, text), (TABLE, row)];
    let march = files("March", "Name,Water\nFern,3\n");
    let path = rig.write("march.zip", zip_of_month(3, &march));
    assert_eq!(outdated(&rig, std::slice::from_ref(&path)), 0);
    assert_eq!(outdated(&rig, &[path]), 0, "the same export again");
    let february = files("February", "Name,Water\nFern,2\nMoss,2\n");
    for (name, older) in
        [("february.zip", zip_of_month(2, &february)), ("unknown.zip", zip(&february))]
    {
        assert_eq!(outdated(&rig, &[rig.write(name, older)]), 2, "{name}");
        assert_eq!(page_text(&rig), "March");
        let rows = plants(&rig);
        let fern = rows.iter().find(|row| row["Name"] == "Fern").unwrap();
        assert_eq!((&fern["Water"], rows.len()), (&3.into(), 2), "what is new is added");
    }
    let april = files("April", "Name,Water\nFern,4\n");
    let parts = Zip::default()
        .with(&Member::deflated("ExportBlock-0123-Part-1.zip", &zip_of_month(4, &april)));
    assert_eq!(outdated(&rig, &[rig.write("april.zip", parts.finish())]), 0);
    assert_eq!(page_text(&rig), "April");
    // The folder of an export that was unpacked has times too, unless they are those of unpacking.
    let folder = rig.folder.path().join("unpacked");
    for (millis, text, left) in [(250, "April", 1), (0, "now", 0)] {
        rig.write_dated(&format!("unpacked/{PAGE}"), "now", (2_000_000_000, millis));
        assert_eq!(outdated(&rig, std::slice::from_ref(&folder)), left);
        assert_eq!(page_text(&rig), text, "{millis}");
    }
}

#[test]
fn a_renamed_database_is_known_by_its_stream() {
    let stored = ["pages", "books-01234567", "plants-89abcdef"];
    let of = |stream| notion::stored_as(stream, stored.into_iter());
    assert_eq!(of("reading-list-01234567").as_deref(), Some("books-01234567"));
    for stream in ["books-01234567", "books-11111111", "books", "pages", "a-0123456"] {
        assert_eq!(of(stream), None, "{stream}");
    }
    let two = ["a-01234567", "b-01234567"];
    assert_eq!(notion::stored_as("c-01234567", two.into_iter()), None, "which is not known");
}

#[test]
fn a_part_of_an_export_alone_says_which_parts_are_beside_it_and_which_rows_lack_a_page() {
    let rig = rig();
    let row = ("Garden/Plants/Fern 0123456789abcdef0123456789abcde4.md", "# Fern\n");
    let table = (TABLE, "Name,Water\nFern,2\nMoss,2\n");
    let paths = [
        rig.write("Export-1-Part-1.zip", zip_of_month(3, &[(PAGE, "# Garden\n"), table, row])),
        rig.write("Export-1-Part-2.zip", zip_of_month(3, &[(PAGE, "# Garden\n")])),
    ];
    for at in [0, 1] {
        let other = format!("Export-1-Part-{}.zip", 2 - at);
        let export = divide(&[paths[at].clone()], None).unwrap().unwrap();
        assert_eq!(export.unnamed, [other]);
    }
    assert!(divide(&paths, None).unwrap().unwrap().unnamed.is_empty());
    let export = divide(&paths[..1], None).unwrap().unwrap();
    let plants = export.parts.into_iter().find(|part| part.stream == "plants-01234567").unwrap();
    let report = rig.import(&plants.inputs, &[], BadRowPolicy::Skip, |_| ()).unwrap();
    let said: Vec<_> = report.left_out.iter().collect();
    assert!(said.len() == 1 && said[0].0.contains("Name all parts"), "{said:?}");
    assert_eq!(*said[0].1, 1, "Moss");
}

#[test]
fn pages_and_rows_of_notion_say_in_many_languages_when_they_were_changed() {
    for (property, old, new) in [
        ("Geändert", "5. Januar 2026 10:00", "6. März 2026 10:00"),
        ("Letzte Änderung um", "5. Januar 2026 10:00", "6. März 2026 10:00"),
        ("Zuletzt bearbeitet", "5. Januar 2026 um 10:00 Uhr", "6. März 2026 um 10:00 Uhr"),
        ("Dernière modification", "5 janvier 2026 10:00", "6 mars 2026 10:00"),
        ("Última edición", "5 de enero de 2026 10:00", "6 de marzo de 2026 10:00"),
        ("最終更新日時", "2026年1月5日 10:00", "2026年3月6日 10:00"),
        ("Last edited time", "January 5, 2026 10:00 AM", "March 6, 2026 10:00 AM"),
    ] {
        let rig = rig();
        let row = "Garden/Plants/Fern 0123456789abcdef0123456789abcde4.md";
        let export = |name: &str, month: u16, water: u8, time: &str| {
            let table = format!("Name,Water,{property}\nFern,{water},\"{time}\"\n");
            let page = format!("# Fern\n\n{property}: {time}\n\n{water}\n");
            let files = [(PAGE, "# Garden\n"), (TABLE, &table), (row, &page)];
            rig.write(name, zip_of_month(month, &files))
        };
        // The times of the files say the opposite of what the rows say.
        let (newer, older) = (export("newer.zip", 1, 3, new), export("older.zip", 3, 2, old));
        for path in [newer, older] {
            import(&rig, &[path]);
        }
        assert_eq!(plants(&rig)[0]["Water"], 3, "{property}");
        let key = "0123456789abcdef0123456789abcde4";
        let page = rig.get(stile_records::operations::Operation::GetRecord, "pages", key, &[]);
        assert_eq!(page["data"]["updated"], "2026-03-06T10:00:00Z", "{property}");
    }
}

#[test]
fn parts_of_notion_within_a_zip_file_are_opened() {
    let rig = rig();
    let files = notion();
    let (one, two) = files.split_at(3);
    let outer = Zip::default()
        .with(&Member::deflated("ExportBlock-0123-Part-1.zip", &zip(one)))
        .with(&Member::stored("ExportBlock-0123-Part-2.zip", &zip(two)));
    let path = rig.write("Export-0123.zip", outer.finish());
    let (stored, _) = import(&rig, &[path]);
    assert_eq!(streams(&stored), [("pages", 4), ("plants-01234567", 2)]);
    let torn = Zip::default().with(&Member::stored("ExportBlock-0123-Part-1.zip", b"PK\x03\x04x"));
    let path = rig.write("torn.zip", torn.finish());
    let export = divide(&[path], None).unwrap().unwrap();
    let said = export.skipped[0].described();
    assert!(export.parts.is_empty() && said.contains("not a whole zip file"), "{said}");
}

#[test]
fn a_folder_of_other_notes_is_no_export() {
    let rig = rig();
    rig.write("vault/a.md", "x");
    rig.write("vault/b 0123456789abcdef0123456789abcde0.md", "x");
    assert!(divide(&[rig.folder.path().join("vault")], None).unwrap().is_none());
    let forced = divide(&[rig.folder.path().join("vault")], Some("notion")).unwrap().unwrap();
    assert_eq!(forced.parts.len(), 1);
}

#[test]
fn a_zip_file_of_statements_and_calendars_is_read_file_by_file() {
    let rig = rig();
    let camt = "<?xml version=\"1.0\"?><Document \
        xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.053.001.08\"><BkToCstmrStmt><Stmt><Acct><Id>\
        <IBAN>DE1</IBAN></Id></Acct><Ntry><Amt Ccy=\"EUR\">4.20</Amt><CdtDbtInd>DBIT</CdtDbtInd>\
        <Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>2026-01-05</Dt></BookgDt><AcctSvcrRef>r1</AcctSvcrRef>\
        </Ntry></Stmt></BkToCstmrStmt></Document>";
    let health = "<?xml version=\"1.0\"?><HealthData><Record type=\"HKStepCount\" unit=\"count\" \
        startDate=\"2026-01-05 10:00:00 +0100\" endDate=\"2026-01-05 10:10:00 +0100\" \
        value=\"12\"/></HealthData>";
    let files = [
        ("2026-01.xml", camt),
        ("a.ics", EVENT),
        ("apple_health_export/export.xml", health),
        ("umsatz.csv", "a,b\n1,2\n"),
        ("x.bin", "\u{1}"),
    ];
    let path = rig.write("camt.zip", zip(&files));
    let (stored, skipped) = import(&rig, &[path]);
    assert_eq!(streams(&stored), [("events", 1), ("health", 1), ("transactions", 1)]);
    insta::assert_snapshot!(skipped.join("\n"));
    // A zip file with one track is imported like the track.
    let gpx = "<gpx><wpt lat=\"1\" lon=\"2\"></wpt></gpx>";
    let path = rig.write("one.zip", zip(&[("track.gpx", gpx)]));
    assert_eq!(streams(&import(&rig, &[path]).0), [("places", 1)]);
    for other in [&[("xl/workbook.xml", "<workbook>")][..], &[("a.csv", "a,b\n")], &[("a.md", "x")]]
    {
        let path = rig.write("other.zip", zip(other));
        assert!(divide(&[path], None).unwrap().is_none(), "{other:?}");
    }
    rig.write("folder/a.ics", EVENT);
    assert!(divide(&[rig.folder.path().join("folder")], None).unwrap().is_none());
}
