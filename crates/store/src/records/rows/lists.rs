//! The records of a source: pages in the order of lists, all of them, and how many there are.

use std::collections::HashMap;

use stile_domain::records::filter::Condition;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::filter::{AFTER_NUMBER, FIRST_ROWS, Filter, MOST_ROWS, records_by_number};
use super::records::{RecordRows, record_row};
use super::transaction::Rows;
use crate::records::model::{RecordRow, RecordSource, Scan, ScanRange, ScanStart, SortOrder};
use crate::sql::{Door, Row, statement, values};

/// Takes a record and its whole body. Returns whether to continue.
pub(in crate::records) type TakeBody<'t> =
    &'t mut dyn FnMut(RecordRow, &[u8]) -> Result<bool, Problem>;

/// Reads the visible records of a source.
pub(in crate::records) trait ListRows: RecordRows {
    /// Counts the visible records, and returns when the latest of them was first ingested.
    fn count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem> {
        let filter = Filter::visible(self.door(), source, &[])?;
        let (mut count, mut latest) = (0, None);
        if filter.residue.is_empty() {
            let select = "SELECT count(*), max(emitted) FROM records";
            self.door().each_where(select, &filter.conditions, &mut |row| {
                count = row.get::<i64>(0)?;
                latest = row.get::<Option<i64>>(1)?.map(Instant);
                Ok(false)
            })?;
        } else {
            self.each_visible(source, &[], &mut |row, _| {
                count += 1;
                latest = latest.max(Some(row.emitted));
                Ok(true)
            })?;
        }
        Ok((u64::try_from(count).unwrap_or_default(), latest))
    }

    /// Does the same for some sources. Both engines keep the numbers of records by stream, in the
    /// transaction that changes them: no record is read of a stream that the caller sees whole.
    fn counts(&self, sources: &[RecordSource]) -> Result<Vec<(u64, Option<Instant>)>, Problem> {
        let is_whole = |source: &RecordSource| {
            source.visibility.time.is_none() && source.visibility.keys().is_none()
        };
        let whole: Vec<i64> =
            sources.iter().filter(|source| is_whole(source)).map(|source| source.id).collect();
        if !matches!(self.door(), Door::Postgresql(_)) {
            let count = |source: &RecordSource| match is_whole(source) {
                true => self.kept_count(source),
                false => self.count(source),
            };
            return sources.iter().map(count).collect();
        }
        let sql = statement!(
            "SELECT c.stream, c.records, latest.emitted FROM stream_counts c \
             LEFT JOIN LATERAL (SELECT r.emitted FROM records r WHERE r.tenant = $1 \
             AND r.stream = c.stream AND r.emitted > -9000000000000000000 ORDER BY r.emitted DESC LIMIT 1) AS latest ON true \
             WHERE c.tenant = $1 AND c.stream = ANY($2)"
        );
        let known: HashMap<i64, (i64, Option<i64>)> = match whole.is_empty() {
            true => HashMap::new(),
            false => {
                let row = |row: &Row<'_>| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)));
                self.door().all(sql, values![whole], row)?.into_iter().collect()
            }
        };
        let count = |source: &RecordSource| {
            if !is_whole(source) {
                return self.count(source);
            }
            let (count, latest) = known.get(&source.id).copied().unwrap_or_default();
            Ok((u64::try_from(count).unwrap_or_default(), latest.map(Instant)))
        };
        sources.iter().map(count).collect()
    }

    /// Does the same for a source in SQLite that the caller sees as a whole. The index by value
    /// knows how many records a stream has. A stream that nothing was written to since there is
    /// such an index is counted.
    fn kept_count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem> {
        let sql = statement!(
            "SELECT i.indexed + i.tail, \
             (SELECT max(r.emitted) FROM records r WHERE r.tenant = $1 AND r.stream = $2) \
             FROM field_indexes i WHERE i.tenant = $1 AND i.stream = $2"
        );
        let row = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<Option<i64>>(1)?));
        match self.door().all(sql, values![source.id], row)?.first() {
            Some((count, latest)) => {
                Ok((u64::try_from(*count).unwrap_or_default(), latest.map(Instant)))
            }
            None => self.count(source),
        }
    }

    /// Returns the numbers of the visible records of a source, in order. `None` if there are more
    /// than `limit`.
    fn visible_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        numbers(self, source, "", limit)
    }

    /// Returns the numbers of the visible records of a source without an order key, in order.
    /// `None` if there are more than `limit`.
    fn unordered_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem> {
        numbers(self, source, " AND ord IS NULL", limit)
    }

    /// Passes each visible record of which conditions hold to `take`, with its body, in the order
    /// of keys, until it returns `false`. Reads a bounded number of rows at once.
    fn each_visible(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        take: TakeBody<'_>,
    ) -> Result<(), Problem> {
        let (mut after, mut limit, mut goes_on) = (String::new(), FIRST_ROWS, true);
        while goes_on {
            let start = ScanStart::AfterRecord(None, &after);
            let (range, order) = (ScanRange::ByKey, SortOrder::Ascending);
            let scan = Scan { range, order, start, conditions, limit };
            let filter = Filter::visible(self.door(), source, conditions)?;
            let residue = filter.residue;
            let (mut read, mut last) = (0, None);
            each_of_page(self.door(), filter, "records", &scan, ", body", &mut |row| {
                let (found, body) = (record_row(row)?, row.get(4)?);
                read += 1;
                last = Some(found.key.clone());
                goes_on = !residue.holds(body)? || take(found, body)?;
                Ok(goes_on)
            })?;
            let Some(last) = last.filter(|_| read >= limit) else { break };
            after = last;
            limit = (2 * limit).min(MOST_ROWS);
        }
        Ok(())
    }

    /// Returns the visible ones of some records of a source, if the conditions hold.
    fn visible_among(
        &self,
        source: &RecordSource,
        records: &[i64],
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut found = Vec::new();
        // No index but that of the numbers.
        let table = match self.door() {
            Door::Sqlite(_) => "records NOT INDEXED",
            Door::Postgresql(_) => "records",
        };
        for some in records.chunks(MOST_ROWS) {
            let mut filter = Filter::in_time(self.door(), source, conditions)?;
            filter.and(&format!(" AND id {}", self.door().is_one_of()), some.to_vec());
            filter.each(self.door(), table, &mut |row| {
                found.push(record_row(row)?);
                Ok(true)
            })?;
        }
        found.retain(|row| source.visibility.shows_key(&row.key));
        Ok(found)
    }

    /// Returns the visible records of a source after a number, if the conditions hold.
    fn visible_after(
        &self,
        source: &RecordSource,
        after: i64,
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem> {
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let mut filter = Filter::in_time(self.door(), source, conditions)?;
            let residue = std::mem::take(&mut filter.residue);
            filter.and(AFTER_NUMBER, after);
            filter.end(&format!(" ORDER BY id LIMIT {MOST_ROWS}"));
            let select = format!(
                "SELECT id, key, emitted, ord{} FROM {}",
                residue.body_column(),
                records_by_number(self.door())
            );
            let mut read = 0;
            self.door().each_where(&select, &filter.conditions, &mut |row| {
                read += 1;
                after = row.get(0)?;
                if residue.holds_of(row, 4)? {
                    found.push(record_row(row)?);
                }
                Ok(true)
            })?;
            if read < MOST_ROWS {
                found.retain(|row| source.visibility.shows_key(&row.key));
                return Ok(found);
            }
        }
    }
}

impl<R: Rows> ListRows for R {}

fn numbers<R: ListRows + ?Sized>(
    rows: &R,
    source: &RecordSource,
    bounds: &str,
    limit: i64,
) -> Result<Option<Vec<i64>>, Problem> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut filter = Filter::visible(rows.door(), source, &[])?;
    let residue = std::mem::take(&mut filter.residue);
    let mut records: Vec<i64> = Vec::new();
    if residue.is_empty() {
        filter.end(bounds);
        filter.and(" LIMIT ?", limit.saturating_add(1));
        rows.door().each_where("SELECT id FROM records", &filter.conditions, &mut |row| {
            records.push(row.get(0)?);
            Ok(true)
        })?;
    } else {
        rows.each_visible(source, &[], &mut |row, _| {
            records.push(row.number);
            Ok(records.len() <= most)
        })?;
        if !bounds.is_empty() && records.len() <= most {
            let found = rows.rows_of(&records)?;
            let unordered = found.into_iter().filter(|(_, row)| row.order_key.is_none());
            records = unordered.map(|(_, row)| row.number).collect();
        }
    }
    records.sort_unstable();
    Ok((records.len() <= most).then_some(records))
}

/// Passes the rows of the next page of a scan to `take`, whatever their fields hold: the columns
/// that [`record_row`] reads, and further ones. `table` is `records`, and may say by which index.
pub(in crate::records) fn each_of_page(
    door: Door<'_>,
    mut filter: Filter<'_>,
    table: &str,
    scan: &Scan<'_>,
    columns: &str,
    take: &mut dyn FnMut(&Row<'_>) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let ScanParts { ord, bounds, order } = ScanParts::of(scan);
    filter.end(bounds);
    add_start(&mut filter, scan);
    let limit = i64::try_from(scan.limit).unwrap_or(i64::MAX);
    filter.and(&format!(" ORDER BY {order} LIMIT ?"), limit);
    let select = format!("SELECT id, key, emitted, {ord}{columns} FROM {table}");
    door.each_where(&select, &filter.conditions, take)
}

/// Counts the records of a query that leaves nothing undecided. `table` is `records`, and may say
/// by which index.
pub(in crate::records) fn count_of(
    door: Door<'_>,
    table: &str,
    filter: &Filter<'_>,
) -> Result<u64, Problem> {
    let mut count: i64 = 0;
    let select = format!("SELECT count(*) FROM {table}");
    door.each_where(&select, &filter.conditions, &mut |row| {
        count = row.get(0)?;
        Ok(false)
    })?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// The parts of a query that a scan decides.
pub(in crate::records) struct ScanParts {
    /// The column with the order key.
    pub(in crate::records) ord: &'static str,
    /// A condition on the order key, after other conditions.
    pub(in crate::records) bounds: &'static str,
    pub(in crate::records) order: &'static str,
}

impl ScanParts {
    pub(in crate::records) fn of(scan: &Scan<'_>) -> Self {
        let order = |ascending, descending| match scan.order {
            SortOrder::Ascending => ascending,
            SortOrder::Descending => descending,
        };
        let by_key = order("key ASC", "key DESC");
        let by_value = order("ord ASC, key ASC", "ord DESC, key DESC");
        let (ord, bounds, order) = match scan.range {
            ScanRange::Ordered => ("ord", " AND ord IS NOT NULL", by_value),
            ScanRange::WithoutOrder => ("NULL", " AND ord IS NULL", by_key),
            ScanRange::ByKey => ("NULL", "", by_key),
        };
        Self { ord, bounds, order }
    }
}

/// Adds the condition that a record lies after the start of a scan.
pub(in crate::records) fn add_start(filter: &mut Filter<'_>, scan: &Scan<'_>) {
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
