//! First versions to which a client only added.

use super::*;

/// Appends to a long file that somebody else wrote, then replaces it until later versions must go.
fn append_and_replace(unkept: UnkeptChange, rounds: u64) -> (Rig, Vec<u8>, usize) {
    let bytes = 1_000_000;
    let rig = Rig::with(HistoryLimits { days: 30, bytes });
    let state = StateDir::open(&rig.folder.path().join("state")).unwrap();
    let unkept = ServerSetting::Named(unkept);
    let server = ServerSettings { unkept, ..named(HistoryLimits { days: 30, bytes }) };
    let root = rig.folder.path().join("root");
    let history = History::open_to_serve(&state, &root, &server).unwrap();
    let call = Call::new(author("ann"));
    let first = noise(200_000, 1);
    let mut now = [&first[..], b"x"].concat();
    keep_as(&history, &call, "/diary", [Some(&first), Some(&now)]).unwrap();
    let mut made = 0;
    for round in 0..rounds {
        // The client's own content is long, so that its versions soon take all room.
        let next = noise(600_000, 10 + round);
        if keep_as(&history, &call, "/diary", [Some(&now), Some(&next)]).is_ok() {
            (now, made) = (next, made + 1);
        }
    }
    (rig, first, made)
}

#[test]
fn a_long_first_version_that_was_only_added_to_outlives_the_later_versions_of_the_client() {
    for unkept in [UnkeptChange::GoesOn, UnkeptChange::IsRefused] {
        let (rig, first, made) = append_and_replace(unkept, 6);
        assert!(made > 0);
        assert_eq!(rig.version("/diary", "1").unwrap(), first, "{unkept:?}");
        assert!(rig.used() <= 1_000_000 && rig.in_files() <= 1_000_000);
    }
}

#[test]
fn a_long_first_version_outlives_large_appends_and_an_append_at_another_path() {
    let rig = Rig::with(HistoryLimits { days: 30, bytes: 1_000_000 });
    let (one, call) = (Call::new(author("ann")), Call::new(author("ann")));
    let first = noise(200_000, 1);
    // All that the client adds is more than its share, the first version is not.
    let more = [&first[..], &noise(900_000, 2)].concat();
    keep_as(&rig.history, &one, "/log", [Some(&first), Some(&more)]).unwrap();
    let hash = ContentHash::digest(&more);
    let moved = NewChange {
        kind: PastChangeKind::Moved,
        path: &path("/log"),
        to: Some(&path("/moved")),
        before: Some(hash),
        size_before: more.len() as u64,
        after: Some(hash),
        held: None,
        metadata: None,
        call: &call,
    };
    rig.history.keep(&moved, VersionSource::WithinAfter).unwrap();
    let grown = [&more[..], b"x"].concat();
    keep_as(&rig.history, &call, "/moved", [Some(&more), Some(&grown)]).unwrap();
    keep_as(&rig.history, &call, "/moved", [Some(&grown), None]).unwrap();
    assert_eq!(rig.version("/log", "1").unwrap(), first);
}

#[test]
fn a_long_version_is_found_in_one_to_which_somebody_else_added() {
    let rig = Rig::new();
    let first = noise(100_000, 1);
    let [appended, by_person] = [b"a", b"b"].map(|more| [&first[..], more].concat());
    let call = Call::new(author("ann"));
    keep_as(&rig.history, &call, "/log", [Some(&first), Some(&appended)]).unwrap();
    keep_as(&rig.history, &call, "/log", [Some(&by_person), Some(b"x")]).unwrap();
    assert_eq!(rig.version_beside("/log", "1", Some(b"x")).unwrap(), first);
}
