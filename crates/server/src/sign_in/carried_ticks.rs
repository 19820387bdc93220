//! The ticks of a list that a form carries, because its page has no room to show them.
//!
//! A page shows a part of a long list. Its form says which part, so that a tick that is absent
//! there was taken away, and how the others stand, so that they stay as they are: as numbers in the
//! list, since names can be long. A digest of the names comes with them. If the list is another one
//! by then, the numbers mean other names, and nothing can be read.

use std::ops::Range;

use stile_domain::hash::ContentHash;

/// How many characters of the digest a form has.
const DIGEST_CHARS: usize = 16;

/// The part of a list that a page showed, and how each name stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedTicks {
    /// The numbers of the names that the page showed.
    pub shown: Range<usize>,
    ticked: Vec<bool>,
}

impl CarriedTicks {
    /// Returns the text that a form carries of the list `names`, of which the page shows a part.
    pub fn text(names: &[&str], shown: Range<usize>, is_ticked: impl Fn(usize) -> bool) -> String {
        let digits = (0..names.len()).step_by(4).map(|first| {
            let bit =
                |at: usize| u32::from(first + at < names.len() && is_ticked(first + at)) << at;
            char::from_digit((0..4).map(bit).sum(), 16).unwrap_or('0')
        });
        let digits: String = digits.collect();
        format!("{}.{}.{}.{digits}", digest(names), shown.start, shown.end)
    }

    /// Reads what a form carries; `None` if it is of another list.
    pub fn read(text: &str, names: &[&str]) -> Option<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let [of, start, end, digits] = parts.as_slice() else { return None };
        let (start, end): (usize, usize) = (start.parse().ok()?, end.parse().ok()?);
        if *of != digest(names) || digits.len() != names.len().div_ceil(4) {
            return None;
        }
        let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits?;
        let is_ticked =
            |at: usize| digits.get(at / 4).is_some_and(|digit| digit >> (at % 4) & 1 == 1);
        Some(Self { shown: start..end, ticked: (0..names.len()).map(is_ticked).collect() })
    }

    /// Returns whether a name is ticked, of which the form has sent this tick.
    pub fn is_ticked(&self, at: usize, sent: Option<&str>) -> bool {
        if self.shown.contains(&at) {
            sent.is_some()
        } else {
            self.ticked.get(at).is_some_and(|it| *it)
        }
    }
}

fn digest(names: &[&str]) -> String {
    let whole = ContentHash::digest(names.join("\0").as_bytes()).to_string();
    whole.chars().take(DIGEST_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_a_page_does_not_show_stays_as_it_was_and_what_it_shows_is_as_sent(
            ticks in proptest::collection::vec(any::<(bool, bool)>(), 0..40),
            start in 0..40_usize, count in 0..40_usize,
        ) {
            let names: Vec<String> = (0..ticks.len()).map(|at| format!("n{at}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let text = CarriedTicks::text(&names, start..start + count, |at| ticks[at].0);
            let read = CarriedTicks::read(&text, &names).unwrap();
            for (at, (before, sent)) in ticks.iter().enumerate() {
                let is_shown = (start..start + count).contains(&at);
                prop_assert_eq!(read.is_ticked(at, sent.then_some("on")), if is_shown { *sent } else { *before });
            }
            prop_assert_eq!(CarriedTicks::read(&text, &[&names[..], &["more"]].concat()), None);
        }
    }

    #[test]
    fn what_is_malformed_or_of_another_list_is_not_read() {
        let names = ["a", "b", "c", "d", "e"];
        let text = CarriedTicks::text(&names, 0..2, |at| at == 4);
        assert!(CarriedTicks::read(&text, &names).unwrap().is_ticked(4, None));
        for bad in ["", "1.2", &text[1..], &format!("{text}0"), &text.replace("01", "0g")] {
            assert_eq!(CarriedTicks::read(bad, &names), None, "{bad}");
        }
        assert_eq!(CarriedTicks::read(&text, &["a", "b", "c", "e", "d"]), None);
    }
}
