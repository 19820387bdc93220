//! Scripted clients of the record tools, of three classes.
//!
//! A reader sees only the part of an answer that its class of program shows to a model. With that
//! alone, a reader goes from a question to a quotation, and counts calls and bytes. A reader knows
//! one tool, `search`, and no identifier, field, offset or size beforehand. An answer names every
//! further step.

use serde_json::{Value, json};

use crate::client::McpClient;

/// Which part of an answer a client shows to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The text blocks of `content`.
    Text,
    /// The object in `structuredContent`.
    Structured,
    /// The links to resources, and the resources themselves.
    Resources,
}

/// The three classes of clients.
pub const CLASSES: [Class; 3] = [Class::Text, Class::Structured, Class::Resources];

/// A search query, and the phrase before the sentence to quote.
#[derive(Clone, Debug)]
pub struct Question {
    /// The argument `q` of the search.
    pub query: String,
    /// Words of the sentence before the sentence to quote, verbatim.
    pub phrase: String,
}

/// The calls and bytes that a reader used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tool calls and resource reads.
    pub calls: usize,
    /// Bytes that the client showed to its model. Structures and links count as JSON.
    pub bytes: usize,
}

/// A client of one class, over any connection.
pub struct Reader<'a> {
    class: Class,
    client: &'a mut dyn McpClient,
    /// The calls and bytes used so far.
    pub spent: Spent,
}

/// A call or a read that an answer named.
enum Step {
    Call { tool: String, arguments: Value },
    Read { uri: String },
}

/// A part of a field, and the step to the next part.
struct Piece {
    text: String,
    next: Option<Step>,
}

/// Why a reader found no next step, with the text that the client showed.
type DeadEnd = String;

impl<'a> Reader<'a> {
    /// Makes a reader that has made no call.
    pub fn new(class: Class, client: &'a mut dyn McpClient) -> Self {
        Self { class, client, spent: Spent::default() }
    }

    /// Returns the sentence after the question's phrase. Tries the hits in order, and reads a hit
    /// only while it may be the right one.
    ///
    /// # Errors
    /// The text of the answer that named no next step.
    pub fn quote(&mut self, question: &Question) -> Result<String, DeadEnd> {
        for hit in self.search(question)? {
            let (mut text, mut next) = (String::new(), Some(hit));
            while let Some(step) = next {
                let piece = self.read(step)?;
                text += &piece.text;
                next = piece.next;
                if let Some(sentence) = {
                    let end = if next.is_none() { TextEnd::Final } else { TextEnd::Open };
                    sentence_after(&text, &question.phrase, end)
                } {
                    return Ok(sentence);
                }
                if !text.contains(&question.phrase) {
                    break;
                }
            }
        }
        Err(format!("{:?}: no hit leads to `{}`", self.class, question.phrase))
    }

    /// Returns the steps to the hits of a search, those whose preview has the phrase first.
    fn search(&mut self, question: &Question) -> Result<Vec<Step>, DeadEnd> {
        let result = self.call("search", json!({ "q": question.query }))?;
        let mut steps = match self.class {
            Class::Text => steps_in_text(&self.text_of(&result)?),
            Class::Structured => steps_in_structure(&self.structure_of(&result)?),
            Class::Resources => self
                .links_of(&result)
                .into_iter()
                .map(|uri| (String::new(), Step::Read { uri }))
                .collect(),
        };
        if steps.is_empty() {
            return Err(format!("{:?}: the search leads nowhere: {result}", self.class));
        }
        steps.sort_by_key(|(shown, _)| !shown.contains(&question.phrase));
        Ok(steps.into_iter().map(|(_, step)| step).collect())
    }

    fn read(&mut self, step: Step) -> Result<Piece, DeadEnd> {
        match step {
            Step::Read { uri } => self.resource(&uri),
            Step::Call { tool, arguments } => {
                let result = self.call(&tool, arguments)?;
                if self.class == Class::Text {
                    piece_of_text(&self.text_of(&result)?)
                } else {
                    piece_of_structure(&self.structure_of(&result)?)
                }
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, DeadEnd> {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value, DeadEnd> {
        self.spent.calls += 1;
        let mut response =
            self.client.request(method, params).map_err(|error| error.to_string())?;
        response.get_mut("result").map(Value::take).ok_or_else(|| response.to_string())
    }

    fn text_of(&mut self, result: &Value) -> Result<String, DeadEnd> {
        let blocks = list(result, "content").iter().filter(|block| text(block, "type") == "text");
        let shown: Vec<&str> = blocks.map(|block| text(block, "text")).collect();
        let shown = shown.join("\n");
        self.spent.bytes += shown.len();
        if shown.starts_with("{\"error\"") { Err(shown) } else { Ok(shown) }
    }

    fn structure_of(&mut self, result: &Value) -> Result<Value, DeadEnd> {
        let shown = result.get("structuredContent").cloned().unwrap_or_default();
        self.spent.bytes += shown.to_string().len();
        if shown.get("error").is_some() || shown.is_null() {
            Err(shown.to_string())
        } else {
            Ok(shown)
        }
    }

    fn links_of(&mut self, result: &Value) -> Vec<String> {
        let links =
            list(result, "content").iter().filter(|block| text(block, "type") == "resource_link");
        let mut uris = Vec::new();
        for link in links {
            self.spent.bytes += link.to_string().len();
            uris.push(text(link, "uri").to_owned());
        }
        uris
    }

    fn resource(&mut self, uri: &str) -> Result<Piece, DeadEnd> {
        let result = self.request("resources/read", json!({ "uri": uri }))?;
        let contents = result.pointer("/contents/0").cloned().unwrap_or_default();
        self.spent.bytes += contents.to_string().len();
        let next = contents.pointer("/_meta/pdpp~1next_uri").and_then(Value::as_str);
        let next = next.map(|uri| Step::Read { uri: uri.to_owned() });
        match contents.get("text").and_then(Value::as_str) {
            Some(text) => Ok(Piece { text: text.to_owned(), next }),
            None => Err(contents.to_string()),
        }
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the calls in lines such as `next: TOOL {ARGUMENTS} REMARK`, each with the line before.
fn steps_in_text(shown: &str) -> Vec<(String, Step)> {
    let mut before = "";
    let mut steps = Vec::new();
    for line in shown.lines() {
        if let Some(step) = step_of_line(line)
            && !matches!(&step, Step::Call { tool, .. } if tool == "search")
        {
            steps.push((before.to_owned(), step));
        }
        before = line;
    }
    steps
}

fn step_of_line(line: &str) -> Option<Step> {
    let (tool, arguments) = line.strip_prefix("next: ")?.split_once(' ')?;
    let arguments = serde_json::Deserializer::from_str(arguments).into_iter().next()?.ok()?;
    Some(Step::Call { tool: tool.to_owned(), arguments })
}

/// Parses a window in text form: a header line, a line with the next call if there is a next
/// window, and the window's text.
fn piece_of_text(shown: &str) -> Result<Piece, DeadEnd> {
    let bad = || format!("not a window of a field: {shown}");
    let (header, rest) = shown.split_once('\n').ok_or_else(bad)?;
    let header: Value = serde_json::from_str(header).map_err(|_| bad())?;
    if header.get("next_cursor").is_none_or(Value::is_null) {
        return Ok(Piece { text: rest.to_owned(), next: None });
    }
    let (line, rest) = rest.split_once('\n').ok_or_else(bad)?;
    Ok(Piece { text: rest.to_owned(), next: Some(step_of_line(line).ok_or_else(bad)?) })
}

fn steps_in_structure(shown: &Value) -> Vec<(String, Step)> {
    let windows = list(shown, "results").iter().flat_map(|result| list(result, "match_windows"));
    windows
        .filter_map(|window| {
            Some((text(window, "preview_text").to_owned(), step_of(window.get("read")?)?))
        })
        .collect()
}

fn step_of(read: &Value) -> Option<Step> {
    Some(Step::Call {
        tool: read.get("tool")?.as_str()?.to_owned(),
        arguments: read.get("args")?.clone(),
    })
}

/// The size of the next window, in characters, if a reader builds the call itself.
const NEXT_WINDOW_CHARS: u64 = 2048;

/// Parses a window in structured form, which has a cursor and no ready call.
fn piece_of_structure(shown: &Value) -> Result<Piece, DeadEnd> {
    let at = |pointer: &str| shown.pointer(pointer).and_then(Value::as_str);
    let text =
        at("/window/text").ok_or_else(|| format!("not a window of a field: {shown}"))?.to_owned();
    let next = at("/window/next_cursor").map(|cursor| Step::Call {
        tool: "read_record_field".to_owned(),
        arguments: json!({
            "id": at("/record/id"),
            "field_path": at("/field/path"),
            "cursor": cursor,
            "limit_chars": NEXT_WINDOW_CHARS,
        }),
    });
    Ok(Piece { text, next })
}

/// Whether a text ends where it stops, or a next window follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEnd {
    /// The text is complete.
    Final,
    /// A next window may continue the text.
    Open,
}

/// Returns the sentence after the sentence with `phrase`; `None` if its end is not in `text`. A
/// sentence ends with a full stop and a space, or with a final text.
pub fn sentence_after(text: &str, phrase: &str, end: TextEnd) -> Option<String> {
    let (_, rest) = text.split_once(phrase)?;
    let (_, rest) = rest.split_once(". ")?;
    match rest.split_once(". ") {
        Some((sentence, _)) => Some(format!("{sentence}.")),
        None => (end == TextEnd::Final).then(|| rest.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_quotes_a_sentence_once_its_end_is_known() {
        let text = "One. Two is here. Three";
        assert_eq!(sentence_after(text, "ne", TextEnd::Open).as_deref(), Some("Two is here."));
        assert_eq!(sentence_after(text, "is", TextEnd::Open), None, "the sentence may continue");
        assert_eq!(sentence_after(text, "is", TextEnd::Final).as_deref(), Some("Three"));
        assert_eq!(sentence_after(text, "Three", TextEnd::Final), None);
    }

    #[test]
    fn a_line_names_a_call() {
        let Some(Step::Call { tool, arguments }) =
            step_of_line("next: fetch {\"id\":\"a {}\"} (2 of 3)")
        else {
            panic!("it does")
        };
        assert_eq!((tool.as_str(), arguments), ("fetch", json!({ "id": "a {}" })));
        assert!(step_of_line("next: fetch more").is_none());
    }
}
