//! The column whose words say which amounts of a table are negative, such as `Debit` and `Credit`.
//!
//! The rules for columns look at one column after the other. This looks at the table: which column
//! has such words, which amounts it is about, and what stays open of their signs.

use stile_domain::records::table::column::{
    AmountReading, ColumnEvidence, ColumnReading, OpenDates, Precedents, TableReading, decide,
};
use stile_domain::records::table::written_number::{self, DecimalMark};
use stile_domain::unseen::shown_ends;

/// Parts of the names of columns that have amounts, in lower case.
const AMOUNTS: [&str; 15] = [
    "amount", "betrag", "umsatz", "bedrag", "importe", "importo", "montant", "beløp", "beløb",
    "belopp", "kwota", "summe", "valor", "monto", "tutar",
];

/// Parts of the names of columns that have what is on an account, in lower case. It has no side.
const BALANCES: [&str; 9] =
    ["balance", "saldo", "solde", "kontostand", "bakiye", "zůstatek", "egyenleg", "残高", "余额"];

/// Parts of the names of columns that may say which amounts are negative, in lower case.
const DIRECTIONS: [&str; 16] = [
    "type", "typ", "tipo", "direction", "richtung", "vorzeichen", "sens", "sign", "debit",
    "credit", "in/out", "transaction", "movement", "movimiento", "movimento", "kennzeichen",
];

/// What the cells of one column say about the sides of an account, and about signs.
#[derive(Default)]
pub(super) struct SideCells {
    /// The cells that are words for a side, and no others.
    words: ColumnEvidence,
    /// How many cells make an amount negative, and how many leave it positive.
    counts: (u64, u64),
    /// Whether a word for a side is short. Many columns have letters, and states and titles such
    /// as `AF` and `Dr`.
    has_short_words: bool,
    cells: u64,
    /// The different texts, three at most.
    texts: Vec<String>,
    /// Numbers that have a sign, and numbers that no other column than one of amounts has.
    signed: u64,
    spelled: u64,
    /// How many cells are no numbers and have a digit, and the first of them.
    odd: u64,
    first_odd: Option<String>,
}

impl SideCells {
    pub(super) fn observe(&mut self, cell: &str) {
        let cell = cell.trim();
        if cell.is_empty() {
            return;
        }
        self.cells += 1;
        if self.texts.len() < 3 && !self.texts.iter().any(|text| text == cell) {
            self.texts.push(shown_ends(cell, 24));
        }
        let mut numbers = DecimalMark::ALL.iter().filter_map(|&m| written_number::to_json(cell, m));
        if let Some(json) = numbers.next() {
            let is_signed = json.starts_with('-') || written_number::has_side(cell);
            self.signed += u64::from(is_signed);
            self.spelled += u64::from(json.contains('.') || !written_number::is_plain(cell));
            return;
        }
        if cell.contains(char::is_numeric) {
            self.odd += 1;
            self.first_odd.get_or_insert_with(|| shown_ends(cell, 24));
        }
        // An amount shows how such a word is read.
        let amount = AmountReading { mark: DecimalMark::Point, currency: None, side: Some(0) };
        let Some(read) = amount.to_json("1", Some(cell)) else { return };
        match read.starts_with('-') {
            true => self.counts.0 += 1,
            false => self.counts.1 += 1,
        }
        self.has_short_words |= cell.len() < 4;
        self.words.observe(cell);
    }

    /// Says that a column whose name speaks of amounts, and most of whose cells have digits, is
    /// none of numbers.
    pub(super) fn unread_amounts(&self, (name, own): &(String, ColumnEvidence)) -> Option<String> {
        let name = name.to_lowercase();
        let is_named = AMOUNTS.iter().chain(&BALANCES).any(|part| name.contains(part));
        let is_meant = is_named && self.odd * 2 > self.cells && !own.is_number() && !own.is_date();
        let example = self.first_odd.as_ref().filter(|_| is_meant)?;
        Some(format!(
            "stays text: {} of {} cells, such as `{example}`, are not spelled as numbers that \
             Stile reads, so nothing adds them up",
            self.odd, self.cells
        ))
    }

    fn words(&self) -> u64 {
        self.counts.0 + self.counts.1
    }

    /// Returns whether the words are those of a side: all cells, if they are not short, or most
    /// beside a few other words, if both sides are there.
    fn is_meant(&self) -> bool {
        let is_both = self.counts.0 > 0 && self.counts.1 > 0;
        !self.has_short_words
            && self.words() > 0
            && (self.words() == self.cells || is_both && self.words() * 2 >= self.cells)
    }
}

/// The column of sides in a table, and the amounts that it is about.
pub(super) struct SidesOfTable<'s> {
    cells: &'s [SideCells],
    /// The column of sides, where its words, or an earlier file of the stream, show it. The rules
    /// for columns may find one by its name.
    column: Option<usize>,
    /// The amounts, if they have no signs.
    amount: Option<usize>,
    /// Whether the column of amounts has a name that says so, or a date beside it.
    is_of_account: bool,
}

impl<'s> SidesOfTable<'s> {
    /// Looks for the columns. `known` is the column of sides in an earlier file of the stream.
    pub(super) fn find(
        columns: &[(String, ColumnEvidence)],
        cells: &'s [SideCells],
        known: Option<&str>,
    ) -> Self {
        let is_named = |name: &str, parts: &[&str]| {
            let name = name.to_lowercase();
            parts.iter().any(|part| name.contains(part))
        };
        let of_words = || {
            let all = columns.iter().zip(cells).enumerate();
            all.filter(|(_, ((_, own), side))| side.words() > 0 && !own.is_number())
        };
        let remembered = of_words().find(|(_, ((name, _), _))| known == Some(name.as_str()));
        let mut meant = of_words().filter(|(_, (_, side))| side.is_meant());
        let only = meant.next().filter(|_| meant.next().is_none());
        let column = remembered.or(only).map(|(at, _)| at);
        let near = column.or_else(|| of_words().next().map(|(at, _)| at)).unwrap_or(0);
        let numbers = columns.iter().zip(cells).enumerate();
        let amounts = numbers.filter(|(_, ((name, own), side))| {
            own.is_number() && side.cells > 0 && !is_named(name, &BALANCES)
        });
        let amount = amounts.min_by_key(|(at, ((name, _), side))| {
            (!is_named(name, &AMOUNTS), side.spelled == 0, at.abs_diff(near))
        });
        let has_dates = columns.iter().any(|(_, own)| own.is_date());
        let is_of_account = amount.is_some_and(|(_, ((name, _), side))| {
            is_named(name, &AMOUNTS) || side.spelled > 0 && has_dates
        });
        let is_known = remembered.is_some();
        let is_both =
            |at: usize| cells.get(at).is_some_and(|side| side.counts.0 > 0 && side.counts.1 > 0);
        Self {
            cells,
            column: column.filter(|&at| is_known || is_of_account || is_both(at)),
            amount: amount.filter(|(_, (_, side))| side.signed == 0).map(|(at, _)| at),
            is_of_account,
        }
    }

    /// Decides how the columns are read. The rules for columns see the words of one column alone as
    /// sides, under a name that says so. Where they give them to other amounts, these keep what
    /// they have, and the amounts of the table get them.
    pub(super) fn decide(
        &self,
        columns: &[(String, ColumnEvidence)],
        precedents: Precedents,
    ) -> Result<TableReading, OpenDates> {
        let mut shown = columns.to_vec();
        for (at, ((name, evidence), side)) in shown.iter_mut().zip(self.cells).enumerate() {
            if self.column == Some(at) {
                "debit/credit".clone_into(name);
                evidence.clone_from(&side.words);
            } else if self.column.is_some() && side.words() > 0 {
                evidence.observe("?");
            }
        }
        let found = decide(&shown, precedents)?;
        let given = found.columns.iter().enumerate().find_map(|(at, reading)| match reading {
            ColumnReading::Amount(AmountReading { side, .. }) => Some((at, (*side)?)),
            _ => None,
        });
        let Some((given, side)) = given.filter(|(at, _)| self.amount != Some(*at)) else {
            return Ok(found);
        };
        // Beside another word no column is one of sides.
        for ((_, evidence), cells) in shown.iter_mut().zip(self.cells) {
            if cells.words() > 0 {
                evidence.observe("?");
            }
        }
        let mut without = decide(&shown, precedents)?;
        let Some(amount) = self.amount else { return Ok(without) };
        let Some(reading) = without.columns.get_mut(amount) else { return Ok(without) };
        let (mark, currency) = match *reading {
            ColumnReading::Amount(AmountReading { mark, currency, .. }) => (mark, currency),
            ColumnReading::Number(mark) => (mark, None),
            _ => (DecimalMark::Point, None),
        };
        *reading = ColumnReading::Amount(AmountReading { mark, currency, side: Some(side) });
        // What the rules said of the other amounts because of the sides is true of these.
        let moved =
            found.remarks.iter().filter(|own| own.0 == given && !without.remarks.contains(own));
        let moved: Vec<_> = moved.map(|(_, text)| (amount, text.clone())).collect();
        without.remarks.extend(moved);
        Ok(without)
    }

    /// Says what stays open of the signs: of amounts beside other words than those of the column
    /// of sides, or of all, if a column may say it and was not taken for one of sides.
    pub(super) fn remark(
        &self,
        columns: &[(String, ColumnEvidence)],
        side: Option<usize>,
    ) -> Option<(usize, String)> {
        let amount = self.amount?;
        if let Some(side) = side {
            let cells = self.cells.get(side)?;
            let others = cells.cells.saturating_sub(cells.words());
            return (others > 0).then(|| {
                let column = side + 1;
                let what = format!(
                    "has {others} amount(s) beside other words in column {column}, whose sign is \
                     open: they stay as written"
                );
                (amount, what)
            });
        }
        let may_be = |(name, own): &(String, ColumnEvidence), side: &SideCells| {
            let name = name.to_lowercase();
            let is_named = DIRECTIONS.iter().any(|part| name.contains(part));
            let has_signs = side.texts.iter().any(|text| text == "-" || text == "+");
            let is_text = !own.is_number() && !own.is_date();
            is_text
                && (side.words() > 0 || side.texts.len() == 2 && side.cells > 1)
                && (is_named || has_signs)
        };
        let at = columns.iter().zip(self.cells).position(|(own, side)| may_be(own, side))?;
        let texts = self.cells.get(at)?.texts.iter().map(|text| format!("`{text}`"));
        let texts = texts.collect::<Vec<_>>().join(", ");
        let what = format!(
            "has no minus, and column {} ({texts}) may say which amounts are negative: their sign \
             is open, and they are stored without one. Write it into the file, if some are",
            at + 1
        );
        self.is_of_account.then_some((amount, what))
    }
}
