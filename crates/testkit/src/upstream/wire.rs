//! HTTP/1.1 by hand: as much of it as reads every request a client may send, and no check of it.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::behaviour::{Behaviour, Received, Shared, Step, held};

/// A head that is longer is not read on.
const HEAD_BYTES: usize = 1 << 20;

/// What a flood sends at once.
const FLOOD_BYTES: usize = 1 << 16;

/// A connection in clear or under TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Makes closing a reset.
    fn abort(&self);
}

impl Socket for TcpStream {
    fn abort(&self) {
        let _ = self.set_zero_linger();
    }
}

impl Socket for TlsStream<TcpStream> {
    fn abort(&self) {
        self.get_ref().0.abort();
    }
}

/// Reads requests and does with each what the behaviour of the moment says.
pub(super) async fn serve(
    mut socket: impl Socket,
    number: usize,
    shared: &Shared,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(received) = read(&mut socket, &mut buffer, number).await? {
        let keeps = keeps(&received);
        held(&shared.received).push(received.clone());
        match shared.behaviour() {
            Behaviour::Notes(answer) => {
                let reply = answer(&received);
                tokio::time::sleep(reply.after).await;
                send(&mut socket, &reply.wire(), shared).await?;
            }
            Behaviour::Wire(script) => {
                for step in script(&received) {
                    match step {
                        Step::Send(bytes) => send(&mut socket, &bytes, shared).await?,
                        Step::Drip(bytes, pause) => {
                            for byte in bytes {
                                rest(pause).await;
                                send(&mut socket, &[byte], shared).await?;
                            }
                        }
                        Step::Repeat(bytes, pause) => {
                            // A flood goes in large pieces, or the server would be what is slow.
                            let times =
                                if pause.is_zero() { FLOOD_BYTES / bytes.len().max(1) } else { 1 };
                            let bytes = bytes.repeat(times.max(1));
                            loop {
                                rest(pause).await;
                                send(&mut socket, &bytes, shared).await?;
                            }
                        }
                        Step::Pause(pause) => tokio::time::sleep(pause).await,
                        Step::Hang => return hang(&mut socket).await,
                        Step::Close => return socket.shutdown().await,
                        Step::Reset => {
                            socket.abort();
                            return Ok(());
                        }
                    }
                }
            }
            Behaviour::Silence => return hang(&mut socket).await,
            Behaviour::Deaf => std::future::pending().await,
            Behaviour::CloseAtOnce | Behaviour::Refuse => return Ok(()),
        }
        if !keeps {
            break;
        }
    }
    socket.shutdown().await
}

/// Sleeps, or lets others have a turn: the shortest sleep there is would make a flood a trickle.
async fn rest(pause: Duration) {
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(pause).await;
    }
}

/// Sends bytes, and counts them as they go.
async fn send(socket: &mut impl Socket, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = socket.write(bytes).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        shared.sent.fetch_add(written as u64, Ordering::SeqCst);
        bytes = bytes.get(written..).unwrap_or_default();
    }
    socket.flush().await
}

/// Waits until the client leaves.
async fn hang(socket: &mut impl Socket) -> io::Result<()> {
    tokio::io::copy(socket, &mut tokio::io::sink()).await.map(|_| ())
}

fn keeps(received: &Received) -> bool {
    let connection = received.header("connection").unwrap_or_default().to_ascii_lowercase();
    if received.version == "HTTP/1.0" {
        connection.contains("keep-alive")
    } else {
        !connection.contains("close")
    }
}

/// Reads one request; what came after it stays in the buffer. Nothing where the client has left.
async fn read(
    socket: &mut impl Socket,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> io::Result<Option<Received>> {
    let Some(head) = through(socket, buffer, b"\r\n\r\n").await? else { return Ok(None) };
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().splitn(3, ' ').map(str::to_owned);
    let mut received = Received {
        connection,
        method: first.next().unwrap_or_default(),
        target: first.next().unwrap_or_default(),
        version: first.next().unwrap_or_default(),
        headers: lines
            .filter(|line| !line.is_empty())
            .map(|line| line.split_once(':').unwrap_or((line, "")))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect(),
        head,
        body: Vec::new(),
    };
    if received
        .header("transfer-encoding")
        .is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"))
    {
        loop {
            let Some(line) = through(socket, buffer, b"\r\n").await? else { return Ok(None) };
            let size = String::from_utf8_lossy(&line)
                .split(';')
                .next()
                .map(|size| usize::from_str_radix(size.trim(), 16));
            let Some(Ok(size)) = size else { return Ok(None) };
            let Some(chunk) = exactly(socket, buffer, size + 2).await? else { return Ok(None) };
            received.body.extend_from_slice(chunk.get(..size).unwrap_or_default());
            if size == 0 {
                return Ok(Some(received));
            }
        }
    }
    let length =
        received.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let Some(body) = exactly(socket, buffer, length).await? else { return Ok(None) };
    received.body = body;
    Ok(Some(received))
}

/// Takes bytes up to and with an end.
async fn through(
    socket: &mut impl Socket,
    buffer: &mut Vec<u8>,
    end: &[u8],
) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(at) = memchr::memmem::find(buffer, end) {
            return Ok(Some(buffer.drain(..at + end.len()).collect()));
        }
        if buffer.len() > HEAD_BYTES || socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Takes so many bytes.
async fn exactly(
    socket: &mut impl Socket,
    buffer: &mut Vec<u8>,
    length: usize,
) -> io::Result<Option<Vec<u8>>> {
    while buffer.len() < length {
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(buffer.drain(..length).collect()))
}
