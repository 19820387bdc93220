//! How a table of text, such as the CSV of a bank, spells its numbers and dates.
//!
//! [`written_number`] and [`written_date`] read one cell in a given spelling. A cell alone seldom
//! shows its spelling: `1.234` is a number of one digit in one country and of four in another. So
//! [`mod@column`] counts what all cells of a column allow, and decides for the whole table.

pub mod column;
pub mod written_date;
pub mod written_number;
