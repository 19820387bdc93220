//! Files as resources: what a client lists, completes and reads of a space.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{NOTHING, READ, Server, WORK, request};

/// The member of `_meta` with the address of the next part.
const NEXT: &str = "stile/next_uri";
/// A token that may read all but one folder and one file.
const MOST: &str = "ann;-;read:/_deny:/work/secret_deny:/work/hidden.md;3600";

/// Both lifecycles of the protocol.
#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    Session(&'a str),
    Sessionless,
}

async fn ask(server: &Server, token: &str, way: Way<'_>, method: &str, params: Value) -> Value {
    let reply = match way {
        Way::Session(session) => {
            server.in_session(token, session, &request(1, method, params)).await
        }
        Way::Sessionless => server.sessionless(token, method, params).await,
    };
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// Reads all parts of a resource, and returns their bytes, their kind and their number.
async fn read_all(server: &Server, way: Way<'_>, uri: &str) -> (Vec<u8>, BTreeSet<String>, usize) {
    let (mut bytes, mut kinds, mut uri) = (Vec::new(), BTreeSet::new(), uri.to_owned());
    for number in 1.. {
        let answer = ask(server, READ, way, "resources/read", json!({ "uri": uri })).await;
        let content = &answer["result"]["contents"][0];
        assert_eq!(content["uri"], uri, "{answer}");
        kinds.insert(content["mimeType"].as_str().unwrap().to_owned());
        match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), None) => {
                assert!(text.len() <= 64 * 1024);
                bytes.extend(text.as_bytes());
            }
            (None, Some(blob)) => bytes.extend(STANDARD.decode(blob).unwrap()),
            _ => panic!("{answer}"),
        }
        match content["_meta"][NEXT].as_str() {
            Some(next) => next.clone_into(&mut uri),
            None => return (bytes, kinds, number),
        }
    }
    unreachable!("the last part has no next one")
}

#[tokio::test]
async fn the_parts_of_a_resource_together_are_the_bytes_of_the_file() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let long_line = "é".repeat(50_000);
    let lines: String = (0..9000).map(|number| format!("line {number} ü\r\n")).collect();
    let png = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![0xfe; 90_000]].concat();
    let files: [(&str, Vec<u8>, &str, usize); 7] = [
        ("empty.md", Vec::new(), "text/markdown", 1),
        ("a b%20?.md", b"\xef\xbb\xbfone\ntwo".to_vec(), "text/markdown", 1),
        ("lines.txt", lines.into_bytes(), "text/plain", 2),
        ("long.csv", format!("x\n{long_line}\n\n").into_bytes(), "text/csv", 3),
        ("bytes.md", vec![0xff; 100_000], "application/octet-stream", 4),
        ("picture.png", png, "image/png", 1),
        ("text.png", b"not a picture".to_vec(), "text/plain", 1),
    ];
    for (name, bytes, kind, parts) in files {
        fs::write(server.root().join(name), &bytes).unwrap();
        let uri = format!("space:///{}", stile_domain::percent::encode_component(name));
        for way in [Way::Session(&session), Way::Sessionless] {
            let (read, kinds, number) = read_all(&server, way, &uri).await;
            assert!(read == bytes, "{name}: {} of {} bytes", read.len(), bytes.len());
            assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [kind], "{name}");
            assert_eq!(number, parts, "{name}");
        }
    }
}

#[tokio::test]
async fn a_file_has_one_media_type_in_the_list_as_a_resource_and_as_a_file() {
    let server = Server::start().await;
    let wav = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\xff\x80".to_vec();
    // All of its bytes are UTF-8.
    let silence = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0data\0\0\0\0".to_vec();
    let late = [vec![b'x'; 9000], vec![0xff]].concat();
    let files: [(&str, Vec<u8>, &str); 17] = [
        ("silence.wav", silence, "audio/wav"),
        ("text.png", b"not a picture".to_vec(), "text/plain"),
        ("bytes.md", vec![0xff; 100], "application/octet-stream"),
        ("pdf.md", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec(), "application/pdf"),
        ("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff".to_vec(), "image/png"),
        ("late.txt", late, "text/plain"),
        ("a.md", b"# A\n".to_vec(), "text/markdown"),
        ("a.txt", b"<!DOCTYPE html>\n".to_vec(), "text/plain"),
        ("a.html", b"<!DOCTYPE html>\n".to_vec(), "text/html"),
        ("a.json", b"{}".to_vec(), "application/json"),
        ("a.xml", b"<?xml version=\"1.0\"?><a/>".to_vec(), "application/xml"),
        ("a.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec(), "image/svg+xml"),
        ("ascii.pdf", b"%PDF-1.4\n%%EOF\n".to_vec(), "application/pdf"),
        ("a.pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec(), "application/pdf"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff".to_vec(), "image/png"),
        ("a.mp3", b"ID3\x03\0\0\0\0\0\0\xff\xfb".to_vec(), "audio/mpeg"),
        ("a.wav", wav, "audio/wav"),
    ];
    for (name, bytes, _) in &files {
        fs::write(server.root().join(name), bytes).unwrap();
    }
    let list = ask(&server, READ, Way::Sessionless, "resources/list", json!({})).await;
    for (name, _, media_type) in &files {
        let uri = format!("space:///{name}");
        let all = list["result"]["resources"].as_array().unwrap();
        let listed = all.iter().find(|listed| listed["uri"] == uri).unwrap();
        let params = json!({ "uri": uri });
        let read = ask(&server, READ, Way::Sessionless, "resources/read", params).await;
        let params = json!({ "name": "file.read", "arguments": { "path": format!("/{name}") } });
        let file = ask(&server, READ, Way::Sessionless, "tools/call", params).await;
        let said = [
            &listed["mimeType"],
            &read["result"]["contents"][0]["mimeType"],
            &file["result"]["structuredContent"]["media_type"],
        ];
        assert_eq!(said, [media_type; 3], "{name} {file}");
        let shown = file["result"]["content"].as_array().unwrap();
        let shown: Vec<&Value> = shown.iter().filter_map(|item| item.get("mimeType")).collect();
        // A drawing is text to a model, and a document is bytes.
        let is_shown = matches!(*name, "a.png" | "png" | "a.mp3" | "a.wav" | "silence.wav");
        assert!(
            shown.iter().all(|shown| *shown == media_type) && shown.len() == usize::from(is_shown)
        );
    }
}

#[tokio::test]
async fn a_part_says_what_a_change_needs_and_is_of_one_version_alone() {
    let server = Server::start().await;
    let path = server.root().join("a.md");
    let text: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    fs::write(&path, &text).unwrap();
    let params = |uri: &str| json!({ "uri": uri });
    let first =
        ask(&server, READ, Way::Sessionless, "resources/read", params("space:///a.md")).await;
    let meta = &first["result"]["contents"][0]["_meta"];
    let part = &meta["stile/part"];
    let hash = stile_domain::hash::ContentHash::digest(text.as_bytes()).to_string();
    assert_eq!(part["hash"], hash);
    assert_eq!((&part["size_bytes"], &part["total_lines"]), (&json!(text.len()), &json!(20_000)));
    assert_eq!(part["lines"][0], 1);
    let next = meta[NEXT].as_str().unwrap();
    assert!(next.starts_with("space:///a.md?after=") && next.is_ascii(), "{next}");
    let other = next.replace("/a.md", "/b.md");
    fs::write(server.root().join("b.md"), &text).unwrap();
    let refused = ask(&server, READ, Way::Sessionless, "resources/read", params(&other)).await;
    assert_eq!(refused["error"]["data"]["code"], "invalid_argument", "{refused}");
    fs::write(&path, text.replace('7', "8")).unwrap();
    let refused = ask(&server, READ, Way::Sessionless, "resources/read", params(next)).await;
    let error = &refused["error"];
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32602), &json!("stale")));
    assert!(!refused.to_string().contains(&hash), "{refused}");
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_of_the_revision() {
    let server = Server::start().await;
    fs::create_dir_all(server.root().join("work")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", server.root().join("link")).unwrap();
    let session = server.open(READ).await;
    for (uri, code, of_session, sessionless) in [
        ("space:///absent.md", "not_found", -32002, -32602),
        ("space:///work", "not_a_file", -32602, -32602),
        ("space:///", "not_a_file", -32602, -32602),
        ("space:///link", "symlink_refused", -32602, -32602),
        ("space:///a%00", "invalid_path", -32602, -32602),
        ("space:///../a", "invalid_path", -32602, -32602),
        ("space:///%zz", "invalid_argument", -32602, -32602),
        ("space:///a.md?after=x", "invalid_argument", -32602, -32602),
    ] {
        for (way, number) in [(Way::Session(&session), of_session), (Way::Sessionless, sessionless)]
        {
            let answer = ask(&server, READ, way, "resources/read", json!({ "uri": uri })).await;
            let error = &answer["error"];
            assert_eq!(
                (&error["data"]["code"], &error["code"]),
                (&json!(code), &json!(number)),
                "{uri} {way:?} {answer}"
            );
        }
    }
    for uri in ["space:///other/a.md", "space:///other/absent", "space:///work/../other"] {
        let reply = server.sessionless(WORK, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(reply.status, 403, "{uri} {reply:?}");
    }
}

fn write_at(root: &Path, path: &str, seconds: u64) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "x").unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}

/// Lists all pages, and returns the listed resources of each.
async fn list_all(server: &Server, token: &str, way: Way<'_>) -> Vec<Vec<Value>> {
    let (mut pages, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = ask(server, token, way, "resources/list", params).await;
        let result = &answer["result"];
        pages.push(result["resources"].as_array().unwrap().clone());
        match result["nextCursor"].as_str() {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return pages,
        }
    }
}

fn uris(pages: &[Vec<Value>]) -> Vec<&str> {
    pages.iter().flatten().map(|resource| resource["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_files_that_were_changed_last_are_listed_in_pages_the_newest_first() {
    let server = Server::start().await;
    let root = server.root();
    for number in 0..230 {
        write_at(&root, &format!("work/{:03}.md", (number * 7) % 230), 1_000_000_000 + number);
    }
    write_at(&root, "other/b c.json", 2_000_000_000);
    write_at(&root, ".git/config", 2_100_000_000);
    let session = server.open(READ).await;
    for way in [Way::Session(&session), Way::Sessionless] {
        let pages = list_all(&server, READ, way).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [101, 100, 31]);
        let newest_first =
            (0..230).rev().map(|number| format!("space:///work/{:03}.md", (number * 7) % 230));
        let expected: Vec<String> = ["list:///", "space:///other/b%20c.json"]
            .map(str::to_owned)
            .into_iter()
            .chain(newest_first)
            .collect();
        assert_eq!(uris(&pages), expected, "{way:?}");
        assert_eq!(
            pages[0][1],
            json!({
                "uri": "space:///other/b%20c.json", "name": "/other/b c.json",
                "title": "b c.json", "mimeType": "application/json", "size": 1,
                "annotations": {
                    "audience": ["user", "assistant"], "lastModified": "2033-05-18T03:33:20Z"
                },
            })
        );
        // A file that is changed between two pages goes to the top, and shifts nothing.
        let mine = list_all(&server, WORK, way).await;
        assert!(uris(&mine)[1..].iter().all(|uri| uri.starts_with("space:///work/")));
        assert_eq!(uris(&mine)[0], "list:///work");
        assert_eq!(list_all(&server, NOTHING, Way::Sessionless).await, vec![Vec::<Value>::new()]);
        for cursor in ["x", ""] {
            let params = json!({ "cursor": cursor });
            let refused = ask(&server, READ, way, "resources/list", params).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
    }
}

#[tokio::test]
async fn paths_of_files_are_completed_within_the_scopes() {
    let server = Server::start().await;
    for path in ["work/plan.md", "work/plans/a.md", "work/Plan b.md", "private/x.md", "top.md"] {
        write_at(&server.root(), path, 1_000_000_000);
    }
    for (token, begun, values) in [
        (READ, "", json!(["private/", "work/", "top.md"])),
        (READ, "/t", json!(["/top.md"])),
        (READ, "work/pl", json!(["work/plans/", "work/plan.md"])),
        (READ, "/work/plans/", json!(["/work/plans/a.md"])),
        (READ, "work/none/", json!([])),
        (READ, "../", json!([])),
        (WORK, "", json!(["work/"])),
        (WORK, "/w", json!(["/work/"])),
        (WORK, "work/plans/", json!(["work/plans/a.md"])),
        (WORK, "private/", json!([])),
        (WORK, "p", json!([])),
        (NOTHING, "", json!([])),
    ] {
        let params = json!({
            "ref": { "type": "ref/resource", "uri": "space:///{+path}" },
            "argument": { "name": "path", "value": begun }
        });
        let found = ask(&server, token, Way::Sessionless, "completion/complete", params).await;
        let completion = json!({ "values": values, "hasMore": false });
        assert_eq!(found["result"]["completion"], completion, "{token} {begun:?}");
    }
}

#[tokio::test]
async fn two_spaces_that_differ_in_what_is_hidden_answer_byte_for_byte_alike() {
    let mut answers = Vec::new();
    for has_hidden in [false, true] {
        let server = Server::start().await;
        for path in ["work/a.md", "work/b.md", "top.md"] {
            write_at(&server.root(), path, 1_000_000_000);
        }
        // The folder itself is there in both, as part of what may be seen.
        fs::create_dir_all(server.root().join("work")).unwrap();
        if has_hidden {
            for number in 0..150 {
                write_at(&server.root(), &format!("work/secret/{number}.md"), 1_500_000_000);
            }
            write_at(&server.root(), "work/hidden.md", 1_500_000_000);
        }
        let mut said = Vec::new();
        let complete = |begun: &str| {
            json!({
                "ref": { "type": "ref/resource", "uri": "space:///{+path}" },
                "argument": { "name": "path", "value": begun }
            })
        };
        for (method, params) in [
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("completion/complete", complete("work/")),
            ("completion/complete", complete("work/secret/")),
            ("completion/complete", complete("work/h")),
            ("resources/read", json!({ "uri": "space:///work/hidden.md" })),
            ("resources/read", json!({ "uri": "space:///work/secret/7.md" })),
            ("resources/read", json!({ "uri": "space:///work/SECRET/7.md" })),
            ("resources/read", json!({ "uri": "space:///work/hidden" })),
            ("resources/read", json!({ "uri": "space:///work/a.md" })),
        ] {
            let reply = server.sessionless(MOST, method, params).await;
            said.push((reply.status, reply.body));
        }
        answers.push(said);
    }
    assert_eq!(answers[0], answers[1]);
}
