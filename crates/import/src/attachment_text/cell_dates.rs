//! Which cells of a sheet hold dates, and how a date is written for readers.
//!
//! A sheet stores a date as a number of days, and only the format of its cell says that the number
//! is a date. Formats for time that has passed, such as `[h]:mm`, are no dates.
//!
//! *Source*: ECMA-376, part 1, sections 18.8.30 (formats) and 18.17.4 (dates).

use stile_domain::records::instant::Instant;

/// The day 0 of a sheet, in days before 1970, and that of a sheet that counts from 1904.
const DAY_ZERO: f64 = 25_569.0;
const DAY_ZERO_OF_1904: f64 = 24_107.0;
/// Sheets count a day 60, the 29 February 1900, which did not exist.
const DAY_THAT_WAS_NOT: f64 = 60.0;
/// The day after the last of the year 9999.
const LAST_DAY: f64 = 2_958_466.0;
const MICROS_A_SECOND: f64 = 1_000_000.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// Which styles of cells are dates.
#[derive(Debug, Default)]
pub(super) struct CellDates {
    /// For each style of the sheet, whether its format is that of a date.
    pub(super) styles: Vec<bool>,
    /// Whether the sheet counts days from 1904.
    pub(super) since_1904: bool,
}

impl CellDates {
    /// Returns a number as the date that a cell with this style shows. `None` if the style is not
    /// that of a date, or the number is none.
    pub(super) fn date(&self, style: usize, number: &str) -> Option<String> {
        if !*self.styles.get(style)? {
            return None;
        }
        let days: f64 = number.trim().parse().ok()?;
        if !(0.0..LAST_DAY).contains(&days) {
            return None;
        }
        let zero = match self.since_1904 {
            true => DAY_ZERO_OF_1904,
            false if days < DAY_THAT_WAS_NOT => DAY_ZERO - 1.0,
            false => DAY_ZERO,
        };
        let seconds = ((days - zero) * SECONDS_A_DAY).round();
        let text = Instant((seconds * MICROS_A_SECOND) as i64).to_rfc3339();
        let (date, time) = (text.get(..10)?, text.get(11..19)?);
        Some(match (days < 1.0, time) {
            (true, _) => time.to_owned(),
            (false, "00:00:00") => date.to_owned(),
            (false, _) => format!("{date} {time}"),
        })
    }
}

/// Whether a format that every sheet knows by its number is that of a date or a time of day.
pub(super) fn is_known_date(format: u32) -> bool {
    matches!(format, 14..=22 | 27..=36 | 45 | 47 | 50..=58)
}

/// Whether a format of the sheet's own is that of a date or a time of day.
pub(super) fn is_date(format: &str) -> bool {
    // Only the first of the parts for positive, negative and zero numbers and for texts counts.
    let (mut is_quoted, mut is_bracketed, mut is_escaped) = (false, false, false);
    let mut bracketed = String::new();
    for c in format.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '"' if !is_bracketed => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '[' => (is_bracketed, bracketed) = (true, String::new()),
            ']' => {
                is_bracketed = false;
                let is_unit = |unit: char| bracketed.chars().all(|c| c.eq_ignore_ascii_case(&unit));
                if !bracketed.is_empty() && ['h', 'm', 's'].into_iter().any(is_unit) {
                    return false;
                }
            }
            _ if is_bracketed => bracketed.push(c),
            '\\' | '_' | '*' => is_escaped = true,
            ';' => return false,
            'y' | 'Y' | 'm' | 'M' | 'd' | 'D' | 'h' | 'H' | 's' | 'S' => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dates(since_1904: bool) -> CellDates {
        CellDates { styles: vec![false, true], since_1904 }
    }

    #[test]
    fn a_number_of_days_is_the_date_that_its_cell_shows() {
        for (number, date) in [
            ("46085", "2026-03-04"),
            ("46085.4375", "2026-03-04 10:30:00"),
            ("0.75", "18:00:00"),
            ("1", "1900-01-01"),
            ("59", "1900-02-28"),
            ("61", "1900-03-01"),
            ("2958465", "9999-12-31"),
        ] {
            assert_eq!(dates(false).date(1, number).as_deref(), Some(date), "{number}");
        }
        assert_eq!(dates(true).date(1, "44623").as_deref(), Some("2026-03-04"));
        for (style, number) in [(0, "46085"), (2, "46085"), (1, "x"), (1, "-1"), (1, "1e300")] {
            assert_eq!(dates(false).date(style, number), None, "{number}");
        }
    }

    #[test]
    fn a_format_with_a_part_of_a_date_is_one() {
        for format in
            ["yyyy-mm-dd", "[$-409]d/m/yy h:mm AM/PM;@", "mmm", "\"on \"dd.mm.", "h:mm", "[Red]d"]
        {
            assert!(is_date(format), "{format}");
        }
        for format in
            ["General", "0.00", "#,##0\" days\"", "0\\d", "[h]:mm", "[Red]0.0", "@", "_d0"]
        {
            assert!(!is_date(format), "{format}");
        }
    }
}
