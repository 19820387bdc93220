//! Renders a page of items within the budgets: as many whole items as fit.
//!
//! The text and the structure are truncated separately. Each says how to continue after its own
//! last item. Some hosts show the structure to their model, so it stays in proportion to the text.
//! An item is read and rendered only if there may be room for it.

use std::vec;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use stile_domain::records::record_id::RecordId;
use stile_domain::records::request::ReadRequest;
use stile_tools::answer::ResourceLink;

use super::budget::{count_fitting, json_len};
use super::call_context::CallContext;
use super::continuation::{LadderEntry, RenderedContinuation};
use super::error::LadderError;
use super::json_members::tree;
use super::output::RecordOutput;
use super::wire;
use super::{continuation, text_lines};

/// The lines of an item, and its links.
pub(super) type ItemText = (String, Vec<ResourceLink>);

/// An item of a page, read and rendered on demand.
pub(super) trait PageItem: Sized + Send + Sync {
    /// The arguments of the call, which the item may need.
    type Arguments: Sync;

    /// Reads an item from a response.
    ///
    /// # Errors
    /// `provider_error` if the item is not valid.
    fn read(
        sent: &str,
        arguments: &Self::Arguments,
        context: &CallContext,
    ) -> impl Future<Output = Result<Self, LadderError>> + Send;

    /// Renders the item for the text. The first item has the number 1.
    fn lines(&self, context: &CallContext, number: usize) -> Result<ItemText, LadderError>;

    /// Renders the item for the structure, with as many of its fields as fit into `room` bytes.
    /// Called once, after `lines`.
    ///
    /// # Errors
    /// If no identifier leads back to the item.
    fn row(
        &mut self,
        arguments: &Self::Arguments,
        context: &CallContext,
        room: Option<usize>,
    ) -> Result<ItemRow, LadderError>;

    /// Renders the item as briefly as possible, if it is the first and does not fit.
    fn minimal(&self, context: &CallContext) -> Result<MinimalItem, LadderError>;

    /// Returns the cursor that continues after the item, if the server sent one.
    fn cursor(&self) -> Option<&str>;

    /// Returns the identifier of the item's record.
    fn id(&self) -> RecordId;
}

/// An item of the structure.
pub(super) struct ItemRow {
    /// The item's member of the list, as compact JSON.
    pub(super) json: String,
    /// The continuations of its truncated fields.
    pub(super) entries: Vec<LadderEntry>,
    /// The continuation of a record with more fields.
    pub(super) more: Option<LadderEntry>,
}

/// An item that shows only how to read it.
pub(super) struct MinimalItem {
    pub(super) text: String,
    /// The item's member of the list, as compact JSON.
    pub(super) json: String,
    pub(super) whole: RenderedContinuation,
}

/// A page as the resource server sent it.
pub(super) struct Page<'a, I: PageItem> {
    pub(super) tool: &'static str,
    pub(super) arguments: &'a I::Arguments,
    pub(super) items: PageItems<'a, I>,
    pub(super) next_cursor: Option<String>,
    /// The request, without a limit.
    pub(super) request: ReadRequest,
    /// The most bytes of the text.
    pub(super) text_budget: usize,
    /// Makes the first line from the number of shown items.
    pub(super) head: &'a (dyn Fn(usize) -> String + Sync),
    /// Lines for the end of the page, shown after its last item only.
    pub(super) tail: Vec<String>,
    /// What the server says about the list, for the structure.
    pub(super) meta: Option<Json>,
}

/// The items of a page. An item that no part of the answer shows is never read.
pub(super) struct PageItems<'a, I> {
    read: Vec<I>,
    unread: vec::IntoIter<&'a str>,
}

impl<'a, I: PageItem> PageItems<'a, I> {
    /// Takes items as the resource server sent them.
    pub(super) fn new(sent: Vec<&'a str>) -> Self {
        Self { read: Vec::new(), unread: sent.into_iter() }
    }

    /// Returns the number of items, read or not.
    pub(super) fn count(&self) -> usize {
        self.read.len() + self.unread.len()
    }

    /// Returns an item, and reads it first if it has not been read.
    async fn at(
        &mut self,
        index: usize,
        arguments: &I::Arguments,
        context: &CallContext,
    ) -> Result<Option<&mut I>, LadderError> {
        while self.read.len() <= index
            && let Some(sent) = self.unread.next()
        {
            self.read.push(I::read(sent, arguments, context).await?);
        }
        Ok(self.read.get_mut(index))
    }
}

/// A page that is rendered within the budgets.
pub(super) struct RenderedPage {
    text: String,
    links: Vec<ResourceLink>,
    /// The items of the structure, each as compact JSON.
    pub(super) rows: Vec<String>,
    /// The member `content_ladder` as compact JSON.
    pub(super) ladder: String,
    pub(super) meta: Option<Json>,
    /// The cursor that continues after the structure's items.
    pub(super) next_cursor: Option<String>,
    /// Whether the structure has all items of the page.
    pub(super) is_whole: bool,
    /// How to continue if the structure lacks items and no cursor continues: the member `onward`.
    pub(super) onward: Option<Json>,
}

/// How a list continues after the shown items.
#[derive(Clone, Debug, PartialEq)]
enum NextPage {
    /// The list ends there.
    End,
    /// The list continues at this cursor.
    After(String),
    /// The list changed meanwhile, so no cursor continues. The same call with this limit shows a
    /// page completely.
    Restart(usize),
    /// No call continues: the server ignores the limit, or gives no cursor after a shorter page.
    Unreachable,
}

/// The identifying members of an item in a response.
#[derive(Deserialize)]
struct WireItem {
    #[serde(alias = "record_key")]
    id: String,
    stream: Option<String>,
    connection_id: Option<String>,
}

/// A page that is requested to learn the cursor at its end.
#[derive(Deserialize)]
struct WirePage {
    data: Vec<WireItem>,
    next_cursor: Option<String>,
}

impl WireItem {
    /// Returns whether the item is of this record.
    fn is(&self, id: &RecordId) -> bool {
        let may_be =
            |sent: &Option<String>, own: &str| sent.as_ref().is_none_or(|sent| sent == own);
        self.id == id.key
            && may_be(&self.stream, &id.stream)
            && may_be(&self.connection_id, id.connection.as_deref().unwrap_or_default())
    }
}

/// Bytes reserved for the structure's other members, beside its cursor and `meta`.
const MEMBERS_BYTES: usize = 320;
/// The length assumed for a cursor that is not known yet.
const USUAL_CURSOR: usize = 340;

impl<'a, I: PageItem> Page<'a, I> {
    /// Renders the page.
    pub(super) async fn render(
        mut self,
        context: &CallContext,
    ) -> Result<RenderedPage, LadderError> {
        let count = self.items.count();
        let texts = self.text_items(context, self.text_budget).await?;
        let shown_bytes = (self.head)(texts.len()).len()
            + texts.iter().map(|(lines, _)| lines.len() + 1).sum::<usize>();
        let meta = self.meta.take().map(|meta| bounded_meta(&meta));
        let others = MEMBERS_BYTES + self.max_cursor_len() + meta.as_ref().map_or(0, json_len);
        let room = context.budgets.structured_beside(shown_bytes).saturating_sub(others);
        let (rows, ladder) = self.rows(context, room).await?;
        let (shown, listed) = (texts.len(), rows.len());
        let after_text = self.next_after(context, shown).await?;
        let after_rows = if listed == shown {
            after_text.clone()
        } else {
            self.next_after(context, listed).await?
        };
        let mut text = (self.head)(shown);
        let mut links = Vec::new();
        for (lines, own) in texts {
            text.push('\n');
            text += &lines;
            links.extend(own);
        }
        if shown == count {
            self.tail.iter().for_each(|line| text = format!("{text}\n{line}"));
        }
        if let Some(line) = after_text.line(context, self.tool) {
            text = format!("{text}\n{line}");
        }
        let onward = after_rows.onward(context, self.tool);
        let next_cursor =
            if let NextPage::After(cursor) = after_rows { Some(cursor) } else { None };
        Ok(RenderedPage {
            text,
            links,
            rows,
            ladder,
            meta,
            next_cursor,
            is_whole: listed == count,
            onward,
        })
    }

    /// Renders the items of the text: as many as fit, and at least one. The last page needs room
    /// for its tail, the others for the line that continues.
    async fn text_items(
        &mut self,
        context: &CallContext,
        budget: usize,
    ) -> Result<Vec<ItemText>, LadderError> {
        let count = self.items.count();
        self.items.at(0, self.arguments, context).await?;
        // The first line is longer if items are left out, since it says so.
        // Its words depend on how many items are shown.
        let heads = [count, count.saturating_sub(1), 0].map(|shown| (self.head)(shown).len());
        let head = heads.into_iter().max().unwrap_or_default();
        let (again, tail) = (
            self.max_next_line_len(context),
            self.tail.iter().map(|line| line.len() + 1).sum::<usize>(),
        );
        let end = if self.next_cursor.is_some() { again + tail } else { tail };
        let room = budget.saturating_sub(head);
        // A page that the list continues after needs the line that continues, however many items it
        // shows. So no item is rendered that this line leaves no room for.
        let most = if self.next_cursor.is_some() { room.saturating_sub(again) } else { room };
        let (mut texts, mut used) = (Vec::new(), 0);
        while let Some(item) = self.items.at(texts.len(), self.arguments, context).await? {
            let (lines, links) = item.lines(context, texts.len() + 1)?;
            let lines = text_lines::escape_line_breaks(lines);
            used += lines.len() + 1;
            texts.push((lines, links));
            if used > most {
                break;
            }
        }
        if texts.len() == count && used + end <= room {
            return Ok(texts);
        }
        let fits = count_fitting(
            texts.iter().map(|(lines, _)| lines.len() + 1),
            room.saturating_sub(again),
        );
        texts.truncate(fits.min(count.saturating_sub(1)));
        if let Some(first) = self.items.read.first().filter(|_| texts.is_empty()) {
            let minimal = first.minimal(context)?;
            texts.push((minimal.text, vec![minimal.whole.link]));
        }
        Ok(texts)
    }

    /// Renders the items of the structure and their continuations: as many as fit, and at least
    /// one.
    async fn rows(
        &mut self,
        context: &CallContext,
        room: usize,
    ) -> Result<(Vec<String>, String), LadderError> {
        let mut used = 0;
        let (mut rows, mut entries, mut more) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(item) = self.items.at(rows.len(), self.arguments, context).await? {
            let row = item.row(self.arguments, context, rows.is_empty().then_some(room))?;
            let parts = row.entries.iter().chain(&row.more).map(LadderEntry::len);
            used += row.json.len() + 1 + parts.sum::<usize>();
            if rows.is_empty() && used > room {
                let minimal = item.minimal(context)?;
                return Ok((
                    vec![minimal.json],
                    continuation::content_ladder(&[], &[minimal.whole.entry]),
                ));
            }
            if !rows.is_empty() && used > room {
                break;
            }
            rows.push(row.json);
            entries.extend(row.entries);
            more.extend(row.more);
        }
        Ok((rows, continuation::content_ladder(&entries, &more)))
    }

    /// Returns an upper bound for the length of the line that continues.
    fn max_next_line_len(&self, context: &CallContext) -> usize {
        if self.items.count() < 2 && self.next_cursor.is_none() {
            return 0;
        }
        let own = self.items.read.first().and_then(I::cursor);
        let cursor = "x".repeat(self.max_cursor_len());
        let other = [NextPage::Restart(self.items.count()), NextPage::Unreachable]
            .into_iter()
            .filter(|_| own.is_none());
        let lines =
            other.chain([NextPage::After(cursor)]).filter_map(|next| next.line(context, self.tool));
        lines.map(|line| line.len() + 1).max().unwrap_or(0)
    }

    /// Returns the length of the longest cursor that may continue the list.
    fn max_cursor_len(&self) -> usize {
        let own = self.items.read.first().and_then(I::cursor);
        let longest = own.into_iter().chain(self.next_cursor.as_deref()).map(str::len).max();
        longest.unwrap_or(USUAL_CURSOR)
    }

    /// Returns how the list continues after the first `shown` items.
    async fn next_after(
        &mut self,
        context: &CallContext,
        shown: usize,
    ) -> Result<NextPage, LadderError> {
        let Some(last) = shown.checked_sub(1).filter(|_| shown < self.items.count()) else {
            return Ok(self.next_cursor.clone().map_or(NextPage::End, NextPage::After));
        };
        if let Some(own) = self.items.read.get(last).and_then(I::cursor) {
            return Ok(NextPage::After(own.to_owned()));
        }
        // Some servers send a cursor only at the end of a page, so this asks for a page that ends
        // here.
        let page = context.send(self.request.clone().with_limit(shown as u64)).await?;
        let page: WirePage = wire::parse(&page)?;
        if page.data.len() > shown {
            return Ok(NextPage::Unreachable);
        }
        let own = self.items.read.get(last).map(I::id);
        let is_last = own.zip(page.data.get(last)).is_some_and(|(own, sent)| sent.is(&own));
        Ok(match page.next_cursor {
            _ if !is_last => NextPage::Restart(shown),
            Some(cursor) => NextPage::After(cursor),
            None => NextPage::Unreachable,
        })
    }
}

/// The notes for a list that no cursor continues.
const RESTART_NOTE: &str =
    "the list has changed, and nothing leads on after what is shown; ask anew for so many";
const UNREACHABLE_NOTE: &str =
    "the server has more, and no way on after what is shown; ask for something narrower";

impl NextPage {
    /// Renders the line that continues, for the text.
    fn line(&self, context: &CallContext, tool: &str) -> Option<String> {
        match self {
            Self::End => None,
            Self::After(cursor) => Some(context.next_page(tool, cursor)),
            Self::Restart(limit) => {
                let limit = ("limit", (*limit).into());
                Some(context.same_call(tool, limit, RESTART_NOTE))
            }
            Self::Unreachable => Some(format!("note: {UNREACHABLE_NOTE}")),
        }
    }

    /// Renders the member `onward` for a structure that no cursor continues.
    fn onward(&self, context: &CallContext, tool: &str) -> Option<Json> {
        match self {
            Self::End | Self::After(_) => None,
            Self::Restart(limit) => {
                let args = tree(&context.arguments_with("limit", &(*limit).into()));
                Some(json!({ "note": RESTART_NOTE, "read": { "tool": tool, "args": args } }))
            }
            Self::Unreachable => Some(json!({ "note": UNREACHABLE_NOTE })),
        }
    }
}

/// Returns the server's warnings, counts and completeness, as far as these are short.
pub(super) fn bounded_meta(meta: &Json) -> Json {
    /// The most bytes of one member.
    const MAX_MEMBER_BYTES: usize = 2048;
    let known = ["warnings", "count", "count_accuracy", "recall", "terms"];
    let kept = known.into_iter().filter_map(|name| Some((name, meta.get(name)?)));
    let short = kept.filter(|(_, value)| json_len(value) <= MAX_MEMBER_BYTES);
    Json::Object(short.map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

impl RenderedPage {
    /// Returns whether the list goes on after the structure's items.
    pub(super) fn has_more(&self) -> bool {
        self.next_cursor.is_some() || self.onward.is_some()
    }

    /// Returns the bytes of the items and of their continuations.
    pub(super) fn structured_len(&self) -> usize {
        self.ladder.len() + self.rows.iter().map(|row| row.len() + 1).sum::<usize>()
    }

    /// Makes the answer from its structure as compact JSON.
    pub(super) fn into_output<S>(self, structured: String) -> Result<RecordOutput<S>, LadderError> {
        RecordOutput::of_json(self.text, structured, self.links)
    }
}
