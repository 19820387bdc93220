//! Rules of style that no lint checks, for the source files of all crates.
//!
//! A test prints everything that it finds.

use std::collections::{BTreeMap, BTreeSet};

use crate::source_tree::{Item, SourceFile, Visibility, declared, items, rust_files};

/// Fails if there are findings.
fn assert_tidy(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}: {} found: {found:#?}", found.len());
}

/// A doc comment, and the line of code that it is for.
struct DocComment {
    /// The file and the number of the first line of the comment.
    position: String,
    /// The text, in one line.
    text: String,
    /// The first line after the comment and its attributes, without indentation.
    code: String,
}

fn doc_comments(file: &SourceFile) -> Vec<DocComment> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let is_doc = |line: &str| line.starts_with("///") && !line.starts_with("////");
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if !is_doc(lines[at]) {
            at += 1;
            continue;
        }
        let first = at;
        while lines.get(at).is_some_and(|line| is_doc(line)) {
            at += 1;
        }
        let text: Vec<&str> = lines[first..at].iter().map(|line| line[3..].trim()).collect();
        let mut after = at;
        while lines.get(after).is_some_and(|line| line.starts_with("#[")) {
            // An attribute of several lines ends with its bracket.
            while lines.get(after).is_some_and(|line| !line.ends_with(']')) {
                after += 1;
            }
            after += 1;
        }
        found.push(DocComment {
            position: format!("{}:{}", file.path, first + 1),
            text: text.join(" ").trim().to_owned(),
            code: lines.get(after).copied().unwrap_or_default().to_owned(),
        });
    }
    found
}

#[test]
fn a_public_type_name_occurs_in_one_crate() {
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Item { path, kind, visibility } in items(&rust_files()) {
        if matches!(kind, "struct" | "enum" | "trait" | "type")
            && visibility == Visibility::Public
            && let (Some((crate_name, _)), Some((_, name))) =
                (path.split_once("::"), path.rsplit_once("::"))
            // Members of traits and implementations are named by their traits.
            && !(kind == "type" && path.rsplit("::").nth(1).is_some_and(is_type_name))
        {
            crates.entry(name.to_owned()).or_default().insert(crate_name.to_owned());
        }
    }
    let found: Vec<String> = crates
        .into_iter()
        .filter(|(_, crates)| crates.len() > 1)
        .map(|(name, crates)| format!("{name} in {crates:?}"))
        .collect();
    assert_tidy("type names", &found);
}

fn is_type_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

#[test]
fn a_doc_comment_of_a_public_item_has_more_than_three_words() {
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| file.path.contains("/src/"))
        .flat_map(doc_comments)
        .filter(|doc| doc.code.starts_with("pub ") && doc.text.split_whitespace().count() <= 3)
        .map(|doc| format!("{} `{}` of `{}`", doc.position, doc.text, doc.code))
        .collect();
    assert_tidy("short docs", &found);
}

#[test]
fn no_doc_comment_is_a_lone_pronoun() {
    const PRONOUNS: &[&str] =
        &["it", "they", "them", "this", "that", "these", "those", "which", "itself", "the same"];
    let found: Vec<String> = rust_files()
        .iter()
        .flat_map(doc_comments)
        .filter(|doc| PRONOUNS.contains(&doc.text.trim_end_matches('.').to_lowercase().as_str()))
        .map(|doc| format!("{} `{}`", doc.position, doc.text))
        .collect();
    assert_tidy("lone pronouns", &found);
}

#[test]
fn no_public_function_takes_a_bool() {
    let mut found = Vec::new();
    for file in rust_files().iter().filter(|file| file.path.contains("/src/")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(("fn", name, Visibility::Public)) = declared(line.trim_start()) else {
                continue;
            };
            let mut signature = String::new();
            for line in &lines[index..] {
                signature.push_str(line);
                if line.ends_with(['{', ';', '}']) {
                    break;
                }
            }
            if signature.contains(": bool,") || signature.contains(": bool)") {
                found.push(format!("{} fn {name}", file.path));
            }
        }
    }
    assert_tidy("bool parameters", &found);
}

#[test]
fn every_source_file_says_at_its_head_what_it_is_for() {
    let mut found = Vec::new();
    for file in rust_files() {
        // Programs that must not compile: the name of each is the rule that it breaks.
        let must_not_compile = file.path.contains("/tests/unauthorized/");
        if file.head().is_empty() && !must_not_compile {
            found.push(format!("{} has no head", file.path));
        }
    }
    assert_tidy("heads", &found);
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut found = Vec::new();
    for file in rust_files() {
        let in_literals = lines_with_literals(&file.text);
        let is_test = !file.path.contains("/src/");
        for (index, line) in file.text.lines().enumerate() {
            // Tables in tests are rows that `cargo fmt` leaves alone.
            let is_table = is_test && line.trim_start().starts_with('(');
            if line.chars().count() > 100 && !in_literals.contains(&index) && !is_table {
                found.push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    assert_tidy("long lines", &found);
}

/// Returns the indices of the lines that hold a part of a string literal.
fn lines_with_literals(text: &str) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut line = 0;
    let mut rest = text;
    // The text that ends the literal or comment that is open.
    let mut closing: Option<String> = None;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match &closing {
            Some(end) => {
                let is_comment = end == "\n";
                if !is_comment {
                    found.insert(line);
                }
                if end == "\"" && c == '\\' {
                    let escaped = rest[1..].chars().next();
                    length +=
                        if escaped == Some('\n') { 0 } else { escaped.map_or(0, char::len_utf8) };
                } else if rest.starts_with(end.as_str()) {
                    length = end.len();
                    closing = None;
                }
            }
            None if rest.starts_with("//") => closing = Some("\n".to_owned()),
            None if c == '"' => closing = Some("\"".to_owned()),
            None if rest.starts_with("'\"'") || rest.starts_with("'\\'") => length = 3,
            None if rest.starts_with("'\\\"'") || rest.starts_with("'\\\\'") => length = 4,
            None if rest.starts_with("r\"") || rest.starts_with("r#") => {
                let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
                if rest[1 + hashes..].starts_with('"') {
                    length = 2 + hashes;
                    closing = Some(format!("\"{}", "#".repeat(hashes)));
                }
            }
            None => {}
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

#[test]
fn only_lines_of_literals_may_be_long() {
    let text = "let a = \"one\n two\"; // \" is not open\nlet b = '\"';\nlet c = r#\"x\"\n\"#;\n";
    assert_eq!(lines_with_literals(text), BTreeSet::from([0, 1, 3, 4]));
}

/// A wait that uses the wall clock ends too early or never when its owner sets the clock.
#[test]
fn the_wall_clock_is_read_in_one_place_and_moved_by_tests_only() {
    let is_program = |file: &SourceFile| {
        let path = &file.path;
        let is_source = path.contains("/src/") && !path.starts_with("crates/testkit/");
        is_source && !path.ends_with("/tests.rs") && path != "crates/store/src/clock.rs"
    };
    let files = rust_files();
    let readings = files.iter().filter(|file| is_program(file)).flat_map(|file| {
        let words = ["SystemTime::now", "move_wall_clock"];
        let is_reading = move |line: &str| words.iter().any(|word| line.contains(word));
        let lines = file.text.lines().enumerate().filter(move |(_, line)| is_reading(line));
        lines.map(|(number, _)| format!("{}:{}", file.path, number + 1))
    });
    assert_tidy("readings of the wall clock", &readings.collect::<Vec<_>>());
}

/// Two places that compare a record's time with a grant's would sooner or later differ in what a
/// client may see.
#[test]
fn a_records_time_is_compared_with_a_grants_in_one_place() {
    let may_see_bounds = [
        // The rule itself.
        "crates/domain/src/records/visible_time.rs",
        // The terms of a grant, which are made into the rule.
        "crates/domain/src/records/grant.rs",
        // The rule as conditions of a query.
        "crates/store/src/records/rows/filter.rs",
        // What the owner allowed, as a sentence and as the form to change it.
        "crates/server/src/pages/grant_words.rs",
        "crates/server/src/sign_in/record_choices.rs",
        // That a grant which is read has a bound at all.
        "fuzz/src/bin/record_requests.rs",
    ];
    let is_program = |file: &SourceFile| {
        let is_test = file.path.contains("/tests") || file.path.contains("_tests");
        file.path.contains("/src/") && !is_test && !may_see_bounds.contains(&file.path.as_str())
    };
    // The fields of the terms and of the rule are private, so nothing else leads to the bounds.
    let names = ["VisibleBound", "VisibleTime::new", "::stated_bounds", ".stated_bounds"];
    let files = rust_files();
    let found = files.iter().filter(|file| is_program(file)).flat_map(|file| {
        let lines = file.text.lines().enumerate();
        let lines = lines.filter(move |(_, line)| names.iter().any(|name| line.contains(name)));
        lines.map(|(number, _)| format!("{}:{}", file.path, number + 1))
    });
    assert_tidy("uses of the bounds of a grant's time", &found.collect::<Vec<_>>());
}
