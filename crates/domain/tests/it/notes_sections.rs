//! Reads every section of many notes by its id, and compares the pieces with the note.
//!
//! The notes are the fixtures, the pages of this project, generated documents, and every Markdown
//! file below the folder that `STILE_RIG_NOTES` names.

use std::path::Path;

use serde::Deserialize;
use stile_domain::lines::{ResolvedLines, line_spans};
use stile_domain::notes::section::{SectionFault, WantedSection};
use stile_domain::notes::{MAX_NOTE_BYTES, Note, NotePath, note_outline, section_source};

use super::notes_differential::{document, heading_lines};

#[derive(Deserialize)]
struct Sections {
    sections: Vec<Section>,
    truncated: bool,
}

#[derive(Deserialize)]
struct Section {
    section_id: String,
    heading_id: String,
    heading_path: Vec<String>,
    child_section_ids: Vec<String>,
}

fn sections(path: &NotePath, text: &str) -> Option<Sections> {
    let answer = section_source(path, Note::parse(text)).ok()?;
    Some(serde_json::from_value(serde_json::to_value(&answer).unwrap()).unwrap())
}

fn lines(path: &NotePath, text: &str, id: &str) -> ResolvedLines {
    let section = WantedSection::new(path.space_path(), id).unwrap();
    section.find(text).unwrap_or_else(|_| panic!("no section {id} in {text:?}")).lines
}

/// Checks that the sections of a note are the note. Returns the number of sections.
fn check(path: &NotePath, text: &str) -> usize {
    let Some(Sections { sections, truncated }) = sections(path, text) else { return 0 };
    let spans: Vec<_> = line_spans(text, 0).collect();
    let last = spans.len() as u64 + 1;
    let found: Vec<_> = sections.iter().map(|one| lines(path, text, &one.section_id)).collect();
    for (section, range) in sections.iter().zip(&found) {
        assert_eq!(lines(path, text, &section.heading_id), *range, "{text:?}");
        assert!((1..range.end).contains(&range.start) && range.end <= last, "{text:?}");
        for child in &section.child_section_ids {
            let child = lines(path, text, child);
            assert!(range.start < child.start && child.end <= range.end, "{text:?}");
        }
    }
    // The sections without a parent follow one another to the end of the note.
    let roots = sections.iter().zip(&found).filter(|one| one.0.heading_path.len() == 1);
    let roots: Vec<_> = roots.map(|(_, range)| *range).collect();
    for (one, next) in roots.iter().zip(roots.iter().skip(1)) {
        assert_eq!(one.end, next.start, "{text:?}");
    }
    if let Some(end) = roots.last()
        && !truncated
    {
        assert_eq!(end.end, last, "{text:?}");
    }
    sections.len()
}

/// Whether Markdown sees more lines than a file has.
fn has_lone_carriage_return(text: &str) -> bool {
    text.replace("\r\n", "\n").contains('\r')
}

fn markdown_below(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, about) = (entry.path(), entry.metadata().unwrap());
        if about.is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md")
            && about.len() <= MAX_NOTE_BYTES
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            found.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
    }
}

#[test]
fn the_sections_of_fixtures_are_the_notes() {
    #[derive(Deserialize)]
    struct Case {
        markdown: String,
        path: String,
    }
    let files = [
        include_str!("../fixtures/notes/edge.jsonl"),
        include_str!("../fixtures/notes/commonmark.jsonl"),
        include_str!("../fixtures/notes/commonmark-as-body.jsonl"),
    ];
    let cases = files.iter().flat_map(|file| file.lines());
    let mut count = 0;
    for case in cases.map(|line| serde_json::from_str::<Case>(line).unwrap()) {
        if !has_lone_carriage_return(&case.markdown) {
            count += check(&NotePath::parse(&case.path).unwrap(), &case.markdown);
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn the_sections_of_files_are_the_files() {
    let mut notes = Vec::new();
    markdown_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"), &mut notes);
    if let Some(folder) = std::env::var_os("STILE_RIG_NOTES") {
        markdown_below(Path::new(&folder), &mut notes);
    }
    let mut count = 0;
    for (name, text) in &notes {
        count += check(&NotePath::parse(name).unwrap(), text);
        // The same with the line endings of another system.
        check(&NotePath::parse(name).unwrap(), &text.replace('\n', "\r\n"));
    }
    println!("{count} sections of {} files", notes.len());
    assert!(count > 100, "{count}");
}

#[test]
fn sections_begin_where_a_second_implementation_finds_their_headings() {
    let path = NotePath::parse("a.md").unwrap();
    let mut count = 0;
    for text in (0..4_000).map(document) {
        let Some(theirs) = heading_lines(&text) else { continue };
        let outline = note_outline(&path, Note::parse(&text)).unwrap();
        let outline = serde_json::to_value(&outline).unwrap();
        let ids = outline["headings"].as_array().unwrap().iter();
        let ours: Vec<_> =
            ids.map(|one| lines(&path, &text, one["id"].as_str().unwrap()).start).collect();
        assert_eq!(ours, theirs, "{text:?}");
        count += ours.len();
        check(&path, &text);
    }
    assert!(count > 1_000, "{count}");
}

#[test]
fn an_id_of_another_note_or_of_nothing_finds_no_section() {
    let path = NotePath::parse("a.md").unwrap();
    let text = "# One\n\ntext\n";
    let find = |id: &str| WantedSection::new(path.space_path(), id).unwrap().find(text);
    assert!(find("a-md:h1-one-0001").is_ok());
    for id in ["b-md:h1-one-0001", "h1-one-0002", "h2-one-0001", "", ":", "a-md:", "Two"] {
        assert_eq!(find(id), Err(SectionFault::NoSuchSection { headings: vec![1] }), "{id}");
    }
}

#[test]
fn sections_that_share_a_line_of_the_file_each_have_that_line() {
    let path = NotePath::parse("a.md").unwrap();
    let text = "# One\rtext\r# Two\rtext\n# Three\n";
    for (id, start, end) in [("h1-one-0001", 1, 2), ("h1-two-0002", 1, 2), ("h1-three-0003", 2, 3)]
    {
        assert_eq!(lines(&path, text, id), ResolvedLines { start, end }, "{id}");
    }
}
