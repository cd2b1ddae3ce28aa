//! Real work: a handler posts each job to a server and acks by the response, with 16, 64 and 256 jobs at once.
//!
//! Ready jobs give the rate; jobs that fall due one by one give the time from their due time to their arrival at the
//! server. Both are measured by the server, in the same way for Duebox and its peers.

use std::collections::HashSet;

use anyhow::{Context, ensure};
use bytes::Bytes;
use duebox_harness::Daemon;
use duebox_job::{JobId, Options};
use duebox_queue::{Due, NewJob};
use serde_json::json;

use crate::fixture::{Fixture, TOPIC, push_to};
use crate::peers::quantile;
use crate::receiver::{Receipt, Receiver};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::shutdown::{self, QUIET_LOG};

/// Jobs at once.
pub(crate) const CONCURRENCIES: [u64; 3] = [16, 64, 256];
/// Bytes of a payload.
const PAYLOAD: usize = 200;
/// From the push to the first due time, in ms.
const LEAD_MS: u64 = 2_000;

/// Result at one concurrency.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Jobs per second from the first to the last arrival.
    pub(crate) per_s: f64,
    /// From due time to arrival, ms.
    pub(crate) p99_ms: f64,
}

/// A handler that posts its jobs.
pub(crate) struct Poster {
    name: &'static str,
    pub(crate) module: &'static str,
    /// Rate and time of each concurrency.
    rows: [[Row; 2]; 3],
}

pub(crate) const RUST: Poster = Poster {
    name: "Rust",
    module: "webhook",
    rows: [
        [Row::WorkRust16, Row::WorkRust16Late],
        [Row::WorkRust64, Row::WorkRust64Late],
        [Row::WorkRust256, Row::WorkRust256Late],
    ],
};
pub(crate) const TYPESCRIPT: Poster = Poster {
    name: "TypeScript",
    module: "post-js",
    rows: [
        [Row::WorkJavaScript16, Row::WorkJavaScript16Late],
        [Row::WorkJavaScript64, Row::WorkJavaScript64Late],
        [Row::WorkJavaScript256, Row::WorkJavaScript256Late],
    ],
};
pub(crate) const PYTHON: Poster = Poster {
    name: "Python",
    module: "post-py",
    rows: [
        [Row::WorkPython16, Row::WorkPython16Late],
        [Row::WorkPython64, Row::WorkPython64Late],
        [Row::WorkPython256, Row::WorkPython256Late],
    ],
};

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    for poster in [RUST, TYPESCRIPT, PYTHON] {
        for (rows, concurrency) in poster.rows.into_iter().zip(CONCURRENCIES) {
            let work = of(settings, poster.module, concurrency).await;
            let work = work.with_context(|| format!("{}, {concurrency} at once", poster.name))?;
            results.add(rows[0], work.per_s);
            results.add(rows[1], work.p99_ms);
        }
    }
    Ok(())
}

/// Runs ready jobs, then jobs that fall due, through a daemon with this handler.
pub(crate) async fn of(
    settings: &Settings,
    module: &str,
    concurrency: u64,
) -> anyhow::Result<Work> {
    let (receiver, fixture) = (Receiver::start()?, Fixture::prepare().await?);
    let (ready, due) = (settings.work_jobs, settings.due_jobs);
    push(&fixture, 0..ready, |_| None).await?;
    fixture.queue.pause(&fixture.topic).await?;
    let mut daemon = start(&fixture, settings, module, concurrency, &receiver)?;
    fixture.queue.resume(&fixture.topic).await?;
    fixture.watch(&mut daemon).await.context("ready jobs")?;
    let per_s = rate(&receiver.take(), ready)?;

    let first_ms = fixture.now_ms().await? + LEAD_MS;
    let due_ms = |number: u64| first_ms + (number - ready) * settings.spread_ms / due;
    push(&fixture, ready..ready + due, |number| Some(due_ms(number))).await?;
    fixture.watch(&mut daemon).await.context("jobs that fall due")?;
    let p99_ms = late_p99_ms(&receiver.take(), due)?;
    fixture.ensure_clean().await?;
    shutdown::stop_and_verify(std::slice::from_mut(&mut daemon), ready + due)?;
    Ok(Work { per_s, p99_ms })
}

fn start(
    fixture: &Fixture,
    settings: &Settings,
    module: &str,
    concurrency: u64,
    receiver: &Receiver,
) -> anyhow::Result<Daemon> {
    let handler = settings.handler(module)?.display().to_string();
    let text = format!(
        "{}[topics.{TOPIC}]\nhandler = {handler:?}\nconcurrency = {concurrency}\n\
         [topics.{TOPIC}.sandbox]\nhttp = [{:?}]\nhttp_private = [\"127.0.0.1\"]\n\
         config = {{ url = {:?} }}\n",
        fixture.manifest_head(concurrency, QUIET_LOG),
        receiver.origin(),
        receiver.url(),
    );
    let daemon = Daemon::start(&fixture.write_manifest(&text)?);
    daemon.wait_for_line("it is ready", |line| line.message() == "ready");
    Ok(daemon)
}

/// Pushes jobs with these numbers, due now or at that time. Their payload is what peers have.
async fn push(
    fixture: &Fixture,
    numbers: std::ops::Range<u64>,
    due_ms: impl Fn(u64) -> Option<u64>,
) -> anyhow::Result<()> {
    let job = |number| {
        let (id, due_ms) = (JobId::new(format!("work-{number:08}"))?, due_ms(number));
        let payload = payload(number, due_ms.unwrap_or(0));
        let due = due_ms.map_or(Due::Now, Due::At);
        anyhow::Ok(NewJob { id, due, payload, options: Options::default() })
    };
    let jobs: Vec<NewJob> = numbers.map(job).collect::<anyhow::Result<_>>()?;
    push_to(&fixture.queue, &fixture.topic, &jobs).await
}

fn payload(number: u64, due_ms: u64) -> Bytes {
    let of = |pad: &str| json!({ "n": number, "due_us": due_ms * 1_000, "pad": pad }).to_string();
    let pad = PAYLOAD.saturating_sub(of("").len());
    Bytes::from(of(&"x".repeat(pad)))
}

/// Jobs per second from the first to the last arrival; fails unless each came once.
pub(crate) fn rate(receipts: &[Receipt], jobs: u64) -> anyhow::Result<f64> {
    once_each(receipts, jobs)?;
    let times = receipts.iter().filter(|it| it.number >= 0).map(|it| it.at_us);
    let (first, last) = (times.clone().min(), times.max());
    let (first, last) = first.zip(last).context("nothing was received")?;
    Ok(jobs as f64 * 1e6 / (last - first).max(1) as f64)
}

/// The time from due to arrival that 99 % of the jobs do not exceed, in ms.
pub(crate) fn late_p99_ms(receipts: &[Receipt], jobs: u64) -> anyhow::Result<f64> {
    once_each(receipts, jobs)?;
    let jobs = receipts.iter().filter(|it| it.number >= 0);
    let mut late_ms: Vec<f64> = jobs.map(|it| (it.at_us - it.due_us) as f64 / 1e3).collect();
    late_ms.sort_by(f64::total_cmp);
    quantile(&late_ms, 0.99).context("nothing was received")
}

fn once_each(receipts: &[Receipt], jobs: u64) -> anyhow::Result<()> {
    let numbers: Vec<i64> = receipts.iter().map(|it| it.number).filter(|it| *it >= 0).collect();
    let distinct = numbers.iter().collect::<HashSet<_>>().len();
    ensure!(distinct as u64 == jobs, "{distinct} of {jobs} jobs were received");
    ensure!(numbers.len() == distinct, "{} jobs were received twice", numbers.len() - distinct);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(number: i64, due_us: i64, at_us: i64) -> Receipt {
        Receipt { number, due_us, at_us }
    }

    #[test]
    fn payloads_have_the_size_of_the_peers() {
        assert_eq!(payload(7, 1_700_000_000_000).len(), PAYLOAD);
        assert_eq!(payload(12_345_678, 0).len(), PAYLOAD);
    }

    #[test]
    fn each_job_counts_once() {
        let receipts = [receipt(-1, 0, 1), receipt(0, 10, 500_000), receipt(1, 20, 1_500_000)];
        assert!((rate(&receipts, 2).unwrap() - 2.0).abs() < 1e-9);
        assert!((late_p99_ms(&receipts, 2).unwrap() - 1_499.98).abs() < 1e-6);
        assert!(rate(&receipts, 3).is_err());
        assert!(rate(&[receipts[1], receipts[1]], 1).is_err());
    }
}
