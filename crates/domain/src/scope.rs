//! Path scopes: the paths that the bearer of a token may read and write.
//!
//! This module holds the one rule for matching: whole components of canonical paths,
//! case-sensitive. A claim with one malformed item grants nothing at all. Removing a scope never
//! permits more, unless it is one that takes away.
//!
//! A scope that takes away does so in any case, in any form of Unicode, and whatever is added that
//! file systems ignore: on a file system that does not tell `Secrets` from `secrets`, the other
//! spelling leads to the same file.

use std::fmt;

use crate::guard::Guarded;
use crate::path::SpacePath;
use crate::percent;
use crate::same_name::is_same_name;

/// The kind of access that a scope allows or takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reading files and listing directories.
    Read,
    /// Creating, changing and removing files, and everything that [`Verb::Read`] allows.
    Write,
    /// Appending to files without reading them, and nothing else. [`Verb::Write`] does not include
    /// this, so that no token of before the verb existed allows more than it did.
    Append,
    /// Takes away what other scopes allow, for every verb. Wins over all of them.
    Deny,
    /// Lifts the guard of [`crate::guard`] and allows nothing by itself: what other scopes allow on
    /// the path is then allowed on guarded names too.
    Unguard,
}

impl Verb {
    /// Returns the word before the colon of a scope.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::Deny => "deny",
            Self::Unguard => "unguard",
        }
    }

    /// Whether a scope with this verb allows something by itself.
    pub fn is_right(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Append)
    }

    /// Whether a scope with this verb allows `needed`.
    pub fn includes(self, needed: Self) -> bool {
        match self {
            Self::Read => needed == Self::Read,
            Self::Write => matches!(needed, Self::Read | Self::Write),
            Self::Append => needed == Self::Append,
            Self::Deny | Self::Unguard => false,
        }
    }
}

/// The paths below its own that a scope covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reach {
    /// `/work`: the path itself and everything below.
    Subtree,
    /// `/work/`: the same paths, written as a directory.
    Directory,
    /// `/work/*`: the directory and its direct children.
    Children,
}

/// One path scope such as `read:/work/` or `write:/notes/*`.
///
/// *Shape* in tokens and challenges: verb, colon, canonical space path, percent-encoded outside
/// `A-Za-z0-9/._~-`. A final `/*` is the wildcard. A literal `*` is `%2A`. *Source*: AUTH-034 to
/// AUTH-039.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    path: SpacePath,
    verb: Verb,
    reach: Reach,
}

/// What a scope covers, for sentences about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopePlace<'a> {
    /// The whole space.
    Everything,
    /// A folder and everything below it.
    Folder(&'a SpacePath),
    /// What is directly in a folder.
    DirectlyIn(&'a SpacePath),
    /// A file, or a folder with everything below it.
    Path(&'a SpacePath),
}

/// Why a text is not a scope. The message never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScope {
    /// The text does not begin with the word of a [`Verb`] and a colon.
    #[error(
        "a scope begins with `read:`, `write:`, `append:`, `deny:` or `unguard:`, as in \
         `read:/notes/`"
    )]
    Verb,
    /// A `deny:` scope ends in `/*`. What lies deeper would stay allowed, which nobody expects.
    #[error(
        "`deny:` takes away a path and everything below it: write `deny:/notes/`, without a `*`"
    )]
    DeniedChildren,
    /// The path is not absolute in the space, or not canonical.
    #[error("the path of a scope begins with `/` and has no empty, `.` or `..` component")]
    Path,
    /// A `*` stands where it means nothing.
    #[error(
        "`*` stands at the end only, for what is directly in a folder, as in `read:/notes/*`. \
         Everything below a folder is `read:/notes/`, and the whole space is `read:/`"
    )]
    Wildcard,
    /// A character should have been percent-encoded, or a percent-escape is malformed.
    #[error("the path of a scope is percent-encoded outside `A-Za-z0-9/._~-`")]
    Encoding,
}

impl Scope {
    /// Returns the scope that a challenge names for a call on `path`.
    pub fn needed(verb: Verb, path: &SpacePath) -> Self {
        Self { path: path.clone(), verb, reach: Reach::Subtree }
    }

    /// Returns the scope that a challenge names for a listing: the directory and its direct
    /// children.
    pub fn needed_to_list(path: &SpacePath) -> Self {
        Self { path: path.clone(), verb: Verb::Read, reach: Reach::Children }
    }

    /// Returns the scope of the whole space: `write:/` or `read:/`.
    pub fn everything(verb: Verb) -> Self {
        Self { path: SpacePath::root(), verb, reach: Reach::Directory }
    }

    /// Parses the encoded form, as a token holds it. A program wrote the token, so nothing is
    /// repaired.
    ///
    /// # Errors
    /// Every [`BadScope`].
    pub fn parse(text: &str) -> Result<Self, BadScope> {
        let (verb, rest) = split_verb(text)?;
        if !rest.starts_with('/') {
            return Err(BadScope::Path);
        }
        let (body, reach) = split_reach(rest);
        let mut parts = Vec::new();
        for part in body.split('/').skip(1) {
            let part = percent::decode_component(part).ok_or(BadScope::Encoding)?;
            if part.is_empty() || part == "." || part == ".." || part.contains('/') {
                return Err(BadScope::Path);
            }
            parts.push(part);
        }
        Self::assemble(verb, &format!("/{}", parts.join("/")), reach)
    }

    /// Parses the text that a person types after `--scope`: not percent-encoded, with only a final
    /// `/*` special. The path is made canonical by [`SpacePath::parse`].
    ///
    /// # Errors
    /// [`BadScope::Verb`], [`BadScope::Path`] and [`BadScope::Wildcard`].
    pub fn parse_raw(text: &str) -> Result<Self, BadScope> {
        let (verb, rest) = split_verb(text)?;
        if rest.is_empty() {
            return Err(BadScope::Path);
        }
        let (body, reach) = split_reach(rest);
        if body.split('/').any(|part| !part.is_empty() && part.bytes().all(|byte| byte == b'*')) {
            return Err(BadScope::Wildcard);
        }
        Self::assemble(verb, if body.is_empty() { "/" } else { body }, reach)
    }

    fn assemble(verb: Verb, path: &str, reach: Reach) -> Result<Self, BadScope> {
        if verb == Verb::Deny && reach == Reach::Children {
            return Err(BadScope::DeniedChildren);
        }
        let path = SpacePath::parse(path).map_err(|_| BadScope::Path)?;
        Ok(Self { path, verb, reach })
    }

    /// Returns the scope of the same paths with another verb; `None` for what a verb cannot have.
    pub fn with_verb(&self, verb: Verb) -> Option<Self> {
        let is_possible = verb != Verb::Deny || self.reach != Reach::Children;
        is_possible.then(|| Self { verb, ..self.clone() })
    }

    /// Returns the scope of a folder and what is directly in it; `None` for [`Verb::Deny`].
    pub fn children(verb: Verb, folder: &SpacePath) -> Option<Self> {
        let scope = Self { path: folder.clone(), verb, reach: Reach::Children };
        scope.with_verb(verb)
    }

    /// Returns the scope of a folder and everything below it.
    pub fn directory(verb: Verb, folder: &SpacePath) -> Self {
        Self { path: folder.clone(), verb, reach: Reach::Directory }
    }

    /// Returns what the scope covers: a folder with all that is below, the folder and what is
    /// directly in it, or a path that may be that of a file.
    pub fn place(&self) -> ScopePlace<'_> {
        match self.reach {
            _ if self.path.is_root() && self.reach != Reach::Children => ScopePlace::Everything,
            Reach::Subtree => ScopePlace::Path(&self.path),
            Reach::Directory => ScopePlace::Folder(&self.path),
            Reach::Children => ScopePlace::DirectlyIn(&self.path),
        }
    }

    /// Returns the text that a person types for this scope; the inverse of [`Scope::parse_raw`],
    /// but for a folder that is named `*`, which cannot be typed.
    pub fn to_raw(&self) -> String {
        self.written(str::to_owned)
    }

    /// Writes the scope, each component as `component` says.
    fn written(&self, component: impl Fn(&str) -> String) -> String {
        let mut text = format!("{}:", self.verb.word());
        for part in self.path.components() {
            text.push('/');
            text.push_str(&component(part));
        }
        text.push_str(match self.reach {
            Reach::Subtree if self.path.is_root() => "/",
            Reach::Subtree => "",
            Reach::Directory => "/",
            Reach::Children => "/*",
        });
        text
    }

    /// The path that the scope names.
    pub fn path(&self) -> &SpacePath {
        &self.path
    }

    /// Returns the folder that the scope names; `None` where its path may be one of a file.
    pub fn folder(&self) -> Option<&SpacePath> {
        (self.reach != Reach::Subtree || self.path.is_root()).then_some(&self.path)
    }

    /// Returns the kind of access that the scope allows.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Returns the scope that takes away a path and everything below it.
    pub fn denied(path: &SpacePath) -> Self {
        Self { path: path.clone(), verb: Verb::Deny, reach: Reach::Subtree }
    }

    /// Returns the scope that lifts the guard on a path and everything below it.
    pub fn unguarded(path: &SpacePath) -> Self {
        Self { path: path.clone(), verb: Verb::Unguard, reach: Reach::Subtree }
    }

    /// Whether the scope takes away everything on `path`, in whatever spelling the path is.
    pub fn denies(&self, path: &SpacePath) -> bool {
        self.verb == Verb::Deny && covers_in_any_spelling(&self.path, path)
    }

    /// Whether the scope by itself allows `verb` on `path`.
    pub fn covers(&self, verb: Verb, path: &SpacePath) -> bool {
        self.verb.includes(verb) && self.reaches(path)
    }

    fn reaches(&self, path: &SpacePath) -> bool {
        match self.reach {
            Reach::Subtree | Reach::Directory => self.path.covers(path),
            Reach::Children => self.path == *path || self.path.is_parent_of(path),
        }
    }
}

/// Whether some file system takes `path` for `folder` or for something below it.
fn covers_in_any_spelling(folder: &SpacePath, path: &SpacePath) -> bool {
    let mut theirs = path.components();
    folder.components().all(|ours| theirs.next().is_some_and(|their| is_same_name(ours, their)))
}

fn split_verb(text: &str) -> Result<(Verb, &str), BadScope> {
    let (word, rest) = text.split_once(':').ok_or(BadScope::Verb)?;
    let verbs = [Verb::Read, Verb::Write, Verb::Append, Verb::Deny, Verb::Unguard];
    let verb = verbs.into_iter().find(|verb| verb.word() == word).ok_or(BadScope::Verb)?;
    Ok((verb, rest))
}

/// Splits the ending that means a [`Reach`] off the path. The path that is left of `/` is empty.
fn split_reach(path: &str) -> (&str, Reach) {
    if let Some(body) = path.strip_suffix("/*") {
        (body, Reach::Children)
    } else if let Some(body) = path.strip_suffix('/') {
        (body, Reach::Directory)
    } else {
        (path, Reach::Subtree)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(|part| percent::encode_component(part).to_string()))
    }
}

/// The path scopes of one caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Returns an empty list, which grants nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses a `scope` claim: items separated by single spaces.
    ///
    /// # Errors
    /// [`BadScope`] for the first malformed item.
    pub fn parse_claim(claim: &str) -> Result<Self, BadScope> {
        if claim.is_empty() {
            return Ok(Self::none());
        }
        claim.split(' ').map(Scope::parse).collect::<Result<Vec<_>, _>>().map(Self)
    }

    /// Parses a `scope` claim; returns no scopes where any item is malformed.
    pub fn from_claim(claim: &str) -> Self {
        Self::parse_claim(claim).unwrap_or_default()
    }

    /// Whether any scope allows `verb` on `path`, and none takes it away.
    pub fn cover(&self, verb: Verb, path: &SpacePath) -> bool {
        self.0.iter().any(|scope| scope.covers(verb, path)) && !self.deny(path)
    }

    /// Returns whether `now` may allow less than these scopes: it lacks one of them, or takes away
    /// what they do not. Scopes are compared as they are written, so an equivalent one counts as
    /// another. What was only added narrows nothing.
    pub fn is_narrowed_by(&self, now: &Self) -> bool {
        let is_denial = |scope: &&Scope| scope.verb() == Verb::Deny;
        let has_lost = self.0.iter().any(|had| !is_denial(&had) && !now.0.contains(had));
        let is_denied = now.0.iter().filter(is_denial).any(|denial| !self.0.contains(denial));
        has_lost || is_denied
    }

    /// Returns what guards `path` against `verb`; `None` where nothing does, or where a scope lifts
    /// the guard. What only runs may be read.
    pub fn guarded(&self, verb: Verb, path: &SpacePath) -> Option<Guarded> {
        let guarded = Guarded::of(path)?;
        let stops = guarded == Guarded::Secret || verb != Verb::Read;
        let lifts = |scope: &Scope| scope.verb == Verb::Unguard && scope.reaches(path);
        (stops && !self.0.iter().any(lifts)).then_some(guarded)
    }

    /// Whether a scope takes `path` away.
    fn deny(&self, path: &SpacePath) -> bool {
        self.0.iter().any(|scope| scope.denies(path))
    }

    /// Whether any scope allows `verb` on every direct child of `folder`, whatever its name.
    pub fn cover_children(&self, verb: Verb, folder: &SpacePath) -> bool {
        let takes_child_away = |scope: &Scope| {
            scope.verb == Verb::Deny
                && (scope.denies(folder)
                    || scope.path.split().is_some_and(|(parent, _)| {
                        covers_in_any_spelling(&parent, folder)
                            && covers_in_any_spelling(folder, &parent)
                    }))
        };
        let allows_each = |scope: &Scope| {
            scope.verb.includes(verb)
                && match scope.reach {
                    Reach::Subtree | Reach::Directory => scope.path.covers(folder),
                    Reach::Children => scope.path == *folder,
                }
        };
        self.0.iter().any(allows_each) && !self.0.iter().any(takes_child_away)
    }

    /// Whether any scope allows `verb` on `folder` and on everything below, whatever its name.
    pub fn cover_subtree(&self, verb: Verb, folder: &SpacePath) -> bool {
        let allows_all = |scope: &Scope| {
            scope.verb.includes(verb) && scope.reach != Reach::Children && scope.path.covers(folder)
        };
        let takes_some_away = |scope: &Scope| {
            scope.verb == Verb::Deny
                && (scope.denies(folder) || covers_in_any_spelling(folder, &scope.path))
        };
        self.0.iter().any(allows_all) && !self.0.iter().any(takes_some_away)
    }

    /// Whether the scopes allow `verb` on some path strictly below `folder`.
    pub fn cover_some_below(&self, verb: Verb, folder: &SpacePath) -> bool {
        let reaches = |scope: &Scope| {
            scope.verb.includes(verb)
                && match scope.reach {
                    Reach::Subtree | Reach::Directory if scope.path.covers(folder) => true,
                    Reach::Children if scope.path == *folder => true,
                    _ => {
                        let is_below = folder.covers(&scope.path) && scope.path != *folder;
                        is_below && !self.deny(&scope.path)
                    }
                }
        };
        !self.deny(folder) && self.0.iter().any(reaches)
    }

    /// Returns the paths at which a walk of `folder` begins: `folder` itself if a scope allows to
    /// read it, and each path below that a scope names and whose parent folder no scope covers. In
    /// the order of their paths.
    pub fn walk_starts(&self, folder: &SpacePath) -> Vec<SpacePath> {
        let is_readable = |path: &SpacePath| self.cover(Verb::Read, path);
        let named = self.0.iter().map(|scope| &scope.path).filter(|path| folder.covers(path));
        let begins_anew = |path: &&SpacePath| match path.split() {
            Some((parent, _)) if folder.covers(&parent) => !is_readable(&parent),
            _ => true,
        };
        let mut starts: Vec<SpacePath> = named
            .chain([folder])
            .filter(|path| is_readable(path))
            .filter(begins_anew)
            .cloned()
            .collect();
        starts.sort();
        starts.dedup();
        starts
    }

    /// Returns the scopes in which a caller may begin to read: those whose path no other scope
    /// reads through. In the order of their paths.
    pub fn beginnings(&self) -> Vec<&Scope> {
        let readable =
            |scope: &&Scope| scope.verb.includes(Verb::Read) && self.cover(Verb::Read, &scope.path);
        let readable: Vec<&Scope> = self.0.iter().filter(readable).collect();
        let mut scopes = readable.clone();
        scopes.sort_by(|one, other| (&one.path, one.reach).cmp(&(&other.path, other.reach)));
        scopes.dedup_by(|one, other| one.path == other.path);
        let is_inside = |scope: &Scope| {
            let mut others = readable.iter().filter(|other| other.path != scope.path);
            others.any(|other| other.reach != Reach::Children && other.path.covers(&scope.path))
        };
        scopes.retain(|scope| !is_inside(scope));
        scopes
    }

    /// Whether any scope allows `verb` anywhere.
    pub fn any(&self, verb: Verb) -> bool {
        self.0.iter().any(|scope| scope.verb.includes(verb) && !self.deny(&scope.path))
    }

    /// Returns the scopes without the rights that lie wholly below a denial, which give nothing.
    #[must_use]
    pub fn without_denied(&self) -> Self {
        let denials: Vec<&Scope> =
            self.iter().filter(|scope| **scope == Scope::denied(&scope.path)).collect();
        let is_denied =
            |scope: &Scope| denials.iter().any(|denial| denial.path.covers(&scope.path));
        self.iter().filter(|scope| scope.verb == Verb::Deny || !is_denied(scope)).cloned().collect()
    }

    /// Returns the scopes in the order of the claim.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    /// Whether the list grants nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            scope.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn covers(scope: &str, verb: Verb, path: &str) -> bool {
        Scopes::from_claim(scope).cover(verb, &SpacePath::parse(path).unwrap())
    }

    #[test]
    fn only_a_right_that_was_lost_or_denied_narrows() {
        let narrowed =
            |had: &str, now: &str| Scopes::from_claim(had).is_narrowed_by(&Scopes::from_claim(now));
        assert!(!narrowed("read:/a/", "read:/a/ write:/b/"));
        assert!(!narrowed("read:/a/ deny:/a/b", "read:/a/"));
        assert!(narrowed("read:/a/ write:/b/", "read:/a/"));
        assert!(narrowed("read:/a/", "read:/a/ deny:/a/b"));
    }

    #[test]
    fn a_needed_scope_is_displayed_as_a_token_holds_it() {
        for (path, text) in [("/", "read:/"), ("/a b", "read:/a%20b")] {
            let needed = Scope::needed(Verb::Read, &SpacePath::parse(path).unwrap());
            assert_eq!(needed.to_string(), text);
            assert!(Scope::parse(text).unwrap().covers(Verb::Read, &needed.path));
        }
    }

    #[test]
    fn a_list_of_scopes_says_what_it_allows_anywhere() {
        let none = Scopes::none();
        assert!(none.is_empty() && !none.any(Verb::Read) && !none.any(Verb::Write));
        let read: Scopes = [Scope::everything(Verb::Read)].into_iter().collect();
        assert!(!read.is_empty() && read.any(Verb::Read) && !read.any(Verb::Write));
        let write: Scopes = [Scope::everything(Verb::Write)].into_iter().collect();
        assert!(write.any(Verb::Read) && write.any(Verb::Write));
    }

    #[test]
    fn each_ending_covers_its_own_paths() {
        for (scope, path, covered) in [
            ("read:/", "/", true),
            ("read:/", "/a/b", true),
            ("read:/work/", "/work", true),
            ("read:/work/", "/work/a/b", true),
            ("read:/work", "/work/a/b", true),
            ("read:/work", "/workshop", false),
            ("read:/work/", "/workshop/a", false),
            ("read:/work/*", "/work", true),
            ("read:/work/*", "/work/a", true),
            ("read:/work/*", "/work/a/b", false),
            ("read:/*", "/a", true),
            ("read:/*", "/", true),
            ("read:/*", "/a/b", false),
            ("read:/Work", "/work", false),
            ("read:/%2A", "/*", true),
            ("read:/my%20notes/", "/my notes/a", true),
        ] {
            assert_eq!(covers(scope, Verb::Read, path), covered, "{scope} {path}");
        }
    }

    #[test]
    fn write_includes_read_but_read_does_not_include_write() {
        assert!(covers("write:/a", Verb::Read, "/a"));
        assert!(!covers("read:/a", Verb::Write, "/a"));
    }

    #[test]
    fn append_is_a_verb_of_its_own() {
        assert!(covers("append:/logs/", Verb::Append, "/logs/a.log"));
        assert!(!covers("append:/logs/", Verb::Read, "/logs/a.log"));
        assert!(!covers("append:/logs/", Verb::Write, "/logs/a.log"));
        assert!(!covers("write:/logs/", Verb::Append, "/logs/a.log"));
    }

    #[test]
    fn deny_wins_over_every_other_scope_by_components() {
        let claim = "write:/ append:/ deny:/secrets/ read:/secrets/open/";
        for (path, covered) in
            [("/a", true), ("/secrets", false), ("/secrets/open/a", false), ("/secrets-2", true)]
        {
            for verb in ACCESS {
                assert_eq!(covers(claim, verb, path), covered, "{verb:?} {path}");
            }
        }
        assert!(!Scopes::from_claim("read:/a/ deny:/").any(Verb::Read));
        let scopes = Scopes::from_claim("read:/ deny:/a/b");
        let folder = |text: &str| SpacePath::parse(text).unwrap();
        assert!(scopes.cover_children(Verb::Read, &folder("/")));
        assert!(!scopes.cover_children(Verb::Read, &folder("/a")));
        assert!(!scopes.cover_subtree(Verb::Read, &folder("/a")));
        assert!(scopes.cover_subtree(Verb::Read, &folder("/c")));
    }

    #[test]
    fn deny_takes_every_spelling_of_a_path_away() {
        let scopes = Scopes::from_claim("write:/ deny:/Secrets/%C3%89t%C3%A9");
        let at = |text: &str| SpacePath::parse(text).unwrap();
        for text in ["/secrets/été", "/SECRETS/E\u{301}TE\u{301}/a", "/Secrets/Été"] {
            assert!(!scopes.cover(Verb::Read, &at(text)), "{text}");
            assert!(!scopes.cover_some_below(Verb::Write, &at(text)), "{text}");
        }
        let street = Scopes::from_claim("write:/ deny:/stra%C3%9Fe deny:/a%E2%80%8Db");
        for text in [
            "/straße", "/straẞe", "/STRAẞE", "/STRASSE", "/strasse/a", "/stra\u{200d}ße",
            "/straße.", "/straße. .", "/\u{feff}straße", "/ab", "/A\u{200b}B",
        ] {
            assert!(!street.cover(Verb::Read, &at(text)), "{text:?}");
        }
        for text in ["/strase", "/.straße", "/a b", "/ straße"] {
            assert!(street.cover(Verb::Read, &at(text)), "{text:?}");
        }
        assert!(!Scopes::from_claim("write:/ deny:/a%20.").cover(Verb::Write, &at("/A")));
        assert!(Scopes::from_claim("write:/ deny:/a").cover(Verb::Write, &at("/...")));
        assert!(!scopes.cover_subtree(Verb::Write, &at("/secrets")));
        assert!(!scopes.cover_children(Verb::Write, &at("/secrets")));
        assert!(scopes.cover(Verb::Read, &at("/secrets/ete")));
        assert!(scopes.cover(Verb::Read, &at("/secrets-2")));
        // What allows stays exact.
        assert!(!Scopes::from_claim("read:/Secrets/").cover(Verb::Read, &at("/secrets")));
    }

    #[test]
    fn a_walk_begins_where_the_scopes_begin() {
        for (claim, folder, starts) in [
            ("read:/", "/", vec!["/"]),
            ("read:/", "/a", vec!["/a"]),
            ("read:/b/ read:/a/ read:/a/c", "/", vec!["/a", "/b"]),
            ("read:/a/", "/b", vec![]),
            ("read:/a/b.md", "/a", vec!["/a/b.md"]),
            ("read:/a/* read:/a/b/c/", "/", vec!["/a"]),
            ("read:/a/* read:/a/b/c/d", "/a", vec!["/a", "/a/b/c/d"]),
            ("read:/ deny:/a read:/a/b", "/", vec!["/"]),
            ("append:/a/ read:/b", "/", vec!["/b"]),
        ] {
            let found = Scopes::from_claim(claim).walk_starts(&SpacePath::parse(folder).unwrap());
            let found: Vec<_> = found.iter().map(SpacePath::as_str).collect();
            assert_eq!(found, starts, "{claim} {folder}");
        }
    }

    #[test]
    fn one_malformed_item_grants_nothing() {
        for claim in [
            "read:/ openid", "read:/  read:/a", " read:/", "read:/a read:", "read:a", "read:/a b",
            "read:/a/../b", "read:/a//b", "read:/./a", "read:/a*", "read:/*/a", "read:/%2F",
            "read:/a%2Fb", "read:/%zz", "read:/%c3", "read:/é", "read:/%2e%2e", "read:/%00",
            "READ:/", "delete:/", "read:/ deny:/a/*", "read:/ deny:", "append:/a b", "read",
            "read:/C:", "read:/a?b",
        ] {
            assert!(Scopes::from_claim(claim).is_empty(), "{claim}");
        }
    }

    #[test]
    fn a_typed_scope_is_encoded_for_the_token() {
        for (raw, encoded) in [
            ("read:/my notes/", "read:/my%20notes/"),
            ("write:/notes/*", "write:/notes/*"),
            ("write:/no*tes", "write:/no%2Ates"),
            ("read:/100%/", "read:/100%25/"),
            ("read:/été", "read:/%C3%A9t%C3%A9"),
            ("read:notes", "read:/notes"),
            ("read:/", "read:/"),
            ("read:/*", "read:/*"),
        ] {
            assert_eq!(Scope::parse_raw(raw).unwrap().to_string(), encoded);
        }
        assert_eq!(Scope::parse_raw("read:/../a"), Err(BadScope::Path));
        assert_eq!(Scope::parse_raw("notes"), Err(BadScope::Verb));
        for unclear in ["read:*", "read:/a/**", "write:**", "read:/*/a", "read:/a/*/"] {
            assert_eq!(Scope::parse_raw(unclear), Err(BadScope::Wildcard), "{unclear}");
        }
        assert_eq!(Scope::parse_raw("read:/*").unwrap().to_string(), "read:/*");
    }

    fn component() -> impl Strategy<Value = String> {
        prop_oneof!["[ab]{1,2}", "\\*", "é", "a b", "%41", "\\PC{1,4}"]
            .prop_filter("a component", |text| SpacePath::root().child(text).is_some())
    }

    fn path() -> impl Strategy<Value = SpacePath> {
        proptest::collection::vec(component(), 0..4).prop_filter_map("a path", |parts| {
            SpacePath::parse(&format!("/{}", parts.join("/"))).ok()
        })
    }

    fn scope() -> impl Strategy<Value = Scope> {
        (path(), verb(), 0..3).prop_map(|(path, verb, reach)| {
            let reach = match reach {
                0 if !path.is_root() => Reach::Subtree,
                1 if verb != Verb::Deny => Reach::Children,
                _ => Reach::Directory,
            };
            Scope { path, verb, reach }
        })
    }

    const ACCESS: [Verb; 3] = [Verb::Read, Verb::Write, Verb::Append];

    fn verb() -> impl Strategy<Value = Verb> {
        prop_oneof![
            3 => Just(Verb::Read),
            3 => Just(Verb::Write),
            1 => Just(Verb::Append),
            1 => Just(Verb::Deny),
        ]
    }

    proptest! {
        #[test]
        fn parsing_undoes_formatting_of_a_scope(scope in scope()) {
            prop_assert_eq!(Scope::parse(&scope.to_string()), Ok(scope));
        }

        #[test]
        fn parsing_undoes_formatting_of_a_claim(
            scopes in proptest::collection::vec(scope(), 0..4)
        ) {
            let scopes = Scopes(scopes);
            prop_assert_eq!(Scopes::from_claim(&scopes.to_string()), scopes);
        }

        #[test]
        fn removing_a_scope_never_permits_more(
            scopes in proptest::collection::vec(scope(), 1..5),
            gone in any::<prop::sample::Index>(),
            path in path(),
        ) {
            let all = Scopes(scopes.clone());
            let mut fewer = scopes;
            let gone = fewer.remove(gone.index(fewer.len()));
            let fewer = Scopes(fewer);
            let (more, less) =
                if gone.verb == Verb::Deny { (&fewer, &all) } else { (&all, &fewer) };
            for verb in ACCESS {
                prop_assert!(more.cover(verb, &path) || !less.cover(verb, &path));
                prop_assert!(more.cover_children(verb, &path) || !less.cover_children(verb, &path));
                prop_assert!(more.cover_subtree(verb, &path) || !less.cover_subtree(verb, &path));
                prop_assert!(more.any(verb) || !less.any(verb));
                prop_assert!(
                    more.cover_some_below(verb, &path) || !less.cover_some_below(verb, &path)
                );
            }
        }

        #[test]
        fn a_denied_path_is_covered_for_no_verb(
            scopes in proptest::collection::vec(scope(), 0..4),
            denied in path(),
            below in proptest::collection::vec(component(), 0..2),
        ) {
            let claim = scopes.into_iter().chain([Scope::denied(&denied)]);
            let scopes: Scopes = claim.collect();
            let path = below.iter().try_fold(denied.clone(), |path, name| path.child(name));
            if let Some(path) = path {
                for verb in ACCESS {
                    prop_assert!(!scopes.cover(verb, &path));
                    prop_assert!(!scopes.cover_some_below(verb, &path));
                    prop_assert!(!scopes.cover_subtree(verb, &path));
                    prop_assert!(scopes.walk_starts(&path).is_empty());
                }
            }
        }

        #[test]
        fn what_is_covered_below_a_folder_agrees_with_cover(
            scopes in proptest::collection::vec(scope(), 0..4),
            folder in path(),
            below in proptest::collection::vec(component(), 1..3),
        ) {
            let scopes = Scopes(scopes);
            let path = below.iter().try_fold(folder.clone(), |path, name| path.child(name));
            if let Some(path) = path {
                for verb in ACCESS {
                    let is_covered = scopes.cover(verb, &path);
                    prop_assert!(!scopes.cover_subtree(verb, &folder) || is_covered);
                    prop_assert!(!is_covered || scopes.cover_some_below(verb, &folder));
                }
                // A walk that begins at a folder shows what may be read along readable folders.
                let mut at = Some(path.clone());
                while let Some(here) = at.take() {
                    if !scopes.cover(Verb::Read, &here) {
                        break;
                    }
                    at = here.split().filter(|_| here != folder).map(|(above, _)| above);
                    prop_assert!(here != folder || scopes.walk_starts(&folder).contains(&folder));
                }
            }
        }

        #[test]
        fn covers_agrees_with_the_oracle(
            scope in scope(),
            path in path(),
            verb in proptest::sample::select(&ACCESS[..]),
        ) {
            let ours: Vec<_> = scope.path.components().collect();
            let theirs: Vec<_> = path.components().collect();
            let below = theirs.len() >= ours.len() && theirs[..ours.len()] == ours[..];
            let near = theirs.len() <= ours.len() + 1;
            let expected = below
                && (scope.reach != Reach::Children || near)
                && scope.verb.includes(verb);
            prop_assert_eq!(scope.covers(verb, &path), expected);
        }

        #[test]
        fn cover_children_agrees_with_cover_of_each_child(
            scopes in proptest::collection::vec(scope(), 0..4),
            folder in path(),
            name in component(),
        ) {
            let scopes = Scopes(scopes);
            if let Some(child) = folder.child(&name) {
                let covers_all = scopes.cover_children(Verb::Read, &folder);
                prop_assert!(!covers_all || scopes.cover(Verb::Read, &child));
                // A refusal means that some name is not covered.
                let other = folder.child("a name in no scope").unwrap();
                let denied = scopes.iter().filter(|scope| scope.verb == Verb::Deny);
                let mut named = denied.filter_map(|scope| folder.child(scope.path.split()?.1));
                let covers_each = scopes.cover(Verb::Read, &other)
                    && named.all(|child| scopes.cover(Verb::Read, &child));
                prop_assert_eq!(covers_all, covers_each);
            }
        }

        #[test]
        fn arbitrary_claims_never_panic(claim in "\\PC{0,60}") {
            let _ = Scopes::from_claim(&claim);
        }
    }
}
