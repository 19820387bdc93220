//! Converts tool definitions to the protocol's types.
//!
//! A handler converts each definition once, when a list first shows it, and all lists share it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};
use stile_domain::tool_name::{ShownTools, Spelling};
use stile_tools::definition::{ToolDefinition, ToolGroup};

use crate::config::{AnswerForms, ToolGroups};

/// The converted definitions of all tools of a server.
pub(crate) struct ToolDefinitions {
    by_name: HashMap<&'static str, Spellings>,
    /// Whether the texts of the tools name no tool that the server lacks.
    is_closed: OnceLock<bool>,
}

/// One tool in both spellings of all names that it tells.
struct Spellings {
    definition: ToolDefinition,
    dotted: OnceLock<Tool>,
    underscored: OnceLock<Tool>,
    /// All texts of the tool, with canonical names.
    texts: OnceLock<String>,
}

impl ToolDefinitions {
    pub(crate) fn new(tools: Vec<ToolDefinition>) -> Self {
        let by_name = tools.into_iter().map(|tool| (tool.name, Spellings::new(tool))).collect();
        Self { by_name, is_closed: OnceLock::new() }
    }

    /// Whether a tool is in one of these groups.
    pub(crate) fn is_shown(&self, name: &str, groups: ToolGroups) -> bool {
        self.by_name.get(name).is_some_and(|tool| groups.show(tool.definition.group))
    }

    /// Returns the group of a tool by its canonical name or by the name in a list.
    pub(crate) fn group(&self, name: &str) -> Option<ToolGroup> {
        let known = self.by_name.get(name);
        let known = known.or_else(|| self.by_name.get(name.replacen('_', ".", 1).as_str()));
        known.map(|tool| tool.definition.group)
    }

    /// Returns the definitions of those `tools` that are in a group, in their order. They name no
    /// tool that the list lacks. `form` is the form of the answers of a group. A tool that gives no
    /// structured content has no output schema: the protocol demands the one where there is the
    /// other.
    pub(crate) fn list(
        &self,
        tools: &[&str],
        groups: ToolGroups,
        spelling: Spelling,
        form: impl Fn(ToolGroup) -> AnswerForms,
    ) -> Vec<Tool> {
        let tools = tools.iter().filter_map(|name| self.by_name.get(name));
        let tools: Vec<_> = tools.filter(|tool| groups.show(tool.definition.group)).collect();
        let is_listed = |name: &str| tools.iter().any(|tool| tool.definition.name == name);
        let names = ShownTools::from(spelling).only(is_listed);
        let is_closed = || self.by_name.values().all(|tool| names.have_all_in(tool.texts()));
        let has_all = tools.len() == self.by_name.len() && *self.is_closed.get_or_init(is_closed);
        tools
            .iter()
            .map(|tool| {
                let is_told = has_all || names.have_all_in(tool.texts());
                let mut listed = match is_told {
                    true => tool.spelled(spelling).clone(),
                    false => converted(&tool.definition, names),
                };
                if form(tool.definition.group) == AnswerForms::Text {
                    listed.output_schema = None;
                }
                listed
            })
            .collect()
    }
}

/// Returns one tool as a list has it, for a page that says how long lists are.
pub fn listed(tool: ToolDefinition, names: Spelling) -> Value {
    serde_json::to_value(Spellings::new(tool).spelled(names)).unwrap_or_default()
}

/// Returns the schema of an answer as lists show it: an object.
///
/// A list of tools is put before every question of many a model. The answer itself shows what its
/// members are, and the documentation has the whole schema.
fn brief() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), "object".into())])
}

/// The bounds of texts, which a list leaves out: a call that exceeds one is refused in words.
const BOUNDS_OF_TEXTS: [&str; 3] = ["minLength", "maxLength", "pattern"];

/// Makes the schema of arguments as lists show it: without the bounds of texts and what is usual,
/// and with the tools of the list, as it spells them, in its descriptions.
fn shorten(schema: &mut Map<String, Value>, names: ShownTools) {
    shorten_value(schema, names);
    // Only the arguments themselves say that there are no others; each call is checked in any case.
    schema.insert("additionalProperties".to_owned(), false.into());
}

fn shorten_value(schema: &mut Map<String, Value>, names: ShownTools) {
    let is_usual = |name: &str, value: &Value| match name {
        "default" => *value == false || *value == "/",
        "additionalProperties" => *value == false,
        _ => BOUNDS_OF_TEXTS.contains(&name),
    };
    // An argument may have the name of a bound, and is an object.
    schema.retain(|name, value| value.is_object() || !is_usual(name, value));
    for (name, value) in schema.iter_mut() {
        match value {
            Value::String(text) if name == "description" => {
                *text = names.declaration(text).into_owned();
            }
            Value::Object(members) => shorten_value(members, names),
            Value::Array(items) => {
                items
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|item| shorten_value(item, names));
            }
            _ => {}
        }
    }
    // A description whose sentences all name tools that the list lacks says nothing.
    schema.retain(|name, value| name != "description" || *value != "");
}

/// Converts the definition of a tool for a list that has the tools `names`.
fn converted(tool: &ToolDefinition, names: ShownTools) -> Tool {
    // All four hints are set, since a client assumes the worst of a missing one.
    let hints = ToolAnnotations::new()
        .read_only(tool.read_only)
        .destructive(tool.destructive && !tool.read_only)
        .idempotent(tool.idempotent)
        .open_world(false);
    let description = names.declaration(&tool.description).into_owned();
    let mut input = tool.input.clone();
    shorten(&mut input, names);
    Tool::new(names.name(tool.name).into_owned(), description, Arc::new(input))
        .with_title(tool.title)
        .with_raw_output_schema(Arc::new(brief()))
        .with_annotations(hints)
}

impl Spellings {
    fn new(definition: ToolDefinition) -> Self {
        let [dotted, underscored] = [const { OnceLock::new() }; 2];
        Self { definition, dotted, underscored, texts: OnceLock::new() }
    }

    /// Returns the tool with all names that it tells in one spelling.
    fn spelled(&self, names: Spelling) -> &Tool {
        let kept = match names {
            Spelling::Dotted => &self.dotted,
            Spelling::Underscored => &self.underscored,
        };
        kept.get_or_init(|| converted(&self.definition, names.into()))
    }

    /// Returns all texts of the tool, with canonical names.
    fn texts(&self) -> &str {
        self.texts.get_or_init(|| {
            let input = serde_json::to_string(&self.definition.input).unwrap_or_default();
            format!("{} {input}", self.definition.description)
        })
    }
}
