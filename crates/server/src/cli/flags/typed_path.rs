//! Paths of the space as people type them: from the root of the space, from the folder in which
//! they are, or as a path of the machine.

use std::path::{Component, Path, PathBuf};

use stile_domain::path::SpacePath;
use stile_domain::unseen::shown;

use crate::cli::failure::Failure;

/// Parses the path of a file or folder of the space at `root`.
///
/// Of several meanings the one counts that is there now. If none is there, as with a file that was
/// removed, the path is meant from the folder in which the person is, if that is in the space. A
/// path of a file that is there, and outside of the space, is refused.
pub(crate) fn parse(text: &str, root: &Path) -> Result<SpacePath, Failure> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let text = &without_links(text, &root).unwrap_or_else(|| text.to_owned());
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let meanings = meanings(text, &root, here.as_deref().unwrap_or(&root));
    let is_there =
        |meaning: &&String| root.join(meaning.trim_start_matches('/')).symlink_metadata().is_ok();
    let meant = meanings.iter().find(is_there);
    let elsewhere = here.as_deref().unwrap_or(&root).join(text);
    if meant.is_none() && !plain(&elsewhere).starts_with(&root) && elsewhere.is_file() {
        return Err(Failure::Usage(format!(
            "{} is not in the folder that is served, {}",
            shown(&elsewhere.to_string_lossy()),
            root.display()
        )));
    }
    let meant = meant.or(meanings.first());
    SpacePath::parse(meant.map_or(text, String::as_str))
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// Returns a path of the machine that leads into the space through a link, without the link.
fn without_links(text: &str, root: &Path) -> Option<String> {
    let typed = Path::new(text);
    let folder = typed.parent().filter(|_| typed.is_absolute())?.canonicalize().ok()?;
    let path =
        folder.starts_with(root).then(|| typed.file_name().map(|name| folder.join(name)))??;
    path.to_str().map(str::to_owned)
}

/// Returns what a typed path may mean, from the root of the space, the likeliest first.
fn meanings(text: &str, root: &Path, here: &Path) -> Vec<String> {
    let of_machine = |path: &Path| {
        let inside = plain(path);
        let inside = inside.strip_prefix(root).ok()?.to_str()?;
        Some(format!("/{inside}"))
    };
    let typed = Path::new(text);
    if typed.is_absolute() {
        // `/notes/plan.md` is a path from the root of the space, unless it leads into its folder.
        return of_machine(typed).into_iter().chain([text.to_owned()]).collect();
    }
    let from_here = of_machine(&here.join(typed));
    if matches!(typed.components().next(), Some(Component::CurDir | Component::ParentDir)) {
        return from_here.into_iter().collect();
    }
    let (mut first, mut second) = (from_here, Some(text.to_owned()));
    if !here.starts_with(root) {
        std::mem::swap(&mut first, &mut second);
    }
    first.into_iter().chain(second).collect()
}

/// Returns a path without `.` and `..`, by its words alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_meant_from_the_folder_of_the_person_and_from_the_root() {
        let (root, garden, home) = ("/home/ann/notes", "/home/ann/notes/garden", "/home/ann");
        for (text, here, expected) in [
            ("journal.md", garden, &["/garden/journal.md", "journal.md"][..]),
            ("garden/journal.md", garden, &["/garden/garden/journal.md", "garden/journal.md"]),
            ("journal.md", home, &["journal.md"]),
            ("notes/a.md", home, &["notes/a.md", "/a.md"]),
            ("./a.md", root, &["/a.md"]),
            ("../a.md", garden, &["/a.md"]),
            ("../../a.md", garden, &[]),
            ("/home/ann/notes/a.md", "/", &["/a.md", "/home/ann/notes/a.md"]),
            ("/home/ann/notes", "/", &["/", "/home/ann/notes"]),
            ("/garden/a.md", garden, &["/garden/a.md"]),
        ] {
            let found = meanings(text, Path::new(root), Path::new(here));
            assert_eq!(found, expected, "{text} in {here}");
        }
    }

    #[test]
    fn the_meaning_that_is_there_counts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("garden")).unwrap();
        std::fs::write(folder.path().join("garden/a.md"), "").unwrap();
        let inside = folder.path().join("garden/a.md");
        let parsed = parse(inside.to_str().unwrap(), folder.path()).unwrap();
        assert_eq!(parsed.as_str(), "/garden/a.md");
        assert_eq!(parse("garden/a.md", folder.path()).unwrap().as_str(), "/garden/a.md");
        assert_eq!(parse("/garden/b.md", folder.path()).unwrap().as_str(), "/garden/b.md");
    }

    #[test]
    fn a_file_outside_of_the_space_is_not_taken_for_one_of_it() {
        let parent = tempfile::tempdir().unwrap();
        let [served, other] = ["served", "other"].map(|name| parent.path().join(name));
        for folder in [&served, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        let outside = other.join("a.md");
        std::fs::write(&outside, "").unwrap();
        let (said, code) = parse(outside.to_str().unwrap(), &served).unwrap_err().report();
        assert_eq!(code, 2);
        assert!(said.contains("a.md is not in the folder that is served, "), "{said}");
        // One that is nowhere is a path of the space, where it may have been.
        let gone = parse("/other/a.md", &served).unwrap();
        assert_eq!(gone.as_str(), "/other/a.md");
    }
}
