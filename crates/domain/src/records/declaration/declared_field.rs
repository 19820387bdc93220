//! One field of a declaration, and the queries that it allows.

use serde_json::Value as Json;

use super::declaration_fault::{BadDeclaration, DeclarationFault, DeclarationNode, MAX_FIELDS};
use super::type_set::{self, JsonType, StringFormat, TypeSet};
use crate::records::identifiers;
use crate::records::instant::Instant;
use crate::records::list_members::each_member;
use crate::records::stored_body::StoredValue;

/// One field of a declaration, and the queries that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredField {
    /// The name of the field.
    pub name: String,
    /// The types that the field may hold.
    pub types: TypeSet,
    /// The format of the field's strings; absent if the field may hold other types than strings and
    /// null.
    pub format: Option<StringFormat>,
    /// The types of the members, if the field holds lists of texts, numbers or booleans, and only
    /// lists; otherwise empty.
    pub members: TypeSet,
    /// Whether the field may hold lists or objects with texts in them, as far as its schema says.
    pub has_nested_texts: bool,
    /// Whether the field's strings are bytes in base64: the schema's `contentEncoding` is `base64`
    /// or `base64url`.
    pub binary: bool,
    /// Whether requests may filter by an exact value of the field.
    pub filterable: bool,
    /// The operators with which requests may filter by a range of the field.
    pub operators: Vec<RangeOperator>,
    /// Whether requests may search the words of the field, or of the texts in its lists.
    pub searchable: bool,
    /// The aggregates that requests may compute over the field.
    pub aggregations: Vec<Aggregation>,
}

impl DeclaredField {
    /// Whether requests may filter by a range of the field.
    pub fn is_range_filterable(&self) -> bool {
        !self.operators.is_empty()
    }

    /// Whether requests may compute any aggregate over the field.
    pub fn is_aggregatable(&self) -> bool {
        !self.aggregations.is_empty()
    }

    /// Whether the field holds lists whose members can be compared and counted.
    pub fn is_list(&self) -> bool {
        self.members.is_scalar()
    }

    /// Whether a value of the field, or a member of its list, can be compared and counted.
    pub fn is_comparable(&self) -> bool {
        self.types.is_scalar() || self.is_list()
    }

    /// Whether the field may hold texts, or lists with texts.
    pub fn has_words(&self) -> bool {
        let has_text = |types: TypeSet| types.contains(JsonType::String);
        has_text(self.types) || self.is_list() && has_text(self.members)
    }

    /// Whether a value is a list that is kept in pieces, into which neither a filter nor an
    /// aggregate looks, though the field holds lists whose members can be compared.
    pub fn is_long_list(&self, value: StoredValue<'_>) -> bool {
        self.is_list() && matches!(value, StoredValue::LongJson(_))
    }

    /// Whether the field holds only numbers and null.
    pub fn is_number(&self) -> bool {
        self.types.are_only(&[JsonType::Integer, JsonType::Number])
    }

    /// Whether a value has the declared type and format, and each member of a list has. Null always
    /// has: it means that the record lacks the field. A number with a fraction counts as an
    /// integer, since the declaration was often inferred from a few whole numbers. A list that is
    /// kept in pieces is not looked into.
    pub fn admits(&self, value: StoredValue<'_>) -> bool {
        let has = |kind| self.types.contains(kind);
        match value {
            StoredValue::Text(text) if self.format.is_some() => {
                has(JsonType::String) && Instant::parse(text).is_some()
            }
            StoredValue::LongText(_) if self.format.is_some() => false,
            StoredValue::Json(json) if json.starts_with('[') => {
                has(JsonType::Array) && self.misfit_member(value).is_none()
            }
            StoredValue::Json(_) => has(JsonType::Object),
            StoredValue::LongJson(_) => has(JsonType::Array) || has(JsonType::Object),
            scalar => self.types.admit(scalar),
        }
    }

    /// Returns the first member of a list that does not have the type that the declaration gives to
    /// members, as JSON without what lies within it; `None` if all have, and for other values.
    pub fn misfit_member(&self, value: StoredValue<'_>) -> Option<String> {
        let StoredValue::Json(json) = value else { return None };
        let mut misfit = None;
        if self.is_list() {
            each_member(json, &mut |member| {
                if misfit.is_none() && !member.is_some_and(|member| self.members.admit(member)) {
                    misfit = Some(member.map_or_else(|| "[…]".to_owned(), StoredValue::shown));
                }
            });
        }
        misfit
    }

    /// Describes the declared type within a sentence, such as `a number`, `a date` or `a list of
    /// texts`.
    pub fn described_type(&self) -> String {
        if let Some(format) = self.format {
            return match format {
                StringFormat::Date => "a date".to_owned(),
                StringFormat::DateTime => "a date and time".to_owned(),
            };
        }
        if self.is_list() {
            return format!("a list of {}", self.members.named(member_name));
        }
        self.types.named(value_name)
    }
}

fn value_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::String => "text",
        JsonType::Number | JsonType::Integer => "a number",
        JsonType::Boolean => "true or false",
        JsonType::Array => "a list",
        JsonType::Object | JsonType::Null => "an object",
    }
}

fn member_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::String => "texts",
        JsonType::Number | JsonType::Integer => "numbers",
        other => value_name(other),
    }
}

/// A comparison with a bound of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
pub enum RangeOperator {
    /// Greater than or equal to the bound.
    Gte,
    /// Greater than the bound.
    Gt,
    /// Less than or equal to the bound.
    Lte,
    /// Less than the bound.
    Lt,
}

impl RangeOperator {
    /// Every operator, in the order in which documents list them.
    pub const ALL: [Self; 4] = [Self::Gte, Self::Gt, Self::Lte, Self::Lt];

    /// Returns the operator's name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gte => "gte",
            Self::Gt => "gt",
            Self::Lte => "lte",
            Self::Lt => "lt",
        }
    }

    /// Whether a value is in the range, given how the value compares with the bound.
    pub fn admits(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Gte => order.is_ge(),
            Self::Gt => order.is_gt(),
            Self::Lte => order.is_le(),
            Self::Lt => order.is_lt(),
        }
    }
}

/// An aggregate that a field may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// The sum of the field's numbers.
    Sum,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// A count for each value.
    GroupBy,
    /// A count for each span of time, such as a day or a month.
    GroupByTime,
    /// The number of distinct values.
    CountDistinct,
}

impl Aggregation {
    /// Every aggregate, in the order in which documents list them.
    pub const ALL: [Self; 6] =
        [Self::Sum, Self::Min, Self::Max, Self::GroupBy, Self::GroupByTime, Self::CountDistinct];

    /// Returns the aggregate's name in a declaration.
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

/// Reads the fields of a schema. None of them allows queries yet.
pub(super) fn parse_fields(
    schema: &DeclarationNode<'_>,
) -> Result<Vec<DeclaredField>, BadDeclaration> {
    if !schema.value.is_some_and(Json::is_object) {
        return Err(schema.must_be("a JSON Schema of objects"));
    }
    let kind = schema.member("type");
    if kind.value.is_some_and(|kind| kind != "object") {
        return Err(kind.must_be("`object`"));
    }
    let properties = schema.member("properties");
    if properties.value.is_none() {
        return Err(properties.must_be("an object with a member for each field"));
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
        let (types, format) = type_set::parse_property(property.value.unwrap_or(&Json::Null))
            .map_err(|fault| property.bad(fault))?;
        fields.push(DeclaredField {
            name,
            types,
            format,
            members: members_of(types, property.value),
            has_nested_texts: has_nested_texts(types, property.value),
            binary: is_binary(property.value),
            filterable: false,
            operators: Vec::new(),
            searchable: false,
            aggregations: Vec::new(),
        });
    }
    Ok(fields)
}

/// Returns the types of the members of a list, as the schema of a property has them.
fn members_of(types: TypeSet, property: Option<&Json>) -> TypeSet {
    let items = property.and_then(|property| property.get("items"));
    let items = items.filter(|_| types.are_only(&[JsonType::Array]));
    let members = items.and_then(|items| type_set::parse_property(items).ok());
    members.map(|(members, _)| members).filter(|members| members.is_scalar()).unwrap_or_default()
}

/// Whether a value of a property may be an object, or a list with a text, a list or an object in
/// it.
fn has_nested_texts(types: TypeSet, property: Option<&Json>) -> bool {
    let has_texts = |items: &Json| match type_set::parse_property(items) {
        Ok((members, format)) => {
            members.contains(JsonType::String) && format.is_none()
                || has_nested_texts(members, Some(items))
        }
        Err(_) => true,
    };
    let items = property.and_then(|property| property.get("items"));
    types.contains(JsonType::Object)
        || types.contains(JsonType::Array) && items.is_none_or(has_texts)
}

/// Whether the schema of a property says that its strings are base64 (RFC 4648).
fn is_binary(property: Option<&Json>) -> bool {
    let encoding = property.and_then(|property| property.get("contentEncoding"));
    encoding.and_then(Json::as_str).is_some_and(|encoding| {
        ["base64", "base64url"].iter().any(|known| encoding.eq_ignore_ascii_case(known))
    })
}

/// Reads a list of operators and drops repetitions.
pub(super) fn parse_operators(
    node: &DeclarationNode<'_>,
) -> Result<Vec<RangeOperator>, BadDeclaration> {
    let bad = || node.must_be("a list of some of `gte`, `gt`, `lte` and `lt`");
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
