//! The order of the records in a list, by the value of the stream's cursor field.
//!
//! A value becomes an order key: bytes that compare like the value, so that the database sorts
//! records with an index alone. Numbers sort before times, and times before other texts. `null`, an
//! empty text, booleans, arrays and objects have no order key. Records without one come last in
//! both directions.

use super::instant::Instant;
use super::value::FieldValue;

/// The names of the two directions of an order, as `/v1` spells them.
pub const ORDERS: [&str; 2] = ["asc", "desc"];
/// The names of the orders of a search's hits: by time and by relevance.
pub const SEARCH_ORDERS: [&str; 2] = ["newest", "relevance"];

/// The bytes of a text that count. Texts that agree up to there are ordered by record key.
const TEXT_BYTES: usize = 63;
/// The longest order key, in bytes.
pub const MAX_ORDER_BYTES: usize = 1 + TEXT_BYTES;

const NUMBER: u8 = 1;
const TIME: u8 = 2;
const TEXT: u8 = 3;

/// How the texts of a cursor field compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorFieldOrder {
    /// As times if they can be parsed as such, otherwise as texts.
    Times,
    /// As texts.
    Texts,
}

/// Returns the order key of a value; `None` if the value has none.
pub fn order_key(value: &FieldValue, ordering: CursorFieldOrder) -> Option<Vec<u8>> {
    match value {
        FieldValue::Number(digits) => {
            let number: f64 = digits.parse().ok()?;
            Some(tagged(NUMBER, &comparable(number)))
        }
        FieldValue::Text(text) if text.is_empty() => None,
        FieldValue::Text(text) => match (ordering, Instant::parse(text)) {
            (CursorFieldOrder::Times, Some(instant)) => Some(order_key_of_time(instant)),
            _ => Some(tagged(TEXT, text.as_bytes().get(..TEXT_BYTES).unwrap_or(text.as_bytes()))),
        },
        FieldValue::Null | FieldValue::Bool(_) | FieldValue::Json(_) => None,
    }
}

/// Returns the order key of a time.
pub fn order_key_of_time(Instant(micros): Instant) -> Vec<u8> {
    // With the sign bit flipped, negative numbers sort first.
    tagged(TIME, &(micros as u64 ^ 1 << 63).to_be_bytes())
}

/// Returns the bits of a double in an order that compares like the double. Both zeros are equal.
fn comparable(number: f64) -> [u8; 8] {
    let bits = (number + 0.0).to_bits();
    let flipped = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
    flipped.to_be_bytes()
}

fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut order = Vec::with_capacity(1 + bytes.len());
    order.push(tag);
    order.extend_from_slice(bytes);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(value: f64) -> Vec<u8> {
        order_key(&FieldValue::Number(value.to_string().into()), CursorFieldOrder::Texts).unwrap()
    }

    proptest! {
        #[test]
        fn bytes_compare_like_numbers(a in -1e12f64..1e12, b in -1e12f64..1e12) {
            prop_assert_eq!(number(a).cmp(&number(b)), a.partial_cmp(&b).unwrap());
        }

        #[test]
        fn bytes_compare_like_times(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(
                order_key_of_time(Instant(a)).cmp(&order_key_of_time(Instant(b))),
                a.cmp(&b),
            );
        }
    }

    #[test]
    fn values_other_than_numbers_and_texts_have_no_order_key() {
        assert_eq!(number(-0.0), number(0.0));
        for value in [
            FieldValue::Null,
            FieldValue::Bool(true),
            FieldValue::Text(String::new()),
            FieldValue::Json("[]".into()),
        ] {
            assert_eq!(order_key(&value, CursorFieldOrder::Times), None);
        }
        let text = order_key(&FieldValue::Text("x".repeat(100)), CursorFieldOrder::Times).unwrap();
        assert_eq!(text.len(), MAX_ORDER_BYTES);
    }
}
