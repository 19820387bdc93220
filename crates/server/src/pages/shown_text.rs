//! Names that strangers gave, made harmless for a reader.
//!
//! Templates escape markup. What escaping leaves (characters that nobody sees or that turn the
//! direction of the text, and names that fill the screen) goes by the rule for names of clients.

use stile_domain::client_name::in_one_alphabet;
use stile_domain::sign_in::client_metadata::ClientName;

/// Returns a name as a page shows it.
pub fn shown_name(text: &str) -> String {
    let name = ClientName::clean(text);
    in_one_alphabet(name.as_ref().map_or("(no name)", ClientName::as_str)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_shows_what_it_is_and_nothing_else() {
        for (text, expected) in [
            ("Claude", "Claude"),
            ("Café 日本語", "Café 日本語"),
            ("<script>alert(1)</script>", "<script>alert(1)</script>"),
            ("two\nlines", "two lines"),
            ("curs\u{43e}r", "curs\\u{43e}r"),
            ("", "(no name)"),
            (" \u{200b} ", "(no name)"),
        ] {
            assert_eq!(shown_name(text), expected, "{text:?}");
        }
        assert!(!shown_name("safe\u{202e}gpj.exe").contains('\u{202e}'));
        assert!(shown_name(&"x".repeat(4096)).chars().count() <= 100);
    }
}
