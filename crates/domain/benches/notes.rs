//! How much the structure of a note costs beside the parser's own pass over its events.
//!
//! Three corpora, made up from a seed: many small notes, a few large ones, and pathological ones.
//! For each, in turns within one run: megabytes a second of the bare event pass and of
//! `section_source`, and their ratio, of which the contract allows 1.5; and how often memory is
//! asked for, per note. The best of all rounds is told. The numbers say nothing of the disk, of a
//! transport, or of notes in other languages. `--smoke` runs each once, to see that it runs.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a program that measures"
)]

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pulldown_cmark::{Options, Parser};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stile_domain::notes::NotePath;
use stile_domain::notes::{Note, section_source};

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

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn note(dice: &mut Dice, bytes: usize) -> String {
    let mut text = String::from("---\ntitle: A note\ntags: [one, two]\n---\n\n");
    while text.len() < bytes {
        match dice.below(8) {
            0 => {
                text += &format!(
                    "{} Heading {}\n\n",
                    "#".repeat(dice.below(4) as usize + 1),
                    dice.below(1000)
                )
            }
            1 => text += "- an item\n- another *item*\n\n",
            2 => text += "```\nlet code = true;\n```\n\n",
            3 => text += "> a quote\n\n",
            _ => {
                for _ in 0..40 + dice.below(60) {
                    text += WORDS.get(dice.below(WORDS.len() as u64) as usize).unwrap_or(&"");
                    text.push(' ');
                }
                text += "\n\n";
            }
        }
    }
    text
}

fn corpora() -> Vec<(&'static str, Vec<String>)> {
    let mut dice = Dice(0x5eed);
    let shapes = ["[", "*a ", "> ", "- ", "[x]: y\n", "`", "&amp;", "# a\n", "<"];
    vec![
        ("many small", (0..1_000).map(|_| note(&mut dice, 3_000)).collect()),
        ("a few large", (0..4).map(|_| note(&mut dice, 900_000)).collect()),
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
        let asked = |work: &dyn Fn(&str)| {
            let region = Region::new(MEMORY);
            notes.iter().for_each(|note| work(note));
            region.change().allocations / notes.len()
        };
        let bare_asked = asked(&|note| {
            black_box(Parser::new_ext(note, Options::empty()).into_offset_iter().count());
        });
        let ours_asked = asked(&|note| {
            let _ = black_box(section_source(&path, Note::parse(note)));
        });
        let speed = |took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!(
            "{name:14} {:6.1} MB  events {:7.1} MB/s  sections {:7.1} MB/s  ratio {ratio:.2}  \
             allocations per note {bare_asked} and {ours_asked}",
            bytes as f64 / 1e6,
            speed(bare),
            speed(ours)
        );
    }
}
