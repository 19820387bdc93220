//! Reads a message of a Slack workspace from its JSON.
//!
//! Links to files carry a token of the export in their query, so the query is removed.
//!
//! *Source*: Slack's help page "How to read Slack data exports" and its reference of messages.

use std::collections::HashSet;
use std::io;

use serde_json::json;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::rich_text;
use super::workspace::{Channel, Workspace, name_of};
use crate::attachment::Attachment;
use crate::exported_files::{ExportedFiles, MAX_FILES};
use crate::importer::{ImportRow, ImportTarget};
use crate::json_object::JsonObject;

/// Why a Slack message is not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlackMessageError {
    /// The element has no time stamp, so it is not a message.
    #[error("it is not a message: it has no `ts` that is a time")]
    NotAMessage,
    /// The message has more than `MAX_FILES` files.
    #[error("the message names more than 1,000 files")]
    TooManyFiles,
}

impl SlackMessageError {
    /// Returns the stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotAMessage => "no_message",
            Self::TooManyFiles => "too_many_files",
        }
    }
}

/// An element that reports that a message was changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time_stamp: String,
    kind: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    /// The element has the new message.
    Changed,
    Deleted,
}

/// Returns the event that an element reports; `None` for a plain message.
pub(super) fn event(element: &RecordFields) -> Option<Event> {
    // Few elements are events, so this looks at `subtype` before it copies the element.
    let is = |(name, value): &(String, FieldValue), subtype: &str| {
        name == "subtype" && matches!(value, FieldValue::Text(text) if text == subtype)
    };
    if element.iter().any(|member| is(member, "message_changed")) {
        let message = JsonObject(element.clone()).object("message")?;
        let time_stamp = message.text("ts")?.to_owned();
        return Some(Event { time_stamp, kind: EventKind::Changed });
    }
    if element.iter().any(|member| is(member, "message_deleted")) {
        let time_stamp = JsonObject(element.clone()).text("deleted_ts")?.to_owned();
        return Some(Event { time_stamp, kind: EventKind::Deleted });
    }
    None
}

pub(super) fn time_stamp(element: &RecordFields) -> Option<String> {
    element.iter().find_map(|(name, value)| match value {
        FieldValue::Text(ts) if name == "ts" => Some(ts.clone()),
        _ => None,
    })
}

/// Reads an element of a day's file. Files that the message refers to are attached if `exported`
/// has them.
///
/// # Errors
/// A file cannot be read. The inner error is [`SlackMessageError`].
pub fn read(
    element: RecordFields,
    channel: &Channel,
    workspace: &Workspace,
    exported: &ExportedFiles,
    target: &ImportTarget,
) -> io::Result<Result<ImportRow, SlackMessageError>> {
    let event = event(&element);
    let mut message = JsonObject(element);
    match event {
        Some(Event { kind: EventKind::Changed, .. }) => {
            message = message.object("message").unwrap_or_default();
        }
        Some(Event { kind: EventKind::Deleted, time_stamp }) => {
            message = JsonObject(vec![
                ("ts".to_owned(), FieldValue::Text(time_stamp)),
                ("subtype".to_owned(), FieldValue::Text("message_deleted".to_owned())),
            ]);
        }
        None => {}
    }
    let (Some(ts), Some(at)) = (message.text("ts").map(str::to_owned), message.unix_time("ts"))
    else {
        return Ok(Err(SlackMessageError::NotAMessage));
    };
    let (mut attachments, mut files, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for file in message.objects("files") {
        if file.text("id").is_some_and(|id| !seen.insert(id.to_owned())) {
            continue;
        }
        if files.len() == MAX_FILES {
            return Ok(Err(SlackMessageError::TooManyFiles));
        }
        let found =
            file.text("id").map(|id| exported.find(id, file.text("mimetype"), file.text("name")));
        attachments.extend(found.transpose()?.flatten());
        files.push(file_description(&file));
    }
    let own = |name: &str| message.text(name).map(str::to_owned);
    let id = |ts: &str| format!("{}/{ts}", channel.id);
    let thread = own("thread_ts");
    let is_reply = thread.as_ref().is_some_and(|thread| *thread != ts);
    let thread_id = thread.as_deref().map(id);
    let user = own("user").or_else(|| own("bot_id"));
    let edited = message.object("edited").and_then(|edited| edited.unix_time("ts"));
    let thread_ref = thread_id.as_ref().filter(|_| is_reply).map(|id| target.reference(id));
    let list_of_objects = |list: Option<FieldValue>| {
        list.filter(|list| matches!(list, FieldValue::Json(json) if json.starts_with("[{")))
    };
    let text = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("id", Some(FieldValue::Text(id(&ts)))),
        ("channel", Some(FieldValue::Text(channel.name.clone()))),
        ("channel_id", Some(FieldValue::Text(channel.id.clone()))),
        ("user_name", text(author_name(&message, user.as_deref(), workspace))),
        ("user", text(user)),
        ("at", Some(FieldValue::Text(at.to_rfc3339()))),
        ("text", text(rich_text::of(&message, workspace))),
        ("thread_ts", text(thread)),
        ("thread_id", text(thread_id)),
        ("thread_ref", thread_ref),
        ("is_reply", Some(FieldValue::Bool(is_reply))),
        ("subtype", text(own("subtype"))),
        ("edited_at", text(edited.map(|edited| edited.to_rfc3339()))),
        ("reactions", list_of_objects(message.take("reactions"))),
        (
            "files",
            (!files.is_empty())
                .then(|| FieldValue::Json(serde_json::Value::from(files).to_string())),
        ),
        ("attachments", Attachment::references(&attachments, &[])),
    ];
    Ok(Ok(ImportRow::from_message(fields, attachments)))
}

/// Returns the author's name in the workspace, or else the one that the message has.
fn author_name(message: &JsonObject, user: Option<&str>, workspace: &Workspace) -> Option<String> {
    let known = user.and_then(|user| workspace.users.get(user)).cloned();
    let profile = || {
        name_of(&JsonObject(vec![("profile".to_owned(), message.clone().take("user_profile")?)]))
    };
    let bot = || message.object("bot_profile").and_then(|bot| bot.text("name").map(str::to_owned));
    known.or_else(profile).or_else(|| message.text("username").map(str::to_owned)).or_else(bot)
}

/// Returns what a message says about a file. Exports have a link instead of the bytes.
fn file_description(file: &JsonObject) -> serde_json::Value {
    let mut members = serde_json::Map::new();
    for name in ["id", "name", "title", "mimetype", "permalink", "url_private"] {
        if let Some(text) = file.text(name) {
            let is_link = name.starts_with("url") || name.starts_with("perma");
            let text =
                if is_link { text.split(['?', '#']).next().unwrap_or_default() } else { text };
            members.insert(name.to_owned(), text.into());
        }
    }
    if let Some((_, FieldValue::Number(size))) = file.0.iter().find(|(name, _)| name == "size") {
        members.insert(
            "size".to_owned(),
            size.parse::<u64>().map_or_else(|_| json!(null), Into::into),
        );
    }
    members.into()
}

#[cfg(test)]
mod tests;
