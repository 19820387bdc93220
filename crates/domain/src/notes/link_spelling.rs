//! Spells the path of a link so that it leads to a file, in the style that the link was written in.
//!
//! The styles are those that Obsidian offers: the shortest path that is enough, the path from the
//! root of the vault, and the path from the folder of the note. Each spelling is tried until one
//! leads to the file, so a name that two files have becomes as much longer as it must.

use super::links::{LinkSyntax, LinkTarget, LinkedFiles, file_name, key};
use crate::path::SpacePath;

/// How a link leads to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkStyle {
    /// From the folder of the note, with `./` or `../` before it.
    Dotted,
    /// From the folder of the note, as Markdown reads it.
    Relative,
    /// From the root, with `/` before it.
    Rooted,
    /// From the root.
    Whole,
    /// The end of a path, of at least this many components.
    Ending(usize),
}

/// A link as a note has it, and the file to which it leads there.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenLink<'a> {
    pub(super) target: &'a LinkTarget,
    pub(super) syntax: LinkSyntax,
    /// The note that has the link.
    pub(super) note: &'a SpacePath,
    /// The file to which it leads.
    pub(super) leads_to: &'a SpacePath,
}

impl WrittenLink<'_> {
    /// Whether the link is a path from the folder of its note, as any reader of Markdown follows
    /// it.
    pub(super) fn is_relative(&self) -> bool {
        self.syntax == LinkSyntax::Markdown
            && !self.target.as_str().starts_with('/')
            && leads_from(self.target, self.note, self.leads_to)
    }

    fn style(&self) -> LinkStyle {
        let written = self.target.as_str();
        let is_whole = || {
            let whole = |form: String| SpacePath::parse(&form).ok();
            let key_of = |path: SpacePath| key(path.as_str()) == key(self.leads_to.as_str());
            self.target.forms().filter_map(whole).any(key_of)
        };
        if written.starts_with("./") || written.starts_with("../") {
            LinkStyle::Dotted
        } else if written.starts_with('/') {
            LinkStyle::Rooted
        } else if self.is_relative() {
            LinkStyle::Relative
        } else if written.contains('/') && is_whole() {
            LinkStyle::Whole
        } else {
            LinkStyle::Ending(written.split('/').count())
        }
    }

    /// Returns the path and the spelling that lead from the note `now` to `goal` among `files`;
    /// `None` if the syntax has none. `old` is the path as the note spells it.
    pub(super) fn spell(
        &self,
        goal: &SpacePath,
        now: &SpacePath,
        files: &LinkedFiles,
        old: &str,
        is_bracketed: bool,
    ) -> Option<(LinkTarget, String)> {
        self.candidates(goal, now).into_iter().find_map(|path| {
            let (spelled, target) = match self.syntax {
                LinkSyntax::Wikilink if path.contains(['[', ']', '|']) => return None,
                LinkSyntax::Wikilink => (path.clone(), LinkTarget::of_wikilink(&path)?),
                LinkSyntax::RootPath => {
                    let spelled = path.strip_prefix('/')?.to_owned();
                    let target = LinkTarget::of_root_path(&spelled)?;
                    (spelled, target)
                }
                LinkSyntax::Markdown => {
                    let spelled = encoded(&path, old, is_bracketed);
                    let target = LinkTarget::of_markdown(&spelled)?;
                    (spelled, target)
                }
            };
            let leads = target.as_str() == path && files.resolve(&target, now) == Some(goal);
            leads.then_some((target, spelled))
        })
    }

    /// Returns the paths that may lead to `goal`, the best first.
    fn candidates(&self, goal: &SpacePath, now: &SpacePath) -> Vec<String> {
        let Some((folder, name)) = goal.split() else { return Vec::new() };
        let is_full =
            key(file_name(self.target.as_str())) == key(file_name(self.leads_to.as_str()));
        let ending = name.len().checked_sub(3).and_then(|at| name.split_at_checked(at));
        let stem = ending.filter(|(_, ending)| !is_full && ending.eq_ignore_ascii_case(".md"));
        let folders: Vec<&str> = folder.components().collect();
        let mut candidates = Vec::new();
        for name in stem.map(|(stem, _)| stem).into_iter().chain([name]) {
            let path: Vec<&str> = folders.iter().copied().chain([name]).collect();
            let ending = |length: usize| path.get(path.len() - length..).unwrap_or(&path).join("/");
            match self.style() {
                LinkStyle::Dotted => candidates.push(dotted(&relative(now, &folders, name))),
                LinkStyle::Relative => {
                    let relative = relative(now, &folders, name);
                    let dotted = dotted(&relative);
                    candidates.extend([relative, dotted]);
                }
                LinkStyle::Rooted | LinkStyle::Whole => {}
                LinkStyle::Ending(least) => {
                    let least = least.min(path.len());
                    candidates.extend((least..path.len()).map(ending));
                }
            }
            let whole = path.join("/");
            let rooted = format!("/{whole}");
            match self.style() {
                LinkStyle::Rooted => candidates.push(rooted),
                _ => candidates.extend([whole, rooted]),
            }
        }
        candidates
    }
}

/// Whether a link is a path from the folder of `note` that leads to `file`, whatever else is there.
pub(super) fn leads_from(target: &LinkTarget, note: &SpacePath, file: &SpacePath) -> bool {
    let folder = note.split().map_or_else(SpacePath::root, |(folder, _)| folder);
    target.forms().any(|form| {
        let path = SpacePath::parse(&format!("{}/{form}", folder.as_str()));
        path.is_ok_and(|path| key(path.as_str()) == key(file.as_str()))
    })
}

/// Returns the path from the folder of `note` to `name` in a folder.
fn relative(note: &SpacePath, folders: &[&str], name: &str) -> String {
    let from = note.split().map_or_else(SpacePath::root, |(folder, _)| folder);
    let from: Vec<&str> = from.components().collect();
    let shared = from.iter().zip(folders).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..", from.len() - shared);
    let down = folders.iter().skip(shared).copied();
    up.chain(down).chain([name]).collect::<Vec<_>>().join("/")
}

fn dotted(relative: &str) -> String {
    if relative.starts_with("../") { relative.to_owned() } else { format!("./{relative}") }
}

/// Encodes a path as the destination of a Markdown link, as little as it must be, and characters
/// outside of ASCII only if `old` has them encoded.
fn encoded(path: &str, old: &str, is_bracketed: bool) -> String {
    let encodes_all = old.split('%').skip(1).any(|escape| {
        escape.starts_with(|digit: char| digit.to_digit(16).is_some_and(|digit| digit >= 8))
    });
    let is_kept = |byte: u8| match byte {
        b'%' | b'#' | b'<' | b'>' | b'\\' | b'`' | b'&' | b'|' | b'[' | b']' => false,
        b' ' | b'(' | b')' => is_bracketed,
        _ => true,
    };
    let mut encoded = String::with_capacity(path.len());
    for part in path.split_inclusive(|c: char| !c.is_ascii()) {
        let last = part.chars().next_back().filter(|c| !c.is_ascii() && !encodes_all);
        let (plain, kept) = part.split_at(part.len() - last.map_or(0, char::len_utf8));
        encoded.push_str(&crate::percent::encode_except(plain, is_kept));
        encoded.push_str(kept);
    }
    encoded
}
