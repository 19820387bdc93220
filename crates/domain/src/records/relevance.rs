//! How well a record fits a query, by rules of the record's own texts alone.
//!
//! No rule counts anything over other records, so a score reveals nothing about records that a
//! grant hides. Points are given for four things:
//!
//! | what | points at most |
//! |---|---|
//! | a text has the words of the query one after the other | 1,000 |
//! | terms stand near each other, by the share of all terms at the best place | 600 |
//! | terms occur in a field that names the record, by their share | 600 |
//! | terms occur often: `n / (n + 2)` for each term that occurs `n` times | 400 |

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::field_name;
use super::tokenizer::{
    MAX_PHRASE_TOKENS, ParsedQuery, PlaceFinder, SearchTerm, SearchToken, TermFinder,
};

/// The plain names of the fields that may name a record, in order of preference. Tables of banks
/// have theirs in other languages.
const NAMES: &str = "title titel titre título titulo titolo name naam nom nombre nome subject \
    betreff objet asunto oggetto onderwerp summary payee merchant counterparty counterpartyname \
    partnername zahlungsempfänger zahlungsempfängerin empfänger empfaenger \
    begünstigterzahlungspflichtiger beguenstigterzahlungspflichtiger auftraggeberempfänger \
    naamomschrijving description beschreibung bezeichnung omschrijving descripción descripcion descrizione libellé libelle \
    concepto verwendungszweck buchungstext memo headline label";
/// The length of a text in which terms count as near each other, in characters.
pub const NEAR_CHARS: u64 = 160;

const PHRASE_POINTS: u64 = 1000;
const NEAR_POINTS: u64 = 600;
const NAMING_POINTS: u64 = 600;
const COUNT_POINTS: u64 = 400;
/// How many occurrences of a term give half of the points for them.
const HALF_COUNT: u64 = 2;

/// The names of [`NAMES`], each with its place. A search asks for each field of each hit.
static RANKS: LazyLock<BTreeMap<&str, usize>> = LazyLock::new(|| {
    NAMES.split_whitespace().enumerate().map(|(rank, name)| (name, rank)).collect()
});

/// Returns how likely a field names its record, by its own name in any case: the smaller, the
/// likelier. `None` if it names no record.
///
/// ```
/// use stile_domain::records::relevance::naming_rank;
///
/// assert!(naming_rank("Partner Name") < naming_rank("Verwendungszweck"));
/// assert_eq!(naming_rank("amount"), None);
/// ```
pub fn naming_rank(name: &str) -> Option<usize> {
    RANKS.get(&*field_name::plain(name)).copied()
}

/// Returns the field that names a record best, of those with these names.
pub fn naming_field<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let ranked = names.into_iter().filter_map(|name| Some((naming_rank(name)?, name)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, name)| name)
}

/// The score of one record, gathered field by field.
#[derive(Debug)]
pub struct RecordScorer<'q> {
    query: &'q ParsedQuery,
    /// The words of the query as a phrase. `None` for a query of one term, or with a prefix or a
    /// named field.
    phrase: Option<SearchTerm>,
    has_phrase: bool,
    /// The most terms that one place holds.
    near: usize,
    /// What was found of each term.
    terms: Vec<TermScore>,
}

/// What was found of one term.
#[derive(Clone, Debug, Default)]
struct TermScore {
    /// How often the term occurs.
    count: u64,
    /// Whether it occurs in a field that names the record.
    is_named: bool,
}

impl<'q> RecordScorer<'q> {
    /// Begins the score of a record in which all terms of a query occur.
    pub fn new(query: &'q ParsedQuery) -> Self {
        let terms = vec![TermScore::default(); query.terms.len()];
        Self { query, phrase: whole_phrase(query), has_phrase: false, near: 0, terms }
    }

    /// Reads a text of the record. `feed` passes the tokens of the text to its argument.
    ///
    /// # Errors
    /// The error of `feed`.
    pub fn read_field<E>(
        &mut self,
        name: &str,
        feed: impl FnOnce(&mut dyn FnMut(&SearchToken<'_>)) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { query, phrase, has_phrase, near, terms } = self;
        let names_record = naming_rank(name).is_some();
        let own = query.terms.iter().zip(terms).filter(|(term, _)| term.is_for(name));
        let mut finders: Vec<_> =
            own.map(|(term, score)| (TermFinder::new(&term.term, 0), score)).collect();
        let own = query.terms.iter().filter(|term| term.is_for(name));
        let terms: Vec<&SearchTerm> = own.map(|term| &term.term).collect();
        let mut places = PlaceFinder::new(&terms, NEAR_CHARS, 0);
        let mut phrase = phrase.as_ref().map(|phrase| TermFinder::new(phrase, 0));
        feed(&mut |token| {
            for (finder, score) in &mut finders {
                if finder.feed(token).is_some() {
                    score.count += 1;
                    score.is_named |= names_record;
                }
            }
            places.feed(token);
            *has_phrase |= phrase.as_mut().is_some_and(|phrase| phrase.feed(token).is_some());
        })?;
        *near = (*near).max(places.best().map_or(0, |best| best.terms));
        Ok(())
    }

    /// Returns the score: the more points, the better the record fits.
    ///
    /// A term that occurs nowhere in the texts that were read counts as occurring once: it stands
    /// in a part of a long text that was not read.
    pub fn score(&self) -> u64 {
        let terms = (self.terms.len() as u64).max(1);
        let near = (self.near as u64).max(1);
        let named = self.terms.iter().filter(|term| term.is_named).count() as u64;
        let counts = self.terms.iter().map(|term| term.count.max(1));
        let counted: u64 = counts.map(|count| COUNT_POINTS * count / (count + HALF_COUNT)).sum();
        u64::from(self.has_phrase) * PHRASE_POINTS
            + NEAR_POINTS * near / terms
            + NAMING_POINTS * named / terms
            + counted / terms
    }
}

/// Returns the words of a query as a phrase.
fn whole_phrase(query: &ParsedQuery) -> Option<SearchTerm> {
    let mut words = Vec::new();
    for term in &query.terms {
        match &term.term {
            _ if term.field.is_some() => return None,
            SearchTerm::Word(word) => words.push(word.clone()),
            SearchTerm::Phrase(tokens) => words.extend(tokens.iter().cloned()),
            SearchTerm::Prefix(_) => return None,
        }
    }
    let is_phrase = query.terms.len() > 1 && words.len() <= MAX_PHRASE_TOKENS;
    is_phrase.then_some(SearchTerm::Phrase(words))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::super::tokenizer::tokens;
    use super::*;

    fn score(query: &str, fields: &[(&str, &str)]) -> u64 {
        let query =
            ParsedQuery::parse_with_fields(query, &|name| fields.iter().any(|own| own.0 == name));
        let mut scorer = RecordScorer::new(&query);
        for (name, text) in fields {
            let read = scorer.read_field(name, |take| {
                tokens(text).for_each(|token| take(&token));
                Ok::<(), Infallible>(())
            });
            read.unwrap();
        }
        scorer.score()
    }

    #[test]
    fn each_rule_counts_by_itself() {
        let far = format!("water {} ferns", "and so on ".repeat(30));
        let apart = score("water ferns", &[("body", &far)]);
        let near = score("water ferns", &[("body", "water all the ferns")]);
        let phrase = score("water ferns", &[("body", "water ferns")]);
        assert_eq!([apart, near, phrase], [300 + 133, 600 + 133, 1600 + 133]);
        let named = score("ferns", &[("subject", "ferns"), ("body", "moss")]);
        let unnamed = score("ferns", &[("to", "ferns"), ("body", "moss")]);
        assert_eq!([named, unnamed], [1333, 733]);
        let counts = [1, 2, 4, 100].map(|n| score("ferns", &[("body", &"ferns. ".repeat(n))]));
        assert_eq!(counts, [733, 800, 866, 992]);
        let elsewhere = score("moss subject:ferns", &[("subject", "moss"), ("body", "ferns moss")]);
        assert_eq!(elsewhere, 300 + 300 + (200 + 133) / 2, "ferns is not in the field");
    }

    proptest! {
        #[test]
        fn more_of_the_same_text_never_scores_less(
            text in "([abc]{1,2}|[ .]|語){0,40}",
            more in "( [abc]{1,2}| 語){0,10}",
            words in "([abc]{1,2}\\*? ?){1,4}",
            name in prop::sample::select(vec!["title", "body"]),
        ) {
            let longer = format!("{text}{more}");
            prop_assert!(score(&words, &[(name, &longer)]) >= score(&words, &[(name, &text)]));
        }
    }
}
