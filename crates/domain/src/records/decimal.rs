//! JSON numbers by their exact value: parsed, compared, written in one way, and added.
//!
//! Numbers keep their original spelling, so `1`, `1.0` and `1e0` are one value and three texts. No
//! calculation goes through a double. Equality is therefore transitive, and a sum does not depend
//! on the order of its parts.

use std::cmp::Ordering;

/// A JSON number taken apart. Borrows its text.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<'a> {
    negative: bool,
    /// The digits from the first to the last that is not zero, in two runs. Both runs are empty for
    /// zero.
    digits: [&'a str; 2],
    /// The power of ten of the first digit. Exponents beyond [`MOST_EXPONENT`] are clamped.
    first: i64,
}

/// The length of [`Decimal::order_bytes`].
pub const ORDER_BYTES: usize = 11;
/// The digits of a number that its order bytes have.
pub const ORDER_DIGITS: usize = 16;

/// The largest exponent that is distinguished from larger ones.
const MOST_EXPONENT: i64 = 1 << 60;

impl<'a> Decimal<'a> {
    /// Parses a JSON number (RFC 8259, section 6); returns `None` for any other text.
    pub fn parse(text: &'a str) -> Option<Self> {
        if !is_number(text) {
            return None;
        }
        let (negative, unsigned) =
            text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let counted = whole.trim_start_matches('0');
        let (head, tail, skipped) = if counted.is_empty() {
            let counted = fraction.trim_start_matches('0');
            (counted, "", whole.len() + fraction.len() - counted.len())
        } else {
            (counted, fraction, whole.len() - counted.len())
        };
        let tail = tail.trim_end_matches('0');
        let head = if tail.is_empty() { head.trim_end_matches('0') } else { head };
        if head.is_empty() {
            return Some(Self { negative: false, digits: ["", ""], first: 0 });
        }
        let position = whole.len() as i64 - 1 - skipped as i64;
        let first = position.saturating_add(power(exponent));
        Some(Self { negative, digits: [head, tail], first })
    }

    fn is_zero(self) -> bool {
        self.count() == 0
    }

    fn count(self) -> usize {
        self.digits.iter().map(|run| run.len()).sum()
    }

    fn values(self) -> impl Iterator<Item = u8> + use<'a> {
        let [head, tail] = self.digits;
        head.bytes().chain(tail.bytes()).map(|digit| digit - b'0')
    }

    /// Returns -1, 0 or 1.
    fn sign(self) -> i8 {
        match (self.is_zero(), self.negative) {
            (true, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        }
    }

    /// Returns bytes that compare like the number. Numbers share them that agree in their first
    /// [`ORDER_DIGITS`] digits, or that are all very large or very small.
    pub fn order_bytes(self) -> [u8; ORDER_BYTES] {
        let mut bytes = [0; ORDER_BYTES];
        let [kind, size @ ..] = &mut bytes;
        // Negative numbers first, then zero, then positive ones.
        *kind = self.sign().wrapping_add(1) as u8;
        if self.is_zero() {
            return bytes;
        }
        let [power @ .., _, _, _, _, _, _, _, _] = size;
        match i16::try_from(self.first) {
            Ok(first) if first > i16::MIN && first < i16::MAX => {
                // With the sign bit flipped, negative powers sort first.
                *power = (first as u16 ^ 1 << 15).to_be_bytes();
                for (at, digit) in self.values().take(ORDER_DIGITS).enumerate() {
                    if let Some(byte) = size.get_mut(2 + at / 2) {
                        *byte |= if at % 2 == 0 { digit << 4 } else { digit };
                    }
                }
            }
            _ if self.first > 0 => *size = [u8::MAX; ORDER_BYTES - 1],
            _ => {}
        }
        if self.negative {
            size.iter_mut().for_each(|byte| *byte = !*byte);
        }
        bytes
    }

    /// Formats the number in its canonical form, which equal numbers share.
    ///
    /// From 10⁻⁷ up to 10²¹ the form is plain digits without a needless zero. Otherwise it is one
    /// digit before the point and an exponent.
    pub fn canonical(self) -> String {
        let mut text = String::new();
        if self.sign() < 0 {
            text.push('-');
        }
        let digits = self.digits.concat();
        match self.first {
            _ if self.is_zero() => text.push('0'),
            0..=20 => {
                let whole = usize::try_from(self.first).unwrap_or_default() + 1;
                let (before, after) = digits.split_at_checked(whole).unwrap_or((&digits, ""));
                text.push_str(before);
                text.extend(std::iter::repeat_n('0', whole - before.len()));
                text.extend((!after.is_empty()).then_some("."));
                text.push_str(after);
            }
            -7..=-1 => {
                text.push_str("0.");
                let zeros = usize::try_from(-1 - self.first).unwrap_or_default();
                text.extend(std::iter::repeat_n('0', zeros));
                text.push_str(&digits);
            }
            first => {
                let (before, after) = digits.split_at_checked(1).unwrap_or((&digits, ""));
                text.push_str(before);
                text.extend((!after.is_empty()).then_some("."));
                text.push_str(after);
                text.push_str(&format!("e{first}"));
            }
        }
        text
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal<'_> {}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let size = self.first.cmp(&other.first).then_with(|| self.values().cmp(other.values()));
            if self.negative { size.reverse() } else { size }
        })
    }
}

fn power(exponent: &str) -> i64 {
    let most = if exponent.starts_with('-') { -MOST_EXPONENT } else { MOST_EXPONENT };
    exponent.parse::<i64>().map_or(most, |power| power.clamp(-MOST_EXPONENT, MOST_EXPONENT))
}

/// Whether a text is a JSON number (RFC 8259, section 6).
pub fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
        }
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

/// The decimal digits of a limb.
const WIDTH: i64 = 9;
/// One more than the largest value of a limb's digits.
const BASE: i64 = 1_000_000_000;
/// The limbs after the point.
const BELOW: usize = 38;
/// The limbs before the point that a number may use.
const ABOVE: usize = 35;
/// The limbs before those, which hold carries.
const CARRIED: usize = 2;
/// The most digits after the point of a number that can be added.
pub const MAX_PLACES: i64 = BELOW as i64 * WIDTH;
/// The most digits before the point of a number that can be added.
pub const MAX_WHOLE: i64 = ABOVE as i64 * WIDTH;

/// The most digits after the point, and before it, of a number that is added as a whole number of
/// the last of those places.
const USUAL_PLACES: i64 = WIDTH;
const USUAL_WHOLE: i64 = 18;
/// The places of a mean after the point, unless the sum has more.
const MEAN_PLACES: usize = 10;

type Limbs = [i64; BELOW + ABOVE + CARRIED];

/// An exact sum of numbers.
///
/// *Bounds*: every double fits, since a number may have [`MAX_WHOLE`] digits before the point and
/// [`MAX_PLACES`] after it. A limb has room for 2³³ numbers, four times the records of a full
/// database, and so has the sum of the usual numbers. So nothing is carried before the end, and
/// neither order nor grouping matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecimalSum {
    /// The sum of the numbers of a usual size, in units of the last usual place.
    usual: i128,
    /// The sum of all others.
    others: Option<Box<Limbs>>,
}

impl DecimalSum {
    /// Adds a number. Returns `false` and adds nothing if the number has too many digits.
    #[must_use]
    pub fn add(&mut self, number: Decimal<'_>) -> bool {
        let last = number.first.saturating_sub(number.count() as i64 - 1);
        if number.is_zero() {
            return true;
        }
        if number.first >= MAX_WHOLE || last < -MAX_PLACES {
            return false;
        }
        if number.first < USUAL_WHOLE && last >= -USUAL_PLACES {
            let digits = number.values().fold(0, |sum, digit| sum * 10 + i128::from(digit));
            let unit = 10_i128.pow(u32::try_from(last + USUAL_PLACES).unwrap_or_default());
            self.usual += digits * unit * i128::from(number.sign());
            return true;
        }
        let limbs = self.others.get_or_insert_with(|| Box::new([0; BELOW + ABOVE + CARRIED]));
        for (position, digit) in (0..).zip(number.values()) {
            let above = number.first - position + MAX_PLACES;
            let unit = 10_i64.pow(u32::try_from(above % WIDTH).unwrap_or_default());
            let limb = usize::try_from(above / WIDTH).ok().and_then(|limb| limbs.get_mut(limb));
            if let Some(limb) = limb {
                *limb += i64::from(digit) * unit * i64::from(number.sign());
            }
        }
        true
    }

    /// Formats the sum in plain digits without a needless zero.
    pub fn digits(&self) -> String {
        let (is_negative, digits, places) = self.parts();
        plain_digits(is_negative, &digits, places)
    }

    /// Formats the sum divided by a number of parts, rounded to ten places after the point, or to
    /// as many as the sum has. A half is rounded away from zero. `None` for no parts.
    pub fn mean(&self, parts: u64) -> Option<String> {
        let divisor = u128::from(parts);
        let (is_negative, mut digits, places) = self.parts();
        // The sum's own places end with zeros that do not count.
        let used =
            places - digits.bytes().rev().take_while(|digit| *digit == b'0').count().min(places);
        let wanted = used.max(MEAN_PLACES);
        digits.truncate(digits.len() - (places - wanted.min(places)));
        digits.extend(std::iter::repeat_n('0', wanted.saturating_sub(places)));
        let (mut quotient, mut rest) = (Vec::with_capacity(digits.len()), 0);
        for digit in digits.bytes() {
            rest = rest * 10 + u128::from(digit - b'0');
            quotient.push(u8::try_from(rest.checked_div(divisor)?).unwrap_or_default());
            rest %= divisor;
        }
        if rest * 2 >= divisor {
            for digit in quotient.iter_mut().rev() {
                *digit = (*digit + 1) % 10;
                if *digit > 0 {
                    break;
                }
            }
        }
        let digits: String = quotient.iter().map(|digit| char::from(b'0' + digit)).collect();
        Some(plain_digits(is_negative, &digits, wanted))
    }

    /// Returns whether the sum is negative, the digits of its size, and how many of them are after
    /// the point. The first digit is zero.
    fn parts(&self) -> (bool, String, usize) {
        let Some(others) = &self.others else {
            let size = self.usual.unsigned_abs();
            return (self.usual < 0, format!("{size:040}"), USUAL_PLACES as usize);
        };
        let mut sum = **others;
        let (mut usual, mut limb) = (self.usual, BELOW - 1);
        while usual != 0
            && let Some(limb_of) = sum.get_mut(limb)
        {
            *limb_of += i64::try_from(usual % i128::from(BASE)).unwrap_or_default();
            (usual, limb) = (usual / i128::from(BASE), limb + 1);
        }
        let mut limbs = sum;
        let is_negative = carry(&mut limbs) < 0;
        if is_negative {
            limbs = sum.map(|limb| -limb);
            carry(&mut limbs);
        }
        let digits = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
        (is_negative, digits, MAX_PLACES as usize)
    }
}

/// Writes digits with a point before the last `places` of them, and without a needless zero.
fn plain_digits(is_negative: bool, digits: &str, places: usize) -> String {
    let (whole, fraction) = digits.split_at_checked(digits.len() - places).unwrap_or((digits, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let is_zero = whole.is_empty() && fraction.is_empty();
    let sign = if is_negative && !is_zero { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// Normalizes each limb to its digits and returns the final carry, which is negative if the sum is.
fn carry(limbs: &mut [i64]) -> i64 {
    let mut carried = 0;
    for limb in limbs {
        let all = *limb + carried;
        *limb = all.rem_euclid(BASE);
        carried = all.div_euclid(BASE);
    }
    carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Decimal<'_> {
        Decimal::parse(text).unwrap()
    }

    fn sum(numbers: &[String]) -> String {
        let mut sum = DecimalSum::default();
        numbers.iter().for_each(|text| assert!(sum.add(number(text)), "{text}"));
        sum.digits()
    }

    /// Spells a number of hundredths in one of four ways.
    fn written(hundredths: i64, way: u8) -> String {
        let sign = if hundredths < 0 { "-" } else { "" };
        let size = hundredths.unsigned_abs();
        match way % 4 {
            0 => format!("{sign}{size}e-2"),
            1 => format!("{sign}{}.{:02}", size / 100, size % 100),
            2 => format!("{sign}{}.{:02}000", size / 100, size % 100),
            _ => format!("{sign}0.{size:020}E+18"),
        }
    }

    proptest! {
        #[test]
        fn numbers_compare_by_value_in_every_spelling(
            a in any::<i64>(),
            b in any::<i64>(),
            near in -2i64..3,
            ways in any::<(u8, u8)>(),
        ) {
            for b in [b, a.saturating_add(near)] {
                let (one, other) = (written(a, ways.0), written(b, ways.1));
                prop_assert_eq!(number(&one).cmp(&number(&other)), a.cmp(&b));
                let same = number(&one).canonical() == number(&other).canonical();
                prop_assert_eq!(same, a == b);
                let canonical = number(&one).canonical();
                prop_assert_eq!(number(&canonical), number(&one));
            }
        }

        #[test]
        fn a_sum_is_exact_in_any_order_and_grouping(
            parts in proptest::collection::vec(any::<(i64, u8)>(), 0..12),
        ) {
            let total: i128 = parts.iter().map(|(part, _)| i128::from(*part)).sum();
            let numbers: Vec<String> =
                parts.iter().map(|(part, way)| written(*part, *way)).collect();
            let expected = number(&format!("{total}e-2")).canonical();
            let total = sum(&numbers);
            prop_assert_eq!(number(&total).canonical(), expected);
            let mut turned = numbers.clone();
            turned.reverse();
            prop_assert_eq!(&sum(&turned), &total);
        }

        #[test]
        fn a_mean_is_the_nearest_of_ten_places(
            parts in proptest::collection::vec(any::<(i32, u8)>(), 1..12),
            far in any::<bool>(),
        ) {
            let mut sum = DecimalSum::default();
            for (part, way) in &parts {
                prop_assert!(sum.add(number(&written(i64::from(*part), *way))));
            }
            if far {
                // The other way to hold a sum gives the same.
                prop_assert!(sum.add(number("1e40")) && sum.add(number("-1e40")));
            }
            let total: i128 = parts.iter().map(|(part, _)| i128::from(*part)).sum();
            let count = parts.len() as i128;
            // In units of the tenth place, rounded half away from zero.
            let units = (total.abs() * 100_000_000 * 2 + count) / (2 * count) * total.signum();
            let expected = number(&format!("{units}e-10")).canonical();
            let mean = sum.mean(parts.len() as u64).unwrap();
            prop_assert_eq!(number(&mean).canonical(), expected);
        }

        #[test]
        fn only_json_numbers_are_parsed(text in "[-+0-9.eE]{0,12}") {
            prop_assert_eq!(Decimal::parse(&text).is_some(), is_number(&text));
        }
    }

    #[test]
    fn equal_numbers_share_a_canonical_form() {
        let written: Vec<String> = [
            "0", "-0.00e9", "1.50", "1E3", "123e-2", "0.00001230", "1e20", "1e21", "-12.5e30",
            "1e-8", "1e999999999999999999999", "100", "1200e-3",
        ]
        .iter()
        .map(|text| number(text).canonical())
        .collect();
        let expected = [
            "0", "0", "1.5", "1000", "1.23", "0.0000123", "100000000000000000000", "1e21",
            "-1.25e31", "1e-8", "1e1152921504606846976", "100", "1.2",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn sums_are_written_in_plain_digits() {
        let sum = |numbers: &[&str]| {
            sum(&numbers.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(sum(&[]), "0");
        assert_eq!(sum(&["0.1", "0.2"]), "0.3");
        assert_eq!(sum(&["1.50", "-2.5"]), "-1");
        assert_eq!(sum(&["9007199254740993", "1e-3"]), "9007199254740993.001");
        assert_eq!(sum(&["1e308", "1e308"]), format!("2{}", "0".repeat(308)));
        assert_eq!(sum(&["5e-324", "-1"]), format!("-0.{}5", "9".repeat(323)));
        let mut mean = DecimalSum::default();
        assert_eq!((mean.mean(0), mean.mean(3).as_deref()), (None, Some("0")));
        assert!(mean.add(number("-45.2")) && mean.add(number("1e-12")));
        assert_eq!(mean.mean(3).as_deref(), Some("-15.066666666666"));
        assert_eq!(mean.mean(u64::MAX).as_deref(), Some("0"));
        assert!(
            !DecimalSum::default().add(number("1e315"))
                && !DecimalSum::default().add(number("1e-343"))
        );
        assert!(
            DecimalSum::default().add(number("0e999"))
                && DecimalSum::default().add(number("1e-342"))
        );
    }

    #[test]
    fn json_number_syntax_is_recognised() {
        for good in ["0", "-0", "10", "1.5", "1e5", "-1.25E-7", "1E+2"] {
            assert!(is_number(good), "{good}");
        }
        for bad in ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "NaN", "inf", " 1", "1 "] {
            assert!(!is_number(bad), "{bad}");
        }
    }
}
