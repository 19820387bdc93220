//! Tests of the reader of single mails.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::row;

use super::*;
use crate::attachment::Attachment;

fn target() -> ImportTarget {
    ImportTarget {
        connection: SourceName::parse("mail").unwrap(),
        stream: SourceName::parse("messages").unwrap(),
    }
}

fn mail(raw: impl AsRef<[u8]>) -> ImportRow {
    read(raw.as_ref(), &target()).unwrap()
}

fn fields(raw: impl AsRef<[u8]>) -> Json {
    serde_json::from_str(&row::to_json(&mail(raw).fields)).unwrap()
}

#[test]
fn a_message_is_read_as_a_text() {
    let raw = "From: Ann <ann@example.org>\r\nTo: bob@example.org\r\n\
        Date: Tue, 3 Mar 2026 10:00:00 +0100\r\nSubject: =?utf-8?q?B=C3=A4ume?=\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nHello\r\n--x\r\n\
        Content-Type: image/png; name=a.png\r\nContent-Disposition: attachment\r\n\r\npng\r\n--x--";
    insta::assert_snapshot!(as_text(raw.as_bytes()).unwrap(), @r"
    From: Ann <ann@example.org>
    To: bob@example.org
    Date: 2026-03-03T10:00:00+01:00
    Subject: Bäume

    Hello

    [a.png]
    ");
    assert!(as_text(b"").is_err());
}

fn body(raw: impl AsRef<[u8]>) -> Json {
    fields(raw)["body"].clone()
}

/// The file name, the media type and the bytes of each attachment.
fn attached(raw: impl AsRef<[u8]>) -> Vec<(Json, Json, String)> {
    let mail = mail(raw);
    let references: Json = serde_json::from_str(&row::to_json(&mail.fields)).unwrap();
    let references = references["attachments"].as_array().cloned().unwrap_or_default();
    assert_eq!(references.len(), mail.attachments.len());
    let bytes = |attachment: &Attachment| {
        let mut bytes = Vec::new();
        attachment.open().unwrap().read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let rows = mail.attachments.iter().zip(references);
    rows.map(|(own, reference)| {
        assert_eq!(reference["blob_id"], own.id.to_string());
        assert_eq!(
            reference["blob_id"],
            format!("sha256-{}", reference["sha256"].as_str().unwrap())
        );
        assert_eq!(reference["size_bytes"], bytes(own).len());
        (reference["filename"].clone(), reference["mime_type"].clone(), bytes(own))
    })
    .collect()
}

#[test]
fn raw_bytes_within_an_encoded_word_are_in_its_charset() {
    let subject = |value: &[u8]| {
        fields([b"Subject: ", value, b"\nFrom: a@x\nMessage-Id: <1@x>\n\nx\n"].concat())["subject"]
            .clone()
    };
    for (value, expected) in [
        (&b"=?koi8-r?Q?\xf0\xd2\xc9=D7=C5=D4?="[..], "Привет"),
        (b"caf\xe9: =?iso-8859-2?q?=B3\xf3d=BC_1?= \xe9", "café: łódź 1 é"),
        (b"=?utf-8?B?w6k=?= \xe9", "é é"),
        (b"=?a \xe9 =?x?q? =?koi8-r?q?\xc1?=", "=?a é =?x?q? а"),
        (b"=?koi8-r?q?\xc1", "=?koi8-r?q?Á"),
        (b"\xe9 =?", "é =?"),
    ] {
        assert_eq!(subject(value), expected, "{}", value.escape_ascii());
    }
}

#[test]
fn encoded_words_are_joined_before_they_are_decoded() {
    let raw = "Subject: =?UTF-8?B?0J/RgNC40LLQ?=\n =?UTF-8?B?tdGCINC80LjRgA==?=\n\
        From: =?utf-8?Q?Gr=C3?= =?utf-8?Q?=BCn?= <g@example.org>\n\
        MIME-Version: 1.0\nContent-Type: application/pdf\nContent-Disposition: attachment;\n \
        filename=\"=?utf-8?Q?M=C3?=\n =?utf-8?Q?=A4rz?=.pdf\"\n\nx\n";
    let message = fields(raw);
    assert_eq!(message["subject"], "Привет мир");
    assert_eq!(message["from"], "Grün <g@example.org>");
    assert_eq!(attached(raw)[0].0, "März .pdf");
}

#[test]
fn a_display_name_keeps_the_quotes_that_protect_it() {
    let from = |value: &str| fields(format!("From: {value}\n\nx\n"))["from"].clone();
    for (value, expected) in [
        (r#""Doe, Jane" <j@x.org>"#, r#""Doe, Jane" <j@x.org>"#),
        (r#""pay@bank.example" <j@x.org>"#, r#""pay@bank.example" <j@x.org>"#),
        (r#"=?utf-8?Q?Gr=C3=BCn=2C_Eva?= <e@x.org>"#, r#""Grün, Eva" <e@x.org>"#),
        (r#""J. Doe" <j@x.org>"#, "J. Doe <j@x.org>"),
        (r#""The \"Ferns\"" <f@x.org>"#, r#""The \"Ferns\"" <f@x.org>"#),
    ] {
        assert_eq!(from(value), expected, "{value}");
    }
}

#[test]
fn a_message_without_a_date_has_the_time_of_its_last_receipt() {
    let received = "Received: from a by b; Fri, 1 Mar 2024 09:05:00 +0100\n\
        Received: from c by a\n with x; Thu, 29 Feb 2024 09:00:00 +0100\n";
    let date = |head: &str| fields(format!("{head}Subject: x\n\nx\n")).get("date").cloned();
    assert_eq!(date(received), Some(json!("2024-03-01T09:05:00+01:00")));
    let sent = "Date: Thu, 29 Feb 2024 08:59:00 +0000\n";
    assert_eq!(date(&[received, sent].concat()), Some(json!("2024-02-29T08:59:00+00:00")));
    assert_eq!(date("Received: from a by b\n"), None);
}

#[test]
fn the_header_and_the_body_become_fields() {
    let raw = "Date: Fri, 1 Mar 2024 09:05:00 -0800\r\n\
        From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\r\n\
        To: a@example.org, \"Doe, Jane\" <jane@example.org>,\r\n \
        Team: b@example.org, c@example.org;\r\nCC:\r\n\
        Subject: =?iso-8859-1?q?caf=E9?= and\r\n more\r\n\
        Message-Id: <2@x>\r\nIn-Reply-To: <1@x>\r\nReferences: <0@x>\r\n\t<1@x>\r\n\
        X-Gmail-Labels: Inbox,=?UTF-8?Q?Gr=C3=BCn?=\r\n\r\nline one\r\nline two\r\n";
    let reference =
        |key: &str| json!({ "source_id": "mail", "stream": "messages", "record_id": key });
    let mut message = fields(raw);
    // A group becomes its members.
    assert!(
        message["to"].as_str().unwrap().contains("\"Doe, Jane\" <jane@example.org>"),
        "{message}"
    );
    message.as_object_mut().unwrap().shift_remove("to");
    assert_eq!(
        message,
        json!({
            "message_id": "2@x",
            "date": "2024-03-01T09:05:00-08:00",
            "from": "Jürgen <j@example.org>",
            "subject": "café and more", "in_reply_to": "1@x",
            "in_reply_to_ref": reference("1@x"), "thread": "0@x", "thread_ref": reference("0@x"),
            "labels": "Inbox, Grün", "body": "line one\nline two\n",
        })
    );
}

#[test]
fn fields_that_a_message_lacks_are_absent_and_its_digest_becomes_the_key() {
    let message = fields("Subject: x\n\n");
    let id = message["message_id"].as_str().unwrap();
    assert!(id.starts_with("sha256:") && id.len() == 71);
    assert_eq!(message, json!({ "message_id": id, "subject": "x", "thread": id }));
    let long = fields(format!("Message-ID: <{}@x>\nDate: yesterday\n\nx", "y".repeat(600)));
    assert!(long["message_id"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(long["date"], "yesterday", "what nobody can read is kept");
    assert_eq!(
        fields("Message-ID: 1@x\n\nx")["message_id"],
        "1@x",
        "without its brackets, as some programs have it"
    );
    for raw in [&b""[..], b"\n", b"no header at all", b"\n\nx: y", b"\0\0\xff"] {
        assert_eq!(read(raw, &target()).unwrap_err(), MailError::NoHeader);
    }
}

#[test]
fn a_text_is_decoded_whatever_its_charset_and_encoding() {
    let part = |charset: &str, encoding: &str, body: &[u8]| {
        let head =
            format!("Content-Type: text/plain{charset}\nContent-Transfer-Encoding: {encoding}\n\n");
        super::tests::body([head.as_bytes(), body].concat())
    };
    for (charset, encoding, bytes, text) in [
        ("; charset=utf-8", "8bit", "naïve".as_bytes(), "naïve"),
        ("; charset=ISO-8859-1", "quoted-printable", b"na=EFve=\n!", "naïve!"),
        ("; charset=\"windows-1251\"", "8bit", b"\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"),
        ("; charset=iso-2022-jp", "7bit", b"\x1b$B$3$s\x1b(B", "こん"),
        ("; charset=shift_jis", "base64", b"grGC8Q==", "こん"),
        ("; charset=koi8-r", "8bit", b"\xf0\xd2\xc9", "При"),
        ("; charset=gb18030", "8bit", b"\xc4\xe3", "你"),
        ("; charset=utf-16le", "base64", b"aABpAA==", "hi"),
        ("; charset=no-such", "8bit", "é".as_bytes(), "é"),
        ("; charset=utf-8", "8bit", b"caf\xe9 \x80", "café €"),
        ("", "8bit", b"caf\xe9", "café"),
        ("", "x-unknown", b"=41", "=41"),
        ("", "quoted-printable", b"50=% off", "50=% off"),
        ("", "quoted-printable", b"<p x=\"y\">Gr=C3=BC=C3=9Fe", "<p x=\"y\">Grüße"),
        ("; charset=utf-8", "8bit", b"Gr\xc3\xbc\xc3\x9fe \xd1", "Grüße \u{fffd}"),
        ("", "BASE64", b"aGkgdGhlcmU=\n-- a footer", "hi there"),
        ("", "7bit", b"nul\0 \xe2\x80\xaebidi", "nul\0 \u{202e}bidi"),
    ] {
        let text_read = part(charset, encoding, bytes);
        assert!(text_read.as_str().unwrap().starts_with(text), "{charset} {encoding}: {text_read}");
    }
    assert_eq!(fields(b"Subject: caf\xe9\n\n")["subject"], "café");
}

#[test]
fn the_plain_text_is_preferred_and_the_rest_is_attached() {
    let raw = "Content-Type: multipart/mixed; boundary=\"a b\"\n\npreamble\n--a b\n\
        Content-Type: multipart/alternative; boundary=c\n\n\
        --c\nContent-Type: text/html\n\n<p>rich</p>\n\
        --c\nContent-Type: text/plain\n\nplain\n--c--\n--a b\n\
        Content-Type: image/png; name*=utf-8''%e2%82%ac.png\n\
        Content-Transfer-Encoding: base64\n\nUE5H\n\
        --a b\nContent-Disposition: attachment; filename=notes.txt\n\nkeep\r\nthis\n--a b\n\
        Content-Type: message/rfc822\n\nSubject: inner\n\nx\n\
        --a b\n\nlast words\n--a b--\nepilogue";
    assert_eq!(body(raw), "plain\n\nlast words");
    assert_eq!(
        attached(raw),
        [
            (json!("€.png"), json!("image/png"), "PNG".to_owned()),
            (json!("notes.txt"), json!("text/plain"), "keep\r\nthis".to_owned()),
            (json!(null), json!("message/rfc822"), "Subject: inner\n\nx".to_owned()),
        ]
    );
    let html = "Content-Type: multipart/related; boundary=c\n\n\
        --c\nContent-Type: text/html\n\n<b>rich</b><br>text\n\
        --c\nContent-Type: not a type\n\nx\n--c--\n";
    assert_eq!(body(html), "rich\ntext");
    assert_eq!(attached(html), [(json!(null), json!("application/octet-stream"), "x".to_owned())]);
}

#[test]
fn a_broken_structure_keeps_its_text() {
    for (raw, text) in [
        ("Content-Type: multipart/mixed\n\nno boundary", "no boundary"),
        ("Content-Type: multipart/mixed; boundary=\n\nempty", "empty"),
        ("Content-Type: multipart/mixed; boundary=x\n\nnowhere", "nowhere"),
        ("Content-Type: multipart/mixed; boundary=x\n\n--x\n\ncut off", "cut off"),
        (
            "Content-Type: multipart/mixed; boundary=x\n\n--xy\n--x \n\n --x\nnot --x\n--x--",
            " --x\nnot --x",
        ),
        ("Content-Type: ;;;\n\nodd", "odd"),
    ] {
        assert_eq!(body(raw), text, "{raw}");
    }
}

#[test]
fn many_or_deeply_nested_parts_are_read_in_linear_time() {
    let mut deep = String::new();
    for level in 0..1000 {
        deep += &format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n");
    }
    let mail = mail(format!("Subject: deep\n{deep}\ninnermost"));
    assert_eq!(mail.attachments.len(), 1, "a part that is too deep is attached whole");
    let nested = "Content-Type: message/rfc822\n\n".repeat(100_000);
    assert_eq!(attached(&nested).len(), 1);
    // Each part announces a boundary that never comes.
    let bomb: String = (0..900)
        .map(|n| format!("--x\nContent-Type: multipart/mixed; boundary=n{n}\n\n"))
        .collect();
    let filler = "--x is not alone on its line\n".repeat(100_000);
    let began = std::time::Instant::now();
    read(
        format!("Content-Type: multipart/mixed; boundary=x\n\n{bomb}{filler}").as_bytes(),
        &target(),
    )
    .unwrap();
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    let many = "--x\n\n.\n".repeat(2000);
    let bad =
        read(format!("Content-Type: multipart/mixed; boundary=x\n\n{many}").as_bytes(), &target());
    assert_eq!(bad.unwrap_err(), MailError::TooManyParts);
    let header = format!("Subject: {}\n\nx", "y".repeat(MAX_HEADER_BYTES));
    assert_eq!(read(header.as_bytes(), &target()).unwrap_err(), MailError::HeaderTooLarge);
    let fits = format!("Subject: {}\nTo: {}\n\nx", "y ".repeat(200_000), "a@b, ".repeat(100_000));
    assert_eq!(body(fits), "x");
}

#[test]
fn a_line_of_boundaries_is_read_in_linear_time() {
    // With a search for the end of the line from each boundary, this would take minutes.
    let line = "--b".repeat(1_400_000);
    assert!(body(format!("Content-Type: multipart/mixed; boundary=b\n\n{line}")) == line);
    let parts = format!("Content-Type: multipart/mixed; boundary=b\n\n--b\n\n{line}\n--b--\n");
    assert!(body(parts) == line);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes, &target());
    }

    #[test]
    fn any_mail_is_read_without_a_panic_and_fields_are_not_much_longer_than_the_mail(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "Content-Type: ", "multipart/mixed", "multipart/alternative", "text/html",
            "message/rfc822", "; boundary=x", "\n", "\r\n", "\n\n", "--x", "--x\n", "--x--\n", "--",
            "base64", "Content-Transfer-Encoding: ", "quoted-printable", "=?utf-8?q?", "=41?=",
            "=", "<", ">", "(", ")", "\"", "\\", ",", ":", ";", "Date: ", "1 Mar 2024 00:00",
            " Z\n", "From: ", "a@b", "References: ", "Message-ID: ", "&amp;", "<p>",
            "Content-Disposition: attachment; filename*=", "utf-8''%41", "\0", "é", "\u{202e}",
            "QUFB", "; charset=utf-7", "; charset=utf-16",
        ]), 0..40),
    ) {
        let raw = pieces.concat();
        if let Ok(mail) = read(raw.as_bytes(), &target()) {
            prop_assert!(mail.fields.iter().any(|(name, _)| name == "message_id"));
            let held: usize = mail.fields.iter().map(|(_, value)| value.to_json().len()).sum();
            prop_assert!(held <= raw.len() * 8 + 600 + mail.attachments.len() * 600);
        }
    }
}
