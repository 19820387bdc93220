//! `stile config`: prints the settings in force, and where each value comes from.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::json_lines;
use crate::config::{Form, ResolvedSetting, Source};

/// Prints every setting with its source, as a line of TOML or as JSON.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let resolved = settings(matches, environment)?;
    let (settings, file) = (&resolved.settings, &resolved.config.config);
    let text = match matches.get_flag("json") {
        true => json_lines(&Value::from_iter(settings.iter().map(|one| to_json(one, file)))),
        false => annotated_toml(settings, file),
    };
    output.write_all(text.as_bytes())?;
    Ok(())
}

/// Returns a setting with its value, which is `null` if the setting is not set.
fn to_json(ResolvedSetting { declaration, source, toml }: &ResolvedSetting, file: &Path) -> Value {
    let line = toml.as_ref().map(|value| format!("value = {value}"));
    let value = line.and_then(|line| toml::from_str::<Value>(&line).ok()?.get("value").cloned());
    let source = source_name(source, file);
    json!({ "setting": declaration.key, "value": value, "source": source })
}

/// Renders settings as TOML, each with its source in a comment. `file` is the settings file.
fn annotated_toml(settings: &[ResolvedSetting], file: &Path) -> String {
    let lines: Vec<String> = settings.iter().map(assignment).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let annotated = lines.iter().zip(settings).map(|(line, setting)| {
        format!("{line:width$}  # {}\n", source_name(&setting.source, file))
    });
    annotated.collect()
}

/// Renders a setting as a line of TOML, or as a comment if the file cannot hold the line.
fn assignment(ResolvedSetting { declaration, toml, .. }: &ResolvedSetting) -> String {
    match toml {
        Some(value) if declaration.form == Form::FlagOnly => {
            format!("# {} = {value}", declaration.key)
        }
        Some(value) => format!("{} = {value}", declaration.key),
        None => format!("# {} is not set", declaration.key),
    }
}

fn source_name(source: &Source, file: &Path) -> String {
    match source {
        Source::Flag => "command line".to_owned(),
        Source::Environment(variable) => variable.clone(),
        Source::File => file.to_string_lossy().into_owned(),
        Source::Default => "default".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cli::arguments;
    use crate::cli::invocation::setting_argument;
    use crate::config::ResolvedSettings;
    use crate::config::declarations::{CONFIG, STATE};
    use crate::config::{
        CommandGroup, SettingsList as _, count, declare_settings, resolve, settings_list,
    };

    declare_settings! {
        /// Ring this loudly.
        VOLUME: u32 = Flag("volume_level", "LEVEL"), count, default Text("3"), for &[CommandGroup::Serve];
    }

    settings_list! {
        /// A list with a setting that the program does not have.
        struct ListWithVolume {
            state: PathBuf = STATE,
            config: PathBuf = CONFIG,
            volume_level: u32 = VOLUME,
        }
    }

    fn parse(line: &str) -> Result<clap::ArgMatches, String> {
        let command = arguments::command(ListWithVolume::DECLARATIONS);
        command.try_get_matches_from(line.split(' ')).map_err(|error| error.to_string())
    }

    /// Runs `stile serve` with the list, and returns the value and what `stile config` prints.
    fn resolved(
        arguments: &str,
        variables: &[(&str, &str)],
        state: &Path,
    ) -> Result<(u32, String), String> {
        let matches = parse(&format!("stile serve --state {}{arguments}", state.display()))?;
        let (_, matches) = matches.subcommand().unwrap();
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let resolved: ResolvedSettings<ListWithVolume> =
            resolve(&|key| setting_argument(matches, key), &environment)
                .map_err(|error| error.to_string())?;
        assert_eq!(resolved.config.state, state);
        let printed = annotated_toml(&resolved.settings, &resolved.config.config);
        let line = printed.lines().find(|line| line.starts_with("volume_level = ")).unwrap();
        Ok((
            resolved.config.volume_level,
            line.split("  #").map(str::trim).collect::<Vec<_>>().join(" # "),
        ))
    }

    #[test]
    fn one_declaration_and_one_line_of_a_list_make_a_setting() {
        let help = parse("stile serve --help").unwrap_err();
        assert!(help.contains("--volume-level <LEVEL>  Ring this loudly. [default: 3]"), "{help}");
        assert!(parse("stile config --help").unwrap_err().contains("--volume-level"));
        assert!(!parse("stile mcp --help").unwrap_err().contains("--volume-level"));
        assert!(parse("stile mcp --volume-level 4").unwrap_err().contains("unexpected argument"));

        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let line = |value, source: &str| Ok((value, format!("volume_level = {value} # {source}")));
        assert_eq!(resolved("", &[], state), line(3, "default"));
        let file = state.join("stile.toml");
        std::fs::write(&file, "volume_level = 4").unwrap();
        assert_eq!(resolved("", &[], state), line(4, file.to_str().unwrap()));
        let variable = ("STILE_VOLUME_LEVEL", "5");
        assert_eq!(resolved("", &[variable], state), line(5, variable.0));
        let flag = " --volume-level 6";
        assert_eq!(resolved(flag, &[variable], state), line(6, "command line"));

        for (arguments, variable, place) in
            [(" --volume-level 0", "5", "--volume-level"), ("", "0", "STILE_VOLUME_LEVEL")]
        {
            let error =
                resolved(arguments, &[("STILE_VOLUME_LEVEL", variable)], state).unwrap_err();
            assert!(error.starts_with(&format!("{place}: `0` is not a whole number")), "{error}");
        }
        std::fs::write(&file, "volume_levle = 4").unwrap();
        let error = resolved("", &[], state).unwrap_err();
        assert!(error.ends_with("did you mean `volume_level`?"), "{error}");
    }
}
