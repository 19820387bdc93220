//! A page of items, cut to its budgets: as many whole items as fit into the text, and into the structure.
//!
//! The two are cut apart, since the text is for a model's context and the structure for a program; each says how to go
//! on after the last item that it shows itself.

use serde_json::{Map, Value as Json};

use super::budget::{Budgets, OVERLONG, fitting};
use super::climb::Climb;
use super::port::Ask;
use super::trouble::Trouble;
use super::{LadderAnswer, Link, entry, lines};

/// One item of a page, in every form in which it may be shown.
pub(super) struct Item {
    /// Its lines, and its ways to resources.
    pub(super) lines: (String, Vec<Link>),
    /// The least that can be said of it.
    pub(super) least_lines: (String, Vec<Link>),
    /// Its member of the structured list.
    pub(super) row: Json,
    /// What it shortens.
    pub(super) entries: Vec<Json>,
    pub(super) more: Vec<Json>,
    /// The least of both that can be said of it.
    pub(super) least_row: Json,
    pub(super) least_more: Json,
    /// Where the list goes on after it.
    pub(super) cursor: Option<String>,
}

/// A page as the resource server gave it.
pub(super) struct Page<'a> {
    pub(super) tool: &'static str,
    pub(super) items: Vec<Item>,
    pub(super) next_cursor: Option<String>,
    /// The request, without a limit.
    pub(super) ask: Ask,
    /// The first line, given how many items are shown.
    pub(super) head: &'a (dyn Fn(usize) -> String + Sync),
    /// What is said after the items, where the page is shown to its end.
    pub(super) tail: Vec<String>,
}

/// A page as it is shown.
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) links: Vec<Link>,
    /// The rows of the structure, and how it goes on.
    pub(super) rows: Vec<Json>,
    pub(super) ladder: Json,
    pub(super) next_cursor: Option<String>,
    /// Whether the structure has the page to its end.
    pub(super) is_whole: bool,
}

/// What a structure has besides its items, at most.
const AROUND_BYTES: usize = 4 * 1024;

impl Page<'_> {
    /// Cuts the page.
    pub(super) async fn shown(self, climb: &Climb<'_>) -> Result<Shown, Trouble> {
        let Budgets { text: text_budget, structured, .. } = climb.budgets;
        let in_text = self.fitting_text(climb, text_budget);
        let sizes = self
            .items
            .iter()
            .map(|item| json_len(&item.row) + item.entries.iter().chain(&item.more).map(json_len).sum::<usize>());
        let in_rows = fitting(sizes, structured.saturating_sub(AROUND_BYTES));
        let (told, listed) = (in_text.max(1).min(self.items.len()), in_rows.max(1).min(self.items.len()));
        let after_text = self.cursor_after(climb, told).await?;
        let after_rows = if listed == told { after_text.clone() } else { self.cursor_after(climb, listed).await? };
        let mut text = (self.head)(told);
        let mut links = Vec::new();
        for item in self.items.iter().take(told) {
            let (lines, own) = if in_text == 0 { &item.least_lines } else { &item.lines };
            text.push('\n');
            text += lines;
            links.extend(own.iter().cloned());
        }
        if told == self.items.len() {
            self.tail.iter().for_each(|line| text = format!("{text}\n{line}"));
        }
        if let Some(cursor) = &after_text {
            text = format!("{text}\n{}", lines::again(climb, self.tool, cursor, ""));
        }
        debug_assert!(text.len() <= text_budget + OVERLONG, "{} bytes", text.len());
        let is_whole = listed == self.items.len();
        let (mut rows, mut entries, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for item in self.items.into_iter().take(listed) {
            if in_rows == 0 {
                rows.push(item.least_row);
                more.push(item.least_more);
            } else {
                rows.push(item.row);
                entries.extend(item.entries);
                more.extend(item.more);
            }
        }
        Ok(Shown { text, links, rows, ladder: entry::ladder(entries, more), next_cursor: after_rows, is_whole })
    }

    /// How many items the text has room for. What is said at the end of a page needs room where that is shown, and the line
    /// that goes on where it is not, or where more pages come.
    fn fitting_text(&self, climb: &Climb<'_>, budget: usize) -> usize {
        let all = self.items.len();
        // The first line is longer where not all are shown, since it says so.
        let head = (self.head)(all).len().max((self.head)(all.saturating_sub(1)).len());
        let (again, tail) = (self.again_len(climb), self.tail.iter().map(|line| line.len() + 1).sum::<usize>());
        let sizes = || self.items.iter().map(|item| item.lines.0.len() + 1);
        let end = if self.next_cursor.is_some() { again + tail } else { tail };
        if head + sizes().sum::<usize>() + end <= budget {
            return all;
        }
        fitting(sizes(), budget.saturating_sub(head + again)).min(all.saturating_sub(1))
    }

    /// The bytes of the line that goes on, at most.
    fn again_len(&self, climb: &Climb<'_>) -> usize {
        /// Of a cursor of another server, say.
        const USUAL: usize = 340;
        let cursors = self.items.first().and_then(|item| item.cursor.as_deref()).into_iter();
        let longest = cursors.chain(self.next_cursor.as_deref()).map(str::len).max();
        let is_asked_again = self.items.len() > 1 || self.next_cursor.is_some();
        if !is_asked_again {
            return 0;
        }
        let cursor = "x".repeat(longest.unwrap_or(USUAL));
        lines::again(climb, self.tool, &cursor, "").len() + 1
    }

    /// Where to go on after so many items; none where nothing comes after.
    async fn cursor_after(&self, climb: &Climb<'_>, shown: usize) -> Result<Option<String>, Trouble> {
        if shown >= self.items.len() {
            return Ok(self.next_cursor.clone());
        }
        let own = shown.checked_sub(1).and_then(|last| self.items.get(last)).and_then(|item| item.cursor.clone());
        if own.is_some() {
            return Ok(own);
        }
        // A server that says only at the end of a page how to go on is asked for a page that ends here.
        let page = climb.ask(self.ask.clone().with("limit", shown.max(1).to_string())).await?;
        let page: Map<String, Json> = serde_json::from_str(&page).map_err(|_| Trouble::not_understood())?;
        Ok(page.get("next_cursor").and_then(Json::as_str).map(str::to_owned))
    }
}

impl Shown {
    /// The answer with this structure.
    pub(super) fn answer(self, structured: Map<String, Json>) -> LadderAnswer {
        LadderAnswer { text: self.text, structured: Json::Object(structured), links: self.links, refusal: None }
    }
}

/// The bytes of a value as JSON, with the comma after it.
pub(super) fn json_len(value: &Json) -> usize {
    value.to_string().len() + 1
}
