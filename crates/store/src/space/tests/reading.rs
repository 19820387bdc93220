//! Windows, matches, and what is remembered of a file.

use super::*;

#[test]
fn a_binary_file_is_refused_with_its_size_and_hash() {
    let rig = Rig::new();
    fs::write(rig.file("image"), [0xff, 0xd8, 0]).unwrap();
    let Err(Refusal::NotText { size_bytes, hash, .. }) = rig.read("image", 0, 0) else {
        panic!("expected not_text")
    };
    assert_eq!((size_bytes, hash), (3, ContentHash::digest(&[0xff, 0xd8, 0])));
    rig.inner().remove(&path("image"), hash).unwrap();
    assert!(rig.visible().is_empty());
}

#[test]
fn cursors_lead_to_the_end_of_a_file_and_become_stale_with_it() {
    let rig = Rig::with(FileLimits { read_budget: 100, ..FileLimits::default() });
    let text: String =
        (0..300).map(|line| format!("line {line} é\r\n")).chain(["x".repeat(1000)]).collect();
    rig.put("long.md", &text);
    let (mut from, mut whole) = (WindowStart::Range(LineRange::ALL), String::new());
    let last = loop {
        let window = rig.inner().read(&path("long.md"), &from, ReadAs::Recognised).unwrap();
        assert!(window.content.len() <= 100);
        whole.push_str(&window.content);
        match window.next {
            Some(next) => from = WindowStart::Cursor(next.cursor),
            None => break from,
        }
    };
    assert_eq!(whole, text);
    rig.put("long.md", "short");
    assert_eq!(code(rig.inner().read(&path("long.md"), &last, ReadAs::Recognised)), "stale");
}

#[test]
fn a_match_is_found_in_a_large_file() {
    let rig = Rig::new();
    let large: String = (0..200_000).map(|line| format!("filler {line}\n")).collect();
    let at = large.find("filler 150000").unwrap();
    let large = format!("{}# Überschrift\n{}", &large[..at], &large[at..]);
    rig.put("large.md", &large);
    let find = |q: &str, range| {
        rig.inner().read(
            &path("large.md"),
            &WindowStart::Match { range, query: LineQuery::new(q, 100).unwrap() },
            ReadAs::Recognised,
        )
    };
    std::thread::sleep(Duration::from_millis(30));
    for _ in 0..2 {
        let window = find("überSCHRIFT", LineRange::ALL).unwrap();
        assert_eq!(window.match_line, Some(150_001));
        assert!(window.content.starts_with("# Überschrift\nfiller 150000\n"));
    }
    assert_eq!(code(find("überschrift", LineRange(1, 150_001))), "no_match");
    assert_eq!(find("filler", LineRange(-3, 0)).unwrap().match_line, Some(199_999));
}

#[test]
fn the_facts_of_a_large_file_are_remembered() {
    let rig = Rig::new();
    let text: String = (0..400_000).map(|line| format!("{line}\n")).collect();
    rig.put("large", &text);
    let first = rig.read("large", 200_000, 200_003).unwrap();
    assert_eq!(first.content, "199999\n200000\n200001\n");
    let stamp = os::status(rig.inner().root.open_file(&path("large")).unwrap()).unwrap().stamp;
    assert!(rig.inner().memory().get(&stamp).is_some());
    assert_eq!(rig.read("large", -1, 0).unwrap().content, "399999\n");
    assert_eq!(rig.read("large", 1, 2).unwrap().hash, ContentHash::digest(text.as_bytes()));
}

#[test]
fn a_rewrite_of_the_same_size_is_read_again() {
    let rig = Rig::new();
    for round in 0..300u32 {
        // The write follows a read at once, so both writes have the same time if the clock is
        // coarse.
        let text = format!("{round:04}\n");
        rig.put("hot.md", &text);
        assert_eq!(rig.read("hot.md", 0, 0).unwrap().content, text);
        let text = format!("{:04}\n", round + 5000);
        rig.put("hot.md", &text);
        assert_eq!(rig.read("hot.md", 0, 0).unwrap().hash, hash(&text));
    }
}

#[test]
fn utf8_is_checked_across_pieces() {
    let rig = Rig::new();
    // A character of four bytes crosses every boundary of a piece.
    let text = "a".repeat(3) + &"🜨".repeat(400_000);
    rig.put("text", &text);
    assert_eq!(rig.read("text", 0, 0).unwrap().hash, hash(&text));
    let mut bytes = text.into_bytes();
    bytes.pop();
    fs::write(rig.file("cut"), bytes).unwrap();
    assert_eq!(code(rig.read("cut", 0, 0)), "not_text");
}

#[test]
fn a_derived_text_is_read_with_one_open_and_not_remembered() {
    let rig = Rig::new();
    rig.put("a.md", "# One\n");
    std::thread::sleep(Duration::from_millis(30));
    fault::calls();
    assert_eq!(rig.inner().read_text(&path("a.md"), 100), Ok("# One\n".to_owned()));
    assert_eq!(fault::calls(), [fault::Call::Open]);
    assert_eq!(rig.inner().memory().footprint(), 0);
    assert_eq!(code(rig.inner().read_text(&path("a.md"), 5)), "too_large");
}
