//! What the workers of each topic did in this process, and what its guests cost.

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
struct Told<'w> {
    name: &'w str,
    serving: &'w Serving,
    sums: Sums,
}

pub(super) fn write(
    page: &mut Page<'_>,
    watched: &[Watched],
    consumed: &PullCounters,
) -> fmt::Result {
    let told: Vec<Told<'_>> = watched.iter().take(TOPICS_MAX).filter_map(Told::of).collect();
    let consumed = consumed.all(TOPICS_MAX);
    write_settled(page, &told, &consumed)?;
    write_work(page, &told)?;
    write_guests(page, &told)
}

/// What handlers and pull consumers settled; a topic may have known both.
fn write_settled(
    page: &mut Page<'_>,
    told: &[Told<'_>],
    consumed: &[(String, Label, u64)],
) -> fmt::Result {
    let mut series: BTreeMap<(&str, Label), u64> = BTreeMap::new();
    let by_handlers = told.iter().flat_map(Told::settled);
    let by_consumers =
        consumed.iter().map(|(topic, label, jobs)| ((topic.as_str(), *label), *jobs));
    for (key, jobs) in by_handlers.chain(by_consumers) {
        *series.entry(key).or_default() += jobs;
    }
    let labelled = |((name, (verdict, class)), jobs)| {
        (vec![topic(name), word("verdict", verdict), word("class", class)], jobs)
    };
    page.counters(
        &About::new(
            "jobs_settled",
            "Jobs whose lease ended with a verdict, by the verdict and what they failed of.",
        ),
        series.into_iter().map(labelled),
    )
}

fn write_work(page: &mut Page<'_>, told: &[Told<'_>]) -> fmt::Result {
    page.counters(
        &About::new("jobs_leased", "Jobs that this runner took from Redis to run."),
        told.iter().map(|told| told.counted(|counters| read(&counters.leased))),
    )?;
    page.counters(
        &About::new(
            "leases_lost",
            "Verdicts that came when the lease was gone: another runner has the job, or had.",
        ),
        told.iter().map(|told| told.counted(|counters| read(&counters.lost))),
    )?;
    page.counters(
        &About::new("leases_reclaimed", "Expired leases, of whatever runner, that this one ended."),
        told.iter().map(|told| told.counted(|counters| read(&counters.reclaimed))),
    )?;
    page.histograms(
        &About::seconds("job_lateness", "How long after its due time each attempt began."),
        told.iter().map(|told| (told.labels(), told.serving.counters.late.counted())),
    )?;
    page.histograms(
        &About::seconds("job_run", "How long each attempt ran."),
        told.iter().map(|told| (told.labels(), told.serving.counters.ran.counted())),
    )?;
    page.gauges(
        &About::new(
            "breaker_open",
            "1 while the topic's jobs are held back because one after the other failed.",
        ),
        told.iter().map(|told| {
            let is_open = told.serving.breaker.state() != BreakerState::Closed;
            (told.labels(), u64::from(is_open))
        }),
    )
}

fn write_guests(page: &mut Page<'_>, told: &[Told<'_>]) -> fmt::Result {
    page.counters(
        &About::seconds("guest_cpu", "Processor time that attempts took."),
        told.iter().map(|told| (told.labels(), told.sums.cpu.as_secs_f64())),
    )?;
    page.gauges(
        &About::bytes(
            "guest_memory_peak",
            "The largest linear memory of an attempt since the start.",
        ),
        told.iter().map(|told| (told.labels(), told.sums.memory_peak)),
    )?;
    page.counters(
        &About::new(
            "guest_fuel",
            "Units of fuel that attempts burnt, where the topic has a budget of it.",
        ),
        told.iter().map(|told| (told.labels(), told.sums.fuel)),
    )?;
    page.counters(
        &About::new("guest_host_calls", "Calls that attempts made to the host."),
        told.iter().map(|told| (told.labels(), told.sums.host_calls)),
    )?;
    page.counters(
        &About::bytes("guest_in", "What the host gave to attempts: payloads, config, answers."),
        told.iter().map(|told| (told.labels(), told.sums.bytes_in)),
    )?;
    page.counters(
        &About::bytes("guest_out", "What the host took from attempts: logs, results, follow-ups."),
        told.iter().map(|told| (told.labels(), told.sums.bytes_out)),
    )?;
    page.counters(
        &About::new(
            "guest_log_lines_dropped",
            "Log lines of attempts that were over their budget.",
        ),
        told.iter().map(|told| (told.labels(), told.sums.log_lines_dropped)),
    )
}

impl<'w> Told<'w> {
    fn of(watched: &'w Watched) -> Option<Self> {
        let serving = watched.serving.as_ref()?;
        Some(Self { name: &watched.topic, serving, sums: serving.figures.total() })
    }

    fn labels(&self) -> Labels<'w> {
        vec![topic(self.name)]
    }

    fn counted(&self, count: impl Fn(&Counters) -> u64) -> (Labels<'w>, u64) {
        (self.labels(), count(&self.serving.counters))
    }

    /// Jobs by their verdict; of failures only the classes that there were.
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
                // The failure that every topic may have is told from the first scrape on, so that its
                // first is an increase.
                let is_usual = class == FailureClass::Nack && fate != Fate::Discard;
                if jobs > 0 || is_usual {
                    series.push(labelled(fate.word(), class.name(), jobs));
                }
            }
        }
        series.into_iter()
    }
}
