//! Reads a conversation with ChatGPT, Claude or Grok: one element of `conversations.json` becomes a
//! row for each message with text or files.
//!
//! A conversation is a tree of nodes, because a person can edit a message and ask for an answer
//! again. A node without a message, or with a hidden or empty one, becomes no row; the messages
//! below it have the nearest row above it as their parent. The branch from `current_node` to the
//! root is the one that the person saw last. Small exports have no `current_node`; then it is the
//! branch that ends in the latest message. A message without a time has that of the conversation.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use stile_domain::records::identifiers::MAX_KEY_BYTES;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::message::{Message, Node, ReferredFile, ReferredFiles};
use super::{claude, grok};
use crate::attachment::Attachment;
use crate::exported_files::{ExportedFiles, MAX_FILES};
use crate::importer::{ImportRow, ImportTarget};
use crate::json_object::{JsonObject, truncate_name};

/// An element with neither the tree of ChatGPT nor the messages of Claude or Grok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a conversation: it has neither `mapping` nor `chat_messages` nor `responses`")]
pub struct NotAConversation;

/// A message with more than `MAX_FILES` files, which is not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message names more than 1,000 files")]
pub struct TooManyFiles;

/// A conversation, which returns its messages one at a time.
#[derive(Debug)]
pub struct Conversation {
    nodes: HashMap<String, Node>,
    /// The names of the remaining nodes, in the order of the file.
    order: std::vec::IntoIter<String>,
    /// The nodes of the branch that the person saw last.
    current_branch: HashSet<String>,
    parents: Parents,
    id: Option<String>,
    title: Option<String>,
    created: Option<String>,
    /// How many messages of Claude or Grok have neither text nor files, or are none.
    left_out: u64,
}

/// What is left out of conversations, for the person who imports.
pub(super) const EMPTY: &str = "messages with neither text nor files";

/// For each node the identifier of the nearest message above it.
type Parents = HashMap<String, Option<Arc<str>>>;

impl Conversation {
    /// Parses an element of `conversations.json`.
    pub fn parse(conversation: RecordFields) -> Result<Self, NotAConversation> {
        let mut conversation = JsonObject(conversation);
        let messages =
            ["chat_messages", "responses"].iter().map(|name| conversation.items(name).len());
        let messages: usize = messages.sum();
        let all: Vec<(Node, String)> = match conversation.take("mapping") {
            Some(mapping) => {
                let JsonObject(mapping) = JsonObject::parse(&mapping).ok_or(NotAConversation)?;
                // A row with a repeated name was refused before, so each node has its own name.
                mapping.into_iter().map(|(id, value)| (node(&id, value), id)).collect()
            }
            None => claude::nodes(&conversation)
                .or_else(|| grok::nodes(&conversation))
                .ok_or(NotAConversation)?,
        };
        let shown = all.iter().filter(|(node, _)| node.message.is_some()).count();
        let left_out = messages.saturating_sub(shown) as u64;
        let (mut nodes, mut order) = (HashMap::new(), Vec::new());
        for (node, id) in all {
            // A second message with an identifier is another version of the first.
            let name = if nodes.contains_key(&id) { format!("{id}\n{}", order.len()) } else { id };
            order.push(name.clone());
            nodes.insert(name, node);
        }
        let current = conversation.text("current_node").filter(|id| nodes.contains_key(*id));
        let current_branch = branch(&nodes, current.or_else(|| latest_leaf(&nodes, &order)));
        let parents = nearest_messages(&nodes, &order);
        // Grok has what it says of a conversation in an object beside the messages.
        let about = conversation.object("conversation").unwrap_or(conversation);
        let first = |names: &[&str]| {
            let text = names.iter().find_map(|name| about.text(name));
            text.map(|text| truncate_name(text).to_owned())
        };
        let id = first(&["conversation_id", "id", "uuid"]);
        let title = first(&["title", "name"]);
        let created = about.unix_time("create_time").map(|instant| instant.to_rfc3339());
        let created = created.or_else(|| claude::time(&about)).or_else(|| grok::time(&about));
        let order = order.into_iter();
        Ok(Self { nodes, order, current_branch, parents, id, title, created, left_out })
    }

    /// Takes how many messages are left out. Hidden messages of ChatGPT do not count.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Returns the next message as a row, in the order of the nodes. Files that the message refers
    /// to are attached if `exported` has them.
    ///
    /// # Errors
    /// A file cannot be read. The inner error is [`TooManyFiles`].
    pub fn next_message(
        &mut self,
        exported: &ExportedFiles,
        target: &ImportTarget,
    ) -> io::Result<Option<Result<ImportRow, TooManyFiles>>> {
        for name in self.order.by_ref() {
            let Some(message) = self.nodes.get_mut(&name).and_then(|node| node.message.take())
            else {
                continue;
            };
            if message.files.len() + message.file_texts.len() > MAX_FILES {
                return Ok(Some(Err(TooManyFiles)));
            }
            return self.row(&name, message, exported, target).map(|row| Some(Ok(row)));
        }
        Ok(None)
    }

    fn row(
        &self,
        node: &str,
        message: Message,
        exported: &ExportedFiles,
        target: &ImportTarget,
    ) -> io::Result<ImportRow> {
        let (mut attachments, mut missing) = (message.file_texts, Vec::new());
        for file in message.files.list {
            match exported.find(&file.id, file.media_type.as_deref(), file.name.as_deref())? {
                Some(found) => attachments.push(found),
                None => missing.push(file.name.unwrap_or(file.id)),
            }
        }
        let parent = self.parents.get(node).and_then(Option::as_deref);
        let text = |text: Option<String>| text.map(FieldValue::Text);
        let fields = [
            ("id", Some(FieldValue::Text(message.id.as_ref().to_owned()))),
            ("conversation_id", text(self.id.clone())),
            ("conversation_title", text(self.title.clone())),
            ("role", text(message.role)),
            ("model", text(message.model)),
            ("created_at", text(message.created.or_else(|| self.created.clone()))),
            ("content_type", text(message.content_type)),
            ("text", text(message.text)),
            ("parent_id", text(parent.map(str::to_owned))),
            ("parent_ref", parent.map(|parent| target.reference(parent))),
            ("on_current_branch", Some(FieldValue::Bool(self.current_branch.contains(node)))),
            ("attachments", Attachment::references(&attachments, &missing)),
        ];
        Ok(ImportRow::from_message(fields, attachments))
    }
}

fn node(id: &str, value: FieldValue) -> Node {
    let node = JsonObject::parse(&value).unwrap_or_default();
    drop(value);
    let parent = node.text("parent").map(str::to_owned);
    let message = node.object("message").and_then(|message| visible_message(id, message));
    Node { parent, message }
}

/// Parses a message; `None` if it is hidden or has neither text nor files.
fn visible_message(node: &str, message: JsonObject) -> Option<Message> {
    let metadata = message.object("metadata").unwrap_or_default();
    if metadata.is_true("is_visually_hidden_from_conversation") {
        return None;
    }
    let mut content = message.object("content").unwrap_or_default();
    let content_type = content.take_text("content_type");
    let (text, mut files) = text_and_files(content);
    for attached in metadata.objects("attachments") {
        let own = |name: &str| attached.text(name).map(str::to_owned);
        let Some(id) = own("id") else { continue };
        if let Some(file) = files.entry(&id) {
            *file = ReferredFile {
                id,
                name: own("name"),
                media_type: own("mimeType").or_else(|| own("mime_type")),
            };
        }
    }
    if text.is_none() && files.list.is_empty() {
        return None;
    }
    let role = message.object("author").and_then(|author| author.text("role").map(str::to_owned));
    Some(Message {
        id: message.text("id").unwrap_or(node).into(),
        role,
        model: metadata.text("model_slug").map(str::to_owned),
        created: message.unix_time("create_time").map(|instant| instant.to_rfc3339()),
        content_type,
        text,
        files,
        file_texts: Vec::new(),
    })
}

/// Returns the text of a message and the files that its parts refer to.
fn text_and_files(mut content: JsonObject) -> (Option<String>, ReferredFiles) {
    let (mut texts, mut files) = (Vec::new(), ReferredFiles::default());
    for part in content.items("parts") {
        match part {
            FieldValue::Text(text) => texts.push(text),
            part => {
                let Some(mut part) = JsonObject::parse(&part) else { continue };
                let audio = part.object("audio_asset_pointer").unwrap_or_default();
                for pointer in
                    [part.text("asset_pointer"), audio.text("asset_pointer")].into_iter().flatten()
                {
                    files.add_pointer(pointer);
                }
                texts.extend(part.take_text("text"));
            }
        }
    }
    for name in ["text", "result", "content"] {
        texts.extend(content.take_text(name));
    }
    for mut thought in content.objects("thoughts") {
        texts.extend(thought.take_text("summary"));
        texts.extend(thought.take_text("content"));
    }
    let mut texts: Vec<String> = texts.into_iter().map(without_marks).collect();
    texts.retain(|text| !text.trim().is_empty());
    (Some(texts.join("\n\n")).filter(|text| !text.is_empty()), files)
}

/// Removes the marks that only the program of the service shows, such as citations: from U+E200 to
/// U+E201, with the kind of the mark, U+E202 and its content between. Of a name that is marked, the
/// name stays.
fn without_marks(text: String) -> String {
    if !text.contains(|character| ('\u{e200}'..='\u{e20f}').contains(&character)) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, mark)) = rest.split_once('\u{e200}') {
        plain.push_str(before);
        let Some((mark, behind)) = mark.split_once('\u{e201}') else {
            rest = mark;
            break;
        };
        if let Some(entity) = mark.strip_prefix("entity\u{e202}") {
            let parts: Vec<String> = serde_json::from_str(entity).unwrap_or_default();
            plain.extend(parts.into_iter().nth(1));
        }
        rest = behind;
    }
    plain.push_str(rest);
    plain.retain(|character| !('\u{e200}'..='\u{e20f}').contains(&character));
    plain
}

/// Returns the node without a node below it whose message is the latest. Of several, and without
/// times, the last of the file.
fn latest_leaf<'o>(nodes: &HashMap<String, Node>, order: &'o [String]) -> Option<&'o str> {
    let parents: HashSet<&str> = nodes.values().filter_map(|node| node.parent.as_deref()).collect();
    let leaves = order.iter().filter(|id| !parents.contains(id.as_str()));
    let created = |id: &String| nodes.get(id)?.message.as_ref()?.created.clone();
    leaves.max_by_key(|id| created(id)).map(String::as_str)
}

fn branch(nodes: &HashMap<String, Node>, current: Option<&str>) -> HashSet<String> {
    let mut seen = HashSet::new();
    let mut at = current;
    while let Some((id, node)) = at.and_then(|id| nodes.get_key_value(id)) {
        if !seen.insert(id.clone()) {
            break;
        }
        at = node.parent.as_deref();
    }
    seen
}

/// Returns for each node the nearest message above it whose identifier is short enough for a key.
/// Each node is visited once or twice, however deep the tree is. A cycle ends where it closes.
fn nearest_messages(nodes: &HashMap<String, Node>, order: &[String]) -> Parents {
    let mut known = Parents::new();
    for first in order {
        let mut path: Vec<&String> = Vec::new();
        let mut on_path = HashSet::new();
        let mut at = Some(first);
        let found = loop {
            let Some((id, node)) = at.and_then(|id| nodes.get_key_value(id)) else { break None };
            if !path.is_empty()
                && let Some(message) =
                    node.message.as_ref().filter(|message| message.id.len() <= MAX_KEY_BYTES)
            {
                break Some(Arc::clone(&message.id));
            }
            if let Some(found) = known.get(id) {
                break found.clone();
            }
            if !on_path.insert(id) {
                break None;
            }
            path.push(id);
            at = node.parent.as_ref();
        };
        for id in path {
            known.insert(id.clone(), found.clone());
        }
    }
    known
}

#[cfg(test)]
mod tests;
