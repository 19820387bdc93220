//! Reads CAMT.053, the statement of ISO 20022 that banks in Europe give.
//!
//! An entry that says it bundles several payments is one transaction with the sum, as the account
//! has it. Names and purposes are those of its first payment.
//!
//! *Source*: ISO 20022, `camt.053.001.02` to `.001.13`: `Stmt` and `Ntry`.

use std::io;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::amount::amount;
use super::{ReadTransaction, Transaction, charset, day};
use crate::importer::UnusableRow;

/// Returns whether a file begins as a statement.
pub(super) fn begins(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    text.contains("camt.053.")
}

/// Reads all entries of all statements of a file.
///
/// # Errors
/// The file is not XML, or has no statement.
pub fn read(bytes: &[u8]) -> io::Result<Vec<ReadTransaction>> {
    let damaged = |error: quick_xml::Error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not XML: {error}"))
    };
    let text = crate::charset::decode_text(bytes, charset(bytes).as_deref());
    let mut reader = Reader::from_str(&text);
    reader.config_mut().check_end_names = true;
    let mut entries = Entries::default();
    let mut counted = (0, 1);
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        match reader.read_event().map_err(damaged)? {
            Event::Eof => break,
            Event::Start(start) => {
                entries.begin(&start, line_at(&text, at, &mut counted));
            }
            Event::Empty(start) => {
                entries.begin(&start, line_at(&text, at, &mut counted));
                entries.end();
            }
            Event::End(_) => entries.end(),
            Event::Text(own) => entries.text.push_str(&own),
            Event::CData(own) => entries.text.push_str(&own),
            Event::GeneralRef(name) => {
                let reference = format!("&{};", &*name);
                let decoded = quick_xml::escape::unescape(&reference);
                entries.text.push_str(&decoded.unwrap_or_default());
            }
            _ => {}
        }
    }
    if !entries.is_statement {
        let message = "it has no statement (`BkToCstmrStmt`)";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(entries.read)
}

/// Returns the line at an offset. `counted` is the offset up to which lines were counted, and the
/// line there.
fn line_at(text: &str, at: usize, counted: &mut (usize, u64)) -> u64 {
    let new = text.as_bytes().get(counted.0..at).unwrap_or_default();
    counted.1 += new.iter().filter(|byte| **byte == b'\n').count() as u64;
    counted.0 = counted.0.max(at);
    counted.1
}

/// The entries so far.
#[derive(Default)]
struct Entries {
    is_statement: bool,
    /// The names of the open elements.
    path: Vec<String>,
    /// The text of the innermost element.
    text: String,
    account: Option<String>,
    open: Option<Entry>,
    read: Vec<ReadTransaction>,
}

/// An entry that is being read.
#[derive(Default)]
struct Entry {
    line: u64,
    amount: Option<String>,
    is_debit: bool,
    /// How many payments of the entry began.
    payments: u64,
    debtor: Option<String>,
    creditor: Option<String>,
    debtor_account: Option<String>,
    creditor_account: Option<String>,
    purpose: Vec<String>,
    /// What the bank says of the payment, and its number of it.
    remark: Option<String>,
    payment_number: Option<String>,
    /// Whether the entry is not on the account yet, or only told.
    is_not_booked: bool,
    found: Transaction,
}

impl Entries {
    fn begin(&mut self, start: &BytesStart<'_>, line: u64) {
        let name = start.local_name().as_ref().to_owned();
        self.text.clear();
        match name.as_str() {
            "BkToCstmrStmt" => self.is_statement = true,
            "Stmt" => self.account = None,
            "Ntry" => self.open = Some(Entry { line, ..Entry::default() }),
            _ => {}
        }
        if let Some(entry) = &mut self.open {
            if name == "TxDtls" {
                entry.payments += 1;
            }
            if name == "Amt" && self.path.last().is_some_and(|parent| parent == "Ntry") {
                let mut attributes = start.attributes().flatten();
                let currency = attributes.find(|own| own.key.local_name().as_ref() == "Ccy");
                entry.found.currency = currency.map(|own| own.value.into_owned());
            }
        }
        self.path.push(name);
    }

    fn end(&mut self) {
        let text = std::mem::take(&mut self.text).trim().to_owned();
        let name = self.path.pop().unwrap_or_default();
        if name == "Ntry" {
            if let Some(entry) = self.open.take() {
                let line = entry.line;
                self.read.push((line, entry.transaction(self.account.clone())));
            }
            return;
        }
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match &mut self.open {
            Some(entry) => entry.take(&path, &name, text),
            None => {
                let is_account = path.contains(&"Acct") && !path.contains(&"Ownr");
                let is_own = matches!(name.as_str(), "IBAN" | "Id") && !text.is_empty();
                if is_account && is_own && !path.contains(&"Svcr") {
                    self.account.get_or_insert(text);
                }
            }
        }
    }
}

impl Entry {
    /// Takes the text of an element. `path` are the elements around it.
    fn take(&mut self, path: &[&str], name: &str, text: String) {
        let parent = path.last().copied().unwrap_or_default();
        // A later payment of a bundle says nothing of the whole.
        if text.is_empty() || (self.payments > 1 && path.contains(&"TxDtls")) {
            return;
        }
        let is_in = |element: &str| path.contains(&element);
        let found = &mut self.found;
        match (parent, name) {
            ("Ntry", "Amt") => self.amount = Some(text),
            ("Ntry", "CdtDbtInd") => self.is_debit = text == "DBIT",
            ("Ntry", "AcctSvcrRef") => found.number = Some(text),
            ("Ntry", "NtryRef") => drop(found.number.get_or_insert(text)),
            ("Ntry", "Sts") => self.is_not_booked = text != "BOOK",
            ("Sts", "Cd") => self.is_not_booked = text != "BOOK",
            ("Ntry", "AddtlNtryInf") => found.kind = Some(text),
            ("TxDtls", "AddtlTxInf") => self.remark = Some(text),
            ("Refs", "AcctSvcrRef") => self.payment_number = Some(text),
            ("BookgDt", _) => found.date = day(&text),
            ("ValDt", _) => found.value_date = day(&text),
            ("RmtInf", "Ustrd") => self.purpose.push(text),
            ("CdtrRefInf", "Ref") => drop(found.reference.get_or_insert(text)),
            ("Refs", "EndToEndId") if text != "NOTPROVIDED" => {
                found.reference.get_or_insert(text);
            }
            (_, "Nm") if is_in("RltdPties") && (is_in("Dbtr") || parent == "Dbtr") => {
                self.debtor.get_or_insert(text);
            }
            (_, "Nm") if is_in("RltdPties") && is_in("Cdtr") => {
                self.creditor.get_or_insert(text);
            }
            (_, "IBAN") if is_in("DbtrAcct") => drop(self.debtor_account.get_or_insert(text)),
            (_, "IBAN") if is_in("CdtrAcct") => drop(self.creditor_account.get_or_insert(text)),
            _ => {}
        }
    }

    fn transaction(self, account: Option<String>) -> Result<Transaction, UnusableRow> {
        let amount = self.amount.as_deref().and_then(amount).ok_or_else(|| {
            UnusableRow::new("no_amount", "the entry has no `Amt` that is a number")
        })?;
        if self.is_not_booked {
            let why = "the entry is not booked, so it is in no sum; a later statement has it";
            return Err(UnusableRow::new("not_booked", why));
        }
        let is_zero = amount.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        let (name, counter_account) = match self.is_debit {
            true => (self.creditor, self.creditor_account),
            false => (self.debtor, self.debtor_account),
        };
        Ok(Transaction {
            account,
            amount: if self.is_debit && !is_zero { format!("-{amount}") } else { amount },
            name,
            counter_account,
            memo: match self.purpose.is_empty() {
                true => self.remark.or_else(|| self.found.kind.clone()),
                false => Some(self.purpose.join(" ")),
            },
            // Of several payments the numbers name parts of the entry.
            number: match self.payments {
                0 | 1 => self.payment_number.or(self.found.number),
                _ => self.found.number,
            },
            ..self.found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENT: &str = "<?xml version=\"1.0\"?>\n\
        <Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.053.001.08\"><BkToCstmrStmt><Stmt>\n\
        <Acct><Id><IBAN>DE12</IBAN></Id><Svcr><FinInstnId><Othr><Id>9</Id></Othr></FinInstnId></Svcr></Acct>\n\
        <Bal><Amt Ccy=\"EUR\">99</Amt></Bal>\n\
        <Ntry><Amt Ccy=\"EUR\">12.34</Amt><CdtDbtInd>DBIT</CdtDbtInd><BookgDt><Dt>2026-01-05</Dt></BookgDt>\
        <ValDt><DtTm>2026-01-06T10:00:00</DtTm></ValDt><AcctSvcrRef>77</AcctSvcrRef><NtryDtls><TxDtls>\
        <Refs><EndToEndId>NOTPROVIDED</EndToEndId></Refs><RltdPties><Dbtr><Nm>Ann</Nm></Dbtr>\
        <Cdtr><Pty><Nm>Caf\u{e9} &amp; Co</Nm></Pty></Cdtr><CdtrAcct><Id><IBAN>DE99</IBAN></Id></CdtrAcct></RltdPties>\
        <RmtInf><Ustrd>two</Ustrd><Ustrd>cups</Ustrd></RmtInf></TxDtls>\
        <TxDtls><RltdPties><Cdtr><Nm>Other</Nm></Cdtr></RltdPties></TxDtls></NtryDtls>\
        <AddtlNtryInf>SEPA</AddtlNtryInf></Ntry>\n\
        <Ntry><Amt Ccy=\"EUR\">5</Amt><CdtDbtInd>CRDT</CdtDbtInd><NtryDtls><TxDtls><RltdPties>\
        <Dbtr><Nm>Bob</Nm></Dbtr></RltdPties></TxDtls></NtryDtls></Ntry><Ntry/>\n\
        </Stmt></BkToCstmrStmt></Document>";

    #[test]
    fn an_entry_is_a_transaction_of_the_account() {
        let read = read(STATEMENT.as_bytes()).unwrap();
        let text = |text: &str| Some(text.to_owned());
        let first = Transaction {
            account: text("DE12"),
            number: text("77"),
            date: text("2026-01-05"),
            amount: "-12.34".to_owned(),
            currency: text("EUR"),
            kind: text("SEPA"),
            name: text("Café & Co"),
            memo: text("two cups"),
            counter_account: text("DE99"),
            reference: None,
            value_date: text("2026-01-06"),
        };
        assert_eq!(read[0], (5, Ok(first)));
        let second = read[1].1.as_ref().unwrap();
        assert_eq!((second.amount.as_str(), second.name.as_deref()), ("5", Some("Bob")));
        assert_eq!(read[2].1.as_ref().unwrap_err().code, "no_amount");
        let pending = STATEMENT
            .replace("</CdtDbtInd><BookgDt>", "</CdtDbtInd><Sts><Cd>PDNG</Cd></Sts><BookgDt>");
        assert_eq!(
            super::read(pending.as_bytes()).unwrap()[0].1.as_ref().unwrap_err().code,
            "not_booked"
        );
        assert!(begins(STATEMENT.as_bytes()));
        assert!(super::read(b"<a></b>").is_err() && super::read(b"<a/>").is_err());
    }
}
