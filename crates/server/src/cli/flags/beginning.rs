//! Identifiers by their first characters, as people copy them from a list.

use crate::cli::failure::Failure;

/// The fewest characters that name something.
const LEAST: usize = 4;

/// Returns the identifier that a text names: all of it, or its beginning in any case if only one
/// has it, with or without the ellipsis of a list. Returns the text if no identifier begins so.
pub(crate) fn full(
    text: &str,
    all: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<String, Failure> {
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
    let typed = text.escape_debug();
    match found.as_slice() {
        [] => Ok(text.to_owned()),
        _ if beginning.chars().count() < LEAST => Err(Failure::Usage(format!(
            "`{typed}` is too short for an identifier; give its first {LEAST} characters or more"
        ))),
        [only] => Ok(only.clone()),
        [first, second, ..] => Err(Failure::Usage(format!(
            "`{typed}` begins several identifiers, as in {first} and {second}; give more of it"
        ))),
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
        let (said, code) = full("grt", all).unwrap_err().report();
        assert_eq!(code, 2);
        assert_eq!(
            said,
            "error: `grt` is too short for an identifier; give its first 4 characters or more\n"
        );
        let (said, code) = full("0c6e3", all).unwrap_err().report();
        assert_eq!(code, 2);
        assert_eq!(
            said,
            "error: `0c6e3` begins several identifiers, as in 0c6e3a9e-1 and 0c6e3b00-2; give more \
             of it\n"
        );
    }
}
