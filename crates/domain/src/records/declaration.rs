//! The owner's declaration of a stream: its fields and their types, the key, the order, and which
//! queries each field allows.
//!
//! The declaration is one JSON object. The store keeps the original, so that an owner who edits it
//! finds it unchanged. This module reads what the program needs and checks that all parts fit
//! together: for example, a declaration never names a field that its schema lacks, and never allows
//! the sum of a text field.
//!
//! *Shape*: `{schema, primary_key, cursor_field?, consent_time_field?, semantics?, query?:
//! {range_filters?, exact_filters?, search?: {lexical_fields?}, aggregations?, expand?}, views?,
//! relationships?, …}`. Other members are kept and have no effect.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};

use super::identifiers;

mod declared_field;
mod relations;
#[cfg(test)]
mod tests;
mod type_set;

pub use declared_field::{Aggregation, DeclaredField, RangeOperator};
pub use relations::{ExpandLimits, FieldView, Relation};
pub use type_set::{JsonType, StringFormat, TypeSet};

/// The largest declaration, in bytes of compact JSON.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The most fields of a declaration.
pub const MAX_FIELDS: usize = 10_000;

/// A declaration of a stream that has passed all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    json: Map<String, Json>,
    primary_key: Vec<String>,
    cursor_field: Option<String>,
    consent_time_field: Option<String>,
    semantics: Semantics,
    fields: Vec<DeclaredField>,
    by_name: HashMap<String, usize>,
    required: Vec<String>,
    views: Vec<FieldView>,
    relations: Vec<Relation>,
}

/// How a stream treats a second record with the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// The first record stays; records are only added.
    AppendOnly,
    /// The second record replaces the first. The default, because a second export of the same
    /// source corrects the first.
    #[default]
    MutableState,
}

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
    fn new(member: impl Into<String>, fault: DeclarationFault) -> Self {
        Self { member: member.into(), fault }
    }
}

/// What a use requires of a field's type.
#[derive(Clone, Copy)]
enum FieldRequirement {
    Scalar,
    Text,
    Time,
    Number,
    Range,
}

impl FieldRequirement {
    fn check(self, field: &DeclaredField) -> Result<(), DeclarationFault> {
        let scalar = field.types.is_scalar();
        let (fits, needed) = match self {
            Self::Scalar => (scalar, "hold neither arrays nor objects"),
            Self::Text => (field.types.contains(JsonType::String), "hold strings"),
            Self::Time => {
                (field.format.is_some(), "hold strings of the format `date` or `date-time`")
            }
            Self::Number => (field.is_number(), "hold numbers only"),
            Self::Range => (
                field.is_number() || field.format.is_some(),
                "hold numbers only, or strings of the format `date` or `date-time`",
            ),
        };
        if fits {
            Ok(())
        } else {
            Err(DeclarationFault::Unfit { name: field.name.clone(), needed })
        }
    }
}

impl Declaration {
    /// Parses a declaration.
    ///
    /// # Errors
    /// [`BadDeclaration`], which names the first member that is wrong.
    pub fn parse(json: &Json) -> Result<Self, BadDeclaration> {
        let mut declaration = Self::without_relations(json)?;
        declaration.views = declaration.read_views(json)?;
        declaration.relations = declaration.read_relations(json)?;
        Ok(declaration)
    }

    /// Parses a declaration that the store kept.
    ///
    /// Early versions stored views and relationships unchecked. If those are wrong, the declaration
    /// has none.
    ///
    /// # Errors
    /// As [`Declaration::parse`], for every other member.
    pub fn parse_stored(json: &Json) -> Result<Self, BadDeclaration> {
        let mut declaration = Self::without_relations(json)?;
        declaration.views = declaration.read_views(json).unwrap_or_default();
        declaration.relations = declaration.read_relations(json).unwrap_or_default();
        Ok(declaration)
    }

    fn read_views(&self, json: &Json) -> Result<Vec<FieldView>, BadDeclaration> {
        relations::views(self, &DeclarationNode::root("views", json.get("views")))
    }

    fn read_relations(&self, json: &Json) -> Result<Vec<Relation>, BadDeclaration> {
        let relationships = DeclarationNode::root("relationships", json.get("relationships"));
        let expand = DeclarationNode::root("query", json.get("query")).member("expand");
        relations::relations(self, &relationships, &expand)
    }

    fn without_relations(json: &Json) -> Result<Self, BadDeclaration> {
        let bad = |fault| BadDeclaration::new("declaration", fault);
        let Json::Object(members) = json else {
            return Err(bad(DeclarationFault::Kind("a JSON object")));
        };
        if json.to_string().len() > MAX_BYTES {
            return Err(bad(DeclarationFault::TooLarge));
        }
        let node = |name: &str| DeclarationNode::root(name, members.get(name));
        let schema = node("schema");
        let fields = declared_field::parse_fields(&schema)?;
        let by_name =
            fields.iter().enumerate().map(|(index, field)| (field.name.clone(), index)).collect();
        let mut declaration = Self {
            json: members.clone(),
            primary_key: Vec::new(),
            cursor_field: None,
            consent_time_field: None,
            semantics: Semantics::default(),
            fields,
            by_name,
            required: Vec::new(),
            views: Vec::new(),
            relations: Vec::new(),
        };
        declaration.required = declaration.list(&schema.member("required"), None)?;
        declaration.primary_key =
            declaration.list(&node("primary_key"), Some(FieldRequirement::Scalar))?;
        declaration.cursor_field =
            declaration.one(&node("cursor_field"), FieldRequirement::Scalar)?;
        declaration.consent_time_field =
            declaration.one(&node("consent_time_field"), FieldRequirement::Time)?;
        declaration.semantics = semantics(&node("semantics"))?;
        declaration.query(&node("query"))?;
        Ok(declaration)
    }

    /// Returns the original JSON.
    pub fn to_json(&self) -> Json {
        Json::Object(self.json.clone())
    }

    /// Returns the fields of the view with this identifier.
    pub fn view(&self, id: &str) -> Option<&[String]> {
        self.views.iter().find(|view| view.id == id).map(|view| view.fields.as_slice())
    }

    /// Returns the relationships that a request can expand.
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// Returns a member of the original JSON, such as `views` or `relationships`.
    pub fn member(&self, name: &str) -> Option<&Json> {
        self.json.get(name)
    }

    /// Returns the JSON Schema 2020-12 of a record's data.
    pub fn schema(&self) -> &Json {
        self.json.get("schema").unwrap_or(&Json::Null)
    }

    /// Returns the fields of the primary key in order. If empty, keys are made from the content.
    pub fn primary_key(&self) -> &[String] {
        &self.primary_key
    }

    /// Returns the field that orders the records.
    pub fn cursor_field(&self) -> Option<&str> {
        self.cursor_field.as_deref()
    }

    /// Returns the field that a grant's time constraint looks at. The field always has a format.
    pub fn consent_time_field(&self) -> Option<&str> {
        self.consent_time_field.as_deref()
    }

    /// Returns how the stream treats a second record with the same key.
    pub fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// Returns every field, in the order of the schema.
    pub fn fields(&self) -> &[DeclaredField] {
        &self.fields
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&DeclaredField> {
        self.by_name.get(name).and_then(|&index| self.fields.get(index))
    }

    /// Returns the fields that every record must have. Every grant therefore includes them.
    pub fn required(&self) -> &[String] {
        &self.required
    }

    fn check(
        &self,
        node: &DeclarationNode<'_>,
        name: &str,
        needed: Option<FieldRequirement>,
    ) -> Result<(), BadDeclaration> {
        let field = self
            .field(name)
            .ok_or_else(|| node.bad(DeclarationFault::NoSuchField(name.to_owned())))?;
        needed.map_or(Ok(()), |needed| needed.check(field)).map_err(|fault| node.bad(fault))
    }

    /// Reads the name of one field. A null counts as absent.
    fn one(
        &self,
        node: &DeclarationNode<'_>,
        needed: FieldRequirement,
    ) -> Result<Option<String>, BadDeclaration> {
        match node.value {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(name)) => {
                self.check(node, name, Some(needed)).map(|()| Some(name.clone()))
            }
            Some(_) => Err(node.must_be("the name of a field")),
        }
    }

    /// Reads a list of names of fields and refuses repetitions.
    fn list(
        &self,
        node: &DeclarationNode<'_>,
        needed: Option<FieldRequirement>,
    ) -> Result<Vec<String>, BadDeclaration> {
        let mut names = HashSet::new();
        let mut list = Vec::new();
        for item in node.items()? {
            let Json::String(name) = item else {
                return Err(node.must_be("a list of names of fields"));
            };
            self.check(node, name, needed)?;
            if !names.insert(name) {
                return Err(node.bad(DeclarationFault::Repeated(name.clone())));
            }
            list.push(name.clone());
        }
        Ok(list)
    }

    fn query(&mut self, query: &DeclarationNode<'_>) -> Result<(), BadDeclaration> {
        let (search, aggregations) = (query.member("search"), query.member("aggregations"));
        for node in [query, &search, &aggregations] {
            node.members()?;
        }
        let exact = query.member("exact_filters");
        if exact.value.is_some() {
            for name in self.list(&exact, Some(FieldRequirement::Scalar))? {
                self.allow(&name, |field| field.filterable = true);
            }
        } else {
            self.fields.iter_mut().for_each(|field| field.filterable = field.types.is_scalar());
        }
        for (name, operators) in query.member("range_filters").members()? {
            self.check(&operators, &name, Some(FieldRequirement::Range))?;
            let operators = declared_field::parse_operators(&operators)?;
            self.allow(&name, |field| field.operators = operators);
        }
        for name in self.list(&search.member("lexical_fields"), Some(FieldRequirement::Text))? {
            self.allow(&name, |field| field.searchable = true);
        }
        for kind in Aggregation::ALL {
            let needed = match kind {
                Aggregation::Sum => FieldRequirement::Number,
                Aggregation::Min | Aggregation::Max => FieldRequirement::Range,
                Aggregation::GroupByTime => FieldRequirement::Time,
                Aggregation::GroupBy | Aggregation::CountDistinct => FieldRequirement::Scalar,
            };
            for name in self.list(&aggregations.member(kind.name()), Some(needed))? {
                self.allow(&name, |field| field.aggregations.push(kind));
            }
        }
        Ok(())
    }

    fn allow(&mut self, name: &str, change: impl FnOnce(&mut DeclaredField)) {
        let field = self.by_name.get(name).and_then(|&index| self.fields.get_mut(index));
        if let Some(field) = field {
            change(field);
        }
    }
}

fn semantics(node: &DeclarationNode<'_>) -> Result<Semantics, BadDeclaration> {
    match node.value.map(Json::as_str) {
        None => Ok(Semantics::default()),
        Some(Some("append_only")) => Ok(Semantics::AppendOnly),
        Some(Some("mutable_state")) => Ok(Semantics::MutableState),
        Some(_) => Err(node.must_be("`append_only` or `mutable_state`")),
    }
}

/// A member of a declaration with its path. The member may be absent.
struct DeclarationNode<'a> {
    path: String,
    value: Option<&'a Json>,
}

impl<'a> DeclarationNode<'a> {
    fn root(name: &str, value: Option<&'a Json>) -> Self {
        Self { path: name.to_owned(), value }
    }

    fn bad(&self, fault: DeclarationFault) -> BadDeclaration {
        BadDeclaration::new(&self.path, fault)
    }

    /// Reports that the member must be something else, such as `an object`.
    fn must_be(&self, kind: &'static str) -> BadDeclaration {
        self.bad(DeclarationFault::Kind(kind))
    }

    /// Returns a member; absent if this node is not an object, which [`DeclarationNode::members`]
    /// reports.
    fn member(&self, name: &str) -> DeclarationNode<'a> {
        DeclarationNode {
            path: format!("{}.{name}", self.path),
            value: self.value.and_then(|value| value.get(name)),
        }
    }

    fn text(&self) -> Option<&'a str> {
        self.value.and_then(Json::as_str)
    }

    fn members(&self) -> Result<Vec<(String, DeclarationNode<'a>)>, BadDeclaration> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Json::Object(members)) => {
                Ok(members.keys().map(|name| (name.clone(), self.member(name))).collect())
            }
            Some(_) => Err(self.must_be("an object")),
        }
    }

    fn items(&self) -> Result<&'a [Json], BadDeclaration> {
        match self.value {
            None => Ok(&[]),
            Some(Json::Array(items)) => Ok(items),
            Some(_) => Err(self.must_be("a list of names of fields")),
        }
    }
}
