//! What a client asks for in path scopes, how the owner narrows it, and how a page says it.
//!
//! An approval is never more than what was asked for and what the owner added with their own hand.
//!
//! *Source*: RFC 6749, section 3.3: a server may ignore a part of the scope, and says in its answer
//! what it granted.

use crate::audit::words::listed;
use crate::path::SpacePath;
use crate::records::authority::RecordsClaim;
use crate::scope::{Scope, ScopePlace, Scopes, Verb};
use crate::unseen::shown;

/// The most scopes of one request.
pub const MAX_ASKED_SCOPES: usize = 32;
/// The longest `scope` of a request, in bytes.
pub const MAX_SCOPE_BYTES: usize = 4096;

/// The path scopes that a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedScopes {
    scopes: Vec<Scope>,
    was_named: Named,
}

/// One line of the page: a right that the owner allows, narrows or removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLine {
    /// The right that the line is about.
    pub scope: Scope,
    /// Why the page has the line.
    pub origin: LineOrigin,
}

/// Why a page has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOrigin {
    /// The client asks for the right.
    Asked,
    /// The client asks for what is guarded. The page does not propose it, so that nobody gets it by
    /// one careless tap.
    AskedGuarded,
    /// The owner allowed the client the right before.
    AllowedBefore,
    /// Nobody asked for the right. The owner may add it, and the page does not propose it.
    Offered,
    /// The client does not have the right now, whatever it asked for once. The owner may add it,
    /// and the page does not propose it.
    NotNow,
}

impl AccessLine {
    /// Returns whether the page proposes the line: the owner leaves it out by a click of their own.
    pub fn is_proposed(&self) -> bool {
        matches!(self.origin, LineOrigin::Asked | LineOrigin::AllowedBefore)
    }
}

/// Whether the request named what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Named {
    #[default]
    Yes,
    No,
}

/// Why a `scope` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAskedScopes {
    /// There are more than [`MAX_ASKED_SCOPES`], or the text is too long.
    #[error("`scope` has more than 32 items or 4096 bytes; ask for folders instead of files")]
    TooMany,
    /// An item begins like a path scope and is not one.
    #[error("an item of `scope` is malformed; a scope has the form `read:/notes/`")]
    Malformed,
    /// No item is one that this server knows.
    #[error("`scope` has no item that this server knows; a scope has the form `read:/notes/`")]
    Unknown,
}

impl AskedScopes {
    /// Parses the `scope` of a request. Items of other servers (`openid`, `offline_access`) are
    /// left out. A request without `scope` asks to read and to change everything, and the page
    /// leaves changing to the owner's own choice.
    ///
    /// # Errors
    /// Every [`BadAskedScopes`].
    pub fn parse(scope: Option<&str>) -> Result<Self, BadAskedScopes> {
        let Some(scope) = scope.filter(|scope| !scope.trim().is_empty()) else {
            let scopes = [Verb::Read, Verb::Write].map(Scope::everything).to_vec();
            return Ok(Self { scopes, was_named: Named::No });
        };
        let items: Vec<&str> = scope.split(' ').filter(|item| !item.is_empty()).collect();
        if scope.len() > MAX_SCOPE_BYTES || items.len() > MAX_ASKED_SCOPES {
            return Err(BadAskedScopes::TooMany);
        }
        let mut scopes = Vec::new();
        for item in items.into_iter().filter(|item| is_path_scope(item)) {
            let scope = Scope::parse(item).map_err(|_| BadAskedScopes::Malformed)?;
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        if scopes.is_empty() && !scope.split(' ').all(|item| item.is_empty() || is_known(item)) {
            return Err(BadAskedScopes::Unknown);
        }
        if scopes.is_empty() {
            return Self::parse(None);
        }
        Ok(Self { scopes, was_named: Named::Yes })
    }

    /// Returns a request for no files, as a client makes it that asks for records alone.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the lines that the owner decides about: what is asked for, what the client was
    /// allowed `before`, and the right to change files if nobody asked for that. A client that
    /// was told to ask for the least would otherwise never learn of the tools that change files.
    pub fn lines(&self, before: &Scopes) -> Vec<AccessLine> {
        let is_right = |scope: &&Scope| scope.verb() != Verb::Deny;
        let line = |scope: &Scope, origin| AccessLine { scope: scope.clone(), origin };
        let origin_of = |scope: &Scope| match self.was_named {
            _ if scope.verb() == Verb::Unguard => LineOrigin::AskedGuarded,
            Named::Yes => LineOrigin::Asked,
            Named::No if scope.verb() == Verb::Read => LineOrigin::Asked,
            Named::No => LineOrigin::Offered,
        };
        let mut lines: Vec<AccessLine> = Vec::new();
        for scope in before.iter().filter(is_right) {
            lines.push(line(scope, LineOrigin::AllowedBefore));
        }
        for scope in self.scopes.iter().filter(is_right) {
            if !lines.iter().any(|known| known.scope == *scope) {
                lines.push(line(scope, origin_of(scope)));
            }
        }
        let changes_files =
            |line: &AccessLine| matches!(line.scope.verb(), Verb::Write | Verb::Append);
        if lines.iter().any(|line| line.scope.verb().is_right()) && !lines.iter().any(changes_files)
        {
            lines.push(line(&Scope::everything(Verb::Write), LineOrigin::Offered));
        }
        lines
    }

    /// Returns what takes away, which an approval always keeps.
    pub fn denials(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().filter(|scope| scope.verb() == Verb::Deny)
    }
}

/// Returns whether an item has the form of this server's scopes: `word:/…` with one of its verbs.
fn is_path_scope(item: &str) -> bool {
    [Verb::Read, Verb::Write, Verb::Append, Verb::Deny, Verb::Unguard]
        .iter()
        .any(|verb| item.strip_prefix(verb.word()).is_some_and(|rest| rest.starts_with(":/")))
}

/// Returns whether an item is one that clients send to every server.
fn is_known(item: &str) -> bool {
    matches!(item, "openid" | "offline_access" | "profile" | "email") || is_path_scope(item)
}

/// Narrows a line to a folder and to another verb; `None` if the result would be more than the
/// line.
pub fn narrow(line: &Scope, verb: Verb, folder: &SpacePath) -> Option<Scope> {
    let asked: Scopes = std::iter::once(line.clone()).collect();
    if verb == line.verb() && folder == line.path() {
        return Some(line.clone());
    }
    if asked.cover_subtree(verb, folder) {
        return Some(Scope::directory(verb, folder));
    }
    // The children of a folder, to be read and not changed.
    let same_place = folder == line.path() && line.verb().includes(verb);
    same_place.then(|| line.with_verb(verb)).flatten()
}

/// What a person leaves of a token's rights on files, for a token in its place.
#[derive(Clone, Debug)]
pub struct LeftRights<'a> {
    /// What the new token may do in the chosen folder.
    pub verb: Verb,
    /// The folder that the person chose.
    pub folder: &'a SpacePath,
    /// The rights of the old token that stay as they are.
    pub kept: Vec<Scope>,
    /// What the new token never touches, beside what the old one never touches.
    pub never: Vec<Scope>,
}

/// Returns the scopes of a token in the place of one with the scopes `old`; `None` if they would
/// allow more. What the old token never touches, the new one never touches.
pub fn in_place_of(old: &Scopes, left: &LeftRights<'_>) -> Option<Scopes> {
    let is_of_old = |scope: &Scope| old.iter().any(|known| known == scope);
    if !left.verb.is_right() || !left.kept.iter().all(is_of_old) {
        return None;
    }
    let chosen = old.iter().find_map(|right| narrow(right, left.verb, left.folder))?;
    let denials = old.iter().chain(&left.never).filter(|scope| scope.verb() == Verb::Deny);
    let mut scopes = vec![chosen];
    for scope in left.kept.iter().chain(denials) {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    Some(scopes.into_iter().collect())
}

/// Returns a sentence without its end that says what a scope allows: `read all files`. Characters
/// of a path that nobody sees are written out.
pub fn sentence(scope: &Scope) -> String {
    let what = match scope.place() {
        ScopePlace::Everything => "all files".to_owned(),
        ScopePlace::DirectlyIn(folder) if folder.is_root() => {
            "the files directly in the top folder".to_owned()
        }
        ScopePlace::DirectlyIn(folder) => format!("the files directly in {folder}"),
        ScopePlace::Folder(folder) => format!("the files in {folder} and below"),
        ScopePlace::Path(path) => {
            format!("{path}, with everything below it if it is a folder")
        }
    };
    let what = shown(&what);
    match scope.verb() {
        Verb::Read => format!("read {what}"),
        Verb::Write => format!("read, change, make and remove {what}"),
        Verb::Append => format!("add lines to {what}, without reading"),
        Verb::Deny => format!("never touch {what}"),
        Verb::Unguard => format!(
            "use keys, passwords and files that programs run, too, among {what} (they are guarded \
             otherwise)"
        ),
    }
}

/// Returns what a client may do with files and records, each as the rest of a sentence that begins
/// with the client: `may read all files`, `sees no records`.
pub fn rights(scopes: &Scopes, records: &RecordsClaim) -> Vec<String> {
    let of_files = scopes.iter().map(|scope| match scope.verb() {
        Verb::Deny => format!("will {}", sentence(scope)),
        _ => format!("may {}", sentence(scope)),
    });
    let of_records = match records {
        RecordsClaim::None => "sees no records".to_owned(),
        RecordsClaim::Grant(grant) => format!("may see the records of the grant {grant}"),
        RecordsClaim::Owner => "may see and change all records, as their owner".to_owned(),
        RecordsClaim::Import(import) => {
            format!(
                "may import into {} of {}, and sees no records",
                import.stream, import.connection
            )
        }
    };
    of_files.chain([of_records]).collect()
}

/// Returns in one short sentence without its end what a client may do with files and records, as
/// the rest of a sentence that begins with the client: `may change /work and read all files`.
/// [`rights`] has all of it, this the beginning of long lists.
pub fn summary(scopes: &Scopes, records: &RecordsClaim) -> String {
    const NAMED: usize = 2;
    let scopes = without_repeated(&scopes.without_denied());
    let places = |verb: Verb| {
        let of_verb = || scopes.iter().filter(move |scope| scope.verb() == verb);
        let mut places: Vec<String> = of_verb().take(NAMED).map(place).collect();
        match of_verb().count().saturating_sub(NAMED) {
            0 => {}
            more => places.push(format!("{more} more")),
        }
        (!places.is_empty()).then(|| listed(&places))
    };
    let part = |words: &str, verb| places(verb).map(|places| format!("{words} {places}"));
    let of_records = match records {
        RecordsClaim::None => None,
        RecordsClaim::Grant(_) => Some("see records by a grant".to_owned()),
        RecordsClaim::Owner => Some("change all records".to_owned()),
        RecordsClaim::Import(import) => Some(format!("import into {}", import.stream)),
    };
    let may = [part("change", Verb::Write), part("read", Verb::Read), part("add to", Verb::Append)];
    let may: Vec<String> = may.into_iter().chain([of_records]).flatten().collect();
    let never = places(Verb::Deny).map(|places| format!(", but never touch {places}"));
    match may.is_empty() {
        true => "may see nothing".to_owned(),
        false => format!("may {}{}", listed(&may), never.unwrap_or_default()),
    }
}

/// Returns scopes without those that say a part of what another one says.
fn without_repeated(scopes: &Scopes) -> Vec<Scope> {
    let says = |all: &Scope, part: &Scope| {
        let all: Scopes = std::iter::once(all.clone()).collect();
        part.verb().is_right() && all.cover_subtree(part.verb(), part.path())
    };
    let mut left: Vec<Scope> = Vec::new();
    for scope in scopes.iter() {
        if left.iter().any(|known| says(known, scope)) {
            continue;
        }
        left.retain(|known| !says(scope, known));
        left.push(scope.clone());
    }
    left
}

/// Returns the place of a scope in one or two words.
fn place(scope: &Scope) -> String {
    let place = match scope.place() {
        ScopePlace::Everything => return "all files".to_owned(),
        ScopePlace::DirectlyIn(folder) if folder.is_root() => {
            "what is directly in the top folder".to_owned()
        }
        ScopePlace::DirectlyIn(folder) => format!("what is directly in {folder}"),
        ScopePlace::Folder(path) | ScopePlace::Path(path) => path.to_string(),
    };
    shown(&place).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(scope: &str) -> Vec<String> {
        let lines = AskedScopes::parse(Some(scope)).unwrap().lines(&Scopes::none());
        lines.into_iter().filter(AccessLine::is_proposed).map(|l| l.scope.to_string()).collect()
    }

    #[test]
    fn a_folder_that_is_named_as_the_wildcard_is_a_folder() {
        let scope = |text: &str| Scope::parse(text).unwrap();
        let literal = scope("write:/work/%2A");
        assert_eq!(
            sentence(&literal),
            "read, change, make and remove /work/*, with everything below it if it is a folder"
        );
        assert_eq!(sentence(&scope("read:/work/*")), "read the files directly in /work");
        let claim = Scopes::from_claim("read:/ deny:/%2A");
        assert_eq!(summary(&claim, &RecordsClaim::None), "may read all files, but never touch /*");
        let folder = SpacePath::parse("/work/*").unwrap();
        let narrowed = narrow(&scope("write:/"), Verb::Read, &folder).unwrap();
        assert_eq!(narrowed.to_string(), "read:/work/%2A/");
        assert!(!narrowed.covers(Verb::Read, &SpacePath::parse("/work/a.md").unwrap()));
    }

    #[test]
    fn what_a_client_may_do_is_said_in_sentences_about_files_and_records() {
        let of = |claim: &str, records| rights(&Scopes::from_claim(claim), &records).join(", ");
        assert_eq!(of("read:/", RecordsClaim::None), "may read all files, sees no records");
        assert_eq!(
            of("write:/work/ deny:/work/keys", RecordsClaim::Grant("g-1".into())),
            "may read, change, make and remove the files in /work and below, will never touch \
             /work/keys, with everything below it if it is a folder, may see the records of the \
             grant g-1"
        );
        assert_eq!(of("", RecordsClaim::Owner), "may see and change all records, as their owner");
    }

    #[test]
    fn a_summary_is_one_sentence_for_any_list_of_rights() {
        let of = |claim: &str, records| summary(&Scopes::from_claim(claim), &records);
        assert_eq!(of("read:/", RecordsClaim::None), "may read all files");
        assert_eq!(
            of("write:/work/ read:/ deny:/work/keys", RecordsClaim::Grant("g".into())),
            "may change /work, read all files and see records by a grant, but never touch \
             /work/keys"
        );
        assert_eq!(
            of("read:/a read:/b/* read:/c read:/d", RecordsClaim::None),
            "may read /a, what is directly in /b and 2 more"
        );
        // A right within another one gives nothing more, so it is not said.
        assert_eq!(of("read:/ read:/work", RecordsClaim::None), "may read all files");
        let all = "may change all files";
        assert_eq!(of("read:/work/ write:/ read:/a/*", RecordsClaim::None), all);
        // A right below what is denied gives nothing either.
        assert_eq!(
            of("read:/ write:/* write:/a/ write:/c/ deny:/a", RecordsClaim::None),
            "may change what is directly in the top folder and /c and read all files, but never \
             touch /a"
        );
        assert_eq!(of("write:/a/ deny:/a", RecordsClaim::None), "may see nothing");
        assert_eq!(of("", RecordsClaim::None), "may see nothing");
    }

    #[test]
    fn items_of_other_servers_are_left_out_and_a_request_may_name_nothing() {
        assert_eq!(asked("read:/ openid offline_access claudeai"), ["read:/"]);
        assert_eq!(asked("read:/ read:/"), ["read:/"]);
        assert_eq!(asked("offline_access"), ["read:/"]);
        assert_eq!(AskedScopes::parse(Some("")), AskedScopes::parse(None));
    }

    #[test]
    fn changing_files_is_offered_and_never_proposed_if_nobody_asked_for_it() {
        let lines = |scope, before: &str| {
            let lines = AskedScopes::parse(scope).unwrap().lines(&Scopes::from_claim(before));
            let line = |line: AccessLine| (line.scope.to_string(), line.origin);
            lines.into_iter().map(line).collect::<Vec<_>>()
        };
        use LineOrigin::{AllowedBefore, Asked, AskedGuarded, Offered};
        let is = |lines: &[(&str, LineOrigin)]| {
            lines.iter().map(|(scope, origin)| ((*scope).to_owned(), *origin)).collect::<Vec<_>>()
        };
        let least = is(&[("read:/", Asked), ("write:/", Offered)]);
        assert_eq!(lines(Some("read:/"), ""), least);
        assert_eq!(lines(None, ""), least);
        assert_eq!(lines(Some("write:/a"), ""), is(&[("write:/a", Asked)]));
        let guarded = [("read:/", Asked), ("unguard:/.env", AskedGuarded), ("write:/", Offered)];
        let guarded = is(&guarded);
        assert_eq!(lines(Some("read:/ unguard:/.env"), ""), guarded);
        // A step-up keeps what the client has.
        let before = is(&[("read:/", AllowedBefore), ("write:/a", Asked)]);
        assert_eq!(lines(Some("write:/a read:/"), "read:/ deny:/b"), before);
        assert_eq!(AskedScopes::none().lines(&Scopes::none()), []);
    }

    #[test]
    fn what_cannot_be_read_is_refused_as_a_whole() {
        use BadAskedScopes::{Malformed, TooMany, Unknown};
        let error = |scope: &str| AskedScopes::parse(Some(scope)).unwrap_err();
        assert_eq!(error("read:/a/../b"), Malformed);
        assert_eq!(error("read:/ write:/a%zz"), Malformed);
        assert_eq!(error("admin"), Unknown);
        assert_eq!(error(&"read:/a ".repeat(33)), TooMany);
        assert_eq!(error(&format!("read:/{}", "a".repeat(MAX_SCOPE_BYTES))), TooMany);
    }

    #[test]
    fn a_sentence_says_what_a_scope_allows() {
        for (scope, said) in [
            ("read:/", "read all files"),
            ("write:/", "read, change, make and remove all files"),
            ("read:/work/", "read the files in /work and below"),
            ("write:/my notes/*", "read, change, make and remove the files directly in /my notes"),
            (
                "append:/logs/a.md",
                "add lines to /logs/a.md, with everything below it if it is a folder, without reading",
            ),
            ("deny:/secrets", "never touch /secrets, with everything below it if it is a folder"),
        ] {
            assert_eq!(sentence(&Scope::parse_raw(scope).unwrap()), said);
        }
    }

    #[test]
    fn a_token_in_the_place_of_another_keeps_what_that_never_touches_and_allows_no_more() {
        let of = |old: &str, verb, folder: &str, kept: &str, never: &str| {
            let folder = SpacePath::parse(folder).unwrap();
            let all = |claim: &str| Scopes::from_claim(claim).iter().cloned().collect::<Vec<_>>();
            let (kept, never) = (all(kept), all(never));
            let left = LeftRights { verb, folder: &folder, kept, never };
            in_place_of(&Scopes::from_claim(old), &left).map(|scopes| scopes.to_string())
        };
        let (read, write) = (Verb::Read, Verb::Write);
        let is = |claim: &str| Some(claim.to_owned());
        assert_eq!(of("read:/a/", read, "/a", "", ""), is("read:/a/"));
        assert_eq!(of("read:/a/*", read, "/a", "", ""), is("read:/a/*"));
        assert_eq!(of("write:/a/ deny:/a/x", read, "/a/b", "", ""), is("read:/a/b/ deny:/a/x"));
        let both = "read:/a/ write:/b/ unguard:/a/";
        assert_eq!(
            of(both, write, "/b", "read:/a/", "deny:/b/x"),
            is("write:/b/ read:/a/ deny:/b/x")
        );
        for (verb, folder, kept) in [
            (read, "/", ""),
            (write, "/a", ""),
            (read, "/c", ""),
            (Verb::Append, "/b", ""),
            (read, "/a", "read:/"),
            (read, "/a", "unguard:/"),
            (Verb::Unguard, "/a", ""),
        ] {
            assert_eq!(of(both, verb, folder, kept, ""), None, "{verb:?} {folder} {kept}");
        }
        assert_eq!(of("", read, "/", "", ""), None);
    }

    fn any_scope() -> impl Strategy<Value = Scope> {
        ("(read|write|append)", "(/[ab]){0,3}", "(/|/\\*|)").prop_map(|(verb, path, end)| {
            let place =
                if path.is_empty() && end.is_empty() { "/".to_owned() } else { path + &end };
            Scope::parse_raw(&format!("{verb}:{place}")).unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_token_in_the_place_of_another_never_allows_more(
            rights in proptest::collection::vec(any_scope(), 0..4),
            denied in "(/[ab]){1,3}", never in proptest::option::of("(/[ab]){1,3}"),
            verb in 0..3, folder in "(/[ab]){1,4}", path in "(/[ab]){1,5}",
        ) {
            let verbs = [Verb::Read, Verb::Write, Verb::Append];
            let parse = |text: &str| SpacePath::parse(text).unwrap();
            let kept = rights.iter().skip(1).cloned().collect();
            let old: Scopes = rights.into_iter().chain([Scope::denied(&parse(&denied))]).collect();
            let verb = verbs[usize::try_from(verb).unwrap()];
            let never = never.iter().map(|path| Scope::denied(&parse(path))).collect();
            let left = LeftRights { verb, folder: &parse(&folder), kept, never };
            if let Some(new) = in_place_of(&old, &left) {
                for used in verbs {
                    let path = parse(&path);
                    prop_assert!(!new.cover(used, &path) || old.cover(used, &path), "{old}: {new}");
                }
            }
        }

        #[test]
        fn a_narrowed_line_never_allows_more(
            line in any_scope(), verb in 0..3, folder in "(/[ab]){0,4}", path in "(/[ab]){0,5}"
        ) {
            let verbs = [Verb::Read, Verb::Write, Verb::Append];
            let verb = verbs[usize::try_from(verb).unwrap()];
            let parse = |text: &str| SpacePath::parse(if text.is_empty() { "/" } else { text }).unwrap();
            if let Some(narrowed) = narrow(&line, verb, &parse(&folder)) {
                for used in verbs {
                    let path = parse(&path);
                    prop_assert!(
                        !narrowed.covers(used, &path) || line.covers(used, &path),
                        "{line} became {narrowed}"
                    );
                }
            }
        }
    }
}
