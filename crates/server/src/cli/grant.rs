//! `stile grant`: makes, shows and revokes grants, each of which says what one client may see of
//! the records.

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::records::grant::{Grant, StatedTerms};
use stile_domain::records::instant::Instant;
use stile_records::grant_request::{
    GrantDocument, GrantRequest, GrantRequestError, StreamGrantRequest, TimeConstraintRequest,
};
use stile_store::records::{GrantRecord, GrantStatus};

use super::owner::{Owner, minute, text, texts};
use super::table::{cell, table};
use super::{Failure, Invocation, duration, owner};

pub(super) fn run(
    Invocation { matches, environment, output }: Invocation<'_>,
) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("create", matches)) => create(Invocation { matches, environment, output }),
        Some(("list", matches)) => {
            let Owner { services, caller, now } = owner::open(matches, environment)?;
            let grants = services.grants(&caller)?;
            if matches.get_flag("json") {
                let grants = grants.iter().map(|grant| to_json(grant, now));
                return Ok(writeln!(output, "{:#}", Value::from_iter(grants))?);
            }
            Ok(output.write_all(grant_table(&grants, now).as_bytes())?)
        }
        Some(("show", matches)) => {
            let owner = owner::open(matches, environment)?;
            let grant = find(&owner, text(matches, "id").unwrap_or_default())?;
            Ok(writeln!(output, "{:#}", to_json(&grant, owner.now))?)
        }
        Some(("revoke", matches)) => {
            let Owner { services, caller, now } = owner::open(matches, environment)?;
            let id = text(matches, "id").unwrap_or_default();
            match services.revoke_grant(&caller, id, now)? {
                None => return Err(unknown(id)),
                Some(None) => writeln!(
                    output,
                    "{id} is revoked; every server refuses it from the next request on"
                )?,
                Some(Some(when)) => {
                    writeln!(output, "{id} was revoked before, on {}", minute(when))?
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn find(owner: &Owner, id: &str) -> Result<GrantRecord, Failure> {
    let grants = owner.services.grants(&owner.caller)?;
    grants.into_iter().find(|grant| grant.id == id).ok_or_else(|| unknown(id))
}

pub(super) fn status_name(status: GrantStatus) -> &'static str {
    match status {
        GrantStatus::Active => "active",
        GrantStatus::Expired => "expired",
        GrantStatus::Revoked => "revoked",
        GrantStatus::Invalid => "damaged",
    }
}

fn unknown(id: &str) -> Failure {
    Failure::Failed(format!(
        "there is no grant `{}`; `stile grant list` shows all of them",
        id.escape_debug()
    ))
}

fn create(Invocation { matches, environment, output }: Invocation<'_>) -> Result<(), Failure> {
    let document = match text(matches, "from") {
        Some(path) => document_from_file(path)?,
        None => GrantDocument::of_streams(vec![stream_grant_from_flags(matches)]),
    };
    let passed_over = document.passed_over().join(", ");
    let life = life(matches)?;
    let Owner { services, caller, now } = owner::open(matches, environment)?;
    let wanted = grant_request(document, matches, life, now)?;
    let created = services.create_grant(&caller, now, wanted).map_err(|error| match error {
        GrantRequestError::Problem(problem) => Failure::from(problem),
        GrantRequestError::Invalid(why) => Failure::Usage(why),
    })?;
    for (stream, field) in &created.added {
        owner::print_to_stderr(&format!(
            "`{}` is granted too: the stream `{stream}` requires it",
            cell(Some(field))
        ))?;
    }
    if !passed_over.is_empty() {
        owner::print_to_stderr(&format!("not taken over from the file: {passed_over}"))?;
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

/// Joins what the file and the options say of a grant. Neither wins over the other: what both say
/// is an error.
fn grant_request(
    document: GrantDocument,
    matches: &ArgMatches,
    life: Option<i64>,
    now: Instant,
) -> Result<GrantRequest, Failure> {
    if document.is_broader_than_its_source() {
        return refuse(
            "the file has `source`, and a stream without `instance_ids`; name the connections of \
             that source",
        );
    }
    let client = text(matches, "client").unwrap_or_default().to_owned();
    if document.client.is_some_and(|named| named.client_id != client) {
        return refuse("the file names another client than --client");
    }
    let purpose = text(matches, "purpose").map(str::to_owned);
    let purpose =
        one_of(purpose, document.purpose_description, "--purpose", "purpose_description")?;
    let after_life = life.map(|micros| Instant(now.0.saturating_add(micros)));
    let until = document.expires_at.as_deref().map(expiry).transpose()?;
    let expires = one_of(after_life, until, "--expires", "expires_at")?;
    if expires.is_some_and(|expires| expires <= now) {
        return refuse("`expires_at` is in the past");
    }
    let mode = document.access_mode.as_deref().map(is_single_use).transpose()?;
    let flag = matches.get_flag("single_use").then_some(true);
    // The option asks for what the file may say too.
    let flag = flag.filter(|_| mode != Some(true));
    let single_use = one_of(flag, mode, "--single-use", "access_mode")?.unwrap_or(false);
    let stated = StatedTerms {
        purpose_code: document.purpose_code,
        source: document.source,
        retention: document.retention,
    };
    let streams = document.streams;
    Ok(GrantRequest { client, purpose, expires, single_use, stated, streams })
}

/// Returns the value of an option or of a member of the file, whichever there is.
fn one_of<T>(
    option: Option<T>,
    member: Option<T>,
    option_name: &str,
    member_name: &str,
) -> Result<Option<T>, Failure> {
    if option.is_some() && member.is_some() {
        return refuse(&format!(
            "the file has `{member_name}`, and {option_name} was sent too; send one of them"
        ));
    }
    Ok(option.or(member))
}

fn expiry(text: &str) -> Result<Instant, Failure> {
    match Instant::parse(text) {
        Some(instant) => Ok(instant),
        None => refuse("`expires_at` is not a time such as 2026-01-31T12:00:00Z"),
    }
}

fn is_single_use(access_mode: &str) -> Result<bool, Failure> {
    match access_mode {
        "single_use" => Ok(true),
        "continuous" => Ok(false),
        _ => refuse("`access_mode` is `continuous` or `single_use`"),
    }
}

fn refuse<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::Usage(format!("{why}; no grant was made")))
}

fn stream_grant_from_flags(matches: &ArgMatches) -> StreamGrantRequest {
    let owned = |name| text(matches, name).map(str::to_owned);
    let (field, since, until) = (owned("time_field"), owned("since"), owned("until"));
    let is_limited = field.is_some() || since.is_some() || until.is_some();
    let all = |name| Some(texts(matches, name)).filter(|texts| !texts.is_empty());
    StreamGrantRequest {
        name: owned("stream").unwrap_or_default(),
        connection_ids: all("connection"),
        fields: all("field"),
        time_constraint: is_limited.then_some(TimeConstraintRequest { field, since, until }),
        resources: all("record"),
    }
}

/// Reads a grant, or a JSON list of its streams. A member that is not understood is an error: a
/// limit that is not read would make a broader grant than the file says.
fn document_from_file(path: &str) -> Result<GrantDocument, Failure> {
    let json = owner::json_file(path)?;
    let document = if json.is_array() {
        serde_json::from_value(json).map(GrantDocument::of_streams)
    } else {
        serde_json::from_value::<GrantDocument>(json)
    };
    match document {
        Err(error) => refuse(&format!("{path} is not a grant: {error}")),
        Ok(GrantDocument { version: Some(version), .. }) if version != "0.1.0" => {
            refuse(&format!("{path} is a grant of another version than 0.1.0"))
        }
        Ok(document) => Ok(document),
    }
}

fn to_json(grant: &GrantRecord, now: Instant) -> Value {
    let content = grant
        .grant
        .as_ref()
        .and_then(|grant| serde_json::from_str::<Value>(&grant.to_json().ok()?).ok());
    json!({
        "id": grant.id,
        "status": status_name(grant.status(now)),
        "revoked_at": grant.revoked.map(Instant::to_rfc3339),
        "bound_to": grant.bound,
        "grant": content,
    })
}

/// Returns the purpose in the owner's words, or else as the client names it.
fn purpose(grant: &Grant) -> Option<&str> {
    grant.purpose.as_deref().or(grant.stated.purpose_code.as_deref())
}

fn grant_table(grants: &[GrantRecord], now: Instant) -> String {
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
    table(["ID", "CLIENT", "STATUS", "MADE (UTC)", "EXPIRES (UTC)", "STREAMS", "PURPOSE"], rows)
}
