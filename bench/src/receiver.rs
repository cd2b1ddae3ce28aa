//! The server to which handlers post their jobs (`work.rs`): it costs little, answers each request with an empty
//! response, and records when it came. So jobs of any queue are counted and timed in the same place.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// The largest request, in bytes; a payload has 200.
const REQUEST_MAX: usize = 64 << 10;

/// A job that was posted: its payload, and when it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receipt {
    /// The job's number; a negative one warms the worker up.
    pub(crate) number: i64,
    /// Its due time in the payload, µs since the epoch.
    pub(crate) due_us: i64,
    /// When the request was complete, µs since the epoch.
    pub(crate) at_us: i64,
}

/// What a payload begins with; all peers use the same.
#[derive(Deserialize)]
struct Payload {
    n: i64,
    due_us: i64,
}

type Receipts = Arc<Mutex<Vec<Receipt>>>;

/// The server, on a thread of its own. It ends when it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    receipts: Receipts,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let receipts = Receipts::default();
        let (stop, stopped) = oneshot::channel();
        let seen = Arc::clone(&receipts);
        let thread = std::thread::Builder::new().name("receiver".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, &seen) => {}
                    _ = stopped => {}
                }
            });
        });
        let thread = Some(thread.context("cannot start the receiver's thread")?);
        Ok(Self { address, receipts, stop: Some(stop), thread })
    }

    /// The server's origin, as a topic grants it.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address to which jobs are posted.
    pub(crate) fn url(&self) -> String {
        format!("{}/jobs", self.origin())
    }

    /// Takes what was received so far.
    pub(crate) fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut *self.receipts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let is_told = self.stop.take().is_some_and(|stop| stop.send(()).is_ok());
        let ended = self.thread.take().map(JoinHandle::join);
        if !is_told || !matches!(ended, Some(Ok(()))) {
            crate::say("the receiver ended before the benchmark");
        }
    }
}

async fn accept(listener: std::net::TcpListener, receipts: &Receipts) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return crate::say(&format!("the receiver cannot accept: {error}")),
    };
    while let Ok((stream, _)) = listener.accept().await {
        let receipts = Arc::clone(receipts);
        tokio::spawn(async move {
            if let Err(error) = serve(stream, &receipts).await {
                crate::say(&format!("the receiver closes a connection: {error:#}"));
            }
        });
    }
}

/// Answers the requests of one connection.
async fn serve(mut stream: TcpStream, receipts: &Receipts) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4 << 10);
    loop {
        while let Some((head, length)) = request(&buffer)? {
            let payload: Payload =
                serde_json::from_slice(&buffer[head..length]).context("the body is no job")?;
            let at_us = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
            let receipt = Receipt { number: payload.n, due_us: payload.due_us, at_us };
            receipts.lock().unwrap_or_else(PoisonError::into_inner).push(receipt);
            buffer.drain(..length);
            stream.write_all(RESPONSE).await?;
        }
        ensure!(buffer.len() < REQUEST_MAX, "a request is too large");
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// The lengths of the head and of the whole request at the start of the buffer; `None` if it is not complete.
fn request(buffer: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&buffer[..end]).context("the head is not text")?;
    let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, length) = length.context("the request has no content-length")?;
    let length: usize = length.trim().parse().context("invalid content-length")?;
    ensure!(length < REQUEST_MAX, "a body is too large");
    let (head, length) = (end + 4, end + 4 + length);
    Ok((buffer.len() >= length).then_some((head, length)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// In a runtime, as the benchmark starts it.
    #[tokio::test]
    async fn requests_are_recorded_in_parts_and_in_a_row() {
        let receiver = Receiver::start().unwrap();
        let mut stream = std::net::TcpStream::connect(receiver.address).unwrap();
        let body = r#"{"n":7,"due_us":5,"pad":"xx"}"#;
        let request =
            format!("POST /jobs HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let both = format!("{request}{request}");
        for part in both.as_bytes().chunks(20) {
            stream.write_all(part).unwrap();
        }
        let mut responses = vec![0; 2 * RESPONSE.len()];
        stream.read_exact(&mut responses).unwrap();
        assert_eq!(responses, [RESPONSE, RESPONSE].concat());
        let receipts = receiver.take();
        assert_eq!(receipts.len(), 2);
        assert!(receipts.iter().all(|it| (it.number, it.due_us) == (7, 5) && it.at_us > 0));
        assert!(receiver.take().is_empty());
    }

    #[test]
    fn an_incomplete_request_waits() {
        let whole = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcPOST";
        assert_eq!(request(whole).unwrap(), Some((38, 41)));
        assert_eq!(request(&whole[..40]).unwrap(), None);
        assert_eq!(request(&whole[..20]).unwrap(), None);
        assert!(request(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
}
