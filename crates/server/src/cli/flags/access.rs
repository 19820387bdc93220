//! The flags that say what a client may do: `--scope`, `--deny`, `--unguard`, `--grant`, `--owner`.

use std::path::Path;

use clap::ArgMatches;
use stile_domain::client_name::is_like_a_flag;
use stile_domain::path::SpacePath;
use stile_domain::records::authority::{RecordsClaim, is_grant_id};
use stile_domain::scope::{Scope, Scopes};

use crate::auth::scope_doubts::doubts;
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

/// Refuses a name of a client that a command would take for a flag. `outcome` says what was not
/// done.
pub(crate) fn check_client_name(name: &str, outcome: &str) -> Result<(), Failure> {
    if !is_like_a_flag(name) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "`{}` begins with a dash, so commands would take the name of the client for a flag; \
         {outcome}: give another name, such as cursor",
        name.escape_debug()
    )))
}

/// Parses `--grant` and `--owner`. Without either the client sees no records.
pub(crate) fn records_claim(matches: &ArgMatches) -> Result<RecordsClaim, Failure> {
    let owner = matches.get_flag("owner").then_some(RecordsClaim::Owner);
    Ok(grant(matches)?.or(owner).unwrap_or_default())
}

/// Prints what may be a mistake about scopes. `folder` is the one that they are about, if it is
/// known.
pub(crate) fn print_doubts(scopes: &Scopes, folder: Option<&Path>) -> Result<(), Failure> {
    for doubt in doubts(scopes.iter(), folder) {
        terminal::print_to_stderr(&format!("note: {doubt}"))?;
    }
    Ok(())
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
}
