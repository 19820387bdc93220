//! The owner's day with records, on the samples and with the program itself: import, grant, export,
//! backup, and what is left after an accident.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use stile_testkit::process::Rig;

struct Day {
    folder: tempfile::TempDir,
    rig: Rig,
}

/// Output, errors and whether it went well.
struct Ran {
    output: String,
    errors: String,
    code: Option<i32>,
}

fn day() -> Day {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    Day { folder, rig }
}

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/records").join(name);
    path.to_str().unwrap().to_owned()
}

impl Day {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_in(&self, state: &Path, arguments: &[&str]) -> Ran {
        let ran = self.rig.command(arguments).arg("--state").arg(state).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { output: text(ran.stdout), errors: text(ran.stderr), code: ran.status.code() }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_in(&self.rig.state, arguments)
    }

    /// What a command prints that goes well.
    fn said(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.errors);
        ran.output
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.said(arguments)).unwrap()
    }

    fn import(&self, file: &str, connection: &str, stream: &str, more: &[&str]) -> String {
        let file = sample(file);
        self.said(
            &[&["import", &file, "--connection", connection, "--stream", stream], more].concat(),
        )
    }

    fn import_all(&self) {
        self.import("messages.jsonl", "chat", "messages", &[]);
        self.import("transactions.csv", "bank", "transactions", &[]);
        self.import("contacts.json", "phone", "contacts", &["--key", "email"]);
        self.import("journal", "notes", "journal", &[]);
    }
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn two_commands_make_two_exports_records_and_a_second_run_changes_nothing() {
    let day = day();
    assert_eq!(
        day.import("messages.jsonl", "chat", "messages", &[]),
        "added 30, changed 0, unchanged 0, bad 0\n"
    );
    assert_eq!(
        day.import("transactions.csv", "bank", "transactions", &[]),
        "added 40, changed 0, unchanged 0, bad 0\n"
    );
    for (file, connection, stream, count) in [
        ("messages.jsonl", "chat", "messages", 30),
        ("transactions.csv", "bank", "transactions", 40),
    ] {
        let again = day.import(file, connection, stream, &[]);
        assert_eq!(
            again,
            format!("added 0, changed 0, unchanged {count}, bad 0\nnothing has changed\n")
        );
    }
    day.import("contacts.json", "phone", "contacts", &["--key", "email"]);
    day.import("journal", "notes", "journal", &[]);
    insta::assert_snapshot!(day.said(&["streams"]), @r"
    CONNECTION  STREAM        RECORDS  FIELDS  ORDERED BY  TIME
    phone       contacts      5        5       born        born
    notes       journal       3        6       date        date
    chat        messages      30       6       sent_at     sent_at
    bank        transactions  40       5       booked_on   booked_on
    ");
    insta::assert_snapshot!(day.said(&["connections"]), @r"
    CONNECTION  RECORDS  STREAMS
    bank        40       transactions
    chat        30       messages
    notes       3        journal
    phone       5        contacts
    ");
    let streams = day.json(&["streams", "--json"]);
    assert_eq!(streams[0]["primary_key"], serde_json::json!(["email"]));
    let shown = day.json(&["records", "show", "messages", "m-021", "--preview-chars", "10"]);
    assert_eq!(shown["data"]["body"], "Minutes of");
    let note = day.json(&["records", "show", "journal", "2026-01-03 frost.md"]);
    assert_eq!(note["data"]["title"], "First hard frost");
}

#[test]
fn a_client_is_granted_two_fields_since_january_until_it_is_revoked() {
    let day = day();
    day.import_all();
    let create = [
        "grant", "create", "--client", "cursor", "--stream", "messages", "--field", "author",
        "--field", "body",
    ];
    let id =
        day.said(&[&create[..], &["--since", "2026-01-01", "--purpose", "to sum up"]].concat());
    let id = id.trim_end();
    assert!(id.starts_with("grt_") && !id.contains('\n'));
    let shown = day.json(&["grant", "show", id]);
    assert_eq!(shown["status"], "active");
    let share = &shown["grant"]["streams"][0];
    assert_eq!(share["fields"], serde_json::json!(["author", "body"]));
    assert_eq!(
        share["time_constraint"],
        serde_json::json!({ "field": "sent_at", "since": "2026-01-01T00:00:00Z" })
    );
    let listed = day.said(&["grant", "list"]);
    let line = listed.lines().nth(1).unwrap();
    assert!(line.contains("cursor  active") && line.ends_with("  to sum up"), "{listed}");
    assert_eq!(day.said(&["token", "--grant", id]).trim_end().split('.').count(), 3);
    assert!(day.said(&["grant", "revoke", id]).contains("is revoked"));
    assert!(day.said(&["grant", "revoke", id]).contains("was revoked before"));
    assert_eq!(day.json(&["grant", "list", "--json"])[0]["status"], "revoked");
    assert!(
        day.run(&["token", "--grant", id])
            .errors
            .contains("is revoked, so the token will be refused")
    );
    let wrong = day.run(&[&create[..], &["--field", "bdy"]].concat());
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.errors.contains("declares no field `bdy`; the fields are author, body, id"),
        "{}",
        wrong.errors
    );
    let unknown = day.run(&["token", "--grant", "grt_none"]);
    assert_eq!((unknown.code, unknown.output.as_str()), (Some(1), ""));
}

#[test]
fn several_streams_are_granted_by_a_file() {
    let day = day();
    day.import_all();
    let file = day.at("streams.json");
    std::fs::write(
        &file,
        r#"[{"name":"contacts","resources":["ann@example.org"]},{"name":"journal","fields":["title"]}]"#,
    )
    .unwrap();
    let id = day.said(&[
        "grant",
        "create",
        "--client",
        "c",
        "--from",
        file.to_str().unwrap(),
        "--expires",
        "30d",
    ]);
    let shown = day.json(&["grant", "show", id.trim_end()]);
    assert_eq!(
        shown["grant"]["streams"][0]["fields"],
        serde_json::json!(["address", "born", "email", "name", "tags"])
    );
}

#[test]
fn a_limit_in_a_file_of_a_grant_is_never_left_out_in_silence() {
    let day = day();
    day.import_all();
    let file = day.at("limited.json");
    let refused = |document: serde_json::Value, options: &[&str]| {
        std::fs::write(&file, document.to_string()).unwrap();
        let from = ["grant", "create", "--client", "c", "--from", file.to_str().unwrap()];
        let refused = day.run(&[&from[..], options].concat());
        assert_eq!(refused.code, Some(2), "{document}: {}", refused.errors);
        assert_eq!(day.json(&["grant", "list", "--json"]), serde_json::json!([]));
        assert!(!refused.errors.contains("struct"), "{document}: {}", refused.errors);
        refused.errors
    };
    for document in [serde_json::json!("x"), serde_json::json!({ "streams": ["contacts"] })] {
        refused(document, &[]);
    }
    for member in ["client", "expires_at", "access_mode", "source", "retention", "limit", "version"]
    {
        let limited = serde_json::json!({ "streams": [{ "name": "contacts" }], member: "x" });
        let errors = refused(limited, &[]);
        assert!(errors.contains("no grant was made"), "{member}: {errors}");
    }
    let limited = |member: &str, value: &str| {
        let mut document = serde_json::json!({ "streams": [{ "name": "contacts" }] });
        document[member] = value.into();
        document
    };
    refused(limited("expires_at", "2099-01-01T00:00:00Z"), &["--expires", "1d"]);
    refused(limited("purpose_description", "x"), &["--purpose", "y"]);
    refused(limited("access_mode", "continuous"), &["--single-use"]);
    refused(limited("purpose_code", "not an address"), &[]);
    refused(limited("expires_at", "2020-01-01T00:00:00Z"), &[]);
    let source = serde_json::json!({ "kind": "connector", "id": "https://sources.example/own" });
    refused(serde_json::json!({ "streams": [{ "name": "contacts" }], "source": source }), &[]);
    let client = serde_json::json!({ "client_id": "another" });
    refused(serde_json::json!({ "streams": [{ "name": "contacts" }], "client": client }), &[]);
    std::fs::write(&file, r#"[{ "name": "contacts" }]"#).unwrap();
    let unnamed = day.run(&["grant", "create", "--from", file.to_str().unwrap()]);
    assert_eq!(unnamed.code, Some(2));
    assert!(unnamed.errors.contains("names no client"), "{}", unnamed.errors);
}

#[test]
fn a_grant_in_the_shape_of_the_interface_is_made_whole_from_a_pipe() {
    let day = day();
    day.import_all();
    let document = serde_json::json!({
        "version": "0.1.0", "grant_id": "grt_theirs", "issued_at": "2026-01-01T00:00:00Z",
        "subject": { "id": "s" }, "client": { "client_id": "c" },
        "source": { "kind": "connector", "id": "https://sources.example/own" },
        "source_declaration": { "version": "1" }, "purpose_code": "https://purposes.example/x",
        "purpose_description": "to call people", "access_mode": "single_use",
        "streams": [{ "name": "contacts", "instance_ids": ["phone"] }],
        "retention": { "max_duration": "P6M", "on_expiry": "delete" },
        "expires_at": "2099-01-01T00:00:00Z",
    });
    let arguments = ["grant", "create", "--from", "-"];
    let mut command = day.rig.command(&arguments);
    command.arg("--state").arg(&day.rig.state);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut made = command.spawn().unwrap();
    made.stdin.take().unwrap().write_all(document.to_string().as_bytes()).unwrap();
    let made = made.wait_with_output().unwrap();
    assert!(made.status.success());
    let said = String::from_utf8(made.stderr).unwrap();
    let passed_over =
        "not taken over from the file: grant_id, issued_at, subject, source_declaration";
    assert!(said.contains(passed_over), "{said}");
    let id = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let shown = day.json(&["grant", "show", &id])["grant"].clone();
    for member in
        ["source", "purpose_code", "purpose_description", "access_mode", "retention", "client"]
    {
        assert_eq!(shown[member], document[member], "{member}");
    }
    assert_eq!(shown["streams"][0]["connection_ids"], serde_json::json!(["phone"]));
    assert_eq!(shown["expires_at"], "2099-01-01T00:00:00Z");
}

#[test]
fn a_request_of_a_client_is_resolved_from_the_declarations_and_frozen() {
    let day = day();
    day.import_all();
    let of = ["declare", "--connection", "bank", "--stream", "transactions"];
    let mut declared = day.json(&[&of[..], &["--show"]].concat());
    declared["views"] =
        serde_json::json!([{ "id": "sums", "label": "Sums", "fields": ["booked_on", "amount"] }]);
    let (declaration, file) = (day.at("declaration.json"), day.at("request.json"));
    let declare = |declared: &Value| {
        std::fs::write(&declaration, declared.to_string()).unwrap();
        day.said(&[&of[..], &["--from", declaration.to_str().unwrap()]].concat());
    };
    declare(&declared);
    let create = |request: &Value| {
        std::fs::write(&file, request.to_string()).unwrap();
        day.run(&["grant", "create", "--client", "c", "--from", file.to_str().unwrap()])
    };
    let request = serde_json::json!({
        "type": "https://pdpp.dev/data-access", "purpose_code": "https://purposes.example/x",
        "access_mode": "continuous",
        "streams": [{
            "name": "transactions", "view": "sums", "time_range": { "since": "2026-01-01" },
        }],
    });
    let made = create(&request);
    assert_eq!(made.code, Some(0), "{}", made.errors);
    let id = made.output.trim();
    let streams = serde_json::json!([{
        "name": "transactions", "connection_ids": ["bank"], "fields": ["amount", "booked_on"],
        "time_constraint": { "field": "booked_on", "since": "2026-01-01T00:00:00Z" },
    }]);
    assert_eq!(day.json(&["grant", "show", id])["grant"]["streams"], streams);
    // Neither the view nor the field of times is looked up again.
    declared["views"][0]["fields"] = serde_json::json!(["booked_on", "amount", "payee"]);
    declared["consent_time_field"] = Value::Null;
    declare(&declared);
    assert_eq!(day.json(&["grant", "show", id])["grant"]["streams"], streams);
    let refused = |member: &str, value: Value| {
        let mut other = request.clone();
        other["streams"][0][member] = value;
        let refused = create(&other);
        assert_eq!(refused.code, Some(2), "{}", refused.errors);
        assert!(refused.errors.contains("no grant was made"), "{}", refused.errors);
        refused.errors
    };
    let errors = refused("fields", serde_json::json!(["payee"]));
    assert!(errors.contains("`view` and `fields` exclude each other"), "{errors}");
    let errors = refused("view", "amounts".into());
    assert!(errors.contains("declares no view `amounts`"), "{errors}");
    let errors = refused("name", "transactions".into());
    assert!(errors.contains("declares no consent time field"), "{errors}");
    let mut other = request.clone();
    other["type"] = "payment_initiation".into();
    assert!(create(&other).errors.contains("`https://pdpp.dev/data-access`"));
}

#[test]
fn an_export_restored_elsewhere_is_exported_as_the_same_bytes() {
    let day = day();
    day.import_all();
    let (first, second, other) = (day.at("first"), day.at("second"), day.at("other"));
    let to = first.to_str().unwrap();
    assert_eq!(day.said(&["export", "--to", to]), "exported 78 records of 4 streams\n");
    assert_eq!(day.run(&["export", "--to", to]).code, Some(2), "the folder is not empty");
    let restored = day.run_in(&other, &["import", to, "--format", "stile"]);
    assert_eq!(
        (restored.output.as_str(), restored.code),
        ("added 78, changed 0, unchanged 0, bad 0\n", Some(0))
    );
    day.run_in(&other, &["export", "--to", second.to_str().unwrap()]);
    assert!(contents(&first) == contents(&second));
}

#[test]
fn a_declaration_is_shown_edited_and_inferred_again() {
    let day = day();
    day.import_all();
    let of = ["declare", "--connection", "bank", "--stream", "transactions"];
    let mut declared = day.json(&[&of[..], &["--show"]].concat());
    assert_eq!(declared["cursor_field"], "booked_on");
    declared["cursor_field"] = Value::Null;
    let file = day.at("edited.json");
    std::fs::write(&file, declared.to_string()).unwrap();
    let from = ["--from", file.to_str().unwrap()];
    assert_eq!(day.said(&[&of[..], &from].concat()), "declared `transactions` of `bank` anew\n");
    assert_eq!(day.json(&[&of[..], &["--show"]].concat()), declared);
    day.said(&[&of[..], &["--infer"]].concat());
    assert_eq!(day.json(&[&of[..], &["--show"]].concat())["cursor_field"], "booked_on");
    std::fs::write(&file, r#"{"schema":{"properties":{}},"cursor_field":"x"}"#).unwrap();
    let wrong = day.run(&[&of[..], &from].concat());
    assert!(
        wrong.code == Some(2) && wrong.errors.contains("`cursor_field` names the field `x`"),
        "{}",
        wrong.errors
    );
}

#[test]
fn bad_rows_are_reported_and_a_strict_import_stores_nothing() {
    let day = day();
    let file = day.at("bad.jsonl");
    std::fs::write(&file, "{\"id\":1}\n{\"id\":}\n{\"id\":2}\n").unwrap();
    let import = ["import", file.to_str().unwrap(), "--connection", "c", "--stream", "s"];
    let strict = day.run(&[&import[..], &["--strict"]].concat());
    assert_eq!((strict.code, strict.output.as_str()), (Some(1), ""));
    assert!(strict.errors.contains("bad.jsonl:2: it is not valid JSON"), "{}", strict.errors);
    let kept = day.at("rejected.jsonl");
    let ran = day.run(&[&import[..], &["--rejected", kept.to_str().unwrap()]].concat());
    assert_eq!(
        (ran.code, ran.output.as_str()),
        (Some(3), "added 2, changed 0, unchanged 0, bad 1\n")
    );
    assert!(ran.errors.ends_with("1 row was rejected; every other row is stored\n"));
    let rejected = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(rejected.lines().count(), 1);
    let rejected: serde_json::Value = serde_json::from_str(&rejected).unwrap();
    assert_eq!((&rejected["line"], &rejected["row"]), (&2.into(), &"{\"id\":}".into()));
    assert_eq!(rejected["code"], "invalid_json");
    assert!(
        ran.errors.contains("bad.jsonl:2: ") && ran.errors.contains("(invalid_json)"),
        "{}",
        ran.errors
    );
    std::fs::write(&file, "nothing\nof use\n").unwrap();
    let none = day.run(&import);
    assert_eq!(
        (none.code, none.output.as_str()),
        (Some(1), "added 0, changed 0, unchanged 0, bad 2\n")
    );
}

#[test]
fn a_backup_made_while_a_server_runs_is_restored_by_copying() {
    let day = day();
    day.import_all();
    let server = day.rig.serve(&[]);
    let file = day.at("copy.db");
    let backup = ["backup", "--records-only", file.to_str().unwrap()];
    day.said(&backup);
    day.import("contacts.json", "later", "contacts", &[]);
    server.kill();
    assert_eq!(day.run(&backup).code, Some(1), "a backup is never written over");
    let other = day.at("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(&file, other.join("records.db")).unwrap();
    let before: Value =
        serde_json::from_str(&day.run_in(&other, &["streams", "--json"]).output).unwrap();
    let counts: Vec<u64> =
        before.as_array().unwrap().iter().map(|row| row["records"].as_u64().unwrap()).collect();
    assert_eq!(counts, [5, 3, 30, 40], "as it was when the backup was made");
    let again = sample("messages.jsonl");
    let import = ["import", again.as_str(), "--connection", "chat", "--stream", "messages"];
    assert!(day.run_in(&other, &import).output.starts_with("added 0, changed 0, unchanged 30"));
}

#[test]
fn the_whole_state_comes_back_from_an_archive_made_while_a_server_runs() {
    let day = day();
    day.import_all();
    let token = day.rig.token(&["read:/"], &[]);
    let server = day.rig.serve(&[]);
    let file = day.at("backup.zip");
    let said = day.said(&["backup", file.to_str().unwrap()]);
    assert!(said.starts_with("copied the key, the tokens, the records and the journal"), "{said}");
    server.kill();
    let streams = day.said(&["streams", "--json"]);

    let other = day.at("other");
    let restore = ["restore-backup", file.to_str().unwrap()];
    let restored = day.run_in(&other, &restore);
    assert_eq!(restored.code, Some(0), "{}", restored.errors);
    assert_eq!(day.run_in(&other, &["streams", "--json"]).output, streams);
    let refused = day.run_in(&other, &restore);
    assert!(refused.code == Some(2) && refused.errors.contains("--replace"), "{}", refused.errors);

    // The token of before is accepted by a server with the restored state.
    let rig = Rig { state: other, ..day.rig.clone() };
    let server = rig.serve(&[]);
    let reply = server.client(&token).post("tools/list", json!({})).unwrap();
    assert_eq!(reply.status, 200);
    server.kill();

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, bytes).unwrap();
    let damaged = day.run_in(&day.at("third"), &restore);
    assert!(damaged.errors.contains("nothing was changed"), "{}", damaged.errors);
    assert!(!day.at("third").exists());
}

#[test]
fn an_import_killed_at_any_instant_leaves_whole_batches_and_can_be_resumed() {
    const ROWS: u64 = 60_000;
    const BATCH: u64 = 10_000;
    let day = day();
    let file = day.at("many.jsonl");
    let lines: String =
        (0..ROWS).map(|id| format!("{{\"id\":{id},\"text\":\"row number {id}\"}}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let import = ["import", file.to_str().unwrap(), "--connection", "c", "--stream", "s"];
    let count = || {
        let streams = day.json(&["streams", "--json"]);
        streams[0]["records"].as_u64().unwrap_or_default()
    };
    for least in [1, 20_001] {
        let mut command = day.rig.command(&import);
        command.arg("--state").arg(&day.rig.state).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        while count() < least && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(count() % BATCH, 0);
    }
    let before = count();
    let said = day.said(&import);
    assert!(
        said.starts_with(&format!("added {}, changed 0, unchanged {before}, bad 0", ROWS - before)),
        "{said}"
    );
    assert_eq!(count(), ROWS);
}

#[test]
fn a_file_that_is_not_a_database_gets_an_error_that_says_what_to_do() {
    let day = day();
    day.import_all();
    for name in ["records.db-wal", "records.db-shm"] {
        let _ = std::fs::remove_file(day.rig.state.join(name));
    }
    std::fs::write(
        day.rig.state.join("records.db"),
        "not a database at all, and long enough to be read as one",
    )
    .unwrap();
    for command in
        [&["streams"][..], &["grant", "list"], &["export", "--to", day.at("to").to_str().unwrap()]]
    {
        let ran = day.run(command);
        assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""));
        assert!(
            ran.errors.contains("restore it from a backup") && !ran.errors.contains("panicked"),
            "{}",
            ran.errors
        );
    }
}

#[test]
fn a_damaged_database_is_reported_without_a_panic() {
    let day = day();
    day.import_all();
    let file = day.rig.state.join("records.db");
    let good = {
        let copy = day.at("copy.db");
        day.said(&["backup", "--records-only", copy.to_str().unwrap()]);
        std::fs::read(copy).unwrap()
    };
    let mut told = 0;
    for (round, page) in (1..good.len() / 8192).enumerate() {
        for name in ["records.db-wal", "records.db-shm"] {
            let _ = std::fs::remove_file(day.rig.state.join(name));
        }
        let mut bad = good.clone();
        bad[page * 8192..page * 8192 + 600].iter_mut().for_each(|byte| *byte ^= 0xa5);
        std::fs::write(&file, bad).unwrap();
        let to = day.at(&format!("to-{round}"));
        let messages = sample("messages.jsonl");
        for command in [
            &["export", "--to", to.to_str().unwrap()][..],
            &["import", &messages, "--connection", "chat", "--stream", "messages"],
        ] {
            let ran = day.run(command);
            assert!(
                matches!(ran.code, Some(0..=2)) && !ran.errors.contains("panicked"),
                "{page}: {}",
                ran.errors
            );
            told += usize::from(ran.errors.contains("restore"));
        }
    }
    assert!(told > 3, "{told}");
}
