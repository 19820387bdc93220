//! The text of a list in which a search looks for words.
//!
//! A list is kept as its compact JSON. Its searched text has the texts among its members in their
//! places, and a space for each other character: for quotes, commas, escapes, and members of
//! another type. Compact JSON escapes no character of a word, so a place in the searched text is
//! the same place in the JSON, and excerpts and windows show the list there.

/// Finds the searched text of a list, whose compact JSON comes in pieces. That of an object is
/// spaces only.
#[derive(Debug, Default)]
pub struct ListText {
    /// How many lists and objects are open.
    depth: u32,
    /// Whether the value is an object.
    is_object: bool,
    is_in_text: bool,
    /// The escape that is being read.
    escape: Option<Escape>,
}

/// A part of an escape that was read.
#[derive(Clone, Copy, Debug)]
enum Escape {
    Backslash,
    /// So many hexadecimal digits follow.
    Digits(u8),
}

impl ListText {
    /// Returns the searched text of the next piece of the JSON, with as many characters.
    pub fn feed(&mut self, piece: &str) -> String {
        piece.chars().map(|character| self.searched(character)).collect()
    }

    fn searched(&mut self, character: char) -> char {
        if let Some(escape) = self.escape {
            self.escape = match escape {
                Escape::Backslash if character == 'u' => Some(Escape::Digits(4)),
                Escape::Backslash | Escape::Digits(..=1) => None,
                Escape::Digits(count) => Some(Escape::Digits(count - 1)),
            };
            return ' ';
        }
        match character {
            '"' => self.is_in_text = !self.is_in_text,
            '\\' => self.escape = Some(Escape::Backslash),
            _ if self.is_in_text => {
                let is_member = self.depth == 1 && !self.is_object;
                return if is_member { character } else { ' ' };
            }
            '[' | '{' => {
                self.is_object |= self.depth == 0 && character == '{';
                self.depth += 1;
            }
            ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        ' '
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_list_are_searched_in_their_places_wherever_it_is_cut() {
        // Beside each list is the text that a search reads, with `.` written for each space in it.
        for (json, searched) in [
            (r#"["herb","äß中"]"#, "..herb...äß中.."),
            (r#"["a\"b\\c","\u001fx\ny"]"#, "..a..b..c.........x..y.."),
            (r#"[1,true,"x",["y"],{"k":"v"},"e"]"#, ".........x...................e.."),
            (r#"{"k":"v","l":["w"]}"#, "..................."),
            ("[]", ".."),
        ] {
            let searched = searched.replace('.', " ");
            let ends = json.char_indices().map(|(at, _)| at).chain([json.len()]);
            for at in ends {
                let mut list = ListText::default();
                let (first, rest) = json.split_at(at);
                assert_eq!(list.feed(first) + &list.feed(rest), searched, "{json} at {at}");
            }
        }
    }
}
