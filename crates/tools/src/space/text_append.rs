//! `text.append`: new lines at the end of a file that still begins as it was read.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::edit;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::lines::count_lines;
use stile_domain::path::FilePath;
use stile_domain::permit::{Append, Edit, Gate, Permit, Permits};
use stile_domain::scope::{Scopes, Verb};
use stile_domain::text_encoding::TextEncoding;
use stile_store::space::Space;

use super::text_read::stated_encoding;
use super::text_replace::TextChanged;
use crate::tool::Tool;

/// Add new lines at the end of a text file that you have read. Refused with `stale` if it changed
/// since; with `size_bytes`, only if what you read changed, so that a log that grows can be added
/// to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextAppend {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: Option<ContentHash>,
    /// The new lines, stored as given: end them with a line break if the file should end with one.
    content: String,
    /// The `size_bytes` that came with `hash`. 0, with the hash of nothing, adds to a file that
    /// you have not read, for a token with an `append:` scope.
    size_bytes: Option<u64>,
    /// Make the file if it is not there, with a `write:` scope. Leave `hash` out if you expect
    /// none.
    #[serde(default)]
    create: bool,
    /// As read.
    encoding: Option<String>,
}

/// The permit for an append: to a file that was read, or to one that was not.
pub enum AppendPermit {
    /// The caller may change the file.
    Known(Permit<Edit>),
    /// The caller may change the file, and make it where it is not there.
    Creating {
        /// For the file that is there.
        append: Permit<Edit>,
        /// For the file that is not there.
        create: Permit<Edit>,
    },
    /// The caller may add to the file without having read it.
    Unread(Permit<Append>),
}

impl Permits for AppendPermit {
    const READ_ONLY: bool = false;

    fn may_be_granted(scopes: &Scopes) -> bool {
        scopes.any(Verb::Write) || scopes.any(Verb::Append)
    }
}

impl TextAppend {
    /// Whether the caller has not read the file.
    fn is_unread(&self) -> bool {
        self.size_bytes == Some(0)
    }
}

impl Tool for TextAppend {
    const NAME: &'static str = "text.append";
    const TITLE: &'static str = "Append lines";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = AppendPermit;
    type Output = TextChanged;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<AppendPermit, Refusal> {
        if self.create {
            let (append, create) = (gate.permit(&self.path)?, gate.permit(&self.path)?);
            Ok(AppendPermit::Creating { append, create })
        } else if self.is_unread() {
            gate.permit(&self.path).map(AppendPermit::Unread)
        } else {
            gate.permit(&self.path).map(AppendPermit::Known)
        }
    }

    async fn run(self, permit: AppendPermit, space: &Space) -> Result<TextChanged, Refusal> {
        let Self { path, hash, content, size_bytes, encoding, .. } = self;
        let encoding = stated_encoding(encoding.as_deref())?;
        let missing = || Refusal::invalid_argument("`hash` is missing");
        let whole = content.clone();
        let added = move |text: &str| edit::addition(text, &content);
        let (permit, create) = match permit {
            AppendPermit::Unread(_) if encoding.is_some() => {
                return Err(Refusal::invalid_argument(
                    "`encoding` is for a file that you have read; leave it out when `size_bytes` \
                     is 0",
                ));
            }
            AppendPermit::Unread(permit) => {
                if hash.ok_or_else(missing)? != ContentHash::digest(b"") {
                    return Err(Refusal::invalid_argument(format!(
                        "`hash` must be that of nothing, {}, when `size_bytes` is 0",
                        ContentHash::digest(b"")
                    )));
                }
                space.append_unread(permit, added).await?;
                return Ok(TextChanged::unread(path.into()));
            }
            AppendPermit::Known(permit) => (permit, None),
            AppendPermit::Creating { append, create } => (append, Some(create)),
        };
        let edited = match (hash, size_bytes) {
            (Some(hash), Some(size)) => {
                Some((hash, space.append_to_grown(permit, (hash, size), encoding, added).await))
            }
            (Some(hash), None) => Some((hash, space.append(permit, hash, encoding, added).await)),
            (None, _) => None,
        };
        match (edited, create) {
            (None | Some((_, Err(Refusal::NotFound { .. }))), Some(permit)) => {
                let encoding = encoding.unwrap_or(TextEncoding::UTF_8);
                let created = space.create_text(permit, &whole, encoding).await?;
                Ok(TextChanged::created(path.into(), &created))
            }
            (Some((hash, edited)), _) => Ok(TextChanged::new(path.into(), hash, &edited?)),
            (None, None) => Err(missing()),
        }
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, self.hash).with_changed_lines(count_lines(&self.content))
    }
}
