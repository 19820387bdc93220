//! Decides which spelling of tool names a client gets in lists.
//!
//! The canonical names have a dot (`file.create`). The protocol allows dots, but some widely used
//! hosts pass tool names to a model's API that accepts only `[a-zA-Z0-9_-]`, and then lose the
//! whole list. Their lists have `file_create`. A call may use either spelling, whoever makes it.

use stile_tools::toolset::underscored;

use crate::config::ToolNames;

/// The spelling of the names in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `file.create`
    Dotted,
    /// `file_create`
    Underscored,
}

impl Spelling {
    /// Spells the canonical name of a tool.
    pub fn spell(self, name: &str) -> String {
        match self {
            Self::Dotted => name.to_owned(),
            Self::Underscored => underscored(name),
        }
    }
}

/// A client that refuses dots.
struct Row {
    /// The beginning of the client's name, in lower case.
    prefix: &'static str,
    /// Where the refusal was reported. No row was reproduced here.
    #[cfg_attr(not(test), expect(dead_code, reason = "the table is its own documentation"))]
    source: &'static str,
}

const REFUSE_DOTS: &[Row] = &[
    Row {
        prefix: "claude-ai",
        source: "Claude Desktop and claude.ai name themselves so; list rejected by `^[a-zA-Z0-9_-]{1,64}$`, public threads of March to July 2026",
    },
    Row {
        prefix: "claude desktop",
        source: "the same host, as people write it in a token's client claim",
    },
    Row {
        prefix: "claude-desktop",
        source: "the same host, as people write it in a token's client claim",
    },
    Row {
        prefix: "claude.ai",
        source: "the same host, as people write it in a token's client claim",
    },
    Row { prefix: "anthropic/claudeai", source: "claude.ai on the web, same threads" },
    Row { prefix: "codex", source: "openai/codex#8174, open in July 2026" },
    Row { prefix: "copilot", source: "github/copilot-cli#1879 and #2581, open in July 2026" },
    Row {
        prefix: "github-copilot",
        source: "github/copilot-cli#1879 and #2581, open in July 2026",
    },
];

/// Returns the spelling of a list.
///
/// `token_client` is the token's claim `client`. `session_client` is the name with which the client
/// opened its session; it is absent outside a session, where a list may vary by authorization only.
pub fn spelling(
    wanted: ToolNames,
    token_client: Option<&str>,
    session_client: Option<&str>,
) -> Spelling {
    let refuses = |name: &str| {
        let name = name.to_lowercase();
        REFUSE_DOTS.iter().any(|row| name.starts_with(row.prefix))
    };
    match wanted {
        ToolNames::Underscored => Spelling::Underscored,
        ToolNames::Auto
            if token_client.is_some_and(refuses) || session_client.is_some_and(refuses) =>
        {
            Spelling::Underscored
        }
        ToolNames::Auto | ToolNames::Dotted => Spelling::Dotted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_clients_are_shown_underscores_unless_configured() {
        for (wanted, token, session, expected) in [
            (ToolNames::Auto, None, None, Spelling::Dotted),
            (ToolNames::Auto, Some("Claude Desktop"), None, Spelling::Underscored),
            (ToolNames::Auto, None, Some("claude-ai"), Spelling::Underscored),
            (ToolNames::Auto, Some("inspector"), Some("codex-mcp-client"), Spelling::Underscored),
            (ToolNames::Auto, Some("claude-code"), Some("Visual Studio Code"), Spelling::Dotted),
            (ToolNames::Dotted, Some("codex"), None, Spelling::Dotted),
            (ToolNames::Underscored, None, None, Spelling::Underscored),
        ] {
            assert_eq!(
                spelling(wanted, token, session),
                expected,
                "{wanted:?} {token:?} {session:?}"
            );
        }
    }

    #[test]
    fn every_row_is_in_lower_case_and_says_where_it_comes_from() {
        for row in REFUSE_DOTS {
            assert_eq!(row.prefix, row.prefix.to_lowercase());
            assert!(!row.source.is_empty());
        }
    }
}
