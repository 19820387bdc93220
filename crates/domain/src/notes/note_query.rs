//! Which notes to find: by a tag, by a property and by a link.

use std::collections::HashSet;

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
    /// What the properties of the note must be.
    pub properties: Vec<WantedProperty>,
    /// A file to which the note links.
    pub links_to: Option<SpacePath>,
    /// Whether the note must have no tag.
    pub is_untagged: bool,
    /// Whether the note must have a link that leads to no file.
    pub is_broken: bool,
    /// Whether no other note or canvas may have a link to the note.
    pub is_orphan: bool,
}

/// Where the links of notes lead, as far as a question needs to know.
#[derive(Clone, Debug, Default)]
pub struct KnownLinks {
    /// The files to which links may lead: those that compete with `links_to`, and for broken links
    /// those of all targets.
    pub files: LinkedFiles,
    /// The files to which other files have links.
    pub linked: HashSet<SpacePath>,
}

impl KnownLinks {
    /// Adds the files to which the links of a file lead, but for the file itself.
    pub fn add(&mut self, file: &SpacePath, facts: &NoteFacts) {
        let leads = facts.links.iter().filter_map(|link| self.files.resolve(&link.target, file));
        let others: Vec<SpacePath> = leads.filter(|path| *path != file).cloned().collect();
        self.linked.extend(others);
    }
}

impl NoteQuery {
    /// Whether a question needs to know where the links of all notes lead.
    pub fn asks_for_all_links(&self) -> bool {
        self.is_broken || self.is_orphan
    }

    /// Whether a note fits.
    pub fn fits(&self, note: &SpacePath, facts: &NoteFacts, links: &KnownLinks) -> bool {
        let KnownLinks { files, linked } = links;
        let leads_nowhere = |link: &NoteLink| files.resolve(&link.target, note).is_none();
        self.tag.as_ref().is_none_or(|tag| tag.is_among(&facts.tags))
            && self.properties.iter().all(|wanted| wanted.is_among(&facts.properties))
            && (!self.is_untagged || facts.tags.is_empty())
            && (!self.is_orphan || !linked.contains(note))
            && (!self.is_broken || facts.links.iter().any(leads_nowhere))
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
    use super::super::note_property::PropertyCondition;
    use super::*;

    fn fits(name: &str, value: Option<&str>, front: &str) -> bool {
        let condition = value
            .map_or(PropertyCondition::Exists, |value| PropertyCondition::Is(value.to_owned()));
        fits_when(name, condition, front)
    }

    fn fits_when(name: &str, condition: PropertyCondition, front: &str) -> bool {
        let facts = NoteFacts::of(&format!("---\n{front}\n---\n")).unwrap();
        let properties = vec![WantedProperty { name: name.to_owned(), condition }];
        let query = NoteQuery { properties, ..NoteQuery::default() };
        query.fits(&SpacePath::parse("/a.md").unwrap(), &facts, &KnownLinks::default())
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
    fn a_property_is_missing_is_not_or_comes_before_or_after() {
        use PropertyCondition::{After, Before, IsNot, Missing};
        let text = str::to_owned;
        assert!(fits_when("a", Missing, "b: 1") && !fits_when("a", Missing, "a:"));
        assert!(
            fits_when("a", IsNot(text("x")), "a: y") && fits_when("a", IsNot(text("x")), "b: x")
        );
        assert!(!fits_when("a", IsNot(text("x")), "a: [y, x]"));
        assert!(
            fits_when("a", Before(text("10")), "a: 9")
                && !fits_when("a", After(text("10")), "a: 9")
        );
        let date = || text("2026-03-01");
        assert!(fits_when("a", Before(date()), "a: 2026-02-28T23:00:00Z"));
        assert!(fits_when("a", After(date()), "a: 2026-03-02"));
        for same in ["a: 2026-03-01", "a: 2026-03-01T10:00:00Z", "b: 2025-01-01", "a:"] {
            assert!(!fits_when("a", Before(date()), same) && !fits_when("a", After(date()), same));
        }
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
