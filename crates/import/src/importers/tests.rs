//! Imports the samples as they are, zipped, twice, and with files that do not belong to them. The
//! last test adds an importer.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use stile_domain::records::value::FieldValue;
use stile_testkit::zip::{Member, Zip};

use super::*;
use crate::importer::{ImportRow, ImportRows, LocatedRow, StreamDeclaration, file_bytes};
use crate::input::ImportInput;
use crate::report::{BadRowPolicy, ImportReport};
use crate::rig::{Rig, counts, recognised, rig};

/// The line before a message of a mailbox.
const FROM: &str = "From a Thu Jan  1 00:00:00 2026\n";

fn sample(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/records").join(name)
}

fn import(rig: &Rig, path: PathBuf) -> ImportReport {
    rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap()
}

fn import_error(
    rig: &Rig,
    path: PathBuf,
    importer: &'static Importer,
    bad_rows: BadRowPolicy,
) -> String {
    let input = ImportInput::whole(path, importer);
    rig.import(&[input], &[], bad_rows, |_| ()).unwrap_err().to_string()
}

fn codes(report: &ImportReport) -> Vec<(&str, &str)> {
    let name = |file: &'_ str| file.find("export").map_or(0, |at| at);
    report.bad.iter().map(|bad| (&bad.file[name(&bad.file)..], bad.code)).collect()
}

/// The files of a sample as members of a zip file, below a folder.
#[expect(clippy::disallowed_methods, reason = "a test reads the samples")]
fn members(name: &str, below: &str) -> Vec<Member> {
    let mut members = Vec::new();
    let mut folders = vec![sample(name)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inner = path.strip_prefix(sample(name)).unwrap().to_str().unwrap();
            members
                .push(Member::deflated(&format!("{below}{inner}"), &std::fs::read(&path).unwrap()));
        }
    }
    members
}

fn zip(members: &[Member]) -> Vec<u8> {
    members.iter().fold(Zip::default(), Zip::with).finish()
}

fn all(rig: &Rig) -> Vec<Json> {
    let mut records: Vec<Json> = rig.keys().iter().map(|key| rig.record(key)).collect();
    records.sort_by_key(Json::to_string);
    records
}

/// Asserts that an object has these members, and perhaps more.
fn assert_has(object: &Json, members: Json) {
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&object[name], value, "{name} of {object}");
    }
}

#[test]
fn a_mailbox_becomes_messages_with_threads_and_attachments() {
    let rig = rig();
    let report = import(&rig, sample("mailbox.mbox"));
    assert_eq!((counts(&report), &report.bad), ((4, 0, 0, 0), &vec![]));
    assert!(
        report.declared_because[0].contains("`message_id` is the key"),
        "{:?}",
        report.declared_because
    );
    let first = &rig.record("quince-1@example.org");
    assert_eq!(first["subject"], "Quince tree – when to prune?");
    assert_eq!(first["from"], "Sigrún Jónsdóttir <sigrun@example.org>");
    assert_eq!(first["to"], "Ann <ann@example.org>, \"Okafor, Bola\" <bola@example.com>");
    assert!(
        first["body"].as_str().unwrap().contains("before the equinox, it will be done"),
        "{first}"
    );
    assert!(first["body"].as_str().unwrap().contains("\nFrom the shed you can see"), "{first}");
    assert_eq!(first["date"], "2026-03-07T10:15:00+01:00");
    let second = &rig.record("quince-2@example.com");
    assert_has(
        second,
        json!({ "thread": "quince-1@example.org", "in_reply_to": "quince-1@example.org" }),
    );
    let reference = json!({ "source_id": "c", "stream": "s", "record_id": "quince-1@example.org" });
    assert_eq!((&second["thread_ref"], &second["in_reply_to_ref"]), (&reference, &reference));
    assert_eq!(
        second["body"],
        "Agreed. I have drawn which branches can go; the picture is attached.\n"
    );
    let picture = &second["attachments"][0];
    assert_has(
        picture,
        json!({ "filename": "branches.png", "mime_type": "image/png", "size_bytes": 194 }),
    );
    assert!(picture["fetch_url"].as_str().unwrap().starts_with("/v1/blobs/sha256-"), "{picture}");
    let third = &rig.record("list-77@seeds.example");
    assert_eq!(
        third["body"],
        "Your swap list\nBroad beans 40 seeds\nCafé au lait dahlia 2 tubers\n\
         See you at the market hall & bring labels."
    );
    let records = all(&rig);
    let old = records.iter().find(|record| record["subject"] == "An old one").unwrap();
    assert_eq!(old["date"], "1998-01-01T19:05:00-05:00");
    assert!(old["message_id"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(counts(&import(&rig, sample("mailbox.mbox"))), (0, 0, 4, 0));
}

#[test]
fn a_chatgpt_export_becomes_messages_from_a_file_a_folder_or_a_zip() {
    let rig = rig();
    let report = import(&rig, sample("chatgpt"));
    assert_eq!((counts(&report), &report.bad), ((9, 0, 0, 0), &vec![]));
    let id = |last: &str| format!("0a51c2f0-0000-4000-8000-00000000000{last}");
    let record = |last: &str| rig.record(&id(last));
    assert_eq!(
        record("2"),
        json!({
            "id": id("2"),
            "conversation_id": "69ac0000-0000-4000-8000-0000000000aa",
            "conversation_title": "Quince and frost",
            "role": "user",
            "created_at": "2026-03-07T09:00:00.123456Z",
            "content_type": "text",
            "text": "How cold may it get before quince blossom is lost?",
            "on_current_branch": true,
        })
    );
    assert_has(&record("3"), json!({ "on_current_branch": false, "model": "gpt-5-mini" }));
    let answer = record("4");
    assert_has(&answer, json!({ "parent_id": id("2"), "on_current_branch": true }));
    assert_eq!(
        answer["parent_ref"],
        json!({ "source_id": "c", "stream": "s", "record_id": id("2") })
    );
    assert!(answer["text"].as_str().unwrap().contains("about -2 °C.\n\nA fleece"), "{answer}");
    let question = record("5");
    assert_eq!(question["text"], "Here is the wall. Where would the fleece hang?");
    assert_has(
        &question["attachments"][0],
        json!({ "filename": "north wall.png", "size_bytes": 194 }),
    );
    let code = rig.record("0b77d1e0-0000-4000-8000-000000000003");
    assert_has(&code, json!({ "text": "sum([3.5, 0, 12, 7.25])", "content_type": "code" }));
    // The same in a zip file, below a folder of it, and once more: nothing changes.
    let zipped = rig.write("export.zip", zip(&members("chatgpt", "")));
    assert_eq!(counts(&import(&rig, zipped)), (0, 0, 9, 0));
    let deeper = rig.write("deeper.zip", zip(&members("chatgpt", "my export/")));
    assert_eq!(counts(&import(&rig, deeper)), (0, 0, 9, 0));
    // The file alone has no pictures, and its records name them.
    let other = self::rig();
    assert_eq!(counts(&import(&other, sample("chatgpt/conversations.json"))), (9, 0, 0, 0));
    assert_eq!(other.record(&id("5"))["attachments"], json!([{ "filename": "north wall.png" }]));
}

#[test]
fn a_slack_export_becomes_messages_from_a_folder_or_a_zip() {
    let rig = rig();
    let report = import(&rig, sample("slack"));
    assert_eq!((counts(&report), &report.bad), ((6, 0, 0, 0), &vec![]));
    let record = |key: &str| rig.record(key);
    assert_eq!(
        record("C0GARDEN1/1772877600.123456"),
        json!({
            "id": "C0GARDEN1/1772877600.123456",
            "channel": "garden",
            "channel_id": "C0GARDEN1",
            "user": "U0BOLA001",
            "user_name": "Bola Okafor",
            "at": "2026-03-07T10:00:00.123456Z",
            "text": "I do, @Ann, if it is > 3 °C on Sunday.",
            "thread_ts": "1772874000.000200",
            "thread_id": "C0GARDEN1/1772874000.000200",
            "thread_ref": {
                "source_id": "c", "stream": "s", "record_id": "C0GARDEN1/1772874000.000200",
            },
            "is_reply": true, "edited_at": "2026-03-07T10:01:00Z",
        })
    );
    let began = record("C0GARDEN1/1772874000.000200");
    assert_eq!(
        began["text"],
        "Who takes the fleece down? @channel see the forecast \
         (https://example.org/frost?station=3&day=7)"
    );
    assert_eq!((&began["is_reply"], &began["reactions"][0]["count"]), (&json!(false), &json!(2)));
    assert_eq!(record("C0GARDEN1/1772870400.000100")["subtype"], "channel_join");
    let shared = record("C0GARDEN1/1772960400.000000");
    assert_has(
        &shared,
        json!({
            "text": "The plan of the beds, as promised in #allotment-plans.",
            "user_name": "wei 🌱",
        }),
    );
    assert_eq!(
        shared["files"][0]["url_private"],
        "https://files.slack.com/files-pri/T0GARDEN0-F0BEDS001/beds.pdf"
    );
    assert!(!shared.to_string().contains("invented"), "the token of a link is gone: {shared}");
    assert_eq!(record("G0PLANS01/1772964000.000300")["channel"], "allotment-plans");
    assert_eq!(record("D0QUINCE1/1773046800.000000")["channel"], "Ann, wei 🌱");
    let mut zipped = members("slack", "garden export/");
    let path = rig.write("export.zip", zip(&zipped));
    assert_eq!(counts(&import(&rig, path)), (0, 0, 6, 0));
    // A file that was put beside the messages is stored with its message.
    zipped.push(Member::stored("garden export/garden/attachments/F0BEDS001-beds.pdf", b"%PDF-"));
    let path = rig.write("export2.zip", zip(&zipped));
    assert_eq!(counts(&import(&rig, path)), (0, 1, 5, 0));
    let shared = rig.record("C0GARDEN1/1772960400.000000");
    assert_has(
        &shared["attachments"][0],
        json!({ "mime_type": "application/pdf", "size_bytes": 5 }),
    );
}

#[test]
fn the_last_state_of_a_message_is_imported() {
    let rig = rig();
    let days = [
        ("users.json", "[]"),
        ("channels.json", r#"[{"id":"C1","name":"g"}]"#),
        (
            "g/2026-01-01.json",
            r#"[{"ts":"1.1","text":"old"},{"ts":"2.2","text":"secret"},{"ts":"3.3","text":"kept"},
            {"subtype":"message_changed","ts":"4.4",
             "message":{"ts":"1.1","text":"older","user":"U1"}}]"#,
        ),
        (
            "g/2026-01-02.json",
            r#"[{"subtype":"message_changed","ts":"5.5","message":{"ts":"1.1","text":"new"}},
            {"subtype":"message_deleted","ts":"6.6","deleted_ts":"2.2",
             "previous_message":{"text":"secret"}}]"#,
        ),
    ];
    let members: Vec<Member> =
        days.iter().map(|(name, text)| Member::stored(name, text.as_bytes())).collect();
    let path = rig.write("export.zip", zip(&members));
    assert_eq!(counts(&import(&rig, path.clone())), (3, 0, 0, 0));
    let texts: Vec<Json> =
        ["C1/1.1", "C1/2.2", "C1/3.3"].map(|key| rig.record(key)["text"].clone()).into();
    assert_eq!(texts, [json!("new"), json!(null), json!("kept")]);
    assert_eq!(rig.record("C1/2.2")["subtype"], "message_deleted");
    assert_eq!(counts(&import(&rig, path)), (0, 0, 3, 0));
}

#[test]
fn the_last_state_of_a_message_is_imported_whatever_the_order_of_a_day() {
    let rig = rig();
    // All in one line, so that only the index in the file tells the elements apart.
    let changed = |ts: &str, text: &str| {
        let message = json!({ "ts": "2.2", "text": text });
        json!({ "subtype": "message_changed", "ts": ts, "message": message })
    };
    let day = json!([
        { "ts": "1.1", "text": "SECRET one" },
        { "ts": "2.2", "text": "SECRET two" },
        { "ts": "3.3", "text": "kept" },
        { "subtype": "message_deleted", "ts": "4.4", "deleted_ts": "1.1" },
        changed("5.5", "SECRET three"),
        changed("6.6", "new"),
    ]);
    let files = [
        ("users.json", "[]"),
        ("channels.json", r#"[{"id":"C1","name":"g"}]"#),
        ("g/2026-01-01.json", &day.to_string()),
    ];
    let members: Vec<Member> =
        files.iter().map(|(name, text)| Member::stored(name, text.as_bytes())).collect();
    let report = import(&rig, rig.write("export.zip", zip(&members)));
    assert_eq!(counts(&report), (3, 0, 0, 0));
    assert!(!format!("{:?}", all(&rig)).contains("SECRET"), "{:?}", all(&rig));
    assert_eq!(rig.record("C1/1.1")["subtype"], "message_deleted");
    assert_eq!(rig.record("C1/2.2")["text"], "new");
}

#[test]
fn a_name_that_is_not_an_identifier_attaches_no_file() {
    // Other files in the folder of an export, and identifiers that begin their names.
    let beside = "taxes.pdf|below/taxes.pdf|file-.pdf|file-a b.pdf|file.pdf|f.pdf|F.pdf|Fun.pdf";
    let ids = "taxes|below/taxes|below|file-|file_|file|file-a b|F|f|Fun|below/";
    let ids: Vec<String> =
        ids.split('|').flat_map(|id| [id.to_owned(), format!("{id}.pdf")]).collect();
    let parts: Vec<Json> =
        ids.iter().map(|id| json!({ "asset_pointer": format!("file-service://{id}") })).collect();
    let named: Vec<Json> = ids.iter().map(|id| json!({ "id": id, "name": "x" })).collect();
    let message = json!({ "content": { "parts": parts }, "metadata": { "attachments": named } });
    let chat = json!([{ "mapping": { "n": { "message": message } } }]).to_string();
    let day = json!([{ "ts": "1.1", "files": named }]).to_string();
    let import_beside = |export: &str, files: &[(&str, &str)]| {
        let rig = rig();
        for (name, text) in
            files.iter().copied().chain(beside.split('|').map(|name| (name, "SECRET")))
        {
            rig.write(&format!("{export}/{name}"), text.as_bytes());
        }
        assert_eq!(counts(&import(&rig, rig.folder.path().join(export))), (1, 0, 0, 0));
        let record = all(&rig)[0].clone();
        assert!(!record.to_string().contains("blob"), "{record}");
    };
    import_beside("chat", &[("conversations.json", &chat)]);
    let lists = [
        ("users.json", "[]"),
        ("channels.json", r#"[{"id":"C1","name":"g"}]"#),
        ("g/2026-01-01.json", &day),
    ];
    import_beside("talk", &lists);
}

#[test]
fn copies_that_differ_are_kept_under_keys_of_their_own() {
    let rig = rig();
    let mail = |text: &str| format!("{FROM}Message-ID: <1@x>\n\n{text}\n\n");
    let mailbox = ["one", "one", "two", "one", "three"].map(mail).concat();
    let path = rig.write("a.mbox", mailbox.as_bytes());
    assert_eq!(counts(&import(&rig, path.clone())), (3, 0, 2, 0));
    let keys = rig.keys();
    assert!(
        keys.iter().filter(|key| key.starts_with("1@x#") && key.len() == 20).count() == 2
            && keys.contains(&"1@x".to_owned()),
        "{keys:?}"
    );
    assert_eq!(rig.record("1@x")["body"], "one\n");
    assert_eq!(counts(&import(&rig, path)), (0, 0, 5, 0));
}

#[test]
fn a_forged_identifier_does_not_replace_a_stored_mail() {
    let rig = rig();
    let mail = |id: &str, label: &str, text: &str| {
        format!("{FROM}Message-ID: <{id}>\nX-Gmail-Labels: {label}\n\n{text}\n\n")
    };
    let import =
        |mails: &[String]| counts(&import(&rig, rig.write("a.mbox", mails.concat().as_bytes())));
    let (mine, theirs) = (mail("1@x", "Inbox", "mine"), mail("1@x", "Inbox", "theirs"));
    assert_eq!(import(std::slice::from_ref(&mine)), (1, 0, 0, 0));
    // Their mailbox has only their message.
    assert_eq!(import(std::slice::from_ref(&theirs)), (1, 0, 0, 0));
    assert_eq!(rig.record("1@x")["body"], "mine\n");
    let copy = rig.keys().into_iter().find(|key| key.starts_with("1@x#")).unwrap();
    for order in [[theirs.clone(), mine.clone()], [mine.clone(), theirs.clone()]] {
        assert_eq!(import(&order), (0, 0, 2, 0), "each keeps its key, in whatever order they come");
    }
    // A message whose identifier is the copy's key, before or after the copy.
    let posing = mail(&copy, "Inbox", "posing");
    assert_eq!(import(&[posing.clone(), theirs.clone()]), (1, 0, 1, 0));
    assert_eq!(import(&[theirs, posing]), (0, 0, 2, 0));
    assert_eq!(rig.record(&copy)["body"], "theirs\n");
    // The owner sets the labels.
    assert_eq!(
        import(&[mail("1@x", "Archived", "theirs"), mail("1@x", "Archived", "mine")]),
        (0, 2, 0, 0)
    );
    assert_eq!(rig.record("1@x")["labels"], "Archived");
    let other = self::rig();
    let both = [mail(&copy, "Inbox", "posing"), mine, mail("1@x", "Inbox", "theirs")].concat();
    assert_eq!(counts(&self::import(&other, other.write("a.mbox", both.as_bytes()))), (3, 0, 0, 0));
}

#[test]
fn bad_rows_are_reported_by_file_and_line() {
    let rig = rig();
    let mailbox = format!("{FROM}A: b\n\nx\n\n{FROM}Subject: {}\n", "y".repeat(2 << 20));
    let path = rig.write("export.mbox", mailbox.as_bytes());
    let report = import(&rig, path.clone());
    assert_eq!(
        (counts(&report), codes(&report)),
        ((1, 0, 0, 1), vec![("export.mbox", "header_too_large")])
    );
    assert_eq!(report.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [6]);
    let other = self::rig();
    let error = import_error(&other, path, &mbox::IMPORTER, BadRowPolicy::StoreNothing);
    assert!(error.contains("header_too_large") && other.streams().is_empty(), "{error}");

    let mut chats = members("chatgpt", "");
    chats.push(Member::stored(
        "conversations-001.json",
        br#"[{"title":"x"}, 7, {"mapping":{"a":{"message":7},"b":8}}, {"mapping":[]}"#,
    ));
    chats.push(Member::stored("../conversations.json", b"[]"));
    chats.push(Member { flags: 1, ..Member::stored("conversations-002.json", b"[]") });
    let path = other.write("export.zip", zip(&chats));
    let report = import(&other, path);
    assert_eq!(counts(&report), (9, 0, 0, 6));
    assert_eq!(
        codes(&report),
        [
            ("export.zip/../conversations.json", "unsafe_name"),
            ("export.zip/conversations-002.json", "encrypted"),
            ("export.zip/conversations-001.json", "no_conversation"),
            ("export.zip/conversations-001.json", "not_an_object"),
            ("export.zip/conversations-001.json", "no_conversation"),
            ("export.zip/conversations-001.json", "invalid_json"),
        ]
    );

    let mut slack = members("slack", "");
    slack.push(Member::stored(
        "garden/2026-04-01.json",
        br#"[{"text":"no time"}, {"ts":"x"}, {"ts":"1.000001","text":"good"}]"#,
    ));
    slack.push(Member {
        crc: 1,
        ..Member::stored("garden/2026-04-02.json", br#"[{"ts":"2.000001"}]"#)
    });
    slack.push(Member {
        size: 9999,
        ..Member::stored("garden/2026-04-03.json", br#"[{"ts":"3.000001"}]"#)
    });
    slack.push(Member::stored("unlisted/2026-04-04.json", br#"[{"ts":"4.000001"}]"#));
    slack.push(Member::stored("garden/canvas.json", b"nonsense"));
    let third = self::rig();
    let report = import(&third, third.write("export.zip", zip(&slack)));
    assert_eq!(counts(&report), (10, 0, 0, 4), "{:?}", report.bad);
    let day = |day: &str| format!("export.zip/garden/2026-04-0{day}.json");
    let (first, second, last) = (day("1"), day("2"), day("3"));
    assert_eq!(
        codes(&report),
        [
            (first.as_str(), "no_message"),
            (&first, "no_message"),
            (&second, "unreadable"),
            (&last, "unreadable")
        ]
    );
    assert_eq!(third.record("unlisted/4.000001")["channel"], "unlisted");
}

#[test]
fn a_zip_bomb_is_refused_or_cut_off() {
    let rig = rig();
    // 200 MB of white space in an array. The directory of the zip file states the size, or lies.
    let long = Member::deflated(
        "conversations.json",
        &[b"[".as_slice(), &vec![b' '; 200_000_000]].concat(),
    );
    assert!(long.data.len() < 300_000);
    let path = rig.write(
        "export.zip",
        zip(&[long.clone(), Member { name: b"other".to_vec(), size: u32::MAX, ..long.clone() }]),
    );
    let error = import_error(&rig, path, &chatgpt::IMPORTER, BadRowPolicy::Skip);
    assert!(error.contains("1,000 times its own size"), "{error}");
    let lying = rig.write("export.zip", zip(&[Member { size: 1000, ..long }]));
    let report = import(&rig, lying);
    assert_eq!(
        (counts(&report), codes(&report)),
        ((0, 0, 0, 1), vec![("export.zip/conversations.json", "unreadable")])
    );
    assert!(rig.streams().is_empty());
}

#[test]
fn a_path_is_recognised_by_its_name_its_contents_and_its_extension() {
    let rig = rig();
    let name_of = |path: &Path| {
        let found = recognise(IMPORTERS, path).map_err(|error| error.to_string());
        found.map(|found| found.map(|importer| importer.name))
    };
    let check = |name: &str, bytes: &[u8], expected: Option<&str>| {
        assert_eq!(name_of(&rig.write(name, bytes)), Ok(expected), "{name}");
    };
    check("a/x.mbox", b"", Some("mbox"));
    check("a/x.txt", b"From ann", Some("mbox"));
    check("a/x.csv", b"From ann", Some("mbox"));
    check("a/x", b"From", None);
    check("a/conversations.json", b"PK, and not a zip file", Some("chatgpt"));
    check("a/conversations-12.json", b"", Some("chatgpt"));
    check("a/conversations-x.json", b"", Some("json"));
    check("a/x.csv", b"", Some("csv"));
    check("a/x.MD", b"", Some("markdown"));
    check("a/x.zip", &zip(&members("slack", "x/")), Some("slack"));
    check("a/x.zip", &zip(&members("chatgpt", "x/")), Some("chatgpt"));
    let both = [members("chatgpt", "x/"), members("slack", "x/")].concat();
    check("a/x.zip", &zip(&both), Some("slack"));
    let neither = [Member::stored("a.json", b"[]"), Member::stored("b.json", b"[]")];
    check("a/x.zip", &zip(&neither), None);
    let broken = rig.write("a/x.zip", b"PK\x03\x04 and no more");
    assert!(name_of(&broken).unwrap_err().contains("not a whole zip file"));
    for (folder, expected) in [("slack", "slack"), ("chatgpt", "chatgpt"), ("journal", "markdown")]
    {
        assert_eq!(name_of(&sample(folder)), Ok(Some(expected)));
    }
    let missing = rig.folder.path().join("none.csv");
    assert_eq!(name_of(&missing), Ok(Some("csv")), "reading it reports that it is missing");
    let error = import_error(&rig, sample("journal"), &slack::IMPORTER, BadRowPolicy::Skip);
    assert!(error.contains("there is no `users.json` beside a `channels.json`"), "{error}");
    let error = import_error(&rig, sample("journal"), &chatgpt::IMPORTER, BadRowPolicy::Skip);
    assert!(error.contains("there is no `conversations.json`"), "{error}");
}

/// An importer that a test adds: lines such as `!toy` and then `1=one`.
static TOY: Importer = Importer {
    name: "toy",
    description: "a toy",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning([b'!', b't', b'o', b'y', ..])),
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| {
        let mut text = String::new();
        files::open(path)?.reader.read_to_string(&mut text)?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Ok(Box::new(ToyRows { lines, next: 1 }))
    },
    declaration: StreamDeclaration::InferredWithKey {
        field: "number",
        reason: "toys have numbers",
    },
};

struct ToyRows {
    lines: Vec<String>,
    next: usize,
}

impl ImportRows for ToyRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let Some(line) = self.lines.get(self.next) else { return Ok(None) };
        self.next += 1;
        let (number, name) = line.split_once('=').unwrap();
        let field = |name: &str, text: &str| (name.to_owned(), FieldValue::Text(text.to_owned()));
        let row = ImportRow::new(vec![field("number", number), field("name", name)]);
        Ok(Some(LocatedRow { file: "toy".into(), line: self.next as u64, row: Ok(row) }))
    }

    fn consumed(&self) -> u64 {
        0
    }
}

#[test]
fn an_importer_needs_only_its_declaration_and_a_place_in_the_list() {
    let importers: Vec<&Importer> = IMPORTERS.iter().copied().chain([&TOY]).collect();
    assert!(named(IMPORTERS, "toy").is_none());
    assert_eq!(named(&importers, "toy").unwrap().description, "a toy");
    let rig = rig();
    let path = rig.write("toys.csv", "!toy\n1=one\n2=two\n");
    assert_eq!(recognise(IMPORTERS, &path).unwrap().unwrap().name, "csv");
    let importer = recognise(&importers, &path).unwrap().unwrap();
    assert_eq!(importer.name, "toy");
    let report =
        rig.import(&[ImportInput::whole(path, importer)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
    assert_eq!(counts(&report), (2, 0, 0, 0));
    assert!(report.declared_because.contains(&"toys have numbers".to_owned()));
    assert_eq!(rig.keys(), ["1", "2"]);
    assert_eq!(rig.record("2"), json!({ "number": "2", "name": "two" }));
}

#[test]
fn importers_have_names_of_their_own() {
    for importer in IMPORTERS {
        assert!(std::ptr::eq(named(IMPORTERS, importer.name).unwrap(), *importer));
        assert_ne!(importer.name, "stile", "restoring an export has this name");
    }
}
