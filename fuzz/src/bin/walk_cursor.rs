//! Cursors of walks: what is read is exactly what was written, and the order of positions is one.
//!
//! An input is text: a query, and then paths, with line breaks between them. A path that ends in
//! `/` is one of a folder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::find::walk_cursor::{
    BadWalkCursor, MAX_WALK_CURSOR_CHARS, MatchRank, WalkCursor, WalkPosition,
};
use stile_domain::path::SpacePath;

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let (query, paths) = input.split_once('\n').unwrap_or((&input, ""));
    if let Ok(cursor) = WalkCursor::decode(query, "") {
        assert_eq!(WalkCursor::decode(&cursor.encode(""), ""), Ok(cursor));
    }
    let is_folder = |text: &&str| text.ends_with('/');
    let paths: Vec<(SpacePath, bool)> = paths
        .split('\n')
        .filter_map(|text| Some((SpacePath::parse(text).ok()?, is_folder(&text))))
        .take(4)
        .collect();
    let positions: Vec<WalkPosition> = paths
        .iter()
        .zip(paths.iter().skip(1))
        .map(|((start, _), (path, is_folder))| WalkPosition {
            start: start.clone(),
            path: path.clone(),
            is_folder: *is_folder,
        })
        .collect();
    let cursor = WalkCursor {
        after: positions.first().cloned(),
        line: query.len() as u64,
        until: positions.get(1).cloned(),
        rank: paths.first().map(|(path, _)| MatchRank { score: 7, path: path.clone() }),
    };
    a_cursor_is_read_as_it_was_written(&cursor, query);
    positions_have_an_order(&positions);
});

fn a_cursor_is_read_as_it_was_written(cursor: &WalkCursor, query: &str) {
    let text = cursor.encode(query);
    assert!(text.len() <= MAX_WALK_CURSOR_CHARS);
    assert_eq!(WalkCursor::decode(&text, query).as_ref(), Ok(cursor));
    let other = WalkCursor::decode(&text, &format!("{query}."));
    assert_eq!(other, Err(BadWalkCursor::Mismatch));
    for changed in [&text[1..], &text[..text.len() - 1], &format!("{text}="), &format!("{text}A")] {
        assert_eq!(WalkCursor::decode(changed, query), Err(BadWalkCursor::Malformed));
    }
}

fn positions_have_an_order(positions: &[WalkPosition]) {
    for one in positions {
        assert!(!one.is_after(one));
        assert_eq!(one.is_below(&one.start), one.start.covers(&one.path));
        for other in positions {
            assert!(!(one.is_after(other) && other.is_after(one)));
            // What a folder holds follows the folder.
            if one.start == other.start && other.path.covers(&one.path) && one.path != other.path {
                assert!(one.is_after(other));
            }
            for third in positions {
                assert!(!(one.is_after(other) && other.is_after(third)) || one.is_after(third));
            }
        }
    }
}
