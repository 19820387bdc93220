//! What a setting is: its key, help, default, parser, and the commands that take it.
//!
//! A [`Setting`] is declared once, as a constant. [`settings_list!`](super::settings_list) makes a
//! struct of values from a list of settings. The command line, the reader of the settings file and
//! `stile config` work from the [`Declaration`]s of that list.

use super::lookup::{ConfigError, Lookup};
use super::values::ParseContext;

/// Parses a setting from the text of a flag, a variable or the file. The error completes a sentence
/// that begins with the text, for example "is not auto, dotted or underscored".
pub(crate) type Parser<T> = fn(&str, &ParseContext<'_>) -> Result<T, String>;

/// A setting whose value has the type `T`.
#[derive(Debug)]
pub(crate) struct Setting<T: 'static> {
    /// Everything about the setting that does not depend on its type.
    pub(crate) declaration: Declaration,
    pub(super) parse: Parser<T>,
}

/// What the command line, the settings file and `stile config` know of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declaration {
    /// The key in `stile.toml`, for example `rate_burst`.
    pub(crate) key: &'static str,
    /// What help shows in place of the value, for example `COUNT`.
    pub(crate) value_name: &'static str,
    /// What the setting does, in one or two sentences.
    pub(crate) help: &'static str,
    /// How the command line and the file give the setting.
    pub(crate) form: Form,
    /// The commands that have the setting as an argument. `stile config` has all settings.
    pub(crate) commands: &'static [TakenBy],
    pub(super) default: DefaultValue,
}

/// How the command line and the file give a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A flag with a value, or a key in the file.
    Flag,
    /// A flag or a key in the file. The flag without a value means `yes`.
    Switch,
    /// A positional argument, or a key in the file.
    Positional,
    /// A flag with a value. The file cannot hold the setting, because the file is found through it.
    FlagOnly,
}

/// A command, or a group of commands, that takes settings as arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBy {
    /// `stile serve`.
    Serve,
    /// `stile stdio`.
    Stdio,
    /// `stile gateway`.
    Gateway,
    /// `stile mcp`.
    Mcp,
    /// `stile note` and its subcommands.
    Note,
    /// `stile token` and its subcommands.
    Token,
    /// The commands about records, from `stile import` to `stile grant`.
    Records,
}

/// The value of a setting that nobody gave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// A text for the parser. An empty text means that the setting is not set.
    Text(&'static str),
    Computed {
        /// How help describes the value.
        shown: &'static str,
        /// Returns `None` if the value cannot be known on this machine.
        compute: fn(&ParseContext<'_>) -> Option<String>,
    },
}

impl<T> Setting<T> {
    /// Declares a setting that is given by a flag or in the file, is not set by default, and is an
    /// argument of no command but `stile config`.
    pub(crate) const fn new(
        key: &'static str,
        value_name: &'static str,
        parse: Parser<T>,
        help: &'static str,
    ) -> Self {
        let default = DefaultValue::Text("");
        let declaration =
            Declaration { key, value_name, help, form: Form::Flag, commands: &[], default };
        Self { declaration, parse }
    }

    pub(crate) const fn form(mut self, form: Form) -> Self {
        self.declaration.form = form;
        self
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.declaration.default = DefaultValue::Text(text);
        self
    }

    pub(crate) const fn computed_default(
        mut self,
        shown: &'static str,
        compute: fn(&ParseContext<'_>) -> Option<String>,
    ) -> Self {
        self.declaration.default = DefaultValue::Computed { shown, compute };
        self
    }

    pub(crate) const fn taken_by(mut self, commands: &'static [TakenBy]) -> Self {
        self.declaration.commands = commands;
        self
    }
}

impl Declaration {
    /// The flag without its dashes, for example `rate-burst`.
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// The environment variable, for example `STILE_RATE_BURST`.
    pub(crate) fn variable(&self) -> String {
        format!("STILE_{}", self.key.to_uppercase())
    }

    /// The help text with the default, if there is one.
    pub(crate) fn help_with_default(&self) -> String {
        match self.default {
            DefaultValue::Text("") => self.help.to_owned(),
            DefaultValue::Text(shown) | DefaultValue::Computed { shown, .. } => {
                format!("{} [default: {shown}]", self.help)
            }
        }
    }
}

/// A struct with a field for each setting of a list. [`settings_list!`](super::settings_list) makes
/// such structs.
pub(crate) trait SettingsList: Sized {
    /// The settings, in the order in which help and `stile config` show them.
    const DECLARATIONS: &'static [&'static Declaration];

    /// Looks up every setting, in order.
    ///
    /// # Errors
    /// The error of the first setting whose value cannot be found or parsed.
    fn read(lookup: &mut Lookup<'_>) -> Result<Self, ConfigError>;
}

/// Makes a [`SettingsList`] struct: a line `field: Type = SETTING` for each setting.
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
