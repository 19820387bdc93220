//! The command line as a person meets it: help, usage errors, tokens.

use std::ffi::OsString;

use serde_json::json;

use super::commands::run;

/// Runs a command as a person with a home folder would, and returns its standard output, its
/// standard error and its exit code.
fn stile(line: &str) -> (String, String, u8) {
    let environment = |name: &str| match name {
        "HOME" => Some("/home/ann".to_owned()),
        "USER" => Some("ann".to_owned()),
        _ => None,
    };
    let mut output = Vec::new();
    let arguments = std::iter::once("stile").chain(line.split(' ').filter(|word| !word.is_empty()));
    let ran = run(arguments.map(OsString::from), &environment, &mut output);
    let (error, code) = ran.map_or_else(|failure| failure.report(), |()| (String::new(), 0));
    (String::from_utf8(output).unwrap(), error, code)
}

fn help(command: &str) -> String {
    let (output, help, code) = stile(&format!("{command} --help"));
    assert_eq!((output.as_str(), code), ("", 0));
    help
}

/// Help names the default state folder, which differs on other systems.
#[cfg(not(any(target_os = "macos", windows)))]
#[test]
fn every_command_has_help() {
    insta::assert_snapshot!("help", help(""));
    let commands = "serve, stdio, gateway, mcp, note, note outline, search, token, token list, update, \
         token revoke, connect, disconnect, doctor, service, service install, service logs, \
         completions, import, connections, streams, records, records show, \
         records remove, records removed, records restore, records purge, declare, export, \
         backup, restore-backup, migrate-store, grant, grant create, grant list, grant show, grant revoke, \
         audit, audit verify, activity, history, show, diff, restore, undo, space, space adopt, cache, cache clear, sign-in, client, \
         client list, client show, client add, client end, owner, owner password, \
         owner passkeys, owner sessions, owner sign-out, owner remove-passkey, person, \
         person list, person show, person add, person export, person remove, database, \
         database prepare, database restored, config";
    for command in commands.split(", ") {
        insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), help(command));
    }
}

#[test]
fn config_prints_every_setting_and_its_source() {
    insta::assert_snapshot!(
        stile("config --listen 127.0.0.1:8080 --state /nonexistent/state /srv/notes").0
    );
}

#[test]
fn config_is_json_too() {
    let listed = stile("config --listen 127.0.0.1:8080 --state /nonexistent/state --json").0;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let find = |key: &str| {
        listed.as_array().unwrap().iter().find(|row| row["setting"] == key).unwrap().clone()
    };
    let expected = |setting: &str, value, source: &str| json!({ "setting": setting, "value": value, "source": source });
    let listen = expected("listen", json!("127.0.0.1:8080"), "command line");
    assert_eq!(find("listen"), listen);
    assert_eq!(find("history_days"), expected("history_days", json!(30), "default"));
    assert_eq!(find("public_url"), expected("public_url", json!(null), "default"));
    let unseen = stile("config --state /nonexistent/\u{202e}state --json").0;
    assert!(unseen.contains(r"/nonexistent/\u202estate"), "{unseen}");
}

#[test]
fn wrong_usage_says_what_to_do_and_exits_with_2() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().to_str().unwrap();
    std::fs::write(state.path().join("empty"), " \n").unwrap();
    std::fs::write(state.path().join("two-lines"), "one\ntwo\n").unwrap();
    let mut transcript = String::new();
    for line in [
        "sreve",
        "serve --lisen 1",
        "serve --listen here",
        "serve a b",
        "serve --listen 0.0.0.0:1 --state <state>/none",
        "serve --listen [::]:1 --state <state>/none",
        "serve --listen 192.0.2.1:1 --state <state>/none",
        "serve --tls-certificate <state>/empty --state <state>/none",
        "serve --tls-key <state>/empty --state <state>/none",
        "serve --tls-certificate <state>/none --tls-key <state>/none --state <state>/none",
        "serve --tls-certificate <state>/empty --tls-key <state>/empty --state <state>/none",
        "serve --behind-proxy proxy --state <state>/none",
        "serve --state <state> <state>/space",
        "stdio --scope notes --state <state>",
        "stdio --listen 127.0.0.1:1",
        "token --state <state>",
        "token --state <state> --scope notes",
        "token --state <state> --scope read:/../x",
        "token --state <state> --scope read:/ --expires 30",
        "token --state <state> --scope read:/ --expires 400d",
        "token --state <state> --scope read:/ --expires 0s",
        "token --state <state> --scope read:/ --user ",
        "token --state <state> --owner --grant g",
        "token --state <state> --grant a.b",
        "stdio --state <state> --grant ../g",
        "token --scope read:/ list",
        "token --state <state> list",
        "token revoke",
        "config --max-file-bytes big",
        "gateway --state <state>/none",
        "gateway --state <state>/none --upstream http://127.0.0.1:1",
        "gateway --state <state>/none --upstream ftp://127.0.0.1",
        "gateway --state <state>/none --upstream http://u:p@127.0.0.1:1",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 \
         --jwks http://id.example.org/keys",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 \
         --jwks https://id.example.org/keys",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 --issuer i",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 --upstream-credential mine",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 --upstream-credential own",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 --metrics-listen 0.0.0.0:1",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 \
         --gateway-secret-file <state>/none",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 --trust-gateway g",
        "gateway --state <state>/none --upstream http://127.0.0.1:1 --listen 0.0.0.0:1",
        "serve <state>/space --state <state>/state --jwks http://127.0.0.1:1/keys",
        "serve --upstream http://127.0.0.1:1",
        "serve --provider http://127.0.0.1:1",
        "mcp",
        "mcp --provider http://127.0.0.1:1",
        "mcp --token-file <state>/empty",
        "mcp --provider http://127.0.0.1:1 --token-file <state>/none",
        "mcp --provider http://127.0.0.1:1 --token-file <state>/empty",
        "mcp --provider http://127.0.0.1:1 --token-file <state>/two-lines",
        "mcp --provider http://127.0.0.1:1 --token-file <state>/two-lines \
         --ca-file <state>/empty",
        "mcp --provider ftp://127.0.0.1 --token-file <state>/empty",
        "mcp --provider http://u:p@127.0.0.1:1 --token-file <state>/empty",
        "mcp --provider http://127.0.0.1:1/?token=x --token-file <state>/empty",
        "mcp --provider http://127.0.0.1:1/#x --token-file <state>/empty",
        "mcp --provider http://127.0.0.1:1 --token-file <state>/empty \
         --provider-timeout-seconds 0",
        "mcp --provider http://127.0.0.1:1 --token-file <state>/empty --strict-schemas maybe",
        "mcp --provider http://127.0.0.1:1 --token t",
        "import --state <state>",
        "import a.jsonl --state <state>",
        "import a.jsonl --format csv --stream s --state <state>",
        "import a.txt --connection c --stream s --state <state>",
        "import a.jsonl --connection c --stream a/b --state <state>",
        "import a.jsonl --connection c --stream s --format xml --state <state>",
        "import a --connection c --format stile --state <state>",
        "records --state <state>",
        "records show s --state <state>",
        "records show s k --state <state>",
        "declare --connection c --stream s --state <state>",
        "declare --connection c --stream s --show --infer --state <state>",
        "declare --connection c --stream s --show --state <state>",
        "export --state <state>",
        "export --to <state> --state <state>",
        "export --to <state>/none --stream s --state <state>",
        "backup --state <state>",
        "grant --state <state>",
        "grant create --client c --state <state>",
        "grant create --client c --stream s --from f --state <state>",
        "grant create --client c --stream s --expires soon --state <state>",
        "grant create --client c --stream s --state <state>",
        "grant show --state <state>",
        "audit --since yesterday --state <state>",
        "audit --path ../x --state <state>",
        "activity --since 1 --state <state>",
        "show a.md --state <state>",
        "undo --state <state>",
        "undo --until 1h --state <state>",
        "undo 3 --client c --since 1h --state <state>",
        "serve --history some",
    ] {
        let (output, error, code) = stile(&line.replace("<state>", path));
        assert_eq!((output.as_str(), code), ("", 2), "{line}: {error}");
        transcript += &format!("$ stile {line}\n{}\n", error.replace(path, "<state>"));
    }
    insta::assert_snapshot!(transcript);
}

#[test]
fn a_token_is_minted_listed_and_revoked() {
    let state = tempfile::tempdir().unwrap();
    let at = format!("--state {}", state.path().display());
    let (token, error, code) =
        stile(&format!("token {at} --scope read:/ --scope write:/notes/* --client editor"));
    assert_eq!((error.as_str(), code), ("", 0));
    assert_eq!(token.trim_end().split('.').count(), 3);
    assert_eq!(token.lines().count(), 1, "a token and nothing else");

    let (listed, ..) = stile(&format!("token list {at} --json"));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let row = &listed[0];
    assert_eq!(row["user"], "ann");
    assert_eq!(row["client"], "editor");
    assert_eq!(row["scopes"], "read:/ write:/notes/*");
    assert_eq!(row["state"], "live");
    let jti = row["jti"].as_str().unwrap();

    let (output, _, code) = stile(&format!("token revoke {jti} {at}"));
    assert_eq!(
        (output, code),
        (
            format!(
                "{jti} is revoked: it allowed editor read:/ write:/notes/*; every server \
                 refuses it from the next request on\n"
            ),
            0
        )
    );
    let (again, _, code) = stile(&format!("token revoke {jti} {at}"));
    assert!(again.contains("was revoked before") && code == 0, "{again}");
    let (table, ..) = stile(&format!("token list {at}"));
    assert!(table.lines().nth(1).unwrap().contains("revoked"), "{table}");

    let (_, error, code) = stile(&format!("token revoke nobody {at}"));
    assert_eq!(
        (error.as_str(), code),
        ("error: there is no token `nobody`; `stile token list --all` shows all of them\n", 1)
    );
}

#[test]
fn a_token_for_records_needs_no_scope() {
    let state = tempfile::tempdir().unwrap();
    let at = format!("--state {}", state.path().display());
    let (_, error, code) = stile(&format!("token {at} --grant g-1"));
    assert_eq!(
        (error.as_str(), code),
        ("error: there is no grant `g-1`; `stile grant list` shows all of them\n", 1)
    );
    let file = state.path().join("a.csv");
    std::fs::write(&file, "id,day\n1,2026-01-01\n").unwrap();
    stile(&format!("import {at} {} --connection c --stream s", file.display()));
    let (grant, error, code) = stile(&format!("grant create {at} --client eve --stream s"));
    assert_eq!((grant.lines().count(), error.as_str(), code), (1, "", 0));
    let grant = grant.trim_end();
    let flag = format!("--grant {grant}");
    let cases =
        [("bob", "--owner", json!(null), true), ("eve", flag.as_str(), json!(grant), false)];
    for (user, flags, grant, is_owner) in cases {
        let (token, error, code) = stile(&format!("token {at} {flags} --user {user}"));
        assert_eq!((token.lines().count(), error.as_str(), code), (1, "", 0));
        let (listed, ..) = stile(&format!("token list {at} --json"));
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let row = listed.as_array().unwrap().iter().find(|row| row["user"] == user).unwrap();
        assert_eq!(
            (&row["grant"], &row["owner"], &row["scopes"]),
            (&grant, &json!(is_owner), &json!(""))
        );
    }
}

#[test]
fn a_damaged_key_file_exits_with_1() {
    let state = tempfile::tempdir().unwrap();
    std::fs::write(state.path().join("key.json"), "{}").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(state.path().join("key.json"), mode).unwrap();
    }
    let (output, error, code) =
        stile(&format!("token --scope read:/ --state {}", state.path().display()));
    assert!(output.is_empty() && code == 1 && error.contains("is damaged"), "{error}");
}
