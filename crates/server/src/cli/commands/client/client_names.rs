//! Clients by the names that lists show of them.

use crate::cli::failure::Failure;

/// A client as a command may name it.
pub(super) struct Named<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// Whether the client may do something.
    pub(super) is_live: bool,
}

/// Returns the identifier of the client that a text names, if it is a name that one client has, or
/// one of those that may do something; or else the text, which may be an identifier.
pub(super) fn id_of_name(text: &str, named: &[Named<'_>]) -> Result<String, Failure> {
    let of_name = |is_meant: fn(&&Named<'_>) -> bool| {
        let found = named.iter().filter(|named| named.name == text).filter(is_meant);
        found.map(|named| named.id).collect::<Vec<&str>>()
    };
    let is_id = named.iter().any(|named| named.id == text);
    let live = of_name(|named| named.is_live);
    let found = if live.is_empty() { of_name(|_| true) } else { live };
    match found.as_slice() {
        [only] if !is_id => Ok((*only).to_owned()),
        [_, _, ..] if !is_id => Err(Failure::Usage(format!(
            "{} clients are called `{}`; nothing was done; name one of them by its identifier: {}",
            found.len(),
            text.escape_debug(),
            found.join(", ")
        ))),
        _ => Ok(text.to_owned()),
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
        ];
        let id = |text: &str| id_of_name(text, &named);
        assert_eq!(id("Editor").unwrap(), "id-1");
        assert_eq!(id("id-1").unwrap(), "id-1", "an identifier comes first");
        assert_eq!(id("Mail").unwrap(), "id-6", "the other one has ended");
        assert_eq!(id("none").unwrap(), "none");
        let (said, code) = id("Notes").unwrap_err().report();
        assert!(code == 2 && said.contains("id-2, id-3"), "{said}");
    }
}
