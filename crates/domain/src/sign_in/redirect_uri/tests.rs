//! Which redirect URIs are accepted, from a client and from the owner, and which match.

use proptest::prelude::*;

use super::*;

fn uri(text: &str) -> RedirectUri {
    RedirectUri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> BadRedirectUri {
    RedirectUri::parse(text).expect_err(text)
}

#[test]
fn the_addresses_that_clients_really_use_are_accepted() {
    use RedirectKind::{Loopback, Native, Web};
    for (text, kind, host) in [
        ("https://claude.ai/api/mcp/auth_callback", Web, "claude.ai"),
        ("https://claude.com/api/mcp/auth_callback", Web, "claude.com"),
        ("http://localhost/callback", Loopback, "localhost"),
        ("http://127.0.0.1:53123/callback", Loopback, "127.0.0.1"),
        ("http://[::1]:53123/callback", Loopback, "[::1]"),
        ("https://chatgpt.com/connector_platform_oauth_redirect", Web, "chatgpt.com"),
        ("https://chatgpt.com/connector/oauth/kDmjx77UnKOM", Web, "chatgpt.com"),
        ("http://127.0.0.1:33418/", Loopback, "127.0.0.1"),
        ("http://127.0.0.1:33418", Loopback, "127.0.0.1"),
        ("https://vscode.dev/redirect", Web, "vscode.dev"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", Native, "anysphere.cursor-mcp"),
        ("https://www.cursor.com/agents/mcp/oauth/callback", Web, "www.cursor.com"),
        ("http://localhost:8787/callback", Loopback, "localhost"),
        ("http://localhost:7777/oauth/callback", Loopback, "localhost"),
        ("vscode://saoudrizwan.claude-dev/mcp-auth/callback/a1", Native, "saoudrizwan.claude-dev"),
        ("raycast://oauth?package_name=mcp_server_dust_(dev)", Native, "oauth"),
        ("warp://mcp/oauth2callback", Native, "mcp"),
        ("com.raycast:/oauth", Native, "com.raycast"),
        ("com.raycast:/oauth?package_name=Extension", Native, "com.raycast"),
        ("com.example.app://oauth/callback", Native, "com.example.app"),
        ("com.example-app.v2:///callback", Native, "com.example-app.v2"),
        ("https://127.0.0.1:8443/cb?from=a%20b", Web, "127.0.0.1"),
        // A scheme has no case.
        ("COM.Raycast:/oauth", Native, "COM.Raycast"),
        ("HTTPS://claude.ai/callback", Web, "claude.ai"),
        ("Cursor://anysphere.cursor-mcp/oauth/callback", Native, "anysphere.cursor-mcp"),
        ("Http://localhost/callback", Loopback, "localhost"),
    ] {
        let parsed = uri(text);
        assert_eq!((parsed.as_str(), parsed.kind(), parsed.host()), (text, kind, host));
    }
}

#[test]
fn whatever_two_parsers_may_read_differently_is_refused() {
    use BadRedirectUri::*;
    for (text, reason) in [
        ("", Length),
        ("javascript:alert(1)", Form),
        ("javascript://claude.ai/%0aalert(1)", Character),
        ("javascript://claude.ai/alert(1)", Scheme),
        ("data:text/html,hi", Form),
        ("file:///etc/passwd", Scheme),
        ("JavaScript://claude.ai/alert(1)", Scheme),
        ("CURSOR://evil.extension/oauth/callback", Scheme),
        ("HTTP://claude.ai/callback", Scheme),
        ("blob:https://claude.ai/a", Form),
        ("intent://claude.ai/callback", Scheme),
        ("javascript:/alert(1)", Scheme),
        ("view-source:https://claude.ai/", Form),
        ("/callback", Form),
        ("//claude.ai/callback", Form),
        ("https:/claude.ai/callback", Form),
        ("https:///claude.ai/callback", Host),
        ("https://", Host),
        ("http://claude.ai/callback", Scheme),
        ("http://127.0.0.2/callback", Scheme),
        ("http://127.0.0.1.evil.example/callback", Scheme),
        ("http://localhost.evil.example/callback", Scheme),
        ("http://localhost@evil.example/callback", UserInfo),
        ("https://claude.ai@evil.example/callback", UserInfo),
        ("https://claude.ai%40evil.example/callback", Host),
        ("https://claude.ai\\@evil.example/callback", Character),
        ("https://evil.example\\.claude.ai/callback", Character),
        ("https://claude.ai/a\\b", Character),
        ("https://claude.ai/a%5Cb", Character),
        ("https://claude.ai/callback#", Fragment),
        ("https://claude.ai#@evil.example/", Fragment),
        ("https://claude.ai/call back", Character),
        (" https://claude.ai/callback", Character),
        ("https://claude.ai/callback\n", Character),
        ("https://claude.ai/%0d%0aSet-Cookie:a", Character),
        ("https://claude.ai/%zz", Character),
        ("https://claude.ai/%2", Character),
        ("https://Claude.ai/callback", Host),
        ("https://claude.ai./callback", Host),
        ("https://clаude.ai/callback", Character),
        ("https://-claude.ai/callback", Host),
        ("https://claude..ai/callback", Host),
        ("https://2130706433/callback", Host),
        ("https://0x7f.1/callback", Host),
        ("https://127.1/callback", Host),
        ("https://127.0.0.01/callback", Host),
        ("https://[::1/callback", Host),
        ("https://[::1]a/callback", Host),
        ("https://[0::1]/callback", Host),
        ("https://[fe80::1%25eth0]/callback", Host),
        ("http://localhost:/callback", Port),
        ("http://localhost:0/callback", Port),
        ("http://localhost:080/callback", Port),
        ("http://localhost:65536/callback", Port),
        ("http://localhost:8a/callback", Port),
        ("https://claude.ai/api/../callback", Dots),
        ("https://claude.ai/api/%2e%2E/callback", Dots),
        ("https://claude.ai/./callback", Dots),
        ("https://claude.ai/..", Dots),
        ("https://claude.ai/callback?code=mine", AnswerParameter),
        ("https://claude.ai/callback?a=b&st%61te=mine", AnswerParameter),
        ("cursor://evil.extension/oauth/callback", Scheme),
        ("cursor://anysphere.cursor-mcp:1/oauth/callback", Scheme),
        ("cursor://anysphere.cursor-mcp.evil/oauth/callback", Scheme),
        ("cursor:anysphere.cursor-mcp/oauth/callback", Form),
        ("vscode://evil.extension/mcp-auth/callback", Scheme),
        ("myapp://oauth/callback", Scheme),
        ("warp://evil/oauth2callback", Scheme),
        ("warp:/mcp/oauth2callback", Scheme),
        ("com.example.app:oauth/callback", Form),
        ("com..app:/callback", Scheme),
        ("com.-app:/callback", Scheme),
        (".com:/callback", Scheme),
        ("1com.example:/callback", Scheme),
        ("com.example.app://user@host/callback", UserInfo),
        ("com.example.app:/a/../callback", Dots),
        ("com.example.app:/callback?code=mine", AnswerParameter),
    ] {
        assert_eq!(error(text), reason, "{text:?}");
    }
    let fits = format!("https://a.example/{}", "a".repeat(MAX_REDIRECT_URI_BYTES - 18));
    assert_eq!(uri(&fits).as_str().len(), MAX_REDIRECT_URI_BYTES);
    assert_eq!(error(&format!("{fits}a")), Length);
}

#[test]
fn the_owner_adds_any_scheme_of_an_application_and_none_that_a_browser_acts_on() {
    let by_owner = |text: &str| RedirectUri::parse_of_owner(text);
    for text in ["myapp://oauth/callback", "my-app:/callback", "vscode://evil.extension/a"] {
        assert_eq!(error(text), BadRedirectUri::Scheme, "{text}");
        let parsed = by_owner(text).unwrap();
        assert_eq!((parsed.kind(), parsed.as_str()), (RedirectKind::Native, text));
    }
    assert_eq!(by_owner("myapp://oauth/callback").unwrap().form_action_source(), "myapp:");
    let dangerous = NEVER.iter().chain(&["JavaScript", "1a", "http"]);
    for scheme in dangerous {
        for text in [format!("{scheme}://a/b"), format!("{scheme}:/a")] {
            assert!(by_owner(&text).is_err(), "{text}");
            assert!(RedirectUri::parse(&text).is_err(), "{text}");
        }
    }
    for text in ["javascript:alert(1)", "data:text/html,hi", "file:///etc/passwd"] {
        assert!(by_owner(text).is_err(), "{text}");
    }
}

#[test]
fn registered_addresses_allow_themselves_and_other_loopback_ports_only() {
    let allows = |registered: &str, sent: &str| uri(registered).allows(&uri(sent));
    for (registered, sent) in [
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback"),
        ("http://localhost/callback", "http://localhost:3118/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:65535/callback"),
        ("http://[::1]/callback", "http://[::1]:3118/callback"),
        ("http://localhost:8787/callback", "http://localhost:9/callback"),
        ("http://127.0.0.1:33418/", "http://127.0.0.1:41000"),
        ("http://127.0.0.1:9/cb?a=1", "http://127.0.0.1:10/cb?a=1"),
    ] {
        assert!(allows(registered, sent), "{registered} {sent}");
    }
    for (registered, sent) in [
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback/"),
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback?a=b"),
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.ai:443/api/mcp/auth_callback"),
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"),
        ("https://claude.ai/api/mcp/auth_callback", "https://a.claude.ai/api/mcp/auth_callback"),
        ("https://localhost/callback", "https://localhost:3118/callback"),
        ("http://localhost/callback", "http://127.0.0.1:3118/callback"),
        ("http://127.0.0.1/callback", "http://[::1]:3118/callback"),
        ("http://localhost/callback", "https://localhost/callback"),
        ("http://localhost/callback", "http://localhost:3118/callback/"),
        ("http://localhost/callback", "http://localhost:3118/other"),
        ("http://localhost/callback", "http://localhost:3118/Callback"),
        ("http://localhost/callback", "http://localhost:3118/callback?a=b"),
        ("http://localhost/callback", "http://localhost:3118/callback?"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth"),
    ] {
        assert!(!allows(registered, sent), "{registered} {sent}");
    }
}

#[test]
fn an_answer_is_added_to_the_query_and_encoded() {
    let answer = [("code", "a b&c"), ("iss", "https://stile.example")];
    let added = |text: &str| uri(text).with_parameters(&answer);
    let parameters = "code=a%20b%26c&iss=https%3A%2F%2Fstile.example";
    assert_eq!(added("https://a.example/cb"), format!("https://a.example/cb?{parameters}"));
    assert_eq!(added("http://localhost:1"), format!("http://localhost:1?{parameters}"));
    assert_eq!(added("https://a.example/?x=1"), format!("https://a.example/?x=1&{parameters}"));
    assert_eq!(added("https://a.example/?"), format!("https://a.example/?{parameters}"));
    // An `&` in a path begins no query.
    assert_eq!(added("https://a.example/b&"), format!("https://a.example/b&?{parameters}"));
}

#[test]
fn the_consent_page_may_lead_to_the_origin_of_the_client_and_nowhere_else() {
    let source = |text: &str| uri(text).form_action_source();
    assert_eq!(source("https://claude.ai/api/mcp/auth_callback"), "https://claude.ai");
    assert_eq!(source("http://127.0.0.1:33418/"), "http://127.0.0.1:33418");
    assert_eq!(source("cursor://anysphere.cursor-mcp/oauth/callback"), "cursor:");
    assert_eq!(source("com.raycast:/oauth"), "com.raycast:");
    assert_eq!(source("COM.Raycast:/oauth"), "com.raycast:");
}

#[test]
fn a_scheme_may_have_any_case_and_an_address_matches_as_it_is_written() {
    let allows = |registered: &str, requested: &str| uri(registered).allows(&uri(requested));
    assert!(allows("COM.Raycast:/oauth", "COM.Raycast:/oauth"));
    assert!(!allows("com.raycast:/oauth", "COM.Raycast:/oauth"));
    assert!(!allows("HTTPS://claude.ai/callback", "https://claude.ai/callback"));
    assert!(allows("Http://localhost/callback", "http://localhost:1234/callback"));
    assert!(!allows("com.raycast:/oauth", "com.raycast:/OAuth"));
    assert!(!allows("https://claude.ai/callback", "https://claude.ai/Callback"));
}

#[test]
fn an_answer_to_this_computer_is_recognised_in_every_form() {
    let stays = |text: &str| uri(text).stays_on_this_computer();
    assert!(stays("http://localhost/a") && stays("https://127.0.0.9/a"));
    assert!(stays("https://localhost/a") && stays("https://[::1]/a"));
    assert!(stays("cursor://anysphere.cursor-mcp/oauth/callback") && stays("com.raycast:/a"));
    assert!(!stays("https://claude.ai/a") && !stays("https://localhost.example/a"));
}

proptest! {
    #[test]
    fn any_text_is_refused_or_read_in_one_way(
        text in "(https|http|cursor|javascript)://[a-z0-9.:@%\\[\\]\\\\]{0,20}[/?#%a-z0-9.=&\\\\]{0,20}"
    ) {
        if let Ok(parsed) = RedirectUri::parse(&text) {
            prop_assert_eq!(parsed.as_str(), &text);
            prop_assert!(parsed.allows(&parsed));
            prop_assert!(text.contains(parsed.host()) && !parsed.host().contains('@'));
            let prefix = format!("://{}", parsed.host());
            let after = text.split_once(&prefix).map(|(_, after)| after).unwrap_or("none");
            prop_assert!(after.is_empty() || after.starts_with([':', '/', '?']), "{}", text);
        }
    }

    #[test]
    fn only_a_loopback_port_may_differ(
        host in "(localhost|127\\.0\\.0\\.1|\\[::1\\])",
        path in "/[a-z]{0,3}",
        ports in (1u16.., 1u16..),
        change in "[a-z]{1,2}",
    ) {
        let registered = uri(&format!("http://{host}:{}{path}", ports.0));
        let sent = format!("http://{host}:{}{path}", ports.1);
        prop_assert!(registered.allows(&uri(&sent)));
        let changed = format!("{sent}{change}");
        prop_assert!(!registered.allows(&uri(&changed)));
        let secure = |port: u16| uri(&format!("https://{host}:{port}{path}"));
        prop_assert_eq!(secure(ports.0).allows(&secure(ports.1)), ports.0 == ports.1);
    }
}
