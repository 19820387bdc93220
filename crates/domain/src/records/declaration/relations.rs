//! The parts of a declaration beyond its fields: views, which are named lists of fields, and
//! relationships to records of other streams.
//!
//! *Shape*: `views: [{id, label?, fields}]`; `relationships: [{name, stream, foreign_key,
//! cardinality}]`, where `cardinality` is `has_one` or `has_many`; `query.expand: [{name,
//! default_limit?, max_limit?}]`, which lists the relationships that a request may expand.

use serde_json::Value as Json;

use super::declaration_fault::{BadDeclaration, DeclarationFault, DeclarationNode};
use super::declared_fields::{DeclaredFields, FieldRequirement};
use crate::records::identifiers::{self, MAX_NAME_BYTES, SourceName};

/// The related records of one record if neither request nor declaration sets a limit.
const DEFAULT_LIMIT: u64 = 10;
/// The largest limit of a request if the declaration sets none.
const DEFAULT_MAX: u64 = 50;
/// The largest limit that a declaration can allow.
const MOST: u64 = 100;

/// A named list of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldView {
    /// The identifier that requests send.
    pub id: String,
    /// The names of the fields.
    pub fields: Vec<String>,
}

/// How records of one stream belong to records of another stream in the same connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The name of the relationship.
    pub name: String,
    /// The name of the other stream, which need not exist.
    pub stream: SourceName,
    /// The field that holds a key. For `has_many` it is a field of the other stream, for `has_one`
    /// of this stream.
    pub foreign_key: String,
    /// The limits of `has_many`; absent for `has_one`.
    pub many: Option<ExpandLimits>,
}

/// The limits on the related records of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandLimits {
    /// The number of records if the request sets no limit.
    pub default: u64,
    /// The largest limit that a request may set.
    pub most: u64,
}

impl Relation {
    /// Returns the relationship's cardinality as a declaration spells it.
    pub fn cardinality(&self) -> &'static str {
        if self.many.is_some() { "has_many" } else { "has_one" }
    }
}

pub(super) fn views(
    declared: &DeclaredFields,
    node: &DeclarationNode<'_>,
) -> Result<Vec<FieldView>, BadDeclaration> {
    let mut views: Vec<FieldView> = Vec::new();
    for item in objects(node, "a list of objects with `id` and `fields`")? {
        let id = item.member("id");
        let fits = |text: &&str| (1..=MAX_NAME_BYTES).contains(&text.len());
        let name = id.text().filter(fits).ok_or_else(|| id.must_be("a text of 1 to 64 bytes"))?;
        if views.iter().any(|view| view.id == name) {
            return Err(id.bad(DeclarationFault::Again(name.to_owned())));
        }
        let fields = item.member("fields");
        if fields.value.is_none() {
            return Err(fields.must_be("a list of names of fields"));
        }
        views.push(FieldView { id: name.to_owned(), fields: declared.list(&fields, None)? });
    }
    Ok(views)
}

pub(super) fn relations(
    declared: &DeclaredFields,
    relationships: &DeclarationNode<'_>,
    expand: &DeclarationNode<'_>,
) -> Result<Vec<Relation>, BadDeclaration> {
    let mut known: Vec<Relation> = Vec::new();
    for item in objects(
        relationships,
        "a list of objects with `name`, `stream`, `foreign_key` and `cardinality`",
    )? {
        let relation = relation(declared, &item)?;
        if known.iter().any(|other| other.name == relation.name) {
            return Err(item.member("name").bad(DeclarationFault::Again(relation.name)));
        }
        known.push(relation);
    }
    let mut expandable: Vec<Relation> = Vec::new();
    for item in objects(expand, "a list of objects with `name`")? {
        let name = item.member("name");
        let text = name.text().ok_or_else(|| name.must_be("the name of a relationship"))?;
        let relation = known.iter().find(|relation| relation.name == text);
        let mut relation = relation
            .ok_or_else(|| name.bad(DeclarationFault::NoSuchRelation(text.to_owned())))?
            .clone();
        if expandable.iter().any(|other| other.name == text) {
            return Err(name.bad(DeclarationFault::Again(text.to_owned())));
        }
        let limits = limits(&item)?;
        relation.many = relation.many.map(|_| limits);
        expandable.push(relation);
    }
    Ok(expandable)
}

fn relation(
    declared: &DeclaredFields,
    item: &DeclarationNode<'_>,
) -> Result<Relation, BadDeclaration> {
    let name_of = |member: &str| {
        let node = item.member(member);
        let kind =
            "1 to 64 of the characters A-Z a-z 0-9 . _ -, beginning with a letter, a digit or _";
        node.text().and_then(|text| SourceName::parse(text).ok()).ok_or_else(|| node.must_be(kind))
    };
    let (name, stream) = (name_of("name")?, name_of("stream")?);
    let cardinality = item.member("cardinality");
    let many = match cardinality.text() {
        Some("has_one") => None,
        Some("has_many") => Some(ExpandLimits { default: DEFAULT_LIMIT, most: DEFAULT_MAX }),
        _ => return Err(cardinality.must_be("`has_one` or `has_many`")),
    };
    let key = item.member("foreign_key");
    let is_name = |text: &&str| identifiers::is_field_name(text);
    let foreign_key =
        key.text().filter(is_name).ok_or_else(|| key.must_be("the name of a field"))?;
    if many.is_none() {
        declared.check(&key, foreign_key, Some(FieldRequirement::Scalar))?;
    }
    Ok(Relation {
        name: name.as_str().to_owned(),
        stream,
        foreign_key: foreign_key.to_owned(),
        many,
    })
}

fn limits(item: &DeclarationNode<'_>) -> Result<ExpandLimits, BadDeclaration> {
    let number = |member: &str| {
        let node = item.member(member);
        let fits = |value: &Json| value.as_u64().filter(|number| (1..=MOST).contains(number));
        node.value
            .map(|value| fits(value).ok_or_else(|| node.must_be("a whole number from 1 to 100")))
            .transpose()
    };
    let (default, most) = (number("default_limit")?, number("max_limit")?.unwrap_or(DEFAULT_MAX));
    if default.is_some_and(|default| default > most) {
        return Err(item
            .member("default_limit")
            .must_be("at most `max_limit`, which is 50 if absent"));
    }
    Ok(ExpandLimits { default: default.unwrap_or(DEFAULT_LIMIT.min(most)), most })
}

fn objects<'a>(
    node: &DeclarationNode<'a>,
    kind: &'static str,
) -> Result<Vec<DeclarationNode<'a>>, BadDeclaration> {
    let items = match node.value {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(_) => return Err(node.must_be(kind)),
    };
    let item = |(at, value): (usize, &'a Json)| {
        let item = DeclarationNode { path: format!("{}[{at}]", node.path), value: Some(value) };
        if value.is_object() { Ok(item) } else { Err(item.must_be("an object")) }
    };
    items.iter().enumerate().map(item).collect()
}
