//! Describes a file that no importer recognises, and what would take it.
//!
//! A list of formats does not help a person who holds a file. So the description says what the file
//! looks like and, where there is one, the flag that imports it.

use std::io::Read as _;
use std::path::Path;

use stile_domain::unseen::shown_start;
use stile_store::archive::{Archive, ArchiveEntryError};
use stile_store::files;
use stile_store::foreign_database::{ForeignDatabase, MAGIC as MAGIC_OF_DATABASE, unread_log};

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

/// What the first bytes of a file say, which is no text.
struct Magic {
    bytes: &'static [u8],
    looks_like: &'static str,
    next: &'static str,
}

const PICTURE: &str = "Attach it to a note in a folder of Markdown, and import the folder";
const RECORDING: &str = "Stile imports no recordings or films; a chat of WhatsApp brings its own";
const TO_GPX: &str = "Convert it to GPX, for example with gpsbabel, and import that";

const MAGIC: &[Magic] = &[
    Magic {
        bytes: b"\x1f\x8b",
        looks_like: "a file packed with gzip",
        next: "Unpack it (gunzip, or tar -xzf for a .tgz), and import what is in it",
    },
    Magic {
        bytes: b"BZh",
        looks_like: "a file packed with bzip2",
        next: "Unpack it (bunzip2), and import what is in it",
    },
    Magic {
        bytes: b"\xfd7zXZ\0",
        looks_like: "a file packed with xz",
        next: "Unpack it (unxz), and import what is in it",
    },
    Magic {
        bytes: b"7z\xbc\xaf\x27\x1c",
        looks_like: "an archive of 7-Zip",
        next: "Unpack it, and import its files one by one",
    },
    Magic {
        bytes: b"Rar!",
        looks_like: "an archive of RAR",
        next: "Unpack it, and import its files one by one",
    },
    Magic {
        bytes: b"mozLz40\0",
        looks_like: "a backup of Firefox, packed in a way of its own",
        next: "In Firefox choose Bookmarks, Manage bookmarks, Import and Backup, Backup, and \
               import the JSON file that it saves",
    },
    Magic {
        bytes: b"!BDN",
        looks_like: "a data file of Outlook (PST)",
        next: "Turn it into mailboxes, for example with readpst, and import these",
    },
    Magic {
        bytes: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        looks_like: "a file of an old Microsoft Office or of Outlook",
        next: "Save a workbook as CSV (UTF-8), or a message as .eml, and import that",
    },
    Magic { bytes: b"\x89PNG", looks_like: "a picture (PNG)", next: PICTURE },
    Magic { bytes: b"\xff\xd8\xff", looks_like: "a picture (JPEG)", next: PICTURE },
    Magic { bytes: b"GIF8", looks_like: "a picture (GIF)", next: PICTURE },
    Magic { bytes: b"ID3", looks_like: "a recording (MP3)", next: RECORDING },
    Magic {
        bytes: b"bplist",
        looks_like: "a property list of Apple",
        next: "Convert it (plutil -convert json FILE -o rows.json), and import that",
    },
    Magic {
        bytes: b"PAR1",
        looks_like: "a table of Parquet",
        next: "Write it as CSV, for example with duckdb, and import that",
    },
    Magic {
        bytes: b"\xff\xfe",
        looks_like: "a text in UTF-16",
        next: "If it is a table, import it with --format csv; if it is JSON, with --format json",
    },
    Magic {
        bytes: b"\xfe\xff",
        looks_like: "a text in UTF-16",
        next: "If it is a table, import it with --format csv; if it is JSON, with --format json",
    },
];

/// Files that are known by bytes after their beginning. Each row has where the bytes are, the
/// bytes, what the file is, and what the person can do.
const MAGIC_WITHIN: &[(usize, &[u8], &str, &str)] = &[
    (4, b"ftypheic", "a picture (HEIC)", PICTURE),
    (4, b"ftypM4A", "a recording (M4A)", RECORDING),
    (4, b"ftyp", "a film (MP4)", RECORDING),
    (8, b"WEBP", "a picture (WebP)", PICTURE),
    (8, b"WAVE", "a recording (WAV)", RECORDING),
    (8, b".FIT", "a track of a watch (FIT)", TO_GPX),
];

const NO_IMPORTER: &str = "Stile does not import it yet. Convert it to CSV or JSON Lines";

const SIGNS: &[Sign] = &[
    Sign {
        begins: |text| text.contains("camt.052"),
        looks_like: "a report of a bank within a day (CAMT.052)",
        next: "Stile imports statements of CAMT.053. Download one",
    },
    Sign {
        begins: |text| text.contains("camt.054"),
        looks_like: "a notice of a bank (CAMT.054)",
        next: "Stile imports statements of CAMT.053. Download one",
    },
    Sign {
        begins: |text| text.starts_with("!type:") || text.starts_with("!account"),
        looks_like: "an export of Quicken (QIF)",
        next: "Stile does not import QIF. Download the transactions as OFX, QFX, CAMT.053 or CSV",
    },
    Sign {
        begins: |text| text.starts_with(":20:") || text.starts_with("{1:"),
        looks_like: "a bank statement (MT940)",
        next: "Stile does not import MT940. Download the statement as CAMT.053, OFX or CSV",
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
    Sign {
        begins: |text| text.contains("<kml") || text.contains("<trainingcenterdatabase"),
        looks_like: "places or a track (KML, TCX)",
        next: TO_GPX,
    },
    Sign {
        begins: |text| text.starts_with("<!doctype html") || text.starts_with("<html"),
        looks_like: "a web page (HTML)",
        next: "Save its text as Markdown in a folder, and import the folder",
    },
    Sign { begins: |text| text.starts_with('<'), looks_like: "XML", next: NO_IMPORTER },
    Sign {
        begins: |text| text.starts_with("{\\rtf"),
        looks_like: "a text document (RTF)",
        next: PICTURE,
    },
    Sign {
        begins: |text| text.starts_with("dn:") || text.starts_with("version: 1\ndn:"),
        looks_like: "an address book (LDIF)",
        next: "Export it as vCard (.vcf), and import that",
    },
    Sign {
        begins: |text| {
            ["create table", "insert into", "pragma ", "begin transaction", "drop table"]
                .iter()
                .any(|start| text.starts_with(start))
        },
        looks_like: "a script of SQL",
        next: "Load it into a database, and write a table of that to CSV: sqlite3 x.db < FILE; \
               sqlite3 -csv -header x.db 'select * from TABLE' > rows.csv",
    },
    Sign {
        begins: |text| text.starts_with("[line]"),
        looks_like: "a chat of LINE",
        next: NO_IMPORTER,
    },
    Sign {
        begins: |text| text.lines().next().is_some_and(|line| line.contains("카카오톡")),
        looks_like: "a chat of KakaoTalk",
        next: NO_IMPORTER,
    },
    Sign {
        begins: begins_as_array,
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

/// Returns whether a text begins as a JSON array, and not as a section of a file of settings.
fn begins_as_array(text: &str) -> bool {
    let first = text.strip_prefix('[').map(str::trim_start);
    first.is_some_and(|first| {
        first.starts_with(|next: char| matches!(next, '{' | '[' | ']' | '"' | '-' | '0'..='9'))
    })
}

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
    if beginning.starts_with(MAGIC_OF_DATABASE) {
        return database(path);
    }
    if let Some(found) = MAGIC.iter().find(|magic| beginning.starts_with(magic.bytes)) {
        return format!("it looks like {}. {}", found.looks_like, found.next);
    }
    let is_within = |(at, bytes, ..): &&(usize, &[u8], &str, &str)| {
        beginning.get(*at..).is_some_and(|rest| rest.starts_with(bytes))
    };
    if let Some((.., looks_like, next)) = MAGIC_WITHIN.iter().find(is_within) {
        return format!("it looks like {looks_like}. {next}");
    }
    let text = String::from_utf8_lossy(&beginning).trim_start_matches('\u{feff}').to_lowercase();
    let text = text.trim_start();
    let Some(sign) = SIGNS.iter().find(|sign| (sign.begins)(text)) else {
        let is_text = std::str::from_utf8(&beginning)
            .is_ok_and(|text| !text.contains(|it: char| it.is_control() && !it.is_whitespace()));
        return match is_text {
            false => format!("it looks like a file of a program. {NO_IMPORTER}"),
            true => "it looks like plain text. Stile imports none of that kind; a text can be a note in a \
                     folder of Markdown, with --format markdown"
                .to_owned(),
        };
    };
    format!("it looks like {}. {}", sign.looks_like, sign.next)
}

/// Describes a database of SQLite. Its program may have been writing when it was copied.
fn database(path: &Path) -> String {
    const AGAIN: &str = "Close the program that it belongs to, such as the browser, copy the file \
        again, and import the copy";
    match (ForeignDatabase::open(path).and_then(|it| it.tables()), unread_log(path)) {
        (Err(_), _) => format!(
            "it looks like a database (SQLite) that is damaged, or was copied while its program \
             wrote to it. {AGAIN}"
        ),
        (Ok(0), Some(log)) => format!(
            "it is a database (SQLite) whose content is in `{}` beside it, which is not read. \
             {AGAIN}",
            shown_start(&log.file_name().unwrap_or_default().to_string_lossy(), NAME_CHARS)
        ),
        (Ok(0), None) => format!(
            "it is a database (SQLite) without a table; its content may be in a file that ends in \
             `-wal`, which its program puts into it when it ends. {AGAIN}"
        ),
        (Ok(_), _) => "it is a database (SQLite). Write a table of it to CSV, and import that: \
                       sqlite3 -csv -header FILE 'select * from TABLE' > rows.csv"
            .to_owned(),
    }
}

/// Describes a zip file by the names in it.
fn archive(path: &Path) -> String {
    let Ok(archive) = Archive::open(path) else {
        return "it begins as a zip file and cannot be read as one".to_owned();
    };
    let has = |start: &str| archive.entries().iter().any(|entry| entry.name.starts_with(start));
    let known = [
        ("xl/", "an Excel workbook", "Save the sheet as CSV (UTF-8), and import that"),
        ("word/", "a Word document", PICTURE),
        ("ppt/", "a PowerPoint presentation", PICTURE),
        (
            "META-INF/manifest.xml",
            "a document of LibreOffice",
            "Save a sheet as CSV, and import that",
        ),
        (
            "Index/Document.iwa",
            "a document of Apple's Numbers, Pages or Keynote",
            "Export a table as CSV, and import that",
        ),
        ("META-INF/container.xml", "a book (EPUB)", PICTURE),
    ];
    if archive.entries().is_empty() {
        return match archive.refused() {
            [] => "it is a zip file with nothing in it. Download or make it again".to_owned(),
            [first, others @ ..] => {
                let name = shown_start(&first.name, NAME_CHARS);
                let others = match others.len() {
                    0 => String::new(),
                    1 => " and one more file".to_owned(),
                    more => format!(" and {more} more files"),
                };
                let (error, verb) = (first.error, if others.is_empty() { "is" } else { "are" });
                let next = match error {
                    ArchiveEntryError::Name => "Make it again with plain names",
                    _ => "Unpack it, and import its files one by one",
                };
                format!(
                    "it is a zip file of which nothing is taken: `{name}`{others} {verb} left out, \
                     because {error}. {next}"
                )
            }
        };
    }
    if let Some((_, looks_like, next)) = known.iter().find(|(start, ..)| has(start)) {
        return format!("it looks like {looks_like}. {next}");
    }
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
        names.join(", ")
    )
}

/// Returns whether the first lines have the same number of one delimiter.
fn is_table(text: &str) -> bool {
    if text.contains(|it: char| it.is_control() && !it.is_whitespace()) {
        return false;
    }
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
        let of = |members: &[&str]| {
            let zip = members
                .iter()
                .fold(Zip::default(), |zip, name| zip.with(&Member::stored(name, b"x")));
            zip.finish()
        };
        let zip = of(&["a/b.bin"]);
        let mut lines = String::new();
        for (name, content) in [
            (
                "notice.xml",
                b"<Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.054.001.08\">".as_slice(),
            ),
            ("tweets.js", b"window.YTD.tweets.part0 = []"),
            ("rows.txt", b"[{\"a\":1}]"),
            ("settings.toml", b"[server]\nport = 1\n"),
            ("line.txt", "[LINE] Annとのトーク履歴\n".as_bytes()),
            ("lines.txt", b"{\"a\":1}\n{\"a\":2}\n"),
            ("object.txt", b"{\"a\":[]}"),
            ("table.txt", b"a;b\n1;2\n"),
            ("page.htm", b"<html>"),
            ("feed.xml", b"<?xml version=\"1.0\"?><rss>"),
            ("track.kml", b"<?xml version=\"1.0\"?><kml xmlns=\"x\">"),
            ("letter.rtf", b"{\\rtf1 words}"),
            ("people.ldif", b"dn: cn=Ann\ncn: Ann\n"),
            ("dump.sql", b"CREATE TABLE a(b);\nINSERT INTO a VALUES(1);\n"),
            ("film.mp4", b"\0\0\0\x18ftypmp42"),
            ("bookmarks.jsonlz4", b"mozLz40\0x"),
            ("none.zip", &Zip::default().finish()),
            ("unsafe.zip", &of(&["../a.json"])),
            ("unsafe-names.zip", &of(&["../a.json", "/b.json"])),
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
