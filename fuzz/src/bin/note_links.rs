//! The links of a note, and what a move makes of them.
//!
//! An input can be typed: where a file is, where it moves, the other files with commas between
//! them, and the text of a note, with `|` between the four. The note is the first of the files, or
//! the moved file if there are none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::notes::link_rewrite::{MovedFile, RewritePass};
use stile_domain::notes::links::LinkedFiles;
use stile_domain::notes::note_facts::NoteFacts;
use stile_domain::path::SpacePath;

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let mut fields = input.splitn(4, '|');
    let mut field = || fields.next().unwrap_or_default();
    let (from, to, others, text) = (field(), field(), field(), field());
    let (Ok(from), Ok(to)) = (SpacePath::parse(from), SpacePath::parse(to)) else { return };
    let mut others: Vec<SpacePath> =
        others.split(',').filter_map(|path| SpacePath::parse(path).ok()).take(8).collect();
    others.retain(|path| *path != from && *path != to && !path.is_root());
    if from == to || from.is_root() || to.is_root() {
        return;
    }
    let note = others.first().unwrap_or(&from).clone();
    for pass in [RewritePass::First, RewritePass::Again] {
        check(&from, &to, &others, &note, text, pass);
    }
});

/// Returns where each link of a text leads from a note, among these files.
fn led(text: &str, note: &SpacePath, files: &[SpacePath]) -> Vec<Option<SpacePath>> {
    let facts = NoteFacts::of(text).expect("a small note");
    let mut known = LinkedFiles::for_targets(facts.links.iter().map(|link| &link.target));
    files.iter().for_each(|file| known.add(file.clone()));
    let led = facts.links.iter().map(|link| known.resolve(&link.target, note).cloned());
    let led: Vec<Option<SpacePath>> = led.collect();
    // No link leads to anything but a file that is there.
    assert!(led.iter().flatten().all(|path| files.contains(path)));
    led
}

fn check(
    from: &SpacePath,
    to: &SpacePath,
    others: &[SpacePath],
    note: &SpacePath,
    text: &str,
    pass: RewritePass,
) {
    let with = |path: &SpacePath| [others, &[path.clone()]].concat();
    let (before, after) = (with(from), with(to));
    let facts = NoteFacts::of(text).expect("a small note");
    let mut files = LinkedFiles::for_targets(facts.links.iter().map(|link| &link.target))
        .and_for_path(from)
        .and_for_path(to);
    before.iter().for_each(|file| files.add(file.clone()));
    let moved = MovedFile::new(from.clone(), to.clone(), &files, pass);
    let is_own = note == from;
    let now = if is_own { to } else { note };
    let done = moved.rewrite(now, text);
    let new = done.text.as_deref().unwrap_or(text);
    assert_eq!(done.text.is_some(), !done.changes.is_empty());
    assert!(done.text.is_none() || moved.concerns(now, &facts));

    // Every link leads where it led, but for those that are counted as left.
    let (was, is) = (led(text, note, &before), led(new, now, &after));
    assert_eq!(was.len(), is.len());
    let goal = |path: &SpacePath| if path == from { to.clone() } else { path.clone() };
    let wrong = was.iter().zip(&is).filter(|(was, is)| match was {
        Some(was) => **is != Some(goal(was)),
        None => false,
    });
    assert!(wrong.count() <= (done.unspellable + done.ambiguous) as usize);

    // All else means what it meant, and one changed path is all that differs.
    let new_facts = NoteFacts::of(new).expect("a small note");
    // A link in a property changes the value of the property.
    let values = |facts: &NoteFacts| -> Vec<(Box<str>, usize)> {
        facts.properties.iter().map(|one| (one.name.clone(), one.values.len())).collect()
    };
    assert_eq!(values(&new_facts), values(&facts));
    assert_eq!(new_facts.tags, facts.tags);
    if let [change] = done.changes.as_slice() {
        let is_change_at = |at: &usize| {
            let cut = |whole: &str, path: &str| {
                let (before, rest) = whole.split_at_checked(*at)?;
                Some((before.to_owned(), rest.strip_prefix(path)?.to_owned()))
            };
            let (old, new) = (cut(text, &change.old), cut(new, &change.new));
            old.is_some() && old == new
        };
        assert!((0..=text.len()).any(|at| is_change_at(&at)));
    }

    // After a second call every link leads where it led after the first, or where it should: if the
    // first could not change all links together, it changed none.
    if !is_own {
        let again = MovedFile::new(from.clone(), to.clone(), &files, RewritePass::Again);
        let twice = again.rewrite(note, new).text;
        let twice = led(twice.as_deref().unwrap_or(new), now, &after);
        assert_eq!(twice.len(), is.len());
        for ((was, first), second) in was.iter().zip(&is).zip(&twice) {
            assert!(second == first || (second.is_some() && *second == was.as_ref().map(goal)));
        }
    }
}
