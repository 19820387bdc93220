//! Moves that rewrite links: what is written, what is left, and what a caller learns of it.

use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::limits::MAX_REWRITTEN_NOTES;

use super::super::{LinkRewrites, LinkRewriting, RewriteOutcome};
use super::*;

/// Moves a file as the bearer of `claim`.
async fn moved(
    space: &Space,
    claim: &str,
    [from, to]: [&str; 2],
    request: LinkRewriting,
) -> Result<LinkRewrites, Refusal> {
    let (principal, root) = (principal(claim), SpacePath::root());
    let gate = principal.gate();
    let paths = (gate.permit(&path(from))?, gate.permit(&path(to))?);
    space.move_with_links(paths, (gate.permit(&root)?, gate.permit(&root)?), request).await
}

fn first(text: &str) -> LinkRewriting {
    LinkRewriting { base: hash(text), is_dry: false, cursor: None }
}

fn dry(text: &str) -> LinkRewriting {
    LinkRewriting { is_dry: true, ..first(text) }
}

/// Returns the notes, each with the number of its changes and what became of them.
fn outcomes(done: &LinkRewrites) -> Vec<(&str, usize, RewriteOutcome)> {
    done.notes.iter().map(|note| (note.path.as_str(), note.changes.len(), note.outcome)).collect()
}

const ALL: &str = "write:/";
const OWN: &str = "# A\n[[x]] [b](b.md) ![i](../i.png)\n";

/// A space with a note `/f/a.md` and notes that link to it.
fn garden() -> Rig {
    let rig = Rig::new();
    for folder in ["f", "w", "r", "hidden"] {
        fs::create_dir(rig.file(folder)).unwrap();
    }
    rig.put("f/a.md", OWN);
    rig.put("f/b.md", "[a](a.md) and [[a]]\r\n");
    rig.put("w/x.md", "[[f/a|A]] `[[f/a]]`\n");
    rig.put("r/y.md", "see [[f/a#One]] ![[f/a]]\n");
    rig.put("hidden/z.md", "[[f/a]]\n");
    rig.put("w/none.md", "[[none]]\n");
    rig.put("i.png", "");
    rig
}

#[tokio::test]
async fn links_are_rewritten_where_the_caller_may_write_and_reported_where_not() {
    let rig = garden();
    let claim = "write:/f/ write:/w/ write:/g/ read:/r/ read:/i.png";
    let done = moved(&rig.space, claim, ["/f/a.md", "/g/h/n.md"], first(OWN)).await.unwrap();
    use RewriteOutcome::{Left, Written};
    let expected = [
        ("/g/h/n.md", 2, Written),
        ("/f/b.md", 2, Written),
        ("/r/y.md", 2, Left("insufficient_scope")),
        ("/w/x.md", 1, Written),
    ];
    assert_eq!(outcomes(&done), expected);
    assert_eq!((done.searched, done.skipped, done.next), (4, 0, None));
    let own = "# A\n[[x]] [b](../../f/b.md) ![i](../../i.png)\n";
    assert_eq!((rig.text("g/h/n.md").as_str(), done.hash), (own, Some(hash(own))));
    assert_eq!(rig.text("f/b.md"), "[a](../g/h/n.md) and [[n]]\r\n");
    assert_eq!(rig.text("w/x.md"), "[[g/h/n|A]] `[[f/a]]`\n");
    assert_eq!(rig.text("r/y.md"), "see [[f/a#One]] ![[f/a]]\n");
    assert_eq!(rig.text("hidden/z.md"), "[[f/a]]\n");
    // The journal has a line for each note, with both versions and no content.
    let events = rig.events.lock().unwrap();
    let lines = events.iter().map(|line| (line.tool.as_str(), line.path.clone().unwrap()));
    let expected = ["/g/h/n.md", "/f/b.md", "/w/x.md"].map(|note| ("rewrite_links", path(note)));
    assert!(lines.eq(expected));
    assert!(events.iter().all(|line| line.before.is_some() && line.after.is_some()));
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_shows_what_the_call_then_does() {
    let rig = garden();
    let paths = ["/f/a.md", "/g/n.md"];
    let plan = moved(&rig.space, ALL, paths, dry(OWN)).await.unwrap();
    assert_eq!(rig.text("f/a.md"), OWN);
    assert_eq!((rig.file("g").exists(), rig.text("w/x.md").len()), (false, 20));
    assert!(plan.notes.iter().all(|note| note.outcome == RewriteOutcome::Planned));
    let done = moved(&rig.space, ALL, paths, first(OWN)).await.unwrap();
    let changes = |done: &LinkRewrites| -> Vec<_> {
        done.notes.iter().map(|note| (note.path.clone(), note.changes.clone())).collect()
    };
    assert_eq!(changes(&plan), changes(&done));
    assert_eq!(plan.notes.len(), 5);
}

#[tokio::test]
async fn a_refused_move_rewrites_no_link() {
    let rig = garden();
    for (base, to, expected) in [("old", "/g/n.md", "stale"), (OWN, "/f/b.md", "already_exists")] {
        for request in [first(base), dry(base)] {
            let done = moved(&rig.space, ALL, ["/f/a.md", to], request).await;
            assert_eq!(code(done), expected, "{to}");
        }
    }
    assert_eq!(code(moved(&rig.space, ALL, ["/none.md", "/n.md"], dry(OWN)).await), "not_found");
    assert_eq!(rig.text("w/x.md"), "[[f/a|A]] `[[f/a]]`\n");
    assert!(!rig.file("g").exists());
}

/// Law: whatever is hidden, the caller is answered alike.
#[tokio::test]
async fn what_the_scopes_hide_is_neither_touched_nor_counted() {
    let claim = "write:/f/ write:/g/ write:/w/ read:/r/ deny:/w/secret";
    let (mut answers, mut texts) = (Vec::new(), Vec::new());
    for has_more in [false, true] {
        let rig = garden();
        fs::create_dir(rig.file("w/secret")).unwrap();
        if has_more {
            rig.put("hidden/a.md", "[[f/a]]");
            rig.put("hidden/n.md", "");
            rig.put("w/secret/x.md", "[[f/a]]");
            rig.put("w/secret/a.md", "");
        }
        let done = moved(&rig.space, claim, ["/f/a.md", "/g/n.md"], first(OWN)).await.unwrap();
        if has_more {
            assert_eq!((rig.text("hidden/a.md"), rig.text("w/secret/x.md")), {
                let untouched = "[[f/a]]".to_owned();
                (untouched.clone(), untouched)
            });
        }
        answers.push(format!("{done:?}"));
        texts.push(["f/b.md", "w/x.md", "g/n.md"].map(|name| rig.text(name)));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn a_call_rewrites_a_bounded_number_of_notes_and_the_next_goes_on() {
    let rig = Rig::new();
    rig.put("a.md", "x");
    fs::create_dir(rig.file("notes")).unwrap();
    let notes = MAX_REWRITTEN_NOTES + 30;
    for number in 0..notes {
        rig.put(&format!("notes/{number}.md"), "[a](../a.md)");
    }
    let paths = ["/a.md", "/f/b.md"];
    let (mut cursor, mut pages): (Option<WalkCursor>, Vec<usize>) = (None, Vec::new());
    loop {
        let request = LinkRewriting { cursor, ..first("x") };
        let done = moved(&rig.space, ALL, paths, request).await.unwrap();
        assert!(done.notes.iter().all(|note| note.outcome == RewriteOutcome::Written));
        pages.push(done.notes.len());
        cursor = done.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [MAX_REWRITTEN_NOTES, 30]);
    for number in 0..notes {
        assert_eq!(rig.text(&format!("notes/{number}.md")), "[a](../f/b.md)");
    }
    // A cursor moves nothing, and a file that has come to the old place is not taken for the old.
    rig.put("a.md", "another");
    let request = LinkRewriting { cursor: Some(WalkCursor::default()), ..first("x") };
    assert_eq!(code(moved(&rig.space, ALL, paths, request).await), "already_exists");
}

#[tokio::test]
async fn a_second_call_completes_what_a_kill_left() {
    let paths = ["/f/a.md", "/g/h/n.md"];
    let whole = garden();
    moved(&whole.space, ALL, paths, first(OWN)).await.unwrap();
    let names = ["g/h/n.md", "f/b.md", "w/x.md", "r/y.md", "hidden/z.md", "w/none.md"];
    // The kill came after the move, or after the move and each number of notes.
    for written in 0..=4 {
        let rig = garden();
        fs::create_dir_all(rig.file("g/h")).unwrap();
        fs::rename(rig.file("f/a.md"), rig.file("g/h/n.md")).unwrap();
        for name in &names[..written] {
            rig.put(name, &whole.text(name));
        }
        let now = rig.text("g/h/n.md");
        if written > 0 {
            assert_eq!(code(moved(&rig.space, ALL, paths, first(OWN)).await), "stale");
        }
        let done = moved(&rig.space, ALL, paths, first(&now)).await.unwrap();
        assert!(done.notes.iter().all(|note| note.ambiguous == 0), "{done:?}");
        for name in names {
            assert_eq!(rig.text(name), whole.text(name), "{written} {name}");
        }
    }
}

#[tokio::test]
async fn a_note_that_is_saved_after_the_plan_is_left_and_the_next_call_rewrites_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for (name, text) in [("a.md", "x"), ("1.md", "[a](a.md)"), ("2.md", "[a](a.md)")] {
        fs::write(file(name), text).unwrap();
    }
    let second = file("2.md");
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        search_ignore: SearchIgnore::default(),
        lock_wait: Duration::from_secs(20),
        // The first note is written: a person saves the second one.
        events: Arc::new(move |line| {
            if line.path == Some(path("/1.md")) {
                fs::write(&second, "[a](a.md) and more").unwrap();
            }
        }),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    let (space, _) = Space::open_ambient(folder.path(), options).unwrap();
    let done = moved(&space, ALL, ["/a.md", "/b.md"], first("x")).await.unwrap();
    use RewriteOutcome::{Left, Written};
    assert_eq!(outcomes(&done), [("/1.md", 1, Written), ("/2.md", 1, Left("stale"))]);
    assert_eq!(fs::read_to_string(file("2.md")).unwrap(), "[a](a.md) and more");
    let done = moved(&space, ALL, ["/a.md", "/b.md"], first("x")).await.unwrap();
    assert_eq!(outcomes(&done), [("/2.md", 1, Written)]);
    assert_eq!(fs::read_to_string(file("2.md")).unwrap(), "[a](b.md) and more");
}

/// Moves a folder as the bearer of `claim`.
async fn moved_folder(
    space: &Space,
    claim: &str,
    [from, to]: [&str; 2],
    request: LinkRewriting,
) -> Result<LinkRewrites, Refusal> {
    let (principal, root) = (principal(claim), SpacePath::root());
    let gate = principal.gate();
    let paths = (gate.permit(&path(from))?, gate.permit(&path(to))?);
    let notes = (gate.permit(&root)?, gate.permit(&root)?);
    space.move_folder_with_links(paths, notes, request).await
}

async fn tree_hash(rig: &Rig, folder: &str) -> ContentHash {
    rig.space.tree_hash(principal(ALL).gate().permit(&path(folder)).unwrap()).await.unwrap()
}

/// Returns the request to move a folder as it is now.
async fn now(rig: &Rig, folder: &str) -> LinkRewriting {
    LinkRewriting { base: tree_hash(rig, folder).await, is_dry: false, cursor: None }
}

/// A space with a folder `/f` of notes that link to each other, to the outside and from there.
fn meadow() -> Rig {
    let rig = Rig::new();
    for folder in ["f/deep", "w", "r"] {
        fs::create_dir_all(rig.file(folder)).unwrap();
    }
    rig.put(
        "f/a.md",
        "---\nup: \"[[f/deep/b]]\"\n---\n[b](deep/b.md) [x](../w/x.md) ![i](i.png)\n",
    );
    rig.put("f/deep/b.md", "[[a]] [a](../a.md) [[w/x]] [n](../../none.md)\n");
    rig.put("f/i.png", "");
    rig.put("f/own.canvas", r#"{"nodes":[{"type":"file","file":"f/a.md"}]}"#);
    rig.put("w/x.md", "[[f/a|A]] [[b]] [b](../f/deep/b.md) ![[f/i.png]]\n");
    rig.put("w/board.canvas", r#"{"nodes":[{"type":"file","file":"f/deep/b.md"}]}"#);
    rig.put("r/y.md", "[[f/a]]\n");
    rig
}

#[tokio::test]
async fn a_folder_that_moves_takes_the_links_of_all_notes_along() {
    let rig = meadow();
    let claim = "write:/f/ write:/w/ write:/g/ read:/r/";
    let request = now(&rig, "/f").await;
    let done = moved_folder(&rig.space, claim, ["/f", "/g/h/n"], request).await.unwrap();
    use RewriteOutcome::{Left, Written};
    let expected = [
        ("/g/h/n/a.md", 2, Written),
        ("/g/h/n/deep/b.md", 0, Written),
        ("/g/h/n/own.canvas", 1, Written),
        ("/r/y.md", 1, Left("insufficient_scope")),
        ("/w/board.canvas", 1, Written),
        ("/w/x.md", 3, Written),
    ];
    let expected: Vec<_> = expected.into_iter().filter(|(_, links, _)| *links > 0).collect();
    assert_eq!(outcomes(&done), expected);
    assert_eq!((done.skipped, done.next), (0, None));
    let own =
        "---\nup: \"[[g/h/n/deep/b]]\"\n---\n[b](deep/b.md) [x](../../../w/x.md) ![i](i.png)\n";
    assert_eq!(rig.text("g/h/n/a.md"), own);
    assert_eq!(rig.text("g/h/n/deep/b.md"), "[[a]] [a](../a.md) [[w/x]] [n](../../none.md)\n");
    assert_eq!(rig.text("g/h/n/own.canvas"), r#"{"nodes":[{"type":"file","file":"g/h/n/a.md"}]}"#);
    assert_eq!(
        rig.text("w/x.md"),
        "[[g/h/n/a|A]] [[b]] [b](../g/h/n/deep/b.md) ![[g/h/n/i.png]]\n"
    );
    assert_eq!(
        rig.text("w/board.canvas"),
        r#"{"nodes":[{"type":"file","file":"g/h/n/deep/b.md"}]}"#
    );
    assert_eq!(rig.text("r/y.md"), "[[f/a]]\n");
    assert_eq!(done.hash, Some(tree_hash(&rig, "/g/h/n").await));
}

#[tokio::test]
async fn a_dry_run_of_a_folder_writes_nothing_and_shows_what_the_call_then_does() {
    let rig = meadow();
    let request = now(&rig, "/f").await;
    let dry = LinkRewriting { is_dry: true, ..request.clone() };
    let plan = moved_folder(&rig.space, ALL, ["/f", "/g"], dry.clone()).await.unwrap();
    assert!(rig.file("f/a.md").exists() && !rig.file("g").exists());
    assert!(plan.notes.iter().all(|note| note.outcome == RewriteOutcome::Planned));
    assert_eq!(
        code(moved_folder(&rig.space, ALL, ["/f", "/w"], dry.clone()).await),
        "already_exists"
    );
    assert_eq!(code(moved_folder(&rig.space, ALL, ["/f", "/f/g"], dry).await), "invalid_argument");
    let stale = LinkRewriting { base: hash("old"), is_dry: true, cursor: None };
    assert_eq!(code(moved_folder(&rig.space, ALL, ["/f", "/g"], stale).await), "stale");
    let done = moved_folder(&rig.space, ALL, ["/f", "/g"], request).await.unwrap();
    let changes = |done: &LinkRewrites| -> Vec<_> {
        done.notes.iter().map(|note| (note.path.clone(), note.changes.clone())).collect()
    };
    assert_eq!(changes(&plan), changes(&done));
    assert!(plan.notes.len() >= 4, "{plan:?}");
}

#[tokio::test]
async fn the_notes_of_a_folder_and_all_others_are_reached_by_cursors() {
    let rig = Rig::new();
    fs::create_dir(rig.file("f")).unwrap();
    let own = MAX_REWRITTEN_NOTES + 20;
    for number in 0..own {
        rig.put(&format!("f/{number}.md"), "[o](../o.md)");
    }
    rig.put("o.md", "[[f/0]]");
    // One comes before the folder in the walk, and the others after it.
    for number in 0..MAX_REWRITTEN_NOTES {
        rig.put(&format!("z{number}.md"), "[[f/1]]");
    }
    rig.put("a.md", "[[f/2]]");
    let (mut request, mut pages) = (now(&rig, "/f").await, Vec::new());
    loop {
        let done = moved_folder(&rig.space, ALL, ["/f", "/g/h"], request.clone()).await.unwrap();
        assert!(done.notes.iter().all(|note| note.outcome == RewriteOutcome::Written));
        pages.push(done.notes.len());
        request.cursor = done.next;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages.iter().sum::<usize>(), own + MAX_REWRITTEN_NOTES + 2, "{pages:?}");
    assert!(pages.iter().all(|page| *page <= MAX_REWRITTEN_NOTES), "{pages:?}");
    for number in 0..own {
        assert_eq!(rig.text(&format!("g/h/{number}.md")), "[o](../../o.md)");
    }
    assert_eq!((rig.text("a.md").as_str(), rig.text("z7.md").as_str()), ("[[g/h/2]]", "[[g/h/1]]"));
    assert_eq!(rig.text("o.md"), "[[g/h/0]]");
}

/// Law: whatever is hidden, the caller of a move of a folder is answered alike.
#[tokio::test]
async fn what_the_scopes_hide_takes_no_part_in_the_move_of_a_folder() {
    let claim = "write:/f/ write:/g/ write:/w/ read:/r/ deny:/w/secret";
    let mut answers = Vec::new();
    for has_more in [false, true] {
        let rig = meadow();
        fs::create_dir_all(rig.file("w/secret")).unwrap();
        fs::create_dir_all(rig.file("hidden")).unwrap();
        if has_more {
            rig.put("hidden/a.md", "[[f/a]]");
            rig.put("hidden/b.md", "");
            rig.put("w/secret/x.md", "[[f/deep/b]]");
        }
        let request = now(&rig, "/f").await;
        let done = moved_folder(&rig.space, claim, ["/f", "/g"], request).await.unwrap();
        if has_more {
            assert_eq!(rig.text("hidden/a.md") + &rig.text("w/secret/x.md"), "[[f/a]][[f/deep/b]]");
        }
        answers.push(format!("{done:?}"));
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn a_second_call_completes_what_a_kill_left_of_a_folder() {
    let whole = meadow();
    let request = now(&whole, "/f").await;
    moved_folder(&whole.space, ALL, ["/f", "/g"], request).await.unwrap();
    let names = ["g/a.md", "g/deep/b.md", "g/own.canvas", "r/y.md", "w/board.canvas", "w/x.md"];
    // The kill came after the move, or after the move and each number of notes.
    for written in 0..=names.len() {
        let rig = meadow();
        let before = tree_hash(&rig, "/f").await;
        fs::rename(rig.file("f"), rig.file("g")).unwrap();
        for name in &names[..written] {
            rig.put(name, &whole.text(name));
        }
        let request = LinkRewriting { base: before, is_dry: false, cursor: None };
        let again = moved_folder(&rig.space, ALL, ["/f", "/g"], request).await;
        if written > 0 {
            assert_eq!(code(again), "stale", "the folder has another hash by now");
            let request = now(&rig, "/g").await;
            moved_folder(&rig.space, ALL, ["/f", "/g"], request).await.unwrap();
        }
        for name in names {
            assert_eq!(rig.text(name), whole.text(name), "{written} {name}");
        }
    }
}
