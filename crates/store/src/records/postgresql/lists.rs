//! Reads the records of a source in the order of lists, or all of them.
//!
//! Conditions that need a record's fields are decided of the bodies that a query returns, and each
//! query returns a bounded number of them.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;

use super::read::PgSnapshot;
use crate::records::model::{RecordRow, RecordSource, Scan, ScanStart};
use crate::records::port::{ReadFields, ReadLists, ScannedPart, TakeFields};
use crate::records::rows::{
    FIRST_ROWS, Filter, ListRows as _, MOST_ROWS, Rows as _, count_of, each_of_page, record_row,
};

/// The records of the largest page whose bodies are read with their rows.
const MOST_OF_PAGE: usize = 256;

impl ReadLists for PgSnapshot<'_> {
    fn scan(&self, source: &RecordSource, scan: &Scan<'_>) -> Result<Vec<RecordRow>, Problem> {
        let filter = Filter::visible(self.door(), source, scan.conditions)?;
        if !filter.residue.is_empty() {
            return Ok(self.scan_some(source, scan, usize::MAX)?.rows);
        }
        // A page is written next. What reads many more records does not look at them all.
        let is_page = scan.limit <= MOST_OF_PAGE;
        let columns = if is_page { ", body" } else { "" };
        let mut rows = Vec::new();
        each_of_page(self.door(), filter, "records", scan, columns, &mut |row| {
            let record = record_row(row)?;
            if is_page {
                self.keep_body(record.number, row.get(4)?);
            }
            rows.push(record);
            Ok(true)
        })?;
        Ok(rows)
    }

    fn scan_some(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
        most: usize,
    ) -> Result<ScannedPart, Problem> {
        let mut found = Vec::new();
        let mut left = most;
        let mut last: Option<RecordRow> = None;
        let mut limit = FIRST_ROWS.max(scan.limit.min(MOST_ROWS)).min(left);
        loop {
            let after = last.take();
            let start = match &after {
                Some(last) => ScanStart::AfterRecord(last.order_key.as_deref(), &last.key),
                None => scan.start,
            };
            let filter = Filter::visible(self.door(), source, scan.conditions)?;
            let (residue, mut read) = (filter.residue, 0);
            let page = Scan { start, limit, ..*scan };
            each_of_page(self.door(), filter, "records", &page, ", body", &mut |row| {
                read += 1;
                let record = record_row(row)?;
                if residue.holds(row.get(4)?)? {
                    self.keep_body(record.number, row.get(4)?);
                    found.push(record.clone());
                }
                last = Some(record);
                Ok(found.len() < scan.limit)
            })?;
            if found.len() >= scan.limit || read < limit {
                return Ok(ScannedPart { rows: found, stopped_after: None });
            }
            left -= read;
            if left == 0 {
                return Ok(ScannedPart { rows: found, stopped_after: last });
            }
            limit = (2 * limit).min(MOST_ROWS).min(left);
        }
    }
}

impl ReadFields for PgSnapshot<'_> {
    fn count_matching(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        let filter = Filter::visible(self.door(), source, conditions)?;
        if filter.residue.is_empty() {
            return count_of(self.door(), "records", &filter);
        }
        let mut count = 0;
        self.each_visible(source, conditions, &mut |_, _| {
            count += 1;
            Ok(true)
        })?;
        Ok(count)
    }

    fn field_values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        fields: &[&str],
        take: TakeFields<'_>,
    ) -> Result<(), Problem> {
        self.each_visible(source, conditions, &mut |row, body| {
            take(row.number, &source.fields_of(body, fields)?)
        })
    }
}
