//! Which role may list and call which tool. No other place says so.
//!
//! A tool that is not here is allowed to nobody, so a tool that comes later is refused until a line
//! is added.

use stile_domain::role::Role;

/// Everybody who is known: reading tells what is in a note, which every role may know.
const READERS: &[Role] = &[Role::Viewer, Role::Editor, Role::Evaluator, Role::Admin];

const TABLE: &[(&str, &[Role])] = &[
    ("get_note_outline", READERS),
    ("get_document_tree", READERS),
    ("get_metadata_facets", READERS),
    ("get_section_source", READERS),
];

/// Whether a caller with this role is shown a tool and may call it.
pub fn is_tool_allowed(tool: &str, role: Role) -> bool {
    TABLE.iter().any(|(name, roles)| *name == tool && roles.contains(&role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn unit_every_role_may_use_the_four_note_tools_and_nothing_else() {
        let notes =
            ["get_note_outline", "get_document_tree", "get_metadata_facets", "get_section_source"];
        for role in Role::ALL {
            for tool in registry::TOOLS {
                assert_eq!(
                    is_tool_allowed(tool.name, role),
                    notes.contains(&tool.name),
                    "{} {role:?}",
                    tool.name
                );
            }
            for unknown in
                ["", "get_section_sources", "GET_SECTION_SOURCE", "list", "get_section_source "]
            {
                assert!(!is_tool_allowed(unknown, role));
            }
        }
    }
}
