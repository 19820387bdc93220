//! Errors in a declaration, and its members with the paths that errors name.

use serde_json::Value as Json;

use crate::records::identifiers;

/// The largest declaration, in bytes of compact JSON.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The most fields of a declaration.
pub const MAX_FIELDS: usize = 10_000;

/// The first error in a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{member}` {fault}")]
pub struct BadDeclaration {
    /// The path of the wrong member, such as `query.range_filters.amount`.
    pub member: String,
    /// The error in that member.
    pub fault: DeclarationFault,
}

/// An error in a member of a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationFault {
    /// The member has another type or value than the one described.
    #[error("must be {0}")]
    Kind(&'static str),
    /// The declaration has more than [`MAX_BYTES`] bytes.
    #[error("has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// The schema has more than [`MAX_FIELDS`] properties.
    #[error("has more than {MAX_FIELDS} fields")]
    TooManyFields,
    /// A property's name cannot be the name of a field.
    #[error(
        "names a field that is empty, longer than {} bytes, or has U+0000 in its name",
        identifiers::MAX_FIELD_NAME_BYTES
    )]
    BadFieldName,
    /// The schema lacks the named property.
    #[error("names the field `{0}`, which `schema.properties` does not have")]
    NoSuchField(String),
    /// A list names the same field twice.
    #[error("names the field `{0}` twice")]
    Repeated(String),
    /// A list contains the same name twice.
    #[error("has `{0}` twice")]
    Again(String),
    /// The declaration lacks the named relationship.
    #[error("names the relationship `{0}`, which `relationships` does not have")]
    NoSuchRelation(String),
    /// The named field has the wrong type for its use.
    #[error("names the field `{name}`, which must {needed}")]
    Unfit {
        /// The name of the field.
        name: String,
        /// What the field's type must be.
        needed: &'static str,
    },
}

impl BadDeclaration {
    pub(super) fn new(member: impl Into<String>, fault: DeclarationFault) -> Self {
        Self { member: member.into(), fault }
    }
}

/// A member of a declaration with its path. The member may be absent.
pub(super) struct DeclarationNode<'a> {
    pub(super) path: String,
    pub(super) value: Option<&'a Json>,
}

impl<'a> DeclarationNode<'a> {
    pub(super) fn root(name: &str, value: Option<&'a Json>) -> Self {
        Self { path: name.to_owned(), value }
    }

    pub(super) fn bad(&self, fault: DeclarationFault) -> BadDeclaration {
        BadDeclaration::new(&self.path, fault)
    }

    /// Reports that the member must be something else, such as `an object`.
    pub(super) fn must_be(&self, kind: &'static str) -> BadDeclaration {
        self.bad(DeclarationFault::Kind(kind))
    }

    /// Returns a member; absent if this node is not an object, which [`DeclarationNode::members`]
    /// reports.
    pub(super) fn member(&self, name: &str) -> DeclarationNode<'a> {
        DeclarationNode {
            path: format!("{}.{name}", self.path),
            value: self.value.and_then(|value| value.get(name)),
        }
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.and_then(Json::as_str)
    }

    pub(super) fn members(&self) -> Result<Vec<(String, DeclarationNode<'a>)>, BadDeclaration> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Json::Object(members)) => {
                Ok(members.keys().map(|name| (name.clone(), self.member(name))).collect())
            }
            Some(_) => Err(self.must_be("an object")),
        }
    }

    pub(super) fn items(&self) -> Result<&'a [Json], BadDeclaration> {
        match self.value {
            None => Ok(&[]),
            Some(Json::Array(items)) => Ok(items),
            Some(_) => Err(self.must_be("a list of names of fields")),
        }
    }
}
