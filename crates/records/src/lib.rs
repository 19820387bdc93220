//! The operations on records that `/v1` offers, and what the owner does with the database besides.
//!
//! [`operations::Operation`] lists the operations. Each one is declared in a file of its own,
//! beside the function that answers it; routing, parameter checks and the OpenAPI document follow
//! the declarations. A [`service::RecordService`] runs an operation for a caller, whatever the
//! transport is. Answers are written to a [`response_sink::ResponseSink`] piece by piece, so that
//! no answer has to fit in memory.

pub mod administration;
mod aggregation_request;
pub mod batch;
mod changes;
mod connections;
pub mod context;
pub mod declarations;
mod field_bytes;
mod field_page;
mod field_path;
mod field_selection;
mod field_text;
mod field_window;
pub mod grant_answers;
pub mod grant_document;
pub mod grant_request;
mod inner_value;
mod json_body;
mod list_response;
mod media_types;
mod named_parts;
pub mod openapi;
pub mod operation_declaration;
pub mod operations;
mod page_reading;
mod passed_over;
mod printable;
mod record_json;
mod recurrences;
mod related;
pub mod removal;
pub mod request_target;
mod response_meta;
pub mod response_sink;
pub mod routing;
pub mod rows;
mod search_query;
pub mod service;
mod stream_description;
#[cfg(test)]
pub(crate) mod test_store;
pub mod token_issuer;
mod type_marks;
mod unsearched_lists;
mod value_preview;

pub use service::RecordService;
