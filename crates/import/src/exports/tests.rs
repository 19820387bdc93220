//! The samples, imported as they are, zipped, twice, and with what does not belong there.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_testkit::zip::{Member, Zip};

use super::super::input::{Format, Input};
use super::super::run::{Import, Report};
use crate::rig::{Rig, owner, rig};

fn sample(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/records").join(name)
}

fn import_as(
    rig: &Rig,
    path: PathBuf,
    format: Option<Format>,
    strict: bool,
) -> Result<Report, String> {
    let (connection, stream) = (SourceName::parse("c").unwrap(), SourceName::parse("s").unwrap());
    let format = match format {
        Some(format) => format,
        None => Format::of(&path).map_err(|error| error.to_string())?.ok_or("no format")?,
    };
    let (services, caller) = (&rig.services, &owner());
    let import = Import {
        services,
        caller,
        connection: &connection,
        stream: &stream,
        key: &[],
        strict,
        now: Instant(7),
    };
    import.run(&[Input { path, format }], &mut |_| ()).map_err(|stopped| stopped.to_string())
}

fn import(rig: &Rig, path: PathBuf) -> Report {
    import_as(rig, path, None, false).unwrap()
}

fn counts(report: &Report) -> (u64, u64, u64, u64) {
    (report.added, report.changed, report.same, report.bad_rows)
}

fn codes(report: &Report) -> Vec<(&str, &str)> {
    let name = |file: &'_ str| file.find("export").map_or(0, |at| at);
    report.bad.iter().map(|bad| (&bad.file[name(&bad.file)..], bad.code)).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
fn write(rig: &Rig, name: &str, bytes: &[u8]) -> PathBuf {
    let path = rig.folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
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
    let mut records: Vec<Json> =
        rig.keys("s").iter().map(|key| rig.record("s", key)["data"].clone()).collect();
    records.sort_by_key(Json::to_string);
    records
}

#[test]
fn a_mailbox_becomes_messages_with_threads_and_attachments() {
    let rig = rig();
    let report = import(&rig, sample("mailbox.mbox"));
    assert_eq!((counts(&report), &report.bad), ((4, 0, 0, 0), &vec![]));
    assert!(report.because[0].contains("`message_id` is the key"), "{:?}", report.because);
    let first = &rig.record("s", "quince-1@example.org")["data"];
    assert_eq!(first["subject"], "Quince tree – when to prune?");
    assert_eq!(first["from"], "Sigrún Jónsdóttir <sigrun@example.org>");
    assert_eq!(first["to"], "Ann <ann@example.org>, Okafor, Bola <bola@example.com>");
    assert!(
        first["body"].as_str().unwrap().contains("before the equinox, it will be done"),
        "{first}"
    );
    assert!(first["body"].as_str().unwrap().contains("\nFrom the shed you can see"), "{first}");
    assert_eq!(first["date"], "2026-03-07T10:15:00+01:00");
    let second = &rig.record("s", "quince-2@example.com")["data"];
    assert_eq!(
        (&second["thread"], &second["in_reply_to"]),
        (&json!("quince-1@example.org"), &json!("quince-1@example.org"))
    );
    let reference = json!({ "source_id": "c", "stream": "s", "record_id": "quince-1@example.org" });
    assert_eq!((&second["thread_ref"], &second["in_reply_to_ref"]), (&reference, &reference));
    assert_eq!(
        second["body"],
        "Agreed. I have drawn which branches can go; the picture is attached.\n"
    );
    let picture = &second["attachments"][0];
    assert_eq!(
        (&picture["filename"], &picture["mime_type"], &picture["size_bytes"]),
        (&json!("branches.png"), &json!("image/png"), &json!(194))
    );
    assert!(picture["fetch_url"].as_str().unwrap().starts_with("/v1/blobs/sha256-"), "{picture}");
    let third = &rig.record("s", "list-77@seeds.example")["data"];
    assert_eq!(
        third["body"],
        "Your swap list\nBroad beans 40 seeds\nCafé au lait dahlia 2 tubers\nSee you at the market hall & bring labels."
    );
    let told = all(&rig);
    let old = told.iter().find(|record| record["subject"] == "An old one").unwrap();
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
    let record = |last: &str| rig.record("s", &id(last))["data"].clone();
    assert_eq!(
        record("2"),
        json!({
            "id": id("2"), "conversation_id": "69ac0000-0000-4000-8000-0000000000aa", "conversation_title": "Quince and frost",
            "role": "user", "created_at": "2026-03-07T09:00:00.123456Z", "content_type": "text",
            "text": "How cold may it get before quince blossom is lost?", "on_current_branch": true,
        })
    );
    assert_eq!(
        (&record("3")["on_current_branch"], &record("3")["model"]),
        (&json!(false), &json!("gpt-5-mini"))
    );
    let answer = record("4");
    assert_eq!(
        (&answer["parent_id"], &answer["on_current_branch"]),
        (&json!(id("2")), &json!(true))
    );
    assert_eq!(
        answer["parent_ref"],
        json!({ "source_id": "c", "stream": "s", "record_id": id("2") })
    );
    assert!(answer["text"].as_str().unwrap().contains("about -2 °C.\n\nA fleece"), "{answer}");
    let shown = record("5");
    assert_eq!(shown["text"], "Here is the wall. Where would the fleece hang?");
    assert_eq!(
        (&shown["attachments"][0]["filename"], &shown["attachments"][0]["size_bytes"]),
        (&json!("north wall.png"), &json!(194))
    );
    let code = rig.record("s", "0b77d1e0-0000-4000-8000-000000000003")["data"].clone();
    assert_eq!(
        (&code["text"], &code["content_type"]),
        (&json!("sum([3.5, 0, 12, 7.25])"), &json!("code"))
    );
    // The same in a zip file, below a folder of it, and once more: nothing changes.
    let zipped = write(&rig, "export.zip", &zip(&members("chatgpt", "")));
    assert_eq!(counts(&import(&rig, zipped)), (0, 0, 9, 0));
    let deeper = write(&rig, "deeper.zip", &zip(&members("chatgpt", "my export/")));
    assert_eq!(counts(&import(&rig, deeper)), (0, 0, 9, 0));
    // The file alone has no pictures, and says what there was.
    let other = self::rig();
    assert_eq!(counts(&import(&other, sample("chatgpt/conversations.json"))), (9, 0, 0, 0));
    assert_eq!(
        other.record("s", &id("5"))["data"]["attachments"],
        json!([{ "filename": "north wall.png" }])
    );
}

#[test]
fn a_slack_export_becomes_messages_from_a_folder_or_a_zip() {
    let rig = rig();
    let report = import(&rig, sample("slack"));
    assert_eq!((counts(&report), &report.bad), ((6, 0, 0, 0), &vec![]));
    let record = |key: &str| rig.record("s", key)["data"].clone();
    assert_eq!(
        record("C0GARDEN1/1772877600.123456"),
        json!({
            "id": "C0GARDEN1/1772877600.123456", "channel": "garden", "channel_id": "C0GARDEN1", "user": "U0BOLA001",
            "user_name": "Bola Okafor", "at": "2026-03-07T10:00:00.123456Z", "text": "I do, @Ann, if it is > 3 °C on Sunday.",
            "thread_ts": "1772874000.000200", "thread_id": "C0GARDEN1/1772874000.000200",
            "thread_ref": { "source_id": "c", "stream": "s", "record_id": "C0GARDEN1/1772874000.000200" },
            "is_reply": true, "edited_at": "2026-03-07T10:01:00Z",
        })
    );
    let began = record("C0GARDEN1/1772874000.000200");
    assert_eq!(
        began["text"],
        "Who takes the fleece down? @channel see the forecast (https://example.org/frost?station=3&day=7)"
    );
    assert_eq!((&began["is_reply"], &began["reactions"][0]["count"]), (&json!(false), &json!(2)));
    assert_eq!(record("C0GARDEN1/1772870400.000100")["subtype"], "channel_join");
    let shared = record("C0GARDEN1/1772960400.000000");
    assert_eq!(
        (&shared["text"], &shared["user_name"]),
        (&json!("The plan of the beds, as promised in #allotment-plans."), &json!("wei 🌱"))
    );
    assert_eq!(
        shared["files"][0]["url_private"],
        "https://files.slack.com/files-pri/T0GARDEN0-F0BEDS001/beds.pdf"
    );
    assert!(!shared.to_string().contains("invented"), "the token of a link is gone: {shared}");
    assert_eq!(record("G0PLANS01/1772964000.000300")["channel"], "allotment-plans");
    assert_eq!(record("D0QUINCE1/1773046800.000000")["channel"], "Ann, wei 🌱");
    let mut zipped = members("slack", "garden export/");
    let path = write(&rig, "export.zip", &zip(&zipped));
    assert_eq!(counts(&import(&rig, path)), (0, 0, 6, 0));
    // A file that was put beside the messages is stored with its message.
    zipped.push(Member::stored("garden export/garden/attachments/F0BEDS001-beds.pdf", b"%PDF-"));
    let path = write(&rig, "export2.zip", &zip(&zipped));
    assert_eq!(counts(&import(&rig, path)), (0, 1, 5, 0));
    let shared = rig.record("s", "C0GARDEN1/1772960400.000000")["data"].clone();
    assert_eq!(
        (&shared["attachments"][0]["mime_type"], &shared["attachments"][0]["size_bytes"]),
        (&json!("application/pdf"), &json!(5))
    );
}

#[test]
fn the_last_state_of_a_message_counts() {
    let rig = rig();
    let days = [
        ("users.json", "[]"),
        ("channels.json", r#"[{"id":"C1","name":"g"}]"#),
        (
            "g/2026-01-01.json",
            r#"[{"ts":"1.1","text":"old"},{"ts":"2.2","text":"secret"},{"ts":"3.3","text":"kept"},
            {"subtype":"message_changed","ts":"4.4","message":{"ts":"1.1","text":"older","user":"U1"}}]"#,
        ),
        (
            "g/2026-01-02.json",
            r#"[{"subtype":"message_changed","ts":"5.5","message":{"ts":"1.1","text":"new"}},
            {"subtype":"message_deleted","ts":"6.6","deleted_ts":"2.2","previous_message":{"text":"secret"}}]"#,
        ),
    ];
    let members: Vec<Member> =
        days.iter().map(|(name, text)| Member::stored(name, text.as_bytes())).collect();
    let path = write(&rig, "export.zip", &zip(&members));
    assert_eq!(counts(&import(&rig, path.clone())), (3, 0, 0, 0));
    let texts: Vec<Json> = ["C1/1.1", "C1/2.2", "C1/3.3"]
        .map(|key| rig.record("s", key)["data"]["text"].clone())
        .into();
    assert_eq!(texts, [json!("new"), json!(null), json!("kept")]);
    assert_eq!(rig.record("s", "C1/2.2")["data"]["subtype"], "message_deleted");
    assert_eq!(counts(&import(&rig, path)), (0, 0, 3, 0));
}

#[test]
fn security_the_last_state_counts_however_a_day_is_laid_out() {
    let rig = rig();
    let day = r#"[{"ts":"1.1","text":"SECRET one"},{"ts":"2.2","text":"SECRET two"},{"ts":"3.3","text":"kept"},{"subtype":"message_deleted","ts":"4.4","deleted_ts":"1.1"},{"subtype":"message_changed","ts":"5.5","message":{"ts":"2.2","text":"SECRET three"}},{"subtype":"message_changed","ts":"6.6","message":{"ts":"2.2","text":"new"}}]"#;
    let files = [
        ("users.json", "[]"),
        ("channels.json", r#"[{"id":"C1","name":"g"}]"#),
        ("g/2026-01-01.json", day),
    ];
    let members: Vec<Member> =
        files.iter().map(|(name, text)| Member::stored(name, text.as_bytes())).collect();
    let report = import(&rig, write(&rig, "export.zip", &zip(&members)));
    assert_eq!(counts(&report), (3, 0, 0, 0));
    assert!(!format!("{:?}", all(&rig)).contains("SECRET"), "{:?}", all(&rig));
    assert_eq!(rig.record("s", "C1/1.1")["data"]["subtype"], "message_deleted");
    assert_eq!(rig.record("s", "C1/2.2")["data"]["text"], "new");
}

#[test]
fn security_a_message_attaches_no_file_by_a_name_that_is_no_identifier() {
    // What else lies in the folder of an export, and what names the beginning of its name.
    let beside = [
        "taxes.pdf",
        "below/taxes.pdf",
        "file-.pdf",
        "file-a b.pdf",
        "file.pdf",
        "f.pdf",
        "F.pdf",
        "Fun.pdf",
    ];
    let ids = [
        "taxes",
        "below/taxes",
        "below",
        "file-",
        "file_",
        "file",
        "file-a b",
        "F",
        "f",
        "Fun",
        "below/",
    ];
    let ids: Vec<String> =
        ids.iter().flat_map(|id| [(*id).to_owned(), format!("{id}.pdf")]).collect();
    let parts: Vec<Json> =
        ids.iter().map(|id| json!({ "asset_pointer": format!("file-service://{id}") })).collect();
    let named: Vec<Json> = ids.iter().map(|id| json!({ "id": id, "name": "x" })).collect();
    let said = json!({ "content": { "parts": parts }, "metadata": { "attachments": named } });
    let chat = json!([{ "mapping": { "n": { "message": said } } }]).to_string();
    let day = json!([{ "ts": "1.1", "files": named }]).to_string();
    let put = |export: &str, files: &[(&str, &str)]| {
        let rig = rig();
        for (name, text) in files.iter().copied().chain(beside.map(|name| (name, "SECRET"))) {
            write(&rig, &format!("{export}/{name}"), text.as_bytes());
        }
        assert_eq!(counts(&import(&rig, rig.folder.path().join(export))), (1, 0, 0, 0));
        let told = all(&rig)[0].clone();
        assert!(!told.to_string().contains("blob"), "{told}");
    };
    put("chat", &[("conversations.json", &chat)]);
    let lists = [
        ("users.json", "[]"),
        ("channels.json", r#"[{"id":"C1","name":"g"}]"#),
        ("g/2026-01-01.json", &day),
    ];
    put("talk", &lists);
}

#[test]
fn copies_that_differ_stay_apart_and_come_back() {
    let rig = rig();
    let one = "From a Thu Jan  1 00:00:00 2026\nMessage-ID: <1@x>\n\none\n\n";
    let mailbox =
        [one, one, &one.replace("one", "two"), one, &one.replace("one", "three")].concat();
    let path = write(&rig, "a.mbox", mailbox.as_bytes());
    assert_eq!(counts(&import(&rig, path.clone())), (3, 0, 2, 0));
    let keys = rig.keys("s");
    assert!(
        keys.iter().filter(|key| key.starts_with("1@x#") && key.len() == 20).count() == 2
            && keys.contains(&"1@x".to_owned()),
        "{keys:?}"
    );
    assert_eq!(rig.record("s", "1@x")["data"]["body"], "one\n");
    assert_eq!(counts(&import(&rig, path)), (0, 0, 5, 0));
}

#[test]
fn security_a_mail_with_the_identifier_of_another_does_not_replace_it() {
    let rig = rig();
    let mail = |id: &str, label: &str, text: &str| {
        format!(
            "From a Thu Jan  1 00:00:00 2026\nMessage-ID: <{id}>\nX-Gmail-Labels: {label}\n\n{text}\n\n"
        )
    };
    let import =
        |mails: &[String]| counts(&import(&rig, write(&rig, "a.mbox", mails.concat().as_bytes())));
    let (mine, theirs) = (mail("1@x", "Inbox", "mine"), mail("1@x", "Inbox", "theirs"));
    assert_eq!(import(std::slice::from_ref(&mine)), (1, 0, 0, 0));
    // Their file holds only theirs.
    assert_eq!(import(std::slice::from_ref(&theirs)), (1, 0, 0, 0));
    assert_eq!(rig.record("s", "1@x")["data"]["body"], "mine\n");
    let copy = rig.keys("s").into_iter().find(|key| key.starts_with("1@x#")).unwrap();
    for order in [[theirs.clone(), mine.clone()], [mine.clone(), theirs.clone()]] {
        assert_eq!(import(&order), (0, 0, 2, 0), "each is where it was, in whatever order");
    }
    // A message that is called as the copy is, before or after it.
    let posing = mail(&copy, "Inbox", "posing");
    assert_eq!(import(&[posing.clone(), theirs.clone()]), (1, 0, 1, 0));
    assert_eq!(import(&[theirs, posing]), (0, 0, 2, 0));
    assert_eq!(rig.record("s", &copy)["data"]["body"], "theirs\n");
    // Labels are the owner's.
    assert_eq!(
        import(&[mail("1@x", "Archived", "theirs"), mail("1@x", "Archived", "mine")]),
        (0, 2, 0, 0)
    );
    assert_eq!(rig.record("s", "1@x")["data"]["labels"], "Archived");
    let other = self::rig();
    let both = [mail(&copy, "Inbox", "posing"), mine, mail("1@x", "Inbox", "theirs")].concat();
    assert_eq!(
        counts(&self::import(&other, write(&other, "a.mbox", both.as_bytes()))),
        (3, 0, 0, 0)
    );
}

#[test]
fn rows_that_cannot_be_used_are_told_by_file_and_line() {
    let rig = rig();
    let mailbox = format!(
        "From a Thu Jan  1 00:00:00 2026\nA: b\n\nx\n\nFrom a Thu Jan  1 00:00:00 2026\n\nno header\n\nFrom a Thu Jan  1 00:00:00 2026\nSubject: {}\n",
        "y".repeat(2 << 20)
    );
    let path = write(&rig, "export.mbox", mailbox.as_bytes());
    let report = import(&rig, path.clone());
    assert_eq!(
        (counts(&report), codes(&report)),
        ((1, 0, 0, 2), vec![("export.mbox", "no_header"), ("export.mbox", "header_too_large")])
    );
    assert_eq!(report.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [6, 10]);
    let other = self::rig();
    let error = import_as(&other, path, None, true).unwrap_err();
    assert!(error.contains("no_header") && other.streams().is_empty(), "{error}");

    let mut chats = members("chatgpt", "");
    chats.push(Member::stored(
        "conversations-001.json",
        br#"[{"title":"x"}, 7, {"mapping":{"a":{"message":7},"b":8}}, {"mapping":[]}"#,
    ));
    chats.push(Member::stored("../conversations.json", b"[]"));
    chats.push(Member { flags: 1, ..Member::stored("conversations-002.json", b"[]") });
    let path = write(&other, "export.zip", &zip(&chats));
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
    let report = import(&third, write(&third, "export.zip", &zip(&slack)));
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
    assert_eq!(third.record("s", "unlisted/4.000001")["data"]["channel"], "unlisted");
}

#[test]
fn security_a_bomb_in_an_export_is_refused_or_cut_short() {
    let rig = rig();
    // A gigabyte of white space behind an array that seems empty; the directory says so, or lies.
    let long = Member::deflated(
        "conversations.json",
        &[b"[".as_slice(), &vec![b' '; 200_000_000]].concat(),
    );
    assert!(long.data.len() < 300_000);
    let path = write(
        &rig,
        "export.zip",
        &zip(&[long.clone(), Member { name: b"other".to_vec(), size: u32::MAX, ..long.clone() }]),
    );
    let error = import_as(&rig, path, Some(Format::ChatGpt), false).unwrap_err();
    assert!(error.contains("1,000 times its own size"), "{error}");
    let lying = write(&rig, "export.zip", &zip(&[Member { size: 1000, ..long }]));
    let report = import(&rig, lying);
    assert_eq!(
        (counts(&report), codes(&report)),
        ((0, 0, 0, 1), vec![("export.zip/conversations.json", "unreadable")])
    );
    assert!(rig.streams().is_empty());
}

#[test]
fn what_a_path_is_is_seen_from_its_name_and_its_beginning() {
    let rig = rig();
    let is = |name: &str, bytes: &[u8]| {
        Format::of(&write(&rig, name, bytes)).map_err(|error| error.to_string())
    };
    assert_eq!(is("a/x.mbox", b""), Ok(Some(Format::Mbox)));
    assert_eq!(is("a/x.txt", b"From ann"), Ok(Some(Format::Mbox)));
    assert_eq!(is("a/x", b"From"), Ok(None));
    assert_eq!(is("a/conversations.json", b""), Ok(Some(Format::ChatGpt)));
    assert_eq!(is("a/conversations-12.json", b""), Ok(Some(Format::ChatGpt)));
    assert_eq!(is("a/conversations-x.json", b""), Ok(Some(Format::Json)));
    assert_eq!(is("a/x.csv", b""), Ok(Some(Format::Csv)));
    assert_eq!(is("a/x.zip", &zip(&members("slack", "x/"))), Ok(Some(Format::Slack)));
    assert_eq!(is("a/x.zip", &zip(&members("chatgpt", "x/"))), Ok(Some(Format::ChatGpt)));
    assert_eq!(
        is("a/x.zip", &zip(&[Member::stored("a.json", b"[]"), Member::stored("b.json", b"[]")])),
        Ok(None)
    );
    assert!(is("a/x.zip", b"PK\x03\x04 and no more").unwrap_err().contains("not a whole zip file"));
    for (folder, format) in
        [("slack", Format::Slack), ("chatgpt", Format::ChatGpt), ("journal", Format::Markdown)]
    {
        assert_eq!(Format::of(&sample(folder)).unwrap(), Some(format));
    }
    assert_eq!(
        Format::of(&rig.folder.path().join("none.csv")).unwrap(),
        Some(Format::Csv),
        "it says so when it is read"
    );
    let error = import_as(&rig, sample("journal"), Some(Format::Slack), false).unwrap_err();
    assert!(error.contains("there is no `users.json` beside a `channels.json`"), "{error}");
    let error = import_as(&rig, sample("journal"), Some(Format::ChatGpt), false).unwrap_err();
    assert!(error.contains("there is no `conversations.json`"), "{error}");
}
