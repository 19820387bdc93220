//! Tests of the form of CSV files, as banks and spreadsheets write them.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use stile_domain::records::row;

use super::*;
use crate::decoder_properties::decode_all;
use crate::importers::csv::CsvDecoder;

fn form(bytes: &[u8], said: &CsvOptions) -> Result<CsvForm, CsvFormError> {
    CsvForm::find_in(&|| Ok(bytes), said, &CsvOptions::default(), None)
}

fn rows_of(bytes: &[u8], form: &CsvForm) -> Vec<Json> {
    let rows = decode_all(CsvDecoder::new(Transcoder::new(bytes, form.encoding.clone()), form));
    let json = |fields| serde_json::from_str(&row::to_json(fields)).unwrap();
    rows.iter().map(|decoded| json(&decoded.row.as_ref().unwrap().fields)).collect()
}

fn rows(bytes: impl AsRef<[u8]>) -> Vec<Json> {
    let form = form(bytes.as_ref(), &CsvOptions::default()).unwrap();
    rows_of(bytes.as_ref(), &form)
}

fn windows_1252(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
}

#[test]
fn a_bank_file_has_dates_and_numbers_whatever_its_form() {
    let german =
        "Buchungstag;Empfänger;Betrag\n05.01.2026;Bäckerei;-4,20\n06.01.2026;Miete;-1.850,00\n";
    let expected = [
        json!({ "Buchungstag": "2026-01-05", "Empfänger": "Bäckerei", "Betrag": -4.20 }),
        json!({ "Buchungstag": "2026-01-06", "Empfänger": "Miete", "Betrag": -1850.00 }),
    ];
    assert_eq!(rows(german), expected);
    assert_eq!(rows(windows_1252(german)), expected);
    let utf16: Vec<u8> =
        format!("\u{feff}{german}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(rows(utf16), expected);
    assert_eq!(
        rows(format!("Konto;DE00\n\nKontostand vom 07.01.2026:;1.234,56 EUR\n\n{german}")),
        expected
    );
    assert_eq!(rows(format!("{german}\nSaldo;9,99\n\"Ende, Schluss\"\n")), expected);
    assert_eq!(rows(german.replace(';', "\t")), expected);
    assert_eq!(rows(german.replace(';', "|")), expected);
    assert_eq!(rows(german.replace('\n', ";\r\n").replace("Betrag;", "Betrag")), expected);
    for (text, row) in [
        (
            "Date,Amount\n05/01/2026,-4.20\n26/01/2026,-850.00\n",
            json!({ "Date": "2026-01-05", "Amount": -4.20 }),
        ),
        (
            "Date,Amount\n01/05/2026,\"-1,204.20\"\n01/26/2026,-850\n",
            json!({ "Date": "2026-01-05", "Amount": -1204.20 }),
        ),
        (
            "Date,Amount\n2026-01-05,(4.20)\n2026-01-06,\"$1,850.00\"\n",
            json!({ "Date": "2026-01-05", "Amount": -4.20 }),
        ),
        (
            "created,amount\n2026-01-05 12:34:56 +0000,-420\n",
            json!({ "created": "2026-01-05T12:34:56+00:00", "amount": -420 }),
        ),
        (
            "date,currency,amount,currency\n2026-01-05,EUR,-4.20,USD\n",
            json!({ "date": "2026-01-05", "currency": "EUR", "amount": -4.20, "currency_2": "USD" }),
        ),
        (
            "2026-01-05,Grocer,-4.20\n2026-01-06,Rent,-850.00\n",
            json!({ "column_1": "2026-01-05", "column_2": "Grocer", "column_3": -4.20 }),
        ),
        ("sep=;\ndate;amount\n2026-01-05;-4\n", json!({ "date": "2026-01-05", "amount": -4 })),
        ("Tag;Betrag\n05.01.2026;-1.200\n", json!({ "Tag": "2026-01-05", "Betrag": -1200 })),
    ] {
        assert_eq!(rows(text)[0], row, "{text}");
    }
}

#[test]
fn a_header_with_a_cell_less_than_the_rows_stays_the_header() {
    let found = form(b"a,b\n1,2,3\n4,5,6\n7,8,9\n", &CsvOptions::default()).unwrap();
    assert_eq!((found.first_line, found.header), (1, HeaderRow::Present));
}

#[test]
fn short_rows_are_rows_unless_an_empty_line_or_a_lone_cell_ends_the_table() {
    let short = "a,b,c,d\n1,2,3,4\n5\n6,7,8,9\n";
    assert_eq!(rows(short).len(), 3);
    assert_eq!(rows("a,b,c,d\n1,2,3,4\n5,6\n").len(), 2);
    assert_eq!(rows("a,b,c,d\n1,2,3,4\n\n5,6\n").len(), 1);
    let many = format!("a,b\n1,2\n\n{}", "3\n".repeat(20));
    assert_eq!(rows(many).len(), 21, "so many rows are not below the table");
    assert_eq!(rows("a\n1\n\n2\n").len(), 2);
}

#[test]
fn a_total_below_the_table_is_no_row_and_is_said() {
    let table = "Tag;Wer;Betrag\n05.01.2026;A;-4,20\n06.01.2026;B;-5,80\n";
    for (below, count) in [
        ("\nKontostand;;1.145,30\n", 2),
        ("Kontostand am 06.01.2026;;1.145,30\n", 2),
        (";Summe:;-10,00\n", 2),
        ("\n;;-10,00\nStand heute;;\n", 2),
        // What is not dated yet is a row, and so is what a row follows.
        (";C;-1,00\n", 3),
        (";Summe;-10,00\n07.01.2026;C;-1,00\n", 4),
        ("07.01.2026;Summe;-10,00\n", 3),
    ] {
        let text = format!("{table}{below}");
        let found = form(text.as_bytes(), &CsvOptions::default()).unwrap();
        assert_eq!(rows_of(text.as_bytes(), &found).len(), count, "{below}");
        let is_said = found.reasons.iter().any(|line| line.contains("below the table"));
        assert_eq!(is_said, count == 2, "{below}");
    }
}

#[test]
fn a_header_is_found_among_lines_like_it_and_below_it_left_out() {
    let table = "Datum;Was;Betrag\n05.01.2026;A;-4,20\n06.01.2026;B;-5,80\n";
    let above = format!("Kontoinhaber;Ann;DE12\nZeitraum;01.01.2026;31.01.2026\n{table}");
    assert_eq!(rows(above), rows(table));
    let again = format!("{table}Datum;Was;Betrag\n07.01.2026;C;-1,00\n");
    assert_eq!(rows(&again).len(), 3);
    let found = form(again.as_bytes(), &CsvOptions::default()).unwrap();
    assert!(found.reasons.contains(&"1 line repeats the header and is left out".to_owned()));
    // A row with an odd cell is no header.
    assert_eq!(rows("name;amount\nAnn;none\nBo;5,5\n").len(), 2);
}

#[test]
fn the_side_of_the_account_and_the_zone_count_and_are_said() {
    let said = |text: &str| {
        let found = form(text.as_bytes(), &CsvOptions::default()).unwrap();
        (rows_of(text.as_bytes(), &found), found.reasons.join("; "))
    };
    let (rows, why) = said("Tag;Umsatz;Soll/Haben\n05.01.2026;12,50;S\n06.01.2026;3,00;H\n");
    assert_eq!((rows[0]["Umsatz"].clone(), rows[1]["Umsatz"].clone()), (json!(-12.5), json!(3.0)));
    assert!(why.contains("`Umsatz` is negative where column 3 says `s`"), "{why}");
    let (rows, why) =
        said("Datum,Af Bij,Bedrag\n2026-01-05,Af,\"12,50\"\n2026-01-06,Bij,\"3,00\"\n");
    assert_eq!(rows[0]["Bedrag"], json!(-12.5), "{why}");
    let (rows, why) = said("when,n\n2026-07-05 09:05:00 CST,1\n2026-07-06 09:05:00 CST,2\n");
    assert_eq!(rows[0]["when"], "2026-07-05T09:05:00");
    assert!(why.contains("the zone `CST`"), "{why}");
}

#[test]
fn the_letters_of_a_file_show_its_encoding() {
    let text = "Data;Opis;Kwota\n2026-01-05;żabka Łódź, zażółć gęślą jaźń;-4,20\n";
    let encoding = stile_domain::text_encoding::TextEncoding::named("windows-1250").unwrap();
    let bytes = encoding.encode(text).unwrap().into_owned();
    let found = form(&bytes, &CsvOptions::default()).unwrap();
    assert_eq!(found.encoding.name(), "windows-1250");
    assert_eq!(rows_of(&bytes, &found)[0]["Opis"], "żabka Łódź, zażółć gęślą jaźń");
}

#[test]
fn dates_that_stay_open_are_asked_for_and_what_the_owner_says_counts() {
    let open = b"Date,Amount\n05/01/2026,1.204\n06/01/2026,7\n";
    let error = form(open, &CsvOptions::default()).unwrap_err().to_string();
    insta::assert_snapshot!(error);
    for (dates, day) in [(DateOrder::DayFirst, "2026-01-05"), (DateOrder::MonthFirst, "2026-05-01")]
    {
        let said = CsvOptions {
            spelling: TableSpelling { dates: Some(dates), decimal: Some(DecimalMark::Comma) },
            ..CsvOptions::default()
        };
        let row = rows_of(open, &form(open, &said).unwrap()).swap_remove(0);
        assert_eq!(row, json!({ "Date": day, "Amount": 1204 }));
    }
    let said = CsvOptions {
        delimiter: Some(b'x'),
        skipped_lines: Some(1),
        header: Some(HeaderRow::Absent),
        encoding: Encoding::named("iso-8859-15"),
        ..CsvOptions::default()
    };
    let text = b"above\n\xa4x2\n3x4\n";
    let found = form(text, &said).unwrap();
    assert_eq!(rows_of(text, &found)[0], json!({ "column_1": "€", "column_2": 2 }));
}

#[test]
fn each_decision_has_a_reason_and_what_a_stream_declares_as_text_stays_text() {
    let text = windows_1252("Konto;DE00\n\nTag;Wer;Betrag\n05.01.2026;Bäcker;-4,20\n\nEnde\n");
    let reasons = form(&text, &CsvOptions::default()).unwrap().reasons.join("\n");
    insta::assert_snapshot!(reasons);
    let stream = Declaration::parse(&json!({ "schema": { "type": "object", "properties": {
        "Tag": { "type": "string" }, "Betrag": { "type": "number" },
    } } }))
    .unwrap();
    let found = CsvForm::find_in(
        &|| Ok(text.as_slice()),
        &CsvOptions::default(),
        &CsvOptions::default(),
        Some(&stream),
    )
    .unwrap();
    assert_eq!(rows_of(&text, &found)[0]["Tag"], "05.01.2026");
    assert_eq!(rows_of(&text, &found)[0]["Betrag"], -4.20);
    assert!(found.reasons.iter().any(|line| line.contains("declares it as text")));
}

#[test]
fn what_is_remembered_decides_where_no_cell_does() {
    let first = b"d;a\n26/01/2026;-4,20\n";
    let spelling = form(first, &CsvOptions::default()).unwrap().spelling;
    assert_eq!(spelling.dates, Some(DateOrder::DayFirst));
    let stream = Declaration::parse(&json!({ "schema": { "type": "object", "properties": {
        "d": { "type": "string", "format": "date" }, "a": { "type": "number" },
    } } }))
    .unwrap();
    let remembered = CsvOptions { spelling, ..CsvOptions::default() };
    let stream = Declaration::parse(&remembered.remember_in(&stream).unwrap()).unwrap();
    let next: &[u8] = b"d\ta\n05/01/2026\t-1.200\n";
    let remembered = CsvOptions::remembered(&stream);
    let found =
        CsvForm::find_in(&|| Ok(next), &CsvOptions::default(), &remembered, Some(&stream)).unwrap();
    assert_eq!(rows_of(next, &found), [json!({ "d": "2026-01-05", "a": -1200 })]);
}

proptest! {
    #[test]
    fn any_file_has_a_form_or_a_question_and_the_buffer_does_not_change_its_rows(
        pieces in prop::collection::vec(prop::sample::select(vec![
            &b"a"[..], b"1", b"1,5", b"05/01/2026", b"26/01/2026", b"-1.200", b",", b";", b"\t",
            b"\n", b"\r\n", b"\n\n", b"\"", b"sep=", b"\xff", b"\xfe", b"\xc3\xa4", b"\0",
        ]), 0..40),
        size in 1..9_usize,
    ) {
        let bytes = pieces.concat();
        if let Ok(form) = form(&bytes, &CsvOptions::default()) {
            let decode = |size| {
                let reader = std::io::BufReader::with_capacity(size, bytes.as_slice());
                decode_all(CsvDecoder::new(Transcoder::new(reader, form.encoding.clone()), &form))
            };
            prop_assert_eq!(decode(size), decode(4096));
        }
    }
}

#[test]
fn a_statement_of_few_bookings_has_its_header_behind_the_lines_about_the_account() {
    let german = "\"Kontonummer:\";\"DE12 / Girokonto\";\n\n\"Von:\";\"01.01.2026\";\n\
        \"Bis:\";\"31.01.2026\";\n\"Kontostand vom 31.01.2026:\";\"1.234,56 EUR\";\n\n\
        \"Buchungstag\";\"Wert\";\"Text\";\"Empfänger\";\"Zweck\";\"Betrag (EUR)\";\n\
        \"05.01.2026\";\"05.01.2026\";\"Lastschrift\";\"Strom\";\"x\";\"-45,10\";\n";
    let found = rows(german);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["Buchungstag"], &found[0]["Betrag (EUR)"]),
        (&json!("2026-01-05"), &json!(-45.10))
    );
    let american = "Description,,Summary Amt.\nTotal credits,,\"2,500.00\"\nTotal debits,,\"-1.00\"\n\
        Ending balance,,\"9.00\"\n\nDate,Description,Amount,Running Bal.\n\
        01/15/2026,GROCER,\"-12.34\",\"987.66\"\n01/28/2026,PAY,\"2,500.00\",\"3,487.66\"\n";
    let found = rows(american);
    assert_eq!((found.len(), &found[1]["Amount"]), (2, &json!(2500.00)), "{found:?}");
    // Rows with a cell too many are no other table.
    let ragged = "date,payee,amount\n2026-01-05,a,1.50\n2026-01-05,a,2\n\
        2026-01-06,b,c,2.50\n2026-01-07,d,e,3.50\n";
    assert_eq!(form(ragged.as_bytes(), &CsvOptions::default()).unwrap().first_line, 1);
    // A line of delimiters says nothing, wherever it stands.
    let venmo = "Statement,,,,\nActivity,,,,\n,ID,Datetime,Note,Amount (total)\n,,,,\n\
        ,3001,2026-01-05T10:00:00,pizza,- $12.34\n,3002,2026-01-28T10:00:00,rent,\"+ $2,500.00\"\n";
    let found = rows(venmo);
    assert_eq!(
        (found.len(), &found[0]["Amount (total)"], &found[1]["Amount (total)"]),
        (2, &json!(-12.34), &json!(2500.00)),
        "{found:?}"
    );
}

#[test]
fn space_around_names_and_numbers_is_left_out() {
    let found = rows(
        "Date     ,Narration  ,Debit Amount\n 05/01/26 ,UPI ,      12.34 \n 28/01/26 ,x,0.50\n",
    );
    assert_eq!(
        found[0],
        json!({ "Date": "2026-01-05", "Narration": "UPI ", "Debit Amount": 12.34 })
    );
}

#[test]
fn the_words_of_one_side_and_the_memory_of_the_column_give_the_sign() {
    let amounts = |text: &str, remembered: &CsvOptions| {
        let open = || Ok(text.as_bytes());
        let found = CsvForm::find_in(&open, &CsvOptions::default(), remembered, None).unwrap();
        let rows = rows_of(text.as_bytes(), &found);
        let amounts: Vec<Json> = rows.iter().map(|row| row["Amount"].clone()).collect();
        let why = found.reasons.join("; ");
        (amounts, CsvOptions { sides: found.sides, ..CsvOptions::default() }, why)
    };
    let nothing = CsvOptions::default();
    let both = "Date,Type,Amount\n2026-02-05,Debit,12.50\n2026-02-06,Credit,5\n";
    let one = "Date,Type,Amount\n2026-03-05,Debit,12.50\n2026-03-06,Debit,3\n";
    let third = "Date,Type,Amount\n2026-03-05,Debit,12.50\n2026-03-06,Fee,3\n";
    let (signed, memory, _) = amounts(both, &nothing);
    assert_eq!(signed, [json!(-12.5), json!(5)]);
    for memory in [&memory, &nothing] {
        let (signed, sides, why) = amounts(one, memory);
        assert_eq!((signed, sides.sides.as_deref()), (vec![json!(-12.5), json!(-3)], Some("Type")));
        assert!(why.contains("negative where column 2 says `debit`"), "{why}");
    }
    let (signed, _, why) = amounts(third, &memory);
    assert_eq!(signed, [json!(-12.5), json!("3")]);
    assert!(why.contains("1 amount(s) beside other words in column 2"), "{why}");
    let (signed, _, why) = amounts(third, &nothing);
    assert_eq!(signed, [json!(12.5), json!(3)]);
    assert!(why.contains("column 2 (`Debit`, `Fee`) may say"), "{why}");
    let (signed, _, _) = amounts(&one.replace("Debit", "Dr").replace("Type", "Title"), &nothing);
    assert_eq!(signed, [json!(12.5), json!(3)]);
    // A letter needs the memory.
    let letters = one.replace("Debit", "D");
    let (signed, _, why) = amounts(&letters, &nothing);
    assert_eq!(signed, [json!(12.5), json!(3)]);
    assert!(why.contains("their sign is open"), "{why}");
    assert_eq!(amounts(&letters, &memory).0, [json!(-12.5), json!(-3)]);
    // What is no table of an account says and changes nothing.
    let cards = "Name,Card type\nAnn,Debit\nBo,Debit\n";
    assert!(form(cards.as_bytes(), &nothing).unwrap().reasons.is_empty());
}

#[test]
fn lines_about_the_account_directly_above_the_table_are_no_header() {
    let many: String =
        (1..=30).map(|day| format!("{:02}.01.2026;t{day};{day},50\n", day)).collect();
    for rows_below in ["05.01.2026;a;1,00\n", "05.01.2026;a;1,00\n06.01.2026;b;2,00\n", &many] {
        let table = format!("Datum;Text;Betrag\n{rows_below}");
        let expected = rows(&table);
        assert_eq!(expected.len(), rows_below.lines().count());
        for above in ["Saldo;1.000,00\n", "Konto;123\nSaldo;1.000,00\n", "Konto;123\nInhaber;Ann\n"]
        {
            assert_eq!(rows(format!("{above}{table}")), expected, "{above}");
        }
    }
    // One column of values is enough below a line with one.
    let text = "Saldo;1.000,00\nText;Was;Betrag\na;b;1,00\nc;d;2,00\n";
    assert_eq!(rows(text)[0], json!({ "Text": "a", "Was": "b", "Betrag": 1.0 }));
    // A first row without its last cell is a row of a table without a header.
    let bare =
        form(b"05.01.2026;1,00\n06.01.2026;2,00;x\n07.01.2026;3,00;y\n", &CsvOptions::default());
    assert_eq!(bare.unwrap().first_line, 1);
}

#[test]
fn a_balance_has_no_side_and_what_has_signs_keeps_them() {
    let chase = "Details,Posting Date,Description,Amount,Type,Balance,Check or Slip #\n\
        DEBIT,01/31/2026,RENT,-1500.00,ACH_DEBIT,500.00,,\n\
        CREDIT,01/30/2026,PAY,2000.00,ACH_CREDIT,2000.00,,\n";
    let read = rows(chase);
    assert_eq!((&read[0]["Amount"], &read[0]["Balance"]), (&json!(-1500.0), &json!(500.0)));
    let near = "Date,Amount,Balance,Type\n2026-02-05,12.50,87.50,Debit\n\
        2026-02-06,5.00,92.50,Credit\n";
    let read = rows(near);
    assert_eq!((&read[0]["Amount"], &read[0]["Balance"]), (&json!(-12.5), &json!(87.5)));
    let alone = "Date,Saldo,Type\n2026-02-05,12.50,Debit\n2026-02-06,5.00,Credit\n";
    assert_eq!(rows(alone)[0]["Saldo"], json!(12.5));
}

#[test]
fn unknown_words_that_may_be_a_direction_are_said() {
    let why =
        |text: &str| form(text.as_bytes(), &CsvOptions::default()).unwrap().reasons.join("; ");
    for words in [("Paid", "Received"), ("Ritiro", "Versamento")] {
        let table = format!(
            "Date,Type,Amount\n2026-02-05,{},12.50\n2026-02-06,{},5\n2026-02-06,{},5\n",
            words.0, words.1, words.0
        );
        let said = why(&table);
        assert!(said.contains("`Amount` has no minus") && said.contains(words.0), "{said}");
        let signed = why(&table.replace("12.50", "-12.50"));
        assert!(!signed.contains("no minus"), "{signed}");
    }
    let prices = why("Name,Type,Price\na,Big,12.50\nb,Small,5\n");
    assert!(!prices.contains("no minus"), "{prices}");
}

#[test]
fn amounts_that_become_text_are_said() {
    let why =
        |text: &str| form(text.as_bytes(), &CsvOptions::default()).unwrap().reasons.join("; ");
    for [one, other] in [["-4,20 Taler", "1.204,20 Taler"], ["~5", "~6"], ["5 x", "1 234 x"]] {
        for name in ["Betrag", "Neuer Saldo", "Amount (account)"] {
            let said = why(&format!("Tag;{name}\n2026-01-05;{one}\n2026-01-06;{other}\n"));
            assert!(
                said.contains(&format!("`{name}` stays text: 2 of 2 cells, such as `{one}`")),
                "{said}"
            );
        }
    }
    for text in [
        "Tag;Betrag\n2026-01-05;-4,20\n2026-01-06;1.204,20\n",
        "Tag;Betrag\n2026-01-05;\n2026-01-06;offen\n",
        "Tag;Amount due\n2026-01-05;2026-02-05\n2026-01-06;2026-02-06\n",
        "Tag;Text\n2026-01-05;a 5\n2026-01-06;b 6\n",
    ] {
        assert!(!why(text).contains("stays text"), "{text}");
    }
}
