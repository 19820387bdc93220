//! Characters that nobody sees, and how a text from outside is shown with them.
//!
//! A path, a purpose or a field name may hold characters that have no width or that turn the
//! direction of what follows, and then look like another. On a page, in a terminal and in an error
//! they are written out, such as `\u{202e}`, so that each text looks like itself only.

use std::borrow::Cow;

/// Returns whether a character is not seen, or changes how others are seen: control characters,
/// characters for the direction of writing, fillers, variation selectors, tags and private
/// characters.
///
/// *Source*: Unicode, `Default_Ignorable_Code_Point`, and the general categories Cc, Co and Cf.
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
}

/// Returns a text with each unseen character written out, such as `\u{202e}`. The joiner and the
/// selector within an emoji stay, since the picture shows them.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut is_picture = false;
    for character in text.chars() {
        let stays = is_picture && matches!(character, '\u{200d}' | '\u{fe0f}');
        if is_unseen(character) && !stays {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
        is_picture = stays || is_pictograph(character);
    }
    shown.into()
}

/// Returns a text of several lines as [`shown`] shows each of them.
pub fn shown_lines(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(shown).collect();
    lines.join("\n")
}

/// Returns the first `max_chars` characters of a text as [`shown`] shows them.
pub fn shown_start(text: &str, max_chars: usize) -> String {
    let end = text.char_indices().nth(max_chars).map_or(text.len(), |(end, _)| end);
    shown(text.get(..end).unwrap_or(text)).into_owned()
}

/// Returns a text of at most `max_chars` characters as [`shown`] shows them. The middle of a
/// longer text becomes an ellipsis, so that its end stays, where paths and names differ:
/// `/notes/…/one.md`.
pub fn shown_ends(text: &str, max_chars: usize) -> String {
    let count = text.chars().count();
    if count <= max_chars {
        return shown(text).into_owned();
    }
    let kept = max_chars.saturating_sub(1);
    let start: String = text.chars().take(kept / 2).collect();
    let end: String = text.chars().skip(count - (kept - kept / 2)).collect();
    format!("{}…{}", shown(&start), shown(&end))
}

/// Returns whether a character lies in the blocks of symbols and pictures.
fn is_pictograph(character: char) -> bool {
    let symbols = ['\u{2190}'..='\u{27ff}', '\u{2900}'..='\u{2bff}', '\u{1f000}'..='\u{1faff}'];
    symbols.iter().any(|block| block.contains(&character)) && !is_unseen(character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_shows_what_it_is() {
        for (text, expected) in [
            ("/Café 日本語.md", "/Café 日本語.md"),
            ("/a\u{202e}fdp.exe", "/a\\u{202e}fdp.exe"),
            ("/a\u{200b}b\u{ad}", "/a\\u{200b}b\\u{ad}"),
            ("two\nlines\u{1b}[31m", "two\\u{a}lines\\u{1b}[31m"),
            ("❤\u{fe0f} 👩\u{200d}👧", "❤\u{fe0f} 👩\u{200d}👧"),
            ("a\u{fe0f}b\u{200d}", "a\\u{fe0f}b\\u{200d}"),
            ("❤\u{200b}\u{fe0f}", "❤\\u{200b}\\u{fe0f}"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
        assert_eq!(shown_start("a\u{202e}bc", 3), "a\\u{202e}b");
        for (text, expected) in [
            ("/abcdefg", "/abcdefg"),
            ("/abcdefgh", "/ab…efgh"),
            ("\u{202e}23456789", "\\u{202e}23…6789"),
        ] {
            assert_eq!(shown_ends(text, 8), expected);
        }
        assert_eq!((shown_ends("ab", 1), shown_ends("ab", 0)), ("…".to_owned(), "…".to_owned()));
        assert_eq!(shown_lines("a\u{202e}\nb\u{1b}"), "a\\u{202e}\nb\\u{1b}");
    }

    proptest! {
        #[test]
        fn nothing_that_turns_the_direction_or_moves_a_terminal_is_left(text in "(?s).{0,40}") {
            let left = |character: char| {
                is_unseen(character) && !matches!(character, '\u{200d}' | '\u{fe0f}')
            };
            prop_assert!(!shown(&text).chars().any(left));
        }
    }
}
