//! The names of files whose changes have no row, as the database keeps them.
//!
//! What others than the client made stands before what the client made itself, and where there is
//! no room for all names, takes its place. So a client cannot hide with bulk what an owner lost.

use serde::{Deserialize, Serialize};
use stile_domain::path::SpacePath;

use super::change_query::UnrecordedName;

/// How many files are named whose changes have no row, and the most bytes of their names.
const MOST_NAMED: usize = 64;
const MOST_BYTES: usize = 16 * 1024;

/// The names of the changes of one client.
#[derive(Debug, Default)]
pub(super) struct UnrecordedNames(Vec<Name>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    /// What somebody else made. Histories of before say that of all.
    Found(String),
    /// What the client itself made or moved, and each move.
    Entry {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        #[serde(default)]
        is_own: bool,
    },
}

impl Name {
    fn paths(&self) -> (&str, Option<&str>) {
        match self {
            Self::Found(path) => (path, None),
            Self::Entry { path, to, .. } => (path, to.as_deref()),
        }
    }

    fn is_own(&self) -> bool {
        matches!(self, Self::Entry { is_own: true, .. })
    }

    fn bytes(&self) -> usize {
        let (path, to) = self.paths();
        path.len() + to.map_or(0, str::len)
    }
}

impl UnrecordedNames {
    /// Reads what the database has. Names that cannot be read are left out.
    pub(super) fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// Returns the text that the database keeps.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_else(|_| "[]".to_owned())
    }

    /// Returns the names that are paths.
    pub(super) fn names(&self) -> Vec<UnrecordedName> {
        let name = |name: &Name| {
            let (from, to) = name.paths();
            let to = to.and_then(|to| SpacePath::parse(to).ok());
            Some(UnrecordedName { path: SpacePath::parse(from).ok()?, to })
        };
        self.0.iter().filter_map(name).collect()
    }

    /// Adds a name, unless it is there already. What the client made is its own from then on.
    pub(super) fn add(&mut self, (path, to): (&str, Option<&str>), is_own: bool) {
        let is_of = |name: &Name| {
            let (from, destination) = name.paths();
            name.is_own() && (destination.unwrap_or(from) == path)
        };
        let is_own = is_own || self.0.iter().any(is_of);
        let is_there = |name: &Name| name.paths() == (path, to) && (is_own || !name.is_own());
        if self.0.iter().any(is_there) {
            return;
        }
        let (path, to) = (path.to_owned(), to.map(str::to_owned));
        let name = match (to, is_own) {
            (None, false) => Name::Found(path),
            (to, is_own) => Name::Entry { path, to, is_own },
        };
        let at = match is_own {
            true => self.0.len(),
            false => self.0.iter().position(Name::is_own).unwrap_or(self.0.len()),
        };
        self.0.insert(at, name);
        while self.0.len() > MOST_NAMED
            || self.0.iter().map(Name::bytes).sum::<usize>() > MOST_BYTES
        {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &UnrecordedNames) -> Vec<String> {
        let name = |name: UnrecordedName| match name.to {
            Some(to) => format!("{} to {to}", name.path),
            None => name.path.to_string(),
        };
        UnrecordedNames::parse(&names.text()).names().into_iter().map(name).collect()
    }

    #[test]
    fn what_others_made_stands_first_and_takes_the_place_of_the_clients_own() {
        let mut names = UnrecordedNames::default();
        for number in 0..50 {
            names.add((&format!("/own{number}"), None), true);
        }
        names.add(("/note", None), false);
        names.add(("/a", Some("/b")), false);
        // A change of what the client made is one of its own, wherever it moved it.
        names.add(("/own1", Some("/moved")), false);
        names.add(("/moved", None), false);
        let told = told(&names);
        assert_eq!(told[..3], ["/note", "/a to /b", "/own0"].map(String::from));
        assert_eq!(told[52..], ["/own1 to /moved", "/moved"].map(String::from));
        for number in 0..100 {
            names.add((&format!("/note{number}"), None), false);
        }
        let own = names.0.iter().filter(|name| name.is_own()).count();
        assert_eq!((names.0.len(), own), (MOST_NAMED, 0));
    }

    #[test]
    fn names_of_a_history_of_before_are_read() {
        let mut names = UnrecordedNames::parse(r#"["/a","/b"]"#);
        names.add(("/c", None), false);
        assert_eq!(told(&names), ["/a", "/b", "/c"]);
        names.add(("/long", Some(&format!("/{}", "x".repeat(MOST_BYTES)))), false);
        assert_eq!(told(&names), ["/a", "/b", "/c"]);
    }
}
