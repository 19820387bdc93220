//! Scripted clients of the content ladder, of three classes: each sees of an answer only what its
//! class of program shows to a model, goes from a question to a quotation with nothing else, and
//! counts what that cost.
//!
//! They know no identifier, field, offset or size beforehand, and no tool but `search`: every
//! further step is one that an answer named.

use serde_json::{Value, json};

use crate::client::Caller;

/// What a client shows of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The text blocks of `content`.
    Text,
    /// `structuredContent`.
    Structured,
    /// The links to resources, and what is read from them.
    Resources,
}

/// All classes.
pub const CLASSES: [Class; 3] = [Class::Text, Class::Structured, Class::Resources];

/// What a quotation is asked for with.
#[derive(Clone, Debug)]
pub struct Question {
    /// The argument `q` of the search.
    pub query: String,
    /// Words of the sentence before the one to quote, as they stand there.
    pub phrase: String,
}

/// What a client spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tool calls and resource reads.
    pub calls: usize,
    /// Bytes that the client showed: of text as it is, of the rest as JSON.
    pub bytes: usize,
}

/// A client of one class, over any connection.
pub struct Reader<'a> {
    class: Class,
    caller: &'a mut dyn Caller,
    /// What it spent so far.
    pub spent: Spent,
}

/// A step that an answer named.
enum Step {
    Call { tool: String, arguments: Value },
    Read { uri: String },
}

/// A part of a field, and the step to the part after it.
struct Piece {
    text: String,
    next: Option<Step>,
}

/// What went wrong, with what the client was shown.
type Lost = String;

impl<'a> Reader<'a> {
    /// A client that has spent nothing yet.
    pub fn new(class: Class, caller: &'a mut dyn Caller) -> Self {
        Self { class, caller, spent: Spent::default() }
    }

    /// The sentence after the one that holds the question's phrase. Hits are tried in their order,
    /// and each is read on only as long as it may be the right one.
    ///
    /// # Errors
    /// What was shown where no step led on.
    pub fn quote(&mut self, question: &Question) -> Result<String, Lost> {
        for place in self.search(question)? {
            let (mut text, mut next) = (String::new(), Some(place));
            while let Some(step) = next {
                let piece = self.read(step)?;
                text += &piece.text;
                next = piece.next;
                if let Some(sentence) = sentence_after(&text, &question.phrase, next.is_none()) {
                    return Ok(sentence);
                }
                if !text.contains(&question.phrase) {
                    break;
                }
            }
        }
        Err(format!("{:?}: no hit leads to `{}`", self.class, question.phrase))
    }

    /// Where the hits of a search lead, the likeliest first.
    fn search(&mut self, question: &Question) -> Result<Vec<Step>, Lost> {
        let result = self.call("search", json!({ "q": question.query }))?;
        let mut places = match self.class {
            Class::Text => places_in_text(&self.text_of(&result)?),
            Class::Structured => places_in_structure(&self.structure_of(&result)?),
            Class::Resources => self
                .links_of(&result)
                .into_iter()
                .map(|uri| (String::new(), Step::Read { uri }))
                .collect(),
        };
        if places.is_empty() {
            return Err(format!("{:?}: the search leads nowhere: {result}", self.class));
        }
        places.sort_by_key(|(shown, _)| !shown.contains(&question.phrase));
        Ok(places.into_iter().map(|(_, step)| step).collect())
    }

    fn read(&mut self, step: Step) -> Result<Piece, Lost> {
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

    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Lost> {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value, Lost> {
        self.spent.calls += 1;
        let mut response =
            self.caller.request(method, params).map_err(|error| error.to_string())?;
        response.get_mut("result").map(Value::take).ok_or_else(|| response.to_string())
    }

    fn text_of(&mut self, result: &Value) -> Result<String, Lost> {
        let blocks = list(result, "content").iter().filter(|block| text(block, "type") == "text");
        let shown: Vec<&str> = blocks.map(|block| text(block, "text")).collect();
        let shown = shown.join("\n");
        self.spent.bytes += shown.len();
        if shown.starts_with("{\"error\"") { Err(shown) } else { Ok(shown) }
    }

    fn structure_of(&mut self, result: &Value) -> Result<Value, Lost> {
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

    fn resource(&mut self, uri: &str) -> Result<Piece, Lost> {
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

/// The calls that lines of a text name, each with the line before it. `next: TOOL {ARGUMENTS}`, and
/// perhaps a remark.
fn places_in_text(shown: &str) -> Vec<(String, Step)> {
    let mut before = "";
    let mut places = Vec::new();
    for line in shown.lines() {
        if let Some(step) = step_of_line(line)
            && !matches!(&step, Step::Call { tool, .. } if tool == "search")
        {
            places.push((before.to_owned(), step));
        }
        before = line;
    }
    places
}

fn step_of_line(line: &str) -> Option<Step> {
    let (tool, arguments) = line.strip_prefix("next: ")?.split_once(' ')?;
    let arguments = serde_json::Deserializer::from_str(arguments).into_iter().next()?.ok()?;
    Some(Step::Call { tool: tool.to_owned(), arguments })
}

/// A part of a field as text: a header line, where there is more the call that reads it, and the
/// part as it is.
fn piece_of_text(shown: &str) -> Result<Piece, Lost> {
    let bad = || format!("no window of a field: {shown}");
    let (header, rest) = shown.split_once('\n').ok_or_else(bad)?;
    let header: Value = serde_json::from_str(header).map_err(|_| bad())?;
    if header.get("next_cursor").is_none_or(Value::is_null) {
        return Ok(Piece { text: rest.to_owned(), next: None });
    }
    let (line, rest) = rest.split_once('\n').ok_or_else(bad)?;
    Ok(Piece { text: rest.to_owned(), next: Some(step_of_line(line).ok_or_else(bad)?) })
}

fn places_in_structure(shown: &Value) -> Vec<(String, Step)> {
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

/// How much a client asks for that needs a little more than it has, where it makes the call itself.
const LITTLE_MORE: u64 = 2048;

/// A part of a field as a structure. It has no call that goes on, but the record, the field and a
/// cursor.
fn piece_of_structure(shown: &Value) -> Result<Piece, Lost> {
    let at = |pointer: &str| shown.pointer(pointer).and_then(Value::as_str);
    let text =
        at("/window/text").ok_or_else(|| format!("no window of a field: {shown}"))?.to_owned();
    let next = at("/window/next_cursor").map(|cursor| Step::Call {
        tool: "read_record_field".to_owned(),
        arguments: json!({
            "id": at("/record/id"), "field_path": at("/field/path"), "cursor": cursor, "limit_chars": LITTLE_MORE,
        }),
    });
    Ok(Piece { text, next })
}

/// The sentence after the one that holds `phrase`, if all of it is there. A sentence ends with a
/// full stop before white space, or where the text ends for good.
pub fn sentence_after(text: &str, phrase: &str, is_all: bool) -> Option<String> {
    let (_, rest) = text.split_once(phrase)?;
    let (_, rest) = rest.split_once(". ")?;
    match rest.split_once(". ") {
        Some((sentence, _)) => Some(format!("{sentence}.")),
        None => is_all.then(|| rest.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_quotes_a_sentence_once_its_end_is_known() {
        let text = "One. Two is here. Three";
        assert_eq!(sentence_after(text, "ne", false).as_deref(), Some("Two is here."));
        assert_eq!(sentence_after(text, "is", false), None, "it may go on");
        assert_eq!(sentence_after(text, "is", true).as_deref(), Some("Three"));
        assert_eq!(sentence_after(text, "Three", true), None);
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
