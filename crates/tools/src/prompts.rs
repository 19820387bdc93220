//! Prompts as a server offers them: three of the program's own, and those in a folder of the owner.
//!
//! A prompt says what to do and holds nothing of the space, so it needs no scope. The program's own
//! prompts are offered to callers who are shown the tools that they name. A prompt of the owner
//! takes the place of one of the same name. The folder is read for each request, so an edit counts
//! at once. A prompt names tools as the caller is shown them, whoever wrote it.

use serde_json::{Map, Value};
use stile_domain::prompts::{BadArguments, Prompt};
use stile_domain::tool_name::Spelling;
use stile_store::incident;
use stile_store::owner_texts::PromptFolder;

/// A prompt of the program, and the tools that it names.
struct BuiltIn {
    name: &'static str,
    text: &'static str,
    tools: &'static [&'static str],
}

const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "answer-from-notes",
        text: include_str!("prompts/answer-from-notes.md"),
        tools: &["file.search", "text.gather"],
    },
    BuiltIn {
        name: "file-this-note",
        text: include_str!("prompts/file-this-note.md"),
        tools: &["text.read", "file.list", "file.search", "text.gather", "file.move", "text.edit"],
    },
    BuiltIn {
        name: "weekly-review",
        text: include_str!("prompts/weekly-review.md"),
        tools: &["file.find", "text.gather", "text.search"],
    },
];

/// Why a prompt was not given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptRefused {
    /// There is none of that name for this caller.
    #[error("there is no prompt of that name; see `prompts/list`")]
    Unknown,
    /// The arguments do not fit.
    #[error(transparent)]
    Arguments(#[from] BadArguments),
}

/// A prompt with its values, ready for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledPrompt {
    /// What the prompt is for.
    pub description: Option<String>,
    /// What the model is asked, as a message of the user.
    pub text: String,
}

/// The prompts of a server.
#[derive(Clone, Debug, Default)]
pub struct Prompts {
    folder: Option<PromptFolder>,
}

impl Prompts {
    /// Offers the prompts of a folder beside the program's own.
    pub fn with_folder(folder: PromptFolder) -> Self {
        Self { folder: Some(folder) }
    }

    /// Returns the prompts for a caller who is shown these tools in this spelling, sorted by name.
    pub async fn list(&self, tools: &[&'static str], spelling: Spelling) -> Vec<Prompt> {
        let mut prompts = self.of_owner().await;
        for own in BUILT_IN {
            let is_shown = own.tools.iter().all(|tool| tools.contains(tool));
            let is_replaced = prompts.iter().any(|prompt| prompt.name == own.name);
            if is_shown
                && !is_replaced
                && let Ok(prompt) = Prompt::parse(own.name, own.text)
            {
                prompts.push(prompt);
            }
        }
        prompts.sort_by(|one, other| one.name.cmp(&other.name));
        prompts.into_iter().map(|prompt| prompt.spelled(spelling)).collect()
    }

    /// Returns a prompt with its values, which stay as they are.
    ///
    /// # Errors
    /// [`PromptRefused`].
    pub async fn get(
        &self,
        name: &str,
        values: &Map<String, Value>,
        tools: &[&'static str],
        spelling: Spelling,
    ) -> Result<FilledPrompt, PromptRefused> {
        let prompts = self.list(tools, spelling).await;
        let found = prompts.into_iter().find(|prompt| prompt.name == name);
        let prompt = found.ok_or(PromptRefused::Unknown)?;
        let text = prompt.fill(values)?;
        Ok(FilledPrompt { description: prompt.description, text })
    }

    /// Reads the owner's prompts. A folder that cannot be read has none, and the log says why.
    async fn of_owner(&self) -> Vec<Prompt> {
        let Some(folder) = self.folder.clone() else { return Vec::new() };
        match tokio::task::spawn_blocking(move || folder.read()).await {
            Ok(Ok((prompts, _))) => prompts,
            Ok(Err(error)) => {
                let _ = incident("prompts", &error);
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceTools;

    fn shown() -> Vec<&'static str> {
        SpaceTools::built_in().map(|tool| tool.name).collect()
    }

    #[test]
    fn every_prompt_of_the_program_parses_and_names_its_tools_and_no_others() {
        for own in BUILT_IN {
            let prompt = Prompt::parse(own.name, own.text).unwrap();
            assert!(prompt.title.is_some() && prompt.description.is_some(), "{}", own.name);
            for tool in shown() {
                let is_named = own.text.contains(&format!("`{tool}`"));
                assert_eq!(is_named, own.tools.contains(&tool), "{tool} in {}", own.name);
            }
        }
    }

    #[tokio::test]
    async fn a_prompt_of_the_program_is_offered_with_its_tools_and_in_the_callers_spelling() {
        let prompts = Prompts::default();
        let names = |prompts: Vec<Prompt>| -> Vec<String> {
            prompts.into_iter().map(|prompt| prompt.name).collect()
        };
        let all = names(prompts.list(&shown(), Spelling::Dotted).await);
        assert_eq!(all, ["answer-from-notes", "file-this-note", "weekly-review"]);
        let readers = ["text.search", "file.search", "file.find", "text.gather", "file.list"];
        let of_readers = names(prompts.list(&readers, Spelling::Dotted).await);
        assert_eq!(of_readers, ["answer-from-notes", "weekly-review"]);
        let values = Map::from_iter([("question".to_owned(), "Is `text.read` a name?".into())]);
        let underscored = Spelling::Underscored;
        let filled =
            prompts.get("answer-from-notes", &values, &readers, underscored).await.unwrap();
        assert!(filled.text.contains("`file_search`") && filled.text.contains("Is `text.read` a"));
        let refused = prompts.get("file-this-note", &Map::new(), &readers, underscored).await;
        assert_eq!(refused, Err(PromptRefused::Unknown));
    }
}
