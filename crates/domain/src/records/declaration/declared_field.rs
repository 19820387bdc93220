//! One declared field, and what may be asked of it.

use serde_json::Value as Json;

use super::type_set::{self, JsonType, StringFormat, TypeSet};
use super::{BadDeclaration, DeclarationFault, MAX_FIELDS, Node};
use crate::records::identifiers;

/// A declared field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredField {
    /// What it is called.
    pub name: String,
    /// What it may hold.
    pub types: TypeSet,
    /// What its strings are; only where it holds nothing else but null.
    pub format: Option<StringFormat>,
    /// Whether records can be filtered by an exact value of it.
    pub filterable: bool,
    /// With which operators records can be filtered by a range of it.
    pub operators: Vec<RangeOperator>,
    /// Whether the words in it can be searched for.
    pub searchable: bool,
    /// What can be computed over it.
    pub aggregations: Vec<Aggregation>,
}

impl DeclaredField {
    /// Whether records can be filtered by a range of it.
    pub fn is_range_filterable(&self) -> bool {
        !self.operators.is_empty()
    }

    /// Whether anything can be computed over it.
    pub fn is_aggregatable(&self) -> bool {
        !self.aggregations.is_empty()
    }

    /// Whether it holds numbers and nothing else but null.
    pub fn is_number(&self) -> bool {
        self.types.are_only(&[JsonType::Integer, JsonType::Number])
    }
}

/// A comparison of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
pub enum RangeOperator {
    /// At least.
    Gte,
    /// More than.
    Gt,
    /// At most.
    Lte,
    /// Less than.
    Lt,
}

impl RangeOperator {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Gte, Self::Gt, Self::Lte, Self::Lt];

    /// As a request spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gte => "gte",
            Self::Gt => "gt",
            Self::Lte => "lte",
            Self::Lt => "lt",
        }
    }

    /// Whether a value that compares so with the bound is in the range.
    pub fn admits(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Gte => order.is_ge(),
            Self::Gt => order.is_gt(),
            Self::Lte => order.is_le(),
            Self::Lt => order.is_lt(),
        }
    }
}

/// What can be computed over a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// The sum of its numbers.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Counts for each value.
    GroupBy,
    /// Counts for each day, month and so on.
    GroupByTime,
    /// How many different values there are.
    CountDistinct,
}

impl Aggregation {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Sum, Self::Min, Self::Max, Self::GroupBy, Self::GroupByTime, Self::CountDistinct];

    /// As a declaration spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::GroupBy => "group_by",
            Self::GroupByTime => "group_by_time",
            Self::CountDistinct => "count_distinct",
        }
    }
}

/// The fields of a schema, of which nothing may be asked yet.
pub(super) fn of(schema: &Node<'_>) -> Result<Vec<DeclaredField>, BadDeclaration> {
    if !schema.value.is_some_and(Json::is_object) {
        return Err(schema.bad(DeclarationFault::Kind("a JSON Schema of objects")));
    }
    let kind = schema.member("type");
    if kind.value.is_some_and(|kind| kind != "object") {
        return Err(kind.bad(DeclarationFault::Kind("`object`")));
    }
    let properties = schema.member("properties");
    if properties.value.is_none() {
        return Err(
            properties.bad(DeclarationFault::Kind("an object with a member for each field"))
        );
    }
    let properties_of = properties.members()?;
    if properties_of.len() > MAX_FIELDS {
        return Err(properties.bad(DeclarationFault::TooManyFields));
    }
    let mut fields = Vec::with_capacity(properties_of.len());
    for (name, property) in properties_of {
        if !identifiers::is_field_name(&name) {
            return Err(properties.bad(DeclarationFault::BadFieldName));
        }
        let (types, format) = type_set::of(property.value.unwrap_or(&Json::Null))
            .map_err(|fault| property.bad(fault))?;
        fields.push(DeclaredField {
            name,
            types,
            format,
            filterable: false,
            operators: Vec::new(),
            searchable: false,
            aggregations: Vec::new(),
        });
    }
    Ok(fields)
}

/// A list of operators.
pub(super) fn operators(node: &Node<'_>) -> Result<Vec<RangeOperator>, BadDeclaration> {
    let bad = || node.bad(DeclarationFault::Kind("a list of some of `gte`, `gt`, `lte` and `lt`"));
    let mut operators = Vec::new();
    let items = node.value.and_then(Json::as_array).ok_or_else(bad)?;
    for item in items {
        let operator = RangeOperator::ALL
            .into_iter()
            .find(|operator| item == operator.name())
            .ok_or_else(bad)?;
        if !operators.contains(&operator) {
            operators.push(operator);
        }
    }
    Ok(operators)
}
