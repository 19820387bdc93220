//! Processes that start at the same instant on one root.

use stile_testkit::chance::scaled;

use crate::servers::{Door, Field};

#[test]
fn processes_that_start_at_once_do_not_take_each_other_for_dead() {
    let mut field = Field::new();
    for _ in 0..scaled(10, 200) {
        let processes: Vec<_> =
            (0..8).map(|number| field.start(Door::Stdio, &format!("state {number}"))).collect();
        for process in processes {
            field.stop(process);
        }
    }
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}

#[test]
fn a_server_asked_to_stop_as_soon_as_it_listens_stops_cleanly() {
    let mut field = Field::new();
    for _ in 0..scaled(10, 100) {
        let process = field.start(Door::Http, "state");
        field.stop(process);
    }
    field.assert_quiet();
}
