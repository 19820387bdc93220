//! Words of a command as a person pastes them into a shell.

/// Quotes a word for a POSIX shell if it needs quotes: `read:/notes/` stays, and `my notes`
/// becomes `'my notes'`.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=+,@%~\\".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_if_a_shell_would_change_it() {
        for (word, pasted) in [
            ("read:/notes/", "read:/notes/"),
            ("", "''"),
            ("read:/my notes/", "'read:/my notes/'"),
            ("/a'; rm -rf ~", r"'/a'\''; rm -rf ~'"),
            ("$(id)", "'$(id)'"),
        ] {
            assert_eq!(quoted(word), pasted);
        }
    }
}
