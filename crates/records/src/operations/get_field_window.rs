//! `GET /v1/streams/{stream}/records/{id}/field-window`: a part of one field, at the cost of that
//! part.

use serde_json::json;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::GetFieldWindow;
use stile_domain::records::sealed_cursor::Binding;

use crate::context::ReadContext;
use crate::field_path::FieldPath;
use crate::field_text::FieldText;
use crate::field_window::{FieldWindow, WindowSelector, WindowedField};
use crate::inner_value::InnerValue;
use crate::operation_declaration::{AnsweredRequest, OperationDeclaration, ResponseDeclaration};
use crate::request_target::RequestAddress;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "A part of one field. The cost depends on the part and not on the length of the field.",
    response: ResponseDeclaration::json(
        "field_window",
        &["object", "stream", "record_id", "connection_id", "field", "window"],
    ),
    ..OperationDeclaration::of_requests::<GetFieldWindow>()
};

impl AnsweredRequest for GetFieldWindow {
    fn answer(
        &self,
        context: ReadContext<'_>,
        address: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let view = context.view;
        let selector = WindowSelector::of(self)?;
        let path = self.field.as_deref().unwrap_or_default();
        let named = FieldPath::parse(path)?;
        let sources = view.sources_of(&self.stream, self.connection.name()?)?;
        let named = named.visible(&sources)?;
        let row = context.find_record(&sources, &self.key)?;
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
            Binding::new(["window", view.caller(), &self.stream, connection, &self.key, path]);
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
            "url": address.path,
            "stream": self.stream,
            "record_id": self.key,
            "connection_id": connection,
            "field": window.field_json(),
            "window": window.window_json(),
            "links": {},
            "meta": response_meta(&self.clamped, &self.connection),
        });
        out.note_record(source, &row.key);
        out.write(&answer.to_string());
        Ok(())
    }
}
