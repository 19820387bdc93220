//! Imports the statements of banks: a record for each transaction.
//!
//! [`ofx`] reads OFX and QFX, [`camt`] reads CAMT.053. Both give the same fields, so the statements
//! of several banks can share a stream.

use std::collections::BTreeSet;
use std::io::{self, Read as _};

use stile_domain::hash::ContentHash;
use stile_domain::records::value::FieldValue;

use super::whole_file::Keys;
use super::{compact_time, whole_file};
use crate::importer::{
    Contents, ImportRow, ImportRows, Importer, Recognition, StreamDeclaration, UnusableRow,
    file_bytes,
};
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::InputPath;

mod amount;
pub mod camt;
pub mod ofx;

/// How many bytes of a statement say its encoding.
const HEAD_BYTES: usize = 1024;
/// The longest name of a key, in bytes. The rest of a key's 512 bytes is for the number of a second
/// transaction with the same name.
const MAX_NAME_BYTES: usize = 480;

/// Imports each transaction of an OFX or QFX statement.
pub static OFX: Importer = Importer {
    name: "ofx",
    description: "a bank statement (OFX, QFX)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if ofx::begins(bytes)),
        extensions: &["ofx", "qfx"],
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| open(path, ofx::read),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

/// Imports each entry of a CAMT.053 statement.
pub static CAMT: Importer = Importer {
    name: "camt",
    description: "a bank statement (CAMT.053)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if camt::begins(bytes)),
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| open(path, camt::read),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "transactions",
    key: "id",
    time: "date",
    fields: &[
        ("id", PresetField::Name),
        ("account", PresetField::Name),
        ("date", PresetField::Date),
        ("amount", PresetField::Amount),
        ("currency", PresetField::Name),
        ("type", PresetField::Name),
        ("name", PresetField::SearchedText),
        ("memo", PresetField::SearchedText),
        ("counter_account", PresetField::Name),
        ("reference", PresetField::Name),
        ("value_date", PresetField::Date),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is a bank statement, a record for each transaction: `id` is the account and the bank's \
         own number of the transaction, with its day and its amount",
        "`amount` can be added up, by `name`, by `type` and by month of `date`; what you pay is \
         negative",
        "`date` orders the records and is the time by which a grant counts",
        "`name` and `memo` can be searched",
    ],
};

/// A transaction as a statement has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The account, as the bank writes it.
    pub account: Option<String>,
    /// The bank's own number of the transaction. Banks promise that an account has it once.
    pub number: Option<String>,
    /// The day on which it was booked, as RFC 3339 writes a date.
    /// What cannot be read stays as it is written.
    pub date: Option<String>,
    /// The amount as a JSON number; negative for what the owner of the account pays.
    pub amount: String,
    /// The code of the currency (ISO 4217).
    pub currency: Option<String>,
    /// What kind of transaction the bank says it is.
    pub kind: Option<String>,
    /// Who paid, or was paid.
    pub name: Option<String>,
    /// What the transaction is about.
    pub memo: Option<String>,
    /// The account of the other side.
    pub counter_account: Option<String>,
    /// The number of a cheque, or what the other side calls the transaction.
    pub reference: Option<String>,
    /// The day from which the amount counts.
    pub value_date: Option<String>,
}

/// A transaction with the line where it begins, or why it cannot be used.
pub type ReadTransaction = (u64, Result<Transaction, UnusableRow>);

/// Returns the day with which a text such as `20260105120000[-5:EST]` begins, or the text if it
/// begins with none.
fn day(text: &str) -> Option<String> {
    compact_time::or_as_written(compact_time::date(text.trim()).map(|(date, _)| date), text)
}

/// Returns the currencies of a statement, whose amounts cannot be added up together. Empty for a
/// file of another format.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn currencies(path: &InputPath, importer: &Importer) -> io::Result<BTreeSet<String>> {
    let read = match importer.name {
        name if name == OFX.name => ofx::read,
        name if name == CAMT.name => camt::read,
        _ => return Ok(BTreeSet::new()),
    };
    let mut bytes = Vec::new();
    path.open()?.reader.take(whole_file::MAX_BYTES).read_to_end(&mut bytes)?;
    // What is no statement is refused when it is opened.
    let found = read(&bytes).unwrap_or_default().into_iter();
    Ok(found.filter_map(|(_, transaction)| transaction.ok()?.currency).collect())
}

fn open(
    path: &InputPath,
    read: fn(&[u8]) -> io::Result<Vec<ReadTransaction>>,
) -> io::Result<Box<dyn ImportRows>> {
    whole_file::open(path, |bytes| {
        let mut keys = Keys::default();
        let transactions = read(bytes)?.into_iter();
        Ok(transactions
            .map(|(line, it)| (line, it.map(|it| row(it, &mut keys))))
            .collect::<Vec<_>>())
    })
}

fn row(transaction: Transaction, keys: &mut Keys) -> ImportRow {
    let id = keys.take(id(&transaction));
    let text = |text: Option<String>| text.filter(|it| !it.is_empty()).map(FieldValue::Text);
    let Transaction { account, date, amount, currency, kind, name, memo, .. } = transaction;
    let fields = [
        ("id", Some(FieldValue::Text(id))),
        ("account", text(account)),
        ("date", text(date)),
        ("amount", Some(FieldValue::Number(amount.into()))),
        ("currency", text(currency)),
        ("type", text(kind)),
        ("name", text(name)),
        ("memo", text(memo)),
        ("counter_account", text(transaction.counter_account)),
        ("reference", text(transaction.reference)),
        ("value_date", text(transaction.value_date)),
    ];
    ImportRow::from_message(fields, Vec::new())
}

/// What banks write for a number that they do not have.
const NO_NUMBER: [&str; 4] = ["NONREF", "NOTPROVIDED", "NONE", "0"];

/// Returns a key that the same transaction has in every statement: its account, its number, its day
/// and its amount. Some banks count their numbers anew in each statement, so a number alone is no
/// key. Without a number, all that the transaction says makes the key.
fn id(transaction: &Transaction) -> String {
    let Transaction { date, amount, currency, kind, name, memo, reference, .. } = transaction;
    let account = transaction.account.as_deref().unwrap_or_default();
    let day = date.as_deref().unwrap_or_default();
    let is_number = |number: &&str| !number.is_empty() && !NO_NUMBER.contains(number);
    let number = transaction.number.as_deref().map(str::trim).filter(is_number);
    match number.map(|number| format!("{account}:{number}:{day}:{amount}")) {
        Some(name) if name.len() <= MAX_NAME_BYTES => name,
        _ => {
            let texts = [date, currency, kind, name, memo, reference];
            let texts = texts.map(|text| text.as_deref().unwrap_or_default()).join("\n");
            let whole = format!("{account}\n{amount}\n{texts}");
            format!("sha256:{}", ContentHash::digest(whole.as_bytes()))
        }
    }
}

/// Returns the encoding of a statement as far as it says it: by a byte order mark, by the
/// declaration of XML, or by the header of OFX. `None` for UTF-8, and for what says nothing.
fn charset(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(&[0xff, 0xfe]) {
        return Some("utf-16le".to_owned());
    }
    if bytes.starts_with(&[0xfe, 0xff]) {
        return Some("utf-16be".to_owned());
    }
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = |name: &str| {
        let (_, rest) = head.split_once(name)?;
        let rest = rest.trim_start_matches(['"', '\'', ':', '=']);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
        Some(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().to_owned())
    };
    let named = match head.contains("<?xml") {
        true => value("encoding="),
        false => value("charset").map(|name| match name.parse::<u32>() {
            Ok(932) => "shift_jis".to_owned(),
            Ok(page) => format!("windows-{page}"),
            Err(_) => name,
        }),
    };
    named.filter(|_| std::str::from_utf8(bytes).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charset::decode_text;
    use crate::importers::{IMPORTERS, recognise};
    use crate::input::ImportInput;
    use crate::report::BadRowPolicy;
    use crate::rig::rig;

    #[test]
    fn a_date_that_cannot_be_read_is_kept_and_counted() {
        let rig = rig();
        let bad = OFX_FILE.replacen("20260105", "2026XX03", 1);
        let path = rig.write("bad.ofx", bad);
        let input = ImportInput::whole(path, &OFX);
        let report = rig.import(&[input], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        let misfit = &report.misfits["date"];
        assert_eq!((misfit.rows, misfit.example.as_str()), (1, "2026XX03"));
    }

    const OFX_FILE: &str = "OFXHEADER:100\nDATA:OFXSGML\n\n<OFX><CURDEF>EUR<BANKACCTFROM>\
        <ACCTID>1</BANKACCTFROM><BANKTRANLIST>\
        <STMTTRN><DTPOSTED>20260105<TRNAMT>-2.50<FITID>7<NAME>Baker</STMTTRN>\n\
        <STMTTRN><DTPOSTED>20260105<TRNAMT>-2.50<FITID>7<NAME>Baker</STMTTRN>\n\
        <STMTTRN><DTPOSTED>20260106<TRNAMT>-2.50<NAME>Baker</STMTTRN>\n\
        <STMTTRN><DTPOSTED>20260106<TRNAMT>-2.50<NAME>Baker</STMTTRN></BANKTRANLIST></OFX>";

    #[test]
    fn statements_are_recognised_by_what_they_hold() {
        let rig = rig();
        let named = |name: &str, content: &str| {
            let path = rig.write(name, content.as_bytes());
            recognise(IMPORTERS, &path).unwrap().map(|importer| importer.name)
        };
        assert_eq!(named("a.txt", OFX_FILE), Some("ofx"));
        assert_eq!(named("a.qfx", "x"), Some("ofx"));
        let camt = "<?xml version=\"1.0\"?><Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:camt.053.001.08\">";
        assert_eq!(named("a.xml", camt), Some("camt"));
        assert_eq!(named("b.xml", "<Document/>"), None);
    }

    #[test]
    fn a_key_is_the_number_of_the_bank_and_equal_payments_stay_apart() {
        let rig = rig();
        let path = rig.write("a.ofx", OFX_FILE.as_bytes());
        let mut rows = open(&path.into(), ofx::read).unwrap();
        let mut ids = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let fields = row.row.unwrap().fields;
            let Some((_, FieldValue::Text(id))) = fields.into_iter().next() else { panic!() };
            ids.push(id);
        }
        assert_eq!(ids[0], "1:7:2026-01-05:-2.50");
        assert_eq!(ids[1], format!("{}#2", ids[0]));
        assert!(ids[2].starts_with("sha256:") && ids[3] == format!("{}#2", ids[2]));
    }

    #[test]
    fn a_number_that_counts_anew_and_a_placeholder_are_no_key() {
        let of = |number: &str, amount: &str| {
            let own = |text: &str| Some(text.to_owned());
            let (account, date) = (own("1"), own("2026-01-05"));
            let amount = amount.to_owned();
            id(&Transaction {
                account,
                number: own(number),
                date,
                amount,
                ..Transaction::default()
            })
        };
        assert_ne!(of("1", "-100"), of("1", "-3"));
        assert_ne!(of("NONREF", "-100"), of("NONREF", "-3"));
        assert!(of("NONREF", "1").starts_with("sha256:"));
    }

    #[test]
    fn the_encoding_is_the_one_that_the_file_names() {
        let text = |bytes: &[u8]| decode_text(bytes, charset(bytes).as_deref()).into_owned();
        assert!(text(b"CHARSET:1251\n<NAME>\xcc\xe0").ends_with("Ма"));
        assert!(text(b"<?xml version=\"1.0\" encoding=\"ISO-8859-2\"?>\xa3").ends_with('Ł'));
        assert!(text(b"<?xml encoding='utf-8'?>\xc3\xbc").ends_with('ü'));
        assert_eq!(text(b"\xff\xfea\0").trim_start_matches('\u{feff}'), "a");
    }
}
