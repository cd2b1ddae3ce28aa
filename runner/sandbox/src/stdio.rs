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
    level: Level,
    state: Arc<Mutex<State>>,
}

struct State {
    log: Arc<JobLog>,
    /// The line that has no end yet.
    unfinished: Vec<u8>,
    /// Bytes taken from the guest for this job.
    taken: usize,
}

impl LineStream {
    pub(crate) fn new(log: Arc<JobLog>, level: Level) -> Self {
        let state = State { log, unfinished: Vec::new(), taken: 0 };
        Self { level, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, mut bytes: &[u8]) {
        let mut state = self.state();
        let State { log, unfinished, taken } = &mut *state;
        *taken = taken.saturating_add(bytes.len());
        while !bytes.is_empty() {
            let room = &bytes[..bytes.len().min(LINE_MAX - unfinished.len())];
            let ended = room.iter().position(|byte| *byte == b'\n');
            let (piece, used) = ended.map_or((room, room.len()), |end| (&room[..end], end + 1));
            unfinished.extend_from_slice(piece);
            bytes = &bytes[used..];
            if ended.is_some() || unfinished.len() == LINE_MAX {
                log.say(self.level, unfinished);
                unfinished.clear();
            }
        }
    }

    /// From now on it says its lines to another job's log.
    pub(crate) fn say_to(&self, log: &Arc<JobLog>) {
        self.state().log = Arc::clone(log);
    }

    /// Says what is left when the guest has ended, and answers how many bytes it had said in all.
    pub(crate) fn finish(&self) -> usize {
        let mut state = self.state();
        let State { log, unfinished, taken } = &mut *state;
        if !unfinished.is_empty() {
            log.say(self.level, unfinished);
            unfinished.clear();
        }
        std::mem::take(taken)
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
