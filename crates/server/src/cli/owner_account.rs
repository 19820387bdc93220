//! `stile owner`: how the owner signs in to the pages of this server.

use clap::ArgMatches;
use stile_domain::hash::hex;
use stile_domain::owner_password::OwnerPassword;
use stile_store::state::{OpenSession, Passkey, StateDir, TokenStore};

use super::secret_input::read_new_secret;
use super::{Failure, Invocation, settings, table};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Environment;
use crate::owner_sign_in::password;

/// Sets the password, or lists and removes what the owner signs in with.
pub(super) fn run(
    Invocation { matches, environment, output }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let tokens = open(matches, environment)?;
    match name {
        "password" if matches.get_flag("remove") => {
            let line = if tokens.remove_owner_password()? {
                "the password is removed; sign in with a passkey or a link"
            } else {
                "there was no password"
            };
            writeln!(output, "{line}")?;
        }
        "password" => {
            let typed = read_new_secret("password")?;
            let password =
                OwnerPassword::parse(&typed).map_err(|bad| Failure::Usage(bad.to_string()))?;
            let subject = super::user_name(environment);
            let stored = password::hash(&subject, &password, unix_seconds(wall_clock()))
                .map_err(|error| Failure::Failed(error.to_string()))?;
            tokens.set_owner_password(&stored)?;
            // Whoever signed in with an old password is out.
            let ended = tokens.close_all_sessions()?;
            writeln!(
                output,
                "the password is set, and running servers accept it from now on; \
                 {ended} browsers are signed out"
            )?;
        }
        "passkeys" => output.write_all(passkey_table(&tokens.passkeys()?).as_bytes())?,
        "remove-passkey" => {
            let id = matches.get_one::<String>("id").map(String::as_str).unwrap_or_default();
            let passkeys = tokens.passkeys()?;
            let mut named = passkeys
                .iter()
                .filter(|passkey| !id.is_empty() && hex(&passkey.credential).starts_with(id));
            let (Some(passkey), None) = (named.next(), named.next()) else {
                return Err(Failure::Usage(format!(
                    "`{}` does not begin the identifier of exactly one passkey; \
                     `stile owner passkeys` lists them. Nothing was changed",
                    id.escape_debug()
                )));
            };
            tokens.remove_passkey(&passkey.credential)?;
            writeln!(output, "the passkey {} is removed", passkey.name.escape_debug())?;
        }
        "sessions" => {
            let now = unix_seconds(wall_clock());
            output.write_all(session_table(&tokens.sessions(now)?).as_bytes())?;
        }
        "sign-out" => {
            let ended = tokens.close_all_sessions()?;
            writeln!(output, "{ended} browsers are signed out, from the next request on")?;
        }
        _ => {}
    }
    Ok(())
}

fn open(matches: &ArgMatches, environment: Environment<'_>) -> Result<TokenStore, Failure> {
    let state = StateDir::open(&settings(matches, environment)?.config.state)?;
    Ok(TokenStore::open(&state)?)
}

fn passkey_table(passkeys: &[Passkey]) -> String {
    let headings = ["ID", "NAME", "SITE", "REGISTERED (UTC)", "LAST USED (UTC)"];
    let rows = passkeys.iter().map(|passkey| {
        let id = hex(&passkey.credential);
        [
            id.get(..16).unwrap_or(&id).to_owned(),
            passkey.name.clone(),
            passkey.domain.clone(),
            super::token::minute(passkey.created),
            passkey.last_used.map_or_else(|| "never".to_owned(), super::token::minute),
        ]
    });
    table::table(headings, rows)
}

fn session_table(sessions: &[OpenSession]) -> String {
    let headings = ["USER", "SIGNED IN (UTC)", "LAST USED (UTC)"];
    let rows = sessions.iter().map(|session| {
        let minute = super::token::minute;
        [session.subject.clone(), minute(session.created), minute(session.used)]
    });
    table::table(headings, rows)
}
