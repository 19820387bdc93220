//! Reads OFX and QFX: SGML without the ends of elements that hold a value, or XML.
//!
//! Only what a transaction says is looked for, so statements of accounts, cards and depots are
//! read alike, and elements of a bank's own pass by.
//!
//! *Source*: OFX 1.6 and 2.3, sections 2.2 (headers), 3.2.8 (amounts, dates) and 11.4.4
//! (`<STMTTRN>`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use super::amount::amount;
use super::{ReadTransaction, Transaction, charset, day};
use crate::charset::decode_text;
use crate::importer::UnusableRow;

/// Returns whether a file begins as a statement.
pub(super) fn begins(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning).to_ascii_uppercase();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("OFXHEADER") || text.starts_with("<OFX>") || text.contains("<?OFX ")
}

/// Reads all transactions of a statement.
///
/// # Errors
/// The file is not a statement of OFX.
pub fn read(bytes: &[u8]) -> io::Result<Vec<ReadTransaction>> {
    let text = decode_text(bytes, charset(bytes).as_deref());
    // What stands in such a section is meant as it stands.
    let text = text.replace("<![CDATA[", "").replace("]]>", "");
    let mut reader = Reader::default();
    let mut line = 1;
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once('<') {
        line += lines_of(before);
        let Some((tag, behind)) = behind.split_once('>') else { break };
        let value = behind.split('<').next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(name) => reader.end(name.trim()),
            None => reader.begin(tag.trim(), value, line),
        }
        line += lines_of(tag);
        rest = behind;
    }
    if !reader.is_statement {
        let message = "it has no `<OFX>`, so it is not a statement of OFX";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // A file that was cut off ends within a transaction.
    if let Some((line, _)) = reader.open.take() {
        reader.read.push((line, Err(UnusableRow::new("cut_off", "the transaction does not end"))));
    }
    Ok(reader.read)
}

fn lines_of(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// The transactions so far.
#[derive(Default)]
struct Reader {
    is_statement: bool,
    account: Option<String>,
    currency: Option<String>,
    /// The elements that hold values of the present transaction, and its line.
    open: Option<(u64, HashMap<String, String>)>,
    /// Whether the account of the other side is read.
    is_other_side: bool,
    /// Whether the currency before a conversion is read, which is not that of the amount.
    is_original_currency: bool,
    read: Vec<ReadTransaction>,
}

impl Reader {
    fn begin(&mut self, name: &str, value: &str, line: u64) {
        let name = name.to_ascii_uppercase();
        let value = unescaped(value.trim());
        match name.as_str() {
            "OFX" => self.is_statement = true,
            "STMTTRN" => {
                // SGML lets a program leave out the end of an element.
                self.end_transaction();
                self.open = Some((line, HashMap::new()));
            }
            "BANKACCTTO" | "CCACCTTO" => self.is_other_side = true,
            "ORIGCURRENCY" => self.is_original_currency = true,
            "CURSYM" if self.is_original_currency => {}
            "CURDEF" => self.currency = Some(value.into_owned()),
            "ACCTID" if self.open.is_none() => self.account = Some(value.into_owned()),
            _ => {
                if let Some((_, values)) = &mut self.open
                    && !value.is_empty()
                {
                    let is_counter = name == "ACCTID" && self.is_other_side;
                    let name = if is_counter { "COUNTERACCTID".to_owned() } else { name };
                    values.entry(name).or_insert_with(|| value.into_owned());
                }
            }
        }
    }

    fn end(&mut self, name: &str) {
        match name.to_ascii_uppercase().as_str() {
            "STMTTRN" | "BANKTRANLIST" => self.end_transaction(),
            "BANKACCTTO" | "CCACCTTO" => self.is_other_side = false,
            "ORIGCURRENCY" => self.is_original_currency = false,
            "STMTRS" | "CCSTMTRS" | "INVSTMTRS" => self.account = None,
            _ => {}
        }
    }

    fn end_transaction(&mut self) {
        (self.is_other_side, self.is_original_currency) = (false, false);
        let Some((line, mut values)) = self.open.take() else { return };
        let mut take = |name: &str| values.remove(name);
        let row = match take("TRNAMT") {
            None => Err(UnusableRow::new("no_amount", "the transaction has no `TRNAMT`")),
            Some(text) => amount(&text).ok_or_else(|| {
                UnusableRow::new("no_amount", "`TRNAMT` of the transaction is not a number")
            }),
        };
        let row = row.map(|amount| Transaction {
            account: self.account.clone(),
            number: take("FITID"),
            date: take("DTPOSTED").as_deref().and_then(day),
            amount,
            currency: take("CURSYM").or_else(|| self.currency.clone()),
            kind: take("TRNTYPE"),
            name: take("NAME").or_else(|| take("PAYEE")),
            memo: take("MEMO"),
            counter_account: take("COUNTERACCTID"),
            reference: take("CHECKNUM").or_else(|| take("REFNUM")),
            value_date: take("DTAVAIL").as_deref().and_then(day),
        });
        self.read.push((line, row));
    }
}

/// Returns a value without references to characters. Banks forget to escape some `&`.
fn unescaped(text: &str) -> Cow<'_, str> {
    let known = [("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", " "), ("&quot;", "\""), ("&amp;", "&")];
    quick_xml::escape::unescape(text).unwrap_or_else(|_| {
        known.iter().fold(text.to_owned(), |text, (name, own)| text.replace(name, own)).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SGML: &str = "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nENCODING:USASCII\nCHARSET:1252\n\n\
        <OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><CURDEF>EUR\n\
        <BANKACCTFROM><BANKID>1<ACCTID>DE12</BANKACCTFROM><BANKTRANLIST>\n\
        <STMTTRN><TRNTYPE>DEBIT<DTPOSTED>20260105120000[-5:EST]<TRNAMT>-12,34<FITID>77\n\
        <NAME>Caf\u{e9} Zwei &amp; Co<MEMO>two cups\n\
        <BANKACCTTO><ACCTID>DE99</BANKACCTTO></STMTTRN>\n\
        <STMTTRN><TRNTYPE>CREDIT<DTPOSTED>20260106<TRNAMT>ten</STMTTRN>\n\
        </BANKTRANLIST></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>";

    #[test]
    fn sgml_and_xml_give_the_same_transactions() {
        let windows: Vec<u8> = SGML.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let read = |bytes: &[u8]| super::read(bytes).unwrap();
        let (line, first) = read(&windows)[0].clone();
        let expected = Transaction {
            account: Some("DE12".to_owned()),
            number: Some("77".to_owned()),
            date: Some("2026-01-05".to_owned()),
            amount: "-12.34".to_owned(),
            currency: Some("EUR".to_owned()),
            kind: Some("DEBIT".to_owned()),
            name: Some("Café Zwei & Co".to_owned()),
            memo: Some("two cups".to_owned()),
            counter_account: Some("DE99".to_owned()),
            ..Transaction::default()
        };
        assert_eq!((line, first), (9, Ok(expected.clone())));
        assert_eq!(read(&windows)[1].1.as_ref().unwrap_err().code, "no_amount");
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><?OFX OFXHEADER=\"200\"?><OFX><STMTRS>\
            <CURDEF>EUR</CURDEF><BANKACCTFROM><ACCTID>DE12</ACCTID></BANKACCTFROM>\
            <STMTTRN><TRNTYPE>DEBIT</TRNTYPE><DTPOSTED>20260105</DTPOSTED><TRNAMT>-12.34</TRNAMT>\
            <FITID>77</FITID><NAME>Caf\u{e9} Zwei &amp; Co</NAME><MEMO>two cups</MEMO>\
            <BANKACCTTO><ACCTID>DE99</ACCTID></BANKACCTTO></STMTTRN></STMTRS></OFX>";
        assert_eq!(read(xml.as_bytes()), [(1, Ok(expected))]);
        assert!(begins(xml.as_bytes()) && begins(SGML.as_bytes()) && !begins(b"<html>"));
    }

    #[test]
    fn the_currency_is_that_of_the_amount_and_names_are_as_they_are_meant() {
        let of = |inner: &str| {
            let text = format!("<OFX><CURDEF>USD<STMTTRN><TRNAMT>1{inner}</STMTTRN>");
            let Transaction { currency, name, .. } =
                super::read(text.as_bytes()).unwrap().remove(0).1.unwrap();
            (currency.unwrap(), name.unwrap_or_default())
        };
        let original = "<ORIGCURRENCY><CURRATE>1.1<CURSYM>EUR</ORIGCURRENCY>";
        assert_eq!(of(original).0, "USD");
        assert_eq!(of("<CURRENCY><CURSYM>EUR</CURRENCY>").0, "EUR");
        assert_eq!(of("<NAME><![CDATA[Tom & Co]]></NAME>").1, "Tom & Co");
        assert_eq!(of("<NAME>A & B &amp; C</NAME>").1, "A & B & C");
    }

    #[test]
    fn a_cut_or_strange_file_says_so() {
        assert!(super::read(b"hello").is_err());
        let cut = super::read(b"<OFX><STMTTRN><TRNAMT>1").unwrap();
        assert_eq!(cut[0].1.as_ref().unwrap_err().code, "cut_off");
        assert_eq!(super::read(b"<OFX>").unwrap(), []);
    }
}
