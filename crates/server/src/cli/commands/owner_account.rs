//! `stile owner`: how the owner signs in to the pages of this server.

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::hash::hex;
use stile_domain::owner_password::OwnerPassword;
use stile_store::state::{OpenSession, Passkey, TokenStore};

use crate::cli::compose::Home;
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::cli::terminal::secret_input::read_new_secret;
use crate::cli::terminal::unix_time::rfc3339;
use crate::cli::terminal::{self, Colours, table, unix_time};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Environment;
use crate::owner_sign_in::password;

/// Sets the password, or lists and removes what the owner signs in with.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    if matches!(name, "password" | "passkeys" | "remove-passkey") {
        let instead = "make a link for a person with `stile sign-in --person NAME`";
        home(matches, environment)?.refuse_people(&format!("stile owner {name}"), instead)?;
    }
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
            let subject = user_name(environment);
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
        "passkeys" => {
            let passkeys = tokens.passkeys()?;
            let text = match matches.get_flag("json") {
                true => passkey_json(&passkeys),
                false => terminal::list(
                    passkey_table(&passkeys, colours),
                    passkeys.is_empty(),
                    "There is no passkey yet. You register one on your page, under Signing in; \
                     `stile page` opens it.",
                )?,
            };
            output.write_all(text.as_bytes())?;
        }
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
            let sessions = tokens.sessions(unix_seconds(wall_clock()))?;
            let text = match matches.get_flag("json") {
                true => session_json(&sessions),
                false => terminal::list(
                    session_table(&sessions, colours),
                    sessions.is_empty(),
                    "No browser is signed in. `stile page` prints a link that signs one in.",
                )?,
            };
            output.write_all(text.as_bytes())?;
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
    Ok(home(matches, environment)?.tokens()?)
}

fn home(matches: &ArgMatches, environment: Environment<'_>) -> Result<Home, Failure> {
    Ok(Home::open(&settings(matches, environment)?.config)?)
}

fn passkey_table(passkeys: &[Passkey], colours: Colours) -> String {
    let headings = ["ID", "NAME", "SITE", "REGISTERED (UTC)", "LAST USED (UTC)"];
    let rows = passkeys.iter().map(|passkey| {
        let id = hex(&passkey.credential);
        [
            id.get(..16).unwrap_or(&id).to_owned(),
            passkey.name.clone(),
            passkey.domain.clone(),
            unix_time::minute(passkey.created),
            passkey.last_used.map_or_else(|| "never".to_owned(), unix_time::minute),
        ]
    });
    table::table(colours, headings, rows)
}

fn passkey_json(passkeys: &[Passkey]) -> String {
    let rows = passkeys.iter().map(|passkey| {
        json!({
            "id": hex(&passkey.credential),
            "name": passkey.name,
            "site": passkey.domain,
            "registered": rfc3339(passkey.created),
            "last_used": passkey.last_used.map(rfc3339),
        })
    });
    terminal::json_lines(&Value::from_iter(rows))
}

fn session_table(sessions: &[OpenSession], colours: Colours) -> String {
    let headings = ["USER", "BROWSER", "ADDRESS", "SIGNED IN (UTC)", "LAST USED (UTC)"];
    let rows = sessions.iter().map(|session| {
        let minute = unix_time::minute;
        let known = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        [
            session.subject.clone(),
            known(&session.browser),
            known(&session.address),
            minute(session.created),
            minute(session.used),
        ]
    });
    table::table(colours, headings, rows)
}

fn session_json(sessions: &[OpenSession]) -> String {
    let rows = sessions.iter().map(|session| {
        json!({
            "user": session.subject,
            "browser": session.browser,
            "address": session.address,
            "signed_in": rfc3339(session.created),
            "last_used": rfc3339(session.used),
        })
    });
    terminal::json_lines(&Value::from_iter(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_and_browsers_are_listed_as_tables_and_as_json() {
        let passkeys = [Passkey {
            credential: vec![0x1f; 20],
            subject: "ann".to_owned(),
            name: "laptop".to_owned(),
            domain: "notes.example.org".to_owned(),
            public_key: Vec::new(),
            counter: 0,
            created: 1_800_000_000,
            last_used: None,
        }];
        let session = OpenSession {
            digest: [0; 32],
            subject: "ann".to_owned(),
            created: 1_800_000_000,
            used: 1_800_000_060,
            browser: "Firefox on Linux".to_owned(),
            address: "192.0.2.7".to_owned(),
        };
        let listed = [
            passkey_table(&passkeys, Colours::Plain),
            passkey_json(&passkeys),
            session_table(std::slice::from_ref(&session), Colours::Plain),
            session_json(&[session]),
        ];
        insta::assert_snapshot!("owner_listings", listed.join("\n"));
    }
}
