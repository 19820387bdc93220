//! The tools as a client is shown them.
//!
//! Schemas are made once, when a handler is made, and then shared by all lists.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use stile_tools::registry::underscored;
use stile_tools::tool;

use super::client_names::Spelling;

/// All tools, ready to be listed.
pub(crate) struct ToolCards {
    by_name: HashMap<&'static str, Card>,
}

struct Card {
    dotted: Tool,
    underscored: Tool,
}

impl ToolCards {
    pub(crate) fn new(tools: Vec<tool::Card>) -> Self {
        Self { by_name: tools.into_iter().map(|tool| (tool.name, Card::new(tool))).collect() }
    }

    /// The cards of `tools`, in their order.
    pub(crate) fn list(&self, tools: &[&str], spelling: Spelling) -> Vec<Tool> {
        let cards = tools.iter().filter_map(|name| self.by_name.get(name));
        cards
            .map(|card| match spelling {
                Spelling::Dotted => card.dotted.clone(),
                Spelling::Underscored => card.underscored.clone(),
            })
            .collect()
    }
}

impl Card {
    fn new(tool: tool::Card) -> Self {
        // All four hints are stated: what is left out means the worst to a client.
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
