//! Converts tool definitions to the protocol's types.
//!
//! A handler converts all definitions once, and all its lists share them.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use stile_tools::definition::ToolDefinition;
use stile_tools::definition::ToolGroup;
use stile_tools::toolset::underscored;

use super::client_names::Spelling;
use crate::config::ToolGroups;

/// The converted definitions of all tools of a server.
pub(crate) struct ToolDefinitions {
    by_name: HashMap<&'static str, Spellings>,
}

/// One tool in both spellings of its name.
struct Spellings {
    group: ToolGroup,
    dotted: Tool,
    underscored: Tool,
}

impl ToolDefinitions {
    pub(crate) fn new(tools: Vec<ToolDefinition>) -> Self {
        Self { by_name: tools.into_iter().map(|tool| (tool.name, Spellings::new(tool))).collect() }
    }

    /// Whether a tool is in one of these groups.
    pub(crate) fn is_shown(&self, name: &str, groups: ToolGroups) -> bool {
        self.by_name.get(name).is_some_and(|tool| groups.show(tool.group))
    }

    /// Returns the definitions of those `tools` that are in a group, in their order.
    pub(crate) fn list(&self, tools: &[&str], groups: ToolGroups, spelling: Spelling) -> Vec<Tool> {
        let definitions = tools.iter().filter_map(|name| self.by_name.get(name));
        let definitions = definitions.filter(|tool| groups.show(tool.group));
        definitions
            .map(|tool| match spelling {
                Spelling::Dotted => tool.dotted.clone(),
                Spelling::Underscored => tool.underscored.clone(),
            })
            .collect()
    }
}

/// Removes the output schemas, for a client that gets no structured content: the protocol demands
/// structured content of a tool with an output schema.
pub(crate) fn without_output_schemas(mut tools: Vec<Tool>) -> Vec<Tool> {
    for tool in &mut tools {
        tool.output_schema = None;
    }
    tools
}

/// Returns the schema of an answer as lists show it: the outermost members with their types.
///
/// A list of tools is put before every question of many a model. The text of an answer says what
/// its members mean, and the documentation has the whole schema.
fn brief(output: &Map<String, Value>) -> Map<String, Value> {
    let success = output.get("anyOf").and_then(|forms| forms.get(0));
    let members = success.and_then(|success| success.get("properties")).and_then(Value::as_object);
    let typed = members.into_iter().flatten().map(|(name, member)| {
        let kind = member.get("type").map(|kind| json!({ "type": kind }));
        (name.clone(), kind.unwrap_or_else(|| json!({})))
    });
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(typed.collect()));
    schema
}

impl Spellings {
    fn new(tool: ToolDefinition) -> Self {
        // All four hints are set, since a client assumes the worst of a missing one.
        let hints = ToolAnnotations::new()
            .read_only(tool.read_only)
            .destructive(tool.destructive && !tool.read_only)
            .idempotent(tool.idempotent)
            .open_world(false);
        let dotted = Tool::new(tool.name, tool.description, Arc::new(tool.input))
            .with_title(tool.title)
            .with_raw_output_schema(Arc::new(brief(&tool.output)))
            .with_annotations(hints);
        let mut other = dotted.clone();
        other.name = underscored(tool.name).into();
        Self { group: tool.group, dotted, underscored: other }
    }
}
