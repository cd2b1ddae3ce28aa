//! Standard output and standard error of a WASI module, as log lines.
//!
//! A line is written when it ends, or when it reaches the longest line. An unfinished line is written when
//! the job ends. At most one line of each stream is buffered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::imports::log::{JobLog, Level};
use crate::imports::pieces;

/// The longest line, in bytes. A longer one is split.
const LINE_MAX: usize = 8 << 10;
/// A guest yields after it has written output of this cost.
const COST_MAX: usize = 256 << 10;
/// What a line costs apart from its text.
const LINE_COST: usize = 512;
/// Bytes that the guest can write in one call.
const WRITE_MAX: usize = 64 << 10;

/// The output streams of a guest. Clones share their state.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<OutputState>>);

/// One output stream of a guest. Clones are the same stream.
#[derive(Clone)]
pub(crate) struct LineStream {
    output: Output,
    level: Level,
}

struct OutputState {
    log: Arc<JobLog>,
    /// The unfinished lines of standard output and standard error.
    unfinished: [Vec<u8>; 2],
    /// Bytes that the guest wrote in this job.
    written: usize,
    /// What the output since the last pause has cost: its bytes, and a surcharge for each line.
    cost: usize,
}

impl Output {
    pub(crate) fn new(log: Arc<JobLog>) -> Self {
        let state = OutputState { log, unfinished: Default::default(), written: 0, cost: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn stdout(&self) -> LineStream {
        LineStream { output: self.clone(), level: Level::Info }
    }

    pub(crate) fn stderr(&self) -> LineStream {
        LineStream { output: self.clone(), level: Level::Warn }
    }

    /// Writes further lines to the log of another job.
    pub(crate) fn redirect(&self, log: &Arc<JobLog>) {
        self.0.lock().log = Arc::clone(log);
    }

    /// Writes the unfinished lines of a job that has ended. Returns how many bytes the job wrote in total.
    pub(crate) fn finish(&self) -> usize {
        let mut state = self.0.lock();
        let OutputState { log, unfinished, written, .. } = &mut *state;
        for (line, level) in unfinished.iter_mut().zip([Level::Info, Level::Warn]) {
            if !line.is_empty() {
                log.write(level, line);
                line.clear();
            }
        }
        std::mem::take(written)
    }
}

impl LineStream {
    fn append(&self, mut bytes: &[u8]) {
        let mut state = self.output.0.lock();
        let OutputState { log, unfinished: [stdout, stderr], written, cost } = &mut *state;
        let line = if self.level == Level::Info { stdout } else { stderr };
        *written = written.saturating_add(bytes.len());
        *cost = cost.saturating_add(bytes.len());
        while !bytes.is_empty() {
            let fits = &bytes[..bytes.len().min(LINE_MAX - line.len())];
            let end = fits.iter().position(|byte| *byte == b'\n');
            let (piece, used) = end.map_or((fits, fits.len()), |end| (&fits[..end], end + 1));
            line.extend_from_slice(piece);
            bytes = &bytes[used..];
            if end.is_some() || line.len() == LINE_MAX {
                log.write(self.level, line);
                line.clear();
                *cost = cost.saturating_add(LINE_COST);
            }
        }
    }

    /// Whether the guest must yield before it writes more.
    fn must_pause(&self) -> bool {
        let mut state = self.output.0.lock();
        let must = state.cost > COST_MAX;
        if must {
            state.cost = 0;
        }
        must
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
    /// WASI waits here before each 4 KiB of a write.
    async fn ready(&mut self) {
        if self.must_pause() {
            pieces::pause().await;
        }
    }
}

impl OutputStream for LineStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.append(&bytes);
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
        self.append(bytes);
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
