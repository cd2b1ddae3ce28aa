//! `duebox stats`: job counts by topic and state, and handler statistics.

pub(super) mod check;
pub(super) mod handlers;
mod history;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use duebox_job::{TopicName, format_duration};
use duebox_queue::{Depths, Queue};
use serde::Serialize;

use self::handlers::HandlerStats;
use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, StatsArgs};
use crate::manifest::{Manifest, Topic};
use crate::report::status::Status;

/// Refresh interval of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// All topics at one moment; the JSON output.
#[derive(Default, Serialize)]
pub(super) struct Snapshot {
    pub(super) now_ms: u64,
    pub(super) topics: Vec<TopicStats>,
    /// What each running daemon reports.
    pub(super) runners: Vec<Status>,
    /// Keys outside topics that cannot be read: reports of daemons, or the set of topics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable: Vec<String>,
    /// True if topics were named: handlers are then shown by module.
    #[serde(skip)]
    pub(super) by_module: bool,
}

/// One topic. `bound` is true if the manifest has an entry or a pattern for it, `pulled` if that
/// entry has no handler.
#[derive(Serialize)]
pub(super) struct TopicStats {
    pub(super) topic: String,
    pub(super) bound: bool,
    pub(super) pulled: bool,
    pub(super) pending: u64,
    pub(super) ready: u64,
    pub(super) blocked: u64,
    pub(super) unack: u64,
    pub(super) retry: u64,
    pub(super) dead: u64,
    pub(super) done: u64,
    /// False if the manifest says that done jobs are not kept.
    #[serde(skip)]
    pub(super) keeps_done: bool,
    /// Acked jobs whose follow-ups are not all pushed yet.
    pub(super) outbox: u64,
    pub(super) paused: bool,
    /// How long the oldest ready job has been due, in ms.
    pub(super) late_ms: Option<u64>,
    /// Time until the next waiting job falls due, in ms; 0 if it is due.
    pub(super) next_due_in_ms: Option<u64>,
    /// Why some of this could not be read from Redis and is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
    /// Statistics of its handlers, if a running daemon serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) handler: Option<HandlerStats>,
}

pub(super) fn stats(common: &Common, args: &StatsArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    target::block_on(async {
        let queue = target::connect(&manifest).await?;
        if args.limits.check {
            let snapshot = look(&queue, &manifest, &args.topics).await?;
            let recent = check::Recent::read(&queue, &snapshot, &args.limits).await?;
            let problems = args.limits.problems(&snapshot, &manifest, &recent);
            return check::report(&snapshot, problems, args.json);
        }
        if !args.watch {
            show(&look(&queue, &manifest, &args.topics).await?, args.json, 0)?;
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            ended = watch(&queue, &manifest, args) => ended.map(|()| ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Refreshes every second until the future is dropped. On a terminal each table replaces the last.
async fn watch(queue: &Queue, manifest: &Manifest, args: &StatsArgs) -> Result<(), Failure> {
    let in_place = io::stdout().is_terminal() && !args.json;
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    let mut drawn = 0;
    loop {
        ticks.tick().await;
        let snapshot = look(queue, manifest, &args.topics).await?;
        let lines = show(&snapshot, args.json, drawn)?;
        drawn = if in_place { lines } else { 0 };
    }
}

pub(super) async fn look(
    queue: &Queue,
    manifest: &Manifest,
    wanted: &[TopicName],
) -> Result<Snapshot, Failure> {
    let mut unreadable = Vec::new();
    let mut known = BTreeSet::new();
    match queue.topics().await {
        Ok(topics) => known.extend(topics),
        Err(error) if error.is_of_topic() => {
            unreadable.push(format!("{}:topics", manifest.redis.prefix));
        }
        Err(error) => return Err(error.into()),
    }
    known.extend(manifest.topics.keys().cloned());
    if let Some(unknown) = wanted.iter().find(|topic| !known.contains(topic)) {
        return Err(target::unknown_topic(unknown, known.iter()));
    }
    let topics: Vec<TopicName> =
        if wanted.is_empty() { known.into_iter().collect() } else { wanted.to_vec() };
    let depths = queue.depths(&topics).await?;
    let now_ms = depths.iter().map(|depths| depths.now_ms).max().unwrap_or(0);
    let runners = handlers::look(queue, wanted, &mut unreadable).await?;
    let mut reported = handlers::by_topic(&runners);
    let topics = topics
        .iter()
        .zip(&depths)
        .map(|(topic, depths)| TopicStats {
            handler: reported.remove(topic.as_str()),
            ..topic_stats(topic, manifest.topic_for(topic), depths)
        })
        .collect();
    Ok(Snapshot { now_ms, topics, runners, unreadable, by_module: !wanted.is_empty() })
}

fn topic_stats(topic: &TopicName, settings: Option<&Topic>, depths: &Depths) -> TopicStats {
    let Depths {
        pending, ready, blocked, unack, retry, dead, done, outbox, paused, now_ms, ..
    } = *depths;
    let late_ms = depths.oldest_ready_ms.map(|due| now_ms.saturating_sub(due));
    let next_due_in_ms = depths.next_due_ms.map(|due| due.saturating_sub(now_ms));
    TopicStats {
        topic: topic.to_string(),
        bound: settings.is_some(),
        pulled: settings.is_some_and(|settings| settings.handler.is_none()),
        pending,
        ready,
        blocked,
        unack,
        retry,
        dead,
        done,
        keeps_done: settings.is_none_or(|settings| !settings.done_retention.is_zero()),
        outbox,
        paused,
        late_ms,
        next_due_in_ms,
        fault: depths.fault.clone(),
        handler: None,
    }
}

/// Prints a snapshot over the last `drawn` lines. Returns the number of lines printed.
fn show(snapshot: &Snapshot, json: bool, drawn: usize) -> Result<usize, Failure> {
    if json {
        return output::print_json(snapshot).map(|()| 1);
    }
    let handlers = handlers::describe(&snapshot.runners, snapshot.by_module);
    let mut text = format!("{}\n\n{handlers}", table(&snapshot.topics));
    if !snapshot.unreadable.is_empty() {
        let keys = output::one_line(&snapshot.unreadable.join(", "));
        text.push_str(&format!("\nunreadable in Redis: {keys}"));
    }
    let lines = text.lines().count();
    // Move up to the first line of the last table, and clear from there.
    let up = if drawn > 0 { format!("\x1b[{drawn}A\x1b[J") } else { String::new() };
    output::print(&format!("{up}{text}"))?;
    Ok(lines)
}

fn table(topics: &[TopicStats]) -> String {
    let duration = |ms: Option<u64>| {
        ms.map_or_else(
            || "-".to_owned(),
            |ms| format_duration(Duration::from_millis(output::rounded(ms))),
        )
    };
    let row = |topic: &TopicStats| {
        let mut row = vec![topic.topic.clone()];
        let &TopicStats { pending, ready, blocked, unack, retry, dead, done, .. } = topic;
        let counts = [pending, ready, blocked, unack, retry, dead];
        row.extend(counts.map(|count| count.to_string()));
        row.push(if done > 0 || topic.keeps_done { done.to_string() } else { "-".to_owned() });
        row.push(duration(topic.late_ms));
        row.push(duration(topic.next_due_in_ms));
        row.push(notes(topic));
        row
    };
    let rows: Vec<Vec<String>> = topics.iter().map(row).collect();
    let header = [
        "topic", "pending", "ready", "blocked", "running", "retry", "dead", "done", "late",
        "next due", "",
    ];
    output::table(&header, &rows)
}

/// Notes on unusual conditions.
fn notes(topic: &TopicStats) -> String {
    let mut notes = Vec::new();
    if let Some(fault) = &topic.fault {
        notes.push(format!("{}; run: duebox doctor {}", output::one_line(fault), topic.topic));
    }
    if topic.paused {
        notes.push("paused".to_owned());
    }
    if topic.outbox > 0 {
        notes.push(format!("{} in the outbox", topic.outbox));
    }
    if topic.pulled {
        notes.push("pull".to_owned());
    }
    if !topic.bound {
        notes.push("unbound".to_owned());
    }
    notes.join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An idle topic of pull consumers.
    pub(in crate::cli) fn topic(name: &str) -> TopicStats {
        TopicStats {
            bound: true,
            pulled: true,
            ..topic_stats(&TopicName::new(name).unwrap(), None, &Depths::default())
        }
    }

    #[test]
    fn lateness_and_next_due_are_relative_to_the_clock_of_redis() {
        let depths = Depths {
            ready: 1,
            outbox: 3,
            paused: true,
            oldest_ready_ms: Some(900),
            next_due_ms: Some(1_500),
            now_ms: 1_000,
            ..Depths::default()
        };
        let stats = topic_stats(&TopicName::new("a").unwrap(), None, &depths);
        assert_eq!((stats.late_ms, stats.next_due_in_ms), (Some(100), Some(500)));
        let text = table(&[stats]);
        assert!(text.ends_with("100ms     500ms  paused, 3 in the outbox, unbound"), "{text}");
    }
}
