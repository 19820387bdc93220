//! Names of clients that this program gives itself, and that nobody else may bear.
//!
//! History, journal, activity and the pages tell callers apart by these names. So no client gets
//! one of them, in whatever case or spacing. If the owner types such a name, the command or the
//! page refuses it. If a client gives itself such a name, the server adds a mark to it.

use std::borrow::Cow;

use crate::unseen::is_unseen;

/// The client in the journal and the history where the owner's own command line was at work.
pub const COMMAND_LINE: &str = "command line";
/// The client in the journal and the history where the owner was at work on the page.
pub const OWNER_PAGE: &str = "owner's page";
/// The name under which `stile doctor` calls. It has no record, since the owner is at work.
pub const DOCTOR: &str = "stile-doctor";
/// The name of a program on stdio that gives itself none.
pub const UNNAMED: &str = "a program on this computer";

/// The end of a name that nobody but the client itself chose.
const SELF_NAMED: &str = "(self-named)";
/// The end of the name of a client that wants to bear a reserved name.
const MARKED: &str = "(client)";

/// Returns whether only this program may give a name. Case, white space and characters that are not
/// seen count for nothing.
pub fn is_reserved(name: &str) -> bool {
    let seen: String = name.chars().filter(|c| c.is_whitespace() || !is_unseen(*c)).collect();
    let folded = seen.to_lowercase();
    let folded = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_own = [COMMAND_LINE, OWNER_PAGE, DOCTOR, UNNAMED].contains(&folded.as_str());
    is_own || folded.ends_with(SELF_NAMED)
}

/// Returns the name of a client that gives itself a name, marked if the name is reserved.
pub fn unreserved(name: &str) -> Cow<'_, str> {
    match is_reserved(name) {
        true => format!("{name} {MARKED}").into(),
        false => name.into(),
    }
}

/// Returns the name of a client that nobody but itself named.
pub fn self_named(name: &str) -> String {
    format!("{name} {SELF_NAMED}")
}

/// Returns whether nobody but the client itself chose a name.
pub fn is_self_named(name: &str) -> bool {
    name.ends_with(SELF_NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_writing_of_a_name_of_this_program_is_free() {
        for name in [
            "command line", " Command\u{200b}  LINE\n", "command\u{a0}line", "STILE-doctor",
            "owner's page", "A program on this computer", "cursor (Self-Named) ",
            "\u{202e}stile-doctor",
        ] {
            assert!(is_reserved(name), "{name:?}");
            assert!(!is_reserved(&unreserved(name)), "{name:?}");
        }
        for name in ["cursor", "my command line", "stile", "self-named", "doctor", ""] {
            assert!(!is_reserved(name), "{name:?}");
            assert_eq!(unreserved(name), name);
        }
        assert_eq!(self_named("cursor"), "cursor (self-named)");
        assert!(is_reserved(&self_named("x")) && is_self_named(&self_named("x")));
    }
}
