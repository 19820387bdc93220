//! Converts prompts and their errors to the protocol's types.

use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, Prompt as PromptModel, PromptArgument, PromptMessage, Role};
use stile_domain::prompts::Prompt;
use stile_tools::prompts::{FilledPrompt, PromptRefused};

/// Converts a prompt that is listed.
pub(crate) fn prompt(prompt: Prompt) -> PromptModel {
    let arguments = prompt.arguments.into_iter().map(|argument| {
        let listed = PromptArgument::new(argument.name).with_required(argument.is_required);
        match argument.description {
            Some(description) => listed.with_description(description),
            None => listed,
        }
    });
    let arguments: Vec<PromptArgument> = arguments.collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    let listed = PromptModel::new(prompt.name, prompt.description, arguments);
    match prompt.title {
        Some(title) => listed.with_title(title),
        None => listed,
    }
}

/// Converts a prompt with its values, as one message of the user.
pub(crate) fn filled(filled: FilledPrompt) -> GetPromptResult {
    let result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, filled.text)]);
    match filled.description {
        Some(description) => result.with_description(description),
        None => result,
    }
}

/// Converts the error of a prompt that was not given.
pub(crate) fn error(refused: &PromptRefused) -> ErrorData {
    ErrorData::invalid_params(refused.to_string(), None)
}
