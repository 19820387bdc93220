//! The commands that take records away and bring them back.

use serde_json::{Value, json};

use super::records_kit::{Kit, refusal};

#[test]
fn a_stream_is_removed_after_its_plan_and_comes_back_without_its_grants() {
    let kit = Kit::new();
    let rows: Vec<Value> = (0..3).map(|key| json!({ "id": format!("k{key}") })).collect();
    kit.ingest("notes", "own", &rows);
    let (grant, token) = kit.client(&["--stream", "notes"]);
    let list = "/v1/streams/notes/records";
    let plan = kit.said(&["records", "remove", "--connection", "own"]);
    for part in ["the stream `notes` of `own`, 3 records", grant.as_str(), "Add --yes"] {
        assert!(plan.contains(part), "{plan}");
    }
    assert_eq!(kit.get(list, &token).status, 200, "a plan changes nothing");
    let done = kit.said(&["records", "remove", "--connection", "own", "--yes", "--json"]);
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!((&done["records"], &done["ended_grants"]), (&json!(3), &json!([grant])));
    let ended = kit.get(list, &token);
    assert_eq!(refusal(&ended), (403, "grant_revoked".to_owned()));
    assert_eq!(kit.get(list, &kit.owner).status, 404);
    let removal = done["removal"].as_str().unwrap();
    assert!(kit.said(&["records", "removed"]).contains(removal));
    let again = kit.run(&["records", "remove", "--connection", "own", "--yes"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(kit.said(&["records", "restore", removal]), "restored 3 records");
    let back = kit.json(list, &kit.owner);
    assert_eq!(back["data"].as_array().unwrap().len(), 3);
    assert_eq!(refusal(&kit.get(list, &token)).1, "grant_revoked");
    let one = kit.said(&[
        "records", "remove", "--connection", "own", "--stream", "notes", "--record", "k1",
        "--purge", "--yes",
    ]);
    assert!(one.contains("gone for good"), "{one}");
    assert_eq!(kit.get(&format!("{list}/k1"), &kit.owner).status, 404);
    assert_eq!(kit.said(&["records", "removed", "--json"]), "[]");
}
