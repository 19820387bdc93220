//! Finds the value of each setting: flag, environment variable, file, default. [`settings_list!`]
//! makes a struct of values from a list of settings.

use std::path::{Path, PathBuf};

use super::declarations::{CONFIG, STATE};
use super::setting::{Declaration, DefaultValue, Form, Setting};
use super::values::{Environment, ParseContext, ToToml};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag,
    /// The environment variable with this name.
    Environment(String),
    File,
    /// The declaration of the setting.
    Default,
}

/// The values of a list of settings, and where each came from.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedSettings<C> {
    pub(crate) config: C,
    /// The same settings in the order of their list, for `stile config`.
    pub(crate) settings: Vec<ResolvedSetting>,
}

/// A setting with the value in force.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedSetting {
    pub(crate) declaration: &'static Declaration,
    pub(crate) source: Source,
    /// The value as TOML; `None` if the setting is not set.
    pub(crate) toml: Option<String>,
}

impl<C> ResolvedSettings<C> {
    /// Returns where the value of `setting` came from; [`Source::Default`] for a setting that is
    /// not in the list.
    pub(crate) fn source<T>(&self, setting: &Setting<T>) -> &Source {
        let mut settings = self.settings.iter();
        settings
            .find(|resolved| resolved.declaration.key == setting.declaration.key)
            .map_or(&Source::Default, |resolved| &resolved.source)
    }
}

/// Why the settings are not usable. The message says what to change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{place}: `{value}` {reason}")]
    Value {
        /// The flag, variable or key as the person wrote it.
        place: String,
        value: String,
        reason: String,
    },
    #[error("{}: there is no setting `{key}`{}", .file.display(), suggestion(.nearest))]
    UnknownKey {
        file: PathBuf,
        key: String,
        /// The setting whose key is close enough to have been meant.
        nearest: Option<&'static str>,
    },
    #[error(
        "{}: `{}` cannot be set in the file that is found through it; use --{} or {}",
        .file.display(), .declaration.key, .declaration.flag(), .declaration.variable()
    )]
    NotInFile { file: PathBuf, declaration: &'static Declaration },
    #[error("{} is not valid TOML:\n{reason}", .file.display())]
    Syntax {
        file: PathBuf,
        /// The message of the TOML parser, with the line.
        reason: String,
    },
    #[error("cannot read the settings file {}: {error}", .file.display())]
    Unreadable { file: PathBuf, error: std::io::Error },
    #[error(
        "cannot tell where `{}` should be, because the home folder is not known; \
         give it with --{} or {}",
        .0.key, .0.flag(), .0.variable()
    )]
    NoDefault(&'static Declaration),
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(key) => format!("; did you mean `{key}`?"),
        None => "; `stile config` shows all settings".to_owned(),
    }
}

/// A struct with a field for each setting of a list. [`settings_list!`] makes these structs.
pub(crate) trait SettingsList: Sized {
    /// The settings, in the order in which help and `stile config` show them.
    const DECLARATIONS: &'static [&'static Declaration];

    /// Looks up every setting, in order.
    ///
    /// # Errors
    /// The error of the first setting whose value cannot be found or parsed.
    fn read(lookup: &mut Lookup<'_>) -> Result<Self, ConfigError>;
}

/// Makes a [`SettingsList`] struct from a line `field: Type = SETTING,` for each setting.
macro_rules! settings_list {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $( $field:ident: $type:ty = $setting:path, )+
    }) => {
        $(#[$attribute])*
        $visibility struct $name { $( $visibility $field: $type, )+ }

        impl $crate::config::SettingsList for $name {
            const DECLARATIONS: &'static [&'static $crate::config::Declaration] =
                &[$( &$setting.declaration, )+];

            fn read(
                lookup: &mut $crate::config::Lookup<'_>,
            ) -> Result<Self, $crate::config::ConfigError> {
                Ok(Self { $( $field: lookup.read(&$setting)?, )+ })
            }
        }
    };
}
pub(crate) use settings_list;

/// Looks up every setting of a list.
///
/// `flag` returns what the command line gave for a key. The settings file is found through
/// [`STATE`] and [`CONFIG`], whether or not the list holds these two.
pub(crate) fn resolve<C: SettingsList>(
    flag: &dyn Fn(&str) -> Option<String>,
    environment: Environment<'_>,
) -> Result<ResolvedSettings<C>, ConfigError> {
    let mut lookup = Lookup {
        flag,
        context: ParseContext { environment, state: PathBuf::new() },
        file: PathBuf::new(),
        table: toml::Table::new(),
        settings: Vec::new(),
    };
    lookup.context.state = lookup.find(&STATE)?.0;
    let (file, source) = lookup.find(&CONFIG)?;
    lookup.table = read_file(&file, &source)?;
    check_keys(&lookup.table, &file, C::DECLARATIONS)?;
    lookup.file = file;
    let config = C::read(&mut lookup)?;
    Ok(ResolvedSettings { config, settings: lookup.settings })
}

/// Reads the settings file. A file at the default path may be absent.
fn read_file(file: &Path, source: &Source) -> Result<toml::Table, ConfigError> {
    let text = match stile_store::state::read_settings(file) {
        Ok(text) => text,
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && *source == Source::Default =>
        {
            String::new()
        }
        Err(error) => return Err(ConfigError::Unreadable { file: file.to_owned(), error }),
    };
    text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
        file: file.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

/// Refuses a key that is not a setting, or not one that the file can hold.
fn check_keys(
    table: &toml::Table,
    file: &Path,
    declarations: &[&'static Declaration],
) -> Result<(), ConfigError> {
    for key in table.keys() {
        let file = || file.to_owned();
        match declarations.iter().find(|declaration| declaration.key == key) {
            None => {
                let nearest = nearest(key, declarations);
                return Err(ConfigError::UnknownKey { file: file(), key: key.clone(), nearest });
            }
            Some(declaration) if declaration.form == Form::FlagOnly => {
                return Err(ConfigError::NotInFile { file: file(), declaration });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The places that are searched for values, and the settings that were found there already.
pub(crate) struct Lookup<'a> {
    flag: &'a dyn Fn(&str) -> Option<String>,
    context: ParseContext<'a>,
    file: PathBuf,
    table: toml::Table,
    settings: Vec<ResolvedSetting>,
}

impl Lookup<'_> {
    /// Returns the value of a setting, and records it for `stile config`.
    pub(crate) fn read<T: ToToml>(
        &mut self,
        setting: &'static Setting<T>,
    ) -> Result<T, ConfigError> {
        let (value, source) = self.find(setting)?;
        let declaration = &setting.declaration;
        self.settings.push(ResolvedSetting { declaration, source, toml: value.to_toml() });
        Ok(value)
    }

    fn find<T>(&self, setting: &'static Setting<T>) -> Result<(T, Source), ConfigError> {
        let (text, source) = self.find_text(&setting.declaration)?;
        match (setting.parse)(&text, &self.context) {
            Ok(value) => Ok((value, source)),
            Err(reason) => Err(self.bad_value(&setting.declaration, &source, text, reason)),
        }
    }

    fn find_text(
        &self,
        declaration: &'static Declaration,
    ) -> Result<(String, Source), ConfigError> {
        if let Some(text) = (self.flag)(declaration.key) {
            return Ok((text, Source::Flag));
        }
        let variable = declaration.variable();
        if let Some(text) = self.context.variable(&variable) {
            return Ok((text, Source::Environment(variable)));
        }
        if let Some(value) = self.table.get(declaration.key) {
            let text = flag_text(value).ok_or_else(|| {
                let reason = "is not a string, a number or a list of strings".to_owned();
                self.bad_value(declaration, &Source::File, value.type_str().to_owned(), reason)
            })?;
            return Ok((text, Source::File));
        }
        let text = match declaration.default {
            DefaultValue::Text(text) => Some(text.to_owned()),
            DefaultValue::Computed { compute, .. } => compute(&self.context),
        };
        Ok((text.ok_or(ConfigError::NoDefault(declaration))?, Source::Default))
    }

    fn bad_value(
        &self,
        declaration: &Declaration,
        source: &Source,
        value: String,
        reason: String,
    ) -> ConfigError {
        let place = match source {
            Source::Flag if declaration.form == Form::Positional => {
                declaration.value_name.to_owned()
            }
            Source::Flag => format!("--{}", declaration.flag()),
            Source::Environment(variable) => variable.clone(),
            Source::File => format!("{}: {}", self.file.display(), declaration.key),
            Source::Default => format!("the default of {}", declaration.key),
        };
        ConfigError::Value { place, value, reason }
    }
}

/// Returns a value of the file as the text that a flag would have; `None` for a value of a type
/// that settings do not use.
fn flag_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}

/// Returns the key that is close enough to have been meant.
fn nearest(key: &str, declarations: &[&'static Declaration]) -> Option<&'static str> {
    let keys = declarations.iter().map(|declaration| declaration.key);
    let (edits, nearest) = keys.map(|known| (strsim::levenshtein(key, known), known)).min()?;
    (edits <= 1 + nearest.len() / 4).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn a_suggestion_is_made_only_for_a_near_key() {
        let nearest = |key| nearest(key, Config::DECLARATIONS);
        assert_eq!(nearest("rate_brust"), Some("rate_burst"));
        assert_eq!(nearest("allowed_host"), Some("allowed_hosts"));
        assert_eq!(nearest("neighbourhood"), None);
    }
}
