//! The address of a database, whose password is never shown.

use std::fmt;

use super::values::{ParseContext, ToToml};

/// An address such as `postgres://stile@db.example/stile`. Nothing prints the password in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseAddress(String);

impl DatabaseAddress {
    /// Returns the address with its password, for connecting.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the address with a mark in place of each part that may be secret.
    fn masked(&self) -> String {
        let Some((scheme, rest)) = self.0.split_once("://") else { return "…".to_owned() };
        let (rest, options) = match rest.split_once('?') {
            Some((rest, options)) => (rest, Some(options)),
            None => (rest, None),
        };
        let shown = match rest.rsplit_once('@') {
            Some((user, place)) => match user.split_once(':') {
                Some((name, _)) => format!("{name}:…@{place}"),
                None => format!("{user}@{place}"),
            },
            None => rest.to_owned(),
        };
        let options = options.map(|options| {
            let shown = options.split('&').map(|option| match option.split_once('=') {
                Some((name, _)) if name.contains("pass") => format!("{name}=…"),
                _ => option.to_owned(),
            });
            format!("?{}", shown.collect::<Vec<_>>().join("&"))
        });
        format!("{scheme}://{shown}{}", options.unwrap_or_default())
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseAddress").field(&self.masked()).finish()
    }
}

impl ToToml for DatabaseAddress {
    fn to_toml(&self) -> Option<String> {
        self.masked().to_toml()
    }
}

/// Takes an address as it is. It is parsed where it is used, since an error of a setting would show
/// the password.
pub(super) fn database_address(
    text: &str,
    _: &ParseContext<'_>,
) -> Result<Option<DatabaseAddress>, String> {
    Ok((!text.is_empty()).then(|| DatabaseAddress(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (address, shown) in [
            ("postgres://ann@db.example/stile", "postgres://ann@db.example/stile"),
            ("postgres://ann:s3cret@db/x", "postgres://ann:…@db/x"),
            ("postgres://ann:s3:c@ret@db/x", "postgres://ann:…@db/x"),
            ("postgres:///x?host=/run&password=s3cret", "postgres:///x?host=/run&password=…"),
            ("host=db password=s3cret", "…"),
        ] {
            let address = DatabaseAddress(address.to_owned());
            assert_eq!(address.masked(), shown);
            assert!(!format!("{address:?}").contains("s3"));
        }
    }
}
