//! Converts tool definitions to the protocol's types.
//!
//! A handler converts all definitions once, and all its lists share them.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use stile_tools::definition::ToolDefinition;
use stile_tools::toolset::underscored;

use super::client_names::Spelling;

/// The converted definitions of all tools of a server.
pub(crate) struct ToolDefinitions {
    by_name: HashMap<&'static str, Spellings>,
}

/// One tool in both spellings of its name.
struct Spellings {
    dotted: Tool,
    underscored: Tool,
}

impl ToolDefinitions {
    pub(crate) fn new(tools: Vec<ToolDefinition>) -> Self {
        Self { by_name: tools.into_iter().map(|tool| (tool.name, Spellings::new(tool))).collect() }
    }

    /// Returns the definitions of `tools`, in their order.
    pub(crate) fn list(&self, tools: &[&str], spelling: Spelling) -> Vec<Tool> {
        let definitions = tools.iter().filter_map(|name| self.by_name.get(name));
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
            .with_raw_output_schema(Arc::new(tool.output))
            .with_annotations(hints);
        let mut other = dotted.clone();
        other.name = underscored(tool.name).into();
        Self { dotted, underscored: other }
    }
}
