//! Scopes that may mean something else than their owner thinks.
//!
//! A right is made all the same. Wherever an owner types or allows one, the doubt is said.

use std::io;
use std::path::Path;

use stile_domain::path::SpacePath;
use stile_domain::scope::{Scope, Verb};
use stile_domain::unseen::shown;

/// Returns what the owner should know about scopes that may not mean what was meant: those with a
/// `*` that is no wildcard, and those of a place where nothing is in the folder.
pub fn doubts<'s>(
    scopes: impl IntoIterator<Item = &'s Scope>,
    folder: Option<&Path>,
) -> Vec<String> {
    let doubt = |scope: &Scope| {
        let (raw, path) = (scope.to_raw(), scope.path().to_string());
        if path.contains('*') {
            return Some(format!(
                "in `{raw}` the `*` is a part of a name; as a wildcard it stands alone at \
                 the end, as in `read:/notes/*`"
            ));
        }
        let folder = folder?;
        let is_missing = match scope.verb() {
            Verb::Deny => !denies_something(folder, scope),
            _ => {
                let place = folder.join(path.trim_start_matches('/'));
                place.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            }
        };
        is_missing
            .then(|| format!("nothing is at `{path}` now, so `{raw}` concerns nothing that exists"))
    };
    scopes.into_iter().filter_map(doubt).map(|doubt| shown(&doubt).into_owned()).collect()
}

/// Whether something in a folder has the path that a scope takes away, in whatever spelling. A
/// folder that cannot be looked into proves nothing.
fn denies_something(folder: &Path, scope: &Scope) -> bool {
    let mut places = vec![(folder.to_owned(), SpacePath::root())];
    let mut wanted = SpacePath::root();
    for name in scope.path().components() {
        let Some(next) = wanted.child(name) else { return true };
        wanted = next;
        let level = Scope::denied(&wanted);
        let mut deeper = Vec::new();
        for (place, path) in places {
            let entries = match place.read_dir() {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
                Err(_) => return true,
            };
            for entry in entries.flatten() {
                let child = entry.file_name().to_str().and_then(|name| path.child(name));
                if let Some(child) = child.filter(|child| level.denies(child)) {
                    deeper.push((entry.path(), child));
                }
            }
        }
        places = deeper;
    }
    !places.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_domain::scope::Scopes;

    #[test]
    fn a_scope_that_may_be_a_mistake_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("notes")).unwrap();
        std::fs::write(folder.path().join("notes/Gruß.md"), "").unwrap();
        let doubts = |scope: &str| {
            let scopes = Scopes::from_iter([Scope::parse_raw(scope).unwrap()]);
            doubts(scopes.iter(), Some(folder.path()))
        };
        for scope in [
            "read:/", "read:/*", "write:/notes/", "write:/notes/*", "deny:/notes", "deny:/NOTES",
            "deny:/Notes/GRUSS.md",
        ] {
            assert!(doubts(scope).is_empty(), "{scope}");
        }
        for (scope, words) in [
            ("write:/x*", "in `write:/x*` the `*` is a part of a name"),
            ("read:/no*es/", "is a part of a name"),
            ("write:/*.md", "is a part of a name"),
            ("read:/note/", "nothing is at `/note` now"),
            ("deny:/notes/secrets", "nothing is at `/notes/secrets` now"),
        ] {
            let said = doubts(scope);
            assert!(said.len() == 1 && said[0].contains(words), "{scope}: {said:?}");
        }
        let typo = Scopes::from_iter([Scope::parse_raw("read:/note/").unwrap()]);
        assert!(super::doubts(typo.iter(), None).is_empty(), "no folder is known");
    }
}
