//! Compares a text search, a search for names and a question about notes with the programs that a
//! person would use.
//!
//! The corpora are 5,000 notes of 4 KB, 100,000 files of 400 bytes and 200 files of 1 MB, made of
//! random words from a fixed seed. `rg` runs with the same ignores (none), and with as many threads
//! as the machine has processors. If `rg` is not installed, each file is read by hand instead. The
//! question about notes, for a tag, is the second one, so that the notes are known. The floor is a
//! walk that looks at the attributes of each.
//!
//! The numbers do not show a cold disk: the page cache is warm.
//!
//! 2026-11-24, two cores, median: a fuzzy name among 100,000 files takes 47 ms (`find -name` 86), a
//! second question about 5,000 notes 12 ms (`find -size` 15).

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified caller"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::find::name_pattern::NamePattern;
use stile_domain::find::text_query::{LetterCase, QuerySyntax, TextQuery};
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::limits::FileLimits;
use stile_domain::notes::note_query::NoteQuery;
use stile_domain::notes::tags::WantedTag;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Principal, Walk};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::space::{FoundOrder, NameQuery, SearchIgnore, Space, SpaceOptions, TextSearch};
use stile_testkit::bench::{Plan, compare, timed};
use stile_testkit::chance::Chance;

/// The word to search for, which few files have.
const NEEDLE: &str = "zebrafinch";
/// The lines of a note.
const NOTE_LINES: usize = 50;

fn main() {
    let plan = Plan::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for (name, files, lines, rounds) in [
        ("5,000 notes", 5_000, NOTE_LINES, 20),
        ("100,000 small files", 100_000, 5, 5),
        ("200 files of 1 MB", 200, 12_500, 10),
    ] {
        let files = plan.rounds(files).max(10);
        let folder = tempfile::tempdir().unwrap();
        plant(folder.path(), files, lines);
        let options = SpaceOptions {
            limits: FileLimits::default(),
            mounts: Vec::new(),
            search_ignore: SearchIgnore::parse([]).unwrap(),
            lock_wait: Duration::from_secs(10),
            events: Arc::new(|_| {}),
            appends_folder: None,
            cleared: None,
            documents: None,
        };
        let space = Space::open_ambient(folder.path(), options).unwrap().0;
        let found = compare_hits(folder.path(), &space, &runtime);
        compare(
            &format!("search {name}: {found} hits"),
            plan.rounds(rounds),
            || timed(|| runtime.block_on(search(&space))),
            "rg, or every file read by hand",
            || timed(|| by_hand(folder.path())),
        );
        compare(
            &format!("a fuzzy name among {name}"),
            plan.rounds(rounds),
            || timed(|| runtime.block_on(find(&space))),
            "find -name",
            || {
                timed(|| {
                    let mut find = Command::new("find");
                    find.arg(folder.path()).args(["-name", "*n*0*4*9*"]);
                    find.stdout(Stdio::null()).status().unwrap()
                })
            },
        );
        if lines == NOTE_LINES {
            runtime.block_on(second_question(&space));
            compare(
                &format!("a second question about {name}"),
                plan.rounds(rounds),
                || runtime.block_on(second_question(&space)),
                "find -size",
                || {
                    timed(|| {
                        let mut find = Command::new("find");
                        find.arg(folder.path()).args(["-name", "*.md", "-size", "+1000k"]);
                        find.stdout(Stdio::null()).status().unwrap()
                    })
                },
            );
        }
    }
}

fn plant(folder: &Path, files: usize, lines: usize) {
    let mut chance = Chance::of(7);
    let words: Vec<String> = (0..5000).map(|_| format!("w{:x}", chance.below(1 << 20))).collect();
    for number in 0..files {
        let parent = folder.join(format!("{:04}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&parent).unwrap();
        }
        let mut text = String::new();
        for _ in 0..lines {
            for _ in 0..12 {
                text.push_str(&words[chance.below(words.len())]);
                text.push(' ');
            }
            text.push('\n');
        }
        if number % 997 == 0 {
            text.push_str(NEEDLE);
            text.push_str("\n#rare\n");
        }
        fs::write(parent.join(format!("note-{number:06}.md")), text).unwrap();
    }
}

fn permit() -> Permit<Walk> {
    let scopes = Scopes::from_claim("read:/");
    let principal = Principal::assert_verified("bench", None, None, scopes, RecordsClaim::None);
    principal.gate().permit(&SpacePath::root()).unwrap()
}

/// Searches to the end, call by call. Returns the number of hits.
async fn search(space: &Space) -> usize {
    let (mut hits, mut cursor) = (0, WalkCursor::default());
    loop {
        let query = TextQuery::parse(NEEDLE, QuerySyntax::Literal, LetterCase::Smart).unwrap();
        let search = TextSearch { query, glob: None, context: 0 };
        let page = space.search_text(permit(), search, cursor).await.unwrap();
        hits += page.hits.len();
        match page.next {
            Some(next) => cursor = next,
            None => return hits,
        }
    }
}

/// Finds the notes with a tag to the end, call by call. Returns the time.
async fn second_question(space: &Space) -> Duration {
    let (began, mut cursor) = (Instant::now(), WalkCursor::default());
    loop {
        let query = NoteQuery { tag: WantedTag::parse("rare"), ..NoteQuery::default() };
        let page = space
            .find_notes((permit(), permit()), (query, FoundOrder::Usual), cursor)
            .await
            .unwrap();
        match page.next {
            Some(next) => cursor = next,
            None => return began.elapsed(),
        }
    }
}

async fn find(space: &Space) -> usize {
    let pattern = NamePattern::parse("note00049").unwrap();
    let query = NameQuery { pattern, kind: None, modified: [None, None], order: FoundOrder::Usual };
    let page = space.find_names(permit(), query, WalkCursor::default()).await.unwrap();
    page.entries.len()
}

/// Returns how many lines `rg` finds; without `rg`, how many files contain the word.
fn by_hand(folder: &Path) -> usize {
    let rg = Command::new("rg").args(["-uu", "-n", "-F", NEEDLE]).arg(folder).output();
    if let Ok(output) = rg {
        return output.stdout.split(|byte| *byte == b'\n').count() - 1;
    }
    let mut found = 0;
    for folder in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            found += usize::from(text.contains(NEEDLE));
        }
    }
    found
}

/// Checks that both find the same, and returns how much.
fn compare_hits(folder: &Path, space: &Space, runtime: &tokio::runtime::Runtime) -> usize {
    let found = runtime.block_on(search(space));
    assert_eq!(found, by_hand(folder));
    found
}
