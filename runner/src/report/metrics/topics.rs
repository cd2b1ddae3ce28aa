//! Metrics of the workers of each topic in this process, and the costs of their guests.

use std::collections::BTreeMap;
use std::fmt;

use duebox_job::FailureClass;

use super::TOPICS_MAX;
use super::page::{About, Labels, Page, topic, word};
use crate::deploy::breaker::BreakerState;
use crate::observe::counters::{Counters, Fate, read};
use crate::observe::module_stats::Sums;
use crate::observe::pull_counters::{Label, PullCounters};
use crate::report::status::{Serving, Watched};

/// A topic that a handler serves.
struct ServedTopic<'w> {
    name: &'w str,
    serving: &'w Serving,
    sums: Sums,
}

pub(super) fn write(
    page: &mut Page<'_>,
    watched: &[Watched],
    consumed: &PullCounters,
) -> fmt::Result {
    let topics: Vec<ServedTopic<'_>> =
        watched.iter().take(TOPICS_MAX).filter_map(ServedTopic::of).collect();
    let consumed = consumed.all(TOPICS_MAX);
    write_settled(page, &topics, &consumed)?;
    write_work(page, &topics)?;
    write_guests(page, &topics)
}

/// What handlers and pull consumers settled; a topic may have had both.
fn write_settled(
    page: &mut Page<'_>,
    topics: &[ServedTopic<'_>],
    consumed: &[(String, Label, u64)],
) -> fmt::Result {
    let mut series: BTreeMap<(&str, Label), u64> = BTreeMap::new();
    let by_handlers = topics.iter().flat_map(ServedTopic::settled);
    let by_consumers =
        consumed.iter().map(|(topic, label, jobs)| ((topic.as_str(), *label), *jobs));
    for (key, jobs) in by_handlers.chain(by_consumers) {
        *series.entry(key).or_default() += jobs;
    }
    let labelled = |((name, (verdict, class)), jobs)| {
        (vec![topic(name), word("verdict", verdict), word("class", class)], jobs)
    };
    page.counters(
        &About::new("jobs_settled", "Settled jobs by verdict and failure class."),
        series.into_iter().map(labelled),
    )
}

fn write_work(page: &mut Page<'_>, topics: &[ServedTopic<'_>]) -> fmt::Result {
    page.counters(
        &About::new("jobs_leased", "Jobs that this runner leased."),
        topics.iter().map(|topic| topic.counted(|counters| read(&counters.leased))),
    )?;
    page.counters(
        &About::new(
            "leases_lost",
            "Verdicts after the lease was lost: another runner has or had the job.",
        ),
        topics.iter().map(|topic| topic.counted(|counters| read(&counters.lost))),
    )?;
    page.counters(
        &About::new("leases_reclaimed", "Expired leases of any runner that this one reclaimed."),
        topics.iter().map(|topic| topic.counted(|counters| read(&counters.reclaimed))),
    )?;
    page.histograms(
        &About::seconds("job_lateness", "Time from due time to start of each attempt."),
        topics.iter().map(|topic| (topic.labels(), topic.serving.counters.late.counted())),
    )?;
    page.histograms(
        &About::seconds("job_run", "Duration of each attempt."),
        topics.iter().map(|topic| (topic.labels(), topic.serving.counters.ran.counted())),
    )?;
    page.gauges(
        &About::new(
            "breaker_open",
            "1 while the topic's breaker is open: its jobs are held back after repeated failures.",
        ),
        topics.iter().map(|topic| {
            let is_open = topic.serving.breaker.state() != BreakerState::Closed;
            (topic.labels(), u64::from(is_open))
        }),
    )
}

fn write_guests(page: &mut Page<'_>, topics: &[ServedTopic<'_>]) -> fmt::Result {
    page.counters(
        &About::seconds("guest_cpu", "CPU time of attempts."),
        topics.iter().map(|topic| (topic.labels(), topic.sums.cpu.as_secs_f64())),
    )?;
    page.gauges(
        &About::bytes("guest_memory_peak", "Largest linear memory of an attempt since the start."),
        topics.iter().map(|topic| (topic.labels(), topic.sums.memory_peak)),
    )?;
    page.counters(
        &About::new("guest_fuel", "Fuel that attempts used, if the topic limits fuel."),
        topics.iter().map(|topic| (topic.labels(), topic.sums.fuel)),
    )?;
    page.counters(
        &About::new("guest_host_calls", "Host calls of attempts."),
        topics.iter().map(|topic| (topic.labels(), topic.sums.host_calls)),
    )?;
    page.counters(
        &About::bytes(
            "guest_in",
            "Bytes that the host gave to attempts: payloads, config, responses.",
        ),
        topics.iter().map(|topic| (topic.labels(), topic.sums.bytes_in)),
    )?;
    page.counters(
        &About::bytes(
            "guest_out",
            "Bytes that the host took from attempts: logs, results, follow-ups.",
        ),
        topics.iter().map(|topic| (topic.labels(), topic.sums.bytes_out)),
    )?;
    page.counters(
        &About::new("guest_log_lines_dropped", "Log lines of attempts beyond their budget."),
        topics.iter().map(|topic| (topic.labels(), topic.sums.log_lines_dropped)),
    )
}

impl<'w> ServedTopic<'w> {
    fn of(watched: &'w Watched) -> Option<Self> {
        let serving = watched.serving.as_ref()?;
        Some(Self { name: &watched.topic, serving, sums: serving.module_stats.total() })
    }

    fn labels(&self) -> Labels<'w> {
        vec![topic(self.name)]
    }

    fn counted(&self, count: impl Fn(&Counters) -> u64) -> (Labels<'w>, u64) {
        (self.labels(), count(&self.serving.counters))
    }

    /// Jobs by verdict; failures of classes that are usual or occurred.
    fn settled(&self) -> impl Iterator<Item = ((&'w str, Label), u64)> {
        let counters = &*self.serving.counters;
        let labelled = |verdict, class: &'static str, jobs| ((self.name, (verdict, class)), jobs);
        let mut series = vec![
            labelled("ack", "", read(&counters.acked)),
            labelled("snooze", "", read(&counters.snoozed)),
            labelled("release", "", read(&counters.released)),
            labelled("overtaken", "", read(&counters.overtaken)),
        ];
        for fate in Fate::ALL {
            for class in FailureClass::ALL {
                let jobs = counters.failures(fate, class);
                if jobs > 0 || is_usual(class) && fate != Fate::Discard {
                    series.push(labelled(fate.word(), class.name(), jobs));
                }
            }
        }
        series.into_iter()
    }
}

/// Whether jobs of any topic can fail so. These are reported from the first scrape on: the first failures, all those of a
/// broken release, are then an increase.
fn is_usual(class: FailureClass) -> bool {
    matches!(class, FailureClass::Nack | FailureClass::Trap | FailureClass::Timeout)
}
