//! The types of the values that requests have, and how each stands among checked parameters and in
//! a query.

use super::parameters::{FilterComparison, FilterParameter, Parameter, ParameterType, Parameters};
use super::shared_parameters::{CONNECTION, CONNECTION_ALIAS};
use crate::records::problem::Problem;

/// A value of a request. `declared` are the parameters that the value has in a query.
pub(super) trait RequestValue: Sized {
    /// Takes the value from checked parameters.
    fn take(parameters: &Parameters, declared: &[Parameter]) -> Self;

    /// Adds the value to parameters, which check it.
    fn put(&self, parameters: &mut Parameters, declared: &[Parameter]) -> Result<(), Problem>;

    /// Adds the value to the parameters of a query; nothing if it is absent.
    fn write(&self, query: &mut Vec<(String, String)>, declared: &[Parameter]);
}

fn write_as(query: &mut Vec<(String, String)>, name: &str, value: impl ToString) {
    query.push((name.to_owned(), value.to_string()));
}

impl RequestValue for Option<String> {
    fn take(parameters: &Parameters, declared: &[Parameter]) -> Self {
        declared.iter().find_map(|own| parameters.text(own.name)).map(str::to_owned)
    }

    fn put(&self, parameters: &mut Parameters, declared: &[Parameter]) -> Result<(), Problem> {
        self.iter().zip(declared).try_for_each(|(text, own)| parameters.add_text(own, text))
    }

    fn write(&self, query: &mut Vec<(String, String)>, declared: &[Parameter]) {
        self.iter().zip(declared).for_each(|(text, own)| write_as(query, own.name, text));
    }
}

/// One of the words that the parameter takes.
impl RequestValue for Option<&'static str> {
    fn take(parameters: &Parameters, declared: &[Parameter]) -> Self {
        declared.iter().find_map(|own| {
            let ParameterType::OneOf(words) = own.kind else { return None };
            let sent = parameters.text(own.name)?;
            words.iter().copied().find(|word| *word == sent)
        })
    }

    fn put(&self, parameters: &mut Parameters, declared: &[Parameter]) -> Result<(), Problem> {
        self.iter().zip(declared).try_for_each(|(word, own)| parameters.add_text(own, word))
    }

    fn write(&self, query: &mut Vec<(String, String)>, declared: &[Parameter]) {
        self.iter().zip(declared).for_each(|(word, own)| write_as(query, own.name, word));
    }
}

impl RequestValue for Option<u64> {
    fn take(parameters: &Parameters, declared: &[Parameter]) -> Self {
        declared.iter().find_map(|own| parameters.number(own.name))
    }

    fn put(&self, parameters: &mut Parameters, declared: &[Parameter]) -> Result<(), Problem> {
        self.iter()
            .zip(declared)
            .try_for_each(|(number, own)| parameters.add_number(own, Some(*number)))
    }

    fn write(&self, query: &mut Vec<(String, String)>, declared: &[Parameter]) {
        self.iter().zip(declared).for_each(|(number, own)| write_as(query, own.name, number));
    }
}

/// A list of names; empty if the request has none.
impl RequestValue for Vec<String> {
    fn take(parameters: &Parameters, declared: &[Parameter]) -> Self {
        let names = declared.iter().find_map(|own| parameters.names(own.name));
        names.unwrap_or_default().to_vec()
    }

    fn put(&self, parameters: &mut Parameters, declared: &[Parameter]) -> Result<(), Problem> {
        let names = || self.iter().map(String::as_str);
        declared.iter().try_for_each(|own| parameters.add_names(own, names()))
    }

    fn write(&self, query: &mut Vec<(String, String)>, declared: &[Parameter]) {
        for (own, name) in declared.iter().flat_map(|own| self.iter().map(move |it| (own, it))) {
            // A comma would separate two names, unless the parameter is marked.
            let is_split = matches!(own.kind, ParameterType::Names) && name.contains(',');
            write_as(query, &format!("{}{}", own.name, if is_split { "[]" } else { "" }), name);
        }
    }
}

/// The conditions of `filter` and of `or`, in the order in which they were sent.
impl RequestValue for Vec<FilterParameter> {
    fn take(parameters: &Parameters, _: &[Parameter]) -> Self {
        parameters.conditions().to_vec()
    }

    fn put(&self, parameters: &mut Parameters, _: &[Parameter]) -> Result<(), Problem> {
        for condition in self {
            let FilterComparison::In(values) = &condition.comparison else {
                parameters.add_condition(condition.clone())?;
                continue;
            };
            for value in values {
                let comparison = FilterComparison::In(vec![value.clone()]);
                parameters.add_condition(FilterParameter { comparison, ..condition.clone() })?;
            }
        }
        Ok(())
    }

    fn write(&self, query: &mut Vec<(String, String)>, _: &[Parameter]) {
        for condition in self {
            let values = condition.values().into_iter();
            query.extend(values.map(|value| (condition.param(), value)));
        }
    }
}

/// The greatest number of records of each relation.
impl RequestValue for Vec<(String, u64)> {
    fn take(parameters: &Parameters, _: &[Parameter]) -> Self {
        parameters.relation_limits().to_vec()
    }

    fn put(&self, parameters: &mut Parameters, declared: &[Parameter]) -> Result<(), Problem> {
        for (own, (relation, limit)) in
            declared.iter().flat_map(|own| self.iter().map(move |it| (own, it)))
        {
            parameters.add_relation_limit(own.name, relation, *limit)?;
        }
        Ok(())
    }

    fn write(&self, query: &mut Vec<(String, String)>, declared: &[Parameter]) {
        for own in declared {
            let limits = self.iter();
            limits.for_each(|(relation, limit)| {
                write_as(query, &format!("{}[{relation}]", own.name), limit);
            });
        }
    }
}

/// The connection that a request names, by the parameter's name or by its former name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedConnection {
    id: Option<String>,
    former: Option<String>,
}

impl NamedConnection {
    /// Takes the connection from checked parameters.
    pub fn of(parameters: &Parameters) -> Self {
        let text = |own: Parameter| parameters.text(own.name).map(str::to_owned);
        Self { id: text(CONNECTION), former: text(CONNECTION_ALIAS) }
    }

    /// Returns the connection.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] if the request sends both names with different values.
    pub fn name(&self) -> Result<Option<&str>, Problem> {
        if let (Some(id), Some(former)) = (&self.id, &self.former)
            && id != former
        {
            let message = "`connection_id` and `connector_instance_id` are one parameter and differ; send one of them";
            return Problem::refuse(CONNECTION.name, message);
        }
        Ok(self.id.as_deref().or(self.former.as_deref()))
    }

    /// Returns whether the request has the former name.
    pub fn has_former_name(&self) -> bool {
        self.former.is_some()
    }
}

impl From<Option<String>> for NamedConnection {
    fn from(id: Option<String>) -> Self {
        Self { id, former: None }
    }
}

impl RequestValue for NamedConnection {
    fn take(parameters: &Parameters, _: &[Parameter]) -> Self {
        Self::of(parameters)
    }

    fn put(&self, parameters: &mut Parameters, _: &[Parameter]) -> Result<(), Problem> {
        self.id.put(parameters, &[CONNECTION])?;
        self.former.put(parameters, &[CONNECTION_ALIAS])
    }

    fn write(&self, query: &mut Vec<(String, String)>, _: &[Parameter]) {
        self.id.write(query, &[CONNECTION]);
        self.former.write(query, &[CONNECTION_ALIAS]);
    }
}
