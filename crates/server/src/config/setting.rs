//! What a setting is: its key, help, default, parser, and the commands that take it.
//!
//! [`declare_settings!`] declares a [`Setting`] as a constant. The command line, the reader of the
//! settings file and `stile config` work from the [`Declaration`]s of a list of settings.

use super::values::ParseContext;

/// Parses a setting from the text of a flag, a variable or the file. The error completes a sentence
/// that begins with the text, for example "is not auto, dotted or underscored".
pub(crate) type Parser<T> = fn(&str, &ParseContext<'_>) -> Result<T, String>;

#[derive(Debug)]
pub(crate) struct Setting<T: 'static> {
    /// Everything about the setting that does not depend on its type.
    pub(crate) declaration: Declaration,
    pub(crate) parse: Parser<T>,
}

/// What the command line, the settings file and `stile config` know of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declaration {
    /// The key in `stile.toml`, for example `rate_burst`.
    pub(crate) key: &'static str,
    /// What help shows in place of the value, for example `COUNT`.
    pub(crate) value_name: &'static str,
    /// What the setting does, in one or two sentences. Each line has a leading space.
    pub(crate) help: &'static str,
    /// How the command line and the file give the setting.
    pub(crate) form: Form,
    /// The commands that have the setting as an argument. `stile config` has all settings.
    pub(crate) commands: &'static [CommandGroup],
    pub(crate) default: DefaultValue,
}

/// How the command line and the file give a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A flag with a value, or a key in the file.
    Flag,
    /// A flag with values between commas that may be repeated, or a key in the file.
    Repeated,
    /// A flag or a key in the file. The flag without a value means `yes`.
    Switch,
    /// A positional argument, or a key in the file.
    Positional,
    /// A flag with a value. The file cannot hold the setting, because the file is found through it.
    FlagOnly,
}

/// A command, or a group of commands, that takes settings as arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandGroup {
    Serve,
    Stdio,
    Gateway,
    Mcp,
    Note,
    Token,
    /// `stile connect`, `stile disconnect` and `stile doctor`.
    Connect,
    /// The commands about old versions of files, from `stile history` to `stile undo`.
    History,
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

impl Declaration {
    /// Returns the flag without its dashes, for example `rate-burst`.
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Returns the environment variable, for example `STILE_RATE_BURST`.
    pub(crate) fn variable(&self) -> String {
        format!("STILE_{}", self.key.to_uppercase())
    }

    /// Returns the help text with the default, if there is one.
    pub(crate) fn help_with_default(&self) -> String {
        let help = self.help.trim_start();
        match self.default {
            DefaultValue::Text("") => help.to_owned(),
            DefaultValue::Text(shown) | DefaultValue::Computed { shown, .. } => {
                format!("{help} [default: {shown}]")
            }
        }
    }
}

/// Declares settings as constants. The doc comment of a setting is its help text.
///
/// A declaration reads `NAME: Type = Form("key", "PLACEHOLDER"), parser, default Text("…"), for
/// COMMANDS;`. A setting without a default is not set by default.
macro_rules! declare_settings {
    ($( $(#[doc = $help:literal])+
        $name:ident: $type:ty = $form:ident($key:literal, $value_name:literal), $parse:expr
        $(, default $kind:ident $default:tt)?, for $commands:expr; )+) => {
        $( $(#[doc = $help])+
        pub(crate) const $name: $crate::config::Setting<$type> = $crate::config::Setting {
            declaration: $crate::config::Declaration {
                key: $key,
                value_name: $value_name,
                help: concat!($($help),+),
                form: $crate::config::Form::$form,
                commands: $commands,
                default: declare_settings!(@default $($kind $default)?),
            },
            parse: $parse,
        }; )+
    };
    (@default) => { $crate::config::DefaultValue::Text("") };
    (@default $kind:ident $default:tt) => { $crate::config::DefaultValue::$kind $default };
}
pub(crate) use declare_settings;
