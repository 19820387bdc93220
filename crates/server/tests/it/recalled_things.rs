//! Ten things that a person half remembers, found in one call, read in a second and changed in a
//! third. The calls are those of `recall/use/run` in a folder of several thousand notes and manuals
//! that others wrote; here they are replayed in a small one with files about the same things. A
//! task that failed there has its first call alone.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use stile_testkit::hosted::{Lifecycle, Peer};
use stile_testkit::process::Rig;

use crate::document_kit::pdf;

const CALLS: &str = include_str!("../../../../recall/use/calls.jsonl");

/// The manuals, each with its pages; what a task remembers is on the last page.
const MANUALS: [(&str, &[&str]); 3] = [
    ("manuals/box.pdf", &["Contents", "To find the address of the box in your network, run nmap."]),
    (
        "manuals/releases.pdf",
        &["Contents", "What release managers of the stable release want with an upload of a fix."],
    ),
    (
        "manuals/questions.pdf",
        &["Contents", "How do I give money to Debian? Contribute financially."],
    ),
];

/// The notes, each with the task that is about it.
const NOTES: [(u32, &str, &str); 7] = [
    (
        4,
        "types/sizes.md",
        "# Infinite size\n\nA recursive struct contains itself: put it in a Box.\n",
    ),
    (5, "web/login.md", "# Login\n\nThe session is in a cookie, encrypted and httpOnly.\n"),
    (
        6,
        "app/meldungen.md",
        "# Benachrichtigungen\n\nUnter Windows erscheint die Meldung nur mit einer AppUserModelID.\n",
    ),
    (7, "pages/chemin.md", "# Fil d'Ariane\n\nIl montre en haut de la page où l'on se trouve.\n"),
    (
        8,
        "agents/memory.md",
        "# Working memory\n\nThe agent knows the name of the user in each thread.\n",
    ),
    (
        9,
        "app/angular.md",
        "# Angular\n\nSo wird ein Projekt übersetzt und Schritt für Schritt eingerichtet.\n",
    ),
    (
        10,
        "texts/numbers.md",
        "# Numbers\n\nOne text for no car, one for one car, one for many cars.\n",
    ),
];

fn plant(root: &Path) {
    let put = |name: &str, bytes: &[u8]| {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    };
    for (name, pages) in MANUALS {
        put(name, &[pdf(pages), vec![b'%', 0xe2, 0xe3, 0xcf, 0xd3]].concat());
    }
    for (_, name, text) in NOTES {
        put(name, text.as_bytes());
    }
    for number in 0..60 {
        let text = format!("# Page {number}\n\nThe user of the page reads release {number}.\n");
        put(&format!("others/{number:02}.md"), text.as_bytes());
    }
}

/// Puts what earlier answers gave in the place of its name.
fn filled(value: &Value, known: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => known.get(text).cloned().unwrap_or_else(|| {
            let put = |text: String, (name, own): (&String, &Value)| {
                text.replace(name, own.as_str().unwrap_or(&own.to_string()))
            };
            Value::String(known.iter().fold(text.clone(), put))
        }),
        Value::Array(items) => items.iter().map(|item| filled(item, known)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(name, value)| (name.clone(), filled(value, known))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn ten_things_half_remembered_are_found_read_and_changed_in_three_calls() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    plant(&rig.root);
    let server = rig.serve(&[]);
    let token = rig.token(&["write:/"], &[]);
    let mut peer = Peer::open(&server, &token, Lifecycle::Sessionless);
    let mut done = 0;
    for task in 1..=10 {
        let calls = CALLS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let number = task.to_string();
        let calls: Vec<Value> = calls.filter(|call| call["task"] == number.as_str()).collect();
        assert!(!calls.is_empty(), "task {task}");
        let right = match task {
            1..4 => MANUALS[task - 1].0,
            _ => NOTES[task - 4].1,
        };
        let mut known = Map::new();
        for call in &calls {
            let arguments = filled(&call["arguments"], &known);
            let answer = peer.call(call["tool"].as_str().unwrap(), &arguments);
            assert_ne!(answer["isError"], true, "task {task}: {arguments} {answer}");
            let content = &answer["structuredContent"];
            if let Some(found) = content["results"].get(0) {
                assert_eq!(found["path"], format!("/{right}"), "task {task}: {content}");
                let passage = &found["passages"][0];
                for (name, own) in [
                    ("$path", &found["path"]),
                    ("$hash", &found["hash"]),
                    ("$lines", &passage["lines"]),
                    ("$page", &passage["page"]),
                ] {
                    known.insert(name.to_owned(), own.clone());
                }
            }
            let first = content["content"].as_str().and_then(|text| {
                text.lines().find(|line| !line.trim().is_empty()).map(str::to_owned)
            });
            known.extend(first.map(|line| ("$line".to_owned(), json!(line))));
        }
        if calls.len() < 3 {
            continue;
        }
        done += 1;
        match task {
            1..4 => {
                let note = fs::read_to_string(rig.root.join(format!("read later/{task}.md")));
                // The passage with the answer may begin on the page before.
                let places = [1, 2].map(|page| format!("/{right}, page {page}\n"));
                assert!(places.contains(&note.unwrap()), "task {task}");
            }
            _ => {
                let note = fs::read_to_string(rig.root.join(right)).unwrap();
                assert!(note.contains(" (checked)"), "task {task}: {note}");
            }
        }
    }
    assert!(done >= 7, "the log has {done} tasks of three calls");
}
