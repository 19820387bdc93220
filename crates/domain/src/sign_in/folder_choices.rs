//! What the owner decides about single folders: that a client reads and changes, only reads, or
//! never touches a folder.
//!
//! A choice narrows what the lines of an approval allow. A folder that is opened gets no more than
//! some line could allow, which the page offers. Scopes have no word for "but only read": where a
//! folder below a changed one is only read, changing is said of each of the other folders that the
//! page knows, and of the files beside them. A folder that is made there later is then only read.

use std::collections::{BTreeMap, BTreeSet};

use super::asked_access::narrow;
use crate::path::SpacePath;
use crate::scope::{Scope, Scopes, Verb};

/// What a client may do in a folder, as the owner chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderChoice {
    /// The client reads and changes everything.
    Change,
    /// The client reads everything and changes nothing.
    Read,
    /// The client does not learn that the folder exists.
    Nothing,
}

impl FolderChoice {
    /// All choices, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Read, Self::Change];

    /// Returns the word of a choice in a form.
    pub fn word(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Read => "read",
            Self::Nothing => "nothing",
        }
    }

    /// Returns the choice with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.word() == word)
    }
}

/// The choices about folders, and the folders that the page knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderChoices {
    chosen: BTreeMap<SpacePath, FolderChoice>,
    known: BTreeSet<SpacePath>,
}

impl FolderChoices {
    /// Makes choices about some of the folders that the page knows.
    pub fn new(
        chosen: impl IntoIterator<Item = (SpacePath, FolderChoice)>,
        known: impl IntoIterator<Item = SpacePath>,
    ) -> Self {
        let is_folder = |(folder, _): &(SpacePath, FolderChoice)| !folder.is_root();
        Self {
            chosen: chosen.into_iter().filter(is_folder).collect(),
            known: known.into_iter().filter(|folder| !folder.is_root()).collect(),
        }
    }

    /// Returns what is left of the `approved` scopes. `offered` are all scopes that the owner could
    /// approve, with what the client gives up by itself: a folder that is opened gets no more than
    /// they allow. If a client was denied a folder before, and the owner now opens that folder, the
    /// denial is removed.
    #[must_use]
    pub fn apply(&self, approved: &Scopes, offered: &Scopes) -> Scopes {
        let mut all: Vec<Scope> = approved.iter().cloned().collect();
        // From the top down, so that a folder is decided after the one that it is in.
        for (folder, choice) in &self.chosen {
            let is_shut = |scope: &Scope| scope.verb() == Verb::Deny && scope.path() == folder;
            let is_own = |scope: &Scope| offered.iter().any(|own| own == scope);
            if *choice != FolderChoice::Nothing {
                all.retain(|scope| !is_shut(scope) || is_own(scope));
            }
            match choice {
                FolderChoice::Change => add(&mut all, offered, Verb::Write, folder),
                FolderChoice::Read => {
                    let parts = all.iter().flat_map(|scope| self.without_changing(scope, folder));
                    all = parts.collect();
                    add(&mut all, offered, Verb::Read, folder);
                }
                FolderChoice::Nothing => {
                    let is_outside = |scope: &Scope| !folder.covers(scope.path());
                    all.retain(|scope| is_outside(scope) || scope.verb() == Verb::Deny);
                    all.push(Scope::denied(folder));
                }
            }
        }
        let mut left: Vec<Scope> = Vec::new();
        for scope in all {
            if !left.contains(&scope) {
                left.push(scope);
            }
        }
        left.into_iter().collect::<Scopes>().without_denied()
    }

    /// Returns what is left of a scope if it no longer changes a folder. It reads as before.
    fn without_changing(&self, scope: &Scope, folder: &SpacePath) -> Vec<Scope> {
        if !matches!(scope.verb(), Verb::Write | Verb::Append) {
            return vec![scope.clone()];
        }
        let changes = scope.verb() == Verb::Write;
        let reads = changes.then(|| scope.with_verb(Verb::Read)).flatten();
        if folder.covers(scope.path()) {
            return reads.into_iter().collect();
        }
        let reaches_below = |inside: SpacePath| scope.covers(scope.verb(), &inside);
        if !scope.path().covers(folder) || !folder.child("x").is_some_and(reaches_below) {
            return vec![scope.clone()];
        }
        // The scope is of a folder above. It is said anew of the parts beside the way down.
        let mut left: Vec<Scope> = reads.into_iter().collect();
        let mut here = scope.path().clone();
        while here != *folder {
            let Some(next) = below(&here, folder) else { break };
            left.extend(Scope::children(scope.verb(), &here));
            let beside = self.known.iter().filter(|known| {
                known.split().is_some_and(|(parent, _)| parent == here) && **known != next
            });
            left.extend(beside.filter_map(|known| narrow(scope, scope.verb(), known)));
            here = next;
        }
        left
    }
}

/// Adds a right on a folder, if it is offered and not there.
fn add(all: &mut Vec<Scope>, offered: &Scopes, verb: Verb, folder: &SpacePath) {
    let is_there = all.iter().any(|scope| narrow(scope, verb, folder).is_some());
    if !is_there {
        all.extend(offered.iter().find_map(|scope| narrow(scope, verb, folder)));
    }
}

/// Returns the child of `folder` that leads to `to`, which is below.
fn below(folder: &SpacePath, to: &SpacePath) -> Option<SpacePath> {
    let deep = folder.components().count();
    folder.child(to.components().nth(deep)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> SpacePath {
        SpacePath::parse(text).unwrap()
    }

    fn applied(approved: &str, offered: &str, chosen: &[(&str, FolderChoice)]) -> String {
        let known = ["/a", "/a/x", "/a/y", "/b", "/c"].map(path);
        let chosen = chosen.iter().map(|(folder, choice)| (path(folder), *choice));
        let choices = FolderChoices::new(chosen, known);
        choices.apply(&Scopes::from_claim(approved), &Scopes::from_claim(offered)).to_string()
    }

    #[test]
    fn a_folder_is_shut_opened_or_only_read() {
        use FolderChoice::{Change, Nothing, Read};
        for (approved, chosen, left) in [
            ("read:/", ("/b", Nothing), "read:/ deny:/b"),
            ("read:/ write:/b/", ("/b", Nothing), "read:/ deny:/b"),
            ("read:/", ("/a/x", Change), "read:/ write:/a/x/"),
            ("write:/b/", ("/b", Read), "read:/b/"),
            ("write:/", ("/b", Read), "read:/ write:/* write:/a/ write:/c/"),
            ("write:/a/", ("/a/x", Read), "read:/a/ write:/a/* write:/a/y/"),
            // What was shut is opened again, and stays shut if the client gave it up by itself.
            ("read:/ deny:/b", ("/b", Change), "read:/ write:/b/"),
            ("read:/ deny:/c", ("/c", Read), "read:/ deny:/c"),
        ] {
            assert_eq!(applied(approved, "read:/ write:/ deny:/c", &[chosen]), left, "{approved}");
        }
        // Where a folder is shut and another one only read, nothing is said of what is shut.
        let both = [("/a", Nothing), ("/b", Read)];
        assert_eq!(applied("write:/", "write:/", &both), "read:/ write:/* write:/c/ deny:/a");
        // What nobody offered is not opened.
        assert_eq!(applied("read:/a/", "read:/a/", &[("/b", Change), ("/c", Read)]), "read:/a/");
    }

    fn any_scopes() -> impl Strategy<Value = Scopes> {
        let scope =
            ("(read|write|append)", "(/[abc]){0,2}", "(/|/\\*|)").prop_map(|(verb, path, end)| {
                let end = if path.is_empty() && end.is_empty() { "/".to_owned() } else { end };
                Scope::parse_raw(&format!("{verb}:{path}{end}")).unwrap()
            });
        proptest::collection::vec(scope, 0..4).prop_map(|all| all.into_iter().collect())
    }

    fn any_choices() -> impl Strategy<Value = FolderChoices> {
        let folder = "(/[abc]){1,2}".prop_map(|text| path(&text));
        let choice = (0..3_usize).prop_map(|at| FolderChoice::ALL[at]);
        let known = proptest::collection::vec("(/[abc]){1,2}", 0..8);
        (proptest::collection::vec((folder, choice), 0..4), known).prop_map(|(chosen, known)| {
            FolderChoices::new(chosen, known.iter().map(|text| path(text)))
        })
    }

    proptest! {
        #[test]
        fn choices_give_what_is_offered_and_what_they_say(
            approved in any_scopes(), more in any_scopes(), choices in any_choices(),
            at in "(/[abc]){1,4}",
        ) {
            let offered: Scopes = approved.iter().chain(more.iter()).cloned().collect();
            let left = choices.apply(&approved, &offered);
            let at = path(&at);
            let is_read = |choice: &FolderChoice| *choice == FolderChoice::Read;
            // A folder itself is also one of the files beside it.
            prop_assume!(!choices.chosen.contains_key(&at));
            for verb in [Verb::Read, Verb::Write, Verb::Append] {
                prop_assert!(!left.cover(verb, &at) || offered.cover(verb, &at), "{left}");
            }
            // The choice about the folder nearest above is the one that counts.
            let above = choices.chosen.iter().rev().filter(|(folder, _)| folder.covers(&at));
            let chosen: Vec<FolderChoice> = above.map(|(_, choice)| *choice).collect();
            if chosen.contains(&FolderChoice::Nothing) {
                prop_assert!(!left.cover(Verb::Read, &at) && !left.cover(Verb::Append, &at));
            } else if chosen.first() == Some(&FolderChoice::Read) {
                prop_assert!(!left.cover(Verb::Write, &at), "{left}");
                prop_assert!(!approved.cover(Verb::Read, &at) || left.cover(Verb::Read, &at));
            } else if chosen.is_empty() && !choices.chosen.values().any(is_read) {
                for verb in [Verb::Read, Verb::Write, Verb::Append] {
                    prop_assert!(!approved.cover(verb, &at) || left.cover(verb, &at), "{left}");
                }
            }
        }
    }
}
