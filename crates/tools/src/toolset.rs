//! A set of tools and resources over one thing, as a server holds it.
//!
//! A server has a list of toolsets and knows nothing of what each of them works on. There are
//! three: the files of a space, notes that another server has, and records.

use std::borrow::Cow;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use stile_domain::path::SpacePath;
use stile_domain::tool_name::Spelling;
use stile_store::space::Watch;

use crate::answer::Answer;
pub use crate::caller::Caller;
use crate::definition::ToolDefinition;
use crate::tool::{Denial, ToolEntry};

/// No tool of that name exists for this caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTool;

/// A feature of the protocol beside tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Resources and their templates.
    Resources,
    /// Completions of paths.
    Completions,
    /// Notifications when a resource has changed.
    Subscriptions,
}

/// What happens to a call whose client hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHangUp {
    /// The call runs to its end, so that no change stops half way to its journal line.
    Finish,
    /// The call is dropped, since it changes and journals nothing.
    Drop,
}

/// A resource that is listed, or a template of resources.
#[derive(Clone, Debug)]
pub struct ResourceKind {
    /// The address, or the template of addresses (RFC 6570).
    pub uri: Cow<'static, str>,
    /// The name of the resource kind.
    pub name: Cow<'static, str>,
    /// A short title for people.
    pub title: &'static str,
    /// What agents read about the resource.
    pub description: &'static str,
    /// The media type, if all resources of this kind have the same one.
    pub mime_type: Option<&'static str>,
}

/// A file that is listed as a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileResource {
    /// The `space:///` address of the file.
    pub uri: String,
    /// The path in the space.
    pub path: SpacePath,
    /// The media type that the name tells, if it tells one.
    pub mime_type: Option<&'static str>,
    /// The size in bytes.
    pub size_bytes: u64,
    /// When the file was changed last, in RFC 3339 and UTC.
    pub modified: String,
}

/// A page of the files that were changed last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePage {
    /// The files, the newest first.
    pub files: Vec<FileResource>,
    /// What a client sends to get the next page; `None` in the last one.
    pub next_cursor: Option<String>,
}

/// What was read from a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContent {
    /// The text or the bytes.
    pub body: ResourceBody,
    /// The media type of the body.
    pub mime_type: String,
    /// The members of `_meta`, such as where the content continues.
    pub meta: Map<String, Value>,
}

/// The body of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes in base64 (RFC 4648, section 4).
    Base64(String),
}

/// Why a resource was not read.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceError {
    /// Which error code of JSON-RPC fits.
    pub kind: ResourceErrorKind,
    /// What is wrong and what to do instead.
    pub message: String,
    /// What a program can use: `code` and more.
    pub data: Map<String, Value>,
}

/// The kinds of errors that the protocol tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceErrorKind {
    /// Nothing has that address, or nothing is there.
    NotFound,
    /// The request is wrong.
    Invalid,
    /// The server, or a server behind it, failed.
    Failed,
}

/// Values that continue what a person has begun to type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedValues {
    /// The values, in order, at most [`CompletedValues::MOST`].
    pub values: Vec<String>,
    /// Whether there are more values.
    pub has_more: bool,
}

impl CompletedValues {
    /// The most values of one answer. *Source*: the protocol's `completion/complete`.
    pub const MOST: usize = 100;
}

/// A set of tools and resources over one thing.
pub trait Toolset: Send + Sync {
    /// Returns what this agent reads when it connects to a server whose first toolset is this one.
    fn instructions(&self, caller: &Caller) -> Cow<'static, str>;

    /// Returns the features of the protocol that this toolset offers beside tools.
    fn features(&self) -> &'static [Feature];

    /// Returns what happens to a call whose client hangs up.
    fn on_hang_up(&self) -> OnHangUp {
        OnHangUp::Finish
    }

    /// Returns whether each call of a tool goes through folders, which keeps a processor of this
    /// machine busy. `name` is canonical.
    fn walks(&self, _name: &'static str) -> bool {
        false
    }

    /// Returns the metrics' label for the status of the server behind this toolset when a call
    /// succeeds; `none` if there is no such server.
    fn upstream_on_success(&self) -> &'static str {
        "none"
    }

    /// Returns the definitions of all tools that any caller is ever shown, in reading order.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Returns the canonical name of a tool, given in either spelling.
    fn find(&self, name: &str) -> Option<&'static str>;

    /// Returns whether what `caller` may do leads to a tool, whatever there is for the tool to work
    /// on. `name` is canonical.
    fn may_show(&self, name: &str, _caller: &Caller) -> bool {
        self.find(name).is_some()
    }

    /// Returns the names of the tools that this caller is shown, in any order. They may depend on
    /// what there is for this caller.
    fn listed<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<&'static str>>;

    /// Decides from the token alone whether `caller` may make exactly this call. `name` is
    /// canonical.
    fn check_permits(
        &self,
        name: &'static str,
        arguments: &Value,
        caller: &Caller,
    ) -> Result<(), Denial>;

    /// Makes a call. `name` is canonical.
    fn call<'a>(
        &'a self,
        name: &'static str,
        arguments: Value,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Answer, UnknownTool>>;

    /// Returns the resources that are listed for this caller.
    fn resources(&self, _caller: &Caller) -> Vec<ResourceKind> {
        Vec::new()
    }

    /// Returns a page of the files that were changed last and that this caller may read, the first
    /// page without a cursor.
    fn recent_files<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<FilePage, ResourceError>> {
        let page = cursor.map_or(Ok(FilePage::default()), |_| Err(ResourceError::bad_cursor()));
        futures::future::ready(page).boxed()
    }

    /// Returns the templates of resources that are listed for this caller.
    fn resource_templates(&self, _caller: &Caller) -> Vec<ResourceKind> {
        Vec::new()
    }

    /// Returns values for the argument of a resource template that continue `begun`; none where the
    /// template is not one of this toolset's.
    fn complete<'a>(
        &'a self,
        _template: &'a str,
        _argument: &'a str,
        _begun: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, CompletedValues> {
        futures::future::ready(CompletedValues::default()).boxed()
    }

    /// Returns the name under which reads of this resource are counted; `None` if the address is
    /// not one of this toolset's.
    fn find_resource(&self, _uri: &str) -> Option<&'static str> {
        None
    }

    /// Decides from the token alone whether `caller` may read this resource.
    fn check_resource(&self, _uri: &str, _caller: &Caller) -> Result<(), Denial> {
        Ok(())
    }

    /// Watches a resource for changes that `caller` may see.
    fn watch_resource<'a>(
        &'a self,
        uri: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Watch, ResourceError>> {
        futures::future::ready(Err(ResourceError::not_watched(uri))).boxed()
    }

    /// Reads a resource that [`Toolset::find_resource`] knows.
    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<ResourceContent, ResourceError>> {
        futures::future::ready(Err(ResourceError::unknown(uri))).boxed()
    }
}

impl ResourceError {
    /// Creates the error for an address that nothing has.
    pub fn unknown(uri: &str) -> Self {
        let data = [("code", "not_found"), ("uri", uri)];
        Self {
            kind: ResourceErrorKind::NotFound,
            message: "There is no such resource; read `list:///` to see what there is.".to_owned(),
            data: data.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect(),
        }
    }

    /// Creates the error for a subscription to a resource that reports no changes.
    pub fn not_watched(uri: &str) -> Self {
        let data = [("code", "not_watched"), ("uri", uri)];
        Self {
            kind: ResourceErrorKind::Invalid,
            message: "Only files and folders (`space:///path`, `list:///path`) report changes. \
                      Nothing was subscribed."
                .to_owned(),
            data: data.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect(),
        }
    }

    /// Creates the error for a cursor that no list of resources returned.
    pub fn bad_cursor() -> Self {
        Self {
            kind: ResourceErrorKind::Invalid,
            message: "`cursor` must be a `nextCursor` of `resources/list`, exactly as it was \
                      returned. List again without it."
                .to_owned(),
            data: Map::from_iter([("code".to_owned(), "invalid_argument".into())]),
        }
    }

    /// Creates the error for a caller with too many subscriptions.
    pub fn too_many_watched(uri: &str) -> Self {
        let data = [("code", "too_many_subscriptions"), ("uri", uri)];
        Self {
            kind: ResourceErrorKind::Invalid,
            message: "You have as many subscriptions as the server keeps for one user. Nothing \
                      was subscribed; end one that you do not need."
                .to_owned(),
            data: data.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect(),
        }
    }

    /// Creates the error for a server without resources. The error does not repeat the address, in
    /// which a caller may have put a path.
    pub fn none_here() -> Self {
        Self {
            kind: ResourceErrorKind::NotFound,
            message: "There is no such resource; this server has none.".to_owned(),
            data: Map::from_iter([("code".to_owned(), "not_found".into())]),
        }
    }
}

/// Finds a tool by its name in either spelling.
pub(crate) fn find_entry<'t, C: Send + Sync + 'static>(
    tools: impl IntoIterator<Item = &'t ToolEntry<C>>,
    name: &str,
) -> Option<&'t ToolEntry<C>> {
    tools
        .into_iter()
        .find(|tool| tool.name == name || Spelling::Underscored.name(tool.name) == name)
}
