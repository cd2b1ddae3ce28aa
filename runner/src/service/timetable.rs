//! When the schedules of the manifest fire, for people and programs; and the push of a schedule's
//! job now.

use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{Due, IfExists, NewJob, Pushed, Queue, QueueError, ScheduleState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::manifest::Manifest;
use crate::millis::millis;
use crate::schedule::{Missed, Schedule, When};

/// All schedules.
#[derive(Serialize, ToSchema)]
pub(crate) struct Timetable<'m> {
    /// Redis' clock when it was asked, unix ms.
    now_ms: u64,
    /// The schedules, in the order of the manifest.
    pub(crate) schedules: Vec<ScheduleEntry<'m>>,
}

/// One schedule.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleEntry<'m> {
    /// Its name.
    pub(crate) name: &'m str,
    /// The topic that its jobs are pushed to.
    pub(crate) topic: &'m str,
    /// Its cron line.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<&'m str>,
    /// The time zone of that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<&'m str>,
    /// Its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    /// What happens to missed ticks: `skip`, `once` or `all`.
    missed: &'static str,
    /// How late a missed tick may be made up for.
    window_ms: u64,
    /// When it ran last, unix ms.
    pub(crate) last_run_ms: Option<u64>,
    /// When it runs next, unix ms.
    pub(crate) next_run_ms: Option<u64>,
    /// True if its topic is paused; its jobs wait.
    pub(crate) paused: bool,
    /// Why its state cannot be read from Redis; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

impl<'m> Timetable<'m> {
    /// Reads from Redis when each schedule ran last.
    pub(crate) async fn read(queue: &Queue, manifest: &'m Manifest) -> Result<Self, QueueError> {
        let names: Vec<(TopicName, String)> =
            manifest.schedules.iter().map(|s| (s.topic.clone(), s.name.clone())).collect();
        let (states, now_ms) = queue.schedule_states(&names).await?;
        let entries = manifest.schedules.iter().zip(&states);
        Ok(Self {
            now_ms,
            schedules: entries.map(|(s, state)| ScheduleEntry::of(s, state, now_ms)).collect(),
        })
    }
}

impl<'m> ScheduleEntry<'m> {
    fn of(schedule: &'m Schedule, state: &ScheduleState, now_ms: u64) -> Self {
        let (cron, every_ms) = match &schedule.when {
            When::Cron(cron) => (Some(cron), None),
            When::Every(span) => (None, Some(millis(*span))),
        };
        // A runner that lags has not yet handled all past ticks.
        let handled = state.until.unwrap_or(now_ms).max(now_ms);
        Self {
            name: &schedule.name,
            topic: schedule.topic.as_str(),
            cron: cron.map(|cron| cron.line()),
            tz: cron.and_then(|cron| cron.zone().iana_name()),
            every_ms,
            missed: match schedule.missed {
                Missed::Skip => "skip",
                Missed::Once => "once",
                Missed::All => "all",
            },
            window_ms: millis(schedule.window),
            last_run_ms: state.last_run,
            next_run_ms: schedule.when.next_after(handled),
            paused: state.paused,
            fault: state.fault.clone(),
        }
    }
}

/// Pushes a job of a schedule now, with the id `NAME@NOW`. It does not count as a tick.
pub(crate) async fn push_now(
    queue: &Queue,
    schedule: &Schedule,
) -> Result<(JobId, Pushed), QueueError> {
    let now_ms = queue.now_ms().await?;
    // A schedule's name is short enough for an id and has only characters of an id.
    let id = JobId::from_redis(format!("{}@{now_ms}", schedule.name));
    let job = NewJob {
        id: id.clone(),
        due: Due::Now,
        payload: schedule.payload.clone(),
        options: Options::default(),
    };
    let answers = queue.push(&schedule.topic, &[job], IfExists::Reject).await?;
    let pushed = answers.first().copied();
    let pushed =
        pushed.ok_or_else(|| QueueError::BadReply("the push returned no result".to_owned()));
    Ok((id, pushed?))
}
