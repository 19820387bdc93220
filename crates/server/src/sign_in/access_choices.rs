//! The owner's choices about what a client may do with files, read from a form and shown in one.
//!
//! The page of consent and the page that changes an approval have the same choices. What they lead
//! to is never more than what the lines offer.

use std::collections::{BTreeMap, BTreeSet};

use stile_domain::path::SpacePath;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, narrow};
use stile_domain::sign_in::folder_choices::{FolderChoice, FolderChoices};

use super::parameters::FormParameters;
use super::settings::FolderLister;
use crate::pages::access_form::{
    AccessForm, NAMED_CHOICE, NAMED_FOLDER, NamedFolder, Opened, TREE_FIELD, TreeFolder,
    folder_field, line_field, verb_field,
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
            opened: if is_there { opened_of(&shown, &path) } else { Opened::Absent },
            choice: choice(&path),
            path,
        };
        // What was decided has a row before all else.
        let shut = self.shut.iter().map(Scope::path).filter(|path| self.is_there(path));
        let decided: BTreeSet<&SpacePath> = folders.keys().chain(shut).collect();
        let listed = self.two_levels("/");
        let others = listed.iter().filter(|path| !decided.contains(path));
        let tree = decided.iter().map(|path| row((*path).clone(), self.is_there(path)));
        let tree = tree.chain(others.map(|path| row(path.clone(), true))).collect();
        AccessForm {
            lines: self.lines.iter().map(|line| (line.clone(), self.narrower(line))).collect(),
            chosen,
            denials: self.given_up.clone(),
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
        let below = (self.folders)(self.subject, &format!("{}/", folder.trim_end_matches('/')));
        below.iter().filter_map(|path| SpacePath::parse(path).ok()).collect()
    }

    fn is_there(&self, folder: &SpacePath) -> bool {
        let parent = folder.split().map(|(parent, _)| parent);
        parent.is_some_and(|parent| self.below(parent.as_str()).contains(folder))
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

    /// Returns the folders in a folder, and then those in them: the first of each, the second of
    /// each, and so on, so that no folder with many others leaves out those of another one.
    fn two_levels(&self, folder: &str) -> Vec<SpacePath> {
        let mut all = self.below(folder);
        all.truncate(MAX_FOLDERS);
        let inner: Vec<Vec<SpacePath>> = match all.len() {
            MAX_FOLDERS => Vec::new(),
            _ => all.iter().map(|folder| self.below(folder.as_str())).collect(),
        };
        let most = inner.iter().map(Vec::len).max().unwrap_or_default();
        let in_turns = (0..most).flat_map(|turn| inner.iter().filter_map(move |it| it.get(turn)));
        let room = MAX_FOLDERS - all.len();
        all.extend(in_turns.take(room).cloned());
        all
    }

    /// Returns the folders to which a line can be narrowed: two levels below its own.
    fn narrower(&self, line: &AccessLine) -> Vec<SpacePath> {
        let scope = &line.scope;
        let Some(folder) = scope.folder() else { return Vec::new() };
        let mut all = self.two_levels(folder.as_str());
        all.retain(|path| narrow(scope, scope.verb(), path).is_some());
        all
    }
}

/// Returns what a form says about single folders: those with a row, and one that is named.
fn chosen_folders(form: &FormParameters) -> BTreeMap<SpacePath, FolderChoice> {
    let NamedFolder { path, choice, .. } = named_folder(form);
    let mut chosen: BTreeMap<SpacePath, FolderChoice> = path.zip(choice).into_iter().collect();
    for (path, word) in form.named_from(TREE_FIELD) {
        let Ok(folder) = SpacePath::parse(path) else { continue };
        match FolderChoice::named(word) {
            Some(choice) => chosen.insert(folder, choice),
            None => chosen.remove(&folder),
        };
    }
    chosen
}

/// Returns whether the folder that the owner named in a form is a path, if they named one.
pub fn names_a_folder(form: &FormParameters) -> bool {
    let NamedFolder { typed, path, .. } = named_folder(form);
    typed.is_empty() || path.is_some()
}

/// Returns the folder that the owner named in a form, as people type a path.
fn named_folder(form: &FormParameters) -> NamedFolder {
    let typed = form.get(NAMED_FOLDER).unwrap_or_default().trim();
    let path = match typed.trim_matches('/') {
        "" => None,
        inner => SpacePath::parse(&format!("/{inner}")).ok(),
    };
    let choice = form.get(NAMED_CHOICE).and_then(FolderChoice::named);
    NamedFolder { typed: typed.to_owned(), path, choice }
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

    fn sorted(text: &str) -> Vec<String> {
        let mut all: Vec<String> = text.split(' ').map(str::to_owned).collect();
        all.sort();
        all
    }

    #[test]
    fn no_folder_with_many_others_hides_those_beside_it_and_any_can_be_named() {
        let folders: FolderLister = Arc::new(|_, folder| match folder {
            "/" => ["/archive", "/journal", "/work"].map(str::to_owned).to_vec(),
            "/archive/" => (0..90).map(|year| format!("/archive/y{year:02}")).collect(),
            "/work/" => ["/work/plans", "/work/sub"].map(str::to_owned).to_vec(),
            "/work/sub/" => ["/work/sub/a", "/work/sub/b"].map(str::to_owned).to_vec(),
            _ => Vec::new(),
        });
        let choices = AccessChoices {
            lines: AskedScopes::parse(Some("write:/")).unwrap().lines(&Scopes::none()),
            given_up: Vec::new(),
            shut: Vec::new(),
            folders: &folders,
            subject: "ann",
        };
        let page = choices.form(None).markup().into_string();
        for folder in ["/journal", "/work", "/work/plans", "/archive/y00"] {
            assert!(page.contains(&format!("<option value=\"{folder}\">only in ")), "{folder}");
            assert!(page.contains(&format!("name=\"tree:{folder}\"")), "{folder}");
        }
        assert!(page.contains("more folders, and those further in, are as"), "{page}");

        let (line, named) = (("line:write:/", "on"), ("named-folder", "work/sub/a/"));
        let chosen = form(&[line, named, ("named-choice", "read")]);
        let left = "read:/ write:/* write:/archive/ write:/journal/ write:/work/* \
                    write:/work/plans/ write:/work/sub/* write:/work/sub/b/";
        assert_eq!(sorted(&choices.approved(&chosen).to_string()), sorted(left));
        let page = choices.form(Some(&chosen)).markup().into_string();
        assert!(page.contains("name=\"tree:/work/sub/a\""), "it has a row of its own: {page}");

        let again = form(&[line, named, ("named-choice", "read"), ("tree:/work/sub/a", "ticked")]);
        assert_eq!(choices.approved(&again).to_string(), "write:/", "the row counts");
        let absent = form(&[line, ("named-folder", "/wrok"), ("named-choice", "nothing")]);
        let page = choices.form(Some(&absent)).markup().into_string();
        assert!(page.contains("there is no such folder now"), "{page}");
        let unreadable = form(&[line, ("named-folder", "/a\\b"), ("named-choice", "nothing")]);
        assert!(!names_a_folder(&unreadable) && names_a_folder(&absent));
        let page = choices.form(Some(&unreadable)).markup().into_string();
        assert!(page.contains("That is no path of a folder"), "{page}");
    }

    #[test]
    fn a_form_opens_only_reads_and_shuts_single_folders() {
        let folders: FolderLister = Arc::new(|_, folder| match folder {
            "/" => ["/work", "/journal", "/private"].map(str::to_owned).to_vec(),
            "/work/" => vec!["/work/plans".to_owned()],
            _ => Vec::new(),
        });
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
