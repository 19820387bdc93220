//! Documents in a folder: read by pages, searched and never edited, like texts.

use std::fs;

use serde_json::{Value, json};
use stile_testkit::hosted::{Lifecycle, Peer};
use stile_testkit::process::{Rig, Server};

use crate::document_kit::{docx, epub, ods, odt, package, pdf, pdf_with_title, pptx, xlsx};

const MAIL: &str = "From: Ann <ann@example.org>\r\nSubject: Quinces\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nVGhleSBhcmUgcmlwZS4=\r\n";

/// A folder with a document of each kind, and a client that may read and write all but `/private`.
struct Shelf {
    _folder: tempfile::TempDir,
    _server: Server,
    rig: Rig,
    peer: Peer,
}

impl Shelf {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let put = |name: &str, bytes: &[u8]| {
            let file = rig.root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        };
        // What makes a PDF document no text, as the byte values after its first line do.
        let binary = |pages: &[&str]| [pdf(pages), vec![b'%', 0xe2, 0xe3, 0xcf, 0xd3]].concat();
        put("report.pdf", &binary(&["The zygote report", "", "A budget for quinces"]));
        put("private/report.pdf", &binary(&["quinces in private"]));
        put("broken.pdf", b"%PDF-1.4\n\xe2\xe3\xcf\xd3 no such thing");
        put("letter.docx", &docx(&["Dear Ann,", "the quinces are here"]));
        put("costs.xlsx", &xlsx());
        put("talk.pptx", &pptx());
        put("minutes.odt", &odt());
        put("seeds.ods", &ods());
        put("book.epub", &epub());
        put("page.html", b"<title>Page</title><p>A <b>wicker</b> basket");
        put("mail.eml", MAIL.as_bytes());
        put("note.md", b"# Note\n\nIt says %PDF-1.4 and quinces.\n");
        let server = rig.serve(&[]);
        let token = rig.token(&["write:/", "deny:/private"], &[]);
        let peer = Peer::open(&server, &token, Lifecycle::Sessionless);
        Self { _folder: folder, _server: server, rig, peer }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.peer.call(tool, &arguments)
    }

    fn read(&mut self, arguments: Value) -> Value {
        self.call("text.read", arguments)["structuredContent"].clone()
    }

    fn refused(&mut self, tool: &str, arguments: Value) -> (Value, String) {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["isError"], true, "{answer}");
        let told = answer["content"][0]["text"].as_str().unwrap().to_owned();
        (answer["structuredContent"]["error"].clone(), told)
    }
}

#[test]
fn a_document_is_read_by_pages_with_the_hash_of_the_file() {
    let mut shelf = Shelf::new();
    let report = shelf.read(json!({ "path": "/report.pdf" }));
    assert_eq!(
        report["content"],
        "[page 1]\nThe zygote report\n\n[page 2] (no text)\n\n[page 3]\nA budget for quinces\n"
    );
    let bytes = shelf.call("file.read", json!({ "path": "/report.pdf" }));
    assert_eq!(report["hash"], bytes["structuredContent"]["hash"]);
    assert_eq!(
        (&report["form"], &report["total_pages"], &report["page"]),
        (&json!("extracted"), &json!(3), &json!(1))
    );
    let third = shelf.read(json!({ "path": "/report.pdf", "page": 3 }));
    assert_eq!(third["content"], "[page 3]\nA budget for quinces\n");
    assert_eq!((&third["page"], &third["lines"]), (&json!(3), &json!([6, 8])));
    let same = shelf.read(json!({ "path": "/report.pdf", "lines": third["lines"] }));
    assert_eq!(same["content"], third["content"]);
    let found = shelf.read(json!({ "path": "/report.pdf", "q": "BUDGET" }));
    assert_eq!((&found["match_line"], &found["page"]), (&json!(7), &json!(3)));
    for (name, content) in [
        ("letter.docx", "Dear Ann,\nthe quinces are here\nHerons & Sons\n"),
        (
            "minutes.odt",
            "Minutes\nThe  heron\tflew\noff\na\tb\tb\nHeron society\nPage  of the minutes\n",
        ),
        ("seeds.ods", "[sheet 1: Seeds <2026>]\nkale\n"),
        (
            "talk.pptx",
            "[slide 1]\nsecond slide\n\n[slide 2]\ntenth slide\n\n[notes 1]\nsay it slowly\n",
        ),
        ("book.epub", "[chapter 1] (no text)\n\n[chapter 2]\nOf quinces\nPick them late.\n"),
    ] {
        assert_eq!(shelf.read(json!({ "path": format!("/{name}") }))["content"], content, "{name}");
    }
    let sheet = shelf.read(json!({ "path": "/costs.xlsx", "page": 1 }));
    assert!(sheet["content"].as_str().unwrap().starts_with("[sheet 1: Costs & fees]\nplum"));
    let pieces = json!([
        { "path": "/report.pdf", "page": 3 }, { "path": "/book.epub", "page": 2, "q": "late" }
    ]);
    let gathered = shelf.call("text.gather", json!({ "items": pieces }));
    let pieces = &gathered["structuredContent"]["pieces"];
    assert_eq!(pieces[0]["content"], third["content"]);
    assert_eq!(pieces[1]["content"], "Pick them late.\n");
}

#[test]
fn marked_up_text_is_extracted_where_the_caller_says_so() {
    let mut shelf = Shelf::new();
    let page = shelf.read(json!({ "path": "/page.html" }));
    assert_eq!(page["content"], "<title>Page</title><p>A <b>wicker</b> basket");
    assert_eq!(page["form"], Value::Null);
    let page = shelf.read(json!({ "path": "/page.html", "form": "extracted" }));
    assert_eq!(
        (&page["content"], &page["form"]),
        (&json!("Page\nA wicker basket\n"), &json!("extracted"))
    );
    let mail = shelf.read(json!({ "path": "/mail.eml", "form": "extracted" }));
    assert_eq!(
        mail["content"],
        "From: Ann <ann@example.org>\nSubject: Quinces\n\nThey are ripe.\n"
    );
    let note = shelf.read(json!({ "path": "/note.md", "form": "extracted" }));
    assert_eq!(note["content"], "# Note\n\nIt says %PDF-1.4 and quinces.\n");
}

#[test]
fn a_search_finds_what_documents_say_with_the_page() {
    let mut shelf = Shelf::new();
    let found = shelf.call("text.search", json!({ "q": "quinces" }));
    let found = &found["structuredContent"];
    let hits: Vec<_> = found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| (hit["path"].as_str().unwrap(), hit["page"].as_u64()))
        .collect();
    assert_eq!(
        hits,
        [
            ("/book.epub", Some(2)),
            ("/letter.docx", None),
            ("/mail.eml", None),
            ("/note.md", None),
            ("/report.pdf", Some(3)),
        ]
    );
    assert_eq!(found["left_out"][0]["first"], "/broken.pdf");
    let line = &found["hits"][4]["line"];
    let read =
        shelf.read(json!({ "path": "/report.pdf", "lines": [line, line.as_u64().unwrap() + 1] }));
    assert_eq!(read["content"], "A budget for quinces\n");
}

#[test]
fn a_document_is_never_edited_and_a_damaged_one_says_so() {
    let mut shelf = Shelf::new();
    let hash = shelf.read(json!({ "path": "/report.pdf" }))["hash"].clone();
    let before = fs::read(shelf.rig.root.join("report.pdf")).unwrap();
    let edits = json!([{ "old": "budget", "new": "plan" }]);
    for (tool, arguments) in [
        ("text.edit", json!({ "path": "/report.pdf", "hash": hash, "edits": edits })),
        ("text.append", json!({ "path": "/report.pdf", "hash": hash, "content": "x" })),
    ] {
        let (error, told) = shelf.refused(tool, arguments);
        assert_eq!(error["code"], "not_text", "{tool}: {told}");
        assert!(told.contains("is a document: its text is taken out"), "{told}");
    }
    assert_eq!(fs::read(shelf.rig.root.join("report.pdf")).unwrap(), before);
    let (error, told) = shelf.refused("text.read", json!({ "path": "/broken.pdf" }));
    assert_eq!(error["code"], "not_text");
    assert!(
        told.contains("without a text: the document is damaged or encrypted. Nothing was written."),
        "{told}"
    );
    assert!(told.ends_with("`file_read` reads its bytes."), "{told}");
    for (arguments, says) in [
        (json!({ "path": "/report.pdf", "page": 4 }), "`page` must be 1 to 3"),
        (json!({ "path": "/report.pdf", "section": "x" }), "`page` does, by its number, 1 to 3"),
        (json!({ "path": "/letter.docx", "section": "x" }), "this document, which has none"),
        (json!({ "path": "/note.md", "page": 1 }), "`page`: this file has no pages"),
        (json!({ "path": "/report.pdf", "page": 1, "lines": [1, 2] }), "exclude each other"),
    ] {
        let (error, told) = shelf.refused("text.read", arguments);
        assert_eq!(error["code"], "invalid_argument");
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn a_question_finds_documents_and_shows_the_page() {
    let mut shelf = Shelf::new();
    let ask = |shelf: &mut Shelf, arguments: Value| {
        shelf.call("file.search", arguments)["structuredContent"].clone()
    };
    let found = ask(&mut shelf, json!({ "q": "quinces budget", "kinds": ["document"] }));
    let best = &found["results"][0];
    assert_eq!(best["path"], "/report.pdf");
    let passage = &best["passages"][0];
    assert_eq!(passage["page"], 3);
    assert!(passage["text"].as_str().unwrap().contains("A budget for quinces"), "{passage}");
    let read = shelf.read(json!({ "path": "/report.pdf", "lines": passage["lines"] }));
    assert_eq!(read["hash"], best["hash"]);
    assert!(read["content"].as_str().unwrap().contains("budget"));
    // What the token hides counts in nothing, and what has no text is named.
    assert!(!found.to_string().contains("private"));
    assert_eq!(found["left_out"][0]["first"], "/broken.pdf");
    let notes = ask(&mut shelf, json!({ "q": "quinces", "kinds": ["note"] }));
    assert_eq!((&notes["total"], &notes["results"][0]["path"]), (&json!(1), &json!("/note.md")));
    let again = ask(&mut shelf, json!({ "q": "quinces budget", "kinds": ["document"] }));
    assert_eq!(again, found);
}

/// The title that a document gives itself is shown, and its words count like those of a note's.
#[test]
fn a_document_is_found_and_shown_by_the_title_that_it_gives_itself() {
    let mut shelf = Shelf::new();
    let title = "<x><dc:title>Zanzibar &amp; beyond</dc:title></x>";
    let book = "<package><metadata><dc:title>Zanzibar &amp; beyond</dc:title></metadata>\
        <manifest><item id=\"one\" href=\"one.xhtml\"/></manifest>\
        <spine><itemref idref=\"one\"/></spine></package>";
    let container = "<container><rootfile full-path=\"book.opf\"/></container>";
    let word = "<w:document><w:p><w:r><w:t>ferns</w:t></w:r></w:p></w:document>";
    let open = "<office:body><office:text><text:p>ferns</text:p></office:text></office:body>";
    let portable = pdf_with_title(&["ferns"], "(Zanzibar & beyond)");
    let portable = [portable, vec![b'%', 0xe2, 0xe3, 0xcf, 0xd3]].concat();
    let wide: String =
        "\u{feff}Zanzibar & beyond".encode_utf16().map(|unit| format!("{unit:04x}")).collect();
    let wide = pdf_with_title(&["ferns"], &format!("<{wide}>"));
    let wide = [wide, vec![b'%', 0xe2, 0xe3, 0xcf, 0xd3]].concat();
    let page = b"<html><head><title>Zanzibar &amp; beyond</title></head><p>ferns</p>".to_vec();
    let files = [
        ("one.docx", package(&[("word/document.xml", word), ("docProps/core.xml", title)])),
        ("two.odt", package(&[("content.xml", open), ("meta.xml", title)])),
        (
            "three.epub",
            package(&[
                ("META-INF/container.xml", container),
                ("book.opf", book),
                ("one.xhtml", "<p>ferns</p>"),
            ]),
        ),
        ("four.pdf", portable),
        ("five.pdf", wide),
        ("six.html", page),
    ];
    fs::create_dir(shelf.rig.root.join("titled")).unwrap();
    for (name, bytes) in &files {
        fs::write(shelf.rig.root.join("titled").join(name), bytes).unwrap();
    }
    fs::write(shelf.rig.root.join("titled/said.txt"), "ferns of Zanzibar").unwrap();
    // A call waits neither for the text of each document on a busy machine, nor until a file that
    // was just written is known to be whole.
    let is_unfinished = |found: &Value| {
        let left = found["structuredContent"]["left_out"].as_array();
        let waits = |left: &Value| left["why"] == "not_finished" || left["why"] == "unreadable";
        left.is_some_and(|left| left.iter().any(waits))
    };
    let mut ask = |q: &str| {
        let mut call = || shelf.call("file.search", json!({ "q": q, "path": "/titled" }));
        let mut answers = std::iter::repeat_with(&mut call).take(1000);
        answers.find(|found| !is_unfinished(found)).unwrap()
    };
    for q in ["zanzibar", "zanzibar ferns", "\"zanzibar beyond\""] {
        let found = ask(q)["structuredContent"].clone();
        let results = found["results"].as_array().unwrap();
        let titled: Vec<_> =
            results.iter().filter(|one| one["title"] == "Zanzibar & beyond").collect();
        assert_eq!(titled.len(), files.len(), "{q}: {found}");
        assert_eq!(results[0]["title"], "Zanzibar & beyond", "{q}: {found}");
    }
    let none = ask("ferns -zanzibar");
    assert_eq!(none["structuredContent"]["total"], 0, "{none}");
    let left = &none["structuredContent"]["left_out"][0];
    assert_eq!((&left["why"], &left["count"]), (&json!("q"), &json!(7)), "{none}");
}

/// An answer without files says which condition left none.
#[test]
fn an_answer_without_files_says_what_left_them_out() {
    let mut shelf = Shelf::new();
    let mut ask = |arguments: Value| shelf.call("file.search", arguments);
    for (arguments, why) in [
        (json!({ "q": "quinces -quinces", "kinds": ["note"] }), json!(["q", "kinds"])),
        (json!({ "q": "quinces", "modified_before": "2001-01-01" }), json!(["modified"])),
        (json!({ "q": "\"no such phrase\" quinces", "path": "/note.md" }), json!(["q"])),
        (json!({ "q": "xyzzyplugh", "path": "/note.md" }), json!([])),
    ] {
        let answer = ask(arguments.clone());
        let found = &answer["structuredContent"];
        let left = found["left_out"].as_array().cloned().unwrap_or_default();
        let said: Vec<_> = left.iter().map(|left| left["why"].clone()).collect();
        assert_eq!((&found["total"], &json!(said)), (&json!(0), &why), "{arguments}: {answer}");
        let text = answer["content"][0]["text"].as_str().unwrap();
        let is_plain = text.starts_with("No file has any of these words.");
        assert_eq!(is_plain, why == json!([]), "{text}");
    }
}
