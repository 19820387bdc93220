//! What a search finds in files as people have them: with very long lines, with a byte order mark,
//! and changed a moment ago.

use stile_domain::find::text_query::{LetterCase, PART_BYTES, QuerySyntax, TextQuery};
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::permit::Walk;

use super::super::TextSearch;
use super::*;

/// Returns the lines and columns that a regular expression finds.
fn found(rig: &Rig, q: &str) -> Vec<(u64, u64)> {
    let query = TextQuery::parse(q, QuerySyntax::Regex, LetterCase::Smart).unwrap();
    let search = TextSearch { query, glob: None, context: 0 };
    let permit = principal("read:/").gate().permit::<Walk>(&SpacePath::root()).unwrap();
    let (cursor, cancellation) = (WalkCursor::default(), Cancellation::default());
    let page = rig.inner().search_text(&permit, &search, cursor, &cancellation).unwrap();
    assert_eq!(page.left_out, [], "{q}");
    page.hits.iter().map(|hit| (hit.line, hit.text.column)).collect()
}

#[test]
fn an_expression_finds_the_same_lines_whatever_line_is_beside_them() {
    let rig = Rig::new();
    for ending in ["\n", "\r\n"] {
        for long in [1000, PART_BYTES - 100, PART_BYTES + 100, 5 * PART_BYTES, 20 * PART_BYTES] {
            let long = "x ".repeat(long / 2) + "end";
            let lines = ["alpha one", "beta", &long, "gamma", "", "delta "];
            rig.put("a", &lines.map(|line| line.to_owned() + ending).concat());
            let lines_of = |q: &str| found(&rig, q).iter().map(|hit| hit.0).collect::<Vec<_>>();
            for (q, expected) in [
                ("^$", &[5][..]),
                (r"^\s*$", &[5]),
                ("TODO$|^$", &[5]),
                (r"\s+$", &[6]),
                ("a$", &[2, 4]),
                ("^b", &[2]),
                ("q*$", &[1, 2, 3, 4, 5, 6]),
                (r"\bgamma\b", &[4]),
                ("end$", &[3]),
            ] {
                assert_eq!(lines_of(q), expected, "{q} {ending:?} {}", long.len());
            }
        }
    }
}

#[test]
fn the_first_line_begins_after_the_byte_order_mark() {
    let rig = Rig::new();
    for more in [0, 100_000, 300_000, 5_000_000] {
        let more = "more\n".repeat(more / 5);
        rig.put("a", &format!("\u{feff}needle one\nneedle two\n{more}"));
        assert_eq!(found(&rig, "^needle"), [(1, 1), (2, 1)], "{}", more.len());
        assert_eq!(found(&rig, "^needle one$"), [(1, 1)]);
    }
}

#[tokio::test]
async fn a_large_file_is_found_right_after_a_change_of_it() {
    let rig = Rig::new();
    let text = "line\n".repeat(1_000_000);
    rig.put("a", &text);
    let mut base = hash(&text);
    for number in 0..3 {
        let needle = format!("needle{number}");
        let edit = principal("write:/").gate().permit(&path("/a")).unwrap();
        let plan = move |text: &str| Ok(format!("{needle}\n{text}"));
        let edited = rig.space.edit(edit, base, NewText::default(), ["lines", "old"], plan).await;
        base = edited.unwrap().hash;
        assert_eq!(found(&rig, &format!("needle{number}")), [(1, 1)]);
    }
}
