//! Files found by what they say, against a ranking that reads everything.

use proptest::prelude::*;
use stile_domain::find::time_bound::TimeBound;
use stile_domain::find::walk_cursor::{MatchRank, WalkCursor};
use stile_domain::permit::{Permit, Walk};
use stile_domain::recall::evidence::Matcher;
use stile_domain::recall::file_words::{FileKind, FileWords};
use stile_domain::recall::question::RecallQuestion;
use stile_domain::recall::ranking::rank;

use super::super::disclosure::Disclosure;
use super::super::walk::WalkOrder;
use super::super::{LeftOut, LeftOutReason, RecallBudget, RecallKind, RecallPage, RecallQuery};
use super::walks::{claim, plant, position, slow_walk, tree, walk_permit};
use super::*;

fn query(q: &str) -> RecallQuery {
    let question = RecallQuestion::parse(q).unwrap();
    RecallQuery { question, kinds: Vec::new(), modified: [None, None], limit: 50 }
}

fn budget(bytes: u64) -> RecallBudget {
    RecallBudget { bytes, time: Duration::from_secs(600) }
}

fn ask(
    inner: &Inner,
    permit: &Permit<Walk>,
    query: &RecallQuery,
    cursor: WalkCursor,
    bytes: u64,
) -> RecallPage {
    let key = format!("{query:?}");
    let cancellation = Cancellation::default();
    inner.recall(permit, (&key, query), cursor, budget(bytes), &cancellation).unwrap()
}

fn paths(page: &RecallPage) -> Vec<String> {
    page.results.iter().map(|result| result.path.to_string()).collect()
}

/// Returns all that an answer says but times, which differ between two spaces. The first question
/// is asked of a space that remembers nothing, and may not read all.
pub(super) fn shown(inner: &Inner, permit: &Permit<Walk>, questions: &[&str]) -> Vec<String> {
    let asked = questions.iter().enumerate().map(|(number, q)| {
        let key = format!("{q:?}");
        let (none, cancellation) = (WalkCursor::default(), Cancellation::default());
        let bytes = if number == 0 { 40 } else { u64::MAX };
        let page = inner.recall(permit, (&key, &query(q)), none, budget(bytes), &cancellation);
        let page = page.map(|page| {
            let of = page.results.iter();
            let results: Vec<_> =
                of.map(|it| (&it.path, &it.title, it.hash, &it.passages)).collect();
            let words = (&page.matched, &page.nowhere, page.total);
            format!("{:?}", (results, words, &page.left_out, &page.next))
        });
        let told = |refusal| inner.disclosed(refusal, &Disclosure::of(permit)).code().0;
        format!("{:?}", page.map_err(told))
    });
    asked.collect()
}

/// Ranks every file that a walk shows, by reading all of them.
fn slow_order(rig: &Rig, claim: &str, q: &str) -> Vec<String> {
    let question = RecallQuestion::parse(q).unwrap();
    let mut matcher = Matcher::new(&question);
    let mut files = Vec::new();
    for shown in slow_walk(rig, claim, "/", WalkOrder::ByName) {
        let Ok(text) = fs::read_to_string(rig.file(shown.trim_start_matches('/'))) else {
            continue;
        };
        let name = shown.rsplit('/').next().unwrap();
        if question.allows(&[&text, name]) {
            let kind = if name.ends_with(".md") { FileKind::Note } else { FileKind::Text };
            let evidence = matcher.gather(&path(&shown), &FileWords::of(&text, kind));
            files.push((path(&shown), evidence));
        }
    }
    let (_, ranking) = rank(&question, &files);
    ranking.order.into_iter().map(|(rank, _)| rank.path.to_string()).collect()
}

fn question() -> impl Strategy<Value = String> {
    let words = ["needle", "nedle", "needles", "x", "y", "-x", "\"x y\"", "the", "b", "é"];
    proptest::collection::vec(proptest::sample::select(words.to_vec()), 1..4)
        .prop_map(|words| words.join(" "))
        .prop_filter("a question", |text| RecallQuestion::parse(text).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_finished_answer_is_that_of_reading_everything(
        files in tree(), claim in claim(), q in question(), bytes in 1u64..60,
    ) {
        let rig = Rig::new();
        plant(&rig, &files);
        let Ok(permit) = walk_permit(&claim, "/") else { return Ok(()) };
        let slow = slow_order(&rig, &claim, &q);
        let inner = rig.inner();
        let whole = ask(&inner, &permit, &query(&q), WalkCursor::default(), u64::MAX);
        prop_assert!(whole.next.is_none());
        prop_assert_eq!(&paths(&whole), &slow);
        prop_assert_eq!(whole.total, slow.len() as u64);
        // One file at a time, page by page.
        let one = RecallQuery { limit: 1, ..query(&q) };
        let (mut cursor, mut in_pages) = (WalkCursor::default(), Vec::new());
        loop {
            let page = ask(&inner, &permit, &one, cursor, u64::MAX);
            in_pages.extend(paths(&page));
            match page.next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        prop_assert_eq!(in_pages, slow);
        // A call that may read little says that it is not finished, and where it stopped.
        let part = ask(&inner, &permit, &query(&q), WalkCursor::default(), bytes);
        let is_cut = part.left_out.iter().any(|left| left.why == LeftOutReason::NotFinished);
        prop_assert_eq!(part.next.is_some(), is_cut);
    }
}

/// Makes files that have not changed for a while, so that what is found of them is remembered.
fn settled(rig: &Rig, files: &[(&str, &str)]) {
    for (name, text) in files {
        plant(rig, &[((*name).to_owned(), (*text).to_owned())]);
    }
    let until = Instant::now() + Duration::from_secs(10);
    let is_settled = |name: &str| {
        let status = os::status(fs::File::open(rig.file(name)).unwrap()).unwrap();
        status.stamp.settled_at(os::now())
    };
    while !files.iter().all(|(name, _)| is_settled(name)) {
        assert!(Instant::now() < until, "the files do not settle");
        std::thread::yield_now();
    }
}

#[test]
fn a_question_that_is_not_finished_goes_on_and_ranks_all_that_was_read() {
    let rig = Rig::new();
    let files =
        [("a", "roof"), ("b", "roof leak"), ("c", "x"), ("d", "leak roof roof"), ("e", "y")];
    settled(&rig, &files);
    let (permit, inner) = (walk_permit("read:/", "/").unwrap(), rig.inner());
    let query = query("leak roof");
    let first = ask(&inner, &permit, &query, WalkCursor::default(), 10);
    assert_eq!(paths(&first), ["/a"]);
    let left = LeftOut {
        why: LeftOutReason::NotFinished,
        count: 4,
        is_at_least: false,
        first: path("/b"),
    };
    assert_eq!(first.left_out, [left]);
    let second = ask(&inner, &permit, &query, first.next.unwrap(), 10);
    assert_eq!((paths(&second), second.left_out[0].count), (vec!["/b".into(), "/a".into()], 2));
    let mut page = ask(&inner, &permit, &query, second.next.unwrap(), 10);
    while let Some(next) = page.next.take() {
        page = ask(&inner, &permit, &query, next, 10);
    }
    let whole = ask(&inner, &permit, &query, WalkCursor::default(), u64::MAX);
    assert_eq!(paths(&page), paths(&whole));
    assert_eq!(page.left_out, []);
}

#[test]
fn a_change_of_a_file_is_found_by_the_next_call() {
    let rig = Rig::new();
    settled(&rig, &[("a", "roof"), ("b", "shed")]);
    let (permit, inner) = (walk_permit("read:/", "/").unwrap(), rig.inner());
    let found = |q: &str| paths(&ask(&inner, &permit, &query(q), WalkCursor::default(), u64::MAX));
    assert_eq!(found("roof"), ["/a"]);
    assert_eq!(found("roof"), ["/a"]);
    rig.put("b", "roof");
    assert_eq!(found("roof"), ["/a", "/b"]);
    rig.put("b", "shet");
    assert_eq!(found("roof"), ["/a"]);
    fs::remove_file(rig.file("a")).unwrap();
    assert_eq!(found("roof"), Vec::<String>::new());
}

#[test]
fn what_is_not_ranked_is_counted_and_the_first_is_named() {
    let rig = Rig::new();
    fs::write(rig.file("a.png"), b"\x89PNG\0roof").unwrap();
    fs::write(rig.file("b.bin"), b"roof\x01\xe9").unwrap();
    fs::write(rig.file("latin"), b"a roof caf\xe9").unwrap();
    rig.put("back\\slash", "roof");
    rig.put("long", &"roof\n".repeat(1 << 20));
    rig.put("note", "roof");
    let (permit, inner) = (walk_permit("read:/", "/").unwrap(), rig.inner());
    let page = ask(&inner, &permit, &query("roof"), WalkCursor::default(), u64::MAX);
    let left: Vec<_> =
        page.left_out.iter().map(|left| (left.why, left.count, left.first.as_str())).collect();
    let expected = [
        (LeftOutReason::NotText, 2, "/a.png"),
        (LeftOutReason::TooLong, 1, "/long"),
        (LeftOutReason::NoPath, 1, "/"),
    ];
    assert_eq!(
        (paths(&page), left),
        (vec!["/note".to_owned(), "/latin".to_owned()], expected.to_vec())
    );
}

#[test]
fn files_are_chosen_by_kind_and_time() {
    let rig = Rig::new();
    plant(&rig, &[("a.md".to_owned(), "roof".to_owned()), ("b.txt".to_owned(), "roof".to_owned())]);
    let now = std::time::UNIX_EPOCH + Duration::from_nanos(os::now() as u64);
    let old = now - Duration::from_secs(8 * 24 * 3600);
    fs::File::open(rig.file("a.md")).unwrap().set_modified(old).unwrap();
    let (permit, inner) = (walk_permit("read:/", "/").unwrap(), rig.inner());
    let found = |kinds: &[RecallKind], after: Option<&str>, before: Option<&str>| {
        let modified = [after, before].map(|text| text.map(|text| TimeBound::parse(text).unwrap()));
        let query = RecallQuery { kinds: kinds.to_vec(), modified, ..query("roof") };
        paths(&ask(&inner, &permit, &query, WalkCursor::default(), u64::MAX))
    };
    assert_eq!(found(&[], None, None), ["/a.md", "/b.txt"]);
    assert_eq!(found(&[RecallKind::Note], None, None), ["/a.md"]);
    assert_eq!(found(&[RecallKind::Text], None, None), ["/b.txt"]);
    assert_eq!(found(&[RecallKind::Document], None, None), Vec::<String>::new());
    assert_eq!(found(&[], Some("7d"), None), ["/b.txt"]);
    assert_eq!(found(&[], None, Some("1w")), ["/a.md"]);
}

#[test]
fn a_forged_cursor_shows_only_what_a_question_shows() {
    let rig = Rig::new();
    plant(&rig, &[("a/x".to_owned(), "roof".to_owned()), ("b/x".to_owned(), "roof".to_owned())]);
    let inner = rig.inner();
    let permit = walk_permit("read:/ deny:/b", "/").unwrap();
    for rank in [None, Some((u64::MAX, "/b/x")), Some((0, "/b/x")), Some((u64::MAX, "/"))] {
        let rank = rank.map(|(score, at)| MatchRank { score, path: path(at) });
        for at in [None, position("/", "/b/x", false), position("/b", "/b", true)] {
            let cursor = WalkCursor { after: at, rank: rank.clone(), ..WalkCursor::default() };
            let page = ask(&inner, &permit, &query("roof"), cursor, u64::MAX);
            assert!(paths(&page).iter().all(|path| path == "/a/x"), "{page:?}");
            assert!(page.total == 1 && page.left_out.is_empty());
        }
    }
}

/// Reads a document as its own bytes, and counts how often.
#[derive(Debug, Default)]
struct Counting(std::sync::atomic::AtomicU64);

impl stile_domain::document::DocumentReader for Counting {
    fn text(
        &self,
        _: stile_domain::document::DocumentKind,
        _: &[u8],
    ) -> Result<stile_domain::document::DocumentText, stile_domain::document::NoText> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let text = "moss".to_owned();
        Ok(stile_domain::document::DocumentText::with_parts(text, Vec::new()))
    }
}

/// What is remembered of files is forgotten at the next call once the mark is made anew.
#[tokio::test]
async fn what_is_remembered_is_forgotten_when_the_owner_says_so() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [folder, state] = folders.each_ref().map(tempfile::TempDir::path);
    let state = crate::state::StateDir::open(&state.join("state")).unwrap();
    let reader = Arc::new(Counting::default());
    let options = SpaceOptions {
        search_ignore: SearchIgnore::default(),
        cleared: Some(crate::state::cleared_caches::mark_in(state.path())),
        documents: Some(Arc::clone(&reader) as _),
        ..SpaceOptions::of_import()
    };
    fs::write(folder.join("a.pdf"), b"%PDF-\xe2\xe3").unwrap();
    let stamp = os::status(fs::File::open(folder.join("a.pdf")).unwrap()).unwrap().stamp;
    while !stamp.settled_at(os::now()) {
        std::hint::spin_loop();
    }
    let space = Space::open_ambient(folder, options).unwrap().0;
    let asked = |space: Space| async move {
        let permit = walk_permit("read:/", "/").unwrap();
        space.recall(permit, ("key".to_owned(), query("moss")), WalkCursor::default()).await
    };
    let times = || reader.0.load(std::sync::atomic::Ordering::SeqCst);
    for clears in 0..3 {
        if clears > 0 {
            crate::state::cleared_caches::clear_caches(&state).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(paths(&asked(space.clone()).await.unwrap()), ["/a.pdf"]);
            assert_eq!(times(), clears + 1);
        }
    }
}
