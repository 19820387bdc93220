//! Which records of a source a query reads: what the caller may see, and the conditions of the
//! request, in SQL.
//!
//! SQLite runs functions of the domain on the body of a record. PostgreSQL cannot, so its queries
//! leave a [`Residue`] that is decided of each body that they return.

use stile_domain::records::filter::{self, Condition};
use stile_domain::records::order::order_key_of_time;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;
use stile_domain::records::visible_time::{VisibleBound, VisibleTime};

use crate::records::model::RecordSource;
use crate::sql::{Conditions, Door, Owned, Row};

/// The rows that the first query and the largest query read if each body is looked at.
pub(in crate::records) const FIRST_ROWS: usize = 64;
pub(in crate::records) const MOST_ROWS: usize = 1024;

/// The records after a number. The index by number of PostgreSQL has the first condition, and is
/// chosen by it.
pub(in crate::records) const AFTER_NUMBER: &str = " AND id > 0 AND id > ?";

/// Returns the table of records, read by the index of streams and numbers.
pub(in crate::records) fn records_by_number(door: Door<'_>) -> &'static str {
    match door {
        Door::Sqlite(_) => "records INDEXED BY records_by_number",
        Door::Postgresql(_) => "records",
    }
}

/// The conditions of a query on records of one source.
pub(in crate::records) struct Filter<'q> {
    pub(in crate::records) conditions: Conditions,
    pub(in crate::records) residue: Residue<'q>,
}

/// What a query leaves undecided of each record: conditions on its fields.
#[derive(Clone, Copy, Default)]
pub(in crate::records) struct Residue<'q> {
    time: Option<(&'q str, VisibleTime)>,
    conditions: &'q [Condition],
}

impl<'q> Filter<'q> {
    /// Selects all rows of a source, whether the caller may see them or not.
    pub(in crate::records) fn stream(source: &RecordSource) -> Self {
        let conditions = Conditions::new("stream = ?", source.id);
        Self { conditions, residue: Residue::default() }
    }

    /// Selects the records of a source at times that the caller may see, if conditions hold.
    pub(in crate::records) fn in_time(
        door: Door<'_>,
        source: &'q RecordSource,
        conditions: &'q [Condition],
    ) -> Result<Self, Problem> {
        let mut this = Self::stream(source);
        this.add_time(door, source);
        match door {
            Door::Sqlite(_) if !conditions.is_empty() => {
                this.and(" AND passes(body, ?)", conditions_json(conditions)?);
            }
            Door::Sqlite(_) => {}
            Door::Postgresql(_) => this.residue.conditions = conditions,
        }
        Ok(this)
    }

    /// Selects the records of a source that the caller may see, by time and key, if conditions
    /// hold.
    pub(in crate::records) fn visible(
        door: Door<'_>,
        source: &'q RecordSource,
        conditions: &'q [Condition],
    ) -> Result<Self, Problem> {
        let mut this = Self::in_time(door, source, conditions)?;
        this.granted_keys(door, source);
        Ok(this)
    }

    /// Adds the keys that the caller may see.
    pub(in crate::records) fn granted_keys(&mut self, door: Door<'_>, source: &RecordSource) {
        if let Some(keys) = source.visibility.keys() {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
            self.and(&format!(" AND key {}", door.is_one_of()), keys);
        }
    }

    fn add_time(&mut self, door: Door<'_>, source: &'q RecordSource) {
        let Some(time) = &source.visibility.time else { return };
        for bound in time.visible.bounds() {
            let (sign, bound) = match bound {
                VisibleBound::From(since) => (">=", since),
                VisibleBound::Before(until) => ("<", until),
            };
            match (&time.field, door) {
                (None, _) => self.and(&format!(" AND happened {sign} ?"), bound.0),
                (Some(field), Door::Sqlite(_)) => {
                    self.and(" AND time_in(body, ?)", field.clone());
                    self.and(&format!(" {sign} ?"), bound.0);
                }
                (Some(field), Door::Postgresql(_)) => {
                    self.residue.time = Some((field, time.visible));
                }
            }
            if time.orders_lists {
                self.and(&format!(" AND ord {sign} ?"), order_key_of_time(bound));
            }
        }
    }

    /// Adds a condition with one value, which stands at the question mark.
    pub(in crate::records) fn and(&mut self, text: &str, value: impl Into<Owned>) {
        self.conditions.and(text, value);
    }

    /// Adds a text without a value at the end.
    pub(in crate::records) fn end(&mut self, text: &str) {
        self.conditions.end(text);
    }

    /// Passes the records of a query to `take`, with the columns that `record_row` reads,
    /// until it returns `false`. `table` is `records`, and may say by which index.
    pub(in crate::records) fn each(
        &self,
        door: Door<'_>,
        table: &str,
        take: &mut dyn FnMut(&Row<'_>) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        let body = self.residue.body_column();
        let select = format!("SELECT id, key, emitted, ord{body} FROM {table}");
        door.each_where(&select, &self.conditions, &mut |row| {
            if self.residue.holds_of(row, 4)? { take(row) } else { Ok(true) }
        })
    }
}

/// Writes conditions as the function `passes` takes them.
pub(in crate::records) fn conditions_json(conditions: &[Condition]) -> Result<String, Problem> {
    serde_json::to_string(conditions).map_err(|_| Problem::Corrupt)
}

impl Residue<'_> {
    pub(in crate::records) fn is_empty(&self) -> bool {
        self.time.is_none() && self.conditions.is_empty()
    }

    /// Returns a column more for a query, if the body is looked at.
    pub(in crate::records) fn body_column(&self) -> &'static str {
        if self.is_empty() { "" } else { ", body" }
    }

    /// Returns whether all of it holds of the record whose body is the column `at` of a row. The
    /// row has no such column if nothing is undecided.
    pub(in crate::records) fn holds_of(&self, row: &Row<'_>, at: usize) -> Result<bool, Problem> {
        if self.is_empty() { Ok(true) } else { self.holds(row.get(at)?) }
    }

    /// Returns whether all of it holds of a record.
    pub(in crate::records) fn holds(&self, body: &[u8]) -> Result<bool, Problem> {
        let body = RecordBody::new(body);
        if let Some((field, visible)) = self.time
            && !visible.shows(filter::record_time(body, field).map_err(|_| Problem::Corrupt)?)
        {
            return Ok(false);
        }
        filter::all_hold(self.conditions, body).map_err(|_| Problem::Corrupt)
    }
}
