//! `GET /v1/events`: job events as server-sent events, read from the stream that all daemons write
//! (`runner.events`).
//!
//! Each reader has its own position in the stream and reads page by page at its own speed. No event
//! is skipped or repeated, if the reader reconnects with the id of its last event. If the stream
//! was trimmed past the position, the reader gets a `gap` event. The number of readers is bounded,
//! and a reader that accepts no data is disconnected.

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
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;
use utoipa::IntoParams;

use crate::http::access::Caller;
use crate::http::event_readers::ReaderPlace;
use crate::http::params::Params;
use crate::http::problem::{EVENTS_OFF, Problem, READERS_FULL};
use crate::http::state::ServerState;
use crate::observe::supervision::TaskKind;

/// Number of events per page.
const PAGE: usize = 500;
/// Poll interval.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// Delay after an error of Redis.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Interval of keep-alive comments to a reader without events.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// How long a reader may take to accept data.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

/// The header with the id of the reader's last event.
const LAST_EVENT_ID: &str = "last-event-id";

/// Selection of events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// Topics: a name, or a prefix with a final `*`; default: all.
    #[param(pattern = "^[A-Za-z0-9._-]*\\*?$", max_length = 128)]
    topic: Option<String>,
    /// Events after the one with this id; the header `Last-Event-ID` overrides it. `0-0` is before
    /// all kept events. Without either: events from now on.
    after: Option<String>,
}

/// The data of an event.
#[derive(Serialize)]
struct EventData<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    at_us: Option<u64>,
}

/// Stream job events
///
/// Server-sent events: `event` is the type, `data` a JSON object, `id` the value for
/// `Last-Event-ID`. Only events of topics that the token covers. `gap` means that earlier events
/// are no longer kept; `end` that the connection ends, with the reason. See docs/guide/events.md.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "events",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the reader's last event"),
        EventParams,
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Events are not kept"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many readers"),
    ),
)]
pub(super) async fn stream(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let pattern = Pattern::read(params.topic.as_deref().unwrap_or("*"))?;
    let asked = last_of(&headers, params.after.as_deref())?;
    if server.manifest().runner.events == 0 {
        let remedy =
            "set runner.events in the manifest to the number of kept events, such as 10000";
        return Err(Problem::new(EVENTS_OFF, "this daemon keeps no events", remedy));
    }
    let place = server.readers.admit(&caller).map_err(|full| {
        Problem::new(
            READERS_FULL,
            full.to_string(),
            "read from another daemon, or share one reader",
        )
        .retry_after(5)
    })?;
    let last = match asked {
        Some(last) => last,
        None => server.queue.last_event().await?,
    };
    let (frames, taken) = mpsc::channel(1);
    let final_frame = Arc::<OnceLock<Bytes>>::default();
    let reader = EventReader { server, caller, pattern, last, frames, _place: place };
    let (supervision, its) = (reader.server.supervision.clone(), Arc::clone(&final_frame));
    tokio::spawn(async move {
        supervision.contain(TaskKind::HttpRequest, reader.read(its)).await;
    });
    Ok(answer(taken, final_frame))
}

/// The response: frames as they are accepted, and at the end the final frame.
fn answer(taken: mpsc::Receiver<Bytes>, final_frame: Arc<OnceLock<Bytes>>) -> Response {
    let frames = futures_util::stream::unfold(Some((taken, final_frame)), |open| async move {
        let (mut taken, final_frame) = open?;
        match taken.recv().await {
            Some(frame) => Some((Ok::<_, Infallible>(frame), Some((taken, final_frame)))),
            None => final_frame.get().map(|frame| (Ok(frame.clone()), None)),
        }
    });
    let mut answer = Response::new(Body::from_stream(frames));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // A buffering proxy would delay the events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The position from which a reader continues; `None` for now.
fn last_of(headers: &HeaderMap, after: Option<&str>) -> Result<Option<EventId>, Problem> {
    let (text, field) = match headers.get(LAST_EVENT_ID) {
        Some(sent) => (Some(sent.to_str().unwrap_or_default()), "Last-Event-ID"),
        None => (after, "after"),
    };
    let last = text.map(str::parse).transpose();
    last.map_err(|error: duebox_queue::EventIdError| {
        let remedy = "send the id of an event, 0-0 for all kept events, or omit it";
        Problem::bad(error.to_string(), remedy).of(field)
    })
}

/// A selection of topics: one name, or a prefix.
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
            let remedy = "send a topic's name, or a prefix with a final *";
            return Err(Problem::bad(error.to_string(), remedy).of("topic"));
        }
        Ok(Self { start: start.to_owned(), is_prefix })
    }

    fn covers(&self, topic: &str) -> bool {
        if self.is_prefix { topic.starts_with(&self.start) } else { topic == self.start }
    }
}

/// Why a reader's stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The reader disconnected.
    Gone,
    /// The daemon stops.
    Draining,
    /// The reader accepted no data in time.
    Slow,
    /// The reader's token is no longer valid.
    Forbidden,
    /// Events are no longer kept.
    Off,
}

struct EventReader {
    server: ServerState,
    caller: Caller,
    pattern: Pattern,
    /// The position after the last event read.
    last: EventId,
    frames: mpsc::Sender<Bytes>,
    _place: ReaderPlace,
}

impl EventReader {
    async fn read(mut self, final_frame: Arc<OnceLock<Bytes>>) {
        let end = self.pages().await;
        let word = match end {
            End::Gone => return,
            End::Draining => "draining",
            End::Slow => {
                warn!(
                    "an event reader accepted no data for {} s; it is disconnected",
                    ACCEPT_WITHIN.as_secs()
                );
                "too_slow"
            }
            End::Forbidden => "forbidden",
            End::Off => "off",
        };
        let frame = format!("event: end\ndata: {{\"reason\":\"{word}\"}}\n\n");
        // It is set only once.
        drop(final_frame.set(Bytes::from(frame)));
    }

    async fn pages(&mut self) -> End {
        let mut beat_at = Instant::now() + BEAT_EVERY;
        let hello = Bytes::from(format!("retry: 1000\nid: {}\n\n", self.last));
        if let Err(end) = self.send(hello).await {
            return end;
        }
        loop {
            if let Some(end) = self.is_over() {
                return end;
            }
            let page = self.server.queue.events_after(self.last, PAGE).await;
            let pause = match page {
                Err(_) => RETRY_AFTER,
                Ok(page) => {
                    let is_full = page.events.len() == PAGE;
                    let frame = self.frames_of(page);
                    if !frame.is_empty() {
                        beat_at = Instant::now() + BEAT_EVERY;
                        if let Err(end) = self.send(frame).await {
                            return end;
                        }
                    }
                    if is_full { Duration::ZERO } else { POLL_EVERY }
                }
            };
            if Instant::now() >= beat_at {
                beat_at = Instant::now() + BEAT_EVERY;
                let beat = Bytes::from(format!("id: {}\n: keep-alive\n\n", self.last));
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

    /// Whether the stream must end.
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
            sent = timeout(ACCEPT_WITHIN, self.frames.send(frame)) => match sent {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(End::Gone),
                Err(_) => Err(End::Slow),
            },
            () = self.server.stopped() => Err(End::Draining),
        }
    }

    /// The frames of a page for this reader; its position moves to the end of the page.
    fn frames_of(&mut self, page: EventPage) -> Bytes {
        let mut text = String::new();
        if let Some(first) = page.first
            && first > self.last
            && !self.last.is_start()
        {
            // Events after the position may have been trimmed.
            text.push_str(&format!(
                "event: gap\ndata: {{\"after\":\"{}\",\"first\":\"{first}\"}}\n\n",
                self.last
            ));
        }
        for event in &page.events {
            self.last = event.id;
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
    let data = EventData {
        topic: event.field("topic"),
        id: event.field("id"),
        event: word,
        attempt: event.field("attempt").parse().ok(),
        class: event.field("class"),
        digest: event.field("digest"),
        jobs: event.field("jobs").parse().ok(),
        at_ms: event.field("at").parse().ok(),
        at_us: event.field("at_us").parse().ok(),
    };
    // Texts and numbers: serialization to JSON cannot fail. The event type must be one word.
    let json = serde_json::to_string(&data).unwrap_or_default();
    let word: String = word.chars().filter(|c| c.is_ascii_graphic()).collect();
    format!("id: {}\nevent: {word}\ndata: {json}\n\n", event.id)
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
    fn a_frame_escapes_line_breaks_of_producers() {
        let fields =
            [("topic", "mail"), ("event", "dead"), ("id", "a\nb"), ("attempt", "3"), ("at", "7")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let event = StoredEvent { id: "5-1".parse().unwrap(), fields };
        let frame = frame(&event);
        assert_eq!(
            frame,
            "id: 5-1\nevent: dead\ndata: {\"topic\":\"mail\",\"id\":\"a\\nb\",\"event\":\"dead\",\"attempt\":3,\"at_ms\":7}\n\n"
        );
    }
}
