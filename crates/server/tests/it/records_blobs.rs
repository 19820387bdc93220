//! Blobs over HTTP: what owners send, what clients get of it, and what they do not learn.

use serde_json::json;
use stile_testkit::client::Reply;

use super::records_kit::{Kit, refusal};

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) >> 3) as u8).collect()
}

/// Stores bytes and names them.
fn put(kit: &Kit, bytes: &[u8]) -> String {
    let head = format!(
        "POST /v1/blobs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\nContent-Type: image/png\r\n\r\n",
        kit.server.address,
        kit.owner,
        bytes.len()
    );
    let reply = kit.server.client(&kit.owner).send(&[head.as_bytes(), bytes].concat()).unwrap();
    let told = reply.json();
    assert_eq!(
        (reply.status, &told["object"], &told["size_bytes"]),
        (201, &json!("blob"), &json!(bytes.len()))
    );
    let id = told["blob_id"].as_str().unwrap().to_owned();
    assert_eq!(id, format!("sha256-{}", told["sha256"].as_str().unwrap()));
    assert_eq!(told["fetch_url"], json!(format!("/v1/blobs/{id}")));
    id
}

fn mail(kit: &Kit, key: &str, at: &str, id: &str, kind: &str) {
    let row = json!({ "data": {
        "id": key, "sent_at": at, "file": { "blob_id": id, "mime_type": kind, "fetch_url": "http://elsewhere/" },
    } });
    kit.ingest("messages", "chat", &[row]);
}

fn range(kit: &Kit, id: &str, token: &str, range: &str) -> Reply {
    kit.send("GET", &format!("/v1/blobs/{id}"), token, &format!("Range: {range}\r\n"), "")
}

#[test]
fn a_client_gets_the_bytes_that_a_record_exposes_whole_or_in_part() {
    let kit = Kit::new();
    let all = bytes(3_000_000);
    let id = put(&kit, &all);
    assert_eq!(put(&kit, &all), id, "again is the same");
    mail(&kit, "m1", "2026-05-01", &id, "image/png; x=y");
    let (_, token) = kit.client(&["--stream", "messages", "--field", "file"]);
    let row = kit.json("/v1/streams/messages/records", &token);
    let target = format!("/v1/blobs/{id}");
    assert_eq!(
        row["data"][0]["data"]["file"]["fetch_url"],
        json!(target),
        "the producer's own is replaced"
    );

    let whole = kit.get(&target, &token);
    assert_eq!(whole.status, 200);
    assert!(whole.body == all);
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "3000000"),
        ("accept-ranges", "bytes"),
        ("cache-control", "private, no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(whole.header(name), Some(value), "{name}");
    }
    assert_eq!((whole.header("content-disposition"), whole.header("content-range")), (None, None));
    for (asked, start, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=1048570-1048580", 1_048_570, 1_048_581),
        ("bytes=-7", 2_999_993, 3_000_000),
        ("bytes=2999999-", 2_999_999, 3_000_000),
        ("bytes=5-99999999999999999999", 5, 3_000_000),
    ] {
        let part = range(&kit, &id, &token, asked);
        assert_eq!(part.status, 206, "{asked}");
        assert!(part.body == all[start..end], "{asked}");
        assert_eq!(
            part.header("content-range"),
            Some(&*format!("bytes {start}-{}/3000000", end - 1))
        );
        assert_eq!(part.header("content-length"), Some(&*(end - start).to_string()));
    }
    for ignored in ["bytes=0-1,5-6", "items=0-1", "bytes=5-1", "x"] {
        let part = range(&kit, &id, &token, ignored);
        assert_eq!((part.status, part.body.len()), (200, all.len()), "{ignored}");
    }
    let none = range(&kit, &id, &token, "bytes=3000000-");
    assert_eq!(refusal(&none), (416, "range_not_satisfiable".to_owned()));
    assert_eq!(none.header("content-range"), Some("bytes */3000000"));
}

#[test]
fn active_content_of_a_blob_is_stored_and_never_run() {
    let kit = Kit::new();
    let id = put(&kit, b"<script>");
    let target = format!("/v1/blobs/{id}");
    for (key, kind, told, disposition) in [
        ("m1", "application/pdf", "application/pdf", None),
        ("m1", "text/html", "text/html", Some("attachment")),
        ("m1", "image/svg+xml", "image/svg+xml", Some("attachment")),
        ("m1", "x\r\nSet-Cookie: a=b", "application/octet-stream", Some("attachment")),
        ("m1", "image/png", "image/png", None),
        ("m2", "text/html", "application/octet-stream", Some("attachment")),
    ] {
        mail(&kit, key, "2026-05-01", &id, kind);
        let reply = kit.get(&target, &kit.owner);
        assert_eq!(
            (reply.header("content-type"), reply.header("content-disposition")),
            (Some(told), disposition)
        );
        assert_eq!(reply.header("set-cookie"), None);
    }
    let (_, token) = kit.client(&["--stream", "messages", "--record", "m1"]);
    assert_eq!(
        kit.get(&target, &token).header("content-type"),
        Some("image/png"),
        "what is hidden says nothing"
    );
}

#[test]
fn a_blob_that_no_visible_record_exposes_is_not_found() {
    let kit = Kit::new();
    let (shown, hidden) = (put(&kit, &bytes(10)), put(&kit, &bytes(11)));
    mail(&kit, "m1", "2026-01-01", &hidden, "image/png");
    mail(&kit, "m2", "2026-05-01", &shown, "image/png");
    kit.ingest(
        "other",
        "chat",
        &[json!({ "data": { "id": "o", "files": [{ "blob_id": hidden }] } })],
    );
    let never = format!("sha256-{}", "0".repeat(64));
    let grants: [&[&str]; 4] = [
        &["--stream", "messages", "--since", "2026-04-01"],
        &["--stream", "messages", "--field", "id"],
        &["--stream", "messages", "--record", "m2"],
        &["--stream", "other", "--field", "id"],
    ];
    for (at, grant) in grants.iter().enumerate() {
        let (_, token) = kit.client(grant);
        for method in ["GET", "HEAD"] {
            let told: Vec<_> = [hidden.as_str(), never.as_str(), "x"]
                .iter()
                .map(|id| {
                    let reply = kit.send(
                        method,
                        &format!("/v1/blobs/{id}"),
                        &token,
                        "Range: bytes=99-\r\n",
                        "",
                    );
                    let mut error = reply.json();
                    error["error"]["request_id"].take();
                    let headers: Vec<_> = reply
                        .headers
                        .into_iter()
                        .filter(|(name, _)| !name.ends_with("request-id") && name != "date")
                        .collect();
                    (reply.status, error, headers)
                })
                .collect();
            assert_eq!((told[0].0, &told[0]), (404, &told[1]));
            assert_eq!(told[0], told[2]);
        }
        let is_shown = at == 0 || at == 2;
        assert_eq!(
            kit.get(&format!("/v1/blobs/{shown}"), &token).status == 200,
            is_shown,
            "{grant:?}"
        );
    }
    let (_, token) = kit.client(grants[0]);
    let narrowed = |connection: &str| {
        kit.get(&format!("/v1/blobs/{shown}?connection_id={connection}"), &token).status
    };
    assert_eq!((narrowed("chat"), narrowed("nowhere")), (200, 404));
    let refused = kit.send("POST", "/v1/blobs", &token, "", "x");
    assert_eq!(refusal(&refused), (403, "insufficient_scope".to_owned()));
    assert_eq!(
        kit.refused(&format!("/v1/blobs/{shown}?x=1"), &token),
        (400, "invalid_request".to_owned())
    );
}

#[test]
fn head_equals_get_without_body_and_a_deletion_ends_both() {
    let kit = Kit::new();
    let id = put(&kit, &bytes(70_000));
    let target = format!("/v1/blobs/{id}");
    assert_eq!(
        kit.refused(&target, &kit.owner),
        (404, "blob_not_found".to_owned()),
        "no record has it yet"
    );
    mail(&kit, "m1", "2026-05-01", &id, "application/zip");
    let (head, get) = (
        kit.send("HEAD", &target, &kit.owner, "Range: bytes=0-1\r\n", ""),
        kit.get(&target, &kit.owner),
    );
    assert_eq!((head.status, head.body.len(), get.body.len()), (200, 0, 70_000));
    for name in
        ["content-type", "content-length", "accept-ranges", "content-disposition", "cache-control"]
    {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
    let empty = put(&kit, b"");
    mail(&kit, "m2", "2026-05-01", &empty, "text/plain");
    let reply = kit.get(&format!("/v1/blobs/{empty}"), &kit.owner);
    assert_eq!(
        (reply.status, reply.header("content-length"), reply.body.len()),
        (200, Some("0"), 0)
    );
    assert_eq!(
        kit.send("DELETE", "/v1/streams/messages/records/m1", &kit.owner, "", "").status,
        204
    );
    assert_eq!(kit.refused(&target, &kit.owner), (404, "blob_not_found".to_owned()));
    mail(&kit, "m1", "2026-05-01", &id, "application/zip");
    assert_eq!(
        kit.get(&target, &kit.owner).status,
        200,
        "bytes stay for a day after they were put"
    );
}

#[test]
fn an_upload_that_breaks_off_is_not_stored() {
    let kit = Kit::new();
    let all = bytes(1000);
    let head = format!(
        "POST /v1/blobs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
        kit.server.address, kit.owner
    );
    // The last chunk never comes: what stands in its place is none.
    let sent = [head.as_bytes(), &all, b"\r\nnonsense\r\n"].concat();
    let reply = kit.server.client(&kit.owner).send(&sent);
    assert!(reply.is_err() || reply.is_ok_and(|reply| reply.status == 400));
    let id = put(&kit, &all);
    let blobs = std::fs::read_dir(&kit.rig.state).unwrap();
    let left = blobs.filter(|file| {
        file.as_ref().unwrap().file_name().to_string_lossy().starts_with("incoming")
    });
    assert_eq!(left.count(), 0);
    mail(&kit, "m1", "2026-05-01", &id, "image/png");
    assert!(kit.get(&format!("/v1/blobs/{id}"), &kit.owner).body == all);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_flat_however_long_a_blob_is() {
    let kit = Kit::new();
    let small = put(&kit, &bytes(3 << 20));
    mail(&kit, "m1", "2026-05-01", &small, "image/png");
    kit.get(&format!("/v1/blobs/{small}"), &kit.owner);
    let most = || -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", kit.server.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let before = most();
    let all = bytes(50 << 20);
    let id = put(&kit, &all);
    mail(&kit, "m2", "2026-05-01", &id, "image/png");
    assert!(kit.get(&format!("/v1/blobs/{id}"), &kit.owner).body == all);
    let more = most() - before;
    // The writer's cache, a few parts, and what the allocator keeps of them; nothing that grows
    // with the blob.
    assert!(more < 50 << 10, "{more} KiB more");
}
