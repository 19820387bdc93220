//! A scope that looks like a wildcard and is none is said wherever an owner gives or allows one.

use std::process::Stdio;

use crate::sign_in_kit::{Place, ScriptedClient, form_to, text_of};

const SAID: &str = "the `*` is a part of a name";

#[test]
fn a_scope_that_looks_like_a_wildcard_is_said_wherever_it_is_given() {
    let place = Place::new();
    let (root, state) = (&place.rig.root, &place.rig.state);
    let run = |arguments: &[&str]| {
        let mut command = place.rig.command(arguments);
        command.stdin(Stdio::null()).arg("--state").arg(state);
        let output = command.output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let root = root.to_str().unwrap();
    for (wrong, right) in [("write:/x*", "write:/work/*"), ("read:/wo*k/", "read:/work/")] {
        for (scope, is_said) in [(wrong, true), (right, false)] {
            for command in [
                &["token", "--root", root, "--scope", scope][..],
                &["connect", "cursor", "--root", root, "--scope", scope],
                &["stdio", root, "--scope", scope],
            ] {
                let told = run(command);
                assert_eq!(told.contains(SAID), is_said, "{command:?}: {told}");
            }
        }
    }
    let told = run(&["stdio", root, "--deny", "/x*"]);
    assert!(told.contains(SAID), "{told}");

    let mut owner = place.signed_in_browser();
    let origin = place.url().replace("/mcp", "");
    let page = owner.get(&format!("{origin}/owner/connect"));
    let csrf = &form_to(&page, "/owner/connect/token").fields[0].1;
    for (folder, never, is_said) in
        [("/x*", "", true), ("/work", "/x*", true), ("/work", "", false)]
    {
        let fields = [
            ("csrf", csrf.as_str()),
            ("name", "cursor"),
            ("verb", "write"),
            ("folder", folder),
            ("never", never),
        ];
        let made = text_of(&owner.post(&format!("{origin}/owner/connect/token"), &fields));
        assert!(made.contains("The token is made"), "{made}");
        assert_eq!(made.contains(SAID), is_said, "{folder} {never}: {made}");
    }

    let client = ScriptedClient::connect(&place.url());
    for (scope, is_said) in [("write:/x%2A", true), ("write:/work/*", false)] {
        let page = owner.open(&client.authorization_url(&[("scope", scope)]));
        let words = text_of(&page);
        assert!(words.contains("asks for access"), "{words}");
        assert_eq!(words.contains(SAID), is_said, "{scope}: {words}");
    }
}
