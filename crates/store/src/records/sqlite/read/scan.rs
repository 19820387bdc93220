//! Reads the records of a source in the order of lists.
//!
//! An index has that order, and not what conditions ask for. A scan with conditions therefore walks
//! the index and looks at each record, which is soon done if many records match. After an eighth of
//! the database it reads the rest in the order of the file instead, which takes less time for each
//! record, and sorts what matches. So a scan takes at most about twice the time of the better way.

use stile_domain::records::problem::Problem;

use super::SqliteSnapshot;
use crate::records::model::{RecordRow, RecordSource, Scan, ScanStart};
use crate::records::port::{ReadLists, ScannedPart};
use crate::records::rows::{
    Filter, Rows as _, ScanParts, add_start, conditions_json, each_of_page, record_row,
};
use crate::sql::statement;

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
        let door = self.door();
        let mut filter = match &source.visibility.time {
            Some(time) if time.field.is_none() => Filter::in_time(door, source, &[])?,
            _ => Filter::stream(source),
        };
        let most = self.most_walked()?;
        filter.and(" LIMIT ?)", most);
        let mut count: i64 = 0;
        let select = "SELECT count(*) FROM (SELECT 1 FROM records";
        door.each_where(select, &filter.conditions, &mut |row| {
            count = row.get(0)?;
            Ok(false)
        })?;
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
        let ScanParts { ord, bounds, order } = ScanParts::of(scan);
        let mut filter = Filter::visible(self.door(), source, &[])?;
        filter.end(bounds);
        add_start(&mut filter, scan);
        filter.end(&format!(" ORDER BY {order}"));
        // The conditions of the request are a column, so that the walk counts what it skips. Their
        // question mark is the first.
        filter.conditions.put_first(conditions_json(scan.conditions)?);
        let select = format!("SELECT id, key, emitted, {ord}, passes(body, ?) FROM records");
        let (mut left, mut stopped_after) = (most, None);
        self.door().each_where(&select, &filter.conditions, &mut |row| {
            left -= 1;
            let passes: bool = row.get(4)?;
            if !passes && left > 0 {
                return Ok(true);
            }
            let record = record_row(row)?;
            if left <= 0 && found.len() + usize::from(passes) < scan.limit {
                found.extend(passes.then(|| record.clone()));
                stopped_after = Some(record);
                return Ok(false);
            }
            found.extend(passes.then_some(record));
            Ok(found.len() < scan.limit)
        })?;
        Ok(ScannedPart { rows: found, stopped_after })
    }

    /// Returns how many records a scan walks by the index before it reads in the order of the file.
    fn most_walked(&self) -> Result<i64, Problem> {
        let sql = statement!("SELECT max(id) FROM records WHERE tenant = $1");
        let last = self.door().number(sql, &[])?;
        Ok((last.unwrap_or(0) / WALKED_PART).max(LEAST_WALKED))
    }

    fn scan_rows(
        &self,
        table: &str,
        source: &RecordSource,
        scan: &Scan<'_>,
    ) -> Result<Vec<RecordRow>, Problem> {
        let filter = Filter::visible(self.door(), source, scan.conditions)?;
        let mut rows = Vec::new();
        each_of_page(self.door(), filter, table, scan, "", &mut |row| {
            rows.push(record_row(row)?);
            Ok(true)
        })?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
