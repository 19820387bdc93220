//! How much of the data an answer shows.
//!
//! An answer has whole items: as many as fit, and at least one. It says `shown=k of n` and how to
//! continue after the last shown item. Sizes are counted in bytes of UTF-8, because a text never
//! has more characters or tokens than bytes.

use serde_json::{Map, Value as Json};
use stile_domain::json;

use super::text_lines;

/// The largest sizes of answers, in bytes unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// The text of a `search` or `query_records` answer.
    ///
    /// Identifiers are never truncated, and a cursor in a list of changes has over 800 bytes. An
    /// answer may therefore have up to [`MAX_ID_EXCESS`] more bytes if its first record has an
    /// identifier of more than 1,000 bytes, or of more than 500 in a list of changes.
    pub text: usize,
    /// The text of such an answer with `detail` `list`, which has a line or two for each item.
    pub list: usize,
    /// The preview of one field, in scalar values.
    pub preview_chars: usize,
    /// The structure of an answer, as JSON. A structure is shorter beside a short text, see
    /// [`Budgets::structured_beside`].
    pub structured: usize,
    /// The text of a `fetch` answer.
    pub document: usize,
    /// The text of a `schema` answer.
    pub schema: usize,
}

/// The bytes that a long identifier may add to [`Budgets::text`].
pub const MAX_ID_EXCESS: usize = 1000;

impl Budgets {
    /// The smallest allowed budget of a structure, in bytes. It has room for the longest names and
    /// for a typical field.
    pub const LEAST_STRUCTURED: usize = 16 * 1024;
    /// The largest allowed budget of a text or a structure, in bytes. Links and names, which have
    /// no budget, use the rest of [`MAX_ANSWER_PART_BYTES`].
    pub const MOST_BYTES: usize = MAX_ANSWER_PART_BYTES / 2;
    /// The largest allowed preview, in scalar values. So many of the longest characters fit into
    /// the 8 KiB that a list requests for each record.
    pub const MOST_PREVIEW_CHARS: usize = 2000;

    /// Returns how long a structure beside a text may be: four times the text's bytes and 2 KiB.
    pub fn structured_beside(&self, text_bytes: usize) -> usize {
        self.structured.min(4 * text_bytes + 2048)
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            text: 1800,
            list: 16 * 1024,
            preview_chars: 512,
            structured: 64 * 1024,
            document: 16 * 1024,
            schema: 8 * 1024,
        }
    }
}

/// The most bytes of any text and of any structure, whatever the resource server sends. The longest
/// answer from our own server is much shorter: a window of 16,384 escaped characters.
pub const MAX_ANSWER_PART_BYTES: usize = 256 * 1024;

/// The length of the longest escape or character in a JSON string, in bytes.
pub(super) const LONGEST_ESCAPE: usize = 6;

/// Counts how many items fit into `room` bytes. Each size includes a separator.
pub(super) fn count_fitting(sizes: impl IntoIterator<Item = usize>, room: usize) -> usize {
    let mut left = room;
    let fits = |size: &usize| match left.checked_sub(*size) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    sizes.into_iter().take_while(fits).count()
}

/// Takes the items that fit into `room` bytes, and at least one. Takes one item more than fits from
/// the iterator at most.
pub(super) fn take_fitting<T>(
    items: impl Iterator<Item = T>,
    room: usize,
    size: impl Fn(&T) -> usize,
) -> Vec<T> {
    let (mut kept, mut left) = (Vec::new(), Some(room));
    for item in items {
        left = left.and_then(|left| left.checked_sub(size(&item)));
        if left.is_none() && !kept.is_empty() {
            break;
        }
        kept.push(item);
    }
    kept
}

/// Returns the length of a value as JSON, including a comma after it. Line breaks are counted as
/// escaped, which they are in texts only.
pub(super) fn json_len(value: &Json) -> usize {
    let own = match value {
        Json::Null | Json::Bool(true) => 4,
        Json::Bool(false) => 5,
        Json::Number(number) => match number.as_u64() {
            Some(number) => number.checked_ilog10().map_or(1, |log| log as usize + 1),
            None => number.to_string().len(),
        },
        Json::String(text) => escaped_len(text) + 2,
        Json::Array(items) => {
            2 + items.iter().map(json_len).sum::<usize>() - usize::from(!items.is_empty())
        }
        Json::Object(members) => 2 + members_len(members) - usize::from(!members.is_empty()),
    };
    own + 1
}

/// Returns whether a value is longer than `bytes` as JSON. A cheap upper bound decides most cases.
pub(super) fn exceeds(value: &Json, bytes: usize) -> bool {
    max_json_len(value) > bytes && json_len(value) > bytes
}

/// Returns an upper bound of [`json_len`].
fn max_json_len(value: &Json) -> usize {
    /// Upper bounds for a number, and for quotes and punctuation.
    const NUMBER: usize = 32;
    const AROUND: usize = 4;
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => NUMBER,
        Json::String(text) => text.len() * LONGEST_ESCAPE + AROUND,
        Json::Array(items) => AROUND + items.iter().map(max_json_len).sum::<usize>(),
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| {
                name.len() * LONGEST_ESCAPE + AROUND + max_json_len(value)
            };
            AROUND + members.iter().map(member).sum::<usize>()
        }
    }
}

/// Returns the length of the members of an object as JSON, each with a comma after it.
pub(super) fn members_len(members: &Map<String, Json>) -> usize {
    members.iter().map(|(name, value)| escaped_len(name) + 3 + json_len(value)).sum()
}

/// Returns the length of a text within a JSON string after [`text_lines::escape_line_breaks`].
pub(super) fn escaped_len(text: &str) -> usize {
    let json = json::text::escaped_len(text);
    if text.is_ascii() {
        return json;
    }
    let breaks = text.chars().filter(|c| text_lines::is_line_break(*c));
    json + breaks.map(|c| escaped_char_len(c) - c.len_utf8()).sum::<usize>()
}

fn escaped_char_len(c: char) -> usize {
    match u8::try_from(c) {
        Ok(byte) if c.is_ascii() => 1 + usize::from(json::text::escape_len(byte)),
        _ if text_lines::is_line_break(c) => 6,
        _ => c.len_utf8(),
    }
}

/// Returns the longest prefix with at most `chars` scalar values and `escaped_bytes` bytes within a
/// JSON string, and its number of scalar values.
pub(super) fn prefix_within(text: &str, chars: usize, escaped_bytes: usize) -> (&str, usize) {
    // A text that fits even if every byte is escaped needs no scan.
    if text.len() <= chars && text.len() <= escaped_bytes / LONGEST_ESCAPE {
        return (text, text.chars().count());
    }
    let (mut end, mut taken, mut left) = (0, 0, escaped_bytes);
    for c in text.chars().take(chars) {
        let Some(rest) = left.checked_sub(escaped_char_len(c)) else { break };
        left = rest;
        end += c.len_utf8();
        taken += 1;
    }
    (text.get(..end).unwrap_or_default(), taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_is_as_long_as_allowed(text in "(?s).{0,60}", chars in 0usize..70, bytes in 0usize..200) {
            let (shown, count) = prefix_within(&text, chars, bytes);
            prop_assert!(text.starts_with(shown));
            prop_assert_eq!(shown.chars().count(), count);
            prop_assert!(count <= chars && escaped_len(shown) <= bytes);
            if let Some(next) = text[shown.len()..].chars().next() {
                let next = escaped_len(&next.to_string());
                prop_assert!(count == chars || escaped_len(shown) + next > bytes);
            }
        }

        #[test]
        fn escaped_len_is_the_length_within_json(text in "(?s).{0,60}") {
            let json = text_lines::escape_line_breaks(Json::from(text.as_str()).to_string());
            prop_assert_eq!(escaped_len(&text) + 2, json.len());
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            "(?s).{0,9}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::hash_map("(?s).{0,5}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_len_is_the_length_of_the_json(value in any_json()) {
            let length = text_lines::escape_line_breaks(value.to_string()).len() + 1;
            prop_assert_eq!(json_len(&value), length);
            prop_assert!(max_json_len(&value) >= length);
            prop_assert!(exceeds(&value, length - 1) && !exceeds(&value, length));
        }
    }

    #[test]
    fn take_fitting_makes_at_most_one_item_too_many() {
        let of = |sizes: &[usize], room| {
            let mut made = 0;
            let items = sizes.iter().inspect(|_| made += 1).copied();
            (take_fitting(items, room, |size| *size), made)
        };
        assert_eq!(of(&[3, 4, 5], 7), (vec![3, 4], 3));
        assert_eq!(of(&[3, 4, 5], 6), (vec![3], 2));
        assert_eq!(of(&[3, 4, 5], 2), (vec![3], 2), "at least one");
        assert_eq!(of(&[3, 4], 100), (vec![3, 4], 2));
        assert_eq!(of(&[], 100), (vec![], 0));
    }

    #[test]
    fn count_fitting_stops_at_the_first_item_that_does_not_fit() {
        assert_eq!(count_fitting([3, 4, 5], 7), 2);
        assert_eq!(count_fitting([3, 4, 5], 6), 1);
        assert_eq!(count_fitting([3, 1], 2), 0);
        assert_eq!(count_fitting([3, 1], 100), 2);
    }
}
