//! Tests of rewriting: examples of each style, and a random vault against a slow oracle.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn path(text: &str) -> SpacePath {
    SpacePath::parse(text).unwrap()
}

/// Wants and adds every file, for a note that has these links.
fn files<'p>(
    text: &str,
    paths: impl IntoIterator<Item = &'p str>,
    moved: [&str; 2],
) -> LinkedFiles {
    let facts = NoteFacts::of(text).unwrap();
    let wanted = LinkedFiles::for_targets(facts.links.iter().map(|link| &link.target));
    let mut files = wanted.and_for_path(&path(moved[0])).and_for_path(&path(moved[1]));
    paths.into_iter().for_each(|file| files.add(path(file)));
    files
}

/// Returns the text of the note at `at` after the file moved.
fn rewritten(text: &str, at: &str, paths: &[&str], [from, to]: [&str; 2]) -> String {
    let files = files(text, paths.iter().copied(), [from, to]);
    let moved = MovedFile::new(path(from), path(to), &files, RewritePass::First);
    let done = moved.rewrite(&path(if at == from { to } else { at }), text);
    assert_eq!((done.unspellable, done.ambiguous), (0, 0), "{text}");
    done.text.unwrap_or_else(|| text.to_owned())
}

#[test]
fn a_link_is_rewritten_in_its_own_style() {
    let files = ["/f/a.md", "/x.md", "/g/y.md"];
    let moved = ["/f/a.md", "/h/i/b c.md"];
    for (at, old, new) in [
        ("/x.md", "[[a]]", "[[b c]]"),
        ("/x.md", "[[a.md]]", "[[b c.md]]"),
        ("/x.md", "[[ A |x]] ![[a#One]]", "[[ b c |x]] ![[b c#One]]"),
        ("/x.md", "| [[a\\|x]] | b |\n", "| [[b c\\|x]] | b |\n"),
        ("/x.md", "[[f/a]] [[/f/a]] [[./f/a]]", "[[h/i/b c]] [[/h/i/b c]] [[./h/i/b c]]"),
        ("/g/y.md", "[[../f/a#^b]]", "[[../h/i/b c#^b]]"),
        ("/g/y.md", "[x](../f/a.md \"t\")", "[x](../h/i/b%20c.md \"t\")"),
        ("/g/y.md", "[x](<../f/a.md#H>)", "[x](<../h/i/b c.md#H>)"),
        ("/x.md", "[x](f/a.md) ![](f/a)", "[x](h/i/b%20c.md) ![](h/i/b%20c)"),
        ("/g/y.md", "[x](f/a.md) [x](/f/a.md)", "[x](h/i/b%20c.md) [x](/h/i/b%20c.md)"),
        ("/x.md", "[x][r] [r]\n\n[r]: f/a.md\n", "[x][r] [r]\n\n[r]: h/i/b%20c.md\n"),
        ("/x.md", "`[[a]]` [[none]] [x](https://a.example/a)\r\n", ""),
        (
            "/x.md",
            "\u{feff}---\na: 1\n---\r\nq\0 [[a]]\r\n",
            "\u{feff}---\na: 1\n---\r\nq\0 [[b c]]\r\n",
        ),
    ] {
        let new = if new.is_empty() { old } else { new };
        assert_eq!(rewritten(old, at, &files, moved), new, "{at} {old}");
    }
}

#[test]
fn a_name_that_is_still_enough_stays_and_one_that_is_not_becomes_longer() {
    let moved = ["/f/a.md", "/h/a.md"];
    assert_eq!(rewritten("[[a]]", "/x.md", &["/f/a.md"], moved), "[[a]]");
    let twice = ["/f/a.md", "/a/a/a.md"];
    assert_eq!(rewritten("[[a]]", "/x.md", &twice, ["/f/a.md", "/a/b/c/a.md"]), "[[c/a]]");
    // A Markdown link is also for readers that look for no name.
    assert_eq!(rewritten("[x](a.md)", "/f/x.md", &["/f/a.md"], moved), "[x](../h/a.md)");
}

#[test]
fn a_link_to_another_file_whose_name_the_moved_file_takes_is_rewritten() {
    let files = ["/f/b.md", "/g/h/a.md"];
    let moved = ["/f/b.md", "/a.md"];
    assert_eq!(rewritten("[[a]] [[b]]", "/x.md", &files, moved), "[[h/a]] [[a]]");
}

#[test]
fn links_of_the_moved_note_follow_its_folder() {
    let files = ["/f/a.md", "/f/b.md", "/c.md", "/f/i.png"];
    let text = "[[b]] [x](b.md) ![](i.png) [[../c]] [y](../c.md) [[a#One]] [z](a.md) [[#One]]";
    let new = "[[b]] [x](../../f/b.md) ![](../../f/i.png) [[../../c]] [y](../../c.md) [[n#One]] \
               [z](n.md) [[#One]]";
    assert_eq!(rewritten(text, "/f/a.md", &files, ["/f/a.md", "/g/h/n.md"]), new);
}

#[test]
fn characters_are_encoded_as_the_link_does_and_as_it_must() {
    for (old, to, new) in [
        ("[x](a.md)", "/é (1).md", "[x](é%20%281%29.md)"),
        ("[x](%C3%A4.md)", "/é.md", "[x](%C3%A9.md)"),
        ("[x](<a.md>)", "/é (1) %.md", "[x](<é (1) %25.md>)"),
        ("[x](a.md)", "/f/a:b.md", "[x](f/a:b.md)"),
        ("[x](a.md)", "/ab:c.md", "[x](./ab:c.md)"),
        ("[x](a.md)", "/[[b]] `c`.md", "[x](%5B%5Bb%5D%5D%20%60c%60.md)"),
    ] {
        let from = if old.contains("%C3") { "/ä.md" } else { "/a.md" };
        assert_eq!(rewritten(old, "/x.md", &[from], [from, to]), new);
    }
}

#[test]
fn links_in_properties_and_canvas_files_follow() {
    let from = "/f/a.md";
    for (at, old, to, new) in [
        (
            "/x.md",
            "\u{feff}---\r\nup: \"[[a]]\" # why\r\nrel:\r\n  - '[[f/a#h|al]]'\r\n---\r\n[^1]\r\n\r\n[^1]: [[a]]\r\n",
            "/g/b's.md",
            "\u{feff}---\r\nup: \"[[b's]]\" # why\r\nrel:\r\n  - '[[g/b''s#h|al]]'\r\n---\r\n[^1]\r\n\r\n[^1]: [[b's]]\r\n",
        ),
        (
            "/x.canvas",
            "{\"nodes\":[{\"type\":\"file\",\"file\":\"f/a.md\"},\n{\"type\":\"text\",\"text\":\"\\u00e9\\n[[a]] [t](f/a.md)\"},{\"type\":\"file\",\"file\":\"a.md\"}]}",
            "/g/b\"s.md",
            "{\"nodes\":[{\"type\":\"file\",\"file\":\"g/b\\\"s.md\"},\n{\"type\":\"text\",\"text\":\"\\u00e9\\n[[b\\\"s]] [t](g/b\\\"s.md)\"},{\"type\":\"file\",\"file\":\"a.md\"}]}",
        ),
    ] {
        let mut files = LinkedFiles::for_path(&path(from)).and_for_path(&path(to));
        files.add(path(from));
        let moved = MovedFile::new(path(from), path(to), &files, RewritePass::First);
        assert!(moved.concerns(&path(at), &facts_of_file(at, old).unwrap()));
        let done = moved.rewrite(&path(at), old);
        assert_eq!((done.text.as_deref(), done.unspellable), (Some(new), 0), "{at}");
    }
}

#[test]
fn a_path_that_a_wikilink_cannot_hold_is_left_and_counted() {
    for to in ["/a#b.md", "/a|b.md", "/[a].md"] {
        let files = files("[[a]]", ["/a.md"], ["/a.md", to]);
        let moved = MovedFile::new(path("/a.md"), path(to), &files, RewritePass::First);
        let done = moved.rewrite(&path("/x.md"), "[[a]]");
        assert_eq!((done.text, done.unspellable), (None, 1), "{to}");
    }
}

#[test]
fn a_second_pass_rewrites_what_leads_nowhere_and_leaves_what_may_be_meant() {
    let text = "[[a]] [[b]] [[f/b]]";
    let files = files(text, ["/a.md", "/g/h/a.md"], ["/f/b.md", "/a.md"]);
    let moved = MovedFile::new(path("/f/b.md"), path("/a.md"), &files, RewritePass::Again);
    let done = moved.rewrite(&path("/x.md"), text);
    assert_eq!(done.text.as_deref(), Some("[[a]] [[a]] [[a]]"));
    assert_eq!((done.changes.len(), done.ambiguous), (2, 1));
}

/// A few names, so that files compete for links.
fn names() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "/a.md", "/b.md", "/A.md", "/f/a.md", "/f/b.md", "/f/g/a.md", "/f/g/c d.md", "/h/a.md",
        "/h/a b.md", "/h/i.png", "/i.png", "/g/a.md", "/f/v1.2.md", "/g/v1.2.md", "/h/ä.md",
    ])
    .prop_map(str::to_owned)
}

fn targets() -> impl Strategy<Value = String> {
    let folders =
        proptest::sample::select(vec!["", "f/", "f/g/", "/", "./", "../", "../f/", "h/", "g/"]);
    let names = proptest::sample::select(vec![
        "a", "b", "a.md", "b.md", "A", "c d", "a b.md", "i.png", "v1.2", "ä", "none",
    ]);
    (folders, names).prop_map(|(folder, name)| format!("{folder}{name}"))
}

fn links() -> impl Strategy<Value = String> {
    (targets(), 0..8_usize).prop_map(|(target, form)| {
        let encoded = target.replace(' ', "%20");
        match form {
            0 => format!("[[{target}]]"),
            1 => format!("![[{target}#One|x]]"),
            2 => format!("[[{target}|a b]]"),
            3 => format!("[x]({encoded})"),
            4 => format!("[x](<{target}> \"t\")"),
            5 => format!("![x]({encoded}#One)"),
            6 => format!("`[[{target}]]`"),
            _ => format!("[x][r{}]\n\n[r{0}]: {encoded}\n\n", encoded.len()),
        }
    })
}

type Vault = BTreeMap<String, String>;

/// Returns where each link of each note leads, the slow way: among all files.
fn led(vault: &Vault) -> BTreeMap<&str, Vec<Option<SpacePath>>> {
    let notes = vault.iter().filter(|(name, _)| name.ends_with(".md"));
    notes
        .map(|(name, text)| {
            let facts = NoteFacts::of(text).unwrap();
            let mut all = LinkedFiles::for_targets(facts.links.iter().map(|link| &link.target));
            vault.keys().for_each(|file| all.add(path(file)));
            let led = facts.links.iter();
            let led = led.map(|link| all.resolve(&link.target, &path(name)).cloned()).collect();
            (name.as_str(), led)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn after_a_move_every_link_leads_where_it_led_and_all_else_stays(
        notes in proptest::collection::btree_map(
            names(), proptest::collection::vec(links(), 0..5), 1..8),
        from in any::<proptest::sample::Index>(),
        to in names(),
        to_new in proptest::bool::weighted(0.3),
        ending in proptest::sample::select(vec!["\n", "\r\n"]),
    ) {
        let vault: Vault = notes
            .into_iter()
            .map(|(name, links)| (name, links.join(" and ").replace('\n', ending)))
            .collect();
        let from = vault.keys().nth(from.index(vault.len())).unwrap().clone();
        let to = if to_new { "/new/x y.md".to_owned() } else { to };
        prop_assume!(!vault.contains_key(&to) && from.ends_with(".png") == to.ends_with(".png"));
        let before = led(&vault);
        let general = {
            let mut files =
                LinkedFiles::for_path(&path(&from)).and_for_path(&path(&to));
            vault.keys().filter(|name| files.wants(super::super::links::file_name(name)))
                .map(|name| path(name)).collect::<Vec<_>>()
                .into_iter().for_each(|path| files.add(path));
            files
        };
        let moved = MovedFile::new(path(&from), path(&to), &general, RewritePass::First);
        let mut after = Vault::new();
        for (name, text) in &vault {
            let done = if *name == from {
                let own = files(text, vault.keys().map(String::as_str), [&from, &to]);
                MovedFile::new(path(&from), path(&to), &own, RewritePass::First)
                    .rewrite(&path(&to), text)
            } else {
                let facts = NoteFacts::of(text).unwrap();
                let done = moved.rewrite(&path(name), text);
                prop_assert!(done.text.is_none() || moved.concerns(&path(name), &facts));
                done
            };
            prop_assert_eq!((done.unspellable, done.ambiguous), (0, 0), "{} {}", name, text);
            let new = done.text.unwrap_or_else(|| text.clone());
            // Every other byte stays: undoing each change gives the old text.
            let mut rest = new.as_str();
            let mut undone = String::new();
            for change in &done.changes {
                let Some(at) = rest.find(&change.new) else { continue };
                undone.push_str(&rest[..at]);
                undone.push_str(&change.old);
                rest = &rest[at + change.new.len()..];
            }
            let is_simple = !text.contains("[r") && !text.contains('`');
            let is_undone = undone.len() + rest.len() == text.len();
            prop_assert!(!is_simple || done.changes.is_empty() || is_undone);
            after.insert(if *name == from { to.clone() } else { name.clone() }, new);
        }
        let (from, to) = (path(&from), path(&to));
        let now = led(&after);
        for (name, led) in &before {
            let name_now = if *name == from.as_str() { to.as_str() } else { name };
            let now = &now[name_now];
            prop_assert_eq!(led.len(), now.len());
            for (was, is) in led.iter().zip(now) {
                let Some(was) = was else { continue };
                let goal = if *was == from { &to } else { was };
                prop_assert_eq!(is.as_ref(), Some(goal), "{} {:?} {:?}", name, vault, after);
            }
        }
        // After a second call every link leads where it led after the first. A name that was enough
        // may become a path from the folder of the note.
        let again = MovedFile { pass: RewritePass::Again, ..moved };
        let mut twice = after.clone();
        for (name, text) in twice.iter_mut().filter(|(name, _)| **name != to.as_str()) {
            let done = again.rewrite(&path(name), text);
            *text = done.text.unwrap_or_else(|| text.clone());
        }
        prop_assert_eq!(led(&twice), now);
    }

    #[test]
    fn after_a_folder_moved_every_link_leads_where_it_led_and_all_else_stays(
        notes in proptest::collection::btree_map(
            names(), proptest::collection::vec(links(), 0..5), 1..8),
        from in proptest::sample::select(vec!["/f", "/h", "/f/g"]),
        to in proptest::sample::select(vec!["/n", "/h/n", "/g/new", "/f2", "/x/y/f"]),
    ) {
        let vault: Vault =
            notes.into_iter().map(|(name, links)| (name, links.join(" and "))).collect();
        let (from, to) = (path(from), path(to));
        prop_assume!(!from.covers(&to));
        let now_of = |name: &String| -> String {
            let moved = path(name).relocated(&from, &to);
            moved.map_or_else(|| name.clone(), |moved| moved.as_str().to_owned())
        };
        let before = led(&vault);
        let own = vault.iter().filter(|(name, _)| from.covers(&path(name)));
        let facts: Vec<NoteFacts> =
            own.clone().map(|(_, text)| NoteFacts::of(text).unwrap()).collect();
        let targets = facts.iter().flat_map(|facts| &facts.links).map(|link| &link.target);
        let mut files = LinkedFiles::for_targets(targets);
        for (name, _) in own {
            files = files.and_for_path(&path(name));
        }
        vault.keys().for_each(|name| files.add(path(name)));
        let moved = MovedFile::of_folder(from.clone(), to.clone(), &files, RewritePass::First);
        let mut after = Vault::new();
        for (name, text) in &vault {
            let now = now_of(name);
            let done = moved.rewrite(&path(&now), text);
            let concerns = moved.concerns(&path(&now), &NoteFacts::of(text).unwrap());
            prop_assert!(done.text.is_none() || concerns);
            prop_assert_eq!((done.unspellable, done.ambiguous), (0, 0), "{} {}", name, text);
            after.insert(now, done.text.unwrap_or_else(|| text.clone()));
        }
        let now = led(&after);
        for (name, led) in &before {
            let now = &now[now_of(&(*name).to_owned()).as_str()];
            prop_assert_eq!(led.len(), now.len());
            for (was, is) in led.iter().zip(now) {
                let Some(was) = was else { continue };
                let goal = was.relocated(&from, &to).unwrap_or_else(|| was.clone());
                prop_assert_eq!(is.as_ref(), Some(&goal), "{} {:?} {:?}", name, vault, after);
            }
        }
        // The files as they are after the move lead to the same rewriting.
        let mut moved_files = files.relocated(&from, &to);
        let planned = |files: &LinkedFiles| {
            MovedFile::of_folder(from.clone(), to.clone(), files, RewritePass::First)
        };
        moved_files = planned(&moved_files).before;
        for (name, text) in &vault {
            let again = planned(&moved_files);
            let now = path(&now_of(name));
            prop_assert_eq!(again.rewrite(&now, text), moved.rewrite(&now, text));
        }
    }
}
