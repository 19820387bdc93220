//! Names that are close to one that is not there, for an answer that says what was perhaps meant.
//!
//! A name is close if it differs in case or in the composition of its characters, in its ending, in
//! a few letters, or if it has the wanted name as a part, with few letters changed.

use unicode_normalization::UnicodeNormalization as _;

use crate::path::SpacePath;

/// The most names that an answer offers.
pub const MAX_NEAR_NAMES: usize = 3;

/// The fewest characters of a name that is looked for as a part of others.
const SHORTEST_PART: usize = 3;
/// What a difference costs at least that no letter makes: the ending.
const OTHER_ENDING: usize = 1;
/// What a name costs of which only a part is close.
const PART: usize = 16;

/// The closest of the names that were offered, at most [`MAX_NEAR_NAMES`].
#[derive(Clone, Debug)]
pub struct NearNames {
    wanted: Vec<char>,
    /// The wanted name without its ending.
    stem: Vec<char>,
    /// Each with how far it is from the wanted name, the closest first, ties by path.
    best: Vec<(usize, SpacePath)>,
}

impl NearNames {
    /// Begins with the name that is wanted.
    pub fn to(name: &str) -> Self {
        Self { wanted: folded(name), stem: folded(stem_of(name)), best: Vec::new() }
    }

    /// Keeps the file or folder at `path` if it is one of the closest and may be shown.
    pub fn offer(&mut self, path: &SpacePath, may_show: impl FnOnce(&SpacePath) -> bool) {
        let name = path.as_str().rsplit('/').next().unwrap_or_default();
        let Some(distance) = self.distance(name) else { return };
        let after = self.best.partition_point(|(other, at)| (*other, at) < (distance, path));
        if after < MAX_NEAR_NAMES && may_show(path) {
            self.best.insert(after, (distance, path.clone()));
            self.best.truncate(MAX_NEAR_NAMES);
        }
    }

    /// Returns the closest names, the closest first.
    pub fn finish(self) -> Vec<SpacePath> {
        self.best.into_iter().map(|(_, path)| path).collect()
    }

    /// Returns how far a name is from the wanted one; `None` if it is not close.
    fn distance(&self, name: &str) -> Option<usize> {
        let (whole, stem) = (folded(name), folded(stem_of(name)));
        if whole == self.wanted {
            return Some(0);
        }
        if stem == self.stem {
            return Some(OTHER_ENDING);
        }
        let few = (self.stem.len() / 3).clamp(1, 4);
        if let Some(letters) = changed_letters(&self.stem, &stem, few, Extent::Whole) {
            return Some(OTHER_ENDING + letters);
        }
        let few = (self.stem.len() / 4).min(2);
        let is_long_enough = self.stem.len() >= SHORTEST_PART;
        let letters = is_long_enough
            .then(|| changed_letters(&self.stem, &stem, few, Extent::Part))
            .flatten()?;
        Some(PART + letters)
    }
}

/// Whether a person sees two different names as one: they differ only in how accents are composed.
pub fn is_twin(one: &str, other: &str) -> bool {
    one != other && !one.is_ascii() && one.nfc().eq(other.nfc())
}

/// Returns a name as it is compared: without regard to case and to how its characters are composed.
fn folded(name: &str) -> Vec<char> {
    if name.is_ascii() {
        return name.chars().map(|character| character.to_ascii_lowercase()).collect();
    }
    name.nfc().flat_map(char::to_lowercase).collect()
}

/// Returns a name without its ending. A name that begins with its only dot has none.
fn stem_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// What of a name is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of the name.
    Whole,
    /// The part of the name that is closest.
    Part,
}

/// Returns how many letters to change, add or remove to make `wanted` of `name`; `None` if they are
/// more than `most`. The distance of Levenshtein, and of Sellers for a part.
pub(crate) fn changed_letters(
    wanted: &[char],
    name: &[char],
    most: usize,
    extent: Extent,
) -> Option<usize> {
    if extent == Extent::Whole && wanted.len().abs_diff(name.len()) > most
        || wanted.len() > name.len() + most
    {
        return None;
    }
    // `row` has the cost of each beginning of `wanted` at one position in `name`.
    let mut row: Vec<usize> = (0..=wanted.len()).collect();
    let mut least = *row.last()?;
    for (position, letter) in name.iter().enumerate() {
        let mut diagonal = match extent {
            Extent::Whole => position,
            Extent::Part => 0,
        };
        let mut left = if extent == Extent::Whole { position + 1 } else { 0 };
        let mut cells = row.iter_mut();
        *cells.next()? = left;
        for (cell, other) in cells.zip(wanted) {
            let changed = diagonal + usize::from(letter != other);
            diagonal = *cell;
            left = changed.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        least = least.min(left);
    }
    let cost = if extent == Extent::Whole { *row.last()? } else { least };
    (cost <= most).then_some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(wanted: &str, names: &[&str]) -> Vec<String> {
        let mut near = NearNames::to(wanted);
        for name in names {
            near.offer(&SpacePath::parse(&format!("/notes/{name}")).unwrap(), |_| true);
        }
        let names = near.finish();
        names.iter().map(|path| path.as_str().trim_start_matches("/notes/").to_owned()).collect()
    }

    #[test]
    fn case_endings_and_few_letters_are_close_and_other_names_are_not() {
        let names = ["Budget.md", "budget-2024.md", "plan.md", "gadget.txt", "a", "été.md"];
        assert_eq!(near("budget.md", &names), ["Budget.md", "gadget.txt", "budget-2024.md"]);
        assert_eq!(near("budget", &names), ["Budget.md", "gadget.txt", "budget-2024.md"]);
        assert_eq!(near("budegt.md", &names), ["Budget.md"]);
        assert_eq!(near("e\u{301}te\u{301}.md", &names), ["été.md"]);
        assert_eq!(near("zebra.md", &names), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_may_not_be_shown_takes_no_place() {
        let mut near = NearNames::to("note");
        for name in ["/note1", "/note2", "/note3", "/note4"] {
            near.offer(&SpacePath::parse(name).unwrap(), |path| path.as_str() > "/note1");
        }
        assert_eq!(near.finish().len(), MAX_NEAR_NAMES);
    }

    #[test]
    fn the_closest_come_first_and_no_more_than_three() {
        let names = ["noter", "note1", "notes", "NOTE", "nothe", "footnote"];
        assert_eq!(near("note", &names), ["NOTE", "note1", "noter"]);
    }

    /// Tries all ways to change `wanted` into `name`.
    fn slow_letters(wanted: &[char], name: &[char]) -> usize {
        match (wanted, name) {
            ([], rest) | (rest, []) => rest.len(),
            ([one, ones @ ..], [other, others @ ..]) => {
                let kept = slow_letters(ones, others) + usize::from(one != other);
                kept.min(1 + slow_letters(ones, name)).min(1 + slow_letters(wanted, others))
            }
        }
    }

    proptest! {
        #[test]
        fn letters_are_counted_like_a_slow_count(
            wanted in "[ab]{0,5}", name in "[ab]{0,5}", most in 0usize..6,
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let (wanted, name) = (chars(&wanted), chars(&name));
            let slow = slow_letters(&wanted, &name);
            let whole = changed_letters(&wanted, &name, most, Extent::Whole);
            prop_assert_eq!(whole, (slow <= most).then_some(slow));
            let part = (0..=name.len())
                .flat_map(|end| (0..=end).map(move |start| (start, end)))
                .map(|(start, end)| slow_letters(&wanted, &name[start..end]))
                .min()
                .unwrap();
            let fast = changed_letters(&wanted, &name, most, Extent::Part);
            prop_assert_eq!(fast, (part <= most).then_some(part));
        }
    }
}
