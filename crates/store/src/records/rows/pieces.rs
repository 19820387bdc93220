//! The rows of pieces, which have the long values of records.

use stile_domain::records::problem::Problem;

use super::transaction::Rows;
use crate::sql::{statement, values};

/// The most pieces that one query reads.
const MOST_PIECES: i64 = 32;

/// Takes one piece of a text. Returns whether to continue.
pub(in crate::records) type TakeText<'t> = &'t mut dyn FnMut(&str) -> Result<bool, Problem>;

/// Reads pieces.
pub(in crate::records) trait PieceRows: Rows {
    /// Passes the numbers and the texts of some pieces to `take`, in no particular order.
    fn some_pieces(&self, numbers: &[i64], take: &mut dyn FnMut(i64, &str)) -> Result<(), Problem> {
        let sql = statement!("SELECT id, text FROM pieces WHERE tenant = $1 AND id = ANY($2)");
        self.door().each(sql, values![numbers], &mut |row| {
            take(row.get(0)?, row.get(1)?);
            Ok(true)
        })
    }

    /// Passes one piece of a long value to `take`.
    fn piece(&self, number: i64, take: &mut dyn FnMut(&str)) -> Result<(), Problem> {
        let mut is_found = false;
        self.pieces(number, number, &mut |text| {
            take(text);
            is_found = true;
            Ok(false)
        })?;
        if is_found { Ok(()) } else { Err(Problem::Corrupt) }
    }

    /// Returns one piece of a long value.
    fn stored_piece(&self, number: i64) -> Result<String, Problem> {
        let mut piece = String::new();
        self.piece(number, &mut |text| piece.push_str(text))?;
        Ok(piece)
    }

    /// Passes the pieces with these numbers to `take`, in order, until it returns `false`.
    fn pieces(&self, first: i64, last: i64, take: TakeText<'_>) -> Result<(), Problem> {
        let sql = statement!(
            "SELECT text FROM pieces WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id"
        );
        let (mut from, mut count, mut goes_on) = (first, 1, true);
        while from <= last && goes_on {
            let to = last.min(from.saturating_add(count - 1));
            self.door().each(sql, values![from, to], &mut |row| {
                goes_on = take(row.get(0)?)?;
                Ok(goes_on)
            })?;
            from = to + 1;
            count = (2 * count).min(MOST_PIECES);
        }
        Ok(())
    }
}

impl<R: Rows> PieceRows for R {}
