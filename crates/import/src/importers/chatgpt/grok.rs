//! The messages of a conversation with Grok.
//!
//! A conversation has a `conversation`, which says its title, and its `responses`. An answer that
//! was asked for again names the same message before it. Some exports name none; then times order
//! the messages. Of attached files the export has the identifiers beside the text.
//!
//! *Source*: xAI documents no format; this is as programs that read the exports of 2025 and 2026
//! describe them.

use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::super::compact_time::{or_as_written, written};
use super::message::{Message, Node, ReferredFiles, own_id};
use crate::json_object::{JsonObject, truncate_name};

/// Returns the messages of a conversation, in the order of the file. `None` if it is none of Grok.
///
/// Where no message names the one before it, they are in the order of their times, and each follows
/// the one before it.
pub(super) fn nodes(conversation: &JsonObject) -> Option<Vec<(Node, String)>> {
    conversation.0.iter().find(|(name, _)| name == "responses")?;
    let responses = conversation.objects("responses");
    let about = conversation.object("conversation");
    let of = about.and_then(|about| {
        ["conversation_id", "id"].iter().find_map(|name| about.text(name)).map(str::to_owned)
    });
    let mut last = None;
    let nodes = responses.into_iter().enumerate().map(|(index, around)| {
        let response = around.object("response").unwrap_or(around);
        let id = ["_id", "response_id", "id"].iter().find_map(|name| response.text(name));
        let id = own_id(id, index, of.as_deref());
        let parent = response.text("parent_response_id");
        let parent = parent.map(|parent| own_id(Some(parent), index, of.as_deref()));
        // A message without a time stays behind the one before it.
        last = time(&response).and_then(|written| Instant::parse(&written)).or(last);
        (last, (Node { parent, message: visible(&id, &response) }, id))
    });
    let mut nodes: Vec<(Option<Instant>, (Node, String))> = nodes.collect();
    if nodes.iter().all(|(_, (node, _))| node.parent.is_none()) {
        nodes.sort_by_key(|(time, _)| *time);
        let mut before: Option<String> = None;
        for (_, (node, id)) in &mut nodes {
            node.parent = before.replace(id.clone());
        }
    }
    Some(nodes.into_iter().map(|(_, node)| node).collect())
}

/// Returns when a conversation or a message was made: a text, or `{"$date": {"$numberLong": "…"}}`
/// of milliseconds since 1970.
pub(super) fn time(object: &JsonObject) -> Option<String> {
    if let Some(text) = object.text("create_time") {
        return or_as_written(Instant::parse(text).and_then(written), text);
    }
    let date = object.object("create_time")?;
    if let Some(text) = date.text("$date") {
        return or_as_written(Instant::parse(text).and_then(written), text);
    }
    let millis = match date.object("$date") {
        Some(long) => long.integer("$numberLong")?,
        None => date.integer("$date")?,
    };
    millis.checked_mul(1000).map(Instant).and_then(written)
}

/// Returns a message; `None` if it has neither text nor files.
fn visible(id: &str, response: &JsonObject) -> Option<Message> {
    let text = response.text("message").filter(|text| !text.trim().is_empty());
    let mut files = ReferredFiles::default();
    for file in response.items("file_attachments") {
        if let FieldValue::Text(name) = file {
            files.add_name(truncate_name(&name));
        }
    }
    if text.is_none() && files.len() == 0 {
        return None;
    }
    // Some exports write the sender in capitals.
    let role = response.text("sender").map(|sender| match sender.to_ascii_lowercase().as_str() {
        "human" => "user".to_owned(),
        other => other.to_owned(),
    });
    Some(Message {
        id: id.into(),
        role,
        model: response.text("model").map(|model| truncate_name(model).to_owned()),
        created: time(response),
        text: text.map(str::to_owned),
        files,
        ..Message::default()
    })
}
