//! Measures the parsing of rows, compared with `serde_json` parsing the same bytes into its values.
//!
//! The four corpora are chat messages, rows of small numbers and names, nested metadata, and long
//! texts. One run measures both parsers in turns, and prints the best round of each in megabytes a
//! second. The parsers do different work: ours refuses repeated names, keeps digits, and makes
//! compact text of nested values. The numbers do not cover the disk or the store. `--smoke` runs
//! each once, to check that it runs.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark prints and reads the clock"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use stile_domain::records::row;

fn rows(bytes: usize, row: impl Fn(usize) -> String) -> Vec<String> {
    let mut made = 0;
    let mut rows = Vec::new();
    while made < bytes {
        rows.push(row(rows.len()));
        made += rows.last().map_or(0, String::len);
    }
    rows
}

fn corpora(bytes: usize) -> [(&'static str, Vec<String>); 4] {
    let words = "Shall we walk to the \\\"old\\\" quarry on Saturday?\\nThe ferns are out. ";
    [
        (
            "messages",
            rows(bytes, |index| {
                let text = words.repeat(1 + index % 7);
                format!(
                    "{{\"id\":\"msg_{index:08}\",\"channel\":\"general\",\
                     \"sender\":\"Ada Lovelace\",\"sent_at\":\"2025-03-01T08:{:02}:00Z\",\
                     \"text\":\"{text}\",\"edited\":false,\
                     \"reactions\":[{{\"name\":\"leaf\",\"count\":{}}}]}}",
                    index % 60,
                    index % 9
                )
            }),
        ),
        (
            "small numbers",
            rows(bytes, |index| {
                let cells: Vec<String> = (0..12)
                    .map(|cell| format!("\"column_{cell}\":{}.{}", index * cell, cell))
                    .collect();
                format!("{{{}}}", cells.join(","))
            }),
        ),
        (
            "nested",
            rows(bytes, |index| {
                format!(
                    "{{\"id\":{index},\"meta\":{{\"headers\":[{}],\
                     \"flags\":{{\"seen\":true,\"draft\":null}}}}}}",
                    (0..20)
                        .map(|at| format!(
                            "{{\"name\": \"X-Header-{at}\", \"value\": \"a value of it\"}}"
                        ))
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }),
        ),
        (
            "long texts",
            rows(bytes, |index| format!("{{\"id\":{index},\"text\":\"{}\"}}", words.repeat(3000))),
        ),
    ]
}

fn timed(rows: &[String], mut read: impl FnMut(&[u8])) -> Duration {
    let start = Instant::now();
    for row in rows {
        read(row.as_bytes());
    }
    start.elapsed()
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (bytes, rounds) = if smoke { (1 << 16, 1) } else { (1 << 24, 7) };
    for (name, rows) in corpora(bytes) {
        let size: usize = rows.iter().map(String::len).sum();
        let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            ours = ours.min(timed(&rows, |row| drop(black_box(row::parse(row).unwrap()))));
            theirs = theirs.min(timed(&rows, |row| {
                drop(black_box(serde_json::from_slice::<serde_json::Value>(row).unwrap()));
            }));
        }
        let speed = |time: Duration| size as f64 / 1e6 / time.as_secs_f64();
        println!("{name:14} {:5.0} MB/s, serde_json {:5.0} MB/s", speed(ours), speed(theirs));
    }
}
