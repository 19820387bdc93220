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
/// How many times more different numbers the day has than the year, if both have two digits.
const DAYS_TO_YEARS: u32 = 3;

/// What people write where there is no value. It decides nothing, and stays as it is written.
const NOTHING: [&str; 8] = ["-", "\u{2013}", "\u{2014}", "--", "n/a", "na", "null", "none"];

/// Words for the two sides of an account in a column beside the amounts; the first of each pair
/// makes an amount negative. In upper case.
const SIDES: [(&str, &str); 23] = [
    ("S", "H"),
    ("SOLL", "HABEN"),
    ("D", "C"),
    ("DR", "CR"),
    ("DBIT", "CRDT"),
    ("DEBIT", "CREDIT"),
    ("AF", "BIJ"),
    ("AUSGABE", "EINNAHME"),
    ("AUSGABEN", "EINNAHMEN"),
    ("LASTSCHRIFT", "GUTSCHRIFT"),
    ("WITHDRAWAL", "DEPOSIT"),
    ("EXPENSE", "INCOME"),
    ("MONEY OUT", "MONEY IN"),
    ("DÉBIT", "CRÉDIT"),
    ("DÉPENSE", "RECETTE"),
    ("CARGO", "ABONO"),
    ("GASTO", "INGRESO"),
    ("ADDEBITO", "ACCREDITO"),
    ("USCITA", "ENTRATA"),
    ("UT", "INN"),
    ("OBCIĄŻENIE", "UZNANIE"),
    ("WYDATEK", "WPŁYW"),
    ("-", "+"),
];

/// The most bytes of a word for a side.
const MAX_SIDE_BYTES: usize = 12;

/// What the cells of one column allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnEvidence {
    /// Cells that are not empty, and no word or sign for nothing.
    cells: u64,
    /// Whether the stream declares numbers, and dates.
    is_declared: (bool, bool),
    /// The currency of an earlier file of the stream.
    known_currency: Option<&'static str>,
    numbers: Choice,
    /// Numbers that JSON would not spell so.
    spelled_numbers: u64,
    /// Numbers below zero, and those with a fraction.
    negative: u64,
    fractions: u64,
    /// Whether a number has a point, which a comma as the decimal mark would make a group.
    has_points: bool,
    /// Whether a number is marked `DR` or `CR`.
    has_sides: bool,
    /// The currencies beside numbers, with the number of their cells.
    currencies: Vec<(&'static str, u64)>,
    dates: DateCounts,
    /// Dates that are spelled as RFC 3339 already.
    instants: u64,
    /// Dates with points between their numbers.
    dotted_dates: u64,
    compact_dates: u64,
    /// An abbreviation of a zone that several zones have.
    vague_zone: Option<String>,
    /// The first cell that is no number, and the first that is no date.
    not_number: Option<String>,
    /// For each pair of words for the sides of an account, the cells with either.
    sides: [(u64, u64); SIDES.len()],
    /// Cells with nothing but a minus, which are no cells unless the others have a plus.
    minuses: u64,
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

/// What cells say about the order of dates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DateCounts {
    /// The cells that some order reads.
    cells: u64,
    /// For each order, the first cell that it does not read and another order does.
    unread: [Option<String>; DateOrder::ALL.len()],
    /// For each two orders, the first cell that they read as different dates.
    differing: [[Option<String>; DateOrder::ALL.len()]; DateOrder::ALL.len()],
    /// The numbers that stand first, and last, where either can be the year.
    outer: (u128, u128),
    /// Whether hyphens stand between such numbers. Between slashes the year is hardly ever first.
    has_hyphens: bool,
}

impl DateCounts {
    fn count(&mut self, cell: &str, read: &[Option<String>; DateOrder::ALL.len()]) {
        if read.iter().all(Option::is_none) {
            return;
        }
        self.cells += 1;
        for (unread, _) in self.unread.iter_mut().zip(read).filter(|(_, date)| date.is_none()) {
            unread.get_or_insert_with(|| cell.to_owned());
        }
        for (all, one) in self.differing.iter_mut().zip(read) {
            let others = all.iter_mut().zip(read);
            for (differs, _) in others.filter(|(_, other)| one.is_some() && *other != one) {
                differs.get_or_insert_with(|| cell.to_owned());
            }
        }
        if let Some((first, last)) = written_date::outer_numbers(cell) {
            self.outer.0 |= 1 << first.min(127);
            self.outer.1 |= 1 << last.min(127);
            self.has_hyphens |= cell.contains('-');
        }
    }

    fn add(&mut self, other: &Self) {
        self.cells += other.cells;
        let keep = |own: &mut Option<String>, other: &Option<String>| {
            if own.is_none() {
                own.clone_from(other);
            }
        };
        for (own, other) in self.unread.iter_mut().zip(&other.unread) {
            keep(own, other);
        }
        for (own, other) in
            self.differing.iter_mut().flatten().zip(other.differing.iter().flatten())
        {
            keep(own, other);
        }
        self.outer.0 |= other.outer.0;
        self.outer.1 |= other.outer.1;
        self.has_hyphens |= other.has_hyphens;
    }

    fn reads_all(&self, order: DateOrder) -> bool {
        self.unread.get(order as usize).is_some_and(Option::is_none)
    }

    /// Returns the orders that read every cell. The numbers that vary little among many are taken
    /// for the year.
    fn orders(&self) -> Vec<DateOrder> {
        let (first, last) = (self.outer.0.count_ones(), self.outer.1.count_ones());
        let is_year_last = last > 0 && first >= DAYS_TO_YEARS * last;
        let is_year_first = self.has_hyphens && first > 0 && last >= DAYS_TO_YEARS * first;
        let is_other = [DateOrder::DayFirst, DateOrder::MonthFirst]
            .into_iter()
            .any(|order| self.reads_all(order));
        let fits = |order: &DateOrder| match order {
            DateOrder::YearFirst => !is_year_last && (self.has_hyphens || !is_other),
            _ => !is_year_first || !self.reads_all(DateOrder::YearFirst),
        };
        DateOrder::ALL.into_iter().filter(|&order| self.reads_all(order)).filter(fits).collect()
    }

    /// Returns a cell that two of these orders read as different dates.
    fn open(&self, orders: &[DateOrder]) -> Option<&String> {
        let pairs = orders.iter().flat_map(|one| orders.iter().map(move |other| (*one, *other)));
        let mut cells = pairs.filter_map(|(one, other)| {
            self.differing.get(one as usize)?.get(other as usize)?.as_ref()
        });
        cells.next()
    }
}

impl ColumnEvidence {
    /// Looks at a cell.
    pub fn observe(&mut self, cell: &str) {
        let padded = cell;
        let cell = cell.trim();
        if cell.is_empty() {
            return;
        }
        if NOTHING.iter().any(|nothing| nothing.eq_ignore_ascii_case(cell)) {
            self.not_number.get_or_insert_with(|| cell.to_owned());
            self.minuses += u64::from(cell == "-");
            return;
        }
        self.cells += 1;
        if let Some((pair, is_negative)) = side_of(cell)
            && let Some(counts) = self.sides.get_mut(pair)
        {
            counts.0 += u64::from(is_negative);
            counts.1 += u64::from(!is_negative);
        }
        let [point, comma] = DecimalMark::ALL.map(|mark| written_number::to_json(cell, mark));
        if let Some(json) = point.as_ref().or(comma.as_ref()) {
            self.negative += u64::from(json.starts_with('-'));
            self.fractions += u64::from(json.contains('.'));
            self.numbers.count(point.as_ref(), comma.as_ref());
            self.spelled_numbers +=
                u64::from(padded.len() > cell.len() || !written_number::is_plain(cell));
            self.has_points |= cell.contains('.');
            self.has_sides |= written_number::has_side(cell);
            if let Some(currency) = written_number::currency(cell) {
                self.add_currency(currency);
            }
            self.compact_dates += u64::from(written_date::compact_to_rfc3339(cell).is_some());
            return;
        }
        self.not_number.get_or_insert_with(|| cell.to_owned());
        let read = DateOrder::ALL.map(|order| written_date::to_rfc3339(cell, order));
        self.dates.count(cell, &read);
        if let [Some(_), Some(_), _] = &read {
            self.instants += u64::from(Instant::parse(cell).is_some());
            self.dotted_dates += u64::from(cell.contains('.') && !cell.contains(['/', ':']));
        }
        if self.vague_zone.is_none() && read.iter().any(Option::is_some) {
            self.vague_zone = written_date::vague_zone(cell).map(str::to_owned);
        }
    }

    fn add_currency(&mut self, currency: &'static str) {
        match self.currencies.iter_mut().find(|(known, _)| *known == currency) {
            Some((_, count)) => *count += 1,
            None => self.currencies.push((currency, 1)),
        }
    }

    /// Returns whether the column had two cells or more, and each was a date.
    pub fn is_always_a_date(&self) -> bool {
        self.cells >= 2 && self.dates.cells == self.cells
    }

    /// Returns whether a cell can be read as a date.
    pub fn is_date_cell(cell: &str) -> bool {
        DateOrder::ALL.into_iter().any(|order| written_date::to_rfc3339(cell, order).is_some())
    }

    /// Returns the currency that the column is known to have or, if none is known, that most
    /// numbers have, `None` for those without one, and how many
    /// numbers are of it. Beside a currency, numbers without one are of it.
    fn usual_currency(&self) -> (Option<&'static str>, u64) {
        let with: u64 = self.currencies.iter().map(|(_, count)| count).sum();
        let bare = self.numbers.total().saturating_sub(with);
        if let Some(known) = self.known_currency {
            let own = self.currencies.iter().find(|(name, _)| *name == known);
            return (Some(known), own.map_or(0, |(_, count)| *count) + bare);
        }
        match self.currencies.iter().max_by_key(|(_, count)| *count) {
            Some(&(currency, count)) if count >= bare => (Some(currency), count + bare),
            _ => (None, bare),
        }
    }

    /// Says that the stream declares numbers, which counts although most cells may be something
    /// else.
    pub fn declare_numbers(&mut self) {
        self.is_declared.0 = true;
    }

    /// Says which currency the column had in an earlier file of the stream. An amount in another
    /// one must not be added to those.
    pub fn know_currency(&mut self, currency: &'static str) {
        self.known_currency = Some(currency);
    }

    /// Says that the stream declares dates, which counts likewise.
    pub fn declare_dates(&mut self) {
        self.is_declared.1 = true;
    }

    /// Returns whether most cells are numbers, of one currency or of none.
    pub fn is_number(&self) -> bool {
        let (_, count) = self.usual_currency();
        let known = self.known_currency.map_or(count, |_| self.numbers.total());
        self.is_most(count) || (self.is_declared.0 && known > 0)
    }

    /// Returns whether most cells are dates.
    pub fn is_date(&self) -> bool {
        self.is_most(self.dates.cells) || (self.is_declared.1 && self.dates.cells > 0)
    }

    fn is_most(&self, count: u64) -> bool {
        count > 0 && count * NEEDED.1 >= self.cells * NEEDED.0
    }

    /// Returns whether every cell is a day as eight digits, under a name that speaks of a date,
    /// under none, or as the owner says.
    fn is_compact_date(&self, name: &str, precedents: Precedents) -> bool {
        let name = name.to_lowercase();
        let is_named = ["dat", "day", "tag", "fecha", "jour", "giorno"];
        let is_said = precedents.said.dates == Some(DateOrder::YearFirst);
        self.cells > 0
            && self.compact_dates == self.cells
            && (is_said
                || precedents.lacks_names
                || is_named.iter().any(|part| name.contains(part)))
    }

    /// Returns the words for the sides of an account, if the column has nothing else: those of both
    /// sides, or of one under a name that speaks of them. Letters need such a name, or none, since
    /// many columns have letters.
    fn sides(&self, name: &str) -> Option<usize> {
        const NAMES: [&str; 12] = [
            "soll", "haben", "s/h", "debit", "credit", "d/c", "c/d", "dr/cr", "cr/dr", "af bij",
            "af/bij", "kennzeichen",
        ];
        let name = name.to_lowercase();
        let is_named = NAMES.iter().any(|part| name.contains(part));
        let lacks_name = name.starts_with("column_");
        self.sides.iter().zip(SIDES).position(|(&(negative, positive), (word, _))| {
            if word == "-" {
                return positive > 0 && positive == self.cells && self.minuses > 0;
            }
            let is_both = negative > 0 && positive > 0;
            let is_meant = is_named || is_both && (word.len() > 1 || lacks_name);
            self.cells > 0 && negative + positive == self.cells && is_meant
        })
    }

    /// Says why a column with many numbers is none of numbers, for a person to read.
    fn why_text(&self) -> Option<String> {
        let numbers = self.numbers.total();
        if numbers * 2 < self.cells || numbers < 2 {
            return None;
        }
        let names: Vec<&str> = self.currencies.iter().map(|(name, _)| *name).collect();
        if self.is_most(numbers) && names.len() > 1 {
            return Some(format!(
                "its amounts are in several currencies ({}), which no sum can mix; divide the file, or \
                 put the currency into a column of its own",
                names.join(", ")
            ));
        }
        let example: String = self.not_number.as_deref()?.chars().take(24).collect();
        let others = self.cells - numbers;
        Some(format!("{others} of {} cells are no numbers, such as `{example}`", self.cells))
    }
}

/// Returns the pair of words that a cell belongs to, and whether it makes an amount negative.
fn side_of(cell: &str) -> Option<(usize, bool)> {
    if cell.len() > MAX_SIDE_BYTES {
        return None;
    }
    let cell = if cell.len() > 1 { cell.to_uppercase() } else { cell.to_owned() };
    let found = SIDES.iter().position(|(one, other)| *one == cell || *other == cell)?;
    Some((found, SIDES.get(found).is_some_and(|(one, _)| *one == cell)))
}

/// How a column is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnReading {
    /// A cell is a number or a boolean if JSON would spell it so, and else text.
    AsWritten,
    /// A cell that is a number with this decimal mark, and without a currency, becomes one.
    Number(DecimalMark),
    /// A cell that is an amount becomes a number.
    Amount(AmountReading),
    /// A cell that is a date, or a date and time, in this order becomes one.
    Date(DateOrder),
    /// A cell of eight digits becomes a date.
    CompactDate,
}

/// How amounts are read that have a currency, or whose sign is in another column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountReading {
    /// The decimal mark of the amounts.
    pub mark: DecimalMark,
    /// The currency of the column. An amount in another one is not read.
    pub currency: Option<&'static str>,
    /// The column that says on which side of the account an amount is, from 0.
    pub side: Option<usize>,
}

impl AmountReading {
    /// Reads a cell, with the cell of the column of sides. `None` for what does not fit.
    pub fn to_json(self, cell: &str, side: Option<&str>) -> Option<String> {
        let json = written_number::to_json(cell, self.mark)?;
        if written_number::currency(cell).is_some_and(|own| self.currency != Some(own)) {
            return None;
        }
        if self.side.is_none() {
            return Some(json);
        }
        let (_, is_negative) = side_of(side?.trim())?;
        Some(if is_negative { written_number::negated(&json) } else { json })
    }
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
    /// Whether the columns have no names of their own.
    pub lacks_names: bool,
}

/// How a table is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReading {
    /// One for each column.
    pub columns: Vec<ColumnReading>,
    /// The spelling of the table, where it has numbers or dates that need one.
    pub spelling: TableSpelling,
    /// What is to be said of columns, by their number from 0.
    pub remarks: Vec<(usize, String)>,
}

/// The order of dates cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDates {
    /// The name of the column.
    pub column: String,
    /// A cell of it.
    pub example: String,
    /// A cell that contradicts the first; `None` if all cells have several readings.
    pub contrary: Option<String>,
    /// Whether the year may be in front.
    pub may_begin_with_year: bool,
}

impl OpenDates {
    /// Says what is open, as the end of a sentence about a file.
    pub fn described(&self) -> String {
        let Self { column, example, contrary, may_begin_with_year } = self;
        match contrary {
            Some(contrary) => format!(
                "the dates in `{column}` contradict each other: `{example}` and `{contrary}` cannot have \
                 the day, the month and the year in one order"
            ),
            None if *may_begin_with_year => format!(
                "the dates in `{column}`, such as `{example}`, can have the day, the month or the year \
                 first, and no date in the file shows which"
            ),
            None => format!(
                "the dates in `{column}`, such as `{example}`, can have the day or the month first, and no \
                 date in the file shows which"
            ),
        }
    }

    /// Returns the names of the orders that can be meant.
    pub fn orders(&self) -> &'static [&'static str] {
        match self.may_begin_with_year {
            true => &["day-first", "month-first", "year-first"],
            false => &["day-first", "month-first"],
        }
    }
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
    let mut dates = DateCounts::default();
    let mut has_dots = false;
    for (_, evidence) in columns {
        if evidence.is_number() {
            numbers.add(evidence.numbers);
        } else if evidence.is_date() {
            dates.add(&evidence.dates);
            has_dots |= evidence.dotted_dates > 0;
        }
    }
    let side = side_column(columns);
    let mut reading = TableReading {
        columns: Vec::with_capacity(columns.len()),
        spelling: TableSpelling::default(),
        remarks: Vec::new(),
    };
    for (at, (name, evidence)) in columns.iter().enumerate() {
        let own = if evidence.is_compact_date(name, precedents) {
            ColumnReading::CompactDate
        } else if evidence.is_number() {
            let side = side.filter(|side| side.amount == at);
            number(evidence, (&numbers, has_dots), precedents, side, &mut reading, at)
        } else if evidence.is_date() {
            date(name, evidence, &dates, precedents, &mut reading.spelling)?
        } else {
            reading
                .remarks
                .extend(evidence.why_text().map(|why| (at, format!("stays text: {why}"))));
            ColumnReading::AsWritten
        };
        if let (ColumnReading::Date(_), Some(zone)) = (own, &evidence.vague_zone) {
            let remark = format!(
                "names the zone `{zone}`, which several zones are called; its times stay those of the place"
            );
            reading.remarks.push((at, remark));
        }
        reading.columns.push(own);
    }
    Ok(reading)
}

/// A column that says on which side of the account the amounts of another are.
#[derive(Clone, Copy)]
struct SideColumn {
    column: usize,
    amount: usize,
    pair: usize,
}

/// Finds the column of sides, and the amounts that it is about: the nearest column of numbers
/// without a sign, one with fractions before others.
fn side_column(columns: &[(String, ColumnEvidence)]) -> Option<SideColumn> {
    let all = columns.iter().enumerate();
    let mut sides = all.filter_map(|(at, (name, own))| Some((at, own.sides(name)?)));
    let ((column, pair), None) = (sides.next()?, sides.next()) else { return None };
    let may_be = |own: &ColumnEvidence| own.is_number() && own.negative == 0 && !own.has_sides;
    let amounts = columns.iter().enumerate().filter(|(_, (_, own))| may_be(own));
    let (amount, _) = amounts.min_by_key(|(at, (_, own))| {
        (own.fractions == 0 && own.spelled_numbers == 0, at.abs_diff(column))
    })?;
    Some(SideColumn { column, amount, pair })
}

/// Decides how a column of numbers is read.
fn number(
    evidence: &ColumnEvidence,
    (numbers, has_dots): (&Choice, bool),
    precedents: Precedents,
    side: Option<SideColumn>,
    reading: &mut TableReading,
    at: usize,
) -> ColumnReading {
    let Precedents { said, remembered, has_semicolons, .. } = precedents;
    let mark = |is_point| if is_point { DecimalMark::Point } else { DecimalMark::Comma };
    let usual = mark(!(has_semicolons || has_dots));
    let of_table = numbers.is_first().map(mark).or(remembered.decimal).unwrap_or(usual);
    let own = evidence.numbers.is_first().map(mark);
    let decimal = said.decimal.or(own).unwrap_or(of_table);
    let (currency, of_currency) = evidence.usual_currency();
    let mut remark = |text: String| reading.remarks.push((at, text));
    if evidence.has_sides {
        remark("is negative where `DR` or `S` is behind the number".to_owned());
    }
    if of_currency < evidence.numbers.total() {
        let others = evidence.numbers.total() - of_currency;
        let own = currency.map_or("those without a currency".to_owned(), |own| format!("`{own}`"));
        remark(format!(
            "has {others} amount(s) in another currency than {own}, which stay as written"
        ));
    }
    if let Some((side, (negative, _))) = side.and_then(|side| Some((side, SIDES.get(side.pair)?))) {
        reading.spelling.decimal = Some(decimal);
        let column = side.column + 1;
        let negative = negative.to_lowercase();
        remark(format!("is negative where column {column} says `{negative}`"));
        let side = Some(side.column);
        return ColumnReading::Amount(AmountReading { mark: decimal, currency, side });
    }
    let is_plain =
        evidence.spelled_numbers == 0 && (decimal == DecimalMark::Point || !evidence.has_points);
    if is_plain {
        return ColumnReading::AsWritten;
    }
    reading.spelling.decimal = Some(decimal);
    match currency {
        Some(_) => ColumnReading::Amount(AmountReading { mark: decimal, currency, side: None }),
        None => ColumnReading::Number(decimal),
    }
}

/// Decides how a column of dates is read.
fn date(
    name: &str,
    evidence: &ColumnEvidence,
    table: &DateCounts,
    precedents: Precedents,
    spelling: &mut TableSpelling,
) -> Result<ColumnReading, OpenDates> {
    let counts = &evidence.dates;
    if evidence.instants == evidence.cells {
        return Ok(ColumnReading::AsWritten);
    }
    let Precedents { said, remembered, .. } = precedents;
    let own = counts.orders();
    let mut possible: Vec<DateOrder> = own.clone();
    if possible.len() > 1 {
        let others = table.orders();
        let of_both: Vec<_> = possible.iter().copied().filter(|own| others.contains(own)).collect();
        if !of_both.is_empty() {
            possible = of_both;
        }
    }
    let open = counts.open(&possible);
    let may_begin_with_year = possible.contains(&DateOrder::YearFirst) && open.is_some();
    let known = match (said.dates, possible.as_slice()) {
        (Some(said), _) => said,
        (None, []) => {
            let cell = |order: DateOrder| counts.unread.get(order as usize).cloned().flatten();
            // What one order does not read, another does.
            let (example, contrary) = (cell(DateOrder::MonthFirst), cell(DateOrder::DayFirst));
            return Err(OpenDates {
                column: name.to_owned(),
                example: example.unwrap_or_default(),
                contrary,
                may_begin_with_year: false,
            });
        }
        (None, [first, ..]) => match (open, remembered.dates) {
            (None, _) => *first,
            (Some(_), Some(remembered)) if possible.contains(&remembered) => remembered,
            (Some(example), _) => {
                return Err(OpenDates {
                    column: name.to_owned(),
                    example: example.clone(),
                    contrary: None,
                    may_begin_with_year,
                });
            }
        },
    };
    // The order is worth remembering where another would mean something else.
    if counts.open(&DateOrder::ALL).is_some() {
        spelling.dates = Some(known);
    }
    Ok(ColumnReading::Date(known))
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

    fn euros(mark: DecimalMark) -> AmountReading {
        AmountReading { mark, currency: Some("EUR"), side: None }
    }

    #[test]
    fn dates_that_contradict_each_other_or_begin_with_two_digits_are_asked_for() {
        let asked = |cells: &[&str]| decide(&columns(&[("d", cells)]), NONE).unwrap_err();
        let contrary = asked(&["13/02/2026", "02/14/2026"]);
        assert!(contrary.described().contains("`13/02/2026` and `02/14/2026`"), "{contrary:?}");
        let open = asked(&["26-03-31", "26-04-01"]);
        assert!(open.described().contains("the year first"), "{open:?}");
        assert_eq!(open.orders().len(), 3);
        assert!(!asked(&["1/2/26", "3/4/26"]).may_begin_with_year);
        let said = TableSpelling { dates: Some(DateOrder::YearFirst), decimal: None };
        let said = Precedents { said, ..NONE };
        assert_eq!(one("d", &["26-03-31"], said), ColumnReading::Date(DateOrder::YearFirst));
        assert_eq!(one("booked", &["20260331"], said), ColumnReading::CompactDate);
        let nameless = Precedents { lacks_names: true, ..NONE };
        assert_eq!(one("column_1", &["20260331"], nameless), ColumnReading::CompactDate);
    }

    #[test]
    fn the_side_of_the_account_in_another_column_is_the_sign() {
        let table = columns(&[
            ("Umsatz", &["12,50", "3,00"]),
            ("Soll/Haben", &["S", "H"]),
            ("Nr", &["1", "2"]),
        ]);
        let reading = decide(&table, NONE).unwrap();
        let ColumnReading::Amount(amount) = reading.columns[0] else { panic!("{reading:?}") };
        assert_eq!(amount.to_json("12,50", Some("S")).as_deref(), Some("-12.50"));
        assert_eq!(amount.to_json("3,00", Some("H")).as_deref(), Some("3.00"));
        assert_eq!((amount.to_json("3,00", None), amount.to_json("3,00", Some("x"))), (None, None));
        assert!(reading.remarks[0].1.contains("column 2 says `s`"), "{reading:?}");
        // What has signs of its own keeps them.
        let signed = columns(&[("a", &["-1,00", "2,00"]), ("s", &["S", "H"])]);
        assert_eq!(
            decide(&signed, NONE).unwrap().columns[0],
            ColumnReading::Number(DecimalMark::Comma)
        );
    }

    #[test]
    fn each_pair_of_words_gives_the_sign() {
        for (negative, positive) in SIDES.into_iter().filter(|(word, _)| word.len() > 1).chain([
            ("-", "+"),
            ("Withdrawal", "Deposit"),
            ("D\u{e9}bit", "Cr\u{e9}dit"),
            ("Obci\u{105}\u{17c}enie", "Uznanie"),
        ]) {
            let table = columns(&[("amount", &["12.50", "3.00"]), ("kind", &[negative, positive])]);
            let reading = decide(&table, NONE).unwrap();
            let ColumnReading::Amount(amount) = reading.columns[0] else { panic!("{reading:?}") };
            assert_eq!(amount.to_json("12.50", Some(negative)).as_deref(), Some("-12.50"));
            assert_eq!(amount.to_json("3.00", Some(positive)).as_deref(), Some("3.00"));
        }
        // A minus alone is nothing where no other cell is a plus.
        let nothing = columns(&[("amount", &["12.50", "3.00"]), ("kind", &["-", "x"])]);
        assert_eq!(decide(&nothing, NONE).unwrap().columns[0], ColumnReading::AsWritten);
    }

    #[test]
    fn an_amount_in_another_currency_does_not_fit_and_a_column_of_two_says_why_it_is_text() {
        assert_eq!(euros(DecimalMark::Point).to_json("5.00 USD", None), None);
        assert_eq!(euros(DecimalMark::Point).to_json("€5", None).as_deref(), Some("5"));
        let mixed = columns(&[("a", &["EUR 4", "USD 5", "EUR 6"]), ("b", &["1", "x", "2"])]);
        let remarks = decide(&mixed, NONE).unwrap().remarks;
        assert!(remarks[0].1.contains("several currencies (EUR, USD)"), "{remarks:?}");
        assert!(remarks[1].1.contains("1 of 3 cells are no numbers, such as `x`"), "{remarks:?}");
    }

    const NONE: Precedents = Precedents {
        said: TableSpelling { decimal: None, dates: None },
        remembered: TableSpelling { decimal: None, dates: None },
        has_semicolons: false,
        lacks_names: false,
    };

    #[test]
    fn the_cells_that_one_spelling_allows_decide_for_the_table() {
        use ColumnReading::{Amount, AsWritten, CompactDate, Date, Number};
        use DateOrder::{DayFirst, MonthFirst, YearFirst};
        use DecimalMark::{Comma, Point};
        for (name, cells, expected) in [
            ("a", &["-4,20", "-1.850,00", "7"][..], Number(Comma)),
            ("a", &["-1,204.20", "-850.00"], Number(Point)),
            ("a", &["-4.20", "7"], AsWritten),
            ("a", &["1.204", "7"], AsWritten),
            ("a", &["1,204", "7"], Number(Point)),
            ("a", &["€ 4", "EUR 5"], Amount(euros(Point))),
            ("a", &["EUR 4", "USD 5"], AsWritten),
            ("a", &["1,50", "2,50", "3,50", "4,50", "5,00 USD"], Number(Comma)),
            ("a", &["+12", ".5", "5."], Number(Point)),
            ("a", &["1,5", "n/a", "-", "2,5"], Number(Comma)),
            ("a", &["+491234567", "+491234568"], AsWritten),
            ("a", &["45.10 DR", "3.00 CR"], Number(Point)),
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
            ("a", &["31/01/26", "01/02/26"], Date(DayFirst)),
            ("a", &["26-01-05", "26-01-26", "26-02-17"], Date(YearFirst)),
            ("a", &["05-01-26", "26-01-26", "17-02-26"], Date(DayFirst)),
            ("a", &["05/01/26 09:00", "26/01/26 10:00", "17/02/26 11:00"], Date(DayFirst)),
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
