//! Decides how a caller's list, and all texts for this caller, spell the names of tools.
//!
//! The canonical names have a dot (`file.create`). The protocol allows dots, but the interfaces of
//! most models take `^[a-zA-Z0-9_-]{1,64}$` only, and many hosts pass names on as they are and then
//! lose the whole list. So everybody is shown `file_create` but those who are known to take dots.
//! A call may use either spelling, whoever makes it.

use stile_domain::tool_name::Spelling;

use crate::config::ToolNames;

/// A client that takes dots.
struct Row {
    /// The beginning of the client's name, in lower case.
    prefix: &'static str,
    /// How it is known that the client takes dots.
    #[cfg_attr(not(test), expect(dead_code, reason = "the table is its own documentation"))]
    source: &'static str,
}

const TAKE_DOTS: &[Row] = &[
    Row {
        prefix: "mcp-inspect",
        source: "the Inspector shows names to people and passes them to no model; its command \
                 line, version 2.12.0, listed and called dotted names with `--strict`",
    },
    Row { prefix: "inspector-cli", source: "the same program, in the package's other half" },
];

/// Returns the spelling of all names for one caller.
///
/// `token_client` is the token's claim `client`. `session_client` is the name with which the client
/// opened its session; it is absent outside a session, where a list may vary by authorization only.
pub fn spelling(
    wanted: ToolNames,
    token_client: Option<&str>,
    session_client: Option<&str>,
) -> Spelling {
    let takes_dots = |name: &str| {
        let name = name.to_lowercase();
        TAKE_DOTS.iter().any(|row| name.starts_with(row.prefix))
    };
    match wanted {
        ToolNames::Dotted => Spelling::Dotted,
        ToolNames::Underscored => Spelling::Underscored,
        ToolNames::Auto if session_client.or(token_client).is_some_and(takes_dots) => {
            Spelling::Dotted
        }
        ToolNames::Auto => Spelling::Underscored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_shown_underscores_but_clients_that_take_dots_and_who_asks_for_dots() {
        use Spelling::{Dotted, Underscored};
        for (wanted, token, session, expected) in [
            (ToolNames::Auto, None, None, Underscored),
            (ToolNames::Auto, Some("Claude"), None, Underscored),
            (ToolNames::Auto, None, Some("Anthropic"), Underscored),
            (ToolNames::Auto, Some("notebook"), Some("Visual Studio Code"), Underscored),
            (ToolNames::Auto, None, Some("MCP-Inspector"), Dotted),
            (ToolNames::Auto, Some("mcp-inspector"), None, Dotted),
            // In a session the client itself says who it is; a token may pass through many hands.
            (ToolNames::Auto, Some("mcp-inspector"), Some("claude-ai"), Underscored),
            (ToolNames::Dotted, Some("claude-ai"), None, Dotted),
            (ToolNames::Underscored, None, Some("mcp-inspector"), Underscored),
        ] {
            let found = spelling(wanted, token, session);
            assert_eq!(found, expected, "{wanted:?} {token:?} {session:?}");
        }
    }

    #[test]
    fn every_row_is_in_lower_case_and_says_where_it_comes_from() {
        for row in TAKE_DOTS {
            assert_eq!(row.prefix, row.prefix.to_lowercase());
            assert!(!row.source.is_empty());
        }
    }
}
