//! Which window of a field a request selects, and the bounds of that window.
//!
//! Text is counted in Unicode scalar values, binary content in bytes. A window begins at an offset,
//! continues from a cursor, or lies around the first occurrence of a text. The three ways exclude
//! each other, and contradictory parameters are refused before anything is read.

use super::problem::Problem;

/// The scalar values of a window if the request sets no limit.
pub const DEFAULT_CHARS: u64 = 4096;
/// The most scalar values of a window.
pub const MAX_CHARS: u64 = 16384;
/// The scalar values before and after a match if the request does not say.
pub const DEFAULT_CONTEXT: u64 = 2048;
/// The most scalar values before, and after, a match.
pub const MAX_CONTEXT: u64 = 8192;
/// The longest text to search for, in scalar values.
pub const MAX_QUERY_CHARS: usize = 1024;

/// The most bytes of a window of bytes, and the default.
pub const MAX_BYTES: u64 = 65536;

/// Whether a request has parameters that select characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextParameters {
    /// One or more of them, such as `offset_chars` or `q`.
    Sent,
    /// None of them.
    Absent,
}

/// The window of bytes that a request selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByteSelector {
    /// The window begins at an offset.
    At {
        /// The offset, in bytes.
        start: u64,
        /// The most bytes of the window.
        limit: u64,
    },
    /// The window continues from a cursor.
    After {
        /// The sealed cursor.
        cursor: String,
        /// The most bytes of the window, if not the cursor's own limit.
        limit: Option<u64>,
    },
}

impl ByteSelector {
    /// Combines the parameters of a request. Returns `None` if neither `offset_bytes` nor
    /// `limit_bytes` is sent.
    ///
    /// # Errors
    /// [`Problem::InvalidWindow`], which says which parameters exclude each other.
    pub fn new(
        cursor: Option<&str>,
        offset: Option<u64>,
        limit: Option<u64>,
        text: TextParameters,
    ) -> Result<Option<Self>, Problem> {
        let param = if offset.is_some() { "offset_bytes" } else { "limit_bytes" };
        let refused =
            |message: &str| Err(Problem::InvalidWindow { param, message: message.to_owned() });
        match (cursor, offset, limit) {
            (_, None, None) => Ok(None),
            _ if text == TextParameters::Sent => refused(
                "`offset_bytes` and `limit_bytes` exclude `offset_chars`, `limit_chars`, \
                 `before_chars`, `after_chars` and `q`: send the former for a binary field, the \
                 latter for any other",
            ),
            (Some(_), Some(_), _) => {
                refused("`cursor` and `offset_bytes` exclude each other; send one of them")
            }
            (Some(cursor), None, limit) => {
                Ok(Some(Self::After { cursor: cursor.to_owned(), limit }))
            }
            (None, start, limit) => {
                Ok(Some(Self::At { start: start.unwrap_or(0), limit: limit.unwrap_or(MAX_BYTES) }))
            }
        }
    }
}

/// The window of text that a request selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSelector {
    /// The window begins at an offset.
    At {
        /// The offset, in scalar values.
        start: u64,
        /// The most scalar values of the window.
        limit: u64,
    },
    /// The window continues from a cursor.
    After {
        /// The sealed cursor.
        cursor: String,
        /// The most scalar values of the window, if not the cursor's own limit.
        limit: Option<u64>,
    },
    /// The window lies around the first occurrence of a text.
    Around {
        /// The text to search for.
        q: String,
        /// The most scalar values before the occurrence.
        before: u64,
        /// The most scalar values after the occurrence.
        after: u64,
        /// The most scalar values of the whole window; [`MAX_CHARS`] if absent.
        limit: Option<u64>,
    },
}

impl TextSelector {
    /// Combines the parameters of a request.
    ///
    /// # Errors
    /// [`Problem::InvalidWindow`], which says which parameters exclude each other.
    pub fn new(
        cursor: Option<&str>,
        offset: Option<u64>,
        limit: Option<u64>,
        q: Option<&str>,
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<Self, Problem> {
        let refused = |param, message: &str| {
            Err(Problem::InvalidWindow { param, message: message.to_owned() })
        };
        if cursor.is_some()
            && (offset.is_some() || q.is_some() || before.is_some() || after.is_some())
        {
            let message = "`cursor` continues a window and excludes an explicit selection: send it \
                           without `offset_chars`, `q`, `before_chars` and `after_chars`";
            return refused("cursor", message);
        }
        if q.is_some() && offset.is_some() {
            return refused("q", "`q` and `offset_chars` exclude each other; send one of them");
        }
        if q.is_none() && (before.is_some() || after.is_some()) {
            let param = if before.is_some() { "before_chars" } else { "after_chars" };
            return refused(
                param,
                "`before_chars` and `after_chars` belong to `q`; send it, or leave them out",
            );
        }
        match (cursor, q) {
            (Some(cursor), _) => Ok(Self::After { cursor: cursor.to_owned(), limit }),
            (None, Some(q)) if q.is_empty() || q.chars().nth(MAX_QUERY_CHARS).is_some() => {
                refused("q", "`q` is a text of 1 to 1024 characters")
            }
            (None, Some(q)) => Ok(Self::Around {
                q: q.to_owned(),
                before: before.unwrap_or(DEFAULT_CONTEXT),
                after: after.unwrap_or(DEFAULT_CONTEXT),
                limit,
            }),
            (None, None) => {
                Ok(Self::At { start: offset.unwrap_or(0), limit: limit.unwrap_or(DEFAULT_CHARS) })
            }
        }
    }
}

/// The bounds of a window in its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBounds {
    /// The position of the first scalar value.
    pub start: u64,
    /// One past the position of the last scalar value.
    pub end: u64,
    /// The most scalar values that the window may have.
    pub limit: u64,
    /// The length of the neighbouring windows.
    pub step: u64,
    /// The length of the field.
    pub total: u64,
}

impl WindowBounds {
    /// Begins a window at an offset. An offset past the end gives an empty window at the end.
    pub fn from_offset(start: u64, limit: u64, total: u64) -> Self {
        let start = start.min(total);
        Self { start, end: start.saturating_add(limit).min(total), limit, step: limit, total }
    }

    /// Puts a window around a match, which the window always contains. Returns `None` if the match
    /// is longer than the limit.
    ///
    /// If both contexts do not fit, each is shortened in proportion.
    pub fn around(
        found: u64,
        end: u64,
        before: u64,
        after: u64,
        limit: Option<u64>,
        total: u64,
    ) -> Option<Self> {
        let (step, limit) = (limit.unwrap_or(DEFAULT_CHARS), limit.unwrap_or(MAX_CHARS));
        let spare = limit.checked_sub(end.saturating_sub(found))?;
        let (before, after) = (before.min(found), after.min(total.saturating_sub(end)));
        let (before, after) = match before + after {
            requested if requested <= spare => (before, after),
            requested => {
                let first = before * spare / requested;
                (first, spare - first)
            }
        };
        Some(Self {
            start: found - before,
            end: end + after.min(total.saturating_sub(end)),
            limit,
            step,
            total,
        })
    }

    /// Whether the window is the whole field.
    pub fn is_complete(&self) -> bool {
        self.start == 0 && self.end == self.total
    }

    /// Returns the start and the limit of the next window, if the field continues.
    pub fn next(&self) -> Option<(u64, u64)> {
        (self.end < self.total).then_some((self.end, self.step))
    }

    /// Returns the start and the length of the window that ends where this one begins, if any.
    pub fn previous(&self) -> Option<(u64, u64)> {
        let start = self.start.saturating_sub(self.step);
        (self.start > 0).then_some((start, self.start - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn consecutive_windows_cover_the_field(total in 0u64..500, limit in 1u64..50) {
            let mut span = WindowBounds::from_offset(0, limit, total);
            let mut covered = span.end;
            while let Some((next, step)) = span.next() {
                let before = span;
                span = WindowBounds::from_offset(next, step, total);
                prop_assert_eq!(span.start, covered);
                let (start, length) = span.previous().unwrap();
                prop_assert_eq!(WindowBounds::from_offset(start, length, total).end, span.start);
                prop_assert_eq!(start, before.start);
                prop_assert!(span.end > span.start && span.end - span.start <= limit);
                covered = span.end;
            }
            prop_assert_eq!(covered, total);
        }

        #[test]
        fn a_window_around_a_match_contains_the_match(
            total in 1u64..1000, at in 0u64..1000, length in 1u64..50,
            before in 0u64..100, after in 0u64..100, limit in 1u64..200,
        ) {
            let found = at % total;
            let end = (found + length).min(total);
            match WindowBounds::around(found, end, before, after, Some(limit), total) {
                None => prop_assert!(end - found > limit),
                Some(span) => {
                    prop_assert!(span.start <= found && span.end >= end && span.end <= total);
                    prop_assert!(span.end - span.start <= limit);
                    prop_assert!(found - span.start <= before && span.end - end <= after);
                }
            }
        }
    }

    #[test]
    fn contradictory_parameters_are_refused() {
        let code = |selector: Result<TextSelector, Problem>| {
            selector.map_err(|problem| problem.to_string())
        };
        for refused in [
            TextSelector::new(Some("c"), Some(0), None, None, None, None),
            TextSelector::new(Some("c"), None, None, Some("q"), None, None),
            TextSelector::new(Some("c"), None, None, None, Some(1), None),
            TextSelector::new(Some("c"), None, None, None, None, Some(1)),
            TextSelector::new(None, Some(0), None, Some("q"), None, None),
            TextSelector::new(None, None, None, None, Some(1), None),
            TextSelector::new(None, None, None, None, None, Some(1)),
            TextSelector::new(None, None, None, Some(""), None, None),
            TextSelector::new(None, None, None, Some(&"q".repeat(1025)), None, None),
        ] {
            assert!(matches!(refused, Err(Problem::InvalidWindow { .. })), "{:?}", code(refused));
        }
        for refused in [
            ByteSelector::new(None, Some(0), None, TextParameters::Sent),
            ByteSelector::new(None, None, Some(1), TextParameters::Sent),
            ByteSelector::new(Some("c"), Some(0), None, TextParameters::Absent),
        ] {
            assert!(matches!(refused, Err(Problem::InvalidWindow { .. })), "{refused:?}");
        }
        assert_eq!(ByteSelector::new(Some("c"), None, None, TextParameters::Sent), Ok(None));
        let at = ByteSelector::At { start: 0, limit: 7 };
        assert_eq!(ByteSelector::new(None, None, Some(7), TextParameters::Absent), Ok(Some(at)));
        let plain = TextSelector::new(None, None, None, None, None, None);
        assert_eq!(code(plain), Ok(TextSelector::At { start: 0, limit: 4096 }));
        assert!(TextSelector::new(Some("c"), None, Some(10), None, None, None).is_ok());
    }
}
