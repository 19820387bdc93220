//! Tests of the split of a mailbox into messages.

use std::io::BufReader;

use proptest::prelude::*;

use super::*;

const FROM: &str = "From ann@example.org Thu Jan  1 00:00:00 2026\n";

fn all(text: &[u8], size: usize, max_bytes: usize) -> Vec<RawMessage> {
    let mut mailbox =
        Mailbox::with_max_message_bytes(BufReader::with_capacity(size, text), max_bytes);
    let mut messages = Vec::new();
    while let Some(message) = mailbox.next_message().unwrap() {
        messages.push(message);
    }
    assert_eq!(mailbox.next_message().unwrap(), None);
    messages
}

fn messages_of(text: &str) -> Vec<(u64, Result<String, &'static str>)> {
    let messages = all(text.as_bytes(), 7, MAX_MESSAGE_BYTES).into_iter();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    messages.map(|raw| (raw.line, raw.message.map(text).map_err(RawMessageError::code))).collect()
}

#[test]
fn messages_are_returned_as_they_were_sent() {
    let good = |line, text: &str| (line, Ok(text.to_owned()));
    let mailbox = format!(
        "\n{FROM}A: b\n\ntext\n>From here\n>>From there\n> quoted\n>Fromage\n\n\
         {FROM}A: c\n\n\nend\n"
    );
    assert_eq!(
        messages_of(&mailbox),
        [
            good(2, "A: b\n\ntext\nFrom here\n>From there\n> quoted\n>Fromage\n"),
            good(11, "A: c\n\n\nend\n")
        ]
    );
    assert_eq!(messages_of(&mailbox.replace('\n', "\r\n")).len(), 2);
    assert_eq!(messages_of(&mailbox.replace('\n', "\r\n"))[1], good(11, "A: c\r\n\r\n\r\nend\r\n"));
    assert_eq!(messages_of(&format!("\u{feff}{FROM}\n{FROM}A: b")), [good(1, ""), good(3, "A: b")]);
    assert_eq!(messages_of(""), []);
    assert_eq!(messages_of("\n \n"), []);
}

#[test]
fn a_from_line_has_a_date_an_address_or_nothing_and_a_header_follows_it() {
    for line in [
        "From here on it is dark\nA: b\n",
        "From May to 2026 nothing\nA: b\n",
        "From jan 10:30\nA: b\n",
        "From: ann Thu Jan 1 00:00:00 2026\nA: b\n",
        "From Berlin we go on Mar 4 at 10:00:00 in 2025 by train\nand so on\n",
        "From Berlin we go on Mar 4 at 10:00:00 in 2025 by train\n\nA: b\n",
        "From \nhere\n",
        "From ann@example.org\nhttps://example.org\n",
        "From ann@example.org\n: no name\n",
        "From ann@example.org",
    ] {
        let text = format!("A: b\n\n{line}");
        let expected = vec![(1, Ok(text.clone()))];
        assert_eq!(messages_of(&format!("{FROM}{text}")), expected, "{line}");
    }
    for line in [
        "From - Mon Mar 02 09:00:01 2026\n",
        "From 1790@xxx Sat Mar 07 09:15:02 +0000 2026\n",
        "From MAILER-DAEMON Fri Jul  8 12:08:34 2011\n",
        "From ann@example.org  Fri JUL 8 12:08 2011 remote from there\r\n",
        "From \n",
        "From \r\n",
        "From ann@example.org\n",
        "From - \n",
        "From ann@example.org Mo 3 Mrz 2025\n",
    ] {
        for blank in ["", "\n"] {
            for header in ["A: c\n\nx\n", ">From b@x.org Thu Jan  1 00:00:00 2026\nA: c\n"] {
                let found = messages_of(&format!("{line}A: b\n\ntext\n{blank}{line}{header}"));
                assert_eq!(found.len(), 2, "{line}");
                assert_eq!(found[0], (1, Ok("A: b\n\ntext\n".to_owned())), "{line}");
            }
        }
    }
}

#[test]
fn a_patch_is_an_attachment_within_parts_and_else_a_message() {
    let patch = "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n\
                 From: Ann <ann@example.org>\nSubject: [PATCH]\n\n";
    for end in ["\n", "\r\n"] {
        let mail = format!(
            "{FROM}Content-Type: multipart/mixed;\n boundary=\"=_x\"\n\n--=_x\n\ntext\n\n--=_x\n\n\
             {patch}{patch}--=_x--\n\n{FROM}A: b\n\n{patch}"
        );
        let lines: Vec<u64> =
            messages_of(&mail.replace('\n', end)).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 21, 24]);
    }
    let patches = messages_of(&[patch, patch].concat());
    assert_eq!(patches.len(), 2, "a file of patches is a mailbox");
    let cut = format!("{FROM}Content-Type: multipart/mixed; boundary=x\n\n--x\n\n{FROM}A: b\n");
    assert_eq!(messages_of(&cut).len(), 2, "a message without its end");
}

#[test]
fn a_message_that_is_too_large_is_refused_and_the_others_are_read() {
    assert_eq!(messages_of("Subject: no mailbox\n\nFrom a\n"), [(1, Err("not_a_mailbox"))]);
    assert_eq!(messages_of(&format!("\n x\n{FROM}")), [(2, Err("not_a_mailbox"))]);
    let long = format!(
        "{FROM}A: b\n\n{}\n\n{FROM}A: c\n\n{FROM}{}\n{FROM}A: d\n",
        "x".repeat(100),
        "y:y\n".repeat(50)
    );
    for size in [1, 9, 4096] {
        let messages = all(long.as_bytes(), size, 90);
        let found: Vec<_> =
            messages.iter().map(|raw| (raw.line, raw.message.as_ref().map(Vec::len))).collect();
        assert_eq!(
            found,
            [
                (1, Err(&RawMessageError::TooLarge)),
                (6, Ok(5)),
                (9, Err(&RawMessageError::TooLarge)),
                (61, Ok(5))
            ]
        );
    }
}

proptest! {
    #[test]
    fn a_mailbox_is_the_messages_that_were_written(
        messages in prop::collection::vec(
            prop::collection::vec("(From |>From |>>From |From: | |x|>){0,3}[a-z]{0,3}", 0..6)
                .prop_map(|lines| [vec!["A: b".to_owned()], lines].concat()),
            1..5,
        ),
        size in 1..40_usize,
        crlf in any::<bool>(),
    ) {
        let newline = if crlf { "\r\n" } else { "\n" };
        let from = FROM.replace('\n', newline);
        let with_newlines = |lines: &Vec<String>| -> String {
            lines.iter().map(|line| format!("{line}{newline}")).collect()
        };
        let spelled: Vec<String> = messages.iter().map(with_newlines).collect();
        let quoted = |text: &String| -> String {
            let quoted = |line: &str| {
                let is_from = line.trim_start_matches('>').starts_with("From ");
                if is_from { format!(">{line}") } else { line.to_owned() }
            };
            text.split_inclusive('\n').map(quoted).collect()
        };
        let mailbox: String =
            spelled.iter().map(|text| format!("{from}{}{newline}", quoted(text))).collect();
        let read = all(mailbox.as_bytes(), size, MAX_MESSAGE_BYTES).into_iter();
        let read: Vec<Vec<u8>> = read.map(|raw| raw.message.unwrap()).collect();
        prop_assert_eq!(read, spelled.into_iter().map(String::into_bytes).collect::<Vec<_>>());
    }

    #[test]
    fn the_size_of_the_buffer_does_not_change_the_messages(
        pieces in prop::collection::vec(prop::sample::select(vec![
            FROM.as_bytes(), b"\n", b"\r\n", b"From ", b">", b"x", b"\xff\0", b"A: b\n",
            b"jan 10:30 2026",
        ]), 0..30),
        size in 1..20_usize,
        max_bytes in 1..80_usize,
    ) {
        let bytes = pieces.concat();
        let whole = all(&bytes, 4096, max_bytes);
        let is_short = |raw: &RawMessage| raw.message.as_ref().map_or(0, Vec::len) <= max_bytes;
        prop_assert!(whole.iter().all(is_short));
        prop_assert_eq!(&whole, &all(&bytes, size, max_bytes));
        // Cut anywhere, the messages before the cut are the same.
        let cut = bytes.len() * size / 20;
        let before = all(&bytes[..cut], 4096, max_bytes);
        let same = before.len().saturating_sub(1);
        prop_assert_eq!(&before[..same], &whole[..same]);
    }
}
