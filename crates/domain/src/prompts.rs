//! Prompts: texts with arguments that a person starts in a client, as with a slash command.
//!
//! A prompt is a Markdown file. Its front matter has `title`, `description` and `arguments`, each
//! with `name`, `description` and `required`; the rest is what the model is asked, with
//! `{{argument}}` where a value stands. Values are put in as they are and once, so a value that
//! looks like a placeholder stays a text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::ascii_name::ascii_name;
use crate::notes::parse_front_matter;
use crate::tool_name::Spelling;

/// The most prompts of one folder.
pub const MAX_PROMPTS: usize = 100;
/// The longest file of a prompt, in bytes.
pub const MAX_PROMPT_BYTES: u64 = 64 * 1024;
/// The longest prompt with its values, in bytes, so that a value cannot multiply without end.
pub const MAX_FILLED_BYTES: usize = 256 * 1024;
/// The most arguments of a prompt.
const MAX_ARGUMENTS: usize = 16;
/// The longest name of a prompt or an argument, in characters.
const MAX_NAME_CHARS: usize = 64;
/// The longest title or description, in bytes.
const MAX_ABOUT_BYTES: usize = 1024;

/// A prompt, as a client lists it and as it is filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The name, as in `/weekly-review`.
    pub name: String,
    /// A short title for people.
    pub title: Option<String>,
    /// What the prompt is for.
    pub description: Option<String>,
    /// The arguments, in order.
    pub arguments: Vec<PromptArgument>,
    template: String,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// The name, as the placeholder has it.
    pub name: String,
    /// What the value is.
    pub description: Option<String>,
    /// Whether the prompt cannot be used without a value.
    pub is_required: bool,
}

/// Why a file is not a prompt. Each text completes a sentence that begins with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPrompt {
    /// The name of the file makes no name of a prompt.
    #[error("has no letter or digit in its name")]
    Name,
    /// The front matter is not YAML that can be read, or has no end.
    #[error("begins with `---`, but what follows is not front matter that can be read")]
    FrontMatter,
    /// A title or description is not a text, or is too long.
    #[error("has a title or a description that is not a text of at most 1024 bytes")]
    About,
    /// The arguments are not a list of at most 16 with a name each.
    #[error(
        "has arguments that are not a list of at most 16, each with a `name` of letters, digits, \
         `_` and `-` that no other has, and perhaps `description` and `required`"
    )]
    Arguments,
    /// There is no text after the front matter.
    #[error("has no text")]
    Empty,
}

/// Why a prompt cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadArguments {
    /// A required argument has no value.
    #[error("the prompt needs the argument `{0}`")]
    Missing(String),
    /// The prompt has no such argument. The name is not repeated: it is the caller's.
    #[error("there is an argument that the prompt does not have; it has: {0}")]
    Unknown(String),
    /// A value is not a text.
    #[error("the value of `{0}` is not a text")]
    NotText(String),
    /// The prompt would be too long.
    #[error("the prompt would be longer than 262144 bytes with these values")]
    TooLong,
}

/// Returns the name of the prompt in a Markdown file: the name of the file without its ending, in
/// ASCII letters, digits, `_` and `-`, as [`ascii_name`] spells it. `None` for other files, and
/// where nothing is left.
///
/// The protocol says nothing about the characters of these names. Clients make commands of them,
/// and some put `_` for all but ASCII, by which the names of two prompts become the same.
pub fn name_of_file(file_name: &str) -> Option<String> {
    let mut name = ascii_name(file_name.strip_suffix(".md")?);
    name.truncate(MAX_NAME_CHARS);
    (!name.is_empty()).then_some(name)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

impl Prompt {
    /// Parses the text of a prompt's file.
    ///
    /// # Errors
    /// Every [`BadPrompt`] but [`BadPrompt::Name`].
    pub fn parse(name: &str, text: &str) -> Result<Self, BadPrompt> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (members, body) = parse_front_matter(text);
        let has_fence = text.starts_with("---\n") || text.starts_with("---\r\n");
        if has_fence && body == 0 {
            return Err(BadPrompt::FrontMatter);
        }
        let template = text.get(body..).unwrap_or_default().trim();
        if template.is_empty() {
            return Err(BadPrompt::Empty);
        }
        Ok(Self {
            name: name.to_owned(),
            title: about(&members, "title").map_err(|NotAbout| BadPrompt::About)?,
            description: about(&members, "description").map_err(|NotAbout| BadPrompt::About)?,
            arguments: arguments(members.get("arguments"))?,
            template: template.to_owned(),
        })
    }

    /// Returns the prompt with a name beside another prompt, whose file makes the same name. It has
    /// a number that depends on the name of its own file only.
    #[must_use]
    pub fn beside_another(self, file_name: &str) -> Self {
        // FNV-1a, cut to 16 bits: it tells files apart and guards nothing.
        let hash = file_name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let kept = self.name.get(..self.name.len().min(MAX_NAME_CHARS - 5)).unwrap_or(&self.name);
        Self { name: format!("{kept}-{:04x}", hash & 0xffff), ..self }
    }

    /// Returns the prompt with the names of tools in this spelling, wherever it says them.
    #[must_use]
    pub fn spelled(self, spelling: Spelling) -> Self {
        let respelled = |text: String| spelling.respelled(&text).into_owned();
        let arguments = self.arguments.into_iter().map(|argument| PromptArgument {
            description: argument.description.map(respelled),
            ..argument
        });
        Self {
            title: self.title.map(respelled),
            description: self.description.map(respelled),
            arguments: arguments.collect(),
            template: respelled(self.template),
            name: self.name,
        }
    }

    /// Puts values in place of the placeholders. An argument without a value becomes an empty text.
    ///
    /// # Errors
    /// Every [`BadArguments`].
    pub fn fill(&self, values: &Map<String, Value>) -> Result<String, BadArguments> {
        let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
        // A client that writes `null` has left the argument out.
        for (name, value) in values.iter().filter(|(_, value)| !value.is_null()) {
            let known = self.arguments.iter().find(|argument| argument.name == *name);
            let argument = known.ok_or_else(|| BadArguments::Unknown(self.names()))?;
            let text = value.as_str().ok_or_else(|| BadArguments::NotText(name.clone()))?;
            texts.insert(&argument.name, text);
        }
        let is_missing = |argument: &&PromptArgument| {
            argument.is_required
                && texts.get(argument.name.as_str()).is_none_or(|text| text.is_empty())
        };
        if let Some(missing) = self.arguments.iter().find(is_missing) {
            return Err(BadArguments::Missing(missing.name.clone()));
        }
        let mut filled = String::with_capacity(self.template.len());
        let mut rest = self.template.as_str();
        while let Some((before, placeholder, after)) = self.next_placeholder(rest) {
            filled.push_str(before);
            filled.push_str(texts.get(placeholder).copied().unwrap_or_default());
            if filled.len() > MAX_FILLED_BYTES {
                return Err(BadArguments::TooLong);
            }
            rest = after;
        }
        filled.push_str(rest);
        if filled.len() > MAX_FILLED_BYTES { Err(BadArguments::TooLong) } else { Ok(filled) }
    }

    /// Splits a text at its first placeholder for an argument of the prompt. Other braces stay.
    fn next_placeholder<'t>(&'t self, text: &'t str) -> Option<(&'t str, &'t str, &'t str)> {
        let mut from = 0;
        loop {
            let start = from + text.get(from..)?.find("{{")?;
            let inside = text.get(start + 2..)?;
            let is_argument =
                |name: &str| self.arguments.iter().any(|argument| argument.name == name);
            if let Some((name, after)) = inside.split_once("}}")
                && is_argument(name.trim())
            {
                return Some((text.get(..start)?, name.trim(), after));
            }
            from = start + 1;
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> =
            self.arguments.iter().map(|argument| format!("`{}`", argument.name)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// A member is not a text of the right length.
struct NotAbout;

fn about(members: &Map<String, Value>, name: &str) -> Result<Option<String>, NotAbout> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= MAX_ABOUT_BYTES => Ok(Some(text.clone())),
        Some(_) => Err(NotAbout),
    }
}

fn arguments(list: Option<&Value>) -> Result<Vec<PromptArgument>, BadPrompt> {
    let items = match list {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= MAX_ARGUMENTS => items,
        Some(_) => return Err(BadPrompt::Arguments),
    };
    let mut arguments: Vec<PromptArgument> = Vec::new();
    for item in items {
        let argument = argument(item).ok_or(BadPrompt::Arguments)?;
        if arguments.iter().any(|other| other.name == argument.name) {
            return Err(BadPrompt::Arguments);
        }
        arguments.push(argument);
    }
    Ok(arguments)
}

fn argument(item: &Value) -> Option<PromptArgument> {
    let members = item.as_object()?;
    let name = members.get("name")?.as_str()?;
    let fits = (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(is_name_char);
    let is_required = match members.get("required") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_required)) => *is_required,
        Some(Value::String(text)) if text == "true" || text == "false" => text == "true",
        Some(_) => return None,
    };
    let description = about(members, "description").ok()?;
    fits.then(|| PromptArgument { name: name.to_owned(), description, is_required })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const GREETING: &str = "---\ntitle: Greet\ndescription: Greets somebody\narguments:\n  - name: \
        who\n    description: Whom to greet\n    required: true\n  - name: how\n---\nGreet {{who}} \
        {{ how }} {{other}}, {{who}}.\n";

    fn values(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn front_matter_declares_what_a_prompt_takes() {
        let prompt = Prompt::parse("greet", GREETING).unwrap();
        assert_eq!(prompt.title.as_deref(), Some("Greet"));
        assert_eq!(prompt.description.as_deref(), Some("Greets somebody"));
        let arguments: Vec<(&str, bool)> =
            prompt.arguments.iter().map(|a| (a.name.as_str(), a.is_required)).collect();
        assert_eq!(arguments, [("who", true), ("how", false)]);
        let plain = Prompt::parse("x", "Just ask.\n").unwrap();
        assert_eq!((plain.arguments.len(), plain.fill(&Map::new())), (0, Ok("Just ask.".into())));
    }

    #[test]
    fn values_are_put_in_literally_and_once() {
        let prompt = Prompt::parse("greet", GREETING).unwrap();
        let filled = prompt.fill(&values(&json!({ "who": "{{how}}", "how": "{{who}}" })));
        assert_eq!(filled.unwrap(), "Greet {{how}} {{who}} {{other}}, {{how}}.");
        let filled = prompt.fill(&values(&json!({ "who": "Ann" })));
        assert_eq!(filled.unwrap(), "Greet Ann  {{other}}, Ann.");
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused() {
        let prompt = Prompt::parse("greet", GREETING).unwrap();
        let refused = |value: Value| prompt.fill(&values(&value)).unwrap_err().to_string();
        assert_eq!(refused(json!({})), "the prompt needs the argument `who`");
        assert_eq!(refused(json!({ "who": "" })), "the prompt needs the argument `who`");
        assert_eq!(refused(json!({ "who": null })), "the prompt needs the argument `who`");
        let with_null = json!({ "who": "Ann", "how": null, "other": null });
        assert_eq!(prompt.fill(&values(&with_null)).unwrap(), "Greet Ann  {{other}}, Ann.");
        assert_eq!(refused(json!({ "who": 7 })), "the value of `who` is not a text");
        let unknown = refused(json!({ "who": "Ann", "evil`": "x" }));
        assert!(unknown.ends_with("it has: `who`, `how`") && !unknown.contains("evil"));
        let long = "x".repeat(MAX_FILLED_BYTES / 2);
        assert_eq!(prompt.fill(&values(&json!({ "who": long }))), Err(BadArguments::TooLong));
    }

    #[test]
    fn a_file_that_is_not_a_prompt_is_refused() {
        let parse = |text: &str| Prompt::parse("x", text).map(drop);
        assert_eq!(parse(""), Err(BadPrompt::Empty));
        assert_eq!(parse("---\ntitle: x\n---\n \n"), Err(BadPrompt::Empty));
        assert_eq!(parse("---\ntitle: [\n---\nx"), Err(BadPrompt::FrontMatter));
        assert_eq!(parse("---\ntitle: x\n"), Err(BadPrompt::FrontMatter));
        assert_eq!(parse("---\ntitle: [a]\n---\nx"), Err(BadPrompt::About));
        for arguments in
            ["x", "[x]", "[{name: a b}]", "[{name: a}, {name: a}]", "[{name: a, required: 1}]"]
        {
            let text = format!("---\narguments: {arguments}\n---\nx");
            assert_eq!(parse(&text), Err(BadPrompt::Arguments), "{arguments}");
        }
    }

    #[test]
    fn the_name_of_a_file_is_the_name_of_its_prompt() {
        for (file, name) in [
            ("weekly-review.md", Some("weekly-review")),
            ("Weekly Review!.md", Some("Weekly-Review")),
            ("a_b.md", Some("a_b")),
            ("été.md", Some("ete")),
            ("Протокол.md", Some("Protokol")),
            ("---.md", None),
            (".md", None),
            ("a.txt", None),
            ("md", None),
        ] {
            assert_eq!(name_of_file(file).as_deref(), name, "{file}");
        }
    }

    proptest! {
        #[test]
        fn every_text_is_a_prompt_or_refused_and_fills_within_the_bound(
            text in "(---\n)?(arguments: \\[\\{name: a\\}\\]\n---\n)?[\\{\\}a ]{0,30}", value in "[a\\{\\}]{0,5}"
        ) {
            if let Ok(prompt) = Prompt::parse("x", &text) {
                let filled = prompt.fill(&values(&json!({ "a": value })));
                prop_assert!(filled.is_ok() || prompt.arguments.is_empty());
            }
        }

        #[test]
        fn a_name_fits_what_clients_accept(file in "\\PC{0,80}") {
            if let Some(name) = name_of_file(&format!("{file}.md")) {
                prop_assert!((1..=64).contains(&name.len()) && name.chars().all(is_name_char));
            }
        }
    }
}
