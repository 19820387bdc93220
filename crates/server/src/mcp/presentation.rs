//! How tools and answers are shown to a client: the spelling of names and the form of answers.
//!
//! The server has a setting for each. A client that cannot be told about settings chooses by the
//! query of its address: `/mcp?answers=text&names=dotted`.

use std::fmt::Display;
use std::str::FromStr;

use crate::config::{AnswerForms, Config, ToolGroups, ToolNames};

/// How tools and answers are shown to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presentation {
    /// How lists, and all texts, spell the names of tools.
    pub names: ToolNames,
    /// Which groups of tools lists show. A call of a tool that only an address leaves out succeeds.
    pub groups: ToolGroups,
    /// Which form of an answer a client gets.
    pub answers: AnswerForms,
}

/// Why the query of an address is refused. The text is for the person who typed the address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` in the address {why}")]
pub struct BadQuery {
    name: &'static str,
    why: String,
}

impl Default for Presentation {
    fn default() -> Self {
        Self { names: ToolNames::Auto, groups: ToolGroups::ALL, answers: AnswerForms::Auto }
    }
}

impl Presentation {
    /// Returns what the settings say.
    pub(crate) fn of(config: &Config) -> Self {
        Self { names: config.tool_names, groups: config.tools, answers: config.answers }
    }

    /// Returns what the query of an address makes of this. Other parameters are ignored, since
    /// hosts add their own.
    ///
    /// # Errors
    /// [`BadQuery`] if a value is unknown or a parameter repeated.
    pub(crate) fn with_query(mut self, query: &str) -> Result<Self, BadQuery> {
        if let Some(names) = parameter(query, "names")? {
            self.names = names;
        }
        if let Some(groups) = parameter(query, "tools")? {
            self.groups = self.groups.narrowed_to(groups);
        }
        if let Some(answers) = parameter(query, "answers")? {
            self.answers = answers;
        }
        Ok(self)
    }
}

impl Presentation {
    /// Returns whether a query says how tools and answers are shown, in plain words, and nothing
    /// else.
    pub(crate) fn is_all_of(query: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "=&,_-".contains(c);
        let is_own = |pair: &str| {
            pair.split_once('=')
                .is_some_and(|(key, _)| ["names", "tools", "answers"].contains(&key))
        };
        query.chars().all(is_plain)
            && query.split('&').all(is_own)
            && Self::default().with_query(query).is_ok()
    }
}

/// Reads a parameter whose values are plain words, so that nothing needs decoding.
fn parameter<T: FromStr<Err: Display>>(
    query: &str,
    name: &'static str,
) -> Result<Option<T>, BadQuery> {
    let mut values = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value);
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(BadQuery { name, why: "stands there twice".to_owned() });
    }
    let parsed = first.map(|value| value.parse::<T>()).transpose();
    parsed.map_err(|why| BadQuery { name, why: why.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_narrows_the_groups_of_tools_and_never_widens_them() {
        use stile_tools::definition::ToolGroup::{Files, Find, Notes, Records};
        let shown = |settings: &str, query: &str| {
            let groups = settings.parse().unwrap();
            let start = Presentation { groups, ..Presentation::default() };
            let groups = start.with_query(query).unwrap().groups;
            [Files, Find, Notes, Records].map(|group| groups.show(group))
        };
        assert_eq!(shown("files,find,notes,records", ""), [true; 4]);
        assert_eq!(shown("files, find", "tools=find,notes"), [false, true, false, false]);
        assert_eq!(shown("notes", "x=1&tools=records"), [false; 4]);
        for bad in ["tools", "tools=", "tools=all", "tools=find&tools=files"] {
            assert!(Presentation::default().with_query(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_chooses_the_form_of_answers_and_the_spelling_of_names() {
        let of = |query| Presentation::default().with_query(query);
        let chosen =
            |names, answers| Ok(Presentation { names, answers, ..Presentation::default() });
        assert_eq!(of(""), chosen(ToolNames::Auto, AnswerForms::Auto));
        assert_eq!(of("answers=text"), chosen(ToolNames::Auto, AnswerForms::Text));
        assert_eq!(
            of("x=1&names=dotted&&answers=structured"),
            chosen(ToolNames::Dotted, AnswerForms::Structured)
        );
        assert_eq!(of("Answers=text&answer=x"), chosen(ToolNames::Auto, AnswerForms::Auto));
        for bad in ["answers", "answers=", "answers=TEXT", "answers=text&answers=text", "names=x"] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.starts_with('`') && error.contains(" in the address "), "{error}");
        }
    }
}
