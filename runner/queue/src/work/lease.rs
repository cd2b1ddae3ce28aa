//! Leases: a runner's claim on a job, fenced by a token.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, JobId, OptionError, Options, Priority};
use redis::{Cmd, Value};

use crate::error::QueueError;
use crate::wire::attempts::Attempts;
use crate::wire::constants::{BATCH_MAX, PRIORITY_STEP, TIME_MAX};
use crate::wire::keys::ShardKeys;
use crate::wire::last_attempt::LastAttempt;
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, count, optional_score, score, text, unexpected};
use crate::wire::script::LEASE;

/// Fields of a reply with jobs: ok or again, the token, two counts, a wait, two counts, and columns of ids, due
/// times and payloads.
const BARE: usize = 10;
/// The same with columns of options and attempts.
const WHOLE: usize = 12;

/// The fencing token of a lease: its expiry in µs on the clock of Redis, as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Bytes);

impl Token {
    pub(crate) fn new(text: Bytes) -> Self {
        Self(text)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The token of a lease that expires at this time.
    pub fn expiring_at_us(us: u64) -> Self {
        Self(Bytes::from(us.to_string()))
    }

    /// The token of the jobs that a call leases ahead, by that of the jobs that start at once.
    fn ahead(&self) -> Self {
        Self::expiring_at_us(self.expires_at_us().saturating_add(1))
    }

    /// When the lease expires, by the clock of Redis, in µs since the epoch.
    pub fn expires_at_us(&self) -> u64 {
        std::str::from_utf8(&self.0).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// One leased job. Settling takes it by value, so it cannot be settled twice.
#[derive(Debug)]
pub struct Lease {
    /// The job's id.
    pub id: JobId,
    /// The fencing token; extending the lease replaces it.
    pub token: Token,
    /// When the job fell due, unix ms.
    pub due_at_ms: u64,
    /// The same with its place among the jobs of that millisecond as the fraction, to which a release
    /// returns it.
    pub place: f64,
    /// The payload as it was pushed. It may be taken.
    pub payload: Bytes,
    /// The bytes of the payload.
    pub payload_bytes: usize,
    /// The job's own options, or why they are invalid.
    pub options: Result<Options, OptionError>,
    /// Attempts that have failed so far.
    pub failures: u32,
    /// Runs that ended with the death of the runner or a lost lease.
    pub crashes: u32,
    /// Times the handler snoozed it.
    pub snoozes: u32,
}

/// A request for jobs.
#[derive(Debug, Clone)]
pub struct LeaseCall {
    /// Jobs at most, 1 to [`BATCH_MAX`].
    pub jobs: usize,
    /// How many of them start at once; the others are leased ahead. If the runner dies, a job that
    /// started at once has crashed. A job leased ahead has not, but from then on it is leased only to
    /// start at once.
    pub at_once: usize,
    /// How long the lease holds without being extended, 1 ms to one day.
    pub lease: Duration,
    /// Names this call: repeating it after a lost reply returns the same jobs. The part before the
    /// last `:` is the runner's name.
    pub call_id: String,
    /// Payload bytes at most, but at least one job; unbounded by default.
    pub bytes_max: Option<u64>,
    /// How long the jobs must have been due.
    pub min_age: Duration,
    /// What a job keeps that was not started within its ttl, as JSON; empty forgets such jobs.
    pub expired_info: Option<String>,
    /// The topic has limits that hold for leases: nothing is leased if Redis has lost them.
    pub needs_limits: bool,
    /// The last moment at which this call may lease, unix ms of the clock of Redis; none for any. Redis may
    /// carry out a call after its caller has given up: the jobs of such a lease would not run.
    pub last_at_ms: Option<u64>,
}

/// The result of a lease call.
#[derive(Debug)]
pub enum Leased {
    /// Jobs, or counts of jobs that were removed.
    Jobs(LeasedJobs),
    /// Nothing is ready.
    Empty {
        /// When a job reaches the minimum age, if age is all it lacks.
        wait: Option<Duration>,
    },
    /// Jobs may be ready, but the topic's rate or its number of running jobs lets none start.
    Limited {
        /// When the rate lets one start; none if a lease must end first.
        wait: Option<Duration>,
    },
    /// The topic is paused.
    Paused,
    /// Redis has no limits, although the call needs some.
    NoLimits,
    /// The call arrived after its last moment.
    Late,
}

/// The jobs of a lease call.
#[derive(Debug, Default)]
pub struct LeasedJobs {
    /// The jobs.
    pub leases: Vec<Lease>,
    /// Entries removed from ready because they were superseded or had no payload.
    pub removed: u64,
    /// Jobs that were not started within their ttl.
    pub expired: u64,
    /// When more may be leased, if a limit held some back.
    pub wait: Option<Duration>,
    /// Jobs that stay ready: they may have killed a runner, and would not have started at once.
    pub suspects: u64,
}

impl LeaseCall {
    /// A call for up to `jobs` that start at once, each leased for `lease`, of any size and age.
    pub fn new(jobs: usize, lease: Duration, call_id: impl Into<String>) -> Self {
        Self {
            jobs,
            at_once: jobs,
            lease,
            call_id: call_id.into(),
            bytes_max: None,
            min_age: Duration::ZERO,
            expired_info: Some(LastAttempt::without_attempt(FailureClass::Expired).to_json()),
            needs_limits: false,
            last_at_ms: None,
        }
    }

    pub(crate) fn command(&self, keys: &ShardKeys) -> Cmd {
        let mut call = LEASE.call(keys);
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        call.arg(self.jobs.min(BATCH_MAX)).arg(lease_ms).arg(&self.call_id);
        call.arg(self.bytes_max.unwrap_or(0))
            .arg(millis(self.min_age))
            .arg(self.expired_info.as_deref().unwrap_or_default());
        call.arg(self.at_once.min(BATCH_MAX)).arg(u8::from(self.needs_limits));
        match self.last_at_ms {
            Some(ms) => call.arg(ms.min(TIME_MAX)),
            None => call.arg(""),
        };
        call
    }
}

impl Leased {
    pub(crate) fn read(reply: Value) -> Result<Self, QueueError> {
        let fields = array(reply)?;
        let word = fields.first().map(text).transpose()?;
        let wait = || fields.get(1).map_or(Ok(None), read_wait);
        match word {
            Some("empty") => Ok(Self::Empty { wait: wait()? }),
            Some("limited") => Ok(Self::Limited { wait: wait()? }),
            Some("paused") => Ok(Self::Paused),
            Some("no limits") => Ok(Self::NoLimits),
            Some("late") => Ok(Self::Late),
            Some("ok") => Self::read_jobs(fields, true),
            Some("again") => Self::read_jobs(fields, false),
            _ => Err(unexpected(&Value::Array(fields))),
        }
    }

    fn read_jobs(fields: Vec<Value>, is_new: bool) -> Result<Self, QueueError> {
        let count_of_fields = fields.len();
        if count_of_fields != BARE && count_of_fields != WHOLE {
            return Err(QueueError::BadReply(format!("{count_of_fields} fields of leased jobs")));
        }
        let mut fields = fields.into_iter().skip(1);
        let mut next = || fields.next().ok_or_else(cut_short);
        let token = Token::new(bytes(next()?)?);
        let (removed, expired) = (count(&next()?)?, count(&next()?)?);
        let wait = read_wait(&next()?)?;
        let at_once = usize::try_from(count(&next()?)?).unwrap_or_default();
        let suspects = count(&next()?)?;
        let mut leases = read_columns(&token, at_once, next()?, next()?, next()?)?;
        // The reply omits options and attempts if no job of the topic has any.
        if count_of_fields == WHOLE {
            add_options_and_attempts(&mut leases, next()?, next()?)?;
        }
        if is_new {
            keep_order(&mut leases);
        }
        for lease in &mut leases {
            lease.due_at_ms = lease.place as u64;
        }
        Ok(Self::Jobs(LeasedJobs { leases, removed, expired, wait, suspects }))
    }
}

fn cut_short() -> QueueError {
    QueueError::BadReply("cut short".to_owned())
}

/// The jobs of the columns that every reply has. A due time stands behind the number of the first job that has
/// it, and holds until the next one; payloads come in parts.
fn read_columns(
    token: &Token,
    at_once: usize,
    ids: Value,
    dues: Value,
    payloads: Value,
) -> Result<Vec<Lease>, QueueError> {
    let ids = array(ids)?;
    let dues = array(dues)?;
    let mut dues = dues.chunks_exact(2).peekable();
    let mut parts = array(payloads)?.into_iter();
    let mut part = Vec::new().into_iter();
    let ahead = token.ahead();
    let mut leases = Vec::with_capacity(ids.len());
    let mut due = 0.0;
    for (i, id) in ids.into_iter().enumerate() {
        let is_of_job = |due: &&[Value]| due[0] == Value::Int(i as i64 + 1);
        if let Some([_, new]) = dues.next_if(is_of_job) {
            due = place(text(new)?);
        }
        let payload = loop {
            match part.next() {
                Some(payload) => break bytes(payload)?,
                None => part = array(parts.next().ok_or_else(cut_short)?)?.into_iter(),
            }
        };
        leases.push(Lease {
            id: JobId::from_redis(bytes(id)?),
            token: if i < at_once { token.clone() } else { ahead.clone() },
            due_at_ms: 0,
            place: due,
            payload_bytes: payload.len(),
            payload,
            options: Ok(Options::default()),
            failures: 0,
            crashes: 0,
            snoozes: 0,
        });
    }
    Ok(leases)
}

/// Adds the columns that a reply has if jobs of the topic have options or attempts.
fn add_options_and_attempts(
    leases: &mut [Lease],
    options: Value,
    attempts: Value,
) -> Result<(), QueueError> {
    let (options, attempts) = (array(options)?, array(attempts)?);
    if options.len() != leases.len() || attempts.len() != leases.len() {
        return Err(cut_short());
    }
    for ((lease, options), attempts) in leases.iter_mut().zip(options).zip(attempts) {
        if options != Value::Nil {
            lease.options = Options::from_json(&bytes(options)?);
        }
        if attempts != Value::Nil {
            let attempts = Attempts::unpack(score(text(&attempts)?));
            lease.failures = attempts.failures;
            lease.crashes = attempts.crashes;
            lease.snoozes = attempts.snoozes;
        }
    }
    Ok(())
}

/// A due time with its place within the millisecond.
fn place(text: &str) -> f64 {
    text.parse().unwrap_or_default()
}

/// Gives each job a place that keeps the order of the reply. The script reads few of the scores: a place may
/// be that of an earlier job. Jobs are in the order of their scores, and ids ascend where these are equal, so
/// an id that does not ascend has a later score.
fn keep_order(leases: &mut [Lease]) {
    // By priority, the last job that was met.
    let mut last: [Option<usize>; 3] = [None, None, None];
    for i in 0..leases.len() {
        let options = leases[i].options.as_ref().ok();
        // Its due time is that of its permit, which says nothing of the order.
        if options.is_some_and(|options| options.key().is_some()) {
            continue;
        }
        let priority = options.map_or(Priority::Normal, Options::priority);
        let (class, shift) = match priority {
            Priority::High => (0, -(PRIORITY_STEP as f64)),
            Priority::Normal => (1, 0.0),
            Priority::Low => (2, PRIORITY_STEP as f64),
        };
        if let Some(before) = last[class].map(|before: usize| &leases[before])
            && leases[i].place <= before.place
        {
            let (ascends, place) = (before.id.as_bytes() < leases[i].id.as_bytes(), before.place);
            leases[i].place = if ascends { place } else { (place + shift).next_up() - shift };
        }
        last[class] = Some(i);
    }
}

fn read_wait(value: &Value) -> Result<Option<Duration>, QueueError> {
    Ok(optional_score(value)?.map(Duration::from_millis))
}
