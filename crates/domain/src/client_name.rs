//! Names of clients that this program gives itself, and that nobody else may bear.
//!
//! History, journal, activity and the pages tell callers apart by these names. So no client gets
//! one of them, in whatever case or spacing. If the owner types such a name, the command or the
//! page refuses it. If a client gives itself such a name, the server adds a mark to it.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

use crate::unseen::{is_unseen, shown};

/// The client in the journal and the history where the owner's own command line was at work.
pub const COMMAND_LINE: &str = "command line";
/// The client in the journal and the history where the owner was at work on the page.
pub const OWNER_PAGE: &str = "owner's page";
/// The name under which `stile doctor` calls. It has no record, since the owner is at work.
pub const DOCTOR: &str = "stile-doctor";
/// The name of a program on stdio that gives itself none.
pub const UNNAMED: &str = "a program on this computer";

/// What pages and the command line call the owner, for [`OWNER_PAGE`].
pub const YOU_ON_PAGE: &str = "you, on your page";
/// What pages and the command line call the owner, for [`COMMAND_LINE`].
pub const YOU_AT_TERMINAL: &str = "you, at the terminal";
/// What pages and the command line call all clients together, with the owner.
pub const EVERYBODY: &str = "everybody";

/// The names that no client gets, since a person would take it for the owner, for all together, or
/// for this program at work.
const RESERVED: [&str; 9] = [
    COMMAND_LINE, OWNER_PAGE, DOCTOR, UNNAMED, YOU_ON_PAGE, YOU_AT_TERMINAL, EVERYBODY, "you",
    "the owner",
];

/// The end of a name that nobody but the client itself chose.
const SELF_NAMED: &str = "(self-named)";
/// The end of the name of a client that wants to bear a reserved name.
const MARKED: &str = "(client)";

/// Returns whether only this program may give a name. Case, width, white space, punctuation and
/// characters that are not seen count for nothing.
pub fn is_reserved(name: &str) -> bool {
    let seen = name.chars().filter(|c| c.is_whitespace() || !is_unseen(*c));
    let folded: String = seen.nfkc().flat_map(char::to_lowercase).collect();
    let letters = letters(&folded);
    let is_own = RESERVED.iter().any(|own| self::letters(own).eq(letters.clone()));
    is_own || folded.trim_end().ends_with(SELF_NAMED)
}

/// Returns whether a command would take a name for a flag.
pub fn is_like_a_flag(name: &str) -> bool {
    name.starts_with('-')
}

/// Returns the letters and digits of a name.
fn letters(name: &str) -> impl Iterator<Item = char> + Clone + '_ {
    name.chars().filter(|character| character.is_alphanumeric())
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

/// Returns a name in which no word mixes alphabets: in a word with Latin letters, those of Greek
/// and of Cyrillic are written out, since many of them look like Latin ones. `curs\u{43e}r` with a
/// Cyrillic letter is so shown otherwise than `cursor`.
pub fn in_one_alphabet(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return name.into();
    }
    let mut told = String::with_capacity(name.len() + 16);
    for word in name.split_inclusive(|c: char| !c.is_alphanumeric()) {
        match word.chars().any(is_latin) {
            true => word.chars().for_each(|c| match looks_latin(c) {
                true => told.extend(c.escape_unicode()),
                false => told.push(c),
            }),
            false => told.push_str(word),
        }
    }
    told.into()
}

fn is_latin(character: char) -> bool {
    character.is_ascii_alphabetic()
        || (character.is_alphabetic() && ('\u{c0}'..='\u{24f}').contains(&character))
}

/// Returns whether a letter is one of Greek or of Cyrillic.
fn looks_latin(character: char) -> bool {
    character.is_alphabetic()
        && ['\u{370}'..='\u{52f}', '\u{1c80}'..='\u{1c8f}', '\u{1f00}'..='\u{1fff}']
            .iter()
            .any(|alphabet| alphabet.contains(&character))
}

/// The most characters of a name that a table shows. A longer name ends in an ellipsis there.
pub const MOST_LISTED_CHARS: usize = 40;

/// Returns a name as a table shows it, but for characters that nobody sees, which a terminal and a
/// page write out.
pub fn listed(name: &str) -> Cow<'_, str> {
    let name = in_one_alphabet(name);
    if name.chars().count() <= MOST_LISTED_CHARS {
        return name;
    }
    let kept: String = name.chars().take(MOST_LISTED_CHARS - 1).collect();
    format!("{kept}…").into()
}

/// A typed name that several clients bear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` may mean several clients; nothing was done; name one of them in full: {}",
    shown(.typed), in_full(.names))]
pub struct SeveralClients {
    /// What the owner typed.
    pub typed: String,
    /// The names that it may mean.
    pub names: Vec<String>,
}

fn in_full(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", shown(name))).collect();
    names.join(", ")
}

/// Returns which of `names` an owner means who types `typed`: the name that is the same; or else
/// those that a list shows so, and those that the clients gave themselves and that are the same but
/// for the mark.
pub fn meant_by<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if name == typed {
            return vec![name];
        }
        if is_shown_as(name, typed) && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn is_shown_as(name: &str, typed: &str) -> bool {
    let own = name.strip_suffix(SELF_NAMED).map_or(name, str::trim_end);
    [name, own].iter().any(|name| [shown(name), shown(&listed(name))].contains(&typed.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_mixes_alphabets_is_shown_otherwise_than_one_that_does_not() {
        for (name, shown) in [
            ("curs\u{43e}r", "curs\\u{43e}r"),
            ("\u{430}pple pie", "\\u{430}pple pie"),
            ("G\u{3bf}ose 2", "G\\u{3bf}ose 2"),
            ("cursor", "cursor"),
            ("Café Ångström", "Café Ångström"),
            ("Москва notes", "Москва notes"),
            ("Ελλάδα 2026", "Ελλάδα 2026"),
            ("日本語 Claude", "日本語 Claude"),
        ] {
            assert_eq!(in_one_alphabet(name), shown);
            assert_eq!(listed(name), shown);
        }
        // Either is taken for the client.
        let names = ["cursor", "curs\u{43e}r"];
        assert_eq!(meant_by("curs\\u{43e}r", names), ["curs\u{43e}r"]);
        assert_eq!(meant_by("curs\u{43e}r", names), ["curs\u{43e}r"]);
        assert_eq!(meant_by("cursor", names), ["cursor"]);
    }

    #[test]
    fn a_name_means_what_is_listed_so_and_no_other_where_one_is_the_same() {
        let long = self_named(&"long ".repeat(10));
        let cut = listed(&long).into_owned();
        assert_eq!(cut.chars().count(), MOST_LISTED_CHARS);
        let names = [
            "goose (self-named)", "cursor", "cursor (self-named)", "co\u{202e}dex", &long, "zed",
            "zed", "command line",
        ];
        for (typed, meant) in [
            ("goose", "goose (self-named)"),
            ("goose (self-named)", "goose (self-named)"),
            ("cursor", "cursor"),
            ("cursor (self-named)", "cursor (self-named)"),
            ("co\\u{202e}dex", "co\u{202e}dex"),
            (&cut, &long),
            ("zed", "zed"),
        ] {
            assert_eq!(meant_by(typed, names), [meant], "{typed}");
        }
        assert!(meant_by("none", names).is_empty());
        let others = [format!("{}1", "long ".repeat(9)), format!("{}2", "long ".repeat(9))];
        let cut = listed(&others[0]);
        let several = meant_by(&cut, others.iter().map(String::as_str));
        assert_eq!(several, others);
        let names = others.to_vec();
        let said = SeveralClients { typed: cut.into_owned(), names }.to_string();
        assert!(said.contains(&others[1]), "{said}");
    }

    #[test]
    fn no_writing_of_a_name_of_this_program_is_free() {
        for name in [
            "command line",
            " Command\u{200b}  LINE\n",
            "command\u{a0}line",
            "STILE-doctor",
            "owner's page",
            "A program on this computer",
            "cursor (Self-Named) ",
            "\u{202e}stile-doctor",
            "owner\u{2019}s page",
            "you",
            "You, on your page",
            "YOU ,on your page",
            "\u{ff39}ou, at the\u{2003}terminal",
            " you\u{200b}, at the terminal.",
            "Everybody",
            "\u{ff45}verybody",
            "the owner",
        ] {
            assert!(is_reserved(name), "{name:?}");
            assert!(!is_reserved(&unreserved(name)), "{name:?}");
        }
        for name in ["cursor", "my command line", "stile", "self-named", "doctor", "youtube", ""] {
            assert!(!is_reserved(name), "{name:?}");
            assert_eq!(unreserved(name), name);
        }
        assert_eq!(self_named("cursor"), "cursor (self-named)");
        assert!(is_reserved(&self_named("x")) && is_self_named(&self_named("x")));
    }
}
