//! MCP over standard input and output: one line, one message.
//!
//! The SDK's own transport passes over lines that it cannot read in silence, and a notification
//! that comes first ends its process. This one answers what it can be asked about, reads as
//! strictly as the HTTP edge does ([`crate::mcp::envelope`]), and holds no more of a line than a
//! message may be long. Only protocol is written to standard output.
//!
//! The process ends when standard input ends, and when its parent goes away without closing it.
//! Input is read by a thread of its own that nothing waits for: a read that never returns must not
//! keep the process alive.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta as _, ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage, serve_server};
use rmcp::transport::Transport;
use serde_json::Value;
use stile_domain::permit::Principal;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::ToolNames;
use crate::mcp::envelope::{self, Envelope, Malformed};
use crate::mcp::handler::{CallerSource, Handler};
use crate::mcp::server_info;
use crate::service::Service;
use stile_tools::toolset::Caller;

/// The longest line, without its end. A message that is accepted over HTTP fits four times.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// How often it is looked whether the parent is still there.
const PARENT_WATCH: Duration = Duration::from_secs(1);
/// Lines read ahead of the SDK, and answers waiting for the client to read.
const QUEUE: usize = 16;

/// Serves this process's standard input and output until the input ends or the parent goes away.
///
/// # Errors
/// What writing to standard output met.
pub async fn serve(
    service: Service,
    principal: Principal,
    tool_names: ToolNames,
) -> io::Result<()> {
    // Before a word is answered: whoever has an answer may be gone the next moment.
    let parent_gone = parent_gone();
    tokio::select! {
        served = serve_on(io::stdin(), tokio::io::stdout(), service, principal, tool_names) => served,
        () = parent_gone => Ok(()),
    }
}

/// Serves on any pair of streams until `input` ends.
///
/// # Errors
/// What writing to `output` met.
pub async fn serve_on(
    input: impl Read + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    service: Service,
    principal: Principal,
    tool_names: ToolNames,
) -> io::Result<()> {
    let (lines_in, lines) = mpsc::channel(QUEUE);
    // Not joined: it ends with its input, or with the process.
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || read_lines(input, &lines_in))?;
    let (answers, answers_out) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write_lines(answers_out, output));
    let handler = Handler::new(service, CallerSource::Fixed(Caller::local(principal)), tool_names);
    let served =
        serve_server(handler, Lines { lines, answers: Some(answers), unsent: None, opened: false })
            .await;
    match served {
        Ok(running) => drop(running.waiting().await),
        // The input ended before anything was opened, which is no failure of ours.
        Err(error) => {
            tracing::debug!(target: "stile::stdio", kind = kind(&error), "nothing was opened")
        }
    }
    finish(writer).await
}

/// The SDK's errors may quote messages; only their kind is logged.
fn kind(error: &rmcp::service::ServerInitializeError) -> &'static str {
    match error {
        rmcp::service::ServerInitializeError::ConnectionClosed(_) => "closed",
        rmcp::service::ServerInitializeError::ExpectedInitializeRequest(_) => "unexpected message",
        _ => "other",
    }
}

async fn finish(writer: JoinHandle<io::Result<()>>) -> io::Result<()> {
    writer.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Completes once this process has another parent than it had.
fn parent_gone() -> impl Future<Output = ()> {
    let parent = rustix::process::getppid();
    async move {
        let mut look = tokio::time::interval(PARENT_WATCH);
        loop {
            look.tick().await;
            if rustix::process::getppid() != parent {
                tracing::info!(target: "stile::stdio", "the parent process is gone");
                return;
            }
        }
    }
}

/// One line of input.
enum Line {
    Whole(Vec<u8>),
    /// It was too long; what was read of it is gone.
    TooLong,
}

/// Reads lines until the input or their receiver ends.
fn read_lines(input: impl Read, lines: &mpsc::Sender<Line>) {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    while let Ok(Some(line)) = read_line(&mut input) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Reads one line, `None` at the end. A last line without an end is one too.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One more than may be, to tell a line that fits from one that does not.
    let most = MAX_LINE_BYTES as u64 + 1;
    if input.take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || line.len() <= MAX_LINE_BYTES {
        return Ok(Some(Line::Whole(line)));
    }
    skip_line(input)?;
    Ok(Some(Line::TooLong))
}

/// Drops the rest of a line, a buffer at a time.
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

/// Writes each answer as it comes; ends when there can be no more, or nobody reads.
async fn write_lines(
    mut answers: mpsc::Receiver<Vec<u8>>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(mut answer) = answers.recv().await {
        answer.push(b'\n');
        output.write_all(&answer).await?;
        output.flush().await?;
    }
    Ok(())
}

/// The transport as the SDK sees it.
struct Lines {
    lines: mpsc::Receiver<Line>,
    answers: Option<mpsc::Sender<Vec<u8>>>,
    /// An answer to a line that was no message. It waits here, since a wait for room may be
    /// cancelled.
    unsent: Option<Value>,
    /// Whether a lifecycle was chosen. Before that the SDK takes anything but a request for a fatal
    /// error.
    opened: bool,
}

/// What becomes of a line.
enum Reading {
    Message(Box<ClientJsonRpcMessage>),
    Answer(Value),
    Nothing,
}

impl Transport<RoleServer> for Lines {
    type Error = Infallible;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let answers = self.answers.clone();
        async move {
            queue(answers, &item).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let (Some(answer), Some(answers)) = (&self.unsent, &self.answers) {
                if let Ok(room) = answers.reserve().await {
                    room.send(answer.to_string().into_bytes());
                }
                self.unsent = None;
            }
            self.unsent = match self.lines.recv().await? {
                Line::Whole(line) => match self.read(&line) {
                    Reading::Message(message) => return Some(*message),
                    Reading::Answer(answer) => Some(answer),
                    Reading::Nothing => None,
                },
                Line::TooLong => Some(too_long()),
            };
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.answers = None;
        self.lines.close();
        Ok(())
    }
}

async fn queue(answers: Option<mpsc::Sender<Vec<u8>>>, message: &ServerJsonRpcMessage) {
    // Where the writer is gone nobody reads, and the input will end as well.
    if let (Some(answers), Ok(bytes)) = (answers, serde_json::to_vec(message)) {
        let _ = answers.send(bytes).await;
    }
}

impl Lines {
    fn read(&mut self, line: &[u8]) -> Reading {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Reading::Nothing;
        }
        let message = match Envelope::parse(line) {
            Ok(message) => message,
            Err(malformed) => return Reading::Answer(malformed.to_json()),
        };
        let id = message.id().filter(|_| message.is_request()).cloned();
        let Ok(message) = serde_json::from_value::<ClientJsonRpcMessage>(message.into_value())
        else {
            let message = "the message is not one of the protocol's".to_owned();
            return Reading::Answer(
                Malformed { code: envelope::INVALID_REQUEST, message, id }.to_json(),
            );
        };
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                self.opened = self.opened || opens(&request.request)
            }
            _ if self.opened => {}
            _ => return Reading::Nothing,
        }
        Reading::Message(Box::new(message))
    }
}

/// Whether the SDK leaves its opening loop with this request.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let supported = |version| server_info::PROTOCOL_VERSIONS.contains(&version);
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(supported)
        }
    }
}

fn too_long() -> Value {
    let message = format!("a message may have at most {MAX_LINE_BYTES} bytes");
    envelope::error(None, envelope::INVALID_REQUEST, &message, None)
}
