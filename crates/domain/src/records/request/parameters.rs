//! The query parameters of a request, checked against the declaration of the operation.
//!
//! The same declarations make the OpenAPI document. A parameter that is not declared, that is sent
//! twice or that is out of range is refused, never ignored: a client that misspells a filter must
//! not receive records that it meant to exclude.

use super::super::declaration::RangeOperator;
use super::super::problem::Problem;

/// One query parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name as requests spell it.
    pub name: &'static str,
    /// The values that it takes.
    pub kind: ParameterType,
    /// Whether a request without it is refused.
    pub presence: ParameterPresence,
    /// The description in the OpenAPI document.
    pub about: &'static str,
}

impl Parameter {
    /// Declares a parameter that a request may leave out.
    pub const fn optional(name: &'static str, kind: ParameterType, about: &'static str) -> Self {
        Self { name, kind, presence: ParameterPresence::Optional, about }
    }

    /// Declares a parameter without which the operation refuses a request.
    pub const fn required(name: &'static str, kind: ParameterType, about: &'static str) -> Self {
        Self { name, kind, presence: ParameterPresence::Required, about }
    }
}

/// Whether a request must have a parameter. The operation itself refuses a request without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterPresence {
    /// A request may leave it out.
    Optional,
    /// A request must have it.
    Required,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum ParameterType {
    /// Any text up to a length.
    Text {
        /// The greatest length in bytes.
        max_bytes: usize,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Integer {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
        /// What happens to a greater one.
        above_max: AboveMax,
        /// The error for any other value.
        error: NumberError,
    },
    /// Field names: the parameter is repeated, or its value is separated by commas. With `[]` after
    /// the parameter's name each value is one name, which may have commas.
    Names,
    /// Names: the parameter is repeated, and each value is one name, which may have commas.
    RepeatedName {
        /// The greatest number of different names.
        max: usize,
    },
    /// `name[relation]=number`, from 1 on.
    RelationLimits,
    /// `name[field]=value` and `name[field][op]=value`, where `in` is repeated.
    Conditions,
    /// The same for several lists of conditions: `name[0][field]=value`, `name[1][field]=value`.
    Alternatives,
}

/// What happens to a number above the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboveMax {
    /// The request is refused.
    Refused,
    /// The maximum is taken instead, and the answer warns of that.
    Clamped,
}

/// The error for a number that is malformed or out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// [`Problem::InvalidRequest`].
    InvalidRequest,
    /// [`Problem::InvalidWindow`].
    InvalidWindow,
}

/// What a condition compares a field with, as the request spells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterComparison {
    /// The field equals this value.
    Is(String),
    /// The field equals one of these values.
    In(Vec<String>),
    /// The field is on this side of a bound.
    Range(RangeOperator, String),
    /// The field has a value, or has none.
    Exists(bool),
}

/// A condition as the request spells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterParameter {
    /// The name of the field.
    pub field: String,
    /// What the field is compared with.
    pub comparison: FilterComparison,
    /// Of which alternative the condition is; `None` if it must hold in any case.
    pub alternative: Option<usize>,
}

impl FilterParameter {
    /// Returns the parameter's name with its brackets, such as `filter[sent_at][gte]`.
    pub fn param(&self) -> String {
        let (base, field) = (self.base(), &self.field);
        match self.comparison.operator() {
            None => format!("{base}[{field}]"),
            Some(operator) => format!("{base}[{field}][{operator}]"),
        }
    }

    /// Returns the name before the brackets of the field: `filter`, or `or[1]`.
    fn base(&self) -> String {
        match self.alternative {
            None => "filter".to_owned(),
            Some(number) => format!("or[{number}]"),
        }
    }

    /// Returns the values of the parameter, which is repeated for several.
    pub(super) fn values(&self) -> Vec<String> {
        match &self.comparison {
            FilterComparison::Is(value) | FilterComparison::Range(_, value) => vec![value.clone()],
            FilterComparison::In(values) => values.clone(),
            FilterComparison::Exists(wanted) => vec![wanted.to_string()],
        }
    }
}

impl FilterComparison {
    /// Returns the name of the operator in a request; `None` for equality.
    fn operator(&self) -> Option<&'static str> {
        match self {
            Self::Is(_) => None,
            Self::In(_) => Some("in"),
            Self::Range(operator, _) => Some(operator.name()),
            Self::Exists(_) => Some("exists"),
        }
    }
}

/// A number that was above its maximum and was lowered to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClampedNumber {
    /// The name of the parameter.
    pub name: &'static str,
    /// The number that the request has.
    pub requested: u64,
    /// The maximum, which is used.
    pub max: u64,
}

/// The parameters of a request, checked.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    texts: Vec<(&'static str, String)>,
    numbers: Vec<(&'static str, u64)>,
    names: Vec<(&'static str, Vec<String>)>,
    conditions: Vec<FilterParameter>,
    relation_limits: Vec<(String, u64)>,
    /// Numbers that were lowered to their maximum.
    pub clamped: Vec<ClampedNumber>,
}

/// The greatest number of conditions of a request, and of relation limits.
const MAX_CONDITIONS: usize = 50;
/// The greatest number of lists of conditions of which one is enough.
const MAX_ALTERNATIVES: usize = 16;
/// The greatest number of names in a list.
const MAX_NAMES: usize = 1000;

impl Parameters {
    /// Checks the parameters that a request has.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`]; [`Problem::InvalidWindow`] where a number is declared so.
    pub fn parse(declared: &[Parameter], pairs: &[(String, String)]) -> Result<Self, Problem> {
        let mut this = Self::default();
        for (key, value) in pairs {
            let base = key.split('[').next().unwrap_or(key);
            let parameter = declared.iter().find(|parameter| parameter.name == base);
            let Some(parameter) = parameter else { return Err(unknown(key, declared)) };
            let name = parameter.name;
            let brackets = key.strip_prefix(name).unwrap_or_default();
            match (parameter.kind, brackets) {
                (ParameterType::Conditions, _) => {
                    this.add_condition(condition(name, (key, None), value)?)?;
                }
                (ParameterType::Alternatives, brackets) => {
                    let number = alternative(brackets).ok_or_else(|| wrong_alternative(name))?;
                    let base = format!("{name}[{number}]");
                    this.add_condition(condition(&base, (key, Some(number)), value)?)?;
                }
                (ParameterType::RelationLimits, _) => {
                    let relation = bracketed(name, key).ok_or_else(|| wrong_limit(name))?;
                    let digits = (1..=9).contains(&value.len())
                        && value.bytes().all(|byte| byte.is_ascii_digit());
                    let limit = value.parse().ok().filter(|_| digits).unwrap_or(0);
                    this.add_relation_limit(name, relation, limit)?;
                }
                (ParameterType::Names, "") => this.add_names(parameter, value.split(','))?,
                (ParameterType::Names, "[]") | (ParameterType::RepeatedName { .. }, "") => {
                    this.add_names(parameter, std::iter::once(value.as_str()))?;
                }
                (ParameterType::Text { .. } | ParameterType::OneOf(_), "") => {
                    this.add_text(parameter, value)?;
                }
                (ParameterType::Integer { .. }, "") => {
                    let digits = (1..=19).contains(&value.len())
                        && value.bytes().all(|byte| byte.is_ascii_digit());
                    this.add_number(parameter, value.parse().ok().filter(|_| digits))?;
                }
                _ => return Err(unknown(key, declared)),
            }
        }
        Ok(this)
    }

    /// Returns a text or a word; `None` if the request does not have it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    /// Returns a number, at most its maximum; `None` if the request does not have it.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// Returns a list of names without repetitions; `None` if the request does not have it.
    pub fn names(&self, name: &str) -> Option<&[String]> {
        self.names.iter().find(|(own, _)| *own == name).map(|(_, names)| names.as_slice())
    }

    /// Returns the conditions of the request.
    pub fn conditions(&self) -> &[FilterParameter] {
        &self.conditions
    }

    /// Returns the limits of relations.
    pub fn relation_limits(&self) -> &[(String, u64)] {
        &self.relation_limits
    }

    fn check_sent_once(&self, name: &'static str) -> Result<(), Problem> {
        if self.text(name).is_some() || self.number(name).is_some() {
            return Problem::refuse(name, format!("`{name}` was sent twice; send it once"));
        }
        Ok(())
    }

    /// Adds a text or a word.
    pub(super) fn add_text(&mut self, parameter: &Parameter, value: &str) -> Result<(), Problem> {
        let name = parameter.name;
        match parameter.kind {
            ParameterType::Text { max_bytes } if value.len() > max_bytes => {
                return Problem::refuse(name, format!("`{name}` has at most {max_bytes} bytes"));
            }
            ParameterType::OneOf(words) if !words.contains(&value) => {
                let message = format!("`{name}` must be one of {}", words.join(", "));
                return Problem::refuse(name, message);
            }
            _ => {}
        }
        self.check_sent_once(name)?;
        self.texts.push((name, value.to_owned()));
        Ok(())
    }

    /// Adds a number. `None` is for a text that a caller sent in the place of one: it is refused.
    pub(super) fn add_number(
        &mut self,
        parameter: &Parameter,
        number: Option<u64>,
    ) -> Result<(), Problem> {
        let ParameterType::Integer { min, max, above_max, error } = parameter.kind else {
            return Ok(());
        };
        let name = parameter.name;
        let number = number.filter(|number| *number >= min);
        let number = number.filter(|number| above_max == AboveMax::Clamped || *number <= max);
        let Some(requested) = number else {
            let message = format!("`{name}` must be a whole number from {min} to {max}");
            return Err(match error {
                NumberError::InvalidWindow => Problem::InvalidWindow { param: name, message },
                NumberError::InvalidRequest => Problem::invalid(name, message),
            });
        };
        self.check_sent_once(name)?;
        if requested > max {
            self.clamped.push(ClampedNumber { name, requested, max });
        }
        self.numbers.push((name, requested.min(max)));
        Ok(())
    }

    /// Adds names to a list, each once.
    pub(super) fn add_names<'v>(
        &mut self,
        parameter: &Parameter,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<(), Problem> {
        let name = parameter.name;
        let (max, commas) = match parameter.kind {
            ParameterType::RepeatedName { max } => (max, ""),
            _ => (MAX_NAMES, "separated by commas or "),
        };
        for part in values {
            let at = self.names.iter().position(|(own, _)| *own == name);
            let known = at.and_then(|at| self.names.get_mut(at));
            let is_known =
                known.as_ref().is_some_and(|(_, names)| names.iter().any(|it| it == part));
            let count = known.as_ref().map_or(0, |(_, names)| names.len());
            if part.is_empty() || count >= max && !is_known {
                let message = format!("`{name}` takes 1 to {max} names, {commas}repeated");
                return Problem::refuse(name, message);
            }
            match known {
                None => self.names.push((name, vec![part.to_owned()])),
                Some((_, names)) if !is_known => names.push(part.to_owned()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Adds the limit of a relation.
    pub(super) fn add_relation_limit(
        &mut self,
        name: &'static str,
        relation: &str,
        limit: u64,
    ) -> Result<(), Problem> {
        if relation.is_empty() || limit == 0 || self.relation_limits.len() >= MAX_CONDITIONS {
            return Err(wrong_limit(name));
        }
        if self.relation_limits.iter().any(|(known, _)| known == relation) {
            let message = format!("`{name}[{relation}]` was sent twice; send it once");
            return Problem::refuse(name, message);
        }
        self.relation_limits.push((relation.to_owned(), limit));
        Ok(())
    }

    /// Adds a condition, or the values of one that accepts several.
    pub(super) fn add_condition(&mut self, added: FilterParameter) -> Result<(), Problem> {
        if added.alternative.is_some_and(|number| number >= MAX_ALTERNATIVES) {
            return Err(wrong_alternative("or"));
        }
        if added.field.is_empty() || self.conditions.len() >= MAX_CONDITIONS {
            return Err(wrong_condition(&added.base()));
        }
        let is_same = |own: &&mut FilterParameter| {
            own.field == added.field
                && own.alternative == added.alternative
                && own.comparison.operator() == added.comparison.operator()
        };
        match (self.conditions.iter_mut().find(is_same), &added.comparison) {
            (None, _) => {
                self.conditions.push(added);
                Ok(())
            }
            (
                Some(FilterParameter { comparison: FilterComparison::In(known), .. }),
                FilterComparison::In(more),
            ) => {
                if known.len() + more.len() > MAX_CONDITIONS {
                    return Err(wrong_condition(&added.base()));
                }
                known.extend(more.iter().cloned());
                Ok(())
            }
            (Some(_), _) => {
                let message = format!("`{}` was sent twice; send it once", added.param());
                Problem::refuse(&added.base(), message)
            }
        }
    }
}

/// Returns each condition as a text, to bind a cursor to.
pub fn condition_texts(conditions: &[FilterParameter]) -> Vec<String> {
    let text = |FilterParameter { field, comparison, alternative }: &FilterParameter| {
        let value = match comparison {
            FilterComparison::Is(value) | FilterComparison::Range(_, value) => value.clone(),
            FilterComparison::In(values) => format!("{values:?}"),
            FilterComparison::Exists(wanted) => wanted.to_string(),
        };
        match alternative {
            None => format!("{:?}", (field, comparison.operator(), value)),
            Some(number) => format!("{:?}", (number, field, comparison.operator(), value)),
        }
    };
    conditions.iter().map(text).collect()
}

/// Takes a condition from a parameter whose name begins with `base`.
fn condition(
    base: &str,
    (key, alternative): (&str, Option<usize>),
    value: &str,
) -> Result<FilterParameter, Problem> {
    let inside = bracketed(base, key).ok_or_else(|| wrong_condition(base))?;
    let with = |operator: &str| inside.strip_suffix(operator)?.strip_suffix("][");
    let ranged = RangeOperator::ALL
        .into_iter()
        .find_map(|operator| Some((with(operator.name())?, operator)));
    let (field, comparison) = match (ranged, with("in"), with("exists")) {
        (Some((field, operator)), ..) => {
            (field, FilterComparison::Range(operator, value.to_owned()))
        }
        (_, Some(field), _) => (field, FilterComparison::In(vec![value.to_owned()])),
        (_, _, Some(field)) => {
            let wanted = value.parse().map_err(|_| wrong_condition(base))?;
            (field, FilterComparison::Exists(wanted))
        }
        _ => (inside, FilterComparison::Is(value.to_owned())),
    };
    Ok(FilterParameter { field: field.to_owned(), comparison, alternative })
}

fn wrong_condition(base: &str) -> Problem {
    let message = format!(
        "`{base}` is written `{base}[field]=value` or `{base}[field][gte]=value`, with gte, gt, lte, lt, in (repeated) or exists (true or false)"
    );
    Problem::invalid(base, message)
}

fn wrong_alternative(name: &str) -> Problem {
    let message = format!(
        "`{name}` is written `{name}[0][field]=value` and `{name}[1][field]=value`, \
         with numbers below {MAX_ALTERNATIVES}; the rest is as in `filter`"
    );
    Problem::invalid(name, message)
}

fn wrong_limit(name: &str) -> Problem {
    let message = format!("`{name}` is written `{name}[relation]=3`, a whole number from 1 on");
    Problem::invalid(name, message)
}

/// Returns the number in the first brackets, such as 1 of `[1][field]`.
fn alternative(brackets: &str) -> Option<usize> {
    let (number, rest) = brackets.strip_prefix('[')?.split_once(']')?;
    let is_plain = (1..=2).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    let is_plain = is_plain && (number == "0" || !number.starts_with('0'));
    let number = number.parse().ok().filter(|number| is_plain && *number < MAX_ALTERNATIVES)?;
    rest.starts_with('[').then_some(number)
}

/// Returns the text between the brackets of `name[text]`.
fn bracketed<'k>(name: &str, key: &'k str) -> Option<&'k str> {
    key.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')
}

fn unknown(key: &str, declared: &[Parameter]) -> Problem {
    let shown: String = key.chars().take(64).collect();
    let names: Vec<&str> = declared.iter().map(|parameter| parameter.name).collect();
    let known = if names.is_empty() {
        "it takes none".to_owned()
    } else {
        format!("it takes {}", names.join(", "))
    };
    Problem::invalid(&shown, format!("`{shown}` is not a parameter of this request; {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Parameter] = &[
        Parameter::optional(
            "limit",
            ParameterType::Integer {
                min: 1,
                max: 100,
                above_max: AboveMax::Clamped,
                error: NumberError::InvalidRequest,
            },
            "",
        ),
        Parameter::optional(
            "offset",
            ParameterType::Integer {
                min: 0,
                max: 9,
                above_max: AboveMax::Refused,
                error: NumberError::InvalidWindow,
            },
            "",
        ),
        Parameter::optional("order", ParameterType::OneOf(&["asc", "desc"]), ""),
        Parameter::optional("cursor", ParameterType::Text { max_bytes: 5 }, ""),
        Parameter::optional("fields", ParameterType::Names, ""),
        Parameter::optional("filter", ParameterType::Conditions, ""),
        Parameter::optional("expand_limit", ParameterType::RelationLimits, ""),
    ];

    fn parse(pairs: &[(&str, &str)]) -> Result<Parameters, String> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Parameters::parse(DECLARED, &pairs)
            .map_err(|problem| format!("{} {problem}", problem.code().0))
    }

    #[test]
    fn a_list_of_names_has_three_spellings() {
        for pairs in [
            &[("fields", "a,b")][..],
            &[("fields", "a"), ("fields", "b")],
            &[("fields[]", "a"), ("fields[]", "b")],
        ] {
            assert_eq!(parse(pairs).unwrap().names("fields").unwrap(), ["a", "b"]);
        }
    }

    #[test]
    fn a_condition_names_a_field_and_a_comparison() {
        let parsed = parse(&[
            ("filter[a]", "1"),
            ("filter[a][gte]", "2"),
            ("filter[x[y]]", ""),
            ("filter[gte]", "3"),
        ])
        .unwrap();
        let conditions: Vec<(&str, Option<&str>)> = parsed
            .conditions()
            .iter()
            .map(|own| (own.field.as_str(), own.comparison.operator()))
            .collect();
        assert_eq!(conditions, [("a", None), ("a", Some("gte")), ("x[y]", None), ("gte", None)]);
        let parsed = parse(&[
            ("filter[a][in]", "1"),
            ("filter[a][in]", "2"),
            ("filter[b][exists]", "false"),
        ]);
        let parsed = parsed.unwrap();
        let comparisons: Vec<&FilterComparison> =
            parsed.conditions().iter().map(|own| &own.comparison).collect();
        let values = FilterComparison::In(vec!["1".to_owned(), "2".to_owned()]);
        assert_eq!(comparisons, [&values, &FilterComparison::Exists(false)]);
    }

    #[test]
    fn a_relation_limit_names_a_relation() {
        let parsed = parse(&[("expand_limit[a]", "3"), ("expand_limit[b]", "10")]).unwrap();
        assert_eq!(parsed.relation_limits(), [("a".to_owned(), 3), ("b".to_owned(), 10)]);
        for pairs in [
            &[("expand_limit", "3")][..],
            &[("expand_limit[]", "3")],
            &[("expand_limit[a]", "0")],
            &[("expand_limit[a]", "-1")],
            &[("expand_limit[a]", "1"), ("expand_limit[a]", "1")],
        ] {
            assert!(parse(pairs).unwrap_err().starts_with("invalid_request "), "{pairs:?}");
        }
    }

    #[test]
    fn a_number_above_its_maximum_is_lowered_if_declared_so() {
        let parsed = parse(&[("limit", "500"), ("offset", "9")]).unwrap();
        let clamped = [ClampedNumber { name: "limit", requested: 500, max: 100 }];
        assert_eq!((parsed.number("limit"), &parsed.clamped[..]), (Some(100), &clamped[..]));
    }

    #[test]
    fn a_wrong_parameter_is_refused_and_never_ignored() {
        let errors: Vec<String> = [
            &[("limits", "1")][..],
            &[("limit", "0")],
            &[("limit", "-1")],
            &[("limit", "1.0")],
            &[("limit", "99999999999999999999")],
            &[("limit", "")],
            &[("limit", "1"), ("limit", "1")],
            &[("limit[]", "1")],
            &[("offset", "10")],
            &[("order", "up")],
            &[("cursor", "123456")],
            &[("fields", "")],
            &[("fields[x]", "a")],
            &[("filter", "a")],
            &[("filter[]", "a")],
            &[("filter[a", "a")],
            &[("filter[a]", "1"), ("filter[a]", "2")],
        ]
        .into_iter()
        .map(|pairs| format!("{pairs:?}: {}", parse(pairs).unwrap_err()))
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }
}
