//! Identifiers by their first characters, as lists show them and people copy them.

use std::borrow::Cow;

use crate::sign_in::client_id_url::ClientIdUrl;

/// The fewest characters that name something.
const LEAST: usize = 4;
/// An identifier that a list shows whole has at most so many bytes.
const WHOLE_BYTES: usize = 40;
/// The length of a longer one in a list, in bytes. Of the identifier of a client that registered
/// itself these name the key and begin a random number, so two clients do not share them.
const SHORT_BYTES: usize = 20;

/// Why a text names no identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOneId {
    /// The text is the beginning of an identifier, and very short.
    #[error("`{}` is too short for an identifier; give its first {LEAST} characters or more",
        .0.escape_debug())]
    TooShort(String),
    /// Several identifiers begin with the text.
    #[error("`{}` begins several identifiers, as in {first} and {second}; give more of it",
        .typed.escape_debug())]
    Several {
        /// The text.
        typed: String,
        /// One of the identifiers.
        first: String,
        /// Another one.
        second: String,
    },
}

/// Returns what a list shows of an identifier: its beginning and an ellipsis if it is long, or all
/// of it if it is short or an address.
pub fn shortened(id: &str) -> Cow<'_, str> {
    match id.get(..SHORT_BYTES) {
        Some(beginning) if id.len() > WHOLE_BYTES && !ClientIdUrl::is_address(id) => {
            format!("{beginning}…").into()
        }
        _ => id.into(),
    }
}

/// Returns the identifier that a text names: all of it, or its beginning in any case if only one
/// has it, with or without the ellipsis of a list. Returns the text if no identifier begins so.
///
/// # Errors
/// [`NotOneId`].
pub fn full(
    text: &str,
    all: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<String, NotOneId> {
    let beginning = text.strip_suffix('…').unwrap_or(text);
    let begins = |id: &str| {
        id.get(..beginning.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(beginning))
    };
    let mut found: Vec<String> = Vec::new();
    for id in all {
        let id = id.as_ref();
        if id == text {
            return Ok(text.to_owned());
        }
        if begins(id) && !found.iter().any(|known| known == id) {
            found.push(id.to_owned());
        }
    }
    match found.as_slice() {
        [] => Ok(text.to_owned()),
        _ if beginning.chars().count() < LEAST => Err(NotOneId::TooShort(text.to_owned())),
        [only] => Ok(only.clone()),
        [first, second, ..] => Err(NotOneId::Several {
            typed: text.to_owned(),
            first: first.clone(),
            second: second.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_names_what_only_one_identifier_begins_with() {
        let all = ["0c6e3a9e-1", "0c6e3b00-2", "0c6e", "grt_9"];
        for (text, expected) in [
            ("0c6e3a9e-1", "0c6e3a9e-1"),
            ("0c6e3a", "0c6e3a9e-1"),
            ("0c6e3a…", "0c6e3a9e-1"),
            // Another identifier is exactly that.
            ("0c6e", "0c6e"),
            ("0C6E3A9", "0c6e3a9e-1"),
            ("grt_", "grt_9"),
            ("no", "no"),
            ("none", "none"),
        ] {
            assert_eq!(full(text, all).unwrap(), expected, "{text}");
        }
        assert_eq!(
            full("grt", all).unwrap_err().to_string(),
            "`grt` is too short for an identifier; give its first 4 characters or more"
        );
        assert_eq!(
            full("0c6e3", all).unwrap_err().to_string(),
            "`0c6e3` begins several identifiers, as in 0c6e3a9e-1 and 0c6e3b00-2; give more of it"
        );
    }

    #[test]
    fn a_list_shows_the_beginning_of_a_long_identifier_and_it_names_that_one() {
        let sealed = ["k1.abcdefghijklmnopqrstuvwxyz", "k1.abcdefgh"].map(|it| it.repeat(3));
        let shown = shortened(&sealed[0]);
        assert_eq!(shown, "k1.abcdefghijklmnopq…");
        assert_eq!(full(&shown, &sealed).unwrap(), sealed[0]);
        let address = format!("https://client.example/{}", "a".repeat(40));
        for whole in ["0c6e3a9e-3b1d-4c55-9b3e-0b6a2f1d8e77", &address] {
            assert_eq!(shortened(whole), whole);
        }
    }
}
