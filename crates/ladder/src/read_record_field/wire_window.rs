//! A window in the response of the resource server, and the checks that it passes.

use serde::{Deserialize, Deserializer};
use stile_domain::records::handle::{ContentVersion, parse_digest};
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::selector::MAX_CHARS;

use super::super::budget::prefix_within;
use super::super::error::LadderError;

/// A response to a request for a window.
#[derive(Debug, Deserialize)]
pub(super) struct WindowResponse {
    pub(super) connection_id: Option<String>,
    pub(super) field: WireField,
    pub(super) window: WireWindow,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireField {
    pub(super) text_like: Option<bool>,
    pub(super) mime_type: Option<String>,
    pub(super) size_chars: Option<u64>,
    pub(super) digest: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireWindow {
    pub(super) text: String,
    pub(super) total_chars: Option<u64>,
    pub(super) start_chars: u64,
    pub(super) end_chars: u64,
    pub(super) limit_chars: u64,
    pub(super) complete: bool,
    pub(super) next_offset_chars: Option<u64>,
    pub(super) previous_offset_chars: Option<u64>,
    pub(super) match_start_chars: Option<u64>,
    pub(super) match_end_chars: Option<u64>,
    /// The references to bytes that end in the window, in order.
    #[serde(default)]
    pub(super) references: Vec<WireReference>,
    /// The neighbouring cursors. The outer `None` means that the server does not send the member;
    /// `Some(None)` means that it sends `null`.
    #[serde(default, deserialize_with = "present_or_null")]
    pub(super) next_cursor: Option<Option<String>>,
    #[serde(default, deserialize_with = "present_or_null")]
    pub(super) previous_cursor: Option<Option<String>>,
}

/// A reference to bytes within the JSON of a field.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WireReference {
    pub(crate) path: String,
    pub(crate) mime_type: Option<String>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) digest: Option<String>,
    pub(crate) end_chars: u64,
}

fn present_or_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A window of bytes. A server sends one for a cursor of a binary field.
#[derive(Deserialize)]
struct WireByteWindow {
    #[serde(rename = "window")]
    _window: WireBase64,
}

#[derive(Deserialize)]
struct WireBase64 {
    #[serde(rename = "base64")]
    _base64: String,
}

/// Returns whether a response is a window of bytes.
pub(crate) fn is_byte_window(answer: &str) -> bool {
    serde_json::from_str::<WireByteWindow>(answer).is_ok()
}

/// What a response must be to answer its request.
#[derive(Debug, Default)]
pub(super) struct ExpectedWindow {
    /// The offset where the window begins, unless the field ends earlier.
    pub(super) start: Option<u64>,
    /// The expected version of the field.
    pub(super) version: ContentVersion,
    /// Whether only a cursor of the server selected the window.
    pub(super) by_cursor: bool,
}

impl WireWindow {
    /// Truncates the window to `most` scalar values, if the server sent more. The next window
    /// begins where this one then ends.
    pub(super) fn truncate(&mut self, max_chars: u64) {
        let max_chars = usize::try_from(max_chars.min(MAX_CHARS)).unwrap_or(usize::MAX);
        let (shown, count) = prefix_within(&self.text, max_chars, usize::MAX);
        if shown.len() < self.text.len() {
            self.end_chars = self.start_chars.saturating_add(count as u64);
            self.next_offset_chars = Some(self.end_chars);
            self.next_cursor = self.next_cursor.take().map(|_| None);
            self.complete = false;
            self.text.truncate(shown.len());
            let end = self.end_chars;
            self.references.retain(|reference| reference.end_chars <= end);
        }
    }

    /// Corrects the end of the match if the server counted its length in UTF-16 units.
    fn recount_match(&mut self) {
        let (Some(from), Some(to)) = (self.match_start_chars, self.match_end_chars) else { return };
        let before =
            from.checked_sub(self.start_chars).and_then(|before| usize::try_from(before).ok());
        let (Some(before), Some(mut left)) = (before, to.checked_sub(from)) else { return };
        let is_within = |c: &char| {
            let is_within = left > 0;
            left = left.saturating_sub(c.len_utf16() as u64);
            is_within
        };
        let count = self.text.chars().skip(before).take_while(is_within).count();
        self.match_end_chars = from.checked_add(count as u64);
    }

    /// Returns whether the numbers fit the text and each other. A consistent window leads neither
    /// backwards nor beyond what can be counted.
    fn is_consistent(&self, size: Option<u64>) -> bool {
        let Self { start_chars: start, end_chars: end, .. } = *self;
        let found = (self.match_start_chars, self.match_end_chars);
        let numbers = [size, Some(end), Some(self.limit_chars), found.0, found.1];
        numbers.into_iter().flatten().all(|number| i64::try_from(number).is_ok())
            && end.checked_sub(start) == Some(self.text.chars().count() as u64)
            && size.is_none_or(|size| end <= size)
            && self.next_offset_chars.is_none_or(|next| next == end && start < end)
            && self.previous_offset_chars.is_none_or(|previous| previous < start)
            && found.0.zip(found.1).is_none_or(|(from, to)| from <= to)
    }

    /// Returns whether the window follows a cursor. A server that ignores cursors sends the
    /// beginning of the field, and no cursors.
    fn follows_cursor(&self) -> bool {
        let Self { next_cursor, previous_cursor, .. } = self;
        match (self.start_chars, self.next_offset_chars) {
            (0, Some(_)) => matches!(next_cursor, Some(Some(_))),
            (0, None) => next_cursor.is_some() || previous_cursor.is_some(),
            _ => true,
        }
    }
}

impl WindowResponse {
    /// Returns the size of the field in scalar values.
    pub(super) fn size_chars(&self) -> Option<u64> {
        self.field.size_chars.or(self.window.total_chars)
    }

    /// Corrects the numbers of a server that truncates by scalar values but reports lengths in
    /// UTF-16 units. Such a server truncates in its database and counts in JavaScript.
    ///
    /// Two cases are certain: the text has as many scalar values as the limit, or as many as remain
    /// in the field. In UTF-16 units it would be shorter. The length of a whole field is certain
    /// too. Any other window is left as it is, and the check refuses it.
    pub(super) fn recount_utf16(&mut self) {
        let size = self.size_chars();
        let Self { field, window, .. } = self;
        let count = window.text.chars().count() as u64;
        let Some(reported) = window.end_chars.checked_sub(window.start_chars) else { return };
        if reported == count {
            return;
        }
        let units = window.text.encode_utf16().count() as u64;
        // Such a server reports no end beyond that of the field.
        let left = size.and_then(|size| size.checked_sub(window.start_chars));
        if reported != units && left.is_none_or(|left| reported != left.min(units)) {
            return;
        }
        let Some(end) = window.start_chars.checked_add(count) else { return };
        // The size in scalar values can equal the number of units by chance, so a window of full
        // length does not count as the whole field.
        let is_all = |size: u64| size == units && count != window.limit_chars;
        let is_whole = window.start_chars == 0 && window.complete && size.is_none_or(is_all);
        if is_whole {
            (field.size_chars, window.total_chars) = (Some(count), Some(count));
        } else if count != window.limit_chars && size != Some(end) {
            return;
        }
        window.recount_match();
        window.end_chars = end;
        window.next_offset_chars = None;
        window.next_cursor = window.next_cursor.take().map(|_| None);
        window.complete = is_whole || (window.start_chars == 0 && size == Some(end));
    }

    /// Sets the next offset if the server says in another way that the field continues: by a
    /// cursor, by a size beyond the end, or, without a size, by `complete: false`. In the last case
    /// the final window is empty.
    pub(super) fn find_next_offset(&mut self) {
        let size = self.size_chars();
        let window = &mut self.window;
        let has_cursor = matches!(window.next_cursor, Some(Some(_)));
        let is_cut = size.map_or(!window.complete, |size| window.end_chars < size);
        if !window.text.is_empty() && (has_cursor || is_cut) {
            window.next_offset_chars.get_or_insert(window.end_chars);
        }
        window.complete &= window.next_offset_chars.is_none();
    }

    /// Returns what the response says about the field's version.
    pub(super) fn version(&self) -> ContentVersion {
        ContentVersion {
            digest: self.field.digest.as_deref().and_then(parse_digest),
            size: self.size_chars(),
        }
    }

    /// Checks that the response is a window, and the expected one.
    ///
    /// # Errors
    /// `provider_error` for inconsistent numbers or another offset; [`CursorProblem::Stale`] if the
    /// field changed; [`CursorProblem::Malformed`] if the server ignored a cursor.
    pub(super) fn check(&self, expected: &ExpectedWindow) -> Result<(), LadderError> {
        if !self.window.is_consistent(self.size_chars()) {
            return Err(LadderError::invalid_response());
        }
        if expected.version.differs(&self.version()) {
            return Err(LadderError::Cursor(CursorProblem::Stale));
        }
        if expected.by_cursor && !self.window.follows_cursor() {
            return Err(LadderError::Cursor(CursorProblem::Malformed));
        }
        let (start, is_empty) = (self.window.start_chars, self.window.text.is_empty());
        let is_there = |requested: u64| match self.size_chars() {
            Some(size) => start == requested.min(size),
            None => start == requested || (start < requested && is_empty),
        };
        if expected.start.is_none_or(is_there) {
            Ok(())
        } else {
            Err(LadderError::invalid_response())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn response(more: Json) -> WindowResponse {
        let mut window = json!({
            "text": "é🙂x", "total_chars": 9, "start_chars": 3, "end_chars": 6, "limit_chars": 3, "complete": false,
            "next_offset_chars": 6, "previous_offset_chars": 0,
        });
        window.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        serde_json::from_value(json!({ "field": {}, "window": window })).unwrap()
    }

    #[test]
    fn lengths_in_utf16_units_are_corrected_if_that_is_certain() {
        let counted = |more: Json| {
            let mut all = json!({ "text": "é🙂x🙂", "end_chars": 9, "total_chars": 20, "limit_chars": 4, "next_offset_chars": 9 });
            all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            let mut window = response(all);
            window.recount_utf16();
            window.find_next_offset();
            let ok = window.check(&ExpectedWindow::default()).is_ok();
            let WireWindow { end_chars, next_offset_chars, match_end_chars, complete, .. } =
                window.window;
            ok.then_some((
                end_chars, next_offset_chars, match_end_chars, complete, window.field.size_chars,
            ))
        };
        // A window of full length; with a cursor; with a known end.
        assert_eq!(counted(json!({})), Some((7, Some(7), None, false, None)));
        assert_eq!(counted(json!({ "next_cursor": "c" })), Some((7, Some(7), None, false, None)));
        assert_eq!(
            counted(json!({ "limit_chars": 99, "total_chars": 7 })),
            Some((7, None, None, false, None))
        );
        let all = json!({ "start_chars": 0, "end_chars": 6, "limit_chars": 99, "next_offset_chars": null, "previous_offset_chars": null });
        let all = |more: Json| {
            let mut all = all.clone();
            all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            counted(all)
        };
        assert_eq!(all(json!({ "total_chars": 4 })), Some((4, None, None, true, None)));
        for size in [json!(6), json!(null)] {
            assert_eq!(
                all(json!({ "total_chars": size, "complete": true })),
                Some((4, None, None, true, Some(4)))
            );
        }
        for (from, to, end) in
            [(4, 6, 5), (4, 7, 6), (6, 8, 7), (5, 6, 6), (4, 99, 7), (99, 101, 99)]
        {
            let found = json!({ "match_start_chars": from, "match_end_chars": to });
            assert_eq!(counted(found), Some((7, Some(7), Some(end), false, None)), "{from} {to}");
        }
        // The end in UTF-16 units lies beyond the field, so the server reports the field's end.
        let clamped = json!({ "end_chars": 8, "total_chars": 8, "complete": true, "next_offset_chars": null });
        assert_eq!(counted(clamped), Some((7, Some(7), None, false, None)));
        // These could be counted in UTF-16 units, or make no sense.
        for unclear in [
            json!({ "end_chars": 8, "total_chars": 8, "limit_chars": 5 }),
            json!({ "end_chars": 2 }),
            json!({ "limit_chars": 5 }),
            json!({ "limit_chars": 6 }),
            json!({ "end_chars": 8 }),
            json!({ "end_chars": 10 }),
            json!({ "limit_chars": 99, "total_chars": 9, "next_offset_chars": null }),
            json!({ "total_chars": 6 }),
        ] {
            assert_eq!(counted(unclear.clone()), None, "{unclear}");
        }
        assert_eq!(all(json!({ "total_chars": 6 })), None);
    }

    #[test]
    fn every_sign_that_a_field_continues_sets_the_next_offset() {
        let next = |more: Json| {
            let mut all = json!({ "next_offset_chars": null, "previous_offset_chars": null });
            all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            let mut window = response(all);
            window.find_next_offset();
            assert_eq!(window.check(&ExpectedWindow::default()), Ok(()), "{more}");
            let WireWindow { next_offset_chars, complete, .. } = window.window;
            assert!(!complete || next_offset_chars.is_none(), "{more}");
            next_offset_chars
        };
        for more in [
            json!({ "next_offset_chars": 6 }),
            json!({}),
            json!({ "complete": true }),
            json!({ "total_chars": null }),
            json!({ "total_chars": null, "next_cursor": null }),
            json!({ "total_chars": null, "complete": true, "next_cursor": "c" }),
            json!({ "total_chars": 6, "next_cursor": "c" }),
        ] {
            assert_eq!(next(more.clone()), Some(6), "{more}");
        }
        for more in [
            json!({ "total_chars": 6 }),
            json!({ "total_chars": 6, "next_cursor": null }),
            json!({ "total_chars": null, "complete": true }),
            json!({ "text": "", "end_chars": 3 }),
            json!({ "text": "", "end_chars": 3, "total_chars": null, "next_cursor": "c" }),
        ] {
            assert_eq!(next(more.clone()), None, "{more}");
        }
        // A server that ignores cursors is found out even if only the size says that there is more.
        let mut first = response(json!({
            "start_chars": 0, "end_chars": 3, "next_offset_chars": null, "previous_offset_chars": null, "next_cursor": null,
        }));
        first.find_next_offset();
        let by_cursor = ExpectedWindow { by_cursor: true, ..ExpectedWindow::default() };
        assert_eq!(first.check(&by_cursor), Err(LadderError::Cursor(CursorProblem::Malformed)));
    }

    fn provider_error() -> Result<(), LadderError> {
        Err(LadderError::invalid_response())
    }

    #[test]
    fn inconsistent_windows_are_refused() {
        assert_eq!(response(json!({})).check(&ExpectedWindow::default()), Ok(()));
        for lie in [
            json!({ "end_chars": 2 }),
            json!({ "end_chars": 7 }),
            json!({ "end_chars": 2, "next_offset_chars": 2 }),
            json!({ "start_chars": u64::MAX - 2, "end_chars": u64::MAX, "total_chars": null, "next_offset_chars": null }),
            json!({ "total_chars": 5 }),
            json!({ "total_chars": u64::MAX }),
            json!({ "limit_chars": u64::MAX }),
            json!({ "next_offset_chars": 0 }),
            json!({ "next_offset_chars": 3 }),
            json!({ "next_offset_chars": 7 }),
            json!({ "previous_offset_chars": 3 }),
            json!({ "previous_offset_chars": u64::MAX }),
            json!({ "match_start_chars": 5, "match_end_chars": 4 }),
            json!({ "match_start_chars": 5, "match_end_chars": u64::MAX }),
            json!({ "text": "", "end_chars": 3, "next_offset_chars": 3 }),
        ] {
            assert_eq!(
                response(lie.clone()).check(&ExpectedWindow::default()),
                provider_error(),
                "{lie}"
            );
        }
    }

    #[test]
    fn a_window_begins_at_the_requested_offset_or_at_the_end() {
        let at = |start| ExpectedWindow { start: Some(start), ..ExpectedWindow::default() };
        assert_eq!(response(json!({})).check(&at(3)), Ok(()));
        assert_eq!(response(json!({})).check(&at(4)), provider_error());
        assert_eq!(response(json!({})).check(&at(0)), provider_error());
        let end = |size: Json| {
            response(
                json!({ "text": "", "start_chars": 9, "end_chars": 9, "total_chars": size, "next_offset_chars": null }),
            )
        };
        for size in [json!(9), json!(null)] {
            assert_eq!(end(size.clone()).check(&at(9)), Ok(()));
            assert_eq!(end(size.clone()).check(&at(800)), Ok(()));
            assert_eq!(end(size).check(&at(8)), provider_error());
        }
    }

    #[test]
    fn an_ignored_cursor_is_malformed() {
        let by_cursor = || ExpectedWindow { by_cursor: true, ..ExpectedWindow::default() };
        let malformed = Err(LadderError::Cursor(CursorProblem::Malformed));
        let first = |more: Json| {
            let mut all = json!({ "start_chars": 0, "end_chars": 3, "next_offset_chars": 3, "previous_offset_chars": null });
            all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            response(all)
        };
        assert_eq!(first(json!({})).check(&by_cursor()), malformed);
        assert_eq!(first(json!({ "next_cursor": null })).check(&by_cursor()), malformed);
        assert_eq!(first(json!({ "next_cursor": "c" })).check(&by_cursor()), Ok(()));
        let whole = json!({ "total_chars": 3, "next_offset_chars": null });
        assert_eq!(first(whole.clone()).check(&by_cursor()), malformed);
        let mut sent = whole;
        sent["next_cursor"] = Json::Null;
        assert_eq!(first(sent).check(&by_cursor()), Ok(()));
        assert_eq!(
            response(json!({})).check(&by_cursor()),
            Ok(()),
            "it begins where only the cursor says"
        );
    }

    #[test]
    fn a_window_of_another_version_is_stale() {
        let of = |size| ExpectedWindow {
            version: ContentVersion { digest: None, size: Some(size) },
            ..ExpectedWindow::default()
        };
        assert_eq!(response(json!({})).check(&of(9)), Ok(()));
        assert_eq!(
            response(json!({})).check(&of(8)),
            Err(LadderError::Cursor(CursorProblem::Stale))
        );
    }
}
