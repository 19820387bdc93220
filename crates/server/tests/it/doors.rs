//! A server with notes and a gateway that stand behind one identity provider, well or badly.

use serde_json::json;
use stile_testkit::hosted::{AUDIENCE, Hosted, Lifecycle, Peer};
use stile_testkit::issuer::{Issuer, Mint};
use stile_testkit::process::Server;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

/// The program; another one where `STILE_BIN` names it.
pub(crate) fn binary() -> std::path::PathBuf {
    std::env::var_os("STILE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_stile").into()).into()
}

/// A server with notes and a gateway, which trust one provider.
pub(crate) struct Doors {
    pub(crate) hosted: Hosted,
    pub(crate) doors: Vec<(&'static str, Server)>,
    _upstream: Upstream,
}

impl Doors {
    pub(crate) fn open() -> Self {
        Self::before(|_| {})
    }

    /// With a provider that is in this state when they start.
    pub(crate) fn before(state: impl FnOnce(&Issuer)) -> Self {
        let hosted = Hosted::new(binary());
        state(&hosted.issuer);
        let upstream = Upstream::start(Behaviour::always(Reply::note(&json!({}), "# A\n")));
        let serve = hosted.origin(&hosted.rig("origin"), &[]);
        let gateway = hosted.gateway(&upstream.url(), &[]);
        Self { hosted, doors: vec![("serve", serve), ("gateway", gateway)], _upstream: upstream }
    }

    pub(crate) fn issuer(&self) -> &Issuer {
        &self.hosted.issuer
    }

    pub(crate) fn mint(&self) -> Mint<'_> {
        self.issuer().mint("ann", AUDIENCE).scope("read:/")
    }

    pub(crate) fn assert_all(&self, what: &str, token: &str, status: u16) {
        for (name, server) in &self.doors {
            assert_eq!(asked(server, token), status, "{name}: {what}");
        }
    }
}

/// The status of a list of tools with this token.
pub(crate) fn asked(server: &Server, token: &str) -> u16 {
    let reply = Peer::new(server.address, token, Lifecycle::Sessionless)
        .post("tools/list", json!({}))
        .unwrap();
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    assert_eq!(challenge.contains("error=\"invalid_token\""), reply.status == 401, "{reply:?}");
    if reply.status == 503 {
        assert_eq!(reply.header("retry-after"), Some("1"), "{reply:?}");
        assert_eq!(reply.json()["error"], "provider_unavailable", "{reply:?}");
    }
    reply.status
}

/// Sets that are none, each by a name.
pub(crate) fn bad_sets() -> Vec<(&'static str, Behaviour)> {
    let raw = |text: &str| Behaviour::always(Reply::bytes(200, "application/json", text));
    vec![
        ("garbage", raw("<html>")),
        ("empty", raw("")),
        ("no keys", raw("{\"keys\":[]}")),
        (
            "a shared key alone",
            raw("{\"keys\":[{\"kty\":\"oct\",\"k\":\"AQAB\",\"kid\":\"es256-1\"}]}"),
        ),
        ("huge", Behaviour::always(Reply::bytes(200, "application/json", vec![b' '; 300 * 1024]))),
        ("endless", Behaviour::endless_chunks()),
        ("declares much", Behaviour::declares(1 << 40)),
        ("not found", Behaviour::always(Reply::refusal(404, "gone"))),
        ("error", Behaviour::always(Reply::refusal(500, "broken"))),
        (
            "elsewhere",
            Behaviour::always(
                Reply::refusal(302, "moved").with_header("Location", "/elsewhere.json"),
            ),
        ),
        ("hangs up", Behaviour::CloseAtOnce),
        ("dead", Behaviour::Refuse),
        ("silent", Behaviour::Silence),
    ]
}
