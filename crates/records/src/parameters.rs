//! The parameters of a request, checked against their declaration.
//!
//! Each endpoint declares what it takes; the same declaration makes the OpenAPI document. What is
//! not declared, given twice, or out of range is refused and never ignored: a client that misspells
//! a filter must not be told of records that it meant to exclude.

use stile_domain::records::declaration::RangeOperator;
use stile_domain::records::problem::Problem;

/// One parameter of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// As it is written.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// A sentence for people.
    pub about: &'static str,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Any text of at most so many bytes.
    Text {
        /// At most.
        most: usize,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Whole {
        /// At least.
        least: u64,
        /// At most; more is an error, or taken for this.
        most: u64,
        /// Whether more is taken for `most`, with a warning.
        clamped: bool,
        /// Whether it is about a window, whose errors have a code of their own.
        window: bool,
    },
    /// Field names: repeated, or separated by commas; with `[]` behind the parameter's name, one
    /// name each.
    Names,
    /// `name[relation]=number`, from 1 on.
    Limits,
    /// `name[field]=value` and `name[field][op]=value`.
    Conditions,
}

/// A condition as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The field.
    pub field: String,
    /// The comparison; none is equality.
    pub operator: Option<RangeOperator>,
    /// The value.
    pub value: String,
    /// The parameter, for an error.
    pub param: String,
}

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    texts: Vec<(&'static str, String)>,
    numbers: Vec<(&'static str, u64)>,
    names: Vec<(&'static str, Vec<String>)>,
    conditions: Vec<Given>,
    limits: Vec<(String, u64)>,
    /// Numbers that were more than they may be: the parameter, what was asked for, and the most.
    pub clamped: Vec<(&'static str, u64, u64)>,
}

/// The most conditions of a request.
const MAX_CONDITIONS: usize = 50;
/// The most names in a list.
const MAX_NAMES: usize = 1000;

impl Parameters {
    /// Checks what was sent.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] or, of a window, [`Problem::InvalidWindow`].
    pub fn parse(declared: &[Parameter], pairs: &[(String, String)]) -> Result<Self, Problem> {
        let mut this = Self::default();
        for (key, value) in pairs {
            let base = key.split('[').next().unwrap_or(key);
            let parameter = declared.iter().find(|parameter| parameter.name == base);
            let Some(parameter) = parameter else { return Err(unknown(key, declared)) };
            match parameter.shape {
                Shape::Conditions => this.condition(parameter.name, key, value)?,
                Shape::Limits => this.limit(parameter.name, key, value)?,
                Shape::Names if key == parameter.name => {
                    this.name_list(parameter.name, value.split(','))?
                }
                // With brackets a name may have a comma.
                Shape::Names if key[base.len()..] == *"[]" => {
                    this.name_list(parameter.name, std::iter::once(value.as_str()))?
                }
                _ if key != parameter.name => return Err(unknown(key, declared)),
                Shape::Text { most } => {
                    if value.len() > most {
                        return Err(Problem::invalid(
                            parameter.name,
                            format!("`{base}` has at most {most} bytes"),
                        ));
                    }
                    this.once(parameter.name)?;
                    this.texts.push((parameter.name, value.clone()));
                }
                Shape::OneOf(words) => {
                    if !words.contains(&value.as_str()) {
                        let message = format!("`{base}` must be one of {}", words.join(", "));
                        return Err(Problem::invalid(parameter.name, message));
                    }
                    this.once(parameter.name)?;
                    this.texts.push((parameter.name, value.clone()));
                }
                Shape::Whole { .. } => this.whole(parameter, value)?,
                Shape::Names => return Err(unknown(key, declared)),
            }
        }
        Ok(this)
    }

    /// A text that was sent.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// A number that was sent.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    /// Names that were sent.
    pub fn names(&self, name: &str) -> Option<&[String]> {
        self.names.iter().find(|(given, _)| *given == name).map(|(_, names)| names.as_slice())
    }

    /// Conditions that were sent.
    pub fn conditions(&self) -> &[Given] {
        &self.conditions
    }

    /// Conditions that were sent, each as a text of its own, to bind a cursor to.
    pub fn conditions_text(&self) -> Vec<String> {
        let text = |given: &Given| {
            format!("{:?}", (&given.field, given.operator.map(RangeOperator::name), &given.value))
        };
        self.conditions.iter().map(text).collect()
    }

    /// Limits of relations that were sent.
    pub fn limits(&self) -> &[(String, u64)] {
        &self.limits
    }

    fn once(&self, name: &'static str) -> Result<(), Problem> {
        if self.text(name).is_some() || self.number(name).is_some() {
            return Err(Problem::invalid(name, format!("`{name}` was sent twice; send it once")));
        }
        Ok(())
    }

    fn whole(&mut self, parameter: &Parameter, value: &str) -> Result<(), Problem> {
        let Shape::Whole { least, most, clamped, window } = parameter.shape else { return Ok(()) };
        let name = parameter.name;
        let digits = !value.is_empty()
            && value.len() <= 19
            && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse::<u64>().ok().filter(|_| digits).filter(|number| *number >= least);
        let number = number.filter(|number| clamped || *number <= most);
        let Some(number) = number else {
            let message = format!("`{name}` must be a whole number from {least} to {most}");
            return Err(match window {
                true => Problem::InvalidWindow { param: name, message },
                false => Problem::invalid(name, message),
            });
        };
        self.once(name)?;
        if number > most {
            self.clamped.push((name, number, most));
        }
        self.numbers.push((name, number.min(most)));
        Ok(())
    }

    fn name_list<'v>(
        &mut self,
        name: &'static str,
        value: impl Iterator<Item = &'v str>,
    ) -> Result<(), Problem> {
        if !self.names.iter().any(|(given, _)| *given == name) {
            self.names.push((name, Vec::new()));
        }
        let Some((_, names)) = self.names.iter_mut().find(|(given, _)| *given == name) else {
            return Ok(());
        };
        for part in value {
            if part.is_empty() || names.len() >= MAX_NAMES {
                let message = format!(
                    "`{name}` takes 1 to {MAX_NAMES} names, separated by commas or repeated"
                );
                return Err(Problem::invalid(name, message));
            }
            if !names.iter().any(|known| known == part) {
                names.push(part.to_owned());
            }
        }
        Ok(())
    }

    fn limit(&mut self, name: &'static str, key: &str, value: &str) -> Result<(), Problem> {
        let wrong = || {
            Problem::invalid(
                name,
                format!("`{name}` is written `{name}[relation]=3`, a whole number from 1 on"),
            )
        };
        let relation =
            within(name, key).filter(|relation| !relation.is_empty()).ok_or_else(wrong)?;
        let digits =
            (1..=9).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit());
        let limit = value.parse().ok().filter(|limit| digits && *limit > 0).ok_or_else(wrong)?;
        if self.limits.len() >= MAX_CONDITIONS {
            return Err(wrong());
        }
        if self.limits.iter().any(|(known, _)| known == relation) {
            return Err(Problem::invalid(name, format!("`{key}` was sent twice; send it once")));
        }
        self.limits.push((relation.to_owned(), limit));
        Ok(())
    }

    fn condition(&mut self, name: &'static str, key: &str, value: &str) -> Result<(), Problem> {
        let wrong = || {
            let message = format!(
                "`{name}` is written `{name}[field]=value` or `{name}[field][gte]=value`, with gte, gt, lte or lt"
            );
            Problem::invalid(name, message)
        };
        let inside = within(name, key).ok_or_else(wrong)?;
        let ranged = RangeOperator::ALL.into_iter().find_map(|operator| {
            Some((inside.strip_suffix(operator.name())?.strip_suffix("][")?, Some(operator)))
        });
        let (field, operator) = ranged.unwrap_or((inside, None));
        if field.is_empty() || self.conditions.len() >= MAX_CONDITIONS {
            return Err(wrong());
        }
        if self.conditions.iter().any(|given| given.field == field && given.operator == operator) {
            return Err(Problem::invalid(name, format!("`{key}` was sent twice; send it once")));
        }
        let given = Given {
            field: field.to_owned(),
            operator,
            value: value.to_owned(),
            param: key.to_owned(),
        };
        self.conditions.push(given);
        Ok(())
    }
}

/// What stands in brackets behind a name.
fn within<'k>(name: &str, key: &'k str) -> Option<&'k str> {
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
        Parameter {
            name: "limit",
            shape: Shape::Whole { least: 1, most: 100, clamped: true, window: false },
            about: "",
        },
        Parameter {
            name: "offset",
            shape: Shape::Whole { least: 0, most: 9, clamped: false, window: true },
            about: "",
        },
        Parameter { name: "order", shape: Shape::OneOf(&["asc", "desc"]), about: "" },
        Parameter { name: "cursor", shape: Shape::Text { most: 5 }, about: "" },
        Parameter { name: "fields", shape: Shape::Names, about: "" },
        Parameter { name: "filter", shape: Shape::Conditions, about: "" },
        Parameter { name: "expand_limit", shape: Shape::Limits, about: "" },
    ];

    fn parse(pairs: &[(&str, &str)]) -> Result<Parameters, String> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Parameters::parse(DECLARED, &pairs)
            .map_err(|problem| format!("{} {problem}", problem.code().0))
    }

    #[test]
    fn lists_are_written_in_three_ways() {
        for pairs in [
            &[("fields", "a,b")][..],
            &[("fields", "a"), ("fields", "b")],
            &[("fields[]", "a"), ("fields[]", "b")],
        ] {
            assert_eq!(parse(pairs).unwrap().names("fields").unwrap(), ["a", "b"]);
        }
    }

    #[test]
    fn conditions_name_a_field_and_a_comparison() {
        let given = parse(&[
            ("filter[a]", "1"),
            ("filter[a][gte]", "2"),
            ("filter[x[y]]", ""),
            ("filter[gte]", "3"),
        ])
        .unwrap();
        let told: Vec<(&str, Option<RangeOperator>)> =
            given.conditions().iter().map(|given| (given.field.as_str(), given.operator)).collect();
        assert_eq!(
            told,
            [("a", None), ("a", Some(RangeOperator::Gte)), ("x[y]", None), ("gte", None)]
        );
    }

    #[test]
    fn limits_name_a_relation() {
        let given = parse(&[("expand_limit[a]", "3"), ("expand_limit[b]", "10")]).unwrap();
        assert_eq!(given.limits(), [("a".to_owned(), 3), ("b".to_owned(), 10)]);
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
    fn more_than_the_most_is_the_most_where_that_is_declared() {
        let given = parse(&[("limit", "500"), ("offset", "9")]).unwrap();
        assert_eq!(
            (given.number("limit"), &given.clamped[..]),
            (Some(100), &[("limit", 500, 100)][..])
        );
    }

    #[test]
    fn what_is_wrong_is_said_and_never_ignored() {
        let said: Vec<String> = [
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
        insta::assert_snapshot!(said.join("\n"));
    }
}
