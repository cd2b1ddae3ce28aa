//! Standard output of a WASI module as log lines. A line is said when it ends, or when it is longer
//! than a line may be; what is unfinished when the guest ends is said then. At most one line of each
//! stream is held.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::imports::log::{JobLog, Level};

/// The longest line, in bytes; a longer one is said in pieces.
const LINE_MAX: usize = 8 << 10;
/// Bytes taken from the guest in one write.
const WRITE_MAX: usize = 64 << 10;

/// What a guest says on its output streams, and to whom. Clones are the same output.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<State>>);

/// One of a guest's output streams. Clones are the same stream.
#[derive(Clone)]
pub(crate) struct LineStream {
    output: Output,
    level: Level,
}

struct State {
    log: Arc<JobLog>,
    /// The lines that have no end yet, of standard output and of that for errors.
    unfinished: [Vec<u8>; 2],
    /// Bytes taken from the guest for this job.
    taken: usize,
}

impl Output {
    pub(crate) fn new(log: Arc<JobLog>) -> Self {
        Self(Arc::new(Mutex::new(State { log, unfinished: Default::default(), taken: 0 })))
    }

    /// Standard output.
    pub(crate) fn stdout(&self) -> LineStream {
        LineStream { output: self.clone(), level: Level::Info }
    }

    /// Output for errors.
    pub(crate) fn stderr(&self) -> LineStream {
        LineStream { output: self.clone(), level: Level::Warn }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on lines are said to another job's log.
    pub(crate) fn say_to(&self, log: &Arc<JobLog>) {
        self.state().log = Arc::clone(log);
    }

    /// Says what is left when the guest has ended, and answers how many bytes it had said in all.
    pub(crate) fn finish(&self) -> usize {
        let mut state = self.state();
        let State { log, unfinished, taken } = &mut *state;
        for (line, level) in unfinished.iter_mut().zip([Level::Info, Level::Warn]) {
            if !line.is_empty() {
                log.say(level, line);
                line.clear();
            }
        }
        std::mem::take(taken)
    }
}

impl LineStream {
    fn take(&self, mut bytes: &[u8]) {
        let mut state = self.output.state();
        let State { log, unfinished: [out, err], taken } = &mut *state;
        let line = if self.level == Level::Info { out } else { err };
        *taken = taken.saturating_add(bytes.len());
        while !bytes.is_empty() {
            let room = &bytes[..bytes.len().min(LINE_MAX - line.len())];
            let ended = room.iter().position(|byte| *byte == b'\n');
            let (piece, used) = ended.map_or((room, room.len()), |end| (&room[..end], end + 1));
            line.extend_from_slice(piece);
            bytes = &bytes[used..];
            if ended.is_some() || line.len() == LINE_MAX {
                log.say(self.level, line);
                line.clear();
            }
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
