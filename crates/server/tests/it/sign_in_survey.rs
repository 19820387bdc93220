//! The clients of the survey in decision 33: what each publishes or registers, and where it
//! wants its answers.

use serde_json::{Value, json};

/// How a client becomes known.
#[derive(Clone)]
pub enum Known {
    /// By the document at this address.
    Document(&'static str, Value),
    /// By a registration.
    Registered(Value),
}

/// A client of the survey.
pub struct Row {
    pub name: &'static str,
    pub known: Known,
    /// The addresses that the client sends.
    pub redirects: &'static [&'static str],
    /// Neighbours of these addresses, which are not the client's.
    pub refused: &'static [&'static str],
    /// The scope that the client asks for; ChatGPT names none when it connects again.
    pub scope: &'static str,
}

const CODE_AND_REFRESH: [&str; 2] = ["authorization_code", "refresh_token"];

/// A document as most clients publish it.
pub fn document(url: &str, name: &str, redirects: &[&str]) -> Value {
    json!({
        "client_id": url,
        "client_name": name,
        "redirect_uris": redirects,
        "grant_types": CODE_AND_REFRESH,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    })
}

pub fn with(mut document: Value, members: Value) -> Value {
    let (Value::Object(document), Value::Object(members)) = (&mut document, members) else {
        panic!("not objects")
    };
    document.extend(members);
    Value::Object(document.clone())
}

const CLAUDE: &str = "https://claude.ai/oauth/mcp-oauth-client-metadata";
const CLAUDE_CODE: &str = "https://claude.ai/oauth/claude-code-client-metadata";
const CHATGPT: &str = "https://chatgpt.com/oauth/client.json";
const CHATGPT_CALLBACK: &str = "https://chatgpt.com/oauth/kDmjx77UnKOM/client.json";
const CODEX: &str = "https://chatgpt.com/oauth/codex/client.json";
const CODEX_CALLBACK: &str = "https://chatgpt.com/oauth/codex/kDmjx77UnKOM/client.json";
const VS_CODE: &str = "https://vscode.dev/oauth/client-metadata.json";
const ZED: &str = "https://zed.dev/oauth/client-metadata.json";
const OPENCODE: &str = "https://opencode.ai/oauth/opencode/client.json";

/// What hosted clients must not be sent to.
const NOT_CLAUDE: [&str; 6] = [
    "https://claude.ai/api/mcp/auth_callback/",
    "https://claude.ai/api/mcp/auth_callback?next=https://evil.example",
    "https://claude.ai.evil.example/api/mcp/auth_callback",
    "https://claude.ai@evil.example/api/mcp/auth_callback",
    "https://claude.ai/redirect",
    "http://localhost:3118/callback",
];
/// What clients with `/callback` at a loopback address must not be sent to.
const NOT_LOOPBACK_CALLBACK: [&str; 7] = [
    "http://127.0.0.1:3118/other",
    "http://127.0.0.1:3118/callback/../other",
    "http://127.0.0.1.evil.example:3118/callback",
    "http://localhost@evil.example/callback",
    "http://192.168.0.1:3118/callback",
    "https://127.0.0.1:3118/callback",
    "http://127.0.0.1:3118/callback?code=theirs",
];

/// The redirect addresses of most programs on a person's computer.
const LOOPBACK: [&str; 2] = ["http://127.0.0.1/callback", "http://localhost/callback"];

fn published(
    name: &'static str,
    url: &'static str,
    document: Value,
    redirects: &'static [&'static str],
    refused: &'static [&'static str],
) -> Row {
    let known = Known::Document(url, document);
    Row { name, known, redirects, refused, scope: "read:/ offline_access" }
}

/// Clients that publish a document.
pub fn clients_with_documents() -> Vec<Row> {
    hosted_clients().into_iter().chain(programs()).collect()
}

/// Clients that run at their makers.
fn hosted_clients() -> Vec<Row> {
    let jwt_bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let claude = with(
        document(CLAUDE, "Claude", &["https://claude.ai/api/mcp/auth_callback"]),
        json!({ "client_uri": "https://claude.ai",
            "grant_types": ["authorization_code", "refresh_token", jwt_bearer] }),
    );
    let with_key = json!({
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "token_endpoint_auth_signing_alg": "RS256",
        "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
        "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
    });
    let chatgpt = |url, redirect| with(document(url, "ChatGPT", &[redirect]), with_key.clone());
    let chatgpt_row = published(
        "ChatGPT",
        CHATGPT,
        chatgpt(CHATGPT, "https://chatgpt.com/connector_platform_oauth_redirect"),
        &["https://chatgpt.com/connector_platform_oauth_redirect"],
        &[
            "https://chatgpt.com/connector_platform_oauth_redirect/x",
            "https://chatgpt.com/connector/oauth/kDmjx77UnKOM",
            "https://chat.openai.com/connector_platform_oauth_redirect",
            "http://127.0.0.1:1/callback",
        ],
    );
    vec![
        published(
            "Claude",
            CLAUDE,
            claude,
            &["https://claude.ai/api/mcp/auth_callback"],
            &NOT_CLAUDE,
        ),
        // ChatGPT leaves the scope out when it connects again.
        Row { scope: "", ..chatgpt_row },
        published(
            "ChatGPT, with a document for each connection",
            CHATGPT_CALLBACK,
            chatgpt(CHATGPT_CALLBACK, "https://chatgpt.com/connector/oauth/kDmjx77UnKOM"),
            &["https://chatgpt.com/connector/oauth/kDmjx77UnKOM"],
            &["https://chatgpt.com/connector/oauth/another"],
        ),
    ]
}

/// Clients that run on a person's computer.
fn programs() -> Vec<Row> {
    let vs_code = ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"];
    let device_code = "urn:ietf:params:oauth:grant-type:device_code";
    let vs_code = with(
        document(VS_CODE, "Visual Studio Code", &vs_code),
        json!({ "application_type": "native",
            "grant_types": ["authorization_code", "refresh_token", device_code] }),
    );
    let native = json!({ "application_type": "native" });
    vec![
        published(
            "Claude Code",
            CLAUDE_CODE,
            document(CLAUDE_CODE, "Claude Code", &LOOPBACK),
            &["http://localhost:53001/callback", "http://127.0.0.1:53002/callback"],
            &NOT_LOOPBACK_CALLBACK,
        ),
        published(
            "Codex",
            CODEX,
            document(CODEX, "Codex", &LOOPBACK),
            &["http://127.0.0.1:41007/callback", "http://localhost:41007/callback"],
            &NOT_LOOPBACK_CALLBACK,
        ),
        published(
            "Codex, with a document for each connection",
            CODEX_CALLBACK,
            document(CODEX_CALLBACK, "Codex", &LOOPBACK),
            &["http://127.0.0.1:41008/callback"],
            &NOT_LOOPBACK_CALLBACK,
        ),
        published(
            "Visual Studio Code",
            VS_CODE,
            vs_code,
            &["http://127.0.0.1:33418/", "http://127.0.0.1:41233/", "https://vscode.dev/redirect"],
            &[
                "http://127.0.0.1:33418/callback",
                "http://localhost:33418/",
                "https://vscode.dev/redirect?url=https://evil.example",
                "https://insiders.vscode.dev/redirect",
            ],
        ),
        published(
            "Zed",
            ZED,
            document(ZED, "Zed", &["http://127.0.0.1/callback"]),
            &["http://127.0.0.1:52011/callback"],
            &NOT_LOOPBACK_CALLBACK,
        ),
        published(
            "opencode",
            OPENCODE,
            with(document(OPENCODE, "opencode", &LOOPBACK), native),
            &["http://127.0.0.1:51675/callback"],
            &NOT_LOOPBACK_CALLBACK,
        ),
    ]
}

/// Clients that register.
pub fn clients_that_register() -> Vec<Row> {
    let row = |name: &'static str, redirects: &'static [&'static str], refused, more: Value| Row {
        name,
        known: Known::Registered(with(
            json!({ "client_name": name, "redirect_uris": redirects }),
            more,
        )),
        redirects,
        refused,
        scope: "read:/",
    };
    let whole = json!({
        "grant_types": CODE_AND_REFRESH,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    vec![
        row(
            "Cursor",
            &[
                "cursor://anysphere.cursor-mcp/oauth/callback",
                "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback",
            ],
            &[
                "cursor://anysphere.cursor-mcp/oauth/callback/x",
                "cursor://another.extension/oauth/callback",
                "https://www.cursor.com/agents",
            ],
            whole.clone(),
        ),
        row(
            "Gemini CLI",
            &["http://localhost:7777/oauth/callback"],
            &["http://localhost:7777/callback", "http://127.0.0.1:7777/oauth/callback"],
            with(whole.clone(), json!({ "token_endpoint_auth_method": null, "scope": "read:/" })),
        ),
        // Claude registers where documents are not fetched; it asks for a secret in some versions.
        row(
            "Claude",
            &[
                "https://claude.ai/api/mcp/auth_callback",
                "https://claude.com/api/mcp/auth_callback",
            ],
            &NOT_CLAUDE,
            with(whole.clone(), json!({ "token_endpoint_auth_method": "client_secret_post" })),
        ),
        row("Claude Code", &["http://localhost:53001/callback"], &[], whole.clone()),
        row("ChatGPT", &["https://chatgpt.com/connector/oauth/kDmjx77UnKOM"], &[], whole.clone()),
        row(
            "Visual Studio Code",
            &[
                "http://127.0.0.1:33418",
                "http://127.0.0.1:33418/",
                "http://127.0.0.1/",
                "https://vscode.dev/redirect",
                "https://insiders.vscode.dev/redirect",
            ],
            &["https://vscode.dev/"],
            with(whole, json!({ "application_type": "native", "logo_uri": "https://a.example/l" })),
        ),
    ]
}
