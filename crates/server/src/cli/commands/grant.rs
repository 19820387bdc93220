//! `stile grant`: makes, shows and revokes grants, each of which says what one client may see of
//! the records.

use clap::ArgMatches;
use serde_json::Value;
use stile_domain::records::grant::Grant;
use stile_domain::records::instant::Instant;
use stile_domain::shortened_id::full as full_id;
use stile_records::grant_answers::{grant_json, status_name};
use stile_records::grant_document::{ClientDocument, GrantDocument};
use stile_records::grant_request::{GrantRequestError, StreamGrantRequest, TimeConstraintRequest};
use stile_store::records::GrantRecord;

use crate::cli::compose::{Home, Owner, owner};
use crate::cli::failure::Failure;
use crate::cli::flags::{self, duration, text, texts};
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::local_time::{self, minute};
use crate::cli::terminal::table::{cell, table};
use crate::cli::terminal::{self, Colours};
use crate::config::Environment;

const NOT_MADE: &str = "no grant was made";
const SINGLE_USE: &str = "single_use";

pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("create", matches)) => create(Invocation { matches, environment, output, colours }),
        Some(("list", matches)) => {
            let grants = |home: &Home| {
                let Owner { services, caller, now } = owner::of_home(home, matches, environment)?;
                Ok((services.grants(&caller)?, now))
            };
            let (grants, now) = home(matches, environment)?.with_reserve(grants)?;
            if matches.get_flag("json") {
                let grants = grants.iter().map(|grant| grant_json(grant, now));
                return Ok(terminal::write_json(output, &Value::from_iter(grants))?);
            }
            let table = grant_table(&grants, now, colours);
            let listed = terminal::list(table, grants.is_empty(), NO_GRANT)?;
            Ok(output.write_all(listed.as_bytes())?)
        }
        Some(("show", matches)) => {
            let owner = owner::open(matches, environment)?;
            let grant = find(&owner, text(matches, "id").unwrap_or_default())?;
            Ok(terminal::write_json(output, &grant_json(&grant, owner.now))?)
        }
        Some(("revoke", matches)) => {
            let revoke = |home: &Home| revoke(matches, owner::of_home(home, matches, environment)?);
            let revoked = home(matches, environment)?.with_reserve(revoke)?;
            Ok(writeln!(output, "{revoked}")?)
        }
        _ => Ok(()),
    }
}

/// What is said where there is no grant, and what makes one.
const NO_GRANT: &str = "There is no grant yet, so no client sees records. `stile grant create` makes \
    one (`stile grant create --help` has examples), and so does your page.";

fn home(matches: &ArgMatches, environment: Environment<'_>) -> Result<Home, Failure> {
    Ok(Home::open(&settings(matches, environment)?.config)?)
}

/// Revokes a grant, and returns what that ended, as a sentence.
fn revoke(matches: &ArgMatches, owner: Owner) -> Result<String, Failure> {
    let Owner { services, caller, now } = owner;
    let typed = text(matches, "id").unwrap_or_default();
    let all = services.grants(&caller)?;
    let id = &full_id(typed, all.iter().map(|grant| grant.id.as_str()))?;
    let found = all.iter().find(|grant| grant.id == *id);
    let ended = found.and_then(|record| record.grant.as_ref()).map(ended).unwrap_or_default();
    match services.revoke_grant(&caller, id, now)? {
        None => Err(unknown(id)),
        Some(None) => {
            Ok(format!("{id} is revoked{ended}; every server refuses it from the next request on"))
        }
        Some(Some(when)) => Ok(format!("{id} was revoked before, on {}", minute(when))),
    }
}

/// Returns the grant that an identifier or its beginning names.
pub(super) fn find(owner: &Owner, id: &str) -> Result<GrantRecord, Failure> {
    let all = owner.services.grants(&owner.caller)?;
    let id = full_id(id, all.iter().map(|grant| grant.id.as_str()))?;
    owner.services.find_grant(&owner.caller, &id)?.ok_or_else(|| unknown(&id))
}

/// Returns a time without a zone as the time that it is at this place; `None` for another text. A
/// day alone is a day in every zone.
fn time_with_zone(text: &str) -> Option<String> {
    const DAY_LENGTH: usize = "2026-01-31".len();
    let is_time = text.len() > DAY_LENGTH;
    local_time::of_text(text).filter(|_| is_time).map(Instant::to_rfc3339)
}

/// Says what a grant showed that is revoked, as the rest of a sentence.
fn ended(grant: &Grant) -> String {
    let streams: Vec<String> = grant.streams.iter().map(|it| it.stream.to_string()).collect();
    format!(": it showed {} records of {}", cell(Some(&grant.client)), streams.join(", "))
}

fn unknown(id: &str) -> Failure {
    Failure::Failed(format!(
        "there is no grant `{}`; `stile grant list` shows all of them",
        id.escape_debug()
    ))
}

fn create(Invocation { matches, environment, output, .. }: Invocation<'_>) -> Result<(), Failure> {
    let document = match text(matches, "from") {
        Some(path) => document_from_file(path)?,
        None => GrantDocument::of_streams(vec![stream_grant_from_flags(matches)]),
    };
    let passed_over = document.passed_over().join(", ");
    let life = life(matches)?;
    let Owner { services, caller, now } = owner::open(matches, environment)?;
    let document = with_options(document, matches, life, now)?;
    let created = document
        .into_request(now)
        .and_then(|request| services.create_grant(&caller, now, request))
        .map_err(|error| match error {
            GrantRequestError::Problem(problem) => Failure::from(problem),
            GrantRequestError::Invalid(why) => Failure::Usage(format!("{why}; {NOT_MADE}")),
        })?;
    for (stream, field) in &created.added {
        terminal::print_to_stderr(&format!(
            "`{}` is granted too: the stream `{stream}` requires it",
            cell(Some(field))
        ))?;
    }
    if !passed_over.is_empty() {
        terminal::print_to_stderr(&format!("not taken over from the file: {passed_over}"))?;
    }
    Ok(writeln!(output, "{}", created.id)?)
}

/// Returns how long the grant is valid, in microseconds, as `--expires` says.
fn life(matches: &ArgMatches) -> Result<Option<i64>, Failure> {
    let Some(text) = text(matches, "expires") else { return Ok(None) };
    let life = duration::parse(text).filter(|life| !life.is_zero());
    let micros = life.and_then(|life| i64::try_from(life.as_micros()).ok());
    micros.map(Some).ok_or_else(|| {
        Failure::Usage(format!("--expires: `{text}` is not a duration such as 90m, 12h or 30d"))
    })
}

/// Adds what the options say to the file. Neither wins over the other: what both say is an error.
fn with_options(
    mut document: GrantDocument,
    matches: &ArgMatches,
    life: Option<i64>,
    now: Instant,
) -> Result<GrantDocument, Failure> {
    if let Some(client_id) = text(matches, "client").map(str::to_owned) {
        flags::access::check_client_name(&client_id, NOT_MADE)?;
        if document.client.as_ref().is_some_and(|named| named.client_id != client_id) {
            return refuse("the file names another client than --client");
        }
        document.client = Some(ClientDocument { client_id });
    }
    if document.client.is_none() {
        return refuse("the file names no client; name it with --client");
    }
    let purpose = text(matches, "purpose").map(str::to_owned);
    join(&mut document.purpose_description, purpose, "--purpose", "purpose_description")?;
    let expires = life.map(|micros| Instant(now.0.saturating_add(micros)));
    if expires.is_some_and(|expires| expires > Instant::LAST) {
        return refuse("--expires: the grant would end after the year 9999");
    }
    join(&mut document.expires_at, expires.map(Instant::to_rfc3339), "--expires", "expires_at")?;
    // The option may ask for what the file says too.
    let is_said = document.access_mode.as_deref() == Some(SINGLE_USE);
    let single_use = matches.get_flag("single_use") && !is_said;
    let single_use = single_use.then(|| SINGLE_USE.to_owned());
    join(&mut document.access_mode, single_use, "--single-use", "access_mode")?;
    Ok(document)
}

/// Puts the value of an option into a member that the file leaves out.
fn join(
    member: &mut Option<String>,
    option: Option<String>,
    option_name: &str,
    member_name: &str,
) -> Result<(), Failure> {
    if option.is_some() && member.is_some() {
        return refuse(&format!(
            "the file has `{member_name}`, and {option_name} was sent too; send one of them"
        ));
    }
    *member = member.take().or(option);
    Ok(())
}

fn refuse<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::Usage(format!("{why}; {NOT_MADE}")))
}

fn stream_grant_from_flags(matches: &ArgMatches) -> StreamGrantRequest {
    let owned = |name: &str| text(matches, name).map(str::to_owned);
    let time = |name: &str| owned(name).map(|text| time_with_zone(&text).unwrap_or(text));
    let (field, since, until) = (owned("time_field"), time("since"), time("until"));
    let is_limited = field.is_some() || since.is_some() || until.is_some();
    let all = |name| Some(texts(matches, name)).filter(|texts| !texts.is_empty());
    StreamGrantRequest {
        name: owned("stream").unwrap_or_default(),
        connection_ids: all("connection"),
        fields: all("field"),
        time_constraint: is_limited.then_some(TimeConstraintRequest { field, since, until }),
        resources: all("record"),
        ..StreamGrantRequest::default()
    }
}

fn document_from_file(path: &str) -> Result<GrantDocument, Failure> {
    let bytes = flags::file_bytes(path)?;
    GrantDocument::parse(&bytes).or_else(|error| refuse(&format!("{path}: {error}")))
}

/// Returns the purpose in the owner's words, or else as the client names it.
fn purpose(grant: &Grant) -> Option<&str> {
    grant.purpose.as_deref().or(grant.stated.purpose_code.as_deref())
}

fn grant_table(grants: &[GrantRecord], now: Instant, colours: Colours) -> String {
    let rows = grants.iter().map(|record| {
        let grant = record.grant.as_ref();
        let streams: Vec<String> = grant
            .iter()
            .flat_map(|grant| &grant.streams)
            .map(|stream| stream.stream.to_string())
            .collect();
        [
            record.id.clone(),
            cell(grant.map(|grant| grant.client.as_str())),
            status_name(record.status(now)).to_owned(),
            grant.map_or_else(|| "-".to_owned(), |grant| minute(grant.issued)),
            grant.and_then(|grant| grant.expires).map_or_else(|| "-".to_owned(), minute),
            streams.join(", "),
            cell(grant.and_then(purpose)),
        ]
    });
    let headings = ["ID", "CLIENT", "STATUS", "MADE (UTC)", "EXPIRES (UTC)", "STREAMS", "PURPOSE"];
    table(colours, headings, rows)
}
