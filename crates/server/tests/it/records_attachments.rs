//! The text of attached documents: found, read and granted like any other field, and no document
//! breaks an import.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stile_testkit::zip::{Member, Zip};

use crate::document_kit::{docx, ods, odt, package, pdf, pdf_of, pptx, xlsx};
use crate::records_kit::Kit;

/// A message with attachments: type, name and bytes of each.
fn mail(id: &str, attachments: &[(&str, &str, &[u8])]) -> String {
    let mut text = format!(
        "From ann@example.org Sat Mar  7 10:15:00 2026\nMessage-ID: <{id}@example.org>\n\
         Date: Sat, 7 Mar 2026 10:15:00 +0000\nSubject: {id}\nMIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nsee below\n"
    );
    for (media_type, name, bytes) in attachments {
        let lines: Vec<String> = STANDARD
            .encode(bytes)
            .as_bytes()
            .chunks(76)
            .map(|line| String::from_utf8(line.to_vec()).unwrap())
            .collect();
        text += &format!(
            "--b\nContent-Type: {media_type}; name=\"{name}\"\n\
             Content-Disposition: attachment; filename=\"{name}\"\n\
             Content-Transfer-Encoding: base64\n\n{}\n",
            lines.join("\n")
        );
    }
    text + "--b--\n\n"
}

struct Mailbox {
    folder: tempfile::TempDir,
}

impl Mailbox {
    fn of(mails: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mail.mbox"), mails.concat()).unwrap();
        Self { folder }
    }

    /// Imports the mailbox. Returns standard output and standard error.
    fn import(&self, kit: &Kit) -> (String, String) {
        let path = self.folder.path().join("mail.mbox");
        let ran = kit.run(&["import", path.to_str().unwrap(), "--connection", "mail"]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end().to_owned();
        (text(ran.stdout), text(ran.stderr))
    }
}

const WORD: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

fn text_of(kit: &Kit, id: &str, token: &str) -> Value {
    let target = format!("/v1/streams/messages/records/{id}@example.org");
    kit.json(&target, token)["data"]["attachment_text"].clone()
}

#[test]
fn documents_of_each_kind_are_found_and_read_as_a_field_beside_the_bytes() {
    let kit = Kit::new();
    let mails = [
        mail("pdf", &[("application/pdf", "report.pdf", &pdf(&["The zygote report", "Page two"]))]),
        mail(
            "word",
            &[(WORD, "letter.docx", &docx(&["Dear Ann,", "the espalier &#8211; is &lt;fine&gt;"]))],
        ),
        mail("table", &[("application/octet-stream", "costs.XLSX", &xlsx())]),
        mail("slides", &[("application/zip", "talk.pptx", &pptx())]),
        mail("odt", &[("application/vnd.oasis.opendocument.text", "minutes.odt", &odt())]),
        mail("ods", &[("application/vnd.oasis.opendocument.spreadsheet", "seeds.ods", &ods())]),
        mail(
            "pages",
            &[
                ("text/html", "page.html", b"<title>Handicraft</title><p>A <b>wicker</b> basket"),
                ("text/csv", "list.csv", "name,cost\r\nGr\u{fc}n,3\r\n".as_bytes()),
                ("image/png", "photo.png", b"\x89PNG"),
            ],
        ),
    ];
    let mailbox = Mailbox::of(&mails);
    let (counts, said) = mailbox.import(&kit);
    assert_eq!(counts, "added 7, changed 0, unchanged 0, bad 0");
    assert!(said.contains("read the text of 8 attachments"), "{said}");
    for (id, text) in [
        ("word", "[letter.docx]\nDear Ann,\nthe espalier – is <fine>\nHerons & Sons"),
        (
            "table",
            "[costs.XLSX]\nCosts & fees\nplum & quince\t12.5\n2026-03-04\t2026-03-04 10:30:00\t46085\npear\tdear\t7",
        ),
        ("slides", "[talk.pptx]\nsecond slide\n\ntenth slide\n\nsay it slowly"),
        (
            "odt",
            "[minutes.odt]\nMinutes\nThe  heron\tflew\noff\na\tb\tb\nHeron society\nPage  of the minutes",
        ),
        ("ods", "[seeds.ods]\nSeeds <2026>\nkale"),
        (
            "pages",
            "[page.html]\nHandicraft\nA wicker basket\n\n[list.csv]\nname,cost\nGrün,3\n\n[photo.png]",
        ),
    ] {
        assert_eq!(text_of(&kit, id, &kit.owner), text, "{id}");
    }
    let text = text_of(&kit, "pdf", &kit.owner);
    let text = text.as_str().unwrap();
    assert!(text.starts_with("[report.pdf]\n") && text.contains("The zygote report"), "{text}");
    assert!(text.contains("Page two"), "{text}");
    for (words, id) in [("zygote%20report", "pdf"), ("espalier", "word"), ("quince", "table")] {
        let hits = kit.json(&format!("/v1/search?q={words}"), &kit.owner);
        assert_eq!(hits["data"][0]["record_key"], format!("{id}@example.org"), "{words}");
        assert_eq!(hits["data"][0]["matched_fields"], json!(["attachment_text"]));
    }
    let (counts, _) = mailbox.import(&kit);
    assert_eq!(counts, "added 0, changed 0, unchanged 7, bad 0\nnothing has changed");
}

#[test]
fn every_attached_file_is_found_by_its_name() {
    let kit = Kit::new();
    let mails = [
        mail("picture", &[("image/png", "truncated.png", b"\x89PNG")]),
        mail("archive", &[("application/gzip", "Seeds-2025.tgz", b"\x1f\x8b")]),
        mail("broken", &[("application/pdf", "espalier plan.pdf", b"no such thing")]),
        mail("bare", &[]),
    ];
    let (counts, said) = Mailbox::of(&mails).import(&kit);
    assert_eq!(counts, "added 4, changed 0, unchanged 0, bad 0");
    assert!(said.contains("did not read the text of 1 attachment, damaged"), "{said}");
    for (words, id) in [
        ("truncated.png", "picture"),
        ("truncated", "picture"),
        ("seeds-2025.tgz", "archive"),
        ("espalier", "broken"),
    ] {
        let hits = kit.json(&format!("/v1/search?q={words}"), &kit.owner);
        assert_eq!(hits["data"][0]["record_key"], format!("{id}@example.org"), "{words}");
        assert_eq!(hits["data"][0]["matched_fields"], json!(["attachment_text"]), "{words}");
    }
    assert_eq!(text_of(&kit, "picture", &kit.owner), "[truncated.png]");
    assert_eq!(text_of(&kit, "bare", &kit.owner), Value::Null);
    let bytes = kit.client(&["--stream", "messages", "--field", "attachments"]).1;
    assert_eq!(kit.json("/v1/search?q=truncated", &bytes)["data"], json!([]));
    assert_eq!(text_of(&kit, "picture", &bytes), Value::Null);
}

#[test]
fn a_grant_of_the_bytes_is_none_of_the_text_nor_the_reverse() {
    let kit = Kit::new();
    let attached = docx(&["the espalier"]);
    Mailbox::of(&[mail("word", &[(WORD, "letter.docx", &attached)])]).import(&kit);
    let bytes = kit.client(&["--stream", "messages", "--field", "attachments"]).1;
    let text = kit.client(&["--stream", "messages", "--field", "attachment_text"]).1;
    let found = |token: &str| kit.json("/v1/search?q=espalier", token)["data"].clone();
    assert_eq!(found(&bytes), json!([]));
    assert_eq!(found(&text)[0]["record_key"], "word@example.org");
    assert_eq!(text_of(&kit, "word", &bytes), Value::Null);
    let window = "/v1/streams/messages/records/word@example.org/field-window?field=attachment_text&q=espalier";
    assert_eq!(kit.refused(window, &bytes).1, "field_not_granted");
    assert!(kit.json(window, &text)["window"]["text"].as_str().unwrap().contains("the espalier"));
    let record = kit.json("/v1/streams/messages/records/word@example.org", &kit.owner);
    let address = record["data"]["attachments"][0]["fetch_url"].as_str().unwrap();
    assert_eq!(kit.get(address, &bytes).body, attached);
    assert_eq!(kit.refused(address, &text).0, 404);
}

#[test]
fn a_hostile_document_costs_its_text_and_nothing_else() {
    let kit = Kit::new();
    let good = pdf(&["The zygote report"]);
    let deep = format!("<< /Type /Pages /Kids {}{} >>", "[".repeat(200_000), "]".repeat(200_000));
    let catalog = "<< /Type /Catalog /Pages 2 0 R >>".to_owned();
    let endless = "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>".to_owned();
    let bomb = Zip::default()
        .with(&Member::deflated("word/document.xml", &vec![b' '; 130 * 1024 * 1024]))
        .finish();
    let laughs = "<?xml version=\"1.0\"?><!DOCTYPE d [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]>\
        <w:document><w:p><w:r><w:t>so &b; it is</w:t></w:r></w:p></w:document>";
    let nested = format!("<w:document>{}", "<w:p>".repeat(2_000_000));
    let mails = [
        mail("cut", &[("application/pdf", "a.pdf", &good[..good.len() / 2])]),
        mail("other", &[("application/pdf", "a.pdf", b"no such thing")]),
        mail("deep", &[("application/pdf", "a.pdf", &pdf_of(&[catalog.clone(), deep]))]),
        mail("endless", &[("application/pdf", "a.pdf", &pdf_of(&[catalog, endless]))]),
        mail("bomb", &[(WORD, "a.docx", &bomb), (WORD, "b.docx", &docx(&["the espalier"]))]),
        mail("laughs", &[(WORD, "a.docx", &package(&[("word/document.xml", laughs)]))]),
        mail("nested", &[(WORD, "a.docx", &package(&[("word/document.xml", &nested)]))]),
        mail("none", &[(WORD, "a.docx", &package(&[("mimetype", "x")]))]),
        mail("good", &[("application/pdf", "a.pdf", &good)]),
    ];
    let (counts, said) = Mailbox::of(&mails).import(&kit);
    assert_eq!(counts, "added 9, changed 0, unchanged 0, bad 0", "{said}");
    for reason in [
        "damaged or encrypted",
        "too large or too much work to read",
        "without text, such as scanned pages",
    ] {
        let line = said.lines().find(|line| line.contains(reason)).unwrap();
        assert!(line.starts_with("did not read the text of ") && !line.contains("1 attachments"));
    }
    assert!(said.lines().any(|line| line == "read the text of 3 attachments"), "{said}");
    assert_eq!(
        text_of(&kit, "bomb", &kit.owner),
        "[a.docx]\n\n[b.docx]\nthe espalier\nHerons & Sons"
    );
    assert_eq!(text_of(&kit, "laughs", &kit.owner), "[a.docx]\nso  it is", "no entity is expanded");
    assert!(text_of(&kit, "good", &kit.owner).as_str().unwrap().contains("zygote"));
    for (id, name) in [("other", "[a.pdf]"), ("none", "[a.docx]")] {
        assert_eq!(text_of(&kit, id, &kit.owner), name, "{id}");
    }
}

#[test]
fn a_stream_that_was_declared_without_the_field_keeps_its_records() {
    let kit = Kit::new();
    let mailbox = Mailbox::of(&[mail("word", &[(WORD, "letter.docx", &docx(&["the espalier"]))])]);
    // As an earlier version declared the stream and stored the record.
    mailbox.import(&kit);
    let names = ["declare", "--connection", "mail", "--stream", "messages"];
    let mut declared: Value =
        serde_json::from_str(&kit.said(&[&names[..], &["--show"]].concat())).unwrap();
    let whole = declared.clone();
    declared["schema"]["properties"].as_object_mut().unwrap().remove("attachment_text").unwrap();
    let query = declared["query"].as_object_mut().unwrap();
    let forget = |names: &mut Value| {
        names.as_array_mut().unwrap().retain(|name| name != "attachment_text");
    };
    forget(&mut query["search"]["lexical_fields"]);
    forget(&mut query["aggregations"]["group_by"]);
    forget(&mut query["aggregations"]["count_distinct"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("declared.json");
    let declare = |declaration: &Value| {
        std::fs::write(&file, declaration.to_string()).unwrap();
        kit.said(&[&names[..], &["--from", file.to_str().unwrap()]].concat());
    };
    declare(&declared);
    let (counts, said) = mailbox.import(&kit);
    assert_eq!(counts, "added 0, changed 1, unchanged 0, bad 0", "{said}");
    assert!(said.contains("did not read the text of 1 attachment, since"), "{said}");
    let (counts, _) = mailbox.import(&kit);
    assert_eq!(counts, "added 0, changed 0, unchanged 1, bad 0\nnothing has changed");
    declare(&whole);
    let (counts, _) = mailbox.import(&kit);
    assert_eq!(counts, "added 0, changed 1, unchanged 0, bad 0", "it is the same mail");
    assert_eq!(text_of(&kit, "word", &kit.owner), "[letter.docx]\nthe espalier\nHerons & Sons");
}
