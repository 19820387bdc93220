//! Checks that one pass over YAML returns the values that two passes return.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_saphyr::granit_parser::Parser;

use super::*;

/// Reads with both passes, whatever the text.
fn two_passes(front: &str) -> [Option<FrontMatterValue<'_>>; 2] {
    if front.len() > MAX_FRONT_MATTER_BYTES || !is_valid(front) {
        return [None, None];
    }
    let mut events =
        Parser::new_from_str(front).filter_map(|event| event.ok().map(|(event, _)| event));
    values_in_first_mapping(&mut events, ["a", "b"])
}

fn check(front: &str) -> Result<(), TestCaseError> {
    prop_assert!(
        !WatchedEvents::new(front).plain() || is_valid(front),
        "plain, but invalid: {:?}",
        front
    );
    prop_assert_eq!(values(front, ["a", "b"]), two_passes(front), "{:?}", front);
    Ok(())
}

/// Picks one of the texts, which are separated by `·`.
fn one_of(texts: &'static str) -> impl Strategy<Value = String> + Clone {
    select(texts.split('·').collect::<Vec<_>>()).prop_map(str::to_owned)
}

const SCALARS: &str = "a·b·x y·'a'·\"a\"·\"\\x61\"·\"\\L\\e\"·\"a·'·''··~·null·Null·nULL·true·True·\
    yes·Off·y·2025-03-01·1·0x1·+1·01·1_0·0o1·0b1·-0·1:30·170141183460469231731687303715884105728·\
    99999999999999999999999999999999999999999999·1.0·1e2·1e999·-9e400·+1e400·.inf·-.Inf·+.NAN·.nan·\
    .5·..·inf·infinity·nan·1e·\u{a0}1e999·1e999\u{a0}·1e999 ·<<·'<<'·=·!!str a·!!binary a·\
    !!binary YQ==·!!int a·!!null a·!!float .inf·!a b·!·! a·!<tag:yaml.org,2002:str> a·!!merge <<·\
    &x a·*x·&x·|\n    a\n    b·>-\n    a\n\n    b·|2\n   a·|·@·`·%a·- a·? a·: a·a: b·a:b·a #b·#b·\
    a#b·---·...·[·}·,·\u{e9}·\u{85}·\u{feff}·\u{2028}·\0·\u{7f}·\u{1f680}";

/// Makes nodes, most of them at valid positions.
fn node() -> impl Strategy<Value = String> + Clone {
    one_of(SCALARS).prop_recursive(3, 12, 4, |inner| {
        let comma = one_of(", ·,·,\n  · ,\t·, # c\n  ");
        let colon = one_of(": ·:· : ·:\t·:\n    ");
        let pair = (inner.clone(), colon, inner.clone())
            .prop_map(|(key, colon, value)| key + &colon + &value);
        prop_oneof![
            (vec(inner, 0..4), comma.clone())
                .prop_map(|(items, comma)| format!("[{}]", items.join(&comma))),
            (vec(pair.clone(), 0..4), comma.clone())
                .prop_map(|(pairs, comma)| format!("{{{}}}", pairs.join(&comma))),
            (vec(pair, 0..3), comma).prop_map(|(pairs, comma)| format!("[{}]", pairs.join(&comma))),
        ]
    })
}

/// Makes lines that are close to front matter.
fn lines() -> impl Strategy<Value = String> {
    let indent = prop_oneof![20 => Just(String::new()), 1 => one_of("  ·    · ·\t")];
    let start =
        prop_oneof![20 => Just(String::new()), 1 => one_of("- ·- - ·? ·: ·-\t·&x ·!!map ·!!set ")];
    let key = prop_oneof![10 => one_of("a·b·c·d·e·f·g·h·'a'·\"b\""), 1 => node()];
    let odd_colon = one_of(":· : ·:\t·:\n  ·:\n- ·:\n  - ·: # c\n  ");
    let colon = prop_oneof![10 => Just(": ".to_owned()), 1 => odd_colon];
    let usual = one_of("·x·1·'y'·[x, y]·{c: d}·|\n  x·\n  c: d\n  e: f·\n- x\n- c: d");
    let value = prop_oneof![3 => usual, 1 => node()];
    let entry =
        (indent, start, key, colon, value).prop_map(|(indent, start, key, colon, value)| {
            format!("{indent}{start}{key}{colon}{value}")
        });
    let odd = one_of("---·--- a·...·%YAML 1.2·%YAML 1.1·%TAG ! a:·%x y·# c··  ·\t·- a·- b·  - b·x");
    let line = prop_oneof![8 => entry, 1 => one_of("---·...·- a·- b"), 1 => odd];
    let first = one_of("·····\u{feff}·---\n·%YAML 1.2\n---\n·\n");
    (first, vec(line, 0..6), one_of("·\n"), one_of("\n·\n·\r\n·\r")).prop_map(
        |(first, lines, last, newline)| {
            format!("{first}{}{last}", lines.join("\n")).replace('\n', &newline)
        },
    )
}

const PIECES: &str = "a·b·c·: ·:·- ·-·? ·[·]·{·}·, ·,·\n·\n  ·\n·\n\n·\r\n·\t· ·'·\"·&x·*x·!!str ·\
    !·|·>·|+\n·#· # c·%·---\n·...\n·<<·~·1·0x1·1e999·.inf·\\·\u{feff}·\u{85}·a: 1\n·b: [x, y]\n·\
    c:\n  d: e\n";

/// Makes pieces of YAML in any order.
fn pieces() -> impl Strategy<Value = String> {
    vec(one_of(PIECES), 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn one_pass_agrees_with_two_on_lines(front in lines()) {
        check(&front)?;
    }

    #[test]
    fn one_pass_agrees_with_two_on_pieces(front in pieces()) {
        check(&front)?;
    }
}

#[test]
fn one_pass_agrees_with_two_at_the_edge_of_the_budget() {
    for depth in [MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH] {
        let block: String =
            (1..=depth).map(|indent| format!("\n{}c:", " ".repeat(indent))).collect();
        check(&format!("a: 1\nc: {}{}", "[".repeat(depth), "]".repeat(depth))).unwrap();
        check(&format!("a: 1\nc: {}{}", "{c: ".repeat(depth), "}".repeat(depth))).unwrap();
        check(&format!("a: 1\nc:{block}")).unwrap();
    }
    for items in [MAX_NODES - 4, MAX_NODES - 3, MAX_NODES - 2] {
        check(&format!("a: [{}]", "x,".repeat(items))).unwrap();
    }
    let most = MAX_FRONT_MATTER_BYTES / "\u{2028}".len();
    for escapes in [most - 1, most, most + 1] {
        check(&format!("a: \"{}\"", "\\L".repeat(escapes))).unwrap();
    }
}
