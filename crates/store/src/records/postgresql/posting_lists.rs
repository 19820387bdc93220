//! Lists of postings in memory, and what follows from them: where a term occurs.

use std::cmp::Ordering;

use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;

use super::postings::{BlockReader, Places};

/// The postings of one token of a field, or of several tokens, by number.
#[derive(Debug, Default)]
pub(super) struct PostingList {
    numbers: Vec<i64>,
    /// The packed places of all, if they were kept, and where those of each end.
    places: Vec<u8>,
    ends: Vec<usize>,
}

impl PostingList {
    /// Reads blocks, each after those with lesser numbers.
    pub(super) fn of_blocks<'b>(
        blocks: impl Iterator<Item = &'b [u8]>,
        keeps_places: bool,
    ) -> Result<Self, Problem> {
        let mut list = Self::default();
        for block in blocks {
            let mut reader = BlockReader::new(block);
            while let Some((number, Places(places))) = reader.next()? {
                list.numbers.push(number);
                if keeps_places {
                    list.places.extend_from_slice(places);
                    list.ends.push(list.places.len());
                }
            }
        }
        Ok(list)
    }

    /// Reads blocks of several tokens, in any order.
    pub(super) fn of_tokens<'b>(blocks: impl Iterator<Item = &'b [u8]>) -> Result<Self, Problem> {
        let mut list = Self::of_blocks(blocks, false)?;
        list.numbers.sort_unstable();
        list.numbers.dedup();
        Ok(list)
    }

    fn places_at(&self, at: usize) -> Result<Vec<u64>, Problem> {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(at).copied().unwrap_or_default();
        Places(self.places.get(start.unwrap_or_default()..end).unwrap_or_default()).to_vec()
    }
}

/// The lists of one term, by their indices: for each field in which it counts.
#[derive(Debug)]
pub(super) enum TermLists {
    Word(Vec<usize>),
    /// Of each field, the lists of the tokens one after the other.
    Phrase(Vec<Vec<usize>>),
    Prefix(Vec<usize>),
}

/// Returns the list with an index, if it is known.
pub(super) type Known<'l> = &'l dyn Fn(usize) -> Option<&'l PostingList>;

impl TermLists {
    /// Returns whether the term counts in no field.
    pub(super) fn is_nowhere(&self) -> bool {
        match self {
            Self::Word(lists) | Self::Prefix(lists) => lists.is_empty(),
            Self::Phrase(fields) => fields.is_empty(),
        }
    }

    /// Returns the indices of the lists of words.
    pub(super) fn words(&self) -> Vec<usize> {
        match self {
            Self::Word(lists) => lists.clone(),
            Self::Phrase(fields) => fields.concat(),
            Self::Prefix(_) => Vec::new(),
        }
    }

    /// Returns the numbers of the texts in which the term occurs, in order, as far as the lists go.
    /// A list that is not known counts as empty.
    pub(super) fn numbers<'l>(
        &self,
        words: Known<'l>,
        prefixes: &'l [PostingList],
    ) -> Result<Vec<i64>, Problem> {
        let mut found = Vec::new();
        match self {
            Self::Word(lists) => {
                lists.iter().filter_map(|at| words(*at)).for_each(|list| {
                    found.extend_from_slice(&list.numbers);
                });
            }
            Self::Prefix(lists) => {
                lists.iter().filter_map(|at| prefixes.get(*at)).for_each(|list| {
                    found.extend_from_slice(&list.numbers);
                });
            }
            Self::Phrase(fields) => {
                for field in fields {
                    let lists: Option<Vec<&PostingList>> =
                        field.iter().map(|at| words(*at)).collect();
                    found
                        .extend(lists.map(|lists| phrase(&lists)).transpose()?.unwrap_or_default());
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Returns the records in which the term occurs, in order: those after `floor`, up to `last`.
    pub(super) fn records<'l>(
        &self,
        words: Known<'l>,
        prefixes: &'l [PostingList],
        (floor, last): (i64, i64),
    ) -> Result<Vec<i64>, Problem> {
        let record = |number: i64| pieces::parts(number).0;
        let numbers = self.numbers(words, prefixes)?;
        let mut records: Vec<i64> = numbers.into_iter().map(record).collect();
        records.retain(|record| *record > floor && *record <= last);
        records.dedup();
        Ok(records)
    }
}

/// Returns the numbers of the texts in which tokens follow each other. Each has a list.
fn phrase(lists: &[&PostingList]) -> Result<Vec<i64>, Problem> {
    let mut found = Vec::new();
    let Some(shortest) = lists.iter().min_by_key(|list| list.numbers.len()) else {
        return Ok(found);
    };
    let mut cursors = vec![0; lists.len()];
    'texts: for number in &shortest.numbers {
        for (cursor, list) in cursors.iter_mut().zip(lists) {
            let rest = list.numbers.get(*cursor..).unwrap_or_default();
            *cursor += gallop(rest, *number);
            if list.numbers.get(*cursor) != Some(number) {
                continue 'texts;
            }
        }
        let mut starts: Option<Vec<u64>> = None;
        for (offset, (cursor, list)) in cursors.iter().zip(lists).enumerate() {
            let places = list.places_at(*cursor)?;
            let offset = offset as u64;
            starts = Some(match starts {
                None => places,
                Some(mut starts) => {
                    starts.retain(|start| places.binary_search(&(start + offset)).is_ok());
                    starts
                }
            });
        }
        if starts.is_some_and(|starts| !starts.is_empty()) {
            found.push(*number);
        }
    }
    Ok(found)
}

/// Returns how many numbers of a sorted list are less than one of them or of another list. Looks at
/// few more than it skips.
fn gallop(numbers: &[i64], wanted: i64) -> usize {
    let mut step = 1;
    while numbers.get(step).is_some_and(|number| *number < wanted) {
        step *= 2;
    }
    let from = step / 2;
    let near = numbers.get(from..numbers.len().min(step + 1)).unwrap_or_default();
    match numbers.first() {
        Some(first) if *first < wanted => from + near.partition_point(|number| *number < wanted),
        _ => 0,
    }
}

/// Returns what two sorted lists have in common.
pub(super) fn intersect(few: &[i64], many: &[i64]) -> Vec<i64> {
    let (few, many) = if few.len() <= many.len() { (few, many) } else { (many, few) };
    let mut at = 0;
    let mut found = Vec::new();
    for number in few {
        at += gallop(many.get(at..).unwrap_or_default(), *number);
        if many.get(at).map(|other| other.cmp(number)) == Some(Ordering::Equal) {
            found.push(*number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::super::postings::{ListWriter, TextWords};
    use super::*;
    use crate::records::tagged_tokens::TaggedTokens;

    proptest! {
        #[test]
        fn lists_have_in_common_what_sets_have(
            a in btree_set(0_i64..200, 0..60), b in btree_set(0_i64..2000, 0..300),
        ) {
            let (few, many): (Vec<i64>, Vec<i64>) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            let both: Vec<i64> = a.intersection(&b).copied().collect();
            prop_assert_eq!(&intersect(&few, &many), &both);
            prop_assert_eq!(&intersect(&many, &few), &both);
        }

        #[test]
        fn a_phrase_is_in_the_texts_that_have_it(
            texts in vec(vec(0_usize..3, 1..9), 1..12), wanted in vec(0_usize..3, 1..4),
        ) {
            const TOKENS: [&str; 3] = ["a", "b", "c"];
            let mut writers: [ListWriter; 3] = Default::default();
            for (at, text) in texts.iter().enumerate() {
                let mut tokens = TaggedTokens::default();
                text.iter().for_each(|token| tokens.push("1\u{80}", TOKENS[*token]));
                for ((_, token), places) in TextWords::of(&tokens).0 {
                    let token = TOKENS.iter().position(|own| own.as_bytes() == token).unwrap();
                    let number = pieces::number(at as i64 + 1, 0, 0).unwrap();
                    writers[token].push(number, Places(&places));
                }
            }
            let lists: Vec<PostingList> = writers.into_iter().map(|writer| {
                let blocks = writer.finish();
                PostingList::of_blocks(blocks.iter().map(|block| &*block.bytes), true).unwrap()
            }).collect();
            let found = TermLists::Phrase(vec![wanted.clone()])
                .records(&|at| lists.get(at), &[], (0, 100))
                .unwrap();
            let has = |text: &[usize]| text.windows(wanted.len()).any(|part| *part == wanted[..]);
            let expected: Vec<i64> =
                (1..).zip(&texts).filter(|(_, text)| has(text)).map(|(at, _)| at).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
