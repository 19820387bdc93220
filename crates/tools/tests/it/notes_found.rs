//! Notes found by tag, property and link, and nothing of what the scopes hide.

use serde_json::{Value, json};

use crate::Rig;

fn put(rig: &Rig, files: &[(&str, &str)]) {
    for (name, text) in files {
        let file = rig.space.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

fn paths(found: &Value) -> Vec<&str> {
    let matches = found["matches"].as_array().unwrap();
    matches.iter().map(|one| one["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn notes_are_found_by_tag_property_and_link_together() {
    let rig = Rig::new();
    put(
        &rig,
        &[
            ("a.md", "---\nstatus: open\ntags: [work]\n---\n[[plan]]\n"),
            ("b.md", "---\nstatus: done\n---\n#work/home ![](plan.md)\n"),
            ("c.txt", "#work [[plan]]"),
            ("p/plan.md", "nothing"),
        ],
    );
    for (arguments, expected) in [
        (json!({ "tag": "#Work" }), &["/a.md", "/b.md"][..]),
        (json!({ "tag": "work/home" }), &["/b.md"]),
        (json!({ "property": { "name": "status" } }), &["/a.md", "/b.md"]),
        (json!({ "property": { "name": "status", "value": "open" } }), &["/a.md"]),
        (json!({ "links_to": "/p/plan.md" }), &["/a.md", "/b.md"]),
        (json!({ "links_to": "/p/plan.md", "tag": "work", "path": "/p" }), &[]),
    ] {
        let found = rig.call("read:/", "note.find", arguments.clone()).await;
        assert_eq!(paths(&found.structured), expected, "{arguments}");
    }
    for wrong in [json!({}), json!({ "tag": "1984" }), json!({ "tag": "a b" })] {
        let refused = rig.call("read:/", "note.find", wrong).await;
        assert_eq!(refused.structured["error"]["code"], "invalid_argument");
    }
}

#[tokio::test]
#[expect(clippy::disallowed_types, reason = "a test sets the time of a file")]
async fn notes_are_found_by_several_conditions_and_by_what_is_amiss() {
    let rig = Rig::new();
    put(
        &rig,
        &[
            ("a.md", "---\ndue: 2026-03-01\nn: 9\n---\n[[b]] [[nowhere]]\n"),
            ("b.md", "---\ndue: 2026-04-01\nn: 10\n---\n#x [[b]]\n"),
            ("c.md", "#x [t](a.md)\n"),
            ("d.md", "nothing"),
            ("board.canvas", "{\"nodes\":[{\"type\":\"file\",\"file\":\"d.md\"}]}"),
        ],
    );
    let property = |more: Value| json!({ "properties": [more] });
    for (arguments, expected) in [
        (property(json!({ "name": "due", "before": "2026-04-01" })), &["/a.md"][..]),
        (property(json!({ "name": "n", "after": "9" })), &["/b.md"]),
        (property(json!({ "name": "n", "after": "8", "before": "10" })), &["/a.md"]),
        (property(json!({ "name": "due", "exists": false })), &["/c.md", "/d.md"]),
        (property(json!({ "name": "n", "not": "9", "exists": true })), &["/b.md"]),
        (json!({ "properties": [{ "name": "due" }, { "name": "n", "value": "10" }] }), &["/b.md"]),
        (json!({ "broken": true }), &["/a.md"]),
        (json!({ "orphan": true }), &["/c.md"]),
        (json!({ "untagged": true }), &["/a.md", "/d.md"]),
        (json!({ "untagged": true, "broken": true }), &["/a.md"]),
        (json!({ "links_to": "/d.md" }), &["/board.canvas"]),
    ] {
        let found = rig.call("read:/", "note.find", arguments.clone()).await;
        assert_eq!(paths(&found.structured), expected, "{arguments}");
    }
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    std::fs::File::open(rig.space.path().join("b.md")).unwrap().set_modified(old).unwrap();
    let newest = json!({ "tag": "x", "order": "newest" });
    assert_eq!(
        paths(&rig.call("read:/", "note.find", newest).await.structured),
        ["/c.md", "/b.md"]
    );
    let wrong = json!({ "properties": vec![json!({ "name": "a" }); 9] });
    let refused = rig.call("read:/", "note.find", wrong).await;
    assert_eq!(refused.structured["error"]["code"], "invalid_argument");
}

#[tokio::test]
async fn tags_and_values_are_counted_a_page_at_a_time() {
    let rig = Rig::new();
    put(&rig, &[("a.md", "---\nk: [1, 1, 2]\n---\n#x #x #y/z"), ("f/b.md", "---\nk: 2\n---\n#x")]);
    let counted = |arguments: Value| {
        let rig = &rig;
        async move {
            let found = rig.call("read:/", "note.tags", arguments).await.structured;
            let values = found["values"].as_array().unwrap().iter();
            let pairs = values.map(|one| {
                (one["value"].as_str().unwrap().to_owned(), one["notes"].as_u64().unwrap())
            });
            (pairs.collect::<Vec<_>>(), found)
        }
    };
    let pair = |value: &str, notes| (value.to_owned(), notes);
    let (tags, found) = counted(json!({})).await;
    assert_eq!(tags, [pair("x", 2), pair("y/z", 1)]);
    assert_eq!((&found["total"], &found["searched"]), (&json!(2), &json!(2)));
    assert_eq!(counted(json!({ "property": "k" })).await.0, [pair("2", 2), pair("1", 1)]);
    assert_eq!(counted(json!({ "path": "/f" })).await.0, [pair("x", 1)]);
    let many: String = (0..250).map(|number| format!("#t{number:03} ")).collect();
    put(&rig, &[("many.md", &many)]);
    let (mut all, mut arguments) = (Vec::new(), json!({}));
    loop {
        let (page, found) = counted(arguments).await;
        assert!(page.len() <= 100);
        all.extend(page);
        let Some(cursor) = found.get("next_cursor") else { break };
        arguments = json!({ "cursor": cursor });
    }
    assert_eq!((all.len(), &all[0], &all[251]), (252, &pair("x", 2), &pair("y/z", 1)));
}

/// Asks both of two spaces that differ in what the scopes hide, and expects the same answers.
#[tokio::test]
async fn what_the_scopes_hide_changes_no_answer() {
    const CLAIM: &str = "read:/open/ deny:/open/not/";
    let (one, other) = (Rig::new(), Rig::new());
    let shown = [("open/a.md", "#x [[b]] [[secret]]"), ("open/f/b.md", "[[a]]")];
    put(&one, &shown);
    put(&other, &shown);
    put(
        &other,
        &[
            ("b.md", "#x [[a]]"),
            ("secret.md", "#x"),
            ("open/not/a.md", "#x [[b]]"),
            ("open/not/b.md", "[[a]] #x"),
        ],
    );
    let modified = |mut answer: Value| {
        let matches = answer.get_mut("matches").and_then(Value::as_array_mut);
        for one in matches.into_iter().flatten() {
            one.as_object_mut().unwrap().remove("modified");
        }
        answer
    };
    for (tool, arguments) in [
        ("note.find", json!({ "tag": "x" })),
        ("note.find", json!({ "links_to": "/open/f/b.md" })),
        ("note.find", json!({ "links_to": "/open/a.md" })),
        ("note.find", json!({ "links_to": "/secret.md" })),
        ("note.find", json!({ "broken": true })),
        ("note.find", json!({ "orphan": true })),
        ("note.find", json!({ "untagged": true })),
        ("note.tags", json!({})),
        ("note.tags", json!({ "path": "/open/not" })),
        ("note.find", json!({ "tag": "x", "path": "/open/not" })),
        ("note.links", json!({ "path": "/open/a.md" })),
        ("note.links", json!({ "path": "/open/f/b.md" })),
        ("note.links", json!({ "path": "/open/not/b.md" })),
    ] {
        let first = one.call(CLAIM, tool, arguments.clone()).await;
        let second = other.call(CLAIM, tool, arguments.clone()).await;
        assert_eq!(modified(first.structured), modified(second.structured), "{tool} {arguments}");
    }
    let found = other.call(CLAIM, "note.find", json!({ "links_to": "/open/f/b.md" })).await;
    assert_eq!(paths(&found.structured), ["/open/a.md"], "the hidden `b.md` does not compete");
}

#[tokio::test]
async fn pages_of_notes_are_complete_and_a_changed_note_is_looked_into_again() {
    let rig = Rig::new();
    for number in 0..230 {
        put(&rig, &[(&format!("f{}/n{number}.md", number % 3), "#x")]);
    }
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({ "tag": "x" });
        if cursor != Value::Null {
            arguments["cursor"] = cursor;
        }
        let page = rig.call("read:/", "note.find", arguments).await.structured;
        found.extend(paths(&page).into_iter().map(str::to_owned));
        cursor = page["next_cursor"].clone();
        if cursor == Value::Null {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 230);
    put(&rig, &[("f0/n0.md", "no more")]);
    let page = rig.call("read:/", "note.find", json!({ "tag": "x", "path": "/f0" })).await;
    assert!(!paths(&page.structured).contains(&"/f0/n0.md"));
}

#[tokio::test]
async fn links_lead_out_and_in_and_every_page_is_reached() {
    let rig = Rig::new();
    let many = "[[plan]] [[gone]]\n".repeat(70);
    put(&rig, &[("a.md", &many), ("p/plan.md", &format!("{many}\n![[pic.png]]")), ("pic.png", "")]);
    let (mut out, mut links_here, mut pages) = (Vec::new(), Vec::new(), 0);
    let mut arguments = json!({ "path": "/p/plan.md" });
    loop {
        let page = rig.call("read:/", "note.links", arguments.clone()).await.structured;
        assert!(page["out"].as_array().unwrap().len() <= 100);
        out.extend(page["out"].as_array().unwrap().clone());
        links_here.extend(page["in"].as_array().unwrap().clone());
        pages += 1;
        if page["truncated"] == false {
            break;
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    assert_eq!((out.len(), links_here.len(), pages), (141, 140, 3));
    assert_eq!(
        out[0],
        json!({
            "target": "plan", "path": "/p/plan.md", "line": 1, "kind": "wikilink"
        })
    );
    assert_eq!(out[1], json!({ "target": "gone", "line": 1, "kind": "wikilink" }));
    assert_eq!(
        out[140],
        json!({
            "target": "pic.png", "path": "/pic.png", "line": 72, "kind": "embed"
        })
    );
    let of = |path: &str| links_here.iter().filter(|link| link["path"] == path).count();
    assert_eq!((of("/a.md"), of("/p/plan.md")), (70, 70));
    let only = rig.call("read:/", "note.links", json!({ "path": "/a.md", "direction": "in" }));
    assert_eq!(only.await.structured["in"], json!([]));
}

#[tokio::test]
async fn a_property_is_set_with_the_hash_and_refused_where_that_is_not_safe() {
    let rig = Rig::new();
    put(&rig, &[("a.md", "---\nb: 1 # one\ntags: [x,\n  y]\n---\nbody\n")]);
    let read = rig.call("write:/", "text.read", json!({ "path": "/a.md" })).await;
    let hash = read.structured["hash"].clone();
    let set = |name: &str, value: Value, hash: &Value| json!({ "path": "/a.md", "hash": hash, "name": name, "value": value });
    let refused = rig.call("write:/", "note.set_property", set("tags", json!("z"), &hash)).await;
    let error = &refused.structured["error"];
    assert_eq!(error["code"], "unsafe_front_matter");
    assert_eq!(error["lines"][0], json!({ "line": 3, "text": "tags: [x," }));
    let done = rig.call("write:/", "note.set_property", set("b", json!(true), &hash)).await;
    assert_eq!(rig.text("a.md"), "---\nb: true # one\ntags: [x,\n  y]\n---\nbody\n");
    let stale = rig.call("write:/", "note.set_property", set("b", Value::Null, &hash)).await;
    assert_eq!(stale.structured["error"]["code"], "stale");
    let hash = done.structured["hash"].clone();
    rig.call("write:/", "note.set_property", set("b", Value::Null, &hash)).await;
    assert_eq!(rig.text("a.md"), "---\ntags: [x,\n  y]\n---\nbody\n");
    for wrong in [set("", json!(1), &hash), set("a", json!({}), &hash), set("<<", json!(1), &hash)]
    {
        let refused = rig.call("write:/", "note.set_property", wrong).await;
        assert_eq!(refused.structured["error"]["code"], "invalid_argument");
    }
}
