//! ARCHITECTURE.md, the glossary and other pages name only what is in the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use stile_testkit::documents::assert_document;

use crate::source_tree::{Item, SourceFile, Visibility, items, root, rust_files};

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the texts between backticks that can be names of the tree, without blocks of code.
fn names(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .filter(|name| !name.contains(['\n', ' ', '(', '{', '*', '<']))
        .filter(|name| !name.starts_with(['/', '&']) && !name.starts_with("std::"))
        .collect()
}

/// Returns whether `name` is a path that ends in all of these segments: a file or folder of the
/// repository, a module, or an item of a module.
fn resolves(name: &str, items: &BTreeSet<Item>) -> bool {
    let name = name.strip_prefix("stile_").unwrap_or(name);
    let tail = format!("::{name}");
    let is_rust_path = |item: &Item| item.path == name || item.path.ends_with(&tail);
    root().join(name).exists() || items.iter().any(is_rust_path)
}

#[test]
fn every_name_on_the_architecture_page_resolves() {
    let page = page("ARCHITECTURE.md");
    let items = items(&rust_files());
    let missing: Vec<&str> =
        names(&page).into_iter().filter(|name| !resolves(name, &items)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names what does not exist: {missing:#?}");
}

#[test]
fn only_real_modules_and_items_resolve() {
    let items = items(&rust_files());
    for name in [
        "permit", "space::write", "store::space", "stile_domain::scope::Scope", "Gate::permit",
        "Tool::permits", "Verb::Read", "clippy.toml", "docs/decisions",
    ] {
        assert!(resolves(name, &items), "{name}");
    }
    for name in ["space::cache", "cache::write", "Gate::write", "tools::scope", "crates/cache"] {
        assert!(!resolves(name, &items), "{name}");
    }
}

/// A room of a drawing, and the call that leads from it to the next room.
type DrawnRoom<'p> = (&'p str, Option<&'p str>);

/// Returns the rooms of the drawing that begins with `head`, from top to bottom.
fn drawn_rooms<'p>(page: &'p str, head: &str) -> Vec<DrawnRoom<'p>> {
    let (_, drawing) = page.split_once(&format!("```text\n  {head}\n")).unwrap();
    let lines = drawing.split("```").next().unwrap().lines().map(str::trim);
    let mut rooms: Vec<DrawnRoom<'p>> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && *line != "▼") {
        match line.strip_prefix("│ ") {
            Some(call) => rooms.last_mut().unwrap().1 = Some(call),
            None => rooms.push((line.split(' ').next().unwrap(), None)),
        }
    }
    rooms
}

/// Returns why an arrow of a drawing is not in the code; `None` if the file of its first room calls
/// what the file of its second room declares.
fn missing_arrow(files: &[SourceFile], from: &str, call: &str, to: &str) -> Option<String> {
    let name = call.rsplit("::").next().unwrap();
    let of = |room: &str| {
        let tail = format!("::{room}");
        let is_room = |file: &&SourceFile| {
            file.module().is_some_and(|own| own == room || own.ends_with(&tail))
        };
        files.iter().filter(is_room).map(SourceFile::without_tests).collect::<Vec<_>>()
    };
    let (caller, callee) = (of(from), of(to));
    let calls = [".", "::", " "].map(|before| format!("{before}{name}("));
    let calls = calls.into_iter().chain([format!(".{name})(")]).collect::<Vec<_>>();
    let declares = [format!("fn {name}("), format!("fn {name}<"), format!("pub {name}:")];
    let has = |texts: &[&str], all: &[String]| {
        texts.iter().any(|text| all.iter().any(|one| text.contains(one.as_str())))
    };
    let caller: Vec<String> =
        caller.iter().map(|text| text.replace(&format!("fn {name}("), "")).collect();
    let caller: Vec<&str> = caller.iter().map(String::as_str).collect();
    let fault = match (caller.len(), callee.len()) {
        (1, 1) if !has(&caller, &calls) => format!("{from} does not call {call}"),
        (1, 1) if !has(&callee, &declares) => format!("{to} does not declare {call}"),
        (1, 1) => return None,
        _ => format!("{from} or {to} is not one module"),
    };
    Some(fault)
}

#[test]
fn each_arrow_of_the_walk_of_a_list_is_a_call() {
    let (page, files) = (page("ARCHITECTURE.md"), rust_files());
    let rooms = drawn_rooms(&page, "GET /v1/streams/{stream}/records");
    let names: BTreeSet<&str> = rooms.iter().map(|(room, _)| *room).collect();
    assert!(names.len() == rooms.len() && rooms.len() > 3, "a room is drawn twice: {rooms:?}");
    let arrows = rooms.iter().zip(&rooms[1..]);
    let missing: Vec<String> = arrows
        .filter_map(|((from, call), (to, _))| missing_arrow(&files, from, call.unwrap(), to))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md draws what is not in the code: {missing:#?}");
    for (from, call, to) in [
        ("records::service", "OperationCall::handler", "operations::list_records"),
        ("operations::list_records", "RecordsView::draw", "store::records::view"),
        ("operations::list_records", "RecordsView::list", "store::records::cellar"),
    ] {
        assert!(missing_arrow(&files, from, call, to).is_some(), "{from} {call} {to}");
    }
}

#[test]
fn every_crate_has_a_paragraph_with_its_invariant() {
    let page = page("ARCHITECTURE.md");
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let name = folder.unwrap().file_name().to_string_lossy().into_owned();
        let (_, rest) = page.split_once(&format!("**`crates/{name}`**")).unwrap_or_default();
        let paragraph = rest.split("\n\n").next().unwrap();
        assert!(paragraph.contains("*Invariant*"), "{name} has no paragraph with an invariant");
    }
}

/// Returns the first sentence of a module's head, on one line.
fn first_sentence(file: &SourceFile) -> String {
    let head = file.head();
    let paragraph = head.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let end = paragraph
        .match_indices(". ")
        .map(|(at, _)| at + 1)
        .find(|end| paragraph[*end..].trim_start().starts_with(|c: char| !c.is_lowercase()));
    paragraph[..end.unwrap_or(paragraph.len())].to_owned()
}

/// Removes the brackets of links to items, which lead nowhere outside of `rustdoc`.
fn without_item_links(sentence: &str) -> String {
    sentence.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

#[test]
fn the_page_of_modules_is_what_the_heads_say() {
    let mut out =
        "<!-- Written by a test from the code: run the tests with UPDATE_DOCS=1 to renew \
                   it. -->\n\n# Modules\n\nThe first sentence of each module's head. \
                   [ARCHITECTURE.md](../ARCHITECTURE.md) says how the modules work together.\n"
            .to_owned();
    let files = rust_files();
    for crate_name in
        ["domain", "windows", "store", "records", "import", "tools", "ladder", "server", "testkit"]
    {
        let prefix = format!("{crate_name}::");
        let mut rows: Vec<(String, String)> = files
            .iter()
            .filter_map(|file| Some((file.module()?, file)))
            .filter(|(module, file)| {
                module.starts_with(&prefix) && !is_for_tests(module, file, &files)
            })
            .map(|(module, file)| {
                assert!(!file.head().is_empty(), "{} has no `//!` head", file.path);
                (module[prefix.len()..].to_owned(), without_item_links(&first_sentence(file)))
            })
            .collect();
        rows.sort();
        let _ = write!(out, "\n## {crate_name}\n\n| module | what it is for |\n|---|---|\n");
        for (module, sentence) in rows {
            let _ = writeln!(out, "| `{module}` | {sentence} |");
        }
    }
    assert_document("docs/modules.md", &out);
}

/// Returns whether a module, or one that it is in, is compiled for tests alone.
fn is_for_tests(module: &str, file: &SourceFile, files: &[SourceFile]) -> bool {
    let Some((parent, name)) = module.rsplit_once("::") else { return false };
    let declarations = files.iter().filter(|file| file.module().is_some_and(|m| m == parent));
    let is_declared_for_tests = declarations.clone().any(|declaring| {
        ["mod", "pub mod", "pub(crate) mod", "pub(super) mod"].iter().any(|keyword| {
            declaring.text.contains(&format!("#[cfg(test)]\n{keyword} {name};"))
                || declaring.text.contains(&format!("#[cfg(test)]\n    {keyword} {name};"))
        })
    });
    is_declared_for_tests || declarations.clone().any(|above| is_for_tests(parent, above, files))
        // A file of tests without a declaring file of its own, such as `space/tests.rs`.
        || (name == "tests" && file.path.ends_with("/tests.rs"))
}

/// Returns the other modules that each module imports from.
fn module_imports(files: &[SourceFile]) -> BTreeMap<String, BTreeSet<String>> {
    let modules: BTreeSet<String> = files.iter().filter_map(SourceFile::module).collect();
    let module_of = |path: String| {
        let parent = |path: &String| Some(path.rsplit_once("::")?.0.to_owned());
        std::iter::successors(Some(path), parent).find(|path| modules.contains(path))
    };
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    for file in files {
        let Some(module) = file.module().filter(|own| !is_for_tests(own, file, files)) else {
            continue;
        };
        let imported = file.imports().into_iter().filter_map(module_of);
        let others: Vec<String> = imported.filter(|other| *other != module).collect();
        all.entry(module).or_default().extend(others);
    }
    all
}

/// Returns the circles in which modules import from each other; at least one if there are any.
fn import_circles(mut imports: BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    // A module that imports from no remaining module is in no circle.
    loop {
        let remaining: BTreeSet<String> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|others| others.retain(|other| remaining.contains(other)));
        imports.retain(|_, others| !others.is_empty());
        if imports.len() == remaining.len() {
            break;
        }
    }
    let circle_from = |start: &String| {
        let (mut way, mut next) = (Vec::new(), start);
        while !way.contains(&next) {
            way.push(next);
            next = imports[next].first().unwrap();
        }
        let mut circle = way.split_off(way.iter().position(|module| *module == next).unwrap());
        let least = circle.iter().enumerate().min_by_key(|(_, module)| **module).unwrap().0;
        circle.rotate_left(least);
        circle.push(circle[0]);
        circle.iter().map(|module| module.as_str()).collect::<Vec<_>>().join(" -> ")
    };
    imports.keys().map(circle_from).collect()
}

#[test]
fn no_imports_run_in_a_circle_between_modules() {
    let circles = import_circles(module_imports(&rust_files()));
    assert!(circles.is_empty(), "modules import from each other: {circles:#?}");
}

/// Returns the modules directly below a crate of which each imports from the other, also through
/// modules within them. Crates have arrows of their own, which Cargo holds.
fn two_way_pairs(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let room = |module: &str| {
        let mut parts = module.split("::");
        let (crate_name, room) = (parts.next()?, parts.next()?);
        Some(format!("{crate_name}::{room}"))
    };
    let arrows: BTreeSet<(String, String)> = imports
        .iter()
        .flat_map(|(from, others)| others.iter().map(move |to| (from, to)))
        .filter_map(|(from, to)| Some((room(from)?, room(to)?)))
        .collect();
    let has_way_back =
        |(from, to): &&(String, String)| from < to && arrows.contains(&(to.clone(), from.clone()));
    arrows.iter().filter(has_way_back).map(|(from, to)| format!("{from} <-> {to}")).collect()
}

/// What is here should become one-way. A line is taken away once it is, and none is added.
#[test]
fn the_rooms_of_a_crate_import_one_way_but_for_these() {
    let known = [
        // An edit of a property fails as an edit does, and edits look for sections of notes.
        "domain::edit <-> domain::notes",
        // The page for strangers is framed as other pages, and an upload is read as requests are.
        "server::http <-> server::pages",
        // The forms of a consent are built from parts of the owner's pages.
        "server::pages <-> server::sign_in",
        // A note tool is declared once for a space and for another server.
        "tools::notes <-> tools::remote_notes",
    ];
    let found = two_way_pairs(&module_imports(&rust_files()));
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), known);
}

#[test]
fn a_circle_of_imports_is_found() {
    let file = |name: &str, text: &str| SourceFile {
        path: format!("crates/x/src/{name}.rs"),
        text: text.to_owned(),
    };
    let mut files = vec![
        file("lib", "use self::a::One;\n"),
        file("a", "mod b;\npub use b::{self, Two};\nuse crate::c::{One, d::{Three as Four, E}};\n"),
        file("a/b", "#[cfg(test)]\nuse super::One;\nuse serde::a;\n// use super::One;\n"),
        file("c", "mod d;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::One;\n}\n"),
        file("c/d", "use super::super::a::b;\nmod own {\n    use super::Five;\n}\n"),
        file("e", "pub(in crate::a) struct F(crate::c::One);\n// Of crate::a.\nfn f() {}\n"),
    ];
    let of = |modules: &[&str]| modules.iter().map(|module| format!("x::{module}")).collect();
    let imports = module_imports(&files);
    assert_eq!(imports["x::a"], of(&["a::b", "c", "c::d"]));
    assert_eq!(imports["x::c::d"], of(&["a::b"]));
    assert_eq!(imports["x::e"], of(&["c"]));
    assert_eq!(import_circles(imports), BTreeSet::new());
    files.push(file("a/b", "pub(crate) use super::{\n    One,\n};\n"));
    let circles = import_circles(module_imports(&files));
    assert_eq!(circles.into_iter().collect::<Vec<_>>(), ["x::a -> x::a::b -> x::a"]);
    files.pop();
    files.push(file("c/d", "fn f(one: &super::super::a::One) -> bool {\n    one.ok\n}\n"));
    let circles = import_circles(module_imports(&files));
    assert_eq!(circles.into_iter().collect::<Vec<_>>(), ["x::a -> x::c::d -> x::a"]);
    let pairs = two_way_pairs(&module_imports(&files));
    assert_eq!(pairs.into_iter().collect::<Vec<_>>(), ["x::a <-> x::c"]);
}

#[test]
fn every_rust_name_of_the_glossary_is_a_public_item() {
    let page = page("docs/glossary.md");
    let items = items(&rust_files());
    let mut terms = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| **")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [term, meaning, names_cell] = cells.as_slice() else {
            panic!("not three cells: {row}")
        };
        assert!(meaning.ends_with('.'), "{term} needs a sentence");
        for name in names(names_cell) {
            let tail = format!("::{name}");
            let is_public = |item: &Item| {
                item.visibility == Visibility::Public && item.path.ends_with(&tail)
                    || item.kind == "mod" && item.path == name
            };
            assert!(items.iter().any(is_public), "{term}: `{name}` is not a public item");
        }
        terms.push(term.trim_matches('*').to_lowercase());
    }
    assert!(terms.len() > 30, "{}", terms.len());
    assert!(terms.is_sorted(), "the terms are not in the order of the alphabet: {terms:#?}");
}

#[test]
fn every_name_of_the_page_on_extending_resolves() {
    let page = page("docs/extending.md");
    let items = items(&rust_files());
    let missing: Vec<&str> = names(&page)
        .into_iter()
        .filter(|name| name.contains("::") || name.ends_with(".rs") || name.starts_with("crates/"))
        .filter(|name| !resolves(name, &items))
        .collect();
    assert!(missing.is_empty(), "docs/extending.md names what does not exist: {missing:#?}");
}

fn missing_tests<'p>(tests: &[&'p str]) -> Vec<&'p str> {
    let sources: String = rust_files().into_iter().map(|file| file.text).collect();
    let exists = |name: &str| sources.contains(&format!("fn {name}("));
    tests.iter().copied().filter(|name| !exists(name)).collect()
}

/// Returns the names between backticks that are long enough to be names of tests.
fn test_names(page: &str) -> Vec<&str> {
    names(page).into_iter().filter(|name| name.matches('_').count() > 3).collect()
}

#[test]
fn every_test_that_the_threats_page_points_to_exists() {
    let page = page("docs/threats.md");
    assert_eq!(missing_tests(&test_names(&page)), Vec::<&str>::new());
}

#[test]
fn every_test_that_a_requirement_points_to_exists() {
    for (name, least) in [("hosted-requirement.md", 40), ("ladder-requirement.md", 30)] {
        let page = page(&format!("docs/{name}"));
        let tests = test_names(&page);
        assert!(tests.len() > least, "{name} names {} tests", tests.len());
        assert_eq!(missing_tests(&tests), Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn every_rule_for_notes_names_a_test() {
    let page = page("docs/notes.md");
    let sources = rust_files();
    let is_test = |name: &str| {
        sources.iter().any(|file| {
            let (before, _) = file.text.split_once(&format!("fn {name}(")).unwrap_or_default();
            // The attribute is on the line before, also within `proptest!`.
            let line = before.trim_end_matches("async ").trim_end().lines().next_back();
            line.is_some_and(|line| line.contains("test]"))
        })
    };
    let rules: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule")).collect();
    assert!(rules.len() > 28, "{} rules", rules.len());
    for rule in rules {
        let names = rule.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap_or_default();
        for name in names.split(", ") {
            assert!(is_test(name.trim_matches('`')), "no test of the name in: {rule}");
        }
    }
}

#[test]
fn every_link_from_a_page_leads_to_a_file() {
    let mut pages: Vec<String> =
        ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY"]
            .iter()
            .map(|name| format!("{name}.md"))
            .collect();
    for folder in ["docs", "docs/decisions"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    for name in pages {
        let text = page(&name);
        let folder = root().join(&name).parent().unwrap().to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !target.contains(':') && !target.contains([' ', '`']) {
                assert!(folder.join(file).exists(), "{name} links to {target}");
            }
        }
    }
}

#[test]
fn the_book_has_every_page_below_docs() {
    let summary = page("docs/SUMMARY.md");
    for (folder, prefix) in [("docs", ""), ("docs/decisions", "decisions/")] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            let is_listed = summary.contains(&format!("({prefix}{name})"));
            assert!(
                !name.ends_with(".md") || name == "SUMMARY.md" || is_listed,
                "docs/SUMMARY.md lacks {prefix}{name}"
            );
        }
    }
}
