//! Reads the records of a source in the order of lists, or all of them.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use tokio_postgres::Row;

use super::read::{COLUMNS, PgSnapshot, Residue, Where, column, record_row};
use crate::records::model::{RecordRow, RecordSource, Scan, ScanRange, ScanStart, SortOrder};
use crate::records::port::{ReadFields, ReadLists, ScannedPart, TakeFields};

/// The rows that the first query and the largest query read if each body is looked at.
const FIRST_ROWS: usize = 64;
const MOST_ROWS: usize = 1024;

impl ReadLists for PgSnapshot<'_> {
    fn scan(&self, source: &RecordSource, scan: &Scan<'_>) -> Result<Vec<RecordRow>, Problem> {
        let residue = Residue::new(source, scan.conditions);
        if residue.is_empty() {
            return self.page(source, scan, "")?.iter().map(record_row).collect();
        }
        Ok(self.scan_some(source, scan, usize::MAX)?.rows)
    }

    fn scan_some(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
        most: usize,
    ) -> Result<ScannedPart, Problem> {
        let residue = Residue::new(source, scan.conditions);
        let mut found = Vec::new();
        let mut left = most;
        let mut last: Option<RecordRow> = None;
        let mut limit = FIRST_ROWS.max(scan.limit.min(MOST_ROWS)).min(left);
        loop {
            let start = match &last {
                Some(last) => ScanStart::AfterRecord(last.order_key.as_deref(), &last.key),
                None => scan.start,
            };
            let rows = self.page(source, &Scan { start, limit, ..*scan }, ", body")?;
            for row in &rows {
                if residue.holds(column(row, 4)?)? {
                    found.push(record_row(row)?);
                    if found.len() >= scan.limit {
                        return Ok(ScannedPart { rows: found, stopped_after: None });
                    }
                }
            }
            if rows.len() < limit {
                return Ok(ScannedPart { rows: found, stopped_after: None });
            }
            last = rows.last().map(record_row).transpose()?;
            left -= rows.len();
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
        let residue = Residue::new(source, conditions);
        if residue.is_empty() {
            let filter = Where::visible(source);
            let rows = self.filtered("SELECT count(*) FROM records WHERE ", &filter)?;
            let row = rows.first().ok_or(Problem::Corrupt)?;
            return Ok(u64::try_from(column::<i64>(row, 0)?).unwrap_or_default());
        }
        let mut count = 0;
        self.each_visible(source, residue, &mut |_, _| {
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
        self.each_visible(source, Residue::new(source, conditions), &mut |row, body| {
            take(row.number, &source.fields_of(body, fields)?)
        })
    }
}

/// Takes a record and its whole body. Returns whether to continue.
pub(super) type TakeBody<'t> = &'t mut dyn FnMut(RecordRow, &[u8]) -> Result<bool, Problem>;

impl PgSnapshot<'_> {
    /// Passes each visible record of which a residue holds to `take`, in the order of keys, until
    /// it returns `false`. Holds the rows of one query in memory.
    pub(super) fn each_visible(
        &self,
        source: &RecordSource,
        residue: Residue<'_>,
        take: TakeBody<'_>,
    ) -> Result<(), Problem> {
        let mut after = String::new();
        let mut limit = FIRST_ROWS;
        loop {
            let start = ScanStart::AfterRecord(None, &after);
            let (range, order) = (ScanRange::ByKey, SortOrder::Ascending);
            let scan = Scan { range, order, start, conditions: &[], limit };
            let rows = self.page(source, &scan, ", body")?;
            for row in &rows {
                let body = column(row, 4)?;
                if residue.holds(body)? && !take(record_row(row)?, body)? {
                    return Ok(());
                }
            }
            let Some(last) = rows.last().filter(|_| rows.len() >= limit) else { return Ok(()) };
            after = record_row(last)?.key;
            limit = (2 * limit).min(MOST_ROWS);
        }
    }

    /// Reads the next records of a scan, whatever their fields hold, with further columns.
    fn page(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
        columns: &str,
    ) -> Result<Vec<Row>, Problem> {
        let mut filter = Where::visible(source);
        let direction = match scan.order {
            SortOrder::Ascending => "ASC",
            SortOrder::Descending => "DESC",
        };
        let (ord, bounds, order) = match scan.range {
            ScanRange::Ordered => {
                ("ord", " AND ord IS NOT NULL", format!("ord {direction}, key {direction}"))
            }
            ScanRange::WithoutOrder => {
                ("NULL::bytea", " AND ord IS NULL", format!("key {direction}"))
            }
            ScanRange::ByKey => ("NULL::bytea", "", format!("key {direction}")),
        };
        filter.end(bounds);
        add_start(&mut filter, scan);
        let limit = i64::try_from(scan.limit).unwrap_or(i64::MAX);
        filter.and(&format!(" ORDER BY {order} LIMIT ?"), limit);
        let all = COLUMNS.replace("ord", ord);
        self.filtered(&format!("SELECT {all}{columns} FROM records WHERE "), &filter)
    }
}

fn add_start(filter: &mut Where, scan: &Scan<'_>) {
    let (more, or_equal) = match scan.order {
        SortOrder::Ascending => (">", ">="),
        SortOrder::Descending => ("<", "<="),
    };
    match scan.start {
        ScanStart::Beginning => {}
        ScanStart::AfterRecord(Some(value), key) => {
            filter.and(&format!(" AND (ord, key) {more} (?,"), value.to_vec());
            filter.and(" ?)", key.as_bytes().to_vec());
        }
        ScanStart::AfterRecord(None, key) => {
            filter.and(&format!(" AND key {more} ?"), key.as_bytes().to_vec());
        }
        ScanStart::AfterOrderKey(value) => {
            filter.and(&format!(" AND ord {more} ?"), value.to_vec());
        }
        ScanStart::AtOrderKey(value) => {
            filter.and(&format!(" AND ord {or_equal} ?"), value.to_vec());
        }
    }
}
