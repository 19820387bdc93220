//! What the owner says about a CSV file, and what is remembered of it with the declaration of its
//! stream.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::table::column::TableSpelling;
use stile_domain::records::table::written_date::DateOrder;
use stile_domain::records::table::written_number::{self, DecimalMark};

use crate::charset::file_encoding::Encoding;

/// The member of a declaration that says how files of the stream are read. It has no effect on
/// requests, and clients do not see it.
pub(crate) const MEMBER: &str = "import";

/// What the owner says about CSV files. What is absent is found by looking at the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// The decimal mark of numbers, and the order of dates.
    pub spelling: TableSpelling,
    /// The encoding of the file.
    pub encoding: Option<Encoding>,
    /// How many lines are above the table.
    pub skipped_lines: Option<u64>,
    /// Whether the table begins with the names of its columns.
    pub header: Option<HeaderRow>,
    /// The character between two cells, an ASCII character.
    pub delimiter: Option<u8>,
    /// The currency of each column whose amounts have one, by its name.
    pub currencies: BTreeMap<String, &'static str>,
    /// The column whose words say which amounts are negative.
    pub sides: Option<String>,
}

/// Whether a table begins with the names of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderRow {
    /// The first row has the names.
    Present,
    /// Its first row is a row like the others.
    Absent,
}

impl CsvOptions {
    /// Reads what is remembered in a declaration. A member that is not known is ignored.
    pub fn remembered(declaration: &Declaration) -> Self {
        let csv = declaration.member(MEMBER).and_then(|member| member.get("csv"));
        let text = |name: &str| csv.and_then(|csv| csv.get(name)).and_then(Json::as_str);
        let mut characters = text("decimal").into_iter().flat_map(str::chars);
        Self {
            spelling: TableSpelling {
                decimal: characters.next().and_then(DecimalMark::of),
                dates: text("dates").and_then(DateOrder::named),
            },
            encoding: text("encoding").and_then(Encoding::named),
            skipped_lines: csv.and_then(|csv| csv.get("skip")).and_then(Json::as_u64),
            header: csv
                .and_then(|csv| csv.get("header"))
                .and_then(Json::as_bool)
                .map(|header| if header { HeaderRow::Present } else { HeaderRow::Absent }),
            delimiter: text("delimiter")
                .filter(|text| text.len() == 1)
                .and_then(|text| text.bytes().next()),
            currencies: csv
                .and_then(|csv| csv.get("currencies"))
                .and_then(Json::as_object)
                .into_iter()
                .flatten()
                .filter_map(|(column, name)| {
                    Some((column.clone(), written_number::currency_named(name.as_str()?)?))
                })
                .collect(),
            sides: text("sides").map(str::to_owned),
        }
    }

    /// Returns these options, with those of another where these say nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let mut currencies = other.currencies;
        currencies.extend(self.currencies);
        Self {
            currencies,
            spelling: TableSpelling {
                decimal: self.spelling.decimal.or(other.spelling.decimal),
                dates: self.spelling.dates.or(other.spelling.dates),
            },
            encoding: self.encoding.or(other.encoding),
            skipped_lines: self.skipped_lines.or(other.skipped_lines),
            header: self.header.or(other.header),
            delimiter: self.delimiter.or(other.delimiter),
            sides: self.sides.or(other.sides),
        }
    }

    /// Returns a declaration as JSON that remembers these options; `None` if it does already.
    pub fn remember_in(&self, declaration: &Declaration) -> Option<Json> {
        let mut csv = Map::new();
        let Self { spelling, encoding, skipped_lines, header, delimiter, currencies, sides } = self;
        let mut set = |name: &str, value: Option<Json>| {
            csv.extend(value.map(|value| (name.to_owned(), value)));
        };
        set("decimal", spelling.decimal.map(|mark| mark.character().to_string().into()));
        set("dates", spelling.dates.map(|order| order.name().into()));
        set("encoding", encoding.as_ref().map(|encoding| encoding.name().into()));
        set("skip", skipped_lines.map(Json::from));
        set("header", header.map(|header| (header == HeaderRow::Present).into()));
        set("currencies", (!currencies.is_empty()).then(|| json!(currencies)));
        set("sides", sides.as_deref().map(Json::from));
        set("delimiter", delimiter.map(|delimiter| char::from(delimiter).to_string().into()));
        if csv.is_empty() || Self::remembered(declaration) == *self {
            return None;
        }
        let mut json = declaration.to_json();
        let members = json.as_object_mut()?;
        match members.entry(MEMBER).or_insert_with(|| json!({})) {
            Json::Object(member) => drop(member.insert("csv".to_owned(), csv.into())),
            other => *other = json!({ "csv": csv }),
        }
        Some(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_read_back_and_other_members_stay() {
        let json = json!({
            "schema": { "type": "object", "properties": { "a": { "type": "string" } } },
            "import": { "other": 1 },
        });
        let declaration = Declaration::parse(&json).unwrap();
        assert_eq!(CsvOptions::remembered(&declaration), CsvOptions::default());
        assert_eq!(CsvOptions::default().remember_in(&declaration), None);
        let options = CsvOptions {
            spelling: TableSpelling {
                decimal: Some(DecimalMark::Comma),
                dates: Some(DateOrder::MonthFirst),
            },
            encoding: Encoding::named("windows-1252"),
            skipped_lines: Some(3),
            header: Some(HeaderRow::Absent),
            delimiter: Some(b'|'),
            currencies: BTreeMap::from([("a".to_owned(), "EUR"), ("b".to_owned(), "kr")]),
            sides: Some("Type".to_owned()),
        };
        let json = options.remember_in(&declaration).unwrap();
        assert_eq!(json["import"]["other"], 1);
        let declaration = Declaration::parse(&json).unwrap();
        assert_eq!(CsvOptions::remembered(&declaration), options);
        assert_eq!(options.remember_in(&declaration), None, "it is remembered already");
        let said = CsvOptions { skipped_lines: Some(4), ..CsvOptions::default() };
        let both = said.or(options);
        assert_eq!((both.skipped_lines, both.delimiter), (Some(4), Some(b'|')));
    }
}
