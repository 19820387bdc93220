//! `stile grant`: makes, shows and revokes grants, each of which says what one client may see of
//! the records.

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::records::instant::Instant;
use stile_records::grant_request::{
    GrantRequest, GrantRequestError, StreamGrantRequest, TimeConstraintRequest,
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
    let streams = match text(matches, "from") {
        Some(path) => stream_grants_from_file(path)?,
        None => vec![stream_grant_from_flags(matches)],
    };
    let life = text(matches, "expires").map(|text| {
        let life = duration::parse(text).filter(|life| !life.is_zero());
        let micros = life.and_then(|life| i64::try_from(life.as_micros()).ok());
        micros.ok_or_else(|| {
            Failure::Usage(format!("--expires: `{text}` is not a duration such as 90m, 12h or 30d"))
        })
    });
    let life = life.transpose()?;
    let Owner { services, caller, now } = owner::open(matches, environment)?;
    let wanted = GrantRequest {
        client: text(matches, "client").unwrap_or_default().to_owned(),
        purpose: text(matches, "purpose").map(str::to_owned),
        expires: life.map(|micros| Instant(now.0.saturating_add(micros))),
        single_use: matches.get_flag("single_use"),
        streams,
    };
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
    Ok(writeln!(output, "{}", created.id)?)
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

/// Reads a JSON list of streams, or an object with the member `streams` and no other: a limit that
/// is not read, such as an expiry, would make a broader grant than the file says.
fn stream_grants_from_file(path: &str) -> Result<Vec<StreamGrantRequest>, Failure> {
    let mut json = owner::json_file(path)?;
    if let Some(members) = json.as_object_mut() {
        if let Some(other) = members.keys().find(|name| *name != "streams") {
            return Err(Failure::Usage(format!(
                "{path} has the member `{other}`, but only `streams` is read from a file; send the \
                 rest as options, and take it out of the file; no grant was made"
            )));
        }
        json = members.remove("streams").unwrap_or_default();
    }
    serde_json::from_value(json)
        .map_err(|error| Failure::Usage(format!("{path} is not a list of streams: {error}")))
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
        ]
    });
    table(["ID", "CLIENT", "STATUS", "MADE (UTC)", "EXPIRES (UTC)", "STREAMS"], rows)
}
