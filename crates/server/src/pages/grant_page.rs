//! The page that makes a grant on records: the owner chooses connection, stream, fields and time,
//! and sees two records as the client will see them beside what it will not.
//!
//! The grant is made as `stile grant create` makes it, and a token for it as `stile token --grant`
//! does, which the page shows once. What is chosen is never more than the form names.

use std::collections::BTreeSet;

use axum::body::Body;
use http::Response;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::records::visible_time::VisibleTime;
use stile_domain::scope::Scopes;
use stile_records::administration::DeclaredStream;
use stile_records::grant_document::{ClientDocument, GrantDocument};
use stile_records::grant_request::{StreamGrantRequest, TimeConstraintRequest};

use super::access_rows::{continued, seen_sentence};
use super::connect_page;
use super::frame::GRANT_PATH;
use super::grant_view::{FIELD, FieldRow, GrantView, SHOW, StreamsView};
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::input_value;
use crate::auth::{MintRequest, MintedToken};
use crate::sign_in::parameters::parse_time;
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::record_sample::{SampleOf, sample};
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (GRANT_PATH, "Make a grant");
/// The longest purpose, in characters.
const MAX_PURPOSE_CHARS: usize = 300;

/// Shows the streams, or what can be granted of one, or sends a browser without a session to sign
/// in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        let records = records(visit)?;
        let streams = streams(visit, &records)?;
        if visit.text("stream").is_empty() {
            return Ok(StreamsView { streams: &streams }.markup());
        }
        let chosen = Chosen::of(visit, &streams)?;
        Ok(chosen.view(visit, &records).markup())
    })
}

/// Makes the grant that the form chose, and a token for it; or shows what the choices mean.
pub fn make(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        let records = records(visit)?;
        let streams = streams(visit, &records)?;
        let chosen = Chosen::of(visit, &streams)?;
        if visit.text("do") == SHOW {
            return Ok(Outcome::Page(chosen.view(visit, &records).markup()));
        }
        let (order, minted) = grant(visit, &records, &chosen)?;
        let said = continued(&chosen.sentence());
        Ok(Outcome::Page(connect_page::made(visit, &order, &minted, &said)))
    })
}

fn records(visit: &Visit<'_>) -> Result<OwnedRecords, PageError> {
    visit.owner_space()?;
    visit.records().ok_or(PageError::Absent("There are no records here."))
}

fn streams(visit: &Visit<'_>, records: &OwnedRecords) -> Result<Vec<DeclaredStream>, PageError> {
    let listed = records.service.list_streams(&records.owner, visit.server.instant());
    listed.map_err(|problem| PageError::logged(&problem))
}

/// Makes the grant and its token.
fn grant(
    visit: &Visit<'_>,
    records: &OwnedRecords,
    chosen: &Chosen<'_>,
) -> Result<(MintRequest, MintedToken), PageError> {
    let client = visit.text("client").trim();
    if client.is_empty() {
        return Err(PageError::Refused("A grant needs the name of its client.".to_owned()));
    }
    if chosen.fields.is_empty() {
        let why = "Choose at least one field that the client sees; no grant was made.";
        return Err(PageError::Refused(why.to_owned()));
    }
    let now = visit.server.instant();
    let life = connect_page::life(visit);
    let micros = i64::try_from(life.as_micros()).unwrap_or(i64::MAX);
    let purpose: String = visit.text("purpose").trim().chars().take(MAX_PURPOSE_CHARS).collect();
    let mut document = GrantDocument::of_streams(vec![chosen.request()]);
    document.client = Some(ClientDocument { client_id: client.to_owned() });
    document.purpose_description = Some(purpose).filter(|purpose| !purpose.is_empty());
    document.expires_at = Some(Instant(now.0.saturating_add(micros)).to_rfc3339());
    let refused = |why: String| PageError::Refused(format!("{why}; no grant was made."));
    let request = document.into_request(now).map_err(|error| refused(error.to_string()))?;
    let made = records.service.create_grant(&records.owner, now, request);
    let made = made.map_err(|error| refused(error.to_string()))?;
    let order = MintRequest {
        subject: visit.session.subject.clone(),
        scopes: Scopes::none(),
        client: Some(client.to_owned()),
        records: RecordsClaim::Grant(made.id.as_str().into()),
        life,
    };
    let minted = visit.server.minter().mint(&order, (visit.server.settings.clock)());
    match minted {
        Ok(minted) => Ok((order, minted)),
        Err(error) => {
            // A grant that no token names shows nobody anything.
            let revoked = records.service.revoke_grant(&records.owner, &made.id, now);
            revoked.map_err(|problem| PageError::logged(&problem))?;
            Err(refused(error.to_string()))
        }
    }
}

/// What the owner chose of a stream.
struct Chosen<'a> {
    stream: &'a DeclaredStream,
    /// The fields that the client sees: those that every record has, and those that are ticked.
    fields: BTreeSet<String>,
    since: Option<Instant>,
    until: Option<Instant>,
}

impl<'a> Chosen<'a> {
    fn of(visit: &Visit<'_>, streams: &'a [DeclaredStream]) -> Result<Self, PageError> {
        let (connection, name) = (visit.text("connection"), visit.text("stream"));
        let stream = streams.iter().find(|stream| {
            stream.connection.as_str() == connection && stream.stream.as_str() == name
        });
        let stream = stream.ok_or(PageError::Absent("There is no such stream."))?;
        let time = |field: &str| {
            let text = visit.parameters.get(field);
            // A time that cannot be read must not widen the grant.
            let unreadable = || PageError::Refused("The time cannot be read.".to_owned());
            text.map(|text| parse_time(text).ok_or_else(unreadable)).transpose()
        };
        let all = stream.declaration.fields().iter();
        let ticked = all.enumerate().filter(|(number, field)| {
            // The name is compared too: the page may be older than the declaration.
            visit.parameters.get(&format!("{FIELD}{number}")) == Some(field.name.as_str())
        });
        let ticked = ticked.map(|(_, field)| field.name.clone());
        let required = stream.declaration.required().iter().cloned();
        let fields = ticked.chain(required).collect();
        Ok(Self { stream, fields, since: time("since")?, until: time("until")? })
    }

    fn time_field(&self) -> Option<&'a str> {
        self.stream.declaration.consent_time_field()
    }

    /// Returns what is requested of the records.
    fn request(&self) -> StreamGrantRequest {
        let text = |time: Option<Instant>| time.map(Instant::to_rfc3339);
        let is_limited = self.since.is_some() || self.until.is_some();
        StreamGrantRequest {
            name: self.stream.stream.as_str().to_owned(),
            connection_ids: Some(vec![self.stream.connection.as_str().to_owned()]),
            fields: Some(self.fields.iter().cloned().collect()),
            time_constraint: is_limited.then(|| TimeConstraintRequest {
                field: None,
                since: text(self.since),
                until: text(self.until),
            }),
            ..StreamGrantRequest::default()
        }
    }

    /// Says what the client may see, as the list of grants does.
    fn sentence(&self) -> String {
        seen_sentence(
            self.stream.stream.as_str(),
            [self.stream.connection.as_str()].into_iter(),
            self.fields.iter().map(String::as_str),
            [self.since, self.until],
        )
    }

    fn view(&self, visit: &Visit<'_>, records: &OwnedRecords) -> GrantView {
        let declaration = &self.stream.declaration;
        let all: Vec<String> =
            declaration.fields().iter().map(|field| field.name.clone()).collect();
        let is_limited = self.since.is_some() || self.until.is_some();
        let times = VisibleTime::new(self.since, self.until);
        let of = SampleOf {
            stream: self.stream.stream.as_str(),
            connection: Some(self.stream.connection.as_str()),
            fields: &all,
            time: self.time_field().filter(|_| is_limited).map(|field| (field, times)),
        };
        let owned = (&records.service, &records.owner);
        let rows = declaration.fields().iter().map(|field| FieldRow {
            name: field.name.clone(),
            kind: field.described_type(),
            is_required: declaration.required().contains(&field.name),
            is_seen: self.fields.contains(&field.name),
        });
        GrantView {
            csrf_token: visit.session.csrf_token(),
            connection: self.stream.connection.as_str().to_owned(),
            stream: self.stream.stream.as_str().to_owned(),
            records: self.stream.records,
            fields: rows.collect(),
            time_field: self.time_field().map(str::to_owned),
            since: self.since.map(input_value).unwrap_or_default(),
            until: self.until.map(input_value).unwrap_or_default(),
            client: visit.text("client").to_owned(),
            purpose: visit.text("purpose").to_owned(),
            duration: visit.text("duration").to_owned(),
            sentence: self.sentence(),
            sample: sample(owned, visit.server.instant(), &of),
        }
    }
}
