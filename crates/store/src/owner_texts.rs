//! Texts that the owner names and that agents read: a folder of prompts, and a file of
//! instructions.
//!
//! They are settings: whoever can change them tells every client what to do. So they lie outside of
//! every space, and no link leads from their names to somewhere else.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use stile_domain::prompts::{BadPrompt, MAX_PROMPT_BYTES, MAX_PROMPTS, Prompt, name_of_file};

use crate::platform;

/// The longest file of instructions, in bytes.
pub const MAX_INSTRUCTIONS_BYTES: u64 = 2048;

/// The most names of a folder of prompts that are looked at.
const MAX_NAMES: usize = 10_000;

/// A folder with a prompt in each Markdown file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptFolder {
    /// The folder without links in its path.
    path: PathBuf,
}

/// A file of the folder that is not offered as a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The name of the file.
    pub file_name: String,
    /// Why, in words that complete a sentence that begins with the file.
    pub why: String,
}

impl PromptFolder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::NotADirectory`] for a link and everything else
    /// that is not a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.symlink_metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path: path.canonicalize()? })
    }

    /// Reads all prompts as they are now, in the order of the names of their files, and returns
    /// which files are left out. Subfolders and other endings than `.md` count as nothing.
    ///
    /// Where a name in another script makes the name of another prompt, both are prompts.
    ///
    /// # Errors
    /// The error of the system if the folder cannot be read; [`io::ErrorKind::NotADirectory`] if a
    /// link leads from its path to somewhere else now.
    pub fn read(&self) -> io::Result<(Vec<Prompt>, Vec<LeftOut>)> {
        self.check_place()?;
        let read = self.read_files()?;
        // Nothing counts that was read while the path led elsewhere.
        self.check_place()?;
        Ok(read)
    }

    /// Refuses the folder if it is a link now, or if one is above it, which may lead into the
    /// space.
    fn check_place(&self) -> io::Result<()> {
        let is_folder = self.path.symlink_metadata()?.is_dir();
        match is_folder && self.path.canonicalize()? == self.path {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn read_files(&self) -> io::Result<(Vec<Prompt>, Vec<LeftOut>)> {
        let (mut names, mut left_out): (Vec<String>, Vec<LeftOut>) = (Vec::new(), Vec::new());
        for entry in self.path.read_dir()?.take(MAX_NAMES) {
            let entry = entry?;
            let kind = entry.file_type()?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !name.ends_with(".md") {
                continue;
            }
            if kind.is_file() {
                names.push(name);
            } else if kind.is_symlink() {
                left_out.push(LeftOut { file_name: name, why: "is a symbolic link".to_owned() });
            }
        }
        names.sort_unstable();
        let mut prompts: Vec<Prompt> = Vec::new();
        for file_name in names {
            let is_taken = |name: &str| prompts.iter().any(|other| other.name == name);
            let read = self.read_prompt(&file_name).map(|prompt| {
                match is_taken(&prompt.name) && !file_name.is_ascii() {
                    true => prompt.beside_another(&file_name),
                    false => prompt,
                }
            });
            let why = match read {
                Ok(prompt) if is_taken(&prompt.name) => {
                    format!("makes the prompt `{}`, as another file does", prompt.name)
                }
                Ok(_) if prompts.len() == MAX_PROMPTS => {
                    format!("is one of more than {MAX_PROMPTS}")
                }
                Ok(prompt) => {
                    prompts.push(prompt);
                    continue;
                }
                Err(why) => why,
            };
            left_out.push(LeftOut { file_name, why });
        }
        left_out.sort_by(|one, other| one.file_name.cmp(&other.file_name));
        Ok((prompts, left_out))
    }

    fn read_prompt(&self, file_name: &str) -> Result<Prompt, String> {
        let name = name_of_file(file_name).ok_or_else(|| BadPrompt::Name.to_string())?;
        let text = read_text(&self.path.join(file_name), MAX_PROMPT_BYTES)
            .map_err(|error| format!("cannot be read: {error}"))?;
        Prompt::parse(&name, &text).map_err(|bad| bad.to_string())
    }
}

/// Reads the file of instructions, without white space at its ends.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::InvalidData`] and [`io::ErrorKind::FileTooLarge`] for
/// a file that is not UTF-8 of at most [`MAX_INSTRUCTIONS_BYTES`].
pub fn read_instructions(path: &Path) -> io::Result<String> {
    Ok(read_text(path, MAX_INSTRUCTIONS_BYTES)?.trim().to_owned())
}

/// Reads a regular file that is no link.
fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let file = platform::open_unfollowed(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    read_utf8(file, max_bytes)
}

fn read_utf8(file: File, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let why = format!("it has more than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Returns whether one of two places is the other or lies inside it, told by the identity of the
/// folders on the way, so that no other name of a folder hides it. A place that does not exist lies
/// in the folder in which it would be made.
///
/// # Errors
/// The error of the system if a place cannot be resolved.
pub fn overlap(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (existing(one)?, existing(other)?);
    Ok(is_at_or_below(&one, &other)? || is_at_or_below(&other, &one)?)
}

/// A place, and whether all of its path exists.
struct Place {
    path: PathBuf,
    is_whole: bool,
}

/// Returns the longest part of a path that exists, without links.
fn existing(path: &Path) -> io::Result<Place> {
    let absolute = std::path::absolute(path)?;
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Ok(path) => return Ok(Place { path, is_whole: ancestor == absolute }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn is_at_or_below(inner: &Place, outer: &Place) -> io::Result<bool> {
    // Nothing lies below a place that does not exist.
    if !outer.is_whole {
        return Ok(false);
    }
    // No path here has a link in it.
    let wanted = platform::identity(&outer.path)?;
    for ancestor in inner.path.ancestors() {
        if platform::identity(ancestor)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_markdown_files_are_prompts_and_the_first_of_a_name_wins() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("b c.md"), "B").unwrap();
        fs::write(at("b-c.md"), "Other").unwrap();
        fs::write(at("a.md"), "---\ndescription: An a\n---\nA").unwrap();
        fs::write(at("empty.md"), "").unwrap();
        fs::write(at("long.md"), "x".repeat(64 * 1024 + 1)).unwrap();
        fs::write(at("binary.md"), b"\xff").unwrap();
        fs::write(at("a.txt"), "not this").unwrap();
        fs::create_dir(at("folder.md")).unwrap();
        symlink(at("a.txt"), at("link.md")).unwrap();
        let (prompts, left_out) = PromptFolder::open(folder.path()).unwrap().read().unwrap();
        let names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        assert_eq!(names, ["a", "b-c"]);
        assert_eq!(prompts[1].fill(&serde_json::Map::new()), Ok("B".to_owned()));
        let left: Vec<String> =
            left_out.iter().map(|left| format!("{} {}", left.file_name, left.why)).collect();
        assert_eq!(
            left,
            [
                "b-c.md makes the prompt `b-c`, as another file does",
                "binary.md cannot be read: it is not UTF-8",
                "empty.md has no text",
                "link.md is a symbolic link",
                "long.md cannot be read: it has more than 65536 bytes",
            ]
        );
    }

    #[test]
    fn a_folder_that_a_link_takes_the_place_of_is_not_read() {
        let ground = tempfile::tempdir().unwrap();
        let ground = ground.path().canonicalize().unwrap();
        for folder in ["above/prompts", "space/prompts"] {
            std::fs::create_dir_all(ground.join(folder)).unwrap();
            std::fs::write(ground.join(folder).join("a.md"), "Say yes.\n").unwrap();
        }
        let folder = PromptFolder::open(&ground.join("above/prompts")).unwrap();
        assert_eq!(folder.read().unwrap().0.len(), 1);
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(ground.join(target), ground.join(name)).unwrap();
        };
        std::fs::rename(ground.join("above"), ground.join("before")).unwrap();
        link("space", "above");
        assert_eq!(folder.read().unwrap_err().kind(), io::ErrorKind::NotADirectory);
        std::fs::remove_file(ground.join("above")).unwrap();
        std::fs::create_dir(ground.join("above")).unwrap();
        link("space/prompts", "above/prompts");
        assert_eq!(folder.read().unwrap_err().kind(), io::ErrorKind::NotADirectory);
        std::fs::remove_file(ground.join("above/prompts")).unwrap();
        std::fs::rename(ground.join("before/prompts"), ground.join("above/prompts")).unwrap();
        assert_eq!(folder.read().unwrap().0.len(), 1, "it is where it was");
    }

    #[test]
    fn prompts_with_names_in_other_scripts_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["Протокол", "会议记录", "Über uns", "Uber uns", "Ùber uns"] {
            fs::write(folder.path().join(format!("{name}.md")), "x").unwrap();
        }
        let (prompts, left_out) = PromptFolder::open(folder.path()).unwrap().read().unwrap();
        let mut names: Vec<String> = prompts.into_iter().map(|prompt| prompt.name).collect();
        assert_eq!((names.len(), left_out), (5, Vec::new()));
        for name in ["Protokol", "u4f1a-u8bae-u8bb0-u5f55", "Uber-uns"] {
            assert!(names.iter().any(|other| other == name), "{names:?}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 5, "{names:?}");
    }

    #[test]
    fn an_edit_counts_at_the_next_read_and_more_than_a_hundred_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let prompts = PromptFolder::open(folder.path()).unwrap();
        assert_eq!(prompts.read().unwrap(), (Vec::new(), Vec::new()));
        for number in 0..MAX_PROMPTS + 2 {
            fs::write(folder.path().join(format!("p{number:03}.md")), "x").unwrap();
        }
        let (read, left_out) = prompts.read().unwrap();
        assert_eq!((read.len(), left_out.len()), (MAX_PROMPTS, 2));
    }

    #[test]
    fn a_link_and_a_file_are_no_folder_of_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink(at("real"), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        assert!(PromptFolder::open(&at("real")).is_ok());
        for name in ["link", "file", "none"] {
            assert!(PromptFolder::open(&at(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn places_overlap_whatever_links_lead_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("space/inner")).unwrap();
        fs::create_dir(at("apart")).unwrap();
        symlink(at("space"), at("link")).unwrap();
        for (one, other, expected) in [
            ("space", "space", true),
            ("space", "space/inner", true),
            ("space/inner", "space", true),
            ("link/inner", "space", true),
            ("space", "link/none/deeper", true),
            ("space", "apart", false),
            ("space", "space-2", false),
            ("none", "none-2", false),
        ] {
            assert_eq!(overlap(&at(one), &at(other)).unwrap(), expected, "{one} {other}");
        }
    }

    #[test]
    fn instructions_are_short_utf_8_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("i.txt");
        fs::write(&file, "\n Be brief.\n").unwrap();
        assert_eq!(read_instructions(&file).unwrap(), "Be brief.");
        fs::write(&file, "x".repeat(2049)).unwrap();
        assert_eq!(read_instructions(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_instructions(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(read_instructions(&link).is_err() && read_instructions(folder.path()).is_err());
    }
}
