//! Colours for a terminal. A file or a pipe gets plain text, and so does a person who sets
//! `NO_COLOR`.
//!
//! *Source*: no-color.org; ECMA-48, 8.3.117 (Select Graphic Rendition).

use std::io::{self, IsTerminal as _};

use crate::config::Environment;

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    Shown,
    Plain,
}

/// What a text means to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Good,
    Warning,
    Bad,
    Title,
}

impl Colours {
    /// Returns whether standard output wants colours.
    pub(crate) fn of_output(environment: Environment<'_>) -> Self {
        Self::wanted(io::stdout().is_terminal(), environment)
    }

    fn wanted(is_terminal: bool, environment: Environment<'_>) -> Self {
        let is_refused = environment("NO_COLOR").is_some_and(|value| !value.is_empty())
            || environment("TERM").is_some_and(|terminal| terminal == "dumb");
        if is_terminal && !is_refused { Self::Shown } else { Self::Plain }
    }

    /// Returns a text in the colour of its meaning.
    pub(crate) fn paint(self, text: &str, meaning: Meaning) -> String {
        let code = match meaning {
            Meaning::Good => "32",
            Meaning::Warning => "33",
            Meaning::Bad => "1;31",
            Meaning::Title => "1",
        };
        match self {
            Self::Shown => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_a_terminal_whose_person_did_not_refuse_them() {
        let refused = |name: &str| (name == "NO_COLOR").then(|| "1".to_owned());
        let empty = |name: &str| (name == "NO_COLOR").then(String::new);
        let dumb = |name: &str| (name == "TERM").then(|| "dumb".to_owned());
        assert_eq!(Colours::wanted(true, &|_| None), Colours::Shown);
        assert_eq!(Colours::wanted(true, &empty), Colours::Shown);
        assert_eq!(Colours::wanted(true, &refused), Colours::Plain);
        assert_eq!(Colours::wanted(true, &dumb), Colours::Plain);
        assert_eq!(Colours::wanted(false, &|_| None), Colours::Plain);
        assert_eq!(Colours::Shown.paint("no", Meaning::Bad), "\x1b[1;31mno\x1b[0m");
        assert_eq!(Colours::Plain.paint("no", Meaning::Bad), "no");
    }
}
