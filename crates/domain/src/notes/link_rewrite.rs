//! Rewrites the links of notes after a file or a folder has moved, and nothing else of them.
//!
//! Law: a link that led to a moved file leads to it at its new place, and every other link leads
//! where it led. Two kinds of links need that: those to a moved file, and those whose name such a
//! file takes at its new place. In a moved note itself, links that are relative to its folder need
//! it too. A link that led nowhere is left alone.
//!
//! A rewritten note is parsed again. If anything in it means something else than was planned, the
//! note is left as it was.

use super::canvas::{facts_of_file, links_of_file};
use super::file_links::whole_wikilink;
use super::link_spelling::{WrittenLink, leads_from};
use super::links::{LinkKind, LinkSyntax, LinkTarget, LinkedFiles, NoteLink};
use super::note_facts::NoteFacts;
use super::note_property::NoteProperty;
use crate::path::SpacePath;

/// Whether links may have been rewritten for this move before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewritePass {
    /// No link was rewritten yet.
    First,
    /// An earlier call may have rewritten some links, and people may have written new ones. A link
    /// that leads to another file than it should may have been meant so, and is left.
    Again,
}

/// A file or a folder that moves, and the files to which links may lead.
#[derive(Clone, Debug)]
pub struct MovedFile {
    from: SpacePath,
    to: SpacePath,
    before: LinkedFiles,
    after: LinkedFiles,
    pass: RewritePass,
}

/// What becomes of the links of a note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewrittenLinks {
    /// The text with the new links; `None` if no link is rewritten.
    pub text: Option<String>,
    /// The links that are rewritten, in document order.
    pub changes: Vec<LinkChange>,
    /// How many links should lead elsewhere and cannot be spelled so.
    pub unspellable: u32,
    /// How many links lead to another file than they did, and may be meant so.
    pub ambiguous: u32,
}

impl RewrittenLinks {
    /// Whether some link is to be rewritten, or is left that should lead elsewhere.
    pub fn is_any(&self) -> bool {
        !self.changes.is_empty() || self.unspellable > 0 || self.ambiguous > 0
    }
}

/// A link that is rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The line of the file, from 1.
    pub line: u32,
    /// The path as the note spells it.
    pub old: String,
    /// The path as the note spells it afterwards.
    pub new: String,
}

/// Where a link should lead.
enum Goal {
    /// The link stays as it is.
    Same,
    /// The link leads from one file to another one, and should lead to the second.
    Other(SpacePath, SpacePath),
    /// It cannot be told whether the link is meant as it is.
    Ambiguous,
}

impl MovedFile {
    /// `files` are those that compete with the links of the notes that will be rewritten: for
    /// notes in general, those that [`LinkedFiles`] wants for `from` and for `to`.
    pub fn new(from: SpacePath, to: SpacePath, files: &LinkedFiles, pass: RewritePass) -> Self {
        let (before, after) = (files.changed(&from, &to), files.changed(&to, &from));
        Self { from, to, before, after, pass }
    }

    /// Creates the same for a folder that moves with all that it holds. `files` are those that
    /// compete with the links of the notes that will be rewritten: those that [`LinkedFiles`] wants
    /// for each file of the folder, and for the links of its notes.
    pub fn of_folder(
        from: SpacePath,
        to: SpacePath,
        files: &LinkedFiles,
        pass: RewritePass,
    ) -> Self {
        let (before, after) = (files.relocated(&to, &from), files.relocated(&from, &to));
        Self { from, to, before, after, pass }
    }

    /// Whether `path` is the old or the new place of a file that moves.
    pub fn is_at(&self, path: &SpacePath) -> bool {
        self.from.covers(path) || self.to.covers(path)
    }

    /// Returns where a note was before the move that is at `now` after it.
    fn place_before(&self, now: &SpacePath) -> SpacePath {
        now.relocated(&self.to, &self.from).unwrap_or_else(|| now.clone())
    }

    /// Whether some link of a note may have to be rewritten, which is at `path` after the move.
    pub fn concerns(&self, path: &SpacePath, facts: &NoteFacts) -> bool {
        let at = self.place_before(path);
        facts.links.iter().any(|NoteLink { target, kind, .. }| {
            let syntax = match kind {
                LinkKind::Wikilink => LinkSyntax::Wikilink,
                LinkKind::Markdown | LinkKind::Embed => LinkSyntax::Markdown,
            };
            self.after.may_lead(target)
                && !matches!(self.goal(target, syntax, &at, path), Goal::Same)
        })
    }

    /// Rewrites the links of a note that is at `path` after the move, and may itself have moved.
    pub fn rewrite(&self, path: &SpacePath, text: &str) -> RewrittenLinks {
        self.rewrite_moved(text, &self.place_before(path), path)
    }

    /// Rewrites the links of a note that was at `at` and is at `now`.
    fn rewrite_moved(&self, text: &str, at: &SpacePath, now: &SpacePath) -> RewrittenLinks {
        let facts = facts_of_file(at.as_str(), text);
        let links = links_of_file(at.as_str(), text);
        let (Some(facts), Some(links)) = (facts, links) else { return RewrittenLinks::default() };
        let mut result = RewrittenLinks::default();
        let mut expected: Vec<LinkTarget> = Vec::new();
        let mut edits: Vec<(std::ops::Range<usize>, String)> = Vec::new();
        for link in &links {
            expected.push(link.target.clone());
            let goal = self.goal(&link.target, link.syntax, at, now);
            let (was, goal) = match goal {
                Goal::Same => continue,
                Goal::Ambiguous => {
                    result.ambiguous += 1;
                    continue;
                }
                Goal::Other(was, goal) => (was, goal),
            };
            let spelled = link.path.clone().and_then(|place| {
                let old = text.get(place.clone())?;
                let is_bracketed = text.get(..place.start)?.ends_with('<');
                let written = WrittenLink {
                    target: &link.target,
                    syntax: link.syntax,
                    note: at,
                    leads_to: &was,
                };
                let (target, new) = written.spell(&goal, now, &self.after, old, is_bracketed)?;
                Some((place, old, target, link.quoting.write(new)))
            });
            let Some((place, old, target, new)) = spelled else {
                result.unspellable += 1;
                continue;
            };
            if let Some(last) = expected.last_mut() {
                *last = target;
            }
            let change = LinkChange { line: link.line, old: old.to_owned(), new: new.clone() };
            result.changes.push(change);
            edits.push((place, new));
        }
        if edits.is_empty() {
            return result;
        }
        let new = with_edits(text, edits);
        if means_as_planned(&facts, (now, &new), &expected) {
            result.text = Some(new);
        } else {
            result.unspellable += u32::try_from(result.changes.len()).unwrap_or(u32::MAX);
            result.changes.clear();
        }
        result
    }

    /// Decides where a link should lead, of a note that was at `at` and is at `now`.
    fn goal(
        &self,
        target: &LinkTarget,
        syntax: LinkSyntax,
        at: &SpacePath,
        now: &SpacePath,
    ) -> Goal {
        let Some(was) = self.before.resolve(target, at) else { return Goal::Same };
        let moved = was.relocated(&self.from, &self.to);
        let goal = moved.as_ref().unwrap_or(was);
        let is_now = self.after.resolve(target, now);
        let written = WrittenLink { target, syntax, note: at, leads_to: was };
        let is_right = is_now == Some(goal);
        if is_right && (!written.is_relative() || leads_from(target, now, goal)) {
            Goal::Same
        } else if self.pass == RewritePass::Again && !is_right && is_now.is_some() {
            Goal::Ambiguous
        } else {
            Goal::Other(was.clone(), goal.clone())
        }
    }
}

/// Returns a text with other paths at these places.
fn with_edits(text: &str, mut edits: Vec<(std::ops::Range<usize>, String)>) -> String {
    edits.sort_unstable_by_key(|(place, _)| place.start);
    // Several links may use one definition.
    edits.dedup_by(|one, other| one.0 == other.0);
    let mut new = String::with_capacity(text.len() + 64 * edits.len());
    let mut from = 0;
    for (place, path) in edits {
        new.push_str(text.get(from..place.start).unwrap_or_default());
        new.push_str(&path);
        from = place.end;
    }
    new.push_str(text.get(from..).unwrap_or_default());
    new
}

/// Whether a file has the tags, properties and links of another one, but for the targets.
fn means_as_planned(
    old: &NoteFacts,
    (path, new): (&SpacePath, &str),
    expected: &[LinkTarget],
) -> bool {
    facts_of_file(path.as_str(), new).is_some_and(|new| {
        let links = old.links.iter().zip(expected);
        let expected = links.map(|(link, target)| NoteLink { target: target.clone(), ..*link });
        let untargeted = |facts: &NoteFacts| -> Vec<NoteProperty> {
            facts.properties.iter().map(without_targets).collect()
        };
        new.tags == old.tags
            && untargeted(&new) == untargeted(old)
            && new.links.iter().cloned().eq(expected)
    })
}

/// Returns a property with the paths left out of values that are links.
fn without_targets(property: &NoteProperty) -> NoteProperty {
    let value = |value: &str| {
        let link = whole_wikilink(value).and_then(|link| link.path);
        let rest =
            link.and_then(|path| value.trim().get(path.end..)).map(|rest| format!("[[{rest}"));
        rest.unwrap_or_else(|| value.to_owned()).into_boxed_str()
    };
    let values = property.values.iter().map(|one| value(one)).collect();
    NoteProperty { name: property.name.clone(), values }
}

#[cfg(test)]
mod tests;
