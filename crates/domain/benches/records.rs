//! Measures the search in a long text, and the splitting of a text into tokens.
//!
//! A seed generates the texts: English-like words, Chinese-like characters, and texts in which a
//! filter by rare bytes does not help. The needle is absent or at the end. The text comes in pieces
//! of 16,384 bytes. One run measures in turns our search, which ignores case, and `memchr::memmem`
//! for the exact bytes in the whole text. Only their ratio can be compared between machines. The
//! splitting is compared with `char::is_alphanumeric` over the same text. The best round is
//! printed, in megabytes a second. The numbers do not cover a store, which must fetch the pieces
//! first. `--smoke` runs each once, over little text, to check that it runs.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark prints and reads the clock"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use memchr::memmem;
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::tokenizer::tokens;

const PIECE: usize = 16_384;

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

fn english(bytes: usize) -> String {
    let words = "the of and a to in is you that it he was for on are as with his they I at be \
                 this have from or one had by word but not what all were we when your can said \
                 there use an each which she do how their if will up other about out many then \
                 them these so some her would make like him into time has look two more write go \
                 see number no way could people my than first water been call who oil its now \
                 find";
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut random = Random(0x5eed);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text += words.get(random.below(words.len() as u64) as usize).unwrap_or(&"");
        text += if random.below(12) == 0 { ".\n" } else { " " };
    }
    text
}

fn chinese(bytes: usize) -> String {
    let mut random = Random(0x5eed);
    let mut text = String::with_capacity(bytes + 4);
    while text.len() < bytes {
        let common = random.below(3_000).min(random.below(3_000)) as u32;
        text.push(char::from_u32(0x4e00 + common).unwrap_or_default());
    }
    text
}

fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let end = (0..=PIECE.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or_default();
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn once(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Measures two functions over one text in turns, and prints both speeds.
fn compare(
    what: &str,
    bytes: usize,
    rounds: usize,
    mut ours: impl FnMut(),
    mut theirs: impl FnMut(),
) {
    let (mut a, mut b) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        a = a.min(once(&mut ours));
        b = b.min(once(&mut theirs));
    }
    let speed = |took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
    let ratio = a.as_secs_f64() / b.as_secs_f64();
    println!("{what:44} {:8.0} MB/s  beside {:8.0} MB/s  ratio {ratio:.2}", speed(a), speed(b));
}

fn search(what: &str, rounds: usize, text: &str, needle: &str) {
    let pieces = pieces(text);
    let prepared = Needle::new(needle).unwrap();
    let ours = || {
        let mut finder = NeedleFinder::new(&prepared);
        black_box(pieces.iter().find_map(|piece| finder.feed(piece)));
    };
    let theirs = || {
        black_box(memmem::find(text.as_bytes(), needle.as_bytes()));
    };
    compare(what, text.len(), rounds, ours, theirs);
}

fn cut(what: &str, rounds: usize, text: &str) {
    let ours = || {
        black_box(tokens(text).map(|token| token.text.len()).sum::<usize>());
    };
    let theirs = || {
        black_box(text.chars().filter(|one| one.is_alphanumeric()).count());
    };
    compare(what, text.len(), rounds, ours, theirs);
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (rounds, bytes) = if smoke { (1, 100_000) } else { (15, 16 << 20) };
    let english = english(bytes);
    let chinese = chinese(bytes);
    search("find: English, a rare word, absent", rounds, &english, "quartz");
    search("find: English, common letters, absent", rounds, &english, "the otter");
    search("find: English, at the end", rounds, &format!("{english}Zanzibar"), "Zanzibar");
    search("find: English, one letter, absent", rounds, &english, "Z");
    search(
        "find: English, 1,000 characters, absent",
        rounds,
        &english,
        &english.get(1..1000).unwrap().replace("the", "thy"),
    );
    search("find: Chinese, two characters, absent", rounds, &chinese, "龍語");
    search("find: Chinese, common characters, absent", rounds, &chinese, "一丁七丄");
    search("find: Chinese, at the end", rounds, &format!("{chinese}水の歌"), "水の歌");
    search(
        "find: one letter and a needle of it",
        rounds,
        &"a".repeat(bytes),
        &("a".repeat(500) + "b" + &"a".repeat(500)),
    );
    search(
        "find: half a needle everywhere",
        rounds,
        &"aab".repeat(bytes / 3),
        &("baa".repeat(300) + "bab"),
    );
    cut("tokens: English", rounds, &english);
    cut("tokens: English with capitals", rounds, &english.to_uppercase());
    cut("tokens: French", rounds, &english.replace('e', "é"));
    cut("tokens: Chinese", rounds, &chinese);
}
