//! Tests that the space reads and changes nothing outside, while another program exchanges folders
//! and files with symbolic links to the outside.

#![expect(
    clippy::disallowed_methods,
    reason = "a test is its own verified caller and its own operator"
)]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::edit;
use stile_domain::error::Refusal;
use stile_domain::limits::FileLimits;
use stile_domain::lines::LineRange;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Action, Permit, Principal};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::space::{
    FileWindow, NewText, ReadAs, SearchIgnore, Space, SpaceOptions, WindowStart,
};
use stile_testkit::chance::scaled_long;
use stile_testkit::swapper::Swapper;

const INSIDE: &str = "inside\n";
const OUTSIDE: &str = "outside\n";
/// How long the tests wait for the other thread to exchange names.
fn patience() -> Duration {
    Duration::from_secs(scaled_long(600, 600, 4 * 3600) as u64)
}

/// A space whose folder `swapped` and file `plain/swapped.md` are exchanged with links to the
/// outside, which has the same names.
///
/// *Shape*: `space/{swapped,other,plain}`, `outside/deep/{file,swapped}.md`.
struct Field {
    folder: tempfile::TempDir,
    space: Space,
    principal: Principal,
}

impl Field {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("space"), folder.path().join("outside"));
        for part in ["space/swapped/deep", "space/plain", "outside/deep"] {
            fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        fs::write(inside.join("swapped/deep/file.md"), INSIDE).unwrap();
        fs::write(inside.join("plain/swapped.md"), INSIDE).unwrap();
        fs::write(outside.join("deep/file.md"), OUTSIDE).unwrap();
        fs::write(outside.join("swapped.md"), OUTSIDE).unwrap();
        // One relative link and one absolute one.
        symlink("../outside", inside.join("other")).unwrap();
        symlink(outside.join("swapped.md"), inside.join("plain/other.md")).unwrap();
        let options = SpaceOptions {
            limits: FileLimits::default(),
            mounts: Vec::new(),
            search_ignore: SearchIgnore::default(),
            lock_wait: Duration::from_secs(20),
            events: Arc::new(|_| {}),
            appends_folder: None,
            cleared: None,
            documents: None,
        };
        let (space, notices) = Space::open_ambient(&inside, options).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        let scopes = Scopes::from_claim("write:/");
        let principal = Principal::assert_verified("ann", None, None, scopes, RecordsClaim::None);
        Self { folder, space, principal }
    }

    fn at(&self, part: &str) -> std::path::PathBuf {
        self.folder.path().join(part)
    }

    fn permit<A: Action>(&self, path: &str) -> Permit<A> {
        self.principal.gate().permit(&SpacePath::parse(path).unwrap()).unwrap()
    }

    async fn read(&self, path: &str) -> Result<FileWindow, Refusal> {
        let from = WindowStart::Range(LineRange::ALL);
        self.space.read(self.permit(path), from, ReadAs::Recognised).await
    }

    /// Fails if anything outside has changed.
    fn assert_untouched(&self) {
        let mut found = Vec::new();
        list(&self.at("outside"), &mut found);
        found.sort();
        assert_eq!(
            found,
            [
                ("file.md".to_owned(), OUTSIDE.to_owned()),
                ("swapped.md".to_owned(), OUTSIDE.to_owned())
            ]
        );
    }
}

fn list(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => list(&entry.path(), found),
            false => {
                found.push((
                    entry.file_name().into_string().unwrap(),
                    fs::read_to_string(entry.path()).unwrap(),
                ));
            }
        }
    }
}

/// Counts successes and refusals. Fails for a refusal that the exchanges do not explain.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    refused: usize,
}

impl Tally {
    fn count<T>(&mut self, outcome: Result<T, Refusal>) -> Option<T> {
        match outcome {
            Ok(done) => {
                self.done += 1;
                Some(done)
            }
            Err(refusal) => {
                let code = refusal.code().0;
                let moving = [
                    "symlink_refused", "not_found", "not_a_directory", "stale", "already_exists",
                    "busy",
                ];
                assert!(moving.contains(&code), "{refusal:?}");
                self.refused += 1;
                None
            }
        }
    }
}

#[tokio::test]
async fn nothing_outside_is_read_while_names_become_links() {
    let field = Field::new();
    let goal = scaled_long(5_000, 200_000, 1_000_000);
    let folders = Swapper::start(&field.at("space"), "swapped", "other");
    let files = Swapper::start(&field.at("space/plain"), "swapped.md", "other.md");
    let mut tally = Tally::default();
    let paths =
        ["/swapped/deep/file.md", "/plain/swapped.md", "/other/deep/file.md", "/plain/other.md"];
    let deadline = Instant::now() + patience();
    let enough = |tally: &Tally, swaps: u64| {
        tally.done + tally.refused >= goal
            && tally.done.min(tally.refused) > goal / 50
            && swaps > goal as u64 / 10
    };
    for path in paths.iter().cycle() {
        if enough(&tally, folders.swaps() + files.swaps()) || Instant::now() > deadline {
            break;
        }
        if let Some(window) = tally.count(field.read(path).await) {
            assert_eq!(window.content, INSIDE, "{path} was read outside");
        }
    }
    let swaps = folders.swaps() + files.swaps();
    drop((folders, files));
    println!("{tally:?}, {swaps} swaps");
    assert!(
        tally.done > goal / 50 && tally.refused > goal / 50 && swaps > goal as u64 / 10,
        "{tally:?}, {swaps} swaps"
    );
    field.assert_untouched();
}

#[tokio::test]
async fn nothing_outside_is_written_while_names_become_links() {
    let field = Field::new();
    let goal = scaled_long(500, 20_000, 200_000);
    let folders = Swapper::start(&field.at("space"), "swapped", "other");
    let files = Swapper::start(&field.at("space/plain"), "swapped.md", "other.md");
    let (mut created, mut edited, mut removed) =
        (Tally::default(), Tally::default(), Tally::default());
    let deadline = Instant::now() + patience();
    for count in 0.. {
        let enough = created.done > 0 && created.refused > 0 && edited.done > 0;
        if (count >= goal && enough) || Instant::now() > deadline {
            break;
        }
        // One file in an existing folder, and one in a new folder.
        let path = match count % 2 {
            0 => format!("/swapped/deep/{count}.md"),
            _ => format!("/swapped/{count}/new.md"),
        };
        if let Some(made) =
            created.count(field.space.create(field.permit(&path), b"made\n".to_vec()).await)
        {
            removed.count(field.space.remove(field.permit(&path), made.hash).await);
        }
        // A read waits after each change of a file, so only every fourth round edits.
        for path in ["/swapped/deep/file.md", "/plain/swapped.md"].iter().filter(|_| count % 4 == 0)
        {
            let Ok(window) = field.read(path).await else { continue };
            let plan = |text: &str| Ok(text.to_owned() + &edit::addition(text, "more\n"));
            let cut = |_: &str| Ok(INSIDE.to_owned());
            let (permit, new) = (field.permit(path), NewText::default());
            edited.count(match window.total_lines {
                1 => field.space.edit(permit, window.hash, new, ["lines", "old"], plan).await,
                _ => field.space.edit(permit, window.hash, new, ["lines", "old"], cut).await,
            });
        }
    }
    let swaps = folders.swaps() + files.swaps();
    drop((folders, files));
    println!("created {created:?}, removed {removed:?}, edited {edited:?}, {swaps} swaps");
    assert!(
        created.done > 0 && created.refused > 0 && edited.done > 0,
        "created {created:?}, edited {edited:?}"
    );
    field.assert_untouched();
    field.space.close().await;
    field.assert_untouched();
}
