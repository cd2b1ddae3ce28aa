//! Single commands to a server on a Unix socket, each with a timeout. They are used while no regular
//! connection exists.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

const PING_WAIT: Duration = Duration::from_secs(1);

/// The result of a PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PingReply {
    /// Nothing listens.
    Absent,
    /// A process listens but does not reply, or sends an unknown reply.
    Silent,
    /// A server that loads its data from disk.
    Loading,
    /// A server that is ready.
    Ready,
}

pub(super) async fn ping(socket: &Path) -> PingReply {
    let stream = match timeout(PING_WAIT, UnixStream::connect(socket)).await {
        Ok(Ok(stream)) => stream,
        // A full backlog means that a server exists but is stuck.
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return PingReply::Silent,
        Ok(Err(_)) => return PingReply::Absent,
        Err(_) => return PingReply::Silent,
    };
    match timeout(PING_WAIT, ask_on(stream, "PING")).await {
        Ok(Ok(line)) if line.starts_with("+PONG") => PingReply::Ready,
        Ok(Ok(line)) if line.starts_with("-LOADING") => PingReply::Loading,
        _ => PingReply::Silent,
    }
}

/// Sends one inline command and returns the first line of the reply; empty if the server closed the
/// connection.
pub(super) async fn ask(socket: &Path, command: &str, wait: Duration) -> io::Result<String> {
    let asked = async { ask_on(UnixStream::connect(socket).await?, command).await };
    timeout(wait, asked).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn ask_on(mut stream: UnixStream, command: &str) -> io::Result<String> {
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut line = String::new();
    tokio::io::BufReader::new(stream).read_line(&mut line).await?;
    Ok(line.trim_end().to_owned())
}

/// Like [`ask`] but blocking, for use in `drop`.
pub(super) fn ask_blocking(socket: &Path, command: &str, wait: Duration) -> io::Result<String> {
    let mut stream = BlockingStream::connect(socket)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
