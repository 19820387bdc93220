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

use serde_json::{Map, Value as Json};

mod declaration_fault;
mod declared_field;
mod declared_fields;
mod relations;
#[cfg(test)]
mod tests;
mod type_set;

use self::declaration_fault::DeclarationNode;
pub use self::declaration_fault::{BadDeclaration, DeclarationFault, MAX_BYTES, MAX_FIELDS};
pub use self::declared_field::{Aggregation, DeclaredField, RangeOperator};
use self::declared_fields::{DeclaredFields, FieldRequirement};
pub use self::relations::{ExpandLimits, FieldView, Relation};
pub use self::type_set::{JsonType, StringFormat, TypeSet};

/// A declaration of a stream that has passed all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    json: Map<String, Json>,
    primary_key: Vec<String>,
    cursor_field: Option<String>,
    consent_time_field: Option<String>,
    semantics: Semantics,
    fields: DeclaredFields,
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
        relations::views(&self.fields, &DeclarationNode::root("views", json.get("views")))
    }

    fn read_relations(&self, json: &Json) -> Result<Vec<Relation>, BadDeclaration> {
        let relationships = DeclarationNode::root("relationships", json.get("relationships"));
        let expand = DeclarationNode::root("query", json.get("query")).member("expand");
        relations::relations(&self.fields, &relationships, &expand)
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
        let fields = DeclaredFields::new(declared_field::parse_fields(&schema)?);
        let mut declaration = Self {
            json: members.clone(),
            primary_key: Vec::new(),
            cursor_field: None,
            consent_time_field: None,
            semantics: Semantics::default(),
            fields,
            required: Vec::new(),
            views: Vec::new(),
            relations: Vec::new(),
        };
        declaration.required = declaration.fields.list(&schema.member("required"), None)?;
        declaration.primary_key =
            declaration.fields.list(&node("primary_key"), Some(FieldRequirement::Scalar))?;
        declaration.cursor_field =
            declaration.fields.one(&node("cursor_field"), FieldRequirement::Scalar)?;
        declaration.consent_time_field =
            declaration.fields.one(&node("consent_time_field"), FieldRequirement::Time)?;
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
        self.fields.all()
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&DeclaredField> {
        self.fields.get(name)
    }

    /// Returns the fields that every record must have. Every grant therefore includes them.
    pub fn required(&self) -> &[String] {
        &self.required
    }

    fn query(&mut self, query: &DeclarationNode<'_>) -> Result<(), BadDeclaration> {
        let (search, aggregations) = (query.member("search"), query.member("aggregations"));
        for node in [query, &search, &aggregations] {
            node.members()?;
        }
        let exact = query.member("exact_filters");
        if exact.value.is_some() {
            for name in self.fields.list(&exact, Some(FieldRequirement::Comparable))? {
                self.fields.allow(&name, |field| field.filterable = true);
            }
        } else {
            self.fields.all_mut().for_each(|field| field.filterable = field.is_comparable());
        }
        for (name, operators) in query.member("range_filters").members()? {
            self.fields.check(&operators, &name, Some(FieldRequirement::Range))?;
            let operators = declared_field::parse_operators(&operators)?;
            self.fields.allow(&name, |field| field.operators = operators);
        }
        for name in
            self.fields.list(&search.member("lexical_fields"), Some(FieldRequirement::Words))?
        {
            self.fields.allow(&name, |field| field.searchable = true);
        }
        for kind in Aggregation::ALL {
            let needed = match kind {
                Aggregation::Sum => FieldRequirement::Number,
                Aggregation::Min | Aggregation::Max => FieldRequirement::Range,
                Aggregation::GroupByTime => FieldRequirement::Time,
                Aggregation::GroupBy | Aggregation::CountDistinct => FieldRequirement::Comparable,
            };
            for name in self.fields.list(&aggregations.member(kind.name()), Some(needed))? {
                self.fields.allow(&name, |field| field.aggregations.push(kind));
            }
        }
        Ok(())
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
