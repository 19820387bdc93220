//! A grant: what the owner lets one client see of the records, by stream, connection, field, time
//! and key.
//!
//! A grant names everything that it allows. It never allows what it does not name, whatever is
//! declared or stored later. A grant is stored as JSON and parsed as strictly as it is made. An
//! unknown member, an empty list, a constraint without a bound, or another version makes a grant
//! invalid, and an invalid grant allows nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::identifiers::{RecordKey, SourceName, is_field_name};
use super::instant::Instant;
use super::visible_time::VisibleTime;

const VERSION: &str = "0.1.0";
/// The largest grant, in bytes of JSON.
pub const MAX_GRANT_BYTES: usize = 4 << 20;
/// The longest client name and the longest purpose, in bytes.
const MAX_TEXT_BYTES: usize = 2000;

/// What one client may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the client.
    pub client: String,
    /// The purpose in the owner's words.
    pub purpose: Option<String>,
    /// When the owner made the grant.
    pub issued: Instant,
    /// When the grant expires; absent if it never does.
    pub expires: Option<Instant>,
    /// Whether only the first token that presents the grant may use it.
    pub single_use: bool,
    /// What the owner states beside that.
    pub stated: StatedTerms,
    /// What the grant allows of each stream. No stream occurs twice.
    pub streams: Vec<StreamGrant>,
}

/// Terms of a grant that the server keeps, shows and does not enforce: they bind the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedTerms {
    /// The purpose, as an absolute URI.
    pub purpose_code: Option<String>,
    /// The source of the records, for other programs.
    pub source: Option<StatedSource>,
    /// How long the client may keep what it read.
    pub retention: Option<Retention>,
}

/// The source of granted records, as another program names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object with `kind` and `id`")]
pub struct StatedSource {
    /// What the source is: `connector` or `provider_native`.
    pub kind: String,
    /// The name of the source, an absolute URI.
    pub id: String,
}

/// How long a client may keep what it read, and what it does then.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object with `max_duration`")]
pub struct Retention {
    /// A duration such as `P6M`. *Source*: ISO 8601.
    pub max_duration: String,
    /// What the client then does: `delete` or `anonymize`.
    pub on_expiry: String,
}

/// What a grant allows of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGrant {
    /// The name of the stream.
    pub stream: SourceName,
    /// The names of the connections, at least one.
    pub connections: BTreeSet<SourceName>,
    /// The names of the fields, at least one.
    pub fields: BTreeSet<String>,
    /// The limits on the records' times, if any.
    pub time: Option<TimeConstraint>,
    /// The keys of the records, at least one; absent if all keys are allowed.
    pub keys: Option<BTreeSet<String>>,
}

/// The time that a record must have to be visible. A record without a known time is hidden.
///
/// Whether a record is shown is asked of [`TimeConstraint::visible`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeConstraint {
    field: String,
    since: Option<Instant>,
    until: Option<Instant>,
}

impl TimeConstraint {
    /// Makes the constraint on a field: from `since` on and before `until`. A grant checks that
    /// there is one of them.
    pub fn new(field: String, since: Option<Instant>, until: Option<Instant>) -> Self {
        Self { field, since, until }
    }

    /// Returns the field that holds the time. It is frozen: a later declaration does not change
    /// it.
    pub fn field(&self) -> &String {
        &self.field
    }

    /// Returns the first time that is shown and the first after it that is not, to say them to the
    /// owner.
    pub fn stated_bounds(&self) -> [Option<Instant>; 2] {
        [self.since, self.until]
    }

    /// Returns the rule of the times that the constraint shows.
    pub fn visible(&self) -> VisibleTime {
        VisibleTime::new(self.since, self.until)
    }
}

/// Why a grant cannot be made or used, as a message for the owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadGrant(pub String);

fn bad<T>(why: impl Into<String>) -> Result<T, BadGrant> {
    Err(BadGrant(why.into()))
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WireGrant {
    version: String,
    issued_at: String,
    client: WireClient,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    purpose_description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    purpose_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<StatedSource>,
    access_mode: String,
    streams: Vec<WireStreamGrant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retention: Option<Retention>,
    #[serde(default)]
    expires_at: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WireClient {
    client_id: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WireStreamGrant {
    name: SourceName,
    connection_ids: Vec<SourceName>,
    fields: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_constraint: Option<WireTimeConstraint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resources: Option<Vec<String>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WireTimeConstraint {
    field: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

impl Grant {
    /// Whether the grant names a stream of a connection, and one of the records with these keys, if
    /// there are any.
    pub fn names(
        &self,
        connection: &SourceName,
        stream: &SourceName,
        records: &[RecordKey],
    ) -> bool {
        self.streams.iter().any(|granted| {
            let names_key = |key: &RecordKey| {
                granted.keys.as_ref().is_some_and(|keys| keys.contains(key.as_str()))
            };
            granted.stream == *stream
                && granted.connections.contains(connection)
                && (records.is_empty() || records.iter().any(names_key))
        })
    }

    /// Parses what [`Grant::to_json`] wrote.
    ///
    /// # Errors
    /// [`BadGrant`]; the grant then allows nothing.
    pub fn parse(json: &str) -> Result<Self, BadGrant> {
        if json.len() > MAX_GRANT_BYTES {
            return bad("a grant has at most 4 MiB");
        }
        let wire: WireGrant = serde_json::from_str(json)
            .map_err(|error| BadGrant(format!("not a grant: {error}")))?;
        if wire.version != VERSION {
            return bad("the grant is of another version");
        }
        let single_use = match wire.access_mode.as_str() {
            "continuous" => false,
            "single_use" => true,
            _ => return bad("`access_mode` is `continuous` or `single_use`"),
        };
        let grant = Self {
            client: wire.client.client_id,
            purpose: wire.purpose_description,
            issued: instant("issued_at", &wire.issued_at)?,
            expires: wire
                .expires_at
                .as_deref()
                .map(|text| instant("expires_at", text))
                .transpose()?,
            single_use,
            stated: StatedTerms {
                purpose_code: wire.purpose_code,
                source: wire.source,
                retention: wire.retention,
            },
            streams: wire
                .streams
                .into_iter()
                .map(WireStreamGrant::read)
                .collect::<Result<_, _>>()?,
        };
        grant.check()?;
        Ok(grant)
    }

    /// Formats the grant as JSON.
    ///
    /// # Errors
    /// [`BadGrant`] if the grant could not be parsed again.
    pub fn to_json(&self) -> Result<String, BadGrant> {
        self.check()?;
        let wire = WireGrant {
            version: VERSION.to_owned(),
            issued_at: self.issued.to_rfc3339(),
            client: WireClient { client_id: self.client.clone() },
            purpose_description: self.purpose.clone(),
            purpose_code: self.stated.purpose_code.clone(),
            source: self.stated.source.clone(),
            retention: self.stated.retention.clone(),
            access_mode: if self.single_use { "single_use" } else { "continuous" }.to_owned(),
            streams: self.streams.iter().map(WireStreamGrant::write).collect(),
            expires_at: self.expires.map(Instant::to_rfc3339),
        };
        let json = serde_json::to_string(&wire).map_err(|error| BadGrant(error.to_string()))?;
        if json.len() > MAX_GRANT_BYTES {
            return bad("a grant has at most 4 MiB; name fewer records");
        }
        Ok(json)
    }

    fn check(&self) -> Result<(), BadGrant> {
        check_text("client", &self.client)?;
        self.purpose.as_deref().map_or(Ok(()), |purpose| check_text("purpose", purpose))?;
        self.stated.check()?;
        if self.streams.is_empty() {
            return bad("a grant names at least one stream");
        }
        let names: BTreeSet<&SourceName> =
            self.streams.iter().map(|granted| &granted.stream).collect();
        if names.len() != self.streams.len() {
            return bad("a grant names each stream once");
        }
        let times = [Some(self.issued), self.expires];
        let bounds = self.streams.iter().filter_map(|granted| granted.time.as_ref());
        let times =
            times.into_iter().chain(bounds.flat_map(|time| [time.since, time.until])).flatten();
        if times.into_iter().any(|time| !(Instant::FIRST..=Instant::LAST).contains(&time)) {
            return bad("a time of a grant lies in the years 0000 to 9999");
        }
        self.streams.iter().try_for_each(StreamGrant::check)
    }
}

impl StatedTerms {
    fn check(&self) -> Result<(), BadGrant> {
        let addresses = [
            ("purpose_code", self.purpose_code.as_ref()),
            ("source.id", self.source.as_ref().map(|source| &source.id)),
        ];
        for (member, uri) in addresses {
            if uri.is_some_and(|uri| !is_absolute_uri(uri)) {
                return bad(format!(
                    "`{member}` is not an absolute URI such as https://example.com/purpose"
                ));
            }
        }
        let kind = self.source.as_ref().map(|source| source.kind.as_str());
        if kind.is_some_and(|kind| !["connector", "provider_native"].contains(&kind)) {
            return bad("`source.kind` is `connector` or `provider_native`");
        }
        let Some(Retention { max_duration, on_expiry }) = &self.retention else { return Ok(()) };
        if !is_duration(max_duration) {
            return bad("`retention.max_duration` is not a duration such as P6M or PT36H");
        }
        if !["delete", "anonymize"].contains(&on_expiry.as_str()) {
            return bad("`retention.on_expiry` is `delete` or `anonymize`");
        }
        Ok(())
    }
}

/// Returns whether a text has a scheme and something behind it, without spaces (RFC 3986, section
/// 4.3).
fn is_absolute_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    text.len() <= MAX_TEXT_BYTES
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns whether a text is a duration of whole units (ISO 8601-1:2019, section 5.5.2).
fn is_duration(text: &str) -> bool {
    let Some(units) = text.strip_prefix('P') else { return false };
    let (date, time) = match units.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (units, None),
    };
    let are_units = |mut rest: &str, mut left: &str| {
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let unit = rest.get(digits..).and_then(|after| after.chars().next());
            let Some((at, unit)) = unit.and_then(|unit| Some((left.find(unit)?, unit))) else {
                return false;
            };
            if !(1..=9).contains(&digits) {
                return false;
            }
            left = left.get(at + 1..).unwrap_or_default();
            rest = rest.get(digits + unit.len_utf8()..).unwrap_or_default();
        }
        true
    };
    let has_time = time.is_none_or(|time| !time.is_empty() && are_units(time, "HMS"));
    text.len() <= 64
        && units.ends_with(|last: char| last.is_ascii_alphabetic() && last != 'T')
        && are_units(date, "YMWD")
        && has_time
}

impl StreamGrant {
    fn check(&self) -> Result<(), BadGrant> {
        let stream = &self.stream;
        if self.connections.is_empty() {
            return bad(format!("`{stream}`: a grant names at least one connection"));
        }
        if self.fields.is_empty() {
            return bad(format!("`{stream}`: a grant names at least one field"));
        }
        if let Some(field) = self.fields.iter().find(|field| !is_field_name(field)) {
            return bad(format!("`{stream}`: `{field}` cannot be the name of a field"));
        }
        match &self.keys {
            Some(keys) if keys.is_empty() => {
                return bad(format!("`{stream}`: a list of records names at least one"));
            }
            Some(keys) if keys.iter().any(|key| RecordKey::parse(key).is_err()) => {
                return bad(format!("`{stream}`: a record key has 1 to 512 bytes"));
            }
            _ => {}
        }
        let Some(TimeConstraint { field, since, until }) = &self.time else { return Ok(()) };
        if !is_field_name(field) {
            return bad(format!("`{stream}`: `{field}` cannot be the name of a field"));
        }
        match (since, until) {
            (None, None) => {
                bad(format!("`{stream}`: a time constraint has a `since` or an `until`"))
            }
            (Some(since), Some(until)) if since > until => {
                bad(format!("`{stream}`: `since` is after `until`"))
            }
            _ => Ok(()),
        }
    }
}

impl WireStreamGrant {
    fn read(self) -> Result<StreamGrant, BadGrant> {
        let time = match self.time_constraint {
            None => None,
            Some(WireTimeConstraint { field, since, until }) => Some(TimeConstraint {
                field,
                since: since.as_deref().map(|text| instant("since", text)).transpose()?,
                until: until.as_deref().map(|text| instant("until", text)).transpose()?,
            }),
        };
        Ok(StreamGrant {
            stream: self.name,
            connections: unique("connection_ids", self.connection_ids)?,
            fields: unique("fields", self.fields)?,
            time,
            keys: self.resources.map(|keys| unique("resources", keys)).transpose()?,
        })
    }

    fn write(granted: &StreamGrant) -> Self {
        Self {
            name: granted.stream.clone(),
            connection_ids: granted.connections.iter().cloned().collect(),
            fields: granted.fields.iter().cloned().collect(),
            time_constraint: granted.time.as_ref().map(|time| WireTimeConstraint {
                field: time.field.clone(),
                since: time.since.map(Instant::to_rfc3339),
                until: time.until.map(Instant::to_rfc3339),
            }),
            resources: granted.keys.as_ref().map(|keys| keys.iter().cloned().collect()),
        }
    }
}

fn unique<T: Ord>(member: &str, items: Vec<T>) -> Result<BTreeSet<T>, BadGrant> {
    let count = items.len();
    let set: BTreeSet<T> = items.into_iter().collect();
    if set.len() == count { Ok(set) } else { bad(format!("`{member}` names something twice")) }
}

fn instant(member: &str, text: &str) -> Result<Instant, BadGrant> {
    Instant::parse(text).ok_or_else(|| {
        BadGrant(format!("`{member}` is not a date or a time such as 2026-01-31T12:00:00Z"))
    })
}

fn check_text(what: &str, text: &str) -> Result<(), BadGrant> {
    let fits = (1..=MAX_TEXT_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        bad(format!("the {what} has 1 to {MAX_TEXT_BYTES} bytes without control characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version":"0.1.0","issued_at":"2026-01-02T03:04:05Z",
        "client":{"client_id":"Cursor"},"access_mode":"continuous","streams":[{"name":"messages",
        "connection_ids":["mail"],"fields":["id","body"],
        "time_constraint":{"field":"sent_at","since":"2026-01-01"},"resources":["k"]}],
        "expires_at":null}"#;

    fn with(from: &str, to: &str) -> Result<Grant, BadGrant> {
        assert!(GOOD.contains(from), "{from}");
        Grant::parse(&GOOD.replace(from, to))
    }

    #[test]
    fn a_grant_survives_writing_and_parsing() {
        let grant = Grant::parse(GOOD).unwrap();
        assert_eq!(Grant::parse(&grant.to_json().unwrap()).unwrap(), grant);
        assert!(grant.streams[0].fields.contains("body"));
        let too_late = Grant { expires: Some(Instant(i64::MAX)), ..grant };
        assert!(too_late.to_json().is_err(), "a grant that could not be parsed is not written");
    }

    #[test]
    fn stated_terms_are_kept_and_checked() {
        let all = "\"purpose_code\":\"https://x.example/p\",\"source\":{\"kind\":\"connector\",\
                   \"id\":\"urn:x:mail\"},\"retention\":{\"max_duration\":\"P6M\",\"on_expiry\":\
                   \"delete\"},\"expires_at\"";
        let grant = with("\"expires_at\"", all).unwrap();
        assert_eq!(Grant::parse(&grant.to_json().unwrap()).unwrap(), grant);
        assert_eq!(grant.stated.retention.as_ref().unwrap().max_duration, "P6M");
        for (from, to) in [
            ("https://x.example/p", "marketing"),
            ("https://x.example/p", "https:"),
            ("https://x.example/p", "1s:x"),
            ("urn:x:mail", "urn:x mail"),
            ("connector", "other"),
            ("delete", "sell"),
            ("\"on_expiry\":\"delete\"", "\"on_expiry\":\"delete\",\"x\":1"),
        ] {
            assert!(with("\"expires_at\"", &all.replace(from, to)).is_err(), "{to}");
        }
        for (text, is) in [
            ("P1Y2M3W4DT5H6M7S", true),
            ("PT36H", true),
            ("P10D", true),
            ("P", false),
            ("PT", false),
            ("P1DT", false),
            ("P1", false),
            ("PM", false),
            ("P1D1M", false),
            ("P1H", false),
            ("6M", false),
            ("P-1D", false),
            ("P1.5D", false),
            ("P1é", false),
        ] {
            assert_eq!(is_duration(text), is, "{text}");
        }
    }

    #[test]
    fn a_grant_is_for_continuous_or_for_single_use() {
        assert!(!with("continuous", "continuous").unwrap().single_use);
        let once = with("continuous", "single_use").unwrap();
        assert!(once.single_use);
        assert_eq!(Grant::parse(&once.to_json().unwrap()).unwrap(), once);
    }

    #[test]
    fn a_time_constraint_may_end_when_it_begins_or_later() {
        for until in ["2026-01-01", "2026-01-02"] {
            let both = format!("\"since\":\"2026-01-01\",\"until\":\"{until}\"");
            assert!(with("\"since\":\"2026-01-01\"", &both).is_ok(), "{until}");
        }
    }

    #[test]
    fn a_grant_has_at_most_4_mib_when_it_is_parsed_and_when_it_is_written() {
        let padded = |length: usize| GOOD.to_owned() + &" ".repeat(length - GOOD.len());
        assert!(Grant::parse(&padded(MAX_GRANT_BYTES)).is_ok());
        assert!(Grant::parse(&padded(MAX_GRANT_BYTES + 1)).is_err());
        // Each key takes its length and three bytes more.
        let mut grant = Grant::parse(GOOD).unwrap();
        let mut left = MAX_GRANT_BYTES - grant.to_json().unwrap().len();
        let keys = grant.streams[0].keys.as_mut().unwrap();
        for number in 0.. {
            let length = if left > 512 { 400 } else { left - 3 };
            keys.insert(format!("{number:0>length$}"));
            left -= length + 3;
            if left == 0 {
                break;
            }
        }
        let longest = grant.to_json().unwrap();
        assert_eq!(longest.len(), MAX_GRANT_BYTES);
        assert!(Grant::parse(&longest).is_ok());
        grant.streams[0].fields.insert("one more".to_owned());
        assert!(grant.to_json().is_err());
    }

    #[test]
    fn a_malformed_grant_is_refused() {
        for (from, to) in [
            ("0.1.0", "0.2.0"),
            ("continuous", "often"),
            ("\"expires_at\":null", "\"expires_at\":\"soon\""),
            ("\"expires_at\":null", "\"expires\":null"),
            ("[\"mail\"]", "[]"),
            ("[\"mail\"]", "[\"mail\",\"mail\"]"),
            ("[\"mail\"]", "[\"../mail\"]"),
            ("[\"id\",\"body\"]", "[]"),
            ("[\"id\",\"body\"]", "[\"\"]"),
            ("[\"id\",\"body\"]", "[\"id\",\"id\"]"),
            ("[\"k\"]", "[]"),
            ("[\"k\"]", "[\"\"]"),
            (",\"since\":\"2026-01-01\"", ""),
            ("\"since\":\"2026-01-01\"", "\"since\":\"yesterday\""),
            ("\"since\":\"2026-01-01\"", "\"since\":\"2026-01-02\",\"until\":\"2026-01-01\""),
            ("\"since\":\"2026-01-01\"", "\"after\":\"2026-01-01\""),
            ("\"client_id\":\"Cursor\"", "\"client_id\":\"\""),
            ("\"streams\":[{", "\"streams\":[{\"purpose\":1,"),
            ("\"version\"", "\"view\":\"all\",\"version\""),
        ] {
            assert!(with(from, to).is_err(), "{to}");
        }
        assert!(Grant::parse("{}").is_err() && Grant::parse("").is_err());
        let none = GOOD.split("\"streams\":[").next().unwrap().to_owned() + "\"streams\":[]}";
        assert!(Grant::parse(&none).is_err());
    }
}
