//! Shows the paths of one output, so that no two different ones look the same.
//!
//! A letter with an accent can be one character or two: `é`, or `e` and a combining accent. Two
//! files whose names differ only so are two files, and look like one. Where names of both are in
//! one output, the accents that stand alone are written out, as `unseen` writes out what nobody
//! sees: `/cafe\u{301}.md`. A name alone stays as it is, since some systems store all names so.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::path::SpacePath;
use crate::unseen::shown;

/// Which names of one output look like others in it.
#[derive(Clone, Debug, Default)]
pub struct ShownPaths {
    /// The composed forms of those names.
    twins: BTreeSet<String>,
}

impl ShownPaths {
    /// Compares all names in the paths of an output.
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p SpacePath>) -> Self {
        let mut known: BTreeMap<String, &str> = BTreeMap::new();
        let mut twins = BTreeSet::new();
        let names = paths.into_iter().flat_map(SpacePath::components);
        for name in names.filter(|name| !name.is_ascii()) {
            let composed: String = name.nfc().collect();
            if *known.entry(composed.clone()).or_insert(name) != name {
                twins.insert(composed);
            }
        }
        Self { twins }
    }

    /// Returns a path for people to read.
    pub fn show(&self, path: &SpacePath) -> String {
        shown(&self.told_apart(path)).into_owned()
    }

    /// Returns a path in which the accents of those names are written out that look like others.
    /// Characters that nobody sees are still in it.
    pub fn told_apart<'p>(&self, path: &'p SpacePath) -> Cow<'p, str> {
        if self.twins.is_empty() || path.as_str().is_ascii() {
            return path.as_str().into();
        }
        let names = path.components().map(|name| {
            let composed: String = name.nfc().collect();
            match composed != name && self.twins.contains(&composed) {
                true => written_out(name),
                false => name.to_owned(),
            }
        });
        names.fold(String::new(), |path, name| path + "/" + &name).into()
    }
}

/// Writes the accents of a name out that stand alone; all that is not ASCII if there is none, or if
/// what is left has a composed form still.
fn written_out(name: &str) -> String {
    let accents = escaped(name, is_combining_mark);
    let is_told = accents != name && accents.nfc().eq(accents.chars());
    if is_told { accents } else { escaped(name, |character| !character.is_ascii()) }
}

fn escaped(name: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut written = String::with_capacity(name.len() + 16);
    for character in name.chars() {
        match is_escaped(character) {
            true => written.extend(character.escape_unicode()),
            false => written.push(character),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown_together<const N: usize>(paths: [&str; N]) -> [String; N] {
        let paths = paths.map(|path| SpacePath::parse(path).unwrap());
        let shown = ShownPaths::of(&paths);
        paths.map(|path| shown.show(&path))
    }

    #[test]
    fn accents_are_written_out_where_two_names_look_alike_and_nowhere_else() {
        let (composed, decomposed) = ("/caf\u{e9}.md", "/cafe\u{301}.md");
        assert_eq!(shown_together([composed, "/a.md"]), [composed, "/a.md"]);
        assert_eq!(shown_together([decomposed, decomposed]), [decomposed, decomposed]);
        assert_eq!(shown_together([composed, decomposed]), [composed, "/cafe\\u{301}.md"]);
        // The names of folders count wherever they are.
        let folders = ["/x/caf\u{e9}/a.md", "/cafe\u{301}/b.md"];
        assert_eq!(shown_together(folders), ["/x/caf\u{e9}/a.md", "/cafe\\u{301}/b.md"]);
        // The sign for Angstrom is a character of its own, without an accent.
        assert_eq!(shown_together(["/\u{c5}", "/\u{212b}"]), ["/\u{c5}", "/\\u{212b}"]);
        let accented = ["/\u{c5}\u{301}", "/\u{212b}\u{301}"];
        assert_eq!(shown_together(accented), ["/\u{c5}\\u{301}", "/\\u{212b}\\u{301}"]);
        let korean = ["/\u{ac00}", "/\u{1100}\u{1161}"];
        assert_eq!(shown_together(korean), ["/\u{ac00}", "/\\u{1100}\\u{1161}"]);
    }

    proptest! {
        #[test]
        fn no_two_paths_of_an_output_look_the_same(
            paths in prop::collection::btree_set(
                "(/[ae\u{e9}\u{301}\u{302}\u{212b}\u{c5}\u{ac00}\u{1100}\u{1161}]{1,3}){1,2}",
                2..8,
            ),
        ) {
            let paths: Vec<SpacePath> =
                paths.iter().map(|path| SpacePath::parse(path).unwrap()).collect();
            let shown = ShownPaths::of(&paths);
            let looks: BTreeSet<String> =
                paths.iter().map(|path| shown.show(path).nfc().collect()).collect();
            prop_assert_eq!(looks.len(), paths.len(), "{:?}", looks);
        }
    }
}
