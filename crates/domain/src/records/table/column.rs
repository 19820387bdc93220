//! Decides how the columns of a table are read, from what all their cells allow.
//!
//! A [`ColumnEvidence`] looks at each cell once and keeps a few counts. [`decide`] takes the counts
//! of all columns: the cells that only one spelling allows decide for the column, then for the
//! table. Where nothing decides, what the owner said before counts, then the usual spelling of such
//! tables. A date whose order stays open is a question to the owner, because a wrong answer would
//! be believed.

use super::written_date::{self, DateOrder};
use super::written_number::{self, DecimalMark};
use crate::records::instant::Instant;

/// A column is one of numbers or dates if at least this share of its cells is: four fifths.
const NEEDED: (u64, u64) = (4, 5);

/// What the cells of one column allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnEvidence {
    /// Cells that are not empty.
    cells: u64,
    numbers: Choice,
    /// Numbers that JSON would not spell so.
    spelled_numbers: u64,
    /// Whether a number has a point, which a comma as the decimal mark would make a group.
    has_points: bool,
    /// The first two currencies beside numbers.
    currencies: [Option<String>; 2],
    dates: Choice,
    /// Dates that are spelled as RFC 3339 already.
    instants: u64,
    /// Dates with points between their numbers.
    dotted_dates: u64,
    compact_dates: u64,
    /// A cell that both orders read, differently.
    open_date: Option<String>,
}

/// How many cells two spellings allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Choice {
    first_only: u64,
    second_only: u64,
    /// Both allow the cell, with different meanings.
    open: u64,
    /// Both mean the same.
    same: u64,
}

impl Choice {
    fn count(&mut self, first: Option<&String>, second: Option<&String>) {
        match (first, second) {
            (None, None) => {}
            (Some(_), None) => self.first_only += 1,
            (None, Some(_)) => self.second_only += 1,
            (Some(first), Some(second)) if first == second => self.same += 1,
            (Some(_), Some(_)) => self.open += 1,
        }
    }

    fn total(&self) -> u64 {
        self.first_only + self.second_only + self.open + self.same
    }

    /// Returns whether the cells decide for the first spelling; `None` if none decides.
    fn is_first(&self) -> Option<bool> {
        match self.first_only.cmp(&self.second_only) {
            std::cmp::Ordering::Equal => None,
            order => Some(order.is_gt()),
        }
    }

    fn add(&mut self, other: Self) {
        self.first_only += other.first_only;
        self.second_only += other.second_only;
        self.open += other.open;
        self.same += other.same;
    }
}

impl ColumnEvidence {
    /// Looks at a cell.
    pub fn observe(&mut self, cell: &str) {
        let cell = cell.trim();
        if cell.is_empty() {
            return;
        }
        self.cells += 1;
        let [point, comma] = DecimalMark::ALL.map(|mark| written_number::to_json(cell, mark));
        if point.is_some() || comma.is_some() {
            self.numbers.count(point.as_ref(), comma.as_ref());
            self.spelled_numbers += u64::from(!written_number::is_plain(cell));
            self.has_points |= cell.contains('.');
            if let Some(currency) = written_number::currency(cell) {
                self.add_currency(currency);
            }
            self.compact_dates += u64::from(written_date::compact_to_rfc3339(cell).is_some());
            return;
        }
        let [day, month] = DateOrder::ALL.map(|order| written_date::to_rfc3339(cell, order));
        self.dates.count(day.as_ref(), month.as_ref());
        if day.is_some() && month.is_some() {
            self.instants += u64::from(Instant::parse(cell).is_some());
            self.dotted_dates += u64::from(cell.contains('.') && !cell.contains(['/', ':']));
            if day != month && self.open_date.is_none() {
                self.open_date = Some(cell.to_owned());
            }
        }
    }

    fn add_currency(&mut self, currency: &str) {
        for place in &mut self.currencies {
            match place {
                Some(known) if known == currency => return,
                Some(_) => {}
                None => {
                    *place = Some(currency.to_owned());
                    return;
                }
            }
        }
    }

    /// Returns whether the column had two cells or more, and each was a date.
    pub fn is_always_a_date(&self) -> bool {
        self.cells >= 2 && self.dates.total() == self.cells
    }

    /// Returns whether a cell can be read as a date.
    pub fn is_date_cell(cell: &str) -> bool {
        DateOrder::ALL.into_iter().any(|order| written_date::to_rfc3339(cell, order).is_some())
    }

    /// Returns whether most cells are numbers, all in one currency.
    fn is_number(&self) -> bool {
        self.is_most(self.numbers.total()) && matches!(self.currencies, [_, None])
    }

    fn is_date(&self) -> bool {
        self.is_most(self.dates.total())
    }

    fn is_most(&self, count: u64) -> bool {
        count > 0 && count * NEEDED.1 >= self.cells * NEEDED.0
    }

    /// Returns whether every cell is a day as eight digits, under a name that speaks of a date.
    fn is_compact_date(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let is_named = ["dat", "day", "tag", "fecha", "jour", "giorno"];
        self.cells > 0
            && self.compact_dates == self.cells
            && is_named.iter().any(|part| name.contains(part))
    }
}

/// How a column is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnReading {
    /// A cell is a number or a boolean if JSON would spell it so, and else text.
    AsWritten,
    /// A cell that is a number with this decimal mark becomes one.
    Number(DecimalMark),
    /// A cell that is a date, or a date and time, in this order becomes one.
    Date(DateOrder),
    /// A cell of eight digits becomes a date.
    CompactDate,
}

/// What the owner says of a table, or said of an earlier one of the same stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSpelling {
    /// The decimal mark of all numbers.
    pub decimal: Option<DecimalMark>,
    /// The order of all dates.
    pub dates: Option<DateOrder>,
}

/// What decides where no cell does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedents {
    /// What the owner says now. It decides against the cells.
    pub said: TableSpelling,
    /// What was found or said of an earlier table of the stream.
    pub remembered: TableSpelling,
    /// Whether a `;` separates the cells, as programs write in countries with a decimal comma.
    pub has_semicolons: bool,
}

/// How a table is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReading {
    /// One for each column.
    pub columns: Vec<ColumnReading>,
    /// The spelling of the table, where it has numbers or dates that need one.
    pub spelling: TableSpelling,
}

/// The day and the month of a date cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDates {
    /// The name of the column.
    pub column: String,
    /// A cell of it.
    pub example: String,
}

/// Decides how each column of a table is read. Columns are pairs of a name and its evidence.
///
/// # Errors
/// [`OpenDates`], if no cell and nothing the owner said shows the order of the dates.
pub fn decide(
    columns: &[(String, ColumnEvidence)],
    precedents: Precedents,
) -> Result<TableReading, OpenDates> {
    let mut numbers = Choice::default();
    let mut dates = Choice::default();
    let mut has_dots = false;
    for (_, evidence) in columns {
        if evidence.is_number() {
            numbers.add(evidence.numbers);
        } else if evidence.is_date() {
            dates.add(evidence.dates);
            has_dots |= evidence.dotted_dates > 0;
        }
    }
    let Precedents { said, remembered, has_semicolons } = precedents;
    let mark = |is_point| if is_point { DecimalMark::Point } else { DecimalMark::Comma };
    let order = |is_day| if is_day { DateOrder::DayFirst } else { DateOrder::MonthFirst };
    let usual = mark(!(has_semicolons || has_dots));
    let mut spelling = TableSpelling::default();
    let mut readings = Vec::with_capacity(columns.len());
    for (name, evidence) in columns {
        let reading = if evidence.is_compact_date(name) {
            ColumnReading::CompactDate
        } else if evidence.is_number() {
            let of_table = numbers.is_first().map(mark).or(remembered.decimal).unwrap_or(usual);
            let own = evidence.numbers.is_first().map(mark);
            let decimal = said.decimal.or(own).unwrap_or(of_table);
            let is_plain = evidence.spelled_numbers == 0
                && (decimal == DecimalMark::Point || !evidence.has_points);
            if is_plain {
                ColumnReading::AsWritten
            } else {
                spelling.decimal = Some(decimal);
                ColumnReading::Number(decimal)
            }
        } else if evidence.is_date() {
            let found = evidence.dates.is_first().or(dates.is_first()).map(order);
            let known = said.dates.or(found).or(remembered.dates);
            match (known, &evidence.open_date) {
                _ if evidence.instants == evidence.cells => ColumnReading::AsWritten,
                (None, Some(example)) => {
                    return Err(OpenDates { column: name.clone(), example: example.clone() });
                }
                (known, open) => {
                    let is_needed = open.is_some() || evidence.dates.is_first().is_some();
                    spelling.dates = known.filter(|_| is_needed).or(spelling.dates);
                    ColumnReading::Date(known.unwrap_or(DateOrder::DayFirst))
                }
            }
        } else {
            ColumnReading::AsWritten
        };
        readings.push(reading);
    }
    Ok(TableReading { columns: readings, spelling })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(cells: &[(&str, &[&str])]) -> Vec<(String, ColumnEvidence)> {
        let evidence = |cells: &[&str]| {
            let mut evidence = ColumnEvidence::default();
            cells.iter().for_each(|cell| evidence.observe(cell));
            evidence
        };
        cells.iter().map(|(name, cells)| ((*name).to_owned(), evidence(cells))).collect()
    }

    fn one(name: &str, cells: &[&str], precedents: Precedents) -> ColumnReading {
        decide(&columns(&[(name, cells)]), precedents).unwrap().columns[0]
    }

    const NONE: Precedents = Precedents {
        said: TableSpelling { decimal: None, dates: None },
        remembered: TableSpelling { decimal: None, dates: None },
        has_semicolons: false,
    };

    #[test]
    fn the_cells_that_one_spelling_allows_decide_for_the_table() {
        use ColumnReading::{AsWritten, CompactDate, Date, Number};
        use DateOrder::{DayFirst, MonthFirst};
        use DecimalMark::{Comma, Point};
        for (name, cells, expected) in [
            ("a", &["-4,20", "-1.850,00", "7"][..], Number(Comma)),
            ("a", &["-1,204.20", "-850.00"], Number(Point)),
            ("a", &["-4.20", "7"], AsWritten),
            ("a", &["1.204", "7"], AsWritten),
            ("a", &["1,204", "7"], Number(Point)),
            ("a", &["€ 4", "€ 5"], Number(Point)),
            ("a", &["EUR 4", "USD 5"], AsWritten),
            ("a", &["7", "7", "7", "7", "-4,2", "n/a"], Number(Comma)),
            ("a", &["7,5", "x"], AsWritten),
            ("a", &["007", "7"], AsWritten),
            ("a", &["05.01.2026", "26.01.2026"], Date(DayFirst)),
            ("a", &["05/01/2026", "26/01/2026"], Date(DayFirst)),
            ("a", &["05/01/2026", "01/26/2026"], Date(MonthFirst)),
            ("a", &["2026-01-05", "2026-01-05T09:00:00Z"], AsWritten),
            ("a", &["2026-01-05 12:34:56 +0000"], Date(DayFirst)),
            ("Buchungsdatum", &["20260105", "20260106"], CompactDate),
            ("number", &["20260105", "20260106"], AsWritten),
            ("a", &[], AsWritten),
            ("a", &["", " "], AsWritten),
        ] {
            assert_eq!(one(name, cells, NONE), expected, "{cells:?}");
        }
        let table =
            columns(&[("a", &["1.204"]), ("b", &["4,2"]), ("d", &["1/2/26"]), ("e", &["13/2/26"])]);
        let reading = decide(&table, NONE).unwrap();
        assert_eq!(reading.columns, [Number(Comma), Number(Comma), Date(DayFirst), Date(DayFirst)]);
        let spelling = TableSpelling { decimal: Some(Comma), dates: Some(DayFirst) };
        assert_eq!(reading.spelling, spelling);
    }

    #[test]
    fn where_no_cell_decides_the_owner_or_the_custom_does_and_open_dates_are_asked_for() {
        use ColumnReading::{AsWritten, Date, Number};
        use DateOrder::{DayFirst, MonthFirst};
        use DecimalMark::{Comma, Point};
        let semicolons = Precedents { has_semicolons: true, ..NONE };
        assert_eq!(one("a", &["-1.200", "2.500"], semicolons), Number(Comma));
        let dotted = columns(&[("d", &["05.01.2026"]), ("a", &["-1.200"])]);
        assert_eq!(decide(&dotted, NONE).unwrap().columns[1], Number(Comma));
        let open = decide(&columns(&[("d", &["x", "1/2/26", "3/4/26", "5/6/26", "7/7/26"])]), NONE);
        let open = open.unwrap_err();
        assert_eq!((open.column.as_str(), open.example.as_str()), ("d", "1/2/26"));
        for (said, remembered, expected) in [
            (Some(DayFirst), Some(MonthFirst), Date(DayFirst)),
            (None, Some(MonthFirst), Date(MonthFirst)),
        ] {
            let precedents = Precedents {
                said: TableSpelling { dates: said, ..TableSpelling::default() },
                remembered: TableSpelling { dates: remembered, ..TableSpelling::default() },
                ..NONE
            };
            assert_eq!(one("d", &["1/2/26"], precedents), expected);
        }
        let remembered = TableSpelling { decimal: Some(Comma), dates: None };
        assert_eq!(one("a", &["1.204"], Precedents { remembered, ..NONE }), Number(Comma));
        assert_eq!(one("a", &["1.2"], Precedents { remembered, ..NONE }), AsWritten);
        let said = TableSpelling { decimal: Some(Point), dates: None };
        assert_eq!(one("a", &["1.204", "2"], Precedents { said, ..semicolons }), AsWritten);
    }
}
