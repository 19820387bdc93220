//! `stile doctor`: checks everything that a client needs, and names the step that fails.
//!
//! The checks of this machine are in `local`. `replay` sends the first requests of a client to a
//! running server, and to where the entry of each connected client leads. A check never changes
//! the space. It may migrate the state, as every command does.

mod local;
mod public;
mod replay;

use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Verb};
use stile_store::state::{TokenRecord, TokenStore};

use super::client_entry::{ClientFile, Target, identifier, target};
use super::clients::{CLIENTS, ClientRow};
use super::colours::{Colours, Meaning};
use super::home::Home;
use super::{Failure, Invocation, owner, settings, token, user_name, welcome};
use crate::auth::{MintRequest, MintedToken, Minter};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Environment;

/// How long the token lives that the doctor sends to the server of this machine.
const TOKEN_LIFE: Duration = Duration::from_secs(60);
/// A client's token that ends within so many seconds is worth a warning.
const ENDS_SOON: i64 = 7 * 24 * 60 * 60;

/// What a check found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    /// Something that works now and may not later, or that nobody needs yet.
    Warning,
    /// Something that does not work.
    Bad,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// What was checked, in one or two words.
    step: String,
    outcome: Outcome,
    /// What is true.
    detail: String,
    /// What to do about it.
    mend: Option<String>,
}

impl Finding {
    fn good(step: &str, detail: impl Into<String>) -> Self {
        Self { step: step.to_owned(), outcome: Outcome::Good, detail: detail.into(), mend: None }
    }

    fn warning(step: &str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { outcome: Outcome::Warning, mend: Some(mend.into()), ..Self::good(step, detail) }
    }

    fn bad(step: &str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { outcome: Outcome::Bad, mend: Some(mend.into()), ..Self::good(step, detail) }
    }
}

/// Findings about one thing: this machine, the server, or one client.
struct Section {
    title: String,
    findings: Vec<Finding>,
}

/// Checks this machine and its clients, or the public address that was given.
pub(super) fn run(invocation: Invocation<'_>) -> Result<(), Failure> {
    match invocation.matches.contains_id("public") {
        true => public::run(invocation),
        false => check_this_machine(invocation),
    }
}

/// Runs all checks of this machine and prints what they found.
fn check_this_machine(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let resolved = settings(matches, environment)?;
    let mut sections = vec![Section {
        title: "this machine".to_owned(),
        findings: local::check(matches, environment, &resolved)?,
    }];
    let home = Home::open_existing(&resolved.config).ok();
    let tokens = home.as_ref().and_then(|home| home.tokens().ok());
    if let (Some(home), Some(tokens), true) =
        (&home, &tokens, local::is_listening(resolved.config.listen))
    {
        let url = welcome::client_url(&resolved.config, resolved.config.listen);
        let findings = match minted(home, tokens, matches, environment) {
            Ok(minted) => {
                let findings = replay::http(&resolved.config, &url, Some(&minted.token));
                let _ = home.revoke(&minted.jti, unix_seconds(wall_clock()));
                findings
            }
            Err(failure) => vec![Finding::warning(
                "token",
                "no token could be made to try the server with",
                failure.report().0.trim().trim_start_matches("error: "),
            )],
        };
        sections.push(Section { title: format!("the server at {url}"), findings });
    }
    for client in CLIENTS {
        let name = owner::text(matches, "name").unwrap_or("stile");
        if let Some(findings) =
            of_client(client, name, environment, &resolved.config, tokens.as_ref())
        {
            sections.push(Section { title: client.title.to_owned(), findings });
        }
    }
    let text =
        if matches.get_flag("json") { as_json(&sections) } else { as_text(&sections, colours) };
    output.write_all(text.as_bytes())?;
    let all = || sections.iter().flat_map(|section| &section.findings);
    match all().filter(|finding| finding.outcome == Outcome::Bad).count() {
        0 => Ok(()),
        count => {
            let checks = if count == 1 { "check" } else { "checks" };
            Err(Failure::Failed(format!("{count} {checks} failed; what to do is above")))
        }
    }
}

/// Makes a token that may list everything, for a minute.
fn minted(
    home: &Home,
    tokens: &TokenStore,
    matches: &clap::ArgMatches,
    environment: Environment<'_>,
) -> Result<MintedToken, Failure> {
    let audience = token::audience(matches, environment, tokens)?;
    let key = home.key()?;
    let request = MintRequest {
        subject: user_name(environment),
        scopes: [Scope::everything(Verb::Read)].into_iter().collect(),
        client: Some("stile-doctor".to_owned()),
        records: RecordsClaim::None,
        life: TOKEN_LIFE,
    };
    let minter = Minter { key: &key, tokens, audience: &audience };
    Ok(minter.mint(&request, wall_clock())?)
}

/// Checks the entry of a client; `None` if the client has none.
fn of_client(
    client: &'static ClientRow,
    name: &str,
    environment: Environment<'_>,
    config: &crate::config::Config,
    tokens: Option<&TokenStore>,
) -> Option<Vec<Finding>> {
    let read = ClientFile::read(client, name, environment).and_then(|file| {
        let entry = file.entry()?;
        Ok((file, entry))
    });
    let (file, entry) = match read {
        Ok((file, entry)) => (file, entry?),
        Err(failure) => {
            let text = failure.report().0;
            return Some(vec![Finding::bad(
                "file",
                text.trim().trim_start_matches("error: "),
                "mend the file; nothing of it was changed",
            )]);
        }
    };
    let mut findings = vec![Finding::good("file", file.path().display().to_string())];
    let again = format!("run `stile connect {} --write`", client.name);
    match target(&entry) {
        None => findings.push(Finding::bad(
            "entry",
            format!("the entry `{name}` has neither an address nor a command"),
            again,
        )),
        Some(Target::Command(command)) => findings.extend(replay::command(&command)),
        Some(Target::Http { url, token }) => {
            if let Some(finding) = of_token(token.as_deref(), tokens, &again) {
                findings.push(finding);
            }
            if findings.iter().all(|finding| finding.outcome != Outcome::Bad) {
                findings.extend(replay::http(config, &url, token.as_deref()));
            }
        }
    }
    Some(findings)
}

/// Judges the token of an entry; `None` if nothing can be said about the token here.
fn of_token(token: Option<&str>, tokens: Option<&TokenStore>, again: &str) -> Option<Finding> {
    const STEP: &str = "token";
    // Without a token the client signs in by itself, and the replay shows whether it can.
    let jti = identifier(token?);
    let record = jti.as_deref().and_then(|jti| tokens?.find(jti).ok()?);
    let now = unix_seconds(wall_clock());
    Some(match record {
        None => Finding::warning(
            STEP,
            "the token is not one of this state folder",
            format!("if a server of this state is meant, {again}"),
        ),
        Some(TokenRecord { revoked: Some(when), jti, .. }) => {
            let when = token::minute(when);
            Finding::bad(STEP, format!("the token {jti} was revoked on {when} (UTC)"), again)
        }
        Some(TokenRecord { expires, jti, .. }) if expires <= now => {
            let when = token::minute(expires);
            Finding::bad(STEP, format!("the token {jti} expired on {when} (UTC)"), again)
        }
        Some(TokenRecord { expires, jti, .. }) if expires <= now + ENDS_SOON => {
            let when = token::minute(expires);
            Finding::warning(STEP, format!("the token {jti} expires on {when} (UTC)"), again)
        }
        Some(TokenRecord { expires, scopes, .. }) => {
            Finding::good(STEP, format!("allows `{scopes}` until {} (UTC)", token::minute(expires)))
        }
    })
}

fn as_text(sections: &[Section], colours: Colours) -> String {
    let mut text = String::new();
    for Section { title, findings } in sections {
        text += &format!("{}\n", colours.paint(title, Meaning::Title));
        for Finding { step, outcome, detail, mend } in findings {
            let mark = match outcome {
                Outcome::Good => colours.paint("ok  ", Meaning::Good),
                Outcome::Warning => colours.paint("note", Meaning::Warning),
                Outcome::Bad => colours.paint("FAIL", Meaning::Bad),
            };
            text += &format!("  {mark}  {step}: {detail}\n");
            if let Some(mend) = mend {
                text += &format!("        → {mend}\n");
            }
        }
    }
    text
}

fn as_json(sections: &[Section]) -> String {
    let sections = sections.iter().map(|Section { title, findings }| {
        let checks = findings.iter().map(|Finding { step, outcome, detail, mend }| {
            let outcome = match outcome {
                Outcome::Good => "ok",
                Outcome::Warning => "warning",
                Outcome::Bad => "failed",
            };
            json!({ "step": step, "outcome": outcome, "detail": detail, "mend": mend })
        });
        json!({ "about": title, "checks": checks.collect::<Value>() })
    });
    format!("{:#}\n", sections.collect::<Value>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_shown_with_what_to_do() {
        let sections = [Section {
            title: "Cursor".to_owned(),
            findings: vec![
                Finding::good("file", "/home/ann/.cursor/mcp.json"),
                Finding::warning("token", "expires soon", "run `stile connect cursor --write`"),
                Finding::bad("reach", "nothing answers", "start `stile serve`"),
            ],
        }];
        insta::assert_snapshot!(as_text(&sections, Colours::Plain), @r"
        Cursor
          ok    file: /home/ann/.cursor/mcp.json
          note  token: expires soon
                → run `stile connect cursor --write`
          FAIL  reach: nothing answers
                → start `stile serve`
        ");
        let json: Value = serde_json::from_str(&as_json(&sections)).unwrap();
        assert_eq!(json[0]["checks"][2]["outcome"], "failed");
    }
}
