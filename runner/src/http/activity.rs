//! Finds connections on which nothing happens: the server has nothing to do for them, and the client
//! neither completes a request nor takes the response.
//!
//! One rule covers HTTP/1, HTTP/2 and the time before the version is known. Bytes that bring no request
//! or response forward, such as pings, do not count.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::millis::millis;

/// A response is passed on in pieces of this size, so that slow progress is seen.
const PIECE: usize = 64 << 10;

/// How long nothing may happen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Until the head of the first request is complete.
    pub(super) first: Duration,
    /// While the client takes no more of a response.
    pub(super) write: Duration,
    /// Between two requests, until the head of the next one is complete.
    pub(super) idle: Duration,
}

/// What happens on a connection.
pub(super) struct Activity {
    began: Instant,
    limits: Limits,
    has_served: AtomicBool,
    /// Requests and responses that wait for the server.
    working: AtomicUsize,
    /// Responses that are not passed on whole.
    responses: AtomicUsize,
    /// Last progress, in ms after `began`.
    last_ms: AtomicU64,
}

/// The server works for the connection until this is dropped.
pub(super) struct Work(Arc<Activity>);

impl Activity {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            limits,
            has_served: AtomicBool::new(false),
            working: AtomicUsize::new(0),
            responses: AtomicUsize::new(0),
            last_ms: AtomicU64::new(0),
        })
    }

    /// A request has arrived.
    pub(super) fn work(self: &Arc<Self>) -> Work {
        self.has_served.store(true, Ordering::Relaxed);
        self.working.fetch_add(1, Ordering::Relaxed);
        Work(Arc::clone(self))
    }

    /// Ends once nothing has happened for too long.
    pub(super) async fn expired(&self) {
        loop {
            let limit = self.limit();
            let last = self.began + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let until = match self.working.load(Ordering::Relaxed) {
                0 if last.elapsed() >= limit => return,
                0 => last + limit,
                _ => Instant::now() + limit,
            };
            // At the latest after the shortest limit, the state may be another one.
            tokio::time::sleep_until(until.min(Instant::now() + self.limits.first)).await;
        }
    }

    fn limit(&self) -> Duration {
        if !self.has_served.load(Ordering::Relaxed) {
            self.limits.first
        } else if self.responses.load(Ordering::Relaxed) > 0 {
            self.limits.write
        } else {
            self.limits.idle
        }
    }

    fn note(&self) {
        let ms = millis(self.began.elapsed());
        self.last_ms.store(ms, Ordering::Relaxed);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.note();
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response, which notes its progress.
pub(super) struct NotedBody {
    activity: Arc<Activity>,
    body: Body,
    /// The rest of the last piece.
    rest: Bytes,
    /// Set while the server has no next piece yet.
    work: Option<Work>,
}

impl NotedBody {
    pub(super) fn new(activity: Arc<Activity>, body: Body) -> Self {
        activity.responses.fetch_add(1, Ordering::Relaxed);
        Self { activity, body, rest: Bytes::new(), work: None }
    }

    /// The next piece of the rest.
    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE)))
    }
}

impl Drop for NotedBody {
    fn drop(&mut self) {
        self.activity.note();
        self.activity.responses.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpBody for NotedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            this.activity.note();
            return Poll::Ready(Some(Ok(this.piece())));
        }
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            if this.work.is_none() {
                this.work = Some(this.activity.work());
            }
            return Poll::Pending;
        };
        this.work = None;
        this.activity.note();
        let frame = frame.map(|frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(data) => {
                    this.rest = data;
                    this.piece()
                }
                Err(trailers) => trailers,
            })
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
