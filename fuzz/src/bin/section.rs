//! Sections of notes: a section is found by its id, by its heading and by a path of headings at the
//! same lines, and an edit of a section changes nothing outside of it.
//!
//! An input can be typed: the name of a section, a text to put there, and a note, with `|` between
//! them. A `~` is a line break.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use stile_domain::edit::section_edit::{SectionEdge, insert_in_section, replace_section};
use stile_domain::lines::{count_lines, line_spans};
use stile_domain::notes::section::{SectionFault, WantedSection};
use stile_domain::path::SpacePath;

fuzz_target!(|input: &[u8]| -> Corpus {
    let input = String::from_utf8_lossy(input).replace('~', "\n");
    let mut fields = input.splitn(3, '|');
    let (Some(name), Some(content), Some(note)) = (fields.next(), fields.next(), fields.next())
    else {
        return Corpus::Reject;
    };
    let path = SpacePath::parse("/f/note.md").expect("a path");
    let section = WantedSection::new(&path, name).expect("a note");
    let place = match section.find(note) {
        Ok(place) => place,
        Err(SectionFault::Ambiguous { headings, .. }) => {
            assert!(headings.len() > 1 && headings.iter().is_sorted());
            return Corpus::Keep;
        }
        Err(_) => {
            assert!(replace_section(note, &section, content).is_err());
            return Corpus::Keep;
        }
    };
    let total = count_lines(note);
    assert!(1 <= place.lines.start && place.lines.start < place.body_start);
    assert!(place.body_start <= place.lines.end && place.lines.end <= total + 1);
    // What stands before the body and after the section stays, byte for byte.
    let start_of = |line: u64| {
        let index = usize::try_from(line - 1).expect("a line");
        line_spans(note, 0).nth(index).map_or(note.len(), |span| span.start)
    };
    let (before, after) = note.split_at(start_of(place.lines.end));
    let head = &before[..start_of(place.body_start)];
    let edits = [
        replace_section(note, &section, content),
        insert_in_section(note, &section, SectionEdge::Start, content),
        insert_in_section(note, &section, SectionEdge::End, content),
    ];
    for edited in edits {
        let edited = edited.expect("the section is there");
        assert!(edited.starts_with(head), "{note:?} {edited:?}");
        assert!(edited.ends_with(after), "{note:?} {edited:?}");
    }
    Corpus::Keep
});
