//! `GET /v1/streams/{stream}/records/{id}`: one record.

use stile_domain::records::problem::Problem;
use stile_domain::records::request::GetRecord;

use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::named_parts::NamedParts;
use crate::operation_declaration::{AnsweredRequest, OperationDeclaration, ResponseDeclaration};
use crate::related::RecordSelection;
use crate::request_target::RequestAddress;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "One record, whole unless `preview_chars` is sent.",
    response: ResponseDeclaration::json(
        "record",
        &["object", "id", "stream", "connection_id", "data", "emitted_at"],
    ),
    ..OperationDeclaration::of_requests::<GetRecord>()
};

impl AnsweredRequest for GetRecord {
    fn answer(
        &self,
        context: ReadContext<'_>,
        _: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let sources = context.view.sources_of(&self.stream, self.connection.name()?)?;
        let parts = NamedParts {
            fields: &self.fields,
            view: self.view.as_deref(),
            expand: &self.expand,
            expand_limit: &self.expand_limit,
        };
        parts.refuse_for_clients(context)?;
        let previews = (self.preview_chars, self.preview_bytes);
        let limits = PreviewLimits::new(previews, self.fields_cursor.clone(), &parts)?;
        let fields = parts.selected_fields(context, &sources)?;
        let selection = RecordSelection::new(context, &sources, &parts, fields)?;
        let row = context.find_record(&sources, &self.key)?;
        let mut related = selection.find_related(context, &sources, std::slice::from_ref(&row))?;
        selection.read_page(context, &sources, (std::slice::from_ref(&row), &related), &limits)?;
        selection.write_record(context, &sources, &row, &limits, (&mut related, out))?;
        let meta = response_meta(&self.clamped, &self.connection);
        out.write(&format!(",\"meta\":{meta}}}"));
        Ok(())
    }
}
