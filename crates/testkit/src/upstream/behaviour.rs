//! What the server receives, and how it treats connections and requests.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// A request, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which connection it came on; the first that was accepted is 1.
    pub connection: usize,
    /// The HTTP method of the request.
    pub method: String,
    /// The target exactly as on the wire, such as `/api/v1/notes/a%2Fb.md`.
    pub target: String,
    /// The version as on the wire, such as `HTTP/1.1`.
    pub version: String,
    /// Names as they were written and values without the space around them, in order. Over HTTP/2
    /// the first is `:authority`.
    pub headers: Vec<(String, String)>,
    /// The request line and the headers, byte for byte; empty over HTTP/2.
    pub head: Vec<u8>,
    /// The body, without chunk sizes.
    pub body: Vec<u8>,
}

impl Received {
    /// The first value of a header, in whichever case its name was written.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All values of a header, to see that it was sent once.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The names of all headers in lower case, in order.
    pub fn names(&self) -> Vec<String> {
        self.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect()
    }

    /// The path of the note that is asked for, decoded; nothing where the target is not a note's.
    pub fn note(&self) -> Option<String> {
        let segment = self.target.strip_prefix("/api/v1/notes/")?;
        if segment.contains(['/', '?', '#']) {
            return None;
        }
        let mut bytes = Vec::with_capacity(segment.len());
        let mut rest = segment.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => {
                    let (high, low) = (rest.next()? as char, rest.next()? as char);
                    u8::try_from(high.to_digit(16)? * 16 + low.to_digit(16)?).ok()?
                }
                byte => byte,
            });
        }
        String::from_utf8(bytes).ok()
    }
}

/// A well-formed reply to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status code.
    pub status: u16,
    /// The words after it.
    pub reason: String,
    /// All headers except `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body, sent in one piece.
    pub body: Vec<u8>,
    /// How long the server thinks before it sends the first byte.
    pub after: Duration,
}

impl Reply {
    /// An answer in JSON with a status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// Any bytes, labelled as a type.
    pub fn bytes(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".to_owned(), media_type.to_owned())];
        Self {
            status,
            reason: "Answer".to_owned(),
            headers,
            body: body.into(),
            after: Duration::ZERO,
        }
    }

    /// A note, as the store answers one.
    pub fn note(frontmatter: &Value, body: &str) -> Self {
        Self::json(200, &json!({ "frontmatter": frontmatter, "body": body }))
    }

    /// The refusal that the store answers with a status.
    pub fn refusal(status: u16, error: &str) -> Self {
        Self::json(status, &json!({ "error": error, "code": status.to_string() }))
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, but later.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(super) fn wire(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, self.reason);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = format!("{head}Content-Length: {}\r\n\r\n", self.body.len()).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// One action on a connection, instead of a reply.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Sends the same bytes again and again, with a pause before each time, until the client
    /// leaves.
    Repeat(Vec<u8>, Duration),
    /// Does nothing for a while.
    Pause(Duration),
    /// Sends nothing more and waits until the client leaves.
    Hang,
    /// Closes the connection properly.
    Close,
    /// Ends the connection with a reset, which may overtake bytes that were sent.
    Reset,
}

/// Computes a reply from the request.
pub type ReplyFn = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;
/// Computes the steps on the connection from the request.
pub type Script = Arc<dyn Fn(&Received) -> Vec<Step> + Send + Sync>;

/// How the server treats connections and requests. [`faults`](super::faults) has the constructors.
#[derive(Clone)]
pub enum Behaviour {
    /// Sends well-formed replies, and keeps the connection.
    Notes(ReplyFn),
    /// Reads each request and then goes through steps. Where they do not end the connection, it is
    /// kept. Over HTTP/2 there are no raw bytes to send, and the stream is reset.
    Wire(Script),
    /// Reads requests and never answers.
    Silence,
    /// Accepts connections and reads nothing.
    Deaf,
    /// Accepts connections and closes them.
    CloseAtOnce,
    /// Has its port closed; connections that were open are cut.
    Refuse,
}

impl Behaviour {
    /// Sends well-formed replies that are computed from the request.
    pub fn notes(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::Notes(Arc::new(answer))
    }

    /// Sends the same reply to every request.
    pub fn always(reply: Reply) -> Self {
        Self::notes(move |_| reply.clone())
    }

    /// Goes through steps that are computed from the request.
    pub fn wire(script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::Wire(Arc::new(script))
    }

    /// Goes through the same steps for every request.
    pub fn steps(steps: Vec<Step>) -> Self {
        Self::wire(move |_| steps.clone())
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Notes(_) => "Notes",
            Self::Wire(_) => "Wire",
            Self::Silence => "Silence",
            Self::Deaf => "Deaf",
            Self::CloseAtOnce => "CloseAtOnce",
            Self::Refuse => "Refuse",
        })
    }
}

/// The state that the server shares with its handle.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) behaviour: Mutex<Behaviour>,
    pub(super) received: Mutex<Vec<Received>>,
    pub(super) connections: AtomicUsize,
    pub(super) open: AtomicUsize,
    pub(super) sent: AtomicU64,
}

impl Shared {
    pub(super) fn behaviour(&self) -> Behaviour {
        held(&self.behaviour).clone()
    }

    pub(super) fn refuses(&self) -> bool {
        matches!(*held(&self.behaviour), Behaviour::Refuse)
    }
}

pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
