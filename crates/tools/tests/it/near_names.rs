//! What was perhaps meant: names close to one that is missing, and only those that the caller may
//! see.

use std::fs;

use serde_json::{Value, json};

use crate::{Called, Rig};

fn rig(names: &[&str]) -> Rig {
    let rig = Rig::new();
    for name in names {
        let file = rig.space.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "x\n").unwrap();
    }
    rig
}

/// The names that a refusal offers.
fn offered(called: &Called) -> Value {
    assert_eq!(called.structured["error"]["code"], "not_found");
    called.structured["error"].get("near").cloned().unwrap_or(Value::Null)
}

#[tokio::test]
async fn a_missing_path_is_refused_with_close_names_that_the_caller_may_see() {
    let rig =
        rig(&["plans/Garden.md", "plans/garden.txt", "plans/secret/garden", "node_modules/x"]);
    let read = async |claim: &str, path: &str| {
        let called = rig.call(claim, "text.read", json!({ "path": path })).await;
        for near in offered(&called).as_array().into_iter().flatten() {
            assert!(called.text.contains(near.as_str().unwrap()), "{}", called.text);
        }
        offered(&called)
    };
    let both = json!(["/plans/Garden.md", "/plans/garden.txt"]);
    assert_eq!(read("read:/", "/plans/garden.md").await, both);
    assert_eq!(read("read:/plans/", "/plans/gardn.md").await, both);
    assert_eq!(
        read("read:/plans/ deny:/plans/Garden.md", "/plans/gardn").await,
        json!(["/plans/garden.txt"])
    );
    // The first part of the path that is missing.
    assert_eq!(read("read:/", "/plan/Garden.md").await, json!(["/plans"]));
    assert_eq!(read("read:/", "/plans/secrets/garden").await, json!(["/plans/secret"]));
    // The folder is hidden, though the file beside is not.
    let claim = "read:/plans/garden.md read:/plans/Garden.md";
    assert_eq!(read(claim, "/plans/garden.md").await, Value::Null);
    assert_eq!(read("read:/", "/node_module/x").await, Value::Null);
    assert_eq!(read("read:/", "/plans/zebra.md").await, Value::Null);
}

#[tokio::test]
async fn a_search_for_a_name_that_nothing_fits_offers_close_names() {
    let rig = rig(&["plans/budget-2024.md", "plans/garden.txt", "hidden/budget.md"]);
    let find = async |claim: &str, more: Value| {
        let mut arguments = json!({ "path": "/" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let called = rig.call(claim, "file.find", arguments).await;
        assert_eq!(called.structured["matches"], json!([]), "{called:?}");
        let near = called.structured.get("near").cloned().unwrap_or(Value::Null);
        for name in near.as_array().into_iter().flatten() {
            assert!(called.text.contains(name.as_str().unwrap()), "{}", called.text);
        }
        near
    };
    let close = json!(["/hidden/budget.md", "/plans/budget-2024.md"]);
    assert_eq!(find("read:/", json!({ "pattern": "budjet" })).await, close);
    assert_eq!(find("read:/", json!({ "pattern": "**/budjet*.txt" })).await, close);
    let close = json!(["/plans/budget-2024.md"]);
    assert_eq!(find("read:/plans/", json!({ "pattern": "budjet" })).await, close);
    assert_eq!(
        find("read:/plans/", json!({ "pattern": "gardem", "type": "directory" })).await,
        Value::Null
    );
    assert_eq!(find("read:/", json!({ "pattern": "zebra" })).await, Value::Null);
    let found = rig.call("read:/", "file.find", json!({ "pattern": "budget" })).await;
    assert_eq!(found.structured.get("near"), None);
}

/// A link is asked for by the exact name of its file, as a read is.
#[tokio::test]
async fn a_linked_file_that_is_not_there_is_refused_with_the_close_name() {
    let rig = Rig::new();
    let decomposed = "Cafe\u{301}.md";
    std::fs::write(rig.space.path().join(decomposed), "x").unwrap();
    std::fs::write(rig.space.path().join("a.md"), format!("[[{decomposed}]]")).unwrap();
    let ask = |name: &str| rig.call("read:/", "note.find", serde_json::json!({ "links_to": name }));
    assert_eq!(ask(decomposed).await.structured["matches"][0]["path"], "/a.md");
    let refused = ask("/Caf\u{e9}.md").await;
    assert_eq!(refused.structured["error"]["code"], "not_found");
    let close = format!("/{decomposed}");
    assert_eq!(refused.structured["error"]["near"], serde_json::json!([close]));
}
