//! The list of all operations of `/v1`.
//!
//! A new operation is a file in `operations/` with a constant `OPERATION`, its `mod` line here, and
//! one line in the list. Routing, the OpenAPI document and the transports follow the list.

mod aggregate_records;
mod create_grant;
mod create_grant_token;
mod delete_record;
mod delete_records;
mod get_blob;
mod get_declaration;
mod get_field_window;
mod get_grant;
mod get_record;
mod get_schema;
mod get_stream;
mod head_blob;
mod ingest_records;
pub(crate) use ingest_records::ID as INGEST_RECORDS;
mod introspect_token;
mod list_grants;
mod list_records;
mod list_streams;
mod put_blob;
mod put_declaration;
mod revoke_grant;
mod revoke_grant_token;
mod search_records;

use stile_domain::records::problem::Problem;
use stile_domain::records::request::{ReadOperation as _, ReadRequest};

use crate::context::ReadContext;
use crate::operation_declaration::{AnsweredRequest as _, OperationDeclaration};
use crate::request_target::RequestAddress;
use crate::response_sink::ResponseSink;

/// Makes the enum, the list and the lookup from one line for each operation.
macro_rules! operations {
    ($($operation:ident => $module:ident,)+) => {
        /// An operation of `/v1`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation {
            $(
                #[doc = concat!("Declared in `operations/", stringify!($module), ".rs`.")]
                $operation,
            )+
        }

        /// The declarations of all operations, in the order of the OpenAPI document.
        pub static OPERATIONS: &[&OperationDeclaration] = &[$(&$module::OPERATION,)+];

        impl Operation {
            /// Returns what the operation declares about itself.
            pub const fn declaration(self) -> &'static OperationDeclaration {
                match self {
                    $(Self::$operation => &$module::OPERATION,)+
                }
            }
        }
    };
}

operations! {
    GetSchema => get_schema,
    ListStreams => list_streams,
    GetStream => get_stream,
    ListRecords => list_records,
    AggregateRecords => aggregate_records,
    GetRecord => get_record,
    DeleteRecord => delete_record,
    DeleteRecords => delete_records,
    GetFieldWindow => get_field_window,
    Search => search_records,
    IngestRecords => ingest_records,
    GetBlob => get_blob,
    HeadBlob => head_blob,
    PutBlob => put_blob,
    GetDeclaration => get_declaration,
    PutDeclaration => put_declaration,
    ListGrants => list_grants,
    CreateGrant => create_grant,
    GetGrant => get_grant,
    CreateGrantToken => create_grant_token,
    RevokeGrantToken => revoke_grant_token,
    RevokeGrant => revoke_grant,
    IntrospectToken => introspect_token,
}

/// Answers a request that was made in this process.
///
/// # Errors
/// As if the request had been sent to `/v1`.
pub(crate) fn answer(
    context: ReadContext<'_>,
    request: &ReadRequest,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let address = RequestAddress::default();
    match request {
        ReadRequest::Schema(asked) => asked.checked()?.answer(context, address, out),
        ReadRequest::Search(asked) => asked.checked()?.answer(context, address, out),
        ReadRequest::Records(asked) => asked.checked()?.answer(context, address, out),
        ReadRequest::Aggregate(asked) => asked.checked()?.answer(context, address, out),
        ReadRequest::Record(asked) => asked.checked()?.answer(context, address, out),
        ReadRequest::FieldWindow(asked) => asked.checked()?.answer(context, address, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_has_words_for_each_operation() {
        let all = OPERATIONS.iter().map(|operation| format!("v1.{}", operation.id));
        let lacking: Vec<String> =
            all.filter(|operation| !stile_domain::audit::has_words(operation)).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}
