//! Reads the text that a Slack message has outside of `text`: its blocks, and the attachments that
//! bots, forwarded messages and previews of links have.
//!
//! *Source*: Slack's references "Block Kit" and "Secondary message attachments".

use super::mrkdwn;
use super::workspace::Workspace;
use crate::json_object::JsonObject;

/// How deep elements of blocks are read. Slack nests four levels.
const MAX_DEPTH: usize = 16;

/// Returns the whole text of a message, a line or more for each part; `None` if it has none. Blocks
/// say what `text` says, so they are read only without it.
pub(super) fn of(message: &JsonObject, workspace: &Workspace) -> Option<String> {
    let mut lines = Lines { workspace, text: String::new() };
    match message.text("text") {
        Some(text) => lines.add(text),
        None => lines.add_blocks(message),
    }
    for attachment in message.objects("attachments") {
        lines.add_attachment(&attachment);
    }
    Some(lines.text).filter(|text| !text.is_empty())
}

struct Lines<'w> {
    workspace: &'w Workspace,
    text: String,
}

impl Lines<'_> {
    /// Adds a part, unless it is empty or there is such a line already.
    fn add(&mut self, markup: &str) {
        let plain = mrkdwn::to_plain_text(markup, self.workspace);
        let plain = plain.trim_end();
        if plain.is_empty() || self.text.lines().any(|line| line == plain) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(plain);
    }

    fn add_attachment(&mut self, attachment: &JsonObject) {
        let before = self.text.len();
        for name in ["pretext", "author_name", "title", "text"] {
            self.add(attachment.text(name).unwrap_or_default());
        }
        for field in attachment.objects("fields") {
            let (title, value) = (field.text("title"), field.text("value"));
            let both = [title, value].into_iter().flatten().collect::<Vec<_>>().join(": ");
            self.add(&both);
        }
        self.add_blocks(attachment);
        for shared in attachment.objects("message_blocks") {
            self.add_blocks(&shared.object("message").unwrap_or_default());
        }
        if self.text.len() == before {
            self.add(attachment.text("fallback").unwrap_or_default());
        }
    }

    fn add_blocks(&mut self, holder: &JsonObject) {
        for block in holder.objects("blocks") {
            let mut text = String::new();
            push_element(&block, 0, &mut text);
            self.add(&text);
        }
    }
}

/// Appends the text of a block or an element in it.
fn push_element(element: &JsonObject, depth: usize, text: &mut String) {
    if depth > MAX_DEPTH {
        return;
    }
    match element.text("type").unwrap_or_default() {
        "user" => push_some(element, "user_id", "<@", ">", text),
        "channel" => push_some(element, "channel_id", "<#", ">", text),
        "broadcast" => push_some(element, "range", "<!", ">", text),
        "emoji" => push_some(element, "name", ":", ":", text),
        "link" if element.text("text").is_none() => push_some(element, "url", "<", ">", text),
        _ => push_some(element, "text", "", "", text),
    }
    for name in ["title", "text"] {
        if let Some(inner) = element.object(name) {
            push_line(&inner, depth, text);
        }
    }
    push_some(element, "alt_text", "", "", text);
    for field in element.objects("fields") {
        push_line(&field, depth, text);
    }
    for part in element.items("elements") {
        let Some(part) = JsonObject::parse(&part) else { continue };
        let is_line = part
            .text("type")
            .is_some_and(|kind| kind.starts_with("rich_text_") || kind == "mrkdwn");
        if is_line { push_line(&part, depth, text) } else { push_element(&part, depth + 1, text) }
    }
}

fn push_line(element: &JsonObject, depth: usize, text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    push_element(element, depth + 1, text);
}

fn push_some(element: &JsonObject, name: &str, before: &str, after: &str, text: &mut String) {
    if let Some(own) = element.text(name) {
        text.extend([before, own, after]);
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::records::value::FieldValue;

    use super::*;

    fn read(json: &str) -> Option<String> {
        let message = JsonObject::parse(&FieldValue::Json(json.to_owned())).unwrap_or_default();
        of(&message, &Workspace::default())
    }

    #[test]
    fn the_words_of_blocks_and_attachments_are_in_the_text() {
        for (json, expected) in [
            (
                r#"{"text":"plain","blocks":[{"type":"section","text":{"type":"mrkdwn","text":"plain"}}]}"#,
                "plain",
            ),
            (
                r#"{"text":"","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[
                    {"type":"text","text":"see "},{"type":"user","user_id":"U1"},{"type":"text","text":" "},
                    {"type":"link","url":"https://example.org"},{"type":"emoji","name":"wave"}]},
                    {"type":"rich_text_list","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"one"}]},
                    {"type":"rich_text_section","elements":[{"type":"text","text":"two"}]}]}]}]}"#,
                "see @U1 https://example.org:wave:\none\ntwo",
            ),
            (
                r#"{"blocks":[{"type":"header","text":{"type":"plain_text","text":"Build"}},
                    {"type":"section","fields":[{"type":"mrkdwn","text":"a"},{"type":"mrkdwn","text":"b"}]},
                    {"type":"image","alt_text":"a picture"}]}"#,
                "Build\na\nb\na picture",
            ),
            (
                r#"{"text":"","attachments":[{"fallback":"Build 77 failed","title":"Build 77 failed","text":"the log &amp; more",
                    "fields":[{"title":"Branch","value":"main"}]}]}"#,
                "Build 77 failed\nthe log & more\nBranch: main",
            ),
            (
                r#"{"text":"see","attachments":[{"fallback":"[no preview]"},{"author_name":"Bob","text":"see"}]}"#,
                "see\n[no preview]\nBob",
            ),
        ] {
            assert_eq!(read(json).as_deref(), Some(expected), "{json}");
        }
        assert_eq!(read("{}"), None);
        let deep = format!(
            "{}{}",
            r#"{"blocks":[{"elements":["#.repeat(40),
            r#"{"type":"text","text":"x"}"#
        );
        assert_eq!(read(&deep), None);
    }
}
