//! Tests of archives as services make them, and of hostile ones.

use stile_testkit::zip::{Member, Zip};

use super::*;

struct Made {
    folder: tempfile::TempDir,
}

fn made(bytes: &[u8]) -> (Made, io::Result<Archive>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("export.zip");
    std::fs::write(&path, bytes).unwrap();
    let archive = Archive::open(&path);
    (Made { folder }, archive)
}

fn archive(bytes: &[u8]) -> Archive {
    made(bytes).1.unwrap()
}

fn content(archive: &Archive, name: &str) -> io::Result<Vec<u8>> {
    let entry = archive.entries().iter().find(|entry| entry.name == name).unwrap();
    let mut bytes = Vec::new();
    archive.read(entry)?.read_to_end(&mut bytes).map(|_| bytes)
}

fn names(archive: &Archive) -> Vec<&str> {
    archive.entries().iter().map(|entry| entry.name.as_str()).collect()
}

fn codes(archive: &Archive) -> Vec<(&str, &str)> {
    archive.refused().iter().map(|refused| (refused.name.as_str(), refused.error.code())).collect()
}

#[test]
fn a_folder_and_its_zip_file_have_the_same_entries() {
    let long = "many words ".repeat(100_000);
    let zip = Zip::default()
        .with(&Member::stored("a/", b""))
        .with(&Member::stored("a/one.json", b"[1]"))
        .with(&Member::deflated("a/b/two.json", long.as_bytes()))
        .with(&Member::stored("empty", b""))
        .with(&Member::stored("__MACOSX/a/._one.json", b"x"))
        .with(&Member::stored("a/.DS_Store", b"x"))
        .finish();
    let (made, zipped) = made(&zip);
    let unpacked = made.folder.path().join("unpacked");
    std::fs::create_dir_all(unpacked.join("a/b")).unwrap();
    for (name, text) in
        [("a/one.json", "[1]"), ("a/b/two.json", &long), ("empty", ""), ("a/.DS_Store", "x")]
    {
        std::fs::write(unpacked.join(name), text).unwrap();
    }
    for archive in [zipped.unwrap(), Archive::open(&unpacked).unwrap()] {
        let mut found = names(&archive);
        found.sort_unstable();
        assert_eq!(found, ["a/b/two.json", "a/one.json", "empty"]);
        assert_eq!(content(&archive, "a/one.json").unwrap(), b"[1]");
        assert_eq!(content(&archive, "a/b/two.json").unwrap(), long.as_bytes());
        assert_eq!(
            content(&archive, "a/b/two.json").unwrap().len(),
            long.len(),
            "an entry can be read again"
        );
        assert_eq!(
            (content(&archive, "empty").unwrap(), codes(&archive)),
            (Vec::new(), Vec::new())
        );
    }
    let single = Archive::open(&unpacked.join("a/one.json")).unwrap();
    assert_eq!(
        (names(&single), content(&single, "one.json").unwrap()),
        (vec!["one.json"], b"[1]".to_vec())
    );
}

#[test]
fn an_unsafe_or_unsupported_entry_is_refused_alone() {
    let mut zip = Zip::default().with(&Member::stored("good", b"good"));
    for name in ["../up", "a/../../up", "/etc/hosts", "a\\b", "C:x", "a//b", "./a", "a\nb", "a\0b"]
    {
        zip = zip.with(&Member::stored(name, b"x"));
    }
    let plain = Member::stored("x", b"x");
    zip = zip
        .with(&Member { name: b"\xff".to_vec(), ..plain.clone() })
        .with(&Member { name: b"secret".to_vec(), flags: 1, ..plain.clone() })
        .with(&Member { name: b"odd".to_vec(), method: 12, ..plain.clone() })
        .with(&Member { name: b"link".to_vec(), attributes: 0o120_777 << 16, ..plain.clone() })
        .with(&Member::stored("good", b"other"));
    let archive = archive(&zip.finish());
    assert_eq!(
        (names(&archive), content(&archive, "good").unwrap()),
        (vec!["good"], b"good".to_vec())
    );
    let unsafe_names = [
        "../up", "a/../../up", "/etc/hosts", "a\\b", "C:x", "a//b", "./a", "a?b", "a?b", "\u{fffd}",
    ];
    let mut expected: Vec<_> = unsafe_names.iter().map(|&name| (name, "unsafe_name")).collect();
    expected.extend([
        ("secret", "encrypted"),
        ("odd", "unsupported_method"),
        ("link", "link"),
        ("good", "duplicate_entry"),
    ]);
    assert_eq!(codes(&archive), expected);
}

#[test]
fn an_entry_that_differs_from_its_stated_size_or_checksum_is_an_error() {
    let honest = Member::deflated("a", &vec![0; 50_000_000]);
    assert!(honest.data.len() < 100_000);
    for (what, member) in [
        ("holds more than it says", Member { size: 1000, ..honest.clone() }),
        ("is shorter than it says", Member { size: 50_000_001, ..honest.clone() }),
        ("is damaged", Member { crc: 7, ..honest.clone() }),
        ("", Member { data: honest.data[..1000].to_vec(), ..honest.clone() }),
        ("", Member { data: vec![0xff; 50], ..honest.clone() }),
        ("", honest.clone()),
    ] {
        let archive = archive(&Zip::default().with(&member).finish());
        let mut reader = archive.read(&archive.entries()[0]).unwrap();
        let (mut buffer, mut count) = (vec![0; 1 << 16], 0);
        let ended = loop {
            match reader.read(&mut buffer) {
                Ok(0) => break None,
                Ok(more) => count += more,
                Err(error) => break Some(error),
            }
        };
        assert!(count <= member.size as usize, "never more than the stated size");
        match ended {
            None => assert_eq!((count, what), (50_000_000, "")),
            Some(error) => assert!(error.to_string().contains(what), "{error}"),
        }
    }
}

#[test]
fn a_zip_bomb_is_refused_before_any_entry_is_read() {
    let bomb = Member { size: u32::MAX, ..Member::deflated("a", &[0; 1000]) };
    let mut zip = Zip::default().with(&bomb);
    let (_made, refused) = made(&std::mem::take(&mut zip).finish());
    assert!(refused.unwrap_err().to_string().contains("1,000 times its own size"));
    // Many entries share their data, and none of them alone expands by much.
    let shared = Member::deflated("a", &vec![b'x'; 1_000_000]);
    zip = zip.with(&shared);
    for number in 0..20_000 {
        zip.entry(&Member { name: format!("n{number}").into(), ..shared.clone() }, 0);
    }
    let (_made, refused) = made(&zip.finish());
    assert!(refused.unwrap_err().to_string().contains("1,000 times its own size"));
}

#[test]
fn a_truncated_zip_file_is_an_error() {
    let whole = Zip::default()
        .with(&Member::stored("a", b"content"))
        .with(&Member::stored("b", b"more"))
        .finish();
    for length in 4..whole.len() {
        let (_made, opened) = made(&whole[..length]);
        if let Ok(archive) = opened {
            assert!(
                archive.entries().iter().all(|entry| content(&archive, &entry.name).is_err()),
                "{length}"
            );
        }
    }
    let mut many = Zip::default();
    for number in 0..1100 {
        many.entry(&Member::stored(&format!("../{number}"), b""), 0);
    }
    let (_made, refused) = made(&Zip::default().with(&Member::stored("a", b"")).finish());
    assert!(refused.is_ok());
    let (_made, refused) = made(&many.with(&Member::stored("a", b"")).finish());
    assert!(refused.unwrap_err().to_string().contains("more than 1,000 entries"));
}
