//! `GET /v1/events`: what becomes of jobs, as server-sent events while it happens, read from the stream that all
//! daemons write (`runner.events`).
//!
//! Each reader has its own place in the stream and gets it page by page, as fast as it takes them: nothing is
//! left out and nothing told twice, however often it comes again with the id of the last event it has. Where
//! the stream has been shortened past its place it is told so. There are only so many readers, and one that
//! takes nothing is cut off.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use duebox_job::TopicName;
use duebox_queue::{EventId, EventPage, StoredEvent};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;
use utoipa::IntoParams;

use crate::http::access::Caller;
use crate::http::params::Params;
use crate::http::problem::{EVENTS_OFF, Problem, READERS_FULL};
use crate::http::state::ServerState;

/// Readers at once.
const READERS_MAX: usize = 32;
/// Events that are read together.
const PAGE: usize = 500;
/// How often it is looked for new ones.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The wait after Redis gave no answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a reader for whom there is nothing is told that all is well.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// How long a reader may take to take what was sent.
const TAKE_WITHIN: Duration = Duration::from_secs(10);

/// Where the id of the last event that a reader has stands.
const LAST_EVENT_ID: &str = "last-event-id";

/// Room for so many readers.
pub(crate) struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READERS_MAX)))
    }
}

/// Which events are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// Of which topics: a name, or a prefix with `*` at its end; of all without it.
    #[param(pattern = "^[A-Za-z0-9._-]*\\*?$", max_length = 128)]
    topic: Option<String>,
    /// Those behind this one, by its id, as in the header `Last-Event-ID`, which beats it; `0-0` is before all
    /// that are kept. Without either: those that happen from now on.
    after: Option<String>,
}

/// An event as it is sent.
#[derive(Serialize)]
struct Told<'a> {
    topic: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    class: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    digest: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
    at_ms: Option<u64>,
}

/// Watch what becomes of jobs
///
/// Server-sent events, one for each thing that happens: `event` says what, `data` is a JSON object, `id` is for
/// `Last-Event-ID`. Of those that the token's topics cover. `gap` says that events before it are not kept any
/// more, `end` that the connection ends, and why. See docs/guide/events.md.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "events",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the reader has"),
        EventParams,
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Events are not kept"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "As many read as may"),
    ),
)]
pub(super) async fn stream(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let pattern = Pattern::read(params.topic.as_deref().unwrap_or("*"))?;
    let asked = place_of(&headers, params.after.as_deref())?;
    if server.manifest().runner.events == 0 {
        let remedy = "set runner.events in the manifest to how many are kept, such as 10000";
        return Err(Problem::new(EVENTS_OFF, "this daemon keeps no events", remedy));
    }
    let room = Arc::clone(&server.readers.0).try_acquire_owned().map_err(|_| {
        let detail = format!("{READERS_MAX} read events from this daemon already");
        Problem::new(READERS_FULL, detail, "read from another, or share one reader").retry_after(5)
    })?;
    let place = match asked {
        Some(place) => place,
        None => server.queue.last_event().await?,
    };
    let (frames, taken) = mpsc::channel(1);
    let last_word = Arc::<OnceLock<Bytes>>::default();
    let reader = Reader { server, caller, pattern, place, frames, _room: room };
    tokio::spawn(reader.read(Arc::clone(&last_word)));
    Ok(answer(taken, last_word))
}

/// The answer: what is sent as it is taken, and at the end the last word.
fn answer(taken: mpsc::Receiver<Bytes>, last_word: Arc<OnceLock<Bytes>>) -> Response {
    let frames = futures_util::stream::unfold(Some((taken, last_word)), |open| async move {
        let (mut taken, last_word) = open?;
        match taken.recv().await {
            Some(frame) => Some((Ok::<_, Infallible>(frame), Some((taken, last_word)))),
            None => last_word.get().map(|frame| (Ok(frame.clone()), None)),
        }
    });
    let mut answer = Response::new(Body::from_stream(frames));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // A proxy that gathered them would tell them late.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Where a reader wants to go on; none for now.
fn place_of(headers: &HeaderMap, after: Option<&str>) -> Result<Option<EventId>, Problem> {
    let (text, field) = match headers.get(LAST_EVENT_ID) {
        Some(sent) => (Some(sent.to_str().unwrap_or_default()), "Last-Event-ID"),
        None => (after, "after"),
    };
    let place = text.map(str::parse).transpose();
    place.map_err(|error: duebox_queue::EventIdError| {
        let remedy = "send the id of an event, 0-0 for all that are kept, or nothing";
        Problem::bad(error.to_string(), remedy).of(field)
    })
}

/// Topics that are meant: one, or all whose names begin so.
struct Pattern {
    start: String,
    is_prefix: bool,
}

impl Pattern {
    fn read(text: &str) -> Result<Self, Problem> {
        let (start, is_prefix) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        if !(is_prefix && start.is_empty())
            && let Err(error) = TopicName::new(start)
        {
            let remedy = "send a topic's name, or a prefix with * at its end";
            return Err(Problem::bad(error.to_string(), remedy).of("topic"));
        }
        Ok(Self { start: start.to_owned(), is_prefix })
    }

    fn covers(&self, topic: &str) -> bool {
        if self.is_prefix { topic.starts_with(&self.start) } else { topic == self.start }
    }
}

/// Why a reader is not read for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is gone.
    Gone,
    /// The daemon stops.
    Draining,
    /// It took nothing for too long.
    Slow,
    /// Its token holds no more.
    Forbidden,
    /// Events are not kept any more.
    Off,
}

struct Reader {
    server: ServerState,
    caller: Caller,
    pattern: Pattern,
    /// The last event that it has, or would have.
    place: EventId,
    frames: mpsc::Sender<Bytes>,
    _room: OwnedSemaphorePermit,
}

impl Reader {
    async fn read(mut self, last_word: Arc<OnceLock<Bytes>>) {
        let end = self.pages().await;
        let word = match end {
            End::Gone => return,
            End::Draining => "draining",
            End::Slow => {
                warn!(
                    "a reader of events took nothing for {} s; it is cut off",
                    TAKE_WITHIN.as_secs()
                );
                "too_slow"
            }
            End::Forbidden => "forbidden",
            End::Off => "off",
        };
        let frame = format!("event: end\ndata: {{\"reason\":\"{word}\"}}\n\n");
        // It is the only one.
        drop(last_word.set(Bytes::from(frame)));
    }

    async fn pages(&mut self) -> End {
        let mut beat_at = Instant::now() + BEAT_EVERY;
        let hello = Bytes::from(format!("retry: 1000\nid: {}\n\n", self.place));
        if let Err(end) = self.send(hello).await {
            return end;
        }
        loop {
            if let Some(end) = self.is_over() {
                return end;
            }
            let page = self.server.queue.events_after(self.place, PAGE).await;
            let pause = match page {
                Err(_) => AGAIN,
                Ok(page) => {
                    let is_full = page.events.len() == PAGE;
                    let frame = self.take(page);
                    if !frame.is_empty() {
                        beat_at = Instant::now() + BEAT_EVERY;
                        if let Err(end) = self.send(frame).await {
                            return end;
                        }
                    }
                    if is_full { Duration::ZERO } else { LOOK_EVERY }
                }
            };
            if Instant::now() >= beat_at {
                beat_at = Instant::now() + BEAT_EVERY;
                let beat = Bytes::from(format!("id: {}\n: all is well\n\n", self.place));
                if let Err(end) = self.send(beat).await {
                    return end;
                }
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.frames.closed() => return End::Gone,
                () = self.server.stopped() => return End::Draining,
            }
        }
    }

    /// Whether the reader may not read on.
    fn is_over(&self) -> Option<End> {
        let manifest = self.server.manifest();
        if manifest.runner.events == 0 {
            return Some(End::Off);
        }
        let tokens = manifest.server.tokens.as_ref().map(|file| &file.tokens);
        (!self.caller.holds(tokens)).then_some(End::Forbidden)
    }

    async fn send(&self, frame: Bytes) -> Result<(), End> {
        tokio::select! {
            sent = timeout(TAKE_WITHIN, self.frames.send(frame)) => match sent {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(End::Gone),
                Err(_) => Err(End::Slow),
            },
            () = self.server.stopped() => Err(End::Draining),
        }
    }

    /// What the reader gets of a page, whose end is its place from now on.
    fn take(&mut self, page: EventPage) -> Bytes {
        let mut text = String::new();
        if let Some(first) = page.first
            && first > self.place
            && !self.place.is_start()
        {
            // What was next may be gone.
            text.push_str(&format!(
                "event: gap\ndata: {{\"after\":\"{}\",\"first\":\"{first}\"}}\n\n",
                self.place
            ));
        }
        for event in &page.events {
            self.place = event.place;
            let topic = event.field("topic");
            let is_wanted = self.pattern.covers(topic)
                && TopicName::new(topic).is_ok_and(|topic| self.caller.sees(&topic));
            if is_wanted {
                text.push_str(&frame(event));
            }
        }
        Bytes::from(text)
    }
}

fn frame(event: &StoredEvent) -> String {
    let word = event.field("event");
    let told = Told {
        topic: event.field("topic"),
        id: event.field("id"),
        event: word,
        attempt: event.field("attempt").parse().ok(),
        class: event.field("class"),
        digest: event.field("digest"),
        jobs: event.field("jobs").parse().ok(),
        at_ms: event.field("at").parse().ok(),
    };
    // Texts and numbers: there is nothing in it that JSON could not hold. A word has no line of its own.
    let json = serde_json::to_string(&told).unwrap_or_default();
    let word: String = word.chars().filter(|c| c.is_ascii_graphic()).collect();
    format!("id: {}\nevent: {word}\ndata: {json}\n\n", event.place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_a_prefix() {
        let covers = |pattern: &str, topic: &str| {
            Pattern::read(pattern).map(|pattern| pattern.covers(topic)).ok()
        };
        assert_eq!(covers("*", "a.b"), Some(true));
        assert_eq!(covers("a.*", "a.b"), Some(true));
        assert_eq!(covers("a.*", "ab"), Some(false));
        assert_eq!(covers("a", "a.b"), Some(false));
        assert_eq!(covers("a", "a"), Some(true));
        for bad in ["", "a b", "**", "a*b", "*a"] {
            assert_eq!(covers(bad, "a"), None, "{bad}");
        }
    }

    #[test]
    fn a_frame_is_a_line_each_whatever_a_producer_wrote() {
        let fields =
            [("topic", "mail"), ("event", "dead"), ("id", "a\nb"), ("attempt", "3"), ("at", "7")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let event = StoredEvent { place: "5-1".parse().unwrap(), fields };
        let frame = frame(&event);
        assert_eq!(
            frame,
            "id: 5-1\nevent: dead\ndata: {\"topic\":\"mail\",\"id\":\"a\\nb\",\"event\":\"dead\",\"attempt\":3,\"at_ms\":7}\n\n"
        );
    }
}
