//! Links of notes, and to which files they lead, as Obsidian resolves them.

use std::collections::HashMap;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;

use crate::path::SpacePath;
use crate::percent;

/// How a link is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// `[[note]]`.
    Wikilink,
    /// `[text](note.md)`.
    Markdown,
    /// `![[note]]` or `![text](image.png)`.
    Embed,
}

impl LinkKind {
    /// Returns the word that answers use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Wikilink => "wikilink",
            Self::Markdown => "markdown",
            Self::Embed => "embed",
        }
    }
}

/// A link of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLink {
    /// What the link names.
    pub target: LinkTarget,
    /// How it is written.
    pub kind: LinkKind,
    /// The line of the file, from 1.
    pub line: u32,
}

/// How the path of a link is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkSyntax {
    /// As it is, between `[[` and `]]`.
    Wikilink,
    /// Percent-encoded where it has to be, as the destination of a Markdown link.
    Markdown,
    /// The whole path from the root of the space, without `/` before it, as a canvas has it.
    RootPath,
}

/// A link with its place in the readable body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedLink {
    pub(super) target: LinkTarget,
    pub(super) kind: LinkKind,
    pub(super) syntax: LinkSyntax,
    pub(super) range: Range<usize>,
    /// Where its path is, without the heading and the alias: within `range`, or in the definition
    /// of a reference. `None` if that cannot be told.
    pub(super) path: Option<Range<usize>>,
}

/// What a link names: a path or a part of one, without the heading, the block and the alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget(Box<str>);

impl LinkTarget {
    /// Returns the target as the note spells it, percent-decoded.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads what stands between `[[` and `]]`; `None` for a link within the note.
    pub(super) fn of_wikilink(inside: &str) -> Option<Self> {
        let path = inside.split('|').next().unwrap_or_default();
        // In a table the `|` has a backslash before it.
        Self::new(path.strip_suffix('\\').unwrap_or(path))
    }

    /// Reads the destination of a Markdown link; `None` for an address elsewhere and for a link
    /// within the note.
    pub(super) fn of_markdown(destination: &str) -> Option<Self> {
        let is_scheme = |scheme: &str| {
            scheme.len() > 1
                && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        };
        let is_elsewhere = destination.starts_with("//")
            || destination.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
        if is_elsewhere {
            return None;
        }
        // A `#` in a file's name is encoded.
        let path = destination.split('#').next().unwrap_or_default();
        Self::new(&percent::decode(path).unwrap_or_else(|| path.to_owned()))
    }

    /// Reads the path of a file from the root of the space, without `/` before it.
    pub(super) fn of_root_path(path: &str) -> Option<Self> {
        let is_path = !path.is_empty() && path.len() < SpacePath::MAX_BYTES;
        is_path.then(|| Self(format!("/{path}").into()))
    }

    fn new(path: &str) -> Option<Self> {
        let path = path.split('#').next().unwrap_or_default().trim();
        (!path.is_empty() && path.len() <= SpacePath::MAX_BYTES).then(|| Self(path.into()))
    }

    /// Returns the forms of the target that name a file, the better one first: as it is written,
    /// and with `.md`, which may be left out.
    pub(super) fn forms(&self) -> impl Iterator<Item = String> {
        let written = self.0.replace('\\', "/");
        let with_md = format!("{written}.md");
        let has_dot = file_name(&written).trim_start_matches('.').contains('.');
        let forms = if has_dot { [written, with_md] } else { [with_md, written] };
        forms.into_iter().filter(|form| !form.ends_with('/'))
    }
}

/// Returns what follows the last `/` of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the wikilinks of a text, with their places. `excluded` are the places that have none.
pub(super) fn wikilinks(body: &str, excluded: &[Range<usize>]) -> Vec<PlacedLink> {
    let mut found = Vec::new();
    let mut excluded = excluded.iter().peekable();
    let mut from = 0;
    for at in memchr::memchr_iter(b'[', body.as_bytes()) {
        if body.as_bytes().get(at + 1) != Some(&b'[') {
            continue;
        }
        while excluded.next_if(|range| range.end <= at).is_some() {}
        if at < from || excluded.peek().is_some_and(|range| range.contains(&at)) {
            continue;
        }
        let before = body.get(..at).unwrap_or_default();
        let is_embed = before.ends_with('!');
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        let inside = body.get(at + 2..).unwrap_or_default();
        let inside = inside.get(..inside.find(['[', ']', '\n']).unwrap_or(inside.len()));
        let Some(inside) = inside else { continue };
        let end = at + 2 + inside.len() + 2;
        if backslashes % 2 == 1 || !body.get(at..end).is_some_and(|link| link.ends_with("]]")) {
            continue;
        }
        let kind = if is_embed { LinkKind::Embed } else { LinkKind::Wikilink };
        found.extend(LinkTarget::of_wikilink(inside).map(|target| {
            // The target is a part of what stands inside, trimmed.
            let start = at + 2 + (inside.len() - inside.trim_start().len());
            let path = Some(start..start + target.as_str().len());
            PlacedLink { target, kind, syntax: LinkSyntax::Wikilink, range: at..end, path }
        }));
        from = end;
    }
    found
}

/// Up to this many wanted names are compared one by one, which allocates nothing.
const MOST_COMPARED: usize = 16;

/// The files to which links may lead, by their names. It keeps only those that some wanted link
/// may name.
#[derive(Clone, Debug, Default)]
pub struct LinkedFiles {
    by_name: HashMap<String, Vec<SpacePath>>,
}

impl LinkedFiles {
    /// Wants the files to which these links may lead.
    pub fn for_targets<'l>(targets: impl IntoIterator<Item = &'l LinkTarget>) -> Self {
        let names = targets.into_iter().flat_map(LinkTarget::forms);
        Self { by_name: names.map(|form| (key(file_name(&form)), Vec::new())).collect() }
    }

    /// Wants the files that compete with `path` for links.
    pub fn for_path(path: &SpacePath) -> Self {
        Self::default().and_for_path(path)
    }

    /// Wants the files that compete with `path` for links as well.
    #[must_use]
    pub fn and_for_path(mut self, path: &SpacePath) -> Self {
        let name = key(file_name(path.as_str()));
        let shorter = name.strip_suffix(".md").map(str::to_owned);
        let longer = format!("{name}.md");
        let names = shorter.into_iter().chain([name, longer]);
        for name in names {
            self.by_name.entry(name).or_default();
        }
        self
    }

    /// Whether files of this name are wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.by_name.contains_key(&key(name))
    }

    /// Whether a link of this target may lead to a file of a wanted name.
    pub fn may_lead(&self, target: &LinkTarget) -> bool {
        let name = file_name(target.as_str());
        if !target.as_str().is_ascii() || name.contains('\\') {
            return true;
        }
        if self.by_name.len() > MOST_COMPARED {
            let name = name.to_ascii_lowercase();
            return self.by_name.contains_key(&format!("{name}.md"))
                || self.by_name.contains_key(&name);
        }
        self.by_name.keys().any(|wanted| {
            let stem = wanted.strip_suffix(".md").unwrap_or(wanted);
            wanted.eq_ignore_ascii_case(name) || stem.eq_ignore_ascii_case(name)
        })
    }

    /// Adds a file of a wanted name.
    pub fn add(&mut self, path: SpacePath) {
        if let Some(files) = self.by_name.get_mut(&key(file_name(path.as_str()))) {
            files.push(path);
        }
    }

    /// Returns these files with `added`, if its name is wanted, and without `removed`.
    #[must_use]
    pub fn changed(&self, added: &SpacePath, removed: &SpacePath) -> Self {
        let mut files = self.clone();
        for paths in files.by_name.values_mut() {
            paths.retain(|path| path != removed && path != added);
        }
        files.add(added.clone());
        files
    }

    /// Returns these files after what is in the folder `from` has moved to the folder `to`.
    #[must_use]
    pub fn relocated(&self, from: &SpacePath, to: &SpacePath) -> Self {
        let moved = |path: &SpacePath| path.relocated(from, to).unwrap_or_else(|| path.clone());
        let files = self.by_name.iter();
        let by_name =
            files.map(|(name, paths)| (name.clone(), paths.iter().map(moved).collect())).collect();
        Self { by_name }
    }

    /// Returns the file to which a link in the note `from` leads.
    ///
    /// For each form of the target: the file of exactly this path; else the only file whose path
    /// ends with the target; else of several the one below the folder of `from`, and else the one
    /// with the shortest path. Case does not matter unless files differ in nothing else. A target
    /// that begins with `./` or `../` is relative to the folder of `from`, and one that begins with
    /// `/` is a whole path.
    pub fn resolve(&self, target: &LinkTarget, from: &SpacePath) -> Option<&SpacePath> {
        let folder = from.split().map_or_else(SpacePath::root, |(folder, _)| folder);
        target.forms().find_map(|form| self.resolve_form(&form, &folder))
    }

    fn resolve_form(&self, form: &str, folder: &SpacePath) -> Option<&SpacePath> {
        let files = self.by_name.get(&key(file_name(form)))?;
        if files.is_empty() {
            return None;
        }
        let below = |form: &str| SpacePath::parse(&format!("{}/{form}", folder.as_str())).ok();
        let at = |path: Option<SpacePath>| {
            let path = path?;
            let same = files.iter().find(|file| **file == path);
            same.or_else(|| files.iter().find(|file| key(file.as_str()) == key(path.as_str())))
        };
        if form.starts_with("./") || form.starts_with("../") {
            return at(below(form));
        }
        let whole = SpacePath::parse(form).ok();
        if form.starts_with('/') {
            return at(whole);
        }
        if let Some(exact) = at(whole.clone()) {
            return Some(exact);
        }
        let ending = key(whole?.as_str());
        let ends: Vec<&SpacePath> =
            files.iter().filter(|file| key(file.as_str()).ends_with(&ending)).collect();
        match ends.as_slice() {
            [] => at(below(form)),
            [only] => Some(only),
            several => at(below(form)).or_else(|| {
                several.iter().copied().min_by_key(|file| {
                    (file.components().count(), file.as_str().len(), file.as_str())
                })
            }),
        }
    }
}

/// Returns a name as it is compared: without its case, and with composed accents.
pub(super) fn key(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    name.to_lowercase().nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::super::note_facts::NoteFacts;
    use super::*;

    fn links(text: &str) -> Vec<String> {
        let facts = NoteFacts::of(text).unwrap();
        let shown = facts.links.iter();
        shown.map(|l| format!("{} {} {}", l.line, l.kind.word(), l.target.as_str())).collect()
    }

    #[test]
    fn a_wikilink_names_a_note_without_its_heading_block_and_alias() {
        for (text, expected) in [
            ("[[a]] and [[b c|d]]", &["1 wikilink a", "1 wikilink b c"][..]),
            ("x\n[[a#One#Two|x]]\n[[a#^b]]", &["2 wikilink a", "3 wikilink a"]),
            (
                "[[f/a]] [[f/a.md]] [[ a ]]",
                &["1 wikilink f/a", "1 wikilink f/a.md", "1 wikilink a"],
            ),
            ("[[a\\|b]]", &["1 wikilink a"]),
            ("[[__a__]]", &["1 wikilink __a__"]),
            ("[[a]]\n\n[a]: b.md", &["1 wikilink a"]),
            ("[[#One]] [[]] [[a\nb]] [[a] [[[a]]", &["2 wikilink a"]),
            ("\\[[a]] \\\\[[b]]", &["1 wikilink b"]),
            ("x[^1]\n\n[^1]: [[a]]\n[^n]: [t](b.md)\n", &["3 wikilink a", "4 markdown b.md"]),
        ] {
            assert_eq!(links(text), expected, "{text}");
        }
    }

    #[test]
    fn an_embed_has_an_exclamation_mark() {
        assert_eq!(links("![[a.png|100]] ![t](b%20c.png)"), ["1 embed a.png", "1 embed b c.png"]);
    }

    #[test]
    fn a_markdown_link_is_decoded_and_leads_into_the_space() {
        for (text, expected) in [
            ("[t](a.md)", &["1 markdown a.md"][..]),
            ("[t](a%20b.md#One)", &["1 markdown a b.md"]),
            ("[t](<a b.md> \"title\")", &["1 markdown a b.md"]),
            ("[t](%23a.md)", &[]),
            ("[t][r]\n\n[r]: ../a.md", &["1 markdown ../a.md"]),
            ("[t](https://a.example/b.md) <mailto:a@b.c> [t](//a/b) [t](#one)", &[]),
            ("[t](a%zz.md)", &["1 markdown a%zz.md"]),
        ] {
            assert_eq!(links(text), expected, "{text}");
        }
    }

    #[test]
    fn no_link_is_in_code_or_html() {
        for text in ["`[[a]]`", "    [[a]]", "```\n[[a]] [t](a)\n```", "<!-- [[a]] -->"] {
            assert_eq!(links(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn lines_count_from_the_beginning_of_the_file() {
        assert_eq!(links("---\na: 1\n---\n[[a]]\r\n\r\n[[b]]"), ["4 wikilink a", "6 wikilink b"]);
        assert_eq!(links("\u{feff}---\n---\n[[a]]"), ["3 wikilink a"]);
    }

    fn resolved(files: &[&str], from: &str, target: &str) -> Option<String> {
        let path = |text: &str| SpacePath::parse(text).unwrap();
        let target = LinkTarget::of_wikilink(target).unwrap();
        let mut known = LinkedFiles::for_targets([&target]);
        for file in files {
            known.add(path(file));
        }
        let found = known.resolve(&target, &path(from)).map(ToString::to_string);
        // Who asks for the links to a file resolves each link alike.
        for file in files {
            let mut known = LinkedFiles::for_path(&path(file));
            for other in files {
                known.add(path(other));
            }
            let is_here = known.resolve(&target, &path(from)) == Some(&path(file));
            assert_eq!(is_here, found.as_deref() == Some(file), "{target:?} {file}");
            assert!(!is_here || known.may_lead(&target));
        }
        found
    }

    #[test]
    fn the_exact_path_comes_first() {
        let files = ["/a.md", "/f/a.md", "/f/g/a.md"];
        assert_eq!(resolved(&files, "/f/x.md", "a").as_deref(), Some("/a.md"));
        assert_eq!(resolved(&files, "/x.md", "f/a.md").as_deref(), Some("/f/a.md"));
        assert_eq!(resolved(&files, "/x.md", "/f/a").as_deref(), Some("/f/a.md"));
    }

    #[test]
    fn the_only_file_of_a_name_is_found_in_any_folder_and_any_case() {
        assert_eq!(resolved(&["/f/g/Note.md"], "/x.md", "note").as_deref(), Some("/f/g/Note.md"));
        assert_eq!(resolved(&["/f/g/a.md"], "/x.md", "g/a").as_deref(), Some("/f/g/a.md"));
        assert_eq!(resolved(&["/f/ga/a.md", "/a/b.md"], "/x.md", "a/a"), None);
        assert_eq!(resolved(&["/a.md", "/A.md"], "/x.md", "A").as_deref(), Some("/A.md"));
    }

    #[test]
    fn a_name_is_found_with_composed_and_decomposed_accents() {
        let (composed, decomposed) = ("/f/caf\u{e9}.md", "/f/cafe\u{301}.md");
        for file in [composed, decomposed] {
            for target in ["caf\u{e9}", "Cafe\u{301}", "f/CAF\u{c9}.md"] {
                assert_eq!(resolved(&[file], "/x.md", target).as_deref(), Some(file), "{target}");
            }
        }
        let both = [composed, decomposed];
        assert_eq!(resolved(&both, "/x.md", "f/cafe\u{301}").as_deref(), Some(decomposed));
    }

    #[test]
    fn of_several_files_the_one_beside_the_note_comes_first_and_then_the_shortest() {
        let files = ["/f/g/a.md", "/h/a.md", "/i/a.md"];
        assert_eq!(resolved(&files, "/f/g/x.md", "a").as_deref(), Some("/f/g/a.md"));
        assert_eq!(resolved(&files, "/x.md", "a").as_deref(), Some("/h/a.md"));
    }

    #[test]
    fn a_target_that_begins_with_dots_is_relative() {
        let files = ["/a.md", "/f/a.md", "/f/g/a.md"];
        assert_eq!(resolved(&files, "/f/x.md", "./a").as_deref(), Some("/f/a.md"));
        assert_eq!(resolved(&files, "/f/x.md", "../a.md").as_deref(), Some("/a.md"));
        assert_eq!(resolved(&files, "/x.md", "../a"), None);
        assert_eq!(resolved(&files, "/f/x.md", "g/../a").as_deref(), Some("/a.md"));
    }

    #[test]
    fn the_ending_md_may_be_left_out_and_other_endings_may_not() {
        assert_eq!(resolved(&["/a", "/a.md"], "/x.md", "a").as_deref(), Some("/a.md"));
        assert_eq!(resolved(&["/a.png", "/a.png.md"], "/x", "a.png").as_deref(), Some("/a.png"));
        assert_eq!(resolved(&["/v1.2.md"], "/x.md", "v1.2").as_deref(), Some("/v1.2.md"));
        assert_eq!(resolved(&["/a.png"], "/x.md", "a"), None);
    }
}
