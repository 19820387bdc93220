//! `stile doctor`: checks everything that a client needs, and names the step that fails.
//!
//! The checks of this machine are in `local`. `replay` sends the first requests of a client to a
//! running server, and to where the entry of each connected client leads. A check never changes
//! the space. It may migrate the state, as every command does.
//!
//! The doctor calls under its own name: instead of the token of a client it sends one of its own
//! with the same rights, so that the journal names the doctor and the client was not "used". It
//! sends a token only to a server that runs with this state ([`found_server`]).

mod local;
mod public;
mod replay;

use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::client_name::DOCTOR;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::state::{RunningServer, TokenRecord, TokenStore};

use super::space;
use crate::auth::{MintRequest, Minter};
use crate::checkup::{Finding, FindingGrade};
use crate::cli::client_entry::{ClientFile, StdioEntry, Target, absolute, identifier, target};
use crate::cli::clients::{CLIENTS, ClientRow};
use crate::cli::compose::{Home, found_server};
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::cli::terminal::{self, Colours, Meaning, local_time, unix_time};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::declarations::ROOT;
use crate::config::{Config, Environment, Source};
use crate::http::metadata::MCP_PATH;

/// How long the token lives that the doctor sends to the server of this machine.
const TOKEN_LIFE: Duration = Duration::from_secs(60);
/// A client's token that ends within so many seconds is worth a warning.
const ENDS_SOON: i64 = 7 * 24 * 60 * 60;

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
    let mut resolved = settings(matches, environment)?;
    let home = Home::open_existing(&resolved.config).ok();
    let tokens = home.as_ref().and_then(|home| home.tokens().ok());
    let mut servers = Vec::new();
    let mut server = None;
    let mut roots = Vec::new();
    if let (Some(home), Some(tokens)) = (&home, &tokens) {
        servers = found_server::running(home)?;
        server = found_server::found(&resolved, home, tokens)?;
        if *resolved.source(&ROOT) == Source::Default {
            match found_server::served_root(&resolved, home, tokens)? {
                Some(root) => resolved.config.root = root,
                None => roots = found_server::possible_roots(&resolved, tokens)?,
            }
        }
    }
    let mut sections = vec![Section {
        title: "this machine".to_owned(),
        findings: local::check(matches, environment, &resolved, server.as_ref(), &roots)?,
    }];
    let root = server.as_ref().map_or(&resolved.config.root, |server| &server.root);
    let behind = tokens.as_ref().map(|tokens| space::left_behind(tokens, root).ok().flatten());
    if let (Some(Some(behind)), Some(section)) = (behind, sections.first_mut()) {
        section.findings.push(Finding::warning(
            "space",
            format!(
                "{}, and its tokens are refused for {}",
                space::folder_of(&behind),
                root.display()
            ),
            "if this is the same folder at another place, stop the server and run \
             `stile space adopt`",
        ));
    }
    if let (Some(home), Some(tokens), Some(server)) = (&home, &tokens, &server) {
        let url = format!("{}{MCP_PATH}", found_server::client_origin(server));
        let rights = MintRequest {
            subject: user_name(environment),
            scopes: [Scope::everything(Verb::Read)].into_iter().collect(),
            client: None,
            records: RecordsClaim::None,
            life: TOKEN_LIFE,
        };
        // Where each caller is a person with a space, a token would make one of the doctor's user.
        let findings = match resolved.config.spaces {
            Some(_) => replay::http(&resolved.config, &url, None),
            None => replay_with(&resolved.config, home, tokens, &url, &server.audience, &rights),
        };
        sections.push(Section { title: format!("the server at {url}"), findings });
    }
    let place = ClientPlace { config: &resolved.config, home: home.as_ref(), tokens, servers };
    for client in CLIENTS {
        let name = flags::text(matches, "name").unwrap_or("stile");
        if let Some(findings) = of_client(client, name, environment, &place) {
            sections.push(Section { title: client.title.to_owned(), findings });
        }
    }
    let text =
        if matches.get_flag("json") { as_json(&sections) } else { as_text(&sections, colours) };
    output.write_all(text.as_bytes())?;
    let all = || sections.iter().flat_map(|section| &section.findings);
    match all().filter(|finding| finding.outcome == FindingGrade::Bad).count() {
        0 => Ok(()),
        count => {
            let checks = if count == 1 { "check" } else { "checks" };
            Err(Failure::Failed(format!("{count} {checks} failed; what to do is above")))
        }
    }
}

/// Replays the requests of a client with a token of the doctor's own, which is forgotten then.
fn replay_with(
    config: &Config,
    home: &Home,
    tokens: &TokenStore,
    url: &str,
    audience: &str,
    rights: &MintRequest,
) -> Vec<Finding> {
    let minted = home.key().map_err(Failure::from).and_then(|key| {
        let minter = Minter { key: &key, tokens, audience };
        Ok(minter.mint_for_doctor(rights, wall_clock())?)
    });
    match minted {
        Ok(minted) => {
            let findings = replay::http(config, url, Some(&minted.token));
            let _ = home.revoke(&minted.jti, unix_seconds(wall_clock()));
            // No list shows what was there for a moment. If this fails, one shows it as ended.
            let _ = tokens.forget_revoked(&minted.jti);
            findings
        }
        Err(failure) => vec![Finding::warning(
            "token",
            "no token could be made to try the server with",
            failure.report().0.trim().trim_start_matches("error: "),
        )],
    }
}

/// What the entries of clients are checked against.
struct ClientPlace<'a> {
    config: &'a Config,
    home: Option<&'a Home>,
    tokens: Option<TokenStore>,
    /// The servers that run with this state.
    servers: Vec<RunningServer>,
}

impl ClientPlace<'_> {
    /// Replays the requests of a client with the rights of its token, under the doctor's name.
    /// Without a token of this state, or where no server of this state listens, sends no token.
    fn replay(&self, url: &str, token: Option<&str>) -> Vec<Finding> {
        let (Some(home), Some(tokens)) = (self.home, &self.tokens) else {
            return replay::http(self.config, url, None);
        };
        let jti = token.and_then(identifier);
        let Some(record) = jti.and_then(|jti| tokens.find(&jti).ok()?) else {
            return replay::http(self.config, url, None);
        };
        let server = self.servers.iter().find(|server| found_server::leads_to(server, url));
        let Some(server) = server else { return replay_with_a_stranger(self.config, url) };
        if record.audience.as_ref() != Some(&server.audience) {
            return vec![Finding::bad(
                "authentication",
                format!("the token is for another folder than {}", server.root.display()),
                "serve the folder of the token at that address, connect the client again, or run \
                 `stile space adopt` if it is the same folder at another place",
            )];
        }
        // A grant may be for the first token that uses it, which must not be the doctor's.
        let records = match record.records_claim() {
            RecordsClaim::Grant(_) if record.scopes.is_empty() => {
                return replay::http(self.config, url, None);
            }
            RecordsClaim::Grant(_) => RecordsClaim::None,
            claim => claim,
        };
        let rights = MintRequest {
            subject: record.subject.clone(),
            scopes: Scopes::from_claim(&record.scopes),
            client: None,
            records,
            life: TOKEN_LIFE,
        };
        replay_with(self.config, home, tokens, url, &server.audience, &rights)
    }
}

impl ClientPlace<'_> {
    /// Says that the owner ended the client that a command names; `None` if the client may act, or
    /// is not known.
    fn ended_stdio(&self, command: &[String], again: &str) -> Option<Finding> {
        let state = absolute(&self.config.state);
        let ended = StdioEntry::of(command)?.ended(self.tokens.as_ref()?, &state)?;
        let detail = format!("the owner ended the access on {}", moment(ended));
        Some(Finding::bad("access", detail, format!("to let it in again, {again}")))
    }
}

/// Replays the requests of a client without a token, at an address where no server of this state
/// listens. At least one finding is bad.
fn replay_with_a_stranger(config: &Config, url: &str) -> Vec<Finding> {
    let mut findings = replay::http(config, url, None);
    if findings.iter().all(|finding| finding.outcome != FindingGrade::Bad) {
        findings.push(Finding::bad(
            "server",
            "another program than a server of this state answers there, so it got no token",
            "stop that program, or start `stile serve` and connect the client again",
        ));
    }
    findings
}

/// Says what is wrong with the program that answers at an address where no server of this state
/// listens, and what to do about it; `None` if nothing answers there.
pub(super) fn stranger(config: &Config, url: &str) -> Option<(String, String)> {
    let findings = replay_with_a_stranger(config, url);
    let bad = findings.into_iter().find(|finding| finding.outcome == FindingGrade::Bad)?;
    (bad.step != replay::REACH).then(|| (bad.detail, bad.mend.unwrap_or_default()))
}

/// Checks the entry of a client; `None` if the client has none.
fn of_client(
    client: &'static ClientRow,
    name: &str,
    environment: Environment<'_>,
    place: &ClientPlace<'_>,
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
        Some(Target::Command(command)) => {
            let ended = place.ended_stdio(&command, &again);
            match ended {
                Some(ended) => findings.push(ended),
                None => findings.extend(replay::command(&as_doctor(command))),
            }
        }
        Some(Target::Http { url, token }) => {
            if let Some(finding) = of_token(token.as_deref(), place.tokens.as_ref(), &again) {
                findings.push(finding);
            }
            if findings.iter().all(|finding| finding.outcome != FindingGrade::Bad) {
                findings.extend(place.replay(&url, token.as_deref()));
            }
        }
    }
    Some(findings)
}

/// Returns the command of an entry under the doctor's name. A command that does not start
/// `stile stdio` stays as it is.
fn as_doctor(mut command: Vec<String>) -> Vec<String> {
    const FLAG: &str = "--client";
    let Some(start) = command.iter().position(|word| word == "stdio") else { return command };
    match command.iter().position(|word| word == FLAG) {
        Some(flag) => {
            if let Some(name) = command.get_mut(flag + 1) {
                DOCTOR.clone_into(name);
            }
        }
        None => {
            let own = [FLAG, DOCTOR].map(str::to_owned);
            command.splice(start + 1..start + 1, own);
        }
    }
    command
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
            let when = moment(when);
            Finding::bad(STEP, format!("the token {jti} was revoked on {when}"), again)
        }
        Some(TokenRecord { expires, jti, .. }) if expires <= now => {
            let when = moment(expires);
            Finding::bad(STEP, format!("the token {jti} expired on {when}"), again)
        }
        Some(TokenRecord { expires, jti, .. }) if expires <= now + ENDS_SOON => {
            let when = moment(expires);
            Finding::warning(STEP, format!("the token {jti} expires on {when}"), again)
        }
        Some(TokenRecord { expires, scopes, .. }) => {
            Finding::good(STEP, format!("allows `{scopes}` until {}", moment(expires)))
        }
    })
}

/// Returns the time that Unix seconds are, within a sentence.
fn moment(seconds: i64) -> String {
    local_time::in_words(unix_time::instant(seconds))
}

fn as_text(sections: &[Section], colours: Colours) -> String {
    let mut text = String::new();
    for Section { title, findings } in sections {
        text += &format!("{}\n", colours.paint(title, Meaning::Title));
        for Finding { step, outcome, detail, mend } in findings {
            let mark = match outcome {
                FindingGrade::Good => colours.paint("ok  ", Meaning::Good),
                FindingGrade::Warning => colours.paint("note", Meaning::Warning),
                FindingGrade::Bad => colours.paint("FAIL", Meaning::Bad),
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
                FindingGrade::Good => "ok",
                FindingGrade::Warning => "warning",
                FindingGrade::Bad => "failed",
            };
            json!({ "step": step, "outcome": outcome, "detail": detail, "mend": mend })
        });
        json!({ "about": title, "checks": checks.collect::<Value>() })
    });
    terminal::json_lines(&sections.collect::<Value>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_tried_under_the_doctors_name() {
        let doctored =
            |line: &str| as_doctor(line.split(' ').map(str::to_owned).collect()).join(" ");
        assert_eq!(
            doctored("/opt/stile stdio /n --client cursor --grant g"),
            "/opt/stile stdio /n --client stile-doctor --grant g"
        );
        assert_eq!(doctored("stile stdio /n"), "stile stdio --client stile-doctor /n");
        assert_eq!(doctored("docker run x"), "docker run x");
        assert_eq!(doctored("stile stdio --client"), "stile stdio --client");
    }

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
        let named = Section { title: "a\u{202e}b".to_owned(), findings: Vec::new() };
        assert!(as_json(&[named]).contains(r"a\u202eb"));
    }
}
