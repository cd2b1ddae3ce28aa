//! Standard output of a WASI module as log lines. A line is said when it ends, or when it is longer
//! than a line may be; what is unfinished when the guest ends is said then. At most one line is held.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::log::{JobLog, Level};

/// The longest line, in bytes; a longer one is said in pieces.
const LINE_MAX: usize = 8 << 10;
/// Bytes taken from the guest in one write.
const WRITE_MAX: usize = 64 << 10;

/// One of a guest's output streams. Clones are the same stream.
#[derive(Clone)]
pub(crate) struct LineStream {
    log: Arc<JobLog>,
    level: Level,
    unfinished: Arc<Mutex<Vec<u8>>>,
}

impl LineStream {
    pub(crate) fn new(log: Arc<JobLog>, level: Level) -> Self {
        Self { log, level, unfinished: Arc::default() }
    }

    fn unfinished(&self) -> MutexGuard<'_, Vec<u8>> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, mut bytes: &[u8]) {
        let mut unfinished = self.unfinished();
        while !bytes.is_empty() {
            let room = &bytes[..bytes.len().min(LINE_MAX - unfinished.len())];
            let ended = room.iter().position(|byte| *byte == b'\n');
            let (piece, used) = ended.map_or((room, room.len()), |end| (&room[..end], end + 1));
            unfinished.extend_from_slice(piece);
            bytes = &bytes[used..];
            if ended.is_some() || unfinished.len() == LINE_MAX {
                self.log.say(self.level, &unfinished);
                unfinished.clear();
            }
        }
    }

    /// Says what is left when the guest has ended.
    pub(crate) fn finish(&self) {
        let mut unfinished = self.unfinished();
        if !unfinished.is_empty() {
            self.log.say(self.level, &unfinished);
            unfinished.clear();
        }
    }
}

impl IsTerminal for LineStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LineStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for LineStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LineStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_MAX)
    }
}

impl AsyncWrite for LineStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
