//! Converts tool definitions to the protocol's types.
//!
//! A handler converts all definitions once, and all its lists share them.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};
use stile_domain::tool_name::{ShownTools, Spelling};
use stile_tools::definition::ToolDefinition;

use crate::config::ToolGroups;

/// The converted definitions of all tools of a server.
pub(crate) struct ToolDefinitions {
    by_name: HashMap<&'static str, Spellings>,
}

/// One tool in both spellings of all names that it tells.
struct Spellings {
    definition: ToolDefinition,
    dotted: Tool,
    underscored: Tool,
    /// All texts of the tool, with canonical names.
    texts: String,
}

impl ToolDefinitions {
    pub(crate) fn new(tools: Vec<ToolDefinition>) -> Self {
        Self { by_name: tools.into_iter().map(|tool| (tool.name, Spellings::new(tool))).collect() }
    }

    /// Whether a tool is in one of these groups.
    pub(crate) fn is_shown(&self, name: &str, groups: ToolGroups) -> bool {
        self.by_name.get(name).is_some_and(|tool| groups.show(tool.definition.group))
    }

    /// Returns the definitions of those `tools` that are in a group, in their order. They name no
    /// tool that the list lacks.
    pub(crate) fn list(&self, tools: &[&str], groups: ToolGroups, spelling: Spelling) -> Vec<Tool> {
        let tools = tools.iter().filter_map(|name| self.by_name.get(name));
        let tools: Vec<_> = tools.filter(|tool| groups.show(tool.definition.group)).collect();
        let is_listed = |name: &str| tools.iter().any(|tool| tool.definition.name == name);
        let names = ShownTools::from(spelling).only(is_listed);
        tools.iter().map(|tool| tool.listed(names)).collect()
    }
}

/// Returns one tool as a list has it, for a page that says how long lists are.
pub fn listed(tool: ToolDefinition, names: Spelling) -> Value {
    serde_json::to_value(converted(&tool, names.into())).unwrap_or_default()
}

/// Removes the output schemas, for a client that gets no structured content: the protocol demands
/// structured content of a tool with an output schema.
pub(crate) fn without_output_schemas(mut tools: Vec<Tool>) -> Vec<Tool> {
    for tool in &mut tools {
        tool.output_schema = None;
    }
    tools
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
    for (name, value) in schema {
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
        let [dotted, underscored] = [Spelling::Dotted, Spelling::Underscored]
            .map(|spelling| converted(&definition, spelling.into()));
        let texts = serde_json::to_string(&dotted).unwrap_or_default();
        Self { definition, dotted, underscored, texts }
    }

    /// Returns the tool as a list has it whose tools are `names`.
    fn listed(&self, names: ShownTools) -> Tool {
        match names.spelling() {
            _ if !names.have_all_in(&self.texts) => converted(&self.definition, names),
            Spelling::Dotted => self.dotted.clone(),
            Spelling::Underscored => self.underscored.clone(),
        }
    }
}
