//! Which role may list and call which note tool through a gateway.
//!
//! Each note tool declares its roles, so a tool without roles is allowed to nobody.

use stile_domain::role::Role;

use crate::notes::NOTE_TOOLS;

/// Returns whether a caller with this role may list and call a tool.
pub fn is_tool_allowed(tool: &str, role: Role) -> bool {
    NOTE_TOOLS.iter().any(|entry| entry.remote.name == tool && entry.roles.contains(&role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::FILE_TOOLS;

    #[test]
    fn every_role_may_use_the_four_note_tools_and_no_others() {
        let notes =
            ["get_note_outline", "get_document_tree", "get_metadata_facets", "get_section_source"];
        for role in Role::ALL {
            for name in notes {
                assert!(is_tool_allowed(name, role), "{name} {role:?}");
            }
            for tool in FILE_TOOLS {
                assert!(!is_tool_allowed(tool.name, role), "{} {role:?}", tool.name);
            }
            for tool in NOTE_TOOLS {
                assert!(notes.contains(&tool.remote.name), "{}", tool.remote.name);
            }
            for unknown in
                ["", "get_section_sources", "GET_SECTION_SOURCE", "list", "get_section_source "]
            {
                assert!(!is_tool_allowed(unknown, role));
            }
        }
    }
}
