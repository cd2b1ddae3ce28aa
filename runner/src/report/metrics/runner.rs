//! Metrics of the daemon as a whole: version, load, Redis, manifest, traces, events and log.

use std::borrow::Cow;
use std::fmt;

use super::page::{About, Page, topic, value, word};
use super::{Sources, TOPICS_MAX};
use crate::observe::health::Phase;
use crate::observe::log;
use crate::observe::panics;
use crate::observe::push_counters::Source;

pub(super) fn write(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let version = ("version", Cow::Borrowed(env!("CARGO_PKG_VERSION")));
    page.infos(&About::new("build", "Version of this daemon."), [vec![version]])?;
    page.gauge(
        &About::new(
            "draining",
            "1 while the runner drains: it finishes its jobs and takes no more.",
        ),
        u64::from(sources.health.phase() == Phase::Draining),
    )?;
    write_capacity(page, sources)?;
    write_redis(page, sources)?;
    page.counters(
        &About::new(
            "jobs_pushed",
            "Jobs that this process pushed, by source; other producers show in queue_jobs only.",
        ),
        Source::ALL.map(|source| {
            (vec![word("source", source.word())], sources.push_counters.count(source))
        }),
    )?;
    write_tasks(page, sources)?;
    write_manifest(page, sources)?;
    write_records(page, sources)
}

fn write_tasks(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let supervision = sources.health.supervision();
    page.counter(&About::new("panics", "Panics of this process; each is a bug."), panics::count())?;
    page.counters(
        &About::new("task_panics", "Panics of supervised tasks; most are started again."),
        supervision.panics().map(|(kind, count)| (vec![word("task", kind.word())], count)),
    )?;
    page.gauge(
        &About::new("tasks_down", "Tasks that panicked and do not run again yet."),
        supervision.down().len() as u64,
    )
}

fn write_manifest(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let (applied, refused) = sources.health.manifest_reloads();
    page.counters(
        &About::new("manifest_reloads", "Manifest reloads by outcome."),
        [("applied", applied), ("refused", refused)]
            .map(|(outcome, count)| (vec![word("outcome", outcome)], count)),
    )?;
    page.gauge(
        &About::new("manifest_valid", "1 if the manifest on disk is in use; 0 if it was refused."),
        u64::from(sources.health.manifest_trouble().is_none()),
    )?;
    page.gauge(
        &About::seconds(
            "manifest_applied_timestamp",
            "When the manifest in use was applied, in unix seconds.",
        ),
        sources.health.manifest_since(),
    )
}

/// Spans, events and log lines, and how many were lost.
fn write_records(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let outcomes = |counts: &[(&'static str, u64)]| {
        counts
            .iter()
            .map(|(outcome, count)| (vec![word("outcome", outcome)], *count))
            .collect::<Vec<_>>()
    };
    page.counters(
        &About::new(
            "trace_spans",
            "Trace spans by outcome; failed: the collector did not accept them.",
        ),
        outcomes(&sources.traces.counts()),
    )?;
    page.counters(
        &About::new(
            "events",
            "Job events by outcome; dropped: Redis was away, or there were too many.",
        ),
        outcomes(&sources.events.counts()),
    )?;
    let left_out = sources.handler_log.omitted_lines(TOPICS_MAX);
    page.counters(
        &About::new(
            "handler_log_lines_left_out",
            "Handler log lines beyond their topic's share while stderr was too slow.",
        ),
        left_out.iter().map(|(name, lines)| (vec![topic(name)], *lines)),
    )?;
    page.counter(
        &About::new("log_lines_dropped", "Daemon log lines dropped because stderr was too slow."),
        log::dropped_lines(),
    )
}

fn write_capacity(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let slots = u64::from(sources.slots_max);
    let used = slots.saturating_sub(sources.slots.free() as u64);
    page.gauge(&About::new("slots", "Jobs that may run at once (runner.max_jobs)."), slots)?;
    page.gauge(&About::new("slots_used", "Slots in use."), used)?;
    page.gauge(
        &About::bytes(
            "memory_limit",
            "Limit of the linear memory of all guests together (runner.memory).",
        ),
        sources.sandbox.memory_max() as f64,
    )?;
    page.gauge(
        &About::bytes("memory_used", "Linear memory of all guests, including idle warm instances."),
        sources.sandbox.memory_held(),
    )?;
    write_cpu_quota(page, sources)
}

fn write_cpu_quota(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    page.gauges(
        &About::new("cpu_quota_cores", "CPU limit of this process in cores, if it has one."),
        sources.cpu_quota.cores().map(|cores| (Vec::new(), cores)),
    )?;
    page.counter(
        &About::seconds(
            "guest_cpu_wait",
            "Time that long-running guests' threads waited, to leave CPU quota to other threads.",
        ),
        sources.cpu_quota.waited().as_secs_f64(),
    )
}

/// The primaries of a cluster; nothing without one.
fn write_primaries(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let all = sources.primaries.all();
    let each = || all.iter().map(|one| (vec![value("primary", &one.address)], one));
    page.gauges(
        &About::new("redis_primary_up", "1 while the primary has slots and a connection."),
        each().map(|(labels, one)| (labels, u64::from(one.is_up))),
    )?;
    page.counters(
        &About::new("redis_primary_outages", "How often the primary was away."),
        each().map(|(labels, one)| (labels, one.outages)),
    )
}

fn write_redis(page: &mut Page<'_>, sources: &Sources) -> fmt::Result {
    let each =
        || sources.traffic.iter().map(|(name, traffic)| (vec![word("connection", name)], traffic));
    page.gauge(
        &About::new("redis_outage", "1 while Redis fails and jobs wait for it."),
        u64::from(sources.outage.is_ongoing()),
    )?;
    write_primaries(page, sources)?;
    page.histograms(
        &About::seconds(
            "redis_round_trip",
            "Round trip time to Redis; a pipeline is one round trip.",
        ),
        each().map(|(labels, traffic)| (labels, traffic.round_trips.counted())),
    )?;
    page.counters(
        &About::new("redis_errors", "Round trips without a reply."),
        each().map(|(labels, traffic)| (labels, traffic.failed())),
    )?;
    let waits = [("kept", sources.copies.kept()), ("short", sources.copies.short())];
    page.counters(
        &About::new(
            "redis_copies",
            "Calls that waited for copies of their writes; short: they did not exist in time.",
        ),
        waits.map(|(outcome, count)| (vec![word("outcome", outcome)], count)),
    )?;
    page.gauge(
        &About::new("topics_sick", "Topics (each shard counts) with keys that Redis refuses now."),
        sources.sick_topics.count() as f64,
    )?;
    let errors = sources.sick_topics.errors();
    page.counters(
        &About::new(
            "topic_errors",
            "Calls that Redis refused because of what a key of the topic holds.",
        ),
        errors.iter().map(|(name, errors)| (vec![topic(name.as_str())], *errors)),
    )
}
