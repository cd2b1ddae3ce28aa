//! Gives a recorded attempt back what it read, and notes where a run departs from it.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use duebox_sandbox::{HostAnswer, HostClock, HostRequest, Interceptor};
use parking_lot::Mutex;

use super::Recording;
use super::calls::{Answer, Call, Clock, Request};

/// Departures that are kept.
const DEPARTURES_MAX: usize = 20;

/// Where a run departs from the recorded attempt.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Departure {
    /// The number of the request among those of the recorded attempt, from 1.
    pub request: usize,
    /// What the recorded attempt did there.
    pub recorded: String,
    /// What this run did.
    pub now: String,
}

/// Replays one attempt.
pub struct Replay(Mutex<State>);

struct State {
    clocks: HashMap<Clock, VecDeque<u64>>,
    last: HashMap<Clock, u64>,
    random: VecDeque<Bytes>,
    drawn: fastrand::Rng,
    asked: Vec<Asked>,
    departures: Vec<Departure>,
    /// The run reached the request during which the recorded attempt ended.
    reached_wait: bool,
    has_other_clock: bool,
    has_other_random: bool,
}

struct Asked {
    request: Request,
    answer: Option<Answer>,
    is_used: bool,
}

impl Replay {
    /// Replays this recording once.
    pub fn new(recording: &Recording) -> Self {
        let mut state = State {
            clocks: HashMap::new(),
            last: recording.clocks(),
            random: VecDeque::new(),
            drawn: fastrand::Rng::with_seed(0),
            asked: Vec::new(),
            departures: Vec::new(),
            reached_wait: false,
            has_other_clock: false,
            has_other_random: false,
        };
        for call in recording.calls.iter().cloned() {
            match call {
                Call::Clock { clock, value } => {
                    state.clocks.entry(clock).or_default().push_back(value);
                }
                Call::Random { random } => state.random.push_back(random.0),
                Call::Asked { request, answer } => {
                    state.asked.push(Asked { request, answer, is_used: false });
                }
            }
        }
        Self(Mutex::new(state))
    }

    /// Where the run departed, and what it left out. To be called when the run has ended.
    pub fn departures(&self) -> Vec<Departure> {
        let state = self.0.lock();
        let mut departures = state.departures.clone();
        let left = state.asked.iter().enumerate().filter(|(_, asked)| !asked.is_used);
        departures.extend(left.map(|(at, asked)| Departure {
            request: at + 1,
            recorded: asked.request.to_string(),
            now: "not sent".to_owned(),
        }));
        departures.truncate(DEPARTURES_MAX);
        departures
    }

    /// Whether the run waits where the recorded attempt waited when it ended.
    pub fn reached_wait(&self) -> bool {
        self.0.lock().reached_wait
    }
}

impl Recording {
    /// What clocks show that the attempt did not read.
    fn clocks(&self) -> HashMap<Clock, u64> {
        let now = self.recorded_at_ms;
        HashMap::from([
            (Clock::Now, now),
            (Clock::Deadline, now.saturating_add(self.ttr_ms)),
            (Clock::Remaining, self.ttr_ms),
            (Clock::Elapsed, 0),
            (Clock::WasiWall, now.saturating_mul(1_000_000)),
            (Clock::WasiMonotonic, 1),
        ])
    }
}

impl State {
    /// The next value of a clock. After the last one the clock stands still, but for a monotonic clock, which
    /// advances so that a guest that waits for it comes to an end.
    fn clock(&mut self, clock: HostClock) -> u64 {
        const STEP_NS: u64 = 1_000_000;
        let name = Clock::from(clock);
        let next = self.clocks.get_mut(&name).and_then(VecDeque::pop_front);
        let last = self.last.entry(name).or_default();
        if let Some(next) = next {
            *last = next;
            return next;
        }
        if matches!(clock, HostClock::Elapsed | HostClock::WasiMonotonic) {
            *last = last.saturating_add(STEP_NS);
        }
        let value = *last;
        if !std::mem::replace(&mut self.has_other_clock, true) {
            self.depart("no further reading of the clock", format!("reads the clock {name:?}"));
        }
        value
    }

    fn random(&mut self, count: usize) -> Bytes {
        match self.random.pop_front() {
            Some(bytes) if bytes.len() == count => return bytes,
            found => {
                if !std::mem::replace(&mut self.has_other_random, true) {
                    let recorded = found.map_or_else(
                        || "no further random bytes".to_owned(),
                        |bytes| format!("{} random bytes", bytes.len()),
                    );
                    self.depart(&recorded, format!("draws {count} random bytes"));
                }
            }
        }
        let mut bytes = vec![0; count];
        self.drawn.fill(&mut bytes);
        bytes.into()
    }

    fn ask(&mut self, request: &Request) -> HostAnswer {
        let next = self.asked.iter().position(|asked| !asked.is_used);
        if let Some(at) = next
            && self.asked[at].request == *request
        {
            return self.give(at);
        }
        let recorded = next.map_or_else(
            || "no further request".to_owned(),
            |at| self.asked[at].request.to_string(),
        );
        self.depart(&recorded, request.to_string());
        let unused = |fits: fn(&Request, &Request) -> bool| {
            let mut asked = self.asked.iter();
            asked.position(|asked| !asked.is_used && fits(&asked.request, request))
        };
        match unused(|known, asked| known == asked).or_else(|| unused(Request::has_target_of)) {
            Some(at) => self.give(at),
            None => HostAnswer::Stop(format!("the recorded attempt has no answer to: {request}")),
        }
    }

    fn give(&mut self, at: usize) -> HostAnswer {
        self.asked[at].is_used = true;
        match &self.asked[at].answer {
            Some(answer) => answer.to_host(),
            None => {
                self.reached_wait = true;
                HostAnswer::Stop("the recorded attempt ended while it waited for this".to_owned())
            }
        }
    }

    fn depart(&mut self, recorded: &str, now: String) {
        if self.departures.len() < DEPARTURES_MAX {
            let request = self.asked.iter().filter(|asked| asked.is_used).count() + 1;
            self.departures.push(Departure { request, recorded: recorded.to_owned(), now });
        }
    }
}

impl Interceptor for Replay {
    fn answer(&self, request: &HostRequest<'_>) -> Option<HostAnswer> {
        let mut state = self.0.lock();
        match *request {
            HostRequest::Config(_) => None,
            HostRequest::Clock(clock) => Some(HostAnswer::Clock(state.clock(clock))),
            HostRequest::Random(count) => Some(HostAnswer::Random(state.random(count))),
            _ => Request::of(request).map(|request| state.ask(&request)),
        }
    }

    fn answered(&self, _: &HostRequest<'_>, _: &HostAnswer) {}
}
