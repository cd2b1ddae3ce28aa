//! Connections to the simulated Redis that lose, delay and cut what they carry.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use duebox_queue::Transport;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;
use redis::{Pipeline, RedisError, Value};
use tokio::time::{Instant, sleep, sleep_until};

use crate::redis::server::Server;
use crate::turns::Turns;
use crate::witness::Witness;

/// How long a client waits for a reply before it gives up.
const REPLY_MAX: Duration = Duration::from_secs(5);
/// A slower call may break a lease.
const SLOW: Duration = Duration::from_millis(10);

/// How likely faults are: one call in so many; 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// The request is lost.
    pub lost_requests: u32,
    /// The request is carried out, and its reply is lost.
    pub lost_replies: u32,
    /// The client gives up, and the request is carried out later.
    pub late_requests: u32,
    /// Request and reply are slow.
    pub delays: u32,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It arrives.
    Arrives { there: Duration, back: Duration },
    /// It does not arrive; the client notices after this.
    RequestLost { noticed: Duration },
    /// It arrives, and the client has no reply.
    ReplyLost { there: Duration, noticed: Duration },
    /// The client has no reply, and after that it arrives.
    Late { noticed: Duration, arrives: Duration },
}

/// The network between clients and Redis. Clones are the same network.
#[derive(Clone)]
pub struct Network {
    server: Arc<Mutex<Server>>,
    state: Arc<Mutex<State>>,
    witness: Witness,
    turns: Turns,
}

struct State {
    dice: fastrand::Rng,
    rates: FaultRates,
    is_down: bool,
    stalls_until: Option<Instant>,
    links: u64,
    faults: u64,
}

impl Network {
    /// A network without faults.
    pub fn new(server: Server, seed: u64) -> Self {
        let state = State {
            dice: fastrand::Rng::with_seed(seed),
            rates: FaultRates::default(),
            is_down: false,
            stalls_until: None,
            links: 0,
            faults: 0,
        };
        Self {
            server: Arc::new(Mutex::new(server)),
            state: Arc::new(Mutex::new(state)),
            witness: Witness::new(),
            turns: Turns::default(),
        }
    }

    /// Works with Redis itself.
    pub fn server<T>(&self, work: impl FnOnce(&mut Server) -> T) -> T {
        work(&mut self.server.lock())
    }

    /// What happened to leases.
    pub(crate) fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Redis carries out what a client sent at that moment.
    fn carry_out(&self, link: u64, sent_at: Duration, commands: &Pipeline) -> Vec<Value> {
        let (replies, events) = self.server(|server| {
            let replies = server.execute(commands);
            (replies, server.take_lease_events())
        });
        self.witness.saw(link, sent_at, events);
        replies
    }

    /// Waits until time stands still; returns what happens meanwhile.
    pub async fn stood_still(&self) -> String {
        let standstill = self.server(|server| server.standstill());
        standstill.notified().await;
        format!("time stands still: {}", self.server(|server| server.repeated_commands()))
    }

    /// Sets how likely faults are.
    pub fn set_rates(&self, rates: FaultRates) {
        self.state.lock().rates = rates;
    }

    /// Redis stops, or starts again. Every connection is cut.
    pub fn set_down(&self, is_down: bool) {
        self.state.lock().is_down = is_down;
        self.server.lock().cut_subscribers(None);
    }

    /// Redis carries out nothing for a while.
    pub fn stall(&self, duration: Duration) {
        self.state.lock().stalls_until = Some(Instant::now() + duration);
    }

    /// The turns that were under way.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The number of calls that a fault hit.
    pub fn faults(&self) -> u64 {
        self.state.lock().faults
    }

    /// A connection of a new client.
    pub fn link(&self) -> Arc<Link> {
        let mut state = self.state.lock();
        state.links += 1;
        Arc::new(Link { network: self.clone(), number: state.links })
    }

    /// A connection of a new daemon or consumer.
    pub(crate) fn link_of_runner(&self) -> Arc<Link> {
        let link = self.link();
        self.witness.expect_last_moments(link.number);
        link
    }

    fn fate(&self, link: u64) -> Fate {
        let mut state = self.state.lock();
        let now = Instant::now();
        let fate = state.fate();
        let stalled = state.stalls_until.map_or(Duration::ZERO, |until| until.duration_since(now));
        let fate = if state.is_down {
            Fate::RequestLost { noticed: Duration::from_millis(state.dice.u64(1..50)) }
        } else if stalled >= REPLY_MAX {
            Fate::Late { noticed: REPLY_MAX, arrives: stalled }
        } else if let Fate::Arrives { there, back } = fate {
            Fate::Arrives { there: there.max(stalled), back }
        } else {
            fate
        };
        if !matches!(fate, Fate::Arrives { .. }) {
            state.faults += 1;
        }
        let lasts = fate.lasts();
        if !matches!(fate, Fate::Arrives { .. }) || lasts > SLOW {
            self.witness.hit(link, lasts);
        }
        fate
    }
}

impl Fate {
    /// The time until nothing of it can happen any more.
    fn lasts(self) -> Duration {
        match self {
            Self::Arrives { there, back } => there + back,
            Self::RequestLost { noticed } => noticed,
            Self::ReplyLost { there, noticed } => there + noticed,
            Self::Late { noticed, arrives } => noticed.max(arrives),
        }
    }
}

impl State {
    fn hits(&mut self, one_in: u32) -> bool {
        one_in > 0 && self.dice.u32(0..one_in) == 0
    }

    /// A time after which a client notices that no reply comes: at once if the connection was cut.
    fn notice(&mut self) -> Duration {
        if self.dice.bool() { Duration::from_millis(self.dice.u64(0..20)) } else { REPLY_MAX }
    }

    fn fate(&mut self) -> Fate {
        let FaultRates { lost_requests, lost_replies, late_requests, delays } = self.rates;
        let slow = if self.hits(delays) { 2_000 } else { 0 };
        let there = self.travel(slow);
        if self.hits(lost_requests) {
            return Fate::RequestLost { noticed: self.notice() };
        }
        if self.hits(lost_replies) {
            return Fate::ReplyLost { there, noticed: self.notice() };
        }
        if self.hits(late_requests) {
            let noticed = self.notice();
            let arrives = noticed + Duration::from_millis(self.dice.u64(1..8_000));
            return Fate::Late { noticed, arrives };
        }
        Fate::Arrives { there, back: self.travel(slow) }
    }

    fn travel(&mut self, slow_ms: u64) -> Duration {
        if slow_ms > 0 {
            return Duration::from_millis(self.dice.u64(0..slow_ms));
        }
        Duration::from_millis(u64::from(self.dice.u32(0..4) == 0))
    }
}

/// One client's connection.
pub struct Link {
    network: Network,
    number: u64,
}

impl Link {
    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Cuts the connection of a client that is gone.
    pub fn cut(&self) {
        self.network.server.lock().cut_subscribers(Some(self.number));
    }

    async fn send_now(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let sent_at = self.network.witness.now();
        let _under_way = self.network.turns.begin(self.number, commands);
        match self.network.fate(self.number) {
            Fate::Arrives { there, back } => {
                pass(there).await;
                let replies = self.network.carry_out(self.number, sent_at, commands);
                pass(back).await;
                Ok(replies)
            }
            Fate::RequestLost { noticed } => {
                pass(noticed).await;
                Err(no_reply(self, noticed))
            }
            Fate::ReplyLost { there, noticed } => {
                pass(there).await;
                drop(self.network.carry_out(self.number, sent_at, commands));
                pass(noticed).await;
                Err(no_reply(self, noticed))
            }
            Fate::Late { noticed, arrives } => {
                let (network, commands) = (self.network.clone(), commands.clone());
                let link = self.number;
                let when = Instant::now() + arrives;
                tokio::spawn(async move {
                    sleep_until(when).await;
                    drop(network.carry_out(link, sent_at, &commands));
                });
                pass(noticed).await;
                Err(no_reply(self, noticed))
            }
        }
    }
}

impl Transport for Link {
    fn send<'t>(&'t self, commands: &'t Pipeline) -> BoxFuture<'t, Result<Vec<Value>, RedisError>> {
        Box::pin(self.send_now(commands))
    }

    fn subscribe(&self) -> BoxFuture<'_, Result<BoxStream<'static, (String, String)>, RedisError>> {
        Box::pin(async {
            pass(Duration::from_millis(1)).await;
            if self.network.state.lock().is_down {
                return Err(no_reply(self, Duration::ZERO));
            }
            let messages = self.network.server(|server| server.subscribe(self.number));
            let next = |mut messages: tokio::sync::mpsc::UnboundedReceiver<_>| async {
                messages.recv().await.map(|message| (message, messages))
            };
            Ok(stream::unfold(messages, next).boxed())
        })
    }
}

/// The error of a client that noticed after this time: the connection is cut, or silent. It also ends the
/// client's subscription.
fn no_reply(link: &Link, noticed: Duration) -> RedisError {
    link.cut();
    let kind =
        if noticed < REPLY_MAX { io::ErrorKind::BrokenPipe } else { io::ErrorKind::TimedOut };
    RedisError::from(io::Error::new(kind, "no reply"))
}

async fn pass(time: Duration) {
    if time.is_zero() {
        tokio::task::yield_now().await;
    } else {
        sleep(time).await;
    }
}
