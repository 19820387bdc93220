//! `GET /v1/streams/{stream}/records/{id}/field-window`: a part of one field, at the cost of that
//! part.

use serde_json::json;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadOperation;
use stile_domain::records::sealed_cursor::Binding;
use stile_domain::records::selector::{MAX_BYTES, MAX_CHARS, MAX_CONTEXT, MAX_QUERY_CHARS};

use crate::connections::requested_connection;
use crate::context::ReadContext;
use crate::field_path::FieldPath;
use crate::field_text::FieldText;
use crate::field_window::{FieldWindow, WindowSelector, WindowedField};
use crate::inner_value::InnerValue;
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::parameters::{AboveMax, NumberError, Parameter, ParameterType, Parameters};
use crate::request_target::RequestTarget;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;
use crate::shared_parameters::{CONNECTION, CONNECTION_ALIAS, CURSOR};

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "A part of one field. The cost depends on the part and not on the length of the field.",
    parameters: &[
        Parameter::required(
            "field",
            ParameterType::Text { max_bytes: 4096 },
            "A field, or a place within its value: the field's name and a JSON pointer behind it, such as `attachments/0`.",
        ),
        CURSOR,
        window_number(
            "offset_chars",
            (0, i64::MAX as u64),
            AboveMax::Refused,
            "The first character of the window (Unicode scalar values, from 0).",
        ),
        window_number(
            "limit_chars",
            (1, MAX_CHARS),
            AboveMax::Clamped,
            "At most this many characters; the default is 4096.",
        ),
        Parameter::optional(
            "q",
            ParameterType::Text { max_bytes: 4 * MAX_QUERY_CHARS },
            "Selects the window around the first occurrence of this text, by simple case folding. Excludes `offset_chars`.",
        ),
        window_number(
            "before_chars",
            (0, MAX_CONTEXT),
            AboveMax::Refused,
            "At most this many characters before the occurrence; the default is 2048.",
        ),
        window_number(
            "after_chars",
            (0, MAX_CONTEXT),
            AboveMax::Refused,
            "At most this many characters after the occurrence; the default is 2048.",
        ),
        window_number(
            "offset_bytes",
            (0, i64::MAX as u64),
            AboveMax::Refused,
            "For a binary field: the first byte of the window. Excludes `q` and all parameters that count characters.",
        ),
        window_number(
            "limit_bytes",
            (1, MAX_BYTES),
            AboveMax::Clamped,
            "For a binary field: at most this many bytes; the default is 65536.",
        ),
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    response: ResponseDeclaration::json(
        "field_window",
        &["object", "stream", "record_id", "connection_id", "field", "window"],
    ),
    ..OperationDeclaration::read(
        ReadOperation::FieldWindow.id(),
        ReadOperation::FieldWindow.path(),
        get_field_window,
    )
};

const fn window_number(
    name: &'static str,
    (min, max): (u64, u64),
    above_max: AboveMax,
    about: &'static str,
) -> Parameter {
    let error = NumberError::InvalidWindow;
    Parameter::optional(name, ParameterType::Integer { min, max, above_max, error }, about)
}

fn get_field_window(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = context.view;
    let selector = WindowSelector::parse(parameters)?;
    let path = parameters.text("field").unwrap_or_default();
    let named = FieldPath::parse(path)?;
    let sources = view.sources_of(&target.stream, requested_connection(parameters)?)?;
    let named = named.visible(&sources)?;
    let row = context.find_record(&sources, &target.key)?;
    let loaded = view.load_fields(&sources, &row)?;
    let (outer, pointer) = named.find(&loaded)?;
    let inner = if pointer.is_whole() {
        None
    } else {
        let text = FieldText::load(&loaded, &outer)?;
        // Nothing is within a text, whatever it looks like.
        let found = if text.is_text {
            None
        } else {
            InnerValue::load(pointer, |take| text.pieces(view, take))?
        };
        Some(found.ok_or_else(|| Problem::FieldNotFound { field: path.to_owned() })?)
    };
    let entry = inner.as_ref().map_or(outer, |inner| inner.field(path));
    let source = sources.get(row.source).ok_or(Problem::NotFound)?;
    let connection = source.connection().as_str();
    let cursor_binding =
        Binding::new(["window", view.caller(), &target.stream, connection, &target.key, path]);
    let field = WindowedField {
        source,
        loaded: &loaded,
        outer: &outer,
        inner: inner.as_ref(),
        entry: &entry,
        cursor_binding,
    };
    let window = FieldWindow::read(view, &field, &selector)?;
    let answer = json!({
        "object": "field_window",
        "url": target.path,
        "stream": target.stream,
        "record_id": target.key,
        "connection_id": connection,
        "field": window.field_json(),
        "window": window.window_json(),
        "links": {},
        "meta": response_meta(parameters),
    });
    out.note_record(source, &row.key);
    out.write(&answer.to_string());
    Ok(())
}
