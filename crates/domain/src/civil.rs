//! Converts between Gregorian dates and day numbers. No clock is read here.
//!
//! *Source*: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": `days_from_civil`,
//! `civil_from_days`.

/// Returns the days from 1970-01-01 to a date. A month or day past its end runs into the next one.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + month - 1;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    // Years begin in March here, so that the leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year, month and day that lie `days` after 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_number_converts_to_a_date_and_back() {
        assert_eq!(
            (
                days_from_civil(1970, 1, 1),
                days_from_civil(2000, 2, 29),
                days_from_civil(2000, 14, 0)
            ),
            (0, 11_016, days_from_civil(2001, 1, 31))
        );
        for day in -800_000..800_000 {
            let (year, month, of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
            assert!((1..=12).contains(&month) && (1..=31).contains(&of_month));
        }
    }
}
