//! Records what an attempt reads while it runs, up to a bound.

use std::collections::BTreeSet;

use duebox_sandbox::{HostAnswer, HostRequest, Interceptor};
use parking_lot::Mutex;

use super::RECORDING_BYTES_MAX;
use super::calls::{Answer, Call, Data, Request};

/// About the bytes of a call in JSON, besides its content.
const CALL_BYTES: usize = 48;

/// Records one attempt.
#[derive(Default)]
pub struct Recorder(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    calls: Vec<Call>,
    /// The request that the attempt waits for.
    waiting: Option<Request>,
    config: BTreeSet<String>,
    bytes: usize,
    is_full: bool,
}

impl Recorder {
    /// What was read, with a request that has no answer last; the names of config values; and whether it was
    /// too much.
    pub(super) fn take(&self) -> (Vec<Call>, BTreeSet<String>, bool) {
        let mut recorded = std::mem::take(&mut *self.0.lock());
        if let Some(request) = recorded.waiting.take() {
            recorded.push(request.bytes(), || Call::Asked { request, answer: None });
        }
        (recorded.calls, recorded.config, recorded.is_full)
    }
}

impl Recorded {
    fn push(&mut self, bytes: usize, call: impl FnOnce() -> Call) {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(CALL_BYTES);
        if self.bytes > RECORDING_BYTES_MAX {
            self.is_full = true;
            self.calls = Vec::new();
        }
        if !self.is_full {
            self.calls.push(call());
        }
    }
}

impl Interceptor for Recorder {
    fn answer(&self, request: &HostRequest<'_>) -> Option<HostAnswer> {
        let mut recorded = self.0.lock();
        if recorded.is_full {
            return None;
        }
        match *request {
            HostRequest::Config(name) if !recorded.config.contains(name) => {
                // The name counts once, like a call.
                recorded.bytes = recorded.bytes.saturating_add(name.len() + CALL_BYTES);
                if recorded.bytes <= RECORDING_BYTES_MAX {
                    recorded.config.insert(name.to_owned());
                }
            }
            HostRequest::Config(_) => {}
            _ => recorded.waiting = Request::of(request),
        }
        None
    }

    fn answered(&self, request: &HostRequest<'_>, answer: &HostAnswer) {
        let mut recorded = self.0.lock();
        let asked = recorded.waiting.take();
        match (*request, answer) {
            (HostRequest::Clock(clock), HostAnswer::Clock(value)) => {
                recorded.push(0, || Call::Clock { clock: clock.into(), value: *value });
            }
            (_, HostAnswer::Random(bytes)) => {
                recorded.push(bytes.len(), || Call::Random { random: Data(bytes.clone()) });
            }
            _ => {
                if let (Some(request), Some(answer)) = (asked, Answer::of(answer)) {
                    let bytes = request.bytes().saturating_add(answer.bytes());
                    recorded.push(bytes, || Call::Asked { request, answer: Some(answer) });
                }
            }
        }
    }
}
