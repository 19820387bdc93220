//! The size of an answer and the time for it are bounded, however large or hostile the note.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_domain::notes::{MAX_ANSWER_BYTES, MAX_HEADINGS, MAX_NOTE_BYTES};

use crate::Rig;
use crate::notes_answers::{NOTE_TOOLS, told};

fn count(tool: &str, answer: &Value) -> usize {
    fn below(nodes: &Value) -> usize {
        nodes.as_array().unwrap().iter().map(|node| 1 + below(&node["children"])).sum()
    }
    match tool {
        "get_note_outline" => answer["headings"].as_array().unwrap().len(),
        "get_document_tree" => below(&answer["root"]["children"]),
        "get_section_source" => answer["sections"].as_array().unwrap().len(),
        _ => 0,
    }
}

#[tokio::test]
async fn large_notes_are_capped_by_heading_count_and_input() {
    let rig = Rig::new();
    rig.put("many.md", "## H\n\n".repeat(5_000));
    rig.put("units.md", "\u{1f680}".repeat(500_000));
    rig.put("too_many_units.md", "\u{1f680}".repeat(500_001));
    rig.put("bytes.md", " ".repeat(usize::try_from(MAX_NOTE_BYTES).unwrap()));
    rig.put("too_many_bytes.md", " ".repeat(usize::try_from(MAX_NOTE_BYTES).unwrap() + 1));
    for tool in NOTE_TOOLS {
        let answer = rig.note(tool, "many.md").await.structured;
        let facets = tool == "get_metadata_facets";
        assert_eq!(count(tool, &answer), if facets { 0 } else { MAX_HEADINGS });
        assert_eq!(answer["truncated"], !facets);
        for (path, fits) in
            [("units", true), ("too_many_units", false), ("bytes", true), ("too_many_bytes", false)]
        {
            let answer = rig.note(tool, &format!("{path}.md")).await;
            assert_eq!(answer.failure.is_none(), fits, "{tool} {path}");
            assert!(fits || answer.structured == told("Note too large"), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn large_outputs_are_bounded_by_section_count_and_text() {
    let rig = Rig::new();
    // Each character takes six bytes of JSON, or four; each heading is as long as may be told.
    for (name, letter) in
        [("controls", "\u{1}"), ("rockets", "\u{1f680}"), ("quotes", "\""), ("letters", "a")]
    {
        let nested = |heading: usize| "#".repeat(heading % 6 + 1);
        let headings: String = (0..600)
            .map(|heading| format!("{} {}\n\n", nested(heading), letter.repeat(1_100)))
            .collect();
        let headings: String =
            headings.chars().take(900_000 / letter.encode_utf16().count()).collect();
        rig.put(
            &format!("{name}.md"),
            format!("---\ntitle: {}\n---\n{headings}", "t".repeat(2_000)),
        );
        for tool in NOTE_TOOLS {
            let answer = rig.note(tool, &format!("{name}.md")).await;
            assert!(answer.text.len() <= MAX_ANSWER_BYTES, "{tool} {name}: {}", answer.text.len());
            if tool == "get_metadata_facets" {
                continue;
            }
            assert_eq!(answer.structured["truncated"], true);
            // As much is told as there is room for: one more section would take 50 KB at most.
            assert!(
                answer.text.len() > MAX_ANSWER_BYTES - 50_000,
                "{tool} {name}: {}",
                answer.text.len()
            );
            let title = answer.structured["title"].as_str().unwrap();
            assert_eq!(title.chars().count(), 1024);
        }
    }
    let one = format!("# {}\n", "a ".repeat(400_000));
    rig.put("one.md", one);
    let answer = rig.note("get_section_source", "one.md").await.structured;
    let text = answer["sections"][0]["heading_text"].as_str().unwrap();
    assert_eq!((text.chars().count(), &answer["truncated"]), (1024, &json!(true)));
}

#[tokio::test]
async fn facets_are_bounded() {
    let rig = Rig::new();
    let many: String = (0..200).map(|tag| format!("{}{tag},", "a".repeat(300))).collect();
    rig.put("a.md", format!("---\ntags: [{many}]\nepisode_id: {}\n---\n", "b".repeat(300)));
    let answer = rig.note("get_metadata_facets", "a.md").await;
    let tags = answer.structured["facets"]["tags"].as_array().unwrap();
    assert_eq!(tags.len(), 100);
    assert!(tags.iter().all(|tag| tag.as_str().unwrap().len() == 256));
    assert_eq!(answer.structured["truncated"], true);
}

#[tokio::test]
async fn repeated_calls_give_the_same_answer_for_an_unchanged_note() {
    let rig = Rig::new();
    let text: String =
        (0..700).map(|at| format!("{} H {at}\n\ntext\n\n", "#".repeat(at % 6 + 1))).collect();
    rig.put("a.md", text);
    for tool in NOTE_TOOLS {
        let first = rig.note(tool, "a.md").await;
        for _ in 0..20 {
            assert_eq!(rig.note(tool, "a.md").await, first);
        }
        let calls = (0..16).map(|_| rig.note(tool, "a.md"));
        assert!(futures::future::join_all(calls).await.iter().all(|answer| *answer == first));
    }
}

#[tokio::test]
async fn a_note_tool_reads_one_note_among_many() {
    let rig = Rig::new();
    for at in 0..2_000 {
        rig.put(&format!("many/{at}.md"), "# H\n");
    }
    rig.put("a.md", "# A\n");
    // Nothing but the note need be readable, nor its folder be listed.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(
            rig.space.path().join("many"),
            std::fs::Permissions::from_mode(0o000),
        )
        .unwrap();
        std::fs::set_permissions(rig.space.path(), std::fs::Permissions::from_mode(0o111)).unwrap();
    }
    rig.note("get_section_source", "a.md").await;
    let began = Instant::now();
    for tool in NOTE_TOOLS {
        assert_eq!(rig.note(tool, "a.md").await.failure, None);
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(rig.space.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(
            rig.space.path().join("many"),
            std::fs::Permissions::from_mode(0o755),
        )
        .unwrap();
    }
}
