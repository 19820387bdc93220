//! What a command was started with, and the settings in force for it.

use std::io::{self, Write};

use clap::ArgMatches;

use crate::cli::failure::Failure;
use crate::cli::terminal::Colours;
use crate::config::{Environment, Resolved, is_exposed, resolve};

/// What a command was started with.
pub(crate) struct Invocation<'a> {
    pub(crate) matches: &'a ArgMatches,
    pub(crate) environment: Environment<'a>,
    /// Standard output; a buffer in tests.
    pub(crate) output: &'a mut dyn Write,
    /// Whether the output is coloured.
    pub(crate) colours: Colours,
}

/// Returns the settings in force, and where each comes from.
pub(crate) fn settings(
    matches: &ArgMatches,
    environment: Environment<'_>,
) -> Result<Resolved, Failure> {
    Ok(resolve(&|key| setting_argument(matches, key), environment)?)
}

/// Returns what the command line gave for a setting, with commas between the values of a repeated
/// flag; `None` if it gave nothing, or if the command does not take the setting.
pub(crate) fn setting_argument(matches: &ArgMatches, key: &str) -> Option<String> {
    let values: Vec<&str> =
        matches.try_get_many::<String>(key).ok()??.map(String::as_str).collect();
    Some(values.join(","))
}

/// Returns the value of a setting that a command cannot do without. `meaning` says what the value
/// of `flag` is.
pub(crate) fn required<'c, T>(
    value: &'c Option<T>,
    flag: &str,
    meaning: &str,
) -> Result<&'c T, Failure> {
    value.as_ref().ok_or_else(|| Failure::Usage(format!("{flag} is missing: {meaning}")))
}

/// Warns if requests to `url`, the value of `flag`, cross a network as plain text.
pub(crate) fn warn_if_exposed(url: &str, flag: &str, content: &str) -> io::Result<()> {
    if !is_exposed(url) {
        return Ok(());
    }
    writeln!(io::stderr(), "warning: {content} pass to and from {flag} as plain text; use https")
}

/// Returns the name of the user who started the program.
///
/// The name comes from the session's environment. Under a timer or a service, which has none, the
/// name comes from the system's records.
pub(crate) fn user_name(environment: Environment<'_>) -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter();
    let from_session = names.filter_map(environment).find(|name| !name.is_empty());
    from_session.or_else(stile_store::state::system_user_name).unwrap_or_else(|| "local".to_owned())
}
