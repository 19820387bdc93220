//! The files for several servers in `packaging/hosted` name only what the program has.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use stile_server::fleet::Fleet;
use stile_server::metrics::{CallLabels, Metrics, Route};
use stile_store::postgresql::PoolUse;
use stile_store::state::{StateDir, TokenStore};

use crate::source_tree::root;

fn file(name: &str) -> String {
    fs::read_to_string(root().join("packaging/hosted").join(name)).unwrap()
}

/// Returns the words of a text that begin with `prefix`, in letters of which `is_letter` holds.
fn words<'t>(text: &'t str, prefix: &str, is_letter: impl Fn(char) -> bool) -> BTreeSet<&'t str> {
    let begins = text.match_indices(prefix).map(|(at, _)| &text[at..]);
    begins.map(|rest| &rest[..rest.find(|c: char| !is_letter(c)).unwrap_or(rest.len())]).collect()
}

/// Returns the names of all series that the program serves.
fn served() -> BTreeSet<String> {
    let metrics = Metrics::default();
    let labels = CallLabels { tool: "file.read", outcome: "ok", upstream: "none" };
    metrics.count(labels, Duration::from_millis(1));
    let route = Route { method: "GET", path: "/v1/search" };
    metrics.count_request(route, Some(200), Duration::from_millis(1));
    let state = tempfile::tempdir().unwrap();
    let tokens = TokenStore::open(&StateDir::open(state.path()).unwrap()).unwrap();
    let pool = PoolUse { name: "read", open: 1, idle: 1, most: 8, refusals: 0 };
    let text = metrics.text() + &Fleet::new(Arc::new(tokens), None).metrics(&[pool]);
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_of_the_alerts_is_served() {
    let served = served();
    for (name, least) in [("grafana-dashboard.json", 8), ("prometheus-alerts.yaml", 4)] {
        let text = file(name);
        let named = words(&text, "stile_", |c| c.is_ascii_lowercase() || c == '_');
        assert!(named.len() >= least, "{name}: {named:?}");
        for metric in named {
            assert!(served.contains(metric), "{name} names {metric}; there are {served:?}");
        }
    }
}

#[test]
fn every_panel_of_the_dashboard_has_a_title_and_asks_for_a_metric() {
    let dashboard: Value = serde_json::from_str(&file("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let asked = target["expr"].as_str().unwrap();
            assert!(asked.contains("stile_") || asked.contains("up{job=\"stile\"}"), "{asked}");
        }
    }
    let numbers: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(numbers.len(), panels.len(), "two panels have one number");
}

#[test]
fn every_setting_in_the_files_for_several_servers_exists() {
    let listed = Command::new(env!("CARGO_BIN_EXE_stile"))
        .args(["config", "--json", "--state", "/nonexistent/state"])
        .env_clear()
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let known: BTreeSet<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| setting["setting"].as_str().unwrap().to_owned())
        .collect();
    let settings = file("stile-server.env");
    let variables =
        settings.lines().filter_map(|line| line.split_once('=')?.0.strip_prefix("STILE_"));
    let compose = file("compose.yaml");
    let flags = compose.lines().filter_map(|line| line.trim().strip_prefix("- --"));
    let named: Vec<String> = variables
        .map(str::to_lowercase)
        .chain(flags.map(|flag| flag.split('=').next().unwrap().replace('-', "_")))
        .collect();
    assert!(named.len() > 8, "{named:?}");
    for name in named {
        assert!(known.contains(&name), "there is no setting {name}");
    }
}

/// The checker of systemd accepts the unit. `verify` looks for the program and the user.
#[cfg(target_os = "linux")]
#[test]
fn systemd_accepts_the_unit_of_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("stile-check.service");
    let text = file("stile-server.service")
        .replace("/usr/local/bin/stile", "/bin/true")
        .replace("User=stile", "User=root")
        .replace("Group=stile", "Group=root")
        .replace("EnvironmentFile=", "EnvironmentFile=-");
    fs::write(&unit, text).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output();
    let Ok(verified) = verified else {
        return eprintln!("skipped: this machine has no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_us: Vec<&str> = said.lines().filter(|line| line.contains("stile-check")).collect();
    assert!(about_us.is_empty(), "{about_us:#?}");
}
