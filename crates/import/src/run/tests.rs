//! Imports of small files of each kind, twice, broken, and stopped.

use std::path::PathBuf;

use stile_domain::records::identifiers::SourceName;

use super::*;
use crate::rig::{Rig, owner, rig};

/// A file in the rig's folder.
#[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
fn file(rig: &Rig, name: &str, content: impl AsRef<[u8]>) -> Input {
    let path = rig.folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    Input { format: Format::of(&path).unwrap().unwrap(), path }
}

fn import(rig: &Rig, inputs: &[Input], key: &[&str], strict: bool) -> Result<Report, String> {
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let key: Vec<String> = key.iter().map(|&name| name.to_owned()).collect();
    let (services, caller) = (&rig.services, &owner());
    let import = Import {
        services,
        caller,
        connection: &connection,
        stream: &stream,
        key: &key,
        strict,
        now: Instant(7),
    };
    let folder = rig.folder.path().to_str().unwrap().to_owned() + "/";
    import.run(inputs, &mut |_| ()).map_err(|stopped| stopped.to_string().replace(&folder, ""))
}

fn counts(report: &Report) -> (u64, u64, u64, u64) {
    (report.added, report.changed, report.same, report.bad_rows)
}

#[test]
fn a_second_run_changes_nothing_and_a_corrected_file_changes_what_it_corrects() {
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
        let report = import(&rig, &input, &[], false).unwrap();
        assert_eq!(counts(&report), (2, 0, 0, 0), "{name}");
        assert!(report.because[0].contains("`id` is the key"), "{:?}", report.because);
        let again = import(&rig, &input, &[], false).unwrap();
        assert_eq!((counts(&again), again.because.len()), ((0, 0, 2, 0), 0), "{name}");
        let input = [file(&rig, name, second)];
        assert_eq!(counts(&import(&rig, &input, &[], false).unwrap()), (1, 1, 0, 0), "{name}");
        assert_eq!(rig.keys("s"), ["1", "2", "3"]);
    }
}

#[test]
fn rows_without_a_key_keep_apart_and_come_back() {
    let rig = rig();
    let input = [file(&rig, "a.csv", "day,amount\n2026-01-01,5\n2026-01-01,5\n2026-01-02,5\n")];
    assert_eq!(counts(&import(&rig, &input, &[], false).unwrap()), (3, 0, 0, 0));
    assert_eq!(counts(&import(&rig, &input, &[], false).unwrap()), (0, 0, 3, 0));
}

#[test]
fn bad_rows_are_told_by_line_and_reason_and_cost_only_themselves() {
    let rig = rig();
    let lines =
        "{\"id\":1}\nnonsense\n{\"id\":null}\n{\"id\":2}\n{\"id\":[1]}\n{\"id\":3,\"id\":4}\n";
    let report = import(&rig, &[file(&rig, "a.jsonl", lines)], &["id"], false);
    let error = report.unwrap_err();
    assert!(
        error.contains("`primary_key` names the field `id`"),
        "a key that holds a list is no key: {error}"
    );
    let lines = lines.replace("{\"id\":[1]}", "{}");
    let report = import(&rig, &[file(&rig, "a.jsonl", &lines)], &["id"], false).unwrap();
    assert_eq!(counts(&report), (2, 0, 0, 4));
    let told: Vec<(u64, &str)> = report.bad.iter().map(|bad| (bad.line, bad.code)).collect();
    assert_eq!(
        told,
        [(2, "invalid_json"), (3, "key_missing"), (5, "key_missing"), (6, "duplicate_key")]
    );
    let many = "x\n".repeat(150);
    let report = import(&rig, &[file(&rig, "b.jsonl", many)], &[], false).unwrap();
    assert_eq!((report.bad_rows, report.bad.len()), (150, BAD_SHOWN));
}

#[test]
fn a_strict_import_stores_all_or_nothing() {
    let rig = rig();
    let good: String = (0..1500).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let bad = file(&rig, "a.jsonl", format!("{good}{{\"id\":}}\n"));
    let error = import(&rig, std::slice::from_ref(&bad), &[], true).unwrap_err();
    assert!(error.starts_with("a.jsonl:1501: it is not valid JSON"), "{error}");
    assert!(rig.streams().is_empty());
    let late = [file(&rig, "b.jsonl", &good), bad];
    let error = import(&rig, &late, &[], true).unwrap_err();
    assert!(
        error.ends_with("(invalid_json). Nothing was written, since the import is strict"),
        "{error}"
    );
    assert!(rig.streams().is_empty());
    assert_eq!(counts(&import(&rig, &late[..1], &[], true).unwrap()), (1500, 0, 0, 0));
}

#[test]
fn batches_are_whole_and_progress_is_told() {
    let rig = rig();
    let good: String = (0..25_000)
        .map(|id| format!("{{\"id\":{id},\"text\":\"{}\"}}\n", "x".repeat(50)))
        .collect();
    let input = [file(&rig, "a.jsonl", &good)];
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let (services, caller) = (&rig.services, &owner());
    let import = Import {
        services,
        caller,
        connection: &connection,
        stream: &stream,
        key: &[],
        strict: false,
        now: Instant(7),
    };
    let mut seen = Vec::new();
    let mut stored = Vec::new();
    import
        .run(&input, &mut |progress| {
            seen.push(progress);
            stored.push(rig.count("s"));
        })
        .unwrap();
    assert!(seen.iter().all(|progress| progress.bytes <= progress.total && progress.total == good.len() as u64));
    assert!(stored.iter().all(|count| [0, 10_000, 20_000, 25_000].contains(count)), "{stored:?}");
    assert!(stored.contains(&10_000) && !seen[0].storing && seen.last().unwrap().storing);
}

#[test]
fn a_batch_ends_by_the_bytes_of_its_rows_too() {
    let rig = rig();
    let node = |id: usize| format!(r#""{id}":{{"message":{{"content":{{"parts":["x"]}}}}}}"#);
    let nodes: Vec<String> = (0..9000).map(node).collect();
    let json = format!(r#"[{{"title":"{}","mapping":{{{}}}}}]"#, "ä".repeat(1024), nodes.join(","));
    let inputs = [file(&rig, "conversations.json", &json)];
    let place = Place {
        connection: SourceName::parse("c").unwrap(),
        stream: SourceName::parse("s").unwrap(),
    };
    let mut items = Items::new(&inputs, place);
    let (first, second) = (items.batch().unwrap().len(), items.batch().unwrap().len());
    assert!((json.len() as u64) < stile_records::batch::BATCH_BYTES && first < 4200, "{first}");
    assert!(
        second > 3000 && items.batch().unwrap().len() == 9000 - first - second,
        "{first} {second}"
    );
}

#[test]
fn another_key_is_refused_while_the_stream_is_there() {
    let rig = rig();
    let input = [file(&rig, "a.csv", "id,mail\n1,a\n")];
    import(&rig, &input, &[], false).unwrap();
    assert!(
        import(&rig, &input, &["mail"], false)
            .unwrap_err()
            .contains("the key of this stream is `id`")
    );
    assert_eq!(counts(&import(&rig, &input, &["id"], false).unwrap()), (0, 0, 1, 0));
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
    let path: PathBuf = rig.folder.path().join("notes");
    let input = [Input { format: Format::of(&path).unwrap().unwrap(), path }];
    let report = import(&rig, &input, &[], false).unwrap();
    assert_eq!(counts(&report), (2, 0, 0, 2));
    let codes: Vec<&str> = report.bad.iter().map(|bad| bad.code).collect();
    assert_eq!(codes, ["invalid_utf8", "not_stored"]);
    assert_eq!(rig.record("s", "b/short.md")["data"]["text"], "# Short\n");
    let told = &rig.record("s", "long.md")["data"];
    assert_eq!((&told["title"], told["text"].as_str()), (&"Long".into(), Some(&long[20..])));
    assert_eq!(counts(&import(&rig, &input, &[], false).unwrap()), (0, 0, 2, 2));
}

#[test]
fn what_cannot_be_read_says_so_and_nothing_is_declared() {
    let rig = rig();
    let missing = Input { path: rig.folder.path().join("none.csv"), format: Format::Csv };
    assert!(
        import(&rig, &[missing], &[], false).unwrap_err().starts_with("cannot read none.csv: ")
    );
    let report = import(&rig, &[file(&rig, "a.json", "{\"id\":1}")], &[], false).unwrap();
    assert_eq!((counts(&report), report.bad[0].code), ((0, 0, 0, 1), "not_an_array"));
    assert_eq!(
        import(&rig, &[file(&rig, "empty.csv", "")], &[], false).unwrap(),
        Report::default()
    );
    assert!(rig.streams().is_empty());
}
