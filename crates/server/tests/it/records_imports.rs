//! A person's mail and chats, from the files that services give to what a client of a grant reads
//! of them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::client::McpClient as _;
use stile_testkit::zip::{Member, Zip};

use crate::provider_kit::Desk;
use crate::records_kit::Kit;

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn two_commands_import_a_mailbox_and_a_chat_export_and_a_sentence_is_found_in_each() {
    let kit = Kit::new();
    let mailbox = ["import", &sample("records/mailbox.mbox"), "--connection", "gmail"];
    let chats = ["import", &sample("records/chatgpt"), "--connection", "chatgpt"];
    assert_eq!(kit.said(&mailbox), "added 4, changed 0, unchanged 0, bad 0");
    assert_eq!(kit.said(&chats), "added 9, changed 0, unchanged 0, bad 0");
    assert_eq!(kit.said(&mailbox), "added 0, changed 0, unchanged 4, bad 0\nnothing has changed");
    assert_eq!(kit.said(&chats), "added 0, changed 0, unchanged 9, bad 0\nnothing has changed");
    let found = |connection: &str, key: &str, field: &str, sentence: &str| {
        let target = format!(
            "/v1/streams/messages/records/{key}/field-window?field={field}&connection_id={connection}&q={sentence}"
        );
        let window = kit.json(&target, &kit.owner);
        window["window"]["text"]
            .as_str()
            .unwrap()
            .to_lowercase()
            .contains(&sentence.replace("%20", " "))
    };
    assert!(found("gmail", "quince-1@example.org", "body", "before%20the%20equinox"));
    assert!(found(
        "chatgpt",
        "0a51c2f0-0000-4000-8000-000000000004",
        "text",
        "a%20fleece%20over%20the%20espalier"
    ));
}

/// Mail, a calendar and a picture, as Google Takeout packs them.
pub fn takeout() -> Vec<u8> {
    let mail = "From 1@xxx Mon Jan 05 10:00:00 +0000 2026\nMessage-ID: <a@x.org>\n\
                Date: Mon, 5 Jan 2026 10:00:00 +0000\nSubject: ferns\n\nmoss\n";
    let calendar = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:u1\r\nDTSTART:20260105T100000Z\r\n\
                    SUMMARY:Dentist\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    Zip::default()
        .with(&Member::deflated("Takeout/Mail/All mail.mbox", mail.as_bytes()))
        .with(&Member::deflated("Takeout/Kalender/Privat.ics", calendar.as_bytes()))
        .with(&Member::stored("Takeout/Fotos/a.jpg", b"x"))
        .finish()
}

/// The exit code of a command, and what it says on standard error.
fn refused(kit: &Kit, arguments: &[&str]) -> (i32, String) {
    let ran = kit.run(arguments);
    (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap())
}

#[test]
fn each_part_of_an_export_is_imported_into_a_stream_and_the_rest_is_said() {
    let kit = Kit::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("takeout-1-001.zip");
    std::fs::write(&path, takeout()).unwrap();
    let path = path.to_str().unwrap();
    let import = ["import", path, "--connection", "google"];
    let shown = kit.said(&[&import[..], &["--preview"]].concat());
    assert!(
        shown.contains("\"summary\":\"Dentist\"") && shown.contains("\"body\":\"moss"),
        "{shown}"
    );
    assert!(shown.contains("nothing was stored"), "{shown}");
    let both = "events: added 1, changed 0, unchanged 0, bad 0\n\
                mail: added 1, changed 0, unchanged 0, bad 0";
    assert_eq!(kit.said(&import), both);
    let one = kit.said(&[&import[..], &["--stream", "mail"]].concat());
    assert_eq!(one, "mail: added 0, changed 0, unchanged 1, bad 0");
    for (more, says) in [
        (["--stream", "nothing"], "it has events, mail"),
        (["--key", "id"], "cannot be used with an export of Google Takeout"),
    ] {
        let (code, said) = refused(&kit, &[&import[..], &more].concat());
        assert!(code == 2 && said.contains(says), "{said}");
    }
    let pictures = Zip::default().with(&Member::stored("Takeout/Fotos/a.jpg", b"x")).finish();
    std::fs::write(path, pictures).unwrap();
    let (code, said) = refused(&kit, &import);
    assert!(code == 1 && said.contains("left out: Takeout/Fotos"), "{said}");
    assert!(said.contains("nothing in an export of Google Takeout is of a kind"), "{said}");
}

#[test]
fn a_client_sees_mail_since_an_instant_whatever_its_zone_and_gets_its_attachment() {
    let kit = Kit::new();
    kit.said(&["import", &sample("records/mailbox.mbox"), "--connection", "gmail"]);
    let grant =
        ["--stream", "messages", "--field", "date", "--field", "subject", "--field", "attachments"];
    // The first message is of 10:15 in +01:00, which is before, the second of 12:40 in -05:00,
    // which is after.
    let (_, since) = kit.client(&[&grant[..], &["--since", "2026-03-07T12:00:00Z"]].concat());
    let list = kit.json("/v1/streams/messages/records", &since);
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["list-77@seeds.example", "quince-2@example.com"], "newest first by instant");
    let record = kit.json("/v1/streams/messages/records/quince-2@example.com", &since);
    let attachment = &record["data"]["attachments"][0];
    let reply = kit.get(attachment["fetch_url"].as_str().unwrap(), &since);
    assert_eq!(
        (reply.status, reply.body),
        (200, std::fs::read(sample("space/garden/pictures/stile.png")).unwrap())
    );
    let (_, bare) = kit.client(&["--stream", "messages", "--field", "subject"]);
    assert_eq!(kit.refused(attachment["fetch_url"].as_str().unwrap(), &bare).0, 404);
    let shown = kit.json("/v1/streams/messages/records/quince-2@example.com", &bare);
    assert_eq!(shown["data"], json!({ "subject": "Re: Quince tree – when to prune?" }));
}

#[test]
fn an_attachment_of_a_mail_is_read_by_tools_and_by_resources() {
    let kit = Kit::new();
    kit.said(&["import", &sample("records/mailbox.mbox"), "--connection", "gmail"]);
    let fields = ["--stream", "messages", "--field", "subject", "--field", "attachments"];
    let (_, token) = kit.client(&fields);
    let picture = std::fs::read(sample("space/garden/pictures/stile.png")).unwrap();
    let desk = Desk::new(&token);
    // By the server's own MCP, and by `stile mcp` before it.
    let mut own = kit.server.client(&token);
    let mut adapter = desk.adapter(&format!("http://{}", kit.server.address), &[]);
    let mut fetch = |arguments: Value, is_own: bool| match is_own {
        true => own.tool("fetch", arguments).unwrap(),
        false => adapter.call("fetch", arguments)["structuredContent"].take(),
    };
    for is_own in [true, false] {
        let mail = fetch(json!({ "id": "gmail/messages:quince-2@example.com" }), is_own);
        let entry = &mail["content_ladder"]["entries"][0];
        assert_eq!(entry["field_path"], "attachments/0");
        assert_eq!(entry["mime_type"], "image/png");
        assert_eq!(entry["size_bytes"], picture.len());
        let digest = ContentHash::digest(&picture).to_string();
        assert_eq!(entry["digest"], format!("sha256:{digest}"));
        let (mut bytes, mut next) = (Vec::new(), entry["read"]["args"].clone());
        while next.is_object() {
            let part = fetch(next, is_own);
            assert_eq!(part["metadata"]["encoding"], "base64");
            bytes.extend(STANDARD.decode(part["text"].as_str().unwrap()).unwrap());
            next = part["content_ladder"]["entries"][0]["read"]["args"].clone();
        }
        assert!(bytes == picture, "{is_own}");
    }
    let mail = adapter.call("fetch", json!({ "id": "gmail/messages:quince-2@example.com" }));
    let link = &mail["content"][1];
    assert_eq!((&link["type"], &link["name"]), (&json!("resource_link"), &json!("field-bytes")));
    let read = adapter.request("resources/read", json!({ "uri": link["uri"] }));
    let blob = read["result"]["contents"][0]["blob"].as_str().unwrap();
    assert!(picture.starts_with(&STANDARD.decode(blob).unwrap()));
}
