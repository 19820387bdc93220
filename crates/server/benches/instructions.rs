//! The work of the hot paths, one at a time, to be counted in instructions.
//!
//! `instructions NAME` prepares a path and runs it once within `measured`, which is all that
//! `.ci/instructions/run.sh` lets callgrind count. Without a name it runs all paths, which shows
//! that they run. The corpora come from fixed seeds, and each path runs once before it is
//! counted, so that what is remembered is remembered. `--list` prints the names.
//!
//! The counts are of an unoptimised build, and of one thread: they show that a path does more work
//! than before, and not how long it takes. Tables of the standard library are seeded anew in each
//! process, which moves a count by less than a per cent.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified owner, and prints"
)]

use std::hint::black_box;

use stile_domain::edit::Within;
use stile_domain::lines::{LineRange, LineScanner, line_spans};
use stile_domain::notes::{Note, NotePath, section_source};
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_domain::recall::evidence::{FileEvidence, Matcher};
use stile_domain::recall::file_words::{FileKind, FileWords};
use stile_domain::recall::question::RecallQuestion;
use stile_domain::recall::ranking::rank;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::scope::Scopes;
use stile_domain::text_edits::{Occurrences, TextEdit, apply};
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_records::operations::Operation;
use stile_records::request_target::RequestTarget;
use stile_server::auth::{MintRequest, Minter, local_token_id};
use stile_store::records::{IncomingRecord, Records};
use stile_store::state::{StateDir, TokenKey, TokenStore};
use stile_testkit::chance::Chance;

/// The paths by their names, in the order of the stored counts.
const PATHS: [(&str, fn()); 7] = [
    ("window", window),
    ("edit", edit),
    ("ranking", ranking),
    ("sections", sections),
    ("token", token),
    ("page", page),
    ("hit", hit),
];

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return PATHS.iter().for_each(|(name, _)| println!("{name}"));
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for (name, path) in PATHS {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            path();
            println!("{name}");
        }
    }
}

/// Runs `work` once, then once more to be counted.
fn count(mut work: impl FnMut()) {
    work();
    measured(&mut work);
}

/// The one function in which instructions are counted. Its name is in `.ci/instructions/run.sh`.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn words(chance: &mut Chance, count: usize) -> String {
    const SYLLABLES: [&str; 8] = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri"];
    let mut text = String::new();
    for at in 0..count {
        for _ in 0..1 + chance.below(3) {
            text.push_str(SYLLABLES.get(chance.below(8)).unwrap());
        }
        text.push_str(if at % 12 == 11 { ".\n" } else { " " });
    }
    text
}

/// Twenty lines in the middle of a file of 100 KB, whose lines are counted.
fn window() {
    let text = words(&mut Chance::of(1), 20_000);
    count(|| {
        let mut scanner = LineScanner::default();
        scanner.feed(text.as_bytes());
        let index = scanner.finish();
        let lines = LineRange(-200, -181).resolve(index.total_lines()).unwrap();
        let (line, byte) = index.nearest(lines.start - 1);
        let skipped = usize::try_from(lines.start - 1 - line).unwrap();
        let spans = line_spans(&text, usize::try_from(byte).unwrap());
        let shown: String = spans.skip(skipped).take(20).map(|span| span.content(&text)).collect();
        black_box(shown);
    });
}

/// The plan of an edit of one line of 100 KB.
fn edit() {
    let text =
        words(&mut Chance::of(2), 20_000) + "the one line\n" + &words(&mut Chance::of(3), 99);
    let edits = [TextEdit {
        old: "the one line".to_owned(),
        new: "another line".to_owned(),
        within: Within::Lines(LineRange(1, -1)),
        occurrences: Occurrences::One,
    }];
    count(|| {
        black_box(apply(&text, &edits, 1 << 20).unwrap());
    });
}

/// A question of three words about 1,000 notes of 20 words, from their texts to their order.
fn ranking() {
    let mut chance = Chance::of(4);
    let notes: Vec<(SpacePath, String)> = (0..1_000)
        .map(|number| {
            (SpacePath::parse(&format!("/n/{number}.md")).unwrap(), words(&mut chance, 20))
        })
        .collect();
    let question = RecallQuestion::parse("bade kilomu nape").unwrap();
    count(|| {
        let mut matcher = Matcher::new(&question);
        let files: Vec<(SpacePath, FileEvidence)> = notes
            .iter()
            .map(|(path, text)| {
                let words = FileWords::of(text, FileKind::Note);
                (path.clone(), matcher.gather(path, &words))
            })
            .collect();
        black_box(rank(&question, &files));
    });
}

/// The sections of a note of 40 headings.
fn sections() {
    let mut chance = Chance::of(5);
    let mut text = String::from("---\ntitle: A note\ntags: [one, two]\n---\n\n");
    for number in 0..40 {
        text += &format!("{} Heading {number}\n\n", "#".repeat(1 + number % 3));
        text += &words(&mut chance, 60);
        text += "\n\n- an item\n- another *item*\n\n";
    }
    let path = NotePath::parse("notes/a.md").unwrap();
    count(|| {
        black_box(section_source(&path, Note::parse(&text)).unwrap());
    });
}

/// The signature and the claims of a token of this server.
fn token() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let (key, tokens) = (TokenKey::open(&state).unwrap(), TokenStore::open(&state).unwrap());
    let minter = Minter { key: &key, tokens: &tokens, audience: "urn:uuid:1" };
    let request = MintRequest {
        subject: "ann".to_owned(),
        scopes: Scopes::from_claim("read:/ write:/journal/"),
        client: Some("editor".to_owned()),
        records: RecordsClaim::None,
        life: std::time::Duration::from_secs(3600),
    };
    let minted = minter.mint(&request, std::time::SystemTime::UNIX_EPOCH).unwrap();
    count(|| {
        black_box(local_token_id(&key, &minted.token).unwrap());
    });
}

struct Messages {
    _folder: tempfile::TempDir,
    services: RecordService,
    owner: Principal,
}

impl Messages {
    /// Stores 200 messages.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap();
        let (scopes, claim) = (Scopes::none(), RecordsClaim::Owner);
        let owner = Principal::assert_verified("bench", Some("t"), None, scopes, claim);
        let messages = Self { _folder: folder, services: RecordService::new(records), owner };
        messages.store();
        messages
    }

    fn store(&self) {
        let mut chance = Chance::of(6);
        let text = |text: String| FieldValue::Text(text);
        let batch: Vec<RecordFields> = (0..200_i64)
            .map(|number| {
                let sent = Instant(1_000_000_000_000_000 + number * 60_000_000).to_rfc3339();
                vec![
                    ("id".to_owned(), text(format!("m{number}"))),
                    ("sent_at".to_owned(), text(sent)),
                    ("body".to_owned(), text(words(&mut chance, 40))),
                ]
            })
            .collect();
        let mut inference = Inference::new();
        batch.iter().for_each(|fields| inference.observe(fields));
        let declaration = inference.finish(KeyChoice::Infer).unwrap().declaration;
        let name = |text: &str| SourceName::parse(text).unwrap();
        let owner = self.owner.gate().owner().unwrap();
        let written = self.services.records.write(&owner, |store| {
            let terms = indexed_fields(&declaration);
            let (mail, messages) = (name("mail"), name("messages"));
            let declared = declaration.to_json().to_string();
            let target = store.declare(&mail, &messages, &declared, &terms)?;
            for fields in &batch {
                let key = fields.first().and_then(|(_, value)| value.scalar_text()).unwrap();
                let (key, emitted) = (RecordKey::parse(key).unwrap(), Instant(0));
                let record = IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() };
                store.upsert(&target, record)?;
            }
            Ok(())
        });
        written.unwrap();
    }

    fn answer(&self, operation: Operation, stream: &str, query: &[(&str, &str)]) {
        let target = RequestTarget::new(stream, "", query);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        self.services.answer(&self.owner, Instant(1), &call, &mut out).unwrap();
        black_box(out);
    }
}

/// A page of 25 records.
fn page() {
    let messages = Messages::new();
    count(|| messages.answer(Operation::ListRecords, "messages", &[("preview_chars", "512")]));
}

/// A search of records, with its first hits.
fn hit() {
    let messages = Messages::new();
    count(|| messages.answer(Operation::Search, "", &[("q", "bade kilo")]));
}
