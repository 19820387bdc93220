//! ARCHITECTURE.md names what is there.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words between backticks.
fn names(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|name| !name.contains(['\n', ' ', '('])).collect()
}

fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((
                    path.to_string_lossy().replace('\\', "/"),
                    fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    found
}

#[test]
fn every_name_on_the_page_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let sources = sources();
    let missing: Vec<&str> = names(&page)
        .into_iter()
        .filter(|name| *name != "benches")
        .filter(|name| {
            let is_path = root().join(name).exists();
            // A module by its file or folder, an item by its last word in some source.
            let last = name.rsplit("::").next().unwrap_or(name);
            let tail = name.replace("::", "/");
            let is_module = sources.iter().any(|(path, _)| {
                path.ends_with(&format!("/{tail}.rs")) || path.ends_with(&format!("/{tail}/mod.rs"))
            });
            let is_item = last.len() > 2 && sources.iter().any(|(_, text)| text.contains(last));
            !(is_path || is_module || is_item)
        })
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:?}");
}

#[test]
fn every_crate_and_every_module_of_it_is_on_the_page() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for crate_name in fs::read_dir(root().join("crates")).unwrap() {
        let crate_path = crate_name.unwrap().path();
        let name = crate_path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(page.contains(&format!("**`crates/{name}`**")), "{name} has no paragraph");
        let lib = fs::read_to_string(crate_path.join("src/lib.rs")).unwrap();
        if name == "testkit" {
            continue;
        }
        for module in lib
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod "))
            .map(|line| line.trim_end_matches(';'))
        {
            assert!(page.contains(module), "{name}::{module} is not mentioned");
        }
    }
}

#[test]
fn every_test_that_the_threats_page_points_to_exists() {
    let page = fs::read_to_string(root().join("docs/threats.md")).unwrap();
    let sources = sources();
    for name in names(&page).into_iter().filter(|name| name.matches('_').count() > 3) {
        assert!(
            sources.iter().any(|(_, text)| text.contains(&format!("fn {name}("))),
            "{name} is not there"
        );
    }
}

#[test]
fn every_test_that_a_requirement_points_to_exists() {
    let sources: String = sources().into_iter().map(|(_, text)| text).collect();
    for (page, least) in [("hosted-requirement.md", 40), ("ladder-requirement.md", 30)] {
        let page = fs::read_to_string(root().join("docs").join(page)).unwrap();
        let tests: Vec<&str> =
            names(&page).into_iter().filter(|name| name.matches('_').count() > 3).collect();
        assert!(tests.len() > least, "{}", tests.len());
        let missing: Vec<&&str> =
            tests.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
        assert!(missing.is_empty(), "there are no such tests: {missing:?}");
    }
}
