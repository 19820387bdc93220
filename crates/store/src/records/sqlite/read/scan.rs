//! Reads the records of a source in the order of lists.
//!
//! An index has that order, and not what conditions ask for. A scan with conditions therefore walks
//! the index and looks at each record, which is soon done if many records match. After an eighth of
//! the database it reads the rest in the order of the file instead, which takes less time for each
//! record, and sorts what matches. So a scan takes at most about twice the time of the better way.

use rusqlite::params_from_iter;
use stile_domain::records::problem::Problem;

use super::super::error::problem;
use super::{SqliteSnapshot, Where, record_row};
use crate::records::model::{
    RecordRow, RecordSource, Scan, ScanRange, ScanStart, SortOrder, TimeFilter,
};
use crate::records::port::{ReadLists, ScannedPart};

/// A scan walks at least so many records by the index: so few that small tests do both.
const LEAST_WALKED: i64 = 16;
/// The part of the database that costs as much by the index as all of it in the order of the file.
const WALKED_PART: i64 = 8;
/// At least so many records of the rest are kept, so that the next pages of a walk need no second
/// read of the file.
const LEAST_SORTED: usize = 512;

impl ReadLists for SqliteSnapshot<'_> {
    fn scan(&self, source: &RecordSource, scan: &Scan<'_>) -> Result<Vec<RecordRow>, Problem> {
        if scan.conditions.is_empty() {
            return self.scan_rows("records", source, scan);
        }
        let most = self.most_walked()?;
        let ScannedPart { rows: mut found, stopped_after } = self.walk(source, scan, most)?;
        let Some(last) = stopped_after else { return Ok(found) };
        let start = ScanStart::AfterRecord(last.order_key.as_deref(), &last.key);
        let rest = Scan { start, limit: scan.limit.max(LEAST_SORTED), ..*scan };
        found.extend(self.scan_rows("records NOT INDEXED", source, &rest)?);
        Ok(found)
    }

    fn scan_some(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
        most: usize,
    ) -> Result<ScannedPart, Problem> {
        self.walk(source, scan, i64::try_from(most).unwrap_or(i64::MAX))
    }
}

impl SqliteSnapshot<'_> {
    /// Returns whether reading the records of a source in the order of the file is faster than by
    /// an index, because they are a large part of the database.
    pub(super) fn is_large(&self, source: &RecordSource) -> Result<bool, Problem> {
        if source.visibility.keys().is_some() {
            return Ok(false);
        }
        let is_indexed = |time: &TimeFilter| time.field.is_none();
        let mut filter = match &source.visibility.time {
            Some(time) if is_indexed(time) => Where::in_time(source),
            _ => Where::stream(source),
        };
        let most = self.most_walked()?;
        filter.values.push(Box::new(most));
        let text =
            format!("SELECT count(*) FROM (SELECT 1 FROM records WHERE {} LIMIT ?)", filter.text);
        let mut query = self.prepare(&text)?;
        let count: i64 =
            query.query_row(params_from_iter(&filter.values), |row| row.get(0)).map_err(problem)?;
        Ok(count >= most)
    }

    /// Walks the index and returns the records of which the conditions hold. Stops after `most`
    /// records.
    fn walk(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
        most: i64,
    ) -> Result<ScannedPart, Problem> {
        let mut found = Vec::new();
        let conditions = Where::conditions_json(scan.conditions)?;
        let (columns, bounds, order) = parts(scan);
        let mut filter = Where::visible(source);
        filter.text.push_str(bounds);
        filter.add_start(scan);
        filter.values.insert(0, Box::new(conditions));
        let text = format!(
            "SELECT id, key, emitted, {columns}, passes(body, ?) FROM records WHERE {} ORDER BY {order}",
            filter.text
        );
        let mut query = self.prepare(&text)?;
        let mut rows = query.query(params_from_iter(&filter.values)).map_err(problem)?;
        let mut left = most;
        while found.len() < scan.limit
            && let Some(row) = rows.next().map_err(problem)?
        {
            left -= 1;
            let passes: bool = row.get(4).map_err(problem)?;
            if !passes && left > 0 {
                continue;
            }
            let record = record_row(row).map_err(problem)?;
            if left <= 0 && found.len() + usize::from(passes) < scan.limit {
                found.extend(passes.then(|| record.clone()));
                return Ok(ScannedPart { rows: found, stopped_after: Some(record) });
            }
            found.extend(passes.then_some(record));
        }
        Ok(ScannedPart { rows: found, stopped_after: None })
    }

    /// Returns how many records a scan walks by the index before it reads in the order of the file.
    fn most_walked(&self) -> Result<i64, Problem> {
        let mut query = self.prepare("SELECT max(id) FROM records")?;
        let last: Option<i64> = query.query_row([], |row| row.get(0)).map_err(problem)?;
        Ok((last.unwrap_or(0) / WALKED_PART).max(LEAST_WALKED))
    }

    fn scan_rows(
        &self,
        table: &str,
        source: &RecordSource,
        scan: &Scan<'_>,
    ) -> Result<Vec<RecordRow>, Problem> {
        let (columns, bounds, order) = parts(scan);
        let mut filter = Where::visible(source);
        filter.text.push_str(bounds);
        filter.add_start(scan);
        filter.conditions(scan.conditions)?;
        filter.values.push(Box::new(i64::try_from(scan.limit).unwrap_or(i64::MAX)));
        let text = format!(
            "SELECT id, key, emitted, {columns} FROM {table} WHERE {} ORDER BY {order} LIMIT ?",
            filter.text
        );
        let mut query = self.prepare(&text)?;
        let rows = query.query_map(params_from_iter(&filter.values), record_row);
        rows.and_then(Iterator::collect).map_err(problem)
    }
}

/// Returns the column with the order key, the bounds and the order of a scan, in SQL.
fn parts(scan: &Scan<'_>) -> (&'static str, &'static str, &'static str) {
    let order = |ascending, descending| match scan.order {
        SortOrder::Ascending => ascending,
        SortOrder::Descending => descending,
    };
    let by_key = order("key ASC", "key DESC");
    match scan.range {
        ScanRange::Ordered => {
            ("ord", " AND ord IS NOT NULL", order("ord ASC, key ASC", "ord DESC, key DESC"))
        }
        ScanRange::WithoutOrder => ("NULL", " AND ord IS NULL", by_key),
        ScanRange::ByKey => ("NULL", "", by_key),
    }
}

#[cfg(test)]
mod tests;
