//! Imports small files of several formats: twice, broken, and stopped.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::attachment::Attachment;
use crate::charset::file_encoding::Encoding;
use crate::importers::csv;
use crate::report::BAD_ROWS_LISTED;
use crate::rig::{Rig, counts, recognised, rig, target};

/// A file in the rig's folder, with the importer that recognises it.
fn file(rig: &Rig, name: &str, content: impl AsRef<[u8]>) -> ImportInput {
    recognised(&rig.write(name, content))
}

fn import(
    rig: &Rig,
    inputs: &[ImportInput],
    key: &[&str],
    bad_rows: BadRowPolicy,
) -> Result<ImportReport, String> {
    let folder = rig.folder.path().to_str().unwrap().to_owned() + "/";
    rig.import(inputs, key, bad_rows, |_| ())
        .map_err(|stopped| stopped.to_string().replace(&folder, ""))
}

#[test]
fn an_older_export_changes_nothing_and_says_so() {
    let row = |id: &str, at: &str, text: &str| {
        format!("{{\"id\":\"{id}\",\"updated_at\":\"2026-01-{at}T10:00:00Z\",\"x\":\"{text}\"}}\n")
    };
    let rig = rig();
    let newer = file(&rig, "newer.jsonl", row("a", "05", "new") + &row("b", "01", "b"));
    let older = file(
        &rig,
        "older.jsonl",
        row("a", "02", "old") + &row("b", "02", "c") + &row("c", "01", "c"),
    );
    let same = file(&rig, "same.jsonl", row("a", "05", "corrected"));
    let import = |inputs: &[ImportInput]| import(&rig, inputs, &[], BadRowPolicy::Skip).unwrap();
    assert_eq!(counts(&import(std::slice::from_ref(&newer))), (2, 0, 0, 0));
    let report = import(std::slice::from_ref(&older));
    assert_eq!(counts(&report), (1, 1, 1, 0));
    assert_eq!(report.older, Some(("updated_at".to_owned(), 1)));
    assert_eq!(rig.record("a")["x"], "new");
    let report = import(std::slice::from_ref(&same));
    assert_eq!((counts(&report), report.older), ((0, 1, 0, 0), None), "a correction");
    // Also where both come at once.
    let rig = self::rig();
    let import = super::tests::import(&rig, &[newer, older], &[], BadRowPolicy::Skip).unwrap();
    assert_eq!((counts(&import), import.older.unwrap().1), ((3, 1, 1, 0), 1));
    assert_eq!(rig.record("a")["x"], "new");
}

#[test]
fn of_two_exports_that_are_imported_together_the_later_version_stays() {
    let note = |updated: u64, text: &str| {
        format!(
            "{{\"isTrashed\":false,\"isPinned\":false,\"title\":\"N\",\"textContent\":\"{text}\",\
             \"createdTimestampUsec\":1767600000000000,\"userEditedTimestampUsec\":{updated}}}"
        )
    };
    let (old, new) = (note(1767600000000001, "old"), note(1767600000000002, "new"));
    for texts in [[&old, &new], [&new, &old]] {
        let rig = rig();
        let inputs = ["a.json", "b.json"].iter().zip(texts);
        let inputs: Vec<_> = inputs.map(|(name, text)| file(&rig, name, text)).collect();
        let report = import(&rig, &inputs, &[], BadRowPolicy::Skip).unwrap();
        assert_eq!(report.added, 1);
        let keys = rig.keys();
        assert_eq!((keys.len(), &rig.record(&keys[0])["text"]), (1, &"new".into()), "{report:?}");
    }
}

#[test]
fn two_rows_with_one_key_and_one_time_of_change_are_two_records() {
    let event = |summary: &str, changed: &str| {
        format!(
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:u\nDTSTART:20260105T100000Z\nSUMMARY:{summary}\n\
             LAST-MODIFIED:{changed}\nEND:VEVENT\nEND:VCALENDAR\n"
        )
    };
    let rig = rig();
    let files = |changed: &str| {
        let name = |kind: &str| format!("{kind}-{changed}.ics");
        ["home", "work"].map(|kind| file(&rig, &name(kind), event(kind, changed)))
    };
    let old = files("20260101T000000Z");
    let import =
        |inputs: &[ImportInput]| counts(&import(&rig, inputs, &[], BadRowPolicy::Skip).unwrap());
    assert_eq!(import(&old), (2, 0, 0, 0));
    assert_eq!(import(&old), (0, 0, 2, 0), "again");
    assert_eq!(import(&files("20260102T000000Z")), (0, 2, 0, 0), "both were changed");
    let summary = |key: &str| rig.record(key)["summary"].clone();
    assert_eq!((summary("u"), summary("u#2")), ("home".into(), "work".into()));
}

#[test]
fn an_older_export_undoes_no_edit_whose_time_is_not_declared() {
    for (before, edited) in [
        ("", r#","edited":"2026-02-01T00:00:00""#),
        (r#","timestampEdited":null"#, r#","timestampEdited":"2026-01-05T11:01:00+01:00""#),
    ] {
        let rig = rig();
        let row = |text: &str, more: &str| format!("{{\"id\":\"1\",\"text\":\"{text}\"{more}}}\n");
        let old = file(&rig, "old.jsonl", row("Hi", before));
        let new = file(&rig, "new.jsonl", row("Hi!!", edited));
        let import = |input: &ImportInput| {
            import(&rig, std::slice::from_ref(input), &["id"], BadRowPolicy::Skip).unwrap()
        };
        assert_eq!(counts(&import(&old)), (1, 0, 0, 0));
        assert_eq!(counts(&import(&new)), (0, 1, 0, 0));
        let report = import(&old);
        assert_eq!(counts(&report), (0, 0, 1, 0), "{edited}");
        assert_eq!(report.older.map(|(_, count)| count), Some(1));
        assert_eq!(rig.record("1")["text"], "Hi!!");
    }
}

#[test]
fn a_contact_without_an_identifier_keeps_its_record_when_its_number_changes() {
    let card = |lines: &str| format!("BEGIN:VCARD\nVERSION:3.0\n{lines}\nEND:VCARD\n");
    let rig = rig();
    let store = |name: &str, cards: &[&str]| {
        let cards: String = cards.iter().map(|lines| card(lines)).collect();
        let report = import(&rig, &[file(&rig, name, cards)], &[], BadRowPolicy::Skip).unwrap();
        counts(&report)
    };
    let plumber = "ORG:Plumber\nTEL:1";
    assert_eq!(
        store("a.vcf", &["FN:Ann\nTEL:1", "FN:Bo\nEMAIL:b@example.org", plumber]),
        (3, 0, 0, 0)
    );
    assert_eq!(
        store(
            "b.vcf",
            &["FN:Ann\nTEL:2", "FN:Bo\nEMAIL:c@example.org\nTEL:3", "ORG:Plumber\nTEL:9"]
        ),
        (0, 3, 0, 0)
    );
    assert_eq!(store("c.vcf", &["FN:Ann\nTEL:2", "FN:Ann\nTEL:7"]), (1, 0, 1, 0), "two of a name");
    assert_eq!(store("d.vcf", &["FN:Ann\nTEL:7", "FN:Ann\nTEL:2"]), (0, 0, 2, 0), "turned round");
}

#[test]
fn a_table_says_which_column_is_the_title_of_a_record() {
    for (table, title) in [
        ("Betrag,Verwendungszweck,Payee\n1,p q,r s\n", "Payee"),
        ("Amount,Description\n1,p q\n", "Description"),
        ("Text,Betreff\np q,r s\n", "Betreff"),
    ] {
        let rig = rig();
        let input = file(&rig, "a.csv", table);
        let report = import(&rig, &[input], &[], BadRowPolicy::Skip).unwrap();
        let line = format!("`{title}` is the title of a record, where it has one");
        assert!(report.declared_because.contains(&line), "{:?}", report.declared_because);
    }
}

#[test]
fn a_second_run_changes_nothing_and_a_corrected_file_changes_its_corrections() {
    for (name, first, second) in [
        (
            "a.jsonl",
            "{\"id\":1,\"x\":\"a\"}\n{\"id\":2,\"x\":\"b\"}\n",
            "{\"id\":2,\"x\":\"c\"}\n{\"id\":3,\"x\":\"d\"}\n",
        ),
        (
            "a.json",
            r#"[{"id":1,"x":"a"},{"id":2,"x":"b"}]"#,
            r#"[{"id":2,"x":"c"},{"id":3,"x":"d"}]"#,
        ),
        ("a.csv", "id,x\n1,a\n2,b\n", "id,x\n2,c\n3,d\n"),
    ] {
        let rig = rig();
        let input = [file(&rig, name, first)];
        let report = import(&rig, &input, &[], BadRowPolicy::Skip).unwrap();
        assert_eq!(counts(&report), (2, 0, 0, 0), "{name}");
        assert!(
            report.declared_because[0].contains("`id` is the key"),
            "{:?}",
            report.declared_because
        );
        let again = import(&rig, &input, &[], BadRowPolicy::Skip).unwrap();
        assert_eq!((counts(&again), again.declared_because.len()), ((0, 0, 2, 0), 0), "{name}");
        let input = [file(&rig, name, second)];
        assert_eq!(
            counts(&import(&rig, &input, &[], BadRowPolicy::Skip).unwrap()),
            (1, 1, 0, 0),
            "{name}"
        );
        assert_eq!(rig.keys(), ["1", "2", "3"]);
    }
}

#[test]
fn equal_rows_without_a_key_stay_separate_in_a_second_run() {
    let rig = rig();
    let input = [file(&rig, "a.csv", "day,amount\n2026-01-01,5\n2026-01-01,5\n2026-01-02,5\n")];
    assert_eq!(counts(&import(&rig, &input, &[], BadRowPolicy::Skip).unwrap()), (3, 0, 0, 0));
    assert_eq!(counts(&import(&rig, &input, &[], BadRowPolicy::Skip).unwrap()), (0, 0, 3, 0));
}

#[test]
fn bad_rows_are_reported_by_line_and_reason_and_the_others_are_stored() {
    let rig = rig();
    let lines =
        "{\"id\":1}\nnonsense\n{\"id\":null}\n{\"id\":2}\n{\"id\":[1]}\n{\"id\":3,\"id\":4}\n";
    let report = import(&rig, &[file(&rig, "a.jsonl", lines)], &["id"], BadRowPolicy::Skip);
    let error = report.unwrap_err();
    assert!(
        error.contains("`primary_key` names the field `id`"),
        "a field with a list cannot be a key: {error}"
    );
    let lines = lines.replace("{\"id\":[1]}", "{}");
    let report =
        import(&rig, &[file(&rig, "a.jsonl", &lines)], &["id"], BadRowPolicy::Skip).unwrap();
    assert_eq!(counts(&report), (2, 0, 0, 4));
    let codes: Vec<(u64, &str)> = report.bad.iter().map(|bad| (bad.line, bad.code)).collect();
    assert_eq!(
        codes,
        [(2, "invalid_json"), (3, "key_missing"), (5, "key_missing"), (6, "duplicate_key")]
    );
    let many = "x\n".repeat(150);
    let report = import(&rig, &[file(&rig, "b.jsonl", many)], &[], BadRowPolicy::Skip).unwrap();
    assert_eq!((report.bad_rows, report.bad.len()), (150, BAD_ROWS_LISTED));
}

#[test]
fn a_strict_import_stores_all_or_nothing() {
    let rig = rig();
    let good: String = (0..1500).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let bad = file(&rig, "a.jsonl", format!("{good}{{\"id\":}}\n"));
    let error =
        import(&rig, std::slice::from_ref(&bad), &[], BadRowPolicy::StoreNothing).unwrap_err();
    assert!(error.starts_with("a.jsonl:1501: it is not valid JSON"), "{error}");
    assert!(rig.streams().is_empty());
    let late = [file(&rig, "b.jsonl", &good), bad];
    let error = import(&rig, &late, &[], BadRowPolicy::StoreNothing).unwrap_err();
    assert!(
        error.ends_with("(invalid_json). Nothing was written, since the import is strict"),
        "{error}"
    );
    assert!(rig.streams().is_empty());
    assert_eq!(
        counts(&import(&rig, &late[..1], &[], BadRowPolicy::StoreNothing).unwrap()),
        (1500, 0, 0, 0)
    );
}

#[test]
fn batches_are_whole_and_progress_is_reported() {
    let rig = rig();
    let good: String = (0..60_000)
        .map(|id| format!("{{\"id\":{id},\"text\":\"{}\"}}\n", "x".repeat(50)))
        .collect();
    let input = [file(&rig, "a.jsonl", &good)];
    let mut seen = Vec::new();
    let mut stored = Vec::new();
    rig.import(&input, &[], BadRowPolicy::Skip, |progress| {
        seen.push(progress);
        stored.push(rig.streams().first().map_or(0, |s| s["record_count"].as_u64().unwrap()));
    })
    .unwrap();
    let total = good.len() as u64;
    assert!(seen.iter().all(|progress| progress.bytes <= total && progress.total == total));
    assert!(stored.is_sorted(), "{stored:?}");
    // Each batch has at most 50,000 records.
    assert!(stored.iter().any(|count| (1..=50_000).contains(count)), "{stored:?}");
    assert!(stored.ends_with(&[60_000]) && !seen[0].storing && seen.last().unwrap().storing);
}

#[test]
fn a_batch_ends_at_the_memory_that_its_rows_take() {
    let rig = rig();
    let node = |id: usize| format!(r#""{id}":{{"message":{{"content":{{"parts":["x"]}}}}}}"#);
    let nodes: Vec<String> = (0..9000).map(node).collect();
    let json = format!(r#"[{{"title":"{}","mapping":{{{}}}}}]"#, "ä".repeat(1024), nodes.join(","));
    let inputs = [file(&rig, "conversations.json", &json)];
    let mut sizes = Vec::new();
    read_ahead(
        &inputs,
        &target(),
        |_, _| Ok(()),
        |ahead| {
            while let Some(read) = ahead.wait() {
                sizes.push(read?.rows.len());
            }
            Ok(())
        },
    )
    .unwrap();
    assert!(json.len() < 1 << 20);
    assert_eq!(sizes.iter().sum::<usize>(), 9000, "{sizes:?}");
    assert!(sizes.len() > 15 && sizes.iter().all(|size| *size < 600), "{sizes:?}");
}

#[test]
fn long_texts_and_files_of_rows_count_and_long_rows_are_not_read_far_ahead() {
    let rig = rig();
    let rows: String = (0..12).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let inputs = [file(&rig, "a.jsonl", rows)];
    let text = |row: &mut ImportRow| {
        row.attachment_text = Some(FieldValue::Text("x".repeat(3 << 20)));
    };
    let attachment = |row: &mut ImportRow| {
        row.attachments = vec![Attachment::in_memory(vec![0; 3 << 20], "a/b".to_owned(), None)];
    };
    for make_long in [&text as &(dyn Fn(&mut ImportRow) + Sync), &attachment] {
        let read = AtomicUsize::new(0);
        let complete = |row: &mut InputRow, _: &mut ImportReport| {
            read.fetch_add(1, Ordering::SeqCst);
            make_long(row.located.row.as_mut().unwrap());
            Ok(())
        };
        read_ahead(&inputs, &target(), complete, |ahead| {
            let mut taken = 0;
            while let Some(part) = ahead.wait() {
                assert_eq!(part?.rows.len(), 1);
                taken += 1;
                // Two parts of 3 MiB are more than may wait while another one is read.
                let ahead = read.load(Ordering::SeqCst).saturating_sub(taken);
                assert!(ahead <= 2, "{ahead}");
            }
            assert_eq!(taken, 12);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_failed_write_ends_the_reading_and_a_failed_read_ends_the_import() {
    let rig = rig();
    let rows: String = (0..20_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let inputs = [file(&rig, "a.jsonl", rows)];
    let stopped = read_ahead(
        &inputs,
        &target(),
        |_, _| Ok(()),
        |ahead| {
            assert_eq!(ahead.wait().unwrap()?.rows.len(), 1000);
            Err(ImportError::Redeclared)
        },
    );
    assert!(matches!(stopped, Err(ImportError::Redeclared)), "{stopped:?}");
    rig.write("a.jsonl", "{\"id\":1}\n");
    import(&rig, &inputs, &[], BadRowPolicy::Skip).unwrap();
    let missing = [
        inputs[0].clone(),
        ImportInput { path: Path::new("missing.jsonl").into(), ..inputs[0].clone() },
    ];
    rig.write("a.jsonl", "{\"id\":2}\n");
    let error = import(&rig, &missing, &[], BadRowPolicy::Skip).unwrap_err();
    assert!(error.contains("cannot read missing.jsonl"), "{error}");
    assert_eq!(rig.keys(), ["1"], "the row that was read with it is not stored");
}

#[test]
fn another_key_is_refused_while_the_stream_is_there() {
    let rig = rig();
    let input = [file(&rig, "a.csv", "id,mail\n1,a\n")];
    import(&rig, &input, &[], BadRowPolicy::Skip).unwrap();
    assert!(
        import(&rig, &input, &["mail"], BadRowPolicy::Skip)
            .unwrap_err()
            .contains("the key of this stream is `id`")
    );
    assert_eq!(counts(&import(&rig, &input, &["id"], BadRowPolicy::Skip).unwrap()), (0, 0, 1, 0));
}

#[test]
fn notes_of_any_size_become_records() {
    let rig = rig();
    let long = format!("---\ntitle: Long\n---\n{}", "wörter and words\n".repeat(100_000));
    for (name, text) in [("notes/b/short.md", "# Short\n"), ("notes/long.md", &long)] {
        file(&rig, name, text);
    }
    file(&rig, "notes/broken.md", b"\xff\xfe");
    file(&rig, "notes/long-broken.md", [long.as_bytes(), b"\xff"].concat());
    let input = [recognised(&rig.folder.path().join("notes"))];
    let report = import(&rig, &input, &[], BadRowPolicy::Skip).unwrap();
    assert_eq!(counts(&report), (2, 0, 0, 2));
    let codes: Vec<&str> = report.bad.iter().map(|bad| bad.code).collect();
    assert_eq!(codes, ["invalid_utf8", "invalid_utf8"]);
    assert_eq!(rig.record("b/short.md")["text"], "# Short\n");
    let long_note = rig.record("long.md");
    assert_eq!(
        (&long_note["title"], long_note["text"].as_str()),
        (&"Long".into(), Some(&long[20..]))
    );
    assert_eq!(counts(&import(&rig, &input, &[], BadRowPolicy::Skip).unwrap()), (0, 0, 2, 2));
}

#[test]
fn a_row_within_an_object_takes_its_identifier_into_the_key() {
    let all = |text: &str| {
        format!(
            r#"{{"chats":{{"list":[
            {{"name":"Ann","id":1,"messages":[{{"id":1,"text":"{text} and more words than all the rest of the file has, so that it stands out"}},{{"id":2,"text":"a long enough text of a message"}}]}},
            {{"name":"Bo","id":2,"messages":[{{"id":1,"text":"another chat that is long enough too, with many more words in it than its name has"}}]}}]}}}}"#
        )
    };
    let rig = rig();
    let first = import(&rig, &[file(&rig, "a.json", all("draft"))], &[], BadRowPolicy::Skip);
    assert_eq!(counts(&first.unwrap()), (3, 0, 0, 0));
    let edited = import(&rig, &[file(&rig, "b.json", all("edited"))], &[], BadRowPolicy::Skip);
    assert_eq!(counts(&edited.unwrap()), (0, 1, 2, 0));
}

#[test]
fn a_column_of_numbers_stays_one_with_odd_cells_which_are_named() {
    for (name, cells, bad) in [
        ("dash", ["1", "2", "-", "4", "5"], "-"),
        ("nothing", ["1", "n/a", "n/a", "n/a", "n/a"], "n/a"),
        ("styles", ["1,234.50", "1.234,50", "7.25", "8.50", "9.75"], "1.234,50"),
        ("exponent", ["1.5", "2.5", "1e3", "4.5", "5.5"], "1e3"),
        ("currency", ["1.50", "2.50", "1.00", "4.00", "5.00 USD"], "5.00 USD"),
    ] {
        let rig = rig();
        let rows: String = cells.map(|cell| format!("2026-01-01;x;{cell}\n")).concat();
        let text = format!("date;what;amount\n{rows}");
        let report = import(&rig, &[file(&rig, "a.csv", &text)], &[], BadRowPolicy::Skip).unwrap();
        let misfit = &report.misfits["amount"];
        assert_eq!(misfit.example, bad, "{name}");
        assert_eq!(misfit.declared, "a number", "{name}");
    }
}

#[test]
fn what_is_remembered_gives_way_to_what_a_file_shows() {
    let rig = rig();
    let said = |name: &str, text: &[u8], csv: CsvOptions| {
        let input = ImportInput::whole(rig.write(name, text), &csv::IMPORTER);
        let reading = ReadingOptions { csv, ..ReadingOptions::default() };
        rig.import_as(&[input], &reading).unwrap()
    };
    let first = CsvOptions {
        delimiter: Some(b';'),
        encoding: Encoding::named("windows-1252"),
        ..CsvOptions::default()
    };
    said("1.csv", b"id;name;n\na;J\xf6rg;1\n", first);
    let marked = "\u{feff}id;name;n\nb;Jörg;2\n";
    said("2.csv", marked.as_bytes(), CsvOptions::default());
    assert_eq!(rig.record("b")["name"], "Jörg");
    said("3.csv", b"id,name,n\nc,Ann,3\n", CsvOptions::default());
    assert_eq!(rig.record("c")["n"], 3);
    // The names that the stream declares are the header, whatever follows.
    said("4.csv", b"id;name;n\nd;x;4;\ne;x;5;;;\nf;x;6;;;\n", CsvOptions::default());
    assert_eq!(rig.record("d")["name"], "x");
}

#[test]
fn the_column_that_gave_the_sign_gives_it_in_each_file_of_the_stream() {
    let rig = rig();
    let import = |name: &str, rows: &str| {
        let text = format!("id,Date,Type,Amount\n{rows}");
        import(&rig, &[file(&rig, name, &text)], &[], BadRowPolicy::Skip).unwrap()
    };
    import("1.csv", "a,2026-02-05,Debit,12.50\nb,2026-02-06,Credit,5\n");
    import("2.csv", "c,2026-03-05,Debit,12.50\n");
    import("3.csv", "d,2026-03-06,D,3.50\n");
    let report = import("4.csv", "e,2026-03-07,Debit,1.50\nf,2026-03-08,Fee,2.50\n");
    for (id, amount) in [("a", -12.5), ("c", -12.5), ("d", -3.5), ("e", -1.5)] {
        assert_eq!(rig.record(id)["Amount"], amount, "{id}");
    }
    assert_eq!(rig.record("b")["Amount"], 5);
    // The sign beside another word is open: the value does not fit, and the report says so.
    assert_eq!(report.misfits["Amount"].rows, 1);
    let says = report.read_as.iter().any(|line| line.contains("whose sign is open"));
    assert!(says, "{:?}", report.read_as);
}

#[test]
fn an_amount_in_another_currency_than_earlier_files_does_not_fit() {
    let rig = rig();
    let import = |name: &str, rows: &str| {
        let text = format!("id;date;amount\n{rows}");
        import(&rig, &[file(&rig, name, &text)], &[], BadRowPolicy::Skip).unwrap()
    };
    import("1.csv", "a;2026-01-01;4,20 €\nb;2026-01-02;1,00 €\n");
    for (name, rows, amount) in [
        ("2.csv", "c;2026-02-01;$ 5,00\nd;2026-02-02;$ 6,00\n", serde_json::json!("$ 5,00")),
        ("3.csv", "c;2026-02-01;7,50\nd;2026-02-02;8,00\n", serde_json::json!(7.50)),
        ("4.csv", "c;2026-02-01;EUR 9,00\nd;2026-02-02;$ 6,00\n", serde_json::json!(9.00)),
    ] {
        let report = import(name, rows);
        assert_eq!(rig.record("c")["amount"], amount, "{name}");
        let other = rows.matches('$').count() as u64;
        let misfits = report.misfits.get("amount").map_or(0, |misfit| misfit.rows);
        assert_eq!(misfits, other, "{name}");
        let says = report.read_as.iter().any(|line| line.contains("another currency than `EUR`"));
        assert_eq!(says, other > 0, "{name}: {:?}", report.read_as);
    }
}

#[test]
fn an_unreadable_file_is_an_error_and_declares_nothing() {
    let rig = rig();
    let missing = ImportInput::whole(rig.folder.path().join("none.csv"), &csv::IMPORTER);
    assert!(
        import(&rig, &[missing], &[], BadRowPolicy::Skip)
            .unwrap_err()
            .starts_with("cannot read none.csv: ")
    );
    let one = import(&rig, &[file(&rig, "a.json", "{\"id\":1}")], &[], BadRowPolicy::Skip);
    assert!(one.unwrap_err().contains("a single row"));
    assert_eq!(
        import(&rig, &[file(&rig, "empty.csv", "")], &[], BadRowPolicy::Skip).unwrap(),
        ImportReport::default()
    );
    assert!(rig.streams().is_empty());
}

#[test]
fn a_member_of_a_list_that_does_not_fit_is_counted_marked_and_named() {
    let rig = rig();
    let import = |name: &str, rows: &str| {
        import(&rig, &[file(&rig, name, rows)], &[], BadRowPolicy::Skip).unwrap()
    };
    import("1.jsonl", "{\"id\":\"a\",\"tags\":[\"fern\",\"moss\"]}\n{\"id\":\"b\",\"tags\":[]}\n");
    let rows = "{\"id\":\"c\",\"tags\":[\"fern\",null,7,8]}\n{\"id\":\"d\",\"tags\":[{\"a\":1}]}\n\
        {\"id\":\"e\",\"tags\":[\"moss\",null]}\n";
    let report = import("2.jsonl", rows);
    let misfit = &report.misfits["tags"];
    assert_eq!((misfit.declared.as_str(), misfit.rows), ("a list of texts", 2));
    assert_eq!((misfit.example.as_str(), misfit.are_members, misfit.line), ("7", true, 1));
    let get = |operation, key: &str, query: &[(&str, &str)]| {
        rig.get(operation, target().stream.as_str(), key, query)
    };
    let marked = get(stile_records::operations::Operation::GetRecord, "c", &[]);
    assert_eq!(marked["not_as_declared"], serde_json::json!({ "tags": "a list of texts" }));
    let plain = get(stile_records::operations::Operation::GetRecord, "e", &[]);
    assert!(plain.get("not_as_declared").is_none(), "null is no value: {plain}");
    let query = [("metric", "count"), ("group_by", "tags")];
    let counted = get(stile_records::operations::Operation::AggregateRecords, "", &query);
    let said = |code: &str| {
        let warnings = counted["meta"]["warnings"].as_array().unwrap();
        let found = warnings.iter().find(|warning| warning["code"] == code);
        found.unwrap_or_else(|| panic!("{code}: {counted}"))["detail"].clone()
    };
    assert_eq!(
        said("members_left_out"),
        serde_json::json!({ "field": "tags", "values": 1, "example": "7" })
    );
    assert_eq!(said("values_left_out")["values"], 1);
    let long: Vec<String> = (0..200).map(|at| format!("w{at:05}")).collect();
    let report =
        import("3.jsonl", &format!("{}\n", serde_json::json!({ "id": "f", "tags": long })));
    assert_eq!(report.long_lists["tags"], 1);
    let marked = get(stile_records::operations::Operation::GetRecord, "f", &[]);
    assert_eq!(
        marked["not_looked_into"],
        serde_json::json!({ "tags": "a list longer than 1024 bytes" })
    );
    let counted = get(stile_records::operations::Operation::AggregateRecords, "", &query);
    let warnings = counted["meta"]["warnings"].as_array().unwrap();
    let long = warnings.iter().find(|warning| warning["code"] == "long_lists_left_out").unwrap();
    assert_eq!(long["detail"]["values"], 1);
    assert!(long["message"].as_str().unwrap().contains("has a list longer than 1024 bytes"));
}
