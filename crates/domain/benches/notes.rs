//! Measures the cost of a note's structure, compared with the parser's own pass over its events.
//!
//! A seed generates three corpora: many small notes, a few large ones, and pathological ones. For
//! each corpus one run measures in turns the bare event pass and `section_source`. It prints the
//! best round of each in megabytes a second, their ratio, of which the contract allows 1.5, and the
//! allocations per note. The numbers do not cover the disk, a transport, or notes in other
//! languages. `--smoke` runs each once, to check that it runs.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark prints and reads the clock"
)]

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pulldown_cmark::{Options, Parser};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stile_domain::notes::{Note, NotePath, section_source};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WORDS: &[&str] = &[
    "water",
    "the",
    "*ferns*",
    "in",
    "**May**",
    "`soil.ph`",
    "[moss](https://example.org/moss)",
    "and",
    "light,",
    "stone",
    "wall.",
];

/// A xorshift64 random number generator, the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn note(random: &mut Random, bytes: usize) -> String {
    let mut text = String::from("---\ntitle: A note\ntags: [one, two]\n---\n\n");
    while text.len() < bytes {
        match random.below(8) {
            0 => {
                text += &format!(
                    "{} Heading {}\n\n",
                    "#".repeat(random.below(4) as usize + 1),
                    random.below(1000)
                )
            }
            1 => text += "- an item\n- another *item*\n\n",
            2 => text += "```\nlet code = true;\n```\n\n",
            3 => text += "> a quote\n\n",
            _ => {
                for _ in 0..40 + random.below(60) {
                    text += WORDS.get(random.below(WORDS.len() as u64) as usize).unwrap_or(&"");
                    text.push(' ');
                }
                text += "\n\n";
            }
        }
    }
    text
}

fn corpora() -> Vec<(&'static str, Vec<String>)> {
    let mut random = Random(0x5eed);
    let shapes = ["[", "*a ", "> ", "- ", "[x]: y\n", "`", "&amp;", "# a\n", "<"];
    vec![
        ("many small", (0..1_000).map(|_| note(&mut random, 3_000)).collect()),
        ("a few large", (0..4).map(|_| note(&mut random, 900_000)).collect()),
        ("pathological", shapes.iter().map(|piece| piece.repeat(900_000 / piece.len())).collect()),
    ]
}

fn once(mut work: impl FnMut()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--smoke") { 1 } else { 15 };
    let path = NotePath::parse("notes/a.md").unwrap();
    for (name, notes) in corpora() {
        let bytes: usize = notes.iter().map(String::len).sum();
        let (mut bare, mut ours) = (Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            bare = bare.min(once(|| {
                for note in &notes {
                    black_box(Parser::new_ext(note, Options::empty()).into_offset_iter().count());
                }
            }));
            ours = ours.min(once(|| {
                for note in &notes {
                    let _ = black_box(section_source(&path, Note::parse(note)));
                }
            }));
        }
        let allocations = |work: &dyn Fn(&str)| {
            let region = Region::new(MEMORY);
            notes.iter().for_each(|note| work(note));
            region.change().allocations / notes.len()
        };
        let bare_allocations = allocations(&|note| {
            black_box(Parser::new_ext(note, Options::empty()).into_offset_iter().count());
        });
        let our_allocations = allocations(&|note| {
            let _ = black_box(section_source(&path, Note::parse(note)));
        });
        let speed = |took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!(
            "{name:14} {:6.1} MB  events {:7.1} MB/s  sections {:7.1} MB/s  ratio {ratio:.2}  \
             allocations per note {bare_allocations} and {our_allocations}",
            bytes as f64 / 1e6,
            speed(bare),
            speed(ours)
        );
    }
}
