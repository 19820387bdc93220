//! Decides how a caller's list, and all texts for this caller, spell the names of tools.
//!
//! The canonical names have a dot (`file.create`). The protocol allows dots, but the interfaces of
//! most models take `^[a-zA-Z0-9_-]{1,64}$` only, and many hosts pass names on as they are and then
//! lose the whole list. So everybody is shown `file_create` but those who are known to take dots.
//! A call may use either spelling, whoever makes it.
//!
//! The module also decides which form of an answer a client gets. An answer has a text and the same
//! as structured content, and most clients show their model one of them. A client that is known to
//! show one gets that one. A client that nobody knows gets both: the protocol wants a text beside
//! structured content, since a client that gets only the form that it does not show has an empty
//! answer.

use rmcp::model::Implementation;
use stile_domain::tool_name::Spelling;
use stile_tools::definition::ToolGroup;

use crate::config::{AnswerForms, ToolNames};

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

/// A client that shows one form of an answer to its model.
struct OneForm {
    /// The beginning of the client's name, in lower case.
    prefix: &'static str,
    /// The first version that is known to do so; empty if every version is.
    since: &'static [u32],
    /// The form that the client shows.
    form: AnswerForms,
    /// How it is known.
    #[cfg_attr(not(test), expect(dead_code, reason = "the table is its own documentation"))]
    source: &'static str,
}

/// A text alone reaches the model of every client, so a client that shows texts needs no version.
/// Structured content alone does not.
///
/// Clients of which reports disagree are absent, and get both: Codex, Copilot.
const SHOW_ONE_FORM: &[OneForm] = &[
    OneForm {
        prefix: "claude-code",
        since: &[2, 1, 126],
        form: AnswerForms::Structured,
        source: "github.com/anthropics/claude-code, issues 55677 (2.1.126) and 79944 (2.1.280, with \
                 the blocks that the model got): where there is structured content, the text is \
                 left out; issue 86032: of a failure the text is shown",
    },
    OneForm {
        prefix: "gemini-cli-mcp-client",
        since: &[],
        form: AnswerForms::Text,
        source: "github.com/google-gemini/gemini-cli, packages/core/src/tools/mcp-tool.ts: the \
                 model gets the blocks of `content`, and nothing reads structured content",
    },
    OneForm {
        prefix: "opencode",
        since: &[],
        form: AnswerForms::Text,
        source: "github.com/anomalyco/opencode, pull request 34505: the model gets `content` where \
                 there is any; before pull request 32074, always",
    },
];

/// Returns the form of an answer of a tool of this group.
///
/// `session_client` is what the client said of itself when it opened its session. Outside of a
/// session nobody is known well enough: a list, which must fit the answers, may vary by
/// authorization only. The tools for notes and for records give both forms, as their
/// requirements want.
pub fn answer_form(
    wanted: AnswerForms,
    session_client: Option<&Implementation>,
    group: ToolGroup,
) -> AnswerForms {
    if wanted != AnswerForms::Auto {
        return wanted;
    }
    let Some(client) = session_client else { return AnswerForms::Both };
    let name = client.name.to_lowercase();
    let row = SHOW_ONE_FORM.iter().find(|row| name.starts_with(row.prefix));
    match (row, group) {
        (Some(row), ToolGroup::Files | ToolGroup::Find) if is_since(&client.version, row.since) => {
            row.form
        }
        _ => AnswerForms::Both,
    }
}

/// Returns whether a version such as `2.1.332` is not older than another one. A version that is not
/// made of numbers is older than all.
fn is_since(version: &str, first: &[u32]) -> bool {
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    first.is_empty() || numbers.is_ok_and(|numbers| numbers.as_slice() >= first)
}

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
        let dots = TAKE_DOTS.iter().map(|row| (row.prefix, row.source));
        let forms = SHOW_ONE_FORM.iter().map(|row| (row.prefix, row.source));
        for (prefix, source) in dots.chain(forms) {
            assert_eq!(prefix, prefix.to_lowercase());
            assert!(!source.is_empty());
        }
        for row in SHOW_ONE_FORM {
            let needs_version = row.form == AnswerForms::Structured;
            assert_eq!(needs_version, !row.since.is_empty(), "{}", row.prefix);
        }
    }

    #[test]
    fn a_client_that_shows_one_form_gets_it_of_files_and_everybody_else_gets_both() {
        use AnswerForms::{Auto, Both, Structured, Text};
        let of = |wanted, name: &str, version: &str, group| {
            answer_form(wanted, Some(&Implementation::new(name, version)), group)
        };
        for (name, version, expected) in [
            ("claude-code", "2.1.332", Structured),
            ("claude-code", "2.1.126", Structured),
            ("claude-code", "2.1.9", Both),
            ("claude-code", "2.1.126-beta", Both),
            ("claude-code", "", Both),
            ("Gemini-CLI-MCP-client-notes", "0.0.1", Text),
            ("opencode", "local", Text),
            ("codex-mcp-client", "0.171.0", Both),
            ("Anthropic", "1.0.0", Both),
        ] {
            for group in [ToolGroup::Files, ToolGroup::Find] {
                assert_eq!(of(Auto, name, version, group), expected, "{name} {version}");
            }
            for group in [ToolGroup::Notes, ToolGroup::Records] {
                assert_eq!(of(Auto, name, version, group), Both, "{name} {version}");
            }
            assert_eq!(of(Both, name, version, ToolGroup::Files), Both);
            assert_eq!(of(Text, name, version, ToolGroup::Records), Text);
        }
        assert_eq!(answer_form(Auto, None, ToolGroup::Files), Both);
        assert_eq!(answer_form(Structured, None, ToolGroup::Notes), Structured);
    }
}
