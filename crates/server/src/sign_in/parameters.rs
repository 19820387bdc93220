//! The parameters of a query or a form, each at most once.
//!
//! *Source*: RFC 6749, section 3.1: a parameter without a value counts as left out, and no
//! parameter may be repeated. RFC 8707 lets `resource` be repeated.

use stile_domain::percent::decode_form;
use stile_domain::records::instant::Instant;

/// The longest query or form, in bytes. A form writes one byte of a name in up to three, so what a
/// page sends back can be longer than the page.
pub const MAX_PARAMETER_BYTES: usize = 96 * 1024;
/// The most parameters of a query or form.
const MAX_PARAMETERS: usize = 1000;

/// The parameters of one request, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormParameters(Vec<(String, String)>);

/// Why parameters cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadParameters {
    /// There are too many, or they are too long.
    #[error("the request has too many parameters")]
    TooMany,
    /// A parameter is malformed.
    #[error("a parameter is not percent-encoded UTF-8")]
    Encoding,
    /// A parameter is repeated.
    #[error("a parameter occurs more than once")]
    Repeated,
}

impl FormParameters {
    /// Parses a query or a form.
    ///
    /// # Errors
    /// Every [`BadParameters`].
    pub fn parse(text: &str) -> Result<Self, BadParameters> {
        if text.len() > MAX_PARAMETER_BYTES || text.split('&').count() > MAX_PARAMETERS {
            return Err(BadParameters::TooMany);
        }
        let mut all: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decode_form(name).zip(decode_form(value));
            let (name, value) = decoded.ok_or(BadParameters::Encoding)?;
            if value.is_empty() {
                continue;
            }
            if name != "resource" && all.iter().any(|(known, _)| *known == name) {
                return Err(BadParameters::Repeated);
            }
            all.push((name, value));
        }
        Ok(Self(all))
    }

    /// Returns a parameter; `None` if it was left out or has no value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns every value of a parameter that may be repeated.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let is_named = move |(known, _): &&(String, String)| known == name;
        self.0.iter().filter(is_named).map(|(_, value)| value.as_str())
    }

    /// Returns the parameters whose names begin with `prefix`, each with the rest of its name.
    pub fn named_from<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of_prefix = move |(name, value): &'a (String, String)| {
            Some((name.strip_prefix(prefix)?, value.as_str()))
        };
        self.0.iter().filter_map(of_prefix)
    }
}

/// Reads a time of a form: `2026-01-31T09:05`, as an input for a date and a time has it, a date, or
/// an instant. What names no zone is in UTC, as the page says; a script converts what its reader
/// typed.
pub fn parse_time(text: &str) -> Option<Instant> {
    match text.len() {
        16 => Instant::parse(&format!("{text}:00Z")),
        _ => Instant::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_zone_is_in_utc() {
        let of = |text| parse_time(text).map(Instant::to_rfc3339);
        for text in ["2026-01-31T09:05", "2026-01-31T09:05:00Z", "2026-01-31T10:05:00+01:00"] {
            assert_eq!(of(text).as_deref(), Some("2026-01-31T09:05:00Z"), "{text}");
        }
        assert_eq!(of("2026-01-31").as_deref(), Some("2026-01-31T00:00:00Z"));
        assert_eq!((of("yesterday"), of("2026-01-31 09:0x")), (None, None));
    }

    #[test]
    fn a_parameter_has_one_value_or_is_left_out() {
        let read = FormParameters::parse("a=1+2&b=&c&resource=x&resource=%C3%A4").unwrap();
        assert_eq!(read.get("a"), Some("1 2"));
        assert_eq!((read.get("b"), read.get("c"), read.get("d")), (None, None, None));
        assert_eq!(read.all("resource").collect::<Vec<_>>(), ["x", "ä"]);
        assert_eq!(FormParameters::parse("a=1&a=1"), Err(BadParameters::Repeated));
        assert_eq!(FormParameters::parse("a=%C3"), Err(BadParameters::Encoding));
        let long = "a".repeat(MAX_PARAMETER_BYTES + 1);
        assert_eq!(FormParameters::parse(&long), Err(BadParameters::TooMany));
        assert_eq!(FormParameters::parse(&"&".repeat(1000)), Err(BadParameters::TooMany));
    }
}
