//! Which notes to find: by a tag, by a property and by a link.

use super::links::{LinkedFiles, NoteLink};
use super::note_facts::NoteFacts;
use super::note_property::WantedProperty;
use super::tags::WantedTag;
use crate::path::SpacePath;

/// Which notes to find. A note must fit all that is given.
#[derive(Clone, Debug, Default)]
pub struct NoteQuery {
    /// A tag that the note has, or that has one of its tags nested in it.
    pub tag: Option<WantedTag>,
    /// A property that the note has.
    pub property: Option<WantedProperty>,
    /// A file to which the note links.
    pub links_to: Option<SpacePath>,
}

impl NoteQuery {
    /// Whether a note fits. `files` has the files that compete with `links_to` for links.
    pub fn fits(&self, note: &SpacePath, facts: &NoteFacts, files: &LinkedFiles) -> bool {
        self.tag.as_ref().is_none_or(|tag| tag.is_among(&facts.tags))
            && self.property.as_ref().is_none_or(|wanted| wanted.is_among(&facts.properties))
            && self.links_to.as_ref().is_none_or(|path| {
                let leads = |link: &NoteLink| {
                    files.may_lead(&link.target) && files.resolve(&link.target, note) == Some(path)
                };
                facts.links.iter().any(leads)
            })
    }
}

/// Whether a file is a note, by its name.
pub fn is_note(name: &str) -> bool {
    has_ending(name, ".md")
}

/// Whether a file is a canvas, by its name: a board that shows notes and has links to them.
pub fn is_canvas(name: &str) -> bool {
    has_ending(name, ".canvas")
}

/// Whether a file may have links to other files: a note or a canvas.
pub fn may_have_links(name: &str) -> bool {
    is_note(name) || is_canvas(name)
}

fn has_ending(name: &str, wanted: &str) -> bool {
    let ending = name.len().checked_sub(wanted.len()).and_then(|at| name.get(at..));
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(name: &str, value: Option<&str>, front: &str) -> bool {
        let facts = NoteFacts::of(&format!("---\n{front}\n---\n")).unwrap();
        let wanted = WantedProperty { name: name.to_owned(), value: value.map(str::to_owned) };
        let query = NoteQuery { property: Some(wanted), ..NoteQuery::default() };
        query.fits(&SpacePath::parse("/a.md").unwrap(), &facts, &LinkedFiles::default())
    }

    #[test]
    fn a_property_is_compared_as_the_front_matter_spells_it() {
        assert!(fits("status", Some("done"), "status: done"));
        assert!(fits("status", Some("done"), "status: 'done' # yes"));
        assert!(fits("n", Some("007"), "n: 007") && !fits("n", Some("7"), "n: 007"));
        assert!(!fits("Status", None, "status: done") && !fits("b", None, "a: {b: 1}"));
    }

    #[test]
    fn a_list_has_a_value_that_it_contains() {
        assert!(fits("a", Some("x"), "a: [y, x]") && fits("a", Some("x"), "a:\n  - x"));
        assert!(!fits("a", Some("z"), "a: [y, x]") && !fits("a", Some("y, x"), "a: [y, x]"));
    }

    #[test]
    fn a_property_without_a_value_is_found_by_its_name() {
        assert!(fits("a", None, "a:") && fits("a", None, "a: {b: 1}") && !fits("a", None, "b: 1"));
        assert!(!fits("a", None, "a: 1\na: 2"), "invalid front matter has no properties");
    }

    #[test]
    fn a_note_is_a_file_that_ends_in_md() {
        assert!(is_note("a.md") && is_note("a.MD"));
        assert!(!is_note("a.markdown") && !is_note("md") && !is_note("\u{e9}d"));
    }
}
