//! `read_record_field`: a part of one field's text, from any offset, at the cost of that part.

mod window;
mod wire_window;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use stile_domain::records::handle::OffsetCursor;
use stile_domain::records::problem::Problem;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::request::GetFieldWindow;
use stile_domain::records::sealed_cursor::Binding;
use stile_domain::records::selector::{DEFAULT_CHARS, DEFAULT_CONTEXT, MAX_CHARS, TextSelector};
use stile_tools::answer::ResourceLink;
use stile_tools::definition::ToolDefinition;

use self::window::{AdjacentWindow, CheckedWindow};
pub(super) use self::wire_window::is_byte_window;
use self::wire_window::{ExpectedWindow, WindowResponse};
use super::arguments::WholeNumber;
use super::budget::LONGEST_ESCAPE;
use super::call_context::CallContext;
use super::continuation::LadderShape;
use super::error::LadderError;
use super::json_members::{json_object, tree};
use super::output::{Nullable, RecordOutput, Shape};
use super::port::ErrorResponse;
use super::record_reference::{RecordReference, non_empty_connection};
use super::record_tool::RecordTool;
use super::{continuation, text_lines};

/// Read part of one field, exactly. Name the record by `id` from an answer, or by `connection_id`,
/// `stream` and `record_id`. Then one of: nothing (from the beginning), `offset_chars`, `cursor` of
/// an answer, or `q`, which finds the first occurrence and shows what stands around it. Windows
/// joined in order are the whole field.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadRecordField {
    /// As `search`, `query_records` or `fetch` show it.
    id: Option<String>,
    /// With `stream` and `record_id`, instead of `id`.
    connection_id: Option<String>,
    /// With `connection_id` and `record_id`.
    stream: Option<String>,
    /// The record's own key, not encoded.
    record_id: Option<String>,
    /// A field, or a place within its value: the field's name and a JSON pointer behind it, such as
    /// `attachments/0/name`.
    field_path: String,
    /// `next_cursor` or `previous_cursor` of an answer. Excludes `offset_chars`, `q` and the
    /// contexts.
    cursor: Option<String>,
    /// Characters before the window. Excludes `q`.
    offset_chars: Option<WholeNumber<0, { i64::MAX as u64 }>>,
    /// 4096 if left out.
    limit_chars: Option<WholeNumber<1, MAX_CHARS>>,
    /// Text to find, upper or lower case.
    q: Option<String>,
    /// 2048 if left out. Only with `q`.
    before_chars: Option<WholeNumber<0, 8192>>,
    /// 2048 if left out. Only with `q`.
    after_chars: Option<WholeNumber<0, 8192>>,
}

/// Returns the selector with a limit of `most` characters.
fn with_limit(selector: &TextSelector, most: u64) -> TextSelector {
    let mut shorter = selector.clone();
    match &mut shorter {
        TextSelector::At { limit, .. } => *limit = most,
        TextSelector::After { limit, .. } | TextSelector::Around { limit, .. } => {
            *limit = Some(most);
        }
    }
    shorter
}

impl ReadRecordField {
    /// Returns the record that the arguments name, by `id` or by its parts.
    fn record_reference(&self, context: &CallContext) -> Result<RecordReference, LadderError> {
        let wrong = |param, message: &str| {
            Err(LadderError::call("invalid_field_window_selector", param, message))
        };
        match (&self.id, &self.stream, &self.record_id) {
            (Some(id), None, None) => {
                RecordReference::parse(context, id, self.connection_id.as_deref())
            }
            (Some(_), ..) => {
                wrong("id", "`id` names the record by itself; leave out `stream` and `record_id`")
            }
            (None, Some(stream), Some(key)) => {
                let Some(connection) = &self.connection_id else {
                    return wrong(
                        "connection_id",
                        "send `connection_id` with `stream` and `record_id`, or `id` instead",
                    );
                };
                let id = RecordId {
                    connection: Some(connection.clone()),
                    stream: stream.clone(),
                    key: key.clone(),
                };
                if [connection, stream, key].iter().any(|part| part.is_empty()) {
                    return wrong("id", "no part of a record's name is empty");
                }
                Ok(RecordReference { id, issued_to: None, cursor: None })
            }
            _ => wrong("id", "send `id`, or `connection_id` with `stream` and `record_id`"),
        }
    }

    /// Returns the window that the arguments select. The errors name this tool's arguments.
    fn selector(&self) -> Result<TextSelector, LadderError> {
        let limit = self.limit_chars.map(|limit| limit.0);
        let wrong = |param, message: &str| {
            Err(LadderError::call("invalid_field_window_selector", param, message))
        };
        if let Some(cursor) = &self.cursor {
            let excluded = [
                ("`offset_chars`", self.offset_chars.is_some()),
                ("`q`", self.q.is_some()),
                ("`before_chars`", self.before_chars.is_some()),
                ("`after_chars`", self.after_chars.is_some()),
            ];
            let sent = excluded.into_iter().filter(|(_, is_sent)| *is_sent);
            let sent = sent.map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            if !sent.is_empty() {
                let message = format!(
                    "continuation by `cursor` is exclusive with explicit window selection by \
                     {sent}; send one of them (`limit_chars` goes with either)"
                );
                return wrong("cursor", &message);
            }
            return Ok(TextSelector::After { cursor: cursor.clone(), limit });
        }
        if let Some(q) = &self.q {
            if self.offset_chars.is_some() {
                let message =
                    "`q` finds its own place and excludes `offset_chars`; send one of them";
                return wrong("q", message);
            }
            if q.is_empty() {
                return wrong("q", "`q` is empty; send the text to find, or leave it out");
            }
            let before = self.before_chars.map_or(DEFAULT_CONTEXT, |context| context.0);
            let after = self.after_chars.map_or(DEFAULT_CONTEXT, |context| context.0);
            return Ok(TextSelector::Around { q: q.clone(), before, after, limit });
        }
        if self.before_chars.is_some() || self.after_chars.is_some() {
            let message = "`before_chars` and `after_chars` are the context of `q`; send `q` too, \
                           or `offset_chars` and `limit_chars`";
            return wrong("before_chars", message);
        }
        let start = self.offset_chars.map_or(0, |offset| offset.0);
        Ok(TextSelector::At { start, limit: limit.unwrap_or(DEFAULT_CHARS) })
    }
}

/// The structured answers of `read_record_field`.
#[derive(Serialize, JsonSchema)]
pub struct ReadFieldAnswer {
    record: NamedRecord,
    field: NamedField,
    window: ShownWindow,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<WindowAddresses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LadderShape>")]
    content_ladder: Option<Json>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NamedRecord {
    id: String,
    connection_id: String,
    stream: String,
    record_id: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NamedField {
    path: String,
    text_like: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    size_chars: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ShownWindow {
    text: String,
    #[schemars(with = "i64")]
    start_chars: u64,
    #[schemars(with = "i64")]
    end_chars: u64,
    #[schemars(with = "i64")]
    limit_chars: u64,
    complete: bool,
    #[schemars(with = "Option<Nullable<String>>")]
    next_cursor: Option<String>,
    #[schemars(with = "Option<Nullable<String>>")]
    previous_cursor: Option<String>,
    #[schemars(with = "Option<Nullable<FoundText>>")]
    r#match: Option<FoundText>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FoundText {
    q: String,
    #[schemars(with = "i64")]
    start_chars: u64,
    #[schemars(with = "i64")]
    end_chars: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct WindowAddresses {
    uri: String,
    #[schemars(with = "Option<Nullable<String>>")]
    next_uri: Option<String>,
    #[schemars(with = "Option<Nullable<String>>")]
    previous_uri: Option<String>,
}

impl Shape for ReadFieldAnswer {}

impl RecordTool for ReadRecordField {
    const NAME: &'static str = "read_record_field";
    const TITLE: &'static str = "Read part of a field";
    type Shape = ReadFieldAnswer;

    async fn run(
        self,
        context: &CallContext,
    ) -> Result<RecordOutput<ReadFieldAnswer>, LadderError> {
        let selector = self.selector()?;
        let named = self.record_reference(context)?;
        let read = read_window(context, &named.id, &self.field_path, &selector).await;
        let window = match read {
            Err(LadderError::Server { response, .. }) if response.code() == "field_not_text" => {
                named.check_caller(context)?;
                return refuse_binary(context, &named.id, &self.field_path, response).await;
            }
            other => other?,
        };
        named.check_caller(context)?;
        render(context, window, self.q.as_deref())
    }
}

/// Reads a window, shortened if its JSON would exceed the budget. The next window begins where the
/// shortened one ends.
pub(super) async fn read_window(
    context: &CallContext,
    id: &RecordId,
    field: &str,
    selector: &TextSelector,
) -> Result<CheckedWindow, LadderError> {
    let window = read_once(context, id, field, selector).await?;
    let Some(most) = window.fitting_chars(context, selector) else { return Ok(window) };
    // A shorter window around a match holds other text, whose JSON may be longer.
    let window = read_once(context, id, field, &with_limit(selector, most)).await?;
    let Some(most) = window.fitting_chars(context, selector) else { return Ok(window) };
    // A window has at least one character, even if the names alone exceed the budget.
    let surely = context.budgets.structured.saturating_sub(window.max_members_len(selector))
        / LONGEST_ESCAPE;
    read_once(context, id, field, &with_limit(selector, most.min(surely as u64).max(1))).await
}

/// Sends one request for a window, and checks the response.
async fn read_once(
    context: &CallContext,
    id: &RecordId,
    field: &str,
    selector: &TextSelector,
) -> Result<CheckedWindow, LadderError> {
    let (request, expected) = window_request(context, id, field, selector).await?;
    let text = context.send(request).await?;
    let mut response: WindowResponse = match serde_json::from_str(&text) {
        Ok(response) => response,
        Err(_) if is_byte_window(&text) => {
            let not_text_error = Problem::FieldNotText { field: field.to_owned() };
            return Err(ErrorResponse::from(not_text_error).into());
        }
        Err(_) => return Err(LadderError::invalid_response()),
    };
    response.window.truncate(match *selector {
        TextSelector::At { limit, .. } => limit,
        TextSelector::After { limit, .. } | TextSelector::Around { limit, .. } => {
            limit.unwrap_or(MAX_CHARS)
        }
    });
    response.recount_utf16();
    response.find_next_offset();
    response.check(&expected)?;
    let step = match selector {
        TextSelector::Around { limit, .. } => limit.unwrap_or(DEFAULT_CHARS),
        _ => response.window.limit_chars,
    };
    response.window(context, id, field, step)
}

/// Makes a request about a field, without a window.
pub(super) fn field_request(id: &RecordId, field: &str) -> GetFieldWindow {
    GetFieldWindow {
        stream: id.stream.clone(),
        key: id.key.clone(),
        field: Some(field.to_owned()),
        connection: id.connection.clone().into(),
        ..GetFieldWindow::default()
    }
}

/// Makes the request for one byte of a field, whose answer says whether there are bytes.
pub(super) fn first_byte_of(request: GetFieldWindow) -> GetFieldWindow {
    GetFieldWindow { offset_bytes: Some(0), limit_bytes: Some(1), ..request }
}

/// Makes the request for a window, and says what its response must be.
async fn window_request(
    context: &CallContext,
    id: &RecordId,
    field: &str,
    selector: &TextSelector,
) -> Result<(GetFieldWindow, ExpectedWindow), LadderError> {
    let base = field_request(id, field);
    let at = |base: GetFieldWindow, start: u64, limit: u64| GetFieldWindow {
        offset_chars: Some(start),
        limit_chars: Some(limit),
        ..base
    };
    Ok(match selector {
        &TextSelector::At { start, limit } => (
            at(base, start, limit),
            ExpectedWindow { start: Some(start), ..ExpectedWindow::default() },
        ),
        TextSelector::Around { q, before, after, limit } => {
            let request = GetFieldWindow {
                q: Some(q.clone()),
                before_chars: Some(*before),
                after_chars: Some(*after),
                limit_chars: *limit,
                ..base
            };
            (request, ExpectedWindow::default())
        }
        TextSelector::After { cursor, limit } => {
            match resolve_cursor(context, id, field, cursor, at(base.clone(), 0, 1)).await? {
                None => {
                    let cursor = Some(cursor.clone());
                    let request = GetFieldWindow { cursor, limit_chars: *limit, ..base };
                    (request, ExpectedWindow { by_cursor: true, ..ExpectedWindow::default() })
                }
                Some(OffsetCursor { start, limit: usual, version }) => {
                    let limit = limit.unwrap_or(usual).clamp(1, MAX_CHARS);
                    (
                        at(base, start, limit),
                        ExpectedWindow { start: Some(start), version, by_cursor: false },
                    )
                }
            }
        }
    })
}

/// Decodes a cursor that this server made; `None` for any other.
///
/// A cursor is bound to the record as answers name it, with the connection from the server's
/// response. If the caller leaves the connection out, a window of one character reveals the
/// connection.
///
/// # Errors
/// [`LadderError::Cursor`] if the cursor is for another field.
async fn resolve_cursor(
    context: &CallContext,
    id: &RecordId,
    field: &str,
    cursor: &str,
    first: GetFieldWindow,
) -> Result<Option<OffsetCursor>, LadderError> {
    let Some(plain) = context.unseal(cursor) else { return Ok(None) };
    let bound_to = |id: &RecordId| OffsetCursor::decode(&plain, offset_binding(context, id, field));
    let why = match bound_to(id) {
        Ok(position) => return Ok(position),
        Err(why) => why,
    };
    // The server checks the grant first, as for any other read of the field.
    let text = context.send(first).await?;
    let response = serde_json::from_str::<WindowResponse>(&text).ok();
    let response = response.and_then(|response| bound_to(&response.record_id(id)).ok());
    response.ok_or(LadderError::Cursor(why))
}

/// Returns the digest to which cursors of this ladder are bound.
fn offset_binding(context: &CallContext, id: &RecordId, field: &str) -> Binding {
    context.binding([
        "offset",
        id.connection.as_deref().unwrap_or_default(),
        &id.stream,
        &id.key,
        field,
    ])
}

impl WindowResponse {
    /// Returns the record's identifier, with the connection from the response.
    fn record_id(&self, requested: &RecordId) -> RecordId {
        let connection = non_empty_connection(self.connection_id.clone())
            .or_else(|| requested.connection.clone());
        RecordId { connection, ..requested.clone() }
    }

    /// Converts a checked response to a window. `field` is the name that the caller used, since the
    /// same name reads the field again.
    fn window(
        self,
        context: &CallContext,
        requested: &RecordId,
        field: &str,
        step: u64,
    ) -> Result<CheckedWindow, LadderError> {
        let (version, size_chars, id) =
            (self.version(), self.size_chars(), self.record_id(requested));
        let binding = offset_binding(context, &id, field);
        let Self { field: wire_field, window, .. } = self;
        let beside = |start: Option<u64>,
                      limit: u64,
                      cursor: Option<Option<String>>|
         -> Result<Option<AdjacentWindow>, LadderError> {
            let Some(start) = start else { return Ok(None) };
            let cursor = match cursor.flatten() {
                Some(cursor) => cursor,
                None => context.seal(&OffsetCursor { start, limit, version }.encode(binding))?,
            };
            Ok(Some(AdjacentWindow { start, limit, cursor }))
        };
        let before = window
            .previous_offset_chars
            .map_or(0, |start| window.start_chars.saturating_sub(start));
        Ok(CheckedWindow {
            next: beside(window.next_offset_chars, step, window.next_cursor)?,
            previous: beside(window.previous_offset_chars, before, window.previous_cursor)?,
            id,
            field: field.to_owned(),
            text: window.text,
            text_like: wire_field.text_like.unwrap_or(true),
            mime_type: wire_field.mime_type,
            version,
            size_chars,
            digest: wire_field.digest,
            start: window.start_chars,
            end: window.end_chars,
            limit: window.limit_chars,
            complete: window.complete,
            found: window.match_start_chars.zip(window.match_end_chars),
            references: window.references,
        })
    }
}

fn render(
    context: &CallContext,
    window: CheckedWindow,
    q: Option<&str>,
) -> Result<RecordOutput<ReadFieldAnswer>, LadderError> {
    let id = window.id.to_string();
    let mut text = window.header(&id) + "\n";
    let mut resource = None;
    let mut links = Vec::new();
    if let Some(next) = &window.next {
        let cursor = next.cursor.as_str().into();
        let arguments = json_object([
            ("id", id.as_str().into()),
            ("field_path", window.field.as_str().into()),
            ("cursor", cursor),
        ]);
        text += &text_lines::escape_line_breaks(
            text_lines::next_call("read_record_field", &arguments, "") + "\n",
        );
    }
    let mut entries = Vec::new();
    for bytes in window.bytes(context)? {
        text += &(text_lines::escape_line_breaks(bytes.line()) + "\n");
        entries.push(bytes.entry());
        links.push(bytes.link());
    }
    if !window.complete {
        let uri = window.own_uri(context)?;
        resource = Some(WindowAddresses {
            uri: uri.clone(),
            next_uri: window.next_uri(context)?,
            previous_uri: window.previous_uri(context)?,
        });
        links.push(ResourceLink {
            uri,
            name: "field-window".to_owned(),
            description: format!(
                "{id} {}, characters {} to {}",
                Json::from(window.field.as_str()),
                window.start,
                window.end
            ),
            mime_type: window.mime_type.clone().unwrap_or_else(|| "text/plain".to_owned()),
        });
    }
    text += &window.text;
    let content_ladder =
        (!entries.is_empty()).then(|| tree(&continuation::content_ladder(&entries, &[])));
    let answer = ReadFieldAnswer::new(window, id, q);
    RecordOutput::of(text, &ReadFieldAnswer { resource, content_ladder, ..answer }, links)
}

impl ReadFieldAnswer {
    /// Declares a window, without addresses.
    fn new(window: CheckedWindow, id: String, q: Option<&str>) -> Self {
        let found = window.found.zip(q).map(|((start_chars, end_chars), q)| FoundText {
            q: q.to_owned(),
            start_chars,
            end_chars,
        });
        let cursor = |beside: Option<AdjacentWindow>| beside.map(|beside| beside.cursor);
        Self {
            record: NamedRecord {
                id,
                connection_id: window.id.connection.unwrap_or_default(),
                stream: window.id.stream,
                record_id: window.id.key,
            },
            field: NamedField {
                path: window.field,
                text_like: window.text_like,
                mime_type: window.mime_type,
                size_chars: window.size_chars,
                digest: window.digest,
            },
            window: ShownWindow {
                text: window.text,
                start_chars: window.start,
                end_chars: window.end,
                limit_chars: window.limit,
                complete: window.complete,
                next_cursor: cursor(window.next),
                previous_cursor: cursor(window.previous),
                r#match: found,
            },
            resource: None,
            content_ladder: None,
        }
    }
}

/// Adds the address of a field's first bytes to a `field_not_text` error, if the server may have
/// any. Returns the error and the address.
pub(super) async fn not_text_error(
    context: &CallContext,
    id: &RecordId,
    field: &str,
    mut response: ErrorResponse,
) -> Result<(ErrorResponse, Option<String>), LadderError> {
    if !has_bytes(context, id, field).await {
        return Ok((response, None));
    }
    let uri = continuation::bytes_uri(context, id, field)?;
    response.error.insert("resource".to_owned(), json!({ "uri": uri }));
    let read = json!({ "tool": "fetch", "args": { "id": uri } });
    response.error.insert("next".to_owned(), read);
    Ok((response, Some(uri)))
}

/// Returns whether the server may have bytes of a field. A server without them refuses the request,
/// ignores its parameters and refuses the text again, or sends something else.
async fn has_bytes(context: &CallContext, id: &RecordId, field: &str) -> bool {
    match context.send(first_byte_of(field_request(id, field))).await {
        Ok(response) => is_byte_window(&response),
        Err(LadderError::Server { response, .. }) => {
            !matches!(response.status, 400 | 422) && response.code() != "field_not_text"
        }
        Err(_) => true,
    }
}

/// Refuses to read a binary field as text, with a link to its bytes.
async fn refuse_binary(
    context: &CallContext,
    id: &RecordId,
    field: &str,
    response: ErrorResponse,
) -> Result<RecordOutput<ReadFieldAnswer>, LadderError> {
    let (response, uri) = not_text_error(context, id, field, response).await?;
    let link = uri.map(|uri| ResourceLink {
        uri,
        name: "field-bytes".to_owned(),
        description: format!("{id} {}, its bytes", Json::from(field)),
        mime_type: "application/octet-stream".to_owned(),
    });
    Err(LadderError::Server { response, bytes: link })
}

/// Adds the alternatives of naming a record to the input schema.
pub(super) fn require_alternatives(definition: &mut ToolDefinition) {
    if definition.name != ReadRecordField::NAME {
        return;
    }
    let schema = &mut definition.input;
    schema.remove("required");
    let alternatives = json!([
        { "required": ["id", "field_path"] },
        { "required": ["connection_id", "stream", "record_id", "field_path"] }
    ]);
    schema.insert("oneOf".to_owned(), alternatives);
}
