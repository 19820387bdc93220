//! Files in other encodings than UTF-8: read, searched, and edited without a change to other bytes.

use proptest::prelude::*;
use stile_domain::find::text_query::{LetterCase, QuerySyntax, TextQuery};
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::permit::Walk;
use stile_domain::text_encoding::{EncodingSource, TextEncoding};

use super::super::{LeftOutReason, SearchPage, TextSearch};
use super::*;

const GERMAN: &str = "Grüße aus Köln.\r\nDie Straße ist für Fußgänger geöffnet.\nzu Ende";
const JAPANESE: &str = "今日は天気がいいので、\n庭の手入れをしました。\n";

fn encoding(name: &str) -> TextEncoding {
    TextEncoding::named(name).unwrap()
}

fn encoded(name: &str, text: &str) -> Vec<u8> {
    encoding(name).encode(text).unwrap().into_owned()
}

/// Replaces a text in a file that has these bytes now.
fn replace(rig: &Rig, name: &str, (old, new): (&str, &str)) -> Result<EditedFile, Refusal> {
    let (old, new) = (old.to_owned(), new.to_owned());
    let base = ContentHash::digest(&fs::read(rig.file(name)).unwrap());
    let plan = Box::new(move |text: &str| Ok(text.replace(&old, &new)));
    rig.inner().edit(&path(name), base, ["lines", "old"], plan)
}

fn search(rig: &Rig, claim: &str, q: &str) -> SearchPage {
    let query = TextQuery::parse(q, QuerySyntax::Literal, LetterCase::Smart).unwrap();
    let search = TextSearch { query, glob: None, context: 0 };
    let permit = principal(claim).gate().permit::<Walk>(&SpacePath::root()).unwrap();
    let (cursor, cancellation) = (WalkCursor::default(), Cancellation::default());
    rig.inner().search_text(&permit, &search, cursor, &cancellation).unwrap()
}

#[test]
fn a_text_in_another_encoding_is_read_with_the_hash_and_the_size_of_its_bytes() {
    let rig = Rig::new();
    let with_mark = format!("\u{feff}{GERMAN}");
    for (name, text, source) in [
        ("windows-1252", GERMAN, EncodingSource::Guessed),
        ("utf-16le", &with_mark, EncodingSource::ByteOrderMark),
        ("utf-16be", &with_mark, EncodingSource::ByteOrderMark),
        ("shift_jis", JAPANESE, EncodingSource::Guessed),
    ] {
        let bytes = encoded(name, text);
        fs::write(rig.file("a.txt"), &bytes).unwrap();
        let window = rig.read("a.txt", 1, 0).unwrap();
        let text = text.trim_start_matches('\u{feff}');
        assert_eq!(window.content, text, "{name}");
        assert_eq!(window.encoding, Some((encoding(name), source)));
        let known = (ContentHash::digest(&bytes), bytes.len() as u64);
        assert_eq!((window.hash, window.size_bytes), known);
        assert_eq!(window.total_lines, text.lines().count() as u64);
        let second = rig.read("a.txt", 2, 3).unwrap();
        assert_eq!(Some(second.content.trim_end()), text.lines().nth(1));
        let query = LineQuery::new(text.lines().nth(1).unwrap(), 100).unwrap();
        let found = WindowStart::Match { range: LineRange::ALL, query };
        let found = rig.inner().read(&path("a.txt"), &found, ReadAs::Recognised).unwrap();
        assert_eq!(found.match_line, Some(2));
    }
}

#[test]
fn a_stated_encoding_decides_and_one_in_which_the_bytes_are_invalid_is_refused() {
    let rig = Rig::new();
    fs::write(rig.file("a"), encoded("koi8-r", "Привет, мир!\n")).unwrap();
    rig.put("plain", "a\0b");
    let read = |name: &str, stated: &str| {
        let from = WindowStart::Range(LineRange::ALL);
        rig.inner().read(&path(name), &from, ReadAs::Stated(encoding(stated)))
    };
    assert_eq!(read("a", "koi8-r").unwrap().content, "Привет, мир!\n");
    assert_ne!(read("a", "windows-1251").unwrap().content, "Привет, мир!\n");
    assert_eq!(code(read("a", "utf-8")), "bad_encoding");
    assert_eq!(code(read("a", "utf-16le")), "bad_encoding");
    let plain = read("plain", "utf-8").unwrap();
    assert_eq!((plain.content.as_str(), plain.encoding), ("a\0b", None));
    assert_eq!(rig.read("plain", 1, 0).unwrap().encoding, None);
}

#[test]
fn cursors_lead_through_the_whole_text_in_another_encoding() {
    let rig = Rig::with(FileLimits { read_budget: 20, ..FileLimits::default() });
    let text = JAPANESE.repeat(30);
    fs::write(rig.file("a"), encoded("euc-jp", &text)).unwrap();
    let (mut from, mut whole) = (WindowStart::Range(LineRange::ALL), String::new());
    loop {
        let window = rig.inner().read(&path("a"), &from, ReadAs::Recognised).unwrap();
        whole.push_str(&window.content);
        match window.next {
            Some(next) => from = WindowStart::Cursor(next.cursor),
            None => break,
        }
    }
    assert_eq!(whole, text);
}

#[test]
fn a_search_decodes_what_a_read_decodes_and_names_what_is_not_text() {
    let rig = Rig::new();
    fs::write(rig.file("a"), encoded("windows-1252", GERMAN)).unwrap();
    fs::write(rig.file("b"), encoded("utf-16le", &format!("\u{feff}{GERMAN}"))).unwrap();
    fs::write(rig.file("image"), b"\x89PNG\0\xff Fu\xc3\x9fg").unwrap();
    rig.put("zeros", "x\n\0\nFußgänger");
    let page = search(&rig, "read:/", "fußgänger");
    let hits: Vec<_> =
        page.hits.iter().map(|hit| (hit.path.as_str(), hit.line, hit.text.column)).collect();
    assert_eq!(hits, [("/a", 2, 20), ("/b", 2, 20), ("/zeros", 3, 1)]);
    for hit in &page.hits {
        let bytes = fs::read(rig.file(&hit.path.as_str()[1..])).unwrap();
        assert_eq!(hit.hash, ContentHash::digest(&bytes));
    }
    let left: Vec<_> =
        page.left_out.iter().map(|it| (it.why, it.count, it.first.as_str())).collect();
    assert_eq!((left, page.files_searched), (vec![(LeftOutReason::NotText, 1, "/image")], 3));
}

#[test]
fn names_that_no_path_can_hold_are_counted_once_in_what_the_caller_may_see() {
    let rig = Rig::new();
    for folder in ["a", "b", "b/c"] {
        fs::create_dir(rig.file(folder)).unwrap();
        rig.put(&format!("{folder}/back\\slash"), "x");
        rig.put(&format!("{folder}/x"), "x");
    }
    let no_path = |claim: &str| {
        let left = search(&rig, claim, "x").left_out;
        left.iter().map(|it| (it.why, it.count, it.first.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(no_path("read:/"), [(LeftOutReason::NoPath, 3, "/a".to_owned())]);
    assert_eq!(no_path("read:/ deny:/b/c"), [(LeftOutReason::NoPath, 1, "/a".to_owned())]);
    assert_eq!(no_path("read:/b/x"), []);
    let permit = principal("read:/").gate().permit::<Walk>(&SpacePath::root()).unwrap();
    let listed = rig.inner().list_tree(&permit, 2, WalkCursor::default()).unwrap();
    assert_eq!(listed.unnameable, 2);
}

#[test]
fn an_edit_is_refused_where_it_could_not_be_exact() {
    let rig = Rig::new();
    fs::write(rig.file("a"), encoded("windows-1252", GERMAN)).unwrap();
    let before = fs::read(rig.file("a")).unwrap();
    assert_eq!(code(replace(&rig, "a", ("Köln", "東京"))), "bad_encoding");
    let base = Base::Whole(ContentHash::digest(&before));
    assert_eq!(code(rig.append_with("a", base, "東京")), "bad_encoding");
    assert_eq!(code(rig.append_with("a", Base::Unread, "x")), "bad_encoding");
    // Two encodings of the same character: writing back would change one.
    let twice =
        [&encoded("shift_jis", JAPANESE)[..], &[0x87, 0x90, 0x81, 0xe0][..], b"\n"].concat();
    fs::write(rig.file("b"), &twice).unwrap();
    assert_eq!(rig.read("b", 1, 0).unwrap().encoding.unwrap().0, encoding("shift_jis"));
    assert_eq!(code(replace(&rig, "b", ("天気", "x"))), "bad_encoding");
    assert_eq!(
        (fs::read(rig.file("a")).unwrap(), fs::read(rig.file("b")).unwrap()),
        (before, twice)
    );
}

#[test]
fn an_append_is_in_the_encoding_of_the_file() {
    let rig = Rig::new();
    for name in ["utf-16be", "windows-1252"] {
        let mark = if name == "utf-16be" { "\u{feff}" } else { "" };
        fs::write(rig.file("a"), encoded(name, &format!("{mark}{GERMAN}"))).unwrap();
        let base = Base::Whole(ContentHash::digest(&fs::read(rig.file("a")).unwrap()));
        // A guess does not decide how a letter beyond ASCII is written.
        let added = |text: &str| edit::addition(text, "Größe\n");
        let append = |stated| {
            rig.inner().change(|change| change.append_text(&path("a"), (base, stated), &added))
        };
        if name == "windows-1252" {
            assert_eq!(code(append(None)), "bad_encoding");
        }
        let stated = (name == "windows-1252").then(|| encoding(name));
        let edited = append(stated).unwrap();
        let text = format!("{mark}{GERMAN}\r\nGröße\r\n");
        let now = fs::read(rig.file("a")).unwrap();
        assert_eq!(
            encoding(name).decode(&now).unwrap().replace("\r\n", "\n"),
            text.replace("\r\n", "\n")
        );
        assert_eq!((edited.hash, edited.total_lines), (ContentHash::digest(&now), 4));
    }
}

/// ASCII text in UTF-16 is valid UTF-8, with zeros in between.
#[test]
fn utf_16_in_disguise_is_read_searched_and_changed_as_utf_16() {
    let rig = Rig::new();
    for (name, lines) in [("utf-16le", 3), ("utf-16be", 3), ("utf-16le", 300_000)] {
        let text = "hello moss\n".repeat(lines);
        fs::write(rig.file("a"), encoded(name, &text)).unwrap();
        let window = rig.read("a", 1, 2).unwrap();
        assert_eq!(window.content, "hello moss\n");
        assert_eq!(window.encoding, Some((encoding(name), EncodingSource::Guessed)));
        if lines > 3 {
            // Nothing is decoded in pieces.
            assert_eq!(search(&rig, "read:/", "moss").left_out[0].why, LeftOutReason::NotText);
            continue;
        }
        assert_eq!(search(&rig, "read:/", "hello moss").hits.len(), lines);
        replace(&rig, "a", ("hello", "dear")).unwrap();
        let base = Base::Whole(ContentHash::digest(&fs::read(rig.file("a")).unwrap()));
        rig.append_with("a", base, "fern\n").unwrap();
        let now = format!("{}fern\n", text.replace("hello", "dear"));
        assert_eq!(fs::read(rig.file("a")).unwrap(), encoded(name, &now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// An edit changes the bytes of what it replaces, and no other.
    #[test]
    fn an_edit_leaves_all_other_bytes_alone(
        (name, before, after) in prop_oneof![
            ("windows-1252|iso-8859-15", "[a-zäöüß€ \n]{0,30}", "[a-zäöüß€ \r\n]{0,30}"),
            ("utf-16le|utf-16be", "\u{feff}[a-zäа-я世\n]{0,30}", "[a-z世界𝄞\r\n]{0,30}"),
            ("gbk", "[a-z今天我们\n]{0,30}", "[a-z今天我们\n]{0,30}"),
            ("shift_jis", "[a-zあ-ん今日\n]{0,30}", "[あ-ん今日\n]{0,30}"),
        ],
        new in "[a-z]{0,5}",
    ) {
        let rig = Rig::new();
        let [head, tail] = [&before, &after].map(|part| encoded(&name, part));
        let file = |middle: &str| [&head[..], &encoded(&name, middle), &tail].concat();
        fs::write(rig.file("a"), file("OLD")).unwrap();
        let edited = replace(&rig, "a", ("OLD", &new));
        let now = fs::read(rig.file("a")).unwrap();
        match edited {
            Ok(edited) => {
                prop_assert_eq!(edited.hash, ContentHash::digest(&now));
                prop_assert_eq!(now, file(&new));
            }
            Err(refusal) => {
                prop_assert!(["bad_encoding", "not_text"].contains(&refusal.code().0));
                prop_assert_eq!(now, file("OLD"));
            }
        }
    }
}
