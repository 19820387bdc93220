//! Names of ASCII letters and digits that a person still reads, made from names in any script.
//!
//! Where a program accepts ASCII alone and replaces all else by one sign, two names of one length
//! become the same. So marks are taken off letters, Greek and Cyrillic are written in Latin
//! letters, and a letter of another script becomes its number.

use unicode_normalization::UnicodeNormalization as _;

/// Latin spellings of small letters, sorted by letter.
#[rustfmt::skip]
const SPELLINGS: &[(char, &str)] = &[
    ('ß', "ss"), ('æ', "ae"), ('ð', "d"), ('ø', "o"), ('þ', "th"), ('đ', "d"), ('ħ', "h"),
    ('ı', "i"), ('ł', "l"), ('ŋ', "ng"), ('œ', "oe"), ('α', "a"), ('β', "v"), ('γ', "g"),
    ('δ', "d"), ('ε', "e"), ('ζ', "z"), ('η', "i"), ('θ', "th"), ('ι', "i"), ('κ', "k"),
    ('λ', "l"), ('μ', "m"), ('ν', "n"), ('ξ', "x"), ('ο', "o"), ('π', "p"), ('ρ', "r"),
    ('ς', "s"), ('σ', "s"), ('τ', "t"), ('υ', "y"), ('φ', "f"), ('χ', "ch"), ('ψ', "ps"),
    ('ω', "o"), ('а', "a"), ('б', "b"), ('в', "v"), ('г', "g"), ('д', "d"), ('е', "e"),
    ('ж', "zh"), ('з', "z"), ('и', "i"), ('й', "i"), ('к', "k"), ('л', "l"), ('м', "m"),
    ('н', "n"), ('о', "o"), ('п', "p"), ('р', "r"), ('с', "s"), ('т', "t"), ('у', "u"),
    ('ф', "f"), ('х', "kh"), ('ц', "ts"), ('ч', "ch"), ('ш', "sh"), ('щ', "shch"), ('ъ',
    ""), ('ы', "y"), ('ь', ""), ('э', "e"), ('ю', "yu"), ('я', "ya"), ('ђ', "dj"), ('є',
    "ye"), ('і', "i"), ('ј', "j"), ('љ', "lj"), ('њ', "nj"), ('ћ', "c"), ('ў', "u"), ('џ',
    "dz"), ('ґ', "g"),
];

/// Returns a name of ASCII letters, digits, `_` and `-`, without `-` at its ends. It is empty if
/// the text has no letter or digit.
///
/// A letter that has no Latin spelling here is `u` and its number in hexadecimal digits, as a word.
pub fn ascii_name(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for character in text.nfkc() {
        match latin(character) {
            Some(letters) => words.push_str(&letters),
            None if character.is_alphanumeric() => {
                words.extend(["-u", &format!("{:x}", u32::from(character)), "-"]);
            }
            None => words.push('-'),
        }
    }
    let mut name = String::with_capacity(words.len());
    for word in words.split('-').filter(|word| !word.is_empty()) {
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(word);
    }
    match name.chars().any(|c| c.is_ascii_alphanumeric()) {
        true => name,
        false => String::new(),
    }
}

/// Returns a character in Latin letters; `None` if it has no spelling.
fn latin(character: char) -> Option<String> {
    if character.is_ascii_alphanumeric() || character == '_' {
        return Some(character.to_string());
    }
    let without_marks = || character.nfkd().next().filter(|base| *base != character);
    let base = match spelling(character) {
        Some(letters) => return Some(letters),
        None => without_marks()?,
    };
    if base.is_ascii_alphanumeric() { Some(base.to_string()) } else { spelling(base) }
}

/// Returns the Latin spelling of a letter, capital as the letter is.
fn spelling(letter: char) -> Option<String> {
    let small = letter.to_lowercase().next()?;
    let place = SPELLINGS.binary_search_by_key(&small, |(letter, _)| *letter).ok()?;
    let (_, letters) = SPELLINGS.get(place)?;
    let mut rest = letters.chars();
    match (small == letter, rest.next()) {
        (false, Some(first)) => Some(format!("{}{}", first.to_ascii_uppercase(), rest.as_str())),
        _ => Some((*letters).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_script_stay_apart_and_are_ascii() {
        assert!(SPELLINGS.is_sorted_by_key(|(letter, _)| letter));
        for (name, expected) in [
            ("Weekly Review!", "Weekly-Review"),
            ("a_b - c", "a_b-c"),
            ("Über uns", "Uber-uns"),
            ("Straße", "Strasse"),
            ("E\u{301}te\u{301}", "Ete"),
            ("Протокол", "Protokol"),
            ("Щи и ёж", "Shchi-i-ezh"),
            ("Ημερολόγιο", "Imerologio"),
            ("会议记录", "u4f1a-u8bae-u8bb0-u5f55"),
            ("会议 2026", "u4f1a-u8bae-2026"),
            ("👍", ""),
            ("_", ""),
            ("", ""),
        ] {
            assert_eq!(ascii_name(name), expected, "{name}");
        }
    }
}
