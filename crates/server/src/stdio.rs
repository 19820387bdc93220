//! MCP over standard input and output: one line, one message.
//!
//! The SDK's own transport ignores lines that it cannot read, and ends the process if the first
//! message is a notification. This transport answers such lines, reads as strictly as the HTTP edge
//! ([`crate::mcp::envelope`]), and never holds more of a line than [`MAX_LINE_BYTES`]. Only
//! messages of the protocol are written to standard output.
//!
//! The process ends when standard input ends, or when the parent process is gone. A thread of its
//! own reads the input, and nothing waits for that thread: a read that never returns must not keep
//! the process alive. Another thread writes the output, so that an answer wakes one thread and the
//! next call waits for none. `plain_calls` answers most calls without the SDK.

mod plain_calls;

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
#[cfg(unix)]
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta as _, ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage, serve_server};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::mcp::envelope::{self, Envelope, Malformed};
use crate::mcp::handler::{CallerSource, Handler};
use crate::mcp::handshake;
use crate::mcp::list_changes::CurrentRights;
use crate::mcp::presentation::Presentation;
use crate::mcp::revisions;
use crate::mcp::subscriptions::{RevocationCheck, Subscriptions};
use crate::service::Service;
use plain_calls::PlainCalls;

/// The longest line in bytes, without its end: four times the default limit of a body over HTTP.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// How often the process checks that its parent still exists.
#[cfg(unix)]
const PARENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The most lines that are read ahead of the SDK, and the most responses that wait to be written.
const QUEUE_LENGTH: usize = 16;

/// Serves this process's standard input and output until the input ends or the parent goes away.
///
/// # Errors
/// Writing to standard output failed.
pub async fn serve(
    service: Service,
    caller: CallerSource,
    presentation: Presentation,
) -> io::Result<()> {
    // Before the first response is sent, because a parent that has its response may exit.
    let parent_gone = parent_gone();
    let (responses, unwritten) = mpsc::channel(QUEUE_LENGTH);
    let written = write_in_thread(unwritten, io::stdout())?;
    let served = answer(io::stdin(), responses, service, caller, presentation);
    let served = async {
        served.await?;
        written.await
    };
    tokio::select! {
        served = served => served,
        () = parent_gone => Ok(()),
    }
}

/// Serves on any pair of streams until `input` ends.
///
/// # Errors
/// Writing to `output` failed.
pub async fn serve_on(
    input: impl Read + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    service: Service,
    caller: CallerSource,
    presentation: Presentation,
) -> io::Result<()> {
    let (responses, unwritten) = mpsc::channel(QUEUE_LENGTH);
    let writer = tokio::spawn(write_lines(unwritten, output));
    answer(input, responses, service, caller, presentation).await?;
    writer.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Answers the lines of `input` until it ends. The answers go to `responses`.
async fn answer(
    input: impl Read + Send + 'static,
    responses: mpsc::Sender<Vec<u8>>,
    service: Service,
    caller: CallerSource,
    presentation: Presentation,
) -> io::Result<()> {
    let (line_sender, lines) = mpsc::channel(QUEUE_LENGTH);
    // Not joined: the thread ends with its input or with the process.
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || read_lines(input, &line_sender))?;
    let has_ended: Arc<dyn Fn() -> bool + Send + Sync> = match &caller {
        CallerSource::Stdio(client) => {
            let client = Arc::clone(client);
            Arc::new(move || client.is_ended())
        }
        CallerSource::Fixed(_) | CallerSource::Request => Arc::new(|| false),
    };
    let ended = Arc::clone(&has_ended);
    let rights: CurrentRights = Arc::new(move |caller| (!ended()).then(|| caller.clone()));
    let is_revoked: RevocationCheck = Arc::new(move |_| has_ended());
    let subscriptions = Subscriptions::new(is_revoked, rights, CancellationToken::new());
    let handler = Handler::new(service, caller, presentation, Arc::new(subscriptions));
    let plain_calls = PlainCalls::new(handler.clone());
    let transport = StdioTransport {
        lines,
        responses: Some(responses),
        unsent: None,
        is_opened: false,
        plain_calls,
    };
    let served = serve_server(handler, transport).await;
    match served {
        Ok(running) => drop(running.waiting().await),
        // The input ended before the client opened a lifecycle, which is not an error here.
        Err(error) => {
            tracing::debug!(target: "stile::stdio", kind = error_kind(&error), "nothing was opened")
        }
    }
    Ok(())
}

/// Names the kind of an SDK error for the log. The error itself may quote messages.
fn error_kind(error: &rmcp::service::ServerInitializeError) -> &'static str {
    match error {
        rmcp::service::ServerInitializeError::ConnectionClosed(_) => "closed",
        rmcp::service::ServerInitializeError::ExpectedInitializeRequest(_) => "unexpected message",
        _ => "other",
    }
}

/// Completes once the parent of this process is not the parent that it had at the call.
#[cfg(unix)]
fn parent_gone() -> impl Future<Output = ()> {
    let parent = rustix::process::getppid();
    async move {
        let mut interval = tokio::time::interval(PARENT_CHECK_INTERVAL);
        loop {
            interval.tick().await;
            if rustix::process::getppid() != parent {
                tracing::info!(target: "stile::stdio", "the parent process is gone");
                return;
            }
        }
    }
}

/// Never completes: on Windows standard input ends with the process at its other end, and a process
/// keeps the number of its parent.
#[cfg(not(unix))]
fn parent_gone() -> impl Future<Output = ()> {
    std::future::pending()
}

enum InputLine {
    Complete(Vec<u8>),
    /// The line was too long, and its content was dropped.
    TooLong,
}

/// Reads lines until the input ends or nobody receives the lines.
fn read_lines(input: impl Read, lines: &mpsc::Sender<InputLine>) {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    while let Ok(Some(line)) = read_line(&mut input) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Reads one line; `None` at the end of the input. The last line may lack a line end.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<InputLine>> {
    let mut line = Vec::new();
    // One byte more than the limit, to tell a line that fits from a line that does not.
    let limit = MAX_LINE_BYTES as u64 + 1;
    if input.take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || line.len() <= MAX_LINE_BYTES {
        return Ok(Some(InputLine::Complete(line)));
    }
    skip_line(input)?;
    Ok(Some(InputLine::TooLong))
}

/// Reads to the end of a line, a buffer at a time, and drops what is read.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let length = newline.map_or(buffer.len(), |newline| newline + 1);
        input.consume(length);
        if newline.is_some() || length == 0 {
            return Ok(());
        }
    }
}

/// Writes each response as it comes, on a thread of its own, until all senders are gone or a write
/// fails. Returns what waits for that.
fn write_in_thread(
    mut responses: mpsc::Receiver<Vec<u8>>,
    mut output: impl Write + Send + 'static,
) -> io::Result<impl Future<Output = io::Result<()>>> {
    let mut write = move || -> io::Result<()> {
        while let Some(mut response) = responses.blocking_recv() {
            response.push(b'\n');
            output.write_all(&response)?;
            output.flush()?;
        }
        Ok(())
    };
    let (written, has_written) = oneshot::channel();
    // Not joined: a write that never returns must not keep the process alive either.
    std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        let _ = written.send(write());
    })?;
    Ok(async { has_written.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())) })
}

/// Writes each response as it comes, until all senders are gone or a write fails.
async fn write_lines(
    mut responses: mpsc::Receiver<Vec<u8>>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(mut response) = responses.recv().await {
        response.push(b'\n');
        output.write_all(&response).await?;
        output.flush().await?;
    }
    Ok(())
}

/// The transport that the SDK reads from and writes to.
struct StdioTransport {
    lines: mpsc::Receiver<InputLine>,
    responses: Option<mpsc::Sender<Vec<u8>>>,
    /// The response to a line that was not a message. The response waits here until the queue has
    /// room, because the SDK may cancel that wait.
    unsent: Option<Value>,
    /// Whether a request opened a lifecycle. Before that the SDK treats everything but a request as
    /// a fatal error.
    is_opened: bool,
    plain_calls: PlainCalls,
}

/// What a line leads to.
enum LineOutcome {
    /// The SDK gets the message.
    Message(Box<ClientJsonRpcMessage>),
    /// The client gets this response, and the SDK gets nothing.
    Response(Value),
    Ignored,
}

impl Transport<RoleServer> for StdioTransport {
    type Error = Infallible;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let responses = self.responses.clone();
        async move {
            queue(responses, &item).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let (Some(response), Some(responses)) = (&self.unsent, &self.responses) {
                if let Ok(permit) = responses.reserve().await {
                    permit.send(response.to_string().into_bytes());
                }
                self.unsent = None;
            }
            self.unsent = match self.lines.recv().await? {
                InputLine::Complete(line) => match self.read(&line) {
                    LineOutcome::Message(message) => return Some(*message),
                    LineOutcome::Response(response) => Some(response),
                    LineOutcome::Ignored => None,
                },
                InputLine::TooLong => Some(too_long()),
            };
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.responses = None;
        self.lines.close();
        Ok(())
    }
}

async fn queue(responses: Option<mpsc::Sender<Vec<u8>>>, message: &ServerJsonRpcMessage) {
    if let (Some(responses), Ok(bytes)) = (responses, serde_json::to_vec(message)) {
        // An error means that the writer is gone, because nobody reads. The input will end too.
        let _ = responses.send(bytes).await;
    }
}

impl StdioTransport {
    fn read(&mut self, line: &[u8]) -> LineOutcome {
        if line.iter().all(u8::is_ascii_whitespace) {
            return LineOutcome::Ignored;
        }
        let message = match Envelope::parse(line) {
            Ok(message) => message,
            Err(malformed) => return LineOutcome::Response(malformed.to_json()),
        };
        if let Err(misfit) = handshake::check(&message) {
            return LineOutcome::Response(misfit.to_json());
        }
        if self.plain_calls.takes(&message, self.responses.as_ref()) {
            return LineOutcome::Ignored;
        }
        let id = message.id().filter(|_| message.is_request()).cloned();
        let Ok(message) = serde_json::from_value::<ClientJsonRpcMessage>(message.into_value())
        else {
            let message = "the message is not one of the protocol's".to_owned();
            return LineOutcome::Response(
                Malformed { code: envelope::INVALID_REQUEST, message, id }.to_json(),
            );
        };
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                self.is_opened = self.is_opened || opens_lifecycle(&request.request)
            }
            _ if self.is_opened => {}
            _ => return LineOutcome::Ignored,
        }
        LineOutcome::Message(Box::new(message))
    }
}

/// Returns whether this request opens a lifecycle, so that the SDK leaves its opening loop.
fn opens_lifecycle(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let supported = |version| revisions::ALL.contains(&version);
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(supported)
        }
    }
}

fn too_long() -> Value {
    let message = format!("a message may have at most {MAX_LINE_BYTES} bytes");
    envelope::error(None, envelope::INVALID_REQUEST, &message, None)
}
