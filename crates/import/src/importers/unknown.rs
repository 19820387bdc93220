//! Describes a file that no importer recognises, and what would take it.
//!
//! A list of formats does not help a person who holds a file. So the description says what the file
//! looks like and, where there is one, the flag that imports it.

use std::io::Read as _;
use std::path::Path;

use stile_domain::unseen::shown_start;
use stile_store::archive::Archive;
use stile_store::files;

use crate::importer::Contents;

/// How many names of an archive a description lists, and how many characters of each.
const NAMES: usize = 5;
const NAME_CHARS: usize = 80;

/// What the beginning of a file, or its name, says about it.
struct Sign {
    /// Whether the beginning, without white space before it and in lower case, shows the format.
    begins: fn(&str) -> bool,
    /// What the file looks like, for a sentence.
    looks_like: &'static str,
    /// What the person can do.
    next: &'static str,
}

const NO_IMPORTER: &str = "Stile does not import it yet. Convert it to CSV or JSON Lines";

const SIGNS: &[Sign] = &[
    Sign {
        begins: |text| text.contains("camt.05"),
        looks_like: "a notice of a bank (CAMT.054)",
        next: "Stile imports statements of CAMT.053. Download one",
    },
    Sign {
        begins: |text| text.starts_with("window.ytd"),
        looks_like: "a part of an archive of Twitter, JavaScript with a JSON array in it",
        next: "Remove what is before the first `[`, and import it with --format json",
    },
    Sign {
        begins: |text| text.starts_with("%pdf-"),
        looks_like: "a PDF",
        next: "Attach it to a note in a folder of Markdown, and import the folder",
    },
    Sign { begins: |text| text.starts_with('<'), looks_like: "XML or HTML", next: NO_IMPORTER },
    Sign {
        begins: |text| text.starts_with('['),
        looks_like: "a JSON array",
        next: "Import it with --format json",
    },
    Sign {
        begins: |text| text.starts_with('{') && text.contains("}\n{"),
        looks_like: "JSON Lines",
        next: "Import it with --format jsonl",
    },
    Sign {
        begins: |text| text.starts_with('{'),
        looks_like: "a JSON object",
        next: "Import it with --format json and, if its rows are not found, with --rows",
    },
    Sign {
        begins: is_table,
        looks_like: "a table of text",
        next: "Import it with --format csv; --preview shows the rows first",
    },
];

/// Returns a sentence about a file that is not recognised, and what to do.
pub fn describe(path: &Path) -> String {
    let mut beginning = Vec::with_capacity(Contents::BEGINNING_BYTES);
    let Ok(file) = files::open(path) else {
        return match path.try_exists() {
            Ok(false) => "there is no such file".to_owned(),
            _ => "it cannot be opened as a file".to_owned(),
        };
    };
    if file.reader.take(Contents::BEGINNING_BYTES as u64).read_to_end(&mut beginning).is_err() {
        return "it cannot be read".to_owned();
    }
    if beginning.is_empty() {
        return "it is empty".to_owned();
    }
    if beginning.starts_with(b"PK") {
        return archive(path);
    }
    let text = String::from_utf8_lossy(&beginning).trim_start_matches('\u{feff}').to_lowercase();
    let text = text.trim_start();
    let Some(sign) = SIGNS.iter().find(|sign| (sign.begins)(text)) else {
        let what = if beginning.contains(&0) { "a file of a program" } else { "plain text" };
        return format!(
            "it looks like {what}. Stile imports none of that kind; a text can be a note in a folder of \
             Markdown, with --format markdown"
        );
    };
    format!("it looks like {}. {}", sign.looks_like, sign.next)
}

/// Describes a zip file by the names in it.
fn archive(path: &Path) -> String {
    let Ok(archive) = Archive::open(path) else {
        return "it begins as a zip file and cannot be read as one".to_owned();
    };
    let names: Vec<String> = archive
        .entries()
        .iter()
        .take(NAMES)
        .map(|entry| format!("`{}`", shown_start(&entry.name, NAME_CHARS)))
        .collect();
    let more = archive.entries().len().saturating_sub(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "it is a zip file with {}{more}. Unpack it, and import its files one by one",
        if names.is_empty() { "nothing in it".to_owned() } else { names.join(", ") }
    )
}

/// Returns whether the first lines have the same number of one delimiter.
fn is_table(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().take(3).collect();
    [',', ';', '\t', '|'].iter().any(|&delimiter| {
        let counts: Vec<usize> = lines.iter().map(|line| line.matches(delimiter).count()).collect();
        matches!(counts.as_slice(), [first, second, ..] if first == second && *first > 0)
    })
}

#[cfg(test)]
mod tests {
    use stile_testkit::zip::{Member, Zip};

    use super::*;
    use crate::rig::rig;

    #[test]
    fn a_file_that_is_not_recognised_is_described_with_the_next_step() {
        let rig = rig();
        let zip = Zip::default().with(&Member::stored("a/b.bin", b"x")).finish();
        let mut lines = String::new();
        for (name, content) in [
            (
                "notice.xml",
                b"<Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.054.001.08\">".as_slice(),
            ),
            ("tweets.js", b"window.YTD.tweets.part0 = []"),
            ("rows.txt", b"[{\"a\":1}]"),
            ("lines.txt", b"{\"a\":1}\n{\"a\":2}\n"),
            ("object.txt", b"{\"a\":[]}"),
            ("table.txt", b"a;b\n1;2\n"),
            ("page.htm", b"<html>"),
            ("x.pdf", b"%PDF-1.7"),
            ("x.bin", b"\0\x01"),
            ("x.txt", b"words"),
            ("empty", b""),
            ("x.zip", &zip),
        ] {
            lines += &format!("{name}: {}\n", describe(&rig.write(name, content)));
        }
        insta::assert_snapshot!(lines);
    }
}
