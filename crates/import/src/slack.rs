//! A message of a Slack workspace, from its JSON to fields.
//!
//! *Source*: Slack's help pages "How to read Slack data exports" and its reference of messages and
//! their formatting (`mrkdwn`). Links to files carry a token of the export in their query, which is
//! cut off.

use std::collections::{HashMap, HashSet};
use std::io;

use serde_json::json;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::assets::{Assets, MAX_FILES};
use super::attachment::Attachment;
use super::known::Place;
use super::object::{MAX_NAME_CHARS, Object, cut};

mod text;

/// A message as a row.
#[derive(Debug)]
pub struct Message {
    /// Its fields.
    pub fields: RecordFields,
    /// Its files, as far as the export has them.
    pub attachments: Vec<Attachment>,
}

/// Why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// It is none.
    #[error("it is no message: it has no `ts` that is a time")]
    NoMessage,
    /// It has too many files.
    #[error("the message names more than 1,000 files")]
    TooManyFiles,
}

impl BadMessage {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoMessage => "no_message",
            Self::TooManyFiles => "too_many_files",
        }
    }
}

/// Who and what a workspace knows by an identifier.
#[derive(Debug, Default)]
pub struct Workspace {
    /// What people are called.
    pub(super) users: HashMap<String, String>,
    /// What channels are called.
    pub(super) channels: HashMap<String, String>,
}

/// A channel, a group or a talk of few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its identifier.
    pub id: String,
    /// What it is called.
    pub name: String,
}

impl Workspace {
    /// Learns a person from an element of `users.json`.
    pub(super) fn user(&mut self, user: RecordFields) {
        let user = Object(user);
        if let (Some(id), Some(name)) = (user.text("id"), name_of(&user)) {
            self.users.insert(id.to_owned(), name);
        }
    }

    /// Learns a channel from an element of `channels.json` or one of its like.
    pub(super) fn channel(&mut self, channel: RecordFields) -> Option<Channel> {
        let channel = Object(channel);
        let id = channel.text("id")?.to_owned();
        let name =
            channel.text("name").map_or_else(|| self.talk(&channel), |name| cut(name).to_owned());
        self.channels.insert(id.clone(), name.clone());
        Some(Channel { id, name })
    }

    /// A talk of few has no name; it is called by its members.
    fn talk(&self, channel: &Object) -> String {
        let members = channel.items("members");
        let names = members.iter().filter_map(|member| match member {
            FieldValue::Text(id) => Some(self.users.get(id).unwrap_or(id).as_str()),
            _ => None,
        });
        // The separators alone see to it that no more names are needed than there may be
        // characters.
        let most = usize::try_from(MAX_NAME_CHARS).unwrap_or(usize::MAX);
        cut(&names.take(most).collect::<Vec<_>>().join(", ")).to_owned()
    }
}

/// What a person is called: as they want it, or else as they are.
fn name_of(user: &Object) -> Option<String> {
    let profile = user.object("profile").unwrap_or_default();
    let names = [
        profile.text("display_name"),
        profile.text("real_name"),
        user.text("real_name"),
        user.text("name"),
    ];
    names.into_iter().flatten().next().map(|name| cut(name).to_owned())
}

/// What happened to a message after it was sent, as a workspace's log says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It was changed; this is what it is now.
    Changed,
    /// It was deleted.
    Deleted,
}

/// The time stamp of the message that an element is about, and what it says of it: nothing of a
/// plain message.
pub(super) fn event(element: &RecordFields) -> Option<(String, Event)> {
    // Almost no element is an event, and those that are say so at their top.
    let is = |(name, value): &(String, FieldValue), kind: &str| {
        name == "subtype" && matches!(value, FieldValue::Text(text) if text == kind)
    };
    if element.iter().any(|member| is(member, "message_changed")) {
        let message = Object(element.clone()).object("message")?;
        return Some((message.text("ts")?.to_owned(), Event::Changed));
    }
    if element.iter().any(|member| is(member, "message_deleted")) {
        return Some((Object(element.clone()).text("deleted_ts")?.to_owned(), Event::Deleted));
    }
    None
}

/// The time stamp of a plain message.
pub(super) fn time_stamp(element: &RecordFields) -> Option<String> {
    element.iter().find_map(|(name, value)| match value {
        FieldValue::Text(ts) if name == "ts" => Some(ts.clone()),
        _ => None,
    })
}

/// The message of an element of a day's file. The files that it names are looked for among
/// `assets`.
///
/// # Errors
/// [`BadMessage`]; the outer one is what reading a file fails with.
pub fn read(
    element: RecordFields,
    channel: &Channel,
    workspace: &Workspace,
    assets: &Assets,
    place: &Place,
) -> io::Result<Result<Message, BadMessage>> {
    let happened = event(&element);
    let mut message = Object(element);
    match &happened {
        Some((_, Event::Changed)) => message = message.object("message").unwrap_or_default(),
        Some((ts, Event::Deleted)) => {
            message = Object(vec![
                ("ts".to_owned(), FieldValue::Text(ts.clone())),
                ("subtype".to_owned(), FieldValue::Text("message_deleted".to_owned())),
            ]);
        }
        None => {}
    }
    let (Some(ts), Some(at)) = (message.text("ts").map(str::to_owned), message.seconds("ts"))
    else {
        return Ok(Err(BadMessage::NoMessage));
    };
    let (mut attachments, mut files, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for file in message.objects("files") {
        if file.text("id").is_some_and(|id| !seen.insert(id.to_owned())) {
            continue;
        }
        if files.len() == MAX_FILES {
            return Ok(Err(BadMessage::TooManyFiles));
        }
        let found =
            file.text("id").map(|id| assets.find(id, file.text("mimetype"), file.text("name")));
        attachments.extend(found.transpose()?.flatten());
        files.push(described(&file));
    }
    let own = |name: &str| message.text(name).map(str::to_owned);
    let id = |ts: &str| format!("{}/{ts}", channel.id);
    let thread = own("thread_ts");
    let is_reply = thread.as_ref().is_some_and(|thread| *thread != ts);
    let thread_id = thread.as_deref().map(id);
    let user = own("user").or_else(|| own("bot_id"));
    let edited = message.object("edited").and_then(|edited| edited.seconds("ts"));
    let thread_ref = thread_id.as_ref().filter(|_| is_reply).map(|id| place.reference(id));
    let list = |list: Option<FieldValue>| {
        list.filter(|list| matches!(list, FieldValue::Json(json) if json.starts_with("[{")))
    };
    let text = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("id", Some(FieldValue::Text(id(&ts)))),
        ("channel", Some(FieldValue::Text(channel.name.clone()))),
        ("channel_id", Some(FieldValue::Text(channel.id.clone()))),
        ("user_name", text(speaker(&message, user.as_deref(), workspace))),
        ("user", text(user)),
        ("at", Some(FieldValue::Text(at.to_rfc3339()))),
        ("text", text(message.text("text").map(|text| text::plain(text, workspace)))),
        ("thread_ts", text(thread)),
        ("thread_id", text(thread_id)),
        ("thread_ref", thread_ref),
        ("is_reply", Some(FieldValue::Bool(is_reply))),
        ("subtype", text(own("subtype"))),
        ("edited_at", text(edited.map(|edited| edited.to_rfc3339()))),
        ("reactions", list(message.take("reactions"))),
        (
            "files",
            (!files.is_empty())
                .then(|| FieldValue::Json(serde_json::Value::from(files).to_string())),
        ),
        ("attachments", Attachment::references(&attachments, &[])),
    ];
    let fields =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Ok(Ok(Message { fields, attachments }))
}

/// Who speaks: as the workspace knows them, or else as the message says.
fn speaker(message: &Object, user: Option<&str>, workspace: &Workspace) -> Option<String> {
    let known = user.and_then(|user| workspace.users.get(user)).cloned();
    let profile =
        || name_of(&Object(vec![("profile".to_owned(), message.clone().take("user_profile")?)]));
    let bot = || message.object("bot_profile").and_then(|bot| bot.text("name").map(str::to_owned));
    known.or_else(profile).or_else(|| message.text("username").map(str::to_owned)).or_else(bot)
}

/// What a message says of a file: exports have a link and not the bytes.
fn described(file: &Object) -> serde_json::Value {
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
