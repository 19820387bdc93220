//! The records that a client asks for, and the grant that the owner's consent makes of the request.
//!
//! A request names streams, fields and times. The client learns nothing of what exists before the
//! owner has decided: names are checked when the page is shown, to the owner alone.
//!
//! *Source*: RFC 9396, sections 2 and 5; the `https://pdpp.dev/data-access` type.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::Value;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::visible_time::VisibleTime;
use stile_domain::unseen::shown;
use stile_records::RecordService;
use stile_records::administration::DeclaredStream;
use stile_records::grant_document::{ClientDocument, GrantDocument, REQUEST_TYPE};
use stile_records::grant_request::{StreamGrantRequest, TimeRangeRequest};

use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::parameters::{FormParameters, parse_time};
use super::record_sample::{SampleOf, sample, shown_sample};
use crate::pages::times::{Required, input_value, time_input};

/// The longest `authorization_details`, in bytes.
const MAX_DETAIL_BYTES: usize = 16 * 1024;
/// The most streams of one request.
const MAX_STREAMS: usize = 32;
/// The most streams of which the owner is shown records.
const MAX_SAMPLED: usize = 8;
/// The longest purpose that the owner is asked to read, in characters.
const MAX_PURPOSE_CHARS: usize = 300;

/// The records of this server, and the principal that owns them.
#[derive(Clone)]
pub struct OwnedRecords {
    /// The operations on the records.
    pub service: RecordService,
    /// The owner, who makes grants.
    pub owner: Principal,
}

/// The records that a client asks for.
#[derive(Clone, Debug)]
pub struct AskedRecords {
    document: GrantDocument,
}

/// A grant that was made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeGrant {
    /// The identifier of the grant.
    pub id: String,
    /// Whether one token is all that the grant is good for.
    pub single_use: bool,
}

impl AskedRecords {
    /// Parses `authorization_details`; `None` for an empty list.
    ///
    /// # Errors
    /// `invalid_authorization_details`.
    pub fn parse(text: &str, client: &str) -> Result<Option<Self>, OAuthError> {
        let invalid = |why: String| {
            let why = why.replace(['`', '"', '\\'], "");
            OAuthError::new(OAuthErrorCode::InvalidAuthorizationDetails, why)
        };
        let details = match serde_json::from_str(text) {
            Ok(Value::Array(details)) if text.len() <= MAX_DETAIL_BYTES => details,
            _ => return Err(invalid("authorization_details is not a JSON array".to_owned())),
        };
        let detail = match details.as_slice() {
            [] => return Ok(None),
            [detail] => detail,
            _ => return Err(invalid("a token has one grant; ask for one detail".to_owned())),
        };
        if detail.get("type").and_then(Value::as_str) != Some(REQUEST_TYPE) {
            return Err(invalid(format!("the one type here is {REQUEST_TYPE}")));
        }
        // The reason may quote the client, and an error goes into an address.
        let parsed = GrantDocument::parse(detail.to_string().as_bytes());
        let mut document = parsed.map_err(|_| invalid("the detail is malformed".to_owned()))?;
        if document.streams.is_empty() || document.streams.len() > MAX_STREAMS {
            return Err(invalid(format!("a detail names 1 to {MAX_STREAMS} streams")));
        }
        let purpose = document.purpose_description.as_deref().unwrap_or_default();
        if purpose.chars().count() > MAX_PURPOSE_CHARS {
            let why = format!("purpose_description has more than {MAX_PURPOSE_CHARS} characters");
            return Err(invalid(why));
        }
        document.client = Some(ClientDocument { client_id: client.to_owned() });
        let checked = document.clone().into_request(Instant(0));
        checked.map_err(|_| invalid("the members of the detail do not fit together".to_owned()))?;
        Ok(Some(Self { document }))
    }

    /// Returns what the owner decides about each stream, as far as it is `chosen`: all at first.
    pub fn form(
        &self,
        records: &OwnedRecords,
        now: Instant,
        chosen: Option<&FormParameters>,
    ) -> Markup {
        let declared = records.service.list_streams(&records.owner, now).unwrap_or_default();
        let owned = (&records.service, &records.owner);
        html! {
            ul.lines {
                @for (index, stream) in self.document.streams.iter().enumerate() {
                    li {
                        (stream_form(index, stream, &declared, chosen))
                        @if index < MAX_SAMPLED {
                            div id={ "sample-" (index) } data-follows {
                                @let seen = seen(index, stream, &declared, chosen);
                                (sample_of(owned, now, seen, &declared))
                            }
                        }
                    }
                }
            }
            @if let Some(purpose) = &self.document.purpose_description {
                p { "It says that this is for: " (shown(purpose)) }
            }
            @if self.is_single_use() {
                p { "It gets one token, and no other after that." }
            }
        }
    }

    fn is_single_use(&self) -> bool {
        self.document.access_mode.as_deref() == Some("single_use")
    }

    /// Makes the grant that the owner left of the request; `None` if nothing is left. The grant
    /// ends at `expires` at the latest.
    ///
    /// # Errors
    /// The message for the owner; then no grant is made.
    pub fn make_grant(
        &self,
        records: &OwnedRecords,
        form: &FormParameters,
        now: Instant,
        expires: Instant,
    ) -> Result<Option<MadeGrant>, String> {
        let declared = records.service.list_streams(&records.owner, now).unwrap_or_default();
        let streams = self.document.streams.iter().enumerate();
        let kept: Vec<StreamGrantRequest> =
            streams.filter_map(|(index, stream)| kept(index, stream, &declared, form)).collect();
        if kept.is_empty() {
            return Ok(None);
        }
        let mut document = self.document.clone();
        document.streams = kept;
        let mut request = document.into_request(now).map_err(|error| error.to_string())?;
        request.expires = Some(request.expires.map_or(expires, |asked| asked.min(expires)));
        let single_use = request.single_use;
        let made = records.service.create_grant(&records.owner, now, request);
        let made = made.map_err(|error| error.to_string())?;
        Ok(Some(MadeGrant { id: made.id, single_use }))
    }
}

/// Returns the fields that a stream of a request means, with whether a schema requires each.
fn fields_of(stream: &StreamGrantRequest, declared: &[DeclaredStream]) -> Vec<(String, bool)> {
    let having = declared.iter().filter(|known| known.stream.as_str() == stream.name);
    let mut all = BTreeSet::new();
    let mut required = BTreeSet::new();
    for known in having {
        let view = stream.view.as_ref().and_then(|view| known.declaration.view(view));
        match (view, &stream.fields) {
            (Some(view), _) => all.extend(view.iter().cloned()),
            (None, Some(fields)) => all.extend(fields.iter().cloned()),
            (None, None) => {
                all.extend(known.declaration.fields().iter().map(|field| field.name.clone()));
            }
        }
        required.extend(known.declaration.required().iter().cloned());
    }
    all.extend(required.iter().cloned());
    all.into_iter().map(|field| (field.clone(), required.contains(&field))).collect()
}

/// Returns the names of the fields that a stream of a request means.
fn names_of(stream: &StreamGrantRequest, declared: &[DeclaredStream]) -> Vec<String> {
    fields_of(stream, declared).into_iter().map(|(name, _)| name).collect()
}

/// Returns the fields of a stream that the request does not mean.
fn hidden_fields(stream: &StreamGrantRequest, declared: &[DeclaredStream]) -> Vec<String> {
    let asked = names_of(stream, declared);
    let having = declared.iter().filter(|known| known.stream.as_str() == stream.name);
    let all = having.flat_map(|known| known.declaration.fields());
    let hidden: BTreeSet<String> =
        all.map(|field| field.name.clone()).filter(|name| !asked.contains(name)).collect();
    hidden.into_iter().collect()
}

/// Returns the first time that a stream of a request asks for.
fn since_of(stream: &StreamGrantRequest) -> Option<&str> {
    let constraint = stream.time_constraint.as_ref().and_then(|time| time.since.as_deref());
    constraint.or_else(|| stream.time_range.as_ref()?.since.as_deref())
}

/// Returns what the client would see of a stream: what is chosen of it, or all that it asks for.
fn seen(
    index: usize,
    stream: &StreamGrantRequest,
    declared: &[DeclaredStream],
    chosen: Option<&FormParameters>,
) -> Option<StreamGrantRequest> {
    match chosen {
        Some(form) => kept(index, stream, declared, form),
        None => Some(stream.clone()),
    }
}

/// Shows records as the client would see them.
fn sample_of(
    owned: (&RecordService, &Principal),
    now: Instant,
    seen: Option<StreamGrantRequest>,
    declared: &[DeclaredStream],
) -> Markup {
    let Some(seen) = seen else {
        return html! { p class="muted" { "It sees nothing of this." } };
    };
    let (fields, hidden) = (names_of(&seen, declared), hidden_fields(&seen, declared));
    let all: Vec<String> = fields.iter().chain(&hidden).cloned().collect();
    let connections = seen.connection_ids.as_deref().unwrap_or_default();
    let time = times_of(&seen, declared);
    let can_be_shown = seen.resources.is_none() && connections.len() <= 1 && time.is_ok();
    let of = SampleOf {
        stream: &seen.name,
        connection: connections.first().map(String::as_str),
        fields: &all,
        time: time.unwrap_or_default(),
    };
    let records = if can_be_shown { sample(owned, now, &of) } else { Vec::new() };
    shown_sample(&records, &fields, &hidden)
}

/// Returns the times that a stream of a request means, with the field that has them.
fn times_of<'a>(
    stream: &'a StreamGrantRequest,
    declared: &'a [DeclaredStream],
) -> Result<Option<(&'a str, VisibleTime)>, NoTimeField> {
    let constraint = stream.time_constraint.as_ref();
    let bounds = match (constraint, &stream.time_range) {
        (Some(time), _) => [&time.since, &time.until],
        (None, Some(range)) => [&range.since, &range.until],
        (None, None) => return Ok(None),
    };
    let [since, until] = bounds.map(|bound| bound.as_deref().and_then(Instant::parse));
    let having = declared.iter().filter(|known| known.stream.as_str() == stream.name);
    let declared_field = having.filter_map(|known| known.declaration.consent_time_field()).next();
    let field = constraint.and_then(|time| time.field.as_deref()).or(declared_field);
    field.map(|field| Some((field, VisibleTime::new(since, until)))).ok_or(NoTimeField)
}

/// No field has the times that a request limits.
#[derive(Debug)]
struct NoTimeField;

fn stream_form(
    index: usize,
    stream: &StreamGrantRequest,
    declared: &[DeclaredStream],
    chosen: Option<&FormParameters>,
) -> Markup {
    let is_ticked = |id: &str| chosen.is_none_or(|form| form.get(id).is_some());
    let fields = fields_of(stream, declared);
    if fields.is_empty() {
        return html! { "see " (stream.name) " (there is no such stream here, so nothing of it)" };
    }
    let id = format!("stream-{index}");
    let since = since_of(stream);
    html! {
        label class="choice" for=(id) {
            input type="checkbox" id=(id) name=(id) value="on" checked[is_ticked(&id)];
            span {
                "see these fields of " strong { (stream.name) }
                @if let Some(since) = since { " since " (since) }
                span class="muted" { (held(stream, declared)) }
            }
        }
        ul.fields {
            @for (field, is_required) in &fields {
                @let id = format!("field-{index}-{field}");
                li {
                    @if *is_required {
                        label class="choice" for=(id) {
                            input type="checkbox" id=(id) checked disabled;
                            span { (shown(field)) " (every record has it)" }
                        }
                    } @else {
                        label class="choice" for=(id) {
                            input type="checkbox" id=(id) name=(id) value="on"
                                checked[is_ticked(&id)];
                            span { (shown(field)) }
                        }
                    }
                }
            }
        }
        @let id = format!("since-{index}");
        @let since = chosen.and_then(|form| parse_time(form.get(&id)?)).map(input_value);
        div class="narrower" {
            div {
                (time_input(&id, "Only records since, optional",
                    since.as_deref().unwrap_or_default(), Required::No))
            }
        }
    }
}

/// Returns how many records a stream holds, and where they are from: `, 1204 records from gmail`.
fn held(stream: &StreamGrantRequest, declared: &[DeclaredStream]) -> String {
    let having: Vec<&DeclaredStream> =
        declared.iter().filter(|known| known.stream.as_str() == stream.name).collect();
    let records: u64 = having.iter().map(|known| known.records).sum();
    let connections: Vec<&str> = having.iter().map(|known| known.connection.as_str()).collect();
    let noun = if records == 1 { "record" } else { "records" };
    format!(", {records} {noun} from {}", connections.join(", "))
}

/// Returns what the form leaves of a stream; `None` if it is removed.
fn kept(
    index: usize,
    stream: &StreamGrantRequest,
    declared: &[DeclaredStream],
    form: &FormParameters,
) -> Option<StreamGrantRequest> {
    form.get(&format!("stream-{index}"))?;
    let fields: Vec<String> = fields_of(stream, declared)
        .into_iter()
        .filter(|(field, is_required)| {
            *is_required || form.get(&format!("field-{index}-{field}")).is_some()
        })
        .map(|(field, _)| field)
        .collect();
    if fields.is_empty() {
        return None;
    }
    let mut kept = StreamGrantRequest { fields: Some(fields), view: None, ..stream.clone() };
    if let Some(since) = form.get(&format!("since-{index}")) {
        // A date that cannot be read must not widen the grant.
        let wanted = parse_time(since)?;
        let is_later = since_of(stream).and_then(Instant::parse).is_none_or(|asked| asked < wanted);
        if is_later {
            let since = Some(wanted.to_rfc3339());
            match (&mut kept.time_constraint, &mut kept.time_range) {
                (Some(constraint), _) => constraint.since = since,
                (None, Some(range)) => range.since = since,
                (None, empty) => *empty = Some(TimeRangeRequest { since, until: None }),
            }
        }
    }
    Some(kept)
}
