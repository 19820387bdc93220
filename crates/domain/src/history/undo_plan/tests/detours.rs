//! Tests of files that cannot come back to a path that they had in between.

use super::*;

/// Does `done` to a disk with a file at `/a`, and puts a file of somebody else at each of `taken`.
fn after(done: &[Deed], taken: &[&str]) -> (Recorded, Vec<PastChange>) {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    let from = world.changes.len();
    done.iter().for_each(|deed| world.act(deed));
    let changes = world.changes[from..].to_vec();
    for (at, name) in (0..).zip(taken) {
        world.disk.insert(path(name), hash(100 + at));
    }
    (world, changes)
}

/// Makes the undo twice, and returns what the first one did and left. The second one changes
/// nothing, and leaves what the first one left.
fn undone(world: &mut Recorded, changes: &[PastChange]) -> (Vec<String>, Vec<String>) {
    let plan = world.undo(changes);
    let state = world.state();
    let again = world.undo(changes);
    assert_eq!((&again.steps, &again.left), (&vec![], &plan.left));
    assert_eq!(world.state(), state);
    let text = |left: &LeftChange| format!("{} {}", left.path, left.text(&ShownPaths::default()));
    (shown(&plan).0, plan.left.iter().map(text).collect())
}

fn moved(from: &str, to: &str) -> Deed {
    Deed::Move(path(from), path(to))
}

#[test]
fn a_file_goes_back_to_its_first_path_although_something_is_at_one_in_between() {
    let done = [moved("/a", "/b"), Deed::Write(path("/b"), 2), moved("/b", "/c")];
    let (mut world, changes) = after(&done, &["/b"]);
    let (steps, left) = undone(&mut world, &changes);
    assert_eq!((steps.len(), left), (2, vec![]));
    assert_eq!((world.disk[&path("/a")], world.disk[&path("/b")]), (hash(1), hash(100)));
}

#[test]
fn an_obstacle_of_any_kind_in_between_keeps_nothing_from_its_first_path() {
    for (name, obstacle) in [
        ("/b", Obstacle::NotAFile),
        ("/b", Obstacle::Link),
        ("/n/b", Obstacle::FileAbove),
        ("/b", Obstacle::Unreadable),
    ] {
        for is_removed in [false, true] {
            let mut done = vec![moved("/a", name), moved(name, "/c"), moved("/c", "/d")];
            if is_removed {
                done.push(Deed::Remove(path("/d")));
            }
            let (mut world, changes) = after(&done, &[]);
            world.obstacles.insert(path(name), obstacle);
            let (_, left) = undone(&mut world, &changes);
            assert_eq!(left, Vec::<String>::new(), "{name} {obstacle:?}");
            assert_eq!(world.disk, Disk::from([(path("/a"), hash(1))]));
        }
    }
}

#[test]
fn a_removed_file_comes_back_to_its_first_path_if_something_is_at_the_last_one() {
    let done = [moved("/a", "/b"), Deed::Write(path("/b"), 2), Deed::Remove(path("/b"))];
    let (mut world, changes) = after(&done, &["/b"]);
    let (steps, left) = undone(&mut world, &changes);
    assert_eq!((steps, left), (vec!["restore /a".to_owned()], vec![]));
    assert_eq!((world.disk[&path("/a")], world.disk[&path("/b")]), (hash(1), hash(100)));
}

#[test]
fn what_somebody_wrote_at_a_path_in_between_and_an_agent_removed_comes_back_there() {
    let (mut world, [a, b]) = (Recorded::default(), ["/a", "/b"].map(path));
    world.write(&a, hash(1));
    world.write(&b, hash(2));
    let from = world.changes.len();
    world.remove(&b);
    world.rename(&a, &b);
    world.remove(&b);
    world.disk.insert(b.clone(), hash(9));
    world.remove(&b);
    let changes = world.changes[from..].to_vec();
    let (_, left) = undone(&mut world, &changes);
    assert_eq!(world.disk, Disk::from([(a, hash(1)), (b, hash(9))]));
    assert_eq!(left, ["/b cannot come back, since there is another file"]);
}

#[test]
fn the_first_path_is_the_one_that_is_named() {
    let done = [moved("/a", "/b"), moved("/b", "/c")];
    let named = |done: &[Deed], taken: &[&str]| {
        let (mut world, changes) = after(done, taken);
        undone(&mut world, &changes).1
    };
    let taken = ["/c cannot go back to /a, since there is another file"];
    assert_eq!(named(&done, &["/a", "/b"]), taken);
    assert_eq!(named(&done, &["/a"]), ["/b cannot go back to /a, since there is another file"]);
    // Somebody saved over the file, or took it away.
    let changed = ["/c cannot go back to /a, since it was changed since"];
    assert_eq!(named(&done, &["/c"]), changed);
    let (mut world, changes) = after(&done, &[]);
    world.disk.remove(&path("/c"));
    let gone = ["/c cannot go back to /a, since it is not there any more"];
    assert_eq!(undone(&mut world, &changes).1, gone);
    let removed = [&done[..], &[Deed::Remove(path("/c"))]].concat();
    let taken = ["/a cannot come back, since there is another file"];
    assert_eq!(named(&removed, &["/a", "/c"]), taken);
    assert_eq!(named(&removed, &["/a", "/b", "/c"]), taken);
}

#[test]
fn what_an_agent_made_and_moved_goes_whatever_is_at_its_first_path() {
    let made = [Deed::Write(path("/n"), 5), moved("/n", "/m")];
    let (mut world, changes) = after(&made, &["/n"]);
    assert_eq!(undone(&mut world, &changes), (vec!["remove /m".to_owned()], vec![]));
    // Or was gone already, and somebody has its path now.
    for path_now in ["/n", "/m"] {
        let removed = [&made[..], &[Deed::Remove(path("/m"))]].concat();
        let (mut world, changes) = after(&removed, &[path_now]);
        assert_eq!(undone(&mut world, &changes), (vec![], vec![]), "{path_now}");
    }
}

proptest! {
    /// Whatever is in the way of files of before, the rest comes back, and each file that does not
    /// is named by its first path, or nobody can tell it from what somebody wrote there.
    #[test]
    fn each_file_comes_back_or_its_first_path_is_named(
        before in deeds(),
        done in deeds(),
        names in prop::collection::btree_set(
            prop::sample::select(vec!["/a", "/b", "/c", "/d/e"]), 0..3
        ),
    ) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let first = world.disk.clone();
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let changes = world.changes[from..].to_vec();
        // Somebody writes where nothing was.
        let free: Vec<SpacePath> =
            names.iter().map(|name| path(name)).filter(|name| world.can_hold(name)).collect();
        for (at, name) in (0..).zip(free) {
            world.disk.entry(name).or_insert(hash(100 + at));
        }
        let plan = world.undo(&changes);
        for (path, version) in first {
            let mut left = plan.left.iter();
            let is_named = left.any(|it| it.path == path || it.to.as_ref() == Some(&path));
            prop_assert!(
                world.disk.get(&path) == Some(&version) || is_named,
                "{} of {:#?}", path, plan
            );
        }
    }
}

#[test]
fn a_file_that_an_undo_removed_for_its_content_is_named_until_it_is_back() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(0));
    let from = world.changes.len();
    world.write(&path("/a"), hash(1));
    // The agent makes and removes a file with the same content, and moves the other one there.
    world.write(&path("/c"), hash(1));
    world.remove(&path("/c"));
    world.rename(&path("/a"), &path("/c"));
    let changes = world.changes[from..].to_vec();
    world.obstacles.insert(path("/a"), Obstacle::NotAFile);
    for _ in 0..3 {
        let left = world.undo(&changes).left;
        assert!(left.iter().any(|left| left.to == Some(path("/a"))), "{left:?}");
    }
    world.obstacles.clear();
    assert_eq!(world.undo(&changes).left, []);
    assert_eq!(world.disk, Disk::from([(path("/a"), hash(0))]));
}
