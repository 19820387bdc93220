//! The flags that say what a client may do: `--scope`, `--deny`, `--unguard`, `--grant`, `--owner`.

use std::io;
use std::path::Path;

use clap::ArgMatches;
use stile_domain::path::SpacePath;
use stile_domain::records::authority::{RecordsClaim, is_grant_id};
use stile_domain::scope::{Scope, Scopes, Verb};

use crate::cli::failure::Failure;
use crate::cli::terminal;

/// Parses `--scope`; `None` if it was not given. Prints each scope that is not what was typed.
pub(crate) fn scopes(matches: &ArgMatches) -> Result<Option<Scopes>, Failure> {
    let Some(texts) = matches.get_many::<String>("scope") else { return Ok(None) };
    let mut scopes = Vec::new();
    for text in texts {
        if has_another_scope(text) {
            return Err(Failure::Usage(format!(
                "--scope: `{text}` looks like several scopes; give each with a `--scope` of its own"
            )));
        }
        let scope = Scope::parse_raw(text)
            .map_err(|error| Failure::Usage(format!("--scope: `{text}`: {error}")))?;
        if scope.to_raw() != *text {
            terminal::print_to_stderr(&format!("--scope: `{text}` means `{}`", scope.to_raw()))?;
        }
        scopes.push(scope);
    }
    Ok(Some(scopes.into_iter().collect()))
}

/// Whether a word after the first is a scope by itself, as in `read:/ write:/`.
fn has_another_scope(text: &str) -> bool {
    text.split_whitespace()
        .skip(1)
        .any(|word| word.contains(":/") && Scope::parse_raw(word).is_ok())
}

/// Adds what `--deny` takes away, and what `--unguard` lifts.
pub(crate) fn with_denials(scopes: Scopes, matches: &ArgMatches) -> Result<Scopes, Failure> {
    let mut all: Vec<Scope> = scopes.iter().cloned().collect();
    for text in matches.get_many::<String>("deny").into_iter().flatten() {
        let path = SpacePath::parse(text)
            .map_err(|error| Failure::Usage(format!("--deny: `{text}` {error}")))?;
        all.push(Scope::denied(&path));
    }
    for text in matches.get_many::<String>("unguard").into_iter().flatten() {
        let path = SpacePath::parse(text)
            .map_err(|error| Failure::Usage(format!("--unguard: `{text}` {error}")))?;
        all.push(Scope::unguarded(&path));
    }
    Ok(all.into_iter().collect())
}

/// Parses `--grant`; `None` if it was not given.
fn grant(matches: &ArgMatches) -> Result<Option<RecordsClaim>, Failure> {
    let Some(id) = matches.get_one::<String>("grant") else { return Ok(None) };
    if !is_grant_id(id) {
        let message =
            format!("--grant: `{id}` is not the identifier of a grant: 1 to 64 of A-Z a-z 0-9 _ -");
        return Err(Failure::Usage(message));
    }
    Ok(Some(RecordsClaim::Grant(id.as_str().into())))
}

/// Parses `--grant` and `--owner`. Without either the client sees no records.
pub(crate) fn records_claim(matches: &ArgMatches) -> Result<RecordsClaim, Failure> {
    let owner = matches.get_flag("owner").then_some(RecordsClaim::Owner);
    Ok(grant(matches)?.or(owner).unwrap_or_default())
}

/// Returns what the owner should know about scopes that may not mean what was meant: those with a
/// `*` that is no wildcard, and those of a place where nothing is in the folder.
pub(crate) fn doubts(scopes: &Scopes, folder: Option<&Path>) -> Vec<String> {
    let doubt = |scope: &Scope| {
        let (raw, path) = (scope.to_raw(), scope.path().to_string());
        if path.contains('*') {
            return Some(format!(
                "note: in `{raw}` the `*` is a part of a name; as a wildcard it stands alone at \
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
        is_missing.then(|| {
            format!("note: nothing is at `{path}` now, so `{raw}` concerns nothing that exists")
        })
    };
    scopes.iter().filter_map(doubt).collect()
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

    #[test]
    fn several_scopes_in_one_flag_are_no_path_with_a_space() {
        assert!(has_another_scope("read:/ write:/"));
        assert!(has_another_scope("read:/a  deny:/b"));
        assert!(!has_another_scope("read:/my notes/"));
        assert!(!has_another_scope("read:/"));
    }

    #[test]
    fn a_scope_that_may_be_a_mistake_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("notes")).unwrap();
        std::fs::write(folder.path().join("notes/Gruß.md"), "").unwrap();
        let doubts = |scope: &str| {
            let scopes = Scopes::from_iter([Scope::parse_raw(scope).unwrap()]);
            doubts(&scopes, Some(folder.path()))
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
        assert!(super::doubts(&typo, None).is_empty(), "no folder is known");
    }
}
