//! Compares questions about what files say with `rg -c` of one word over the same files.
//!
//! The corpora are 10,000 and 100,000 notes of some 1.5 KB. Their words are made of syllables from
//! a fixed seed and occur as words of a language do: the most frequent one is each eighth word, and
//! half of all words are in a few notes only. A first question is asked of a space that was just
//! opened, a second one of a space that knows the files; a question with a slip has a word that is
//! nowhere, so that similar words are looked for. `rg` runs without ignores and with as many
//! threads as the machine has processors; if it is not installed, each file is read by hand. The
//! floor of a second question is a walk that looks at the attributes of each file.
//!
//! Where a call does not finish, its cursor is followed, and all calls count.
//!
//! The numbers do not show a cold disk: the page cache is warm.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified caller"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::limits::FileLimits;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Principal, Walk};
use stile_domain::recall::question::RecallQuestion;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::space::{RecallQuery, SearchIgnore, Space, SpaceOptions};
use stile_testkit::bench::{Plan, compare, peak, timed};
use stile_testkit::chance::Chance;

/// The words of a note.
const NOTE_WORDS: usize = 220;
/// The different words of all notes.
const WORDS: usize = 60_000;

fn main() {
    let plan = Plan::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for (name, files, rounds) in [("10,000 notes", 10_000, 9), ("100,000 notes", 100_000, 3)] {
        let files = plan.rounds(files).max(10);
        let folder = tempfile::tempdir().unwrap();
        let words = words();
        plant(folder.path(), files, &words);
        let question = |numbers: [usize; 3]| numbers.map(|number| words[number].clone()).join(" ");
        let first = question([2_000, 700, 20_000]);
        let second = question([3_000, 900, 30_000]);
        let slip = format!("{second}x {}", words[4_000]);
        let phrase = format!("\"{}\" -{}", question([1, 2, 3]), words[5_000]);
        let ask = |space: &Space, question: &str| runtime.block_on(ask(space, question));
        compare(
            &format!("a first question about {name}"),
            plan.rounds(rounds),
            || {
                let space = open(folder.path());
                timed(|| ask(&space, &first))
            },
            "rg -c, or every file read by hand",
            || timed(|| by_hand(folder.path(), &words[700])),
        );
        let space = open(folder.path());
        let held = peak(|| ask(&space, &first));
        let calls = ask(&space, &second).calls;
        println!(
            "{name}: a second question has {calls} calls; the cache grew by {held} KiB at most"
        );
        for (what, question) in [
            ("a second question", &second),
            ("a second question with a slip", &slip),
            ("a second question with a phrase", &phrase),
        ] {
            compare(
                &format!("{what} about {name}"),
                plan.rounds(rounds),
                || timed(|| ask(&space, question)),
                "find -size",
                || timed(|| by_attributes(folder.path())),
            );
        }
    }
}

/// Returns different words of syllables.
fn words() -> Vec<String> {
    let mut chance = Chance::of(11);
    let starts =
        ["b", "br", "d", "f", "gr", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "w"];
    let vowels = ["a", "e", "i", "o", "u", "ea", "ou"];
    let ends = ["", "", "n", "r", "s", "t", "ng", "ck"];
    let mut known = std::collections::HashSet::new();
    let mut words = Vec::new();
    while words.len() < WORDS {
        let syllables = 1 + chance.below(3).min(words.len() / 50);
        let mut word = String::new();
        for _ in 0..syllables {
            word.push_str(starts[chance.below(starts.len())]);
            word.push_str(vowels[chance.below(vowels.len())]);
            word.push_str(ends[chance.below(ends.len())]);
        }
        if known.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

fn plant(folder: &Path, files: usize, words: &[String]) {
    let mut chance = Chance::of(7);
    for number in 0..files {
        let parent = folder.join(format!("{:04}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&parent).unwrap();
        }
        let mut text = format!("# Note {number}\n\n");
        for at in 1..=NOTE_WORDS {
            // The frequency of a word falls with its number.
            let most = 1usize << (1 + chance.below(16));
            text.push_str(&words[chance.below(most.min(WORDS))]);
            text.push_str(if at % 60 == 0 {
                "\n\n"
            } else if at % 12 == 0 {
                "\n"
            } else {
                " "
            });
        }
        fs::write(parent.join(format!("note-{number:06}.md")), text).unwrap();
    }
}

fn open(folder: &Path) -> Space {
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
    Space::open_ambient(folder, options).unwrap().0
}

fn permit() -> Permit<Walk> {
    let scopes = Scopes::from_claim("read:/");
    let principal = Principal::assert_verified("bench", None, None, scopes, RecordsClaim::None);
    principal.gate().permit(&SpacePath::root()).unwrap()
}

/// What a question took.
struct Asked {
    calls: usize,
}

/// Asks until the answer is finished.
async fn ask(space: &Space, question: &str) -> Asked {
    let (mut calls, mut cursor) = (0, WalkCursor::default());
    let began = Instant::now();
    loop {
        let query = RecallQuery {
            question: RecallQuestion::parse(question).unwrap(),
            kinds: Vec::new(),
            modified: [None, None],
            limit: 10,
        };
        let page = space.recall(permit(), (question.to_owned(), query), cursor).await.unwrap();
        calls += 1;
        match page.next.filter(|_| !page.left_out.is_empty()) {
            Some(next) => cursor = next,
            None => return Asked { calls },
        }
        assert!(began.elapsed() < Duration::from_secs(600), "the question does not end");
    }
}

/// Counts the lines with a word; without `rg`, the files that contain it.
fn by_hand(folder: &Path, word: &str) -> usize {
    if let Ok(output) =
        Command::new("rg").args(["-uu", "-c", "-w", "-F", word]).arg(folder).output()
    {
        return output.stdout.split(|byte| *byte == b'\n').count() - 1;
    }
    let mut found = 0;
    for folder in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            found += usize::from(text.contains(word));
        }
    }
    found
}

fn by_attributes(folder: &Path) {
    let mut find = Command::new("find");
    find.arg(folder).args(["-name", "*.md", "-size", "+1000k"]);
    find.stdout(Stdio::null()).status().unwrap();
}
