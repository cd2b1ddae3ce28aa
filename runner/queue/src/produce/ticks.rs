//! Ticks of schedules. Each tick is pushed once however many runners see it: the script compares what
//! the caller knows of the schedule with what Redis knows, and moves both on in the same transition.

use std::time::Duration;

use duebox_job::TopicName;
use redis::Value;

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
use crate::topic::new_job::Pushed;
use crate::wire::reply::{array, optional_score, read_time, score, text, unexpected};
use crate::wire::script::{self, TICK};

/// Ticks of one schedule that are pushed together.
#[derive(Debug, Clone, Copy)]
pub struct Tick<'a> {
    /// The schedule's name, without a colon.
    pub schedule: &'a str,
    /// The schedule as text; a runner that reads another text knows that the schedule was changed.
    pub line: &'a str,
    /// Until when its ticks are dealt with, as far as the caller knows; unix ms.
    pub expected: Option<u64>,
    /// The time up to which ticks are handled after this call; unix ms, not in the future.
    pub until: u64,
    /// The payload of the jobs.
    pub payload: &'a [u8],
    /// The ticks, unix ms, none after `until`, earliest first; 0 to [`crate::BATCH_MAX`]. The job of
    /// a tick has the id `<schedule>@<tick>` and falls due at the tick.
    pub times: &'a [u64],
}

/// The result of a tick call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ticked {
    /// All were handled: for each [`Pushed::Pushed`], [`Pushed::Kept`] or [`Pushed::Held`].
    Done(Vec<Pushed>),
    /// Nothing was done: Redis knows another time than `expected`.
    Taken {
        /// The time up to which ticks were handled; unix ms.
        until: Option<u64>,
        /// The schedule's text in Redis.
        line: String,
    },
    /// Nothing was done: by the clock of Redis it is too early, by this much.
    Early(Duration),
}

/// The state of a schedule in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleState {
    /// The time up to which ticks were pushed or skipped; unix ms. None if no runner has seen the
    /// schedule.
    pub until: Option<u64>,
    /// The last tick that was pushed; unix ms.
    pub last_run: Option<u64>,
    /// True if its topic is paused.
    pub paused: bool,
    /// Why this could not be read: a key of a wrong type, for example.
    pub fault: Option<String>,
}

impl Queue {
    /// Pushes the jobs of ticks, unless another runner was first.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply (repeating the call is harmless: it answers
    /// [`Ticked::Taken`] if it was carried out) or refused.
    pub async fn tick(&self, topic: &TopicName, tick: &Tick<'_>) -> Result<Ticked, QueueError> {
        let mut call = TICK.call(&self.keys.of_first(topic));
        call.arg(tick.schedule).arg(tick.line);
        call.arg(tick.expected.map(|ms| ms.to_string()).unwrap_or_default());
        call.arg(tick.until).arg(tick.payload);
        for time in tick.times {
            call.arg(time);
        }
        let mut calls = vec![call];
        if !tick.times.is_empty() {
            let mut seen = redis::cmd("SADD");
            seen.arg(self.keys.topics_key()).arg(topic.as_str());
            calls.push(seen);
        }
        let mut replies = script::run(&self.connection, calls).await?.into_iter();
        let reply = replies.next().unwrap_or(Ok(Value::Nil))?;
        // That the set of topics was not written loses no tick.
        Ticked::read(array(reply)?)
    }

    /// Records that a runner has these schedules, each given with its topic, at `now_ms` on the clock of
    /// Redis. The state of a schedule without a record for long is deleted
    /// ([`prune_ended`](Self::prune_ended)).
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn mark_schedules(
        &self,
        schedules: &[(TopicName, String)],
        now_ms: u64,
    ) -> Result<(), QueueError> {
        let mark = |(topic, name): &(TopicName, String)| {
            let mut mark = redis::cmd("HSET");
            mark.arg(self.keys.of_first(topic).key("ticks"));
            mark.arg(format!("{name}:seen")).arg(now_ms);
            mark
        };
        let calls = schedules.iter().map(mark).collect();
        for_each_topic(script::run_idempotent(&self.connection, calls).await?).map(drop)
    }

    /// The states of schedules, each given with its topic, and the clock of Redis in unix ms; in one
    /// pipeline. What Redis refuses is missing, and [`ScheduleState::fault`] says why.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn schedule_states(
        &self,
        schedules: &[(TopicName, String)],
    ) -> Result<(Vec<ScheduleState>, u64), QueueError> {
        let mut calls = Vec::with_capacity(2 * schedules.len() + 1);
        for (topic, name) in schedules {
            let keys = self.keys.of_first(topic);
            let mut ticks = redis::cmd("HMGET");
            ticks.arg(keys.key("ticks")).arg(name).arg(format!("{name}:run"));
            let mut paused = redis::cmd("HGET");
            paused.arg(keys.key("meta")).arg("paused");
            calls.extend([ticks, paused]);
        }
        calls.push(redis::cmd("TIME"));
        let mut replies = script::run(&self.connection, calls).await?;
        let now = read_time(replies.pop().unwrap_or(Ok(Value::Nil))?)?;
        let mut replies = for_each_topic(replies)?.into_iter();
        let mut states = Vec::with_capacity(schedules.len());
        while let (Some(ticks), Some(paused)) = (replies.next(), replies.next()) {
            let state = ticks.and_then(|ticks| ScheduleState::read(&ticks, &paused?));
            states.push(state.unwrap_or_else(ScheduleState::faulty));
        }
        Ok((states, now))
    }
}

impl Ticked {
    fn read(reply: Vec<Value>) -> Result<Self, QueueError> {
        let (word, rest) = match reply.split_first() {
            Some((word, rest)) => (text(word)?, rest),
            None => return Err(unexpected(&Value::Array(reply))),
        };
        match (word, rest) {
            ("ok", words) => {
                Ok(Self::Done(words.iter().map(Pushed::read).collect::<Result<_, _>>()?))
            }
            ("taken", [until, line]) => {
                Ok(Self::Taken { until: optional_score(until)?, line: text(line)?.to_owned() })
            }
            ("early", [wait]) => Ok(Self::Early(Duration::from_millis(score(text(wait)?)))),
            _ => Err(unexpected(&Value::Array(reply))),
        }
    }
}

impl ScheduleState {
    fn read(ticks: &Value, paused: &Value) -> Result<Self, QueueError> {
        let Value::Array(fields) = ticks else { return Err(unexpected(ticks)) };
        let [until, last_run] = fields.as_slice() else { return Err(unexpected(ticks)) };
        Ok(Self {
            until: time_of(until)?,
            last_run: time_of(last_run)?,
            paused: *paused != Value::Nil && text(paused)? != "0",
            fault: None,
        })
    }

    fn faulty(error: QueueError) -> Self {
        Self { fault: Some(error.to_string()), ..Self::default() }
    }
}

fn time_of(field: &Value) -> Result<Option<u64>, QueueError> {
    match field {
        Value::Nil => Ok(None),
        field => Ok(Some(score(text(field)?)).filter(|ms| *ms > 0)),
    }
}
