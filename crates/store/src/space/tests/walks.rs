//! Walks, and what is found on them, against a slow walker.

use proptest::prelude::*;
use stile_domain::find::name_pattern::{NameGlob, NamePattern};
use stile_domain::find::text_query::{LetterCase, QuerySyntax, TextQuery};
use stile_domain::find::time_bound::TimeBound;
use stile_domain::find::walk_cursor::{MatchRank, WalkCursor, WalkPosition};
use stile_domain::permit::{Permit, Walk};
use stile_domain::scope::Verb;

use super::super::disclosure::Disclosure;
use super::super::walk::{WalkOrder, Walker};
use super::super::{
    FoundOrder, LeftOutReason, NameQuery, SearchPage, TextSearch, TreeEntry, TreePage,
};
use super::*;

/// A small tree: the paths of files with their content. Each parent is a folder.
pub(super) fn tree() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![4 => "[abc]", 1 => "\\.git", 1 => "a b", 1 => "B\\.md", 1 => "é"];
    let path = proptest::collection::vec(name, 1..4);
    let content = "(x|y|\n|needle|Needle|\r\n){0,12}";
    proptest::collection::vec((path.prop_map(|parts| parts.join("/")), content), 1..12)
}

/// Some scopes over the names of [`tree`].
pub(super) fn claim() -> impl Strategy<Value = String> {
    let scope = prop_oneof![
        2 => Just("read:/".to_owned()),
        3 => "read:(/[abc]){1,3}/?",
        2 => "read:(/[abc]){0,2}/\\*",
        1 => "write:/[abc]/",
        1 => "append:/[abc]/",
        3 => "deny:(/[abc]){1,2}",
    ];
    proptest::collection::vec(scope, 1..5).prop_map(|scopes| scopes.join(" "))
}

pub(super) fn plant(rig: &Rig, files: &[(String, String)]) {
    for (name, text) in files {
        let file = rig.file(name);
        // Of two files of which one would be inside the other, only the first is made.
        if fs::create_dir_all(file.parent().unwrap()).is_ok() && !file.is_dir() {
            fs::write(file, text).unwrap();
        }
    }
}

/// Returns everything that a walk of `folder` shows, in order, by looking at every file.
pub(super) fn slow_walk(rig: &Rig, claim: &str, folder: &str, order: WalkOrder) -> Vec<String> {
    let scopes = Scopes::from_claim(claim);
    let mut shown = Vec::new();
    for start in scopes.walk_starts(&path(folder)) {
        let machine = rig.file(start.as_str().trim_start_matches('/'));
        if start != path(folder) && machine.exists() {
            shown.push(start.to_string());
        }
        slow_folder(&machine, &start, &scopes, order, &mut shown);
    }
    shown
}

fn slow_folder(
    machine: &Path,
    folder: &SpacePath,
    scopes: &Scopes,
    order: WalkOrder,
    shown: &mut Vec<String>,
) {
    let Ok(entries) = fs::read_dir(machine) else { return };
    let mut entries: Vec<_> = entries.map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(|entry| {
        let is_file = order == WalkOrder::FoldersFirst && !entry.path().is_dir();
        (is_file, entry.file_name())
    });
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let Some(path) = folder.child(&name) else { continue };
        if name == ".git" || !scopes.cover(Verb::Read, &path) {
            continue;
        }
        shown.push(path.to_string());
        slow_folder(&entry.path(), &path, scopes, order, shown);
    }
}

pub(super) fn walk_permit(claim: &str, folder: &str) -> Result<Permit<Walk>, Refusal> {
    principal(claim).gate().permit::<Walk>(&path(folder))
}

/// Walks, and begins anew after every `step` entries.
fn fast_walk(rig: &Rig, claim: &str, order: WalkOrder, step: usize) -> Vec<String> {
    let Ok(permit) = walk_permit(claim, "/") else { return Vec::new() };
    let inner = rig.inner();
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let mut walker = Walker::new(&inner, &permit, order, usize::MAX, after.clone()).unwrap();
        let found: Vec<_> = std::iter::from_fn(|| walker.next()).take(step).collect();
        let Some(last) = found.last() else { return shown };
        after = Some(last.position());
        shown.extend(found.iter().map(|found| found.path.to_string()));
    }
}

fn search(q: &str, context: usize) -> TextSearch {
    let query = TextQuery::parse(q, QuerySyntax::Literal, LetterCase::Smart).unwrap();
    TextSearch { query, glob: None, context }
}

/// Returns all hits as `path:line:column`, page by page, and how many pages there were.
fn all_hits(rig: &Rig, claim: &str, search: &TextSearch) -> (Vec<String>, usize) {
    let (mut hits, mut cursor, mut pages) = (Vec::new(), WalkCursor::default(), 0);
    loop {
        let permit = walk_permit(claim, "/").unwrap();
        let cancellation = Cancellation::default();
        let page = rig.inner().search_text(&permit, search, cursor, &cancellation).unwrap();
        pages += 1;
        hits.extend(page.hits.iter().map(|hit| {
            assert_eq!(hit.hash, hash(&rig.text(hit.path.as_str().trim_start_matches('/'))));
            format!("{}:{}:{}", hit.path, hit.line, hit.text.column)
        }));
        match page.next {
            Some(next) => cursor = next,
            None => return (hits, pages),
        }
    }
}

/// Returns how many files a search did not look into.
fn skipped(page: &SearchPage) -> u64 {
    page.left_out.iter().map(|left| left.count).sum()
}

/// Returns the hits of a search, by reading every file that a walk shows.
fn slow_hits(rig: &Rig, claim: &str, q: &str) -> Vec<String> {
    let mut hits = Vec::new();
    for path in slow_walk(rig, claim, "/", WalkOrder::ByName) {
        let Ok(text) = fs::read_to_string(rig.file(path.trim_start_matches('/'))) else { continue };
        for (line, number) in text.split('\n').zip(1..) {
            if let Some(at) = line.to_lowercase().find(q) {
                let column = line.get(..at).unwrap().chars().count() + 1;
                hits.push(format!("{path}:{number}:{column}"));
            }
        }
    }
    hits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_walk_in_steps_is_the_slow_walk(files in tree(), claim in claim(), step in 1usize..4) {
        let rig = Rig::new();
        plant(&rig, &files);
        for order in [WalkOrder::ByName, WalkOrder::FoldersFirst] {
            let slow = slow_walk(&rig, &claim, "/", order);
            prop_assert_eq!(fast_walk(&rig, &claim, order, step), slow);
        }
    }

    #[test]
    fn hits_are_those_of_a_slow_search(files in tree(), claim in claim()) {
        let rig = Rig::new();
        plant(&rig, &files);
        if walk_permit(&claim, "/").is_ok() {
            let slow = slow_hits(&rig, &claim, "needle");
            prop_assert_eq!(all_hits(&rig, &claim, &search("needle", 0)).0, slow);
        }
    }

    #[test]
    fn what_scopes_hide_changes_no_answer(
        shown in tree(), one in tree(), other in tree(), claim in claim(), folder in "(/[abc]){0,2}",
    ) {
        let folder = if folder.is_empty() { "/" } else { &folder };
        let of = |hidden: &[_]| answers_beside(&shown, hidden, &claim, folder);
        prop_assert_eq!(of(&one), of(&other));
    }
}

/// Returns what walks of a folder answer in a space of two kinds of files: those of `shown` that
/// the scopes show, and those of `hidden` that they hide.
fn answers_beside(
    shown: &[(String, String)],
    hidden: &[(String, String)],
    claim: &str,
    folder: &str,
) -> Vec<String> {
    let scopes = Scopes::from_claim(claim);
    let is_shown = |name: &str| scopes.cover(Verb::Read, &path(&format!("/{name}")));
    let rig = Rig::new();
    let visible = shown.iter().filter(|(name, _)| is_shown(name));
    let visible: Vec<_> = visible.cloned().collect();
    plant(&rig, &visible);
    for (name, text) in hidden {
        let parent = rig.file(name).parent().unwrap().to_owned();
        // Nothing that the scopes show may come into being.
        let mut at = path(&format!("/{name}"));
        let mut hides_all = true;
        while !at.is_root() {
            let exists = rig.file(at.as_str().trim_start_matches('/')).exists();
            hides_all &= exists || !is_shown(at.as_str().trim_start_matches('/'));
            at = at.split().unwrap().0;
        }
        if hides_all && !rig.file(name).exists() && fs::create_dir_all(&parent).is_ok() {
            let _ = fs::write(rig.file(name), text);
        }
    }
    let Ok(permit) = walk_permit(claim, folder) else { return vec!["denied".to_owned()] };
    let inner = rig.inner();
    // Times differ between two spaces, so pages are compared without them.
    let shown_of = |page: TreePage| {
        let entry = |entry: TreeEntry| (entry.path, entry.kind, entry.size_bytes);
        let entries: Vec<_> = page.entries.into_iter().map(entry).collect();
        format!("{:?}", (entries, page.searched, page.near, page.next))
    };
    let none = WalkCursor::default;
    let to = Disclosure::of(&permit);
    let told = |refusal: Refusal| inner.disclosed(refusal, &to);
    let names = |pattern: &str| {
        let pattern = NamePattern::parse(pattern).unwrap();
        let (modified, order) = ([None, None], FoundOrder::Usual);
        let query = NameQuery { pattern, kind: None, modified, order };
        inner.find_names(&permit, query, none())
    };
    let trees = [inner.list_tree(&permit, 8, none()), names("*"), names("a")];
    let mut answers: Vec<_> =
        trees.map(|page| format!("{:?}", page.map(shown_of).map_err(told))).into();
    let found = inner.search_text(&permit, &search("needle", 1), none(), &Cancellation::default());
    answers.push(format!("{:?}", found.map_err(told)));
    answers.extend(super::recall::shown(&inner, &permit, &["x needle", "nedle", "y -x"]));
    answers
}

#[test]
fn where_a_hidden_folder_is_a_file_a_walk_answers_as_where_there_is_none() {
    let [one, other] = ["c", "a"].map(|name| vec![(name.to_owned(), String::new())]);
    let of = |hidden: &[_]| answers_beside(&[], hidden, "read:/c/b", "/c/b");
    assert_eq!(of(&one), of(&other));
}

/// Returns how many folders were opened since the calls were read last.
fn opened_folders() -> usize {
    fault::calls().iter().filter(|call| **call == fault::Call::OpenFolder).count()
}

#[test]
fn a_folder_in_which_nothing_may_be_shown_is_not_opened() {
    let rig = Rig::new();
    for name in ["a/b/x", "a/c/d/x", "e/f/x", "node_modules/g/x", "h/.git/x"] {
        plant(&rig, &[(name.to_owned(), "needle".to_owned())]);
    }
    let opened = |claim: &str, folder: &str| {
        let permit = walk_permit(claim, folder).unwrap();
        let inner = rig.inner();
        fault::calls();
        super::recall::shown(&inner, &permit, &["needle"]);
        let by_recall = opened_folders();
        let mut walker = Walker::new(&inner, &permit, WalkOrder::ByName, usize::MAX, None).unwrap();
        while walker.next().is_some() {}
        let by_walk = opened_folders();
        assert_eq!(by_recall, by_walk);
        by_walk
    };
    assert_eq!(opened("read:/", "/"), 8);
    assert_eq!(opened("read:/ deny:/a", "/"), 4);
    assert_eq!(opened("read:/a/*", "/"), 1);
    assert_eq!(opened("read:/a/c/d/x", "/"), 0);
    assert_eq!(opened("read:/a/ deny:/a/c", "/a"), 2);
    assert_eq!(opened("read:/a/c/", "/"), 2);
}

#[test]
fn a_walk_follows_no_link_and_says_why_a_folder_cannot_be_walked() {
    let rig = Rig::new();
    plant(&rig, &[("a/x".to_owned(), "needle".to_owned())]);
    symlink("a", rig.file("link")).unwrap();
    symlink("/etc", rig.file("out")).unwrap();
    assert_eq!(all_hits(&rig, "read:/", &search("needle", 0)).0, ["/a/x:1:1"]);
    let refused = |claim: &str, folder: &str| {
        let permit = walk_permit(claim, folder)?;
        rig.inner().list_tree(&permit, 1, WalkCursor::default()).map(drop)
    };
    assert_eq!(code(refused("read:/", "/out")), "symlink_refused");
    assert_eq!(code(refused("read:/", "/none")), "not_found");
    assert_eq!(code(refused("read:/", "/x/.git")), "invalid_argument");
    assert_eq!(code(refused("read:/b/", "/a")), "insufficient_scope");
    assert!(refused("read:/b/", "/").is_ok());
}

#[test]
fn files_that_stay_are_found_once_while_others_come_and_go() {
    let rig = Rig::new();
    let name = |number: usize| format!("d{}/f{number:03}", number % 3);
    for number in (0..60).step_by(2) {
        plant(&rig, &[(name(number), "needle".to_owned())]);
    }
    let permit = walk_permit("read:/", "/").unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    let inner = rig.inner();
    for number in 0.. {
        let mut walker =
            Walker::new(&inner, &permit, WalkOrder::ByName, usize::MAX, after.clone()).unwrap();
        let Some(found) = walker.next() else { break };
        after = Some(found.position());
        seen.push(found.path.to_string());
        // Another program makes and removes files all the time.
        plant(&rig, &[(name(2 * number + 1), "new".to_owned())]);
        if number > 1 {
            let _ = fs::remove_file(rig.file(&name(2 * number - 3)));
        }
    }
    for number in (0..60).step_by(2) {
        let path = format!("/{}", name(number));
        assert_eq!(seen.iter().filter(|seen| **seen == path).count(), 1, "{path}");
    }
}

#[test]
fn a_search_skips_what_is_not_text_and_reads_long_files_in_pieces() {
    let rig = Rig::with(FileLimits { file_size: 6 << 20, ..FileLimits::default() });
    fs::write(rig.file("binary"), b"needle\0\xff").unwrap();
    fs::write(rig.file("latin"), b"needle \xe9").unwrap();
    rig.put("long", &("x".repeat(99) + "\n").repeat(50_000).replacen('x', "needle", 1));
    rig.put("tail", &format!("{}needle", ("y".repeat(99) + "\n").repeat(50_000)));
    rig.put("too long", &"needle\n".repeat(1 << 20));
    // The hash of a long file that changed just now cannot be told.
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
    for name in ["long", "tail"] {
        fs::File::open(rig.file(name)).unwrap().set_modified(old).unwrap();
    }
    let permit = walk_permit("read:/", "/").unwrap();
    let all_pages = || {
        let (mut cursor, mut pages) = (WalkCursor::default(), Vec::new());
        loop {
            let (search, none) = (search("needle", 0), Cancellation::default());
            let mut page = rig.inner().search_text(&permit, &search, cursor, &none).unwrap();
            let next = page.next.take();
            pages.push(page);
            match next {
                Some(next) => cursor = next,
                None => return pages,
            }
        }
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let pages = loop {
        let pages = all_pages();
        if pages.iter().map(skipped).sum::<u64>() == 2 || Instant::now() > deadline {
            break pages;
        }
    };
    let hits = pages.iter().flat_map(|page| &page.hits);
    let hits: Vec<_> = hits.map(|hit| (hit.path.as_str(), hit.line)).collect();
    assert_eq!(hits, [("/latin", 1), ("/long", 1), ("/tail", 50_001)]);
    let left = pages.iter().flat_map(|page| &page.left_out);
    let left: Vec<_> = left.map(|it| (it.why, it.first.as_str())).collect();
    assert_eq!(left, [(LeftOutReason::NotText, "/binary"), (LeftOutReason::TooLong, "/too long")]);
    assert_eq!(pages.iter().map(|page| page.files_searched).sum::<u64>(), 3);
}

#[test]
fn a_page_of_hits_is_bounded_and_the_next_goes_on_in_the_same_file() {
    let rig = Rig::new();
    let lines = "needle\n".repeat(250);
    plant(&rig, &[("a".to_owned(), lines.clone()), ("b/c".to_owned(), lines)]);
    let (hits, pages) = all_hits(&rig, "read:/", &search("needle", 2));
    assert_eq!((hits.len(), pages), (500, 6));
    assert_eq!(hits, slow_hits(&rig, "read:/", "needle"));
}

#[test]
fn many_threads_answer_like_one() {
    let rig = Rig::new();
    let files: Vec<_> = (0..600)
        .map(|number| (format!("{}/{number}", number % 7), "x\nneedle".to_owned()))
        .collect();
    plant(&rig, &files);
    assert_eq!(
        all_hits(&rig, "read:/", &search("needle", 0)).0,
        slow_hits(&rig, "read:/", "needle")
    );
}

#[test]
fn a_hit_shows_the_lines_around_it() {
    let rig = Rig::new();
    rig.put("a", "1\n2\n3 needle\n4\n5 needle\n6\n7\n8\n");
    let permit = walk_permit("read:/", "/a").unwrap();
    let page = rig
        .inner()
        .search_text(&permit, &search("needle", 2), WalkCursor::default(), &Cancellation::default())
        .unwrap();
    let around: Vec<_> = page.hits.iter().map(|hit| (&hit.before[..], &hit.after[..])).collect();
    assert_eq!(around[0], (&["1".into(), "2".into()][..], &["4".into(), "5 needle".into()][..]));
    assert_eq!(around[1], (&["3 needle".into(), "4".into()][..], &["6".into(), "7".into()][..]));
}

#[test]
fn the_best_names_come_first_page_by_page() {
    let rig = Rig::new();
    for number in 0..230 {
        rig.put(&format!("note{number:03}"), "");
    }
    rig.put("n-o-t-e", "");
    let permit = walk_permit("read:/", "/").unwrap();
    let (mut names, mut cursor) = (Vec::new(), WalkCursor::default());
    loop {
        let pattern = NamePattern::parse("note").unwrap();
        let query = NameQuery {
            pattern,
            kind: Some(EntryKind::File),
            modified: [None, None],
            order: FoundOrder::Usual,
        };
        let page = rig.inner().find_names(&permit, query, cursor).unwrap();
        assert_eq!(page.searched, 231);
        assert!(page.entries.iter().all(|entry| entry.size_bytes == Some(0)));
        names.extend(page.entries.iter().map(|entry| entry.path.to_string()));
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    let mut expected: Vec<_> = (0..230).map(|number| format!("/note{number:03}")).collect();
    expected.push("/n-o-t-e".to_owned());
    assert_eq!(names, expected);
}

/// A position as any client can write one: a cursor has a checksum and no secret.
pub(super) fn position(start: &str, at: &str, is_folder: bool) -> Option<WalkPosition> {
    Some(WalkPosition { start: path(start), path: path(at), is_folder })
}

#[test]
fn a_part_whose_last_name_is_gone_ends_where_it_was() {
    let rig = Rig::new();
    for name in ["a/note", "b/xnotex", "c/note"] {
        plant(&rig, &[(name.to_owned(), String::new())]);
    }
    let find = |cursor| {
        let pattern = NamePattern::parse("note").unwrap();
        let query = NameQuery {
            pattern,
            kind: Some(EntryKind::File),
            modified: [None, None],
            order: FoundOrder::Usual,
        };
        let permit = walk_permit("read:/", "/").unwrap();
        rig.inner().find_names(&permit, query, cursor).unwrap()
    };
    let found = |page: &TreePage| {
        page.entries.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()
    };
    // The first part ended at `/b/z`, which was removed, and both of its matches were shown.
    let rank = MatchRank { score: 0, path: path("/b/xnotex") };
    let until = position("/", "/b/z", false);
    let page = find(WalkCursor { until: until.clone(), rank: Some(rank), ..WalkCursor::default() });
    assert_eq!((found(&page), page.searched), (vec![], 4));
    let next = page.next.unwrap();
    assert_eq!((&next.after, &next.until, &next.rank), (&until, &None, &None));
    assert_eq!(found(&find(next)), ["/c/note"]);
}

#[test]
fn a_forged_cursor_leads_only_where_a_walk_leads() {
    let rig = Rig::new();
    for name in ["a/x", "a/y", "b/x", "target/deep/x", "target/y"] {
        plant(&rig, &[(name.to_owned(), "needle\nneedle\n".to_owned())]);
    }
    let inner = rig.inner();
    let listed = |claim: &str, folder: &str, after: Option<WalkPosition>| {
        let cursor = WalkCursor { after, ..WalkCursor::default() };
        let page = inner.list_tree(&walk_permit(claim, folder)?, 8, cursor)?;
        Ok(page.entries.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>())
    };
    let searched = |claim: &str, folder: &str, after: Option<WalkPosition>| {
        let cursor = WalkCursor { after, line: 1, ..WalkCursor::default() };
        let none = Cancellation::default();
        let permit = walk_permit(claim, folder)?;
        let page = inner.search_text(&permit, &search("needle", 0), cursor, &none)?;
        Ok(page.hits.iter().map(|hit| hit.path.to_string()).collect::<Vec<_>>())
    };
    // Outside the folder that is asked for, and outside the part that the cursor names.
    for (start, at) in [("/b", "/b/x"), ("/", "/b/x"), ("/a", "/b/x"), ("/b", "/a/x")] {
        assert_eq!(code(listed("read:/", "/a", position(start, at, false))), "invalid_argument");
        assert_eq!(code(searched("read:/", "/a", position(start, at, false))), "invalid_argument");
    }
    // Inside of what the owner leaves out.
    for (at, is_folder) in [("/target/deep", true), ("/target/deep/a", false), ("/target", true)] {
        let after = position("/", at, is_folder);
        assert_eq!(listed("read:/", "/", after.clone()).unwrap(), Vec::<String>::new(), "{at}");
        assert_eq!(searched("read:/", "/", after).unwrap(), Vec::<String>::new(), "{at}");
    }
    let after = position("/", "/target/y", false);
    assert_eq!(searched("read:/", "/", after).unwrap(), Vec::<String>::new());
    // Where the scopes hide the path.
    let after = position("/", "/b/x", false);
    assert_eq!(searched("read:/ deny:/b", "/", after).unwrap(), Vec::<String>::new());
    assert_eq!(
        listed("read:/", "/", position("/", "/a/x", false)).unwrap(),
        ["/a/y", "/b", "/b/x"]
    );
}

#[test]
fn a_scope_inside_of_what_is_left_out_shows_nothing_of_it() {
    let rig = Rig::new();
    plant(&rig, &[("target/a/x".to_owned(), "needle".to_owned())]);
    plant(&rig, &[("b/x".to_owned(), "needle".to_owned())]);
    for claim in ["read:/target/a/ read:/b/", "read:/target/a/x read:/b/", "read:/target read:/b/"]
    {
        assert_eq!(fast_walk(&rig, claim, WalkOrder::ByName, 1), ["/b", "/b/x"], "{claim}");
    }
}

#[test]
fn names_are_found_by_glob_type_and_time() {
    let rig = Rig::new();
    plant(&rig, &[("a/x.md".to_owned(), "1".to_owned()), ("b/x.md".to_owned(), "22".to_owned())]);
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::open(rig.file("a/x.md")).unwrap().set_modified(old).unwrap();
    let find = |pattern: &str, kind, modified| {
        let permit = walk_permit("read:/", "/").unwrap();
        let pattern = NamePattern::parse(pattern).unwrap();
        let query = NameQuery { pattern, kind, modified, order: FoundOrder::Usual };
        let page = rig.inner().find_names(&permit, query, WalkCursor::default()).unwrap();
        page.entries.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()
    };
    let at = |seconds: i64| Some(TimeBound::At(seconds * 1_000_000_000));
    assert_eq!(find("*.md", None, [None, None]), ["/a/x.md", "/b/x.md"]);
    assert_eq!(find("*.md", None, [at(1_000_001), None]), ["/b/x.md"]);
    assert_eq!(find("x", None, [None, at(1_000_000)]), ["/a/x.md"]);
    assert_eq!(find("*", Some(EntryKind::Directory), [None, None]), ["/a", "/b"]);
    assert_eq!(find("a/*", None, [None, None]), ["/a/x.md"]);
    assert_eq!(find("x", None, [Some(TimeBound::parse("1h").unwrap()), None]), ["/b/x.md"]);
    assert!(NameGlob::parse("[").is_err());
}

#[test]
fn files_that_were_changed_last_come_first_in_lists_and_among_found_names() {
    let rig = Rig::new();
    let files = ["a/1.md", "a/2.txt", "3.md", "a/b/4.md"];
    for (age, name) in (0..).zip(files) {
        plant(&rig, &[(name.to_owned(), name.to_owned())]);
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000 - age * 1_000);
        fs::File::open(rig.file(name)).unwrap().set_modified(time).unwrap();
    }
    let permit = || walk_permit("read:/", "/").unwrap();
    let found = |pattern: &str| {
        let pattern = NamePattern::parse(pattern).unwrap();
        let (modified, order) = ([None, None], FoundOrder::Newest);
        let query = NameQuery { pattern, kind: None, modified, order };
        rig.inner().find_names(&permit(), query, WalkCursor::default()).unwrap()
    };
    let listed = |depth| rig.inner().list_newest(&permit(), depth, WalkCursor::default()).unwrap();
    let paths = |page: TreePage| {
        page.entries.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(paths(found("*")), ["/a/1.md", "/a/2.txt", "/3.md", "/a/b/4.md"]);
    assert_eq!(paths(found("md")), ["/a/1.md", "/3.md", "/a/b/4.md"]);
    assert_eq!(paths(listed(1)), ["/3.md"]);
    assert_eq!(paths(listed(2)), ["/a/1.md", "/a/2.txt", "/3.md"]);
}

#[test]
fn a_deep_walk_holds_few_folders_open_and_finds_all() {
    let rig = Rig::new();
    let deep = "d/".repeat(150);
    fs::create_dir_all(rig.file(&deep)).unwrap();
    for depth in [0, 40, 149] {
        rig.put(&format!("{}x", "d/".repeat(depth)), "");
    }
    let (permit, inner) = (walk_permit("read:/", "/").unwrap(), rig.inner());
    let mut walker = Walker::new(&inner, &permit, WalkOrder::ByName, usize::MAX, None).unwrap();
    let mut files = 0;
    while let Some(found) = walker.next() {
        files += usize::from(found.kind == EntryKind::File);
        assert!(walker.open_folders() <= 64);
    }
    assert_eq!(files, 3);
    assert_eq!(
        fast_walk(&rig, "read:/", WalkOrder::ByName, 7),
        slow_walk(&rig, "read:/", "/", WalkOrder::ByName)
    );
}

#[test]
fn a_page_of_long_paths_is_bounded_in_bytes() {
    let rig = Rig::new();
    let deep = format!("{}/", "d".repeat(200)).repeat(10);
    for number in 0..80 {
        plant(&rig, &[(format!("{deep}note{number:02}"), "needle".to_owned())]);
    }
    let (permit, inner) = (walk_permit("read:/", "/").unwrap(), rig.inner());
    let pages = |pattern: Option<&str>| {
        let (mut cursor, mut sizes, mut files) = (WalkCursor::default(), Vec::new(), 0);
        loop {
            let page = match pattern {
                None => inner.list_tree(&permit, 99, cursor).unwrap(),
                Some(pattern) => {
                    let pattern = NamePattern::parse(pattern).unwrap();
                    let (kind, modified) = (Some(EntryKind::File), [None, None]);
                    let query = NameQuery { pattern, kind, modified, order: FoundOrder::Usual };
                    inner.find_names(&permit, query, cursor).unwrap()
                }
            };
            let paths = page.entries.iter().map(|entry| entry.path.as_str().len());
            sizes.push(paths.sum::<usize>());
            files += page.entries.iter().filter(|entry| entry.kind == EntryKind::File).count();
            match page.next {
                Some(next) => cursor = next,
                None => return (sizes, files),
            }
        }
    };
    for pattern in [None, Some("note*"), Some("note")] {
        let (sizes, files) = pages(pattern);
        assert!(sizes.iter().all(|size| *size < 70_000), "{pattern:?} {sizes:?}");
        assert_eq!(files, 80, "{pattern:?}");
    }
    let page = inner
        .search_text(&permit, &search("needle", 0), WalkCursor::default(), &Cancellation::default())
        .unwrap();
    assert!(page.next.is_some() && page.hits.len() < 20);
    assert_eq!(all_hits(&rig, "read:/", &search("needle", 0)).0.len(), 80);
}

#[test]
fn a_large_file_with_a_very_long_line_is_skipped() {
    let rig = Rig::new();
    rig.put("a", &("x".repeat(9 << 20) + "\nneedle\n"));
    rig.put("b", "needle");
    let permit = walk_permit("read:/", "/").unwrap();
    let page = rig
        .inner()
        .search_text(&permit, &search("needle", 0), WalkCursor::default(), &Cancellation::default())
        .unwrap();
    assert_eq!((page.hits.len(), page.files_searched, skipped(&page)), (1, 1, 1));
}

#[test]
fn the_hits_of_a_file_that_are_held_are_those_of_a_page() {
    let rig = Rig::new();
    let line = format!("{}needle\n", "é".repeat(400));
    rig.put("a", &line.repeat(300));
    let (hits, pages) = all_hits(&rig, "read:/", &search("needle", 3));
    assert_eq!(hits.len(), 300);
    assert!(pages > 20, "{pages}");
    let permit = walk_permit("read:/", "/").unwrap();
    let page = rig
        .inner()
        .search_text(&permit, &search("needle", 3), WalkCursor::default(), &Cancellation::default())
        .unwrap();
    assert!(page.hits.iter().all(|hit| hit.after.len() == 3));
}

#[test]
fn a_regular_expression_is_tried_on_a_long_line_in_parts() {
    let rig = Rig::new();
    let long = "é".repeat(300 << 10);
    rig.put("a", &format!("above\n{long}needle{long}\nbelow\n"));
    rig.put("b", &format!("{long}\nneedle\n{long}"));
    rig.put("c", &format!("need{long}le\n"));
    fs::write(rig.file("d"), [long.as_bytes(), b"\0needle\xff"].concat()).unwrap();
    rig.put("e", &format!("{long}\n").repeat(8).replacen("é\n", "needle\n", 9));
    let permit = walk_permit("read:/", "/").unwrap();
    let page = |q: &str, context| {
        let query = TextQuery::parse(q, QuerySyntax::Regex, LetterCase::Smart).unwrap();
        let search = TextSearch { query, glob: None, context };
        let (cursor, cancellation) = (WalkCursor::default(), Cancellation::default());
        rig.inner().search_text(&permit, &search, cursor, &cancellation).unwrap()
    };
    // The hash of a long file that changed just now cannot be told.
    let deadline = Instant::now() + Duration::from_secs(30);
    while skipped(&page("need.*le", 1)) > 1 && Instant::now() < deadline {}
    let found = page("need.*le", 1);
    let mut hits: Vec<_> = found.hits.iter().map(|hit| (hit.path.as_str(), hit.line)).collect();
    let in_e: Vec<_> = hits.split_off(2);
    assert_eq!(hits, [("/a", 2), ("/b", 2)]);
    assert_eq!(in_e, (1..=8).map(|line| ("/e", line)).collect::<Vec<_>>());
    let first = &found.hits[0];
    assert_eq!(first.text.column, (300 << 10) + 1);
    assert!(first.text.cut_before && first.text.cut_after && first.text.text.contains("needle"));
    assert_eq!((&*first.before, &*first.after), (&["above".to_owned()][..], &["below".into()][..]));
    assert_eq!(found.hits[1].before[0].chars().count(), 320);
    // Two lines of `b` and the one of `c` might have a longer match.
    assert_eq!((found.files_searched, skipped(&found), found.lines_in_parts), (4, 1, 3));
    assert_eq!(page("above", 0).lines_in_parts, 12);
}

#[tokio::test]
async fn an_error_tells_nothing_of_a_parent_that_scopes_hide() {
    let rig = Rig::new();
    rig.put("file", "");
    symlink("file", rig.file("link")).unwrap();
    fs::create_dir(rig.file("folder")).unwrap();
    for name in ["file", "link", "folder", "none"] {
        for folder in [format!("/{name}/a"), format!("/{name}/a/b")] {
            let refused = async |claim: &str| {
                let permit = walk_permit(claim, &folder).unwrap();
                code(rig.space.list_tree(permit, 1, FoundOrder::Usual, WalkCursor::default()).await)
            };
            let hidden = refused(&format!("read:/{name}/a")).await;
            assert_eq!(hidden, "not_found", "{folder}");
            let why = match name {
                "file" => "not_a_directory",
                "link" => "symlink_refused",
                _ => "not_found",
            };
            assert_eq!(refused("read:/").await, why, "{folder}");
        }
    }
}

#[test]
fn a_folder_that_a_list_does_not_go_into_says_how_much_it_holds_if_that_is_known() {
    let rig = Rig::new();
    let names = (0..300).map(|number| (format!("big/f{number}"), String::new()));
    let more = ["big/.git/x", "big/sub/x", "small/x"].map(|name| (name.to_owned(), String::new()));
    plant(&rig, &names.chain(more).collect::<Vec<_>>());
    let counts = |claim: &str, depth| {
        let permit = walk_permit(claim, "/").unwrap();
        let page = rig.inner().list_tree(&permit, depth, WalkCursor::default()).unwrap();
        let counts = page
            .entries
            .into_iter()
            .filter_map(|entry| entry.entry_count.map(|count| (entry.path.to_string(), count)));
        counts.collect::<Vec<_>>()
    };
    assert_eq!(counts("read:/", 1), []);
    // A folder that changed just now is not remembered.
    let deadline = Instant::now() + Duration::from_secs(30);
    while counts("read:/", 1).is_empty() && Instant::now() < deadline {
        counts("read:/", 2);
    }
    // As many as a list of the folder shows.
    assert_eq!(counts("read:/", 1), [("/big".to_owned(), 301)]);
    // The list shows what the folder holds.
    assert_eq!(counts("read:/", 2), []);
    // Some of it is hidden.
    assert_eq!(counts("read:/ deny:/big/f1", 1), []);
    assert_eq!(counts("read:/ deny:/big/none", 1), []);
}
