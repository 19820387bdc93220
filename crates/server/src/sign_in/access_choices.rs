//! The owner's choices about what a client may do with files, read from a form and shown in one.
//!
//! The page of consent and the page that changes an approval have the same choices. What they lead
//! to is never more than what the lines offer.

use std::collections::{BTreeMap, BTreeSet};

use stile_domain::path::SpacePath;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::shown_paths::ShownPaths;
use stile_domain::sign_in::asked_access::{AccessLine, narrow};
use stile_domain::sign_in::folder_choices::{FolderChoice, FolderChoices};

use super::parameters::FormParameters;
use super::settings::FolderLister;
use crate::pages::access_form::{
    AccessForm, LineForm, NAMED_CHOICE, NAMED_FOLDER, NamedFolder, Opened, TREE_FIELD, TreeFolder,
    folder_field, line_field, tree_field, verb_field,
};

/// The most folders that a line or the tree offers. The page shows as many as fit.
const MAX_FOLDERS: usize = 120;

/// What the owner can choose of.
pub struct AccessChoices<'a> {
    /// The lines that the owner allows, narrows or removes.
    pub lines: Vec<AccessLine>,
    /// What the client gives up by itself.
    pub given_up: Vec<Scope>,
    /// What the owner took away before.
    pub shut: Vec<Scope>,
    /// What lists the folders below a folder.
    pub folders: &'a FolderLister,
    /// Whose folders are listed.
    pub subject: &'a str,
}

impl AccessChoices<'_> {
    /// Returns what the owner left: the lines that are ticked, as they were narrowed, with what was
    /// chosen for single folders. A line that cannot be narrowed as the form says is left out.
    pub fn approved(&self, form: &FormParameters) -> Scopes {
        let chosen = chosen_folders(form);
        let beside = self.beside(chosen.keys());
        let choices = FolderChoices::new(chosen, beside);
        choices.apply(&self.with_denials(self.ticked(form)), &self.offered())
    }

    /// Returns the form with what the owner chose so far.
    pub fn form<'a>(&self, chosen: Option<&'a FormParameters>) -> AccessForm<'a> {
        let shown = match chosen {
            Some(form) => self.approved(form),
            None => {
                let proposed = self.lines.iter().filter(|line| line.is_proposed());
                self.with_denials(proposed.map(|line| line.scope.clone()))
            }
        };
        let folders = chosen.map(chosen_folders).unwrap_or_default();
        let choice = |folder: &SpacePath| match chosen {
            Some(_) => folders.get(folder).copied(),
            None => {
                let is_shut = self.shut.iter().any(|scope| scope.path() == folder);
                is_shut.then_some(FolderChoice::Nothing)
            }
        };
        let row = |path: SpacePath, is_there: bool| TreeFolder {
            opened: match is_there {
                _ if shown.guarded(Verb::Read, &path).is_some() => Opened::Guarded,
                true => opened_of(&shown, &path),
                false => Opened::Absent,
            },
            choice: choice(&path),
            path,
        };
        // What was decided has a row before all else.
        let shut = self.shut.iter().map(Scope::path).filter(|path| self.is_there(path));
        let decided: BTreeSet<&SpacePath> = folders.keys().chain(shut).collect();
        let (listed, all) = self.two_levels("/");
        let others = listed.iter().filter(|path| !decided.contains(path));
        let tree = decided.iter().map(|path| row((*path).clone(), self.is_there(path)));
        let tree: Vec<TreeFolder> =
            tree.chain(others.map(|path| row(path.clone(), true))).collect();
        let lines = self.lines.iter().map(|line| LineForm {
            line: line.clone(),
            folders: self.narrower(line),
            is_absent: self.is_absent(&line.scope),
        });
        AccessForm {
            lines: lines.collect(),
            chosen,
            denials: self.given_up.clone(),
            unlisted: all - listed.len(),
            tree,
            named: chosen.map(named_folder).unwrap_or_default(),
        }
    }

    fn ticked(&self, form: &FormParameters) -> Vec<Scope> {
        let kept = self.lines.iter().filter_map(|AccessLine { scope, .. }| {
            form.get(&line_field(scope))?;
            let verb = match form.get(&verb_field(scope)) {
                Some("read") => Verb::Read,
                _ => scope.verb(),
            };
            let folder = match form.get(&folder_field(scope)) {
                Some(folder) => SpacePath::parse(folder).ok()?,
                None => scope.path().clone(),
            };
            narrow(scope, verb, &folder)
        });
        kept.collect()
    }

    fn with_denials(&self, kept: impl IntoIterator<Item = Scope>) -> Scopes {
        let denials = self.given_up.iter().chain(&self.shut).cloned();
        let mut all: Vec<Scope> = Vec::new();
        for scope in kept.into_iter().chain(denials) {
            if !all.contains(&scope) {
                all.push(scope);
            }
        }
        all.into_iter().collect()
    }

    fn offered(&self) -> Scopes {
        let lines = self.lines.iter().map(|line| &line.scope);
        lines.chain(&self.given_up).cloned().collect()
    }

    fn below(&self, folder: &str) -> Vec<SpacePath> {
        below((self.folders, self.subject), folder)
    }

    fn is_there(&self, folder: &SpacePath) -> bool {
        let found = (self.folders)(self.subject, folder.as_str());
        found.iter().any(|found| found == folder.as_str())
    }

    /// Returns whether a scope is of a folder that is not there, or of a path that looks like a
    /// folder that is there and is another one. What is guarded is listed to nobody.
    fn is_absent(&self, scope: &Scope) -> bool {
        let path = scope.path();
        let Some((parent, _)) = path.split() else { return false };
        if Scopes::none().guarded(Verb::Read, path).is_some() || self.is_there(path) {
            return false;
        }
        let looks_like = |other: &SpacePath| {
            let both = ShownPaths::of([path, other]);
            both.told_apart(path) != path.as_str() || both.told_apart(other) != other.as_str()
        };
        scope.folder().is_some()
            || !parent.is_root() && !self.is_there(&parent)
            || self.below(parent.as_str()).iter().any(looks_like)
    }

    /// Returns the folders in all those that lead to some: what the owner decides of one changes
    /// nothing of those beside it.
    fn beside<'f>(&self, folders: impl Iterator<Item = &'f SpacePath>) -> Vec<SpacePath> {
        let mut above = BTreeSet::new();
        for folder in folders {
            let mut here = folder.split().map(|(parent, _)| parent);
            while let Some(parent) = here {
                here = parent.split().map(|(parent, _)| parent);
                above.insert(parent);
            }
        }
        above.iter().flat_map(|folder| self.below(folder.as_str())).collect()
    }

    /// Returns the folders in a folder and those in them, and how many there are.
    fn two_levels(&self, folder: &str) -> (Vec<SpacePath>, usize) {
        let mut all = two_levels(folder, |folder| self.below(folder));
        let count = all.len();
        all.truncate(MAX_FOLDERS);
        (all, count)
    }

    /// Returns the folders to which a line can be narrowed: two levels below its own.
    fn narrower(&self, line: &AccessLine) -> Vec<SpacePath> {
        let scope = &line.scope;
        let Some(folder) = scope.folder() else { return Vec::new() };
        let (mut all, _) = self.two_levels(folder.as_str());
        all.retain(|path| narrow(scope, scope.verb(), path).is_some());
        all
    }
}

/// Returns the folders directly in a folder of a person.
pub fn below((folders, subject): (&FolderLister, &str), folder: &str) -> Vec<SpacePath> {
    let below = folders(subject, &format!("{}/", folder.trim_end_matches('/')));
    below.iter().filter_map(|path| SpacePath::parse(path).ok()).collect()
}

/// Returns a path as people type it: with or without the slash at its beginning and its end.
pub fn typed_path(typed: &str) -> Option<SpacePath> {
    match typed.trim().trim_matches('/') {
        "" => None,
        inner => SpacePath::parse(&format!("/{inner}")).ok(),
    }
}

/// Returns the folders in a folder, and then those in them: the first of each, the second of each,
/// and so on, so that no folder with many others leaves out those of another one. Where there are
/// too many to show, those further in are not looked up.
pub fn two_levels(folder: &str, below: impl Fn(&str) -> Vec<SpacePath>) -> Vec<SpacePath> {
    let mut all = below(folder);
    let inner: Vec<Vec<SpacePath>> = match all.len() < MAX_FOLDERS {
        true => all.iter().map(|folder| below(folder.as_str())).collect(),
        false => Vec::new(),
    };
    let most = inner.iter().map(Vec::len).max().unwrap_or_default();
    let in_turns = (0..most).flat_map(|turn| inner.iter().filter_map(move |it| it.get(turn)));
    all.extend(in_turns.cloned());
    all
}

/// Returns what a form says about single folders: those whose rows say something, and one that is
/// named. A row that says nothing else than the lines does not take back what was typed.
fn chosen_folders(form: &FormParameters) -> BTreeMap<SpacePath, FolderChoice> {
    let NamedFolder { path, choice, .. } = named_folder(form);
    let mut chosen: BTreeMap<SpacePath, FolderChoice> = path.zip(choice).into_iter().collect();
    let rows = form
        .named_from(TREE_FIELD)
        .filter_map(|(path, word)| SpacePath::parse(path).ok().zip(FolderChoice::named(word)));
    chosen.extend(rows);
    chosen
}

/// Returns whether what a form says of the folder that the owner named can be carried out: it is a
/// path, and its row says nothing else.
pub fn names_a_folder(form: &FormParameters) -> bool {
    let named = named_folder(form);
    (named.typed.is_empty() || named.path.is_some()) && !named.differs_from_its_row
}

/// Returns the folder that the owner named in a form, as people type a path.
fn named_folder(form: &FormParameters) -> NamedFolder {
    let typed = form.get(NAMED_FOLDER).unwrap_or_default().trim();
    let path = typed_path(typed);
    let choice = form.get(NAMED_CHOICE).and_then(FolderChoice::named);
    let row = path.as_ref().and_then(|path| FolderChoice::named(form.get(&tree_field(path))?));
    let differs_from_its_row = row.zip(choice).is_some_and(|(row, typed)| row != typed);
    NamedFolder { typed: typed.to_owned(), path, choice, differs_from_its_row }
}

/// Returns what scopes open of a folder.
fn opened_of(scopes: &Scopes, folder: &SpacePath) -> Opened {
    let all = |verb| scopes.cover_subtree(verb, folder);
    let some = |verb| scopes.cover_some_below(verb, folder);
    match () {
        () if all(Verb::Write) => Opened::Change,
        () if all(Verb::Read) && !some(Verb::Write) => Opened::Read,
        () if all(Verb::Append) && !some(Verb::Read) => Opened::Append,
        () if some(Verb::Read) || some(Verb::Write) || some(Verb::Append) => Opened::Part,
        () => Opened::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stile_domain::percent::encode_component;
    use stile_domain::sign_in::asked_access::AskedScopes;

    use super::*;

    #[test]
    fn a_folder_is_as_open_as_the_lines_say() {
        let of = |claim: &str, folder: &str| {
            opened_of(&Scopes::parse_claim(claim).unwrap(), &SpacePath::parse(folder).unwrap())
        };
        assert_eq!(of("read:/ write:/work/", "/work"), Opened::Change);
        assert_eq!(of("read:/ write:/work/", "/notes"), Opened::Read);
        assert_eq!(of("append:/logs/", "/logs"), Opened::Append);
        assert_eq!(of("read:/work/a/", "/work"), Opened::Part);
        assert_eq!(of("read:/ write:/work/a/", "/work"), Opened::Part);
        assert_eq!(of("read:/work/", "/notes"), Opened::Nothing);
        assert_eq!(of("read:/ deny:/work", "/work"), Opened::Nothing);
    }

    fn form(pairs: &[(&str, &str)]) -> FormParameters {
        let pairs = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)));
        FormParameters::parse(&pairs.collect::<Vec<_>>().join("&")).unwrap()
    }

    /// Returns what lists folders as the server does.
    fn lister(some: &[&str], more: &[String]) -> FolderLister {
        let all: Vec<String> = some.iter().map(|path| (*path).to_owned()).collect();
        let all = [&all[..], more].concat();
        Arc::new(move |_, begun| {
            let continues =
                |path: &&String| path.strip_prefix(begun).is_some_and(|rest| !rest.contains('/'));
            all.iter().filter(continues).cloned().collect()
        })
    }

    #[test]
    fn a_line_about_a_folder_that_is_not_there_says_so() {
        let folders = lister(&["/caf\u{e9}", "/work"], &[]);
        let said = |scope: &str| {
            let choices = AccessChoices {
                lines: AskedScopes::parse(Some(scope)).unwrap().lines(&Scopes::none()),
                given_up: Vec::new(),
                shut: Vec::new(),
                folders: &folders,
                subject: "ann",
            };
            choices.form(None).lines[0].is_absent
        };
        for absent in ["write:/cafe%CC%81/", "write:/cafe%CC%81", "read:/wrok/", "read:/no/a.md"] {
            assert!(said(absent), "{absent}");
        }
        for there in ["write:/caf%C3%A9/", "read:/work", "read:/", "read:/a.md", "read:/.ssh/"] {
            assert!(!said(there), "{there}");
        }
    }

    fn sorted(text: &str) -> Vec<String> {
        let mut all: Vec<String> = text.split(' ').map(str::to_owned).collect();
        all.sort();
        all
    }

    #[test]
    fn no_folder_with_many_others_hides_those_beside_it_and_any_can_be_named() {
        let years: Vec<String> = (0..590).map(|year| format!("/archive/y{year:03}")).collect();
        let some = ["/archive", "/journal", "/work", "/work/plans", "/work/sub", "/work/sub/a"];
        let folders = lister(&[&some[..], &["/work/sub/b"]].concat(), &years);
        let choices = AccessChoices {
            lines: AskedScopes::parse(Some("write:/")).unwrap().lines(&Scopes::none()),
            given_up: Vec::new(),
            shut: Vec::new(),
            folders: &folders,
            subject: "ann",
        };
        let page = choices.form(None).markup(60_000).into_string();
        for folder in ["/journal", "/work", "/work/plans", "/archive/y000"] {
            assert!(page.contains(&format!("<option value=\"{folder}\">only in ")), "{folder}");
            assert!(page.contains(&format!("name=\"tree:{folder}\"")), "{folder}");
        }
        // Every folder that is not shown is counted.
        let rows = page.matches("<bdi>").count();
        let left_out = format!("{} more folders, and those further in, are as", 595 - rows);
        assert!(page.contains(&left_out), "{left_out}: {page}");
        let last = [("line:write:/", "on"), ("named-folder", "/archive/y589")];
        let last = form(&[last[0], last[1], ("named-choice", "nothing")]);
        let page = choices.form(Some(&last)).markup(60_000).into_string();
        assert!(!page.contains("there is no such folder now"), "{page}");

        let (line, named) = (("line:write:/", "on"), ("named-folder", "work/sub/a/"));
        let chosen = form(&[line, named, ("named-choice", "read")]);
        let left = "read:/ write:/* write:/archive/ write:/journal/ write:/work/* \
                    write:/work/plans/ write:/work/sub/* write:/work/sub/b/";
        assert_eq!(sorted(&choices.approved(&chosen).to_string()), sorted(left));
        let page = choices.form(Some(&chosen)).markup(60_000).into_string();
        assert!(page.contains("name=\"tree:/work/sub/a\""), "it has a row of its own: {page}");

        // What is typed is the later word, so a row that says nothing does not take it back. Where
        // the row says something else, nobody knows which one is meant.
        let with_row =
            |word| form(&[line, named, ("named-choice", "read"), ("tree:/work/sub/a", word)]);
        assert_eq!(sorted(&choices.approved(&with_row("ticked")).to_string()), sorted(left));
        assert!(names_a_folder(&with_row("ticked")) && names_a_folder(&with_row("read")));
        let differs = with_row("nothing");
        assert!(!names_a_folder(&differs));
        let page = choices.form(Some(&differs)).markup(60_000).into_string();
        assert!(page.contains("says something else of that folder"), "{page}");
        // What was chosen of more folders than there is room for stays in the form.
        let rows: Vec<String> = years.iter().take(200).map(|year| format!("tree:{year}")).collect();
        let rows: Vec<(&str, &str)> = rows.iter().map(|row| (row.as_str(), "nothing")).collect();
        let many = form(&[&[line], &rows[..]].concat());
        let page = choices.form(Some(&many)).markup(60_000).into_string();
        assert!(page.matches("<bdi>").count() < 200, "not all rows have room");
        for (name, _) in &rows {
            assert_eq!(page.matches(&format!("name=\"{name}\"")).count(), 1, "{name}");
        }
        let absent = form(&[line, ("named-folder", "/wrok"), ("named-choice", "nothing")]);
        let page = choices.form(Some(&absent)).markup(60_000).into_string();
        assert!(page.contains("there is no such folder now"), "{page}");
        let unreadable = form(&[line, ("named-folder", "/a\\b"), ("named-choice", "nothing")]);
        assert!(!names_a_folder(&unreadable) && names_a_folder(&absent));
        let page = choices.form(Some(&unreadable)).markup(60_000).into_string();
        assert!(page.contains("That is no path of a folder"), "{page}");
    }

    #[test]
    fn a_form_opens_only_reads_and_shuts_single_folders() {
        let folders = lister(&["/work", "/journal", "/private", "/work/plans"], &[]);
        let choices = AccessChoices {
            lines: AskedScopes::parse(Some("read:/")).unwrap().lines(&Scopes::none()),
            given_up: Vec::new(),
            shut: vec![Scope::parse_raw("deny:/old").unwrap()],
            folders: &folders,
            subject: "ann",
        };
        let chosen = form(&[
            ("line:read:/", "on"),
            ("tree:/private", "nothing"),
            ("tree:/work/plans", "change"),
            ("tree:/journal", "everything"),
        ]);
        let left = "read:/ deny:/old write:/work/plans/ deny:/private";
        let approved = choices.approved(&chosen);
        assert_eq!(sorted(&approved.to_string()), sorted(left));
        let shown = choices.form(Some(&chosen));
        let opened: Vec<(&str, Opened)> =
            shown.tree.iter().map(|folder| (folder.path.as_str(), folder.opened)).collect();
        let (change, read) = (Opened::Change, Opened::Read);
        let expected = [
            ("/private", Opened::Nothing),
            ("/work/plans", change),
            ("/work", Opened::Part),
            ("/journal", read),
        ];
        assert_eq!(opened, expected);
        assert_eq!(choices.approved(&form(&[])).to_string(), "deny:/old");
    }
}
