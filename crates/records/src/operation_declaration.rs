//! What an operation of `/v1` declares about itself.
//!
//! Routing, parameter checks, the `Allow` header and the OpenAPI document are derived from these
//! declarations. The list of all operations is in [`super::operations`].

use std::io::BufRead;

use serde_json::Value as Json;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadOperation;
use stile_domain::records::request::parameters::{Parameter, Parameters};
use stile_store::records::Blob;

use crate::context::{OwnerContext, ReadContext};
use crate::request_target::{RequestAddress, RequestTarget};
use crate::response_sink::ResponseSink;

/// One operation: its place in HTTP, its description, and the function that answers it.
#[derive(Clone, Copy, Debug)]
pub struct OperationDeclaration {
    /// The identifier in the OpenAPI document and, after `v1.`, in the journal.
    pub id: &'static str,
    /// The HTTP method of a request.
    pub method: OperationMethod,
    /// The path, with a [`PathVariable`] in braces for each variable segment.
    pub path: &'static str,
    /// The summary in the OpenAPI document.
    pub about: &'static str,
    /// The query parameters. The operation refuses any other.
    pub parameters: &'static [Parameter],
    /// The body of the request; `None` if the operation ignores it.
    pub body: Option<BodyDeclaration>,
    /// The answer of a request that succeeds.
    pub response: ResponseDeclaration,
    /// Further answers that only this operation gives.
    pub other_responses: &'static [ResponseDeclaration],
    /// Who may call the operation.
    pub access: OperationAccess,
    /// The function that answers.
    pub handler: OperationHandler,
}

/// An HTTP method that operations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationMethod {
    /// Reads.
    Get,
    /// Reads, without a body in the answer.
    Head,
    /// Stores the body of the request, or answers a question that the body asks.
    Post,
    /// Stores the body of the request in place of what the path names.
    Put,
    /// Removes.
    Delete,
}

impl OperationMethod {
    /// Returns the method as a request line spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// A variable segment of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathVariable {
    /// `{stream}`.
    Stream,
    /// `{id}`, a record key.
    RecordId,
    /// `{blob_id}`.
    BlobId,
    /// `{grant_id}`.
    GrantId,
    /// `{jti}`, the identifier of a token.
    TokenId,
}

impl PathVariable {
    const ALL: [Self; 5] =
        [Self::Stream, Self::RecordId, Self::BlobId, Self::GrantId, Self::TokenId];

    /// Returns the name between the braces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::RecordId => "id",
            Self::BlobId => "blob_id",
            Self::GrantId => "grant_id",
            Self::TokenId => "jti",
        }
    }

    /// Returns the description in the OpenAPI document.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Stream => "The stream's name.",
            Self::RecordId => "The record's canonical key, percent-encoded.",
            Self::BlobId => "The blob's name, as records have it.",
            Self::GrantId => "The identifier of the grant.",
            Self::TokenId => "The identifier of the token.",
        }
    }

    /// Returns the variable that a segment of a declared path is; `None` for a literal segment.
    pub(crate) fn parse(segment: &str) -> Option<Self> {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Self::ALL.into_iter().find(|variable| variable.name() == name)
    }
}

/// The body that an operation takes.
#[derive(Clone, Copy, Debug)]
pub struct BodyDeclaration {
    /// The media type of the body.
    pub media_type: &'static str,
    /// The description in the OpenAPI document.
    pub about: &'static str,
}

/// One answer of an operation, by its status.
#[derive(Clone, Copy, Debug)]
pub struct ResponseDeclaration {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The description in the OpenAPI document.
    pub about: &'static str,
    /// What the body holds.
    pub content: ResponseContent,
}

impl ResponseDeclaration {
    /// Declares a JSON answer with status 200. `object` is the value of its member `object`, and
    /// `required` are the members that are always there.
    pub const fn json(object: &'static str, required: &'static [&'static str]) -> Self {
        let content = ResponseContent::Json { object: Some(object), required };
        Self { status: 200, about: "The answer.", content }
    }

    /// Declares an answer that is an error object.
    pub const fn error(status: u16, about: &'static str) -> Self {
        Self { status, about, content: ResponseContent::Error }
    }
}

/// The body of an answer.
#[derive(Clone, Copy, Debug)]
pub enum ResponseContent {
    /// No body.
    Empty,
    /// A JSON object with these members and possibly more.
    Json {
        /// The value of the member `object`; `None` if the answer has no such member.
        object: Option<&'static str>,
        /// The members that are always there.
        required: &'static [&'static str],
    },
    /// Bytes of any media type.
    Bytes,
    /// An error object.
    Error,
}

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationAccess {
    /// The owner, and each client within its grant.
    Granted,
    /// The owner.
    OwnerOnly,
}

/// The function that answers an operation, by what it does with the request and the answer.
#[derive(Clone, Copy, Debug)]
pub enum OperationHandler {
    /// Writes a JSON answer while it reads the store.
    Read(ReadHandler),
    /// Removes records or takes back what was granted; the answer is empty.
    Remove(RemoveHandler),
    /// Answers the owner without a change; the answer is JSON, as short as a body.
    Inspect(StoreHandler),
    /// Stores the body of the request; the answer is JSON.
    Store(StoreHandler),
    /// Finds a blob, whose bytes are the answer.
    Blob(BlobHandler),
}

/// A request that is answered from the store.
pub trait AnsweredRequest: ReadOperation {
    /// Writes the answer while it reads the store. `address` is for the links of the answer.
    ///
    /// # Errors
    /// What the request, the grant or the database rule out.
    fn answer(
        &self,
        context: ReadContext<'_>,
        address: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem>;
}

/// Takes a request from what was sent, and answers it.
fn answer_sent<R: AnsweredRequest>(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    R::from_parameters(target.names(), parameters).answer(context, target.address(), out)
}

/// Writes an answer while it reads the store.
pub type ReadHandler =
    fn(ReadContext<'_>, &RequestTarget, &Parameters, &mut dyn ResponseSink) -> Result<(), Problem>;
/// Removes what the target names.
pub type RemoveHandler = fn(OwnerContext<'_>, &RequestTarget, &Parameters) -> Result<(), Problem>;
/// Reads a body, which may arrive as slowly as its sender likes, and stores or answers it.
pub type StoreHandler =
    fn(OwnerContext<'_>, &RequestTarget, &Parameters, &mut dyn BufRead) -> Result<Json, Problem>;
/// Finds the blob that the target names.
pub type BlobHandler = fn(ReadContext<'_>, &RequestTarget, &Parameters) -> Result<Blob, Problem>;

/// A request to one operation, with the operation's handler.
#[derive(Clone, Debug)]
pub struct OperationCall<H> {
    /// The operation that the request is for.
    pub operation: &'static OperationDeclaration,
    /// The handler of the operation.
    pub handler: H,
    /// What the request names.
    pub target: RequestTarget,
}

impl OperationDeclaration {
    /// Declares a GET that the owner and clients may call. The other members of the declaration
    /// override what they need to.
    pub const fn read(id: &'static str, path: &'static str, handler: ReadHandler) -> Self {
        Self {
            id,
            method: OperationMethod::Get,
            path,
            about: "",
            parameters: &[],
            body: None,
            response: ResponseDeclaration::json("", &[]),
            other_responses: &[],
            access: OperationAccess::Granted,
            handler: OperationHandler::Read(handler),
        }
    }

    /// Declares the operation whose requests have a type, which says everything about them.
    pub(crate) const fn of_requests<R: AnsweredRequest>() -> Self {
        Self { parameters: R::PARAMETERS, ..Self::read(R::ID, R::PATH, answer_sent::<R>) }
    }

    /// Declares an operation of the owner that answers with JSON and changes nothing.
    pub(crate) const fn inspect(
        id: &'static str,
        path: &'static str,
        handler: StoreHandler,
    ) -> Self {
        Self {
            id,
            method: OperationMethod::Get,
            path,
            about: "",
            parameters: &[],
            body: None,
            response: ResponseDeclaration::json("", &[]),
            other_responses: &[],
            access: OperationAccess::OwnerOnly,
            handler: OperationHandler::Inspect(handler),
        }
    }

    /// Returns a call of this operation; `None` if the operation does not read.
    pub fn read_call(&'static self, target: RequestTarget) -> Option<OperationCall<ReadHandler>> {
        match self.handler {
            OperationHandler::Read(handler) => {
                Some(OperationCall { operation: self, handler, target })
            }
            OperationHandler::Remove(_)
            | OperationHandler::Inspect(_)
            | OperationHandler::Store(_)
            | OperationHandler::Blob(_) => None,
        }
    }
}
