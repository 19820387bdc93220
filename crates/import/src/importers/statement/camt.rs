//! Reads CAMT.053, the statement of ISO 20022 that banks in Europe give.
//!
//! An entry that says it bundles several payments is one transaction with the sum, as the account
//! has it. Names and purposes are those of its first payment.
//!
//! *Source*: ISO 20022, `camt.053.001.02` to `.001.13`: `Stmt` and `Ntry`.

use std::io;

use super::super::xml_elements::{Element, ElementReader, Part};
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
    let text = crate::charset::decode_text(bytes, charset(bytes).as_deref());
    let mut elements = ElementReader::new(text.as_bytes(), &["Acct", "Ntry"]);
    let (mut is_statement, mut account, mut entries) = (false, None, Vec::new());
    while let Some(part) = elements.next()? {
        match part {
            Part::Around(name) => match name.as_str() {
                "BkToCstmrStmt" => is_statement = true,
                "Stmt" => account = None,
                _ => {}
            },
            Part::Whole(line, element) if element.name == "Ntry" => {
                let mut entry = Entry::default();
                entry.read(&mut Vec::new(), &element);
                entries.push((line, entry.transaction(account.clone())));
            }
            Part::Whole(_, element) => account = account.or_else(|| number_of_account(&element)),
            Part::CutOff(_) => {}
        }
    }
    if !is_statement {
        let message = "it has no statement (`BkToCstmrStmt`)";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(entries)
}

/// Returns the number of an account, and not that of its owner or of its bank.
fn number_of_account(element: &Element) -> Option<String> {
    element
        .children
        .iter()
        .filter(|child| !matches!(child.name.as_str(), "Ownr" | "Svcr"))
        .find_map(|child| {
            let is_number = matches!(child.name.as_str(), "IBAN" | "Id");
            let own =
                || Some(child.text.trim().to_owned()).filter(|it| is_number && !it.is_empty());
            number_of_account(child).or_else(own)
        })
}

/// An entry that is being read.
#[derive(Default)]
struct Entry {
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

impl Entry {
    /// Takes what an element says, and before that what the elements in it say. `path` are the
    /// elements around it.
    fn read<'e>(&mut self, path: &mut Vec<&'e str>, element: &'e Element) {
        if element.name == "TxDtls" {
            self.payments += 1;
        }
        if element.name == "Amt" && path.last() == Some(&"Ntry") {
            self.found.currency = element.attribute("Ccy");
        }
        path.push(&element.name);
        element.children.iter().for_each(|child| self.read(path, child));
        path.pop();
        self.take(path, &element.name, element.text.trim().to_owned());
    }

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
