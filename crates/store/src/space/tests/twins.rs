//! No file or folder is made beside one that a person sees as the same.

use super::*;

const COMPOSED: &str = "caf\u{e9}";
const DECOMPOSED: &str = "cafe\u{301}";

/// Makes a file in a space that has the folder and the file of a name, and returns the path that
/// the refusal names.
fn refused(scopes: &str, stored: &str, made: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(stored)).unwrap();
    fs::write(folder.path().join(format!("{stored}.md")), "one\n").unwrap();
    let options = SpaceOptions { lock_wait: Duration::from_secs(60), ..SpaceOptions::of_import() };
    let (space, _) = Space::open_ambient(folder.path(), options).unwrap();
    let principal = principal(scopes);
    let permit = principal.gate().permit(&path(made)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    match runtime.block_on(space.create(permit, b"two\n".to_vec())) {
        Ok(_) => None,
        Err(Refusal::AlreadyExists { path }) => Some(path.to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_name_that_is_composed_otherwise_is_not_made_again() {
    for (stored, asked) in [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)] {
        let refused = |made: &str| refused("read:/ write:/", stored, made);
        assert_eq!(refused(&format!("/{asked}.md")), Some(format!("/{stored}.md")));
        assert_eq!(refused(&format!("/{asked}/new.md")), Some(format!("/{stored}")));
        assert_eq!(refused(&format!("/{stored}/new.md")), None);
        assert_eq!(refused("/cafe.md"), None);
    }
}

#[test]
fn a_name_that_the_caller_may_not_see_is_no_twin() {
    let scopes = "write:/caf%C3%A9.md";
    assert_eq!(refused(scopes, DECOMPOSED, &format!("/{COMPOSED}.md")), None);
}
