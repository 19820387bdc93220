//! Clients by the names that lists show of them.

use stile_domain::client_name::meant_by;
use stile_domain::shortened_id::full;
use stile_domain::unseen::shown;

use crate::cli::failure::Failure;

/// A client as a command may name it.
pub(super) struct Named<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// Whether the client may do something.
    pub(super) is_live: bool,
}

/// Returns the identifier of the client that a text names: by its identifier, or by the name that a
/// list shows, if one client bears it, or one of those that may do something. Returns any other
/// text as it is, since it may be the beginning of an identifier.
pub(super) fn id_of_name(text: &str, named: &[Named<'_>]) -> Result<String, Failure> {
    if named.iter().any(|named| named.id == text) {
        return Ok(text.to_owned());
    }
    let names = meant_by(text, named.iter().map(|named| named.name));
    let meant = || named.iter().filter(|named| names.contains(&named.name));
    let live: Vec<&Named<'_>> = meant().filter(|named| named.is_live).collect();
    let mut found = if live.is_empty() { meant().collect() } else { live };
    // A client may choose what a list shows of another one's identifier as its name.
    let others = || named.iter().filter(|it| !names.contains(&it.name));
    if !found.is_empty()
        && let Ok(id) = full(text, others().map(|other| other.id))
    {
        found.extend(others().filter(|other| other.id == id));
    }
    match found.as_slice() {
        [] => Ok(text.to_owned()),
        [only] => Ok(only.id.to_owned()),
        several => {
            let choices: Vec<String> = several
                .iter()
                .map(|Named { id, name, .. }| match *name == text {
                    true => (*id).to_owned(),
                    false => format!("{id} ({})", shown(name)),
                })
                .collect();
            Err(Failure::Usage(format!(
                "{} clients are called `{}`; nothing was done; name one of them by its identifier: \
                 {}",
                several.len(),
                text.escape_debug(),
                choices.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_names_a_client_where_it_is_the_only_one_of_that_name() {
        let one = |id, name, is_live| Named { id, name, is_live };
        let named = [
            one("id-1", "Editor", false),
            one("id-2", "Notes", true),
            one("id-3", "Notes", true),
            one("id-4", "id-1", true),
            one("id-5", "Mail", false),
            one("id-6", "Mail", true),
            one("id-7", "goose (self-named)", true),
            one("id-8", "Cline (self-named)", true),
            one("id-9", "Cline (self-named)", true),
        ];
        let decoy = [one("A5XzZFc58PrVZIYJRon8mN2", "helper", true), one("id-2", "A5XzZFc5", true)];
        let (said, code) = id_of_name("A5XzZFc5", &decoy).unwrap_err().report();
        assert!(code == 2 && said.contains("A5XzZFc58PrVZIYJRon8mN2 (helper)"), "{said}");
        let id = |text: &str| id_of_name(text, &named);
        assert_eq!(id("Editor").unwrap(), "id-1");
        assert_eq!(id("id-1").unwrap(), "id-1", "an identifier comes first");
        assert_eq!(id("Mail").unwrap(), "id-6", "the other one has ended");
        assert_eq!(id("none").unwrap(), "none");
        assert_eq!(id("goose").unwrap(), "id-7", "without its mark");
        let (said, _) = id("Cline").unwrap_err().report();
        assert!(said.contains("id-8 (Cline (self-named)), id-9"), "{said}");
        let (said, code) = id("Notes").unwrap_err().report();
        assert!(code == 2 && said.contains("id-2, id-3"), "{said}");
    }
}
