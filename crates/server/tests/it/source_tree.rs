//! The source files of the workspace, with the modules and items that they declare.
//!
//! Items are found line by line, in the layout that `cargo fmt` gives. That is exact enough for
//! tests of the documentation and of the style, and needs no parser.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One source file.
pub struct SourceFile {
    /// The path from the root of the repository, with `/` as separator.
    pub path: String,
    /// The content.
    pub text: String,
}

/// The visibility of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// `pub`.
    Public,
    /// Anything else.
    Restricted,
}

/// A module, a type, a function, a constant, a variant, a public field or a macro.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// The crate's folder name, the modules and the name, as in `domain::scope::Scope`.
    pub path: String,
    /// The keyword, such as `fn`; `variant` or `field` for a part of a type.
    pub kind: &'static str,
    /// Who may use the item.
    pub visibility: Visibility,
}

const KINDS: &[&str] =
    &["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "macro_rules!"];

/// Reads every `.rs` file of the crates.
pub fn rust_files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("fuzz")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root()).unwrap();
                files.push(SourceFile {
                    path: relative.to_string_lossy().replace('\\', "/"),
                    text: fs::read_to_string(&path).unwrap(),
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

impl SourceFile {
    /// Returns the module that the file is, as in `tools::space::list`; `None` outside of `src` and
    /// for files of tests.
    pub fn module(&self) -> Option<String> {
        let (crate_name, file) = self.path.strip_prefix("crates/")?.split_once("/src/")?;
        let module = file.strip_suffix(".rs")?;
        let module = module.strip_suffix("/mod").unwrap_or(module);
        match module {
            "lib" | "main" => Some(crate_name.to_owned()),
            _ => Some(format!("{crate_name}::{}", module.replace('/', "::"))),
        }
    }

    /// Returns the text without the modules of tests at its end.
    pub fn without_tests(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(&self.text)
    }

    /// Returns the paths that the module imports or names outside of tests, as in
    /// `tools::space::list::ROOT`. Paths of other crates appear below the module itself. A path
    /// that is not imported counts if it begins with `crate`, `super` or `self`; what a module
    /// names of its own children by a shorter path does not.
    pub fn imports(&self) -> Vec<String> {
        let Some(module) = self.module() else { return Vec::new() };
        let (mut paths, mut rest) = (Vec::new(), self.without_tests());
        let (mut base, mut is_for_tests) = (module.clone(), false);
        let mut is_within_use = false;
        while let Some((line, after)) = rest.split_once('\n') {
            if let Some(("mod", name, _)) = declared(line).filter(|_| line.ends_with('{')) {
                base = format!("{module}::{name}");
            } else if line == "}" {
                base.clone_from(&module);
            }
            if let Some((visibility, _)) = line.split_once("use ")
                && (visibility.trim().is_empty() || visibility.trim_start().starts_with("pub"))
                && !is_for_tests
            {
                let tree = rest[visibility.len() + "use ".len()..].split(';').next().unwrap();
                push_paths(&base, tree.trim(), &mut paths);
                is_within_use = true;
            }
            if !is_within_use && !is_for_tests {
                inline_paths(line).for_each(|path| push_paths(&base, path, &mut paths));
            }
            is_within_use &= !line.ends_with(';');
            is_for_tests = line.trim() == "#[cfg(test)]";
            rest = after;
        }
        paths
    }

    /// Returns the `//!` lines at the head, without the marks.
    pub fn head(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("//!"));
        lines.map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the paths of a line of code that begin with `crate`, `super` or `self`, without those
/// of a visibility, as in `pub(in crate::records)`, and of a macro's `$crate`.
fn inline_paths(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    let is_of_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$');
    let mut at = 0;
    std::iter::from_fn(move || {
        at += code[at..].find(is_of_path)?;
        let path = code[at..].split(|c| !is_of_path(c)).next()?;
        let before = &code[..at];
        at += path.len();
        Some((before, path))
    })
    .filter(|(before, _)| !before.ends_with("(in "))
    .map(|(_, path)| path.trim_end_matches(':'))
    .filter(|path| ["crate::", "super::", "self::"].iter().any(|start| path.starts_with(start)))
}

/// Appends the paths of the tree of a `use` declaration, read from `base` on.
fn push_paths(base: &str, tree: &str, paths: &mut Vec<String>) {
    let (head, group) = tree.split_once('{').unwrap_or((tree, ""));
    let mut base: Vec<&str> = base.split("::").collect();
    for segment in head.split(" as ").next().unwrap().split("::") {
        match segment {
            "crate" => base.truncate(1),
            "super" => base.truncate(base.len() - 1),
            "self" | "" => {}
            name => base.push(name),
        }
    }
    let base = base.join("::");
    let Some(group) = group.strip_suffix('}') else { return paths.push(base) };
    let mut depth = 0;
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).for_each(|part| {
        push_paths(&base, part, paths);
    });
}

/// Returns the items that the files under `src` declare, and the modules that the files are.
pub fn items(files: &[SourceFile]) -> BTreeSet<Item> {
    let mut items = BTreeSet::new();
    for file in files {
        let Some(module) = file.module() else { continue };
        items.insert(Item {
            path: module.clone(),
            kind: "mod",
            visibility: Visibility::Restricted,
        });
        // What the lines indented by four spaces belong to.
        let mut owner: Option<(String, bool)> = None;
        for line in file.without_tests().lines() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            if indent == 0 && !code.is_empty() {
                owner = owner_of(code).or(owner.filter(|_| !code.starts_with('}')));
            }
            let parent = match &owner {
                Some((owner, _)) if indent == 4 => format!("{module}::{owner}"),
                _ => module.clone(),
            };
            if let Some((kind, name, visibility)) = declared(code) {
                // What a macro of the module makes is indented by its rules.
                let is_of_module = matches!(kind, "enum" | "struct" | "static");
                if indent <= 4 || is_of_module {
                    let parent = if is_of_module { &module } else { &parent };
                    items.insert(Item { path: format!("{parent}::{name}"), kind, visibility });
                }
            } else if let Some(name) = code.strip_prefix("pub ").map(identifier)
                && indent == 4
                && owner.is_some()
                && !name.is_empty()
            {
                let path = format!("{parent}::{name}");
                items.insert(Item { path, kind: "field", visibility: Visibility::Public });
            } else if indent == 4 && owner.as_ref().is_some_and(|(_, is_enum)| *is_enum) {
                let name: String = code.chars().take_while(|c| c.is_alphanumeric()).collect();
                if name.starts_with(|c: char| c.is_ascii_uppercase()) {
                    let path = format!("{parent}::{name}");
                    items.insert(Item { path, kind: "variant", visibility: Visibility::Public });
                }
            }
        }
    }
    items
}

/// Returns the type whose members follow a line, and whether that type is an enum.
fn owner_of(code: &str) -> Option<(String, bool)> {
    if !code.ends_with('{') && !code.starts_with("impl") {
        return None;
    }
    if let Some((kind, name, _)) = declared(code) {
        return matches!(kind, "struct" | "enum" | "trait")
            .then(|| (name.to_owned(), kind == "enum"));
    }
    let subject = code.strip_prefix("impl")?;
    let subject = subject.rsplit_once(" for ").map_or(subject, |(_, subject)| subject);
    let subject = match subject.trim_start().strip_prefix('<') {
        // The generic parameters of the `impl`.
        Some(_) => subject.split_once("> ")?.1,
        None => subject,
    };
    Some((identifier(subject.trim_start()).to_owned(), false))
}

/// Returns the kind, the name and the visibility of the item that a line declares.
pub fn declared(code: &str) -> Option<(&'static str, &str, Visibility)> {
    let (visibility, mut code) = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with(' ') => (Visibility::Public, rest),
        Some(rest) => (Visibility::Restricted, rest.strip_prefix('(')?.split_once(')')?.1),
        None => (Visibility::Restricted, code),
    };
    loop {
        code = code.trim_start();
        let (word, rest) = code.split_once(' ')?;
        // `const fn` and `async fn`, but `const NAME`.
        let is_modifier =
            matches!(word, "async" | "unsafe") || word == "const" && rest.starts_with("fn ");
        if !is_modifier {
            let kind = KINDS.iter().find(|kind| **kind == word)?;
            let name = identifier(rest);
            return (!name.is_empty()).then_some((kind, name, visibility));
        }
        code = rest;
    }
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
