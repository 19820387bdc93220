//! How much of a list fits on a page, in bytes.
//!
//! Names may have hundreds of characters, so a number of rows says nothing about the size of a
//! page. Every list of a page takes what it needs from one [`Room`], and says how many rows it left
//! out.

use maud::{Markup, PreEscaped, Render, html};

/// The largest page, in bytes.
pub(super) const PAGE_BYTES: usize = 60_000;
/// What the frame of a page takes: head, navigation, headings, forms.
const FRAME_BYTES: usize = 8_000;

/// The bytes that a page may still take.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
}

/// The rows of a list that fit on its page.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    rows: String,
    /// How many rows are shown.
    pub(super) shown: usize,
}

impl Room {
    /// Returns the room of a page for its lists.
    pub(super) fn of_page() -> Self {
        Self::of(PAGE_BYTES - FRAME_BYTES)
    }

    /// Returns a room of so many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes at most so many bytes out of the room, as a room for one part of the page.
    pub(super) fn part(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        Self::of(bytes)
    }

    /// Returns how many bytes the page may still take.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Takes the bytes of something that the page shows whatever its size.
    pub(super) fn take(&mut self, shown: Markup) -> Markup {
        self.left = self.left.saturating_sub(shown.0.len());
        shown
    }

    /// Shows rows, one after another, as long as they fit, and `most` of them at most.
    pub(super) fn fit<T>(
        &mut self,
        rows: impl IntoIterator<Item = T>,
        most: usize,
        mut show: impl FnMut(T) -> Markup,
    ) -> Fitted {
        let mut fitted = Fitted { rows: String::new(), shown: 0 };
        for row in rows.into_iter().take(most) {
            let PreEscaped(row) = show(row);
            let Some(left) = self.left.checked_sub(row.len()) else { break };
            self.left = left;
            fitted.rows.push_str(&row);
            fitted.shown += 1;
        }
        fitted
    }
}

impl Fitted {
    /// Says how many of `all` rows are not shown, if any.
    pub(super) fn and_more(&self, all: usize) -> Markup {
        let more = all.saturating_sub(self.shown);
        html! { @if more > 0 { p class="muted" { "And " (more) " more." } } }
    }

    /// Says how many rows of a list are not shown, and leads to the page that begins with them.
    /// `first` is the number of the first row of this page.
    pub(super) fn next_page(&self, (first, all): (usize, usize), address: &str) -> Markup {
        let next = first.saturating_add(self.shown);
        let more = all.saturating_sub(next);
        html! {
            @if more > 0 && self.shown > 0 {
                nav class="paging" aria-label="More" {
                    a href={ (address) "&from=" (next) } { "And " (more) " more" }
                }
            }
        }
    }
}

impl Render for Fitted {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shown_as_long_as_they_fit_and_the_others_are_counted() {
        let row = |text: &str| html! { li { (text) } };
        let mut room = Room::of(40);
        // Each row has 14 bytes.
        let fitted = room.fit(["aaaaa", "bbbbb", "ccccc"], 9, row);
        assert_eq!(html! { (fitted) }.into_string(), "<li>aaaaa</li><li>bbbbb</li>");
        assert!(fitted.and_more(3).into_string().contains("And 1 more."));
        let paging = fitted.next_page((10, 300), "/owner/undo?call=1").into_string();
        assert!(paging.contains("/owner/undo?call=1&amp;from=12") && paging.contains("288 more"));
        assert_eq!(fitted.next_page((10, 12), "/x").into_string(), "");
        assert_eq!(room.fit(["ddddd"], 9, row).shown, 0, "the room is used up");
        let mut part = Room::of(100).part(300);
        assert_eq!(part.fit(["eeeee"; 30], 3, row).shown, 3, "at most so many");
    }
}
