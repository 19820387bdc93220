//! The conversation in the guide to the ladder, held as it stands there.
//!
//! Each `call` block is a tool and its arguments; the `text` block after it is what the tool
//! answers, with `…` for what is sealed and for the middle of what is long. With `UPDATE_DOCS` set
//! the page is written anew.

use serde_json::Value;
use stile_testkit::client::McpClient as _;
use stile_testkit::documents::assert_document;

use super::records_kit::Kit;

/// The characters of a line that the page shows.
const SHOWN: usize = 420;

/// A text as the page shows it.
fn shown(text: &str) -> String {
    text.lines().map(|line| shortened(&unsealed(line))).collect::<Vec<_>>().join("\n")
}

/// A line with `…` for each sealed text: of those, and of no word, there are 60 characters of
/// base64 in a row.
fn unsealed(line: &str) -> String {
    let is_sealed = |word: &str| word.len() >= 60 && !word.contains(' ');
    let words =
        line.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words
        .map(|word| {
            let end = word
                .trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
                .len();
            if is_sealed(&word[..end]) { format!("…{}", &word[end..]) } else { word.to_owned() }
        })
        .collect()
}

fn shortened(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= SHOWN {
        return line.to_owned();
    }
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{} … {}", text(&chars[..SHOWN * 2 / 3]), text(&chars[chars.len() - SHOWN / 3..]))
}

#[test]
fn the_conversation_of_the_guide_happens_as_written() {
    let kit = Kit::new();
    let page = include_str!("../../../../docs/ladder.md");
    let messages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/records/messages.jsonl");
    kit.said(&["import", messages, "--connection", "chat", "--stream", "messages"]);
    let mut client = kit.rig.stdio(&["--owner"]);
    let mut out = String::new();
    let mut blocks = page.split("```");
    let mut answer = None;
    while let (Some(prose), block) = (blocks.next(), blocks.next()) {
        out += prose;
        let Some(block) = block else { break };
        let body = match (block.split_once('\n'), answer.take()) {
            (Some(("text", _)), Some(said)) => format!("text\n{said}\n"),
            (Some(("call", call)), _) => {
                let (tool, arguments) = call.trim().split_once(' ').unwrap();
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                let params = serde_json::json!({ "name": tool, "arguments": arguments });
                let response = client.request("tools/call", params).unwrap();
                answer = Some(shown(response["result"]["content"][0]["text"].as_str().unwrap()));
                block.to_owned()
            }
            _ => block.to_owned(),
        };
        out += &format!("```{body}```");
    }
    assert_document("docs/ladder.md", &out);
}
