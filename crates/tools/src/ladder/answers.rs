//! A page of items, cut to its budgets: as many whole items as fit into the text, and into the structure.
//!
//! The two are cut apart, since the text is for a model's context and the structure for a program; each says how to go
//! on after the last item that it shows itself. An item is made ready only where there may be room for it.

use serde_json::{Map, Value as Json};

use super::budget::{Budgets, fitting, json_len};
use super::climb::Climb;
use super::entry::Entry;
use super::port::Ask;
use super::trouble::Trouble;
use super::{LadderAnswer, Link, entry, lines};

/// The lines of an item, and its ways to resources.
pub(super) type Lines = (String, Vec<Link>);

/// What a page is made of.
pub(super) trait Items {
    /// How many there are.
    fn count(&self) -> usize;

    /// One of them in the text.
    fn lines(&self, climb: &Climb<'_>, at: usize) -> Result<Lines, Trouble>;

    /// One of them in the structure, asked for once and after its lines.
    fn row(&mut self, climb: &Climb<'_>, at: usize) -> Result<Row, Trouble>;

    /// The least that can be said of the first one, where it is too long for the text or for the structure.
    fn least(&self, climb: &Climb<'_>) -> Result<Least, Trouble>;

    /// Where the list goes on after one of them.
    fn cursor(&self, at: usize) -> Option<&str>;
}

/// An item of the structure.
pub(super) struct Row {
    /// Its member of the list.
    pub(super) json: Json,
    /// What it shortens.
    pub(super) entries: Vec<Entry>,
    /// That it has more fields.
    pub(super) more: Option<Entry>,
}

/// An item of which nothing is shown but how to get it.
pub(super) struct Least {
    pub(super) text: String,
    pub(super) json: Json,
    pub(super) whole: Entry,
}

/// A page as the resource server gave it.
pub(super) struct Page<'a, I> {
    pub(super) tool: &'static str,
    pub(super) items: &'a mut I,
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

impl<I: Items + Send + Sync> Page<'_, I> {
    /// Cuts the page.
    pub(super) async fn shown(mut self, climb: &Climb<'_>) -> Result<Shown, Trouble> {
        let Budgets { text: text_budget, structured, .. } = climb.budgets;
        let count = self.items.count();
        let told = self.told(climb, text_budget)?;
        let (rows, ladder) = self.rows(climb, structured.saturating_sub(AROUND_BYTES))?;
        let (shown, listed) = (told.len(), rows.len());
        let after_text = self.cursor_after(climb, shown).await?;
        let after_rows = if listed == shown { after_text.clone() } else { self.cursor_after(climb, listed).await? };
        let mut text = (self.head)(shown);
        let mut links = Vec::new();
        for (lines, own) in told {
            text.push('\n');
            text += &lines;
            links.extend(own);
        }
        if shown == count {
            self.tail.iter().for_each(|line| text = format!("{text}\n{line}"));
        }
        if let Some(cursor) = &after_text {
            text = format!("{text}\n{}", lines::again(climb, self.tool, cursor, ""));
        }
        Ok(Shown { text, links, rows, ladder, next_cursor: after_rows, is_whole: listed == count })
    }

    /// The items of the text: as many as fit, and at least one. What is said at the end of a page needs room where that is
    /// shown, and the line that goes on where it is not, or where more pages come.
    fn told(&self, climb: &Climb<'_>, budget: usize) -> Result<Vec<Lines>, Trouble> {
        let count = self.items.count();
        // The first line is longer where not all are shown, since it says so.
        let head = (self.head)(count).len().max((self.head)(count.saturating_sub(1)).len());
        let (again, tail) = (self.again_len(climb), self.tail.iter().map(|line| line.len() + 1).sum::<usize>());
        let end = if self.next_cursor.is_some() { again + tail } else { tail };
        let room = budget.saturating_sub(head);
        let (mut told, mut used) = (Vec::new(), 0);
        for at in 0..count {
            let (lines, links) = self.items.lines(climb, at)?;
            let lines = lines::plain(lines);
            used += lines.len() + 1;
            told.push((lines, links));
            if used > room {
                break;
            }
        }
        if told.len() == count && used + end <= room {
            return Ok(told);
        }
        let fits = fitting(told.iter().map(|(lines, _)| lines.len() + 1), room.saturating_sub(again));
        told.truncate(fits.min(count.saturating_sub(1)));
        if told.is_empty() && count > 0 {
            let least = self.items.least(climb)?;
            told.push((least.text, vec![least.whole.link]));
        }
        Ok(told)
    }

    /// The items of the structure, as many as fit and at least one, and what they shorten.
    fn rows(&mut self, climb: &Climb<'_>, room: usize) -> Result<(Vec<Json>, Json), Trouble> {
        let mut left = room;
        let (mut rows, mut entries, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..self.items.count() {
            let row = self.items.row(climb, at)?;
            let parts = row.entries.iter().chain(&row.more).map(|entry| json_len(&entry.json));
            match left.checked_sub(json_len(&row.json) + parts.sum::<usize>()) {
                Some(rest) => left = rest,
                None if at == 0 => {
                    let least = self.items.least(climb)?;
                    return Ok((vec![least.json], entry::ladder(Vec::new(), vec![least.whole.json])));
                }
                None => break,
            }
            rows.push(row.json);
            entries.extend(row.entries.into_iter().map(|entry| entry.json));
            more.extend(row.more.map(|entry| entry.json));
        }
        Ok((rows, entry::ladder(entries, more)))
    }

    /// The bytes of the line that goes on, at most.
    fn again_len(&self, climb: &Climb<'_>) -> usize {
        /// Of a cursor of another server, say.
        const USUAL: usize = 340;
        if self.items.count() < 2 && self.next_cursor.is_none() {
            return 0;
        }
        let longest = self.items.cursor(0).into_iter().chain(self.next_cursor.as_deref()).map(str::len).max();
        let cursor = "x".repeat(longest.unwrap_or(USUAL));
        lines::again(climb, self.tool, &cursor, "").len() + 1
    }

    /// Where to go on after so many items; none where nothing comes after.
    async fn cursor_after(&self, climb: &Climb<'_>, shown: usize) -> Result<Option<String>, Trouble> {
        if shown >= self.items.count() {
            return Ok(self.next_cursor.clone());
        }
        if let Some(own) = shown.checked_sub(1).and_then(|last| self.items.cursor(last)) {
            return Ok(Some(own.to_owned()));
        }
        // A server that says only at the end of a page how to go on is asked for a page that ends here.
        let page = climb.ask(self.ask.clone().with("limit", shown.max(1).to_string())).await?;
        let page: Map<String, Json> = serde_json::from_str(&page).map_err(|_| Trouble::not_understood())?;
        Ok(page.get("next_cursor").and_then(Json::as_str).map(str::to_owned))
    }
}

/// What an answer repeats of what a resource server says besides its data: what it warns of, and how complete it is, as far
/// as that is short.
pub(super) fn bounded_meta(meta: &Json) -> Json {
    /// The bytes of one member, at most.
    const MOST: usize = 2048;
    let known = ["warnings", "count", "count_accuracy", "recall"];
    let kept = known.into_iter().filter_map(|name| Some((name, meta.get(name)?)));
    let short = kept.filter(|(_, value)| json_len(value) <= MOST);
    Json::Object(short.map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

impl Shown {
    /// The answer with this structure.
    pub(super) fn answer(self, structured: Map<String, Json>) -> LadderAnswer {
        LadderAnswer { text: self.text, structured: Json::Object(structured), links: self.links, refusal: None }
    }
}
