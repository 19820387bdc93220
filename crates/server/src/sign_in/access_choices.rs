//! The owner's choices about what a client may do with files, read from a form and shown in one.
//!
//! The page of consent and the page that changes an approval have the same choices. What they lead
//! to is never more than what the lines offer.

use stile_domain::path::SpacePath;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, narrow};
use stile_domain::sign_in::folder_choices::{FolderChoice, FolderChoices};

use super::parameters::FormParameters;
use super::settings::FolderLister;
use crate::pages::access_form::{
    AccessForm, Opened, TreeFolder, folder_field, line_field, tree_field, verb_field,
};

/// The most folders that a line offers.
const MAX_FOLDERS: usize = 60;
/// The most folders of the tree, and the most top folders. With their choices they fit into 60 KB.
const MAX_TREE: usize = 60;
const MAX_TOP: usize = 40;

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
        let tree = self.tree();
        let chosen = tree.iter().filter_map(|folder| {
            let word = form.get(&tree_field(folder))?;
            Some((folder.clone(), FolderChoice::named(word)?))
        });
        let choices = FolderChoices::new(chosen, tree.iter().cloned());
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
        let choice = |folder: &SpacePath| match chosen {
            Some(form) => form.get(&tree_field(folder)).and_then(FolderChoice::named),
            None => {
                let is_shut = self.shut.iter().any(|scope| scope.path() == folder);
                is_shut.then_some(FolderChoice::Nothing)
            }
        };
        let row = |path: SpacePath| TreeFolder {
            opened: opened_of(&shown, &path),
            choice: choice(&path),
            path,
        };
        AccessForm {
            lines: self.lines.iter().map(|line| (line.clone(), self.narrower(line))).collect(),
            chosen,
            denials: self.given_up.clone(),
            tree: self.tree().into_iter().map(row).collect(),
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

    fn below(&self, folder: &str) -> Vec<String> {
        (self.folders)(self.subject, &format!("{}/", folder.trim_end_matches('/')))
    }

    /// Returns the top folders and those directly in them, each before those in it.
    fn tree(&self) -> Vec<SpacePath> {
        let top: Vec<String> = self.below("/").into_iter().take(MAX_TOP).collect();
        let mut room = MAX_TREE.saturating_sub(top.len());
        let mut tree = Vec::new();
        for folder in top {
            let inner: Vec<String> = self.below(&folder).into_iter().take(room).collect();
            room -= inner.len();
            tree.push(folder);
            tree.extend(inner);
        }
        tree.iter().filter_map(|path| SpacePath::parse(path).ok()).collect()
    }

    /// Returns the folders to which a line can be narrowed: two levels below its own.
    fn narrower(&self, line: &AccessLine) -> Vec<String> {
        let scope = &line.scope;
        let Some(folder) = scope.folder() else { return Vec::new() };
        let mut all = Vec::new();
        for child in self.below(folder.as_str()) {
            let grandchildren = self.below(&child);
            all.push(child);
            all.extend(grandchildren);
            if all.len() >= MAX_FOLDERS {
                break;
            }
        }
        let is_narrower = |path: &String| {
            SpacePath::parse(path).is_ok_and(|path| narrow(scope, scope.verb(), &path).is_some())
        };
        all.retain(is_narrower);
        all.truncate(MAX_FOLDERS);
        all
    }
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
        let form = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                format!("{}={}", encode_component(name), encode_component(value))
            });
            FormParameters::parse(&pairs.collect::<Vec<_>>().join("&")).unwrap()
        };
        let chosen = form(&[
            ("line:read:/", "on"),
            ("tree:/private", "nothing"),
            ("tree:/work/plans", "change"),
            ("tree:/elsewhere", "change"),
            ("tree:/journal", "everything"),
        ]);
        let left = "read:/ deny:/old write:/work/plans/ deny:/private";
        let approved = choices.approved(&chosen);
        let sorted = |text: &str| {
            let mut all: Vec<String> = text.split(' ').map(str::to_owned).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&approved.to_string()), sorted(left));
        let shown = choices.form(Some(&chosen));
        let opened: Vec<(&str, Opened)> =
            shown.tree.iter().map(|folder| (folder.path.as_str(), folder.opened)).collect();
        let (change, read) = (Opened::Change, Opened::Read);
        let expected = [
            ("/work", Opened::Part),
            ("/work/plans", change),
            ("/journal", read),
            ("/private", Opened::Nothing),
        ];
        assert_eq!(opened, expected);
        assert_eq!(choices.approved(&form(&[])).to_string(), "deny:/old");
    }
}
